//! The opcodes of lowered code, the execution units of their instructions, and the comparisons.

#[cfg(doc)]
use super::{Program, Reach};

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

impl Class {
    /// All classes, in the order of their numbers.
    pub(crate) const ALL: [Self; Self::Other as usize + 1] = [
        Self::Fp32,
        Self::Fp16,
        Self::Fp64,
        Self::Integer,
        Self::DivisionU32,
        Self::DivisionS32,
        Self::DivisionU64,
        Self::DivisionS64,
        Self::Special,
        Self::Conversion,
        Self::WideConversion,
        Self::Move,
        Self::LoadGlobal,
        Self::StoreGlobal,
        Self::LoadShared,
        Self::StoreShared,
        Self::Local,
        Self::Constant,
        Self::AtomicGlobal,
        Self::AtomicShared,
        Self::AsyncCopy,
        Self::Tensor,
        Self::Warp,
        Self::Branch,
        Self::Barrier,
        Self::Other,
    ];

    /// Returns true if instructions of the class compute on registers only: they access no memory, and are neither
    /// tensor instructions nor divisions of 64 bits, which have counters of their own.
    #[inline(always)]
    pub(crate) fn is_arithmetic(self) -> bool {
        use Class::{
            Branch, Conversion, DivisionS32, DivisionU32, Fp16, Fp32, Fp64, Integer, Move, Special,
            WideConversion,
        };
        matches!(
            self,
            Fp32 | Fp16
                | Fp64
                | Integer
                | DivisionU32
                | DivisionS32
                | Special
                | Conversion
                | WideConversion
                | Move
                | Branch
        )
    }
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
    /// Of the low 8 or 16 bits.
    U8ToF32,
    U16ToF32,
    /// To the nearest even integer, and toward zero.
    F32ToS32Rni,
    F32ToS32Rzi,
    F32ToU32Rzi,
    /// To an integral single: nearest even, toward zero, down, up.
    NearestF32,
    TruncF32,
    FloorF32,
    CeilF32,
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
    MinF64,
    MaxF64,
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
