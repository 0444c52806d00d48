//! Evaluation of one candidate, from its text to a verdict. Cheap stages come first, and the first stage
//! that rejects the candidate ends it. `pipeline` has the stages in their order.
//!
//! The evaluator collects facts through role processes and passes them to the judge; it decides
//! nothing itself. A failure of the infrastructure is an [`EvaluateError`], never a verdict.

mod admission;
mod build;
mod compared_kernel;
mod context;
mod disk_limits;
mod edges;
mod error;
pub mod evidence;
mod examine;
mod facts;
mod history;
mod instruments;
mod modelling;
mod paired;
mod partial;
mod passes;
mod pipeline;
mod python_answers;
mod rivals;
mod roles;
mod stages;
mod tensor_size;
mod timing;
mod trace;
mod workspace;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use domain::admission::Admission;
use domain::candidate::KernelSource;
use domain::cleaning;
use domain::device::DeviceKind;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use domain::health;
use domain::role::{Compiled, LaunchFacts};
use domain::task::{Bundle, Task};
use domain::verdict::VerdictKind;

use self::context::Setup;
use self::error::storage;
use crate::cancel::Cancellation;
use crate::host::{self, Host};
use crate::supervise::SuperviseError;

pub use build::CompilationInputs;
pub use context::load_task;
pub use disk_limits::{LimitedFolder, limited_folders};
pub use error::{EvaluateError, Stop};
pub use instruments::{CaseProfile, Instrument, LaunchProfile, Profiled, Sanitized};
pub use modelling::{ModelError, Subject};
pub use paired::Compared;
pub use partial::{CandidateTimes, Depth, PartialEvaluation};
pub use passes::{ExpectedOutputs, Extent, Inputs, Pass, Passes, Repetition};
pub use rivals::{RivalCase, RivalOutcome, RivalTiming, Rivalry};

/// Wall time of a compilation.
pub const COMPILE_DEADLINE: Duration = Duration::from_secs(45);
/// The number of evaluations between two checks of the disk space. A confirmation of a large task
/// leaves 300 MB of reference answers.
const DISK_CHECK_INTERVAL: u32 = 8;

/// The evaluation of a candidate in a search.
#[derive(Debug)]
pub struct SearchEvaluation {
    /// The verdict with its evidence.
    pub evaluation: Box<Evaluation>,
    /// The admission of the task, of a baseline.
    pub admission: Option<Box<Admission>>,
}

