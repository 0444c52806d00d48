//! Commits in a repository's object store. No work tree, index or host setting is ever touched,
//! and a branch only moves if its tip is the expected one.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use git2::build::TreeUpdateBuilder;
use git2::{Commit, ErrorCode, FileMode, Oid, Repository, Signature, Time, Tree};

/// The author's name in commits.
const AUTHOR: &str = "Kernelwright";

/// The reason why a commit cannot be made. Messages read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// The path does not exist.
    #[error("find the repository {}: create it with `git init`, or name another one", .0.display())]
    Missing(PathBuf),
    /// Something else is there.
    #[error(
        "open {} as a git repository: it is none; create one with `git init`, or name another", .0.display()
    )]
    NotARepository(PathBuf),
    /// It belongs to another user.
    #[error(
        "open the repository {}: it belongs to another user; change its owner, or add it to git's safe.directory", .0.display()
    )]
    ForeignOwned(PathBuf),
    /// The branch to start from does not exist.
    #[error("find the base branch {base} in {}: create it, or name another base", repository.display())]
    BaseMissing {
        /// The repository.
        repository: PathBuf,
        /// The branch.
        base: String,
    },
    /// Someone works on the branch.
    #[error(
        "move the branch {branch}: it is checked out in {}; check out another branch there", worktree.display()
    )]
    CheckedOut {
        /// The branch.
        branch: String,
        /// The folder where it is checked out.
        worktree: PathBuf,
    },
    /// Someone else moved the branch.
    #[error(
        "move the branch {branch}: its tip is {found} where {expected} was expected; rename the branch that someone else made or moved, then resume the run"
    )]
    Moved {
        /// The branch.
        branch: String,
        /// The commit that was left there.
        expected: String,
        /// The commit at the tip now.
        found: String,
    },
    /// A branch bears the name of the folder that the branch needs.
    #[error(
        "create the branch {branch}: a branch named {blocking} is in its way; rename it with `git branch -m`"
    )]
    NamespaceBlocked {
        /// The branch to be.
        branch: String,
        /// The one in its way.
        blocking: String,
    },
    /// The branch's name is none that git takes.
    #[error("name a branch {0}: git does not take that name; rename the task")]
    BadName(String),
    /// The file's path collides with what is in the tree.
    #[error("put {path} into the tree: something else is in its way; name another promotion path")]
    PathBlocked {
        /// The path.
        path: String,
        /// Git's words.
        source: git2::Error,
    },
    /// Anything else that git refuses.
    #[error("{doing} in {}", repository.display())]
    Git {
        /// The operation that failed.
        doing: &'static str,
        /// The repository.
        repository: PathBuf,
        /// Git's words.
        source: git2::Error,
    },
}

/// The commit at a branch's tip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tip(pub String);

