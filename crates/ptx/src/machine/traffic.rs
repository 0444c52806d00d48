//! Memory transactions of a warp's access: sectors of global memory and wavefronts of shared memory.
//!
//! **Sectors.** Global memory is transferred in aligned sectors of 32 bytes. A warp's access needs every sector that
//! its lanes' bytes touch. The ideal number is that of the same bytes stored contiguously.
//!
//! **Wavefronts.** Shared memory has 32 banks of 4 bytes, and one pass serves one word of each (CUDA C++ Programming
//! Guide, compute capability 5.x and later). Lanes that read the same word share it, and of lanes that write the same
//! word one wins, so only distinct words count. A pass moves 128 bytes at most. That is why accesses of 8 bytes go half
//! a warp at a time and accesses of 16 bytes a quarter, and lanes of different parts never conflict ("phases" of eight
//! threads: NVIDIA, GTC 2019, S9593).
//!
//! Loads of shared memory have an exception, which register-blocked products live from: where every lane has the
//! address of its neighbour `lane ^ 1`, or every lane that of `lane ^ 2`, two parts go together, because their results
//! are returned packed. 8 bytes then take one part and 16 bytes two (a 16-byte load never fewer: NervanaSystems/maxas,
//! issue 8; the rule itself: NVIDIA's developer forum, topic 77228). Nobody has said that stores do so, and they are
//! not taken to.
//!
//! Atomics on one word are executed one after another, so every lane counts.
//!
//! Loads of device memory pass the same banks, which hold the lines of the L1 cache too (Nsight Compute counts both as
//! `l1tex__data_pipe_lsu_wavefronts`). Their parts never go together: the times of matrix products whose operands are
//! read from device memory, on three GPUs, agree with passes that are counted part by part
//! (docs/decisions/0068-passes-and-issue.md).
//!
//! The ideal is one wavefront per part; wavefronts beyond it are bank conflicts.

use super::access::lanes;
use super::pattern::Shape;

/// The memory and the direction of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryPath {
    Global,
    /// Loads of device memory: sectors, and passes through the data banks of the L1 cache.
    GlobalLoad,
    /// Constants: sectors as in device memory, and passes of their cache beyond the first.
    Constant,
    SharedLoad,
    SharedStore,
    SharedAtomic,
}

/// The cost of one execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Global sectors of 32 bytes.
    pub(crate) sectors: u32,
    pub(crate) sectors_ideal: u32,
    /// Distinct bytes.
    pub(crate) bytes: u32,
    /// Wavefronts through the banks of shared memory or the L1 cache.
    pub(crate) wavefronts: u32,
    pub(crate) wavefronts_ideal: u32,
}

/// Computes the cost of an access of `bytes` bytes per lane. The lanes' addresses are `first` plus `relative`.
pub(super) fn cost(
    way: MemoryPath,
    mask: u32,
    relative: &[u64; 32],
    first: u64,
    bytes: u32,
    shape: Shape,
) -> Cost {
    match way {
        MemoryPath::Global => sectors(mask, relative, first, bytes, shape),
        MemoryPath::GlobalLoad => Cost {
            wavefronts: wavefronts(way, mask, relative, first, bytes).wavefronts,
            ..sectors(mask, relative, first, bytes, shape)
        },
        MemoryPath::Constant => Cost {
            wavefronts: distinct_addresses(mask, relative) - 1,
            ..sectors(mask, relative, first, bytes, shape)
        },
        _ => wavefronts(way, mask, relative, first, bytes),
    }
}

/// The number of different addresses of the active lanes. The constant cache serves one at a time (CUDA C++ Programming
/// Guide, Device Memory Accesses, Constant Memory).
fn distinct_addresses(mask: u32, relative: &[u64; 32]) -> u32 {
    let mut addresses = Distinct::<32>::new();
    for lane in lanes(mask) {
        addresses.insert(relative[lane]);
    }
    addresses.count.max(1) as u32
}

/// Distinct numbers in the order of their first occurrence. A new one is compared only with those that have the same
/// remainder modulo 32, because these counts are made for every access with a new pattern.
struct Distinct<const N: usize> {
    numbers: [u64; N],
    count: usize,
    /// The last number with each remainder, as 1 + its index; 0 if there is none.
    last: [u8; 32],
    /// The number with the same remainder before each one, in the same form.
    before: [u8; N],
}

