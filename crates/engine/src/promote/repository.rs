//! Commits in a repository's object store. No work tree, index or host setting is ever touched,
//! and a branch only moves if its tip is the expected one.

mod error;
mod target;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use domain::patch::replace_region;
use git2::build::TreeUpdateBuilder;
use git2::{Commit, ErrorCode, FileMode, Oid, Repository, Signature, Time, Tree, TreeEntry};

pub use error::RepositoryError;
pub use target::ensure_usable;

/// The author's name in commits.
const AUTHOR: &str = "Kernelwright";

/// The commit at a branch's tip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tip(pub String);

/// A file of a commit.
#[derive(Debug, Clone)]
pub struct File {
    /// Its path in the tree.
    pub path: String,
    /// Its bytes, or those of its region.
    pub content: Vec<u8>,
    /// The region whose lines are replaced; none for the whole file.
    pub region: Option<String>,
}

/// A commit to make.
#[derive(Debug, Clone)]
pub struct Change {
    /// The repository, bare or not.
    pub repository: PathBuf,
    /// True if a missing repository is created, bare.
    pub create: bool,
    /// The branch a new branch starts from; when absent `HEAD`, or an empty history if there is no
    /// commit.
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

/// The top folder of the work tree that a file is in; `None` outside of repositories.
pub fn work_tree_of(file: &Path) -> Option<PathBuf> {
    let repository = Repository::discover(file.parent()?).ok()?;
    Some(repository.workdir()?.to_owned())
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
    let start = match &tip {
        Some(tip) => Some(tip.clone()),
        None => start_commit(&repository, at, change.base.as_deref())?,
    };
    let tree = match &start {
        Some(start) => start.tree().at(at, "read the tree")?,
        None => empty_tree(&repository, at)?,
    };
    let mut update = TreeUpdateBuilder::new();
    for file in &change.files {
        let known = tree.get_path(Path::new(&file.path)).ok();
        let executable = known
            .as_ref()
            .is_some_and(|entry| entry.filemode() == i32::from(FileMode::BlobExecutable));
        let mode = if executable {
            FileMode::BlobExecutable
        } else {
            FileMode::Blob
        };
        let content = content(&repository, at, known.as_ref(), file)?;
        let blob = repository.blob(&content).at(at, "write a file's content")?;
        update.upsert(file.path.as_str(), blob, mode);
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

/// The new bytes of a file, of which a region may be all that changes.
fn content<'f>(
    repository: &Repository,
    at: RepositoryPath<'_>,
    known: Option<&TreeEntry<'_>>,
    file: &'f File,
) -> Result<Cow<'f, [u8]>, RepositoryError> {
    let (Some(region), Some(known)) = (&file.region, known) else {
        return Ok(Cow::Borrowed(&file.content));
    };
    let blob = repository.find_blob(known.id()).at(at, "read a file")?;
    let not_text = |_| RepositoryError::NotText(file.path.clone());
    let text = std::str::from_utf8(blob.content()).map_err(not_text)?;
    let lines = std::str::from_utf8(&file.content).map_err(not_text)?;
    let replaced =
        replace_region(text, region, lines).map_err(|defect| RepositoryError::Region {
            path: file.path.clone(),
            region: region.clone(),
            defect,
        })?;
    Ok(Cow::Owned(replaced.into_bytes()))
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
pub(super) struct RepositoryPath<'a>(pub(super) &'a Path);

pub(super) trait Placed<T> {
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

pub(super) fn open(at: RepositoryPath<'_>, create: bool) -> Result<Repository, RepositoryError> {
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
        ensure_namespace_is_free(self.repository, self.name)?;
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

/// Fails if a branch has the name of a folder of another.
fn ensure_namespace_is_free(repository: &Repository, branch: &str) -> Result<(), RepositoryError> {
    for (end, _) in branch.match_indices('/') {
        let folder = &branch[..end];
        let reference = format!("refs/heads/{folder}");
        if repository.find_reference(&reference).is_ok() {
            return Err(RepositoryError::NamespaceBlocked {
                branch: branch.to_owned(),
                blocking: folder.to_owned(),
            });
        }
    }
    Ok(())
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

/// The commit that a new branch starts from: the base's, else that of `HEAD`; none where there is no
/// commit.
fn start_commit<'r>(
    repository: &'r Repository,
    at: RepositoryPath<'_>,
    base: Option<&str>,
) -> Result<Option<Commit<'r>>, RepositoryError> {
    if let Some(base) = base {
        return base_commit(repository, at, base).map(Some);
    }
    match repository.head() {
        Ok(head) => head.peel_to_commit().map(Some).at(at, "read HEAD"),
        Err(error) if matches!(error.code(), ErrorCode::UnbornBranch | ErrorCode::NotFound) => {
            Ok(None)
        }
        Err(source) => Err(source).at(at, "read HEAD"),
    }
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
