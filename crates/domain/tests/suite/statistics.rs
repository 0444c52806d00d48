//! Statistics of a comparison: oracles, laws that hold for all data, and the two promises under
//! simulated noise.

use std::collections::BTreeSet;

use domain::digest::Digest;
use domain::margins::{FASTER_MARGIN_LOG, REGRESSION_LOG};
use domain::role::Key;
use domain::statistics::simulate::stated;
use domain::statistics::{
    ALPHA, ANALYSIS_PAIRS, BufferSets, CONFIRMATION, ClockReading, Cycles, EventTimes, Interval,
    RESAMPLES, SampleOrder, ScreeningProgress, TimedKernel, WarmUp, advance_screening, batch_size,
    binomial_bounds, binomial_tail, bootstrap, check_regressions, compare_separate_processes,
    decide_confirmation, deviation, effect, find_clock_contradiction, holm, input_draws, interval,
    max_warm_batch, median, normal_tail, plan_rounds, quantile, sample_order, signed_rank,
    student_quantile, student_tail,
};
use domain::verdict::Outcome;
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

fn key(name: &str) -> Key {
    Key(Digest::of(name))
}

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn near(found: f64, expected: f64, tolerance: f64) {
    assert!(
        (found - expected).abs() <= tolerance,
        "{found}, not {expected}"
    );
}

#[test]
fn tails_agree_with_published_tables() {
    for (z, tail) in [
        (0.0, 0.5),
        (1.0, 0.158_655_253_931),
        (1.959_963_984_54, 0.025),
        (2.326_347_874_04, 0.01),
        (3.0, 0.001_349_898_032),
        (5.0, 2.866_515_719e-7),
    ] {
        near(normal_tail(z), tail, 1e-11);
        near(normal_tail(-z), 1.0 - tail, 1e-11);
    }
    for (degrees, tail, t) in [
        (1, 0.01, 31.820_516),
        (2, 0.01, 6.964_557),
        (7, 0.01, 2.997_952),
        (7, 0.005, 3.499_483),
        (8, 0.025, 2.306_004),
        (29, 0.01, 2.462_021),
    ] {
        near(student_quantile(tail, degrees), t, 1e-5);
        near(student_tail(t, degrees), tail, 1e-7);
    }
    near(binomial_tail(10, 2), 56.0 / 1024.0, 1e-12);
    near(binomial_tail(2000, 1000), 0.5 + 0.008_919, 1e-5);
}

#[test]
fn the_signed_rank_test_agrees_with_published_tables() {
    // Critical sums at one-sided 0.01 and 0.05: 5 of n = 10, 69 of n = 25 (Wilcoxon and Wilcox).
    let with_negative_sum = |n: usize, sum: usize| {
        let mut left = sum;
        let mut values = (1..=n).map(|rank| rank as f64).collect::<Vec<_>>();
        for rank in (1..=n).rev() {
            if rank <= left {
                left -= rank;
                values[rank - 1] *= -1.0;
            }
        }
        values
    };
    assert!(signed_rank(&with_negative_sum(10, 5)) <= 0.01);
    assert!(signed_rank(&with_negative_sum(10, 6)) > 0.01);
    assert!(signed_rank(&with_negative_sum(25, 76)) <= 0.01);
    assert!(signed_rank(&with_negative_sum(25, 77)) > 0.01);
    near(signed_rank(&[1.0, 2.0, 3.0]), 0.125, 1e-12);
    near(signed_rank(&[1.0, 1.0, -1.0, 0.0]), 0.5, 1e-12);
    near(signed_rank(&[]), 1.0, 0.0);
    // The approximation for many values continues the exact distribution for few.
    let spread = |n: usize| {
        let signs = (1..=n).map(|rank| if rank % 3 == 0 { -1.0 } else { 1.0 } * rank as f64);
        signed_rank(&signs.collect::<Vec<_>>())
    };
    let step = |n: usize| spread(n).ln() - spread(n - 3).ln();
    near(step(51), step(48), 0.05);
}

#[test]
fn a_family_of_tests_is_corrected_step_by_step() {
    let adjusted = holm(&[0.01, 0.04, 0.03, 0.5]);
    for (found, expected) in adjusted.into_iter().zip([0.04, 0.09, 0.09, 0.5]) {
        near(found, expected, 1e-12);
    }
    assert!(holm(&[]).is_empty());
}

