//! The precision of the task's own kernels, and that of a kernel that computes more coarsely than
//! the task allows. The task's tolerance must lie between the two.

use domain::admission::{self, AdmissionRule, Calibration, RuleResult};
use domain::candidate::KernelSource;
use domain::role::{Alteration, Compiled, OutputComparison};
use domain::task::{Case, Task};

use super::{Examiner, as_optional_f64};
use crate::evaluate::context::SCREEN;
use crate::evaluate::edges::in_every_confirmation;
use crate::evaluate::error::{EvaluateError, storage};
use crate::evaluate::passes::Pass;
use crate::evaluate::roles::{NumberedPass, Reference, RunLimits};

/// The number of elements from which on an error norm measures rounding.
const LEAST_ELEMENTS: u64 = 64;

impl Examiner<'_> {
    /// Measures the errors of the task's own kernels, and of the baseline on operands that are too
    /// coarse. Shapes that every confirmation executes count for the latter: it is rejected if it is off
    /// in one of them, and where sums are long the roundings of operands average out.
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
        let edges = in_every_confirmation(task)?;
        let reference = &Reference {
            task: &Task {
                cases: [&task.cases[..], &edges].concat(),
                ..task.clone()
            },
            compiled: reference.compiled.clone(),
        };
        let passes = self.ordinary_passes(cases.iter().copied())?;
        let bits = admission::forbidden_bits(task.tolerance.class);
        let rounded = |mut passes: Vec<Pass>| {
            for tensor in passes.iter_mut().flat_map(|pass| &mut pass.tensors) {
                tensor.alteration = Some(Alteration::Rounded(bits));
            }
            passes
        };
        let coarse = rounded(passes.clone());
        let coarse_edges = rounded(self.ordinary_passes(&edges)?);
        let imitation = format!("baseline.cu on operands of {bits} bits");
        let compare = |source: &KernelSource, image: &Compiled, passes: &[Pass]| {
            self.compare_outputs(reference, source, image, passes)
        };
        let forbidden = compare(&task.baseline, baseline, &coarse)?;
        let at_edges = compare(&task.baseline, baseline, &coarse_edges)?;
        let mut worst = ("baseline.cu".to_owned(), 0.0);
        let own = compare(&task.baseline, baseline, &passes)?;
        let mut results = Vec::new();
        match own.and_then(|outputs| pool_errors(&outputs)) {
            Some(error) => worst.1 = error,
            None => results.push(unmeasured("baseline.cu")),
        }
        for (file, source) in &task.playbook {
            let Some(image) = self.context.build_default(source)? else {
                results.push(unmeasured(file));
                continue;
            };
            let own = compare(source, &image, &passes)?;
            match own.and_then(|outputs| pool_errors(&outputs)) {
                Some(error) if error > worst.1 => worst = (file.clone(), error),
                Some(_) => {}
                None => results.push(unmeasured(file)),
            }
        }
        let pooled = forbidden.as_deref().and_then(pool_errors);
        match (pooled, forbidden, at_edges) {
            (Some(pooled), Some(forbidden), Some(at_edges)) => {
                let calibration = Calibration {
                    honest: worst.1,
                    forbidden: pooled,
                    forbidden_largest: largest_error(forbidden.iter().chain(&at_edges)),
                    allowed: task.tolerance.relative_l2,
                };
                results.extend(calibration.rule_results(&worst.0, &imitation));
            }
            _ => results.push(unmeasured(&imitation)),
        }
        Ok(results)
    }

    fn ordinary_passes<'c>(
        &self,
        cases: impl IntoIterator<Item = &'c Case>,
    ) -> Result<Vec<Pass>, EvaluateError> {
        let cases = cases.into_iter();
        Ok(cases
            .map(|case| self.passes().ordinary(case))
            .collect::<Result<_, _>>()?)
    }

    /// The comparisons of a kernel's outputs in some passes; `None` if an execution fails.
    fn compare_outputs(
        &self,
        reference: &Reference<'_>,
        source: &KernelSource,
        image: &Compiled,
        passes: &[Pass],
    ) -> Result<Option<Vec<OutputComparison>>, EvaluateError> {
        let task = reference.task;
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
        Ok(Some(self.context.roles.verify(reference, &numbered)?))
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

/// The largest relative L2 error of one output.
fn largest_error<'a>(comparisons: impl Iterator<Item = &'a OutputComparison>) -> f64 {
    comparisons
        .filter_map(|one| one.relative_l2)
        .fold(0.0, f64::max)
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
