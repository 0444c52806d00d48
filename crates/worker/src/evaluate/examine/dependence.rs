//! The check of declared dependences: executions that differ in one element of one input must agree
//! in every output element that does not depend on it.

use std::path::Path;

use domain::judge::{self, InfrastructureFault};
use domain::role::TensorData;

use super::ExaminationInputs;
use crate::evaluate::context::Context;
use crate::evaluate::error::{EvaluateError, StageStop, storage};
use crate::evaluate::roles::NumberedPass;

/// Compares each execution in which one input element was changed with the execution on the
/// unchanged inputs.
///
/// # Errors
/// [`StageStop::Rejected`] if an output changed where it must not.
pub(super) fn check(
    context: &Context<'_>,
    made: &[NumberedPass<'_>],
    inputs: &ExaminationInputs<'_>,
) -> Result<(), StageStop> {
    for changed in made {
        let Some((input, at)) = changed.pass.changed_element() else {
            continue;
        };
        let original = made.iter().find(|other| {
            let mut same = changed.pass.inputs();
            same.3 = None;
            other.pass.inputs() == same
        });
        let Some(original) = original else { continue };
        let folders = [original, changed].map(|numbered| numbered.save.as_ref());
        let [Some(before), Some(after)] = folders else {
            continue;
        };
        let tensors = &changed.pass.tensors;
        let source = tensors.iter().find(|tensor| tensor.name == input);
        let index = source.map(|tensor| judge::unravel_index(at, &tensor.extents));
        let index = index.unwrap_or_default();
        let contract = &inputs.reference.task.contract;
        for (output, dependences) in &contract.depends {
            // The emulated device adds in the same order every time. Another one may not, and the
            // comparison with the reference is all that is left.
            if context.host().is_unproved() && contract.order_dependent.contains(output) {
                continue;
            }
            let Some(tensor) = tensors.iter().find(|tensor| tensor.name == *output) else {
                continue;
            };
            let reached = dependences
                .iter()
                .filter(|dependence| dependence.input == input)
                .map(|dependence| dependence.reach(&index, tensor.extents.len()))
                .collect::<Vec<_>>();
            let (before, after) = (read_saved(before, tensor)?, read_saved(after, tensor)?);
            let verdict = judge::judge_dependence(
                &input,
                tensor,
                &changed.pass.case,
                &reached,
                [&before, &after],
                &context.task.tolerance,
            );
            if let Some(verdict) = verdict {
                return Err(StageStop::rejected(verdict, changed.pass.family));
            }
        }
    }
    Ok(())
}

/// The bytes that a runner saved of an output.
///
/// # Errors
/// [`InfrastructureFault`] if the file does not have the tensor's size.
fn read_saved(folder: &Path, tensor: &TensorData) -> Result<Vec<u8>, EvaluateError> {
    let path = folder.join(format!("{}.bin", tensor.name));
    let content = std::fs::read(&path).map_err(storage(&path))?;
    if content.len() as u64 == tensor.elements() * tensor.dtype.bytes() {
        Ok(content)
    } else {
        let what = format!("read the output {}: it has another size", tensor.name);
        Err(InfrastructureFault(what).into())
    }
}
