//! The reasons why a repository takes no promotion.

use std::path::PathBuf;

use domain::patch::RegionDefect;

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
    /// The path does not stay inside the repository.
    #[error(
        "use the promotion path {0}: name a relative path inside the repository, such as src/kernel.cu"
    )]
    BadPath(String),
    /// The file does not exist where the branch starts.
    #[error("find {path} in {start}: commit it there, or name a file that is there")]
    FileMissing {
        /// The path.
        path: String,
        /// The branch or `HEAD`.
        start: String,
    },
    /// The path names something else than a file.
    #[error("replace {path}: it is {what}; name a file")]
    NotAFile {
        /// The path.
        path: String,
        /// The kind of thing that it names, such as "a folder".
        what: &'static str,
    },
    /// The file belongs to another repository.
    #[error(
        "replace {path}: it lies in the submodule {submodule}; promote to the submodule's own repository"
    )]
    InSubmodule {
        /// The path.
        path: String,
        /// The submodule's path.
        submodule: String,
    },
    /// Git stores a pointer in the file's place.
    #[error(
        "replace {0}: git keeps it in LFS; take it out (`git lfs untrack`) and commit it, or name another path"
    )]
    InLfs(String),
    /// The work tree has another version than the commit that the branch starts from.
    #[error(
        "replace {0}: it has changes that are not committed, and the branch would not have them; commit or stash them"
    )]
    NotCommitted(String),
    /// The whole file would be replaced, though it holds more than a kernel.
    #[error(
        "replace {0}: it is no kernel file with a launch plan; mark the lines to replace with \
         `// region: NAME` and `// endregion`, commit that, and name the region"
    )]
    NeedsRegion(String),
    /// The region cannot be replaced.
    #[error("replace the region {region} of {path}: the file {defect}")]
    Region {
        /// The path.
        path: String,
        /// The region's name.
        region: String,
        /// The defect.
        defect: RegionDefect,
    },
    /// The file with the region is not UTF-8.
    #[error("read {0}: it is not UTF-8 text; save it as UTF-8")]
    NotText(String),
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
