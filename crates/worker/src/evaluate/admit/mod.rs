//! Admits a task: measures what its references answer and what its own kernels and impostors get,
//! and holds each number against its rule.
//!
//! Everything runs through the same roles as an evaluation, so that a task is admitted by the
//! checks that will guard it.

mod impostors;
mod record;

use std::collections::BTreeMap;

use domain::admission::{
    self, AGREEMENT, Admission, Calibration, Floor, Point, Rule, SEEDS, Spread, distance, reached,
};
use domain::candidate::KernelSource;
use domain::device::DeviceKind;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use domain::judge;
use domain::role::{Alteration, Compiled, Distribution, Key, OutputComparison};
use domain::task::{Bundle, Case, Role, Task};
use domain::verdict::Verdict;

use super::passes::{Extent, Pass, Passes, elements};
use super::roles::{Allowance, Numbered, Reference, Roles};
use super::stages::{Course, SCREEN, Stop};
use super::{Evaluator, Fault, storage};
use crate::cancel::Cancellation;

pub use record::insist;

/// Cases on which outputs are looked at: the largest with at most so many elements.
const CASES: usize = 3;
const MOST_ELEMENTS: u64 = 1 << 15;
/// Elements that an error norm needs to say something about rounding.
const LEAST_ELEMENTS: u64 = 64;

/// The reference's values of each output, by name.
type Answer = BTreeMap<String, Vec<f64>>;

