//! The last stage: compares the candidate's times with the device's shortest possible times and
//! with the incumbent's.

use domain::control::{self, Control};
use domain::evaluation::{CaseLaunches, EvaluationStage};
use domain::judge::{self, GateFacts};
use domain::role::{ExecutionFacts, KernelResources, RunnableImage};
use domain::seeds::SeedFamily;
use domain::statistics::{Floor, ensure_repeat_agrees, reason_to_repeat};
use domain::task::ScoredCache;
use domain::timing::Timing;
use domain::verdict::Verdict;

use super::parse::{Candidate, judge_gates};
use super::small_cases;
use crate::evaluate::compared_kernel::{ComparedKernel, prepare};
use crate::evaluate::context::{Context, LARGE};
use crate::evaluate::error::{EvaluateError, StageStop};
use crate::evaluate::examine::{ExaminationInputs, Executions};
use crate::evaluate::facts::{Facts, Report};
use crate::evaluate::paired::{Compared, PairedComparison};
use crate::evaluate::passes::Extent;
use crate::evaluate::timing::{by_case, floors, launch_bound, timing};

/// Notes the launches of each score case as they ran, and judges the gates on them.
pub(in crate::evaluate) fn observe(
    context: &Context<'_>,
    candidate: &Candidate,
    scored: &Executions,
    kernels: &[KernelResources],
) -> Report<()> {
    Report::of(|facts| {
        let cases = by_case(pairs(&scored.scored));
        let launches = cases
            .iter()
            .filter_map(|(case, executions)| {
                Some(CaseLaunches {
                    case: case.clone(),
                    launches: executions.first()?.launches.clone(),
                })
            })
            .collect::<Vec<_>>();
        let observed = launches
            .iter()
            .filter_map(|case| GateFacts::executed(&case.case, &case.launches))
            .collect::<Vec<_>>();
        facts.launches = Some(launches.clone());
        judge_gates(context, candidate, &observed, kernels, facts)
    })
}

/// Decides by the times. They come from the executions of the score stage where they are modelled,
/// and from a paired comparison where they are measured.
pub(in crate::evaluate) fn compare(
    context: &Context<'_>,
    candidate: &Candidate,
    inputs: &ExaminationInputs<'_>,
    scored: &Executions,
) -> Report<Verdict> {
    Report::of(|facts| {
        let timing = times(context, scored, &scored.scored)?;
        let bound = |timing: &Timing| is_launch_bound(context, scored, timing);
        let paired = context.host().times_in_turn();
        let cache = context.task.objective.cache;
        if paired && context.is_baseline() && cache != ScoredCache::Cold {
            // A kernel that is timed alone is timed with a cold cache.
            let compared = facts.merge(measure(context, candidate, inputs, scored))?;
            judge_floors(context, &compared.timing, facts)?;
            let bound = bound(&compared.timing);
            return Ok(judge::judge_times(compared.timing, None, bound));
        }
        if paired && !context.is_baseline() {
            let mut compared = facts.merge(measure(context, candidate, inputs, scored))?;
            let control = facts.merge(run_control(context, candidate, inputs, scored))?;
            compared.measurement.control = control;
            facts.measurement = Some(compared.measurement.clone());
            judge_floors(context, &compared.timing, facts)?;
            let floors = facts.floors.clone().unwrap_or_default();
            let surprising = reason_to_repeat(&compared.comparison, &floors);
            if let Some(why) = surprising.filter(|_| !context.request.stage.decides_promotion()) {
                facts.merge(confirm_surprise(
                    context, candidate, inputs, scored, &compared, &why,
                ))?;
            }
            let bound = bound(&compared.timing);
            let mut verdict = judge::judge_times(compared.timing, None, bound);
            if let Verdict::Accepted(acceptance) = &mut verdict {
                acceptance.comparison = Some(compared.comparison);
            }
            return Ok(verdict);
        }
        judge_floors(context, &timing, facts)?;
        let bound = bound(&timing);
        let incumbent = context.request.incumbent.as_ref();
        let incumbent = incumbent.map(|incumbent| &incumbent.timing);
        Ok(judge::judge_times(timing, incumbent, bound))
    })
}

/// The candidate beside the incumbent, ready to be timed. `opponent` takes the incumbent's place
/// where that has no source.
///
/// # Errors
/// A fault.
pub(in crate::evaluate) fn paired<'a>(
    context: &Context<'a>,
    candidate: &Candidate,
    compiled: &domain::role::Compiled,
    executions: &Executions,
    opponent: Option<&ComparedKernel>,
) -> Result<PairedComparison<'a>, EvaluateError> {
    let kernel = ComparedKernel {
        digest: candidate.source.candidate_digest(&candidate.configuration),
        image: RunnableImage::from(compiled),
        plans: candidate.plans.clone(),
    };
    prepare(context, kernel, LARGE, executions, opponent)
}

