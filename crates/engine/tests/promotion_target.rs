//! Promotion into a repository that people work in: what is refused before a run begins, and what a
//! winner changes there.

#![expect(
    clippy::unwrap_used,
    reason = "the tests' own preparations fail the test too"
)]

use std::path::Path;

use chrono::DateTime;
use domain::api::PromotionTarget;
use engine::promote::repository::{Change, File, RepositoryError, Tip, commit, ensure_usable};
use git2::{Repository, Signature, Time};

const HOST: &str = "#include <cstdio>\n\n// region: kernels\n__global__ void k() {}\n// endregion\n\nint main() { k<<<1, 1>>>(); }\n";
const POINTER: &str =
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";

/// A repository of another project, with everything committed.
fn theirs(path: &Path) -> Repository {
    let mut options = git2::RepositoryInitOptions::new();
    options.initial_head("trunk");
    let repository = Repository::init_opts(path, &options).unwrap();
    std::fs::create_dir_all(path.join("src/inner")).unwrap();
    let candidate = "/*---\n[[launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [32]\nargs = []\n---*/\nextern \"C\" __global__ void k() {}\n";
    for (name, text) in [
        ("src/host.cu", HOST),
        ("src/candidate.cu", candidate),
        ("src/plain.cu", "int main() {}\n"),
        ("src/pointer.cu", POINTER),
        ("src/tracked.weights", "text\n"),
        ("src/inner/deep.cu", HOST),
        (".gitattributes", "*.weights filter=lfs\n"),
    ] {
        std::fs::write(path.join(name), text).unwrap();
    }
    std::fs::write(path.join("src/latin.cu"), b"// \xe9\n").unwrap();
    std::os::unix::fs::symlink("host.cu", path.join("src/link.cu")).unwrap();
    {
        let mut index = repository.index().unwrap();
        index
            .add_all(["*"], git2::IndexAddOption::DEFAULT, None)
            .unwrap();
        index.write().unwrap();
        let tree = index.write_tree().unwrap();
        // A submodule is a commit in the tree.
        let tree = repository.find_tree(tree).unwrap();
        let mut with_submodule = repository.treebuilder(Some(&tree)).unwrap();
        let other = "0123456789012345678901234567890123456789".parse().unwrap();
        with_submodule.insert("vendored", other, 0o160_000).unwrap();
        let tree = with_submodule.write().unwrap();
        let tree = repository.find_tree(tree).unwrap();
        let author = Signature::new("Ada", "ada@example.com", &Time::new(0, 0)).unwrap();
        repository
            .commit(Some("HEAD"), &author, &author, "One", &tree, &[])
            .unwrap();
    }
    repository
}

fn target(repository: &Path, path: &str, region: Option<&str>) -> PromotionTarget {
    PromotionTarget {
        repository: repository.to_str().unwrap().to_owned(),
        base: None,
        path: Some(path.to_owned()),
        region: region.map(str::to_owned),
    }
}

#[test]
fn a_file_that_the_winner_cannot_replace_is_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    theirs(folder.path());
    for (path, region, wanted) in [
        ("src/candidate.cu", None, None),
        ("src/host.cu", Some("kernels"), None),
        ("src/inner/deep.cu", Some("kernels"), None),
        ("src/host.cu", None, Some("name the region")),
        ("src/plain.cu", None, Some("`// region: NAME`")),
        (
            "src/host.cu",
            Some("other"),
            Some("has no line `// region: NAME`"),
        ),
        ("src/missing.cu", None, Some("find src/missing.cu in HEAD")),
        ("src", None, Some("it is a folder")),
        ("src/link.cu", None, Some("a symbolic link")),
        ("src/latin.cu", None, Some("not UTF-8")),
        ("src/pointer.cu", None, Some("git lfs untrack")),
        (
            "src/tracked.weights",
            Some("kernels"),
            Some("keeps it in LFS"),
        ),
        ("vendored/kernel.cu", None, Some("the submodule vendored")),
        ("vendored", None, Some("the submodule vendored")),
        ("../other.cu", None, Some("a relative path inside")),
        ("/etc/passwd", None, Some("a relative path inside")),
        (".git/config", None, Some("a relative path inside")),
        ("", None, Some("a relative path inside")),
    ] {
        let checked = ensure_usable(&target(folder.path(), path, region), "fill");
        let found = checked.err().map(|error| error.to_string());
        match (found, wanted) {
            (None, None) => {}
            (Some(found), Some(wanted)) => assert!(found.contains(wanted), "{path}: {found}"),
            (found, wanted) => panic!("{path} {region:?}: {found:?}, not {wanted:?}"),
        }
    }
}

#[test]
fn changes_that_are_not_committed_are_refused_where_the_branch_would_lose_them() {
    let folder = tempfile::tempdir().unwrap();
    let repository = theirs(folder.path());
    let head = repository.head().unwrap().peel_to_commit().unwrap();
    repository.branch("same", &head, false).unwrap();
    std::fs::write(folder.path().join("notes"), "another file").unwrap();
    let mut asked = target(folder.path(), "src/host.cu", Some("kernels"));
    ensure_usable(&asked, "fill").unwrap();
    std::fs::write(folder.path().join("src/host.cu"), "edited").unwrap();
    for base in [None, Some("trunk"), Some("same")] {
        asked.base = base.map(str::to_owned);
        let refused = ensure_usable(&asked, "fill").unwrap_err();
        assert!(
            matches!(refused, RepositoryError::NotCommitted(_)),
            "{refused}"
        );
    }
    // Another base has its own version, whatever the work tree holds.
    let parents = [&head];
    let author = Signature::new("Ada", "ada@example.com", &Time::new(1, 0)).unwrap();
    let tree = head.tree().unwrap();
    repository
        .commit(
            Some("refs/heads/ahead"),
            &author,
            &author,
            "Two",
            &tree,
            &parents,
        )
        .unwrap();
    asked.base = Some("ahead".to_owned());
    ensure_usable(&asked, "fill").unwrap();
}