/// A file of a commit.
#[derive(Debug, Clone)]
pub struct File {
    /// Its path in the tree.
    pub path: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// A commit to make.
#[derive(Debug, Clone)]
pub struct Change {
    /// The repository, bare or not.
    pub repository: PathBuf,
    /// True if a missing repository is created, bare.
    pub create: bool,
    /// The branch a new branch starts from; an empty history when absent.
    pub base: Option<String>,
    /// The branch.
    pub branch: String,
    /// The commit that must be at its tip; none for a branch that must not exist.
    pub expected_tip: Option<String>,
    /// The files that change.
    pub files: Vec<File>,
    /// The message, with its trailers.
    pub message: String,
    /// Trailers that tell that a commit at the tip is this one.
    pub identity: Vec<(String, String)>,
    /// The author's address.
    pub author_email: String,
    /// The commit's time.
    pub at: DateTime<Utc>,
}

/// A commit that takes another back.
#[derive(Debug, Clone)]
pub struct Revert {
    /// The repository.
    pub repository: PathBuf,
    /// The branch.
    pub branch: String,
    /// The commit to take back, which must be at its tip.
    pub commit: String,
    /// The message, with its trailers.
    pub message: String,
    /// The author's address.
    pub author_email: String,
    /// The commit's time.
    pub at: DateTime<Utc>,
}

/// Checks that a repository can be opened and has the base branch, before a run promotes to it.
///
/// # Errors
/// See [`RepositoryError`].
pub fn ensure_usable(path: &Path, base: Option<&str>) -> Result<(), RepositoryError> {
    let at = RepositoryPath(path);
    let repository = open(at, false)?;
    if let Some(base) = base {
        base_commit(&repository, at, base)?;
    }
    Ok(())
}

/// Makes a commit on a branch; if it is at the tip already, only finds it.
///
/// # Errors
/// See [`RepositoryError`]; then no branch has moved.
pub fn commit(change: &Change) -> Result<Tip, RepositoryError> {
    let at = RepositoryPath(&change.repository);
    let repository = open(at, change.create)?;
    let branch = Branch::new(&repository, at, &change.branch)?;
    let tip = branch.tip()?;
    if let Some(tip) = &tip
        && has_trailers(tip, &change.identity)
    {
        return Ok(Tip(tip.id().to_string()));
    }
    branch.expect(tip.as_ref(), change.expected_tip.as_deref())?;
    branch.ensure_free()?;
    let start = match (&tip, &change.base) {
        (Some(tip), _) => Some(tip.clone()),
        (None, Some(base)) => Some(base_commit(&repository, at, base)?),
        (None, None) => None,
    };
    let tree = match &start {
        Some(start) => start.tree().at(at, "read the tree")?,
        None => empty_tree(&repository, at)?,
    };
    let mut update = TreeUpdateBuilder::new();
    for file in &change.files {
        let blob = repository
            .blob(&file.content)
            .at(at, "write a file's content")?;
        update.upsert(file.path.as_str(), blob, FileMode::Blob);
    }
    let tree = update
        .create_updated(&repository, &tree)
        .map_err(|source| RepositoryError::PathBlocked {
            path: change
                .files
                .first()
                .map(|file| file.path.clone())
                .unwrap_or_default(),
            source,
        })?;
    let tree = repository.find_tree(tree).at(at, "read the new tree")?;
    let parents = start.iter().collect::<Vec<_>>();
    let author = author(at, &change.author_email, change.at)?;
    let made = repository
        .commit(None, &author, &author, &change.message, &tree, &parents)
        .at(at, "write a commit")?;
    branch.advance(tip.as_ref(), made)
}

/// Takes a commit back by a new one; if that is at the tip already, only finds it.
///
/// # Errors
/// See [`RepositoryError`]; then no branch has moved.
pub fn revert(revert: &Revert) -> Result<Tip, RepositoryError> {
    let at = RepositoryPath(&revert.repository);
    let repository = open(at, false)?;
    let branch = Branch::new(&repository, at, &revert.branch)?;
    let tip = branch.tip()?;
    let identity = [("Reverts".to_owned(), revert.commit.clone())];
    if let Some(tip) = &tip
        && has_trailers(tip, &identity)
    {
        return Ok(Tip(tip.id().to_string()));
    }
    branch.expect(tip.as_ref(), Some(&revert.commit))?;
    branch.ensure_free()?;
    let Some(tip) = tip else {
        return Err(branch.moved(None, Some(&revert.commit)));
    };
    let tree = match tip.parents().next() {
        Some(before) => before.tree().at(at, "read the tree before")?,
        None => empty_tree(&repository, at)?,
    };
    let author = author(at, &revert.author_email, revert.at)?;
    let made = repository
        .commit(None, &author, &author, &revert.message, &tree, &[&tip])
        .at(at, "write a commit")?;
    branch.advance(Some(&tip), made)
}

/// The repository's path, for errors.
#[derive(Clone, Copy)]
struct RepositoryPath<'a>(&'a Path);

trait Placed<T> {
    fn at(self, place: RepositoryPath<'_>, doing: &'static str) -> Result<T, RepositoryError>;
}

impl<T> Placed<T> for Result<T, git2::Error> {
    fn at(self, place: RepositoryPath<'_>, doing: &'static str) -> Result<T, RepositoryError> {
        self.map_err(|source| RepositoryError::Git {
            doing,
            repository: place.0.to_owned(),
            source,
        })
    }
}

fn open(at: RepositoryPath<'_>, create: bool) -> Result<Repository, RepositoryError> {
    match Repository::open(at.0) {
        Ok(repository) => Ok(repository),
        Err(error) if error.code() == ErrorCode::Owner => {
            Err(RepositoryError::ForeignOwned(at.0.to_owned()))
        }
        Err(error) if error.code() == ErrorCode::NotFound => {
            let empty = std::fs::read_dir(at.0).is_ok_and(|mut entries| entries.next().is_none());
            if create && (empty || !at.0.exists()) {
                Repository::init_bare(at.0).at(at, "create a repository")
            } else if at.0.exists() {
                Err(RepositoryError::NotARepository(at.0.to_owned()))
            } else {
                Err(RepositoryError::Missing(at.0.to_owned()))
            }
        }
        Err(source) => Err(source).at(at, "open the repository"),
    }
}

/// A branch that is about to move.
struct Branch<'r> {
    repository: &'r Repository,
    at: RepositoryPath<'r>,
    name: &'r str,
    reference: String,
}

impl<'r> Branch<'r> {
    fn new(
        repository: &'r Repository,
        at: RepositoryPath<'r>,
        name: &'r str,
    ) -> Result<Self, RepositoryError> {
        let reference = format!("refs/heads/{name}");
        if !git2::Reference::is_valid_name(&reference) {
            return Err(RepositoryError::BadName(name.to_owned()));
        }
        Ok(Self {
            repository,
            at,
            name,
            reference,
        })
    }

