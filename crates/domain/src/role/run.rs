//! The role that executes a candidate: what it is to do, and what it claims to have seen.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Image, KernelResources, RunnableImage, TensorData};
use crate::device::Device;
use crate::digest::Digest;
use crate::finding::Finding;
use crate::plan::ResolvedPlan;
use crate::timing::ModelledLaunch;

/// Runs a candidate's executions in order on one device, then exits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunJob {
    /// The image to load.
    pub image: Image,
    /// The kernels' resources, for the emulated device's time model.
    pub kernels: Vec<KernelResources>,
    /// Passes through the plan.
    pub executions: Vec<Execution>,
    /// Kernels of ours that disturb the device, where executions ask for it.
    #[serde(default)]
    pub disturber: Option<RunnableImage>,
    /// True if consecutive scored executions share one loaded image, because the time would otherwise
    /// include its loading. False where the image has variables that a launch could write, so that they
    /// have their initial values in every execution.
    #[serde(default)]
    pub keeps_image: bool,
    /// Host threads the emulated device may use.
    pub threads: u32,
    /// True if the counters of each source line are reported, too.
    #[serde(default)]
    pub lines: bool,
    /// True if each execution is a reply of its own, after which the process receives a [`Next`].
    /// The last reply holds no execution.
    #[serde(default)]
    pub one_by_one: bool,
    /// The values of inputs that are not drawn, by the tensor's name. Only for [`ExecutionPurpose::Model`]: no verdict
    /// rests on them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Vec<f64>>,
}

/// The message to a process that has replied with one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// To make the one behind it, if there is one.
    Execution,
    /// To make no more.
    Nothing,
}

/// One pass through the plan on one set of inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Number, unique in the job.
    pub id: u32,
    /// The case.
    pub case: String,
    /// The plan to launch.
    pub plan: ResolvedPlan,
    /// The tensors with their content.
    pub tensors: Vec<TensorData>,
    /// Seed of the poison that outputs and workspaces hold before.
    pub poison: u64,
    /// Seed of the emulated device's schedule; none is its serial one.
    pub schedule: Option<u64>,
    /// The placement of its buffers.
    pub placement: Placement,
    /// True if the emulated device assigns the elements of `wmma` fragments to lanes in its second
    /// layout.
    pub turned_fragments: bool,
    /// The disturbance of the device around it.
    #[serde(default)]
    pub disturbance: Disturbance,
    /// The purpose, which decides if its time counts.
    pub purpose: ExecutionPurpose,
    /// Thread instructions one launch may execute on the emulated device.
    pub instruction_budget: Option<u64>,
    /// Folder for the outputs, one file `<tensor>.bin` each; none keeps only their digests.
    pub save: Option<PathBuf>,
}

/// A disturbance of the device around an execution, which must not depend on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Before it, shared memory and registers are filled with words that depend on its poison.
    pub garbage: bool,
    /// Meanwhile blocks of ours occupy half of the multiprocessors and rewrite memory.
    pub company: bool,
}

/// The placement of an execution's buffers in the device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Each is an allocation of its own and ends with it, as far as its alignment allows: right for
    /// a device that knows where allocations end.
    Ending,
    /// As `Ending`, with the bases that allocators give: multiples of 256 bytes.
    Allocated,
    /// Each ends, as far as its alignment allows, where the next address is mapped to nothing, so
    /// that the hardware stops accesses past the end.
    GuardBehind,
    /// Each begins where the address before is mapped to nothing.
    GuardBefore,
    /// Each base has the alignment that the task promises and no more, between patterns that are
    /// compared afterwards.
    Weakest,
    /// As `Weakest`, with bases that are multiples of 128 bytes and not of 256.
    Shifted,
    /// Each is an allocation of exactly its size, and what has no content is not written to: for
    /// tools that know where allocations end and what was never written. Nothing is read back, which
    /// such a tool would take for a use.
    Bare,
}

