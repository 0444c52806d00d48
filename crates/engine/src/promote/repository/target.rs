//! The check of a promotion target before a run is launched, because the promotion comes last, when
//! everything else has been paid for.

use std::path::{Component, Path};

use domain::api::PromotionTarget;
use domain::candidate::KernelSource;
use domain::patch::region;
use git2::{AttrCheckFlags, ObjectType, Repository, Status, TreeEntry};

use super::{Placed as _, RepositoryError, RepositoryPath, ensure_namespace_is_free, open};
use super::{base_commit, start_commit};
use crate::promote::namespaces;

/// The first line of the file that git stores in the place of a file in LFS.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1";
/// The mode of a symbolic link in a tree.
const SYMBOLIC_LINK: i32 = 0o120_000;

/// Checks that the winner of a task can be committed: that the repository opens and has the branch to
/// start from, that the branch can be created, and that the file can be replaced there.
///
/// # Errors
/// See [`RepositoryError`].
pub fn ensure_usable(target: &PromotionTarget, task: &str) -> Result<(), RepositoryError> {
    let at = RepositoryPath(Path::new(&target.repository));
    let repository = open(at, false)?;
    for namespace in namespaces(task) {
        ensure_namespace_is_free(&repository, &namespace)?;
    }
    let base = target.base.as_deref();
    let start = start_commit(&repository, at, base)?;
    let Some(path) = &target.path else {
        return Ok(());
    };
    let inside = |part| matches!(part, Component::Normal(name) if name != ".git");
    if path.is_empty() || path.contains('\\') || !Path::new(path).components().all(inside) {
        return Err(RepositoryError::BadPath(path.clone()));
    }
    let Some(start) = start else {
        return match &target.region {
            Some(_) => Err(missing(path, base)),
            None => Ok(()),
        };
    };
    let tree = start.tree().at(at, "read the tree")?;
    for folder in Path::new(path).ancestors().skip(1) {
        let entry = tree.get_path(folder).ok();
        if entry.is_some_and(|entry| entry.kind() == Some(ObjectType::Commit)) {
            return Err(RepositoryError::InSubmodule {
                path: path.clone(),
                submodule: folder.display().to_string(),
            });
        }
    }
    let entry = tree
        .get_path(Path::new(path))
        .map_err(|_| missing(path, base))?;
    ensure_is_file(path, &entry)?;
    let blob = repository.find_blob(entry.id()).at(at, "read a file")?;
    if blob.content().starts_with(LFS_POINTER) || is_filtered_by_lfs(&repository, path) {
        return Err(RepositoryError::InLfs(path.clone()));
    }
    let text =
        std::str::from_utf8(blob.content()).map_err(|_| RepositoryError::NotText(path.clone()))?;
    match &target.region {
        Some(name) => {
            region(text, name).map_err(|defect| RepositoryError::Region {
                path: path.clone(),
                region: name.clone(),
                defect,
            })?;
        }
        None if !text.is_empty() && KernelSource::parse(path, text).is_err() => {
            return Err(RepositoryError::NeedsRegion(path.clone()));
        }
        None => {}
    }
    let head = start_commit(&repository, at, None)?;
    let starts_at_head = match base {
        Some(base) => head.map(|head| head.id()) == Some(base_commit(&repository, at, base)?.id()),
        None => true,
    };
    if starts_at_head && has_changes(&repository, path) {
        return Err(RepositoryError::NotCommitted(path.clone()));
    }
    Ok(())
}

fn missing(path: &str, base: Option<&str>) -> RepositoryError {
    RepositoryError::FileMissing {
        path: path.to_owned(),
        start: base.unwrap_or("HEAD").to_owned(),
    }
}

fn ensure_is_file(path: &str, entry: &TreeEntry<'_>) -> Result<(), RepositoryError> {
    let what = match entry.kind() {
        Some(ObjectType::Commit) => {
            return Err(RepositoryError::InSubmodule {
                path: path.to_owned(),
                submodule: path.to_owned(),
            });
        }
        Some(ObjectType::Blob) if entry.filemode() != SYMBOLIC_LINK => return Ok(()),
        Some(ObjectType::Blob) => "a symbolic link",
        _ => "a folder",
    };
    Err(RepositoryError::NotAFile {
        path: path.to_owned(),
        what,
    })
}

/// Returns true if the repository's attributes keep the file in LFS, whatever is committed now.
fn is_filtered_by_lfs(repository: &Repository, path: &str) -> bool {
    let filter = repository.get_attr(Path::new(path), "filter", AttrCheckFlags::FILE_THEN_INDEX);
    matches!(filter, Ok(Some("lfs")))
}

/// Returns true if the file in the work tree or in the index differs from the one in `HEAD`.
fn has_changes(repository: &Repository, path: &str) -> bool {
    if repository.is_bare() {
        return false;
    }
    let status = repository.status_file(Path::new(path));
    status.is_ok_and(|status| !(status - Status::IGNORED).is_empty())
}
