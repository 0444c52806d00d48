//! The settings of single sign-on: `sso.toml` in the data folder, or another file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use domain::access::Scope;
use openidconnect::{ClientId, ClientSecret, IssuerUrl, RedirectUrl};
use serde::Deserialize;

/// The file's name in the data folder.
const FILE: &str = "sso.toml";
/// The path to which the provider sends browsers back.
pub const CALLBACK: &str = "/api/v1/session/sso/callback";

/// Settings that were checked.
#[derive(Debug, Clone)]
pub struct Settings {
    pub(super) issuer: IssuerUrl,
    pub(super) client_id: ClientId,
    pub(super) client_secret: Option<ClientSecret>,
    pub(super) redirect: RedirectUrl,
    allow: Vec<Rule>,
}

/// A person as the provider describes them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Person {
    /// The address, if the provider has verified it.
    pub email: String,
    /// The claim `groups`.
    pub groups: Vec<String>,
}

/// The reasons why the settings cannot be used. Messages follow "failed to".
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is no TOML, or has a wrong key or value.
    #[error("read {path}: {what}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The defect.
        what: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    issuer: String,
    client_id: String,
    client_secret_file: Option<PathBuf>,
    /// The service's address, as browsers see it.
    address: String,
    allow: Vec<Rule>,
}

/// People who may sign in. One of the first three is set.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    email: Option<String>,
    domain: Option<String>,
    group: Option<String>,
    scope: Scope,
}

impl Rule {
    fn holds_for(&self, person: &Person) -> bool {
        let same = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
        let domain = person.email.rsplit_once('@').map(|(_, domain)| domain);
        self.email
            .as_ref()
            .is_some_and(|email| same(email, &person.email))
            || self
                .domain
                .as_ref()
                .is_some_and(|wanted| domain.is_some_and(|domain| same(wanted, domain)))
            || self
                .group
                .as_ref()
                .is_some_and(|group| person.groups.contains(group))
    }
}

impl Settings {
    /// Reads the file that is named, or the one in the data folder if there is one.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn read(named: Option<&Path>, data: &Path) -> Result<Option<Self>, SettingsError> {
        let path = named.map_or_else(|| data.join(FILE), Path::to_owned);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => {
                return Ok(None);
            }
            Err(source) => return Err(SettingsError::Read { path, source }),
        };
        Self::parse(&text, &path).map(Some)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        let wrong = |what: String| SettingsError::Wrong {
            path: path.to_owned(),
            what,
        };
        let text: Text =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim().to_owned()))?;
        for rule in &text.allow {
            let set = [&rule.email, &rule.domain, &rule.group];
            if set.into_iter().flatten().count() != 1 {
                return Err(wrong(
                    "each [[allow]] has one of `email`, `domain` and `group`".to_owned(),
                ));
            }
            if rule.scope == Scope::Worker {
                return Err(wrong(
                    "no person has the scope `worker`; workers have tokens of `kernelwright token create`".to_owned(),
                ));
            }
        }
        let client_secret = match &text.client_secret_file {
            None => None,
            Some(file) => {
                let folder = path.parent().unwrap_or_else(|| Path::new("."));
                let file = &folder.join(file);
                let secret = fs::read_to_string(file).map_err(|source| SettingsError::Read {
                    path: file.clone(),
                    source,
                })?;
                Some(ClientSecret::new(secret.trim().to_owned()))
            }
        };
        let address = text.address.trim_end_matches('/');
        Ok(Self {
            issuer: IssuerUrl::new(text.issuer)
                .map_err(|error| wrong(format!("`issuer` is no address: {error}")))?,
            client_id: ClientId::new(text.client_id),
            client_secret,
            redirect: RedirectUrl::new(format!("{address}{CALLBACK}"))
                .map_err(|error| wrong(format!("`address` is no address: {error}")))?,
            allow: text.allow,
        })
    }

    /// The scope of a person: that of the first rule that holds; none if no rule does.
    pub fn scope(&self, person: &Person) -> Option<Scope> {
        let mut rules = self.allow.iter();
        rules
            .find(|rule| rule.holds_for(person))
            .map(|rule| rule.scope)
    }

    /// The provider's host, for the sign-in page.
    pub fn provider(&self) -> String {
        let host = self.issuer.url().host_str();
        host.unwrap_or("the provider").to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "issuer = \"https://login.example\"\nclient_id = \"kernelwright\"\naddress = \"https://kernels.example/\"\n";

    fn parse(more: &str) -> Result<Settings, SettingsError> {
        Settings::parse(&format!("{HEAD}{more}"), Path::new("sso.toml"))
    }

    #[test]
    fn the_first_rule_that_holds_decides_the_scope() {
        let settings = parse(
            "[[allow]]\nemail = \"ada@team.example\"\nscope = \"admin\"\n\
             [[allow]]\ngroup = \"guests\"\nscope = \"viewer\"\n\
             [[allow]]\ndomain = \"team.example\"\nscope = \"user\"\n",
        )
        .unwrap();
        let person = |email: &str, groups: &[&str]| Person {
            email: email.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
        };
        for (email, groups, scope) in [
            ("Ada@Team.example", &[][..], Some(Scope::Admin)),
            ("bob@team.example", &[], Some(Scope::User)),
            ("bob@team.example", &["guests"], Some(Scope::Viewer)),
            ("eve@elsewhere.example", &["guests"], Some(Scope::Viewer)),
            ("eve@elsewhere.example", &["Guests"], None),
            ("eve@notteam.example", &[], None),
            ("eve@team.example.evil", &[], None),
            ("", &[], None),
        ] {
            assert_eq!(settings.scope(&person(email, groups)), scope, "{email}");
        }
        assert_eq!(
            settings.redirect.as_str(),
            "https://kernels.example/api/v1/session/sso/callback"
        );
        assert_eq!(settings.provider(), "login.example");
    }

    #[test]
    fn wrong_settings_are_refused_with_their_reason() {
        for (more, words) in [
            ("allow = []\nsecret = \"x\"", "unknown field `secret`"),
            (
                "[[allow]]\nscope = \"user\"",
                "one of `email`, `domain` and `group`",
            ),
            (
                "[[allow]]\nemail = \"a\"\ndomain = \"b\"\nscope = \"user\"",
                "one of `email`, `domain` and `group`",
            ),
            (
                "[[allow]]\nemail = \"a\"\nscope = \"worker\"",
                "no person has the scope",
            ),
            (
                "client_secret_file = \"/nonexistent\"\nallow = []",
                "read /nonexistent",
            ),
        ] {
            let refused = parse(more).unwrap_err().to_string();
            assert!(refused.contains(words), "{more}: {refused}");
        }
    }
}
