use proptest::prelude::*;

use super::*;
use crate::report::{
    BlockReads, Classes, GlobalTraffic, PersistingSectors, ReadSet, SharedTraffic, Tally,
    WorkingSet,
};

fn l4() -> Device {
    Device::embedded("l4").expect("embedded")
}

fn shape(blocks: u32, threads: u32) -> Shape {
    Shape {
        grid: [blocks, 1, 1],
        footprint: Footprint {
            threads,
            registers: 64,
            shared_bytes: 0,
        },
        spilled_bytes: 0,
    }
}

/// A launch of `blocks` equal blocks, each with this many of the given instructions and this critical path.
fn arithmetic(blocks: u64, fp32_per_block: u64, critical_path: u64) -> Counters {
    Counters {
        blocks,
        total: Tally {
            warp_instructions: blocks * fp32_per_block,
            classes: Classes {
                fp32: blocks * fp32_per_block,
                ..Classes::default()
            },
            ..Tally::default()
        },
        critical_path_max: critical_path,
        critical_path_mean: critical_path as f64,
        ..Counters::default()
    }
}

fn streaming(sectors: u64) -> Counters {
    Counters {
        total: Tally {
            global: GlobalTraffic {
                sectors_read: sectors,
                sectors_read_ideal: sectors,
                ..GlobalTraffic::default()
            },
            ..Tally::default()
        },
        unique_sectors_read: sectors,
        ..Counters::default()
    }
}

#[test]
fn a_starved_grid_is_bound_by_its_critical_path_and_gains_from_a_split() {
    // Two blocks of 8 warps walk 4096 keys; split eight ways, sixteen blocks walk 512 keys each and a second, small
    // launch combines. The split does more work in total and must still win.
    let whole = modelled(
        &arithmetic(2, 200_000, 120_000),
        shape(2, 256),
        &l4(),
        Cache::Cold,
    );
    let split = modelled(
        &arithmetic(16, 26_000, 15_600),
        shape(16, 256),
        &l4(),
        Cache::Cold,
    );
    let combine = modelled(
        &arithmetic(2, 500, 2_000),
        shape(2, 256),
        &l4(),
        Cache::Cold,
    );
    assert_eq!(whole.bottleneck, Term::CriticalPath);
    assert!(whole.waves < 0.05, "{}", whole.waves);
    assert!(split.microseconds + combine.microseconds < whole.microseconds / 3.0);
}

#[test]
fn a_full_grid_gains_nothing_from_a_split() {
    let whole = modelled(
        &arithmetic(580, 20_000, 12_000),
        shape(580, 256),
        &l4(),
        Cache::Cold,
    );
    let split = modelled(
        &arithmetic(4640, 2_600, 1_560),
        shape(4640, 256),
        &l4(),
        Cache::Cold,
    );
    assert!(split.microseconds > whole.microseconds);
}

#[test]
fn the_bottleneck_is_the_resource_that_dominates() {
    let tally = |edit: fn(&mut Counters)| {
        let mut counters = Counters::default();
        edit(&mut counters);
        modelled(&counters, shape(58, 256), &l4(), Cache::Cold).bottleneck
    };
    assert_eq!(tally(|_| ()), Term::Launch);
    assert_eq!(tally(|c| c.total.tensor_macs = 1 << 40), Term::Tensor);
    assert_eq!(tally(|c| c.total.classes.special = 1 << 30), Term::Special);
    assert_eq!(
        tally(|c| {
            c.total.shared = SharedTraffic {
                wavefronts: 1 << 30,
                ..SharedTraffic::default()
            }
        }),
        Term::SharedWavefronts
    );
    assert_eq!(
        modelled(&streaming(1 << 28), shape(5800, 256), &l4(), Cache::Cold).bottleneck,
        Term::DramBytes
    );
}

