//! The emulated device's account of a candidate that another device has timed: modelled times with what bounds them,
//! counters and the hottest source lines, none of which that device tells. It decides nothing.

use std::time::Duration;

use domain::evaluation::{CaseLaunches, Explanation};
use domain::hottest_lines::HottestLines;
use domain::role::{Compiled, ExecutionPurpose, Next, RunJob, RunReply};
use domain::verdict::{Outcome, Verdict};

use super::parse::Candidate;
use crate::evaluate::context::{Context, SCORE};
use crate::evaluate::error::{EvaluateError, StageStop};
use crate::evaluate::examine::{Executions, case_lines, cleaned};
use crate::evaluate::facts::{CaseLines, Facts, Report};
use crate::evaluate::roles::{NumberedPass, execution, number_from_zero, run_job_of};
use crate::evaluate::timing::{by_case, timing};
use crate::host::{Host, Prescreener};
use crate::supervise::SuperviseError;

/// The name of the stage.
const STAGE: &str = "explain";
/// Wall time of the score cases on the emulated device. Without them all there is no explanation, and the evaluation
/// is as good as with one.
const CAP: Duration = Duration::from_secs(20);

/// Executes the score cases of an accepted candidate on the emulated device beside the card, if it is the baseline or
/// faster than the incumbent: the kernels that others are bred from.
pub(in crate::evaluate) fn explain(
    context: &Context<'_>,
    candidate: &Candidate,
    compiled: &Compiled,
    verdict: &Verdict,
) -> Report<()> {
    Report::of(|facts| {
        let Some(Prescreener {
            device: Ok(device), ..
        }) = context.host().prescreener()
        else {
            return Ok(());
        };
        if !context.host().has_explained_times() {
            return Ok(());
        }
        let is_parent = |comparison: Option<&domain::verdict::Comparison>| {
            comparison.is_none_or(|comparison| comparison.outcome == Outcome::Faster)
        };
        let accepted = verdict.acceptance();
        if !accepted.is_some_and(|accepted| is_parent(accepted.comparison.as_ref())) {
            return Ok(());
        }
        let mut passes = context.passes().score_once()?;
        passes.retain(|pass| pass.purpose == ExecutionPurpose::Score);
        let asked = number_from_zero(&passes, &candidate.plans, |_| SCORE.instructions);
        facts.merge(Report::timed(context, STAGE, |facts| {
            run(context, compiled, device, &asked, facts)
        }))
    })
}

fn run(
    context: &Context<'_>,
    compiled: &Compiled,
    device: &Host,
    asked: &[NumberedPass<'_>],
    facts: &mut Facts,
) -> Result<(), StageStop> {
    let job = RunJob {
        threads: device.threads(),
        lines: true,
        ..run_job_of(
            context.host(),
            compiled,
            asked.iter().map(execution).collect(),
        )
    };
    let mut made = Executions::default();
    let mut lines: Vec<CaseLines> = Vec::new();
    let handle = |reply: RunReply| {
        made.model_label = reply.model_label;
        for own in reply.executions {
            let Some(asked) = asked.get(made.scored.len()) else {
                return Next::Nothing;
            };
            if own.id != asked.id || own.fault.is_some() || !own.findings.is_empty() {
                return Next::Nothing;
            }
            lines.extend(case_lines(asked, &reply.lines));
            made.scored.push((asked.pass.case.clone(), cleaned(own)));
        }
        Next::Execution
    };
    match device.run_one_by_one(&job, CAP, context.roles.cancellation, handle) {
        Err(error @ SuperviseError::Cancelled) => return Err(EvaluateError::from(error).into()),
        Err(error) => tracing::warn!("a kernel's time is not explained: failed to {error}"),
        Ok(_) => {}
    }
    if made.scored.len() == asked.len() {
        facts.explanation = explanation(context, device, &made, &lines);
    }
    Ok(())
}

/// None if an execution has no modelled time.
fn explanation(
    context: &Context<'_>,
    device: &Host,
    made: &Executions,
    lines: &[CaseLines],
) -> Option<Explanation> {
    let pairs = made.scored.iter();
    let cases = by_case(pairs.map(|(case, facts)| (case.as_str(), facts)));
    let cache = context.task.objective.cache;
    let timing = timing(device.device(), made.model_label.as_deref(), &cases, cache).ok()?;
    let launches: Vec<CaseLaunches> = made
        .scored
        .iter()
        .map(|(case, facts)| CaseLaunches {
            case: case.clone(),
            launches: facts.launches.clone(),
        })
        .collect();
    let hottest_lines = HottestLines::find(&timing, &launches, |case, launch| {
        let own = lines.iter().find(|own| own.case == case)?;
        Some(own.launches.get(launch)?.lines.as_slice())
    });
    Some(Explanation {
        timing,
        launches,
        hottest_lines,
    })
}
