//! Admission of a task: checks the answers of its references, and the verdicts on its own kernels
//! and on impostors, against the rules of [`domain::admission`].
//!
//! Every measurement uses the same roles as an evaluation, so that a task is admitted by the checks
//! that will guard it.

mod answers;
mod draws;
mod impostors;
mod precision;
mod record;
mod second_reference;

use std::collections::BTreeMap;

use domain::admission::{self, Admission, AdmissionRule, CaseFloor, RuleResult};
use domain::candidate::KernelSource;
use domain::device::DeviceKind;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use domain::judge;
use domain::role::{Compiled, Key};
use domain::task::{Bundle, Case, Role, SecondReference, Task};
use domain::verdict::Verdict;

use super::Evaluator;
use super::context::{Context, Setup, add_shapes};
use super::error::{EvaluateError, Stop};
use super::passes::{Pass, Passes, SMALL_ELEMENTS, elements};
use super::roles::Reference;
use crate::cancel::Cancellation;

pub use record::ensure_admitted;

/// The number of cases on which outputs are examined.
const CASES: usize = 3;
const MOST_ELEMENTS: u64 = 1 << 15;
/// The reference's values of each output, by name.
type ReferenceValues = BTreeMap<String, Vec<f64>>;

/// Decides if a task may be searched.
///
/// # Errors
/// An [`EvaluateError`] whose cause is not the task.
pub fn admit(
    evaluator: &Evaluator,
    bundle: &Bundle,
    progress: &dyn Fn(&str),
    cancellation: &Cancellation,
) -> Result<Admission, EvaluateError> {
    let task = Task::load(bundle).map_err(EvaluateError::Task)?;
    let request = EvaluationRequest {
        task: bundle.clone(),
        file: "baseline.cu".to_owned(),
        source: task.baseline.text().to_owned(),
        configuration: BTreeMap::new(),
        stage: EvaluationStage::Baseline,
        key: Key(task.version).derive(&["admission"]),
        incumbent: None,
    };
    let check = match &task.check {
        SecondReference::Kernel(source) => Some(Task {
            reference: (**source).clone(),
            ..task.clone()
        }),
        SecondReference::Python(_) => None,
    };
    let setup = Setup::new(evaluator, &request, task, cancellation)?;
    let examiner = Examiner {
        evaluator,
        context: setup.context(progress),
        check: check.as_ref(),
        cancellation,
    };
    examiner.decide()
}

/// The admission of one task.
struct Examiner<'a> {
    evaluator: &'a Evaluator,
    context: Context<'a>,
    /// The task with its second reference in place of the first; none where that is in Python.
    check: Option<&'a Task>,
    cancellation: &'a Cancellation,
}

/// The images that every task needs.
struct Images {
    reference: Compiled,
    /// None where the second reference is in Python.
    check: Option<Compiled>,
    baseline: Compiled,
}

impl<'a> Examiner<'a> {
    fn decide(&self) -> Result<Admission, EvaluateError> {
        let task = self.task();
        let cases = self.choose_cases()?;
        let mut searched = task.clone();
        add_shapes(&mut searched, self.context.request, None)?;
        let mut admission = Admission {
            task: task.name.clone(),
            version: task.version,
            cases: cases.iter().map(|case| case.name.clone()).collect(),
            results: Vec::new(),
            floors: Vec::new(),
            advice: admission::advise(&searched, SMALL_ELEMENTS),
        };
        (self.context.progress)("compile references and baseline");
        let images = match self.compile_images(&mut admission.results)? {
            Some(images) => images,
            None => return Ok(admission),
        };
        let reference = Reference {
            task,
            compiled: images.reference,
        };
        let python = self.python_reference()?;
        if let Some(python) = &python {
            (self.context.progress)("call the reference in Python");
            let tried = self.try_python(python, &cases)?;
            let works = tried.holds;
            admission.results.push(tried);
            if !works {
                return Ok(admission);
            }
        }
        let check = self
            .second_reference(images.check, python)
            .expect("a task has a second reference, which was prepared");
        (self.context.progress)("compare the references");
        let largest = cases.last().expect("a task has a case");
        admission
            .results
            .push(self.check_agreement(&reference, &check, largest)?);
        (self.context.progress)("draw inputs ten times");
        let draws = self.answer_draws(&reference, &cases)?;
        admission.results.extend(self.check_spread(&cases, &draws)?);
        (self.context.progress)("vary each input by itself");
        admission
            .results
            .extend(self.check_input_dependence(&reference, &cases)?);
        admission
            .results
            .extend(self.check_declared_dependences(&reference)?);
        if admission.results.iter().any(|point| !point.holds) {
            // The references cannot be relied on, so nothing further is compared with them.
            return Ok(admission);
        }
        (self.context.progress)("measure precisions");
        admission
            .results
            .extend(self.check_precision(&reference, &images.baseline, &cases)?);
        for impostor in impostors::make_all(task, &answers::mean_values(&draws)) {
            (self.context.progress)(&impostor.name);
            let verdict = self
                .evaluate_as_baseline(&impostor.name, impostor.source)?
                .verdict;
            admission
                .results
                .push(impostor_point(&impostor.name, &verdict));
        }
        (self.context.progress)("evaluate the baseline");
        let baseline = task.baseline.text().to_owned();
        let evaluation = self.evaluate_as_baseline("baseline.cu", baseline)?;
        (self.context.progress)("draw the baseline's inputs again");
        admission
            .results
            .push(self.check_baseline(&evaluation.verdict)?);
        admission.floors = self.compute_floors(&evaluation.verdict)?;
        admission
            .results
            .extend(self.measure_noise(&evaluation.verdict)?);
        Ok(admission)
    }

