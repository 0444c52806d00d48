//! Rounds of a comparison: which of them count, and what a round knows of its device.

use domain::role::DeviceSample;
use domain::statistics::{
    BaselineHistory, Block, Conditions, Cycles, Round, RoundDefect, SampleOrder, TimedInterval,
    TimedKernel, effect, select_valid_rounds, summarise_conditions,
};

fn near(found: f64, expected: f64, tolerance: f64) {
    assert!(
        (found - expected).abs() <= tolerance,
        "{found}, not {expected}"
    );
}

fn block(case: usize, incumbent: f64, candidate: f64) -> Block {
    Block {
        case,
        order: SampleOrder::IncumbentOutside,
        incumbent_us: [incumbent; 2],
        candidate_us: [candidate; 2],
        anchor_us: None,
        counted_mhz: None,
        conditions: Conditions::default(),
    }
}

fn rounds(count: usize) -> Vec<Round> {
    (0..count)
        .map(|number| Round {
            process: number % 2,
            blocks: vec![block(1, 30.0, 10.0), block(0, 20.0, 20.0)],
        })
        .collect()
}

#[test]
fn drift_that_is_linear_cancels_within_a_block() {
    // Every execution is slower than the one before by the same factor.
    let us = [1.0, 1.1, 1.21, 1.331];
    let block = Block {
        incumbent_us: [us[0], us[3]],
        candidate_us: [us[1], us[2]],
        ..block(0, 1.0, 1.0)
    };
    near(block.log_ratio(), 0.0, 1e-12);
}

#[test]
fn every_disturbance_has_its_name_and_takes_its_round_out() {
    type Spoil = fn(&mut Round);
    let history = BaselineHistory {
        baseline_us: vec![None, Some(30.0)],
    };
    let table: [(Spoil, &str); 12] = [
        (|r| r.blocks[0].candidate_us[1] = 0.0, "a time reads 0 us"),
        (
            |r| r.blocks[1].incumbent_us[0] = f64::NAN,
            "a time reads NaN us",
        ),
        (|r| r.blocks[1].case = 7, "it has 1 blocks for 2 cases"),
        (|r| r.blocks.truncate(1), "it has 1 blocks for 2 cases"),
        (
            |r| r.blocks[0].conditions.sm_mhz = Some([1000.0, 2000.0]),
            "the clock was at 1000 MHz",
        ),
        (
            |r| r.blocks[0].conditions.sm_mhz = Some([2000.0, 1940.0]),
            "the candidate at 1940 MHz",
        ),
        (
            |r| r.blocks[0].conditions.clock_events = Some(0x44),
            "reasons 0x40",
        ),
        (
            |r| r.blocks[0].conditions.new_xids = Some(1),
            "logged 1 faults",
        ),
        (
            |r| r.blocks[0].conditions.foreign_processes = Some(2),
            "2 other processes",
        ),
        (
            |r| r.blocks[0].conditions.ecc_errors = Some(1),
            "had 1 errors",
        ),
        (
            |r| r.blocks[0].anchor_us = Some([10.0, -1.0]),
            "a time reads -1 us",
        ),
        (
            |r| r.blocks[0].incumbent_us = [31.5, 31.5],
            "usually it takes 30.000 us",
        ),
    ];
    for (spoil, wanted) in table {
        let mut all = rounds(20);
        for round in &mut all {
            round.blocks[0].conditions = Conditions {
                sm_mhz: Some([2000.0, 2010.0]),
                clock_events: Some(0x1),
                new_xids: Some(0),
                ecc_errors: Some(0),
                celsius: Some(60.0),
                foreign_processes: Some(0),
            };
        }
        spoil(&mut all[3]);
        let kept = select_valid_rounds(&all, 2, &history);
        let [(3, defect)] = kept.discarded.as_slice() else {
            panic!("{wanted}: {:?}", kept.discarded);
        };
        assert!(defect.to_string().contains(wanted), "{defect}");
        assert_eq!(kept.whole.concat().len(), 19, "{wanted}");
        assert_eq!(kept.cases[1].concat().len(), 19, "{wanted}");
        assert_eq!(kept.inconclusive, None, "{wanted}");
    }
}

#[test]
fn a_clock_that_the_power_limit_holds_down_is_no_disturbance() {
    let mut all = rounds(20);
    for round in &mut all {
        round.blocks[0].conditions.sm_mhz = Some([2000.0, 2000.0]);
    }
    all[3].blocks[0].conditions.sm_mhz = Some([1900.0, 1500.0]);
    let discarded = |all: &[Round]| {
        select_valid_rounds(all, 2, &BaselineHistory::default())
            .discarded
            .len()
    };
    assert_eq!(discarded(&all), 1);
    all[3].blocks[0].conditions.clock_events = Some(0x4);
    assert_eq!(discarded(&all), 0);
    all[3].blocks[0].conditions.clock_events = Some(0x24);
    assert_eq!(discarded(&all), 1, "heat is one");
}

