//! Jobs and replies of the role processes: what the supervisor asks of a child, and what the
//! child claims to have seen. Replies of a process that ran candidate code are claims; the
//! judge bounds them.

mod clocks;
pub mod experiment;
mod time;
pub mod walls;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::device::Device;
use crate::digest::Digest;
use crate::dtype::Dtype;
use crate::finding::Finding;
use crate::health::Vitals;
use crate::plan::ResolvedPlan;
use crate::policy::Feature;
use crate::statistics::Rates;
use crate::task::{Role, Tolerance};
use crate::timing::ModelledLaunch;
use crate::verdict::{Diagnostic, WorstElement};

pub use clocks::{Clocks, ClocksJob, ClocksReply};
pub use time::{
    Failure, Left, MoreRounds, Sample, Side, TimeJob, TimeReply, TimedBlock, TimedCase, fingerprint,
};
pub use watch::{Glimpse, MoreWatching, WatchJob, WatchReply};

/// The largest reply a role may send, bytes.
pub const MAX_REPLY_BYTES: usize = 1 << 20;
/// The environment variable that tells a role process the number of its socket's descriptor.
/// Job and reply are an [`Envelope`] as JSON, preceded by its length as a little-endian u32. A role
/// first says that it is ready, with a length of 0, and is told its job only then. Some are told more
/// after a reply, with a nonce of its own, and reply again. Some have opened
/// the device by then: what a role may reach is in its working directory or named by its job.
pub const SOCKET_VARIABLE: &str = "KERNELWRIGHT_ROLE_FD";
/// The environment variable by which a role that opens a device is told to leave files open to itself
/// and its driver: it has the value [`OPEN_FILES`], or is not there.
pub const FILES_VARIABLE: &str = "KERNELWRIGHT_ROLE_FILES";
/// The value of [`FILES_VARIABLE`].
pub const OPEN_FILES: &str = "open";
/// The exit status of a role that could not do its job for a reason of its surroundings (no
/// toolchain, no driver, a full disk). It sends no reply, and the last line of its standard
/// error says what is wrong and how to fix it. Never used for what a candidate did.
pub const FAULT_STATUS: u8 = 3;

/// A job or reply with the nonce that binds a reply to its job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope<T> {
    /// Fresh for each job.
    pub nonce: String,
    /// The job or the reply.
    pub body: T,
}

/// A 256-bit key of the keyed generator that makes inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct Key(pub Digest);

impl Key {
    /// A key for one purpose, from which this key cannot be recovered.
    pub fn derive(&self, parts: &[&str]) -> Self {
        let own: &[u8] = self.0.bytes();
        Self(Digest::of_parts(
            std::iter::once(own).chain(parts.iter().map(|part| part.as_bytes())),
        ))
    }
}

/// Compiles one source for one architecture. Needs no GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompileJob {
    /// The source file; diagnostics count its lines.
    pub source: PathBuf,
    /// Such as `sm_89`.
    pub architecture: String,
    /// Tunables as macros.
    pub defines: BTreeMap<String, i64>,
    /// The task's own headers; absent when it has none.
    pub headers: Option<PathBuf>,
    /// Where the toolchain's bundled headers lie, or are unpacked to on first use.
    pub toolchain_headers: PathBuf,
    /// Where `image.cubin` and `image.ptx` go.
    pub output: PathBuf,
}

/// What the compiler said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CompileReply {
    /// An image for the architecture, and the PTX it was assembled from.
    Compiled(Box<Compiled>),
    /// Errors in the source.
    Rejected {
        /// At most 20, errors first.
        diagnostics: Vec<Diagnostic>,
    },
    /// The assembler refused the kernel's resource use.
    OverResource {
        /// Which resource.
        resource: String,
        /// The limit.
        limit: u64,
        /// What was asked for, where it is known.
        found: Option<u64>,
        /// One sentence.
        message: String,
    },
}

/// A successful compilation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compiled {
    /// The image files.
    pub image: Image,
    /// One entry per `extern "C"` kernel.
    pub kernels: Vec<KernelResources>,
    /// What the image holds besides, for the policy.
    pub contents: Contents,
    /// Warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// The compiler with its version, such as "NVRTC 13.5".
    pub toolchain: String,
}

/// A compiled module as files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Machine code for the architecture.
    pub cubin: PathBuf,
    /// The PTX of the same compilation.
    pub ptx: PathBuf,
    /// Digest of the file with the machine code.
    pub cubin_digest: Digest,
    /// Digest of what executes: code, constants and resources without the names of files and the
    /// lines. It is the same wherever a source was compiled.
    pub code_digest: Digest,
}

