//! Commits of one file in the author's own checkout, on the branch that is checked out.
//!
//! The author's work is never lost: a version is committed before it is reverted, the rest of the
//! checkout and of the index is not touched, and in doubt nothing is done. A branch
//! moves once per call, from the tip that was seen to a commit that bears the record's identity,
//! so that a call that was killed can be recognised afterwards.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use git2::build::TreeUpdateBuilder;
use git2::{Commit, ErrorCode, FileMode, Oid, Repository, RepositoryState, Signature};

/// Commits of a branch that are searched for one of ours.
const SEARCHED: usize = 200;
/// The author of commits where the repository configures none.
const AUTHOR: (&str, &str) = ("Kernelwright", "kernelwright@localhost");

/// The reason why a file cannot be committed. Messages read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// The file is in no checkout.
    #[error(
        "find a git checkout around {}: make one with `git init` and commit the file's folder", .0.display()
    )]
    NoCheckout(PathBuf),
    /// No branch is checked out.
    #[error("commit on a branch: no branch is checked out; check one out with `git switch`")]
    Detached,
    /// The branch has no commit.
    #[error("commit on {0}: the branch has no commit yet; make a first one")]
    Unborn(String),
    /// Git is in the middle of something.
    #[error("commit on {branch}: a {what} is under way; finish or abort it first")]
    Underway {
        /// The branch.
        branch: String,
        /// The operation, such as "merge".
        what: String,
    },
    /// The file is a link or something else.
    #[error("commit {0}: it is no plain file of the checkout")]
    NotPlain(String),
    /// The file is ignored.
    #[error("commit {0}: git ignores it; take it out of .gitignore")]
    Ignored(String),
    /// Something else is staged for the file.
    #[error(
        "commit {0}: another version of it is staged, which would be lost; commit it or unstage it with `git restore --staged`"
    )]
    Staged(String),
    /// The file is not what was evaluated any more.
    #[error("commit {0}: it was changed meanwhile; nothing was touched, call again")]
    Changed(String),
    /// The branch is not where it was.
    #[error("commit on {0}: the branch moved meanwhile; nothing was touched, call again")]
    Moved(String),
    /// There is no earlier version.
    #[error("take {0} back: no earlier version of it is known; it stays as it is")]
    NothingBefore(String),
    /// The file system refused.
    #[error("{doing} {}", path.display())]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Anything else that git refuses.
    #[error("{doing}")]
    Git {
        /// The operation that failed.
        doing: &'static str,
        /// Git's error.
        source: git2::Error,
    },
}

trait ErrorContext<T> {
    fn context(self, doing: &'static str) -> Result<T, WorktreeError>;
}

impl<T> ErrorContext<T> for Result<T, git2::Error> {
    fn context(self, doing: &'static str) -> Result<T, WorktreeError> {
        self.map_err(|source| WorktreeError::Git { doing, source })
    }
}

/// A file of a checkout that may be committed.
pub struct Worktree {
    repository: Repository,
    folder: PathBuf,
    path: String,
    branch: String,
    reference: String,
    tip: Oid,
    /// The file at the branch's tip.
    committed: Option<Oid>,
    /// The file as it lies there.
    content: Vec<u8>,
}

/// The commits that a call made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepCommits {
    /// The commit with the file as it was evaluated.
    pub commit: String,
    /// The commit that takes it back, if it was.
    pub revert: Option<String>,
}

impl std::fmt::Debug for Worktree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worktree")
            .field("folder", &self.folder)
            .field("path", &self.path)
            .field("branch", &self.branch)
            .field("tip", &self.tip)
            .finish_non_exhaustive()
    }
}

impl Worktree {
    /// Opens a file of a checkout, and fails if it could not be committed.
    ///
    /// # Errors
    /// See [`WorktreeError`]; nothing was touched.
    pub fn open(file: &Path) -> Result<Self, WorktreeError> {
        let (repository, folder, path) = discover(file)?;
        let file = folder.join(&path);
        let facts = fs::symlink_metadata(&file).map_err(io("look at", &file))?;
        if !facts.is_file() {
            return Err(WorktreeError::NotPlain(path));
        }
        let content = fs::read(&file).map_err(io("read", &file))?;
        let head = repository
            .find_reference("HEAD")
            .context("read what is checked out")?;
        let reference = head
            .symbolic_target()
            .context("read what is checked out")?
            .ok_or(WorktreeError::Detached)?
            .to_owned();
        let branch = reference
            .strip_prefix("refs/heads/")
            .ok_or(WorktreeError::Detached)?
            .to_owned();
        let tip = match repository.find_reference(&reference) {
            Ok(found) => found.peel_to_commit().context("read the branch")?.id(),
            Err(error) if error.code() == ErrorCode::NotFound => {
                return Err(WorktreeError::Unborn(branch));
            }
            Err(source) => return Err(source).context("read the branch"),
        };
        drop(head);
        let mut opened = Self {
            repository,
            folder,
            path,
            branch,
            reference,
            tip,
            committed: None,
            content,
        };
        opened.committed = opened.at(tip)?;
        opened.ensure_committable()?;
        Ok(opened)
    }