#[test]
fn streaming_a_gigabyte_takes_what_the_data_sheet_says() {
    let time = modelled(
        &streaming((1 << 30) / 32),
        shape(5800, 256),
        &l4(),
        Cache::Cold,
    );
    // 1.0737 GB at 85 % of 300 GB/s are 4.21 ms.
    let expected = 4210.0;
    assert!((time.terms[&Term::DramBytes] / expected - 1.0).abs() < 0.01);
    assert!(time.microseconds >= expected && time.microseconds < expected * 1.05);
    assert!(time.share > 0.9);
}

#[test]
fn results_that_fit_the_second_level_cache_do_not_wait_for_dram() {
    let written = |sectors: u64| {
        let mut counters = streaming(1000);
        counters.total.global.sectors_written = sectors;
        counters.unique_sectors_written = sectors;
        modelled(&counters, shape(5800, 256), &l4(), Cache::Cold).terms[&Term::DramBytes]
    };
    assert_eq!(written(1000), written(0));
    // A gigabyte is 21 times the cache.
    assert!(written((1 << 30) / 32) > 0.9 * 4210.0);
}

#[test]
fn what_an_earlier_launch_left_in_the_cache_is_not_fetched_again() {
    let time = |sectors: u64, cached: u64| {
        let mut counters = streaming(sectors);
        counters.cached_sectors_read = cached;
        modelled(&counters, shape(5800, 256), &l4(), Cache::Cold).terms[&Term::DramBytes]
    };
    assert_eq!(time(100_000, 100_000), 0.0);
    assert_eq!(time(100_000, 50_000), time(50_000, 0));
    let huge = (1 << 30) / 32;
    assert!(time(huge, huge) > 0.9 * time(huge, 0));
}

#[test]
fn what_persists_in_the_cache_is_not_evicted_and_leaves_the_others_less_room() {
    let l2 = l4().memory.l2_bytes / 32;
    let dram = |persisting: Option<PersistingSectors>| {
        let mut counters = streaming(2 * l2);
        counters.cached_sectors_read = l2 / 2;
        counters.cached_sectors = 2 * l2;
        counters.persisting = persisting;
        let time = modelled(&counters, shape(5800, 256), &l4(), Cache::Cold);
        time.traffic.dram_bytes / (32 * l2) as f64
    };
    // Half the cache's sectors are read again. Of twice the cache a half is lost.
    assert_eq!(dram(None), 1.75);
    let all = PersistingSectors {
        held: l2 / 2,
        read: l2 / 2,
        found: l2 / 2,
        written: 0,
    };
    assert_eq!(dram(Some(all)), 1.5);
    // The same part is held for others: of twice the cache three quarters are lost.
    let others = PersistingSectors {
        held: l2 / 2,
        ..PersistingSectors::default()
    };
    assert_eq!(dram(Some(others)), 1.5 + 0.5 * 0.75);
}

