//! Instructions over virtual registers, between lowering and register allocation.

use super::subroutine::Signature;
use crate::code::{Class, LaneFn, LaneFn2, MBarrierKind, Op, Origin, Spread, WarpKind};
use crate::tensor::TensorKind;

/// A virtual register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct VReg(pub(super) u32);

impl VReg {
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// Parameters of an instruction beside its registers. Each kind documents the order of its registers `d` and `s`.
#[derive(Debug, Clone)]
pub(crate) enum Detail {
    None,
    Lane(LaneFn, Spread),
    Lane2(LaneFn2),
    /// d: elements of a load; s: address, then elements of a store.
    Memory(MemoryDetail),
    /// d: old value; s: address, operand, second operand.
    Atomic(MemoryDetail, LaneFn),
    /// s: shared address, global address, source bytes, ignore predicate.
    Copy {
        shared_offset: i64,
        global_offset: i64,
        bytes: u32,
        cached: bool,
    },
    /// d: value, predicate; s: a, b, c, mask.
    Warp {
        kind: WarpKind,
        negated: bool,
    },
    /// d: result; s: id, count, predicate.
    Barrier {
        arrive: bool,
        aligned: bool,
        reduce: Option<crate::code::ReduceKind>,
        negated: bool,
    },
    Call {
        arguments: Vec<u32>,
        result: Option<u32>,
    },
    /// d: elements; s: address, stride, then a, b and c elements by the counts.
    Tensor {
        kind: TensorKind,
        a: usize,
        b: usize,
        c: usize,
        offset: i64,
        space: crate::code::MemSpace,
    },
    Targets(Vec<usize>),
    /// d: token or answer; s: address, count, token or parity.
    MBarrier {
        kind: MBarrierKind,
        offset: i64,
    },
    /// s: base registers of both offsets.
    StackCopy {
        from: u32,
        to: u32,
        bytes: u32,
    },
    /// The signature of a call through a pointer.
    Pointer(Signature),
}

#[derive(Debug, Clone)]
pub(crate) struct MemoryDetail {
    pub(crate) space: crate::code::MemSpace,
    pub(crate) element: u32,
    pub(crate) offset: i64,
    pub(crate) signed: bool,
    pub(crate) keep: u32,
    pub(crate) ordered: bool,
    pub(crate) volatile: bool,
    pub(crate) release: bool,
    pub(crate) acquire: bool,
    pub(crate) reach: crate::code::Reach,
    pub(crate) read_only_path: bool,
    pub(crate) past_cache: bool,
}

/// An instruction over virtual registers. For branches `x` is a label until allocation.
#[derive(Debug, Clone)]
pub(crate) struct VirtualInst {
    pub(crate) op: Op,
    pub(crate) guard: Option<(VReg, bool)>,
    pub(crate) d: Vec<VReg>,
    pub(crate) s: Vec<VReg>,
    pub(crate) x: u32,
    pub(crate) class: Class,
    pub(crate) detail: Detail,
    pub(crate) origin: Origin,
}
