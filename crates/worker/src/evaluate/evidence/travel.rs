//! A bundle's way into another data folder, file by file. Nothing that arrives is believed: the
//! manifest must have the bundle's name, every file the digest and the length that the manifest
//! says. A bundle that was interrupted goes on where it was; one that is there already is complete
//! at once. Keys do not travel.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use domain::digest::Digest;

use super::super::build::UNFINISHED;
use super::super::keep;
use super::{Evidence, FORM, MANIFEST, MOST_BYTES, Manifest, bundles_folder};

/// Bytes that a service keeps of the bundles that it was sent.
const STORED_BYTES: u64 = 2 << 30;

/// The largest manifest, bytes: it holds the text that the kernel was compared with.
pub const MANIFEST_BYTES: u64 = 2 << 20;
/// The most files of a bundle. Ours have seven.
const MOST_FILES: usize = 32;
/// The longest name of a file.
const LONGEST_NAME: usize = 64;

/// Why a bundle is not taken in, or not given out. Messages read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum TravelError {
    /// What arrived is not what its name says.
    #[error("take in the evidence {digest}: {what}")]
    Refused {
        /// The bundle.
        digest: Digest,
        /// What is wrong.
        what: String,
    },
    /// There is no such bundle, or no such file in it.
    #[error("find {what} of the evidence {digest}")]
    Missing {
        /// The bundle.
        digest: Digest,
        /// What is not there.
        what: String,
    },
    /// The disk refused.
    #[error("access {path}; check free space and permissions")]
    Storage {
        /// What.
        path: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

/// Takes in a manifest, with which a bundle begins or goes on. Answers with the names of the files
/// that are still missing; none are once the bundle is complete.
///
/// # Errors
/// See [`TravelError`].
pub fn take_manifest(data: &Path, digest: Digest, text: &[u8]) -> Result<Vec<String>, TravelError> {
    if place(data, digest).join(MANIFEST).is_file() {
        return Ok(Vec::new());
    }
    let manifest = read(digest, text)?;
    let folder = workshop(data, digest);
    fs::create_dir_all(&folder).map_err(storage(&folder))?;
    write(&folder, MANIFEST, text)?;
    finish(data, digest, &manifest)
}

/// Takes in a file of a bundle whose manifest is here, and answers as [`take_manifest`].
///
/// # Errors
/// See [`TravelError`].
pub fn take_file(
    data: &Path,
    digest: Digest,
    name: &str,
    bytes: &[u8],
) -> Result<Vec<String>, TravelError> {
    if place(data, digest).join(MANIFEST).is_file() {
        return Ok(Vec::new());
    }
    let folder = workshop(data, digest);
    let missing = |what: &str| TravelError::Missing {
        digest,
        what: what.to_owned(),
    };
    let text = fs::read(folder.join(MANIFEST)).map_err(|_| missing("the manifest"))?;
    let manifest = read(digest, &text)?;
    let part = manifest.files.get(name).ok_or_else(|| missing(name))?;
    if Digest::of(bytes) != part.digest || bytes.len() as u64 != part.bytes {
        return Err(TravelError::Refused {
            digest,
            what: format!("{name} is not the file that the manifest names"),
        });
    }
    write(&folder, name, bytes)?;
    finish(data, digest, &manifest)
}

/// The manifest of a bundle that is here, or one of its files.
///
/// # Errors
/// [`TravelError::Missing`], also where what is here is damaged.
pub fn give(data: &Path, digest: Digest, name: Option<&str>) -> Result<Vec<u8>, TravelError> {
    let folder = place(data, digest);
    let missing = |what: &str| TravelError::Missing {
        digest,
        what: what.to_owned(),
    };
    let text = fs::read(folder.join(MANIFEST)).map_err(|_| missing("the manifest"))?;
    let manifest = read(digest, &text).map_err(|_| missing("an undamaged manifest"))?;
    let Some(name) = name else { return Ok(text) };
    let part = manifest.files.get(name).ok_or_else(|| missing(name))?;
    let bytes = fs::read(folder.join(name)).map_err(|_| missing(name))?;
    if Digest::of(&bytes) == part.digest {
        Ok(bytes)
    } else {
        Err(missing("an undamaged file"))
    }
}

/// A manifest that is what its name says, and names nothing that could lie elsewhere.
fn read(digest: Digest, text: &[u8]) -> Result<Manifest, TravelError> {
    let refused = |what: String| TravelError::Refused { digest, what };
    if text.len() as u64 > MANIFEST_BYTES {
        return Err(refused(format!(
            "its manifest exceeds {MANIFEST_BYTES} bytes"
        )));
    }
    if Digest::of(text) != digest {
        return Err(refused("its manifest has another digest".to_owned()));
    }
    let manifest: Manifest =
        serde_json::from_slice(text).map_err(|error| refused(error.to_string()))?;
    if manifest.form != FORM {
        return Err(refused(format!("its form is not {FORM}")));
    }
    if manifest.files.len() > MOST_FILES || !manifest.files.keys().all(|name| is_plain(name)) {
        return Err(refused("it has files that no bundle has".to_owned()));
    }
    let bytes = manifest.files.values().map(|part| part.bytes);
    let bytes = bytes.fold(0, u64::saturating_add);
    if bytes > MOST_BYTES {
        return Err(refused(format!(
            "{bytes} bytes; a bundle has at most {MOST_BYTES}"
        )));
    }
    Ok(manifest)
}

/// Whether a name is that of a file beside the manifest.
fn is_plain(name: &str) -> bool {
    let mut bytes = name.bytes();
    let letters = bytes.all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    letters
        && name.len() <= LONGEST_NAME
        && !name.starts_with('.')
        && name != MANIFEST
        && !name.is_empty()
}

/// Moves a bundle to its place once all of it is here.
fn finish(data: &Path, digest: Digest, manifest: &Manifest) -> Result<Vec<String>, TravelError> {
    let folder = workshop(data, digest);
    let is_here = |name: &str| folder.join(name).is_file();
    let missing = manifest.files.keys().filter(|name| !is_here(name));
    let missing = missing.cloned().collect::<Vec<_>>();
    if !missing.is_empty() {
        return Ok(missing);
    }
    let place = place(data, digest);
    match fs::rename(&folder, &place) {
        Ok(()) => {}
        // Somebody else sent the same.
        Err(_) if place.is_dir() => {
            let _ = fs::remove_dir_all(&folder);
        }
        Err(error) => return Err(storage(&place)(error)),
    }
    if let Err(error) = Evidence::open(data, digest) {
        // What was written did not stay as it was.
        let _ = fs::remove_dir_all(&place);
        let what = error.to_string();
        return Err(TravelError::Refused { digest, what });
    }
    let now = SystemTime::now();
    keep::sweep(&bundles_folder(data), UNFINISHED, now);
    keep::trim(&bundles_folder(data), STORED_BYTES, now);
    Ok(Vec::new())
}

fn place(data: &Path, digest: Digest) -> PathBuf {
    bundles_folder(data).join(digest.to_string())
}

/// Where a bundle is put together: the same folder whoever sends it, so that it can go on.
fn workshop(data: &Path, digest: Digest) -> PathBuf {
    bundles_folder(data).join(format!("{UNFINISHED}{digest}"))
}

/// Writes a file so that it is there whole or not at all.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), TravelError> {
    let path = folder.join(name);
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        file.write_all(bytes)?;
        file.persist(&path).map_err(|error| error.error)
    });
    match written {
        Ok(_) => Ok(()),
        // Somebody else has finished it meanwhile.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(storage(&path)(error)),
    }
}

fn storage(path: &Path) -> impl FnOnce(io::Error) -> TravelError {
    let path = path.display().to_string();
    move |source| TravelError::Storage { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_lead_nowhere_else() {
        for name in ["source.cu", "image.ptx", "plans.json"] {
            assert!(is_plain(name), "{name}");
        }
        let long = "x".repeat(65);
        for name in [
            "",
            ".",
            "..",
            "../key",
            "a/b",
            "/etc/passwd",
            ".hidden",
            MANIFEST,
            "a\0",
            &long,
        ] {
            assert!(!is_plain(name), "{name:?}");
        }
    }
}
