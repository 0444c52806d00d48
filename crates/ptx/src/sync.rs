//! Race detection in shared memory: shadow cells with the last accesses to each byte, and vector clocks of the warps.
//!
//! A block has a clock that advances at each synchronisation. A cell holds its last write, its last reads and its last
//! atomics as (time, thread). A warp's vector clock has one time per warp W: accesses of W older than that time
//! happened before this warp's next access. Its time for itself orders its lanes. A block barrier orders all warps, a
//! warp synchronisation orders the lanes of a warp, and a named barrier, an mbarrier or a fence with an atomic orders
//! the participants. An access conflicts with a recorded access of another thread, of warp W, that is not older than
//! the clock's time for W.
//!
//! Most intervals between two barriers only read bytes that an earlier interval wrote. So reads are first kept as
//! records, one per warp instruction, and reach the cells only if a write to the same lines follows before the next
//! barrier.

use std::collections::HashMap;

mod grid;
mod lines;
mod moment;
mod order;
mod reads;
mod several;
mod stamp;
mod writes;

pub(crate) use grid::{BlockOrder, Mark, Signals};
use lines::Lines;
pub(crate) use moment::Moment;
pub(crate) use order::Clock;
use order::Order;
use reads::Log;
pub(crate) use reads::Reading;
use several::Several;
use stamp::{
    COPY, COPY_COMPLETE, LAST_TIME, MANY, ONE, Stamp, VOLATILE, WARP, kind_of, stamp, thread_of,
    time_of,
};

/// Two accesses of different threads without an order between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) lane: usize,
    pub(crate) same_warp: bool,
    /// The other thread, if one is known.
    pub(crate) other: Option<u32>,
    pub(crate) other_pc: u32,
    pub(crate) other_wrote: bool,
    /// True if the other access is an asynchronous copy that was not waited for.
    pub(crate) in_flight: bool,
}

/// The origin of an access: the warp's number and the instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accessor {
    pub(crate) warp: u32,
    pub(crate) pc: u32,
}

/// The shadow of one block's shared memory.
#[derive(Debug)]
pub(crate) struct Shadow {
    grain_log2: u32,
    writes: Vec<Stamp>,
    reads: Vec<Stamp>,
    /// Allocated at the first atomic.
    atomics: Vec<Stamp>,
    write_pc: Vec<u32>,
    read_pc: Vec<u32>,
    atomic_pc: Vec<u32>,
    /// The last volatile, relaxed or release store of each cell, and its instruction; made at the first one.
    ordered_writes: Vec<(Stamp, u32)>,
    /// Unordered writes that a warp's ordered loads have seen, by warp and cell.
    polled: HashMap<(u32, usize), Stamp>,
    /// Reads and atomics of several warps to one cell.
    several: Several,
    time: u32,
    /// The time of the last block barrier.
    barrier: u32,
    order: Order,
    /// Number of times that the clock has begun anew.
    era: u32,
    /// Lines written, and lines read, since the last barrier.
    written: Lines,
    read: Lines,
    logs: Vec<Log>,
    /// Logs that hold records.
    busy: Vec<usize>,
}

impl Shadow {
    /// For `bytes` of shared memory in cells of 1, 2 or 4 bytes, and `ops` memory instructions.
    pub(crate) fn new(bytes: usize, grain: u32, ops: usize) -> Self {
        let grain_log2 = grain.trailing_zeros();
        let cells = bytes.div_ceil(grain as usize);
        Self {
            grain_log2,
            writes: vec![0; cells],
            reads: vec![0; cells],
            atomics: Vec::new(),
            write_pc: vec![0; cells],
            read_pc: vec![0; cells],
            atomic_pc: Vec::new(),
            ordered_writes: Vec::new(),
            polled: HashMap::new(),
            several: Several::default(),
            time: 1,
            barrier: 1,
            order: Order::new(),
            era: 0,
            written: Lines::new(bytes),
            read: Lines::new(bytes),
            logs: (0..ops)
                .map(|_| Log {
                    lines: Lines::new(bytes),
                    ..Log::default()
                })
                .collect(),
            busy: Vec::new(),
        }
    }

    /// A fresh block: nothing was touched.
    pub(crate) fn clear(&mut self) {
        self.writes.fill(0);
        self.reads.fill(0);
        self.atomics.fill(0);
        self.ordered_writes.fill((0, 0));
        self.time = 1;
        self.barrier = 1;
        self.order.clear();
        self.era = self.era.wrapping_add(1);
        self.forget_interval();
    }

    fn forget_interval(&mut self) {
        // Accesses before the block's barrier are never compared again.
        self.several.clear();
        self.polled.clear();
        self.written.clear();
        self.read.clear();
        for op in self.busy.drain(..) {
            let log = &mut self.logs[op];
            log.lines.clear();
            log.records.clear();
            log.shapes.clear();
        }
    }

    fn tick(&mut self) {
        if self.time == LAST_TIME {
            self.clear();
        }
        self.time += 1;
    }

    /// The instruction that last wrote a byte, unless it was a copy that is complete.
    pub(crate) fn writer_of(&self, offset: u32) -> Option<u32> {
        let cell = (offset >> self.grain_log2) as usize;
        let pc = self.write_pc[cell];
        (self.writes[cell] != 0 && pc & COPY_COMPLETE == 0).then_some(pc)
    }

    /// Marks the copy that wrote these bytes as complete.
    pub(crate) fn mark_copied(&mut self, offset: u32, bytes: u32) {
        for cell in self.cells(offset, bytes) {
            self.write_pc[cell] |= COPY_COMPLETE;
        }
    }