/// What an image holds besides the code of its kernels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Contents {
    /// Variables of the module, those that kernels write first.
    pub variables: Vec<Variable>,
    /// Bytes of variables with a first value that no kernel changes: tables.
    pub constant_bytes: u64,
    /// Symbols that the driver would have to supply.
    pub externals: Vec<String>,
    /// Instructions and special registers of note.
    pub uses: Vec<Use>,
    /// Kernels of the image.
    pub entries: Vec<String>,
}

/// A variable of a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name as the compiler spells it.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Where it lives.
    pub space: VariableSpace,
    /// Whether the source gives it a first value.
    pub initialised: bool,
    /// Whether a kernel may write it, so that it can carry something from launch to launch.
    pub written: bool,
    /// Whether the host shares it.
    pub managed: bool,
}

/// Where a variable of a module lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VariableSpace {
    /// Global memory.
    Global,
    /// Constant memory.
    Constant,
}

/// One use of a feature that the policy has an opinion on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// Which feature.
    pub feature: Feature,
    /// The instruction or register.
    pub what: String,
    /// Line in the candidate's file, where known.
    pub line: Option<u32>,
}

/// Reads the machine code of an image back into instructions. Needs no GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisassembleJob {
    /// NVIDIA's disassembler.
    pub program: PathBuf,
    /// The machine code.
    pub cubin: PathBuf,
    /// Name of the file whose lines are counted.
    pub source: String,
}

/// What the machine code holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disassembly {
    /// The disassembler with its release.
    pub tool: String,
    /// Every function of the image.
    pub kernels: Vec<KernelCode>,
    /// Instructions and registers of note.
    pub uses: Vec<Use>,
}

/// The machine code of one kernel, counted. These are instructions in the image, not executed
/// ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelCode {
    /// The kernel.
    pub kernel: String,
    /// Instructions, padding not counted.
    pub instructions: u32,
    /// Of those, the ones that multiply matrices on tensor cores.
    pub tensor: u32,
    /// Instructions by name, without modifiers.
    pub mix: BTreeMap<String, u32>,
}

/// Bytes of stack that a thread may have. Whatever lies there has to be overwritten before a time is
/// taken, on every multiprocessor: an H100 has room for 270,000 threads at once.
pub const MOST_STACK_BYTES: u32 = 64 << 10;

/// What one kernel needs, as the assembler reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelResources {
    /// The entry.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes stored and loaded by spills.
    pub spill_bytes: u32,
    /// Stack of a thread in bytes.
    pub stack_bytes: u32,
    /// Static shared memory of a block in bytes.
    pub static_shared_bytes: u32,
    /// Constant memory in bytes.
    pub constant_bytes: u32,
    /// Sizes in bytes of the entry's parameters, in order.
    pub parameters: Vec<u32>,
}

/// Runs a candidate's executions in order on one device, then exits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunJob {
    /// What to load.
    pub image: Image,
    /// The kernels' resources, for the emulated device's time model.
    pub kernels: Vec<KernelResources>,
    /// Passes through the plan.
    pub executions: Vec<Execution>,
    /// Kernels of ours that disturb the device, where executions ask for it.
    #[serde(default)]
    pub disturber: Option<Side>,
    /// Host threads the emulated device may use.
    pub threads: u32,
    /// Whether to report the counters of each source line, too.
    #[serde(default)]
    pub lines: bool,
}

/// One pass through the plan on one set of inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Number, unique in the job.
    pub id: u32,
    /// The case.
    pub case: String,
    /// What to launch.
    pub plan: ResolvedPlan,
    /// The tensors with their content.
    pub tensors: Vec<TensorData>,
    /// Seed of the poison that outputs and workspaces hold before.
    pub poison: u64,
    /// Seed of the emulated device's schedule; none is its serial one.
    pub schedule: Option<u64>,
    /// Where its buffers lie.
    pub placement: Placement,
    /// Whether the emulated device lays `wmma` fragments out the other way.
    pub turned_fragments: bool,
    /// What is done to the device around it.
    #[serde(default)]
    pub disturbance: Disturbance,
    /// Whether its time counts.
    pub purpose: ExecutionPurpose,
    /// Thread instructions one launch may execute on the emulated device.
    pub instruction_budget: Option<u64>,
    /// Folder for the outputs, one file `<tensor>.bin` each; none keeps only their digests.
    pub save: Option<PathBuf>,
}