/// Finds out whether a task may be searched.
///
/// # Errors
/// A [`Fault`] that is no property of the task.
pub fn admit(
    evaluator: &Evaluator,
    bundle: &Bundle,
    key: Key,
    progress: &dyn Fn(&str),
    cancellation: &Cancellation,
) -> Result<Admission, Fault> {
    let task = Task::load(bundle).map_err(Fault::Task)?;
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
        Err(Stop::Verdict(verdict)) => Err(Fault::Reference(verdict.to_string())),
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
        for impostor in impostors::all(task, &middles(&draws)) {
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

    /// Both references on everything that candidates may meet on a case.
    fn agreement(
        &self,
        reference: &Reference<'_>,
        check: &Reference<'_>,
        case: &Case,
    ) -> Result<Point, Stop> {
        let everything = [self.passes().smoke()?, self.passes().screen(Extent::All)?].concat();
        let passes = everything
            .into_iter()
            .filter(|pass| pass.case == case.name || pass.distribution == Distribution::Normal)
            .collect::<Vec<_>>();
        let answers = self.answers(reference, &passes)?;
        let others = self.answers(check, &passes)?;
        let mut worst = (0.0, String::new());
        for ((pass, answer), other) in passes.iter().zip(&answers).zip(&others) {
            for (output, values) in answer {
                let off = distance(values, &other[output]);
                if off > worst.0 || worst.1.is_empty() || off.is_nan() {
                    worst = (
                        off,
                        format!("{output} of {}, {}", pass.case, pass.distribution.as_str()),
                    );
                }
            }
        }
        let limit = AGREEMENT * self.task().tolerance.relative_l2;
        let (found, place) = worst;
        let holds = found <= limit;
        let fix = if holds {
            ""
        } else {
            "; one of them is wrong, or rounds where it should not"
        };
        Ok(Point {
            rule: Rule::ReferencesAgree,
            subject: "reference.cu and check.cu".to_owned(),
            found: Some(found.min(f64::MAX)),
            limit: Some(limit),
            holds,
            says: format!(
                "they differ most in {place}, by {found:.2e} of {} inputs{fix}",
                passes.len()
            ),
        })
    }

    /// The reference's answers on each case for several draws of all inputs.
    fn draws(&self, reference: &Reference<'_>, cases: &[&Case]) -> Result<Vec<Vec<Answer>>, Stop> {
        let mut draws = Vec::new();
        for case in cases {
            let passes = (0..SEEDS)
                .map(|seed| {
                    let key = self.course.request.key.derive(&["seed", &seed.to_string()]);
                    Passes {
                        key,
                        ..self.passes()
                    }
                    .ordinary(case)
                })
                .collect::<Result<Vec<_>, _>>()?;
            draws.push(self.answers(reference, &passes)?);
        }
        Ok(draws)
    }

    fn spread(&self, cases: &[&Case], draws: &[Vec<Answer>]) -> Result<Vec<Point>, Stop> {
        let mut points = Vec::new();
        let task = self.task();
        for output in task.tensors.iter().filter(|tensor| tensor.role != Role::In) {
            let mut whole: Option<Spread> = None;
            for (case, draws) in cases.iter().zip(draws) {
                let extents = task.extents(output, case)?;
                let values = draws
                    .iter()
                    .map(|answer| answer[&output.name].clone())
                    .collect::<Vec<_>>();
                let spread = Spread::of(&values, &extents);
                whole = Some(match whole {
                    Some(known) => known.or(spread),
                    None => spread,
                });
            }
            points.extend(
                whole
                    .into_iter()
                    .flat_map(|whole| whole.points(&output.name)),
            );
        }
        Ok(points)
    }

    /// Whether the answers change when one input alone is drawn anew.
    fn inputs(&self, reference: &Reference<'_>, cases: &[&Case]) -> Result<Vec<Point>, Stop> {
        let task = self.task();
        let limit = task.tolerance.relative_l2;
        let mut points = Vec::new();
        for (number, input) in task.tensors.iter().enumerate() {
            if input.role == Role::Out {
                continue;
            }
            let mut largest = 0.0_f64;
            for case in cases {
                let original = self.passes().ordinary(case)?;
                let mut varied = original.clone();
                let key = &mut varied.tensors[number].key;
                *key = key.derive(&["varied"]);
                let answers = self.answers(reference, &[original, varied])?;
                for (output, before) in &answers[0] {
                    largest = largest.max(distance(before, &answers[1][output]));
                }
            }
            let holds = largest > limit;
            let fix = if holds {
                ""
            } else {
                "; a kernel that ignores it would pass: leave it out, or let it matter"
            };
            points.push(Point {
                rule: Rule::DependsOnInput,
                subject: input.name.clone(),
                found: Some(largest.min(f64::MAX)),
                limit: Some(limit),
                holds,
                says: format!("drawn anew by itself it changes the answers by {largest:.2e}{fix}"),
            });
        }
        Ok(points)
    }

    /// Whether one element of an input reaches what the contract says and no more.
    fn declared(&self, reference: &Reference<'_>) -> Result<Vec<Point>, Stop> {
        let task = self.task();
        let mut points = Vec::new();
        for probe in self.passes().probes()? {
            let Some((input, at)) = probe.struck() else {
                continue;
            };
            let mut original = probe.clone();
            for tensor in &mut original.tensors {
                tensor.alteration = None;
            }
            let answers = self.answers(reference, &[original, probe.clone()])?;
            let extents = |name: &str| {
                let mut tensors = probe.tensors.iter();
                let tensor = tensors.find(|tensor| tensor.name == name);
                tensor
                    .map(|tensor| tensor.extents.as_slice())
                    .unwrap_or_default()
            };
            let index = judge::unravel(at, extents(&input));
            for (output, dependences) in &task.contract.depends {
                let own = dependences.iter().filter(|one| one.input == input);
                let parts = own
                    .map(|one| one.reach(&index, extents(output).len()))
                    .collect::<Vec<_>>();
                let [outside, inside] = reached(
                    &answers[0][output],
                    &answers[1][output],
                    extents(output),
                    &parts,
                );
                let holds = outside == 0 && (inside > 0 || parts.is_empty());
                let fix = if holds {
                    ""
                } else {
                    "; correct [contract] depends"
                };
                points.push(Point {
                    rule: Rule::DependsAsDeclared,
                    subject: format!("{input} to {output}"),
                    found: exactly(outside),
                    limit: Some(0.0),
                    holds,
                    says: format!(
                        "one element of it changes {inside} elements that depend on it as declared, and {outside} others{fix}"
                    ),
                });
            }
        }
        Ok(points)
    }

    /// The errors of the task's own kernels, and of the baseline on operands too coarse.
    fn precision(
        &self,
        reference: &Reference<'_>,
        baseline: &Compiled,
        cases: &[&Case],
    ) -> Result<Vec<Point>, Stop> {
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
        let forbidden = self.error(reference, &task.baseline, baseline, &coarse)?;
        let mut worst = ("baseline.cu".to_owned(), 0.0);
        let own = self.error(reference, &task.baseline, baseline, &passes)?;
        let mut points = Vec::new();
        match own {
            Some(error) => worst.1 = error,
            None => points.push(unmeasured("baseline.cu")),
        }
        for (file, source) in &task.playbook {
            let configuration = source.plan().default_configuration();
            let Ok(image) = self.course.build(source, &configuration)? else {
                points.push(unmeasured(file));
                continue;
            };
            match self.error(reference, source, &image, &passes)? {
                Some(error) if error > worst.1 => worst = (file.clone(), error),
                Some(_) => {}
                None => points.push(unmeasured(file)),
            }
        }
        match forbidden {
            Some(forbidden) => {
                let calibration = Calibration {
                    honest: worst.1,
                    forbidden,
                    allowed: task.tolerance.relative_l2,
                };
                points.extend(calibration.points(&worst.0, &imitation));
            }
            None => points.push(unmeasured(&imitation)),
        }
        Ok(points)
    }

    /// The relative L2 error of a kernel over all outputs of some passes together; none if it does
    /// not come to its end.
    fn error(
        &self,
        reference: &Reference<'_>,
        source: &KernelSource,
        image: &Compiled,
        passes: &[Pass],
    ) -> Result<Option<f64>, Stop> {
        let task = self.task();
        let configuration = source.plan().default_configuration();
        let limits = &self.course.evaluator.host.device().limits;
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
        for (pass, plan) in passes.iter().zip(&planned) {
            let id = self.next.get();
            self.next.set(id + 1);
            let folder = self.course.roles.scratch.join(format!("admission-{id}"));
            std::fs::create_dir(&folder).map_err(storage(&folder))?;
            numbered.push(Numbered {
                id,
                pass,
                plan,
                save: Some(folder),
                budget: SCREEN.instructions,
            });
        }
        let mut complete = true;
        let allowance = Allowance {
            stage: "admission",
            ..SCREEN
        };
        self.course
            .roles
            .run(image, &numbered, allowance, |made, reply| {
                complete &= reply.is_ok_and(|reply| {
                    let mut facts = reply.executions.iter();
                    reply.executions.len() == made.len()
                        && facts.all(|facts| facts.fault.is_none() && facts.unsupported.is_none())
                });
                Ok::<_, Fault>(())
            })?;
        if !complete {
            return Ok(None);
        }
        Ok(pooled(&self.course.roles.verify(reference, &numbered)?))
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

/// The mean of each output's finite values over all draws of the largest case.
fn middles(draws: &[Vec<Answer>]) -> Vec<(String, f64)> {
    let mut sums: BTreeMap<&String, (f64, f64)> = BTreeMap::new();
    for (output, values) in draws.last().into_iter().flatten().flatten() {
        let (sum, count) = sums.entry(output).or_default();
        for value in values.iter().filter(|value| value.is_finite()) {
            *sum += value;
            *count += 1.0;
        }
    }
    sums.into_iter()
        .filter(|(_, (_, count))| *count > 0.0)
        .map(|(output, (sum, count))| (output.clone(), sum / count))
        .collect()
}

/// The relative L2 error of several outputs, as if their elements were of one size; none if one
/// of them has NaN or infinities where it should not. Outputs of a few elements say nothing about
/// rounding and are left out where there are others.
fn pooled(comparisons: &[OutputComparison]) -> Option<f64> {
    let telling = |one: &&OutputComparison| one.elements >= LEAST_ELEMENTS;
    let any = comparisons.iter().any(|one| telling(&one));
    let (mut squares, mut elements) = (0.0, 0.0);
    for one in comparisons.iter().filter(|one| !any || telling(one)) {
        let weight = exactly(one.elements)?;
        squares += weight * one.relative_l2?.powi(2);
        elements += weight;
    }
    (elements > 0.0).then(|| (squares / elements).sqrt())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "tensors have fewer than 2^53 elements"
)]
#[expect(clippy::unnecessary_wraps, reason = "what it is put into is optional")]
fn exactly(count: u64) -> Option<f64> {
    Some(count as f64)
}

fn unmeasured(file: &str) -> Point {
    Point {
        rule: Rule::HonestInside,
        subject: file.to_owned(),
        found: None,
        limit: None,
        holds: false,
        says: "it gives no outputs whose error could be measured; evaluate it by itself".to_owned(),
    }
}

fn turned_away(name: &str, verdict: &Verdict) -> Point {
    let holds = admission::is_turned_away(verdict.kind());
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
