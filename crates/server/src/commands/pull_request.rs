//! `pull-request`: pushes a winner's branch and opens a pull request with its evidence.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use engine::promote::proposal::WinnerBranch;
use serde_json::json;

use super::follow::{print, print_json};
use crate::cli::PullRequestArgs;
use crate::credentials::read_private;
use crate::git_host::{GitHost, Project, ProjectOptions};
use crate::outcome::{Ending, Failure, Outcome};
use crate::pull_request::{PullRequestError, Route, open, read};

pub(super) async fn pull_request(args: PullRequestArgs) -> Ending {
    let route = Route {
        repository: args.repository.clone(),
        remote: args.remote.clone(),
        base: args.base.clone(),
    };
    let winner = read(&route, &args.branch).await.map_err(failure)?;
    if args.dry_run {
        return show(&args, &winner);
    }
    let options = ProjectOptions {
        kind: args.host,
        api: args.api.clone(),
        path: args.project.clone(),
    };
    let project =
        Project::find(&winner.remote_url, &options).map_err(|error| failure(error.into()))?;
    let host = connect(&args, project)?;
    let opened = open(&host, &route, &args.branch, &winner)
        .await
        .map_err(failure)?;
    if args.json {
        print_json(&json!({
            "url": opened.url,
            "existed": opened.existed,
            "branch": args.branch,
            "base": winner.base,
            "commit": winner.commit,
        }))?;
    } else {
        let word = if opened.existed { "updated" } else { "opened" };
        print(&format!(
            "pushed     {}\n{word:<11}{}\n",
            args.branch, opened.url
        ))?;
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
    GitHost::new(project, token.trim(), authority.as_deref()).map_err(|error| failure(error.into()))
}

fn failure(error: PullRequestError) -> Failure {
    if error.is_input() {
        Failure::input(error)
    } else {
        Failure::infrastructure(error)
    }
}
