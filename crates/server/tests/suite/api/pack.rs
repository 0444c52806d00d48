//! `context --pack`: the folder for an agent, written by the program itself.

use std::path::Path;
use std::process::{Command, Output};

use domain::id::RunId;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::task::AbortOnDropHandle;

use super::service::Service;
use crate::fixtures;

/// A service on a loopback port, and a user who calls the program in a folder.
struct User {
    address: String,
    folder: TempDir,
    _http: AbortOnDropHandle<()>,
}

impl User {
    async fn of(service: &Service) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = service.router.clone();
        let http = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            folder: tempfile::tempdir().unwrap(),
            _http: AbortOnDropHandle::new(http),
        }
    }

    /// Writes a run's pack to a folder below the user's.
    #[expect(
        clippy::disallowed_methods,
        reason = "the test is a user who starts the program"
    )]
    async fn pack(&self, run: RunId, name: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kernelwright"));
        command
            .args(["context", &run.to_string(), "--pack", name])
            .args(["--server", &self.address])
            .current_dir(self.folder.path())
            .env_clear();
        tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let mut names = Vec::new();
        list(&self.folder.path().join(folder), "", &mut names);
        names.sort();
        names
    }
}

/// Adds the paths of all files below a folder.
fn list(folder: &Path, prefix: &str, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            list(&entry.path(), &format!("{name}/"), names);
        } else {
            names.push(name);
        }
    }
}

#[tokio::test]
async fn a_pack_is_written_updated_and_never_written_over_other_files() {
    let (service, run, worker) = Service::running().await;
    let user = User::of(&service).await;
    let wrote = user.pack(run, "work").await;
    assert!(wrote.status.success(), "{wrote:?}");
    assert_eq!(
        user.names("work"),
        [
            ".ignore",
            ".kernelwright-pack.json",
            "AGENTS.md",
            "FOCUS.md",
            "MAP.md",
            "candidate.cu",
            "mcp.json",
            "notes.md",
            "parent.cu",
            "paths.toml",
            "state.json",
            "task/baseline.cu",
            "task/context.md",
            "task/insights.md",
            "task/reference.cu",
        ]
    );
    assert_eq!(
        user.read("work/candidate.cu"),
        fixtures::kernel("baseline", 128)
    );
    assert!(user.read("work/FOCUS.md").contains("Doubles a vector."));
    assert!(user.read("work/AGENTS.md").contains(&run.to_string()));
    let state: Value = serde_json::from_str(&user.read("work/state.json")).unwrap();
    assert_eq!(state["trials"]["left"], 45);
    let servers: Value = serde_json::from_str(&user.read("work/mcp.json")).unwrap();
    let arguments = &servers["mcpServers"]["kernelwright"]["args"];
    assert_eq!(arguments[0], "mcp");
    assert_eq!(arguments[2], run.to_string());

    let own = user.folder.path().join("work");
    std::fs::write(own.join("candidate.cu"), "mine").unwrap();
    std::fs::write(own.join("notes.md"), "learned").unwrap();
    service.submit(run, "wider", 64).await;
    service.judge(worker, 50.0).await;
    let updated = user.pack(run, "work").await;
    assert!(updated.status.success(), "{updated:?}");
    assert_eq!(user.read("work/candidate.cu"), "mine");
    assert_eq!(user.read("work/notes.md"), "learned");
    assert_eq!(user.read("work/parent.cu"), fixtures::kernel("wider", 64));
    let state: Value = serde_json::from_str(&user.read("work/state.json")).unwrap();
    assert_eq!(state["trials"]["left"], 44);

    let other = service.launch().await;
    let refused = user.pack(other, "work").await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains(&format!("the pack of {run}")), "{message}");

    std::fs::create_dir(user.folder.path().join("mine")).unwrap();
    std::fs::write(user.folder.path().join("mine/thesis.txt"), "text").unwrap();
    let refused = user.pack(run, "mine").await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("thesis.txt"), "{message}");
    assert_eq!(user.names("mine"), ["thesis.txt"]);
}
