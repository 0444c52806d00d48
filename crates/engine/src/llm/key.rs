//! API keys of models. A key is read for each call, so that it can be changed while the service
//! runs. No type that holds a key can print it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use reqwest::header::HeaderValue;

/// Longest key file that is read; keys have some hundred bytes.
const MAX_BYTES: u64 = 16 * 1024;

/// The source of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeySource {
    /// The server asks for none.
    None,
    /// An environment variable of this process.
    Variable(String),
    /// A file that only its owner may read; white space around the key is not part of it.
    File(PathBuf),
}

/// A key. It can be sent, and taken out of texts, and nothing else.
pub(super) struct Key(String);

/// The reason why there is no key, with how to fix that.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    #[error(
        "the environment variable {0} is not set; set it for this process, or name a key_file instead"
    )]
    Unset(String),
    #[error(
        "the environment variable {0} does not hold a key: it is empty or has characters that no key has"
    )]
    NoKeyInVariable(String),
    #[error("the key file {path} cannot be read: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the key file {0} can be read by others; make it private with: chmod 600 {0}")]
    Exposed(PathBuf),
    #[error("the key file {0} does not hold a key: it must be one line with the key alone")]
    NoKeyInFile(PathBuf),
}

impl KeySource {
    /// The key as it is now; none where none is needed.
    pub(super) fn read(&self) -> Result<Option<Key>, KeyError> {
        match self {
            Self::None => Ok(None),
            Self::Variable(name) => {
                let text = std::env::var_os(name).ok_or_else(|| KeyError::Unset(name.clone()))?;
                let key = text.to_str().and_then(Key::parse);
                key.map(Some)
                    .ok_or_else(|| KeyError::NoKeyInVariable(name.clone()))
            }
            Self::File(path) => {
                let text = private(path)?;
                let key = Key::parse(&text);
                key.map(Some)
                    .ok_or_else(|| KeyError::NoKeyInFile(path.clone()))
            }
        }
    }
}

fn private(path: &Path) -> Result<String, KeyError> {
    let unreadable = |source| KeyError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(unreadable)?;
    // Of the opened file, so that it cannot be exchanged between the check and the reading.
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed(path.to_owned()));
    }
    let mut text = String::new();
    file.take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    Ok(text)
}

impl Key {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(text.to_owned()))
    }

    /// The value of an HTTP header: `prefix` and the key. Marked sensitive, so that the HTTP library
    /// does not log it.
    pub(super) fn header(&self, prefix: &str) -> HeaderValue {
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", self.0))
            .expect("a key has only printable ASCII characters");
        value.set_sensitive(true);
        value
    }

    /// The text without the key, should a server repeat it.
    pub(super) fn removed_from(&self, text: &str) -> String {
        text.replace(&self.0, "[key]")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, KeySource) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (folder, KeySource::File(path))
    }

    #[test]
    fn a_private_file_gives_its_key_and_the_key_is_never_printed() {
        let (_folder, source) = file("  sk-secret\n", 0o600);
        let key = source.read().unwrap().unwrap();
        assert_eq!(key.header("Bearer ").to_str().unwrap(), "Bearer sk-secret");
        assert_eq!(key.removed_from("bad key sk-secret!"), "bad key [key]!");
        let printed = format!("{key:?} {:?}", key.header("Bearer "));
        assert!(!printed.contains("secret"), "{printed}");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_with_the_command_that_mends_it() {
        for mode in [0o644, 0o640, 0o604, 0o660] {
            let (_folder, source) = file("sk-secret", mode);
            let error = source.read().unwrap_err().to_string();
            assert!(error.contains("chmod 600 "), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn what_is_no_key_is_told_without_repeating_it() {
        for text in ["", " \n", "two words", "sk\u{7}", "schlüssel"] {
            let (_folder, source) = file(text, 0o600);
            let error = source.read().unwrap_err();
            assert!(matches!(error, KeyError::NoKeyInFile(_)), "{text:?}");
        }
        let missing = KeySource::File("/nonexistent/key".into());
        let error = missing.read().unwrap_err().to_string();
        assert!(error.contains("/nonexistent/key"), "{error}");
        let unset = KeySource::Variable("KERNELWRIGHT_NO_SUCH_KEY".to_owned());
        let error = unset.read().unwrap_err().to_string();
        assert!(
            error.contains("KERNELWRIGHT_NO_SUCH_KEY is not set"),
            "{error}"
        );
    }
}
