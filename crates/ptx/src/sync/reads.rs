//! Reads of shared memory: their records since the last barrier, and their comparison with earlier writes.

use super::lines::Lines;
use super::stamp::VOLATILE;
use super::{Accessor, Conflict, Shadow, Stamp};

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
    /// True if the values reach no predicate, address or atomic, so that they are no flag that is polled. Only such
    /// reads are compared with ordered stores.
    pub(crate) data: bool,
}

/// A read that has not been transferred to the cells.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadRecord {
    by: Accessor,
    time: u32,
    first: u32,
    mask: u32,
    bytes: u32,
    shape: u32,
}

/// The reads of one instruction since the last barrier.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) lines: Lines,
    pub(super) records: Vec<ReadRecord>,
    pub(super) shapes: Vec<[u64; 32]>,
    pub(super) version: u64,
}

/// Read records kept for one instruction before they are transferred to the cells.
const MAX_RECORDS: usize = 1 << 13;

impl Shadow {
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
        log.records.push(ReadRecord {
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
        let beside_ordered = reading.data && !self.ordered_writes.is_empty();
        if !beside_ordered && self.atomics.is_empty() && self.all_passed(reading, by.warp, own) {
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
                if beside_ordered && found.is_none() {
                    found = self.find_unseen(cell, thread, by);
                }
                if let Some((then, pc)) = found {
                    return Some(self.conflict(lane as usize, then, pc, true, by));
                }
            }
        }
        None
    }

    /// Checks a volatile, relaxed or acquiring load of a lane. A load of data races with a plain write that nothing orders
    /// before it, and a volatile one also with a volatile store. A load whose value decides a branch or an address may
    /// poll a flag; a write that it has seen is ordered before later accesses of the warp.
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
            let ordered = self.ordered_writes.get(cell).copied().unwrap_or_default();
            let races_with_ordered = volatile && ordered.1 & VOLATILE != 0;
            for ((then, pc), races) in [(plain, true), (ordered, races_with_ordered)] {
                let Some((then, pc)) = self.find_unordered(then, pc, thread, by) else {
                    continue;
                };
                if !data {
                    self.polled.insert((by.warp, cell), then);
                } else if races && self.polled.get(&(by.warp, cell)) != Some(&then) {
                    return Some(self.conflict(lane, then, pc, true, by));
                }
            }
        }
        None
    }

    /// The ordered store to a cell that nothing orders before an access by `thread`, and that no ordered load of the warp
    /// has seen.
    pub(super) fn find_unseen(
        &self,
        cell: usize,
        thread: u32,
        by: Accessor,
    ) -> Option<(Stamp, u32)> {
        let (then, pc) = *self.ordered_writes.get(cell)?;
        self.find_unordered(then, pc, thread, by)
            .filter(|(then, _)| self.polled.get(&(by.warp, cell)) != Some(then))
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

    #[inline(never)]
    pub(super) fn settle_lines(&mut self, begin: u32, end: u32) {
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

    #[inline(always)]
    fn note_read(&mut self, cell: usize, thread: u32, record: &ReadRecord) {
        let then = (self.reads[cell], self.read_pc[cell]);
        (self.reads[cell], self.read_pc[cell]) = self.joined(then, thread, record.time, record.by);
    }
}
