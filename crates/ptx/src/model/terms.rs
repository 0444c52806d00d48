//! The bound of each resource: the cycles that a launch needs of it if nothing else limited the launch.

use serde::{Deserialize, Serialize};

use super::Cache;
use crate::device::Device;
use crate::report::{BlockReads, Classes, Counters, Tally, WorkingSet};

/// Lanes of a warp (PTX ISA: `WARP_SZ`).
const LANES: f64 = 32.0;
/// Size of a sector in bytes, the unit of global memory transactions.
const SECTOR: f64 = 32.0;
/// Share, from 0 to 1, of PTX moves and of constant or parameter loads that survive in machine code; ptxas folds the
/// others into the instructions that use them. An estimate, not measured.
const SURVIVING_MOVES: f64 = 0.25;
/// Size of a register in bytes, which a spill stores or loads.
const SPILLED_WORD: f64 = 4.0;
/// L2 accesses of one atomic: a read and a write.
const ATOMIC_PASSES: f64 = 2.0;

/// A resource that bounds a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// The schedulers' issue slots.
    Issue,
    /// Single precision units.
    Fp32,
    /// Half precision units.
    Fp16,
    /// Double precision units.
    Fp64,
    /// Integer and logic units.
    Integer,
    /// Special function units.
    Special,
    /// Conversions between types.
    Conversion,
    /// Load-store units.
    LoadStore,
    /// Tensor cores.
    Tensor,
    /// Shared memory passes, with the shuffles that use the same crossbar. The first level cache, which has the same
    /// banks, is added where it takes less time.
    SharedWavefronts,
    /// Sectors through the first level cache, or its passes if they take longer. Shared memory, which has the same
    /// banks, is added where it takes less time.
    L1Sectors,
    /// Bytes through the second level cache.
    L2Bytes,
    /// Atomics on one word, which the second level cache executes one after another.
    AtomicContention,
    /// Bytes from and to DRAM.
    DramBytes,
    /// The time until the last block has ended, if each takes its critical path: latency that nothing hides.
    CriticalPath,
    /// The fixed cost of a launch.
    Launch,
}

/// The distribution of the blocks over the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placement {
    /// Multiprocessors that have a block.
    pub active: f64,
    /// Share of all blocks that the busiest multiprocessor executes.
    pub busiest_share: f64,
    /// Warps it holds at once.
    pub busiest_warps: f64,
    /// Rounds of resident blocks.
    pub rounds: f64,
    /// Bytes of the L1 cache that each resident block has.
    pub l1_bytes_of_block: f64,
}

/// Warp accesses to local memory by the compiler's spills. The instructions between which it put them are unknown. Each
/// counts as executed as often as another one of those that were executed most often, so that code that is seldom
/// executed makes no spill cheaper.
pub(super) fn spilled(counters: &Counters, bytes: u32) -> f64 {
    let spills = f64::from(bytes) / SPILLED_WORD;
    // The sums of the 1, 2, 4, 8... largest counts, between which the sum grows evenly.
    let (mut number, mut sum) = (0.0, 0.0);
    for (power, next_sum) in counters.hottest_places.iter().enumerate() {
        let next = 2f64.powi(power as i32).min(counters.places as f64);
        let next_sum = *next_sum as f64;
        if spills < next {
            return sum + (next_sum - sum) * (spills - number) / (next - number);
        }
        (number, sum) = (next, next_sum);
    }
    sum
}

