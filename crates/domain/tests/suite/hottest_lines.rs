//! Which source lines count as the hottest, by what bounds the time.

use std::collections::BTreeMap;

use domain::evaluation::CaseLaunches;
use domain::hottest_lines::{HottestLines, LineWork};
use domain::role::{LaunchFacts, LineCounters};
use domain::timing::{CacheState, ModelledLaunch, ModelledTime, Timing};

fn counters(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let named = counts
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count));
    named.collect()
}

fn line(line: u32, instructions: u64, read: u64, wavefronts: u64) -> LineCounters {
    LineCounters {
        line,
        counters: counters(&[
            ("warp_instructions", instructions),
            ("global.sectors_read", read),
            ("global.sectors_read_ideal", read / 4),
            ("shared.wavefronts", wavefronts),
            ("shared.wavefronts_ideal", wavefronts / 2),
        ]),
    }
}

/// Two launches of a case; the second one's `bottleneck` takes the most time.
fn timing(bottleneck: &str) -> Timing {
    let launch = |kernel: &str, us: f64| ModelledLaunch {
        kernel: kernel.to_owned(),
        us,
        launch_us: 1.0,
        bottleneck: bottleneck.to_owned(),
        share: 0.5,
    };
    Timing::Modelled {
        device: "l4".to_owned(),
        label: "uncalibrated".to_owned(),
        unscored: Vec::new(),
        cases: vec![ModelledTime {
            case: "wide".to_owned(),
            cache: CacheState::Cold,
            us: 12.0,
            launches: vec![launch("first", 4.0), launch("second", 8.0)],
        }],
    }
}

fn launches() -> Vec<CaseLaunches> {
    let launch = |kernel: &str| LaunchFacts {
        kernel: kernel.to_owned(),
        grid: [8, 1, 1],
        block: [64, 1, 1],
        shared_bytes: 0,
        modelled: None,
        modelled_warm: None,
        modelled_terms: BTreeMap::new(),
        counters: counters(&[
            ("warp_instructions", 1_000),
            ("global.sectors_read", 400),
            ("global.sectors_written", 100),
            ("shared.wavefronts", 200),
        ]),
    };
    vec![CaseLaunches {
        case: "wide".to_owned(),
        launches: vec![launch("first"), launch("second")],
    }]
}

fn find(bottleneck: &str, lines: &[LineCounters]) -> Option<HottestLines> {
    HottestLines::find(&timing(bottleneck), &launches(), |case, launch| {
        assert_eq!((case, launch), ("wide", 1));
        Some(lines)
    })
}

#[test]
fn lines_are_ordered_by_the_work_that_bounds_the_time() {
    let lines = [
        line(3, 500, 40, 0),
        line(7, 100, 400, 20),
        line(9, 50, 0, 180),
    ];
    for (bottleneck, work, order) in [
        ("issue", LineWork::Instructions, vec![3, 7, 9]),
        ("critical_path", LineWork::Instructions, vec![3, 7, 9]),
        ("l1_sectors", LineWork::GlobalSectors, vec![7, 3]),
        ("l2_bytes", LineWork::GlobalSectors, vec![7, 3]),
        ("dram_bytes", LineWork::GlobalSectors, vec![7, 3]),
        ("shared_wavefronts", LineWork::SharedWavefronts, vec![9, 7]),
    ] {
        let found = find(bottleneck, &lines).expect("lines were counted");
        assert_eq!(
            (found.case.as_str(), found.kernel.as_str()),
            ("wide", "second")
        );
        assert_eq!(found.work, work, "{bottleneck}");
        let numbers: Vec<_> = found.lines.iter().map(|line| line.line).collect();
        assert_eq!(numbers, order, "{bottleneck}");
    }
}

#[test]
fn a_line_has_its_part_of_the_launch_and_its_excess() {
    let found = find("dram_bytes", &[line(7, 100, 400, 20)]).expect("lines were counted");
    assert_eq!(found.lines[0].share, 0.8, "400 of 400 + 100 sectors");
    assert_eq!(found.lines[0].times_ideal, Some(4.0));
    let found = find("issue", &[line(7, 100, 400, 20)]).expect("lines were counted");
    assert_eq!(found.lines[0].share, 0.1);
    assert_eq!(found.lines[0].times_ideal, None);
}

#[test]
fn the_five_hottest_lines_are_kept() {
    let lines: Vec<_> = (1..=9)
        .map(|number| line(number, 10 * u64::from(number), 0, 0))
        .collect();
    let found = find("issue", &lines).expect("lines were counted");
    let numbers: Vec<_> = found.lines.iter().map(|line| line.line).collect();
    assert_eq!(numbers, [9, 8, 7, 6, 5]);
}

#[test]
fn a_line_with_less_than_a_hundredth_of_the_work_is_left_out() {
    let lines = [line(3, 10, 0, 0), line(4, 9, 0, 0)];
    let found = find("issue", &lines).expect("lines were counted");
    let numbers: Vec<_> = found.lines.iter().map(|line| line.line).collect();
    assert_eq!(numbers, [3]);
}

#[test]
fn without_counted_lines_there_are_none() {
    assert_eq!(find("issue", &[]), None);
    assert_eq!(find("shared_wavefronts", &[line(3, 500, 40, 0)]), None);
    let measured = Timing::Measured {
        cases: Vec::new(),
        unscored: Vec::new(),
    };
    let never = |_: &str, _: usize| -> Option<&[LineCounters]> { panic!("nothing is asked for") };
    assert_eq!(HottestLines::find(&measured, &launches(), never), None);
}
