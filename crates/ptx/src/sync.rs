//! Race detection in shared memory: shadow cells with the last accesses to each byte, and vector clocks of the warps.
//!
//! A block has a clock that advances at each synchronisation. A cell holds its last write, its last reads and its last
//! atomics as (time, thread). Every warp has a vector clock: for each warp the time before which all accesses of that
//! warp are ordered before its own (its own entry orders its lanes). A block barrier orders all warps, a warp
//! synchronisation the lanes of a warp, and a named barrier, an mbarrier or a fence with an atomic the participants. An
//! access conflicts with the recorded access of another thread if that one's time is not before the clock's entry.
//!
//! Most intervals between two barriers only read bytes that an earlier interval wrote. So reads are first kept as
//! records, one per warp instruction, and reach the cells only if a write to the same lines follows before the next
//! barrier.

use std::collections::HashMap;

mod grid;
mod lines;
mod moment;
mod order;
mod several;
mod stamp;

pub(crate) use grid::{BlockOrder, Mark, Signals};
use lines::Lines;
pub(crate) use moment::Moment;
pub(crate) use order::Clock;
use order::Order;
use several::Several;
use stamp::{
    COPY, LANDED, LAST_TIME, MANY, ONE, Stamp, TIME_SHIFT, WARP, kind_of, stamp, thread_of, time_of,
};

/// Read records kept for one instruction before they are transferred to the cells.
const MAX_RECORDS: usize = 1 << 13;

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

/// The addresses that a warp instruction reads, as offsets in shared memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading<'a> {
    /// The instruction's number among the memory instructions.
    pub(crate) op: usize,
    /// A number that changes whenever `relative` does.
    pub(crate) version: u64,
    /// Lane offsets relative to `first`.
    pub(crate) relative: &'a [u64; 32],
    pub(crate) first: u32,
    /// All bytes lie in begin..end.
    pub(crate) begin: u32,
    pub(crate) end: u32,
    pub(crate) bytes: u32,
    pub(crate) mask: u32,
    /// True if a compare-and-swap compares the values, so that atomics may change them meanwhile.
    pub(crate) checked_by_swap: bool,
}

/// A read that has not been transferred to the cells.
#[derive(Debug, Clone, Copy)]
struct Record {
    by: Accessor,
    time: u32,
    first: u32,
    mask: u32,
    bytes: u32,
    shape: u32,
}

/// The reads of one instruction since the last barrier.
#[derive(Debug, Default)]
struct Log {
    lines: Lines,
    records: Vec<Record>,
    shapes: Vec<[u64; 32]>,
    version: u64,
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
    /// The last volatile store of each cell, and its instruction; made at the first one.
    volatile_writes: Vec<(Stamp, u32)>,
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
            volatile_writes: Vec::new(),
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
        self.volatile_writes.fill((0, 0));
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

    /// The instruction that last wrote a byte, unless it was a copy that has landed.
    pub(crate) fn writer_of(&self, offset: u32) -> Option<u32> {
        let cell = (offset >> self.grain_log2) as usize;
        let pc = self.write_pc[cell];
        (self.writes[cell] != 0 && pc & LANDED == 0).then_some(pc)
    }

    /// Marks the copy that wrote these bytes as landed.
    pub(crate) fn landed(&mut self, offset: u32, bytes: u32) {
        for cell in self.cells(offset, bytes) {
            self.write_pc[cell] |= LANDED;
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
            other_pc: pc & !LANDED,
            other_wrote: wrote,
            in_flight: kind_of(then) == COPY,
        }
    }

