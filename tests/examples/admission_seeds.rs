//! Measurement of how well admission predicts runs: admits each task, then evaluates its baseline with many seeds,
//! as the first evaluation of a run does, and prints the seeds on which both disagree. Ends with 1 if there is one.
//!
//! `cargo build --package server --package driver && cargo run --package lab --example admission_seeds -- 200
//! kernels/softmax-f32 kernels/layernorm-f16`

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

fn main() -> Result<ExitCode> {
    let mut words = std::env::args().skip(1);
    let seeds = words
        .next()
        .context("give the number of seeds, then task folders")?;
    let seeds: u64 = seeds.parse().context("read the number of seeds")?;
    let tasks = words.collect::<Vec<_>>();
    ensure!(!tasks.is_empty(), "name at least one task folder");
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data").to_string_lossy().into_owned();
    let mut all_agree = true;
    for task in &tasks {
        let began = Instant::now();
        let checked = lab::kernelwright(&["task", "check", task, "--data", &data])?;
        let (out, errors) = (&checked.stdout, &checked.stderr);
        let admitted = match checked.status.code() {
            Some(0) => true,
            Some(1) => false,
            _ => anyhow::bail!("check {task}: {out}{errors}"),
        };
        let seconds = began.elapsed().as_secs_f64();
        let baseline = format!("{task}/baseline.cu");
        let mut others = Vec::new();
        for seed in 0..seeds {
            let seed = seed.to_string();
            let words = [
                "eval", &baseline, "--task", task, "--data", &data, "--seed", &seed,
            ];
            let evaluated = lab::kernelwright(&words)?;
            let accepted = match evaluated.status.code() {
                Some(0) => true,
                Some(1) => false,
                _ => anyhow::bail!("evaluate {baseline}: {}", evaluated.stderr),
            };
            if accepted != admitted {
                let verdict = evaluated
                    .stdout
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                others.push(format!("  seed {seed}: {verdict}"));
            }
        }
        let word = if admitted { "admitted" } else { "refused" };
        println!(
            "{task}: {word} in {seconds:.1} s, {} of {seeds} seeds agree",
            seeds - others.len() as u64
        );
        for other in &others {
            println!("{other}");
        }
        all_agree &= others.is_empty();
    }
    Ok(if all_agree {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
