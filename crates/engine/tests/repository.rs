//! Commits and reverts in real repositories, and every way in which one refuses.

#![expect(
    clippy::unwrap_used,
    reason = "the tests' own preparations fail the test too"
)]

use std::path::{Path, PathBuf};

use chrono::DateTime;
use engine::promote::repository::{Change, File, RepositoryError, Revert, Tip, commit, revert};
use git2::{Repository, Signature, Time};

const BRANCH: &str = "kernelwright-modelled/fill/0123456789ab";

fn change(repository: &Path) -> Change {
    Change {
        repository: repository.to_owned(),
        create: false,
        base: None,
        branch: BRANCH.to_owned(),
        expected_tip: None,
        files: vec![File {
            path: "kernels/fill.cu".to_owned(),
            content: b"winner \xff\r\n".to_vec(),
            region: None,
        }],
        message: "fill: split\n\nCandidate: cand_1\nVerdict-Digest: d1\n".to_owned(),
        identity: vec![
            ("Candidate".to_owned(), "cand_1".to_owned()),
            ("Verdict-Digest".to_owned(), "d1".to_owned()),
        ],
        author_email: "kernelwright@example.com".to_owned(),
        at: DateTime::UNIX_EPOCH,
    }
}

fn another(repository: &Path, expected: &Tip) -> Change {
    let mut next = change(repository);
    next.expected_tip = Some(expected.0.clone());
    next.message = "fill: wider\n\nCandidate: cand_2\nVerdict-Digest: d2\n".to_owned();
    next.identity = vec![("Candidate".to_owned(), "cand_2".to_owned())];
    next.files[0].content = b"wider".to_vec();
    next
}

fn take_back(repository: &Path, tip: &Tip) -> Revert {
    Revert {
        repository: repository.to_owned(),
        branch: BRANCH.to_owned(),
        commit: tip.0.clone(),
        message: format!("Take back\n\nReverts: {}\n", tip.0),
        author_email: "kernelwright@example.com".to_owned(),
        at: DateTime::UNIX_EPOCH,
    }
}

/// A repository with a work tree, whose branch `main` holds one file.
fn with_main(path: &Path) -> Repository {
    let mut options = git2::RepositoryInitOptions::new();
    options.initial_head("main");
    let repository = Repository::init_opts(path, &options).unwrap();
    {
        let blob = repository.blob(b"theirs").unwrap();
        let mut tree = repository.treebuilder(None).unwrap();
        tree.insert("README", blob, 0o100_644).unwrap();
        let tree = repository.find_tree(tree.write().unwrap()).unwrap();
        let author = Signature::new("Ada", "ada@example.com", &Time::new(0, 0)).unwrap();
        repository
            .commit(Some("refs/heads/main"), &author, &author, "One", &tree, &[])
            .unwrap();
    }
    repository
}

fn tip(repository: &Repository) -> Option<String> {
    let reference = repository.find_reference(&format!("refs/heads/{BRANCH}"));
    reference.ok()?.target().map(|id| id.to_string())
}

fn file(repository: &Repository, tip: &Tip, path: &str) -> Option<Vec<u8>> {
    let commit = repository.find_commit(tip.0.parse().unwrap()).unwrap();
    let entry = commit.tree().unwrap().get_path(Path::new(path)).ok()?;
    let blob = repository.find_blob(entry.id()).unwrap();
    Some(blob.content().to_vec())
}

#[test]
fn the_winners_exact_bytes_are_committed_on_top_of_the_base_and_no_work_tree_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let repository = with_main(folder.path());
    std::fs::write(folder.path().join("dirty"), "unsaved").unwrap();
    let mut change = change(folder.path());
    change.base = Some("main".to_owned());
    let made = commit(&change).unwrap();
    assert_eq!(tip(&repository), Some(made.0.clone()));
    let winner = file(&repository, &made, "kernels/fill.cu");
    assert_eq!(winner.as_deref(), Some(b"winner \xff\r\n".as_slice()));
    let theirs = file(&repository, &made, "README");
    assert_eq!(theirs.as_deref(), Some(b"theirs".as_slice()));
    assert!(!folder.path().join("kernels").exists());
    let commit = repository.find_commit(made.0.parse().unwrap()).unwrap();
    assert_eq!(commit.author().name().unwrap(), "Kernelwright");
    assert_eq!(
        commit.committer().email().unwrap(),
        "kernelwright@example.com"
    );
}

#[test]
fn a_commit_that_was_made_but_not_recorded_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    Repository::init_bare(folder.path()).unwrap();
    let first = commit(&change(folder.path())).unwrap();
    let mut later = change(folder.path());
    later.at = DateTime::UNIX_EPOCH + chrono::TimeDelta::days(1);
    assert_eq!(commit(&later).unwrap(), first);
}

#[test]
fn a_better_winner_follows_and_can_be_taken_back_by_one_further_commit() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::init_bare(folder.path()).unwrap();
    let first = commit(&change(folder.path())).unwrap();
    let second = commit(&another(folder.path(), &first)).unwrap();
    let back = revert(&take_back(folder.path(), &second)).unwrap();
    let winner = file(&repository, &back, "kernels/fill.cu");
    assert_eq!(winner.as_deref(), Some(b"winner \xff\r\n".as_slice()));
    let commit = repository.find_commit(back.0.parse().unwrap()).unwrap();
    assert_eq!(commit.parent_id(0).unwrap().to_string(), second.0);
    assert_eq!(revert(&take_back(folder.path(), &second)).unwrap(), back);
}

