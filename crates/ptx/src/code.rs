//! Lowered code, which the machine executes: flat, typed by opcode, with operands in 32-lane register slots.
//!
//! Three register files: 32-bit slots (8- and 16-bit values live zero-extended in them), 64-bit slots and predicates.
//! Immediates and special registers are slots too, filled when a warp starts, so that every operand is a slot.

use crate::ir::SourcePosition;

/// No operand.
pub(crate) const NONE: u16 = u16::MAX;
/// In [`Inst::guard`]: execute where the predicate is false.
pub(crate) const GUARD_NOT: u16 = 1 << 14;

/// A function of one lane's operand bits. It defines each operation that has no vector form.
pub(crate) type LaneFn = fn([u64; 4]) -> u64;
/// A lane function with a second result, such as a carry.
pub(crate) type LaneFn2 = fn([u64; 4]) -> (u64, u64);

/// A register file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum File {
    R32,
    R64,
    Predicate,
}

/// A slot together with its file, in two bytes; `NONE` for no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SlotRef(u16);

impl Default for SlotRef {
    fn default() -> Self {
        Self::NONE
    }
}

impl SlotRef {
    pub(crate) const NONE: Self = Self(NONE);

    pub(crate) fn new(file: File, slot: u16) -> Self {
        let tag = match file {
            File::R32 => 0,
            File::R64 => 1,
            File::Predicate => 2,
        };
        Self(tag << 14 | slot)
    }

    #[inline(always)]
    pub(crate) fn get(self) -> Option<(File, usize)> {
        let slot = (self.0 & 0x3fff) as usize;
        match self.0 >> 14 {
            0 => Some((File::R32, slot)),
            1 => Some((File::R64, slot)),
            2 => Some((File::Predicate, slot)),
            _ => None,
        }
    }

    pub(crate) fn slot(self) -> u16 {
        if self == Self::NONE {
            NONE
        } else {
            self.0 & 0x3fff
        }
    }
}

/// Maximum number of slots of one file.
pub(crate) const MAX_SLOTS: usize = 0x3fff;

/// One instruction. The meaning of `x` is documented at the opcode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inst {
    pub(crate) op: Op,
    pub(crate) d: u16,
    pub(crate) a: u16,
    pub(crate) b: u16,
    pub(crate) c: u16,
    /// Predicate slot, with [`GUARD_NOT`]; `NONE` if always executed.
    pub(crate) guard: u16,
    pub(crate) x: u32,
}

/// The slots that an instruction reads and writes, for poison and for lane functions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) d: SlotRef,
    pub(crate) q: SlotRef,
    pub(crate) s: [SlotRef; 4],
    pub(crate) spread: Spread,
}

/// The rule by which poisoned bits pass from the operands of an instruction, `s`, to its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// One poisoned bit poisons all bits of all results.
    All,
    /// Each bit to the same bit of the result.
    Copy,
    /// The same, and bit 31 to all bits above it.
    SignExtend,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    /// Of a value of so many bits.
    ShiftRightSigned(u8),
    /// The first operand if the third one is true, else the second.
    Select,
    /// The first operand's lower bits, so many, and the second operand above them.
    Pack(u8),
    /// The lower bits, so many, and those above them.
    Unpack(u8),
    /// The lowest poisoned bit to all bits above it: sums and products.
    Upwards,
    /// Two singles to two halves.
    NarrowPair,
    /// Each half of 16 bits apart.
    Halves,
    /// A lane function each bit of whose result depends on at most one bit of each of its first operands, so many; the
    /// other operands say which.
    Bits(u8),
}

/// The unit that executes an instruction, for counters and for the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Fp32,
    Fp16,
    Fp64,
    Integer,
    /// Division and remainder of integers, which ptxas expands ([`crate::machine::expansion`]).
    DivisionU32,
    DivisionS32,
    DivisionU64,
    DivisionS64,
    Special,
    Conversion,
    WideConversion,
    Move,
    LoadGlobal,
    StoreGlobal,
    LoadShared,
    StoreShared,
    Local,
    Constant,
    AtomicGlobal,
    AtomicShared,
    AsyncCopy,
    Tensor,
    Warp,
    Branch,
    Barrier,
    Other,
}

