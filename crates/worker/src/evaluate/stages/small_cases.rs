//! The stages on small cases: smoke, screen, repeat, and the drawn shapes of a promotion. With the score
//! cases they make up all checks of correctness.

use domain::evaluation::DrawnShapes;
use domain::policy::Feature;
use domain::role::Compiled;
use domain::seeds::SeedFamily;
use domain::task::{CasePurpose, Task};

use crate::evaluate::context::{Context, DRAWN, REPEAT, SCREEN, SMOKE};
use crate::evaluate::examine::{ExaminationInputs, Executions, examine as examine_passes};
use crate::evaluate::facts::Report;
use crate::evaluate::passes::{ExpectedOutputs, Extent, Pass, Repetition};

/// Drawn shapes that share the time of one job.
const DRAWN_TOGETHER: usize = 16;

/// Examines the candidate on small cases and edges, with inputs of `family`. The family is an
/// argument, because a search that distrusts a time repeats these stages with the gate's inputs.
pub(in crate::evaluate) fn examine(
    context: &Context<'_>,
    family: SeedFamily,
    extent: Extent,
    inputs: &ExaminationInputs<'_>,
) -> Report<()> {
    Report::of(|facts| {
        let passes = context.passes_of(family);
        let smoke = [passes.smoke()?, passes.sensitivity_checks()?].concat();
        let screen = passes.screen(extent)?;
        let mut repeat = passes.repeats(extent)?;
        if !uses_fragments(inputs.compiled) {
            repeat.retain(|pass| pass.comparison != ExpectedOutputs::Relaid);
        }
        let repeat = with_originals(context.task, repeat);
        let mut stages = vec![(SMOKE, smoke), (SCREEN, screen), (REPEAT, repeat)];
        if let Some(Repetition { repeats, draws }) = context.repetition() {
            let repeats = with_originals(context.task, passes.determinism(repeats)?);
            let more = [repeats, passes.untimed(draws)?].concat();
            stages.push((REPEAT, more));
        }
        let mut known = Executions::default();
        for (allowance, passes) in stages {
            let found = examine_passes(context, allowance, &passes, inputs, &known);
            known.extend(facts.merge(found)?);
        }
        let drawn = passes.drawn()?;
        for some in drawn.chunks(DRAWN_TOGETHER) {
            let found = examine_passes(context, DRAWN, some, inputs, &Executions::default());
            facts.merge(found)?;
        }
        let of_law = |pass: &&Pass| {
            let case = context.task.case(&pass.case);
            case.is_some_and(|case| !case.is_for(CasePurpose::TowardsMaximum))
        };
        facts.drawn_shapes = DrawnShapes::right_on(drawn.iter().filter(of_law).count());
        Ok(())
    })
}

/// Repeats with an ordinary execution before the first on each set of inputs, where a task lets sums be
/// taken in any order: values are compared there, and those of earlier stages are gone.
fn with_originals(task: &Task, repeats: Vec<Pass>) -> Vec<Pass> {
    if task.contract.order_dependent.is_empty() {
        return repeats;
    }
    let mut passes: Vec<Pass> = Vec::new();
    for repeat in repeats {
        if !passes.iter().any(|pass| pass.inputs() == repeat.inputs()) {
            passes.push(repeat.original());
        }
        passes.push(repeat);
    }
    passes
}

/// Returns true if an image has instructions whose fragments could be laid out another way.
fn uses_fragments(compiled: &Compiled) -> bool {
    let mut uses = compiled.contents.uses.iter();
    uses.any(|found| found.feature == Feature::TensorOperations)
}
