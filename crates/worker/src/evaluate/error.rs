//! The errors of an evaluation: faults of the infrastructure, and verdicts that end it early.

use std::io;
use std::path::Path;

use domain::admission::Admission;
use domain::judge::InfrastructureFault;
use domain::problem::{Problem, Problems};
use domain::seeds::SeedFamily;
use domain::verdict::Verdict;

use crate::host::{self, HostError};
use crate::supervise::{self, SuperviseError};

/// A fault whose cause is not the candidate, so that the evaluation has no verdict and may be
/// repeated.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// The task cannot be parsed, or one of its shapes has no value.
    #[error("read the task: {0}")]
    Task(#[source] Problems),
    /// The task fails admission because it would reward wrong kernels, so that it may not be
    /// searched. Every further attempt fails alike.
    #[error("admit the task {}: {} (`kernelwright task check` shows every number)", .0.task, .0.broken_rules())]
    NotAdmitted(Box<Admission>),
    /// This machine lacks what the task needs.
    #[error("use what the task needs: {0}")]
    Lacking(String),
    /// The task's reference cannot give an answer.
    #[error("use the task's reference: {0}")]
    Reference(String),
    /// A role process could not be supervised, or the work was cancelled.
    #[error(transparent)]
    Supervise(#[from] supervise::SuperviseError),
    /// The device failed its health check or is quarantined.
    #[error(transparent)]
    Host(#[from] host::HostError),
    /// The facts do not allow a verdict on the candidate.
    #[error(transparent)]
    Trouble(#[from] InfrastructureFault),
    /// A process that runs no candidate code gave no answer.
    #[error("verify outputs: the verifier {how}")]
    Verifier {
        /// The manner in which it ended, with the last line that it printed.
        how: String,
    },
    /// A build cannot be read back as it was written.
    #[error("keep the build {path}: it does not read back; check the disk")]
    Build {
        /// Its folder.
        path: String,
    },
    /// A file or folder could not be read or written.
    #[error("access {path}; check free space and permissions")]
    Storage {
        /// The file or folder.
        path: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

impl EvaluateError {
    /// Returns true if the work was cancelled, so that there is no fault.
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self,
            Self::Supervise(SuperviseError::Cancelled)
                | Self::Host(HostError::Supervise(SuperviseError::Cancelled))
        )
    }

    /// Returns true if the device failed its health check, or is quarantined.
    pub fn failed_health_check(&self) -> bool {
        matches!(self, Self::Host(error) if error.failed_health_check())
    }

    /// The admission that refused the task, if that is the error. Every other attempt would refuse it,
    /// too.
    pub fn refusal(&self) -> Option<&Admission> {
        match self {
            Self::NotAdmitted(admission) => Some(admission),
            _ => None,
        }
    }
}

impl From<Problem> for EvaluateError {
    fn from(problem: Problem) -> Self {
        Self::Task(problem.into())
    }
}

/// Turns an error of the file system at `path` into an [`EvaluateError`].
pub(super) fn storage(path: &Path) -> impl FnOnce(io::Error) -> EvaluateError {
    let path = path.display().to_string();
    move |source| EvaluateError::Storage { path, source }
}

/// The early end of a part of an evaluation that has no inputs, such as a compilation.
#[derive(Debug)]
pub enum Stop {
    /// The candidate has its verdict.
    Verdict(Box<Verdict>),
    /// There is no verdict.
    Fault(EvaluateError),
}

impl Stop {
    /// The same end of a stage whose inputs come from `family`.
    pub(super) fn on(self, family: SeedFamily) -> StageStop {
        match self {
            Self::Verdict(verdict) => StageStop::Rejected(Rejection { verdict, family }),
            Self::Fault(error) => StageStop::Fault(error),
        }
    }

    /// The error where a verdict would be a fault as well, because `subject` is not the candidate
    /// but part of the task.
    pub(super) fn into_fault_of(self, subject: &str) -> EvaluateError {
        match self {
            Self::Verdict(verdict) => EvaluateError::Reference(format!("{subject}{verdict}")),
            Self::Fault(error) => error,
        }
    }
}

impl From<Verdict> for Stop {
    fn from(verdict: Verdict) -> Self {
        Self::Verdict(Box::new(verdict))
    }
}

impl<E: Into<EvaluateError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}

/// A verdict that ends an evaluation, with the seed family of the inputs it rests on. The family
/// decides how much authors of candidates may learn of the failure.
#[derive(Debug)]
pub(super) struct Rejection {
    pub verdict: Box<Verdict>,
    /// The family of the failed execution's inputs; of a verdict without an execution, the family
    /// of the evaluation's stage.
    pub family: SeedFamily,
}

/// The early end of a stage. There is no conversion from a bare verdict, so that no stage can forget
/// to name the family of its inputs.
#[derive(Debug)]
pub(super) enum StageStop {
    Rejected(Rejection),
    Fault(EvaluateError),
}

impl StageStop {
    pub fn rejected(verdict: Verdict, family: SeedFamily) -> Self {
        Stop::from(verdict).on(family)
    }
}

impl<E: Into<EvaluateError>> From<E> for StageStop {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}