/// Comparisons; the numbers stand in `x` of the `Setp` opcodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// Opcodes. Operand files are in the names: 32 and 64 for slots of that width, P for predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Op {
    Mov32,
    Mov64,
    MovP,
    Add32,
    Sub32,
    Mul32,
    Mad32,
    MulHiS32,
    MulHiU32,
    And32,
    Or32,
    Xor32,
    Not32,
    Neg32,
    Shl32,
    ShrU32,
    ShrS32,
    MinS32,
    MaxS32,
    MinU32,
    MaxU32,
    Select32,
    Select64,
    Add64,
    Sub64,
    Mul64,
    Mad64,
    And64,
    Or64,
    Xor64,
    Not64,
    Shl64,
    ShrU64,
    ShrS64,
    /// 32 x 32 -> 64, and with a 64-bit addend.
    MulWideS,
    MulWideU,
    MadWideS,
    MadWideU,
    /// 32 -> 64 and back.
    Sext,
    Zext,
    Trunc,
    /// {a, b} -> 64, and 64 -> {d, c}.
    Pack64,
    Unpack64,
    /// {a, b} halves -> 32, and 32 -> {d, c}.
    Pack32,
    Unpack32,
    SetpS32,
    SetpU32,
    SetpS64,
    SetpU64,
    SetpF32,
    SetpF64,
    AndP,
    OrP,
    XorP,
    NotP,
    AddF32,
    SubF32,
    MulF32,
    FmaF32,
    FmaRmF32,
    DivF32,
    NegF32,
    AbsF32,
    MinF32,
    MaxF32,
    /// The same with subnormal inputs and results flushed.
    AddFtz,
    SubFtz,
    MulFtz,
    FmaFtz,
    Ex2F32,
    Ex2Ftz,
    Lg2F32,
    RcpF32,
    SqrtF32,
    RsqrtF32,
    SatF32,
    F16ToF32,
    F32ToF16,
    Bf16ToF32,
    F32ToBf16,
    /// {a, b} -> packed halves, a in the upper one.
    F32x2ToF16x2,
    F32x2ToBf16x2,
    S32ToF32,
    U32ToF32,
    /// To the nearest even integer, and toward zero.
    F32ToS32Rni,
    F32ToS32Rzi,
    AddF16,
    SubF16,
    MulF16,
    FmaF16,
    MaxF16,
    MinF16,
    AddF16x2,
    SubF16x2,
    MulF16x2,
    FmaF16x2,
    MaxF16x2,
    MinF16x2,
    AddF64,
    SubF64,
    MulF64,
    FmaF64,
    DivF64,
    SqrtF64,
    NegF64,
    AbsF64,
    F32ToF64,
    F64ToF32,
    S32ToF64,
    /// x: index into [`Program::lane_fns`].
    Lane,
    /// x: index into [`Program::lane_fns2`]; results d and q of the flow.
    Lane2,
    /// Division or remainder of 64-bit integers; x: as for `Lane`.
    Divide64,
    /// Parameter bytes at offset x.
    Param32,
    Param64,
    /// x: index into [`Program::memory`].
    Load,
    Store,
    Atomic,
    /// x: index into [`Program::copies`].
    AsyncCopy,
    AsyncCommit,
    /// x: groups that may still be in flight; `u32::MAX` waits for everything.
    AsyncWait,
    /// x: index into [`Program::mbarriers`].
    MBarrier,
    /// x: index into [`Program::tensor`].
    LoadMatrix,
    Tensor,
    /// a value, b lane or delta, c clamp; x: index into [`Program::warp_ops`].
    Shuffle,
    /// a predicate; x: index into [`Program::warp_ops`].
    Vote,
    Match,
    Redux,
    ActiveMask,
    Elect,
    /// Waits until the lanes of mask a have arrived.
    WarpBarrier,
    /// x: index into [`Program::barriers`].
    Barrier,
    /// x: target.
    Branch,
    /// a index; x: index into [`Program::tables`].
    BranchTable,
    /// a: stack offset of the callee's frame; x: target.
    Call,
    /// a: stack offset of the callee's frame, b: the function's address; x: index into [`Program::signatures`].
    CallPointer,
    /// x: index into [`Program::stack_copies`].
    StackCopy,
    /// Returns to the instruction behind the call.
    Return,
    Exit,
    Trap,
    /// A cache hint, which does nothing.
    Hint,
    /// x: its scope, a [`Reach`].
    Fence,
    /// x: 0 clock, 1 clock64, 2 globaltimer.
    Clock,
    Sleep,
    /// x: index into [`Program::calls`].
    Print,
    AssertFail,
}