impl<const N: usize> Distinct<N> {
    fn new() -> Self {
        const { assert!(N < 256) };
        Self {
            numbers: [0; N],
            count: 0,
            last: [0; 32],
            before: [0; N],
        }
    }

    /// Adds a number. Returns its index, and true if it was not there before.
    fn insert(&mut self, number: u64) -> (usize, bool) {
        let last = &mut self.last[(number % 32) as usize];
        let mut at = *last;
        while at != 0 {
            let index = usize::from(at) - 1;
            if self.numbers[index] == number {
                return (index, false);
            }
            at = self.before[index];
        }
        let index = self.count;
        self.numbers[index] = number;
        self.before[index] = *last;
        self.count += 1;
        *last = self.count as u8;
        (index, true)
    }
}

/// Reports whether the active lanes' addresses are all different.
pub(super) fn all_different(mask: u32, relative: &[u64; 32]) -> bool {
    let mut addresses = Distinct::<32>::new();
    lanes(mask).all(|lane| addresses.insert(relative[lane]).1)
}

fn sectors(mask: u32, relative: &[u64; 32], first: u64, bytes: u32, shape: Shape) -> Cost {
    let size = u64::from(bytes);
    let (sectors, distinct) = match shape {
        Shape::Same => ((first + size - 1) / 32 - first / 32 + 1, size),
        Shape::Run => {
            let total = u64::from(mask.count_ones()) * size;
            ((first + total - 1) / 32 - first / 32 + 1, total)
        }
        Shape::Other => ascending(mask, relative, first, size)
            .unwrap_or_else(|| in_any_order(mask, relative, first, size)),
    };
    Cost {
        sectors: sectors as u32,
        sectors_ideal: distinct.div_ceil(32) as u32,
        bytes: distinct as u32,
        ..Cost::default()
    }
}

/// The sectors and the distinct bytes of accesses whose addresses ascend with the lanes, as most do; else none.
fn ascending(mask: u32, relative: &[u64; 32], first: u64, size: u64) -> Option<(u64, u64)> {
    let (mut sectors, mut distinct) = (0, 0);
    // The last address, the end of its access, and the first sector behind that.
    let (mut last, mut end, mut next) = (0, 0, 0);
    for lane in lanes(mask) {
        let start = first.wrapping_add(relative[lane]);
        if start < last {
            return None;
        }
        last = start;
        distinct += start + size - start.max(end);
        end = start + size;
        let behind = (end - 1) / 32 + 1;
        sectors += behind - next.max(start / 32);
        next = behind;
    }
    Some((sectors, distinct))
}

fn in_any_order(mask: u32, relative: &[u64; 32], first: u64, size: u64) -> (u64, u64) {
    // An access of at most 32 bytes touches at most two sectors. A bit per byte of each.
    let mut sectors = Distinct::<64>::new();
    let mut touched = [0u32; 64];
    for lane in lanes(mask) {
        let start = first.wrapping_add(relative[lane]);
        let end = start + (size - 1);
        for sector in start / 32..=end / 32 {
            let from = start.max(32 * sector) % 32;
            let to = end.min(32 * sector + 31) % 32;
            touched[sectors.insert(sector).0] |= u32::MAX >> (31 - (to - from)) << from;
        }
    }
    let touched = &touched[..sectors.count];
    let distinct = touched.iter().map(|bytes| u64::from(bytes.count_ones()));
    (sectors.count as u64, distinct.sum())
}