/// The evaluator of one machine.
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

    /// The machine that evaluates.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Evaluates one candidate. `progress` is called with the name of each stage as it begins.
    ///
    /// On the emulated device every execution is checked in full and times are modelled. On
    /// NVIDIA's driver times are event times taken in turn with the incumbent and the task's
    /// baseline, and the comparison is with these.
    ///
    /// # Errors
    /// An [`EvaluateError`] if the infrastructure, not the candidate, is the cause.
    pub fn evaluate(
        &self,
        request: &EvaluationRequest,
        progress: impl Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<Evaluation, EvaluateError> {
        if self
            .begun
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(DISK_CHECK_INTERVAL)
        {
            self.enforce_disk_limits();
        }
        let candidate = health::submission_digest(&request.source, &request.configuration);
        let relied_upon = request.stage.decides_promotion();
        self.host
            .ensure_fit_for(&candidate, relied_upon, cancellation)?;
        let mut outcome = self.run_pipeline(request, &progress, cancellation);
        if outcome
            .as_ref()
            .is_ok_and(|evaluation| self.may_have_damaged_device(evaluation))
        {
            // A card that fails its health check now may have been faulty before; then the verdict
            // cannot be attributed to the candidate.
            if let Err(fault) = self.host.check_health(cancellation) {
                outcome = Err(fault.into());
            }
        }
        if let Err(EvaluateError::Supervise(
            SuperviseError::Unready { .. } | SuperviseError::UnsupportedMachine { .. },
        )) = &outcome
            && let Err(fault) = self.host.check_health(cancellation)
        {
            // A role process failed before it got its job, so that the device itself may be the
            // cause.
            outcome = Err(fault.into());
        }
        if outcome
            .as_ref()
            .is_err_and(EvaluateError::failed_health_check)
        {
            self.host.record_failed_check_after(candidate);
        }
        outcome
    }

    /// Returns true if a verdict reports an event that may have damaged a card's state. An emulated
    /// device is private to its process and ends with it.
    fn may_have_damaged_device(&self, evaluation: &Evaluation) -> bool {
        // If inputs are mapped read-only, a changed input is the cause of a launch that stopped.
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

    /// Compiles a source for an architecture, or finds its build.
    ///
    /// # Errors
    /// [`Stop`] with the compiler's verdict on the source, or with a fault.
    pub fn build(
        &self,
        recipe: &CompilationInputs<'_>,
        cancellation: &Cancellation,
    ) -> Result<Compiled, Stop> {
        build::build(&self.host, recipe, cancellation)
    }

    /// Models the time of one launch on the emulated device. There is no task, no output and no
    /// verdict.
    ///
    /// # Errors
    /// A [`ModelError`]: the reason why the launch did not finish, or a fault.
    pub fn model(
        &self,
        subject: &Subject<'_>,
        cancellation: &Cancellation,
    ) -> Result<LaunchFacts, ModelError> {
        modelling::model(&self.host, subject, cancellation)
    }

    /// Finds the build of a source, or compiles it if this machine has a compiler. Returns `None`
    /// if there is neither a build nor a compiler, or if the compiler rejects the source.
    ///
    /// # Errors
    /// An [`EvaluateError`] if the infrastructure, not the source, is the cause.
    pub fn find_or_build(
        &self,
        recipe: &CompilationInputs<'_>,
        cancellation: &Cancellation,
    ) -> Result<Option<Compiled>, EvaluateError> {
        if self.host.has_compiler() {
            return match self.build(recipe, cancellation) {
                Ok(compiled) => Ok(Some(compiled)),
                Err(Stop::Verdict(_)) => Ok(None),
                Err(Stop::Fault(error)) => Err(error),
            };
        }
        Ok(build::find(&self.host, recipe))
    }

    /// The build of the kernels that disturb the device around executions; `None` on a device that
    /// proves its results, and on a machine without a compiler that has no build of them.
    fn disturber(&self, cancellation: &Cancellation) -> Result<Option<Compiled>, EvaluateError> {
        if !self.host.is_unproved() {
            return Ok(None);
        }
        let recipe = CompilationInputs {
            source: gpu::disturb::SOURCE,
            configuration: &BTreeMap::new(),
            headers: &BTreeMap::new(),
            architecture: &self.host.device().architecture(),
        };
        if !self.host.has_compiler() {
            return Ok(build::find(&self.host, &recipe));
        }
        let compiled = self.build(&recipe, cancellation);
        compiled
            .map(Some)
            .map_err(|stop| stop.into_fault_of("compile the kernels that disturb: "))
    }

    /// Runs the stages of one evaluation in a scratch folder of its own.
    fn run_pipeline(
        &self,
        request: &EvaluationRequest,
        progress: &dyn Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<Evaluation, EvaluateError> {
        let mut task = Task::load(&request.task).map_err(EvaluateError::Task)?;
        let ptx = self.ptx_before_promotion(&task, request, cancellation)?;
        context::add_shapes(&mut task, request, ptx.as_deref())?;
        let setup = Setup::new(self, request, task, cancellation)?;
        let evaluation = pipeline::evaluate(&setup.context(progress))?;
        Ok(cleaning::clean_message(&evaluation))
    }

    /// The PTX of a candidate that is to be promoted, whose numbers suggest shapes; none if it does not
    /// compile, which the stages find out again.
    ///
    /// # Errors
    /// A fault of the compiler.
    fn ptx_before_promotion(
        &self,
        task: &Task,
        request: &EvaluationRequest,
        cancellation: &Cancellation,
    ) -> Result<Option<String>, EvaluateError> {
        let source = KernelSource::parse(&request.file, request.source.as_str());
        let configured = source.ok().and_then(|source| {
            let configuration = source.configure(&request.configuration).ok()?;
            Some((source, configuration))
        });
        let Some((source, configuration)) =
            configured.filter(|_| request.stage.decides_promotion())
        else {
            return Ok(None);
        };
        let recipe = CompilationInputs {
            source: &source.compiler_input(),
            configuration: &configuration,
            headers: &task.headers,
            architecture: &self.host.device().architecture(),
        };
        match self.build(&recipe, cancellation) {
            // Text that is not UTF-8 suggests nothing.
            Ok(compiled) => Ok(std::fs::read_to_string(&compiled.image.ptx).ok()),
            Err(Stop::Verdict(_)) => Ok(None),
            Err(Stop::Fault(error)) => Err(error),
        }
    }

    /// Evaluates one candidate of a search. A search begins with its baseline; the baseline of a
    /// task that fails admission gets no verdict. A task is admitted once on this machine.
    ///
    /// # Errors
    /// [`EvaluateError::NotAdmitted`], or as of [`Self::evaluate`].
    pub fn search(
        &self,
        request: &EvaluationRequest,
        progress: &dyn Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<SearchEvaluation, EvaluateError> {
        let admission = match request.stage {
            EvaluationStage::Baseline => {
                let admission = admission::ensure_admitted(self, request, progress, cancellation)?;
                Some(Box::new(admission))
            }
            _ => None,
        };
        let evaluation = self.evaluate(request, progress, cancellation)?;
        Ok(SearchEvaluation {
            evaluation: Box::new(evaluation),
            admission,
        })
    }

    /// Decides if a task may be searched, with every rule of admission and its number. The inputs
    /// are drawn from the task's own digest, so that the same task always gives the same numbers.
    /// `progress` is called with the name of each part as it begins.
    ///
    /// # Errors
    /// An [`EvaluateError`] whose cause is not the task.
    pub fn admit(
        &self,
        task: &Bundle,
        progress: impl Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<Admission, EvaluateError> {
        admission::admit(self, task, &progress, cancellation)
    }

    /// Removes what killed evaluations left behind, and the oldest files beyond the limits on disk
    /// space.
    fn enforce_disk_limits(&self) {
        let now = SystemTime::now();
        disk_limits::sweep(&self.scratch, "", now);
        for limited in limited_folders(self.host.disk_bytes()) {
            let folder = self.host.data().join(limited.name);
            disk_limits::sweep(&folder, build::UNFINISHED, now);
            disk_limits::trim(&folder, limited.most_bytes, now);
        }
    }
}
