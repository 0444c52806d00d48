//! The report of one launch: its outcome, its findings and its counters.
//!
//! Plain values that are serialised as JSON. The module does not know how they are computed, nor what a verdict is; it
//! defines names, units and a stable shape.

use serde::{Deserialize, Serialize};

/// The results of one launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaunchReport {
    /// The kernel's name as written in the module.
    pub kernel: String,
    /// Blocks per axis.
    pub grid: [u32; 3],
    /// Threads per block and axis.
    pub block: [u32; 3],
    /// Static plus dynamic shared memory per block, in bytes.
    pub shared_bytes: u32,
    /// The end of the launch.
    pub outcome: Outcome,
    /// Errors of the kernel, deduplicated by kind and line, first occurrence first.
    pub findings: Vec<Finding>,
    /// Distinct findings that did not fit into `findings`.
    pub findings_dropped: u64,
    /// Text that device-side printf wrote, in block order, capped.
    pub printed: String,
    /// The counters of what the launch executed.
    pub counters: Counters,
}

/// The end of a launch. All but `Completed` stopped it, and the finding of the same kind has the position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// Every thread of every block ended.
    Completed,
    /// A thread touched memory outside every allocation, or an address no instruction of its kind may use (CUDA error 700).
    IllegalAddress,
    /// A thread used an address that is no multiple of the access size (CUDA error 716).
    MisalignedAddress,
    /// A thread executed `trap` or an instruction whose operands the ISA forbids (CUDA error 715).
    Trapped,
    /// A device-side assertion failed (CUDA error 710).
    Asserted,
    /// No thread could go on: each waited for another (on a GPU the launch would hang; CUDA error 702).
    Deadlock,
    /// The instruction budget ran out before the last thread ended (CUDA error 702).
    BudgetExhausted,
}

/// One error of a kernel that the machine detected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The kind of error.
    pub kind: FindingKind,
    /// True if it stopped the launch.
    pub fatal: bool,
    /// The kernel it happened in.
    pub kernel: String,
    /// Its source location.
    pub location: Location,
    /// The block it was first seen in.
    pub block: [u32; 3],
    /// The thread it was first seen in.
    pub thread: [u32; 3],
    /// The memory involved, if any.
    pub access: Option<Access>,
    /// The thread on the other side of a race.
    pub other: Option<Party>,
    /// For deadlocks and divergent barriers: the waiting threads.
    pub waits: Vec<Wait>,
    /// Number of occurrences.
    pub occurrences: u64,
    /// One sentence that states the error and, where known, its fix.
    pub message: String,
}

/// The complete list of errors that the machine detects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A read outside the allocation, the shared window, the stack or the constant bank.
    OutOfBoundsRead,
    /// A write outside the allocation, the shared window or the stack.
    OutOfBoundsWrite,
    /// An address that is no multiple of the access size.
    Misaligned,
    /// A null pointer, or memory of a kind the instruction may not touch (a write to constants).
    IllegalAddress,
    /// An address was computed from an uninitialised value.
    UninitialisedAddress,
    /// A branch or a barrier's operands depend on an uninitialised value.
    UninitialisedBranch,
    /// An uninitialised value was stored to global memory. Whether that matters depends on the buffer's role.
    UninitialisedStore,
    /// Two threads of different warps touched the same shared bytes, one of them writing, with no barrier between.
    SharedRace,
    /// Two lanes of one warp touched the same shared bytes, one of them writing, with no warp synchronisation between.
    WarpRace,
    /// A thread read shared bytes of an asynchronous copy that it had not waited for.
    UnawaitedCopy,
    /// Two blocks, or two warps of one block, accessed the same global bytes, one of them writing, without an order or
    /// atomics whose scope covers both; or a thread read bytes that the launch had written through the non-coherent
    /// cache.
    GlobalRace,
    /// Threads of one block met in one barrier at different instructions, or some exited a loop at whose barrier others
    /// still wait.
    DivergentBarrier,
    /// No thread could go on.
    Deadlock,
    /// The instruction budget ran out.
    BudgetExhausted,
    /// The kernel executed `trap`.
    Trap,
    /// A device-side assertion failed.
    Assertion,
    /// Operands that the ISA forbids: a shuffle that reads an inactive lane, a member mask without the executing lane.
    InvalidOperands,
}

