//! The baseline on many draws of all inputs, because a task must not be admitted by the luck of one.

use domain::admission::{AdmissionRule, RuleResult};
use domain::dtype::Dtype;
use domain::evaluation::{CheckOutcome, EvaluationRequest};
use domain::task::Task;
use domain::verdict::{Mismatch, Verdict};

use super::{Examiner, MOST_ELEMENTS};
use crate::evaluate::context::SCREEN;
use crate::evaluate::error::EvaluateError;
use crate::evaluate::examine::{ExaminationInputs, Executions, examine};
use crate::evaluate::passes::{Extent, Passes};
use crate::evaluate::stages::effort::Efforts;
use crate::evaluate::stages::{compile, parse};

/// Groups of draws; each group has edges of its own.
const GROUPS: u32 = 5;
/// Draws of a group, which share role processes.
const DRAWS_OF_GROUP: u32 = 3;
/// Draws beside the one of the baseline's evaluation; cases of more than [`MOST_ELEMENTS`] elements meet one in
/// three. A baseline that is rejected on every fourth draw
/// passes all with a probability of 1.3%.
const DRAWS: u32 = GROUPS * DRAWS_OF_GROUP;

impl Examiner<'_> {
    /// Decides whether the baseline is accepted with every key: by its evaluation, and by its outputs on
    /// further draws of the small cases and edges. The number is its largest error over the bound.
    pub(super) fn check_baseline(&self, verdict: &Verdict) -> Result<RuleResult, EvaluateError> {
        let row = |holds: bool, worst: Option<&CheckOutcome>, explanation: String| RuleResult {
            rule: AdmissionRule::BaselineAccepted,
            subject: "baseline.cu".to_owned(),
            found: worst.and_then(|check| check.worst_ratio),
            limit: worst.map(|_| 1.0),
            holds,
            explanation,
        };
        if verdict.acceptance().is_none() {
            return Ok(row(false, None, verdict.to_string()));
        }
        let mut worst: Option<CheckOutcome> = None;
        for group in 0..GROUPS {
            let (against, checks) = self.test_group(group)?;
            let ratio = |check: &CheckOutcome| check.worst_ratio.unwrap_or_default();
            let largest = checks.into_iter().chain(worst.take());
            worst = largest.max_by(|one, other| ratio(one).total_cmp(&ratio(other)));
            if let Some(verdict) = against {
                let explanation = format!(
                    "rejected on one of {DRAWS} further draws, so that some runs would be refused: {verdict}; {}",
                    remedy(self.task(), &verdict)
                );
                return Ok(row(false, worst.as_ref(), explanation));
            }
        }
        let place = worst.as_ref().map_or_else(String::new, |check| {
            let (tensor, case, distribution) = (&check.tensor, &check.case, check.distribution);
            format!(
                "; its largest error is of {tensor} on {case}, {}",
                distribution.as_str()
            )
        });
        let explanation = format!("{verdict}, and right on {DRAWS} further draws{place}");
        Ok(row(true, worst.as_ref(), explanation))
    }

    /// The outputs of the baseline on the draws of a group: the verdict against it, if any, and every
    /// comparison.
    fn test_group(
        &self,
        group: u32,
    ) -> Result<(Option<Verdict>, Vec<CheckOutcome>), EvaluateError> {
        let key = self.context.request.key;
        let request = EvaluationRequest {
            key: key.derive(&["group", &group.to_string()]),
            ..self.context.request.clone()
        };
        let evaluator = self.evaluator;
        let quiet = |_: &str| {};
        let (partial, _) =
            evaluator.run_partially(&request, &quiet, self.cancellation, |context, facts| {
                let candidate = facts.merge(parse::parse(context))?;
                let compiled = facts.merge(compile::compile(context, &candidate))?;
                let reference = facts.merge(compile::compile_reference(context))?;
                let efforts = Efforts::default();
                let inputs = ExaminationInputs {
                    plans: &candidate.plans,
                    compiled: &compiled,
                    reference: &reference,
                    efforts: &efforts,
                };
                let mut passes = Vec::new();
                for draw in 0..DRAWS_OF_GROUP {
                    let drawn = Passes {
                        key: context.request.key.derive(&["draw", &draw.to_string()]),
                        ..context.passes()
                    };
                    let mut all = drawn.smoke()?;
                    all.extend(drawn.screen(Extent::Sample)?);
                    // The larger ones of the small cases take most of the time.
                    all.retain(|pass| draw == 0 || pass.elements() <= MOST_ELEMENTS);
                    passes.extend(all);
                }
                let known = Executions::default();
                facts.merge(examine(context, SCREEN, &passes, &inputs, &known))?;
                Ok(())
            })?;
        Ok((partial.against, partial.checks))
    }
}

/// The edit that mends a task whose baseline a verdict rejects.
fn remedy(task: &Task, verdict: &Verdict) -> String {
    let (Verdict::IncorrectOutput(mismatch) | Verdict::PrecisionDowngrade(mismatch)) = verdict
    else {
        return "correct the baseline there".to_owned();
    };
    let output = &mismatch.tensor;
    let Some(scale) = task.contract.error_scale.get(output) else {
        return format!(
            "correct the baseline there or, if it is right, declare error_scale = {{ {output} = \"...\" }} in \
             [contract]: a workspace of reference.cu with the same operation on absolute values"
        );
    };
    match smallest_normal(task, mismatch) {
        Some(least) => format!(
            "the output's type rounds to multiples of its smallest value there: let reference.cu write at \
             least {least} into {scale}, as in fmax(scale, {least})"
        ),
        None => format!(
            "correct the baseline there or, if it is right, let reference.cu add the absolute value of every \
             summed term to {scale}, and state in error_terms how many there are"
        ),
    }
}

/// The smallest normal number of an output's type, where the expected value lies below it.
fn smallest_normal(task: &Task, mismatch: &Mismatch) -> Option<&'static str> {
    let mut tensors = task.tensors.iter();
    let dtype = tensors.find(|tensor| tensor.name == mismatch.tensor)?.dtype;
    let expected = mismatch.worst.as_ref()?.expected.parse::<f64>().ok()?;
    let (power, text) = match dtype {
        Dtype::F16 => (-14, "0x1p-14"),
        Dtype::F32 | Dtype::Bf16 => (-126, "0x1p-126"),
        _ => return None,
    };
    (expected.abs() < 2_f64.powi(power)).then_some(text)
}
