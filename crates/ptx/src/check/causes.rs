//! Merges findings of one defect: a finding that is only a symptom of another one is counted with it, and causes come
//! first.
//!
//! A missing block barrier causes up to four findings: a race of two lanes of one warp, races of two warps from the
//! reading and from the writing side, and the use of uninitialised values. The advice must be the block barrier, which
//! orders all of them.

use super::Noted;
use crate::report::{Finding, FindingKind, Location};

/// Reports whether two locations are on one line: of the source where it is known, of the PTX otherwise.
pub(super) fn same_line(one: &Location, two: &Location) -> bool {
    match (one.line, two.line) {
        (Some(a), Some(b)) => a == b && one.file == two.file,
        (None, None) => one.ptx_line == two.ptx_line,
        _ => false,
    }
}

fn is_race(kind: FindingKind) -> bool {
    matches!(
        kind,
        FindingKind::SharedRace | FindingKind::WarpRace | FindingKind::GlobalRace
    )
}

fn is_uninitialised(kind: FindingKind) -> bool {
    matches!(
        kind,
        FindingKind::UninitialisedAddress
            | FindingKind::UninitialisedBranch
            | FindingKind::UninitialisedStore
    )
}

/// Both locations of a race.
fn places(finding: &Finding) -> [Option<&Location>; 2] {
    [
        Some(&finding.location),
        finding
            .other
            .as_ref()
            .and_then(|party| party.location.as_ref()),
    ]
}

fn buffer(finding: &Finding) -> Option<&str> {
    finding.access.as_ref()?.buffer.as_deref()
}

/// Reports whether a race is between two warps, and the other finding is the same two lines from the other side or
/// within one warp.
fn same_race(cause: &Finding, other: &Finding) -> bool {
    let outranks = cause.kind == other.kind
        || (cause.kind == FindingKind::SharedRace && other.kind == FindingKind::WarpRace);
    let [Some(a), Some(b)] = places(cause) else {
        return false;
    };
    let [Some(c), Some(d)] = places(other) else {
        return false;
    };
    outranks
        && is_race(other.kind)
        && buffer(cause) == buffer(other)
        && ((same_line(a, c) && same_line(b, d)) || (same_line(a, d) && same_line(b, c)))
}

/// Reports whether an uninitialised value was read too early by a race.
fn read_too_early(race: &Finding, other: &Noted) -> bool {
    (other.read_shared || race.kind == FindingKind::GlobalRace)
        && is_uninitialised(other.finding.kind)
        && places(race)
            .into_iter()
            .flatten()
            .any(|place| same_line(place, &other.finding.location))
}

/// Drops symptoms, and moves races between warps before races within a warp over the same buffer.
pub(super) fn merge_symptoms(noted: Vec<Noted>) -> Vec<Finding> {
    let mut kept: Vec<Noted> = Vec::new();
    let (races, rest): (Vec<Noted>, Vec<Noted>) = noted
        .into_iter()
        .enumerate()
        .map(|(position, noted)| Noted {
            block: position as u64,
            ..noted
        })
        .partition(|noted| is_race(noted.finding.kind));
    // Races between warps come first, because they explain those within a warp.
    let (between, inside): (Vec<Noted>, Vec<Noted>) = races
        .into_iter()
        .partition(|noted| noted.finding.kind != FindingKind::WarpRace);
    for race in between.into_iter().chain(inside) {
        match kept
            .iter_mut()
            .find(|cause| same_race(&cause.finding, &race.finding))
        {
            Some(cause) => {
                cause.finding.occurrences += race.finding.occurrences;
                cause.block = cause.block.min(race.block);
            }
            None => kept.push(race),
        }
    }
    for other in rest {
        match kept
            .iter_mut()
            .find(|cause| is_race(cause.finding.kind) && read_too_early(&cause.finding, &other))
        {
            Some(cause) => {
                cause.finding.occurrences += other.finding.occurrences;
                cause.block = cause.block.min(other.block);
            }
            None => kept.push(other),
        }
    }
    let first_between = |name: Option<&str>, kept: &[Noted]| {
        kept.iter()
            .filter(|noted| {
                noted.finding.kind == FindingKind::SharedRace && buffer(&noted.finding) == name
            })
            .map(|noted| noted.block)
            .max()
    };
    // If one finding became part of another, the earlier position counts.
    let mut order: Vec<(u64, bool, usize)> = kept
        .iter()
        .enumerate()
        .map(|(index, noted)| {
            let behind = (noted.finding.kind == FindingKind::WarpRace)
                .then(|| first_between(buffer(&noted.finding), &kept))
                .flatten();
            (
                behind.map_or(noted.block, |last| last.max(noted.block)),
                behind.is_some(),
                index,
            )
        })
        .collect();
    order.sort_unstable();
    let mut kept: Vec<Option<Finding>> =
        kept.into_iter().map(|noted| Some(noted.finding)).collect();
    order
        .into_iter()
        .filter_map(|(.., index)| kept[index].take())
        .collect()
}
