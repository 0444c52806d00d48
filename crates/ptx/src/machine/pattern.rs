//! The shape of a warp's addresses, remembered per instruction.
//!
//! A kernel's memory instructions repeat the same shape of addresses (a run, one address, a stride) at moving bases.
//! Bounds, alignment, sectors and bank conflicts depend on the shape and on a few low bits of the base, so they are
//! worked out once and looked up while the shape repeats; the answers are exact.

use super::traffic::{self, Cost, Way};

/// The relation of the lanes' addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Active lanes are consecutive and each starts where the one before ends.
    Run,
    /// Every active lane has the same address.
    Same,
    /// Anything else.
    Other,
}

/// What is known about one memory instruction's addresses.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    mask: u32,
    /// Addresses relative to the first active lane's; 0 for inactive lanes.
    pub(crate) relative: [u64; 32],
    /// Changes whenever the shape does.
    pub(crate) version: u32,
    pub(crate) shape: Shape,
    /// Lowest and highest relative address.
    pub(crate) low: i64,
    pub(crate) high: i64,
    /// All relative addresses or-ed together, for alignment.
    low_bits: u64,
    /// Base bits the costs below were worked out for.
    phase: u64,
    pub(crate) cost: Cost,
    /// The allocation the last access was in.
    pub(crate) allocation: usize,
}

impl Default for Pattern {
    fn default() -> Self {
        Self {
            mask: 0,
            relative: [0; 32],
            version: 0,
            shape: Shape::Other,
            low: 0,
            high: 0,
            low_bits: 0,
            phase: u64::MAX,
            cost: Cost::default(),
            allocation: usize::MAX,
        }
    }
}

/// Base bits that decide sectors and banks.
const PHASE: u64 = 127;

impl Pattern {
    /// Looks at the addresses of the active lanes (at least one), `bytes` each.
    #[inline(always)]
    pub(crate) fn observe(
        &mut self,
        mask: u32,
        addresses: &[u64; 32],
        bytes: u32,
        way: Way,
    ) -> u64 {
        let first = addresses[mask.trailing_zeros() as usize & 31];
        let mut relative = [0u64; 32];
        let mut differs = 0;
        for lane in 0..32 {
            let active = 0u64.wrapping_sub(u64::from(mask >> lane & 1));
            relative[lane] = addresses[lane].wrapping_sub(first) & active;
            differs |= relative[lane] ^ self.relative[lane];
        }
        if differs != 0 || mask != self.mask {
            self.learn(mask, &relative, bytes);
        }
        if self.phase != first & PHASE {
            self.phase = first & PHASE;
            self.cost = traffic::cost(way, mask, &relative, first, bytes, self.shape);
        }
        first
    }

    #[cold]
    #[inline(never)]
    fn learn(&mut self, mask: u32, relative: &[u64; 32], bytes: u32) {
        self.version = self.version.wrapping_add(1);
        self.mask = mask;
        self.relative = *relative;
        self.phase = u64::MAX;
        let lanes = || (0..32).filter(move |lane| mask >> lane & 1 == 1);
        self.low = lanes().map(|lane| relative[lane] as i64).min().unwrap_or(0);
        self.high = lanes().map(|lane| relative[lane] as i64).max().unwrap_or(0);
        self.low_bits = lanes().fold(0, |bits, lane| bits | relative[lane]);
        let first = mask.trailing_zeros() as u64;
        let consecutive = (mask >> first).trailing_ones() == mask.count_ones();
        self.shape = if lanes().all(|lane| relative[lane] == 0) {
            Shape::Same
        } else if consecutive
            && lanes().all(|lane| relative[lane] == (lane as u64 - first) * u64::from(bytes))
        {
            Shape::Run
        } else {
            Shape::Other
        };
    }

    /// Whether every address is a multiple of the access size.
    #[inline(always)]
    pub(crate) fn aligned(&self, first: u64, bytes: u32) -> bool {
        (first | self.low_bits) & u64::from(bytes - 1) == 0
    }
}