impl Op {
    /// Reports whether the same lanes are active behind the instruction. The opcodes for which this holds come first in
    /// the list.
    pub(crate) fn keeps_active_lanes(self) -> bool {
        self as u16 <= Self::Atomic as u16
    }
}

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
    /// loads those of device memory.
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
}

/// A shuffle, vote, match or reduction.
#[derive(Debug, Clone)]
pub(crate) struct WarpOp {
    pub(crate) kind: WarpKind,
    pub(crate) d: SlotRef,
    /// The second result: the shuffle's or match's predicate.
    pub(crate) p: SlotRef,
    pub(crate) a: SlotRef,
    /// True if a predicate operand is negated.
    pub(crate) negated: bool,
    pub(crate) b: SlotRef,
    pub(crate) c: SlotRef,
    /// The member mask.
    pub(crate) mask: SlotRef,
}

/// The operation of a [`WarpOp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WarpKind {
    ShuffleUp,
    ShuffleDown,
    ShuffleXor,
    ShuffleIndex,
    VoteAll,
    VoteAny,
    VoteUni,
    Ballot,
    MatchAny,
    MatchAll,
    ReduxAdd,
    ReduxMinS,
    ReduxMaxS,
    ReduxMinU,
    ReduxMaxU,
    ReduxAnd,
    ReduxOr,
    ReduxXor,
    Elect,
}

/// A block barrier.
#[derive(Debug, Clone)]
pub(crate) struct BarrierOp {
    pub(crate) id: SlotRef,
    /// Threads that take part; `NONE` for all of the block.
    pub(crate) count: SlotRef,
    /// True for `barrier.arrive`: the thread counts as arrived and continues.
    pub(crate) arrive: bool,
    /// True if every thread has to execute the same instruction: `bar` and `barrier.aligned`, but not `barrier.sync`,
    /// which warps may meet from different places.
    pub(crate) aligned: bool,
    /// A reduction over the predicates of all threads.
    pub(crate) reduce: Option<BarrierReduce>,
}

/// The reduction of a `bar.red`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BarrierReduce {
    pub(crate) kind: ReduceKind,
    pub(crate) d: SlotRef,
    pub(crate) a: SlotRef,
    pub(crate) negated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReduceKind {
    And,
    Or,
    Count,
}

/// The scope of a fence or of an ordered access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Block,
    Device,
}

/// An mbarrier instruction, whose object is in shared memory.
#[derive(Debug, Clone)]
pub(crate) struct MBarrierOp {
    pub(crate) kind: MBarrierKind,
    pub(crate) address: SlotRef,
    pub(crate) offset: i64,
    /// Destination: the token of an arrival, or the result of a test.
    pub(crate) d: SlotRef,
    /// A count, a token or a parity; `NONE` counts one.
    pub(crate) a: SlotRef,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MBarrierKind {
    Init,
    Invalidate,
    Arrive {
        drop: bool,
    },
    /// Tests whether the phase of a token is complete.
    Test,
    /// Tests whether the phase of a parity is complete.
    TestParity,
    /// Arrives when the lane's copies so far have landed; `counted`: the arrival is one of those expected.
    Copies {
        counted: bool,
    },
}

/// A call of a function that the machine implements. Arguments are stack offsets of call-scope parameters.
#[derive(Debug, Clone)]
pub(crate) struct CallOp {
    pub(crate) arguments: Vec<u32>,
    pub(crate) result: Option<u32>,
    /// Base register of the offsets.
    pub(crate) frame: SlotRef,
}

/// A function that is called at run time rather than inlined.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Index in the module, from which its address is computed.
    pub(crate) function: usize,
    pub(crate) pc: u32,
    /// Bytes and alignments of its results and parameters.
    pub(crate) signature: Vec<(u32, u32)>,
}

/// A copy of arguments or results between two frames, each at an offset from a register.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackCopy {
    pub(crate) from: (SlotRef, u32),
    pub(crate) to: (SlotRef, u32),
    pub(crate) bytes: u32,
}

/// Stack bytes per thread for calls at run time. CUDA's default limit leaves less.
pub(crate) const CALL_STACK: u32 = 32 << 10;