/// What is done to the device around an execution, which must not depend on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Before it, shared memory and registers are filled with words that depend on its poison.
    pub garbage: bool,
    /// Meanwhile blocks of ours occupy half of the multiprocessors and rewrite memory.
    pub company: bool,
}

/// Where the buffers of an execution lie in the device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Each is an allocation of its own and ends with it, as far as its alignment allows: right for
    /// a device that knows where allocations end.
    Ending,
    /// Each ends, as far as its alignment allows, where the next address is mapped to nothing, so
    /// that the hardware stops whoever goes on.
    GuardBehind,
    /// Each begins where the address before is mapped to nothing.
    GuardBefore,
    /// Each base has the alignment that the task promises and no more, between patterns that are
    /// compared afterwards.
    Weakest,
    /// The same, with bases that are multiples of 128 bytes and not of 256.
    Shifted,
    /// Each is an allocation of exactly its size, and what has no content is not written to: for
    /// tools that know where allocations end and what was never written. Nothing is read back, which
    /// such a tool would take for a use.
    Bare,
}

/// Why an execution happens.
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
        /// Blocks of a launch that run at most.
        blocks: u64,
    },
}

/// A tensor's shape and how its content is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TensorData {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Extents in elements, outermost first.
    pub extents: Vec<u64>,
    /// Direction.
    pub role: Role,
    /// The base address is a multiple of this; the weakest that a candidate must accept.
    pub align: u64,
    /// How the content is drawn; for an output, ignored.
    pub distribution: Distribution,
    /// The key it is drawn with.
    pub key: Key,
    /// What is done to the values after they are drawn.
    pub alteration: Option<Alteration>,
}

/// A change of values that were drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alteration {
    /// The element of this flat index is 8, of the sign that it did not have.
    Struck(u64),
    /// Every value is rounded to so many significant bits, the first included.
    Rounded(u32),
}

impl TensorData {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.extents.iter().product()
    }
}

/// How the values of an input are distributed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Normal, mean 0, deviation 1.
    Normal,
    /// Uniform in -1..1.
    Uniform,
    /// Uniform in 0..1.
    Positive,
    /// Small integers -2..=2.
    Integers,
    /// Large magnitudes that provoke overflow: normal, deviation 100, capped to the type.
    Large,
    /// Tiny and denormal magnitudes of the type.
    Tiny,
    /// 99% normal, 1% a thousand times larger.
    HeavyTail,
    /// Equal rows and sorted runs.
    Ties,
    /// Each element encodes its own coordinates.
    IndexCoded,
    /// Normal, scaled down to where the type still has its full precision, but an absolute
    /// tolerance takes everything for zero.
    Small,
    /// Large numbers of alternating sign with small ones on top, in one input, so that sums cancel.
    Cancellation,
    /// A quarter of the type's largest number, or as much as sums of products can bear, in one
    /// input that the function is linear in.
    Huge,
    /// Normal, with a few NaN and infinities of both signs in one input whose specials the function
    /// passes on.
    Specials,
    /// One input that the function is linear in is zero but for one element, which shows every
    /// output that depends on it and every other that should not.
    Impulse,
}

impl Distribution {
    /// Name as the wire carries it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Uniform => "uniform",
            Self::Positive => "positive",
            Self::Integers => "integers",
            Self::Large => "large",
            Self::Tiny => "tiny",
            Self::HeavyTail => "heavy_tail",
            Self::Ties => "ties",
            Self::IndexCoded => "index_coded",
            Self::Small => "small",
            Self::Cancellation => "cancellation",
            Self::Huge => "huge",
            Self::Specials => "specials",
            Self::Impulse => "impulse",
        }
    }
}

/// What the runner saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunReply {
    /// The device it ran on.
    pub device: Device,
    /// How far the emulated device's times can be trusted; none on silicon.
    pub model_label: Option<String>,
    /// One entry per execution, in order; shorter than the job if one ended the process's
    /// use of the device.
    pub executions: Vec<ExecutionFacts>,
    /// The counters of source lines, where the job asks for them; on the emulated device only.
    #[serde(default)]
    pub lines: Vec<LaunchLines>,
}

/// What was counted on each source line of one launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaunchLines {
    /// The execution's number.
    pub execution: u32,
    /// The kernel.
    pub kernel: String,
    /// The lines with the most instructions, in their order in the file.
    pub lines: Vec<LineCounters>,
}

