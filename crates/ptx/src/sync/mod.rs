//! Who touched which shared byte since when: the shadow that turns a missing barrier into a finding.
//!
//! A block has a clock that ticks at each block barrier and at each warp synchronisation. A cell remembers its last
//! write and its last reads as (time, thread). An access conflicts with a remembered one of another thread unless a
//! block barrier, or (inside one warp) a warp synchronisation, lies between.

/// A stamp: time in the upper bits, then the kind of party, then the thread.
type Stamp = u32;

const THREAD_BITS: u32 = 10;
const KIND_BITS: u32 = 2;
const TIME_SHIFT: u32 = THREAD_BITS + KIND_BITS;
const THREAD_MASK: u32 = (1 << THREAD_BITS) - 1;
const ONE: u32 = 0;
/// Several threads of one warp.
const WARP: u32 = 1;
/// Several warps.
const MANY: u32 = 2;
/// The clock's last value; past it everything is forgotten and it starts again.
const LAST_TIME: u32 = (1 << (32 - TIME_SHIFT)) - 1;

fn stamp(time: u32, kind: u32, thread: u32) -> Stamp {
    time << TIME_SHIFT | kind << THREAD_BITS | thread
}

fn time_of(stamp: Stamp) -> u32 {
    stamp >> TIME_SHIFT
}

fn kind_of(stamp: Stamp) -> u32 {
    stamp >> THREAD_BITS & ((1 << KIND_BITS) - 1)
}

fn thread_of(stamp: Stamp) -> u32 {
    stamp & THREAD_MASK
}

/// Two accesses with nothing between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) lane: usize,
    pub(crate) same_warp: bool,
    /// The other thread, if one is known.
    pub(crate) other: Option<u32>,
    pub(crate) other_pc: u32,
    pub(crate) other_wrote: bool,
}

/// Who accesses: the warp's first thread, its last synchronisation, and the instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accessor {
    pub(crate) warp: u32,
    pub(crate) synced: u32,
    pub(crate) pc: u32,
}

/// The shadow of one block's shared memory.
#[derive(Debug)]
pub(crate) struct Shadow {
    grain_log2: u32,
    writes: Vec<Stamp>,
    reads: Vec<Stamp>,
    write_pc: Vec<u32>,
    read_pc: Vec<u32>,
    time: u32,
    barrier: u32,
}

impl Shadow {
    /// For `bytes` of shared memory in cells of 1, 2 or 4 bytes.
    pub(crate) fn new(bytes: usize, grain: u32) -> Self {
        let grain_log2 = grain.trailing_zeros();
        let cells = bytes.div_ceil(grain as usize);
        Self {
            grain_log2,
            writes: vec![0; cells],
            reads: vec![0; cells],
            write_pc: vec![0; cells],
            read_pc: vec![0; cells],
            time: 1,
            barrier: 1,
        }
    }

    /// A fresh block: nothing was touched.
    pub(crate) fn clear(&mut self) {
        self.writes.fill(0);
        self.reads.fill(0);
        self.time = 1;
        self.barrier = 1;
    }

    fn tick(&mut self) {
        if self.time == LAST_TIME {
            self.clear();
        }
        self.time += 1;
    }

    /// A block barrier completed.
    pub(crate) fn block_barrier(&mut self) {
        self.tick();
        self.barrier = self.time;
    }

    /// A warp synchronised; the time to remember as its `synced`.
    pub(crate) fn warp_sync(&mut self) -> u32 {
        self.tick();
        self.time
    }

    #[inline(always)]
    fn cells(&self, offset: u32, bytes: u32) -> std::ops::Range<usize> {
        let first = (offset >> self.grain_log2) as usize;
        let last = ((offset + bytes - 1) >> self.grain_log2) as usize;
        first..last + 1
    }

    /// Whether a remembered access and one by `thread` have nothing between them.
    #[inline(always)]
    fn unordered(&self, then: Stamp, thread: u32, by: Accessor) -> bool {
        if time_of(then) < self.barrier || (kind_of(then) == ONE && thread_of(then) == thread) {
            return false;
        }
        let same_warp = kind_of(then) != MANY && thread_of(then) / 32 == by.warp;
        !(same_warp && time_of(then) < by.synced)
    }

    fn conflict(&self, lane: usize, then: Stamp, pc: u32, wrote: bool, by: Accessor) -> Conflict {
        Conflict {
            lane,
            same_warp: kind_of(then) != MANY && thread_of(then) / 32 == by.warp,
            other: (kind_of(then) == ONE).then_some(thread_of(then)),
            other_pc: pc,
            other_wrote: wrote,
        }
    }

