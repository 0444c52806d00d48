//! Tests of the task library: each task of `kernels/` may be searched, each step of its playbook is
//! accepted in the modelled times that `docs/gallery` shows, and each broken variant gets the verdict and the line that
//! its file names.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use domain::timing::Timing;
use serde_json::Value;

/// Evaluates a task's playbook and broken variants as a user does, on the inputs of `tests/gallery`.
fn check(task: &str) -> Result<()> {
    let data = tempfile::tempdir()?;
    let folder = format!("kernels/{task}");
    let data = data.path().to_str().context("UTF-8")?;
    let words = [
        "task",
        "check",
        &folder,
        "--evaluate",
        "--json",
        "--seed",
        "1",
        "--data",
        data,
    ];
    let finished = lab::kernelwright(&words)?;
    let (out, errors) = (&finished.stdout, &finished.stderr);
    ensure!(finished.status.success(), "{task}: {out}{errors}");
    let checked = serde_json::from_str(out)?;
    assert_eq!(
        evaluated_times(&checked)?,
        times_in_gallery(task)?,
        "docs/gallery/{task}.md is stale: run tests/gallery"
    );
    Ok(())
}

/// The times of the playbook's steps on each score case, in microseconds with two decimals.
fn evaluated_times(checked: &Value) -> Result<BTreeMap<String, Vec<String>>> {
    let kernels = checked["kernels"].as_array().context("kernels")?;
    let steps = kernels.iter().filter_map(|kernel| {
        let step = kernel["file"].as_str()?.strip_prefix("playbook/")?;
        Some((step.to_owned(), kernel))
    });
    let times = steps.map(|(name, kernel)| {
        let timing: Timing = serde_json::from_value(kernel["timing"].clone())?;
        let cases = timing.cases();
        let times = cases.iter().map(|case| format!("{:.2}", case.us));
        Ok((name, times.collect()))
    });
    times.collect()
}

/// The same times as the gallery shows them. Two columns belong to each case, and the last is their mean.
fn times_in_gallery(task: &str) -> Result<BTreeMap<String, Vec<String>>> {
    let page = lab::repository().join(format!("docs/gallery/{task}.md"));
    let page = std::fs::read_to_string(page)?;
    let steps = page.lines().filter(|line| line.contains("/playbook/"));
    let times = steps.map(|line| {
        let cells = line.trim_matches('|').split('|').map(str::trim);
        let cells = cells.collect::<Vec<_>>();
        let name = cells[0]
            .strip_prefix('[')
            .and_then(|cell| cell.split_once(']'));
        let name = name.context("a link")?.0.to_owned();
        let of_cases = cells[2..cells.len() - 1].iter().step_by(2);
        Ok((name, of_cases.map(|cell| (*cell).to_owned()).collect()))
    });
    times.collect()
}

macro_rules! tasks {
    ($($test:ident: $task:literal,)*) => {
        /// Tasks that a test below evaluates.
        const TESTED: &[&str] = &[$($task),*];

        $(
            #[test]
            fn $test() -> Result<()> {
                check($task)
            }
        )*
    };
}

tasks! {
    attention_causal_f16: "attention-causal-f16",
    attention_decode_f16: "attention-decode-f16",
    attention_f16: "attention-f16",
    conv2d_f32: "conv2d-f32",
    depthwise_conv_f16: "depthwise-conv-f16",
    gemm_f16: "gemm-f16",
    gemm_f32: "gemm-f32",
    gemm_int8: "gemm-int8",
    histogram_i32: "histogram-i32",
    layernorm_f16: "layernorm-f16",
    moe_gate_f16: "moe-gate-f16",
    reduce_f32: "reduce-f32",
    rmsnorm_residual_f16: "rmsnorm-residual-f16",
    rope_f16: "rope-f16",
    scan_f32: "scan-f32",
    softmax_f16: "softmax-f16",
    softmax_f32: "softmax-f32",
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
    let tested = TESTED.iter().map(|task| (*task).to_owned());
    assert_eq!(found, tested.collect());
    Ok(())
}
