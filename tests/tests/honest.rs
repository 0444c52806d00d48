//! Tests that right kernels in common styles pass a confirmation, which a promotion needs.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Confirmations of each kernel; each draws its own inputs and shapes.
const CONFIRMATIONS: usize = 3;

/// Evaluates `tests/honest/{task}/{file}` as a confirmation and fails unless it is accepted.
fn confirm(task: &str, file: &str) -> Result<()> {
    let data = tempfile::tempdir()?;
    let data = data.path().to_str().context("a UTF-8 path")?;
    let task = format!("tests/honest/{task}");
    let file = format!("{task}/{file}");
    for _ in 0..CONFIRMATIONS {
        let finished = lab::kernelwright(&[
            "eval",
            &file,
            "--task",
            &task,
            "--confirm",
            "--json",
            "--data",
            data,
        ])?;
        let evaluation: Value = serde_json::from_str(&finished.stdout)
            .with_context(|| format!("{}{}", finished.stdout, finished.stderr))?;
        ensure!(
            evaluation["verdict"]["kind"] == "accepted",
            "{file}: {}",
            evaluation["verdict"]
        );
    }
    Ok(())
}

#[test]
fn a_mean_of_terms_that_cancel_is_confirmed() -> Result<()> {
    confirm("mean-f32", "warp-per-row.cu")
}
