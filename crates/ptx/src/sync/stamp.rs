//! Stamps of accesses: time, kind of party and thread in 32 bits.

/// A stamp: time in the upper bits, then the kind of party, then the thread.
pub(super) type Stamp = u32;

const THREAD_BITS: u32 = 10;
const KIND_BITS: u32 = 2;
pub(super) const TIME_SHIFT: u32 = THREAD_BITS + KIND_BITS;
const THREAD_MASK: u32 = (1 << THREAD_BITS) - 1;
pub(super) const ONE: u32 = 0;
/// Several threads of one warp.
pub(super) const WARP: u32 = 1;
/// Several warps: the cell's instruction is the number of its entry in [`super::Several`] instead, which holds the last
/// access of each warp.
pub(super) const MANY: u32 = 2;
/// An asynchronous copy on behalf of a thread, which is not ordered with its own thread either.
pub(super) const COPY: u32 = 3;
/// Flag in the instruction of a write: an asynchronous copy that is complete.
pub(super) const COPY_COMPLETE: u32 = 1 << 31;
/// Flag in the instruction of an ordered store: a volatile one.
pub(super) const VOLATILE: u32 = 1 << 30;
/// The clock's last value; after it all cells are cleared and the clock starts again.
pub(super) const LAST_TIME: u32 = (1 << (32 - TIME_SHIFT)) - 1;

pub(super) fn stamp(time: u32, kind: u32, thread: u32) -> Stamp {
    time << TIME_SHIFT | kind << THREAD_BITS | thread
}

pub(super) fn time_of(stamp: Stamp) -> u32 {
    stamp >> TIME_SHIFT
}

pub(super) fn kind_of(stamp: Stamp) -> u32 {
    stamp >> THREAD_BITS & ((1 << KIND_BITS) - 1)
}

pub(super) fn thread_of(stamp: Stamp) -> u32 {
    stamp & THREAD_MASK
}