#[test]
fn location_and_spread_are_those_of_the_middle() {
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(quantile(&[0.0, 10.0], 0.25), Some(2.5));
    near(
        deviation(&[1.0, 2.0, 3.0, 4.0, 1000.0]).unwrap(),
        1.4826,
        1e-4,
    );
}

#[test]
fn bounds_hold_as_often_as_they_say() {
    // Skewed values: the median of an exponential distribution is ln 2.
    let mut rng = rng(1);
    let trials = 4000;
    let mut missed = 0;
    for _ in 0..trials {
        let values = (0..15)
            .map(|_| -(1.0 - rng.random::<f64>()).ln())
            .collect::<Vec<_>>();
        let bounds = interval(&[values], 0.05);
        missed += u32::from(bounds.lower > std::f64::consts::LN_2);
    }
    let [_, at_most] = binomial_bounds(missed, trials, 0.01);
    assert!(at_most < 0.05, "{missed} of {trials}");
    assert!(missed > 0, "bounds that always hold say nothing");
}

#[test]
fn too_few_rounds_bound_nothing() {
    assert_eq!(interval(&[], ALPHA), Interval::UNKNOWN);
    assert_eq!(interval(&[vec![1.0; 6]], ALPHA), Interval::UNKNOWN);
    assert_ne!(interval(&[vec![1.0; 7]], ALPHA), Interval::UNKNOWN);
    assert_eq!(interval(&[vec![1.0], Vec::new()], ALPHA), Interval::UNKNOWN);
    let standing = advance_screening(&[0.5; 14], &Cycles::Unknown, key("few"));
    assert_eq!(
        standing,
        ScreeningProgress::Open {
            pairs: ANALYSIS_PAIRS[0]
        }
    );
}

#[test]
fn the_bootstrap_sees_what_the_processes_share() {
    let mut rng = rng(2);
    let noise = stated(0.01);
    let one = noise.process(0.0, 120, &mut rng);
    let alone = bootstrap(std::slice::from_ref(&one), 0.05, RESAMPLES, &mut rng);
    near(
        alone.half_width(),
        1.645 * 1.2533 * 0.01 / 240_f64.sqrt(),
        4e-4,
    );
    // Eight processes that differ by far more than their rounds do.
    let apart = (0..8)
        .map(|process| {
            let offset = 0.02 * f64::from(process);
            one.iter().map(|value| value + offset).collect()
        })
        .collect::<Vec<Vec<f64>>>();
    let together = bootstrap(&apart, 0.05, RESAMPLES, &mut rng);
    assert!(together.half_width() > 10.0 * alone.half_width());
    let none = bootstrap(&[Vec::new()], 0.05, RESAMPLES, &mut rng);
    assert_eq!(none, Interval::UNKNOWN);
}

fn settled(standing: ScreeningProgress) -> Outcome {
    match standing {
        ScreeningProgress::Decided(settled) => settled.outcome,
        ScreeningProgress::Open { pairs } => panic!("open until {pairs} pairs"),
    }
}

#[test]
fn a_screening_stops_as_soon_as_its_decision_is_settled() {
    let mut rng = rng(3);
    let mut rounds = |gain, rounds| stated(0.01).process(gain, rounds, &mut rng);
    assert_eq!(
        settled(advance_screening(
            &rounds(0.5, 15),
            &Cycles::Unknown,
            key("a")
        )),
        Outcome::Faster
    );
    assert_eq!(
        settled(advance_screening(
            &rounds(-4.0, 15),
            &Cycles::Unknown,
            key("a")
        )),
        Outcome::NotFaster
    );
    let doubtful = [0.02, -0.02].repeat(60);
    let look = |rounds: usize| advance_screening(&doubtful[..rounds], &Cycles::Unknown, key("a"));
    assert_eq!(look(15), ScreeningProgress::Open { pairs: 60 });
    assert_eq!(look(30), ScreeningProgress::Open { pairs: 120 });
    assert_eq!(look(60), ScreeningProgress::Open { pairs: 240 });
    assert_eq!(settled(look(120)), Outcome::Unresolved);
}

