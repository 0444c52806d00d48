//! Pull requests and issues on GitHub, GitLab (which calls the former merge requests) and Gitea or Forgejo,
//! over their public REST APIs.
//!
//! Sources of the requests: "REST API endpoints for pull requests" and "for issues" of GitHub, version
//! 2022-11-28; "Merge requests API" and "Issues API" of GitLab, version 4; the OpenAPI document of Gitea,
//! version 1.

use std::time::Duration;

use domain::cleaning::clean_line;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, RequestBuilder, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::http::guard::is_loopback;

/// The longest that one answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Open pull requests on one page of a Gitea host, which cannot filter them by branch in every version.
const PAGE: usize = 50;
/// Pages that are searched for an open pull request of the branch.
const PAGES: u32 = 40;
/// Characters of a host's own message that are repeated.
const MESSAGE: usize = 400;

/// The kind of a host, which decides the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostKind {
    /// GitHub or GitHub Enterprise.
    Github,
    /// GitLab.
    Gitlab,
    /// Gitea or Forgejo.
    Gitea,
}

/// The reason why no pull request or issue could be opened. Messages read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The remote's address says no host.
    #[error(
        "read the host and the project from the remote's address {0:?}: name them with --host, --api and --project"
    )]
    Address(String),
    /// The host is none whose kind its name tells.
    #[error("tell the kind of the host {0}: name it with --host github, gitlab or gitea")]
    Kind(String),
    /// The address of the API cannot be used.
    #[error("use {0} as the address of the host's API: it must begin with https://")]
    Api(String),
    /// The project's path is none.
    #[error("use {0:?} as the project: it must look like OWNER/NAME")]
    Project(String),
    /// The token has characters that no header takes.
    #[error("use the host's token: it must be one line of printable ASCII")]
    Token,
    /// The certificate of the authority cannot be used.
    #[error("read the certificate of the authority: it must be one or more certificates in PEM")]
    Authority,
    /// The system's TLS set-up is broken.
    #[error("prepare HTTP requests")]
    Setup(#[source] reqwest::Error),
    /// The host did not answer.
    #[error("reach the host at {api}: correct --api, or try again later")]
    Unreachable {
        /// The address of the API.
        api: String,
        /// The reason.
        source: reqwest::Error,
    },
    /// The host's answer is not what its API documents.
    #[error("read the host's answer: it is no {0}; is --host the kind of this host?")]
    Answer(&'static str),
    /// The host wants another token.
    #[error("{doing}: the host refuses the token ({status}{message}); {remedy}")]
    Denied {
        /// The request, as a verb phrase.
        doing: &'static str,
        /// The status.
        status: u16,
        /// The host's words, after a colon, or nothing.
        message: String,
        /// The permission that the token needs.
        remedy: &'static str,
    },
    /// The host does not know the project, or hides it.
    #[error(
        "{doing}: the host knows no project {project} that this token may see (404); correct --project, or the token's access"
    )]
    NoProject {
        /// The request, as a verb phrase.
        doing: &'static str,
        /// The project's path.
        project: String,
    },
    /// The host says that the request is wrong.
    #[error("{doing}: the host answers {status}{message}")]
    Refused {
        /// The request, as a verb phrase.
        doing: &'static str,
        /// The status.
        status: u16,
        /// The host's words, after a colon, or nothing.
        message: String,
    },
}

impl HostError {
    /// True if the user can correct the cause.
    pub fn is_input(&self) -> bool {
        !matches!(self, Self::Setup(_) | Self::Unreachable { .. })
            && !matches!(self, Self::Refused { status, .. } if *status >= 500 || *status == 429)
    }
}

/// A project on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The kind of the host.
    pub kind: HostKind,
    /// The address of its API, such as `https://api.github.com`.
    pub api: Url,
    /// The project's path, such as `owner/name`; GitLab's may have more parts.
    pub path: String,
}

/// The parts of a project's address that a user names. The others follow from the remote's address.
#[derive(Debug, Clone, Default)]
pub struct ProjectOptions {
    /// The kind of the host.
    pub kind: Option<HostKind>,
    /// The address of its API.
    pub api: Option<String>,
    /// The project's path.
    pub path: Option<String>,
}

