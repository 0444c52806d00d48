//! Problems of other projects as tasks: the reference that an import writes agrees with one that was written by
//! hand, and admission decides on the task.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

/// Imports all problems of a folder.
fn import(format: &str, problems: &str, to: &Path) -> Result<()> {
    let path = lab::repository()
        .join("crates/convert/tests/problems")
        .join(problems);
    let (path, to) = (path.to_string_lossy(), to.to_string_lossy());
    let imported = lab::kernelwright(&["task", "import", format, &path, "--to", &to])?;
    ensure!(
        imported.status.success(),
        "{}{}",
        imported.stdout,
        imported.stderr
    );
    Ok(())
}

/// Admits a task with the answer that was written by hand as its second reference.
fn admit(name: &str, to: &Path) -> Result<()> {
    let answer = lab::repository().join(format!("crates/convert/tests/problems/answers/{name}.cu"));
    let task = to.join(name);
    fs::copy(answer, task.join("check.cu"))?;
    let (task, data) = (task.to_string_lossy(), to.join("data"));
    let words = ["task", "check", &task, "--data", &data.to_string_lossy()];
    let checked = lab::kernelwright(&words)?;
    ensure!(
        checked.stdout.contains("the task may be searched"),
        "{}{}",
        checked.stdout,
        checked.stderr
    );
    Ok(())
}

#[test]
fn problems_of_kernelbench_agree_with_answers_by_hand_and_are_admitted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    import("kernelbench", "kernelbench", folder.path())?;
    ["conv_relu_bias", "attention", "group_norm"]
        .iter()
        .try_for_each(|name| admit(name, folder.path()))
}

#[test]
fn problems_of_all_other_formats_agree_with_answers_by_hand_and_are_admitted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    import("flashinfer-bench", "definitions", folder.path())?;
    import("gpu-mode", "gpu_mode", folder.path())?;
    import("kernel-tuner", "kernel_tuner", folder.path())?;
    [
        "silu_and_mul_d64",
        "gqa_prefill_h4_kv2_d32",
        "rotary_embedding",
        "conv2d_valid",
        "tiled_matmul",
    ]
    .iter()
    .try_for_each(|name| admit(name, folder.path()))
}

#[test]
fn an_import_counts_what_came_in_and_leaves_nothing_of_what_did_not() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let to = folder.path().join("imported");
    for (format, problems, counts) in [
        (
            "kernelbench",
            "refused",
            "0 of 7 problems imported, 7 refused",
        ),
        (
            "gpu-mode",
            "gpu_mode_refused",
            "0 of 5 problems imported, 5 refused",
        ),
        (
            "kernel-tuner",
            "kernel_tuner_refused",
            "0 of 8 problems imported, 8 refused",
        ),
    ] {
        let path = lab::repository()
            .join("crates/convert/tests/problems")
            .join(problems);
        let (path, to) = (path.to_string_lossy(), to.to_string_lossy());
        let refused = lab::kernelwright(&["task", "import", format, &path, "--to", &to])?;
        ensure!(refused.status.code() == Some(1), "{}", refused.stderr);
        ensure!(refused.stdout.contains(counts), "{}", refused.stdout);
    }
    ensure!(!to.exists(), "something was left");
    let path = lab::repository().join("crates/convert/tests/problems/refused");
    let words = [
        "task",
        "import",
        "flashinfer-bench",
        &path.to_string_lossy(),
    ];
    let none = lab::kernelwright(&words)?;
    ensure!(
        none.status.code() == Some(2) && none.stderr.contains("no file of this format"),
        "{}",
        none.stderr
    );
    Ok(())
}
