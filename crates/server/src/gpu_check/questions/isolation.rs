//! How far a driver lets processes be kept from the machine: what a probe around it has shown.

use worker::host::{Barriers, Isolation, Said};

/// What roles gave up, what is around them, and what is not.
pub(super) fn measured(said: &Said, barriers: &Barriers) -> Vec<String> {
    let or_nothing = |words: &str| match words {
        "" => "nothing".to_owned(),
        words => words.to_owned(),
    };
    let given_up = [
        format!(
            "given up by a process itself: {}",
            or_nothing(&said.confined)
        ),
        format!("put around it: {}", or_nothing(&said.walled)),
    ];
    let gaps = barriers.open_files.iter().chain(barriers.walls.gaps());
    let missing = gaps.map(|gap| format!("not there, {}: {}", gap.part, gap.reason));
    given_up.into_iter().chain(missing).collect()
}

/// What that means for workers on such a machine.
pub(super) fn conclusion(said: &Said, barriers: &Barriers) -> String {
    let level = said.level();
    let works = format!(
        "the driver works in processes of {} isolation",
        level.as_str()
    );
    match &barriers.open_files {
        Some(gap) => format!("{works}, with open files only: {}", gap.reason),
        None if level < Isolation::Standard => {
            format!("{works}; this kernel cannot restrict files or system calls further")
        }
        None => format!("{works}: workers need no exception here"),
    }
}
