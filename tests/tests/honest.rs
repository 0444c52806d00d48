//! Tests that right kernels in common styles pass a confirmation, which a promotion needs.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Confirmations of a kernel of a small task; each draws its own inputs and shapes.
const CONFIRMATIONS: usize = 3;

/// Confirms `tests/honest/{task}/{file}` several times and fails unless it is always accepted.
fn confirm(task: &str, file: &str) -> Result<()> {
    let task = format!("tests/honest/{task}");
    confirm_file(&task, &format!("{task}/{file}"), CONFIRMATIONS)
}

/// Confirms a file as a candidate of a task `times` times and fails unless it is always accepted.
fn confirm_file(task: &str, file: &str, times: usize) -> Result<()> {
    evaluate(task, file, &["--confirm"], times)
}

/// Evaluates a file as a candidate of a task `times` times and fails unless it is always accepted.
fn evaluate(task: &str, file: &str, stage: &[&str], times: usize) -> Result<()> {
    let data = tempfile::tempdir()?;
    let data = data.path().to_str().context("a UTF-8 path")?;
    let command = ["eval", file, "--task", task, "--json", "--data", data];
    let command = [&command[..], stage].concat();
    for _ in 0..times {
        let finished = lab::kernelwright(&command)?;
        let evaluation: Value = serde_json::from_str(&finished.stdout)
            .with_context(|| format!("{}{}", finished.stdout, finished.stderr))?;
        ensure!(
            evaluation["verdict"]["kind"] == "accepted",
            "{file}: {}",
            evaluation["verdict"]
        );
        println!("{file}: accepted");
    }
    Ok(())
}

/// The task `mean-f32` in a folder of its own, with a part of its texts replaced.
fn task_with(part: &str, replacement: &str) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let source = lab::repository().join("tests/honest/mean-f32");
    for name in ["baseline.cu", "reference.cu", "check.cu", "task.toml"] {
        let text = std::fs::read_to_string(source.join(name))?;
        std::fs::write(folder.path().join(name), text.replace(part, replacement))?;
    }
    Ok(folder)
}

#[test]
fn a_mean_of_terms_that_cancel_is_confirmed() -> Result<()> {
    confirm("mean-f32", "warp-per-row.cu")
}

/// Long rows whose large values absorb the squares of small ones.
#[test]
fn squares_that_one_thread_adds_in_order_are_confirmed() -> Result<()> {
    confirm("squares-f32", "baseline.cu")
}

#[test]
fn a_kernel_with_thousands_of_instructions_in_each_thread_is_confirmed() -> Result<()> {
    confirm("mean-f32", "local-memory.cu")
}

/// Every thread of a grid walks over all rows, of which a case has many short ones.
#[test]
fn a_grid_whose_threads_walk_over_all_of_many_short_rows_is_accepted() -> Result<()> {
    let folder = task_with("dims = { R = 7, C = 301 }", "dims = { R = 1009, C = 3 }")?;
    let task = folder.path().to_str().context("a UTF-8 path")?;
    evaluate(task, "tests/honest/mean-f32/grid-barrier.cu", &[], 1)
}

/// `FlashAttention-2` as it is published: weights between 0 and 1, rounded to f16 before the second
/// product. `KERNELWRIGHT_SWEEP=full` confirms nine times, each with inputs and shapes of its own.
#[test]
fn attention_with_weights_rounded_to_f16_is_confirmed() -> Result<()> {
    let bundle = lab::small_attention()?;
    let lifted = &bundle.files["playbook/07-tensor-cores.cu"];
    let source = lifted.replace("LIFT = 15.0f", "LIFT = 0.0f");
    ensure!(source != *lifted, "the step scales its weights no more");
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("rounded-weights.cu");
    std::fs::write(&file, source)?;
    let task = folder.path().join("task");
    lab::write_task(&bundle, &task)?;
    let path = |path: &std::path::Path| path.to_str().map(str::to_owned).context("a UTF-8 path");
    let full = std::env::var_os("KERNELWRIGHT_SWEEP").is_some_and(|value| value == "full");
    let times = if full { 9 } else { 1 };
    confirm_file(&path(&task)?, &path(&file)?, times)
}

/// Loads of 16 bytes behind an unaligned head: the order of the sum depends on the alignment of the base.
#[test]
fn a_sum_whose_order_depends_on_the_alignment_of_its_base_is_confirmed() -> Result<()> {
    // Bases of four bytes, where the order differs.
    let folder = task_with("align = 16", "align = 4")?;
    let task = folder.path().to_str().context("a UTF-8 path")?;
    let file = "tests/verdict-rates/mean-f32/kernels/wide-loads.cu";
    confirm_file(task, file, CONFIRMATIONS)
}

#[test]
fn sums_in_any_order_are_accepted_where_a_task_allows_them() -> Result<()> {
    let task = "tests/honest/product-f32";
    evaluate(task, &format!("{task}/split-k.cu"), &[], 1)?;
    confirm("product-f32", "split-k.cu")
}