#[test]
fn a_missing_repository_is_made_only_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("promotions.git");
    let refused = commit(&change(&path)).unwrap_err();
    assert!(matches!(refused, RepositoryError::Missing(_)), "{refused}");
    let mut create = change(&path);
    create.create = true;
    commit(&create).unwrap();
    assert!(Repository::open(&path).unwrap().is_bare());
}

#[test]
fn a_folder_that_is_no_repository_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("letter"), "dear").unwrap();
    for create in [false, true] {
        let mut change = change(folder.path());
        change.create = create;
        let refused = commit(&change).unwrap_err();
        assert!(
            matches!(refused, RepositoryError::NotARepository(_)),
            "{refused}"
        );
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_missing_base_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let repository = with_main(folder.path());
    let mut change = change(folder.path());
    change.base = Some("trunk".to_owned());
    let refused = commit(&change).unwrap_err();
    assert!(
        matches!(&refused, RepositoryError::BaseMissing { base, .. } if base == "trunk"),
        "{refused}"
    );
    assert_eq!(tip(&repository), None);
}

#[test]
fn a_branch_named_like_the_namespace_is_named() {
    for blocking in ["kernelwright-modelled", "kernelwright-modelled/fill"] {
        let folder = tempfile::tempdir().unwrap();
        let repository = with_main(folder.path());
        let main = repository.head().unwrap().peel_to_commit().unwrap();
        repository.branch(blocking, &main, false).unwrap();
        let refused = commit(&change(folder.path())).unwrap_err();
        assert!(
            matches!(&refused, RepositoryError::NamespaceBlocked { blocking: found, .. } if found == blocking),
            "{refused}"
        );
    }
}

#[test]
fn a_branch_checked_out_in_any_worktree_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let main = folder.path().join("main");
    let repository = with_main(&main);
    let first = commit(&change(&main)).unwrap();
    repository
        .set_head(&format!("refs/heads/{BRANCH}"))
        .unwrap();
    let linked = folder.path().join("linked");
    let refused = |path: &Path| commit(&another(path, &first)).unwrap_err();
    let worktree = |error: RepositoryError| match error {
        RepositoryError::CheckedOut { worktree, .. } => worktree.canonicalize().unwrap(),
        other => panic!("checked out, but it is {other}"),
    };
    let canonical = |path: &PathBuf| path.canonicalize().unwrap();
    assert_eq!(worktree(refused(&main)), canonical(&main));

    repository.set_head("refs/heads/main").unwrap();
    let branch = repository.find_reference(&format!("refs/heads/{BRANCH}"));
    let branch = branch.unwrap();
    let mut options = git2::WorktreeAddOptions::new();
    options.reference(Some(&branch));
    repository
        .worktree("linked", &linked, Some(&options))
        .unwrap();
    assert_eq!(worktree(refused(&main)), canonical(&linked));
    // Named through the linked worktree, the main one counts as well.
    assert_eq!(worktree(refused(&linked)), canonical(&linked));
    let taken = revert(&take_back(&main, &first)).unwrap_err();
    assert_eq!(worktree(taken), canonical(&linked));
    assert_eq!(tip(&repository), Some(first.0));
}

#[test]
fn a_branch_that_someone_else_moved_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let repository = with_main(folder.path());
    let first = commit(&change(folder.path())).unwrap();
    let theirs = repository.head().unwrap().peel_to_commit().unwrap();
    let name = format!("refs/heads/{BRANCH}");
    repository
        .reference(&name, theirs.id(), true, "theirs")
        .unwrap();
    for refused in [
        commit(&another(folder.path(), &first)).unwrap_err(),
        commit(&change(folder.path())).unwrap_err(),
        revert(&take_back(folder.path(), &first)).unwrap_err(),
    ] {
        assert!(
            matches!(refused, RepositoryError::Moved { .. }),
            "{refused}"
        );
    }
    assert_eq!(tip(&repository), Some(theirs.id().to_string()));
    repository.find_reference(&name).unwrap().delete().unwrap();
    let refused = commit(&another(folder.path(), &first)).unwrap_err();
    assert!(refused.to_string().contains("its tip is none"), "{refused}");
}

#[test]
fn a_file_in_the_way_of_the_path_is_named() {
    let folder = tempfile::tempdir().unwrap();
    with_main(folder.path());
    let mut change = change(folder.path());
    change.base = Some("main".to_owned());
    change.files[0].path = "README/fill.cu".to_owned();
    let refused = commit(&change).unwrap_err();
    assert!(
        matches!(refused, RepositoryError::PathBlocked { .. }),
        "{refused}"
    );
}

#[test]
fn a_name_that_git_does_not_take_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    Repository::init_bare(folder.path()).unwrap();
    let mut change = change(folder.path());
    change.branch = "kernelwright-modelled/a..b/1".to_owned();
    let refused = commit(&change).unwrap_err();
    assert!(matches!(refused, RepositoryError::BadName(_)), "{refused}");
}

/// Needs the right to give a folder away, which the tests' user may lack: then nothing is shown.
#[test]
fn a_repository_of_another_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign");
    Repository::init_bare(&path).unwrap();
    if std::os::unix::fs::chown(&path, Some(12_345), None).is_err() {
        eprintln!("skipped: this user may not change a folder's owner");
        return;
    }
    let refused = commit(&change(&path)).unwrap_err();
    assert!(
        matches!(refused, RepositoryError::ForeignOwned(_)),
        "{refused}"
    );
}