#[test]
fn a_branch_in_the_way_of_the_namespace_is_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let repository = theirs(folder.path());
    let head = repository.head().unwrap().peel_to_commit().unwrap();
    let mut asked = target(folder.path(), "src/candidate.cu", None);
    repository
        .branch("kernelwright/other", &head, false)
        .unwrap();
    ensure_usable(&asked, "fill").unwrap();
    repository
        .branch("kernelwright/fill", &head, false)
        .unwrap();
    asked.path = None;
    let refused = ensure_usable(&asked, "fill").unwrap_err();
    assert!(
        matches!(refused, RepositoryError::NamespaceBlocked { .. }),
        "{refused}"
    );
}

fn change(repository: &Path, path: &str, region: Option<&str>, content: &str) -> Change {
    Change {
        repository: repository.to_owned(),
        create: false,
        base: None,
        branch: "kernelwright-modelled/fill/0123456789ab".to_owned(),
        expected_tip: None,
        files: vec![File {
            path: path.to_owned(),
            content: content.as_bytes().to_vec(),
            region: region.map(str::to_owned),
        }],
        message: "fill: split\n\nCandidate: cand_1\n".to_owned(),
        identity: vec![("Candidate".to_owned(), "cand_1".to_owned())],
        author_email: "kernelwright@example.com".to_owned(),
        at: DateTime::UNIX_EPOCH,
    }
}

/// The paths that differ between a commit and its parent, and the text of one.
fn difference(repository: &Repository, tip: &Tip, path: &str) -> (Vec<String>, String) {
    let commit = repository.find_commit(tip.0.parse().unwrap()).unwrap();
    let parent = commit.parent(0).unwrap();
    assert_eq!(parent.id(), repository.head().unwrap().target().unwrap());
    let (old, new) = (parent.tree().unwrap(), commit.tree().unwrap());
    let found = repository.diff_tree_to_tree(Some(&old), Some(&new), None);
    let found = found.unwrap();
    let paths = found
        .deltas()
        .map(|delta| delta.new_file().path().unwrap().display().to_string());
    let entry = new.get_path(Path::new(path)).unwrap();
    let blob = repository.find_blob(entry.id()).unwrap();
    (
        paths.collect(),
        String::from_utf8(blob.content().to_vec()).unwrap(),
    )
}

#[test]
fn a_winner_changes_one_region_on_a_branch_from_head_that_merges() {
    let folder = tempfile::tempdir().unwrap();
    let repository = theirs(folder.path());
    let lines = "__global__ void faster() {}";
    let made = commit(&change(
        folder.path(),
        "src/host.cu",
        Some("kernels"),
        lines,
    ))
    .unwrap();
    let (paths, text) = difference(&repository, &made, "src/host.cu");
    assert_eq!(paths, ["src/host.cu"]);
    assert_eq!(text, HOST.replace("__global__ void k() {}", lines));
    let annotated = repository
        .find_annotated_commit(made.0.parse().unwrap())
        .unwrap();
    let (analysis, _) = repository.merge_analysis(&[&annotated]).unwrap();
    assert!(analysis.is_fast_forward(), "{analysis:?}");
    // The work tree is as it was.
    let now = std::fs::read_to_string(folder.path().join("src/host.cu")).unwrap();
    assert_eq!(now, HOST);
}

#[test]
fn a_replaced_file_keeps_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let repository = theirs(folder.path());
    {
        let head = repository.head().unwrap().peel_to_commit().unwrap();
        let mut update = git2::build::TreeUpdateBuilder::new();
        let blob = repository.blob(b"x").unwrap();
        update.upsert("tool.cu", blob, git2::FileMode::BlobExecutable);
        let tree = update
            .create_updated(&repository, &head.tree().unwrap())
            .unwrap();
        let tree = repository.find_tree(tree).unwrap();
        let author = head.author();
        repository
            .commit(Some("HEAD"), &author, &author, "Two", &tree, &[&head])
            .unwrap();
    }
    let made = commit(&change(folder.path(), "tool.cu", None, "y")).unwrap();
    let commit = repository.find_commit(made.0.parse().unwrap()).unwrap();
    let tree = commit.tree().unwrap();
    let entry = tree.get_name("tool.cu").unwrap();
    assert_eq!(entry.filemode(), 0o100_755);
}

#[test]
fn a_region_that_went_missing_during_the_run_blocks_the_commit() {
    let folder = tempfile::tempdir().unwrap();
    let repository = theirs(folder.path());
    let refused = commit(&change(folder.path(), "src/plain.cu", Some("kernels"), "x"));
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, RepositoryError::Region { .. }),
        "{refused}"
    );
    assert!(
        repository
            .find_branch(
                "kernelwright-modelled/fill/0123456789ab",
                git2::BranchType::Local
            )
            .is_err()
    );
}