fn wavefronts(way: MemoryPath, mask: u32, relative: &[u64; 32], first: u64, bytes: u32) -> Cost {
    let active = |lane: usize| mask >> lane & 1 == 1;
    let alike = |step: usize| {
        (0..32).all(|lane| {
            !(active(lane) && active(lane ^ step)) || relative[lane] == relative[lane ^ step]
        })
    };
    let words_per_lane = u64::from(bytes.div_ceil(4).max(1));
    let parts = match words_per_lane {
        1 => 1,
        2 => 2,
        _ => 4,
    };
    let packed = way == MemoryPath::SharedLoad && parts > 1 && (alike(1) || alike(2));
    let lanes_per_part = 32 / if packed { parts / 2 } else { parts };
    let mut cost = Cost::default();
    for part in (0..32).step_by(lanes_per_part) {
        let lanes_of_part = (part..part + lanes_per_part).filter(|lane| active(*lane));
        let (mut lowest, mut highest) = (u64::MAX, 0);
        for lane in lanes_of_part.clone() {
            let start = first.wrapping_add(relative[lane]) / 4;
            lowest = lowest.min(start);
            highest = highest.max(start + words_per_lane - 1);
        }
        // As many neighbouring words as there are banks lie in different ones.
        if way != MemoryPath::SharedAtomic && lowest <= highest && highest - lowest < 32 {
            cost.wavefronts += 1;
            cost.wavefronts_ideal += 1;
            continue;
        }
        // At most 32 lanes of one word, or 16 lanes of 8 words.
        let mut words = Distinct::<128>::new();
        let mut load = [0u32; 32];
        let mut busiest = 0;
        for lane in lanes_of_part {
            let start = first.wrapping_add(relative[lane]) / 4;
            for word in start..start + words_per_lane {
                if way == MemoryPath::SharedAtomic || words.insert(word).1 {
                    let load = &mut load[(word % 32) as usize];
                    *load += 1;
                    busiest = busiest.max(*load);
                }
            }
        }
        cost.wavefronts += busiest;
        cost.wavefronts_ideal += u32::from(busiest > 0);
    }
    cost
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicU32;

    use proptest::prelude::*;

    use super::super::exec::SectorMarks;
    use super::super::pattern::Pattern;
    use super::*;

    const ALL: u32 = u32::MAX;

    fn observed(way: MemoryPath, bytes: u32, mask: u32, address: fn(u64) -> u64) -> Cost {
        let addresses = std::array::from_fn(|lane| address(lane as u64));
        let mut pattern = Pattern::default();
        let first = pattern.observe(mask, &addresses, bytes);
        pattern.update_cost(first, bytes, way);
        pattern.cost
    }

    #[test]
    fn hand_counted_sectors() {
        /// Bytes of a lane, lanes, where each reads, and what that makes: sectors, ideal sectors, distinct bytes.
        type Case = (&'static str, u32, u32, fn(u64) -> u64, (u32, u32, u32));
        let cases: &[Case] = &[
            ("coalesced words", 4, ALL, |l| 4 * l, (4, 4, 128)),
            ("coalesced bytes", 1, ALL, |l| l, (1, 1, 32)),
            ("coalesced halves", 2, ALL, |l| 2 * l, (2, 2, 64)),
            ("coalesced pairs", 8, ALL, |l| 8 * l, (8, 8, 256)),
            ("coalesced quads", 16, ALL, |l| 16 * l, (16, 16, 512)),
            ("half a sector off", 4, ALL, |l| 16 + 4 * l, (5, 4, 128)),
            ("one word off", 4, ALL, |l| 4 + 4 * l, (5, 4, 128)),
            ("a sector off", 4, ALL, |l| 32 + 4 * l, (4, 4, 128)),
            ("backwards", 4, ALL, |l| 4096 - 4 * l, (5, 4, 128)),
            ("permuted in place", 4, ALL, |l| 4 * (l ^ 13), (4, 4, 128)),
            ("every second word", 4, ALL, |l| 8 * l, (8, 4, 128)),
            ("every eighth word", 4, ALL, |l| 32 * l, (32, 4, 128)),
            ("a column of a matrix", 4, ALL, |l| 4096 * l, (32, 4, 128)),
            ("one word for all", 4, ALL, |_| 100, (1, 1, 4)),
            (
                "one word for each half",
                4,
                ALL,
                |l| 512 * (l / 16),
                (2, 1, 8),
            ),
            (
                "rows of four words",
                4,
                ALL,
                |l| 4 * (l % 4) + 256 * (l / 4),
                (8, 4, 128),
            ),
            ("one lane", 4, 1 << 7, |l| 4 * l, (1, 1, 4)),
            ("the lower half", 4, 0xffff, |l| 4 * l, (2, 2, 64)),
            ("even lanes", 4, 0x5555_5555, |l| 4 * l, (4, 2, 64)),
            ("nine lanes in a row", 4, 0x1ff, |l| 4 * l, (2, 2, 36)),
            (
                "pairs shared by neighbours",
                8,
                ALL,
                |l| 8 * (l / 2),
                (4, 4, 128),
            ),
        ];
        for (name, bytes, mask, address, expected) in cases {
            let cost = observed(MemoryPath::Global, *bytes, *mask, *address);
            let found = (cost.sectors, cost.sectors_ideal, cost.bytes);
            assert_eq!(found, *expected, "{name}");
        }
    }

    #[test]
    fn loads_of_device_memory_pass_the_banks_part_by_part() {
        /// Bytes of a lane, where each reads, and what that makes: sectors and wavefronts.
        type Case = (&'static str, u32, fn(u64) -> u64, (u32, u32));
        let cases: &[Case] = &[
            ("words", 4, |l| 4 * l, (4, 1)),
            ("quads", 16, |l| 16 * l, (16, 4)),
            ("one word for all", 4, |_| 100, (1, 1)),
            ("one pair for all", 8, |_| 24, (1, 2)),
            ("one quad for all", 16, |_| 32, (1, 4)),
            ("neighbours share a quad", 16, |l| 16 * (l / 2), (8, 4)),
            ("a column of a matrix", 4, |l| 4096 * l, (32, 32)),
            ("a column of an odd width", 4, |l| 4100 * l, (32, 1)),
            ("quads of rows of 64 bytes", 16, |l| 64 * l, (32, 16)),
        ];
        for (name, bytes, address, expected) in cases {
            let cost = observed(MemoryPath::GlobalLoad, *bytes, ALL, *address);
            assert_eq!((cost.sectors, cost.wavefronts), *expected, "{name}");
            let stored = observed(MemoryPath::Global, *bytes, ALL, *address);
            assert_eq!(
                (stored.sectors, stored.wavefronts),
                (expected.0, 0),
                "{name}"
            );
        }
    }

    #[test]
    fn hand_counted_wavefronts_of_loads() {
        /// Bytes of a lane, lanes, where each reads, and what that makes: wavefronts and ideal wavefronts.
        type Case = (&'static str, u32, u32, fn(u64) -> u64, (u32, u32));
        let cases: &[Case] = &[
            // One word or less: the warp at once.
            ("words", 4, ALL, |l| 4 * l, (1, 1)),
            ("bytes", 1, ALL, |l| l, (1, 1)),
            ("halves", 2, ALL, |l| 2 * l, (1, 1)),
            ("halves of every word", 2, ALL, |l| 4 * l, (1, 1)),
            ("shifted words", 4, ALL, |l| 68 + 4 * l, (1, 1)),
            ("permuted words", 4, ALL, |l| 4 * (31 - l), (1, 1)),
            ("broadcast", 4, ALL, |_| 64, (1, 1)),
            ("two words, one bank", 4, ALL, |l| 128 * (l % 2), (2, 1)),
            ("multicast to pairs", 4, ALL, |l| 4 * (l / 2), (1, 1)),
            ("multicast, eight words", 4, ALL, |l| 16 * (l / 4), (1, 1)),
            ("2-way", 4, ALL, |l| 8 * l, (2, 1)),
            ("4-way", 4, ALL, |l| 16 * l, (4, 1)),
            ("8-way", 4, ALL, |l| 32 * l, (8, 1)),
            ("a column of 32 words", 4, ALL, |l| 128 * l, (32, 1)),
            ("the column padded", 4, ALL, |l| 132 * l, (1, 1)),
            ("an odd stride", 4, ALL, |l| 12 * l, (1, 1)),
            (
                "the column swizzled",
                4,
                ALL,
                |l| 128 * l + 4 * (l ^ 5),
                (1, 1),
            ),
            (
                "the column for half a warp",
                4,
                0xffff,
                |l| 128 * l,
                (16, 1),
            ),
            (
                "a tile of 8 by 4",
                4,
                ALL,
                |l| 4 * (l % 8) + 128 * (l / 8),
                (4, 1),
            ),
            ("one lane", 4, 1, |l| 128 * l, (1, 1)),
            // Two words: half a warp at a time.
            ("pairs", 8, ALL, |l| 8 * l, (2, 2)),
            ("pairs of the lower half", 8, 0xffff, |l| 8 * l, (1, 1)),
            (
                "the same pairs for both halves",
                8,
                ALL,
                |l| 8 * (l % 16),
                (2, 2),
            ),
            ("pairs 128 bytes apart", 8, ALL, |l| 128 * l, (32, 2)),
            ("pairs 16 bytes apart", 8, ALL, |l| 16 * l, (4, 2)),
            ("padded pairs", 8, ALL, |l| 136 * l, (2, 2)),
            ("one pair for all", 8, ALL, |_| 24, (1, 1)),
            ("neighbours share a pair", 8, ALL, |l| 8 * (l / 2), (1, 1)),
            ("lane and lane ^ 2 share", 8, ALL, |l| 8 * (l & !2), (2, 1)),
            ("lane and lane ^ 4 share", 8, ALL, |l| 8 * (l % 4), (2, 2)),
            // Four words: a quarter at a time.
            ("quads", 16, ALL, |l| 16 * l, (4, 4)),
            ("quads of one quarter", 16, 0xff, |l| 16 * l, (1, 1)),
            ("quads of three quarters", 16, 0xff_ffff, |l| 16 * l, (3, 3)),
            (
                "the same quads for all quarters",
                16,
                ALL,
                |l| 16 * (l % 8),
                (4, 4),
            ),
            ("rows of 128 bytes", 16, ALL, |l| 128 * l, (32, 4)),
            ("rows of 144 bytes", 16, ALL, |l| 144 * l, (4, 4)),
            ("rows of 64 bytes", 16, ALL, |l| 64 * l, (16, 4)),
            ("rows swizzled", 16, ALL, |l| 128 * l + 16 * (l % 8), (4, 4)),
            ("quarters, each 2-way", 16, ALL, |l| 32 * l, (8, 4)),
            ("one quad for all", 16, ALL, |_| 32, (2, 2)),
            ("one quad for all of a quarter", 16, 0xff, |_| 32, (1, 1)),
            ("one quad a quarter", 16, ALL, |l| 128 * (l / 8), (4, 2)),
            ("four lanes share a quad", 16, ALL, |l| 16 * (l / 4), (2, 2)),
            ("neighbours share a quad", 16, ALL, |l| 16 * (l / 2), (2, 2)),
            (
                "a column of a blocked product",
                16,
                ALL,
                |l| 16 * (l / 8),
                (2, 2),
            ),
            ("its rows, two by turns", 16, ALL, |l| 16 * (l % 2), (2, 2)),
            ("its rows, four by turns", 16, ALL, |l| 16 * (l % 4), (4, 4)),
        ];
        for (name, bytes, mask, address, expected) in cases {
            let cost = observed(MemoryPath::SharedLoad, *bytes, *mask, *address);
            let found = (cost.wavefronts, cost.wavefronts_ideal);
            assert_eq!(found, *expected, "{name}");
        }
    }

    #[test]
    fn hand_counted_wavefronts_of_stores_and_atomics() {
        type Case = (&'static str, MemoryPath, u32, fn(u64) -> u64, (u32, u32));
        let cases: &[Case] = &[
            ("words", MemoryPath::SharedStore, 4, |l| 4 * l, (1, 1)),
            ("one word", MemoryPath::SharedStore, 4, |_| 0, (1, 1)),
            ("halves", MemoryPath::SharedStore, 2, |l| 2 * l, (1, 1)),
            ("a column", MemoryPath::SharedStore, 4, |l| 128 * l, (32, 1)),
            (
                "a padded column",
                MemoryPath::SharedStore,
                4,
                |l| 132 * l,
                (1, 1),
            ),
            ("pairs", MemoryPath::SharedStore, 8, |l| 8 * l, (2, 2)),
            (
                "shared pairs",
                MemoryPath::SharedStore,
                8,
                |l| 8 * (l / 2),
                (2, 2),
            ),
            ("quads", MemoryPath::SharedStore, 16, |l| 16 * l, (4, 4)),
            ("one quad", MemoryPath::SharedStore, 16, |_| 0, (4, 4)),
            ("rows", MemoryPath::SharedStore, 16, |l| 128 * l, (32, 4)),
            (
                "rows padded",
                MemoryPath::SharedStore,
                16,
                |l| 144 * l,
                (4, 4),
            ),
            (
                "own counters",
                MemoryPath::SharedAtomic,
                4,
                |l| 4 * l,
                (1, 1),
            ),
            ("one counter", MemoryPath::SharedAtomic, 4, |_| 0, (32, 1)),
            (
                "four counters",
                MemoryPath::SharedAtomic,
                4,
                |l| 4 * (l % 4),
                (8, 1),
            ),
            (
                "one bank",
                MemoryPath::SharedAtomic,
                4,
                |l| 128 * l,
                (32, 1),
            ),
        ];
        for (name, way, bytes, address, expected) in cases {
            let cost = observed(*way, *bytes, ALL, *address);
            let found = (cost.wavefronts, cost.wavefronts_ideal);
            assert_eq!(found, *expected, "{name}, {way:?}");
        }
    }

    proptest! {
        /// Costs are those of sets of sectors, bytes and words, for lanes in any order and with any gaps.
        #[test]
        fn costs_are_those_of_sets(
            mask in 1u32..,
            slots in proptest::collection::vec(0u64..200, 32),
            bytes in (0u32..5).prop_map(|log2| 1 << log2),
            offset in 0u64..64,
        ) {
            let size = u64::from(bytes);
            let addresses: [u64; 32] = std::array::from_fn(|lane| 4096 + (slots[lane] + offset) * size);
            let lanes: Vec<usize> = lanes(mask).collect();
            let cost = |way| {
                let mut pattern = Pattern::default();
                let first = pattern.observe(mask, &addresses, bytes);
                pattern.update_cost(first, bytes, way);
                pattern.cost
            };

            let touched: BTreeSet<u64> = lanes
                .iter()
                .flat_map(|lane| addresses[*lane]..addresses[*lane] + size)
                .collect();
            let sectors: BTreeSet<u64> = touched.iter().map(|byte| byte / 32).collect();
            let global = cost(MemoryPath::Global);
            prop_assert_eq!(global.sectors as usize, sectors.len());
            prop_assert_eq!(global.bytes as usize, touched.len());
            prop_assert_eq!(global.sectors_ideal as usize, touched.len().div_ceil(32));
            let different: BTreeSet<u64> = lanes.iter().map(|lane| addresses[*lane]).collect();
            prop_assert_eq!(cost(MemoryPath::Constant).wavefronts as usize, different.len() - 1);

            let per_part = (32 / (size as usize / 4).max(1)).min(32);
            let parts = (0..32).step_by(per_part).filter_map(|part| {
                let mut load = [0; 32];
                let words: BTreeSet<u64> = lanes
                    .iter()
                    .filter(|lane| (part..part + per_part).contains(*lane))
                    .flat_map(|lane| addresses[*lane] / 4..(addresses[*lane] + size).div_ceil(4))
                    .collect();
                for word in &words {
                    load[(word % 32) as usize] += 1;
                }
                load.into_iter().max().filter(|_| !words.is_empty())
            });
            let parts: Vec<u32> = parts.collect();
            let store = cost(MemoryPath::SharedStore);
            prop_assert_eq!(store.wavefronts, parts.iter().sum::<u32>());
            prop_assert_eq!(store.wavefronts_ideal as usize, parts.len());
        }

        /// A shape that was seen at other bases costs at each base what it costs there alone.
        #[test]
        fn a_shape_costs_at_each_base_what_it_costs_there_alone(
            mask in 1u32..,
            relative in proptest::collection::vec(0u64..2000, 32),
            bases in proptest::collection::vec(2048u64..4096, 1..40),
            bytes in (0u32..5).prop_map(|log2| 1 << log2),
        ) {
            let access = |pattern: &mut Pattern, base: u64| {
                let addresses = std::array::from_fn(|lane| base + relative[lane]);
                let first = pattern.observe(mask, &addresses, bytes);
                pattern.update_cost(first, bytes, MemoryPath::Global);
                let touched: [AtomicU32; 16] = Default::default();
                let marks = SectorMarks { bits: &touched, written_first: None, waves: None };
                pattern.mark_sectors(marks, first, bytes);
                (pattern.cost, touched.map(AtomicU32::into_inner))
            };
            let mut kept = Pattern::default();
            for base in bases {
                prop_assert_eq!(access(&mut kept, base), access(&mut Pattern::default(), base));
            }
        }
    }
}
