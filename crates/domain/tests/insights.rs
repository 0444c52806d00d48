//! Statistics of insights: how often prompts showed each, and how their candidates ended.

use std::collections::{BTreeMap, HashMap};

use chrono::DateTime;
use domain::api::ShownCandidates;
use domain::id::CandidateId;
use domain::search::{Entry, EntryState, Insight, Operator, insights};
use domain::verdict::VerdictKind;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const WRONG: EntryState = EntryState::Rejected(VerdictKind::DataRace);

fn accepted(speedup: f64) -> EntryState {
    EntryState::Accepted {
        speedup,
        promotable: true,
        unmet_phases: Vec::new(),
    }
}

fn abandoned() -> EntryState {
    EntryState::Abandoned {
        reason: "no disk".to_owned(),
    }
}

fn id(place: usize) -> CandidateId {
    CandidateId::generate(
        DateTime::UNIX_EPOCH,
        &mut ChaCha8Rng::seed_from_u64(place as u64),
    )
}

/// A run: each candidate's state, and whose thoughts its prompt showed; the best that it showed
/// is always the baseline.
fn told(run: &[(EntryState, &[usize])]) -> Vec<Insight> {
    let entry = |(place, (state, _)): (usize, &(EntryState, &[usize]))| Entry {
        id: id(place),
        parent: None,
        operator: Operator::Init,
        generation: 1,
        configuration: BTreeMap::new(),
        state: state.clone(),
        trial: true,
        duplicate: false,
        thought: Some(format!("thought {place}")),
    };
    let entries = run.iter().enumerate().map(entry).collect::<Vec<_>>();
    let seen = |(place, (_, shown)): (usize, &(EntryState, &[usize]))| {
        let seen = ShownCandidates {
            best: Some(id(0)),
            insights: shown.iter().map(|place| id(*place)).collect(),
            ..ShownCandidates::default()
        };
        (id(place), seen)
    };
    let seen = run.iter().enumerate().skip(1).map(seen);
    insights(&entries, &seen.collect::<HashMap<_, _>>())
}

#[test]
fn readers_are_counted_by_what_became_of_them() {
    let told = told(&[
        (accepted(1.0), &[]),
        (accepted(2.0), &[]),
        (accepted(3.0), &[1]),
        (accepted(0.9), &[1]),
        (WRONG, &[1]),
        (abandoned(), &[1]),
        (EntryState::Pending, &[1]),
    ]);
    let first = &told[0];
    assert_eq!((first.ordinal, first.thought.as_str()), (1, "thought 1"));
    assert_eq!(first.speedup, Some(2.0));
    let counts = (first.shown, first.judged, first.accepted, first.wins);
    assert_eq!(counts, (5, 3, 2, 1));
    assert_eq!(first.last_shown, Some(6));
    assert_eq!(first.uplift, None, "two readers are too few to compare");
    let others = told[1..].iter().map(|insight| insight.ordinal);
    assert_eq!(others.collect::<Vec<_>>(), [2, 3, 4, 5], "nobody read them");
    let wrong = told.iter().find(|insight| insight.ordinal == 4);
    let wrong = wrong.expect("a thought that failed is told, too");
    assert_eq!(wrong.verdict, Some(VerdictKind::DataRace));
    assert_eq!((wrong.shown, wrong.last_shown), (0, None));
}

#[test]
fn those_that_read_are_compared_with_those_after_it_that_did_not() {
    let told = told(&[
        (accepted(1.0), &[]),
        // Before the thought there was nothing to read: it is on neither side.
        (accepted(50.0), &[]),
        (accepted(1.5), &[]),
        (accepted(4.0), &[2]),
        (accepted(2.0), &[]),
        (accepted(5.0), &[2]),
        (accepted(1.0), &[]),
        (accepted(6.0), &[2]),
        (accepted(3.0), &[]),
        (WRONG, &[]),
    ]);
    let insight = told.iter().find(|insight| insight.ordinal == 2);
    assert_eq!(insight.expect("it was judged").uplift, Some(5.0 / 2.0));
}

#[test]
fn those_that_won_come_first() {
    let told = told(&[
        (accepted(1.0), &[]),
        (accepted(1.1), &[]),
        (accepted(1.2), &[]),
        (accepted(0.5), &[1]),
        (accepted(0.6), &[1]),
        (accepted(2.0), &[2]),
    ]);
    let order = told.iter().map(|insight| insight.ordinal);
    assert_eq!(order.collect::<Vec<_>>(), [2, 1, 3, 4, 5]);
}
