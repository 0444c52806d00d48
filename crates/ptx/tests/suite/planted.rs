//! Kernels with exactly one planted mistake each, compiled by the real compiler (`*.cu`, `../compile`): each must get
//! exactly its finding, at its line, with the line of the other party where there is one.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Arg, Device};
use ptx::report::{Finding, Location};
use ptx::{Checks, Fragments, Schedule};

const SOURCES: [(&str, &str, &str); 5] = [
    (
        "barriers.cu",
        include_str!("../planted/barriers.cu"),
        include_str!("../planted/barriers.ptx"),
    ),
    (
        "blocks.cu",
        include_str!("../planted/blocks.cu"),
        include_str!("../planted/blocks.ptx"),
    ),
    (
        "copies.cu",
        include_str!("../planted/copies.cu"),
        include_str!("../planted/copies.ptx"),
    ),
    (
        "memory.cu",
        include_str!("../planted/memory.cu"),
        include_str!("../planted/memory.ptx"),
    ),
    (
        "races.cu",
        include_str!("../planted/races.cu"),
        include_str!("../planted/races.ptx"),
    ),
];

/// Numbers in each buffer.
const COUNT: usize = 256;

/// A kernel, how to launch it, and what must be found.
#[derive(Debug, Default)]
struct Case {
    kernel: String,
    grid: u32,
    block: u32,
    shared: u32,
    schedules: bool,
    fragments: bool,
    kind: String,
    line: u32,
    other: Option<u32>,
}

/// The cases a source describes in its comments.
fn cases(source: &str) -> Vec<Case> {
    let mut list: Vec<Case> = Vec::new();
    // The annotations before a kernel, possibly in a function that it calls.
    let mut next = Case::default();
    let mut bug = None;
    for (index, line) in source.lines().enumerate() {
        let number = index as u32 + 1;
        let words: Vec<&str> = line.trim_start_matches("// ").split([' ', ',']).collect();
        if line.starts_with("// grid") || line.starts_with("// block") {
            next = Case {
                grid: 1,
                ..Case::default()
            };
            for pair in words.windows(2) {
                let value = || pair[1].parse().expect("a number follows");
                let setting = match pair[0] {
                    "grid" => &mut next.grid,
                    "block" => &mut next.block,
                    "shared" => &mut next.shared,
                    _ => continue,
                };
                *setting = value();
            }
            next.schedules = words.contains(&"schedules");
            next.fragments = words.contains(&"fragments");
        }
        if let Some((_, rest)) = line.split_once("__global__ void ") {
            let (name, _) = rest.split_once('(').expect("parameters follow the name");
            next.kernel = name.to_owned();
            list.push(std::mem::take(&mut next));
            if let Some((line, kind)) = bug.take() {
                let case = list.last_mut().expect("one was just added");
                (case.line, case.kind) = (line, kind);
            }
        }
        if let Some((_, kind)) = line.split_once("// BUG ") {
            // A function stands before the kernel that calls it.
            match list.last_mut() {
                Some(case) if case.kind.is_empty() => {
                    (case.line, case.kind) = (number, kind.to_owned());
                }
                _ => bug = Some((number, kind.to_owned())),
            }
        }
        if line.ends_with("// OTHER") {
            list.last_mut().expect("a kernel was begun").other = Some(number);
        }
    }
    list
}

/// The findings and the memory after a launch.
struct Left {
    findings: Vec<Finding>,
    bytes: Vec<u32>,
    unwritten: u64,
    changed: bool,
}

fn launch(text: &str, case: &Case, schedule: Schedule, fragments: Fragments) -> Left {
    let mut device = Device::new(text);
    let numbers: Vec<i32> = (0..COUNT as i32).collect();
    let (a, b, out) = (
        device.buffer("a", &numbers),
        device.fresh("b", 4 * COUNT),
        device.fresh("out", 4 * COUNT),
    );
    let args = [
        Arg::Pointer(a),
        Arg::Pointer(b),
        Arg::Pointer(out),
        Arg::I32(COUNT as i32),
    ];
    let report = device
        .try_launch(
            &case.kernel,
            [case.grid, 1, 1],
            [case.block, 1, 1],
            &args,
            |config| {
                config.dynamic_shared = case.shared;
                config.budget = Some(3_000_000);
                config.schedule = schedule;
                config.fragments = fragments;
            },
        )
        .unwrap_or_else(|error| panic!("{}: failed to {error}", case.kernel));
    let mut bytes: Vec<u32> = device.read(a, COUNT);
    let changed = bytes
        .iter()
        .zip(&numbers)
        .any(|(now, before)| *now != *before as u32);
    bytes.extend(device.read::<u32>(out, COUNT));
    Left {
        findings: report.findings,
        bytes,
        unwritten: device
            .machine
            .unwritten(out, 4 * COUNT as u64)
            .expect("the buffer is alive")
            .count,
        changed,
    }
}

