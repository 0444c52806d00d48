//! Job and reply of the role that times images in turn.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Compiled, DeviceFault, Image, KernelResources, TensorData, VariableSpace};
use crate::device::Device;
use crate::digest::Digest;
use crate::plan::ResolvedPlan;
use crate::statistics::{PlannedBlock, SampleOrder, TimedKernel, WarmUp};
use crate::timing::CacheState;

/// Times an incumbent, a candidate and perhaps an anchor beside each other in one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimeJob {
    /// The images that are timed. Incumbent and candidate always are; the anchor may be.
    pub images: BTreeMap<TimedKernel, RunnableImage>,
    /// The score cases, each with one state of the cache; a case may come in both.
    pub cases: Vec<TimedCase>,
    /// The blocks of each round, by the number of their case. What comes in none of these has no
    /// warm-up of its own: the device is warm when further rounds ask for it.
    pub rounds: Vec<Vec<PlannedBlock>>,
    /// The warm-up of the device before the first round.
    pub warm_up: WarmUp,
    /// Seconds after which no further round begins: wall time on silicon, processor time on the
    /// emulated device.
    pub seconds: u32,
    /// Seed of the poison; every execution has its own.
    pub poison: u64,
    /// Kernels of ours that leave garbage in the device before every batch; none where it proves that
    /// nothing depends on that.
    #[serde(default)]
    pub disturber: Option<RunnableImage>,
    /// Thread instructions one launch may execute on the emulated device.
    pub instruction_budget: Option<u64>,
    /// Host threads the emulated device may use.
    pub threads: u32,
    /// The outputs whose values are compared; none if all bytes are.
    #[serde(default)]
    pub order_dependent: Option<OrderDependentOutputs>,
}

/// Outputs that a task lets differ between executions within its tolerance. The process keeps them in
/// files, because it must not know the right answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderDependentOutputs {
    /// The tensors.
    pub tensors: Vec<String>,
    /// The folder for the outputs. Those of an execution are in a folder in it, named by the index in
    /// [`TimeReply::kept`]: `NAME.bin` for each output.
    pub folder: PathBuf,
    /// The executions of each case and kernel that are kept, at most.
    pub executions: usize,
}

/// The supervisor's answer to a reply: further rounds to time, or none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NextRounds {
    /// Further rounds. If there are none, the process releases its resources and sends its last reply.
    pub rounds: Vec<Vec<PlannedBlock>>,
}

/// An image to execute, with the facts that loading and launching it need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunnableImage {
    /// The image to load.
    pub image: Image,
    /// Its kernels' resources.
    pub kernels: Vec<KernelResources>,
    /// True if the image has variables that a launch could write. It is then loaded anew for each
    /// batch, so that they begin as the source has them.
    #[serde(default)]
    pub stateful: bool,
}

impl Compiled {
    /// Returns true if the image has variables that a launch could write. All global and managed
    /// variables count, because an address can reach a kernel in ways that the PTX does not show.
    pub fn is_stateful(&self) -> bool {
        let mut variables = self.contents.variables.iter();
        variables.any(|variable| variable.space == VariableSpace::Global || variable.managed)
    }
}

impl From<&Compiled> for RunnableImage {
    fn from(compiled: &Compiled) -> Self {
        Self {
            image: compiled.image.clone(),
            kernels: compiled.kernels.clone(),
            stateful: compiled.is_stateful(),
        }
    }
}

/// One score case with one state of the cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedCase {
    /// The plan of each contender.
    pub plans: BTreeMap<TimedKernel, ResolvedPlan>,
    /// Inputs that take turns, at least one, and no fewer than executions of a batch.
    pub draws: Vec<Vec<TensorData>>,
    /// The state of the second level cache that every batch begins with.
    pub cache: CacheState,
    /// Executions between two events, each on a set of buffers of its own: more than one where one
    /// is too short for the clock. At least one, and at most the number of sets that
    /// memory holds.
    pub batch: u32,
}