/// Every resource's bound in core cycles.
pub(super) fn bounds(
    counters: &Counters,
    spilled: f64,
    placement: Placement,
    device: &Device,
    cache: Cache,
) -> Vec<(Term, f64)> {
    let tally = &counters.total;
    let classes = &tally.classes;
    let rates = &device.rates;
    let memory = &device.memory;

    // Work of the busiest multiprocessor. Where the blocks were not placed, it is that of an even share of them, and no
    // less than what one block does by itself.
    let placed = counters.busiest_multiprocessor.as_ref();
    let heaviest = placed.map_or(&counters.heaviest_block, |placed| &placed.work);
    let share = match placed {
        Some(_) => 1.0 / placement.active,
        None => placement.busiest_share,
    };
    let busiest = |all: f64, heaviest: f64| (all * share).max(heaviest);
    // Warp instructions over a rate in lanes per clock. A warp stays with one scheduler and that scheduler's units, so
    // fewer warps than schedulers leave units idle.
    let lanes = |instructions: fn(&Classes) -> u64, rate: f64| {
        let work = busiest(
            instructions(classes) as f64,
            instructions(&heaviest.classes) as f64,
        );
        work * LANES / rate
    };
    let used = (placement.busiest_warps / rates.warp_instructions).min(1.0);

    let accesses = |classes: &Classes| {
        classes.load_global
            + classes.store_global
            + classes.load_shared
            + classes.store_shared
            + classes.local
            + classes.atomic_global
            + classes.atomic_shared
            + classes.async_copy
    };
    let traffic = traffic(counters, spilled, placement, device, cache);
    // Shared memory and the L1 cache are one memory with one set of banks, so that their cycles add up. The sum stands
    // with the one that takes more of them.
    let passes = tally.shared.wavefronts + tally.global.l1_wavefronts;
    let pass = busiest(passes as f64, heaviest.wavefronts as f64)
        / passes.max(1) as f64
        / rates.shared_wavefronts;
    let shared =
        tally.shared.wavefronts as f64 * pass + lanes(|classes| classes.warp, rates.shuffle);
    let sectors_of_busiest = busiest(
        traffic.l1_bytes,
        heaviest.sectors as f64 * SECTOR + heaviest.local_bytes as f64,
    ) / memory.l1_bytes_per_clock;
    let cached = (tally.global.l1_wavefronts as f64 * pass).max(sectors_of_busiest);
    let [shared, cached] = if cached > shared {
        [shared, shared + cached]
    } else {
        [shared + cached, cached]
    };
    let spilled_on_busiest = spilled * placement.busiest_share;
    let sectors = global_sectors(tally).max(1.0);
    let second_level_of_heaviest = traffic.l2_bytes * heaviest.sectors as f64 / sectors;

    vec![
        (
            Term::Issue,
            (busiest(issued(classes), issued(&heaviest.classes)) + spilled_on_busiest)
                / (rates.warp_instructions * used),
        ),
        (Term::Fp32, lanes(|classes| classes.fp32, rates.fp32 * used)),
        (Term::Fp16, lanes(|classes| classes.fp16, rates.fp16 * used)),
        (Term::Fp64, lanes(|classes| classes.fp64, rates.fp64 * used)),
        (
            Term::Integer,
            lanes(|classes| classes.integer, rates.integer * used),
        ),
        (
            Term::Special,
            lanes(|classes| classes.special, rates.special * used),
        ),
        (
            Term::Conversion,
            lanes(|classes| classes.conversion, rates.conversion * used)
                + lanes(
                    |classes| classes.wide_conversion,
                    rates.wide_conversion * used,
                ),
        ),
        (
            Term::LoadStore,
            lanes(accesses, rates.load_store)
                + spilled_on_busiest * LANES / rates.load_store
                + busiest(
                    classes.constant_replays as f64,
                    heaviest.classes.constant_replays as f64,
                ) / rates.constant_addresses,
        ),
        (
            Term::Tensor,
            busiest(tally.tensor_macs as f64, heaviest.tensor_macs as f64)
                / (rates.tensor_macs * used),
        ),
        (Term::SharedWavefronts, shared),
        (Term::L1Sectors, cached),
        (
            Term::L2Bytes,
            (traffic.l2_bytes
                / memory
                    .l2_bytes_per_clock
                    .min(placement.active * memory.l2_bytes_per_clock_per_multiprocessor))
            .max(second_level_of_heaviest / memory.l2_bytes_per_clock_per_multiprocessor),
        ),
        (
            Term::AtomicContention,
            counters.most_atomics_on_one_word as f64 / memory.atomics_per_clock_on_one_word,
        ),
        (
            Term::DramBytes,
            traffic.dram_bytes / dram_bytes_per_cycle(device),
        ),
        (
            Term::CriticalPath,
            placed.map_or_else(
                || {
                    (placement.rounds - 1.0) * counters.critical_path_mean
                        + counters.critical_path_max as f64
                },
                |placed| placed.cycles as f64,
            ),
        ),
    ]
}

/// Bytes that cross each level of the memory, as the model sees a launch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Through shared memory's banks: 128 for each pass, used or not.
    pub shared_bytes: f64,
    /// Through the first level caches, in whole sectors; the threads' stacks included.
    pub l1_bytes: f64,
    /// Through the second level cache.
    pub l2_bytes: f64,
    /// From and to DRAM.
    pub dram_bytes: f64,
}

/// Size of one shared memory wavefront in bytes: 32 banks of 4 bytes.
const WAVEFRONT: f64 = 128.0;

pub(super) fn traffic(
    counters: &Counters,
    spilled: f64,
    placement: Placement,
    device: &Device,
    cache: Cache,
) -> Traffic {
    let tally = &counters.total;
    Traffic {
        shared_bytes: tally.shared.wavefronts as f64 * WAVEFRONT,
        l1_bytes: global_sectors(tally) * SECTOR
            + tally.local_bytes as f64
            + spilled * LANES * SPILLED_WORD,
        l2_bytes: second_level_bytes(counters, placement.l1_bytes_of_block / SECTOR),
        dram_bytes: dram_bytes(counters, device.memory.l2_bytes as f64, cache),
    }
}

/// Machine instructions the schedulers issue, estimated from PTX instructions.
fn issued(classes: &Classes) -> f64 {
    let folded = classes.moves + classes.constant;
    let kept = classes.fp32
        + classes.fp16
        + classes.fp64
        + classes.integer
        + classes.special
        + classes.conversion
        + classes.wide_conversion
        + classes.load_global
        + classes.store_global
        + classes.load_shared
        + classes.store_shared
        + classes.local
        + classes.constant_replays
        + classes.atomic_global
        + classes.atomic_shared
        + classes.async_copy
        + classes.tensor
        + classes.warp
        + classes.branch
        + classes.barrier
        + classes.other;
    kept as f64 + folded as f64 * SURVIVING_MOVES
}

