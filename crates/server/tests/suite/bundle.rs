use std::fs;

use domain::task::MAX_BUNDLE_BYTES;
use server::bundle::{BundleError, read};
use server::data::Data;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("task.toml"), "name = \"t\"\n").unwrap();
    folder
}

#[test]
fn a_folder_becomes_its_texts_by_relative_path_without_hidden_files_and_links() {
    let folder = folder();
    fs::create_dir(folder.path().join("playbook")).unwrap();
    fs::write(folder.path().join("playbook/01.cu"), "kernel").unwrap();
    fs::write(folder.path().join(".secret"), "hidden").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link")).unwrap();
    let bundle = read(folder.path()).unwrap();
    let names: Vec<_> = bundle.files.keys().map(String::as_str).collect();
    assert_eq!(names, ["playbook/01.cu", "task.toml"]);
    assert_eq!(bundle.files["playbook/01.cu"], "kernel");
}

#[test]
fn a_data_folder_inside_a_task_is_no_part_of_it() {
    let folder = folder();
    let data = Data::open(&folder.path().join("data")).unwrap();
    fs::write(data.root().join("evidence.zst"), [0xff, 0xfe]).unwrap();
    let bundle = read(folder.path()).unwrap();
    let names: Vec<_> = bundle.files.keys().map(String::as_str).collect();
    assert_eq!(names, ["task.toml"]);
}

#[test]
fn a_folder_in_use_is_told_nothing_about_git_when_data_goes_there() {
    let folder = folder();
    Data::open(folder.path()).unwrap();
    assert!(!folder.path().join(".gitignore").exists());
}

#[test]
fn a_command_that_only_reads_writes_nothing_into_an_empty_folder() {
    let folder = tempfile::tempdir().unwrap();
    Data::existing(folder.path()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn machine_code_of_rivals_travels_as_the_digits_of_its_bytes() {
    let folder = folder();
    fs::create_dir(folder.path().join("baselines")).unwrap();
    fs::write(folder.path().join("baselines/a.cubin"), [0xff, 0xfe, 0x00]).unwrap();
    let bundle = read(folder.path()).unwrap();
    assert_eq!(bundle.files["baselines/a.cubin"], "fffe00");
}

#[test]
fn a_folder_without_a_task_file_is_named_with_an_example() {
    let folder = tempfile::tempdir().unwrap();
    let error = read(folder.path()).unwrap_err();
    assert!(matches!(error, BundleError::NoTask(_)));
    assert!(
        error.to_string().contains("kernels/attention-f16"),
        "{error}"
    );
}

#[test]
fn a_binary_file_and_an_oversized_folder_are_refused() {
    let folder = folder();
    fs::write(folder.path().join("image.cubin"), [0xff, 0xfe, 0x00]).unwrap();
    let error = read(folder.path()).unwrap_err();
    assert!(
        matches!(&error, BundleError::NotText(path) if path.ends_with("image.cubin")),
        "{error}"
    );

    fs::write(
        folder.path().join("image.cubin"),
        "x".repeat(MAX_BUNDLE_BYTES),
    )
    .unwrap();
    assert!(matches!(
        read(folder.path()).unwrap_err(),
        BundleError::TooLarge(_)
    ));
}
