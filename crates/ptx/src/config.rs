//! The configuration of a launch, and the errors that prevent it before the first instruction.

use std::ops::Range;

use serde::Deserialize;

use crate::module::SourceLine;

/// Limits of one machine.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Device memory in bytes; allocations past it fail as on a device.
    pub memory_bytes: u64,
    /// Distinct findings kept per launch.
    pub findings: usize,
    /// Bytes of printed text kept per launch.
    pub printed_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 8 << 30,
            findings: 32,
            printed_bytes: 64 << 10,
        }
    }
}

/// The order in which warps and blocks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schedule {
    /// Blocks and warps in index order, each for as long as it can continue.
    #[default]
    Serial,
    /// Blocks and warps in slices drawn from the seed: another legal order, to reveal results that depend on it.
    Seeded(u64),
}

/// The layout of `wmma` fragments, which the PTX ISA leaves unspecified. A kernel whose results change with it relies
/// on one layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fragments {
    /// The layout of `mma` fragments, which GPUs are believed to use.
    #[default]
    Usual,
    /// A layout with the elements in other lanes and registers.
    Turned,
}

/// The errors that the machine detects while it executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Checks {
    /// Bounds and alignment only, which the machine needs for its own safety.
    Off,
    /// Bounds, alignment and initialisation.
    Bounds,
    /// Everything: also races inside blocks, inside warps and between blocks.
    #[default]
    Full,
}

/// Latencies in cycles until a dependent instruction can issue, for the static critical path. The defaults have the
/// order of magnitude of an L4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    /// Integer, logic, single and half precision.
    pub alu: u32,
    /// Double precision.
    pub fp64: u32,
    /// Approximate reciprocal, root, exponential, sine.
    pub special: u32,
    /// Conversions.
    pub conversion: u32,
    /// Shared memory loads.
    pub shared: u32,
    /// Global memory loads (served by the second level cache or DRAM).
    pub global: u32,
    /// Constant and parameter loads.
    pub constant: u32,
    /// Tensor-core instructions.
    pub tensor: u32,
    /// Shuffles, votes.
    pub warp: u32,
    /// Taken branches.
    pub branch: u32,
    /// Block barriers.
    pub barrier: u32,
    /// Atomics that return a value.
    pub atomic: u32,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            alu: 4,
            fp64: 48,
            special: 20,
            conversion: 10,
            shared: 24,
            global: 350,
            constant: 8,
            tensor: 24,
            warp: 24,
            branch: 8,
            barrier: 20,
            atomic: 400,
        }
    }
}

/// One launch.
#[derive(Debug, Clone)]
pub struct LaunchConfig<'a> {
    /// Blocks per axis.
    pub grid: [u32; 3],
    /// Threads per block and axis.
    pub block: [u32; 3],
    /// Dynamic shared memory per block in bytes.
    pub dynamic_shared: u32,
    /// The parameter block, laid out as [`crate::KernelInfo::params`] says.
    pub params: &'a [u8],
    /// True if the grid may synchronise (all its blocks must be resident at once).
    pub cooperative: bool,
    /// The order of execution.
    pub schedule: Schedule,
    /// The layout of `wmma` fragments.
    pub fragments: Fragments,
    /// The errors that are detected.
    pub checks: Checks,
    /// Maximum number of thread instructions; a launch that needs more counts as hanging.
    pub budget: Option<u64>,
    /// Host threads that run blocks in parallel, where blocks cannot observe each other.
    pub threads: usize,
    /// Blocks that are resident at the same time on the whole device: multiprocessors times blocks per multiprocessor.
    pub resident_blocks: u32,
    /// Multiprocessors, for `%nsmid` and the placement `%smid` shows.
    pub multiprocessors: u32,
    /// The multiprocessors' clock in megahertz: by it `%globaltimer` turns cycles into nanoseconds.
    pub core_mhz: u32,
    /// Size of the L2 cache in bytes. Where all buffers fit it, every repeated access finds its sector there, and what
    /// each wave of blocks touches is not recorded.
    pub l2_bytes: u64,
    /// Bytes of the L2 cache that are set aside for persisting accesses.
    pub persisting_bytes: u64,
    /// The addresses whose accesses persist in that part; later launches still find them there.
    pub persisting: Range<u64>,
    /// Latencies for the static critical path.
    pub latencies: Latencies,
    /// The fewest blocks to run, in runs of at least three waves that are spread evenly over the grid. Their counters
    /// are scaled to the whole grid. Results are then incomplete, and findings prove nothing about the other blocks.
    /// It is meant for the counters of launches that are too large to run whole.
    pub sample: Option<u64>,
}

impl<'a> LaunchConfig<'a> {
    /// A launch with full checks, the serial schedule, one thread and an L4's 58 multiprocessors.
    #[must_use]
    pub fn new(grid: [u32; 3], block: [u32; 3], params: &'a [u8]) -> Self {
        Self {
            grid,
            block,
            dynamic_shared: 0,
            params,
            cooperative: false,
            schedule: Schedule::Serial,
            fragments: Fragments::Usual,
            checks: Checks::Full,
            budget: None,
            threads: 1,
            resident_blocks: 58,
            multiprocessors: 58,
            core_mhz: 2040,
            l2_bytes: 48 << 20,
            persisting_bytes: 0,
            persisting: 0..0,
            latencies: Latencies::default(),
            sample: None,
        }
    }
}

/// The error of a launch that did not start. Nothing ran and no memory changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The kernel has an unsupported instruction, which is no evidence against the kernel.
    #[error("run `{opcode}` (PTX line {ptx_line}{}): the emulated GPU does not have this instruction", source_line.as_ref().map_or_else(String::new, |line| format!(", {line}")))]
    Unsupported {
        /// The instruction as written.
        opcode: String,
        /// Its line in the PTX text.
        ptx_line: u32,
        /// The user's line.
        source_line: Option<SourceLine>,
    },
    /// The module was unloaded, or the kernel belongs to another one.
    #[error("find the kernel: the module handle is stale or belongs to another machine")]
    UnknownKernel,
    /// Grid, block, shared memory or parameter block do not fit the kernel or the machine.
    #[error("launch `{kernel}`: {reason}")]
    Invalid {
        /// The kernel.
        kernel: String,
        /// The mismatch.
        reason: String,
    },
    /// A cooperative grid has more blocks than are resident at once.
    #[error(
        "launch `{kernel}` cooperatively: {blocks} blocks, but only {resident} are resident at once"
    )]
    CooperativeTooLarge {
        /// The kernel.
        kernel: String,
        /// Blocks asked for.
        blocks: u64,
        /// Blocks that fit.
        resident: u32,
    },
}
