//! `pull-request`: pushes a winner's branch and opens a pull request with its evidence.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use domain::cleaning::clean_line;
use engine::promote::branch::{self, BranchError, WinnerBranch};
use engine::promote::repository::RepositoryError;
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use super::follow::{print, print_json};
use crate::cli::PullRequestArgs;
use crate::credentials::read_private;
use crate::git_host::{GitHost, HostError, Project, ProjectOptions, PullRequest};
use crate::outcome::{Ending, Failure, Outcome};

/// Characters of git's message that are repeated.
const MESSAGE: usize = 600;
/// The longest time that a push may take.
const PUSH_TIMEOUT: Duration = Duration::from_secs(300);

pub(super) async fn pull_request(args: PullRequestArgs) -> Ending {
    let read = (
        args.repository.clone(),
        args.branch.clone(),
        args.remote.clone(),
        args.base.clone(),
    );
    let winner = tokio::task::spawn_blocking(move || {
        let (repository, branch, remote, base) = read;
        branch::read(&repository, &branch, &remote, base.as_deref())
    });
    let winner = winner
        .await
        .context("read the branch")
        .map_err(Failure::infrastructure)?
        .map_err(unreadable)?;
    if args.dry_run {
        return show(&args, &winner);
    }
    let options = ProjectOptions {
        kind: args.host,
        api: args.api.clone(),
        path: args.project.clone(),
    };
    // Mistakes that the user can correct, such as a wrong token, are found before anything is pushed.
    let project = Project::find(&winner.remote_url, &options).map_err(failure)?;
    let host = connect(&args, project)?;
    let request = PullRequest {
        title: &winner.title,
        text: &winner.text,
        branch: &args.branch,
        base: &winner.base,
    };
    let known = host.find(request).await.map_err(failure)?;
    push(&args).await?;
    let existed = known.is_some();
    let url = match known {
        Some(url) => url,
        None => host.open(request).await.map_err(failure)?,
    };
    if args.json {
        let WinnerBranch { commit, base, .. } = &winner;
        print_json(&json!({
            "url": url,
            "existed": existed,
            "branch": args.branch,
            "base": base,
            "commit": commit,
        }))?;
    } else {
        let word = if existed { "updated" } else { "opened" };
        print(&format!("pushed     {}\n{word:<11}{url}\n", args.branch))?;
    }
    Ok(Outcome::Accepted)
}

fn show(args: &PullRequestArgs, winner: &WinnerBranch) -> Ending {
    if args.json {
        print_json(&json!({
            "title": winner.title,
            "text": winner.text,
            "branch": args.branch,
            "base": winner.base,
            "commit": winner.commit,
        }))?;
    } else {
        print(&format!(
            "{} into {}\n\n{}\n\n{}",
            args.branch, winner.base, winner.title, winner.text
        ))?;
    }
    Ok(Outcome::Accepted)
}

fn connect(args: &PullRequestArgs, project: Project) -> Result<GitHost, Failure> {
    let file = args.host_token_file.as_deref();
    let file = file.ok_or_else(|| {
        Failure::input(anyhow!(
            "identify to the host: name the file with its token, with --host-token-file"
        ))
    })?;
    let setting = "--host-token-file or KERNELWRIGHT_HOST_TOKEN_FILE";
    let token = read_private(file, "the host's token file", setting).map_err(Failure::input)?;
    let read = |path: &Path| {
        std::fs::read(path)
            .with_context(|| format!("read the host's authority {}", path.display()))
            .map_err(Failure::input)
    };
    let authority = args.host_ca.as_deref().map(read).transpose()?;
    GitHost::new(project, token.trim(), authority.as_deref()).map_err(failure)
}

/// Pushes the branch as it is here. Git asks for no password, because nobody may be there to answer.
async fn push(args: &PullRequestArgs) -> Result<(), Failure> {
    let PullRequestArgs { branch, remote, .. } = args;
    let mut git = Command::new("git");
    git.arg("-C")
        .arg(&args.repository)
        .args(["push", "--quiet", "--", remote])
        .arg(format!("refs/heads/{branch}:refs/heads/{branch}"))
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(PUSH_TIMEOUT, git.output())
        .await
        .with_context(|| format!("push {branch} to {remote}: git did not end in {PUSH_TIMEOUT:?}"))
        .map_err(Failure::infrastructure)?
        .context("run git: install it, such as with `apt install git`")
        .map_err(Failure::infrastructure)?;
    if output.status.success() {
        return Ok(());
    }
    let said = clean_line(&String::from_utf8_lossy(&output.stderr), MESSAGE);
    Err(Failure::input(anyhow!(
        "push {branch} to {remote}: git says: {said}; `git -C {} push {remote} {branch}` must work",
        args.repository.display()
    )))
}

fn unreadable(error: BranchError) -> Failure {
    match error {
        BranchError::Repository(RepositoryError::Git { .. }) => Failure::infrastructure(error),
        _ => Failure::input(error),
    }
}

fn failure(error: HostError) -> Failure {
    if error.is_input() {
        Failure::input(error)
    } else {
        Failure::infrastructure(error)
    }
}