    /// Records the reads of a warp instruction. Returns a conflict with a write, if there is one.
    #[inline(always)]
    pub(crate) fn read(&mut self, reading: &Reading<'_>, by: Accessor) -> Option<Conflict> {
        let found = if self.written.touches(reading.begin, reading.end) {
            self.reads_written(reading, by)
        } else {
            None
        };
        if reading.checked_by_swap {
            return found;
        }
        let log = &mut self.logs[reading.op];
        if log.records.is_empty() {
            self.busy.push(reading.op);
        }
        if log.shapes.is_empty() || log.version != reading.version {
            log.version = reading.version;
            log.shapes.push(*reading.relative);
        }
        log.records.push(Record {
            by,
            time: self.time,
            first: reading.first,
            mask: reading.mask,
            bytes: reading.bytes,
            shape: log.shapes.len() as u32 - 1,
        });
        log.lines.mark(reading.begin, reading.end);
        self.read.mark(reading.begin, reading.end);
        if log.records.len() >= MAX_RECORDS {
            self.settle(reading.op);
        }
        found
    }

    /// Reports whether [`Shadow::passed`] holds for all writes to the bytes of a read. Inactive lanes repeat the first
    /// active one.
    #[inline(always)]
    fn all_passed(&self, reading: &Reading<'_>, warp: u32, own: u32) -> bool {
        let mut doubtful = false;
        for relative in reading.relative {
            let offset = reading.first.wrapping_add(*relative as u32);
            for then in &self.writes[self.cells(offset, reading.bytes)] {
                doubtful |= !self.passed(*then, warp, own);
            }
        }
        !doubtful
    }

    /// Compares a read with the writes since the last barrier.
    #[inline(never)]
    fn reads_written(&self, reading: &Reading<'_>, by: Accessor) -> Option<Conflict> {
        let own = self.order.known(by.warp, by.warp);
        if self.atomics.is_empty() && self.all_passed(reading, by.warp, own) {
            return None;
        }
        let mut left = reading.mask;
        while left != 0 {
            let lane = left.trailing_zeros();
            left &= left - 1;
            let offset = reading
                .first
                .wrapping_add(reading.relative[lane as usize] as u32);
            let thread = by.warp * 32 + lane;
            for cell in self.cells(offset, reading.bytes) {
                let mut found = None;
                let then = self.writes[cell];
                if !self.passed(then, by.warp, own) {
                    found = self.find_unordered(then, self.write_pc[cell], thread, by);
                }
                let then = self.atomics.get(cell).copied().unwrap_or(0);
                if found.is_none() && !reading.checked_by_swap && !self.passed(then, by.warp, own) {
                    found = self.find_unordered(then, self.atomic_pc[cell], thread, by);
                }
                if let Some((then, pc)) = found {
                    return Some(self.conflict(lane as usize, then, pc, true, by));
                }
            }
        }
        None
    }

    /// Transfers the read records of one instruction to the cells.
    #[inline(never)]
    fn settle(&mut self, op: usize) {
        let log = &mut self.logs[op];
        let (records, shapes) = (
            std::mem::take(&mut log.records),
            std::mem::take(&mut log.shapes),
        );
        log.lines.clear();
        self.busy.retain(|busy| *busy != op);
        for record in &records {
            let relative = &shapes[record.shape as usize];
            let mut left = record.mask;
            while left != 0 {
                let lane = left.trailing_zeros();
                left &= left - 1;
                let offset = record.first.wrapping_add(relative[lane as usize] as u32);
                for cell in self.cells(offset, record.bytes) {
                    self.note_read(cell, record.by.warp * 32 + lane, record);
                }
            }
        }
        // Keep the allocations for the next records.
        let log = &mut self.logs[op];
        log.records = records;
        log.shapes = shapes;
        log.records.clear();
        log.shapes.clear();
    }

