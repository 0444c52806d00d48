//! Translation of the emulated device's launch reports into the types that verdicts use.
//!
//! The module drops findings that prove nothing against a candidate; it judges nothing itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use domain::finding::{Finding, FindingKind, OtherParty};
use domain::plan::ResolvedLaunch;
use domain::role::{LaunchFacts, LaunchLines, LineCounters, UnsupportedInstruction};
use domain::timing::ModelledLaunch;
use serde_json::Value;

use crate::driver::emulator::{self, LaunchReport, Location, Modelled};

/// Most findings kept per execution, because the reply has a size limit and the first few decide.
const MAX_FINDINGS: usize = 32;
/// Most source lines reported per launch, because the reply has a size limit.
const MAX_LINES: usize = 256;

/// The properties of an execution's buffers on which findings depend.
#[derive(Debug, Default)]
pub struct Buffers<'a> {
    /// Outputs with bytes that were never written, or written with an uninitialised value.
    pub incomplete: BTreeSet<&'a str>,
    /// Offset of each buffer in its allocation, bytes.
    pub starts: BTreeMap<&'a str, i64>,
}

/// The findings of all launches in order.
///
/// A store of an uninitialised value counts only if the value is still in an output at the end, because it is correct
/// for a tile to load garbage at its tail and to mask or overwrite it later. If the device dropped findings, all that
/// it kept count, so that many harmless findings cannot hide a race.
pub fn findings(reports: &[LaunchReport], buffers: &Buffers<'_>) -> Vec<Finding> {
    reports
        .iter()
        .flat_map(|report| {
            report
                .findings
                .iter()
                .filter(|finding| report.findings_dropped > 0 || is_counted(finding, buffers))
        })
        .map(|finding| translate(finding, buffers))
        .take(MAX_FINDINGS)
        .collect()
}

fn is_counted(finding: &emulator::Finding, buffers: &Buffers<'_>) -> bool {
    finding.kind != "uninitialised_store"
        || buffer(finding).is_some_and(|name| buffers.incomplete.contains(name))
}

fn buffer(finding: &emulator::Finding) -> Option<&str> {
    finding.access.as_ref()?.buffer.as_deref()
}

fn translate(finding: &emulator::Finding, buffers: &Buffers<'_>) -> Finding {
    let buffer = buffer(finding);
    let start = buffer.and_then(|name| buffers.starts.get(name));
    Finding {
        kind: kind(&finding.kind, finding.fatal),
        kernel: finding.kernel.clone(),
        line: line(&finding.location),
        block: finding.block,
        thread: finding.thread,
        buffer: buffer.map(|name| source_name(name).to_owned()),
        offset: finding
            .access
            .as_ref()
            .map(|access| access.offset - start.copied().unwrap_or(0)),
        other: finding.other.as_ref().and_then(|other| {
            Some(OtherParty {
                block: other.block,
                thread: other.thread?,
                line: other.location.as_ref().and_then(line),
            })
        }),
        occurrences: finding.occurrences,
        message: buffer.map_or_else(
            || finding.message.clone(),
            |name| finding.message.replace(name, source_name(name)),
        ),
    }
}

/// The name in the source of a variable that the compiler named `_ZZ7softmaxE7of_warp`: the last part, after its
/// length, of a local static of a function (Itanium C++ ABI, 5.1.6). Other names are returned unchanged.
fn source_name(name: &str) -> &str {
    let Some(local) = name.strip_prefix("_ZZ") else {
        return name;
    };
    let entity = |(end_of_function, _): (usize, &str)| {
        let entity = &local[end_of_function + 1..];
        let digits = entity.find(|character: char| !character.is_ascii_digit())?;
        let (length, rest) = entity.split_at(digits);
        let (name, discriminator) = rest.split_at_checked(length.parse().ok()?)?;
        (discriminator.is_empty() || discriminator.starts_with('_')).then_some(name)
    };
    local.match_indices('E').find_map(entity).unwrap_or(name)
}