impl Project {
    /// Finds the project of a remote from its address, where the options do not say it.
    ///
    /// # Errors
    /// [`HostError::Address`], [`HostError::Kind`], [`HostError::Api`] or [`HostError::Project`].
    pub fn find(remote_url: &str, options: &ProjectOptions) -> Result<Self, HostError> {
        let address = split_address(remote_url);
        let unknown = || HostError::Address(clean_line(remote_url, MESSAGE));
        let host = address.as_ref().map(|(host, _)| host.as_str());
        let kind = match (options.kind, host) {
            (Some(kind), _) => kind,
            (None, Some("github.com")) => HostKind::Github,
            (None, Some("gitlab.com")) => HostKind::Gitlab,
            (None, Some("codeberg.org" | "gitea.com")) => HostKind::Gitea,
            (None, Some(other)) => return Err(HostError::Kind(other.to_owned())),
            (None, None) => return Err(unknown()),
        };
        let api = match (&options.api, host) {
            (Some(api), _) => api.clone(),
            (None, Some(host)) => default_api(kind, host),
            (None, None) => return Err(unknown()),
        };
        let path = options.path.clone().or(address.map(|(_, path)| path));
        let path = path.ok_or_else(unknown)?;
        Ok(Self {
            kind,
            api: parse_api(&api)?,
            path: parse_path(kind, &path)?,
        })
    }
}

fn default_api(kind: HostKind, host: &str) -> String {
    match kind {
        HostKind::Github if host == "github.com" => "https://api.github.com".to_owned(),
        HostKind::Github => format!("https://{host}/api/v3"),
        HostKind::Gitlab => format!("https://{host}/api/v4"),
        HostKind::Gitea => format!("https://{host}/api/v1"),
    }
}

/// Host and path of a remote: `https://host/path.git`, `ssh://git@host:22/path.git` or
/// `git@host:path.git`. None for a folder.
fn split_address(remote: &str) -> Option<(String, String)> {
    let (host, path) = match Url::parse(remote) {
        Ok(url) if url.has_host() => (url.host_str()?.to_owned(), url.path().to_owned()),
        _ => {
            let (before, path) = remote.split_once(':')?;
            let is_host = !before.contains('/') && !path.starts_with("//");
            let host = before.rsplit('@').next()?;
            (is_host && !host.is_empty()).then(|| (host.to_owned(), path.to_owned()))?
        }
    };
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (!path.is_empty()).then(|| (host, path.to_owned()))
}

/// A token must not cross a network as plain text.
fn parse_api(api: &str) -> Result<Url, HostError> {
    let wrong = || HostError::Api(clean_line(api, MESSAGE));
    let url = Url::parse(api).map_err(|_| wrong())?;
    let is_safe = match url.scheme() {
        "https" => url.has_host(),
        "http" => is_loopback(url.authority()),
        _ => false,
    };
    if is_safe { Ok(url) } else { Err(wrong()) }
}

fn parse_path(kind: HostKind, path: &str) -> Result<String, HostError> {
    let parts = path.split('/').collect::<Vec<_>>();
    let is_name = |part: &&str| !part.is_empty() && !matches!(*part, "." | "..");
    let is_long_enough = match kind {
        HostKind::Gitlab => parts.len() >= 2,
        HostKind::Github | HostKind::Gitea => parts.len() == 2,
    };
    if is_long_enough && parts.iter().all(is_name) {
        Ok(path.to_owned())
    } else {
        Err(HostError::Project(clean_line(path, MESSAGE)))
    }
}

/// The text of a pull request and the branches that it merges.
#[derive(Debug, Clone, Copy)]
pub struct PullRequest<'a> {
    /// Its title, one line.
    pub title: &'a str,
    /// Its description in Markdown.
    pub text: &'a str,
    /// The branch with the change.
    pub branch: &'a str,
    /// The branch to merge into.
    pub base: &'a str,
}

/// An issue to open.
#[derive(Debug, Clone, Copy)]
pub struct Issue<'a> {
    /// Its title, one line.
    pub title: &'a str,
    /// Its description in Markdown.
    pub text: &'a str,
}