#[test]
fn the_baselines_history_is_that_of_the_anchor_where_there_is_one() {
    let history = BaselineHistory {
        baseline_us: vec![Some(40.0), None],
    };
    let off = |baseline: f64, incumbent: f64, clock_events| {
        let mut all = rounds(20);
        for round in &mut all {
            round.blocks[1].anchor_us = Some([40.0; 2]);
        }
        let block = &mut all[3].blocks[1];
        block.anchor_us = Some([baseline; 2]);
        block.incumbent_us = [incumbent; 2];
        block.conditions.clock_events = clock_events;
        select_valid_rounds(&all, 2, &history).discarded.len()
    };
    assert_eq!(off(41.0, 10.0, None), 0, "the incumbent's time is its own");
    assert_eq!(off(41.5, 20.0, None), 1);
    assert_eq!(off(38.5, 20.0, Some(0)), 1);
    assert_eq!(
        off(41.5, 20.0, Some(0x4)),
        0,
        "the power limit is not the candidate"
    );
}

#[test]
fn a_device_that_is_not_warm_yet_decides_nothing() {
    let heated = |celsius: &dyn Fn(usize) -> Option<f64>| {
        let mut all = rounds(40);
        for (number, round) in all.iter_mut().enumerate() {
            for block in &mut round.blocks {
                block.conditions.celsius = celsius(number);
            }
        }
        select_valid_rounds(&all, 2, &BaselineHistory::default()).inconclusive
    };
    let rising = |by: f64| heated(&|round| Some(50.0 + by * round as f64 / 39.0));
    assert_eq!(rising(9.0), None);
    let reason = rising(11.0).unwrap();
    assert!(reason.contains("changed by 11 degrees"), "{reason}");
    assert!(
        rising(-11.0).is_some(),
        "a device that cools is not at rest either"
    );
    assert_eq!(heated(&|_| None), None);
    assert_eq!(heated(&|round| (round == 7).then_some(90.0)), None);
    let one_off = |round| Some(if round == 39 { 80.0 } else { 50.0 });
    assert_eq!(heated(&one_off), None, "one reading is no slope");
}

#[test]
fn counted_cycles_are_those_of_every_round_and_stand_in_for_a_clock_that_nobody_tells() {
    let counted = |mhz: [f64; 2]| {
        let mut all = rounds(20);
        for block in all.iter_mut().flat_map(|round| &mut round.blocks) {
            block.counted_mhz = Some([[mhz[0]; 2], [mhz[1]; 2]]);
        }
        all
    };
    let whole = |all: &[Round]| select_valid_rounds(all, 2, &BaselineHistory::default());
    let same = whole(&counted([2000.0, 2000.0]));
    let Cycles::Deciding(cycles) = &same.cycles else {
        panic!("{:?}", same.cycles);
    };
    near(effect(cycles).unwrap(), effect(&same.whole).unwrap(), 1e-12);
    // A candidate whose clock is higher takes more cycles than its time says.
    let higher = whole(&counted([2000.0, 2020.0]));
    let Cycles::Deciding(cycles) = &higher.cycles else {
        panic!("{:?}", higher.cycles);
    };
    let wanted = effect(&higher.whole).unwrap() - (2020.0_f64 / 2000.0).ln();
    near(effect(cycles).unwrap(), wanted, 1e-12);
    let mut one = counted([2000.0, 2000.0]);
    one[5].blocks[1].counted_mhz = None;
    assert_eq!(whole(&one).cycles, Cycles::Unknown);
    one = counted([2000.0, 2000.0]);
    one[5].blocks[1].conditions.clock_events = Some(0x4);
    assert!(matches!(whole(&one).cycles, Cycles::Telling(_)));
    // The gate on clocks.
    one = counted([2000.0, 2000.0]);
    one[5].blocks[0].counted_mhz = Some([[2000.0; 2], [1940.0; 2]]);
    assert_eq!(whole(&one).discarded.len(), 1);
    one[5].blocks[0].conditions.sm_mhz = Some([2000.0, 2000.0]);
    assert_eq!(
        whole(&one).discarded.len(),
        0,
        "the library's word comes first"
    );
    one[5].blocks[0].conditions.sm_mhz = None;
    one[5].blocks[0].counted_mhz = Some([[1500.0; 2]; 2]);
    let low = whole(&one).discarded;
    assert!(
        matches!(low.as_slice(), [(5, RoundDefect::ClockLow { .. })]),
        "{low:?}"
    );
}

