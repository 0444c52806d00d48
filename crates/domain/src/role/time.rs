//! Job and reply of the role that times two images in turn.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DeviceFault, Image, KernelResources, TensorData};
use crate::device::Device;
use crate::digest::Digest;
use crate::plan::ResolvedPlan;
use crate::statistics::{Order, PlannedBlock};

/// Times an incumbent and a candidate beside each other in one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimeJob {
    /// What the candidate is compared with.
    pub incumbent: Side,
    /// The candidate.
    pub candidate: Side,
    /// The score cases.
    pub cases: Vec<TimedCase>,
    /// The blocks of each round, by the number of their case.
    pub rounds: Vec<Vec<PlannedBlock>>,
    /// After so many seconds no further round is begun.
    pub seconds: u32,
    /// Seed of the poison; every execution has its own.
    pub poison: u64,
    /// Thread instructions one launch may execute on the emulated device.
    pub instruction_budget: Option<u64>,
    /// Host threads the emulated device may use.
    pub threads: u32,
}

/// One of the two images.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// What to load.
    pub image: Image,
    /// Its kernels' resources.
    pub kernels: Vec<KernelResources>,
}

/// One score case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedCase {
    /// The incumbent's plan.
    pub incumbent: ResolvedPlan,
    /// The candidate's plan.
    pub candidate: ResolvedPlan,
    /// Inputs that take turns, at least one.
    pub draws: Vec<Vec<TensorData>>,
}

/// What was timed. Made in a process that ran the candidate: a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimeReply {
    /// The device.
    pub device: Device,
    /// How far the emulated device's times can be trusted; none on silicon.
    pub model_label: Option<String>,
    /// The rounds that were finished, with their blocks in the order of the job.
    pub rounds: Vec<Vec<TimedBlock>>,
    /// What ended the rounds early, if something did.
    pub failure: Option<Failure>,
}

/// Four executions of one case in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedBlock {
    /// The case.
    pub case: usize,
    /// Whose executions they are.
    pub order: Order,
    /// The executions.
    pub samples: [Sample; 4],
}

/// One execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Time between events around the plan, microseconds.
    pub event_us: f64,
    /// Which inputs it had.
    pub draw: usize,
    /// [`fingerprint`] of its outputs.
    pub outputs: Digest,
    /// An input that changed.
    pub mutated: Option<String>,
    /// A buffer whose surroundings changed.
    pub overrun: Option<String>,
}

/// A refusal of the driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Whether the candidate was running.
    pub candidate: bool,
    /// The case.
    pub case: usize,
    /// The refusal.
    pub fault: DeviceFault,
}

/// Whose turn each execution of a block is; true is the candidate's.
pub fn turns(order: Order) -> [bool; 4] {
    let outside = order == Order::CandidateOutside;
    [outside, !outside, !outside, outside]
}

/// One digest for all outputs of an execution, given the digest of each.
pub fn fingerprint(outputs: &BTreeMap<String, Digest>) -> Digest {
    let parts = outputs
        .iter()
        .flat_map(|(name, digest)| [name.as_bytes(), digest.bytes().as_slice()]);
    Digest::of_parts(parts)
}