/// Times the candidate and the incumbent in turn.
fn measure(
    context: &Context<'_>,
    candidate: &Candidate,
    inputs: &ExaminationInputs<'_>,
    scored: &Executions,
) -> Report<Compared> {
    Report::of(|facts| {
        let comparison = paired(context, candidate, inputs.compiled, scored, None)?;
        facts.merge(time(context, "time", comparison))
    })
}

/// Carries out a paired comparison as a stage of this name.
pub(in crate::evaluate) fn time(
    context: &Context<'_>,
    stage: &str,
    comparison: PairedComparison<'_>,
) -> Report<Compared> {
    Report::timed(context, stage, |_| {
        let compared = comparison.measure_and_decide();
        compared.map_err(|stop| stop.on(context.family()))
    })
}

/// Compares the incumbent with itself, where that is drawn for this candidate of a search. The result
/// decides nothing about the candidate.
fn run_control(
    context: &Context<'_>,
    candidate: &Candidate,
    inputs: &ExaminationInputs<'_>,
    scored: &Executions,
) -> Report<Option<Control>> {
    Report::of(|facts| {
        let digest = candidate.source.candidate_digest(&candidate.configuration);
        let of_a_search = context.request.stage == EvaluationStage::Search;
        if !of_a_search || !control::is_due(context.request.key, digest) {
            return Ok(None);
        }
        let comparison = paired(context, candidate, inputs.compiled, scored, None)?;
        let control = Report::timed(context, "control", |_| Ok(comparison.control()?));
        facts.merge(control).map(Some)
    })
}

/// Confirms a time that is nearly too good: a search examines all small cases and edges with inputs of
/// the gate's family, and repeats the comparison in processes of its own. A promotion does both for
/// every candidate. A time that does not hold is inconclusive.
fn confirm_surprise(
    context: &Context<'_>,
    candidate: &Candidate,
    inputs: &ExaminationInputs<'_>,
    scored: &Executions,
    compared: &Compared,
    why: &str,
) -> Report<()> {
    Report::of(|facts| {
        facts.merge(small_cases::examine(
            context,
            SeedFamily::Gate,
            Extent::All,
            inputs,
        ))?;
        let mut comparison = paired(context, candidate, inputs.compiled, scored, None)?;
        comparison.key = comparison.key.derive(&["again"]);
        let again = facts.merge(time(context, "time again", comparison))?;
        ensure_repeat_agrees(&compared.comparison, &again.comparison).map_err(|how| {
            let reason = format!("{why}, which did not hold: {how}");
            StageStop::rejected(Verdict::Inconclusive { reason }, context.family())
        })
    })
}

/// Compares every case's time with the shortest possible one, before the times of several cases
/// become one number.
fn judge_floors(
    context: &Context<'_>,
    timing: &Timing,
    facts: &mut Facts,
) -> Result<(), StageStop> {
    let host = context.host();
    let mut found = floors(context.task, timing, host.rates().as_ref())?;
    if found.iter().any(Floor::is_broken) {
        // The rates of a card that was busy when they were measured are measured again first.
        let rates = host.measure_rates(context.roles.cancellation);
        let rates = rates.map_err(EvaluateError::from)?;
        found = floors(context.task, timing, rates.as_ref())?;
    }
    let broken = found.iter().find(|floor| floor.is_broken()).cloned();
    facts.floors = Some(found);
    broken.map_or(Ok(()), |floor| {
        let verdict = Verdict::PhysicallyImpossible {
            case: floor.cache.name_of(&floor.case),
            floor_us: floor.us,
            found_us: floor.found_us,
        };
        Err(StageStop::rejected(verdict, context.family()))
    })
}

/// Returns true if every score case takes little more than launching as many empty kernels.
pub(in crate::evaluate) fn is_launch_bound(
    context: &Context<'_>,
    scored: &Executions,
    timing: &Timing,
) -> bool {
    let cases = by_case(pairs(&scored.scored)).into_iter();
    let launches = cases
        .filter_map(|(case, executions)| Some((case, executions.first()?.launches.len())))
        .collect();
    launch_bound(timing, &launches, context.host().rates().as_ref())
}

/// The times of some executions, each with its case. `model` are those that name the time model.
///
/// # Errors
/// A fault if an execution has no time.
pub(in crate::evaluate) fn times(
    context: &Context<'_>,
    model: &Executions,
    executions: &[(String, ExecutionFacts)],
) -> Result<Timing, EvaluateError> {
    let label = model.model_label.as_deref();
    let cases = by_case(pairs(executions));
    let cache = context.task.objective.cache;
    Ok(timing(context.device(), label, &cases, cache)?)
}

fn pairs(executions: &[(String, ExecutionFacts)]) -> impl Iterator<Item = (&str, &ExecutionFacts)> {
    let executions = executions.iter();
    executions.map(|(case, facts)| (case.as_str(), facts))
}
