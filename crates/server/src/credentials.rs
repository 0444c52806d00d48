//! The credentials with which a command calls a service: a token, and the certificate of a private
//! authority.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use domain::access::{Secret, SecretError, SecretKind};

/// Environment variable with the token itself.
pub const TOKEN: &str = "KERNELWRIGHT_TOKEN";

/// Errors of credentials. Messages read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// A file cannot be read.
    #[error("read {what} {path}, which {setting} names; correct the path")]
    Unreadable {
        /// The kind of file, such as "the token file".
        what: &'static str,
        /// The option and the variable that may name the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Other users may read a file with a secret.
    #[error(
        "use {what} {path}: other users may read it (mode {mode:03o}), so that the secret may be known to them; run `chmod 600 {path}`, and replace the secret if others use this machine",
        path = path.display()
    )]
    ReadableByOthers {
        /// The kind of file, such as "the token file".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The text is no token.
    #[error("use the token of {origin}")]
    NoToken {
        /// The file or the variable.
        origin: String,
        /// The defect.
        source: SecretError,
    },
}

/// A token and the authority that signed the service's certificate; both may be absent.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// The token.
    pub token: Option<Secret>,
    /// Certificates in PEM. Only what they signed is trusted; without them the system's authorities
    /// are.
    pub authority: Option<Vec<u8>>,
}

impl Credentials {
    /// Reads both. Without a file the token is that of `KERNELWRIGHT_TOKEN`, if it is set.
    ///
    /// # Errors
    /// [`CredentialError`].
    pub fn read(token: Option<&Path>, authority: Option<&Path>) -> Result<Self, CredentialError> {
        let authority = authority
            .map(|path| {
                fs::read(path).map_err(|source| CredentialError::Unreadable {
                    what: "the authority's certificate",
                    setting: "--ca, KERNELWRIGHT_CA or the profile",
                    path: path.to_owned(),
                    source,
                })
            })
            .transpose()?;
        let token = match token {
            Some(path) => Some(read_token(path)?),
            None => match std::env::var(TOKEN) {
                Ok(text) if !text.trim().is_empty() => Some(parse(TOKEN.to_owned(), &text)?),
                _ => None,
            },
        };
        Ok(Self { token, authority })
    }
}

/// Reads a token file. As with keys of ssh, a file of this user that other users may read is refused.
/// A file of another user, such as one that the system's administrator or Kubernetes provides, is not:
/// this user cannot change its permissions.
///
/// # Errors
/// [`CredentialError`].
pub fn read_token(path: &Path) -> Result<Secret, CredentialError> {
    let setting = "--token-file, KERNELWRIGHT_TOKEN_FILE or the profile";
    let text = read_private(path, "the token file", setting)?;
    parse(path.display().to_string(), &text)
}

/// Reads a file with a secret, which `setting` names.
pub(crate) fn read_private(
    path: &Path,
    what: &'static str,
    setting: &'static str,
) -> Result<String, CredentialError> {
    let unreadable = |source| CredentialError::Unreadable {
        what,
        setting,
        path: path.to_owned(),
        source,
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let own = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == metadata.uid());
    let mode = metadata.mode() & 0o777;
    if own && metadata.is_file() && mode & 0o077 != 0 {
        return Err(CredentialError::ReadableByOthers {
            what,
            path: path.to_owned(),
            mode,
        });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

fn parse(origin: String, text: &str) -> Result<Secret, CredentialError> {
    Secret::parse(SecretKind::Token, text)
        .map_err(|source| CredentialError::NoToken { origin, source })
}