/// The kind for the emulated device's name of it. An unknown name belongs to a newer device and is classified by its
/// effect: whether it stopped the launch.
fn kind(name: &str, fatal: bool) -> FindingKind {
    match name {
        "out_of_bounds_read" => FindingKind::OutOfBoundsRead,
        "out_of_bounds_write" => FindingKind::OutOfBoundsWrite,
        "misaligned" => FindingKind::Misaligned,
        "illegal_address" => FindingKind::IllegalAddress,
        "uninitialised_address" | "uninitialised_branch" | "uninitialised_store" => {
            FindingKind::Uninitialised
        }
        // An asynchronous copy in flight is one more writer that is not ordered before the reader.
        "shared_race" | "warp_race" | "unawaited_copy" => FindingKind::SharedRace,
        "global_race" => FindingKind::GlobalRace,
        "divergent_barrier" => FindingKind::DivergentBarrier,
        "deadlock" => FindingKind::Deadlock,
        "budget_exhausted" => FindingKind::Hang,
        "assertion" => FindingKind::Assert,
        "schedule_dependent" => FindingKind::ScheduleDependent,
        _ if fatal => FindingKind::Trap,
        // A value that the ISA leaves undefined, such as that of a shuffle from an absent lane.
        _ => FindingKind::Uninitialised,
    }
}

/// The line, if it is in the candidate's own file and not in a header.
fn line(location: &Location) -> Option<u32> {
    let own = location
        .file
        .as_ref()
        .is_none_or(|file| file.ends_with(".cu"));
    location.line.filter(|&line| own && line > 0)
}

/// The launches that ran, according to the device's report. The plan adds only what a driver does not distinguish:
/// dynamic from static shared memory.
pub fn launches(reports: &[LaunchReport], planned: &[ResolvedLaunch]) -> Vec<LaunchFacts> {
    reports
        .iter()
        .filter(|report| report.outcome.has_run())
        .enumerate()
        .map(|(index, report)| LaunchFacts {
            kernel: report.kernel.clone(),
            grid: report.grid,
            block: report.block,
            shared_bytes: planned.get(index).map_or(0, |launch| launch.shared_bytes),
            modelled: report
                .modelled
                .as_ref()
                .map(|time| modelled(&report.kernel, time)),
            modelled_warm: report
                .modelled_warm
                .as_ref()
                .map(|time| modelled(&report.kernel, time)),
            modelled_terms: report.modelled.as_ref().map(terms).unwrap_or_default(),
            counters: counters(&report.counters),
        })
        .collect()
}

/// The launches of a device without reports: those that it accepted.
pub fn accepted(launched: &[ResolvedLaunch]) -> Vec<LaunchFacts> {
    launched
        .iter()
        .map(|launch| LaunchFacts {
            kernel: launch.kernel.clone(),
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            modelled: None,
            modelled_warm: None,
            modelled_terms: BTreeMap::new(),
            counters: BTreeMap::new(),
        })
        .collect()
}

/// The first instruction that the device does not implement.
pub fn unsupported(reports: &[LaunchReport]) -> Option<UnsupportedInstruction> {
    let outcome = &reports
        .iter()
        .find(|report| report.outcome.is_unsupported())?
        .outcome;
    let opcode = outcome.opcode.as_deref().unwrap_or("an instruction");
    Some(UnsupportedInstruction {
        opcode: opcode.to_owned(),
        line: line(&Location {
            file: outcome.file.clone(),
            line: outcome.line,
        }),
    })
}

/// The terms that are not zero, to the nanosecond.
fn terms(time: &Modelled) -> BTreeMap<String, f64> {
    let terms = time.terms.iter();
    let rounded = terms.map(|(term, us)| (term.clone(), (us * 1e3).round() / 1e3));
    rounded.filter(|(_, us)| *us > 0.0).collect()
}

fn modelled(kernel: &str, time: &Modelled) -> ModelledLaunch {
    ModelledLaunch {
        kernel: kernel.to_owned(),
        us: time.microseconds,
        launch_us: time.launch_microseconds,
        bottleneck: time.bottleneck.clone(),
        share: time.share,
    }
}