#[test]
fn a_gain_in_time_that_is_none_in_cycles_is_not_believed() {
    let gained = [0.05, 0.051, 0.049].repeat(40);
    let lost = gained.iter().map(|value| -value).collect::<Vec<_>>();
    let outcome = |cycles: Cycles<Vec<f64>>| settled(advance_screening(&gained, &cycles, key("a")));
    assert_eq!(outcome(Cycles::Unknown), Outcome::Faster);
    assert_eq!(outcome(Cycles::Deciding(gained.clone())), Outcome::Faster);
    assert_eq!(outcome(Cycles::Deciding(lost.clone())), Outcome::Unresolved);
    assert_eq!(outcome(Cycles::Telling(lost)), Outcome::Faster);
}

#[test]
fn a_confirmation_believes_no_single_process_and_no_noisy_control() {
    let flat = |value: f64| vec![vec![value; 15]; 8];
    let spread = |values: [f64; 8]| values.map(|value| vec![value; 15]).to_vec();
    let quiet = spread([0.001, -0.001, 0.0005, -0.0005, 0.0, 0.0, 0.0002, -0.0002]);
    let decide = |rounds: &[Vec<f64>], control: &[Vec<f64>]| {
        decide_confirmation(rounds, &Cycles::Unknown, control, key("a"))
            .map(|settled| settled.outcome)
    };
    let gain = spread([0.02, 0.021, 0.019, 0.02, 0.022, 0.018, 0.02, 0.02]);
    assert_eq!(decide(&gain, &quiet), Ok(Outcome::Faster));
    let lucky = spread([0.16, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(decide(&lucky, &quiet), Ok(Outcome::Unresolved));
    let loud = spread([0.05, -0.05, 0.04, -0.04, 0.05, -0.05, 0.0, 0.0]);
    assert_eq!(decide(&gain, &loud), Ok(Outcome::NotFaster));
    assert!(decide(&gain, &flat(0.02)).unwrap_err().contains("itself"));
    assert!(decide(&gain, &[]).is_ok_and(|outcome| outcome != Outcome::Faster));
    assert_eq!(decide(&[gain[0].clone()], &quiet), Ok(Outcome::Faster));
}

#[test]
fn one_slow_case_blocks_whatever_the_others_gain() {
    let case = |centre: f64| {
        let rounds = |process: usize| {
            let spread = |round: usize| 0.001 * (round as f64 - 7.0) + 0.0005 * process as f64;
            (0..15).map(|round| centre + spread(round)).collect()
        };
        (0..8).map(rounds).collect::<Vec<Vec<f64>>>()
    };
    let blocks = |cases: &[Vec<Vec<f64>>]| {
        let found = check_regressions(cases);
        found
            .into_iter()
            .map(|case| case.blocks)
            .collect::<Vec<_>>()
    };
    assert_eq!(blocks(&[case(0.2), case(-0.05)]), [false, true]);
    assert_eq!(blocks(&[case(0.2), case(-0.01)]), [false, false]);
    assert_eq!(blocks(&[case(0.2), vec![Vec::new(); 8]]), [false, true]);
    let one = |cases: &[f64]| {
        let cases = cases.iter().map(|centre| vec![case(*centre)[0].clone()]);
        blocks(&cases.collect::<Vec<_>>())
    };
    assert_eq!(one(&[0.0, -REGRESSION_LOG]), [false, true]);
    assert!(blocks(&[]).is_empty());
}

#[test]
fn turns_of_a_block_mirror_each_other() {
    use TimedKernel::{Anchor, Candidate, Incumbent};
    let four = sample_order(SampleOrder::CandidateOutside, false);
    assert_eq!(four, [Candidate, Incumbent, Incumbent, Candidate]);
    let six = sample_order(SampleOrder::IncumbentOutside, true);
    assert_eq!(
        six,
        [Anchor, Incumbent, Candidate, Candidate, Incumbent, Anchor]
    );
}

#[test]
fn short_executions_are_timed_in_batches_over_sets_of_their_own() {
    for (us, executions) in [
        (3.0, 32),
        (7.0, 29),
        (19.9, 11),
        (20.0, 1),
        (1e9, 1),
        (0.1, 32),
        (0.0, 1),
        (-1.0, 1),
        (f64::NAN, 1),
        (f64::INFINITY, 1),
    ] {
        assert_eq!(batch_size(us, 32), executions, "{us} us");
        assert_eq!(batch_size(us, 4), executions.min(4), "{us} us");
    }
    const MIB: u64 = 1 << 20;
    // The more they take, the fewer inputs there are.
    for (bytes, number) in [
        (0, 32),
        (2 * MIB, 32),
        (8 * MIB, 8),
        (16 * MIB, 4),
        (1 << 40, 4),
    ] {
        assert_eq!(input_draws(bytes), number, "{bytes}");
    }
    let sets = |bytes, batch, room| {
        let sets = BufferSets::plan(bytes, batch, 4, 48 * MIB, room);
        (sets.count, sets.flush)
    };
    assert_eq!(sets(MIB, 1, 1 << 40), (144, true), "three caches, not four");
    assert_eq!(sets(64 * MIB, 1, 1 << 40), (4, false));
    assert_eq!(sets(1 << 10, 29, 1 << 40), (32, true), "too small to fill");
    assert_eq!(sets(1 << 40, 1, 1 << 30), (1, false), "memory ends");
    assert_eq!(sets(0, 0, 0).0, 1);
    // With a warm cache nothing has to be filled or flushed, and a batch's sets share half of it.
    for (bytes, executions) in [(1 << 10, 32), (MIB, 24), (20 * MIB, 1), (1 << 40, 1)] {
        assert_eq!(max_warm_batch(bytes, 48 * MIB), executions, "{bytes}");
    }
    assert_eq!(max_warm_batch(0, 0), 1);
    let warm = |bytes, batch, room| {
        let sets = BufferSets::plan_warm(bytes, batch, 4, room);
        (sets.count, sets.flush)
    };
    assert_eq!(warm(MIB, 24, 1 << 40), (24, false));
    assert_eq!(warm(20 * MIB, 1, 1 << 40), (4, false), "inputs take turns");
    assert_eq!(warm(20 * MIB, 1, 20 * MIB), (1, false), "memory ends");
}

#[test]
fn a_device_is_warm_when_three_blocks_agree_or_time_is_up() {
    let warm = WarmUp::MEASURED;
    let steady = [90.0, 70.0, 60.0, 60.3, 60.5];
    assert!(warm.is_over(&steady, 250.0));
    assert!(!warm.is_over(&steady, 150.0), "clocks rise for longer");
    assert!(!warm.is_over(&steady[..4], 250.0));
    assert!(warm.is_over(&[], 2000.0));
    assert!(!warm.is_over(&[f64::NAN; 5], 250.0));
    assert!(!warm.is_over(&[0.0; 5], 250.0));
    assert!(WarmUp::MODELLED.is_over(&[7.0; 3], 0.0));
    assert!(!WarmUp::MODELLED.is_over(&[7.0; 2], 0.0));
    let noisy = [1.0, 2.0, 3.0, 4.0, 5.0];
    assert!(!WarmUp::MODELLED.is_over(&noisy[..4], 0.0));
    assert!(WarmUp::MODELLED.is_over(&noisy, 0.0));
}

#[test]
fn a_ratio_must_hold_where_incumbent_and_candidate_share_no_process() {
    let shared = Interval {
        lower: 0.18,
        upper: 0.22,
    };
    let agreeing = compare_separate_processes(&[0.19, 0.2, 0.21, 0.2], shared).unwrap();
    near(agreeing.effect, 0.2, 1e-12);
    // A candidate that makes the incumbent a fifth slower gains nothing by itself.
    let alone = compare_separate_processes(&[0.002, -0.003, 0.001, 0.0], shared).unwrap_err();
    assert!(alone.contains("18") || alone.contains("19.7"), "{alone}");
    // One that the incumbent makes slower is no more to be believed.
    assert!(compare_separate_processes(&[0.4, 0.41, 0.4, 0.41], shared).is_err());
    assert!(
        compare_separate_processes(&[0.2, 0.2], shared).is_err(),
        "too few"
    );
    assert!(compare_separate_processes(&[0.2, f64::INFINITY, 0.2], shared).is_err());
}

#[test]
fn a_plan_is_the_keys_own_and_balanced() {
    let planned = plan_rounds(key("a"), 200, 3);
    assert_eq!(planned, plan_rounds(key("a"), 200, 3));
    assert_ne!(planned, plan_rounds(key("b"), 200, 3));
    let outside = planned
        .iter()
        .flatten()
        .filter(|block| block.order == SampleOrder::IncumbentOutside)
        .count();
    assert!((240..=360).contains(&outside), "{outside} of 600");
    let orders = planned
        .iter()
        .map(|round| round.iter().map(|block| block.case).collect::<Vec<_>>())
        .collect::<BTreeSet<_>>();
    assert_eq!(orders.len(), 6, "every order of three cases occurs");
}

proptest! {
    #[test]
    fn equal_ratios_agree_with_their_own_bounds_whatever_the_noise(
        effect in -0.5_f64..0.5,
        noise in prop::collection::vec(-0.01_f64..0.01, 4),
        width in 0.0_f64..0.02,
    ) {
        // The true effect lies inside the shared bounds, and the alternations scatter around it.
        let centre = noise.iter().sum::<f64>() / 4.0;
        let ratios = noise.iter().map(|one| effect + one - centre).collect::<Vec<_>>();
        let shared = Interval { lower: effect - width, upper: effect + width };
        let found = compare_separate_processes(&ratios, shared).unwrap();
        prop_assert!((found.effect - effect).abs() < 1e-9);
        // Swapping the two mirrors everything.
        let mirrored = ratios.iter().map(|ratio| -ratio).collect::<Vec<_>>();
        let other = compare_separate_processes(&mirrored, Interval { lower: -shared.upper, upper: -shared.lower }).unwrap();
        prop_assert!((other.interval.lower + found.interval.upper).abs() < 1e-9);
    }

    #[test]
    fn sets_fit_into_memory_and_serve_a_batch(
        bytes in 1_u64..1 << 32,
        executions in 1_u32..=32,
        draws in 1_u32..=32,
        first in 0_u32..1 << 10,
        cache in 0_u64..1 << 28,
        room in 0_u64..1 << 36,
    ) {
        let sets = BufferSets::plan(bytes, executions, draws, cache, room);
        prop_assert!(sets.count >= 1 && sets.count < 256 + draws);
        prop_assert!(sets.count == 1 || u64::from(sets.count) * bytes <= room);
        // No execution of a batch has the inputs of another.
        let together = executions.min(draws).min(sets.count);
        let met = (first..first + together).map(|turn| turn % sets.count % draws);
        prop_assert_eq!(met.collect::<BTreeSet<_>>().len(), together as usize);
        let ample = BufferSets::plan(bytes, executions, draws, cache, u64::MAX);
        prop_assert!(ample.count >= executions.max(4));
        prop_assert!(ample.flush || u64::from(ample.count) * bytes >= 4 * cache);
    }

    #[test]
    fn bounds_enclose_the_effect_and_narrow_with_alpha(
        values in prop::collection::vec(-0.5_f64..0.5, 15..60),
        processes in 1_usize..6,
    ) {
        let processes = values
            .chunks(values.len().div_ceil(processes))
            .map(<[f64]>::to_vec)
            .collect::<Vec<_>>();
        let centre = effect(&processes).unwrap();
        let wide = interval(&processes, 0.001);
        let narrow = interval(&processes, 0.05);
        prop_assert!(narrow.lower <= centre && centre <= narrow.upper);
        prop_assert!(wide.lower <= narrow.lower && narrow.upper <= wide.upper);
    }

    #[test]
    fn exchanging_the_kernels_turns_everything_around(
        values in prop::collection::vec(-0.5_f64..0.5, 15..60),
    ) {
        let turned = values.iter().map(|value| -value).collect::<Vec<_>>();
        let (one, other) = (interval(std::slice::from_ref(&values), 0.01), interval(std::slice::from_ref(&turned), 0.01));
        prop_assert!((one.lower + other.upper).abs() < 1e-12);
        let both = signed_rank(&values) + signed_rank(&turned);
        prop_assert!(both >= 1.0 - 1e-9, "{}", both);
    }

    #[test]
    fn a_correction_never_helps_and_keeps_the_order(
        probabilities in prop::collection::vec(0.0_f64..1.0, 0..12),
    ) {
        let adjusted = holm(&probabilities);
        for (index, before) in probabilities.iter().enumerate() {
            prop_assert!(adjusted[index] >= *before);
            for (other, beside) in probabilities.iter().enumerate() {
                prop_assert!(before > beside || adjusted[index] <= adjusted[other]);
            }
        }
    }
}

/// The two promises, each with bounds that a sample of this size can hold. An equal candidate is
/// promoted only if a screening and a confirmation, which share no process, both err.
#[test]
fn a_run_of_500_equal_candidates_promotes_one_in_less_than_one_percent() {
    assert_eq!((CONFIRMATION.processes, CONFIRMATION.pairs), (8, 60));
    near(FASTER_MARGIN_LOG.exp(), 1.005, 1e-12);
    near(REGRESSION_LOG.exp(), 1.02, 1e-12);
    for (seed, pair) in [(10, 0.01), (11, 0.03)] {
        let noise = stated(pair);
        let mut rng = rng(seed);
        let (screenings, confirmations) = (2500, 4000);
        let screened = (0..screenings)
            .map(|_| u32::from(noise.screened(0.0, &mut rng).screening == Outcome::Faster))
            .sum();
        let confirmed = (0..confirmations)
            .map(|_| u32::from(noise.confirmed(0.0, &mut rng)))
            .sum();
        let [_, screening] = binomial_bounds(screened, screenings, 0.025);
        let [_, confirmation] = binomial_bounds(confirmed, confirmations, 0.025);
        let run = 500.0 * screening * confirmation;
        eprintln!("pairs {pair}: {screened} and {confirmed}, so at most {run:.5} of a run");
        assert!(run < 0.01, "{run}");
    }
}

#[test]
fn a_gain_of_two_percent_is_found_nine_times_in_ten() {
    let noise = stated(0.03);
    let mut rng = rng(12);
    let trials = 80;
    let mut found = 0;
    for _ in 0..trials {
        let fate = noise.screened(0.02, &mut rng);
        assert!(fate.pairs <= ANALYSIS_PAIRS[3]);
        found += u32::from(fate.screening == Outcome::Faster && noise.confirmed(0.02, &mut rng));
    }
    let [at_least, _] = binomial_bounds(found, trials, 0.05);
    eprintln!("{found} of {trials}, so at least {at_least:.3}");
    assert!(at_least > 0.9, "{found} of {trials}");
}

#[test]
fn a_gain_that_the_supervisor_does_not_see_is_no_gain() {
    // Waking up costs the supervisor 40 us, give or take three.
    let readings = |candidate_event: f64, candidate_wall: f64| {
        (0..60)
            .map(|number| {
                let jitter = f64::from(number % 7) - 3.0;
                let candidate = number % 2 == 1;
                let (event_us, wall) = if candidate {
                    (candidate_event, candidate_wall)
                } else {
                    (200.0, 200.0)
                };
                ClockReading {
                    contender: if candidate {
                        TimedKernel::Candidate
                    } else {
                        TimedKernel::Incumbent
                    },
                    event_us,
                    wall_us: wall + 40.0 + jitter,
                }
            })
            .collect::<Vec<_>>()
    };
    let agrees = |event: f64, wall: f64, clocks: EventTimes| {
        find_clock_contradiction(&readings(event, wall), clocks).is_none()
    };
    assert!(agrees(100.0, 100.0, EventTimes::Measured), "an honest gain");
    assert!(agrees(300.0, 300.0, EventTimes::Measured), "an honest loss");
    assert!(
        !agrees(100.0, 200.0, EventTimes::Measured),
        "a gain by events alone"
    );
    assert!(
        !agrees(300.0, 200.0, EventTimes::Measured),
        "longer than the wall"
    );
    assert!(
        agrees(100.0, 200.0, EventTimes::Modelled),
        "emulation takes its time"
    );
    assert!(
        !agrees(300.0, 200.0, EventTimes::Modelled),
        "but never less than it models"
    );
    assert!(
        !agrees(f64::NAN, 200.0, EventTimes::Modelled),
        "a time that is none"
    );
}