    #[inline(always)]
    fn cells(&self, offset: u32, bytes: u32) -> std::ops::Range<usize> {
        let first = (offset >> self.grain_log2) as usize;
        let last = ((offset + bytes - 1) >> self.grain_log2) as usize;
        first..last + 1
    }

    /// Reports whether nothing orders a recorded access of one warp before one by `thread`.
    #[inline(always)]
    fn unordered(&self, then: Stamp, thread: u32, by: Accessor) -> bool {
        if time_of(then) < self.barrier || (kind_of(then) == ONE && thread_of(then) == thread) {
            return false;
        }
        time_of(then) >= self.order.known(by.warp, thread_of(then) / 32)
    }

    /// The recorded access, with its instruction, that nothing orders before one by `thread`; among several warps' the
    /// first warp's.
    #[inline(always)]
    fn find_unordered(
        &self,
        then: Stamp,
        pc: u32,
        thread: u32,
        by: Accessor,
    ) -> Option<(Stamp, u32)> {
        if kind_of(then) != MANY || time_of(then) < self.barrier {
            return self.unordered(then, thread, by).then_some((then, pc));
        }
        self.several
            .of(pc)
            .find(|(then, _)| self.unordered(*then, thread, by))
    }

    /// Fast test whether a recorded access is ordered before one of a warp that last synchronised its lanes at `own`:
    /// it came before the block's barrier, or the warp itself made it before then. False means that
    /// [`Shadow::find_unordered`] decides.
    #[inline(always)]
    fn passed(&self, then: Stamp, warp: u32, own: u32) -> bool {
        time_of(then) < self.barrier
            || (time_of(then) < own && kind_of(then) != MANY && thread_of(then) / 32 == warp)
    }

    fn conflict(&self, lane: usize, then: Stamp, pc: u32, wrote: bool, by: Accessor) -> Conflict {
        Conflict {
            lane,
            same_warp: thread_of(then) / 32 == by.warp,
            other: matches!(kind_of(then), ONE | COPY).then_some(thread_of(then)),
            other_pc: pc & !(COPY_COMPLETE | VOLATILE),
            other_wrote: wrote,
            in_flight: kind_of(then) == COPY,
        }
    }

    /// State of a cell after one more access by `thread`: that access alone if those before are ordered before
    /// it, else the last one of each warp.
    #[inline(always)]
    fn joined(
        &mut self,
        (then, pc): (Stamp, u32),
        thread: u32,
        time: u32,
        by: Accessor,
    ) -> (Stamp, u32) {
        let many = kind_of(then) == MANY && time_of(then) >= self.barrier;
        if self.find_unordered(then, pc, thread, by).is_none() {
            if many {
                self.several.free(pc);
            }
            return (stamp(time, ONE, thread), by.pc);
        }
        if !many && thread_of(then) / 32 == by.warp {
            return (stamp(time, WARP, thread), by.pc);
        }
        let entry = if many {
            pc
        } else {
            let entry = self.several.add();
            self.several.set(entry, thread_of(then) / 32, (then, pc));
            entry
        };
        let (own, _) = self.several.get(entry, by.warp);
        let kind = if self.unordered(own, thread, by) {
            WARP
        } else {
            ONE
        };
        self.several
            .set(entry, by.warp, (stamp(time, kind, thread), by.pc));
        (stamp(time, MANY, 0), entry)
    }

    /// The bytes of a cell.
    pub(crate) fn grain(&self) -> u32 {
        1 << self.grain_log2
    }
}

/// Synchronisation.
impl Shadow {
    /// A block barrier completed.
    pub(crate) fn block_barrier(&mut self) {
        self.tick();
        self.barrier = self.time;
        self.order.all(self.time);
        self.forget_interval();
    }

    /// Orders the accesses of a warp's lanes so far before their later ones.
    pub(crate) fn warp_sync(&mut self, warp: u32) {
        self.tick();
        self.order.own(warp, self.time);
    }

    /// Returns the clock of a warp's accesses so far, for the warps that wait for it.
    pub(crate) fn release(&mut self, warp: u32) -> Clock {
        self.tick();
        self.order.clock(warp, self.time)
    }

    /// Orders the accesses of a clock before the later ones of a warp that waited for it.
    pub(crate) fn acquire(&mut self, warp: u32, clock: &Clock) {
        self.order.learn(warp, clock);
    }

    /// Makes a warp's writes so far visible with its next atomic or volatile store.
    pub(crate) fn fence(&mut self, warp: u32) {
        let clock = self.release(warp);
        self.order.fence(warp, clock);
    }

    /// Publishes a warp's accesses before its last fence through the word at an offset of shared memory, or an address.
    pub(crate) fn signal(&mut self, warp: u32, offset: u64) {
        self.order.signal(warp, offset);
    }

    /// A warp arrives at the mbarrier at an offset: a release of its accesses so far.
    pub(crate) fn arrive(&mut self, warp: u32, offset: u32) {
        let clock = self.release(warp);
        self.order.arrive(offset, &clock);
    }

    /// The running phase of the mbarrier at an offset is complete.
    pub(crate) fn complete_phase(&mut self, offset: u32) {
        self.order.complete_phase(offset);
    }

    /// A warp's wait for a phase of the mbarrier at an offset succeeds: an acquire of the arrivals of all completed
    /// phases.
    pub(crate) fn pass_mbarrier(&mut self, warp: u32, offset: u32) {
        self.order.pass_mbarrier(warp, offset);
    }

    /// Orders the accesses published through the word at an offset or address before a warp's later ones.
    pub(crate) fn observe(&mut self, warp: u32, offset: u64) {
        self.order.observe(warp, offset);
    }
}

#[cfg(test)]
mod tests;
