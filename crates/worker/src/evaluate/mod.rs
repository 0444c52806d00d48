//! Leads one candidate from its text to a verdict: cheap looks first, and the first stage that
//! has something against the candidate ends it.
//!
//! The evaluator gathers facts through role processes and hands them to the judge; it decides
//! nothing itself. What it cannot find out is a [`Fault`], never a verdict.

mod build;
mod examine;
mod passes;
mod roles;
mod stages;
mod timing;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::evaluation::{Evaluation, EvaluationRequest};
use domain::judge;
use domain::problem::{Problem, Problems};

use crate::cancel::Cancellation;
use crate::host::{self, Host};
use crate::supervise;

pub use passes::{Against, Extent, Pass, Passes};

/// Wall time of a compilation.
pub const COMPILE_DEADLINE: Duration = Duration::from_secs(45);
/// Folders of an evaluation that was killed are swept away after this time.
const SCRATCH_AGE: Duration = Duration::from_secs(3600);

/// Why an evaluation has no verdict: trouble that is not the candidate's. The evaluation may be
/// repeated.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The task itself does not read, or one of its shapes has no value.
    #[error("read the task: {0}")]
    Task(#[source] Problems),
    /// The task's reference cannot give an answer.
    #[error("use the task's reference: {0}")]
    Reference(String),
    /// A child could not be supervised, or the work was called off.
    #[error(transparent)]
    Supervise(#[from] supervise::Fault),
    /// The device failed its check.
    #[error(transparent)]
    Host(#[from] host::Fault),
    /// The facts say nothing about the candidate.
    #[error(transparent)]
    Trouble(#[from] judge::Trouble),
    /// A process that runs no candidate code gave no answer.
    #[error("verify outputs: the verifier {how}")]
    Verifier {
        /// How it ended and what it said last.
        how: String,
    },
    /// A build is not what was just written.
    #[error("keep the build {path}: it does not read back; check the disk")]
    Build {
        /// Its folder.
        path: String,
    },
    /// The disk refused.
    #[error("access {path}; check free space and permissions")]
    Storage {
        /// What.
        path: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

impl Fault {
    /// Whether the work was called off, so that nothing is wrong at all.
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self,
            Self::Supervise(supervise::Fault::Cancelled)
                | Self::Host(host::Fault::Supervise(supervise::Fault::Cancelled))
        )
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self::Task(problem.into())
    }
}

fn storage(path: &Path) -> impl FnOnce(io::Error) -> Fault {
    let path = path.display().to_string();
    move |source| Fault::Storage { path, source }
}

/// Evaluates candidates on one machine.
#[derive(Debug)]
pub struct Evaluator {
    host: Host,
    scratch: PathBuf,
}

impl Evaluator {
    /// An evaluator that keeps builds and reference answers in the host's data folder.
    ///
    /// # Errors
    /// [`Fault::Storage`] if the folder cannot be used.
    pub fn new(host: Host) -> Result<Self, Fault> {
        let scratch = host.data().join("scratch");
        std::fs::create_dir_all(&scratch).map_err(storage(&scratch))?;
        sweep(&scratch);
        Ok(Self { host, scratch })
    }

    /// The machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Evaluates one candidate. `progress` is told each stage as it begins.
    ///
    /// On the emulated device every execution is checked in full and times are modelled. On
    /// NVIDIA's driver times are medians of event times, which are the runner's claim; candidate
    /// and incumbent are not yet timed side by side, so that their comparison stays unresolved.
    ///
    /// # Errors
    /// A [`Fault`] if the infrastructure, not the candidate, is to blame.
    pub fn evaluate(
        &self,
        request: &EvaluationRequest,
        progress: impl Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<Evaluation, Fault> {
        stages::evaluate(self, request, &progress, cancellation)
    }
}

/// Removes what evaluations left behind that were killed. Failures are left for the next time.
fn sweep(scratch: &Path) {
    for entry in std::fs::read_dir(scratch).into_iter().flatten().flatten() {
        let age = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
            .and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > SCRATCH_AGE) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
