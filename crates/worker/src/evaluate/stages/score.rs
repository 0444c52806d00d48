//! The score cases: each is executed on its inputs, and its outputs are compared with the reference.
//! The times of these executions count where nothing is timed in turn. Before a promotion the score cases
//! meet every distribution, and their last elements are changed one at a time.

use domain::problem::Problem;
use domain::role::ExecutionPurpose;

use crate::evaluate::context::{Context, SCORE, SCORE_INPUTS};
use crate::evaluate::examine::{ExaminationInputs, Executions, examine as examine_passes};
use crate::evaluate::facts::Report;
use crate::evaluate::passes::{ExpectedOutputs, Pass};

/// Executions of each score case whose time is taken alone, on silicon: at least 30 make a median
/// worth comparing.
const SAMPLES: u64 = 32;

/// Examines the score cases, and the cases that are too large for the earlier stages.
pub(in crate::evaluate) fn examine(
    context: &Context<'_>,
    inputs: &ExaminationInputs<'_>,
) -> Report<Executions> {
    Report::of(|facts| {
        let passes = sampled_passes(context)?;
        let known = Executions::default();
        let scored = facts.merge(examine_passes(context, SCORE, &passes, inputs, &known))?;
        if context.request.stage.decides_promotion() {
            for passes in context.passes().untimed_score_cases()? {
                let found = examine_passes(context, SCORE_INPUTS, &passes, inputs, &known);
                facts.merge(found)?;
            }
        }
        Ok(scored)
    })
}

/// The passes of the score stage. On silicon each draw is executed several times, each time over
/// poison of its own; the outputs of the first execution are compared with the reference and those
/// of the others with the first, so that every timed output is verified.
fn sampled_passes(context: &Context<'_>) -> Result<Vec<Pass>, Problem> {
    let mut passes = first_passes(context)?;
    if context.is_emulated() {
        return Ok(passes);
    }
    let timed = passes.iter();
    let timed = timed.filter(|pass| pass.purpose == ExecutionPurpose::Score);
    let timed = timed.cloned().collect::<Vec<_>>();
    for first in &timed {
        let draws = timed.iter().filter(|pass| pass.case == first.case).count();
        passes.extend((1..SAMPLES.div_ceil(draws as u64)).map(|repetition| Pass {
            poison: first.poison.wrapping_add(repetition),
            comparison: ExpectedOutputs::Itself,
            ..first.clone()
        }));
    }
    Ok(passes)
}

/// The score cases on each of their inputs once, and the cases that are left for their stage. On the
/// emulated device, whose model is deterministic, each case has one input.
pub(in crate::evaluate) fn first_passes(context: &Context<'_>) -> Result<Vec<Pass>, Problem> {
    if context.is_emulated() {
        context.passes().score_once()
    } else {
        context.passes().score(|case| context.draws(case))
    }
}
