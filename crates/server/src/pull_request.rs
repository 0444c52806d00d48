//! The way of a winner's branch to its repository's host: it is pushed, and a pull request with its evidence is
//! opened.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use domain::cleaning::clean_line;
use engine::promote::proposal::{self, BranchError, WinnerBranch};
use engine::promote::repository::RepositoryError;
use tokio::process::Command;
use tokio::time::timeout;

use crate::git_host::{GitHost, HostError, PullRequest};

/// Characters of git's message that are repeated.
const MESSAGE: usize = 600;
/// The longest time that a push may take.
const PUSH_TIMEOUT: Duration = Duration::from_secs(300);

/// A repository with winners' branches, and where they go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The folder of the repository.
    pub repository: PathBuf,
    /// The remote to push to, with the credentials that git has.
    pub remote: String,
    /// The branch to merge into; `None` for the remote's default branch.
    pub base: Option<String>,
}

/// A pull request on its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Its page.
    pub url: String,
    /// True if it was open already, so that it only got the new commits.
    pub existed: bool,
}

/// The reason why there is no pull request. Messages read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum PullRequestError {
    /// The branch cannot be proposed.
    #[error(transparent)]
    Branch(#[from] BranchError),
    /// The host refused, or did not answer.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Git did not start.
    #[error("run git: install it, such as with `apt install git`")]
    Git(#[source] io::Error),
    /// Git did not end.
    #[error("push {branch} to {remote}: git did not end in {PUSH_TIMEOUT:?}")]
    Slow {
        /// The branch.
        branch: String,
        /// The remote.
        remote: String,
    },
    /// Git refused.
    #[error(
        "push {branch} to {remote}: git says: {said}; `git -C {} push {remote} {branch}` must work", repository.display()
    )]
    Push {
        /// The branch.
        branch: String,
        /// The remote.
        remote: String,
        /// Git's message.
        said: String,
        /// The repository.
        repository: PathBuf,
    },
}

impl PullRequestError {
    /// True if the user can correct the cause.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Branch(error) => {
                !matches!(error, BranchError::Repository(RepositoryError::Git { .. }))
            }
            Self::Host(error) => error.is_input(),
            Self::Git(_) | Self::Slow { .. } => false,
            Self::Push { .. } => true,
        }
    }
}

/// Reads a winner's branch.
///
/// # Errors
/// [`PullRequestError::Branch`].
pub async fn read(route: &Route, branch: &str) -> Result<WinnerBranch, PullRequestError> {
    let (route, branch) = (route.clone(), branch.to_owned());
    let reading = tokio::task::spawn_blocking(move || {
        proposal::read(
            &route.repository,
            &branch,
            &route.remote,
            route.base.as_deref(),
        )
    });
    let read = reading.await;
    Ok(read.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?)
}

/// Pushes a branch that was [read](read()), and opens a pull request unless one of the same branches is open.
///
/// # Errors
/// [`PullRequestError`]. What the user can correct on the host is found before anything is pushed.
pub async fn open(
    host: &GitHost,
    route: &Route,
    branch: &str,
    winner: &WinnerBranch,
) -> Result<Opened, PullRequestError> {
    let request = PullRequest {
        title: &winner.title,
        text: &winner.text,
        branch,
        base: &winner.base,
    };
    let known = host.find(request).await?;
    push(route, branch).await?;
    let existed = known.is_some();
    let url = match known {
        Some(url) => url,
        None => host.open(request).await?,
    };
    Ok(Opened { url, existed })
}

/// Pushes the branch as it is here. Git asks for no password, because nobody may be there to answer.
async fn push(route: &Route, branch: &str) -> Result<(), PullRequestError> {
    let (remote, branch) = (route.remote.clone(), branch.to_owned());
    let mut git = Command::new("git");
    git.arg("-C")
        .arg(&route.repository)
        .args(["push", "--quiet", "--", &remote])
        .arg(format!("refs/heads/{branch}:refs/heads/{branch}"))
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let Ok(output) = timeout(PUSH_TIMEOUT, git.output()).await else {
        return Err(PullRequestError::Slow { branch, remote });
    };
    let output = output.map_err(PullRequestError::Git)?;
    if output.status.success() {
        return Ok(());
    }
    Err(PullRequestError::Push {
        branch,
        remote,
        said: clean_line(&String::from_utf8_lossy(&output.stderr), MESSAGE),
        repository: route.repository.clone(),
    })
}
