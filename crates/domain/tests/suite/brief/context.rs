//! The context of a prompt: the task, and texts that authors wrote.

use std::collections::BTreeMap;

use domain::brief::{CandidateBrief, Context, Lesson, outcome};
use domain::task::{Bundle, Task};

use super::{SOURCE, accepted, device};

/// The task that the service comes with.
fn task() -> Task {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/attention-f16");
    let mut files = BTreeMap::new();
    for part in ["", "playbook", "broken"] {
        for entry in std::fs::read_dir(folder.join(part)).expect("the folder is there") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let name = path
                    .strip_prefix(&folder)
                    .expect("inside")
                    .display()
                    .to_string();
                files.insert(name, std::fs::read_to_string(path).expect("a text"));
            }
        }
    }
    Task::load(&Bundle { files }).expect("the task is right")
}

#[test]
fn a_context_holds_the_task_without_its_held_out_cases() {
    let context = Context::new(&task(), Some(&device()));
    let cases: Vec<_> = context
        .task
        .cases
        .iter()
        .map(|case| (case.name.as_str(), case.scored))
        .collect();
    assert!(cases.contains(&("starved", true)) && cases.contains(&("ragged", false)));
    let all = serde_json::to_string(&context).expect("JSON");
    assert!(!all.contains("wide"), "the held-out case shows");
    assert!(!all.contains("GPU-secret"));
    let arguments: Vec<_> = context
        .task
        .arguments
        .iter()
        .map(|argument| format!("{} {}", argument.parameter, argument.name))
        .collect();
    assert_eq!(
        arguments,
        [
            "const __half* q",
            "const __half* k",
            "const __half* v",
            "__half* o",
            "float scale",
            "int B",
            "int D",
            "int H",
            "int S",
        ]
    );
    let targets = context.task.targets.iter();
    let targets: Vec<_> = targets
        .map(|target| format!("{} {}", target.speedup, target.name))
        .collect();
    assert_eq!(
        targets[..3],
        [
            "1.5 the target of the task",
            "2 minimum in phase parallelism",
            "4 good in phase parallelism"
        ]
    );
    assert!(context.primary().is_none());
}

#[test]
fn what_authors_wrote_is_shortened_and_cleaned() {
    let evaluation = accepted();
    let anchor = evaluation
        .verdict
        .acceptance()
        .map(|acceptance| acceptance.timing.clone());
    let shown = CandidateBrief::new(
        "#3",
        "two\u{1b}[1m rows",
        Some(" \u{202e} "),
        SOURCE,
        Some(&evaluation),
        anchor.as_ref(),
    );
    assert_eq!(
        (shown.title.as_str(), shown.thought.as_deref()),
        ("two rows", None)
    );
    assert_eq!((shown.speedup, shown.modelled), (Some(1.0), true));
    assert_eq!(
        outcome(&evaluation, Some(6.1)),
        "6.10 times the baseline's speed (modelled)"
    );
    let lesson = Lesson::new(&"x ".repeat(5000), Some("rejected"));
    assert_eq!(lesson.thought.chars().count(), 2000);
}
