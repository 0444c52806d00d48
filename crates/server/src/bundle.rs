//! Reads a task folder into a bundle, the form in which a task is uploaded. It refuses folders that
//! are too large or hold files that are not text. `domain` decides what the files mean.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use domain::task::{Bundle, MACHINE_CODE, MAX_BUNDLE_BYTES};

use crate::data::{GIT_IGNORE, IGNORE_ALL};

/// Folder of the only files that may be binary: machine code of rivals, sent as hexadecimal digits.
const RIVALS: &str = "baselines/";

/// Errors of reading a task folder.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The path is no folder with a task.toml.
    #[error(
        "read the task folder {0}: there is no task.toml in it; name a folder such as kernels/attention-f16"
    )]
    NoTask(PathBuf),
    /// The operating system refused to read a path.
    #[error("read {path}")]
    Read {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is not UTF-8.
    #[error("read {0}: it is not UTF-8 text, and a task consists of text files")]
    NotText(PathBuf),
    /// The folder is larger than any task.
    #[error(
        "read the task folder {0}: its files exceed {limit} MiB; keep only the task's own texts in it",
        limit = MAX_BUNDLE_BYTES >> 20
    )]
    TooLarge(PathBuf),
}

/// Reads every text file below `dir`. Hidden files and links are left out: a task is what its
/// folder holds, never what a link points to. Folders whose `.gitignore` is a single `*` are left
/// out too, which data folders and Python's virtual environments have.
///
/// # Errors
/// [`BundleError`] names the path.
pub fn read(dir: &Path) -> Result<Bundle, BundleError> {
    if !dir.join("task.toml").is_file() {
        return Err(BundleError::NoTask(dir.to_owned()));
    }
    let mut files = BTreeMap::new();
    let mut bytes = 0;
    let mut folders = vec![(dir.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for (path, name, kind) in entries(&folder)? {
            if kind.is_dir() {
                let ignored = fs::read_to_string(path.join(GIT_IGNORE));
                if ignored.is_ok_and(|text| text.trim() == IGNORE_ALL.trim()) {
                    continue;
                }
                folders.push((path, format!("{prefix}{name}/")));
            } else if kind.is_file() {
                let text = if prefix == RIVALS && name.ends_with(MACHINE_CODE) {
                    hex::encode(bytes_of(&path)?)
                } else {
                    text_of(&path)?
                };
                bytes += text.len();
                if bytes > MAX_BUNDLE_BYTES {
                    return Err(BundleError::TooLarge(dir.to_owned()));
                }
                files.insert(format!("{prefix}{name}"), text);
            }
        }
    }
    Ok(Bundle { files })
}

type Entry = (PathBuf, String, fs::FileType);

fn entries(folder: &Path) -> Result<Vec<Entry>, BundleError> {
    let failed = |source| BundleError::Read {
        path: folder.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry
            .file_name()
            .into_string()
            .map_err(|_| BundleError::NotText(entry.path()))?;
        if !name.starts_with('.') {
            found.push((entry.path(), name, entry.file_type().map_err(failed)?));
        }
    }
    Ok(found)
}

fn text_of(path: &Path) -> Result<String, BundleError> {
    let bytes = bytes_of(path)?;
    String::from_utf8(bytes).map_err(|_| BundleError::NotText(path.to_owned()))
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, BundleError> {
    let size = fs::metadata(path).map(|facts| facts.len());
    if size.is_ok_and(|size| size > MAX_BUNDLE_BYTES as u64) {
        return Err(BundleError::TooLarge(path.to_owned()));
    }
    fs::read(path).map_err(|source| BundleError::Read {
        path: path.to_owned(),
        source,
    })
}
