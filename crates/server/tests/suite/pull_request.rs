//! `pull-request` through the program itself: a repository with a remote, and an HTTP server on this
//! machine that answers as the documentation of GitHub, GitLab and Gitea says.

use std::fs::Permissions;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

pub const BRANCH: &str = "kernelwright/row-norm/0123456789ab";
const TOKEN: &str = "the-hosts-token";

/// The kinds of hosts with the paths of their APIs and of the project's pull requests.
const KINDS: [(&str, &str, &str); 3] = [
    ("github", "/api/v3", "/api/v3/repos/team/kernels/pulls"),
    (
        "gitlab",
        "/api/v4",
        "/api/v4/projects/team%2Fkernels/merge_requests",
    ),
    ("gitea", "/api/v1", "/api/v1/repos/team/kernels/pulls"),
];

/// A folder with a bare repository `origin.git` and a clone `mine` that has a winner's branch.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.git(
            ".",
            &[
                "init",
                "--quiet",
                "--bare",
                "--initial-branch=main",
                "origin.git",
            ],
        );
        folder.git(".", &["init", "--quiet", "--initial-branch=main", "mine"]);
        folder.write("mine/norm.cu", "__global__ void norm();\n");
        folder.git("mine", &["add", "norm.cu"]);
        folder.git("mine", &["commit", "--quiet", "--message=Add the norm"]);
        folder.git("mine", &["remote", "add", "origin", "../origin.git"]);
        folder.git("mine", &["push", "--quiet", "origin", "main"]);
        folder.git("mine", &["remote", "set-head", "origin", "main"]);
        folder.git("mine", &["switch", "--quiet", "--create", BRANCH]);
        folder.write("mine/norm.cu", "__global__ void norm();\n// faster\n");
        folder.commit(&format!(
            "row-norm: one warp per row | @team\n\n\
             2.50 times the baseline's speed (measured). The times were measured on the device.\n\n\
             Candidate: 01938e5a-0000-7000-8000-00000000000a\n\
             Device: `NVIDIA | @team` <b>L4</b>\n\
             Evidence: {}\n",
            "ab".repeat(32)
        ));
        folder.git("mine", &["switch", "--quiet", "main"]);
        folder.write("token", &format!("{TOKEN}\n"));
        let token = folder.path("token");
        std::fs::set_permissions(token, Permissions::from_mode(0o600)).unwrap();
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn commit(&self, message: &str) {
        self.write("message", message);
        let file = self.path("message");
        let file = format!("--file={}", file.display());
        self.git("mine", &["commit", "--quiet", "--all", &file]);
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the test is a user who starts programs"
    )]
    fn program(&self, program: &str, folder: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.path(folder))
            .env_clear()
            .env("HOME", self.0.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null());
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "A");
            command.env(format!("GIT_{who}_EMAIL"), "a@example.org");
        }
        command.output().unwrap()
    }

    pub fn git(&self, folder: &str, arguments: &[&str]) -> String {
        let output = self.program("git", folder, arguments);
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn pull_request(&self, options: &[&str]) -> Output {
        let program = env!("CARGO_BIN_EXE_kernelwright");
        let arguments = [&["pull-request", BRANCH, "--repository", "mine"], options].concat();
        self.program(program, ".", &arguments)
    }

    fn propose(&self, host: &Host, more: &[&str]) -> Output {
        let api = format!("{}{}", host.address, host.api);
        let options = [
            "--host",
            host.kind,
            "--api",
            &api,
            "--project",
            "team/kernels",
            "--host-token-file",
            "token",
        ];
        self.pull_request(&[&options, more].concat())
    }

    fn succeed(&self, host: &Host) -> Value {
        let output = self.propose(host, &["--json"]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn error(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A host with one project. It stops when it is dropped.
pub struct Host {
    kind: &'static str,
    api: &'static str,
    pub address: String,
    state: Shared,
    _runtime: Runtime,
}

#[derive(Clone)]
struct Shared {
    kind: &'static str,
    path: &'static str,
    origin: PathBuf,
    /// The bodies of the requests that opened something.
    opened: Arc<Mutex<Vec<Value>>>,
}

impl Host {
    pub fn start(folder: &Folder, kind: &'static str) -> Self {
        let (kind, api, path) = *KINDS.iter().find(|(name, ..)| *name == kind).unwrap();
        let state = Shared {
            kind,
            path,
            origin: folder.path("origin.git"),
            opened: Arc::default(),
        };
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let listener = listener.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(answer).with_state(state.clone());
        runtime.spawn(async move { axum::serve(listener, app).await });
        Self {
            kind,
            api,
            address,
            state,
            _runtime: runtime,
        }
    }

    pub fn opened(&self) -> Vec<Value> {
        self.state.opened.lock().unwrap().clone()
    }
}

async fn answer(
    State(host): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let refuse = |status: StatusCode, body: Value| (status, body.to_string()).into_response();
    let (header, expected) = match host.kind {
        "github" => ("authorization", format!("Bearer {TOKEN}")),
        "gitlab" => ("private-token", TOKEN.to_owned()),
        _ => ("authorization", format!("token {TOKEN}")),
    };
    if headers.get(header).and_then(|value| value.to_str().ok()) != Some(&expected) {
        return refuse(
            StatusCode::UNAUTHORIZED,
            json!({"message": "Bad credentials"}),
        );
    }
    if uri.path() != host.path {
        return refuse(StatusCode::NOT_FOUND, json!({"message": "Not Found"}));
    }
    if method == Method::GET {
        return list(&host, uri.query().unwrap_or_default());
    }
    let request: Value = serde_json::from_slice(&body).unwrap();
    let (source, target) = match host.kind {
        "gitlab" => ("source_branch", "target_branch"),
        _ => ("head", "base"),
    };
    let pushed = host
        .origin
        .join("refs/heads")
        .join(request[source].as_str().unwrap());
    if !pushed.exists() || request[target] != "main" {
        let body =
            json!({"message": "Validation Failed", "errors": [{"message": "No such branch"}]});
        return refuse(StatusCode::UNPROCESSABLE_ENTITY, body);
    }
    let mut opened = host.opened.lock().unwrap();
    opened.push(request);
    let page = page(&host, opened.len());
    (StatusCode::CREATED, page.to_string()).into_response()
}

/// The open pull requests that a query asks for.
fn list(host: &Shared, query: &str) -> Response {
    let opened = host.opened.lock().unwrap();
    let branch = BRANCH.replace('/', "%2F");
    let listed = match host.kind {
        "github" => {
            assert_eq!(query, format!("state=open&head=team%3A{branch}&base=main"));
            0..opened.len()
        }
        "gitlab" => {
            let branches = format!("source_branch={branch}&target_branch=main");
            assert_eq!(query, format!("state=opened&{branches}"));
            0..opened.len()
        }
        // The first page holds someone else's.
        _ if query.starts_with("state=open&page=1&") => 0..0,
        _ if query.starts_with("state=open&page=2&") => 0..opened.len(),
        _ => return "[]".into_response(),
    };
    let mut pages = listed
        .map(|index| page(host, index + 1))
        .collect::<Vec<_>>();
    if host.kind == "gitea" && pages.is_empty() && query.contains("page=1&") {
        let other = json!({"ref": "someone/else"});
        pages = vec![json!({"html_url": "x", "head": other, "base": {"ref": "main"}})];
    }
    Value::Array(pages).to_string().into_response()
}

fn page(host: &Shared, number: usize) -> Value {
    match host.kind {
        "gitlab" => {
            json!({"web_url": format!("https://host/team/kernels/-/merge_requests/{number}")})
        }
        _ => json!({
            "html_url": format!("https://host/team/kernels/pulls/{number}"),
            "head": {"ref": BRANCH},
            "base": {"ref": "main"},
        }),
    }
}

#[test]
fn a_winner_is_pushed_and_proposed_once_on_every_kind_of_host() {
    for (kind, ..) in KINDS {
        let folder = Folder::new();
        let host = Host::start(&folder, kind);
        let first = folder.succeed(&host);
        assert_eq!(first["existed"], false, "{kind}");
        assert_eq!(first["base"], "main");
        let tip = folder.git("mine", &["rev-parse", BRANCH]);
        assert_eq!(first["commit"], tip.as_str());
        assert_eq!(folder.git("origin.git", &["rev-parse", BRANCH]), tip);
        let again = folder.succeed(&host);
        assert_eq!(again["existed"], true, "{kind}");
        assert_eq!(again["url"], first["url"], "{kind}");
        assert_eq!(host.opened().len(), 1, "{kind}");
        let request = &host.opened()[0];
        assert_eq!(request["title"], "row-norm: one warp per row | @team");
    }
}

#[test]
fn words_of_an_author_mention_nobody_and_make_no_markup() {
    let folder = Folder::new();
    let shown = folder.pull_request(&["--dry-run", "--json"]);
    assert!(shown.status.success(), "{shown:?}");
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let text = shown["text"].as_str().unwrap();
    assert!(
        text.starts_with("2.50 times the baseline's speed (measured)."),
        "{text}"
    );
    let device = "| Device | `'NVIDIA \\| @team' <b>L4</b>` |";
    assert!(text.contains(device), "{text}");
    assert!(text.contains("| `norm.cu` | 1 | 0 |"), "{text}");
    assert!(text.contains("kernelwright evidence fetch abab"), "{text}");
    // Nothing was pushed.
    let branches = folder.git("origin.git", &["branch", "--list", "kernelwright/*"]);
    assert_eq!(branches, "");
}

#[test]
fn a_refusal_says_what_to_correct() {
    let folder = Folder::new();
    let host = Host::start(&folder, "github");
    let unnamed = error(&folder.pull_request(&["--host-token-file", "token"]), 2);
    assert!(unnamed.contains("--project"), "{unnamed}");
    let elsewhere = error(&folder.propose(&host, &["--base", "stable"]), 2);
    assert!(elsewhere.contains("git fetch origin"), "{elsewhere}");
    folder.write("token", "another");
    let denied = error(&folder.propose(&host, &[]), 2);
    assert!(denied.contains("Bad credentials"), "{denied}");
    assert!(denied.contains("Pull requests: write"), "{denied}");
    assert!(!denied.contains("another"), "{denied}");
    std::fs::set_permissions(folder.path("token"), Permissions::from_mode(0o644)).unwrap();
    let open = error(&folder.propose(&host, &[]), 2);
    assert!(open.contains("chmod 600"), "{open}");
    assert_eq!(host.opened(), Vec::<Value>::new());
}

#[test]
fn a_branch_without_a_winner_is_not_proposed() {
    let folder = Folder::new();
    let tip = folder.git("mine", &["rev-parse", BRANCH]);
    folder.git("mine", &["switch", "--quiet", BRANCH]);
    folder.write("mine/norm.cu", "__global__ void norm();\n");
    folder.commit(&format!(
        "Take back {}\n\nre-checked at 0.9 times\n\nCandidate: 01\nReverts: {tip}\n",
        &tip[..12]
    ));
    let taken_back = error(&folder.pull_request(&["--dry-run"]), 2);
    assert!(
        taken_back.contains("its winner was taken back"),
        "{taken_back}"
    );
    folder.write("mine/norm.cu", "// mine\n");
    folder.commit("Try something\n");
    let mine = error(&folder.pull_request(&["--dry-run"]), 2);
    assert!(mine.contains("no trailer `Candidate`"), "{mine}");
    folder.git("mine", &["switch", "--quiet", "main"]);
    folder.git(
        "mine",
        &["branch", "--quiet", "--delete", "--force", BRANCH],
    );
    let missing = error(&folder.pull_request(&["--dry-run"]), 2);
    assert!(missing.contains("git branch --list"), "{missing}");
}

#[test]
fn a_host_that_is_gone_is_no_fault_of_the_request() {
    let folder = Folder::new();
    let host = Host::start(&folder, "gitea");
    let closed = Host {
        _runtime: Runtime::new().unwrap(),
        address: "http://127.0.0.1:9".to_owned(),
        kind: host.kind,
        api: host.api,
        state: host.state.clone(),
    };
    let gone = error(&folder.propose(&closed, &[]), 3);
    assert!(gone.contains("reach the host"), "{gone}");
}