/// The purposes of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionPurpose {
    /// Correctness only.
    Check,
    /// Correctness and time.
    Score,
    /// Counters and the modelled time alone, from a sample of each launch's blocks. Nobody looks at the outputs, and
    /// no verdict may rest on it. On the emulated device only.
    Model {
        /// The fewest blocks of a launch that run, in runs of neighbours.
        blocks: u64,
    },
}

/// The runner's reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunReply {
    /// The device it ran on.
    pub device: Device,
    /// The trust that the emulated device's times deserve, in a word; none on silicon.
    pub model_label: Option<String>,
    /// One entry per execution, in order; shorter than the job if one ended the process's
    /// use of the device. Where executions are told one by one, the one that was just made.
    pub executions: Vec<ExecutionFacts>,
    /// The counters of source lines, where the job asks for them; on the emulated device only.
    #[serde(default)]
    pub lines: Vec<LaunchLines>,
}

/// The counters of each source line of one launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaunchLines {
    /// The execution's number.
    pub execution: u32,
    /// The kernel.
    pub kernel: String,
    /// The lines with the most instructions, in their order in the file.
    pub lines: Vec<LineCounters>,
}

/// The counters of one source line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineCounters {
    /// Line in the candidate's file, from 1.
    pub line: u32,
    /// Counters that are not zero, by name.
    pub counters: BTreeMap<String, u64>,
}

/// The facts of one execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionFacts {
    /// The execution's number.
    pub id: u32,
    /// Launches that really ran, in order.
    pub launches: Vec<LaunchFacts>,
    /// The findings of the emulated device.
    pub findings: Vec<Finding>,
    /// The first driver error.
    pub fault: Option<DeviceFault>,
    /// An instruction the emulated device lacks.
    pub unsupported: Option<UnsupportedInstruction>,
    /// Inputs that changed.
    pub mutated: Vec<String>,
    /// Buffers whose red zones changed.
    pub overrun: Vec<String>,
    /// Outputs with elements that were not written.
    pub unwritten: Vec<UnwrittenOutput>,
    /// Time between events around the plan, microseconds; on silicon only.
    pub event_us: Option<f64>,
    /// True if it ended only after the blocks beside it had stopped waiting for that, which takes
    /// seconds: its own blocks needed all of the device at once.
    #[serde(default)]
    pub outlasted: bool,
    /// True if inputs beside guards could be written to, because the driver cannot map memory for
    /// reading alone.
    #[serde(default)]
    pub unprotected: bool,
    /// Digest of each output's bytes.
    pub outputs: BTreeMap<String, Digest>,
}

/// One launch as the driver executed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LaunchFacts {
    /// The kernel.
    pub kernel: String,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// The model's time with a cold cache; on the emulated device only.
    pub modelled: Option<ModelledLaunch>,
    /// The model's time with a warm cache: everything that the execution uses was read just before, as
    /// far as it fits into the second level cache; on the emulated device only.
    #[serde(default)]
    pub modelled_warm: Option<ModelledLaunch>,
    /// The time that each resource takes for its part of the work with a cold cache, microseconds by the name of the
    /// model's term; on the emulated device only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub modelled_terms: BTreeMap<String, f64>,
    /// Counters by name; on the emulated device only.
    pub counters: BTreeMap<String, u64>,
}

/// An error of the CUDA driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFault {
    /// Its code.
    pub code: u32,
    /// Its name.
    pub name: String,
    /// The call that returned it.
    pub call: String,
    /// The launch it follows, counted from 0.
    pub launch: Option<u32>,
    /// The driver's error log of an image that it could not load.
    #[serde(default)]
    pub log: Option<String>,
}

/// An instruction without an implementation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsupportedInstruction {
    /// The instruction with its modifiers.
    pub opcode: String,
    /// Source line.
    pub line: Option<u32>,
}

/// Elements of an output that were never written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnwrittenOutput {
    /// The tensor.
    pub tensor: String,
    /// The number of elements.
    pub elements: u64,
    /// The first, as a flat index.
    pub first: u64,
}