/// A place in the source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Location {
    /// The file as the compiler was told its name; absent without `-lineinfo`.
    pub file: Option<String>,
    /// The user's line: the outermost one of an inlined call.
    pub line: Option<u32>,
    /// The line in the PTX text.
    pub ptx_line: u32,
}

/// The memory of an access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The state space.
    pub space: Space,
    /// The buffer's label or the variable's name, if it has one.
    pub buffer: Option<String>,
    /// The address as the thread computed it.
    pub pointer: u64,
    /// Byte offset from the buffer's (or window's) start; negative or past the end when out of bounds.
    pub offset: i64,
    /// The buffer's size in bytes, where there is one.
    pub buffer_bytes: Option<u64>,
    /// Bytes the access covers.
    pub bytes: u32,
}

/// State spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// Device memory.
    Global,
    /// The block's shared memory.
    Shared,
    /// The thread's own stack.
    Local,
    /// Constant variables.
    Constant,
    /// Kernel parameters.
    Parameter,
    /// An address that belongs to none of them.
    Generic,
}

/// The other side of a race.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// Its block.
    pub block: [u32; 3],
    /// Its thread; absent when several threads read the bytes, or only the block is known.
    pub thread: Option<[u32; 3]>,
    /// The location of its access, if known.
    pub location: Option<Location>,
    /// True if it wrote.
    pub wrote: bool,
}

/// Threads that wait together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The first of the threads.
    pub thread: [u32; 3],
    /// Number of threads that wait there.
    pub threads: u32,
    /// The location at which they wait.
    pub location: Location,
    /// Object of the wait: `barrier 0`, `warp synchronisation`, `exited`.
    pub awaits: String,
}

/// Counters of a launch, in total and per source line. They are the same for every number of host threads and every
/// instruction set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Blocks that ran, if not all did: the counts are scaled up from them.
    pub sampled_blocks: Option<u64>,
    /// Standard error of the counts, thousandths of them, where the blocks of a sampled grid differ in work; none where
    /// all that were looked at do the same.
    #[serde(default)]
    pub sampling_error_permille: Option<u64>,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Their warps.
    pub warps: u64,
    /// Their threads.
    pub threads: u64,
    /// The sum over all lines.
    pub total: Tally,
    /// Distinct instructions that were issued at least once.
    #[serde(default)]
    pub places: u64,
    /// Executions of the 1, 2, 4, 8... instructions that were issued most often, and of all: the sums.
    #[serde(default)]
    pub hottest_places: Vec<u64>,
    /// Distinct global sectors (32 bytes) read: what must come from DRAM at least once.
    pub unique_sectors_read: u64,
    /// Distinct global sectors (32 bytes) written.
    pub unique_sectors_written: u64,
    /// Of the distinct sectors read, those that the L2 cache may have held: since before this launch or, if its blocks
    /// communicate, since it wrote them itself.
    pub cached_sectors_read: u64,
    /// Distinct sectors that this launch touched, or that the L2 cache may have held before it.
    pub cached_sectors: u64,
    /// Of the sectors that persist in the L2 cache, those that this launch used; none if none persist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persisting: Option<PersistingSectors>,
    /// The sectors that stretches of 1, 2, 3... waves of blocks touch, at last all waves. Lengths above 16 are told at
    /// steps of an eighth. Empty if all buffers fit the L2 cache and all blocks ran, if the blocks are one wave, or under a
    /// seeded schedule. If only a sample of the blocks ran, all but the last are those of its runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub working_sets: Vec<WorkingSet>,
    /// Sectors that were read past the L1 cache: by atomics, ordered loads, `ld.global.cg` and `cp.async.cg`.
    #[serde(default)]
    pub sectors_read_past_l1: u64,
    /// The reads of the mean block through the L1 cache, from about 64 blocks; none if they read nothing.
    #[serde(default)]
    pub block_reads: Option<BlockReads>,
    /// The maximum of any block for each kind of work. The maxima may be of different blocks.
    #[serde(default)]
    pub heaviest_block: BlockWork,
    /// The multiprocessor that has most to do; none if only a sample of the blocks ran, and in grids of more than 65,536
    /// blocks.
    #[serde(default)]
    pub busiest_multiprocessor: Option<BusiestMultiprocessor>,
    /// The most atomics on one word of device memory.
    #[serde(default)]
    pub most_atomics_on_one_word: u64,
    /// Blocks that read or write global memory at least a sixteenth as much as the busiest block; zero under a seeded
    /// schedule, where blocks are not told apart.
    #[serde(default)]
    pub working_blocks: u64,
    /// Longest block: cycles its slowest warp needs when nothing competes with it, from static in-order issue with
    /// the latencies of [`crate::Latencies`]; barriers wait for the slowest warp.
    pub critical_path_max: u64,
    /// The mean of the same over all blocks.
    pub critical_path_mean: f64,
    /// 32-bit registers per thread, estimated from live values in the PTX (ptxas may need fewer or more).
    pub registers_estimate: u32,
    /// Per source line, by file and line.
    pub lines: Vec<LineTally>,
}

