//! The last stage of a search before a score: executions with inputs of the `Gate` seed family, whose
//! values are never told to authors of candidates.

use domain::seeds::SeedFamily;

use crate::evaluate::context::{Context, GATE};
use crate::evaluate::examine::{ExaminationInputs, Executions, examine as examine_passes};
use crate::evaluate::facts::Report;
use crate::evaluate::passes::Extent;

/// Examines the candidate with inputs of the gate's family: all passes on a device without proofs,
/// a sample on the emulated one.
pub(in crate::evaluate) fn examine(
    context: &Context<'_>,
    inputs: &ExaminationInputs<'_>,
) -> Report<()> {
    Report::of(|facts| {
        let extent = if context.host().is_unproved() {
            Extent::All
        } else {
            Extent::Sample
        };
        let passes = context.passes_of(SeedFamily::Gate).gate(extent)?;
        let known = Executions::default();
        facts.merge(examine_passes(context, GATE, &passes, inputs, &known))?;
        Ok(())
    })
}
