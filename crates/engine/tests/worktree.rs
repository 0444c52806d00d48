//! The author's checkout: what is kept is committed, what goes back goes back in git, and nothing
//! of the author's is lost.

#![expect(
    clippy::unwrap_used,
    reason = "the tests' own preparations fail the test too"
)]

use std::fs;
use std::path::PathBuf;

use engine::promote::worktree::{Worktree, WorktreeError};
use git2::{IndexAddOption, Repository, RepositoryInitOptions, Signature};

const FILE: &str = "kernels/own.cu";
const TRAILER: (&str, &str) = ("Kernelwright-Iteration", "7");

struct Checkout {
    folder: tempfile::TempDir,
    repository: Repository,
}

impl Checkout {
    /// With the file and another one, committed.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = RepositoryInitOptions::new();
        options.initial_head("work");
        let repository = Repository::init_opts(folder.path(), &options).unwrap();
        let checkout = Self { folder, repository };
        fs::create_dir(checkout.folder.path().join("kernels")).unwrap();
        checkout.write(FILE, "first");
        checkout.write("notes.txt", "notes");
        checkout.commit_all("start");
        checkout
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join(FILE)
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.folder.path().join(path), text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.folder.path().join(path)).unwrap()
    }

    fn stage(&self, path: &str) {
        let mut index = self.repository.index().unwrap();
        index.add_path(path.as_ref()).unwrap();
        index.write().unwrap();
    }

    fn commit_all(&self, message: &str) {
        let mut index = self.repository.index().unwrap();
        index.add_all(["*"], IndexAddOption::DEFAULT, None).unwrap();
        index.write().unwrap();
        let tree = self
            .repository
            .find_tree(index.write_tree().unwrap())
            .unwrap();
        let author = Signature::now("A", "a@localhost").unwrap();
        let parent = self
            .repository
            .head()
            .ok()
            .map(|head| head.peel_to_commit().unwrap());
        let parents = parent.iter().collect::<Vec<_>>();
        self.repository
            .commit(Some("HEAD"), &author, &author, message, &tree, &parents)
            .unwrap();
    }

    /// The file's text in the commits of the branch, the newest first.
    fn history(&self) -> Vec<String> {
        let mut walk = self.repository.revwalk().unwrap();
        walk.set_sorting(git2::Sort::TOPOLOGICAL).unwrap();
        walk.push_head().unwrap();
        walk.map(|id| {
            let commit = self.repository.find_commit(id.unwrap()).unwrap();
            let entry = commit.tree().unwrap().get_path(FILE.as_ref()).unwrap();
            let blob = self.repository.find_blob(entry.id()).unwrap();
            String::from_utf8(blob.content().to_vec()).unwrap()
        })
        .collect()
    }

    /// Paths with their states, as `git status` has them.
    fn status(&self) -> Vec<(String, git2::Status)> {
        let statuses = self.repository.statuses(None).unwrap();
        statuses
            .iter()
            .map(|entry| (entry.path().unwrap().to_owned(), entry.status()))
            .collect()
    }
}

fn message(what: &str) -> String {
    format!("{what}\n\n{}: {}\n", TRAILER.0, TRAILER.1)
}

fn taken_back(commit: &str) -> String {
    format!("back\n\n{}: {}\nReverts: {commit}\n", TRAILER.0, TRAILER.1)
}

#[test]
fn a_kept_file_is_committed_and_nothing_else_is() {
    let checkout = Checkout::new();
    checkout.write(FILE, "second");
    checkout.write("notes.txt", "staged");
    checkout.stage("notes.txt");
    checkout.write("notes.txt", "not staged");
    checkout.write("new.txt", "new");
    let before = checkout.status();
    let worktree = Worktree::open(&checkout.file()).unwrap();
    assert!(worktree.is_changed());
    let moved = worktree.keep(&message("keep")).unwrap();
    assert_eq!(checkout.history(), ["second", "first"]);
    let after = checkout.status();
    let own = before.into_iter().filter(|(path, _)| path != FILE);
    assert_eq!(after, own.collect::<Vec<_>>());
    assert_eq!(checkout.read("notes.txt"), "not staged");

    let again = Worktree::open(&checkout.file()).unwrap();
    assert!(!again.is_changed());
    assert_eq!(again.find(TRAILER).unwrap(), Some(moved));
    assert_eq!(again.find(("Kernelwright-Iteration", "8")).unwrap(), None);
}

