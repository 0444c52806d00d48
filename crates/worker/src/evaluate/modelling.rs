//! What the emulated device's time model says of one launch with given arguments.
//!
//! There is no task here, so nothing is known about the right answer: the launch's counters are
//! taken, from a sample of its blocks, and its outputs are not looked at.

use std::time::Duration;

use domain::plan::{ResolvedLaunch, ResolvedPlan, ResolvedStep};
use domain::role::{
    Compiled, Disturbance, Execution, ExecutionFacts, ExecutionPurpose, LaunchFacts, Placement,
    RunJob, TensorData,
};

use super::EvaluateError;
use crate::cancel::Cancellation;
use crate::host::Host;

/// Processor time of one sampled launch, its inputs included.
const ALLOWED: Duration = Duration::from_secs(60);
/// Thread instructions of the sampled blocks together.
const INSTRUCTIONS: u64 = 20_000_000_000;

/// A launch that the model is asked about.
#[derive(Debug, Clone)]
pub struct Subject<'a> {
    /// The kernel's build.
    pub compiled: &'a Compiled,
    /// The launch.
    pub launch: ResolvedLaunch,
    /// The buffers it names.
    pub buffers: Vec<TensorData>,
    /// Blocks that run at most.
    pub blocks: u64,
}

pub(super) fn model(
    host: &Host,
    subject: &Subject<'_>,
    cancellation: &Cancellation,
) -> Result<Result<LaunchFacts, String>, EvaluateError> {
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
        disturber: None,
    };
    let answer = host.run(&job, ALLOWED, cancellation)?;
    let reply = match answer.reply {
        Ok(reply) => reply,
        Err(exit) => return Ok(Err(format!("the runner {exit}"))),
    };
    let Some(facts) = reply.executions.into_iter().next() else {
        return Ok(Err("it was not executed".to_owned()));
    };
    Ok(modelled(facts))
}

/// The launch with its modelled time, or what stopped it.
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
