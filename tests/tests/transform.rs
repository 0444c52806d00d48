//! End-to-end test of a run without a model: structural edits of a task's kernels, compiled and judged on
//! the emulated device.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use domain::api::{RunRequest, RunState};
use domain::search::{Budget, Method, Operator, StopReason};
use domain::verdict::VerdictKind;
use lab::Lab;

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
