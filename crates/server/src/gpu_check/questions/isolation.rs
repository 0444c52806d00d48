//! The isolation of processes that the driver allows, as the probe of the machine found it.

use worker::host::{Confinement, ConfinementReport, Isolation};

/// The rights that role processes gave up, and the barriers that are and are not in place.
pub(super) fn measured(report: &ConfinementReport, confinement: &Confinement) -> Vec<String> {
    let or_nothing = |words: &str| match words {
        "" => "nothing".to_owned(),
        words => words.to_owned(),
    };
    let given_up = [
        format!(
            "given up by a process itself: {}",
            or_nothing(&report.confined)
        ),
        format!("put around it: {}", or_nothing(&report.walled)),
    ];
    let gaps = confinement
        .open_files
        .iter()
        .chain(confinement.walls.gaps());
    let missing = gaps.map(|gap| format!("not there, {}: {}", gap.part, gap.reason));
    given_up.into_iter().chain(missing).collect()
}

/// The consequence for workers on this machine.
pub(super) fn conclusion(report: &ConfinementReport, confinement: &Confinement) -> String {
    let level = report.level();
    let works = format!(
        "the driver works in processes of {} isolation",
        level.as_str()
    );
    match &confinement.open_files {
        Some(gap) => format!("{works}, with open files only: {}", gap.reason),
        None if level < Isolation::Standard => {
            format!("{works}; this kernel cannot restrict files or system calls further")
        }
        None => format!("{works}: workers need no exception here"),
    }
}
