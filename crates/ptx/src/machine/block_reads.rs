//! The sectors that a block reads through the L1 cache, and the parts of its time in which it reads each of them. They
//! show which repeated reads are so close together that the cache still holds the sector.
//!
//! Warps that a GPU runs side by side are executed one after another here, so that the order of their reads says
//! nothing. The time of a read is that of its warp's critical path, which barriers align. A sector counts once for each
//! part of the time, whichever warps read it.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::exec::scattered;
use crate::report;

/// Parts into which a block's time is divided at most.
const PARTS: usize = 128;
/// The most chunks that are kept of a block, which is 2 MiB of marks.
const MOST_CHUNKS: usize = 1 << 12;
/// Blocks of a launch that are observed.
const OBSERVED_BLOCKS: u64 = 64;
/// Longest stretch of time in the report, as a power of two in cycles.
const LONGEST: usize = 32;

/// Reports whether a block is among the about 64 of `executed` blocks that are observed. They are spread evenly and in
/// step with no period, because multiples of the golden ratio are.
pub(super) fn is_observed(block: u64, executed: u64) -> bool {
    executed <= OBSERVED_BLOCKS
        || block.wrapping_mul(0x9e37_79b9_7f4a_7c15) <= u64::MAX / executed * OBSERVED_BLOCKS
}

/// The reads of one chunk of 32 sectors, which is 1 KiB.
#[derive(Debug)]
struct Chunk {
    number: u64,
    /// Sectors that its accesses read, repeated ones included.
    read: u64,
    /// A bit for each sector, for each part of the time.
    parts: [u32; PARTS],
}

impl Chunk {
    /// Joins each two of the first `count` parts, which are an even number. The others are empty.
    fn merge_parts(&mut self, count: usize) {
        for part in 0..count / 2 {
            self.parts[part] = self.parts[2 * part] | self.parts[2 * part + 1];
        }
        self.parts[count / 2..count].fill(0);
    }

    /// The sectors of each of the first `count` parts, summed.
    fn sectors(&self, count: usize) -> u64 {
        let parts = self.parts[..count].iter();
        parts.map(|sectors| u64::from(sectors.count_ones())).sum()
    }
}

/// The reads of a block that runs now.
#[derive(Debug, Default)]
pub(crate) struct BlockReads {
    /// True if the block is observed.
    pub(super) observed: bool,
    /// Length of a part of the time in cycles, as a power of two.
    part_log2: u32,
    /// Of so many chunks one is kept, as a power of two.
    kept_log2: u32,
    chunks: Vec<Chunk>,
    /// The place of each chunk in `chunks`, by its number.
    places: HashMap<u64, usize, FixedState>,
    /// The place of the chunk that was read last, by its number modulo the length.
    last: [usize; 16],
}

impl BlockReads {
    /// Begins the next block.
    pub(super) fn begin(&mut self, observed: bool) {
        self.observed = observed;
        self.part_log2 = 0;
        self.kept_log2 = 0;
        self.chunks.clear();
        self.places.clear();
        self.last = [0; 16];
    }

    /// Records that one access reads the sectors from `sector` to `last` at a time in cycles.
    #[inline(never)]
    pub(crate) fn record(&mut self, mut sector: u64, last: u64, cycles: u64) {
        while cycles >> self.part_log2 >= PARTS as u64 {
            self.part_log2 += 1;
            for chunk in &mut self.chunks {
                chunk.merge_parts(PARTS);
            }
        }
        let part = (cycles >> self.part_log2) as usize;
        while sector <= last {
            let shift = sector % 32;
            let step = (32 - shift).min(last - sector + 1);
            if let Some(chunk) = self.chunk(sector / 32) {
                chunk.read += step;
                chunk.parts[part] |= (((1u64 << step) - 1) as u32) << shift;
            }
            sector += step;
        }
    }

    /// The marks of a chunk, if it is kept.
    fn chunk(&mut self, number: u64) -> Option<&mut Chunk> {
        let slot = number as usize % self.last.len();
        let last = self.chunks.get(self.last[slot]);
        if last.is_none_or(|chunk| chunk.number != number) {
            if !self.keeps(number) {
                return None;
            }
            self.last[slot] = match self.places.get(&number) {
                Some(place) => *place,
                None => self.add(number)?,
            };
        }
        Some(&mut self.chunks[self.last[slot]])
    }

    /// Chunks are chosen by a hash of their number (Waldspurger, Park, Garthwaite, Ahmad: Efficient MRC construction with
    /// SHARDS, FAST 2015).
    fn keeps(&self, number: u64) -> bool {
        (scattered(number) >> 32).trailing_zeros() >= self.kept_log2
    }

    #[cold]
    fn add(&mut self, number: u64) -> Option<usize> {
        while self.chunks.len() >= MOST_CHUNKS {
            self.kept_log2 += 1;
            let mut chunks = std::mem::take(&mut self.chunks);
            chunks.retain(|chunk| self.keeps(chunk.number));
            self.chunks = chunks;
            let numbers = self.chunks.iter().map(|chunk| chunk.number);
            self.places = numbers.zip(0..).collect();
        }
        self.keeps(number).then(|| {
            let place = self.chunks.len();
            self.places.insert(number, place);
            self.chunks.push(Chunk {
                number,
                read: 0,
                parts: [0; PARTS],
            });
            place
        })
    }
}

/// The reads in stretches of one length, over all observed blocks that tell them.
#[derive(Debug, Clone, Copy, Default)]
struct Stretches {
    /// Distinct sectors of each stretch, summed.
    sectors: u64,
    /// The time of the blocks in cycles, at least one stretch each.
    cycles: u64,
}