/// A tensor-core instruction, `ldmatrix` included.
#[derive(Debug, Clone)]
pub(crate) struct TensorOp {
    pub(crate) kind: crate::tensor::TensorKind,
    pub(crate) d: Vec<SlotRef>,
    pub(crate) a: Vec<SlotRef>,
    pub(crate) b: Vec<SlotRef>,
    pub(crate) c: Vec<SlotRef>,
    /// Address and leading dimension, for matrix loads and stores.
    pub(crate) address: SlotRef,
    pub(crate) offset: i64,
    pub(crate) stride: SlotRef,
    /// First of its entries in [`Program::memory`]: one per element a lane holds, or one for `ldmatrix`.
    pub(crate) memory: u32,
}

/// Special registers that are constant while a warp lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    NWarpId,
    SmId,
    NSmId,
    GridId,
    LaneMask(LaneMask),
    DynamicShared,
    TotalShared,
    /// An environment register. Registers 1 (upper half) and 2 hold the address of a cooperative grid's workspace.
    Env(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum LaneMask {
    Eq,
    Lt,
    Le,
    Gt,
    Ge,
}

/// The origin of an instruction: its PTX line, and its source position if the text has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) ptx_line: u32,
    pub(crate) place: Option<SourcePosition>,
}

/// The device memory that a kernel may write.
#[derive(Debug, Clone, Default)]
pub(crate) struct Writes {
    /// The address of some store is unknown.
    pub(crate) anything: bool,
    /// Variables of the module.
    pub(crate) variables: bool,
    /// Buffers whose pointers are at these parameter offsets.
    pub(crate) parameters: Vec<u32>,
}

/// A lowered kernel.
#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    pub(crate) code: Vec<Inst>,
    pub(crate) flow: Vec<Flow>,
    pub(crate) class: Vec<Class>,
    pub(crate) origin: Vec<Origin>,
    /// Per instruction: true if it is warp-wide with a constant member mask.
    pub(crate) same_members: Vec<bool>,
    pub(crate) lane_fns: Vec<LaneFn>,
    pub(crate) lane_fns2: Vec<LaneFn2>,
    pub(crate) memory: Vec<MemoryOp>,
    /// In the order of their leaders.
    pub(crate) groups: Vec<Group>,
    pub(crate) copies: Vec<CopyOp>,
    pub(crate) warp_ops: Vec<WarpOp>,
    pub(crate) barriers: Vec<BarrierOp>,
    pub(crate) mbarriers: Vec<MBarrierOp>,
    pub(crate) calls: Vec<CallOp>,
    pub(crate) tensor: Vec<TensorOp>,
    pub(crate) tables: Vec<Vec<u32>>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) stack_copies: Vec<StackCopy>,
    /// Signatures of calls through pointers.
    pub(crate) signatures: Vec<Vec<(u32, u32)>>,
    /// The register with the stack offset of the running frame; only with subroutines.
    pub(crate) frame_pointer: SlotRef,
    /// Slots per file: 32-bit, 64-bit, predicates.
    pub(crate) slots: [usize; 3],
    /// Slots with fixed bits.
    pub(crate) constants: Vec<(SlotRef, u64)>,
    /// Slots that hold the address of a module variable plus an offset.
    pub(crate) addresses: Vec<(SlotRef, usize, i64)>,
    pub(crate) specials: Vec<(SlotRef, Special)>,
    /// Slots that some path reads before it writes them.
    pub(crate) undefined: Vec<SlotRef>,
    pub(crate) static_shared: u32,
    /// Shared variables by start, for findings.
    pub(crate) shared_names: Vec<(u32, u32, String)>,
    pub(crate) local_bytes: u32,
    pub(crate) registers_estimate: u32,
    /// Size of the smallest shared memory access, which is the granularity of race detection: 1, 2 or 4 bytes.
    pub(crate) shared_grain: u32,
    /// True if blocks can observe each other while they run (global atomics, ordered accesses, grid barriers).
    pub(crate) blocks_communicate: bool,
    /// True if one block can order its accesses before another one's (fences, releases).
    pub(crate) blocks_synchronise: bool,
    /// True if it loads through the non-coherent cache.
    pub(crate) reads_read_only: bool,
    /// The device memory that it may write.
    pub(crate) writes: Writes,
    /// Source files by number.
    pub(crate) files: std::sync::Arc<std::collections::HashMap<u32, String>>,
}

impl Program {
    /// Stack bytes per thread: the kernel's own variables, and room for calls at run time.
    pub(crate) fn stack_bytes(&self) -> u32 {
        self.local_bytes
            + if self.entries.is_empty() {
                0
            } else {
                CALL_STACK
            }
    }
}