/// Counters per source line of each launch that ran: the `most` lines with the most instructions, without zeros,
/// because the reply has a size limit.
pub fn lines(execution: u32, reports: &[LaunchReport], most: usize) -> Vec<LaunchLines> {
    let ran = reports.iter().filter(|report| report.outcome.has_run());
    ran.map(|report| {
        let counted = report.counters.get("lines").and_then(Value::as_array);
        let mut lines = counted
            .into_iter()
            .flatten()
            .filter_map(line_counters)
            .collect::<Vec<_>>();
        lines.sort_by_key(|line| Reverse(line.counters.get("warp_instructions").copied()));
        lines.truncate(most.min(MAX_LINES));
        lines.sort_by_key(|line| line.line);
        LaunchLines {
            execution,
            kernel: report.kernel.clone(),
            lines,
        }
    })
    .collect()
}

/// The counters of one line of the candidate's own file.
fn line_counters(tally: &Value) -> Option<LineCounters> {
    let number = tally.get("line")?.as_u64()?;
    let file = tally.get("file").and_then(Value::as_str);
    let place = Location {
        file: file.map(str::to_owned),
        line: u32::try_from(number).ok(),
    };
    let mut counters = counters(tally.get("tally")?);
    counters.retain(|_, count| *count > 0);
    Some(LineCounters {
        line: line(&place)?,
        counters,
    })
}

