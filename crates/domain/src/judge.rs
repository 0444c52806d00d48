//! The judge: from facts to a verdict, as pure functions called by the supervisor after each
//! stage. The first stage with a bad verdict ends the evaluation.
//!
//! A function here returns `None` when the facts speak for the candidate so far, and [`InfrastructureFault`]
//! when they say nothing about it because the infrastructure failed. The
//! functions do not know how the facts were gathered.

mod execution;
mod gates;
mod image;
mod output;

use crate::device::DeviceKind;
use crate::evaluation::EvaluationStage;
use crate::margins::FASTER_MARGIN;
use crate::role::CompileReply;
use crate::timing::{Timing, is_valid_time};
use crate::verdict::{Acceptance, Comparison, Outcome, Verdict};

pub use execution::{
    ExecutionContext, RepeatVariation, can_kernel_cause, judge_execution, judge_proven_findings,
    judge_repeat, judge_spread, unravel_index,
};
pub use gates::{GateFacts, evaluate_gates, judge_gates};
pub use image::judge_image;
pub use output::{ComparedOutput, is_within_tolerance, judge_dependence, judge_outputs};

/// Something that is not the candidate's doing. The evaluation has no verdict; it is repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InfrastructureFault(pub String);

/// The ways in which a role process ends without a usable reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// A signal ended it.
    Died {
        /// The signal's number.
        signal: i32,
    },
    /// It exited without a reply.
    Silent {
        /// Its exit status.
        status: i32,
    },
    /// It was killed at its deadline of wall time.
    TimedOut,
    /// It exceeded its processor time.
    OverCpu {
        /// The limit, seconds.
        seconds: u64,
    },
    /// It exceeded its memory.
    OverMemory {
        /// The limit, bytes.
        bytes: u64,
    },
    /// It sent something that is no reply to the job.
    Garbled {
        /// The defect of the reply.
        how: String,
    },
}

impl Exit {
    /// Returns true if the process ended before its limits, so that a second try may succeed.
    pub fn may_succeed_on_retry(&self) -> bool {
        !matches!(self, Self::TimedOut | Self::OverCpu { .. })
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Died { signal } => write!(f, "ended by signal {signal}"),
            Self::Silent { status } => write!(f, "exited with status {status} without a reply"),
            Self::TimedOut => f.write_str("killed at its deadline"),
            Self::OverCpu { seconds } => {
                write!(f, "used up its {seconds} s of processor time")
            }
            Self::OverMemory { bytes } => {
                write!(f, "used more than its {bytes} bytes of memory")
            }
            Self::Garbled { how } => write!(f, "sent no usable reply: {how}"),
        }
    }
}

/// The verdict on a compilation that was answered; none if there is an image.
pub fn judge_compilation(reply: &CompileReply) -> Option<Verdict> {
    match reply {
        CompileReply::Compiled(_) => None,
        CompileReply::Rejected { diagnostics } => Some(Verdict::CompileRejected {
            diagnostics: diagnostics.clone(),
        }),
        CompileReply::OverResource {
            resource,
            limit,
            found,
            message,
        } => Some(Verdict::CompileResource {
            resource: resource.clone(),
            limit: *limit,
            found: *found,
            message: message.clone(),
        }),
    }
}

/// The verdict on a compiler that gave no answer.
///
/// # Errors
/// [`InfrastructureFault`] if only wall time ran out: a busy machine explains that as well as the source does.
pub fn judge_compiler_exit(exit: &Exit) -> Result<Verdict, InfrastructureFault> {
    match exit {
        Exit::OverCpu { seconds } => Ok(Verdict::CompileTimeout {
            seconds: u32::try_from(*seconds).unwrap_or(u32::MAX),
        }),
        Exit::TimedOut => Err(out_of_wall_time("compile")),
        other => Ok(Verdict::CompileCrash {
            how: other.to_string(),
        }),
    }
}

/// The verdict on a runner that gave no answer. Only right once the device is known to be well
/// and, unless it ran out of time, a second runner ended without an answer too.
///
/// # Errors
/// [`InfrastructureFault`] if only wall time ran out and the device is emulated: there work is bounded by
/// instructions and processor time, so that a starved process is not taken for a hanging kernel.
/// On silicon the kernel runs beside the processor, and wall time is what bounds it.
pub fn judge_runner_exit(
    exit: &Exit,
    stage: &str,
    device: DeviceKind,
) -> Result<Verdict, InfrastructureFault> {
    match exit {
        Exit::TimedOut if device == DeviceKind::Emulated => Err(out_of_wall_time(stage)),
        Exit::TimedOut | Exit::OverCpu { .. } => Ok(Verdict::Timeout {
            stage: stage.to_owned(),
            finding: None,
        }),
        other => Ok(Verdict::RunnerCrash {
            how: other.to_string(),
        }),
    }
}

fn out_of_wall_time(stage: &str) -> InfrastructureFault {
    InfrastructureFault(format!(
        "finish {stage} in time: its process was stuck or starved; check the machine's load"
    ))
}

/// The verdict on a candidate that passed every check: accepted, with its times compared to the
/// incumbent's where they are comparable.
///
/// A modelled time has no noise, so that its ratio decides at once. Measured times of different
/// processes are never compared: until both are measured side by side the outcome is
/// [`Outcome::Unresolved`], which nothing promotes.
pub fn judge_times(timing: Timing, incumbent: Option<&Timing>, launch_bound: bool) -> Verdict {
    let cases = timing.cases().into_iter();
    if let Some(time) = cases.clone().find(|time| !is_valid_time(time.us)) {
        let case = time.cache.name_of(time.case);
        return Verdict::InvalidRun {
            reason: format!("the time of case {case} reads {} us", time.us),
        };
    }
    if timing.cases().is_empty() {
        return Verdict::Inconclusive {
            reason: "the task has no case to score".to_owned(),
        };
    }
    let comparison = incumbent.and_then(|incumbent| {
        let ratio = timing.speedup_over(incumbent)?;
        let outcome = if !timing.is_modelled() {
            Outcome::Unresolved
        } else if ratio > 1.0 + FASTER_MARGIN {
            Outcome::Faster
        } else {
            Outcome::NotFaster
        };
        Some(Comparison {
            outcome,
            ratio,
            interval: [ratio, ratio],
        })
    });
    Verdict::Accepted(Acceptance {
        timing,
        comparison,
        launch_bound,
    })
}

/// Returns true if soft gates may reject at this stage. They never reject a baseline, because all
/// candidates are compared with it.
fn may_reject(stage: EvaluationStage) -> bool {
    stage != EvaluationStage::Baseline
}
