//! Other solutions of the task, timed beside the candidate: kernels with a plan, and machine code
//! with one, in turn with it, a script's library in processes that alternate with its own. Only an
//! evaluation by hand includes this, and nothing is promoted on it.

mod image;

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

use super::Evaluator;
use super::context::Context;
use super::error::{EvaluateError, storage};
use super::examine::Executions;
use super::facts::Report;
use super::paired::{AlternatingComparison, AlternationError};
use super::partial::{CandidateTimes, PartialEvaluation};
use super::passes::Pass;
use super::roles::{Reference, SavedOutputs};
use super::stages::compare::paired;
use super::stages::{compile, parse};
use crate::cancel::Cancellation;
use crate::rivals::{self, Question, ScriptReply, TimingOptions};

/// Executions that a script times of each case, each time it is asked.
const EXECUTIONS: u32 = 30;

/// A rival and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rivalry {
    /// Its file in the task's folder.
    pub file: String,
    /// The library that a script times, with its version, in the script's words.
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
        /// True if the rival's times were reported by a script, by its own clock.
        claimed: bool,
    },
    /// There is no number.
    NotRun {
        /// The reason.
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

/// A rival's times by case, microseconds, or the reason why it gave none.
pub type RivalTiming = Result<Vec<f64>, String>;

impl Evaluator {
    /// Times every entry of the task's `baselines` beside a candidate that is known to be right.
    /// `content` returns the bytes of an input, for scripts.
    ///
    /// # Errors
    /// An [`EvaluateError`] if the infrastructure is the cause, not the candidate or the rival.
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
                Rival::Kernel(source) => {
                    (None, self.time_kernel(request, file, source, cancellation)?)
                }
                Rival::Script(script) => {
                    self.time_library(request, script, content, cancellation)?
                }
                Rival::Image(image) => self.time_image(request, file, image, cancellation)?,
            };
            found.push(Rivalry {
                file: file.clone(),
                what,
                outcome,
            });
        }
        Ok(found)
    }

    /// Times a rival kernel in the incumbent's place, once its outputs are right.
    fn time_kernel(
        &self,
        request: &EvaluationRequest,
        file: &str,
        source: &KernelSource,
        cancellation: &Cancellation,
    ) -> Result<RivalOutcome, EvaluateError> {
        let itself = EvaluationRequest {
            // Evaluated as a baseline, because no soft gate applies to a rival.
            stage: EvaluationStage::Baseline,
            file: file.to_owned(),
            source: source.text().to_owned(),
            configuration: Configuration::default(),
            incumbent: None,
            ..request.clone()
        };
        let timed = match self.measure(&itself, |_| {}, cancellation)? {
            (_, Some(timed)) => timed,
            (partial, None) => return Ok(stands_against("the rival", partial.against)),
        };
        let compared_request = EvaluationRequest {
            incumbent: Some(Incumbent {
                file: file.to_owned(),
                source: source.text().to_owned(),
                configuration: Configuration::default(),
                timing: timed.timing,
            }),
            ..request.clone()
        };
        Ok(compared(self.measure(
            &compared_request,
            |_| {},
            cancellation,
        )?))
    }

    /// Times a library through a script. Its outputs are first compared with the reference; times
    /// are taken only on a device where the candidate's are measured.
    fn time_library(
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
        let (partial, asked) =
            self.run_partially(request, &|_| {}, cancellation, |context, _| {
                let library = Library::of(context, script, python, content, folder.path())?;
                let answer = library.ask(1, cancellation)?;
                let reference = compile::build_reference(context)?;
                Ok(match answer {
                    ScriptReply::NotRun { reason } => Err(reason),
                    ScriptReply::Timed { what, .. } => {
                        match library.find_error(context, &reference)? {
                            Some(reason) => Err(reason),
                            None => Ok((what, library)),
                        }
                    }
                })
            })?;
        let (what, library) = match asked {
            Some(Ok(right)) => right,
            Some(Err(reason)) => return not_run(reason),
            None => return Ok((None, stands_against("the task", partial.against))),
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
            self.host.end_spares_on_card();
            Ok(match library.ask(EXECUTIONS, cancellation)? {
                ScriptReply::NotRun { reason } => Err(reason),
                ScriptReply::Timed { microseconds, .. } => Ok(microseconds
                    .iter()
                    .map(|times| statistics::median(times).unwrap_or(f64::NAN))
                    .collect()),
            })
        };
        let outcome = self.alternate(request, &mut turn, cancellation)?;
        Ok((Some(what), outcome))
    }

    /// Alternates processes that time a candidate with calls of `turn`. `turn` gets the number of
    /// the alternation and returns the other side's time of each score case, microseconds.
    ///
    /// # Errors
    /// An [`EvaluateError`] if the infrastructure is the cause, or an error of `turn`.
    pub fn alternate(
        &self,
        request: &EvaluationRequest,
        turn: &mut dyn FnMut(usize) -> Result<RivalTiming, EvaluateError>,
        cancellation: &Cancellation,
    ) -> Result<RivalOutcome, EvaluateError> {
        let (partial, apart) =
            self.run_partially(request, &|_| {}, cancellation, |context, facts| {
                let candidate = facts.merge(parse::parse(context))?;
                let compiled = facts.merge(compile::compile(context, &candidate))?;
                let known = Executions::default();
                let comparison = paired(context, &candidate, &compiled, &known, None)?;
                facts.merge(Report::of(|_| match comparison.alternate_processes(turn) {
                    Ok(apart) => Ok(Ok(apart)),
                    Err(AlternationError::NoTimes(reason)) => Ok(Err(reason)),
                    Err(AlternationError::Stop(stop)) => Err(stop.on(context.family())),
                }))
            })?;
        Ok(match apart {
            Some(Ok(AlternatingComparison { cases, comparison })) => RivalOutcome::Timed {
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
            None => stands_against("the candidate", partial.against),
        })
    }
}