/// The integers of a launch's counters, with nested names joined by dots. Counters per source line are omitted,
/// because the reply has a size limit.
fn counters(counters: &Value) -> BTreeMap<String, u64> {
    fn collect(prefix: &str, value: &Value, into: &mut BTreeMap<String, u64>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let path = match (prefix, name.as_str()) {
                        ("", "total") => String::new(),
                        ("", name) => name.to_owned(),
                        (prefix, name) => format!("{prefix}.{name}"),
                    };
                    collect(&path, value, into);
                }
            }
            Value::Number(number) => {
                if let Some(number) = number.as_u64() {
                    into.insert(prefix.to_owned(), number);
                }
            }
            _ => {}
        }
    }
    let mut found = BTreeMap::new();
    collect("", counters, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(finding_kind: &str, fatal: bool, buffer: &str, file: &str) -> LaunchReport {
        serde_json::from_value(json!({
            "kernel": "k", "grid": [2, 1, 1], "block": [32, 1, 1], "shared_bytes": 64,
            "outcome": {"kind": "completed"},
            "findings": [{
                "kind": finding_kind, "fatal": fatal, "kernel": "k",
                "location": {"file": file, "line": 12, "ptx_line": 99},
                "block": [1, 0, 0], "thread": [3, 0, 0],
                "access": {"space": "global", "buffer": buffer, "pointer": 4096, "offset": 20,
                           "buffer_bytes": 16, "bytes": 4},
                "other": null, "waits": [], "occurrences": 5, "message": "what happened",
            }],
            "counters": {"blocks": 2, "total": {"warp_instructions": 7, "global": {"sectors_read": 9}},
                         "critical_path_mean": 1.5, "lines": [{"line": 1}]},
            "modelled": {"microseconds": 2.5, "launch_microseconds": 2.0,
                         "bottleneck": "issue", "share": 0.5,
                         "terms": {"issue": 1.23456, "tensor": 0.0}},
        }))
        .unwrap()
    }

    #[test]
    fn lines_are_the_candidates_own_in_order_and_without_zeros() {
        let mut report = report("shared_race", false, "out", "a.cu");
        let tally = |line: u32, file: &str, instructions: u64| {
            json!({"file": file, "line": line, "tally": {
                "warp_instructions": instructions, "global": {"sectors_read": 0, "bytes_read": 4}}})
        };
        report.counters = json!({"lines": [
            tally(9, "/x/candidate.cu", 5), tally(3, "/x/candidate.cu", 7),
            tally(4, "/include/cuda_fp16.hpp", 100)]});
        let [hottest] = &lines(6, std::slice::from_ref(&report), 1)[..] else {
            panic!("one launch");
        };
        assert_eq!(hottest.lines[0].line, 3);
        assert_eq!(hottest.lines.len(), 1);
        let [found] = &lines(6, &[report], 9)[..] else {
            panic!("one launch");
        };
        assert_eq!((found.execution, found.kernel.as_str()), (6, "k"));
        let numbers = found.lines.iter().map(|line| line.line).collect::<Vec<_>>();
        assert_eq!(numbers, [3, 9]);
        let expected = [
            ("global.bytes_read".to_owned(), 4),
            ("warp_instructions".to_owned(), 7),
        ];
        assert_eq!(found.lines[0].counters, BTreeMap::from(expected));
    }

    #[test]
    fn every_finding_kind_is_translated() {
        for (name, fatal, expected) in [
            ("out_of_bounds_read", true, FindingKind::OutOfBoundsRead),
            ("out_of_bounds_write", true, FindingKind::OutOfBoundsWrite),
            ("misaligned", true, FindingKind::Misaligned),
            ("illegal_address", true, FindingKind::IllegalAddress),
            ("uninitialised_address", false, FindingKind::Uninitialised),
            ("uninitialised_branch", false, FindingKind::Uninitialised),
            ("shared_race", false, FindingKind::SharedRace),
            ("warp_race", false, FindingKind::SharedRace),
            ("unawaited_copy", false, FindingKind::SharedRace),
            ("global_race", false, FindingKind::GlobalRace),
            ("divergent_barrier", true, FindingKind::DivergentBarrier),
            ("deadlock", true, FindingKind::Deadlock),
            ("budget_exhausted", true, FindingKind::Hang),
            ("trap", true, FindingKind::Trap),
            ("assertion", true, FindingKind::Assert),
            ("invalid_operands", true, FindingKind::Trap),
            ("invalid_operands", false, FindingKind::Uninitialised),
        ] {
            let reports = [report(name, fatal, "q", "k.cu")];
            let found = findings(&reports, &Buffers::default());
            assert_eq!(found[0].kind, expected, "{name}");
        }
    }

    #[test]
    fn an_uninitialised_store_counts_only_if_it_stays_in_an_output() {
        let reports = [report("uninitialised_store", false, "o", "k.cu")];
        assert!(findings(&reports, &Buffers::default()).is_empty());
        let incomplete = Buffers {
            incomplete: BTreeSet::from(["o"]),
            ..Buffers::default()
        };
        assert_eq!(findings(&reports, &incomplete).len(), 1);
        let flooded = [LaunchReport {
            findings_dropped: 1,
            ..reports[0].clone()
        }];
        assert_eq!(findings(&flooded, &Buffers::default()).len(), 1);
    }

    #[test]
    fn locations_in_headers_are_dropped() {
        let buffers = Buffers {
            starts: BTreeMap::from([("q", 4)]),
            ..Buffers::default()
        };
        let own = findings(&[report("misaligned", true, "q", "k.cu")], &buffers);
        assert_eq!((own[0].line, own[0].offset), (Some(12), Some(16)));
        let header = findings(
            &[report("misaligned", true, "q", "cuda_fp16.hpp")],
            &buffers,
        );
        assert_eq!(header[0].line, None);
    }

    #[test]
    fn variables_have_their_names_in_the_source() {
        for (mangled, name) in [
            ("_ZZ7softmaxE7of_warp", "of_warp"),
            ("_ZZ9attentionE4keys_0", "keys"),
            ("_ZZ4gemmPfE5right", "right"),
            ("_ZZ4gEmmE8rowsEnd1", "rowsEnd1"),
            ("q", "q"),
            ("_ZZ4gemmE99x", "_ZZ4gemmE99x"),
        ] {
            let mut report = report("shared_race", false, mangled, "k.cu");
            report.findings[0].message = format!("writes byte 4 of `{mangled}`");
            let found = &findings(&[report], &Buffers::default())[0];
            assert_eq!(found.buffer.as_deref(), Some(name));
            assert_eq!(found.message, format!("writes byte 4 of `{name}`"));
        }
    }

    #[test]
    fn launch_facts_follow_the_devices_report() {
        let facts = &launches(&[report("trap", true, "q", "k.cu")], &[])[0];
        assert_eq!((facts.grid, facts.block), ([2, 1, 1], [32, 1, 1]));
        assert_eq!(facts.modelled.as_ref().unwrap().us, 2.5);
        let terms = BTreeMap::from([("issue".to_owned(), 1.235)]);
        assert_eq!(facts.modelled_terms, terms);
        assert_eq!(
            facts.counters,
            BTreeMap::from([
                ("blocks".to_owned(), 2),
                ("warp_instructions".to_owned(), 7),
                ("global.sectors_read".to_owned(), 9),
            ])
        );
    }
}
