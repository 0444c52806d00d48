//! The time of an access to device memory, on the clock of the block that made it.

use super::{Accessor, ONE, Shadow, Stamp, stamp, thread_of, time_of};

/// The time, thread and bytes of an access to a word by a thread of a block. Zero bits stand for no access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(u64);

const STAMP: u32 = 32;
const BYTES: u32 = 4;
const ERA: u32 = 12;
const BLOCK: u32 = 15;
const PRESENT: u64 = 1 << 63;

impl Moment {
    fn new(stamp: Stamp, bytes: u32, era: u32, block: u64) -> Self {
        Self(
            PRESENT
                | (block & ((1 << BLOCK) - 1)) << (STAMP + BYTES + ERA)
                | u64::from(era & ((1 << ERA) - 1)) << (STAMP + BYTES)
                | u64::from(bytes & 0xf) << STAMP
                | u64::from(stamp),
        )
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// The thread that made the access.
    pub(crate) fn thread(self) -> u32 {
        thread_of(self.0 as Stamp)
    }

    /// The block and the era of its clock, and whether there was an access at all.
    fn clock(self) -> u64 {
        self.0 >> (STAMP + BYTES)
    }
}

impl Shadow {
    /// The moment of an access that a thread of a block makes now.
    #[inline(always)]
    pub(crate) fn moment(&self, thread: u32, bytes: u32, block: u64) -> Moment {
        Moment::new(stamp(self.time, ONE, thread), bytes, self.era, block)
    }

    /// Reports whether an access was made by another warp of this block, to some of the same bytes, and nothing orders
    /// it before what the warp of `by` does now.
    #[inline(always)]
    pub(crate) fn is_unordered(&self, then: Moment, bytes: u32, block: u64, by: Accessor) -> bool {
        let own_clock = Moment::new(0, 0, self.era, block).clock();
        let (at, warp) = (then.0 as Stamp, then.thread() / 32);
        then.clock() == own_clock
            && (then.0 >> STAMP) as u32 & bytes & 0xf != 0
            && warp != by.warp
            && time_of(at) >= self.barrier
            && time_of(at) >= self.order.known(by.warp, warp)
    }

    /// Orders a warp behind everything that its block did so far: another block has told it something, and may have been
    /// told by this one before.
    pub(crate) fn acquire_block(&mut self, warp: u32) {
        self.tick();
        let time = self.time;
        self.order.know_all(warp, time);
    }
}