/// The collections of a project that this client reads and adds to.
#[derive(Debug, Clone, Copy)]
enum Collection {
    PullRequests,
    Issues,
}

/// The client of one project.
#[derive(Debug)]
pub struct GitHost {
    project: Project,
    http: Client,
}

#[derive(Deserialize)]
struct Listed {
    /// GitHub and Gitea.
    html_url: Option<String>,
    /// GitLab.
    web_url: Option<String>,
    head: Option<Branch>,
    base: Option<Branch>,
    /// The description of an issue: GitHub's and Gitea's.
    body: Option<String>,
    /// GitLab's.
    description: Option<String>,
}

#[derive(Deserialize)]
struct Branch {
    #[serde(rename = "ref")]
    name: String,
}

impl Listed {
    fn page(self) -> Result<String, HostError> {
        let url = self.html_url.or(self.web_url);
        let url = url.ok_or(HostError::Answer("page"))?;
        Ok(clean_line(&url, MESSAGE))
    }

    fn is_of(&self, request: PullRequest<'_>) -> bool {
        let is = |branch: &Option<Branch>, name| branch.as_ref().is_some_and(|it| it.name == name);
        is(&self.head, request.branch) && is(&self.base, request.base)
    }
}

impl GitHost {
    /// A client that identifies with `token` and trusts the certificates in `authority` (PEM), or those
    /// of the system.
    ///
    /// # Errors
    /// [`HostError::Token`], [`HostError::Authority`] or [`HostError::Setup`].
    pub fn new(project: Project, token: &str, authority: Option<&[u8]>) -> Result<Self, HostError> {
        let (name, value) = match project.kind {
            HostKind::Github => (AUTHORIZATION, format!("Bearer {token}")),
            HostKind::Gitlab => (HeaderName::from_static("private-token"), token.to_owned()),
            HostKind::Gitea => (AUTHORIZATION, format!("token {token}")),
        };
        let mut value = HeaderValue::try_from(value).map_err(|_| HostError::Token)?;
        value.set_sensitive(true);
        let mut headers = HeaderMap::from_iter([
            (name, value),
            (ACCEPT, HeaderValue::from_static("application/json")),
            (USER_AGENT, HeaderValue::from_static("kernelwright")),
        ]);
        if project.kind == HostKind::Github {
            let version = HeaderName::from_static("x-github-api-version");
            headers.insert(version, HeaderValue::from_static("2022-11-28"));
            headers.insert(
                ACCEPT,
                HeaderValue::from_static("application/vnd.github+json"),
            );
        }
        let mut builder = Client::builder()
            .timeout(TIMEOUT)
            .default_headers(headers)
            // The token goes to the address that the user named, and to no other.
            .redirect(Policy::none());
        if project.api.scheme() == "http" {
            builder = builder.no_proxy().tls_certs_only([]);
        } else if let Some(authority) = authority {
            let certificates = Certificate::from_pem_bundle(authority).unwrap_or_default();
            if certificates.is_empty() {
                return Err(HostError::Authority);
            }
            builder = builder.tls_certs_only(certificates);
        }
        let http = builder.build().map_err(HostError::Setup)?;
        Ok(Self { project, http })
    }

    /// Opens a pull request for branches that have none, and returns its page.
    ///
    /// # Errors
    /// [`HostError`]. Then nothing was opened.
    pub async fn open(&self, request: PullRequest<'_>) -> Result<String, HostError> {
        let body = match self.project.kind {
            HostKind::Github | HostKind::Gitea => json!({
                "title": request.title,
                "body": request.text,
                "head": request.branch,
                "base": request.base,
            }),
            HostKind::Gitlab => json!({
                "title": request.title,
                "description": request.text,
                "source_branch": request.branch,
                "target_branch": request.base,
            }),
        };
        let post = self.http.post(self.address(Collection::PullRequests));
        let made: Listed = self
            .answer("open the pull request", post.json(&body))
            .await?;
        made.page()
    }

