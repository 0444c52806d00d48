//! The webhooks file: endpoints with their secrets and the kinds of events that each gets, projects in which events
//! become issues, and repositories whose winners become pull requests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::api::WebhookKind;
use domain::causes::with_causes;
use engine::promote::proposal;
use reqwest::{Certificate, Client, Url};
use serde::Deserialize;

use crate::credentials::{CredentialError, read_private};
use crate::git_host::{GitHost, HostError, HostKind, Project, ProjectOptions};
use crate::http::guard;
use crate::pull_request::Route;

/// Name of the file in the data folder.
pub const NAME: &str = "webhooks.toml";
/// Start of a secret, followed by its bytes in base64.
const PREFIX: &str = "whsec_";
/// Lengths of a secret, bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Errors of the webhooks file. Messages read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("read the webhooks file {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not of the expected form.
    #[error(
        "read the webhooks file {path}; the keys of each [endpoints.NAME] are `url`, `secret_file` or `secret_env`, `events` and `ca`, those of each [issues.NAME] `project`, `token_file` or `token_env`, `host`, `api`, `events` and `ca`"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The defect with its section.
        source: Box<toml::de::Error>,
    },
    /// The settings of an endpoint cannot be used.
    #[error("use the endpoint {name:?} of {path}: {problem}")]
    Endpoint {
        /// The endpoint.
        name: String,
        /// The file.
        path: PathBuf,
        /// The defect and its remedy.
        problem: String,
    },
    /// A file that an endpoint names cannot be used.
    #[error("use the endpoint {name:?} of {path}")]
    File {
        /// The endpoint.
        name: String,
        /// The file of webhooks.
        path: PathBuf,
        /// The error of the other file.
        source: CredentialError,
    },
}

/// The key of an endpoint's signatures. It cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(Vec<u8>);