    fn task(&self) -> &'a Task {
        self.context.task
    }

    fn passes(&self) -> Passes<'a> {
        self.context.passes()
    }

    /// The small cases to examine: the largest with at most [`MOST_ELEMENTS`] elements, in
    /// ascending size. There are two if the task has two, because the smallest case is often one element along each
    /// axis, where a softmax does not depend on its scores.
    fn choose_cases(&self) -> Result<Vec<&'a Case>, EvaluateError> {
        let small = self.passes().small_cases()?;
        let mut fitting = Vec::new();
        for case in &small {
            if elements(self.task(), case)? <= MOST_ELEMENTS {
                fitting.push(*case);
            }
        }
        if fitting.len() < 2 {
            fitting = small.into_iter().take(2).collect();
        }
        let surplus = fitting.len().saturating_sub(CASES);
        Ok(fitting.split_off(surplus))
    }

    fn compile_images(
        &self,
        results: &mut Vec<RuleResult>,
    ) -> Result<Option<Images>, EvaluateError> {
        let task = self.task();
        let mut built = Vec::new();
        let check = match &task.check {
            SecondReference::Kernel(source) => Some(("check.cu", &**source)),
            SecondReference::Python(_) => None,
        };
        let sources = [
            Some(("reference.cu", &task.reference)),
            check,
            Some(("baseline.cu", &task.baseline)),
        ];
        for (file, source) in sources.into_iter().flatten() {
            let configuration = source.plan().default_configuration();
            let (compiled, explanation) = match self.context.build(source, &configuration) {
                Ok(compiled) => match self.find_launch_error(source, &compiled)? {
                    None => (Some(compiled), "it compiles".to_owned()),
                    Some(why) => (None, why),
                },
                Err(Stop::Verdict(verdict)) => (None, verdict.to_string()),
                Err(Stop::Fault(error)) => return Err(error),
            };
            results.push(RuleResult {
                rule: AdmissionRule::Compiles,
                subject: file.to_owned(),
                found: None,
                limit: None,
                holds: compiled.is_some(),
                explanation,
            });
            built.extend(compiled);
        }
        let mut built = built.into_iter();
        Ok(match (built.next(), built.next(), built.next()) {
            (Some(reference), Some(check), Some(baseline)) => Some(Images {
                reference,
                check: Some(check),
                baseline,
            }),
            (Some(reference), Some(baseline), None) if check.is_none() => Some(Images {
                reference,
                check: None,
                baseline,
            }),
            _ => None,
        })
    }

    /// The reason why an image cannot run its own plan on some case, such as a kernel that the
    /// source does not declare `extern "C"`; `None` if it can.
    fn find_launch_error(
        &self,
        source: &KernelSource,
        compiled: &Compiled,
    ) -> Result<Option<String>, EvaluateError> {
        let limits = &self.context.device().limits;
        let configuration = source.plan().default_configuration();
        for case in self.passes().cases() {
            let plan = source.plan();
            let plan = plan.resolve(self.task(), &case.dims, &configuration, limits);
            // A plan that cannot be resolved is reported by the stage that needs it.
            let Ok(plan) = plan else { continue };
            if let Some(verdict) = judge::judge_image(&plan, &compiled.kernels, limits) {
                return Ok(Some(verdict.to_string()));
            }
        }
        Ok(None)
    }

    /// Computes a reference's answers to the inputs of some passes.
    fn answers(
        &self,
        reference: &Reference<'_>,
        passes: &[Pass],
    ) -> Result<Vec<ReferenceValues>, EvaluateError> {
        self.context.roles.answers(reference, passes)
    }

    /// Evaluates a candidate file as a baseline, which no gate rejects.
    fn evaluate_as_baseline(
        &self,
        file: &str,
        source: String,
    ) -> Result<Evaluation, EvaluateError> {
        let request = EvaluationRequest {
            file: file.to_owned(),
            source,
            ..self.context.request.clone()
        };
        let quiet = |_: &str| {};
        let evaluator = self.evaluator;
        evaluator.evaluate(&request, quiet, self.cancellation)
    }

    /// The bytes that each score case must read and write at least, beside the baseline's time.
    fn compute_floors(&self, verdict: &Verdict) -> Result<Vec<CaseFloor>, EvaluateError> {
        let task = self.task();
        let timing = verdict.acceptance().map(|acceptance| &acceptance.timing);
        let times = timing.map(|timing| timing.cases()).unwrap_or_default();
        let mut floors = Vec::new();
        for case in task.score_cases() {
            let mut bytes = 0;
            for tensor in &task.tensors {
                let size: u64 = task.extents(tensor, case)?.iter().product();
                let ways = if tensor.role == Role::Inout { 2 } else { 1 };
                bytes += ways * size * tensor.dtype.bytes();
            }
            for cache in task.objective.cache.scored() {
                let baseline = times
                    .iter()
                    .find(|time| time.case == case.name && time.cache == *cache);
                floors.push(CaseFloor {
                    case: case.name.clone(),
                    cache: *cache,
                    bytes,
                    baseline_us: baseline.map(|time| time.us),
                    modelled: timing.is_some_and(|timing| timing.is_modelled()),
                });
            }
        }
        Ok(floors)
    }

    /// Compares the baseline's times with its own. `None` on a device that models times, because a
    /// model has no noise.
    fn measure_noise(&self, verdict: &Verdict) -> Result<Option<RuleResult>, EvaluateError> {
        let measured = self.evaluator.host.device().kind == DeviceKind::Nvidia;
        if !measured || verdict.acceptance().is_none() {
            return Ok(None);
        }
        (self.context.progress)("time the baseline against itself");
        let request = self.context.request;
        let quiet = |_: &str| {};
        let bench = self.evaluator.bench(request, quiet, self.cancellation);
        Ok(Some(match bench {
            Err(Stop::Fault(error)) => return Err(error),
            Ok(compared) => {
                let [low, high] = compared.comparison.interval;
                let holds = low <= 1.0 && high >= 1.0;
                RuleResult {
                    rule: AdmissionRule::BaselineNoise,
                    subject: "baseline.cu".to_owned(),
                    found: Some(high - low),
                    limit: None,
                    holds,
                    explanation: format!(
                        "against itself its speedup lies between {low:.4} and {high:.4}"
                    ),
                }
            }
            Err(Stop::Verdict(verdict)) => RuleResult {
                rule: AdmissionRule::BaselineNoise,
                subject: "baseline.cu".to_owned(),
                found: None,
                limit: None,
                holds: false,
                explanation: format!("timing it against itself gave {verdict}"),
            },
        }))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "tensors have fewer than 2^53 elements"
)]
#[expect(clippy::unnecessary_wraps, reason = "what it is put into is optional")]
fn as_optional_f64(count: u64) -> Option<f64> {
    Some(count as f64)
}

fn impostor_point(name: &str, verdict: &Verdict) -> RuleResult {
    let holds = admission::is_rejected_for_its_result(verdict.kind());
    let fix = if verdict.acceptance().is_some() {
        ": the task rewards a kernel without merit"
    } else {
        ""
    };
    RuleResult {
        rule: AdmissionRule::ImpostorRejected,
        subject: name.to_owned(),
        found: None,
        limit: None,
        holds,
        explanation: format!("{verdict}{fix}"),
    }
}
