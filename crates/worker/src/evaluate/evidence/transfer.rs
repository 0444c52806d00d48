//! The transfer of a bundle into another data folder, file by file. Everything received is checked:
//! the manifest must have the digest that names the bundle, and every file the digest and length
//! that the manifest states. An interrupted transfer is resumed; a bundle that exists already is
//! complete at once. Keys are not transferred.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use domain::decode_message::describe_json;
use domain::digest::Digest;

use super::super::build::UNFINISHED;
use super::super::disk_limits;
use super::{Evidence, FORM, MANIFEST, MAX_BUNDLE_BYTES, Manifest, bundles_folder};

/// The limit on bundles that a service keeps of those it received, bytes.
const STORED_BYTES: u64 = 2 << 30;

/// The largest manifest, bytes. It contains the source of the incumbent.
pub const MANIFEST_BYTES: u64 = 2 << 20;
/// The most files of a bundle; a bundle of this program has seven.
const MAX_FILES: usize = 32;
/// The longest file name, bytes.
const MAX_NAME_BYTES: usize = 64;

/// The reasons why a bundle is not accepted or not sent. Messages follow "failed to".
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The received bytes do not match the name, or break a limit.
    #[error("take in the evidence {digest}: {what}")]
    Refused {
        /// The bundle's name.
        digest: Digest,
        /// The mismatch.
        what: String,
    },
    /// There is no such bundle, or no such file in it.
    #[error("find {what} of the evidence {digest}")]
    Missing {
        /// The bundle's name.
        digest: Digest,
        /// The missing part.
        what: String,
    },
    /// A file could not be read or written.
    #[error("access {path}; check free space and permissions")]
    Storage {
        /// The file or folder.
        path: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

/// Receives a manifest, which begins or resumes a transfer. Returns the names of the files that are
/// still missing; an empty list means that the bundle is complete.
///
/// # Errors
/// See [`TransferError`].
pub fn receive_manifest(
    data: &Path,
    digest: Digest,
    text: &[u8],
) -> Result<Vec<String>, TransferError> {
    if place(data, digest).join(MANIFEST).is_file() {
        return Ok(Vec::new());
    }
    let manifest = read(digest, text)?;
    let folder = unfinished(data, digest);
    fs::create_dir_all(&folder).map_err(storage(&folder))?;
    write(&folder, MANIFEST, text)?;
    finish(data, digest, &manifest)
}

/// Receives a file of a bundle whose manifest has been received. Returns the same as
/// [`receive_manifest`].
///
/// # Errors
/// See [`TransferError`].
pub fn receive_file(
    data: &Path,
    digest: Digest,
    name: &str,
    bytes: &[u8],
) -> Result<Vec<String>, TransferError> {
    if place(data, digest).join(MANIFEST).is_file() {
        return Ok(Vec::new());
    }
    let folder = unfinished(data, digest);
    let missing = |what: &str| TransferError::Missing {
        digest,
        what: what.to_owned(),
    };
    let text = fs::read(folder.join(MANIFEST)).map_err(|_| missing("the manifest"))?;
    let manifest = read(digest, &text)?;
    let part = manifest.files.get(name).ok_or_else(|| missing(name))?;
    if Digest::of(bytes) != part.digest || bytes.len() as u64 != part.bytes {
        return Err(TransferError::Refused {
            digest,
            what: format!("{name} is not the file that the manifest names"),
        });
    }
    write(&folder, name, bytes)?;
    finish(data, digest, &manifest)
}

/// Reads the manifest of a bundle, or one of its files, for sending.
///
/// # Errors
/// [`TransferError::Missing`], also if the stored bytes are damaged.
pub fn read_part(
    data: &Path,
    digest: Digest,
    name: Option<&str>,
) -> Result<Vec<u8>, TransferError> {
    let folder = place(data, digest);
    let missing = |what: &str| TransferError::Missing {
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

/// Parses a manifest and checks its digest, its limits and the names of its files.
fn read(digest: Digest, text: &[u8]) -> Result<Manifest, TransferError> {
    let refused = |what: String| TransferError::Refused { digest, what };
    if text.len() as u64 > MANIFEST_BYTES {
        return Err(refused(format!(
            "its manifest exceeds {MANIFEST_BYTES} bytes"
        )));
    }
    if Digest::of(text) != digest {
        return Err(refused("its manifest has another digest".to_owned()));
    }
    let manifest: Manifest =
        serde_json::from_slice(text).map_err(|error| refused(describe_json(&error.to_string())))?;
    if manifest.form != FORM {
        return Err(refused(format!("its form is not {FORM}")));
    }
    if manifest.files.len() > MAX_FILES || !manifest.files.keys().all(|name| is_plain(name)) {
        return Err(refused("it has files that no bundle has".to_owned()));
    }
    let bytes = manifest.files.values().map(|part| part.bytes);
    let bytes = bytes.fold(0, u64::saturating_add);
    if bytes > MAX_BUNDLE_BYTES {
        return Err(refused(format!(
            "{bytes} bytes; a bundle has at most {MAX_BUNDLE_BYTES}"
        )));
    }
    Ok(manifest)
}

/// Returns true if a name is that of a plain file in the bundle's folder.
fn is_plain(name: &str) -> bool {
    let mut bytes = name.bytes();
    let letters = bytes.all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    letters
        && name.len() <= MAX_NAME_BYTES
        && !name.starts_with('.')
        && name != MANIFEST
        && !name.is_empty()
}

/// Moves a bundle to its final folder once all files are there. Returns the names of missing files.
fn finish(data: &Path, digest: Digest, manifest: &Manifest) -> Result<Vec<String>, TransferError> {
    let folder = unfinished(data, digest);
    let is_here = |name: &str| folder.join(name).is_file();
    let missing = manifest.files.keys().filter(|name| !is_here(name));
    let missing = missing.cloned().collect::<Vec<_>>();
    if !missing.is_empty() {
        return Ok(missing);
    }
    let place = place(data, digest);
    match fs::rename(&folder, &place) {
        Ok(()) => {}
        // Another sender completed the same bundle.
        Err(_) if place.is_dir() => {
            let _ = fs::remove_dir_all(&folder);
        }
        Err(error) => return Err(storage(&place)(error)),
    }
    if let Err(error) = Evidence::open(data, digest) {
        // The files changed after they had been checked.
        let _ = fs::remove_dir_all(&place);
        let what = error.to_string();
        return Err(TransferError::Refused { digest, what });
    }
    let now = SystemTime::now();
    disk_limits::sweep(&bundles_folder(data), UNFINISHED, now);
    disk_limits::trim(&bundles_folder(data), STORED_BYTES, now);
    Ok(Vec::new())
}

fn place(data: &Path, digest: Digest) -> PathBuf {
    bundles_folder(data).join(digest.to_string())
}

/// The folder of an unfinished transfer. It is named after the bundle alone, so that another sender
/// can resume it.
fn unfinished(data: &Path, digest: Digest) -> PathBuf {
    bundles_folder(data).join(format!("{UNFINISHED}{digest}"))
}

/// Writes a file atomically.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), TransferError> {
    let path = folder.join(name);
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        file.write_all(bytes)?;
        file.persist(&path).map_err(|error| error.error)
    });
    match written {
        Ok(_) => Ok(()),
        // Another sender has completed the bundle, so that this folder is gone.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(storage(&path)(error)),
    }
}

fn storage(path: &Path) -> impl FnOnce(io::Error) -> TransferError {
    let path = path.display().to_string();
    move |source| TransferError::Storage { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_cannot_leave_the_folder_of_a_bundle() {
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
