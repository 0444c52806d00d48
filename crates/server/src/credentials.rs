//! The credentials with which a command calls a service: a token, and the certificate of a private
//! authority.

use std::fs;
use std::path::{Path, PathBuf};

use domain::access::{Secret, SecretError, SecretKind};

/// Environment variable with the token itself.
pub const TOKEN: &str = "KERNELWRIGHT_TOKEN";

/// Errors of credentials. Messages read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// A file cannot be read.
    #[error("read {what} {path}")]
    Unreadable {
        /// The kind of file, such as "the token file".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
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

/// Reads a token file.
///
/// # Errors
/// [`CredentialError`].
pub fn read_token(path: &Path) -> Result<Secret, CredentialError> {
    let text = fs::read_to_string(path).map_err(|source| CredentialError::Unreadable {
        what: "the token file",
        path: path.to_owned(),
        source,
    })?;
    parse(path.display().to_string(), &text)
}

fn parse(origin: String, text: &str) -> Result<Secret, CredentialError> {
    Secret::parse(SecretKind::Token, text)
        .map_err(|source| CredentialError::NoToken { origin, source })
}
