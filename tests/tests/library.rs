//! Tests of the task library: each task of `kernels/` may be searched, each step of its playbook is
//! accepted, and each broken variant gets the verdict and the line that its file names.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};

/// Tasks whose files the worker's own tests evaluate.
const TESTED_BY_WORKER: [&str; 3] = ["attention-f16", "gemm-f32", "softmax-f32"];

/// Evaluates a task's playbook and broken variants as a user does.
fn check(task: &str) -> Result<()> {
    let data = tempfile::tempdir()?;
    let folder = format!("kernels/{task}");
    let data = data.path().to_str().context("UTF-8")?;
    let words = ["task", "check", &folder, "--evaluate", "--data", data];
    let finished = lab::kernelwright(&words)?;
    ensure!(
        finished.status.success(),
        "{task}: {}{}",
        finished.stdout,
        finished.stderr
    );
    Ok(())
}

macro_rules! tasks {
    ($($test:ident: $task:literal,)*) => {
        /// Tasks that a test below evaluates.
        const TESTED_HERE: &[&str] = &[$($task),*];

        $(
            #[test]
            fn $test() -> Result<()> {
                check($task)
            }
        )*
    };
}

tasks! {
    attention_decode_f16: "attention-decode-f16",
    conv2d_f32: "conv2d-f32",
    depthwise_conv_f16: "depthwise-conv-f16",
    gemm_f16: "gemm-f16",
    gemm_int8: "gemm-int8",
    histogram_i32: "histogram-i32",
    layernorm_f16: "layernorm-f16",
    moe_gate_f16: "moe-gate-f16",
    reduce_f32: "reduce-f32",
    rmsnorm_residual_f16: "rmsnorm-residual-f16",
    rope_f16: "rope-f16",
    scan_f32: "scan-f32",
    softmax_f16: "softmax-f16",
    topk_f32: "topk-f32",
    transpose_f32: "transpose-f32",
}

#[test]
fn every_task_of_the_library_is_tested() -> Result<()> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(lab::repository().join("kernels"))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    let tested = TESTED_BY_WORKER.iter().chain(TESTED_HERE);
    assert_eq!(found, tested.map(|task| (*task).to_owned()).collect());
    Ok(())
}
