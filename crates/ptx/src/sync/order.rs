//! Which warp has been ordered behind which, and who told whom.

use std::collections::HashMap;

/// Warps of a block.
const WARPS: usize = 32;

/// For each warp a time: everything it did before that is ordered.
pub(crate) type Clock = [u32; WARPS];

/// What the warps of a block know of each other.
#[derive(Debug)]
pub(super) struct Order {
    known: [Clock; WARPS],
    /// A warp's clock at its last fence.
    fenced: HashMap<u32, Clock>,
    /// What was told through a word of shared memory, by its offset.
    told: HashMap<u32, Clock>,
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
            fenced: HashMap::new(),
            told: HashMap::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.known = [[1; WARPS]; WARPS];
        self.fenced.clear();
        self.told.clear();
    }

    /// Everything so far is ordered for everyone.
    pub(super) fn all(&mut self, time: u32) {
        self.known = [[time; WARPS]; WARPS];
    }

    /// A warp's lanes are ordered behind each other.
    #[inline(always)]
    pub(super) fn own(&mut self, warp: u32, time: u32) {
        self.known[warp as usize % WARPS][warp as usize % WARPS] = time;
    }

    /// Up to which time a warp is ordered behind another one.
    #[inline(always)]
    pub(super) fn known(&self, warp: u32, other: u32) -> u32 {
        self.known[warp as usize % WARPS][other as usize % WARPS]
    }

    /// Up to which time it is ordered behind all.
    pub(super) fn least(&self, warp: u32) -> u32 {
        self.known[warp as usize % WARPS]
            .iter()
            .copied()
            .min()
            .unwrap_or(0)
    }

    /// What others learn from a warp that has done everything before a time.
    pub(super) fn clock(&self, warp: u32, time: u32) -> Clock {
        let mut clock = self.known[warp as usize % WARPS];
        clock[warp as usize % WARPS] = time;
        clock
    }

    pub(super) fn learn(&mut self, warp: u32, clock: &Clock) {
        join(&mut self.known[warp as usize % WARPS], clock);
    }

    pub(super) fn fence(&mut self, warp: u32, clock: Clock) {
        self.fenced.insert(warp, clock);
    }

    pub(super) fn publish(&mut self, offset: u32, clock: &Clock) {
        join(self.told.entry(offset).or_insert([0; WARPS]), clock);
    }

    pub(super) fn signal(&mut self, warp: u32, offset: u32) {
        if let Some(clock) = self.fenced.get(&warp).copied() {
            self.publish(offset, &clock);
        }
    }

    pub(super) fn observe(&mut self, warp: u32, offset: u32) {
        if let Some(clock) = self.told.get(&offset).copied() {
            self.learn(warp, &clock);
        }
    }
}