impl SigningSecret {
    /// Reads `whsec_` and 24 to 64 bytes in base64.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.trim().strip_prefix(PREFIX)?).ok()?;
        SECRET_BYTES.contains(&bytes.len()).then_some(Self(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(..)")
    }
}

/// A receiver of events.
#[derive(Clone)]
pub struct Endpoint {
    /// Its name in the file.
    pub name: String,
    /// The form in which it gets them.
    pub target: Target,
    /// The kinds of events that it gets.
    pub kinds: Vec<WebhookKind>,
}

/// The form in which events are delivered.
#[derive(Clone)]
pub enum Target {
    /// A signed request.
    Post {
        /// The address, which may hold a secret.
        url: Url,
        /// The key of the signatures.
        secret: SigningSecret,
        /// Certificate, in PEM, of the authority that signed the receiver's; the system's authorities
        /// without one.
        authority: Option<Vec<u8>>,
        /// The longest time that one attempt may take.
        timeout: Duration,
    },
    /// An issue in a project of a git host.
    Issue(Arc<GitHost>),
    /// A pull request for a winner in one repository.
    PullRequest(Arc<Proposals>),
}

/// Pull requests for the winners of one repository.
#[derive(Debug)]
pub struct Proposals {
    /// The host of the repository.
    pub host: GitHost,
    /// The repository.
    pub route: Route,
    /// True if winners with modelled times are proposed, too.
    pub modelled: bool,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.name).finish()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    endpoints: BTreeMap<String, EndpointKeys>,
    #[serde(default)]
    issues: BTreeMap<String, IssueKeys>,
    #[serde(default)]
    pull_requests: BTreeMap<String, PullRequestKeys>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PullRequestKeys {
    /// The folder of the repository that runs promote to.
    repository: PathBuf,
    #[serde(default = "origin")]
    remote: String,
    base: Option<String>,
    /// The project's address; the remote's by default.
    project: Option<String>,
    token_file: Option<PathBuf>,
    token_env: Option<String>,
    host: Option<HostKind>,
    api: Option<String>,
    #[serde(default)]
    modelled: bool,
    ca: Option<PathBuf>,
}

fn origin() -> String {
    "origin".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IssueKeys {
    /// The project's address, such as `https://github.com/team/kernels`.
    project: String,
    token_file: Option<PathBuf>,
    token_env: Option<String>,
    host: Option<HostKind>,
    api: Option<String>,
    events: Option<Vec<WebhookKind>>,
    ca: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndpointKeys {
    url: String,
    secret_file: Option<PathBuf>,
    secret_env: Option<String>,
    events: Option<Vec<WebhookKind>>,
    ca: Option<PathBuf>,
}

/// Reads the endpoints of the file that was named, else of `webhooks.toml` in the data folder; none if
/// there is no such file. Relative paths start from the folder of the file.
///
/// # Errors
/// [`SettingsError`].
pub fn read(named: Option<&Path>, data: &Path) -> Result<Vec<Endpoint>, SettingsError> {
    let default = data.join(NAME);
    let path = match named {
        Some(path) => path,
        None if default.is_file() => &default,
        None => return Ok(Vec::new()),
    };
    let text = std::fs::read_to_string(path).map_err(|source| SettingsError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let file = toml::from_str::<File>(&text).map_err(|source| SettingsError::Malformed {
        path: path.to_owned(),
        source: Box::new(source),
    })?;
    let mut names = BTreeSet::new();
    let all = file.endpoints.keys().chain(file.issues.keys());
    for name in all.chain(file.pull_requests.keys()) {
        if !names.insert(name) {
            let section = Section { path, name };
            return Err(
                section.wrong("another entry has this name too; give one of the two another")
            );
        }
    }
    let endpoints = file.endpoints.into_iter();
    let endpoints = endpoints.map(|(name, keys)| endpoint(path, name, keys));
    let issues = file.issues.into_iter();
    let issues = issues.map(|(name, keys)| project(path, name, keys));
    let proposals = file.pull_requests.into_iter();
    let proposals = proposals.map(|(name, keys)| proposals_of(path, name, keys));
    endpoints.chain(issues).chain(proposals).collect()
}

/// A named part of the file, for errors and for the files that it names.
struct Section<'a> {
    path: &'a Path,
    name: &'a str,
}

impl Section<'_> {
    fn wrong(&self, problem: &str) -> SettingsError {
        SettingsError::Endpoint {
            name: self.name.to_owned(),
            path: self.path.to_owned(),
            problem: problem.to_owned(),
        }
    }

    fn unusable(&self, source: CredentialError) -> SettingsError {
        SettingsError::File {
            name: self.name.to_owned(),
            path: self.path.to_owned(),
            source,
        }
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Reads a secret from the file or the environment variable that names it.
    fn secret(
        &self,
        what: &'static str,
        keys: [&'static str; 2],
        file: Option<&Path>,
        variable: Option<&str>,
    ) -> Result<String, SettingsError> {
        let [in_file, in_env] = keys;
        match (file, variable) {
            (Some(file), None) => {
                let file = self.folder().join(file);
                read_private(&file, what, in_file).map_err(|source| self.unusable(source))
            }
            (None, Some(variable)) => std::env::var(variable).map_err(|_| {
                self.wrong(&format!(
                    "the environment variable {variable} is not set; set it for this process, or name a {in_file}"
                ))
            }),
            _ => Err(self.wrong(&format!("give it either {in_file} or {in_env}"))),
        }
    }

    /// The client of a project.
    fn host(
        &self,
        address: &str,
        options: &ProjectOptions,
        (file, variable): (Option<&Path>, Option<&str>),
        ca: Option<&Path>,
    ) -> Result<GitHost, SettingsError> {
        let wrong = |error: HostError| self.wrong(&with_causes(&error));
        let keys = ["token_file", "token_env"];
        let token = self.secret("the host's token file", keys, file, variable)?;
        let project = Project::find(address, options).map_err(wrong)?;
        let authority = self.authority(ca)?;
        GitHost::new(project, token.trim(), authority.as_deref()).map_err(wrong)
    }

    fn authority(&self, ca: Option<&Path>) -> Result<Option<Vec<u8>>, SettingsError> {
        let Some(file) = ca else {
            return Ok(None);
        };
        let file = self.folder().join(file);
        let pem = std::fs::read(&file).map_err(|source| {
            self.unusable(CredentialError::Unreadable {
                what: "the authority's certificate",
                setting: "ca",
                path: file,
                source,
            })
        })?;
        let certificates = Certificate::from_pem_bundle(&pem).unwrap_or_default();
        if certificates.is_empty() {
            return Err(self.wrong("its ca must be one or more certificates in PEM"));
        }
        Ok(Some(pem))
    }
}

/// A project in which events become issues: by default the one that needs a person's work, a winner that was
/// taken back.
fn project(path: &Path, name: String, keys: IssueKeys) -> Result<Endpoint, SettingsError> {
    let section = Section { path, name: &name };
    let options = ProjectOptions {
        kind: keys.host,
        api: keys.api,
        path: None,
    };
    let token = (keys.token_file.as_deref(), keys.token_env.as_deref());
    let host = section.host(&keys.project, &options, token, keys.ca.as_deref())?;
    Ok(Endpoint {
        target: Target::Issue(Arc::new(host)),
        kinds: keys
            .events
            .unwrap_or_else(|| vec![WebhookKind::WinnerReverted]),
        name,
    })
}

/// A repository whose promoted winners become pull requests.
fn proposals_of(
    path: &Path,
    name: String,
    keys: PullRequestKeys,
) -> Result<Endpoint, SettingsError> {
    let section = Section { path, name: &name };
    let repository = section.folder().join(&keys.repository);
    let repository = repository.canonicalize().map_err(|error| {
        let repository = repository.display();
        section.wrong(&format!(
            "its repository {repository} cannot be found: {error}"
        ))
    })?;
    let address = match &keys.project {
        Some(address) => address.clone(),
        None => proposal::remote_address(&repository, &keys.remote)
            .map_err(|error| section.wrong(&with_causes(&error)))?,
    };
    let options = ProjectOptions {
        kind: keys.host,
        api: keys.api,
        path: None,
    };
    let token = (keys.token_file.as_deref(), keys.token_env.as_deref());
    let host = section.host(&address, &options, token, keys.ca.as_deref())?;
    let proposals = Proposals {
        host,
        route: Route {
            repository,
            remote: keys.remote,
            base: keys.base,
        },
        modelled: keys.modelled,
    };
    Ok(Endpoint {
        target: Target::PullRequest(Arc::new(proposals)),
        kinds: vec![WebhookKind::WinnerPromoted],
        name,
    })
}

fn endpoint(path: &Path, name: String, keys: EndpointKeys) -> Result<Endpoint, SettingsError> {
    let section = Section { path, name: &name };
    let wrong = |problem: &str| section.wrong(problem);
    let url = Url::parse(&keys.url).map_err(|_| wrong("its url is no address"))?;
    let plain = url.scheme() == "http" && guard::is_loopback(url.authority());
    if !plain && url.scheme() != "https" || url.host_str().is_none() {
        return Err(wrong(
            "its url must begin with https://, or with http:// and a loopback address",
        ));
    }
    let secret_keys = ["secret_file", "secret_env"];
    let file = keys.secret_file.as_deref();
    let text = section.secret(
        "the secret file",
        secret_keys,
        file,
        keys.secret_env.as_deref(),
    )?;
    let secret = SigningSecret::parse(&text).ok_or_else(|| {
        wrong("its secret must be whsec_ and 24 to 64 bytes in base64: (printf whsec_; head -c 32 /dev/urandom | base64 -w 0)")
    })?;
    let authority = section.authority(keys.ca.as_deref())?;
    Client::builder()
        .build()
        .map_err(|error| wrong(&format!("HTTP requests cannot be prepared: {error}")))?;
    Ok(Endpoint {
        target: Target::Post {
            url,
            secret,
            authority,
            timeout: super::TIMEOUT,
        },
        kinds: keys.events.unwrap_or_else(|| WebhookKind::ALL.to_vec()),
        name,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn read_text(text: &str, mode: u32) -> Result<Vec<Endpoint>, SettingsError> {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, SECRET).unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(mode)).unwrap();
        std::fs::write(folder.path().join(NAME), text).unwrap();
        read(None, folder.path())
    }

    #[test]
    fn endpoints_have_an_address_a_secret_and_kinds_of_events() {
        let text = "[endpoints.team]\nurl = \"https://chat.example/hook\"\nsecret_file = \"secret\"\n\
             events = [\"run.finished\", \"device.unwell\"]\n\
             [endpoints.here]\nurl = \"http://127.0.0.1:9/\"\nsecret_file = \"secret\"\n";
        let found = read_text(text, 0o600).unwrap();
        assert_eq!(found[0].name, "here");
        assert_eq!(found[0].kinds, WebhookKind::ALL);
        assert_eq!(
            found[1].kinds,
            [WebhookKind::RunFinished, WebhookKind::DeviceUnwell]
        );
        let Target::Post { secret, .. } = &found[0].target else {
            panic!("{:?} is posted", found[0]);
        };
        assert_eq!(format!("{secret:?}"), "SigningSecret(..)");
        assert!(read_text("", 0o600).unwrap().is_empty());
    }

    #[test]
    fn a_project_gets_issues_of_winners_that_were_taken_back() {
        let text = "[issues.kernels]\nproject = \"https://github.com/team/kernels\"\ntoken_file = \"secret\"\n";
        let found = read_text(text, 0o600).unwrap();
        assert!(matches!(found[0].target, Target::Issue(_)));
        assert_eq!(found[0].kinds, [WebhookKind::WinnerReverted]);
        let elsewhere = "project = \"https://git.corp/team/kernels\"\n";
        let file = "token_file = \"secret\"\n";
        for (keys, words) in [
            (file.to_owned(), "project"),
            (elsewhere.to_owned(), "either token_file or token_env"),
            (
                format!("{elsewhere}{file}"),
                "--host github, gitlab or gitea",
            ),
            (
                format!("{elsewhere}{file}host = \"gitea\"\napi = \"http://git.corp\"\n"),
                "https://",
            ),
            (format!("{elsewhere}{file}host = \"cvs\"\n"), "cvs"),
        ] {
            let error = read_text(&format!("[issues.kernels]\n{keys}"), 0o600);
            let error = format!("{:#}", anyhow::Error::new(error.err().unwrap()));
            assert!(error.contains(words), "{keys}: {error}");
            assert!(!error.contains(SECRET), "{error}");
        }
        let twice = format!("{text}[endpoints.kernels]\nurl = \"http://127.0.0.1:9/\"\n");
        let error = read_text(&twice, 0o600).err().unwrap().to_string();
        assert!(error.contains("has this name too"), "{error}");
    }

    #[test]
    fn a_setting_that_cannot_be_used_is_named_with_its_remedy() {
        let https = "url = \"https://chat.example/hook\"\n";
        let file = "secret_file = \"secret\"\n";
        for (keys, mode, words) in [
            (
                "url = \"http://chat.example/\"\nsecret_file = \"secret\"\n",
                0o600,
                "https://",
            ),
            (https, 0o600, "either secret_file or secret_env"),
            (
                format!("{https}{file}secret_env = \"S\"\n").as_str(),
                0o600,
                "either secret_file",
            ),
            (
                format!("{https}secret_env = \"NO_SUCH_VARIABLE\"\n").as_str(),
                0o600,
                "is not set",
            ),
            (
                format!("{https}{file}events = [\"run.begun\"]\n").as_str(),
                0o600,
                "run.begun",
            ),
            (
                format!("{https}{file}secrets = 1\n").as_str(),
                0o600,
                "secrets",
            ),
            (format!("{https}{file}").as_str(), 0o644, "chmod 600"),
            (
                format!("{https}{file}ca = \"secret\"\n").as_str(),
                0o600,
                "PEM",
            ),
            (
                format!("{https}secret_file = \"none\"\n").as_str(),
                0o600,
                "none",
            ),
        ] {
            let error = read_text(&format!("[endpoints.team]\n{keys}"), mode);
            let error = format!("{:#}", anyhow::Error::new(error.err().unwrap()));
            assert!(error.contains(words), "{keys}: {error}");
            assert!(!error.contains(SECRET), "{error}");
        }
        for secret in [
            "",
            "whsec_",
            "whsec_AAAA",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        ] {
            assert!(SigningSecret::parse(secret).is_none(), "{secret}");
        }
    }
}