/// Distinct sectors (32 bytes) that persist in the L2 cache. They count among the launch's other sectors too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistingSectors {
    /// In the cache after the launch.
    pub held: u64,
    /// Read by the launch.
    pub read: u64,
    /// Of those read, in the cache since before the launch or, if its blocks communicate, since it wrote them itself.
    pub found: u64,
    /// Written by the launch.
    pub written: u64,
}

/// The distinct sectors (32 bytes) that a stretch of consecutive waves of blocks touches. A wave is as many blocks as
/// run at the same time, or more in launches of more than 512 waves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingSet {
    /// Length of the stretch in waves.
    pub waves: u64,
    /// The mean of all stretches of this length. In large buffers one sector in 17 is observed.
    pub sectors: u64,
}

/// The reads of a block through the L1 cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockReads {
    /// Sectors (32 bytes) that its accesses read, repeated ones included.
    pub sectors: f64,
    /// Distinct ones among them.
    pub distinct_sectors: f64,
    /// The time it takes: its critical path in cycles.
    pub cycles: f64,
    /// The sectors that it reads in stretches of its time. Each is twice as long as the one before, and the last is longer
    /// than any block.
    pub working_sets: Vec<ReadSet>,
}

/// The distinct sectors (32 bytes) that a block reads in a stretch of its time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReadSet {
    /// Length of the stretch in cycles.
    pub cycles: u64,
    /// The mean of all stretches of this length.
    pub sectors: f64,
}

/// Work of one block on the units that the blocks of a multiprocessor share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockWork {
    /// Warp instructions by unit.
    pub classes: Classes,
    /// Sectors of global memory (32 bytes) read and written; atomics count once.
    pub sectors: u64,
    /// Wavefronts through the banks of shared memory and of the L1 cache.
    pub wavefronts: u64,
    /// Bytes of the threads' stacks.
    pub local_bytes: u64,
    /// Multiply-adds on tensor cores.
    pub tensor_macs: u64,
}

/// The work of the busiest multiprocessor in a launch. Blocks start in order, each where one has ended first, and take
/// the cycles of their critical paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusiestMultiprocessor {
    /// The most of any multiprocessor, for each kind of work. The maxima may be of different ones.
    pub work: BlockWork,
    /// Cycles until the last block has ended, if nothing competes with any.
    pub cycles: u64,
}

/// The counters of one source line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LineTally {
    /// The file, if the module carries line information.
    pub file: Option<String>,
    /// The line; the PTX line without line information.
    pub line: u32,
    /// The counters of the line.
    pub tally: Tally,
}

/// Executed work. Instruction counts are warp instructions unless they say otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Instructions issued by warps.
    pub warp_instructions: u64,
    /// Instructions times active lanes.
    pub thread_instructions: u64,
    /// Warp instructions by the unit that executes them.
    pub classes: Classes,
    /// Global memory traffic (loads, stores, atomics, asynchronous copies).
    pub global: GlobalTraffic,
    /// Shared memory traffic.
    pub shared: SharedTraffic,
    /// Bytes of the threads' stacks read and written: spills and indexed arrays.
    pub local_bytes: u64,
    /// Multiply-adds on tensor cores.
    pub tensor_macs: u64,
    /// Branches where a warp's lanes went different ways.
    pub divergent_branches: u64,
}

