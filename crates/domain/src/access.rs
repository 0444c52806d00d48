//! Access tokens: secrets, scopes, and who sent a request.
//!
//! A secret has 256 random bits, so its SHA-256 is enough to keep it at rest. A slow password hash
//! protects secrets that can be guessed, and this one cannot.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::digest::Digest;
use crate::id::TokenId;

/// Random bytes of a secret.
pub const SECRET_BYTES: usize = 32;
/// The longest name of a token, bytes.
pub const MAX_TOKEN_NAME_BYTES: usize = 100;

/// The requests that a token may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Reads everything and changes nothing.
    Viewer,
    /// Reads, uploads tasks, and starts, controls and adds to runs.
    User,
    /// All that a user may do, drains workers and reads the list of changes.
    Admin,
    /// Registers workers, takes leases, and sends reports and evidence of its own leases. Reads
    /// nothing else.
    Worker,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::User, Self::Admin, Self::Worker];

    /// The scope's name, as on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::User => "user",
            Self::Admin => "admin",
            Self::Worker => "worker",
        }
    }

    /// Returns true if a token of this scope may send a request that asks for `needed`. An admin
    /// includes a user, a user includes a viewer. Workers stand apart in both directions.
    pub fn covers(self, needed: Self) -> bool {
        match needed {
            Self::Viewer => matches!(self, Self::Viewer | Self::User | Self::Admin),
            Self::User => matches!(self, Self::User | Self::Admin),
            Self::Admin => self == Self::Admin,
            Self::Worker => self == Self::Worker,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        let known = || Self::ALL.map(Self::as_str).join(", ");
        found.ok_or_else(|| format!("the scopes are {}", known()))
    }
}

/// The two kinds of secret. Each has its own prefix, so that neither is accepted as the other and
/// scanners for leaked secrets recognise both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKind {
    /// A token, sent in the header `Authorization`.
    Token,
    /// A signed-in browser, sent in a cookie.
    Session,
}

impl SecretKind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Token => "kw_",
            Self::Session => "kws_",
        }
    }
}

/// The secret text of a token or a session. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    kind: SecretKind,
    text: String,
}

/// A text that is no secret. The text itself is not shown, because it may be one with a typing error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "read the token: expected {0:?} and {digits} hexadecimal digits, as `kernelwright token create` prints it",
    digits = 2 * SECRET_BYTES
)]
pub struct SecretError(&'static str);

impl Secret {
    /// Makes a secret from random bytes.
    pub fn new(kind: SecretKind, random: [u8; SECRET_BYTES]) -> Self {
        let text = format!("{}{}", kind.prefix(), hex::encode(random));
        Self { kind, text }
    }

    /// Reads a secret of one kind. Spaces and line ends around it are left out.
    ///
    /// # Errors
    /// [`SecretError`] if the prefix, the length or a digit is wrong.
    pub fn parse(kind: SecretKind, text: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        let digits = text.strip_prefix(kind.prefix());
        let right = digits.is_some_and(|digits| {
            digits.len() == 2 * SECRET_BYTES
                && digits
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        });
        if !right {
            return Err(SecretError(kind.prefix()));
        }
        let text = text.to_owned();
        Ok(Self { kind, text })
    }

    /// Token or session.
    pub fn kind(&self) -> SecretKind {
        self.kind
    }

    /// The secret itself, to be sent or shown once.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The SHA-256 under which the secret is stored.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({}...)", self.kind.prefix())
    }
}

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    /// Identity.
    pub id: TokenId,
    /// Name for people, such as the owner's or the machine's.
    pub name: String,
    /// The requests that it may send.
    pub scope: Scope,
    /// Time of its creation.
    pub created_at: DateTime<Utc>,
    /// From when on it is refused; absent if it does not expire.
    pub expires_at: Option<DateTime<Utc>>,
    /// Its last use, to the minute; absent if it was never used.
    pub last_used_at: Option<DateTime<Utc>>,
    /// Time of its revocation; absent if it is not revoked.
    pub revoked_at: Option<DateTime<Utc>>,
}

impl TokenView {
    /// Returns true if the token is neither revoked nor expired.
    pub fn is_usable(&self, now: DateTime<Utc>) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| at > now)
    }
}

/// A browser signs in.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// The token.
    pub token: String,
}

/// The session of a browser: its token's name and scope, if it is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    /// True if the service asks for tokens.
    pub required: bool,
    /// The name of the token; absent if the browser is not signed in.
    pub name: Option<String>,
    /// The scope of the token; absent if the browser is not signed in.
    pub scope: Option<Scope>,
    /// Host of the provider with which people may sign in; absent without single sign-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sso: Option<String>,
}

/// A change that someone asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RecordedChange)]
pub struct Change {
    /// Increases with time.
    pub id: i64,
    /// Time of the request.
    pub at: DateTime<Utc>,
    /// The token that was used; absent for the command line and for a service without tokens.
    pub token: Option<TokenId>,
    /// The name of that token, or where the change came from.
    pub actor: String,
    /// The request, such as "POST /api/v1/runs/{id}/pause" or "token revoke".
    pub request: String,
    /// The changed object, such as the path of a route.
    pub subject: String,
    /// The HTTP status of the answer; absent if the service stopped before it answered.
    pub status: Option<u16>,
}

/// A page of changes, the latest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangePage {
    /// The changes.
    pub changes: Vec<Change>,
    /// The cursor of the next page; absent on the last.
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_survives_printing_and_never_shows_in_debug_output() {
        let secret = Secret::new(SecretKind::Token, [0xab; SECRET_BYTES]);
        let read = Secret::parse(SecretKind::Token, &format!("{}\n", secret.reveal())).unwrap();
        assert_eq!(read, secret);
        assert!(!format!("{secret:?}").contains("abab"));
        assert_ne!(secret.digest().to_string(), secret.reveal());
    }

    #[test]
    fn a_session_is_no_token_and_errors_do_not_repeat_what_was_read() {
        let session = Secret::new(SecretKind::Session, [1; SECRET_BYTES]);
        for text in [
            session.reveal(),
            "",
            "kw_",
            "kw_0g",
            &session.reveal().to_uppercase(),
        ] {
            let error = Secret::parse(SecretKind::Token, text).unwrap_err();
            assert!(text.is_empty() || text == "kw_" || !error.to_string().contains(text));
        }
    }

    #[test]
    fn only_admin_user_and_viewer_include_each_other() {
        let covered = |scope: Scope| Scope::ALL.map(|needed| scope.covers(needed));
        assert_eq!(covered(Scope::Viewer), [true, false, false, false]);
        assert_eq!(covered(Scope::User), [true, true, false, false]);
        assert_eq!(covered(Scope::Admin), [true, true, true, false]);
        assert_eq!(covered(Scope::Worker), [false, false, false, true]);
    }
}
