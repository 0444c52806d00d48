//! Benchmark of the pre-screen: its time and number of executions for the baselines, last playbook
//! steps and broken variants of the project's tasks, as if the judging device could not detect errors
//! by itself. Prints Markdown, and fails if an honest kernel is rejected.
//!
//! `cargo build --workspace && cargo run -p lab --example prescreen`

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use domain::digest::Digest;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage, ProtocolPart};
use domain::role::Key;
use domain::task::Bundle;
use worker::cancel::Cancellation;
use worker::evaluate::Evaluator;
use worker::host::{Host, RepeatPolicy, Settings};

/// Tasks whose kernels are pre-screened.
const TASKS: [&str; 3] = ["attention-f16", "gemm-f32", "softmax-f32"];
/// Name of the stage.
const STAGE: &str = "pre-screen";

fn main() -> Result<ExitCode> {
    let data = tempfile::tempdir()?;
    let mut settings = Settings::from_environment(data.path())?;
    settings.executable = lab::binary();
    settings.emulate = true;
    let doubt = RepeatPolicy {
        max_repeats: 0,
        large_tensor_elements: u64::MAX,
    };
    let host = Host::discover(settings, &Cancellation::new()?)?.assumed_unproved(doubt);
    let evaluator = Evaluator::new(host)?;
    println!("| kernel | executions | of | ms | the pre-screen | in the end |");
    println!("|---|---|---|---|---|---|");
    let mut fair = true;
    for name in TASKS {
        let task = lab::task(name)?;
        let below = |folder: &str| {
            let files = task.files.keys();
            let files = files.filter(|file| file.starts_with(folder));
            files.cloned().collect::<Vec<_>>()
        };
        let honest = ["baseline.cu".to_owned()];
        let honest = honest.into_iter().chain(below("playbook/").pop());
        for file in honest {
            fair &= row(&evaluator, name, &task, &file)?;
        }
        for file in below("broken/") {
            row(&evaluator, name, &task, &file)?;
        }
    }
    Ok(if fair {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints one kernel's pre-screen and returns true if the kernel passed.
fn row(evaluator: &Evaluator, name: &str, task: &Bundle, file: &str) -> Result<bool> {
    let request = EvaluationRequest {
        task: task.clone(),
        file: file.to_owned(),
        source: task.files[file].clone(),
        configuration: BTreeMap::new(),
        stage: EvaluationStage::Search,
        key: Key(Digest::of("the key of the pre-screens")),
        incumbent: None,
    };
    let evaluation = evaluator.evaluate(&request, |_| {}, &Cancellation::new()?)?;
    let Some(looked) = &evaluation.prescreen else {
        return Ok(true);
    };
    let stage = evaluation.stages.iter().find(|stage| stage.stage == STAGE);
    let took = stage.context("a pre-screen's time")?.milliseconds;
    let ended = evaluation.device.is_none();
    println!(
        "| {name}, {file} | {} | {} | {took:.0} | {} | {} |",
        looked.executions.len(),
        looked.planned,
        if ended {
            evaluation.verdict.kind().to_string()
        } else {
            cut(&evaluation)
        },
        evaluation.verdict.kind(),
    );
    Ok(!ended)
}

/// Reason why the pre-screen ended before its last execution.
fn cut(evaluation: &Evaluation) -> String {
    let rows = &evaluation.not_run;
    let row = rows.iter().find(|row| row.part == ProtocolPart::Prescreen);
    row.map_or("nothing against it".to_owned(), |row| row.reason.clone())
}