    /// Opens an issue, and returns its page.
    ///
    /// # Errors
    /// [`HostError`]. Then nothing was opened, unless the host did not answer.
    pub async fn open_issue(&self, issue: Issue<'_>) -> Result<String, HostError> {
        let text = match self.project.kind {
            HostKind::Github | HostKind::Gitea => "body",
            HostKind::Gitlab => "description",
        };
        let body = json!({ "title": issue.title, text: issue.text });
        let post = self.http.post(self.address(Collection::Issues));
        let made: Listed = self.answer("open the issue", post.json(&body)).await?;
        made.page()
    }

    /// Returns the page of the newest open issue whose description contains `mark`, of the 50 newest.
    ///
    /// # Errors
    /// [`HostError`].
    pub async fn find_issue(&self, mark: &str) -> Result<Option<String>, HostError> {
        let filter: [(&str, &str); 3] = match self.project.kind {
            HostKind::Github => [("state", "open"), ("sort", "created"), ("per_page", "50")],
            HostKind::Gitlab => [
                ("state", "opened"),
                ("order_by", "created_at"),
                ("per_page", "50"),
            ],
            HostKind::Gitea => [("state", "open"), ("type", "issues"), ("limit", "50")],
        };
        let mut url = self.address(Collection::Issues);
        url.query_pairs_mut().extend_pairs(filter);
        let listed: Vec<Listed> = self
            .answer("look for an open issue", self.http.get(url))
            .await?;
        let is_marked = |issue: &Listed| {
            let text = issue.body.as_ref().or(issue.description.as_ref());
            text.is_some_and(|text| text.contains(mark))
        };
        let marked = listed.into_iter().find(is_marked);
        marked.map(Listed::page).transpose()
    }

    /// Returns the page of the open pull request of the same two branches, if there is one.
    ///
    /// # Errors
    /// [`HostError`].
    pub async fn find(&self, request: PullRequest<'_>) -> Result<Option<String>, HostError> {
        let doing = "look for an open pull request of the branch";
        let list = async |filter: &[(&str, &str)]| {
            let mut url = self.address(Collection::PullRequests);
            url.query_pairs_mut().extend_pairs(filter);
            let found: Vec<Listed> = self.answer(doing, self.http.get(url)).await?;
            Ok::<_, HostError>(found)
        };
        let PullRequest { branch, base, .. } = request;
        let found = match self.project.kind {
            HostKind::Github => {
                let owner = self.project.path.split('/').next().unwrap_or_default();
                let head = format!("{owner}:{branch}");
                list(&[("state", "open"), ("head", &head), ("base", base)]).await?
            }
            HostKind::Gitlab => {
                let branches = [("source_branch", branch), ("target_branch", base)];
                list(&[[("state", "opened")].as_slice(), &branches].concat()).await?
            }
            HostKind::Gitea => {
                let mut found = Vec::new();
                for page in 1..=PAGES {
                    let (page, limit) = (page.to_string(), PAGE.to_string());
                    let listed =
                        list(&[("state", "open"), ("page", &page), ("limit", &limit)]).await?;
                    let is_last = listed.is_empty();
                    found.extend(listed.into_iter().filter(|it| it.is_of(request)));
                    if is_last || !found.is_empty() {
                        break;
                    }
                }
                found
            }
        };
        found.into_iter().next().map(Listed::page).transpose()
    }

    /// The address of the project's pull requests or issues.
    fn address(&self, collection: Collection) -> Url {
        let mut url = self.project.api.clone();
        let mut parts = url.path_segments_mut().expect("the address has a host");
        parts.pop_if_empty();
        match self.project.kind {
            // A project's path is one part there, with its slashes encoded.
            HostKind::Gitlab => {
                let name = match collection {
                    Collection::PullRequests => "merge_requests",
                    Collection::Issues => "issues",
                };
                parts.extend(["projects", &self.project.path, name]);
            }
            HostKind::Github | HostKind::Gitea => {
                parts.push("repos");
                parts.extend(self.project.path.split('/'));
                parts.push(match collection {
                    Collection::PullRequests => "pulls",
                    Collection::Issues => "issues",
                });
            }
        }
        drop(parts);
        url
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        doing: &'static str,
        request: RequestBuilder,
    ) -> Result<T, HostError> {
        let unreachable = |source: reqwest::Error| HostError::Unreachable {
            api: self.project.api.to_string(),
            source: source.without_url(),
        };
        let answer = request.send().await.map_err(unreachable)?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(unreachable)?;
        if status.is_success() {
            return serde_json::from_slice(&bytes)
                .map_err(|_| HostError::Answer("answer of its API"));
        }
        let message = refusal_text(&bytes);
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => HostError::Denied {
                doing,
                status: status.as_u16(),
                message,
                remedy: self.permission(),
            },
            StatusCode::NOT_FOUND => HostError::NoProject {
                doing,
                project: self.project.path.clone(),
            },
            _ => HostError::Refused {
                doing,
                status: status.as_u16(),
                message,
            },
        })
    }

    fn permission(&self) -> &'static str {
        match self.project.kind {
            HostKind::Github => {
                "give it the permission \"Pull requests: write\", or \"Issues: write\" to open issues, for this repository"
            }
            HostKind::Gitlab => "give it the scope `api` and the role Developer in this project",
            HostKind::Gitea => "give it the scopes `write:repository` and `write:issue`",
        }
    }
}

