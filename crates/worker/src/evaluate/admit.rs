//! Admits a task: measures what its references answer and what its own kernels and impostors get,
//! and holds each number against its rule.
//!
//! Everything runs through the same roles as an evaluation, so that a task is admitted by the
//! checks that will guard it.

mod answers;
mod impostors;
mod precision;
mod record;

use std::collections::BTreeMap;

use domain::admission::{self, Admission, Floor, Point, Rule};
use domain::device::DeviceKind;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use domain::role::{Compiled, Key};
use domain::task::{Bundle, Case, Role, Task};
use domain::verdict::Verdict;

use super::passes::{Pass, Passes, elements};
use super::roles::{Reference, Roles};
use super::stages::{Course, Stop};
use super::{EvaluateError, Evaluator, storage};
use crate::cancel::Cancellation;

pub use record::insist;

/// Cases on which outputs are looked at: the largest with at most so many elements.
const CASES: usize = 3;
const MOST_ELEMENTS: u64 = 1 << 15;
/// The reference's values of each output, by name.
type Answer = BTreeMap<String, Vec<f64>>;

/// Finds out whether a task may be searched.
///
/// # Errors
/// A [`EvaluateError`] that is no property of the task.
pub fn admit(
    evaluator: &Evaluator,
    bundle: &Bundle,
    key: Key,
    progress: &dyn Fn(&str),
    cancellation: &Cancellation,
) -> Result<Admission, EvaluateError> {
    let task = Task::load(bundle).map_err(EvaluateError::Task)?;
    let scratch = tempfile::tempdir_in(&evaluator.scratch).map_err(storage(&evaluator.scratch))?;
    let request = EvaluationRequest {
        task: bundle.clone(),
        file: "baseline.cu".to_owned(),
        source: task.baseline.text().to_owned(),
        configuration: BTreeMap::new(),
        stage: EvaluationStage::Baseline,
        key,
        incumbent: None,
    };
    let disturber = evaluator.disturber(cancellation)?;
    let roles = Roles {
        host: &evaluator.host,
        scratch: scratch.path(),
        cancellation,
        lines: false,
        disturber: disturber.as_ref(),
    };
    let check = Task {
        reference: task.check.clone(),
        ..task.clone()
    };
    let course = Course::new(evaluator, &request, &task, progress, roles);
    let office = Office {
        course,
        check: &check,
        progress,
        cancellation,
        next: std::cell::Cell::new(0),
    };
    match office.decide() {
        Ok(admission) => Ok(admission),
        Err(Stop::Fault(fault)) => Err(fault),
        Err(Stop::Verdict(verdict)) => Err(EvaluateError::Reference(verdict.to_string())),
    }
}

struct Office<'a> {
    course: Course<'a>,
    /// The task with its second reference in the place of the first.
    check: &'a Task,
    progress: &'a dyn Fn(&str),
    cancellation: &'a Cancellation,
    next: std::cell::Cell<u32>,
}

/// The three images that a task cannot do without.
struct Images {
    reference: Compiled,
    check: Compiled,
    baseline: Compiled,
}

impl<'a> Office<'a> {
    fn decide(&self) -> Result<Admission, Stop> {
        let task = self.task();
        let cases = self.cases()?;
        let mut admission = Admission {
            task: task.name.clone(),
            version: task.version,
            cases: cases.iter().map(|case| case.name.clone()).collect(),
            points: Vec::new(),
            floors: Vec::new(),
        };
        (self.progress)("compile references and baseline");
        let images = match self.images(&mut admission.points)? {
            Some(images) => images,
            None => return Ok(admission),
        };
        let reference = Reference {
            task,
            compiled: images.reference,
        };
        let check = Reference {
            task: self.check,
            compiled: images.check,
        };
        (self.progress)("compare the references");
        let largest = cases.last().expect("a task has a case");
        admission
            .points
            .push(self.agreement(&reference, &check, largest)?);
        (self.progress)("draw inputs ten times");
        let draws = self.draws(&reference, &cases)?;
        admission.points.extend(self.spread(&cases, &draws)?);
        (self.progress)("vary each input by itself");
        admission.points.extend(self.inputs(&reference, &cases)?);
        admission.points.extend(self.declared(&reference)?);
        if admission.points.iter().any(|point| !point.holds) {
            // What the references say is not to be relied on, so nothing is held against it.
            return Ok(admission);
        }
        (self.progress)("measure precisions");
        admission
            .points
            .extend(self.precision(&reference, &images.baseline, &cases)?);
        for impostor in impostors::all(task, &answers::middles(&draws)) {
            (self.progress)(&impostor.name);
            let verdict = self.evaluated(&impostor.name, impostor.source)?.verdict;
            admission.points.push(turned_away(&impostor.name, &verdict));
        }
        (self.progress)("evaluate the baseline");
        let baseline = task.baseline.text().to_owned();
        let evaluation = self.evaluated("baseline.cu", baseline)?;
        admission.points.push(accepted(&evaluation.verdict));
        admission.floors = self.floors(&evaluation.verdict)?;
        admission.points.extend(self.noise(&evaluation.verdict)?);
        Ok(admission)
    }