/// Warp instructions by unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classes {
    /// Single precision add, multiply, fused multiply-add, compare.
    pub fp32: u64,
    /// Half and bfloat16 arithmetic, scalar or packed.
    pub fp16: u64,
    /// Double precision arithmetic.
    pub fp64: u64,
    /// Integer and logic; divisions count as the instructions of which they consist.
    pub integer: u64,
    /// Approximate reciprocal, root, exponential, logarithm, sine, division's expansion.
    pub special: u64,
    /// Conversions between types of at most 32 bits.
    pub conversion: u64,
    /// Conversions between floating point and integers of which one has 64 bits.
    pub wide_conversion: u64,
    /// Register moves, constants and special registers (ptxas deletes most).
    pub moves: u64,
    /// Loads from global memory.
    pub load_global: u64,
    /// Stores to global memory.
    pub store_global: u64,
    /// Loads from shared memory, `ldmatrix` included.
    pub load_shared: u64,
    /// Stores to shared memory.
    pub store_shared: u64,
    /// Loads and stores of the stack.
    pub local: u64,
    /// Loads of constants and parameters.
    pub constant: u64,
    /// Further passes of loads of constants whose lanes have different addresses.
    #[serde(default)]
    pub constant_replays: u64,
    /// Atomics and reductions on global memory.
    pub atomic_global: u64,
    /// Atomics and reductions on shared memory.
    pub atomic_shared: u64,
    /// Asynchronous copies from global to shared memory.
    pub async_copy: u64,
    /// Tensor-core instructions.
    pub tensor: u64,
    /// Shuffles, votes, matches, warp reductions.
    pub warp: u64,
    /// Branches, calls and exits.
    pub branch: u64,
    /// Block barriers.
    pub barrier: u64,
    /// Everything else (fences, timers, prints).
    pub other: u64,
}

/// Global memory traffic in sectors of 32 bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlobalTraffic {
    /// Sectors read.
    pub sectors_read: u64,
    /// Sectors that would hold the bytes read, perfectly packed.
    pub sectors_read_ideal: u64,
    /// Sectors written.
    pub sectors_written: u64,
    /// Sectors that would hold the bytes written, perfectly packed.
    pub sectors_written_ideal: u64,
    /// Distinct bytes each warp instruction asked for, summed.
    pub bytes_read: u64,
    /// Bytes written, summed.
    pub bytes_written: u64,
    /// Wavefronts of loads through the data banks of the L1 cache.
    #[serde(default)]
    pub l1_wavefronts: u64,
}

/// Shared memory traffic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedTraffic {
    /// Wavefronts through the 32 banks.
    pub wavefronts: u64,
    /// Wavefronts that the same accesses would need without bank conflicts.
    pub wavefronts_ideal: u64,
    /// Wavefronts beyond those.
    pub bank_conflicts: u64,
    /// Bytes read by lanes.
    pub bytes_read: u64,
    /// Bytes written by lanes.
    pub bytes_written: u64,
}

macro_rules! sums {
    ($($type:ident: $($field:ident),*; $($nested:ident),*.)*) => {$(
        impl $type {
            /// Adds the counts of another value.
            pub fn add(&mut self, other: &Self) {
                self.combine(other, |own, other| own + other);
            }

            /// Combines each count with that of another value.
            pub(crate) fn combine(&mut self, other: &Self, how: impl Fn(u64, u64) -> u64 + Copy) {
                $(self.$field = how(self.$field, other.$field);)*
                $(self.$nested.combine(&other.$nested, how);)*
            }
        }
    )*};
}

sums! {
    BlockWork: sectors, wavefronts, local_bytes, tensor_macs; classes.
    Tally: warp_instructions, thread_instructions, local_bytes, tensor_macs, divergent_branches; classes, global, shared.
    Classes: fp32, fp16, fp64, integer, special, conversion, wide_conversion, moves, load_global, store_global, load_shared, store_shared,
        local, constant, constant_replays, atomic_global, atomic_shared, async_copy, tensor, warp, branch, barrier, other;.
    GlobalTraffic: sectors_read, sectors_read_ideal, sectors_written, sectors_written_ideal, bytes_read, bytes_written,
        l1_wavefronts;.
    SharedTraffic: wavefronts, wavefronts_ideal, bank_conflicts, bytes_read, bytes_written;.
}
