//! Whatever else solves the task, timed beside the candidate: kernels with a plan, and machine code
//! with one, in turn with it, a script's library in processes that alternate with its own. Only somebody who evaluates by
//! hand asks for this, and nothing is promoted on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::candidate::KernelSource;
use domain::device::DeviceKind;
use domain::evaluation::{EvaluationRequest, EvaluationStage, Incumbent};
use domain::judge;
use domain::plan::Configuration;
use domain::role::{ExecutionPurpose, TensorData};
use domain::statistics;
use domain::task::{Rival, Role as Direction, Task};
use domain::timing::Timing;
use domain::verdict::Comparison;
use serde::Serialize;

use super::looks::{Looked, Timed};
use super::{Course, Stop};
use crate::cancel::Cancellation;
use crate::evaluate::paired::Apart;
use crate::evaluate::passes::Pass;
use crate::evaluate::roles::Saved;
use crate::evaluate::{EvaluateError, Evaluator, storage};
use crate::rivals::{self, Answer, Manner, Question};

/// Executions that a script times of each case, each time it is asked.
const EXECUTIONS: u32 = 30;

/// What came of a rival.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rivalry {
    /// Its file in the task's folder.
    pub file: String,
    /// What a script says it times, with its version.
    pub what: Option<String>,
    /// The times, or why there are none.
    #[serde(flatten)]
    pub outcome: RivalOutcome,
}

/// The times of a rival, or why there are none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RivalOutcome {
    /// Both were right, and timed.
    Timed {
        /// Each score case.
        cases: Vec<RivalCase>,
        /// Rival over candidate, geometric mean over the cases: above 1 the candidate is faster.
        speedup: Comparison,
        /// Whether the rival's times are the word of a script, by its own clock.
        claimed: bool,
    },
    /// There is no number.
    NotRun {
        /// What is missing or wrong.
        reason: String,
    },
}

/// One score case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RivalCase {
    /// Its name, with the state of the cache where that is not cold.
    pub case: String,
    /// The rival's time, microseconds.
    pub us: f64,
    /// The candidate's.
    pub candidate_us: f64,
}

/// The times of a turn by case, or why the other side gave none.
pub type Turn = Result<Vec<f64>, String>;