fn global_sectors(tally: &Tally) -> f64 {
    (tally.global.sectors_read + tally.global.sectors_written) as f64
}

/// Bytes that reach the second level: writes, reads past the first level cache, and the other reads that miss it. The
/// mean block, which has `l1_sectors` sectors of that cache, tells which part of them do.
fn second_level_bytes(counters: &Counters, l1_sectors: f64) -> f64 {
    let tally = &counters.total;
    let past = counters.sectors_read_past_l1.min(tally.global.sectors_read) as f64;
    let missed = counters.block_reads.as_ref().map_or(1.0, |reads| {
        missed_by_block(reads, l1_sectors) / reads.sectors
    });
    let reads = past + (tally.global.sectors_read as f64 - past) * missed;
    let atomics = tally.classes.atomic_global as f64 * (ATOMIC_PASSES - 1.0);
    (reads + tally.global.sectors_written as f64 + atomics) * SECTOR
}

/// Sectors that the reads of a block miss in its share of the first level cache: each at its first read, and again if it
/// was evicted before its next one.
fn missed_by_block(reads: &BlockReads, l1_sectors: f64) -> f64 {
    let sets = reads.working_sets.iter();
    let sets = sets.map(|set| (set.cycles as f64, set.sectors));
    let missed = growth(sets, l1_sectors).unwrap_or(0.0) * reads.cycles;
    missed.clamp(reads.distinct_sectors, reads.sectors)
}

/// Bytes that reach DRAM. Every distinct sector read comes from there once, but for the share that a warm cache holds
/// already, and again if it was evicted before its next use. Sectors written, and those that earlier work left in the
/// second level cache, are found there as far as all of them fit. Those that persist there stay, and leave the others
/// less room.
fn dram_bytes(counters: &Counters, l2_bytes: f64, cache: Cache) -> f64 {
    let persisting = counters.persisting.unwrap_or_default();
    let read = counters.unique_sectors_read as f64;
    let found = counters
        .cached_sectors_read
        .min(counters.unique_sectors_read);
    let ordinary_read = (counters.unique_sectors_read - persisting.read) as f64;
    let ordinary_found = (found - persisting.found.min(found)) as f64;
    let ordinary_written = (counters.unique_sectors_written - persisting.written) as f64;
    let ordinary_cached = (counters.cached_sectors - persisting.held) as f64;
    let working_set = (ordinary_read + ordinary_written).max(ordinary_cached) * SECTOR;
    let room = (l2_bytes - persisting.held as f64 * SECTOR).max(0.0);
    let lost = missed(working_set, room);
    let fetched = match cache {
        Cache::Cold => 1.0,
        Cache::Warm { read_before } => missed(working_set.max(read_before as f64), room),
    };
    let again = fetched_again(&counters.working_sets, room / SECTOR);
    ((read - found as f64) * fetched + (ordinary_found + ordinary_written) * lost + again) * SECTOR
}

/// Sectors that a cache of `capacity` sectors has evicted when they are used again, each time counted. A wave whose own
/// working set exceeds the cache fetches each of its sectors once, because its blocks run at the same time.
fn fetched_again(working_sets: &[WorkingSet], capacity: f64) -> f64 {
    let sets = working_sets.iter();
    let sets = sets.map(|set| (set.waves as f64, set.sectors as f64));
    match (growth(sets, capacity), working_sets.last()) {
        (Some(missed), Some(all)) => (missed * all.waves as f64 - all.sectors as f64).max(0.0),
        _ => 0.0,
    }
}

/// The sectors that a cache of `capacity` sectors misses in each unit of the working sets' lengths, given as length and
/// sectors; none if the longest fits.
///
/// A cache that evicts what was not used for the longest time holds what was used last. Where it is full, it misses as
/// many sectors as the working set grows by (Xiang, Ding, Luo, Bao: HOTL, a higher order theory of locality, ASPLOS
/// 2013).
fn growth(mut sets: impl Iterator<Item = (f64, f64)>, capacity: f64) -> Option<f64> {
    let mut full = (0.0, 0.0);
    let longer = sets.find(|set| {
        let fits = set.1 <= capacity;
        full = if fits { *set } else { full };
        !fits
    })?;
    Some((longer.1 - full.1) / (longer.0 - full.0))
}

/// The share of `bytes` that does not fit into the cache.
fn missed(bytes: f64, l2_bytes: f64) -> f64 {
    if bytes > l2_bytes {
        1.0 - l2_bytes / bytes
    } else {
        0.0
    }
}

fn dram_bytes_per_cycle(device: &Device) -> f64 {
    let bytes_per_microsecond =
        device.memory.dram_gigabytes_per_second * 1e3 * device.memory.dram_efficiency;
    bytes_per_microsecond / device.cycles_per_microsecond()
}
