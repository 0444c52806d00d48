//! End-to-end test of a run without a model: structural edits of a task's kernels, compiled and judged on
//! the emulated device.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use convert::edit::edits;
use domain::api::{RunRequest, RunState};
use domain::candidate::KernelSource;
use domain::digest::Digest;
use domain::evaluation::{EvaluationRequest, EvaluationStage};
use domain::role::Key;
use domain::search::{Budget, Method, Operator, StopReason};
use domain::task::Task;
use domain::verdict::VerdictKind;
use lab::Lab;
use lab::verdicts::judgement::Judge;

#[tokio::test(flavor = "multi_thread")]
async fn edits_of_a_task_are_judged_like_any_candidate() -> Result<()> {
    let mut lab = Lab::new()?;
    lab.serve(&["--with-local-worker"]).await?;
    let request = RunRequest {
        budget: Budget {
            trials: 18,
            ..Budget::default()
        },
        seed: 2,
        ..RunRequest::new("softmax-f32", Method::Transform)
    };
    let run = lab.launch(&lab::small_softmax()?, &request).await?;
    let run = lab.finished(run.id).await?;
    let reason = StopReason::Trials;
    assert_eq!(run.state, RunState::Completed { reason });
    let all = lab.candidates(run.id).await?;
    let mut verdicts: BTreeMap<Option<VerdictKind>, u32> = BTreeMap::new();
    for candidate in &all {
        let Operator::Edit { edit } = &candidate.operator else {
            continue;
        };
        *verdicts.entry(candidate.verdict).or_default() += 1;
        let parent = candidate.parents.first().context("an edit has a parent")?;
        let parent = lab.candidate(*parent).await?;
        let detail = lab.candidate(candidate.id).await?;
        assert_ne!(detail.source, parent.source, "{edit}");
        println!(
            "{} {edit}: {:?} {:?}",
            candidate.ordinal, candidate.verdict, candidate.speedup
        );
    }
    println!("{verdicts:?}, best {:?}", run.best.map(|best| best.speedup));
    let accepted = verdicts.get(&Some(VerdictKind::Accepted)).copied();
    assert!(accepted >= Some(4), "{verdicts:?}");
    Ok(())
}

/// The times of a task's kernel and of those of its edits whose names have these words, microseconds. Each must be
/// accepted.
fn times_us(
    task: &str,
    kernel: impl FnOnce(&Task) -> KernelSource,
    words: &str,
) -> Result<(f64, Vec<f64>)> {
    let folder = tempfile::tempdir()?;
    let judge = Judge::new(folder.path())?;
    let bundle = lab::task(task)?;
    let kernel = kernel(&Task::load(&bundle)?);
    let time_us = |source: &str| {
        let evaluation = judge.evaluate(&EvaluationRequest {
            task: bundle.clone(),
            file: "candidate.cu".to_owned(),
            source: source.to_owned(),
            configuration: BTreeMap::new(),
            stage: EvaluationStage::Search,
            key: Key(Digest::of("wider")),
            incumbent: None,
        })?;
        let accepted = evaluation.verdict.acceptance();
        let accepted = accepted.with_context(|| format!("{:?}", evaluation.verdict))?;
        anyhow::Ok(accepted.timing.geomean_us())
    };
    let found = edits("candidate.cu", &kernel, &[]);
    let named = found.iter().filter(|edit| edit.name.contains(words));
    let after = named.map(|edit| time_us(edit.source.text()).with_context(|| edit.name.clone()));
    Ok((time_us(kernel.text())?, after.collect::<Result<_>>()?))
}

/// Shapes whose rows are no multiple of four are among the cases.
#[test]
fn loops_with_wider_accesses_are_right_and_faster() -> Result<()> {
    let (before, after) = times_us("softmax-f32", |task| task.baseline.clone(), "access 4")?;
    // The first loop begins with the second element and stays.
    assert_eq!(after.len(), 2);
    assert!(
        after.iter().all(|us| *us < 0.9 * before),
        "{before} {after:?}"
    );
    Ok(())
}

/// Tiles at the edges of the matrices are filled up with zeros, by asynchronous copies of no bytes.
#[test]
fn tiles_that_are_copied_one_round_ahead_are_right() -> Result<()> {
    let (before, after) = times_us("gemm-f32", |task| task.playbook[0].1.clone(), "ahead")?;
    let [simple, asynchronous] = after[..] else {
        anyhow::bail!("{after:?}");
    };
    // Its one barrier less is all that the simple change saves, and it holds more of shared memory.
    assert!(simple < 1.01 * before, "{before} {after:?}");
    assert!(asynchronous < 0.97 * before, "{before} {after:?}");
    Ok(())
}