impl Evaluator {
    /// Times everything in the task's `baselines` beside a candidate that is known to be right.
    /// `content` gives the bytes of an input, for scripts.
    ///
    /// # Errors
    /// A [`EvaluateError`] if the infrastructure, neither candidate nor rival, is to blame.
    pub fn rivals(
        &self,
        request: &EvaluationRequest,
        content: &dyn Fn(&TensorData) -> Vec<u8>,
        progress: impl Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<Vec<Rivalry>, EvaluateError> {
        let task = Task::load(&request.task).map_err(EvaluateError::Task)?;
        let mut found = Vec::new();
        for (file, rival) in &task.rivals {
            progress(&format!("rival {file}"));
            let (what, outcome) = match rival {
                Rival::Kernel(source) => (
                    None,
                    self.beside_kernel(request, file, source, cancellation)?,
                ),
                Rival::Script(script) => {
                    self.beside_script(request, script, content, cancellation)?
                }
                Rival::Image(image) => self.beside_image(request, file, image, cancellation)?,
            };
            found.push(Rivalry {
                file: file.clone(),
                what,
                outcome,
            });
        }
        Ok(found)
    }

    /// A rival kernel has to be right before it may take an incumbent's place.
    fn beside_kernel(
        &self,
        request: &EvaluationRequest,
        file: &str,
        source: &KernelSource,
        cancellation: &Cancellation,
    ) -> Result<RivalOutcome, EvaluateError> {
        let itself = EvaluationRequest {
            // No soft gate stands against it: it is not searched.
            stage: EvaluationStage::Baseline,
            file: file.to_owned(),
            source: source.text().to_owned(),
            configuration: Configuration::default(),
            incumbent: None,
            ..request.clone()
        };
        let timed = match self.measure(&itself, |_| {}, cancellation)? {
            (_, Some(timed)) => timed,
            (looked, None) => return Ok(stands_against("the rival", looked.against)),
        };
        let beside = EvaluationRequest {
            incumbent: Some(Incumbent {
                file: file.to_owned(),
                source: source.text().to_owned(),
                configuration: Configuration::default(),
                timing: timed.timing,
            }),
            ..request.clone()
        };
        Ok(compared(self.measure(&beside, |_| {}, cancellation)?))
    }

    /// A library is held against the reference first, and has times where the candidate's are
    /// measured, too.
    fn beside_script(
        &self,
        request: &EvaluationRequest,
        script: &str,
        content: &dyn Fn(&TensorData) -> Vec<u8>,
        cancellation: &Cancellation,
    ) -> Result<(Option<String>, RivalOutcome), EvaluateError> {
        let not_run = |reason: String| Ok((None, RivalOutcome::NotRun { reason }));
        let python = match rivals::python() {
            Ok(python) => python,
            Err(reason) => return not_run(reason),
        };
        let folder = tempfile::tempdir_in(&self.scratch).map_err(storage(&self.scratch))?;
        let (looked, asked) = self.with_course(request, &|_| {}, cancellation, |course| {
            let library = Library::of(course, script, python, content, folder.path())?;
            let answer = library.ask(1, cancellation)?;
            let reference = course.reference()?;
            Ok(match answer {
                Answer::NotRun { reason } => Err(reason),
                Answer::Timed { what, .. } => match library.wrong(course, &reference)? {
                    Some(reason) => Err(reason),
                    None => Ok((what, library)),
                },
            })
        })?;
        let (what, library) = match asked {
            Some(Ok(right)) => right,
            Some(Err(reason)) => return not_run(reason),
            None => return Ok((None, stands_against("the task", looked.against))),
        };
        if self.host.device().kind == DeviceKind::Emulated {
            let reason = "its outputs are right; it would measure times, and those of this device \
                          are modelled";
            return Ok((
                Some(what),
                RivalOutcome::NotRun {
                    reason: reason.to_owned(),
                },
            ));
        }
        let mut turn = |_| {
            self.host.clear_the_device();
            Ok(match library.ask(EXECUTIONS, cancellation)? {
                Answer::NotRun { reason } => Err(reason),
                Answer::Timed { microseconds, .. } => Ok(microseconds
                    .iter()
                    .map(|times| statistics::median(times).unwrap_or(f64::NAN))
                    .collect()),
            })
        };
        let outcome = self.alternate(request, &mut turn, cancellation)?;
        Ok((Some(what), outcome))
    }

    /// Times a candidate in processes that alternate with somebody else's. `turn` takes the number
    /// of the alternation and gives the other's time of each score case, microseconds.
    ///
    /// # Errors
    /// A [`EvaluateError`] if the infrastructure is to blame, or of `turn`.
    pub fn alternate(
        &self,
        request: &EvaluationRequest,
        turn: &mut dyn FnMut(usize) -> Result<Turn, EvaluateError>,
        cancellation: &Cancellation,
    ) -> Result<RivalOutcome, EvaluateError> {
        let (looked, apart) = self.with_course(request, &|_| {}, cancellation, |course| {
            let candidate = course.read()?;
            let compiled = course.compile(&candidate)?;
            course.compete(&candidate, &compiled)?.apart(turn)
        })?;
        Ok(match apart {
            Some(Ok(Apart { cases, comparison })) => RivalOutcome::Timed {
                cases: cases
                    .into_iter()
                    .map(|(case, us, candidate_us)| RivalCase {
                        case,
                        us,
                        candidate_us,
                    })
                    .collect(),
                speedup: comparison,
                claimed: true,
            },
            Some(Err(reason)) => RivalOutcome::NotRun { reason },
            None => stands_against("the candidate", looked.against),
        })
    }
}

/// What came of a candidate beside a rival that is right.
pub(super) fn compared(measured: (Looked, Option<Timed>)) -> RivalOutcome {
    match measured {
        (_, Some(timed)) => RivalOutcome::Timed {
            cases: cases(&timed),
            speedup: timed.comparison,
            claimed: false,
        },
        (looked, None) => stands_against("the candidate", looked.against),
    }
}

pub(super) fn stands_against(
    whom: &str,
    verdict: Option<domain::verdict::Verdict>,
) -> RivalOutcome {
    let reason = match verdict {
        Some(verdict) => format!("{whom}: {verdict}"),
        None => format!("{whom} has no times"),
    };
    RivalOutcome::NotRun { reason }
}

fn cases(timed: &Timed) -> Vec<RivalCase> {
    let pairs = |own: &Timing, other: &Timing| -> Vec<RivalCase> {
        let both = own.cases().into_iter().zip(other.cases());
        both.map(|(own, other)| RivalCase {
            case: own.cache.name_of(own.case),
            us: other.us,
            candidate_us: own.us,
        })
        .collect()
    };
    pairs(&timed.timing, &timed.baseline)
}

/// A script with everything it is asked: one ordinary draw of each score case.
struct Library<'a> {
    python: PathBuf,
    script: &'a str,
    content: &'a dyn Fn(&TensorData) -> Vec<u8>,
    task: Task,
    passes: Vec<Pass>,
    scalars: Vec<BTreeMap<String, f64>>,
    outputs: Vec<PathBuf>,
    flush_bytes: u64,
    folder: PathBuf,
}