    #[inline(always)]
    fn note_read(&mut self, cell: usize, thread: u32, record: &Record) {
        let then = (self.reads[cell], self.read_pc[cell]);
        (self.reads[cell], self.read_pc[cell]) = self.joined(then, thread, record.time, record.by);
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

    /// Prepares a write of a warp instruction somewhere in begin..end: transfers the read records that it may conflict
    /// with. Returns true if the lines were accessed since the last barrier.
    #[inline(always)]
    pub(crate) fn before_write(&mut self, begin: u32, end: u32) -> bool {
        let read = self.read.touches(begin, end);
        if read {
            self.settle_lines(begin, end);
        }
        let touched = read || self.written.touches(begin, end);
        self.written.mark(begin, end);
        touched
    }

    #[inline(never)]
    fn settle_lines(&mut self, begin: u32, end: u32) {
        let ops: Vec<usize> = self
            .busy
            .iter()
            .copied()
            .filter(|op| self.logs[*op].lines.touches(begin, end))
            .collect();
        for op in ops {
            self.settle(op);
        }
    }

    /// Records that lanes write consecutive elements of at least a cell, to lines without an access since the last
    /// barrier.
    #[inline(always)]
    pub(crate) fn write_run(&mut self, mask: u32, offset: u32, bytes: u32, by: Accessor) {
        let range = self.cells(offset, bytes * mask.count_ones());
        let per_lane = bytes >> self.grain_log2;
        let base = stamp(self.time, ONE, by.warp * 32 + mask.trailing_zeros());
        for (i, cell) in self.writes[range.clone()].iter_mut().enumerate() {
            *cell = base
                + if per_lane == 1 {
                    i as u32
                } else {
                    i as u32 / per_lane
                };
        }
        self.write_pc[range].fill(by.pc);
    }

    /// Records that all lanes write disjoint elements of at least a cell, after [`Shadow::before_write`] returned
    /// `touched` for the lines. Returns false and records nothing if a cell holds an access that [`Shadow::passed`] does
    /// not decide.
    #[inline(always)]
    pub(crate) fn write_apart(
        &mut self,
        first: u32,
        relative: &[u64; 32],
        bytes: u32,
        touched: bool,
        by: Accessor,
    ) -> bool {
        let per_lane = (bytes >> self.grain_log2) as usize;
        if per_lane == 0 || (touched && !self.atomics.is_empty()) {
            return false;
        }
        let grain = self.grain_log2;
        let cells = |relative: u64| {
            let cell = (first.wrapping_add(relative as u32) >> grain) as usize;
            cell..cell + per_lane
        };
        if touched {
            let own = self.order.known(by.warp, by.warp);
            for relative in relative {
                let cells = cells(*relative);
                let (writes, reads) = (&self.writes[cells.clone()], &self.reads[cells]);
                for (wrote, read) in writes.iter().zip(reads) {
                    if !self.passed(*wrote, by.warp, own) || !self.passed(*read, by.warp, own) {
                        return false;
                    }
                }
            }
        }
        let base = stamp(self.time, ONE, by.warp * 32);
        for (lane, relative) in (0..).zip(relative) {
            let cells = cells(*relative);
            self.writes[cells.clone()].fill(base + lane);
            self.write_pc[cells].fill(by.pc);
        }
        true
    }

    /// The bytes of a cell.
    pub(crate) fn grain(&self) -> u32 {
        1 << self.grain_log2
    }

    /// Records the write of an asynchronous copy whose completion an mbarrier will signal.
    pub(crate) fn land(&mut self, lane: usize, offset: u32, bytes: u32, by: Accessor) {
        let thread = by.warp * 32 + lane as u32;
        for cell in self.cells(offset, bytes) {
            self.writes[cell] = stamp(self.time, COPY, thread);
            self.write_pc[cell] = by.pc;
        }
    }

    /// The plain read or write of a cell, and whether it is a write, that nothing orders before an access by `thread`.
    #[inline(always)]
    fn find_in_cell(&self, cell: usize, thread: u32, by: Accessor) -> Option<(Stamp, u32, bool)> {
        let floor = self.barrier << TIME_SHIFT;
        let (wrote, read) = (self.writes[cell], self.reads[cell]);
        let mut found = None;
        if wrote >= floor {
            found = self
                .find_unordered(wrote, self.write_pc[cell], thread, by)
                .map(|(then, pc)| (then, pc, true));
        }
        if read >= floor {
            found = self
                .find_unordered(read, self.read_pc[cell], thread, by)
                .map(|(then, pc)| (then, pc, false))
                .or(found);
        }
        found
    }

    /// Records that a lane changes bytes atomically, which conflicts only with plain accesses, after
    /// [`Shadow::before_write`] for the same lines.
    pub(crate) fn atomic(
        &mut self,
        lane: usize,
        offset: u32,
        bytes: u32,
        by: Accessor,
    ) -> Option<Conflict> {
        if self.atomics.is_empty() {
            self.atomics = vec![0; self.writes.len()];
            self.atomic_pc = vec![0; self.writes.len()];
        }
        let thread = by.warp * 32 + lane as u32;
        let mut found = None;
        for cell in self.cells(offset, bytes) {
            found = self
                .find_in_cell(cell, thread, by)
                .map(|(then, pc, wrote)| self.conflict(lane, then, pc, wrote, by))
                .or(found);
            let then = (self.atomics[cell], self.atomic_pc[cell]);
            (self.atomics[cell], self.atomic_pc[cell]) = self.joined(then, thread, self.time, by);
        }
        found
    }

    /// Records a volatile store of a lane, which is compared only with volatile loads of data.
    pub(crate) fn volatile_write(&mut self, lane: usize, offset: u32, bytes: u32, by: Accessor) {
        if self.volatile_writes.is_empty() {
            self.volatile_writes = vec![(0, 0); self.writes.len()];
        }
        let stamp = stamp(self.time, ONE, by.warp * 32 + lane as u32);
        for cell in self.cells(offset, bytes) {
            self.volatile_writes[cell] = (stamp, by.pc);
        }
    }

    /// Checks a volatile, relaxed or acquiring load of a lane. A load of data races with a plain write that nothing orders
    /// before it, and a volatile one also with a volatile store. A load whose value decides a branch or an address may
    /// poll a flag; a write that it has seen is ordered before later loads of the warp.
    pub(crate) fn ordered_read(
        &mut self,
        lane: usize,
        offset: u32,
        bytes: u32,
        (data, volatile): (bool, bool),
        by: Accessor,
    ) -> Option<Conflict> {
        let thread = by.warp * 32 + lane as u32;
        for cell in self.cells(offset, bytes) {
            let plain = (self.writes[cell], self.write_pc[cell]);
            let other = match self.volatile_writes.get(cell) {
                Some(write) if volatile => *write,
                _ => (0, 0),
            };
            for (then, pc) in [plain, other] {
                let Some((then, pc)) = self.find_unordered(then, pc, thread, by) else {
                    continue;
                };
                if !data {
                    self.polled.insert((by.warp, cell), then);
                } else if self.polled.get(&(by.warp, cell)) != Some(&then) {
                    return Some(self.conflict(lane, then, pc, true, by));
                }
            }
        }
        None
    }

    /// Records a plain write of a lane. `same_value`: the bytes already hold this value, so that the order has no effect.
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
        let mut found = None;
        for cell in self.cells(offset, bytes) {
            if !same_value {
                found = self
                    .find_in_cell(cell, thread, by)
                    .map(|(then, pc, wrote)| self.conflict(lane, then, pc, wrote, by))
                    .or(found);
                let changed = self.atomics.get(cell).copied().unwrap_or(0);
                if changed >= self.barrier << TIME_SHIFT {
                    found = self
                        .find_unordered(changed, self.atomic_pc[cell], thread, by)
                        .map(|(then, pc)| self.conflict(lane, then, pc, true, by))
                        .or(found);
                }
            }
            self.writes[cell] = stamp(self.time, ONE, thread);
            self.write_pc[cell] = by.pc;
        }
        found
    }
}

#[cfg(test)]
mod tests;
