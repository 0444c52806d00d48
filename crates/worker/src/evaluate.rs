//! Leads one candidate from its text to a verdict: cheap looks first, and the first stage that
//! has something against the candidate ends it.
//!
//! The evaluator gathers facts through role processes and hands them to the judge; it decides
//! nothing itself. What it cannot find out is a [`EvaluateError`], never a verdict.

mod admit;
mod build;
mod edges;
mod effort;
mod entrants;
pub mod evidence;
mod examine;
mod history;
mod keep;
mod machine_code;
mod modelling;
mod paired;
mod passes;
mod roles;
mod scratch;
mod stages;
mod timing;
pub mod vast;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use domain::admission::Admission;
use domain::device::DeviceKind;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use domain::health;
use domain::judge;
use domain::problem::{Problem, Problems};
use domain::role::{Compiled, Key, LaunchFacts};
use domain::task::Bundle;
use domain::verdict::{Verdict, VerdictKind};

use crate::cancel::Cancellation;
use crate::host::{self, Host};
use crate::supervise;

pub use build::Recipe;
pub use modelling::Subject;
pub use paired::Compared;
pub use passes::{Against, Extent, Inputs, Pass, Passes, Repetition};
pub use stages::{
    CaseProfile, Depth, Instrument, LaunchProfile, Looked, Profiled, RivalCase, RivalOutcome,
    Rivalry, Sanitized, Timed, Turn, task,
};

/// Wall time of a compilation.
pub const COMPILE_DEADLINE: Duration = Duration::from_secs(45);
/// What reference answers and builds may take on the disk.
const REFERENCE_BYTES: u64 = 4 << 30;
const BUILD_BYTES: u64 = 1 << 30;
const EVIDENCE_BYTES: u64 = 2 << 30;
/// Sealed keys are 64 bytes each.
const KEY_BYTES: u64 = 16 << 20;
/// Evaluations between two looks at the disk.
const TIDY_EVERY: u32 = 64;

