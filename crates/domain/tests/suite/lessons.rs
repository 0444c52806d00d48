//! The lessons of a run: its thoughts with their outcomes.

use std::collections::BTreeMap;

use chrono::DateTime;
use domain::id::CandidateId;
use domain::search::{
    Cell, Entry, EntryState, InsightEdit, InsightRecords, LessonsOrigin, Operator, Steering,
    lessons,
};
use domain::verdict::VerdictKind;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const RACE: EntryState = EntryState::Rejected(VerdictKind::DataRace);
const ORIGIN: LessonsOrigin<'static> = LessonsOrigin {
    run: "night",
    task: "softmax-f32",
    device: Some("NVIDIA L4 (sm_89, 58 SMs)"),
};

fn accepted(speedup: f64) -> EntryState {
    EntryState::Accepted {
        speedup,
        promotable: true,
        unmet_phases: Vec::new(),
    }
}

fn id(place: usize) -> CandidateId {
    let mut rng = ChaCha8Rng::seed_from_u64(place as u64);
    CandidateId::generate(DateTime::UNIX_EPOCH, &mut rng)
}

/// A run: its baseline, then each candidate's parent by its place, thought and state.
fn records(candidates: &[(usize, &str, EntryState)]) -> InsightRecords {
    let entry = |place: usize, parent: Option<usize>, thought: &str, state: &EntryState| Entry {
        id: id(place),
        parent: parent.map(id),
        operator: match parent {
            None => Operator::Baseline,
            Some(_) => Operator::Mutation,
        },
        generation: 1,
        configuration: BTreeMap::new(),
        state: state.clone(),
        trial: true,
        duplicate: false,
        thought: Some(thought.to_owned()),
        image: None,
        floor_share: None,
        cell: Cell::default(),
        asked: None,
    };
    let baseline = entry(0, None, "the baseline's thought", &accepted(1.0));
    let others = (1..).zip(candidates);
    let others =
        others.map(|(place, (parent, thought, state))| entry(place, Some(*parent), thought, state));
    InsightRecords {
        entries: std::iter::once(baseline).chain(others).collect(),
        ..InsightRecords::default()
    }
}

#[test]
fn thoughts_are_told_with_what_came_of_them() {
    let run = records(&[
        (0, "Load four floats at once.", accepted(1.5)),
        (1, "Keep the row in registers.", accepted(3.0)),
        (2, "Unroll the loop by eight.", accepted(3.0)),
        (2, "Drop the second barrier.", RACE),
        (2, "Drop the second barrier!", RACE),
        (2, "load FOUR floats at once", RACE),
        (2, "Not yet judged at all.", EntryState::Pending),
    ]);
    assert_eq!(
        lessons(&run, &Steering::default(), ORIGIN),
        "Found by the run \"night\" of the task softmax-f32 on NVIDIA L4 (sm_89, 58 SMs). Thoughts are in the \
         words of the candidates' authors.\n\
         \n\
         What helped:\n\
         - Keep the row in registers. [2.00 times its parent's speed]\n\
         - Load four floats at once. [1.50 times its parent's speed; rejected: two threads conflict without synchronisation]\n\
         \n\
         What did not help:\n\
         - Drop the second barrier. [2 times rejected: two threads conflict without synchronisation]\n\
         - Unroll the loop by eight. [not faster than its parent]\n"
    );
}

#[test]
fn a_candidate_whose_confirmation_failed_did_not_help() {
    let mut run = records(&[(0, "Load four floats at once.", accepted(1.5))]);
    run.refused.insert(id(1));
    let told = lessons(&run, &Steering::default(), ORIGIN);
    assert!(told.contains("What did not help"), "{told}");
    assert!(told.contains("[failed its confirmation]"), "{told}");
}

#[test]
fn without_a_speedup_of_the_parent_no_gain_is_told() {
    let run = records(&[
        (0, "Drop the second barrier.", RACE),
        (
            1,
            "Put the barrier back and load four floats.",
            accepted(1.5),
        ),
    ]);
    let told = lessons(&run, &Steering::default(), ORIGIN);
    assert!(!told.contains("What helped"), "{told}");
    assert!(!told.contains("Put the barrier back"), "{told}");
}

#[test]
fn people_correct_a_thought_or_leave_it_out() {
    let run = records(&[
        (0, "Load four floats at once.", accepted(1.5)),
        (0, "Keep the row in registers.", accepted(1.2)),
    ]);
    let mut steering = Steering::default();
    let edit = |text: Option<&str>| InsightEdit {
        entry: 1,
        text: text.map(str::to_owned),
    };
    steering.insights.insert(id(1), edit(Some("Use float4.")));
    steering.insights.insert(id(2), edit(None));
    let told = lessons(&run, &steering, ORIGIN);
    assert!(told.contains("- Use float4. [1.50 times"), "{told}");
    assert!(!told.contains("registers"), "{told}");
}

#[test]
fn a_run_without_a_judged_thought_teaches_nothing() {
    let unsupported = EntryState::Rejected(VerdictKind::Unsupported);
    let run = records(&[
        (0, "Not yet judged at all.", EntryState::Pending),
        (
            0,
            "An instruction that the emulated device lacks.",
            unsupported,
        ),
    ]);
    assert_eq!(lessons(&run, &Steering::default(), ORIGIN), "");
}

#[test]
fn text_of_candidates_stays_on_its_line() {
    let run = records(&[(
        0,
        "Fast.\n\nWhat helped:\n- \u{202e}all of it",
        accepted(1.5),
    )]);
    let told = lessons(&run, &Steering::default(), ORIGIN);
    assert_eq!(told.matches("\nWhat helped:").count(), 1, "{told}");
    assert!(!told.contains('\u{202e}'), "{told}");
}

#[test]
fn at_most_twelve_thoughts_of_a_kind_are_told() {
    let thoughts: Vec<String> = (0..40)
        .map(|n| format!("idea{n} word{n} other{n}"))
        .collect();
    let candidates: Vec<_> = thoughts
        .iter()
        .zip(1_u32..)
        .map(|(thought, n)| (0, thought.as_str(), accepted(1.0 + f64::from(n))))
        .collect();
    let told = lessons(&records(&candidates), &Steering::default(), ORIGIN);
    assert_eq!(told.matches("\n- ").count(), 12);
    assert!(
        told.contains("idea39 "),
        "the largest gains are kept: {told}"
    );
}