/// Sums over the observed blocks that have finished on a host thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadsOfBlocks {
    blocks: u64,
    read: u64,
    distinct: u64,
    cycles: u64,
    /// Cycles of the longest one.
    longest: u64,
    /// By the length of the stretch in cycles, as a power of two.
    stretches: [Stretches; LONGEST],
}

impl ReadsOfBlocks {
    /// Adds a finished block, which took so many cycles.
    pub(super) fn add(&mut self, block: &mut BlockReads, cycles: u64) {
        if !block.observed {
            return;
        }
        let sectors_of = |block: &BlockReads, parts: usize| {
            let chunks = block.chunks.iter();
            chunks.map(|chunk| chunk.sectors(parts)).sum::<u64>() << block.kept_log2
        };
        self.blocks += 1;
        self.cycles += cycles;
        self.longest = self.longest.max(cycles);
        let read = block.chunks.iter().map(|chunk| chunk.read).sum::<u64>();
        self.read += read << block.kept_log2;
        let mut parts = PARTS;
        let mut sectors = sectors_of(block, parts);
        for length in block.part_log2 as usize..LONGEST {
            self.stretches[length].sectors += sectors;
            self.stretches[length].cycles += cycles.max(1 << length);
            if parts > 1 {
                for chunk in &mut block.chunks {
                    chunk.merge_parts(parts);
                }
                parts /= 2;
                sectors = sectors_of(block, parts);
            }
        }
        self.distinct += sectors;
    }

    /// Adds the blocks of another host thread.
    pub(super) fn merge(mut self, other: &Self) -> Self {
        self.blocks += other.blocks;
        self.read += other.read;
        self.distinct += other.distinct;
        self.cycles += other.cycles;
        self.longest = self.longest.max(other.longest);
        for (own, other) in self.stretches.iter_mut().zip(&other.stretches) {
            own.sectors += other.sectors;
            own.cycles += other.cycles;
        }
        self
    }

    /// The mean of the blocks; none if they read nothing.
    pub(super) fn mean(&self) -> Option<report::BlockReads> {
        let mean = |sum: u64| sum as f64 / self.blocks as f64;
        // The last stretch is longer than any block.
        let lengths = 64 - self.longest.leading_zeros() as usize;
        let told = self.stretches.iter().zip(0..).take(lengths + 1);
        let told = told.skip_while(|(stretches, _)| stretches.cycles == 0);
        let working_sets = told.map(|(stretches, length)| {
            let cycles = 1_u64 << length;
            report::ReadSet {
                cycles,
                sectors: stretches.sectors as f64 * cycles as f64 / stretches.cycles as f64,
            }
        });
        (self.read > 0).then(|| report::BlockReads {
            sectors: mean(self.read),
            distinct_sectors: mean(self.distinct),
            cycles: mean(self.cycles),
            working_sets: working_sets.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Observes a block that takes `cycles` and reads these ranges of sectors, given as first, length and time.
    fn observe(reads: &[(u64, u64, u64)], cycles: u64) -> ReadsOfBlocks {
        let mut block = BlockReads::default();
        block.begin(true);
        for (first, length, time) in reads {
            block.record(*first, first + length - 1, *time);
        }
        let mut all = ReadsOfBlocks::default();
        all.add(&mut block, cycles);
        all
    }

    proptest! {
        /// Stretches have the sectors of sets, whatever the order of the reads.
        #[test]
        fn stretches_hold_the_sectors_that_are_read_in_them(
            reads in proptest::collection::vec((0_u64..300, 1_u64..40, 0_u64..1000), 1..60),
            rest in 0_u64..50,
        ) {
            let cycles = reads.iter().map(|read| read.2).max().unwrap() + rest;
            let all = observe(&reads, cycles);
            let backwards = reads.iter().rev().copied().collect::<Vec<_>>();
            prop_assert_eq!(all.mean(), observe(&backwards, cycles).mean());

            let mean = all.mean().unwrap();
            prop_assert_eq!(mean.sectors as u64, reads.iter().map(|read| read.1).sum::<u64>());
            prop_assert_eq!(mean.cycles as u64, cycles);
            for set in &mean.working_sets {
                let touched = reads
                    .iter()
                    .flat_map(|(first, length, time)| {
                        (*first..first + length).map(move |sector| (time / set.cycles, sector))
                    })
                    .collect::<BTreeSet<_>>();
                let stretches = (cycles as f64 / set.cycles as f64).max(1.0);
                prop_assert!((set.sectors - touched.len() as f64 / stretches).abs() < 1e-9);
            }
            let last = mean.working_sets.last().unwrap();
            prop_assert!(last.cycles > cycles);
            prop_assert_eq!(last.sectors, mean.distinct_sectors);
        }

        #[test]
        fn about_64_blocks_are_observed_and_never_none(executed in 1_u64..100_000) {
            let observed = (0..executed).filter(|block| is_observed(*block, executed)).count() as u64;
            prop_assert!(observed >= executed.min(60) && observed <= 68, "{observed}");
        }
    }

    #[test]
    fn a_block_that_reads_more_than_is_kept_is_observed_in_part() {
        // Each of 40,000 chunks is read whole, four times.
        let reads = (0..160_000).map(|time| (32 * (time % 40_000), 32, time));
        let mean = observe(&reads.collect::<Vec<_>>(), 160_000).mean().unwrap();
        let near = |found: f64, whole: f64| (found / whole - 1.0).abs() < 0.05;
        assert!(near(mean.sectors, 4.0 * 32.0 * 40_000.0), "{mean:?}");
        assert!(near(mean.distinct_sectors, 32.0 * 40_000.0), "{mean:?}");
        let first = mean.working_sets[0];
        assert!(near(first.sectors, 32.0 * first.cycles as f64), "{mean:?}");
    }
}
