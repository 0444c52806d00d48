//! Describes a winner's branch, as a title and a text, for a pull request.
//!
//! This module only reads the branch; `repository` writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use domain::cleaning::clean_line;
use git2::{BranchType, Commit, ErrorCode, Patch, Repository, message_trailers_strs};

use super::repository::{Placed as _, RepositoryError, RepositoryPath, open};

/// The trailer that every commit of a promotion has.
const CANDIDATE: &str = "Candidate";
/// The trailer of a commit that takes a winner back.
const REVERTS: &str = "Reverts";
/// Trailers that are shown in this order, if they are there.
const SHOWN: [&str; 9] = [
    CANDIDATE,
    "Speedup",
    "Device",
    "Toolchain",
    "Proved-For",
    "Run",
    "Task-Version",
    "Verdict-Digest",
    "Evidence",
];

/// The reason why a branch cannot be proposed. Messages read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum BranchError {
    /// The repository cannot be read.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The branch does not exist.
    #[error(
        "find the branch {branch} in {}: list winners with `git branch --list 'kernelwright*'`", repository.display()
    )]
    Missing {
        /// The branch.
        branch: String,
        /// The repository.
        repository: PathBuf,
    },
    /// The last commit is someone else's.
    #[error(
        "propose {0}: its last commit is none of a promotion, because it has no trailer `Candidate`; name a winner's branch"
    )]
    NoWinner(String),
    /// The remote is not configured.
    #[error("find the remote {0}: add it with `git remote add`, or name another with --remote")]
    NoRemote(String),
    /// The branch to merge into is not known.
    #[error(
        "choose the branch to merge into: {0}/HEAD is not set here; name the branch with --base, or run `git remote set-head {0} --auto`"
    )]
    NoBase(String),
    /// The branch to merge into was never fetched.
    #[error(
        "find {remote}/{base}: fetch it with `git fetch {remote}`, or name another with --base"
    )]
    BaseMissing {
        /// The remote.
        remote: String,
        /// The branch.
        base: String,
    },
    /// The branch began with an empty history.
    #[error(
        "merge {branch} into {base}: they have no commit in common; name your repository when you start a run, with --promote-to"
    )]
    Unrelated {
        /// The branch.
        branch: String,
        /// The branch to merge into.
        base: String,
    },
    /// The branch has nothing that the other branch lacks.
    #[error("propose {branch}: it changes nothing in {base}{why}")]
    NoChange {
        /// The branch.
        branch: String,
        /// The branch to merge into.
        base: String,
        /// The reason, if the last commit says it.
        why: &'static str,
    },
}

/// A winner's branch, ready to be reviewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WinnerBranch {
    /// The commit at its tip.
    pub commit: String,
    /// The branch to merge into.
    pub base: String,
    /// The remote's address, as it is configured.
    pub remote_url: String,
    /// The commit's subject.
    pub title: String,
    /// The commit's evidence and the changed files, in Markdown.
    pub text: String,
}

/// Reads a winner's branch and compares it with the branch `base` of the remote; without `base` with the
/// remote's default branch.
///
/// # Errors
/// [`BranchError`].
pub fn read(
    repository: &Path,
    branch: &str,
    remote: &str,
    base: Option<&str>,
) -> Result<WinnerBranch, BranchError> {
    let at = RepositoryPath(repository);
    let opened = open(at, false)?;
    let tip = tip(&opened, at, branch)?;
    let message = tip.message().unwrap_or_default();
    let trailers = trailers(message);
    if !trailers.contains_key(CANDIDATE) {
        return Err(BranchError::NoWinner(branch.to_owned()));
    }
    let remote_url = address_of(&opened, remote)?;
    let base = match base {
        Some(base) => base.to_owned(),
        None => default_branch(&opened, remote)?,
    };
    let changed = changed_files(&opened, at, &tip, branch, remote, &base)?;
    if changed.is_empty() {
        let why = if trailers.contains_key(REVERTS) {
            ", because its winner was taken back"
        } else {
            ", because it was merged already"
        };
        return Err(BranchError::NoChange {
            branch: branch.to_owned(),
            base,
            why,
        });
    }
    Ok(WinnerBranch {
        commit: tip.id().to_string(),
        title: clean_line(tip.summary().ok().flatten().unwrap_or_default(), usize::MAX),
        text: text(message, &trailers, &changed),
        base,
        remote_url,
    })
}

/// Reads the address of a repository's remote, as it is configured.
///
/// # Errors
/// [`BranchError::Repository`] or [`BranchError::NoRemote`].
pub fn remote_address(repository: &Path, remote: &str) -> Result<String, BranchError> {
    address_of(&open(RepositoryPath(repository), false)?, remote)
}

