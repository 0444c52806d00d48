//! Atomics on one word of device memory, which the second level cache executes one after another.

use super::access::lanes;

/// Counters of words, selected by a hash of the address. Words that share one look a little more contended than they
/// are: by the number of atomics over this number.
const COUNTERS: usize = 1 << 14;

/// The number of atomics by word. Empty until the first one.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    counts: Vec<u64>,
}

impl Contention {
    /// Counts the atomics of some lanes.
    pub(crate) fn record(&mut self, addresses: &[u64; 32], mask: u32) {
        if self.counts.is_empty() {
            self.counts = vec![0; COUNTERS];
        }
        for lane in lanes(mask) {
            let mixed = (addresses[lane] / 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.counts[(mixed >> 40) as usize % COUNTERS] += 1;
        }
    }

    /// The most atomics on one word, over the work of several host threads.
    pub(crate) fn most(parts: &[&Self]) -> u64 {
        let words = parts.iter().map(|part| part.counts.len()).max();
        (0..words.unwrap_or(0))
            .map(|word| {
                let counts = parts.iter().filter_map(|part| part.counts.get(word));
                counts.sum()
            })
            .max()
            .unwrap_or(0)
    }
}