/// Why an evaluation has no verdict: trouble that is not the candidate's. The evaluation may be
/// repeated.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// The task itself does not read, or one of its shapes has no value.
    #[error("read the task: {0}")]
    Task(#[source] Problems),
    /// The task would reward wrong kernels, so that nothing may be searched for it.
    #[error("admit the task {task}: {broken} (`kernelwright task check` shows every number)")]
    NotAdmitted {
        /// Its name.
        task: String,
        /// The rules that it breaks, with what to do.
        broken: String,
    },
    /// The task's reference cannot give an answer.
    #[error("use the task's reference: {0}")]
    Reference(String),
    /// A child could not be supervised, or the work was called off.
    #[error(transparent)]
    Supervise(#[from] supervise::SuperviseError),
    /// The device failed its check.
    #[error(transparent)]
    Host(#[from] host::HostError),
    /// The facts say nothing about the candidate.
    #[error(transparent)]
    Trouble(#[from] judge::InfrastructureFault),
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

impl EvaluateError {
    /// Whether the work was called off, so that nothing is wrong at all.
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self,
            Self::Supervise(supervise::SuperviseError::Cancelled)
                | Self::Host(host::HostError::Supervise(
                    supervise::SuperviseError::Cancelled
                ))
        )
    }

    /// Whether the device failed its check, or may take no work.
    pub fn is_unwell(&self) -> bool {
        matches!(self, Self::Host(fault) if fault.is_unwell())
    }
}

impl From<Problem> for EvaluateError {
    fn from(problem: Problem) -> Self {
        Self::Task(problem.into())
    }
}

fn storage(path: &Path) -> impl FnOnce(io::Error) -> EvaluateError {
    let path = path.display().to_string();
    move |source| EvaluateError::Storage { path, source }
}

/// Evaluates candidates on one machine.
#[derive(Debug)]
pub struct Evaluator {
    host: Host,
    scratch: PathBuf,
    begun: AtomicU32,
}

impl Evaluator {
    /// An evaluator that keeps builds and reference answers in the host's data folder.
    ///
    /// # Errors
    /// [`EvaluateError::Storage`] if the folder cannot be used.
    pub fn new(host: Host) -> Result<Self, EvaluateError> {
        let scratch = host.data().join(host::SCRATCH);
        std::fs::create_dir_all(&scratch).map_err(storage(&scratch))?;
        Ok(Self {
            host,
            scratch,
            begun: AtomicU32::new(0),
        })
    }

    /// The machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Evaluates one candidate. `progress` is told each stage as it begins.
    ///
    /// On the emulated device every execution is checked in full and times are modelled. On
    /// NVIDIA's driver times are event times taken in turn with the incumbent and the task's
    /// baseline, and the comparison is with these.
    ///
    /// # Errors
    /// A [`EvaluateError`] if the infrastructure, not the candidate, is to blame.
    pub fn evaluate(
        &self,
        request: &EvaluationRequest,
        progress: impl Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<Evaluation, EvaluateError> {
        if self
            .begun
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(TIDY_EVERY)
        {
            self.tidy();
        }
        let candidate = health::content(&request.source, &request.configuration);
        let relied_upon = request.stage.decides_promotion();
        self.host.admit(&candidate, relied_upon, cancellation)?;
        let mut outcome = stages::evaluate(self, request, &progress, cancellation);
        if outcome
            .as_ref()
            .is_ok_and(|evaluation| self.harms(evaluation))
        {
            // A card that is unwell now may have been so before: then the verdict is nobody's.
            if let Err(fault) = self.host.check(cancellation) {
                outcome = Err(fault.into());
            }
        }
        if let Err(EvaluateError::Supervise(
            supervise::SuperviseError::Unready { .. }
            | supervise::SuperviseError::Surroundings { .. },
        )) = &outcome
            && let Err(fault) = self.host.check(cancellation)
        {
            // Not even a process that was told nothing could work here.
            outcome = Err(fault.into());
        }
        if outcome.as_ref().is_err_and(EvaluateError::is_unwell) {
            self.host.blame(candidate);
        }
        outcome
    }

    /// Whether a verdict tells of something that a card may not have got over. Every runner has an emulated device
    /// of its own, which is gone with it.
    fn harms(&self, evaluation: &Evaluation) -> bool {
        // Where inputs are read-only, one that changed is what a stopped launch turned out to be.
        use VerdictKind::{
            BarrierError, InputMutated, OutOfBounds, RunnerCrash, RuntimeFault, Timeout,
        };
        self.host.device().kind == DeviceKind::Nvidia
            && evaluation.device.is_some()
            && matches!(
                evaluation.verdict.kind(),
                RuntimeFault | Timeout | RunnerCrash | OutOfBounds | BarrierError | InputMutated
            )
    }

    /// Compiles a text for an architecture, or finds its build.
    ///
    /// # Errors
    /// A [`EvaluateError`] if the infrastructure, not the text, is to blame.
    pub fn build(
        &self,
        recipe: &Recipe<'_>,
        cancellation: &Cancellation,
    ) -> Result<Result<Compiled, Verdict>, EvaluateError> {
        build::build(&self.host, recipe, cancellation)
    }

    /// Asks the emulated device's time model about one launch: no task, no outputs, no verdict.
    /// What stops the launch is the inner error, in words.
    ///
    /// # Errors
    /// A [`EvaluateError`] if the infrastructure, not the launch, is to blame.
    pub fn model(
        &self,
        subject: &Subject<'_>,
        cancellation: &Cancellation,
    ) -> Result<Result<LaunchFacts, String>, EvaluateError> {
        modelling::model(&self.host, subject, cancellation)
    }

    /// The same where there may be no compiler: none if there is no build and nobody to make it.
    ///
    /// # Errors
    /// As of [`Self::build`].
    pub fn find_or_build(
        &self,
        recipe: &Recipe<'_>,
        cancellation: &Cancellation,
    ) -> Result<Option<Compiled>, EvaluateError> {
        if self.host.has_compiler() {
            return self.build(recipe, cancellation).map(Result::ok);
        }
        Ok(build::find(&self.host, recipe))
    }

    /// The kernels that disturb the device around executions, where it proves nothing. None, too, of
    /// a machine without a compiler that was given no build of them.
    fn disturber(&self, cancellation: &Cancellation) -> Result<Option<Compiled>, EvaluateError> {
        if !self.host.is_unproved() {
            return Ok(None);
        }
        let recipe = Recipe {
            source: gpu::disturb::SOURCE,
            configuration: &BTreeMap::new(),
            headers: &BTreeMap::new(),
            architecture: &self.host.device().architecture(),
        };
        if !self.host.has_compiler() {
            return Ok(build::find(&self.host, &recipe));
        }
        match self.build(&recipe, cancellation)? {
            Ok(compiled) => Ok(Some(compiled)),
            Err(verdict) => Err(EvaluateError::Reference(format!(
                "compile the kernels that disturb: {verdict}"
            ))),
        }
    }

    /// Times one candidate in turn with the incumbent, which is the task's baseline unless the
    /// request names another, without judging whether it is right: what an author wants to know
    /// between two evaluations. Never grounds for a promotion.
    ///
    /// # Errors
    /// A [`EvaluateError`] if the infrastructure, not the candidate, is to blame.
    pub fn bench(
        &self,
        request: &EvaluationRequest,
        progress: impl Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<Result<Compared, Verdict>, EvaluateError> {
        stages::bench(self, request, &progress, cancellation)
    }

    /// Evaluates one candidate of a search, which begins with its baseline: that of a task that may
    /// not be searched has no verdict. On this machine a task is admitted once.
    ///
    /// # Errors
    /// [`EvaluateError::NotAdmitted`], or as of [`Self::evaluate`].
    pub fn search(
        &self,
        request: &EvaluationRequest,
        progress: &dyn Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<Evaluation, EvaluateError> {
        if request.stage == EvaluationStage::Baseline {
            admit::insist(self, request, progress, cancellation)?;
        }
        self.evaluate(request, progress, cancellation)
    }

    /// Finds out whether a task may be searched: every rule of admission with its number.
    /// `progress` is told each part as it begins.
    ///
    /// # Errors
    /// A [`EvaluateError`] that is no property of the task.
    pub fn admit(
        &self,
        task: &Bundle,
        key: Key,
        progress: impl Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<Admission, EvaluateError> {
        admit::admit(self, task, key, &progress, cancellation)
    }

    fn tidy(&self) {
        let now = SystemTime::now();
        let builds = self.host.data().join("builds");
        keep::sweep(&self.scratch, "", now);
        keep::sweep(&builds, build::UNFINISHED, now);
        keep::trim(&builds, BUILD_BYTES, now);
        let shelf = evidence::shelf(self.host.data());
        keep::sweep(&shelf, build::UNFINISHED, now);
        keep::trim(&shelf, EVIDENCE_BYTES, now);
        keep::trim(&evidence::keys(self.host.data()), KEY_BYTES, now);
        keep::trim(&self.host.data().join("references"), REFERENCE_BYTES, now);
    }
}