/// The words of a host's refusal, after a colon: `message` with the messages of `errors`, or `error`.
fn refusal_text(body: &[u8]) -> String {
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return String::new();
    };
    let mut words = Vec::new();
    for key in ["message", "error"] {
        match &body[key] {
            Value::String(text) => words.push(text.clone()),
            Value::Array(texts) => {
                let texts = texts.iter().filter_map(Value::as_str);
                words.extend(texts.map(String::from));
            }
            _ => {}
        }
    }
    for error in body["errors"].as_array().into_iter().flatten() {
        let text = error.as_str().or(error["message"].as_str());
        words.extend(text.map(String::from));
    }
    if words.is_empty() {
        return String::new();
    }
    format!(": {}", clean_line(&words.join("; "), MESSAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_remotes_have_a_host_and_a_path() {
        for (remote, expected) in [
            (
                "https://github.com/team/kernels.git",
                Some(("github.com", "team/kernels")),
            ),
            (
                "git@github.com:team/kernels.git",
                Some(("github.com", "team/kernels")),
            ),
            (
                "ssh://git@git.example.org:2222/a/b/c",
                Some(("git.example.org", "a/b/c")),
            ),
            ("host:team/kernels", Some(("host", "team/kernels"))),
            ("/srv/git/kernels.git", None),
            ("../kernels", None),
            ("file:///srv/git/kernels.git", None),
            ("", None),
        ] {
            let found = split_address(remote);
            let found = found
                .as_ref()
                .map(|(host, path)| (host.as_str(), path.as_str()));
            assert_eq!(found, expected, "{remote}");
        }
    }

    #[test]
    fn the_kind_and_the_api_follow_from_a_known_host() {
        for (remote, kind, api) in [
            ("git@github.com:a/b.git", None, "https://api.github.com/"),
            (
                "https://gitlab.com/a/b/c.git",
                None,
                "https://gitlab.com/api/v4",
            ),
            (
                "https://codeberg.org/a/b",
                None,
                "https://codeberg.org/api/v1",
            ),
            (
                "https://git.corp/a/b",
                Some(HostKind::Github),
                "https://git.corp/api/v3",
            ),
        ] {
            let options = ProjectOptions {
                kind,
                ..ProjectOptions::default()
            };
            let project = Project::find(remote, &options).unwrap();
            assert_eq!(project.api.as_str(), api, "{remote}");
        }
        let unknown = Project::find("https://git.corp/a/b", &ProjectOptions::default());
        assert!(matches!(unknown, Err(HostError::Kind(host)) if host == "git.corp"));
    }

    #[test]
    fn a_token_never_crosses_a_network_as_plain_text() {
        for (api, allowed) in [
            ("http://git.corp/api/v1", false),
            ("http://127.0.0.1:3000/api/v1", true),
            ("https://git.corp/api/v1", true),
            ("git.corp", false),
        ] {
            let options = ProjectOptions {
                kind: Some(HostKind::Gitea),
                api: Some(api.to_owned()),
                path: Some("a/b".to_owned()),
            };
            assert_eq!(Project::find("/srv/x", &options).is_ok(), allowed, "{api}");
        }
    }
}
