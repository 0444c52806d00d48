//! The context that all stages of one evaluation share.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::candidate::KernelSource;
use domain::device::{Device, DeviceKind};
use domain::dtype::Dtype;
use domain::evaluation::{EvaluationRequest, EvaluationStage};
use domain::plan::{Configuration, ResolvedPlan};
use domain::problem::Problem;
use domain::role::Compiled;
use domain::seeds::SeedFamily;
use domain::statistics;
use domain::task::{Case, Task};
use tempfile::TempDir;

use super::Evaluator;
use super::build::{CompilationInputs, build};
use super::edges;
use super::error::{EvaluateError, Stop, storage};
use super::passes::{Extent, Passes, Repetition};
use super::roles::{Roles, RunLimits};
use super::tensor_size::{MORE_THAN_INT32, tensor_bytes};
use crate::cancel::Cancellation;
use crate::host::Host;

/// The number of different inputs of each score case in a paired comparison on the emulated device,
/// where a batch has two executions.
const EMULATED_DRAWS: u32 = 4;

/// Thread instructions of one launch on a small case. A correct kernel needs tens of millions, and
/// an endless loop is found within seconds, even in a single thread.
pub(super) const SMALL: u64 = 1 << 28;
/// Thread instructions of one launch on a score case. The limit is generous, because slowness is no
/// error.
pub(super) const LARGE: u64 = 48 << 30;

/// The limits of a stage: seconds of wall time, and thread instructions of one launch.
const fn allowance(stage: &'static str, seconds: u64, instructions: u64) -> RunLimits {
    RunLimits {
        stage,
        deadline: Duration::from_secs(seconds),
        instructions,
    }
}

pub(super) const SMOKE: RunLimits = allowance("smoke", 20, SMALL);
pub(super) const SCREEN: RunLimits = allowance("screen", 60, SMALL);
pub(super) const REPEAT: RunLimits = allowance("repeat", 60, SMALL);
pub(super) const DRAWN: RunLimits = allowance("drawn shapes", 60, SMALL);
pub(super) const GATE: RunLimits = allowance("gate", 60, SMALL);
pub(super) const SCORE: RunLimits = allowance("score", 120, LARGE);
pub(super) const SCORE_INPUTS: RunLimits = allowance("score inputs", 240, LARGE);

/// Parses the task of a request and adds the shapes that this evaluation tests beside the task's
/// own cases.
///
/// # Errors
/// [`EvaluateError::Task`] if the task cannot be parsed.
pub fn load_task(request: &EvaluationRequest) -> Result<Task, EvaluateError> {
    let mut task = Task::load(&request.task).map_err(EvaluateError::Task)?;
    add_shapes(&mut task, request, None)?;
    Ok(task)
}

/// Adds the shapes that an evaluation tests beside the task's own cases. `ptx` is the candidate's, where
/// its numbers suggest further ones.
///
/// # Errors
/// [`EvaluateError::Task`]: an extent without a value.
pub(super) fn add_shapes(
    task: &mut Task,
    request: &EvaluationRequest,
    ptx: Option<&str>,
) -> Result<(), EvaluateError> {
    let edges = edges::cases(task, request, ptx)?;
    task.cases.extend(edges);
    Ok(())
}

/// Values that a [`Context`] borrows: the task, a scratch folder that is removed with this value, and the
/// kernels that disturb the device around executions.
pub(super) struct Setup<'a> {
    evaluator: &'a Evaluator,
    request: &'a EvaluationRequest,
    task: Task,
    scratch: TempDir,
    disturber: Option<Compiled>,
    cancellation: &'a Cancellation,
}

impl<'a> Setup<'a> {
    /// Prepares an evaluation of `task`.
    ///
    /// # Errors
    /// [`EvaluateError::Storage`], or a fault in building the kernels that disturb the device.
    pub fn new(
        evaluator: &'a Evaluator,
        request: &'a EvaluationRequest,
        task: Task,
        cancellation: &'a Cancellation,
    ) -> Result<Self, EvaluateError> {
        let folder = &evaluator.scratch;
        Ok(Self {
            evaluator,
            request,
            task,
            scratch: tempfile::tempdir_in(folder).map_err(storage(folder))?,
            disturber: evaluator.disturber(cancellation)?,
            cancellation,
        })
    }