    fn tip(&self) -> Result<Option<Commit<'r>>, RepositoryError> {
        match self.repository.find_reference(&self.reference) {
            Ok(reference) => reference
                .peel_to_commit()
                .map(Some)
                .at(self.at, "read the branch"),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            Err(source) => Err(source).at(self.at, "read the branch"),
        }
    }

    fn expect(
        &self,
        found: Option<&Commit<'_>>,
        expected: Option<&str>,
    ) -> Result<(), RepositoryError> {
        let same = found.map(|commit| commit.id().to_string()).as_deref() == expected;
        if same {
            Ok(())
        } else {
            Err(self.moved(found.map(Commit::id), expected))
        }
    }

    fn moved(&self, found: Option<Oid>, expected: Option<&str>) -> RepositoryError {
        RepositoryError::Moved {
            branch: self.name.to_owned(),
            expected: expected.unwrap_or("none").to_owned(),
            found: found.map_or_else(|| "none".to_owned(), |id| id.to_string()),
        }
    }

    /// Fails if the branch is checked out anywhere, or if another branch has the name of one of its
    /// folders.
    fn ensure_free(&self) -> Result<(), RepositoryError> {
        for (end, _) in self.name.match_indices('/') {
            let folder = &self.name[..end];
            if self
                .repository
                .find_reference(&format!("refs/heads/{folder}"))
                .is_ok()
            {
                return Err(RepositoryError::NamespaceBlocked {
                    branch: self.name.to_owned(),
                    blocking: folder.to_owned(),
                });
            }
        }
        // A linked worktree may have been named: its main repository knows all the others.
        let main = Repository::open(self.repository.commondir())
            .at(self.at, "open the main repository")?;
        self.ensure_not_checked_out_in(&main)?;
        for name in main.worktrees().at(self.at, "list the worktrees")?.iter() {
            let Ok(Some(name)) = name else { continue };
            // One whose folder is gone has nothing checked out.
            let Ok(worktree) = main.find_worktree(name) else {
                continue;
            };
            if let Ok(linked) = Repository::open_from_worktree(&worktree) {
                self.ensure_not_checked_out_in(&linked)?;
            }
        }
        Ok(())
    }

    fn ensure_not_checked_out_in(&self, repository: &Repository) -> Result<(), RepositoryError> {
        let Some(folder) = repository.workdir() else {
            return Ok(());
        };
        let head = repository
            .find_reference("HEAD")
            .at(self.at, "read what is checked out")?;
        let target = head
            .symbolic_target()
            .at(self.at, "read what is checked out")?;
        if target == Some(self.reference.as_str()) {
            return Err(RepositoryError::CheckedOut {
                branch: self.name.to_owned(),
                worktree: folder.to_owned(),
            });
        }
        Ok(())
    }

    /// Moves the branch from `tip` to `made`, unless it has moved meanwhile.
    fn advance(&self, tip: Option<&Commit<'_>>, made: Oid) -> Result<Tip, RepositoryError> {
        let why = "kernelwright: promotion";
        let moved = match tip {
            Some(tip) => {
                self.repository
                    .reference_matching(&self.reference, made, true, tip.id(), why)
            }
            None => self.repository.reference(&self.reference, made, false, why),
        };
        match moved {
            Ok(_) => Ok(Tip(made.to_string())),
            Err(error) if matches!(error.code(), ErrorCode::Modified | ErrorCode::Exists) => {
                let found = self.tip()?.map(|commit| commit.id());
                let expected = tip.map(|commit| commit.id().to_string());
                Err(self.moved(found, expected.as_deref()))
            }
            Err(source) => Err(source).at(self.at, "move the branch"),
        }
    }
}

/// Returns true if a commit has all these trailers.
fn has_trailers(commit: &Commit<'_>, identity: &[(String, String)]) -> bool {
    let Ok(message) = commit.message() else {
        return false;
    };
    let Ok(trailers) = git2::message_trailers_strs(message) else {
        return false;
    };
    identity.iter().all(|(name, value)| {
        trailers
            .iter()
            .any(|own| own == (name.as_str(), value.as_str()))
    })
}

fn base_commit<'r>(
    repository: &'r Repository,
    at: RepositoryPath<'_>,
    base: &str,
) -> Result<Commit<'r>, RepositoryError> {
    match repository.find_branch(base, git2::BranchType::Local) {
        Ok(branch) => branch.get().peel_to_commit().at(at, "read the base branch"),
        Err(_) => Err(RepositoryError::BaseMissing {
            repository: at.0.to_owned(),
            base: base.to_owned(),
        }),
    }
}

fn empty_tree<'r>(
    repository: &'r Repository,
    at: RepositoryPath<'_>,
) -> Result<Tree<'r>, RepositoryError> {
    let empty = repository
        .treebuilder(None)
        .and_then(|builder| builder.write())
        .at(at, "write an empty tree")?;
    repository.find_tree(empty).at(at, "read an empty tree")
}

fn author(
    at: RepositoryPath<'_>,
    email: &str,
    time: DateTime<Utc>,
) -> Result<Signature<'static>, RepositoryError> {
    Signature::new(AUTHOR, email, &Time::new(time.timestamp(), 0)).at(at, "sign a commit")
}
