//! The commands that make a data folder in the folder that they are called from. The tests start the
//! program itself, as a user does.

use std::path::Path;
use std::process::{Command, Output};

fn kernelwright(folder: &Path, arguments: &[&str]) -> Output {
    #[expect(
        clippy::disallowed_methods,
        reason = "the test starts the program as a user does"
    )]
    let mut command = Command::new(env!("CARGO_BIN_EXE_kernelwright"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("KERNELWRIGHT_DATA")
        .env_remove("KERNELWRIGHT_SERVER")
        .output()
        .unwrap()
}

/// Names of the entries of a folder, hidden ones included.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn commands_that_keep_nothing_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kernel.cu"), "").unwrap();
    let cache = r#"{"device_name": "NVIDIA RTX A4000", "kernel_name": "k", "problem_size": 64,
        "tune_params_keys": ["block_size_x"], "cache": {}}"#;
    std::fs::write(folder.path().join("cache.json"), cache).unwrap();
    let before = names(folder.path());
    let commands: [&[&str]; 6] = [
        &["preflight"],
        &[
            "score-model",
            "cache.json",
            "--source",
            "kernel.cu",
            "--arg",
            "i32=64",
        ],
        &["model", "list"],
        &["evidence", "show", "0123456789"],
        &["summary", "kernel.cu"],
        &["devices", "--server", "http://127.0.0.1:9"],
    ];
    for command in commands {
        kernelwright(folder.path(), command);
        assert_eq!(names(folder.path()), before, "{command:?}");
    }
}

#[test]
fn a_folder_given_for_a_kernel_is_named_with_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let task = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/softmax-f32");
    let task = task.to_str().unwrap();
    let finished = kernelwright(folder.path(), &["eval", task, "--task", task]);
    assert_eq!(finished.status.code(), Some(2));
    let said = String::from_utf8(finished.stderr).unwrap();
    assert!(
        said.contains("it is a folder") && said.contains("baseline.cu"),
        "{said}"
    );
}

#[test]
fn a_negative_number_is_refused_with_the_range_and_without_a_tip() {
    let folder = tempfile::tempdir().unwrap();
    for (option, value) in [
        ("--budget-trials", "-5"),
        ("--budget-seconds", "-5"),
        ("--budget-tokens", "-5"),
        ("--budget-dollars", "-0.5"),
        ("--prompt-tokens", "many"),
    ] {
        let finished = kernelwright(folder.path(), &["run", "task", option, value]);
        assert_eq!(finished.status.code(), Some(2));
        let said = String::from_utf8(finished.stderr).unwrap();
        assert!(said.contains(value) && said.contains(option), "{said}");
        assert!(said.contains("such as"), "{said}");
        assert!(
            !said.contains("tip:") && !said.contains("digit found"),
            "{said}"
        );
    }
}
