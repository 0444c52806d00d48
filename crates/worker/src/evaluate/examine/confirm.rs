//! The confirmation of a failure in a second process, where the failure rests on data that may have
//! been damaged while they were copied from the device, or on blocks that ran beside the candidate.
//! Neither is the candidate's fault, so such a failure counts only if it occurs twice.

use domain::device::DeviceKind;
use domain::judge::{self, InfrastructureFault};
use domain::role::{ExecutionFacts, Placement};
use domain::verdict::Verdict;

use super::{
    ExaminationInputs, FailedPass, execution_context, first_fragment_line, number, variation,
};
use crate::evaluate::context::Context;
use crate::evaluate::error::{EvaluateError, Rejection, StageStop, Stop, storage};
use crate::evaluate::passes::{ExpectedOutputs, Pass};
use crate::evaluate::roles::{NumberedPass, RunLimits};

/// The examination whose failure is to be confirmed.
pub(super) struct FailedExamination<'a> {
    pub context: &'a Context<'a>,
    pub inputs: &'a ExaminationInputs<'a>,
    pub allowance: RunLimits,
    pub made: &'a [NumberedPass<'a>],
}

impl FailedExamination<'_> {
    /// Confirms the failure of an execution, and looks for the cause of an illegal address.
    ///
    /// # Errors
    /// See [`Self::confirm_outputs`].
    pub fn confirm_execution(&self, failed: FailedPass) -> Result<Rejection, StageStop> {
        self.confirm(&failed)?;
        let cause = self.find_cause(&failed)?;
        let rejection = Rejection::from(failed);
        Ok(match cause {
            Some(cause) => Rejection {
                verdict: Box::new(cause),
                ..rejection
            },
            None => rejection,
        })
    }

    /// Confirms that outputs are wrong.
    ///
    /// # Errors
    /// If the second process has nothing against the candidate: a fault on the emulated device, which
    /// does the same every time; on silicon [`Verdict::InvalidRun`], since a race may be the reason
    /// as well.
    pub fn confirm_outputs(&self, failed: FailedPass) -> Result<Rejection, StageStop> {
        self.confirm(&failed)?;
        Ok(failed.into())
    }

    fn suspect(&self, failed: &FailedPass) -> Option<&NumberedPass<'_>> {
        let mut made = self.made.iter();
        made.find(|numbered| Some(numbered.id) == failed.id)
    }

    fn confirm(&self, failed: &FailedPass) -> Result<(), StageStop> {
        let kind = self.context.device().kind;
        let doubtful = rests_on_copies(&failed.verdict, kind)
            || rests_on_other_blocks(&failed.verdict, failed.outlasted);
        let Some(suspect) = self.suspect(failed).filter(|_| doubtful) else {
            return Ok(());
        };
        let mut passes = vec![suspect.pass.clone()];
        if suspect.pass.comparison != ExpectedOutputs::Reference {
            passes.insert(0, suspect.pass.original());
        }
        if fails_again(self.context, &passes, self.inputs, self.allowance)? {
            return Ok(());
        }
        let place = format!("on case {}", suspect.pass.case);
        Err(unconfirmed(&place, &failed.verdict, kind).on(failed.family))
    }

    /// The cause of an illegal address where inputs are mapped read-only and the device does not name
    /// the address: an input that changes if it may be written to. None if no input does.
    fn find_cause(&self, failed: &FailedPass) -> Result<Option<Verdict>, EvaluateError> {
        const ILLEGAL_ADDRESS: u32 = 700;
        let illegal = matches!(
            failed.verdict,
            Verdict::RuntimeFault { code, .. } if code == ILLEGAL_ADDRESS
        );
        let suspect = self.suspect(failed).filter(|suspect| {
            illegal
                && self.context.host().is_unproved()
                && matches!(
                    suspect.pass.placement,
                    Placement::Ending | Placement::Allocated
                )
        });
        let Some(suspect) = suspect else {
            return Ok(None);
        };
        let writable = Pass {
            placement: Placement::Weakest,
            comparison: ExpectedOutputs::Reference,
            company: false,
            ..suspect.pass.clone()
        };
        let second = repeat(self.context, &[writable], self.inputs, self.allowance)?;
        let mutated = |verdict: &Verdict| matches!(verdict, Verdict::InputMutated { .. });
        Ok(second.verdict.filter(mutated))
    }
}

/// The result of a second process.
struct SecondRun {
    /// True if anything was wrong.
    failed: bool,
    /// The first verdict on an execution.
    verdict: Option<Verdict>,
}