#[test]
fn scores_are_relative_to_the_anchor_where_there_is_one() {
    let mut all = rounds(12);
    let same = select_valid_rounds(&all, 2, &BaselineHistory::default());
    assert_eq!(same.anchored, same.whole);
    for round in &mut all {
        for block in &mut round.blocks {
            block.anchor_us = Some([4.0 * block.candidate_us[0]; 2]);
        }
    }
    let anchored = select_valid_rounds(&all, 2, &BaselineHistory::default());
    assert_eq!(anchored.whole, same.whole);
    near(effect(&anchored.anchored).unwrap(), 4_f64.ln(), 1e-12);
}

#[test]
fn the_conditions_of_a_block_are_those_of_the_device_samples_around_it() {
    let ms = |at: u64| at * 1_000_000;
    let device_sample = |at: u64| DeviceSample {
        at_ns: ms(at),
        sm_mhz: Some(1500),
        clock_events: Some(1),
        celsius: Some(50),
        foreign_processes: Some(0),
        ecc_errors: Some(7),
        xids: Some(0),
    };
    let sample = |contender, from: u64, until: u64| TimedInterval {
        contender,
        from_ns: ms(from),
        until_ns: ms(until),
    };
    let block = [
        sample(TimedKernel::Incumbent, 100, 120),
        sample(TimedKernel::Candidate, 125, 145),
        sample(TimedKernel::Candidate, 150, 170),
        sample(TimedKernel::Incumbent, 175, 195),
    ];
    let mut device_samples = (0..20)
        .map(|number| device_sample(20 * number))
        .collect::<Vec<_>>();
    let quiet = Conditions {
        sm_mhz: Some([1500.0; 2]),
        clock_events: Some(1),
        new_xids: Some(0),
        ecc_errors: Some(0),
        celsius: Some(50.0),
        foreign_processes: Some(0),
    };
    assert_eq!(summarise_conditions(&device_samples, &block), quiet);
    // Samples before and after the block belong to other blocks.
    device_samples[3].clock_events = Some(0x40);
    device_samples[12].foreign_processes = Some(3);
    for late in &mut device_samples[12..] {
        late.xids = Some(1);
    }
    assert_eq!(summarise_conditions(&device_samples, &block), quiet);
    device_samples[7].clock_events = Some(0x40);
    device_samples[10].foreign_processes = Some(2);
    device_samples[6].sm_mhz = Some(1400);
    device_samples[7].sm_mhz = Some(1400);
    device_samples[8].sm_mhz = Some(1400);
    for late in &mut device_samples[8..] {
        late.ecc_errors = Some(9);
        late.xids = Some(2);
    }
    let disturbed = summarise_conditions(&device_samples, &block);
    assert_eq!(disturbed.sm_mhz, Some([1500.0, 1400.0]));
    assert_eq!(disturbed.clock_events, Some(0x41));
    assert_eq!(disturbed.foreign_processes, Some(2));
    assert_eq!(
        (disturbed.new_xids, disturbed.ecc_errors),
        (Some(2), Some(2))
    );
    // Device samples too far away do not count, and a fact that the card does not report is unknown.
    let far = [device_sample(2000), device_sample(2020)];
    assert_eq!(summarise_conditions(&far, &block), Conditions::default());
    assert_eq!(summarise_conditions(&[], &block), Conditions::default());
    assert_eq!(
        summarise_conditions(&device_samples, &[]),
        Conditions::default()
    );
    let mute = device_samples.iter().map(|sample| DeviceSample {
        at_ns: sample.at_ns,
        ..DeviceSample::default()
    });
    assert_eq!(
        summarise_conditions(&mute.collect::<Vec<_>>(), &block),
        Conditions::default()
    );
}

#[test]
fn too_many_disturbed_rounds_decide_nothing() {
    let spoilt = |count: usize, of: usize| {
        let mut all = rounds(of);
        for round in &mut all[..count] {
            round.blocks[0].candidate_us = [f64::INFINITY; 2];
        }
        select_valid_rounds(&all, 2, &BaselineHistory::default()).inconclusive
    };
    assert_eq!(spoilt(0, 10), None);
    assert!(spoilt(0, 9).unwrap().contains("9 of 9 rounds are valid"));
    assert_eq!(spoilt(5, 20), None);
    assert!(spoilt(6, 20).unwrap().contains("the first, round 1"));
    assert!(spoilt(0, 0).is_some());
}

#[test]
fn a_round_counts_every_case_alike() {
    let kept = select_valid_rounds(&rounds(10), 2, &BaselineHistory::default());
    near(effect(&kept.whole).unwrap(), 0.5 * 3_f64.ln(), 1e-12);
    near(effect(&kept.cases[1]).unwrap(), 3_f64.ln(), 1e-12);
    assert_eq!(kept.whole.len(), 2);
    let defect = RoundDefect::NewXid { count: 3 };
    let json = serde_json::to_string(&defect).unwrap();
    assert_eq!(serde_json::from_str::<RoundDefect>(&json).unwrap(), defect);
}