impl TimedCase {
    /// Bytes of one set of buffers: the tensors, and the workspaces of every contender.
    pub fn set_bytes(&self) -> u64 {
        let tensors = self.draws.iter().map(|tensors| {
            let bytes = tensors
                .iter()
                .map(|tensor| tensor.elements() * tensor.dtype.bytes());
            bytes.sum::<u64>()
        });
        let workspaces = self.plans.values().flat_map(|plan| &plan.workspaces);
        let scratch = workspaces.map(|workspace| workspace.elements * workspace.dtype.bytes());
        tensors.max().unwrap_or_default() + scratch.sum::<u64>()
    }
}

/// The times. They are made in a process that ran the candidate, so that they are claims. A process
/// replies whenever it has finished the rounds that it knows of, each time with the new ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimeReply {
    /// The device.
    pub device: Device,
    /// The trust that the emulated device's times deserve, in a word; none on silicon.
    pub model_label: Option<String>,
    /// True if the process can bring a case's buffers into the cache. Where the driver compiles no
    /// PTX it cannot, and blocks with a warm cache fail.
    #[serde(default)]
    pub warms: bool,
    /// Sets of buffers that take turns, by case.
    pub sets: Vec<u32>,
    /// Blocks that were executed and not counted before the first round, by case.
    pub warm_up: Vec<u32>,
    /// The rounds that were finished since the last reply, with their blocks in the order of the job.
    pub rounds: Vec<Vec<TimedBlock>>,
    /// The distinct outcomes of executions that no earlier reply has. Numbers count through all
    /// replies.
    pub outcomes: Vec<ExecutionOutcome>,
    /// The executions whose outputs are in files: all with different outputs, or where there are more
    /// than may be kept, a random sample of them. Each reply has the whole list.
    #[serde(default)]
    pub kept: Vec<KeptExecution>,
    /// The error that ended the rounds early, if there was one.
    pub failure: Option<Failure>,
}

/// A timed execution whose outputs are in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeptExecution {
    /// The case.
    pub case: usize,
    /// The kernel.
    pub contender: TimedKernel,
    /// The number of the inputs.
    pub draw: usize,
}

/// The samples of one case in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedBlock {
    /// The case.
    pub case: usize,
    /// The order of the samples' owners, by [`crate::statistics::sample_order`].
    pub order: SampleOrder,
    /// One sample for each turn.
    pub samples: Vec<Sample>,
}

/// One batch of executions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Time between events around the whole batch, microseconds.
    pub event_us: f64,
    /// The clock of the multiprocessors just before and just after, as a kernel of ours counts it,
    /// MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<[f64; 2]>,
    /// The number of its executions with each outcome, by the index in [`TimeReply::outcomes`]:
    /// most executions have the same outcome, and replies have to be short.
    pub outcomes: BTreeMap<usize, u32>,
}

/// The state of an execution's buffers afterwards.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExecutionOutcome {
    /// The number of the inputs it had.
    pub draw: usize,
    /// [`fingerprint`] of its outputs whose bytes are compared.
    pub outputs: Digest,
    /// An input that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutated: Option<String>,
    /// A buffer whose surroundings changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrun: Option<String>,
}

/// A refusal of the driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The kernel that was running.
    pub contender: TimedKernel,
    /// The case.
    pub case: usize,
    /// The refusal.
    pub fault: DeviceFault,
}

/// One digest for all outputs of an execution, given the digest of each, except those whose sums may be
/// taken in any order.
pub fn fingerprint(outputs: &BTreeMap<String, Digest>, order_dependent: &[String]) -> Digest {
    let parts = outputs
        .iter()
        .filter(|(name, _)| !order_dependent.contains(name))
        .flat_map(|(name, digest)| [name.as_bytes(), digest.bytes().as_slice()]);
    Digest::of_parts(parts)
}