fn address_of(repository: &Repository, remote: &str) -> Result<String, BranchError> {
    match repository.find_remote(remote) {
        Ok(found) => Ok(found.url().unwrap_or_default().to_owned()),
        Err(_) => Err(BranchError::NoRemote(remote.to_owned())),
    }
}

fn tip<'r>(
    repository: &'r Repository,
    at: RepositoryPath<'_>,
    branch: &str,
) -> Result<Commit<'r>, BranchError> {
    match repository.find_branch(branch, BranchType::Local) {
        Ok(found) => Ok(found.get().peel_to_commit().at(at, "read the branch")?),
        Err(_) => Err(BranchError::Missing {
            branch: branch.to_owned(),
            repository: at.0.to_owned(),
        }),
    }
}

/// The branch that the remote's `HEAD` names.
fn default_branch(repository: &Repository, remote: &str) -> Result<String, BranchError> {
    let head = repository.find_reference(&format!("refs/remotes/{remote}/HEAD"));
    let prefix = format!("refs/remotes/{remote}/");
    let name = head.ok().and_then(|head| {
        let target = head.symbolic_target().ok().flatten()?;
        Some(target.strip_prefix(&prefix)?.to_owned())
    });
    name.ok_or_else(|| BranchError::NoBase(remote.to_owned()))
}

/// A file of the branch that differs from the common ancestor's.
struct ChangedFile {
    path: String,
    added: usize,
    removed: usize,
}

fn changed_files(
    repository: &Repository,
    at: RepositoryPath<'_>,
    tip: &Commit<'_>,
    branch: &str,
    remote: &str,
    base: &str,
) -> Result<Vec<ChangedFile>, BranchError> {
    let target = repository
        .find_branch(&format!("{remote}/{base}"), BranchType::Remote)
        .and_then(|found| found.get().peel_to_commit())
        .map_err(|_| BranchError::BaseMissing {
            remote: remote.to_owned(),
            base: base.to_owned(),
        })?;
    let ancestor = match repository.merge_base(target.id(), tip.id()) {
        Ok(ancestor) => repository
            .find_commit(ancestor)
            .at(at, "read the common ancestor")?,
        Err(error) if error.code() == ErrorCode::NotFound => {
            return Err(BranchError::Unrelated {
                branch: branch.to_owned(),
                base: base.to_owned(),
            });
        }
        Err(source) => Err(source).at(at, "find the common ancestor")?,
    };
    let before = ancestor.tree().at(at, "read the tree")?;
    let after = tip.tree().at(at, "read the tree")?;
    let diff = repository
        .diff_tree_to_tree(Some(&before), Some(&after), None)
        .at(at, "compare the branches")?;
    let mut files = Vec::new();
    for (index, delta) in diff.deltas().enumerate() {
        let patch = Patch::from_diff(&diff, index).at(at, "compare a file")?;
        let lines = patch.map(|patch| patch.line_stats()).transpose();
        let (_, added, removed) = lines
            .at(at, "count the lines of a file")?
            .unwrap_or_default();
        let path = delta.new_file().path().or(delta.old_file().path());
        files.push(ChangedFile {
            path: path.unwrap_or(Path::new("")).display().to_string(),
            added,
            removed,
        });
    }
    Ok(files)
}

fn trailers(message: &str) -> BTreeMap<String, String> {
    let Ok(found) = message_trailers_strs(message) else {
        return BTreeMap::new();
    };
    let pairs = found.iter();
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The text in Markdown. What a candidate's author wrote stands in code spans, so that it can mention
/// nobody and refer to nothing.
fn text(message: &str, trailers: &BTreeMap<String, String>, files: &[ChangedFile]) -> String {
    let mut text = String::new();
    if let Some(about) = message.split("\n\n").nth(1) {
        // The sentences of a promotion are ours; those of a commit that takes one back quote a verdict.
        let about = if trailers.contains_key(REVERTS) {
            code(about)
        } else {
            clean_line(about, usize::MAX)
        };
        let _ = writeln!(text, "{about}\n");
    }
    text.push_str("| evidence | value |\n|---|---|\n");
    for name in SHOWN {
        if let Some(value) = trailers.get(name) {
            let _ = writeln!(text, "| {name} | {} |", code(value));
        }
    }
    text.push_str("\n| file | lines added | lines removed |\n|---|---|---|\n");
    for file in files {
        let path = code(&file.path);
        let _ = writeln!(text, "| {path} | {} | {} |", file.added, file.removed);
    }
    if let Some(digest) = trailers.get("Evidence") {
        let fetch = code(&format!("kernelwright evidence fetch {digest}"));
        let _ = writeln!(
            text,
            "\n{fetch} gets the bundle of the confirmation, and `kernelwright evidence replay` repeats it."
        );
    }
    text
}

/// One line as a code span of a table's cell.
fn code(text: &str) -> String {
    let line = clean_line(text, usize::MAX).replace('`', "'");
    format!("`{}`", line.replace('|', "\\|"))
}
