//! Tests of the generator of wrong and right kernels, of its oracle, and of the evaluator on a few of both.
//! `examples/verdict_rates.rs` measures with as many as are asked for.

use anyhow::{Context as _, Result, ensure};
use lab::verdicts::judgement::Judge;
use lab::verdicts::mutation::{Kind, Mutant, mutant, unchanged};
use lab::verdicts::oracle::{Proof, prove};
use lab::verdicts::subject::{Subject, subjects};
use lab::verdicts::tally::{ItemResult, RatesRequest, run};

/// Wrong kernels that are evaluated.
const WRONG: u64 = 12;
/// Honest kernels that are evaluated, each by a search and a confirmation.
const HONEST: u64 = 4;
/// Class of kernels that are wrong on one shape alone, which no number of executions is sure to meet.
const ONE_SHAPE: &str = "one shape";

/// Compiles a kernel and asks the oracle.
fn proof(judge: &Judge, subjects: &[Subject], kernel: &Mutant) -> Result<Proof> {
    let ptx = judge.compile(kernel)?.context("it compiles")?;
    Ok(prove(
        &subjects[kernel.subject],
        kernel,
        &ptx,
        judge.limits(),
    ))
}

#[test]
fn the_oracle_tells_planted_mistakes_from_what_is_right() -> Result<()> {
    let data = tempfile::tempdir()?;
    let judge = Judge::new(data.path())?;
    let subjects = subjects()?;
    let planted = [
        (
            "mean-f32",
            "block-per-row.cu",
            "partial[thread] = sum;\n    __syncthreads();",
            "partial[thread] = sum;",
        ),
        (
            "mean-f32",
            "last-block.cu",
            "before == PARTS - 1",
            "before == PARTS - 2",
        ),
        (
            "softmax-f32",
            "thread-per-row.cu",
            "column] - top) / sum",
            "column]) / sum",
        ),
        (
            "gemm-f32",
            "double-buffered.cu",
            "__pipeline_wait_prior(STAGES - 1);",
            "__pipeline_wait_prior(STAGES);",
        ),
        (
            "histogram-i32",
            "shared-atomics.cu",
            "bins[thread] = 0;",
            ";",
        ),
    ];
    for (task, base, right, wrong) in planted {
        let index = subjects.iter().position(|subject| subject.name == task);
        let kernel = unchanged(&subjects, index.context("a task")?, base).context("a kernel")?;
        let found = proof(&judge, &subjects, &kernel)?;
        ensure!(found == Proof::Right, "{task}/{base}: {found:?}");
        let mut broken = kernel.clone();
        broken.kind = Kind::Wrong;
        broken.text = kernel.text.replacen(right, wrong, 1);
        ensure!(broken.text != kernel.text, "{task}/{base} has {right:?}");
        let found = proof(&judge, &subjects, &broken)?;
        ensure!(
            matches!(found, Proof::Wrong(_)),
            "{task}/{base} with {wrong:?}: {found:?}"
        );
    }
    Ok(())
}

#[test]
fn a_seed_gives_the_same_kernels_again() -> Result<()> {
    let subjects = subjects()?;
    for kind in [Kind::Wrong, Kind::Honest] {
        for item in 0..200 {
            let [first, second] =
                [0, 1].map(|_| mutant(&subjects, kind, 1, item).map(|mutant| mutant.text));
            ensure!(first == second, "{kind:?} {item}");
        }
    }
    Ok(())
}

#[test]
fn proven_kernels_are_judged_right() -> Result<()> {
    let subjects = subjects()?;
    let folders = [tempfile::tempdir()?, tempfile::tempdir()?];
    let judges = [
        Judge::new(folders[0].path())?,
        Judge::new(folders[1].path())?,
    ];
    for (kind, wanted) in [(Kind::Wrong, WRONG), (Kind::Honest, HONEST)] {
        let order = RatesRequest {
            kind,
            seed: 1,
            wanted,
        };
        let records = run(&subjects, &judges, order, &[], &|_| {})?;
        let judged = records
            .iter()
            .filter(|record| matches!(record.result, ItemResult::Judged { .. }))
            .count();
        ensure!(
            judged as u64 == wanted,
            "only {judged} {kind:?} kernels could be proven"
        );
        for record in &records {
            ensure!(
                !record.is_misjudged() || record.class == ONE_SHAPE,
                "{record:#?}"
            );
        }
    }
    Ok(())
}