    /// The checkout's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file's path in the checkout.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The branch that is checked out.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// The commit at its tip.
    pub fn tip(&self) -> String {
        self.tip.to_string()
    }

    /// The file as it lies there.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Returns true if the file differs from the version at the branch's tip.
    pub fn is_changed(&self) -> bool {
        let own = Oid::hash_object(git2::ObjectType::Blob, &self.content).ok();
        self.committed.is_none() || self.committed != own
    }

    /// Commits the file as it was when this was opened.
    ///
    /// # Errors
    /// See [`WorktreeError`]; then the branch has not moved.
    pub fn keep(&self, message: &str) -> Result<StepCommits, WorktreeError> {
        self.ensure_unchanged()?;
        let blob = self.blob(&self.content)?;
        let made = self.commit(self.tip, blob, message)?;
        self.advance(made)?;
        self.settle_index(blob)?;
        Ok(StepCommits {
            commit: made.to_string(),
            revert: None,
        })
    }

    /// Takes the file back to the version of the commit `kept`, or of the branch where the file
    /// has changed since. The version that is given up is committed first, so that it stays in the
    /// branch's history; both are one move of the branch.
    ///
    /// # Errors
    /// See [`WorktreeError`]; then the branch has not moved.
    pub fn revert(
        &self,
        kept: Option<&str>,
        message: &str,
        revert_message: impl FnOnce(&str) -> String,
    ) -> Result<StepCommits, WorktreeError> {
        self.ensure_unchanged()?;
        let nothing = || WorktreeError::NothingBefore(self.path.clone());
        let own = self.blob(&self.content)?;
        let before = if self.is_changed() {
            self.committed.ok_or_else(nothing)?
        } else {
            let kept = kept.and_then(|kept| Oid::from_str(kept).ok());
            let kept = kept.ok_or_else(nothing)?;
            self.at(kept)?
                .filter(|blob| *blob != own)
                .ok_or_else(nothing)?
        };
        let given_up = self.commit(self.tip, own, message)?;
        let back = self.commit(given_up, before, &revert_message(&given_up.to_string()))?;
        self.advance(back)?;
        // From here on the attempt is in the history, and only an unchanged file is replaced.
        self.ensure_unchanged()?;
        let text = self
            .repository
            .find_blob(before)
            .context("read the version before")?;
        self.write(text.content())?;
        self.settle_index(before)?;
        Ok(StepCommits {
            commit: given_up.to_string(),
            revert: Some(back.to_string()),
        })
    }

    /// The commits of an earlier call, found by their trailer.
    ///
    /// # Errors
    /// Git cannot be read.
    pub fn find(&self, trailer: (&str, &str)) -> Result<Option<StepCommits>, WorktreeError> {
        let mut walk = self.repository.revwalk().context("walk the branch")?;
        walk.push(self.tip).context("walk the branch")?;
        let mut revert = None;
        for id in walk.take(SEARCHED) {
            let id = id.context("walk the branch")?;
            let commit = self.repository.find_commit(id).context("read a commit")?;
            if !bears(&commit, trailer) {
                continue;
            }
            if bears_name(&commit, "Reverts") {
                revert = Some(id.to_string());
            } else {
                let commit = id.to_string();
                return Ok(Some(StepCommits { commit, revert }));
            }
        }
        Ok(None)
    }

    /// The file's blob in a commit.
    fn at(&self, commit: Oid) -> Result<Option<Oid>, WorktreeError> {
        let commit = match self.repository.find_commit(commit) {
            Ok(commit) => commit,
            Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
            Err(source) => return Err(source).context("read a commit"),
        };
        let tree = commit.tree().context("read a tree")?;
        match tree.get_path(Path::new(&self.path)) {
            Ok(entry) => Ok(Some(entry.id())),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            Err(source) => Err(source).context("read a tree"),
        }
    }

    /// Checks that git is in no unfinished operation, such as a merge, and that the file is neither ignored nor staged
    /// with other content.
    fn ensure_committable(&self) -> Result<(), WorktreeError> {
        let state = self.repository.state();
        if state != RepositoryState::Clean {
            return Err(WorktreeError::Underway {
                branch: self.branch.clone(),
                what: format!("{state:?}").to_lowercase(),
            });
        }
        let path = Path::new(&self.path);
        let ignored = self
            .repository
            .is_path_ignored(path)
            .context("read what is ignored")?;
        if ignored && self.committed.is_none() {
            return Err(WorktreeError::Ignored(self.path.clone()));
        }
        let index = self.repository.index().context("read the index")?;
        let staged = index.get_path(path, 0).map(|entry| entry.id);
        let own =
            Oid::hash_object(git2::ObjectType::Blob, &self.content).context("hash the file")?;
        let conflict = (1..=3).any(|stage| index.get_path(path, stage).is_some());
        if conflict || staged.is_some_and(|staged| staged != own && Some(staged) != self.committed)
        {
            return Err(WorktreeError::Staged(self.path.clone()));
        }
        Ok(())
    }