/// What was counted on one source line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineCounters {
    /// Line in the candidate's file, from 1.
    pub line: u32,
    /// Counters that are not zero, by name.
    pub counters: BTreeMap<String, u64>,
}

/// What one execution did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionFacts {
    /// The execution's number.
    pub id: u32,
    /// Launches that really ran, in order.
    pub launches: Vec<LaunchFacts>,
    /// What the emulated device proved.
    pub findings: Vec<Finding>,
    /// The first driver error.
    pub fault: Option<DeviceFault>,
    /// An instruction the emulated device lacks.
    pub unsupported: Option<UnsupportedInstruction>,
    /// Inputs that changed.
    pub mutated: Vec<String>,
    /// Buffers whose red zones changed.
    pub overrun: Vec<String>,
    /// Outputs with elements that nobody wrote.
    pub unwritten: Vec<Unwritten>,
    /// Time between events around the plan, microseconds; on silicon only.
    pub event_us: Option<f64>,
    /// Whether it ended only after the blocks beside it had given up waiting for that, which takes
    /// seconds: its own blocks needed all of the device at once.
    #[serde(default)]
    pub outlasted: bool,
    /// Whether inputs beside guards could be written to, since the driver maps no memory for reading
    /// alone.
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
    /// The same where everything that the execution uses was read just before, as far as that fits
    /// into the second level cache; on the emulated device only.
    #[serde(default)]
    pub modelled_warm: Option<ModelledLaunch>,
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
pub struct Unwritten {
    /// The tensor.
    pub tensor: String,
    /// How many elements.
    pub elements: u64,
    /// The first, as a flat index.
    pub first: u64,
}

/// Compares saved outputs with the f64 reference. Runs no candidate code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifyJob {
    /// The compiled reference.
    pub reference: Image,
    /// The reference's resources.
    pub kernels: Vec<KernelResources>,
    /// One entry per execution to verify.
    pub checks: Vec<Check>,
    /// Host threads the emulated device may use.
    pub threads: u32,
}

/// One set of outputs to compare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The execution's number.
    pub id: u32,
    /// The reference's plan for the case.
    pub plan: ResolvedPlan,
    /// The tensors, with the same keys as in the execution.
    pub tensors: Vec<TensorData>,
    /// Folder with the candidate's outputs. None only computes the reference.
    pub outputs: Option<PathBuf>,
    /// Folder where the reference's answer to these inputs is kept and looked for.
    pub cache: PathBuf,
    /// How close the outputs must be.
    pub tolerance: Tolerance,
    /// The workspace with the forward-error scale of each output.
    pub error_scale: BTreeMap<String, String>,
    /// How many terms are summed for one element of each output.
    pub error_terms: BTreeMap<String, f64>,
    /// Whether the inputs are integers that the function sums and multiplies, so that every
    /// element whose error scale the output's type can count to must be exact.
    pub exact: bool,
}

/// The comparisons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifyReply {
    /// One entry per execution and output tensor.
    pub comparisons: Vec<OutputComparison>,
}

/// One output compared with the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputComparison {
    /// The execution's number.
    pub id: u32,
    /// The tensor.
    pub tensor: String,
    /// Relative L2 error; none where NaN or infinities make it meaningless.
    pub relative_l2: Option<f64>,
    /// The largest element error as a multiple of what is allowed for that element; none
    /// where it has no finite value.
    pub worst_ratio: Option<f64>,
    /// The element furthest off.
    pub worst: Option<WorstElement>,
    /// Elements whose NaN or infinity does not match the reference's.
    pub special_mismatches: u64,
    /// Elements beyond their bound.
    pub beyond_bound: u64,
    /// Elements in all.
    pub elements: u64,
}

/// Asks what the device is and whether it is well.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProbeJob {
    /// Whether to measure what it does at best, too.
    pub measure_rates: bool,
}

/// What the probe found.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ProbeReply {
    /// A usable device.
    Ready {
        /// Its facts.
        device: Device,
        /// The compiler with its version, if it was found.
        toolchain: Option<String>,
        /// What the emulated device's model does at best, as its driver knows; none on silicon.
        rates: Option<Rates>,
        /// What the device did at best just now; none unless it was asked for.
        measured_rates: Option<Rates>,
        /// What was measured.
        vitals: Vitals,
    },
    /// No driver, no device, or one that does not work.
    Unusable {
        /// What is wrong and how to fix it.
        reason: String,
    },
}