fn kind_of(finding: &Finding) -> String {
    let value = serde_json::to_value(finding.kind).expect("kinds are names");
    value.as_str().expect("kinds are names").to_owned()
}

/// The difference between the expected findings and those of a launch, as text; none if they agree.
fn mismatch(text: &str, case: &Case) -> Option<String> {
    let left = launch(text, case, Schedule::Serial, Fragments::Usual);
    let shown: Vec<String> = left
        .findings
        .iter()
        .map(|finding| {
            format!(
                "{} at {:?}: {}",
                kind_of(finding),
                finding.location.line,
                finding.message
            )
        })
        .collect();
    let line_of = |location: &Location| location.line;
    let other_schedule = || launch(text, case, Schedule::Seeded(3), Fragments::Usual);
    // Some mistakes show only in what a launch leaves behind, or in two launches that differ.
    let silent = match case.kind.as_str() {
        "unwritten_output" => Some(left.unwritten > 0 && !left.changed),
        "written_input" => Some(left.changed && left.unwritten == 0),
        "schedule_dependent" => Some(case.schedules && left.bytes != other_schedule().bytes),
        "fragment_layout" => Some(
            case.fragments
                && left.bytes != launch(text, case, Schedule::Serial, Fragments::Turned).bytes,
        ),
        _ => None,
    };
    if let Some(seen) = silent {
        return (!seen || !left.findings.is_empty()).then(|| format!("seen: {seen}, {shown:#?}"));
    }
    let [finding] = &left.findings[..] else {
        return Some(format!("{} findings: {shown:#?}", left.findings.len()));
    };
    let other = finding
        .other
        .as_ref()
        .and_then(|party| party.location.as_ref().and_then(line_of));
    let lines = BTreeSet::from([finding.location.line, other]);
    let wanted = BTreeSet::from([
        Some(case.line),
        case.other.or(other.filter(|line| *line == case.line)),
    ]);
    // Both parties of a race are equally guilty: which of them is met second does not matter.
    let right = kind_of(finding) == case.kind
        && (lines == wanted || (case.other.is_none() && finding.location.line == Some(case.line)));
    (!right).then(|| {
        format!(
            "wanted line {} and {:?}, found other {other:?}: {shown:#?}",
            case.line, case.other
        )
    })
}

#[test]
fn every_planted_mistake_gets_exactly_its_finding() {
    let mut wrong = BTreeMap::new();
    let mut kinds = BTreeSet::new();
    let mut count = 0;
    for (_, source, text) in SOURCES {
        for case in cases(source) {
            assert!(
                !case.kind.is_empty() && case.block > 0,
                "{case:?} is not marked"
            );
            count += 1;
            kinds.insert(case.kind.clone());
            if let Some(problem) = mismatch(text, &case) {
                wrong.insert(format!("{} ({})", case.kernel, case.kind), problem);
            }
        }
    }
    println!(
        "{} of {count} planted mistakes get exactly their finding",
        count - wrong.len()
    );
    for (case, problem) in &wrong {
        println!("{case}: {problem}");
    }
    assert!(wrong.is_empty(), "{} of {count} are wrong", wrong.len());
    assert!(
        count >= 40 && kinds.len() >= 20,
        "{count} mistakes of {} kinds",
        kinds.len()
    );
}

#[test]
fn no_ptx_is_stale() {
    for (name, source, text) in SOURCES {
        assert_eq!(
            crate::support::source_of(text),
            Some(format!("{name} {:016x}", crate::support::digest(source))),
            "run crates/ptx/tests/compile"
        );
    }
}

#[test]
fn without_checks_the_same_kernels_still_end() {
    for (_, source, text) in SOURCES {
        for case in cases(source) {
            let mut device = Device::new(text);
            let numbers: Vec<i32> = (0..COUNT as i32).collect();
            let args = [
                Arg::Pointer(device.buffer("a", &numbers)),
                Arg::Pointer(device.fresh("b", 4 * COUNT)),
                Arg::Pointer(device.fresh("out", 4 * COUNT)),
                Arg::I32(COUNT as i32),
            ];
            let report = device.try_launch(
                &case.kernel,
                [case.grid, 1, 1],
                [case.block, 1, 1],
                &args,
                |config| {
                    config.dynamic_shared = case.shared;
                    config.budget = Some(1_000_000);
                    config.checks = Checks::Off;
                },
            );
            let report =
                report.unwrap_or_else(|error| panic!("{}: failed to {error}", case.kernel));
            assert!(
                report
                    .findings
                    .iter()
                    .all(|finding| !kind_of(finding).ends_with("_race")),
                "{}: races are not looked for",
                case.kernel
            );
        }
    }
}