/// Returns true if anything is wrong with these passes in a process of their own.
///
/// # Errors
/// A fault.
pub(in crate::evaluate) fn fails_again(
    context: &Context<'_>,
    passes: &[Pass],
    inputs: &ExaminationInputs<'_>,
    allowance: RunLimits,
) -> Result<bool, EvaluateError> {
    Ok(repeat(context, passes, inputs, allowance)?.failed)
}

fn repeat(
    context: &Context<'_>,
    passes: &[Pass],
    inputs: &ExaminationInputs<'_>,
    allowance: RunLimits,
) -> Result<SecondRun, EvaluateError> {
    let outputs =
        tempfile::tempdir_in(context.roles.scratch).map_err(storage(context.roles.scratch))?;
    let again = number(passes, inputs, allowance, outputs.path())?;
    let line = first_fragment_line(inputs.compiled);
    let mut known: Vec<ExecutionFacts> = Vec::new();
    let mut failed = false;
    let mut verdict = None;
    context
        .roles
        .run(inputs.compiled, &again, allowance, |made, reply| {
            let Ok(reply) = reply else {
                failed = true;
                return Ok::<_, EvaluateError>(());
            };
            failed |= reply.executions.len() != made.len();
            for (numbered, facts) in made.iter().zip(reply.executions) {
                let asked = execution_context(context.task, allowance.stage, numbered);
                let judged = judge::judge_execution(&facts, &asked);
                failed |= !matches!(judged, Ok(None));
                verdict = verdict.take().or_else(|| judged.ok().flatten());
                if let Some(original) = known.first() {
                    let variation = variation(numbered.pass.comparison, line);
                    failed |= judge::judge_repeat(original, &facts, variation, &asked).is_some();
                }
                known.push(facts);
            }
            Ok(())
        })?;
    if failed {
        return Ok(SecondRun { failed, verdict });
    }
    let comparisons = context.roles.verify(inputs.reference, &again)?;
    let tolerance = &context.task.tolerance;
    let mut comparisons = comparisons.iter();
    Ok(SecondRun {
        failed: comparisons.any(|facts| !judge::is_within_tolerance(facts, tolerance)),
        verdict: None,
    })
}

/// Returns true if a verdict rests on nothing but copies of the device's memory. Where a kernel can
/// race undetected, differing outputs are no surprise.
pub(in crate::evaluate) fn rests_on_copies(verdict: &Verdict, device: DeviceKind) -> bool {
    match verdict {
        Verdict::IncorrectOutput(_)
        | Verdict::PrecisionDowngrade(_)
        | Verdict::InputMutated { .. } => true,
        Verdict::OutOfBounds { finding, .. } => finding.is_none(),
        Verdict::UninitDependent { finding, .. } => {
            finding.is_none() && device == DeviceKind::Emulated
        }
        Verdict::NonDeterministic { .. } => device == DeviceKind::Emulated,
        _ => false,
    }
}

/// Returns true if a verdict rests on nothing but the blocks that ran beside the execution, because
/// a busy device may have kept it waiting.
fn rests_on_other_blocks(verdict: &Verdict, outlasted: bool) -> bool {
    outlasted && matches!(verdict, Verdict::Timeout { .. })
}

/// The end of an evaluation whose failure a second process did not repeat.
pub(in crate::evaluate) fn unconfirmed(place: &str, verdict: &Verdict, device: DeviceKind) -> Stop {
    let what =
        format!("confirm what was found {place}: {verdict}, and nothing of it in the next process");
    match device {
        DeviceKind::Emulated => InfrastructureFault(what).into(),
        DeviceKind::Nvidia => Verdict::InvalidRun { reason: what }.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_that_rest_on_one_process_are_confirmed_in_a_second() {
        let timeout = Verdict::Timeout {
            stage: "repeat, beside other blocks".to_owned(),
            finding: None,
        };
        let fault = Verdict::RuntimeFault {
            code: 700,
            name: "CUDA_ERROR_ILLEGAL_ADDRESS".to_owned(),
            finding: None,
        };
        let mutated = Verdict::InputMutated {
            tensor: "x".to_owned(),
        };
        for (verdict, outlasted, other_blocks, copies) in [
            (&timeout, true, true, false),
            // Its time ran out without blocks beside it: a second process would take as long.
            (&timeout, false, false, false),
            (&fault, true, false, false),
            (&mutated, true, false, true),
        ] {
            let found = rests_on_other_blocks(verdict, outlasted);
            assert_eq!(found, other_blocks, "{verdict}");
            for device in [DeviceKind::Emulated, DeviceKind::Nvidia] {
                assert_eq!(rests_on_copies(verdict, device), copies, "{verdict}");
            }
        }
    }
}
