//! The modelled time of one launch with given arguments on the emulated device.
//!
//! There is no task here, so that the right answer is not known: the counters come from a sample of
//! the launch's blocks, and its outputs are not compared.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::plan::{ResolvedLaunch, ResolvedPlan, ResolvedStep};
use domain::role::{
    Compiled, Disturbance, Execution, ExecutionFacts, ExecutionPurpose, LaunchFacts, Placement,
    RunJob, TensorData,
};

use super::error::EvaluateError;
use crate::cancel::Cancellation;
use crate::host::Host;

/// Processor time of one sampled launch, its inputs included.
const ALLOWED: Duration = Duration::from_secs(60);
/// Thread instructions of the sampled blocks together.
const INSTRUCTIONS: u64 = 20_000_000_000;

/// The reasons why a launch has no modelled time.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The launch did not finish, for this reason.
    #[error("{0}")]
    Launch(String),
    /// The infrastructure failed.
    #[error(transparent)]
    Fault(#[from] EvaluateError),
}

/// A launch whose time is to be modelled.
#[derive(Debug, Clone)]
pub struct Subject<'a> {
    /// The kernel's build.
    pub compiled: &'a Compiled,
    /// The launch.
    pub launch: ResolvedLaunch,
    /// The buffers it names.
    pub buffers: Vec<TensorData>,
    /// The values of buffers that are not drawn, by name.
    pub values: BTreeMap<String, Vec<f64>>,
    /// The fewest blocks that run, in runs of neighbours.
    pub blocks: u64,
}

pub(super) fn model(
    host: &Host,
    subject: &Subject<'_>,
    cancellation: &Cancellation,
) -> Result<LaunchFacts, ModelError> {
    let job = RunJob {
        image: subject.compiled.image.clone(),
        kernels: subject.compiled.kernels.clone(),
        executions: vec![Execution {
            id: 0,
            case: "modelled".to_owned(),
            plan: ResolvedPlan {
                workspaces: Vec::new(),
                steps: vec![ResolvedStep::Kernel(subject.launch.clone())],
            },
            tensors: subject.buffers.clone(),
            poison: 0,
            placement: Placement::Ending,
            schedule: None,
            turned_fragments: false,
            disturbance: Disturbance::default(),
            purpose: ExecutionPurpose::Model {
                blocks: subject.blocks,
            },
            instruction_budget: Some(INSTRUCTIONS),
            save: None,
        }],
        threads: host.threads(),
        lines: false,
        one_by_one: false,
        values: subject.values.clone(),
        disturber: None,
        keeps_image: false,
    };
    let answer = host.run(&job, ALLOWED, cancellation);
    let answer = answer.map_err(|error| ModelError::Fault(error.into()))?;
    let reply = answer
        .reply
        .map_err(|exit| ModelError::Launch(format!("the runner {exit}")))?;
    let facts = reply.executions.into_iter().next();
    let facts = facts.ok_or_else(|| ModelError::Launch("it was not executed".to_owned()))?;
    modelled(facts).map_err(ModelError::Launch)
}

/// The launch with its modelled time, or the reason why it has none.
fn modelled(facts: ExecutionFacts) -> Result<LaunchFacts, String> {
    if let Some(unsupported) = facts.unsupported {
        return Err(format!("the emulated device lacks {}", unsupported.opcode));
    }
    if let Some(fault) = facts.fault {
        return Err(format!("{} from {}", fault.name, fault.call));
    }
    facts
        .launches
        .into_iter()
        .next()
        .filter(|launch| launch.modelled.is_some())
        .ok_or_else(|| "the device gave no modelled time".to_owned())
}