    fn task(&self) -> &'a Task {
        self.course.task
    }

    fn passes(&self) -> Passes<'a> {
        self.course.passes()
    }

    /// Small cases, the largest last.
    fn cases(&self) -> Result<Vec<&'a Case>, Stop> {
        let small = self.passes().small_cases()?;
        let mut fitting = Vec::new();
        for case in &small {
            if elements(self.task(), case)? <= MOST_ELEMENTS {
                fitting.push(*case);
            }
        }
        if fitting.is_empty() {
            fitting.extend(small.first());
        }
        let surplus = fitting.len().saturating_sub(CASES);
        Ok(fitting.split_off(surplus))
    }

    fn images(&self, points: &mut Vec<Point>) -> Result<Option<Images>, Stop> {
        let task = self.task();
        let mut built = Vec::new();
        for (file, source) in [
            ("reference.cu", &task.reference),
            ("check.cu", &task.check),
            ("baseline.cu", &task.baseline),
        ] {
            let configuration = source.plan().default_configuration();
            let answer = self.course.build(source, &configuration)?;
            let says = match &answer {
                Ok(_) => "it compiles".to_owned(),
                Err(verdict) => verdict.to_string(),
            };
            points.push(Point {
                rule: Rule::Compiles,
                subject: file.to_owned(),
                found: None,
                limit: None,
                holds: answer.is_ok(),
                says,
            });
            built.extend(answer.ok());
        }
        let [reference, check, baseline] = match <[Compiled; 3]>::try_from(built) {
            Ok(images) => images,
            Err(_) => return Ok(None),
        };
        Ok(Some(Images {
            reference,
            check,
            baseline,
        }))
    }

    /// What a reference answers to the inputs of some passes.
    fn answers(&self, reference: &Reference<'_>, passes: &[Pass]) -> Result<Vec<Answer>, Stop> {
        Ok(self.course.roles.answers(reference, passes)?)
    }

    /// A candidate through all stages that do not reject for gates.
    fn evaluated(&self, file: &str, source: String) -> Result<Evaluation, Stop> {
        let request = EvaluationRequest {
            file: file.to_owned(),
            source,
            ..self.course.request.clone()
        };
        let quiet = |_: &str| {};
        let evaluator = self.course.evaluator;
        Ok(evaluator.evaluate(&request, quiet, self.cancellation)?)
    }

    /// The least that each score case must move, beside the baseline's time.
    fn floors(&self, verdict: &Verdict) -> Result<Vec<Floor>, Stop> {
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
                floors.push(Floor {
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

    /// The baseline against itself. A model has no noise, so that there is nothing to find out.
    fn noise(&self, verdict: &Verdict) -> Result<Option<Point>, Stop> {
        let measured = self.course.evaluator.host.device().kind == DeviceKind::Nvidia;
        if !measured || verdict.acceptance().is_none() {
            return Ok(None);
        }
        (self.progress)("time the baseline against itself");
        let request = self.course.request;
        let quiet = |_: &str| {};
        let bench = self
            .course
            .evaluator
            .bench(request, quiet, self.cancellation)?;
        Ok(Some(match bench {
            Ok(compared) => {
                let [low, high] = compared.comparison.interval;
                let holds = low <= 1.0 && high >= 1.0;
                Point {
                    rule: Rule::BaselineNoise,
                    subject: "baseline.cu".to_owned(),
                    found: Some(high - low),
                    limit: None,
                    holds,
                    says: format!("against itself its speedup lies between {low:.4} and {high:.4}"),
                }
            }
            Err(verdict) => Point {
                rule: Rule::BaselineNoise,
                subject: "baseline.cu".to_owned(),
                found: None,
                limit: None,
                holds: false,
                says: format!("timing it against itself gave {verdict}"),
            },
        }))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "tensors have fewer than 2^53 elements"
)]
#[expect(clippy::unnecessary_wraps, reason = "what it is put into is optional")]
fn exactly(count: u64) -> Option<f64> {
    Some(count as f64)
}

fn turned_away(name: &str, verdict: &Verdict) -> Point {
    let holds = admission::is_rejected_for_its_result(verdict.kind());
    let fix = if verdict.acceptance().is_some() {
        ": the task rewards a kernel without merit"
    } else {
        ""
    };
    Point {
        rule: Rule::ImpostorRejected,
        subject: name.to_owned(),
        found: None,
        limit: None,
        holds,
        says: format!("{verdict}{fix}"),
    }
}

fn accepted(verdict: &Verdict) -> Point {
    Point {
        rule: Rule::BaselineAccepted,
        subject: "baseline.cu".to_owned(),
        found: None,
        limit: None,
        holds: verdict.acceptance().is_some(),
        says: verdict.to_string(),
    }
}
