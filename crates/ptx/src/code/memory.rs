//! The operands of lowered loads, stores, atomics and asynchronous copies.

use super::{LaneFn, Reach, SlotRef};

/// The state space of a load, store or atomic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemSpace {
    Generic,
    Global,
    Shared,
    Local,
    Const,
    Param,
}

/// A load or store of 1 to 4 elements per lane.
#[derive(Debug, Clone)]
pub(crate) struct MemoryOp {
    pub(crate) space: MemSpace,
    /// Bytes of one element: 1, 2, 4 or 8.
    pub(crate) element: u32,
    pub(crate) count: u32,
    pub(crate) regs: [SlotRef; 8],
    /// 32- or 64-bit.
    pub(crate) address: SlotRef,
    pub(crate) offset: i64,
    /// Sign-extend loads from this many bits, then keep `keep` bits.
    pub(crate) signed: bool,
    /// Bits of the destination register.
    pub(crate) keep: u32,
    /// Volatile, relaxed, acquire or release: accesses of threads in its scope are no race with it.
    pub(crate) ordered: bool,
    /// `ld.volatile` or `st.volatile`: ordered like a relaxed access, but no atomic object of the language.
    pub(crate) volatile: bool,
    /// A load whose value reaches no predicate, address or atomic, so that it is no flag that is polled; of the plain
    /// loads those of device memory, and of shared memory where a kernel stores to it by ordered stores.
    pub(crate) reads_data: bool,
    /// A load whose value a compare-and-swap compares with what is there.
    pub(crate) checked_by_swap: bool,
    /// Release or stronger: makes earlier writes visible without a fence of its own.
    pub(crate) release: bool,
    /// Acquire or stronger: what other threads released through these bytes is visible to later reads without a fence
    /// of its own.
    pub(crate) acquire: bool,
    /// The scope of an ordered access or atomic: the block, or the whole device.
    pub(crate) reach: Reach,
    /// Through the non-coherent cache, whose data must not change while the kernel runs (`ld.global.nc`, `ldu`).
    pub(crate) read_only_path: bool,
    /// Bypasses the L1 cache, which other blocks' writes do not update (`ld.global.cg`, `.cv`).
    pub(crate) past_cache: bool,
    /// The operation of an atomic.
    pub(crate) atomic: Option<AtomicOp>,
    /// A parameter of a call: on the stack in PTX, in registers on a GPU, so it counts no traffic.
    pub(crate) stack_of_call: bool,
    /// True if its registers have 32 bits and hold the elements unchanged, zero-extended if narrower.
    pub(crate) plain: bool,
    /// The first earlier access in the same run through the same value of the same address register.
    pub(crate) leader: Leader,
    /// The group that this load leads, and the group in which it is a follower; `NO_GROUP` if there is none.
    pub(crate) leads: u32,
    pub(crate) follows: u32,
    /// Distance of a follower from the leader's address, in words.
    pub(crate) behind: i32,
    /// The part of shared memory that the access may touch if its address lies there.
    pub(crate) shared: SharedRange,
}

/// A range of a block's shared memory: a variable, or the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharedRange {
    pub(crate) begin: u32,
    /// The end, or `u32::MAX` for the end of the block's memory.
    pub(crate) end: u32,
}

impl SharedRange {
    pub(crate) const WHOLE: Self = Self {
        begin: 0,
        end: u32::MAX,
    };

    /// Returns true if accesses of `bytes` at `low..=high` stay inside, where the block has `size` bytes.
    #[inline(always)]
    pub(crate) fn contains(self, low: i64, high: i64, bytes: u32, size: u32) -> bool {
        let end = i64::from(self.end.min(size));
        low >= i64::from(self.begin) && low <= high && high <= end - i64::from(bytes)
    }
}

/// The value of [`MemoryOp::leads`] and [`MemoryOp::follows`] for a load without a group.
pub(crate) const NO_GROUP: u32 = u32::MAX;

/// Loads of words from shared memory in one run, through one value of one address register. Their addresses are the
/// first load's plus a constant, so checks of the first load can cover all of them.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) leader: Leader,
    /// Program counters of the followers in ascending order, and their distances from the leader in bytes.
    pub(crate) followers: Vec<(u32, i32)>,
    /// The lowest and the highest distance, the leader's own 0 included.
    pub(crate) low: i32,
    pub(crate) high: i32,
}

impl MemoryOp {
    /// Bytes that one lane accesses.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> u32 {
        self.element * self.count
    }

    /// Reports whether a load may be served by the L1 cache: not if other blocks' writes have to be seen.
    #[inline(always)]
    pub(crate) fn is_cached(&self) -> bool {
        !(self.past_cache || (self.ordered && self.reach == Reach::Device))
    }
}

/// An access whose addresses have the same shape as those of a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) pc: u32,
    /// Its entry in the memory table.
    pub(crate) x: u32,
}

impl Leader {
    /// No leader: no instruction has this program counter.
    pub(crate) const NONE: Self = Self { pc: u32::MAX, x: 0 };
}

/// The operation of an atomic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtomicOp {
    /// old, operand, second operand -> new.
    pub(crate) combine: LaneFn,
    pub(crate) d: SlotRef,
    pub(crate) b: SlotRef,
    pub(crate) c: SlotRef,
}

/// An asynchronous copy from global to shared memory.
#[derive(Debug, Clone)]
pub(crate) struct CopyOp {
    pub(crate) shared: SlotRef,
    pub(crate) shared_offset: i64,
    pub(crate) global: SlotRef,
    pub(crate) global_offset: i64,
    /// Bytes written to shared memory: 4, 8 or 16.
    pub(crate) bytes: u32,
    /// Bytes read; the rest is zero. `NONE` for all.
    pub(crate) source_bytes: SlotRef,
    /// Predicate that makes the copy write zeros.
    pub(crate) ignore: SlotRef,
    /// Through the L1 cache (`.ca`), not past it (`.cg`).
    pub(crate) cached: bool,
    /// The part of shared memory that the copy may write.
    pub(crate) target: SharedRange,
}
