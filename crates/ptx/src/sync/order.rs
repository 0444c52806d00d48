//! Vector clocks of the warps of a block: the accesses of other warps behind which each warp is ordered, and through
//! which words they were published.

use std::collections::HashMap;

/// Maximum number of warps of a block.
pub(super) const WARPS: usize = 32;

/// A vector clock: for each warp a time before which all its accesses are ordered.
pub(crate) type Clock = [u32; WARPS];

/// The vector clocks of all warps of a block.
#[derive(Debug)]
pub(super) struct Order {
    known: [Clock; WARPS],
    /// The time of the last block barrier, at least which every entry of `known` counts as. So a barrier need not
    /// change all of them.
    all: u32,
    /// A warp's clock at its last fence.
    fenced: HashMap<u32, Clock>,
    /// The clocks published through words of shared memory, by offset.
    published: HashMap<u64, Clock>,
    /// Arrivals at the mbarrier objects, by their offsets.
    mbarriers: HashMap<u32, Arrivals>,
}

/// The arrivals at one mbarrier object. A successful wait acquires those of the phases that are over, and not those of
/// the phase that still runs.
#[derive(Debug, Default)]
struct Arrivals {
    /// Clocks of the arrivals in the running phase, joined.
    running: Clock,
    /// Clocks of the arrivals in all completed phases, joined.
    completed: Clock,
}

fn join(to: &mut Clock, from: &Clock) {
    for (known, new) in to.iter_mut().zip(from) {
        *known = (*known).max(*new);
    }
}

impl Order {
    pub(super) fn new() -> Self {
        Self {
            known: [[1; WARPS]; WARPS],
            all: 1,
            fenced: HashMap::new(),
            published: HashMap::new(),
            mbarriers: HashMap::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.known = [[1; WARPS]; WARPS];
        self.all = 1;
        self.fenced.clear();
        self.published.clear();
        self.mbarriers.clear();
    }

    /// Orders all accesses so far before all later ones (a block barrier).
    pub(super) fn all(&mut self, time: u32) {
        self.all = time;
    }

    /// Orders the accesses of a warp's lanes so far before their later ones.
    #[inline(always)]
    pub(super) fn own(&mut self, warp: u32, time: u32) {
        self.known[warp as usize % WARPS][warp as usize % WARPS] = time;
    }

    /// Orders a warp behind all accesses so far.
    pub(super) fn know_all(&mut self, warp: u32, time: u32) {
        self.known[warp as usize % WARPS] = [time; WARPS];
    }

    /// The time up to which a warp is ordered behind another one.
    #[inline(always)]
    pub(super) fn known(&self, warp: u32, other: u32) -> u32 {
        self.known[warp as usize % WARPS][other as usize % WARPS].max(self.all)
    }

    /// The clock that a warp publishes for its accesses before a time.
    pub(super) fn clock(&self, warp: u32, time: u32) -> Clock {
        let mut clock = self.known[warp as usize % WARPS];
        for known in &mut clock {
            *known = (*known).max(self.all);
        }
        clock[warp as usize % WARPS] = time;
        clock
    }

    pub(super) fn learn(&mut self, warp: u32, clock: &Clock) {
        join(&mut self.known[warp as usize % WARPS], clock);
    }

    pub(super) fn fence(&mut self, warp: u32, clock: Clock) {
        self.fenced.insert(warp, clock);
    }

    /// Adds a clock to the arrivals of the running phase of the mbarrier at an offset.
    pub(super) fn arrive(&mut self, offset: u32, clock: &Clock) {
        join(
            &mut self.mbarriers.entry(offset).or_default().running,
            clock,
        );
    }

    /// Completes the running phase of the mbarrier at an offset.
    pub(super) fn complete_phase(&mut self, offset: u32) {
        let arrivals = self.mbarriers.entry(offset).or_default();
        let running = std::mem::take(&mut arrivals.running);
        join(&mut arrivals.completed, &running);
    }

    /// Orders a warp behind the arrivals of all completed phases of the mbarrier at an offset.
    pub(super) fn pass_mbarrier(&mut self, warp: u32, offset: u32) {
        if let Some(arrivals) = self.mbarriers.get(&offset) {
            let clock = arrivals.completed;
            self.learn(warp, &clock);
        }
    }

    pub(super) fn signal(&mut self, warp: u32, offset: u64) {
        if let Some(clock) = self.fenced.get(&warp).copied() {
            join(self.published.entry(offset).or_insert([0; WARPS]), &clock);
        }
    }

    pub(super) fn observe(&mut self, warp: u32, offset: u64) {
        if let Some(clock) = self.published.get(&offset).copied() {
            self.learn(warp, &clock);
        }
    }
}