impl<'a> Library<'a> {
    fn of(
        course: &Course<'_>,
        script: &'a str,
        python: PathBuf,
        content: &'a dyn Fn(&TensorData) -> Vec<u8>,
        folder: &Path,
    ) -> Result<Self, Stop> {
        let mut passes = course.passes().score_once()?;
        passes.retain(|pass| pass.purpose == ExecutionPurpose::Score);
        let task = course.task.clone();
        let mut scalars = Vec::new();
        let mut outputs = Vec::new();
        for (pass, number) in passes.iter().zip(0..) {
            let dims = &task.case(&pass.case).expect("passes name cases").dims;
            let values = task.scalars.iter().map(|scalar| {
                let value = scalar.value.scalar(dims).map_err(|error| {
                    EvaluateError::Reference(format!(
                        "{} of case {}: {error}",
                        scalar.name, pass.case
                    ))
                })?;
                Ok((scalar.name.clone(), value))
            });
            scalars.push(values.collect::<Result<_, EvaluateError>>()?);
            let place = folder.join(format!("outputs-{number}"));
            std::fs::create_dir(&place).map_err(storage(&place))?;
            outputs.push(place);
        }
        Ok(Self {
            python,
            script,
            content,
            task,
            passes,
            scalars,
            outputs,
            // As much as may linger, twice.
            flush_bytes: 2 * course.evaluator.host.device().l2_bytes,
            folder: folder.to_owned(),
        })
    }

    fn ask(&self, executions: u32, cancellation: &Cancellation) -> Result<Answer, EvaluateError> {
        let cases = self.passes.iter().zip(&self.scalars).zip(&self.outputs);
        let questions = cases
            .map(|((pass, scalars), outputs)| Question {
                case: self.task.case(&pass.case).expect("passes name cases"),
                scalars,
                tensors: &pass.tensors,
                outputs,
            })
            .collect::<Vec<_>>();
        let manner = Manner {
            executions,
            flush_bytes: self.flush_bytes,
            content: self.content,
        };
        let folder = self.folder.join("script");
        let asked = rivals::ask(
            &self.python,
            self.script,
            &questions,
            manner,
            &folder,
            cancellation,
        );
        Ok(asked?)
    }

    /// What is wrong with the outputs that the script left; none if they are right.
    fn wrong(
        &self,
        course: &Course<'_>,
        reference: &super::Reference<'_>,
    ) -> Result<Option<String>, Stop> {
        let mut saved = Vec::new();
        for ((pass, outputs), id) in self.passes.iter().zip(&self.outputs).zip(0..) {
            for tensor in &pass.tensors {
                if tensor.role == Direction::In {
                    continue;
                }
                let file = outputs.join(format!("{}.bin", tensor.name));
                let length = std::fs::metadata(&file).map_or(0, |found| found.len());
                let whole = tensor.elements() * tensor.dtype.bytes();
                if length != whole {
                    return Ok(Some(format!(
                        "it left {length} bytes of {} in case {}, which has {whole}",
                        tensor.name, pass.case
                    )));
                }
            }
            saved.push(Saved {
                id,
                pass,
                outputs: outputs.clone(),
            });
        }
        let comparisons = course.roles.compare(reference, &saved)?;
        let off = comparisons
            .iter()
            .find(|found| !judge::is_within_tolerance(found, &self.task.tolerance));
        Ok(off.map(|found| {
            let case = &self.passes[found.id as usize].case;
            let error = found
                .relative_l2
                .map_or_else(|| "none".to_owned(), |error| format!("{error:.2e}"));
            format!(
                "its {} is wrong in case {case}: relative L2 error {error}, {} of {} elements beyond their bound",
                found.tensor, found.beyond_bound, found.elements
            )
        }))
    }
}