    /// Checks that the file still has the content that was evaluated, and that it can be committed.
    fn ensure_unchanged(&self) -> Result<(), WorktreeError> {
        self.ensure_committable()?;
        let file = self.folder.join(&self.path);
        let now = fs::read(&file).map_err(io("read", &file))?;
        if now == self.content {
            Ok(())
        } else {
            Err(WorktreeError::Changed(self.path.clone()))
        }
    }

    fn blob(&self, content: &[u8]) -> Result<Oid, WorktreeError> {
        self.repository
            .blob(content)
            .context("write the file's content")
    }

    /// A commit of the parent's tree with only this file changed. No reference moves.
    fn commit(&self, parent: Oid, blob: Oid, message: &str) -> Result<Oid, WorktreeError> {
        let parent = self
            .repository
            .find_commit(parent)
            .context("read a commit")?;
        let tree = parent.tree().context("read a tree")?;
        let tree = TreeUpdateBuilder::new()
            .upsert(self.path.as_str(), blob, FileMode::Blob)
            .create_updated(&self.repository, &tree)
            .context("put the file into the tree")?;
        let tree = self
            .repository
            .find_tree(tree)
            .context("read the new tree")?;
        let author = match self.repository.signature() {
            Ok(own) => own,
            Err(_) => Signature::now(AUTHOR.0, AUTHOR.1).context("sign a commit")?,
        };
        self.repository
            .commit(None, &author, &author, message, &tree, &[&parent])
            .context("write a commit")
    }

    /// Moves the branch from the tip that was seen.
    fn advance(&self, to: Oid) -> Result<(), WorktreeError> {
        let why = "kernelwright: evaluate";
        let moved = self
            .repository
            .reference_matching(&self.reference, to, true, self.tip, why);
        match moved {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.code(), ErrorCode::Modified | ErrorCode::Exists) => {
                Err(WorktreeError::Moved(self.branch.clone()))
            }
            Err(source) => Err(source).context("move the branch"),
        }
    }

    /// Updates this file in the index. Other staged changes stay.
    fn settle_index(&self, blob: Oid) -> Result<(), WorktreeError> {
        let mut index = self.repository.index().context("read the index")?;
        index.read(true).context("read the index")?;
        index
            .add_path(Path::new(&self.path))
            .context("note the file in the index")?;
        // Filters of the repository may have made another blob of the same file.
        if let Some(mut entry) = index.get_path(Path::new(&self.path), 0)
            && entry.id != blob
        {
            entry.id = blob;
            index.add(&entry).context("note the file in the index")?;
        }
        index.write().context("write the index")
    }

    /// Replaces the file whole.
    fn write(&self, content: &[u8]) -> Result<(), WorktreeError> {
        let file = self.folder.join(&self.path);
        let fresh = file.with_extension("kernelwright-new");
        fs::File::create(&fresh)
            .and_then(|mut fresh| fresh.write_all(content).and_then(|()| fresh.sync_all()))
            .and_then(|()| fs::rename(&fresh, &file))
            .map_err(io("write", &file))
    }
}

/// The checkout around a file and the file's path in it, without a check of their state.
///
/// # Errors
/// [`WorktreeError::NoCheckout`] where there is none.
pub fn place(file: &Path) -> Result<(PathBuf, String), WorktreeError> {
    discover(file).map(|(_, folder, path)| (folder, path))
}

fn discover(file: &Path) -> Result<(Repository, PathBuf, String), WorktreeError> {
    let no_checkout = || WorktreeError::NoCheckout(file.to_owned());
    let name = file.file_name().ok_or_else(no_checkout)?;
    let parent = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent
        .unwrap_or(Path::new("."))
        .canonicalize()
        .map_err(io("find the folder of", file))?;
    let file = parent.join(name);
    let repository = Repository::discover(&parent).map_err(|_| no_checkout())?;
    let folder = repository.workdir().ok_or_else(no_checkout)?;
    let folder = folder
        .canonicalize()
        .map_err(io("find the checkout", folder))?;
    let path = file
        .strip_prefix(&folder)
        .ok()
        .and_then(|path| path.to_str())
        .map(str::to_owned)
        .ok_or_else(no_checkout)?;
    Ok((repository, folder, path))
}

fn io<'p>(
    doing: &'static str,
    path: &'p Path,
) -> impl FnOnce(std::io::Error) -> WorktreeError + use<'p> {
    move |source| WorktreeError::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}

fn trailers(commit: &Commit<'_>) -> Vec<(String, String)> {
    let Ok(message) = commit.message() else {
        return Vec::new();
    };
    git2::message_trailers_strs(message).map_or_else(
        |_| Vec::new(),
        |trailers| {
            trailers
                .iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect()
        },
    )
}

fn bears(commit: &Commit<'_>, (name, value): (&str, &str)) -> bool {
    trailers(commit)
        .iter()
        .any(|own| own.0 == name && own.1 == value)
}

fn bears_name(commit: &Commit<'_>, name: &str) -> bool {
    trailers(commit).iter().any(|own| own.0 == name)
}
