//! Writes and atomics of shared memory: their comparison with earlier accesses, and their records in the cells.

use super::stamp::{COPY, ONE, Stamp, TIME_SHIFT, VOLATILE, stamp};
use super::{Accessor, Conflict, Shadow};

impl Shadow {
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
        let beside_others = !self.atomics.is_empty() || !self.ordered_writes.is_empty();
        if per_lane == 0 || (touched && beside_others) {
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

    /// Records the write of an asynchronous copy whose completion an mbarrier will signal.
    pub(crate) fn record_signalled_copy(
        &mut self,
        lane: usize,
        offset: u32,
        bytes: u32,
        by: Accessor,
    ) {
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
            if let Some((then, _)) = self.find_unseen(cell, thread, by) {
                self.polled.insert((by.warp, cell), then);
            }
            let then = (self.atomics[cell], self.atomic_pc[cell]);
            (self.atomics[cell], self.atomic_pc[cell]) = self.joined(then, thread, self.time, by);
        }
        found
    }

    /// Records a volatile, relaxed or release store of a lane, after [`Shadow::before_write`] for the same lines. It
    /// conflicts with plain writes and plain loads of data. `same_value`: the bytes already hold this value.
    pub(crate) fn ordered_write(
        &mut self,
        lane: usize,
        offset: u32,
        bytes: u32,
        (same_value, volatile): (bool, bool),
        by: Accessor,
        loads_data: impl Fn(u32) -> bool,
    ) -> Option<Conflict> {
        if self.ordered_writes.is_empty() {
            self.ordered_writes = vec![(0, 0); self.writes.len()];
        }
        let thread = by.warp * 32 + lane as u32;
        let now = stamp(self.time, ONE, thread);
        let pc = if volatile { by.pc | VOLATILE } else { by.pc };
        let mut found = None;
        for cell in self.cells(offset, bytes) {
            if !same_value {
                found = self
                    .find_in_cell(cell, thread, by)
                    .filter(|(_, pc, wrote)| *wrote || loads_data(*pc))
                    .map(|(then, pc, wrote)| self.conflict(lane, then, pc, wrote, by))
                    .or(found);
            }
            self.ordered_writes[cell] = (now, pc);
        }
        found
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
                found = self
                    .find_unseen(cell, thread, by)
                    .map(|(then, pc)| self.conflict(lane, then, pc, true, by))
                    .or(found);
            }
            self.writes[cell] = stamp(self.time, ONE, thread);
            self.write_pc[cell] = by.pc;
        }
        found
    }
}