    /// The context of this evaluation.
    pub fn context<'c>(&'c self, progress: &'c dyn Fn(&str)) -> Context<'c> {
        Context {
            request: self.request,
            task: &self.task,
            progress,
            roles: Roles {
                host: &self.evaluator.host,
                scratch: self.scratch.path(),
                cancellation: self.cancellation,
                lines: false,
                disturber: self.disturber.as_ref(),
            },
        }
    }
}

/// Immutable inputs that all stages of one evaluation share.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub request: &'a EvaluationRequest,
    pub task: &'a Task,
    /// Called with the name of each stage as it begins.
    pub progress: &'a dyn Fn(&str),
    pub roles: Roles<'a>,
}

impl<'a> Context<'a> {
    pub fn host(&self) -> &'a Host {
        self.roles.host
    }

    pub fn device(&self) -> &'a Device {
        self.roles.host.device()
    }

    pub fn is_emulated(&self) -> bool {
        self.device().kind == DeviceKind::Emulated
    }

    /// The seed family of the executions that this evaluation may explain.
    pub fn family(&self) -> SeedFamily {
        SeedFamily::of(self.request.stage)
    }

    /// The passes whose inputs are drawn from `family`.
    pub fn passes_of(&self, family: SeedFamily) -> Passes<'a> {
        Passes {
            task: self.task,
            key: self.request.key,
            family,
        }
    }

    /// The passes whose inputs are drawn from [`Self::family`].
    pub fn passes(&self) -> Passes<'a> {
        self.passes_of(self.family())
    }

    /// The share of the small cases that this evaluation examines: all before a promotion, else a
    /// sample.
    pub fn extent(&self) -> Extent {
        if self.request.stage.decides_promotion() {
            Extent::All
        } else {
            Extent::Sample
        }
    }

    /// Compiles a source for the device, or finds its build.
    ///
    /// # Errors
    /// [`Stop`] with the compiler's verdict, or with a fault.
    pub fn build(
        &self,
        source: &KernelSource,
        configuration: &Configuration,
    ) -> Result<Compiled, Stop> {
        let architecture = self.device().architecture();
        let text = source.compiler_input();
        let recipe = CompilationInputs {
            source: &text,
            configuration,
            headers: &self.task.headers,
            architecture: &architecture,
        };
        build(self.host(), &recipe, self.roles.cancellation)
    }

    /// Compiles a source with its default configuration. None if the compiler rejects it.
    ///
    /// # Errors
    /// A fault.
    pub fn build_default(&self, source: &KernelSource) -> Result<Option<Compiled>, EvaluateError> {
        match self.build(source, &source.plan().default_configuration()) {
            Ok(compiled) => Ok(Some(compiled)),
            Err(Stop::Verdict(_)) => Ok(None),
            Err(Stop::Fault(error)) => Err(error),
        }
    }

    /// The number of different inputs on which a score case is timed in a paired comparison.
    ///
    /// # Errors
    /// A [`Problem`] of the task: an extent without a value.
    pub fn draws(&self, case: &Case) -> Result<u32, Problem> {
        match self.device().kind {
            DeviceKind::Emulated => Ok(EMULATED_DRAWS),
            DeviceKind::Nvidia => {
                let bytes = tensor_bytes(self.task, case, Dtype::bytes)?;
                Ok(statistics::input_draws(bytes))
            }
        }
    }

    /// The number of repeats and of further draws on a device without proofs; `None` on a device
    /// that proves its results.
    pub fn repetition(&self) -> Option<Repetition> {
        let host = self.host();
        let asked = Repetition::of(self.request.stage);
        host.is_unproved().then(|| match host.repeat_policy() {
            Some(policy) => Repetition {
                repeats: asked.repeats.min(policy.max_repeats as u64),
                draws: asked.draws.min(policy.max_repeats),
            },
            None => asked,
        })
    }

    /// The number of elements that one tensor must exceed in the large-tensor stage of a promotion;
    /// `None` on a device where that would take hours.
    pub fn large_tensor_elements(&self) -> Option<u64> {
        match self.host().repeat_policy() {
            Some(policy) => Some(policy.large_tensor_elements),
            None => (!self.is_emulated()).then_some(MORE_THAN_INT32),
        }
    }

    /// Returns true if this is the evaluation of the task's own baseline.
    pub fn is_baseline(&self) -> bool {
        self.request.stage == EvaluationStage::Baseline
    }
}

/// The resolved plans of a source by case.
pub(super) type Plans = BTreeMap<String, ResolvedPlan>;