/// The outcome of a candidate beside a rival whose outputs are right.
fn compared(measured: (PartialEvaluation, Option<CandidateTimes>)) -> RivalOutcome {
    match measured {
        (_, Some(timed)) => RivalOutcome::Timed {
            cases: cases(&timed),
            speedup: timed.comparison,
            claimed: false,
        },
        (partial, None) => stands_against("the candidate", partial.against),
    }
}

fn stands_against(whom: &str, verdict: Option<domain::verdict::Verdict>) -> RivalOutcome {
    let reason = match verdict {
        Some(verdict) => format!("{whom}: {verdict}"),
        None => format!("{whom} has no times"),
    };
    RivalOutcome::NotRun { reason }
}

fn cases(timed: &CandidateTimes) -> Vec<RivalCase> {
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

/// A script and its inputs: one ordinary draw of each score case.
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
        context: &Context<'_>,
        script: &'a str,
        python: PathBuf,
        content: &'a dyn Fn(&TensorData) -> Vec<u8>,
        folder: &Path,
    ) -> Result<Self, EvaluateError> {
        let mut passes = context.passes().score_once()?;
        passes.retain(|pass| pass.purpose == ExecutionPurpose::Score);
        let task = context.task.clone();
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
            // Twice the cache's size, so that nothing of an earlier execution remains in it.
            flush_bytes: 2 * context.device().l2_bytes,
            folder: folder.to_owned(),
        })
    }

    fn ask(
        &self,
        executions: u32,
        cancellation: &Cancellation,
    ) -> Result<ScriptReply, EvaluateError> {
        let cases = self.passes.iter().zip(&self.scalars).zip(&self.outputs);
        let questions = cases
            .map(|((pass, scalars), outputs)| Question {
                case: self.task.case(&pass.case).expect("passes name cases"),
                scalars,
                tensors: &pass.tensors,
                outputs,
            })
            .collect::<Vec<_>>();
        let options = TimingOptions {
            executions,
            flush_bytes: self.flush_bytes,
            content: self.content,
        };
        let folder = self.folder.join("script");
        let asked = rivals::ask(
            &self.python,
            self.script,
            &questions,
            options,
            &folder,
            cancellation,
        );
        Ok(asked?)
    }

    /// The error in the outputs that the script wrote; none if they are right.
    fn find_error(
        &self,
        context: &Context<'_>,
        reference: &Reference<'_>,
    ) -> Result<Option<String>, EvaluateError> {
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
            saved.push(SavedOutputs {
                id,
                pass,
                outputs: outputs.clone(),
                beside: None,
            });
        }
        let comparisons = context.roles.compare(reference, &saved)?;
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