    #[inline(always)]
    fn note_read(&mut self, cell: usize, thread: u32, by: Accessor) {
        let then = self.reads[cell];
        let mine = stamp(self.time, ONE, thread);
        self.reads[cell] = if !self.unordered(then, thread, by) {
            mine
        } else if kind_of(then) != MANY && thread_of(then) / 32 == by.warp {
            stamp(self.time, WARP, thread)
        } else {
            stamp(self.time, MANY, thread)
        };
        self.read_pc[cell] = by.pc;
    }

    /// A lane reads.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        lane: usize,
        offset: u32,
        bytes: u32,
        by: Accessor,
    ) -> Option<Conflict> {
        let thread = by.warp * 32 + lane as u32;
        let mut found = None;
        for cell in self.cells(offset, bytes) {
            let then = self.writes[cell];
            if then >= self.barrier << TIME_SHIFT && self.unordered(then, thread, by) {
                found = Some(self.conflict(lane, then, self.write_pc[cell], true, by));
            }
            self.note_read(cell, thread, by);
        }
        found
    }

    /// All lanes of a mask read the same bytes.
    #[inline(always)]
    pub(crate) fn read_same(
        &mut self,
        mask: u32,
        offset: u32,
        bytes: u32,
        by: Accessor,
    ) -> Option<Conflict> {
        let first = mask.trailing_zeros();
        let several = mask & (mask - 1) != 0;
        let mut found = None;
        for cell in self.cells(offset, bytes) {
            let then = self.writes[cell];
            if then >= self.barrier << TIME_SHIFT {
                for lane in (0..32).filter(|lane| mask >> lane & 1 == 1) {
                    if self.unordered(then, by.warp * 32 + lane, by) {
                        found =
                            Some(self.conflict(lane as usize, then, self.write_pc[cell], true, by));
                    }
                }
            }
            let before = self.reads[cell];
            self.note_read(cell, by.warp * 32 + first, by);
            let merged = self.reads[cell];
            if several && kind_of(merged) == ONE {
                let kind = if before == merged {
                    kind_of(before).max(WARP)
                } else {
                    WARP
                };
                self.reads[cell] = stamp(self.time, kind, thread_of(merged));
            }
        }
        found
    }

    /// Lanes of a mask read consecutive bytes, the first active one from `offset` on.
    #[inline(always)]
    pub(crate) fn read_run(
        &mut self,
        mask: u32,
        offset: u32,
        bytes: u32,
        by: Accessor,
    ) -> Option<Conflict> {
        let first = mask.trailing_zeros();
        let range = self.cells(offset, bytes * mask.count_ones());
        let floor = self.barrier << TIME_SHIFT;
        let quiet_writes = self.writes[range.clone()]
            .iter()
            .fold(0, |newest, then| newest.max(*then))
            < floor;
        let quiet_reads = self.reads[range.clone()]
            .iter()
            .fold(0, |newest, then| newest.max(*then))
            < floor;
        if quiet_writes && quiet_reads && bytes >= 1 << self.grain_log2 {
            let per_lane = bytes >> self.grain_log2;
            let base = stamp(self.time, ONE, by.warp * 32 + first);
            match per_lane {
                1 => {
                    for (i, cell) in self.reads[range.clone()].iter_mut().enumerate() {
                        *cell = base + i as u32;
                    }
                }
                _ => {
                    for (i, cell) in self.reads[range.clone()].iter_mut().enumerate() {
                        *cell = base + i as u32 / per_lane;
                    }
                }
            }
            self.read_pc[range].fill(by.pc);
            return None;
        }
        let mut found = None;
        for lane in (0..32usize).filter(|lane| mask >> lane & 1 == 1) {
            let at = offset + (lane as u32 - first) * bytes;
            found = self.read(lane, at, bytes, by).or(found);
        }
        found
    }

    /// A lane writes. `same_value`: the bytes already hold what is written, which no order can change.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        lane: usize,
        offset: u32,
        bytes: u32,
        same_value: bool,
        by: Accessor,
    ) -> Option<Conflict> {
        let thread = by.warp * 32 + lane as u32;
        let floor = self.barrier << TIME_SHIFT;
        let mut found = None;
        for cell in self.cells(offset, bytes) {
            let (wrote, read) = (self.writes[cell], self.reads[cell]);
            if wrote >= floor && !same_value && self.unordered(wrote, thread, by) {
                found = Some(self.conflict(lane, wrote, self.write_pc[cell], true, by));
            }
            if read >= floor && !same_value && self.unordered(read, thread, by) {
                found = Some(self.conflict(lane, read, self.read_pc[cell], false, by));
            }
            self.writes[cell] = stamp(self.time, ONE, thread);
            self.write_pc[cell] = by.pc;
        }
        found
    }
}