#[test]
fn sectors_used_again_come_from_dram_only_if_the_cache_evicted_them() {
    let l2 = l4().memory.l2_bytes / 32;
    let quarter = l2 / 4;
    // Sectors from DRAM beyond the first read of each, of a launch of ten waves with these working sets in quarters of
    // the cache.
    let again = |working_sets: &[(u64, u64)]| {
        let working_sets = working_sets.iter().map(|(waves, quarters)| WorkingSet {
            waves: *waves,
            sectors: quarters * quarter,
        });
        let working_sets = working_sets.collect::<Vec<_>>();
        let mut counters = streaming(working_sets.last().unwrap().sectors);
        counters.total.global.sectors_read *= 10;
        let bytes = |counters: &Counters| {
            let time = modelled(counters, shape(5800, 256), &l4(), Cache::Cold);
            time.traffic.dram_bytes
        };
        let once = bytes(&counters);
        counters.working_sets = working_sets;
        (bytes(&counters) - once) / (32 * quarter) as f64
    };
    // Each wave has sectors of its own, all have the same, or each shares some with the next.
    assert_eq!(again(&[(1, 1), (2, 2), (5, 5), (10, 10)]), 0.0);
    assert_eq!(again(&[(1, 5), (10, 5)]), 45.0, "more than the cache holds");
    assert_eq!(again(&[(1, 1), (10, 1)]), 0.0);
    assert_eq!(again(&[(1, 3), (2, 4), (3, 5), (10, 12)]), 0.0);
    // Five waves read a quarter each, and then the other five read the same, after it has left the cache.
    assert_eq!(
        again(&[(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (10, 5)]),
        5.0
    );
}

#[test]
fn a_warm_cache_holds_what_fits_and_the_rest_streams() {
    let time = |sectors: u64, read_before: u64| {
        let warm = Cache::Warm { read_before };
        modelled(&streaming(sectors), shape(5800, 256), &l4(), warm)
    };
    let l2 = l4().memory.l2_bytes;
    let half = l2 / 64;
    assert_eq!(time(half, l2 / 2).terms[&Term::DramBytes], 0.0);
    assert_eq!(time(half, l2).terms[&Term::DramBytes], 0.0);
    // If four times as much was read as fits, a quarter of every part is left.
    assert_eq!(
        time(half, 4 * l2).traffic.dram_bytes,
        0.75 * (l2 / 2) as f64
    );
    // A launch that uses more than was said to have been read finds no more than fits.
    let huge = 4 * l2 / 32;
    assert_eq!(time(huge, 0).traffic.dram_bytes, 3.0 * l2 as f64);
    // Terms other than memory bandwidth do not change.
    let cold = modelled(&streaming(half), shape(5800, 256), &l4(), Cache::Cold);
    assert_eq!(
        time(half, l2).terms[&Term::L2Bytes],
        cold.terms[&Term::L2Bytes]
    );
}

#[test]
fn a_partial_last_round_is_paid_for() {
    let even = modelled(
        &arithmetic(58, 1_000_000, 0),
        shape(58, 1024),
        &l4(),
        Cache::Cold,
    );
    let uneven = modelled(
        &arithmetic(59, 1_000_000, 0),
        shape(59, 1024),
        &l4(),
        Cache::Cold,
    );
    assert!((even.tail_imbalance - 1.0).abs() < 1e-9);
    assert!(uneven.tail_imbalance > 1.9);
    assert!(uneven.terms[&Term::Fp32] > even.terms[&Term::Fp32] * 1.9);
}

#[test]
fn blocks_with_nothing_to_do_take_no_work_off_the_others() {
    // Sixteen blocks of work by themselves, and among 5800 that only end.
    let alone = arithmetic(16, 20_000, 3_000);
    let mut among = arithmetic(16, 20_000, 3_000);
    among.blocks = 5800;
    among.critical_path_mean = 3_000.0 * 16.0 / 5800.0;
    let heaviest = |counters: &mut Counters| {
        counters.heaviest_block.classes.fp32 = 20_000;
        counters.heaviest_block.sectors = counters.total.global.sectors_read / 16;
    };
    let time = |mut counters: Counters, blocks| {
        counters.total.global.sectors_read = 16 * 8_000;
        counters.total.global.sectors_read_ideal = 16 * 8_000;
        heaviest(&mut counters);
        modelled(&counters, shape(blocks, 256), &l4(), Cache::Cold)
    };
    let (alone, among) = (time(alone, 16), time(among, 5800));
    for term in [Term::Issue, Term::Fp32, Term::L1Sectors, Term::L2Bytes] {
        assert!(
            among.terms[&term] >= alone.terms[&term] * (1.0 - 1e-9),
            "{term:?}: {} and {}",
            alone.terms[&term],
            among.terms[&term]
        );
    }
}

#[test]
fn registers_that_a_bound_takes_away_are_paid_for_in_memory() {
    // A loop of 100 instructions, met 200 times by each of 8 warps.
    let mut counters = arithmetic(58, 160_000, 0);
    counters.places = 100;
    let executions = 58 * 1600;
    counters.hottest_places = [1, 2, 4, 8, 16, 32, 64, 100]
        .map(|places| places * executions)
        .to_vec();
    let spilling = |bytes: u32| {
        let shape = Shape {
            spilled_bytes: bytes,
            ..shape(58, 256)
        };
        modelled(&counters, shape, &l4(), Cache::Cold)
    };
    let (without, with) = (spilling(0), spilling(400));
    // A hundred words, each as often as the others: as many accesses as there are instructions.
    let accesses = 58.0 * 160_000.0;
    assert_eq!(
        with.traffic.l1_bytes - without.traffic.l1_bytes,
        accesses * 128.0
    );
    assert!((with.terms[&Term::Issue] / without.terms[&Term::Issue] - 2.0).abs() < 1e-9);
    assert_eq!(without.terms[&Term::LoadStore], 0.0);
    assert!(with.microseconds > without.microseconds * 1.5);
}

#[test]
fn fewer_warps_than_schedulers_leave_units_idle() {
    let term = |threads, term| {
        let mut counters = arithmetic(58, 1_000_000, 0);
        counters.total.tensor_macs = 1 << 40;
        counters.total.shared.wavefronts = 1 << 30;
        modelled(&counters, shape(58, threads), &l4(), Cache::Cold).terms[&term]
    };
    for unit in [Term::Issue, Term::Fp32, Term::Tensor] {
        let full = term(128, unit);
        assert!((term(32, unit) / full - 4.0).abs() < 1e-9, "{unit:?}");
        assert!((term(64, unit) / full - 2.0).abs() < 1e-9, "{unit:?}");
        assert_eq!(term(1024, unit), full, "{unit:?}");
    }
    let shared = Term::SharedWavefronts;
    assert_eq!(
        term(32, shared),
        term(128, shared),
        "all schedulers share it"
    );
}

#[test]
fn achieved_occupancy_is_what_the_grid_leaves_of_the_residency() {
    // An L4 has 58 multiprocessors of 48 warps; blocks of 8 warps with 64 registers are held 4 at a time.
    let cases = [
        (58 * 4, 4, 32.0 / 48.0),
        (58, 4, 8.0 / 48.0),
        (10, 4, 8.0 / 48.0),
        // One block too many: a second, nearly empty round.
        (58 * 4 + 1, 4, 233.0 / (58.0 * 2.0) * 8.0 / 48.0),
        (58 * 4 * 100, 4, 32.0 / 48.0),
    ];
    for (blocks, resident, achieved) in cases {
        let time = modelled(&Counters::default(), shape(blocks, 256), &l4(), Cache::Cold);
        assert_eq!(time.occupancy.blocks_per_multiprocessor, resident);
        assert_eq!(time.occupancy.limited_by, Limiter::Registers);
        let error = (time.achieved_occupancy - achieved).abs();
        assert!(error < 1e-9, "{blocks}: {}", time.achieved_occupancy);
    }
}

#[test]
fn bytes_of_each_level_are_those_of_the_counters() {
    let mut counters = streaming(1000);
    counters.total.global.sectors_read = 3000;
    counters.total.global.sectors_written = 500;
    counters.total.local_bytes = 640;
    counters.total.shared.wavefronts = 7;
    let traffic = modelled(&counters, shape(58, 256), &l4(), Cache::Cold).traffic;
    assert_eq!(traffic.shared_bytes, 7.0 * 128.0);
    assert_eq!(traffic.l1_bytes, 3500.0 * 32.0 + 640.0);
    assert_eq!(traffic.l2_bytes, 3500.0 * 32.0);
    assert_eq!(traffic.dram_bytes, 1000.0 * 32.0);
}

#[test]
fn a_block_finds_in_its_part_of_the_l1_cache_what_it_read_last() {
    // A block reads four times what is as large as these parts of the L1 cache, always a quarter of it in a 16th of its
    // time; then so much once, and past the cache. Registers allow four blocks at a time.
    let missed = |part: f64, blocks: u32, shared_bytes: u32| {
        let l1 = l4().memory.l1_bytes as f64 / 32.0;
        let mut shape = shape(blocks, 256);
        shape.footprint.shared_bytes = shared_bytes;
        let mut counters = streaming(50_000);
        counters.sectors_read_past_l1 = 10_000;
        counters.block_reads = Some(BlockReads {
            sectors: 4.0 * part * l1,
            distinct_sectors: part * l1,
            cycles: 1600.0,
            working_sets: [(100, 0.25), (200, 0.5), (400, 1.0), (800, 1.0), (1600, 1.0)]
                .map(|(cycles, of_part)| ReadSet {
                    cycles,
                    sectors: of_part * part * l1,
                })
                .to_vec(),
        });
        let time = modelled(&counters, shape, &l4(), Cache::Cold);
        (time.traffic.l2_bytes / 32.0 - 10_000.0) / 40_000.0
    };
    // Alone on its multiprocessor, less what the driver keeps as shared memory.
    assert_eq!(missed(0.9, 58, 0), 0.25);
    assert_eq!(missed(1.1, 58, 0), 1.0);
    // A quarter for each of four blocks; two if there are no more, or if shared memory allows no more.
    assert_eq!(missed(0.2, 5800, 0), 0.25);
    assert_eq!(missed(0.3, 5800, 0), 1.0);
    assert_eq!(missed(0.3, 116, 0), 0.25);
    // Shared memory takes three eighths of each half.
    assert_eq!(missed(0.1, 5800, 48 << 10), 0.25);
    assert_eq!(missed(0.2, 5800, 48 << 10), 1.0);
}

#[test]
fn shared_memory_and_the_l1_cache_take_turns_at_their_banks() {
    let terms = |shared: u64, loads: u64| {
        let mut counters = Counters::default();
        counters.total.shared.wavefronts = shared << 20;
        counters.total.global.l1_wavefronts = loads << 20;
        let time = modelled(&counters, shape(58, 256), &l4(), Cache::Cold);
        (
            time.bottleneck,
            time.terms[&Term::SharedWavefronts],
            time.terms[&Term::L1Sectors],
        )
    };
    let (_, pass, none) = terms(1, 0);
    assert_eq!(none, 0.0);
    assert_eq!(
        terms(6, 2),
        (Term::SharedWavefronts, 8.0 * pass, 2.0 * pass)
    );
    assert_eq!(terms(2, 6), (Term::L1Sectors, 2.0 * pass, 8.0 * pass));
}

#[test]
fn conversions_of_64_bits_are_slow() {
    let time = |edit: fn(&mut Counters)| {
        let mut counters = Counters::default();
        edit(&mut counters);
        modelled(&counters, shape(58, 256), &l4(), Cache::Cold).terms[&Term::Conversion]
    };
    let narrow = time(|c| c.total.classes.conversion = 1 << 20);
    let wide = time(|c| c.total.classes.wide_conversion = 1 << 20);
    assert!((wide / narrow - 32.0).abs() < 1e-9);
}

#[test]
fn modelled_times_travel_as_json_unchanged() {
    let time = modelled(
        &arithmetic(580, 20_000, 12_000),
        shape(580, 256),
        &l4(),
        Cache::Cold,
    );
    let text = serde_json::to_string(&time).expect("serialises");
    assert!(text.contains("\"critical_path\""));
    let back: Modelled = serde_json::from_str(&text).expect("reads");
    assert_eq!(back.bottleneck, time.bottleneck);
    assert_eq!(back.label, "uncalibrated");
}

/// Writes one counter, numbered; the list is every counter the model reads.
fn counter(counters: &mut Counters, index: usize) -> &mut u64 {
    let total = &mut counters.total;
    let classes = &mut total.classes;
    match index {
        0 => &mut classes.fp32,
        1 => &mut classes.fp16,
        2 => &mut classes.fp64,
        3 => &mut classes.integer,
        4 => &mut classes.special,
        5 => &mut classes.conversion,
        6 => &mut classes.moves,
        7 => &mut classes.load_global,
        8 => &mut classes.store_global,
        9 => &mut classes.load_shared,
        10 => &mut classes.store_shared,
        11 => &mut classes.local,
        12 => &mut classes.constant,
        13 => &mut classes.atomic_global,
        14 => &mut classes.atomic_shared,
        15 => &mut classes.async_copy,
        16 => &mut classes.tensor,
        17 => &mut classes.warp,
        18 => &mut classes.branch,
        19 => &mut classes.barrier,
        20 => &mut classes.other,
        21 => &mut total.global.sectors_read,
        22 => &mut total.global.sectors_written,
        23 => &mut total.shared.wavefronts,
        24 => &mut total.local_bytes,
        25 => &mut total.tensor_macs,
        26 => &mut counters.unique_sectors_read,
        27 => &mut counters.unique_sectors_written,
        28 => &mut total.global.sectors_read_ideal,
        29 => &mut classes.wide_conversion,
        _ => &mut counters.critical_path_max,
    }
}
const COUNTERS: usize = 31;

proptest! {
    #[test]
    fn more_of_anything_is_never_faster(
        values in proptest::collection::vec(0u64..1 << 32, COUNTERS),
        index in 0..COUNTERS,
        more in 1u64..1 << 32,
        blocks in 1u32..5000,
        read_before in 0u64..1 << 34,
    ) {
        let mut counters = Counters::default();
        for (index, value) in values.iter().enumerate() {
            *counter(&mut counters, index) = *value;
        }
        let times = |counters: &Counters| {
            [Cache::Cold, Cache::Warm { read_before }]
                .map(|cache| modelled(counters, shape(blocks, 128), &l4(), cache).microseconds)
        };
        let before = times(&counters);
        *counter(&mut counters, index) += more;
        let after = times(&counters);
        for (before, after) in before.into_iter().zip(after) {
            prop_assert!(after >= before * (1.0 - 1e-12), "{before} became {after}");
        }
        prop_assert!(after[1] <= after[0] * (1.0 + 1e-12), "a warm cache makes nothing slower");
    }

    /// Splitting every block in two halves of the same total work never slows the model down.
    #[test]
    fn halving_the_blocks_work_is_never_slower(
        half in 1u64..1 << 20,
        path in 1u64..1 << 20,
        blocks in 1u32..5000,
    ) {
        let whole = arithmetic(u64::from(blocks), half * 2, path * 2);
        let split = arithmetic(u64::from(blocks) * 2, half, path);
        let before = modelled(&whole, shape(blocks, 128), &l4(), Cache::Cold).microseconds;
        let after = modelled(&split, shape(blocks * 2, 128), &l4(), Cache::Cold).microseconds;
        prop_assert!(after <= before * (1.0 + 1e-12), "{before} became {after}");
    }

    #[test]
    fn the_time_is_between_the_largest_bound_and_the_sum(
        values in proptest::collection::vec(0u64..1 << 40, COUNTERS),
        blocks in 1u32..100_000,
    ) {
        let mut counters = Counters::default();
        for (index, value) in values.iter().enumerate() {
            *counter(&mut counters, index) = *value;
        }
        for id in Device::embedded_ids() {
            let device = Device::embedded(id).expect("embedded");
            let time = modelled(&counters, shape(blocks, 128), &device, Cache::Cold);
            let sum: f64 = time.terms.values().sum();
            let largest = time.terms.values().copied().fold(0.0, f64::max);
            prop_assert!(time.microseconds >= largest * (1.0 - 1e-12));
            prop_assert!(time.microseconds <= sum * (1.0 + 1e-12));
            prop_assert!(time.share > 0.0 && time.share <= 1.0 + 1e-12);
        }
    }
}
