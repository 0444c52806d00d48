//! The precision of the task's own kernels, and that of a kernel that computes more coarsely than
//! the task allows. The task's tolerance must lie between the two.

use domain::admission::{self, AdmissionRule, Calibration, RuleResult};
use domain::candidate::KernelSource;
use domain::role::{Alteration, Compiled, OutputComparison};
use domain::task::Case;

use super::{Examiner, as_optional_f64};
use crate::evaluate::context::SCREEN;
use crate::evaluate::error::{EvaluateError, storage};
use crate::evaluate::passes::Pass;
use crate::evaluate::roles::{NumberedPass, Reference, RunLimits};

/// The number of elements from which on an error norm measures rounding.
const LEAST_ELEMENTS: u64 = 64;

impl Examiner<'_> {
    /// Measures the errors of the task's own kernels, and of the baseline on operands that are too
    /// coarse.
    pub(super) fn check_precision(
        &self,
        reference: &Reference<'_>,
        baseline: &Compiled,
        cases: &[&Case],
    ) -> Result<Vec<RuleResult>, EvaluateError> {
        let task = self.task();
        if !task
            .tensors
            .iter()
            .any(|tensor| tensor.dtype.unit_roundoff().is_some())
        {
            return Ok(Vec::new());
        }
        let mut passes = Vec::new();
        for case in cases {
            passes.push(self.passes().ordinary(case)?);
        }
        let bits = admission::forbidden_bits(task.tolerance.class);
        let mut coarse = passes.clone();
        for tensor in coarse.iter_mut().flat_map(|pass| &mut pass.tensors) {
            tensor.alteration = Some(Alteration::Rounded(bits));
        }
        let imitation = format!("baseline.cu on operands of {bits} bits");
        let forbidden = self.measure_error(reference, &task.baseline, baseline, &coarse)?;
        let mut worst = ("baseline.cu".to_owned(), 0.0);
        let own = self.measure_error(reference, &task.baseline, baseline, &passes)?;
        let mut results = Vec::new();
        match own {
            Some(error) => worst.1 = error,
            None => results.push(unmeasured("baseline.cu")),
        }
        for (file, source) in &task.playbook {
            let Some(image) = self.context.build_default(source)? else {
                results.push(unmeasured(file));
                continue;
            };
            match self.measure_error(reference, source, &image, &passes)? {
                Some(error) if error > worst.1 => worst = (file.clone(), error),
                Some(_) => {}
                None => results.push(unmeasured(file)),
            }
        }
        match forbidden {
            Some(forbidden) => {
                let calibration = Calibration {
                    honest: worst.1,
                    forbidden,
                    allowed: task.tolerance.relative_l2,
                };
                results.extend(calibration.rule_results(&worst.0, &imitation));
            }
            None => results.push(unmeasured(&imitation)),
        }
        Ok(results)
    }

    /// The relative L2 error of a kernel over all outputs of some passes together; `None` if an
    /// execution fails.
    fn measure_error(
        &self,
        reference: &Reference<'_>,
        source: &KernelSource,
        image: &Compiled,
        passes: &[Pass],
    ) -> Result<Option<f64>, EvaluateError> {
        let task = self.task();
        let configuration = source.plan().default_configuration();
        let limits = &self.evaluator.host.device().limits;
        let mut planned = Vec::new();
        for pass in passes {
            let case = task
                .case(&pass.case)
                .expect("passes are made of the task's cases");
            let plan = source
                .plan()
                .resolve(task, &case.dims, &configuration, limits);
            let Ok(plan) = plan else { return Ok(None) };
            planned.push(plan);
        }
        let mut numbered = Vec::new();
        let scratch = self.context.roles.scratch;
        let outputs = tempfile::tempdir_in(scratch).map_err(storage(scratch))?;
        for ((pass, plan), id) in passes.iter().zip(&planned).zip(0..) {
            let folder = outputs.path().join(format!("outputs-{id}"));
            std::fs::create_dir(&folder).map_err(storage(&folder))?;
            numbered.push(NumberedPass {
                id,
                pass,
                plan,
                save: Some(folder),
                beside: None,
                budget: SCREEN.instructions,
            });
        }
        let mut complete = true;
        let allowance = RunLimits {
            stage: "admission",
            ..SCREEN
        };
        self.context
            .roles
            .run(image, &numbered, allowance, |made, reply| {
                complete &= reply.is_ok_and(|reply| {
                    let mut facts = reply.executions.iter();
                    reply.executions.len() == made.len()
                        && facts.all(|facts| facts.fault.is_none() && facts.unsupported.is_none())
                });
                Ok::<_, EvaluateError>(())
            })?;
        if !complete {
            return Ok(None);
        }
        Ok(pool_errors(
            &self.context.roles.verify(reference, &numbered)?,
        ))
    }
}

/// The relative L2 error of several outputs, as if their elements had the same magnitude; `None` if
/// one of them has NaN or infinities where it should not. Outputs of few elements do not measure
/// rounding, and are left out if there are larger ones.
fn pool_errors(comparisons: &[OutputComparison]) -> Option<f64> {
    let telling = |one: &&OutputComparison| one.elements >= LEAST_ELEMENTS;
    let any = comparisons.iter().any(|one| telling(&one));
    let (mut squares, mut elements) = (0.0, 0.0);
    for one in comparisons.iter().filter(|one| !any || telling(one)) {
        let weight = as_optional_f64(one.elements)?;
        squares += weight * one.relative_l2?.powi(2);
        elements += weight;
    }
    (elements > 0.0).then(|| (squares / elements).sqrt())
}

fn unmeasured(file: &str) -> RuleResult {
    RuleResult {
        rule: AdmissionRule::HonestInside,
        subject: file.to_owned(),
        found: None,
        limit: None,
        holds: false,
        explanation: "it gives no outputs whose error could be measured; evaluate it by itself"
            .to_owned(),
    }
}
