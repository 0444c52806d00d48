//! Imports every problem of `crates/convert/tests/problems`, admits the tasks, and prints a line for each: whether
//! it came in, was admitted, and agrees with the answer that was written by hand, where there is one. Names after
//! `--` choose problems.
//!
//! `cargo build --package server --package driver && cargo run --package lab --example imported_problems`

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let problems = lab::repository().join("crates/convert/tests/problems");
    let data = folder.path().join("data").to_string_lossy().into_owned();
    let chosen = std::env::args().skip(1).collect::<Vec<_>>();
    for (format, name) in [
        ("kernelbench", "kernelbench"),
        ("flashinfer-bench", "definitions"),
        ("gpu-mode", "gpu_mode"),
        ("kernel-tuner", "kernel_tuner"),
        ("kernelbench", "admission"),
        ("kernelbench", "refused"),
        ("gpu-mode", "gpu_mode_refused"),
        ("kernel-tuner", "kernel_tuner_refused"),
    ] {
        let (path, to) = (problems.join(name), folder.path().join(name));
        let (path, to) = (path.to_string_lossy(), to.to_string_lossy());
        let imported =
            lab::kernelwright(&["task", "import", format, &path, "--to", &to, "--json"])?;
        let rows: Vec<Value> = serde_json::from_str(&imported.stdout).context("read the report")?;
        for row in rows {
            let file = row["file"].as_str().unwrap_or_default();
            let path = Path::new(file);
            // A problem of GPU MODE has the name of its folder.
            let named = path.parent().filter(|_| path.ends_with("task.yml"));
            let short = named
                .unwrap_or(path)
                .file_name()
                .unwrap_or_default()
                .to_string_lossy();
            let stem = short.split('.').next().unwrap_or_default();
            if !chosen.is_empty() && !chosen.iter().any(|chosen| chosen == stem) {
                continue;
            }
            let Some(task) = row["folder"].as_str() else {
                println!(
                    "{short}: refused: {}",
                    row["refused"].as_str().unwrap_or_default()
                );
                continue;
            };
            let own = Path::new(task)
                .file_name()
                .unwrap_or_default()
                .to_string_lossy();
            let answer = problems.join(format!("answers/{own}.cu"));
            let by_hand = answer.is_file();
            if by_hand {
                fs::copy(&answer, Path::new(task).join("check.cu"))?;
            }
            let began = Instant::now();
            let checked = lab::kernelwright(&["task", "check", task, "--data", &data])?;
            ensure!(
                matches!(checked.status.code(), Some(0 | 1)),
                "{}",
                checked.stderr
            );
            let broken = checked
                .stdout
                .lines()
                .find(|line| line.starts_with("next "));
            let verdict = broken.map_or_else(
                || "admitted".to_owned(),
                |line| format!("not admitted: {}", &line[5..].trim()),
            );
            let agrees = if by_hand {
                ", against an answer by hand"
            } else {
                ""
            };
            println!(
                "{short}: {verdict}{agrees} ({:.1} s)",
                began.elapsed().as_secs_f64()
            );
        }
    }
    Ok(())
}