#[test]
fn what_goes_back_stays_in_the_history() {
    let checkout = Checkout::new();
    checkout.write(FILE, "worse");
    checkout.write("notes.txt", "uncommitted");
    let worktree = Worktree::open(&checkout.file()).unwrap();
    let moved = worktree.revert(None, &message("try"), taken_back).unwrap();
    assert_eq!(checkout.history(), ["first", "worse", "first"]);
    assert_eq!(checkout.read(FILE), "first");
    assert_eq!(checkout.read("notes.txt"), "uncommitted");
    let left = checkout.status().into_iter().map(|(path, _)| path);
    assert_eq!(left.collect::<Vec<_>>(), ["notes.txt"]);
    let again = Worktree::open(&checkout.file()).unwrap();
    assert_eq!(again.find(TRAILER).unwrap(), Some(moved));
}

#[test]
fn a_committed_file_goes_back_to_the_commit_that_was_kept() {
    let checkout = Checkout::new();
    let kept = Worktree::open(&checkout.file()).unwrap().tip();
    checkout.write(FILE, "worse");
    checkout.commit_all("by hand");
    let worktree = Worktree::open(&checkout.file()).unwrap();
    let refused = worktree.revert(None, &message("try"), taken_back);
    assert!(matches!(refused, Err(WorktreeError::NothingBefore(_))));
    assert_eq!(checkout.history().len(), 2);
    worktree
        .revert(Some(&kept), &message("try"), taken_back)
        .unwrap();
    assert_eq!(checkout.read(FILE), "first");
    assert_eq!(checkout.history()[0], "first");
    assert!(checkout.status().is_empty());
}

#[test]
fn a_new_file_has_nothing_to_go_back_to() {
    let checkout = Checkout::new();
    checkout.write("kernels/new.cu", "new");
    let file = checkout.folder.path().join("kernels/new.cu");
    let worktree = Worktree::open(&file).unwrap();
    let refused = worktree.revert(None, &message("try"), taken_back);
    assert!(matches!(refused, Err(WorktreeError::NothingBefore(_))));
    assert_eq!(checkout.read("kernels/new.cu"), "new");
    worktree.keep(&message("keep")).unwrap();
    assert!(checkout.status().is_empty());
}

#[test]
fn in_doubt_nothing_happens() {
    let checkout = Checkout::new();
    // Another version is staged.
    checkout.write(FILE, "staged");
    checkout.stage(FILE);
    checkout.write(FILE, "on top");
    let refused = Worktree::open(&checkout.file());
    assert!(
        matches!(refused, Err(WorktreeError::Staged(_))),
        "{refused:?}"
    );
    checkout.stage(FILE);

    // The file or the branch changes under the evaluation.
    let worktree = Worktree::open(&checkout.file()).unwrap();
    checkout.write(FILE, "edited meanwhile");
    let refused = worktree.keep(&message("keep"));
    assert!(
        matches!(refused, Err(WorktreeError::Changed(_))),
        "{refused:?}"
    );
    checkout.write(FILE, "on top");
    checkout.write("notes.txt", "more");
    checkout.commit_all("by hand");
    let refused = worktree.keep(&message("keep"));
    assert!(
        matches!(refused, Err(WorktreeError::Moved(_))),
        "{refused:?}"
    );
    assert_eq!(checkout.history(), ["on top", "first"]);

    // No branch, no checkout, no plain file.
    let head = checkout.repository.head().unwrap().target().unwrap();
    checkout.repository.set_head_detached(head).unwrap();
    let refused = Worktree::open(&checkout.file());
    assert!(
        matches!(refused, Err(WorktreeError::Detached)),
        "{refused:?}"
    );
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("k.cu"), "k").unwrap();
    let refused = Worktree::open(&outside.path().join("k.cu"));
    assert!(
        matches!(refused, Err(WorktreeError::NoCheckout(_))),
        "{refused:?}"
    );
    checkout.repository.set_head("refs/heads/work").unwrap();
    let link = checkout.folder.path().join("link.cu");
    std::os::unix::fs::symlink(checkout.file(), &link).unwrap();
    let refused = Worktree::open(&link);
    assert!(
        matches!(refused, Err(WorktreeError::NotPlain(_))),
        "{refused:?}"
    );
}
