//! The shape of a warp's addresses, remembered per instruction.
//!
//! A kernel's memory instructions repeat the same shape of addresses (a run, one address, a stride) at moving bases.
//! Bounds, alignment, sectors and bank conflicts depend on the shape and on a few low bits of the base, so they are
//! worked out once and looked up while the shape repeats; the answers are exact.

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

/// What one execution moves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Global sectors of 32 bytes.
    pub(crate) sectors: u32,
    pub(crate) sectors_ideal: u32,
    /// Distinct bytes.
    pub(crate) bytes: u32,
    /// Shared memory wavefronts.
    pub(crate) wavefronts: u32,
    pub(crate) wavefronts_ideal: u32,
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
        shared: bool,
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
            self.cost = if shared {
                shared_cost(mask, &relative, first, bytes, self.shape)
            } else {
                global_cost(mask, &relative, first, bytes, self.shape)
            };
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

/// Distinct 32-byte sectors of a warp's accesses.
fn global_cost(mask: u32, relative: &[u64; 32], first: u64, bytes: u32, shape: Shape) -> Cost {
    let size = u64::from(bytes);
    let (sectors, distinct) = match shape {
        Shape::Same => ((first + size - 1) / 32 - first / 32 + 1, size),
        Shape::Run => {
            let total = u64::from(mask.count_ones()) * size;
            ((first + total - 1) / 32 - first / 32 + 1, total)
        }
        Shape::Other => {
            let mut starts: Vec<u64> = (0..32)
                .filter(|lane| mask >> lane & 1 == 1)
                .map(|lane| first.wrapping_add(relative[lane]))
                .collect();
            starts.sort_unstable();
            starts.dedup();
            let mut sectors = 0;
            let mut last_sector = None;
            let mut distinct = 0;
            let mut covered = 0u64;
            for start in starts {
                let end = start.wrapping_add(size);
                distinct += end.saturating_sub(start.max(covered));
                covered = covered.max(end);
                for sector in start / 32..=end.wrapping_sub(1) / 32 {
                    if last_sector.is_none_or(|last| sector > last) {
                        sectors += 1;
                        last_sector = Some(sector);
                    }
                }
            }
            (sectors, distinct)
        }
    };
    Cost {
        sectors: sectors as u32,
        sectors_ideal: distinct.div_ceil(32) as u32,
        bytes: distinct as u32,
        ..Cost::default()
    }
}

/// Passes through 32 banks of 4 bytes. Accesses of 8 bytes go half a warp at a time, of 16 bytes a quarter; lanes
/// that read the same word share it. Two halves (or all quarters) that together touch few enough words go together.
fn shared_cost(mask: u32, relative: &[u64; 32], first: u64, bytes: u32, shape: Shape) -> Cost {
    let words_per_lane = bytes.div_ceil(4).max(1);
    if shape == Shape::Same {
        return Cost {
            wavefronts: 1,
            wavefronts_ideal: 1,
            bytes,
            ..Cost::default()
        };
    }
    let group = 32 / words_per_lane;
    let mut wavefronts = 0;
    let mut all_words: Vec<u64> = Vec::with_capacity(128);
    let mut lane = 0;
    while lane < 32 {
        let mut words: Vec<u64> = Vec::with_capacity(32);
        for l in lane..(lane + group).min(32) {
            if mask >> l & 1 == 1 {
                let start = first.wrapping_add(relative[l as usize]) / 4;
                words.extend((0..u64::from(words_per_lane)).map(|w| start + w));
            }
        }
        words.sort_unstable();
        words.dedup();
        wavefronts += busiest_bank(&words);
        all_words.extend(words);
        lane += group;
    }
    all_words.sort_unstable();
    all_words.dedup();
    // Broadcasts across groups need no second pass when everything fits one.
    let together = busiest_bank(&all_words);
    let ideal = (all_words.len() as u32).div_ceil(32);
    let distinct = all_words.len() as u32 * 4;
    Cost {
        wavefronts: wavefronts.min(together.max(1)).max(ideal),
        wavefronts_ideal: ideal,
        bytes: distinct.min(mask.count_ones() * bytes),
        ..Cost::default()
    }
}

/// Most distinct words one bank has to serve.
fn busiest_bank(words: &[u64]) -> u32 {
    let mut load = [0u32; 32];
    for word in words {
        load[(word % 32) as usize] += 1;
    }
    load.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(bytes: u32, shared: bool, address: impl Fn(u64) -> u64) -> Cost {
        let mut addresses = [0; 32];
        for (lane, slot) in addresses.iter_mut().enumerate() {
            *slot = address(lane as u64);
        }
        let mut pattern = Pattern::default();
        pattern.observe(u32::MAX, &addresses, bytes, shared);
        pattern.cost
    }

    #[test]
    fn hand_counted_sectors() {
        let sectors = |bytes, f: fn(u64) -> u64| {
            let c = cost(bytes, false, f);
            (c.sectors, c.sectors_ideal)
        };
        assert_eq!(sectors(4, |l| 4 * l), (4, 4));
        assert_eq!(sectors(4, |l| 16 + 4 * l), (5, 4));
        assert_eq!(sectors(16, |l| 16 * l), (16, 16));
        assert_eq!(sectors(4, |_| 100), (1, 1));
        assert_eq!(sectors(4, |l| 128 * l), (32, 4));
        assert_eq!(sectors(2, |l| 4096 - 2 * l), (3, 2));
    }

    #[test]
    fn hand_counted_wavefronts() {
        let waves = |bytes, f: fn(u64) -> u64| {
            let c = cost(bytes, true, f);
            (c.wavefronts, c.wavefronts_ideal)
        };
        assert_eq!(waves(4, |l| 4 * l), (1, 1));
        assert_eq!(waves(4, |_| 64), (1, 1));
        assert_eq!(waves(4, |l| 128 * l), (32, 1));
        assert_eq!(waves(4, |l| 132 * l), (1, 1));
        assert_eq!(waves(4, |l| 8 * l), (2, 1));
        assert_eq!(waves(2, |l| 2 * l), (1, 1));
        assert_eq!(waves(8, |l| 8 * l), (2, 2));
        assert_eq!(waves(16, |l| 16 * l), (4, 4));
        // Every lane reads the same 16 bytes: one pass.
        assert_eq!(waves(16, |_| 32), (1, 1));
        // Eight distinct vectors, each read by four lanes, fill one pass.
        assert_eq!(waves(16, |l| 16 * (l / 4)), (1, 1));
        // Rows of 128 bytes, a vector per lane: all in the same four banks.
        assert_eq!(waves(16, |l| 128 * l), (32, 4));
    }
}
