//! The operands of lowered instructions between threads: warp-wide operations, barriers, mbarriers and scopes.

use super::SlotRef;

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
    /// The transpose of an 8 x 8 matrix of 16-bit elements, two of a row in each lane.
    Transpose,
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
    /// Arrives when the lane's copies so far are complete; `counted`: the arrival is one of those expected.
    Copies {
        counted: bool,
    },
}
