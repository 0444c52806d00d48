//! Lowered code, which the machine executes: flat, typed by opcode, with operands in 32-lane register slots.
//!
//! Three register files: 32-bit slots (8- and 16-bit values live zero-extended in them), 64-bit slots and predicates.
//! Immediates and special registers are slots too, filled when a warp starts, so that every operand is a slot.

mod memory;
mod opcode;
mod synchronise;

pub(crate) use memory::{
    AtomicOp, CopyOp, Group, Leader, MemSpace, MemoryOp, NO_GROUP, SharedRange,
};
pub(crate) use opcode::{Class, Compare, Op};
pub(crate) use synchronise::{
    BarrierOp, BarrierReduce, MBarrierKind, MBarrierOp, Reach, ReduceKind, WarpKind, WarpOp,
};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// First of its entries in [`Program::memory`]: one for `ldmatrix`, of a fragment [`elements_apart`] and then one for
    /// each register.
    ///
    /// [`elements_apart`]: crate::tensor::elements_apart
    pub(crate) memory: u32,
    /// The end of its entries there.
    pub(crate) memory_end: u32,
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
    /// The branches with which loops that only poll a word begin their next round, in ascending order.
    pub(crate) polls: Vec<u32>,
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
