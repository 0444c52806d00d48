//! Statistics of insights: how often prompts showed each, and how their candidates ended.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::DateTime;
use domain::api::ShownCandidates;
use domain::id::CandidateId;
use domain::search::{Cell, Entry, EntryState, Insight, InsightRecords, Operator, insights};
use domain::statistics::median;
use domain::verdict::VerdictKind;
use proptest::prelude::*;
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
    told_from(0, run)
}

/// The same of the candidates from a position on, where the baseline has the speedup 1.
fn told_from(first: usize, run: &[(EntryState, &[usize])]) -> Vec<Insight> {
    let entry = |(place, (state, _)): (usize, &(EntryState, &[usize]))| Entry {
        id: id(place),
        parent: None,
        operator: match place {
            0 => Operator::Baseline,
            _ => Operator::Init,
        },
        generation: 1,
        configuration: BTreeMap::new(),
        state: state.clone(),
        trial: true,
        duplicate: false,
        thought: Some(format!("thought {place}")),
        image: None,
        floor_share: None,
        cell: Cell::default(),
        asked: None,
    };
    let entries = run.iter().enumerate().skip(first).map(entry).collect();
    let seen = |(place, (_, shown)): (usize, &(EntryState, &[usize]))| {
        let seen = ShownCandidates {
            best: Some(id(0)),
            insights: shown.iter().map(|place| id(*place)).collect(),
            ..ShownCandidates::default()
        };
        (id(place), seen)
    };
    let seen = run.iter().enumerate().skip(first.max(1)).map(seen);
    insights(&InsightRecords {
        first: u32::try_from(first).expect("a small number"),
        entries,
        seen: seen.collect(),
        earlier: HashMap::from([(id(0), 1.0)]),
        refused: HashSet::new(),
    })
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

#[test]
fn thoughts_of_the_newest_candidates_have_the_counts_of_the_whole_run() {
    let run: &[(EntryState, &[usize])] = &[
        (accepted(1.0), &[]),
        (accepted(1.1), &[]),
        (accepted(2.0), &[1]),
        (WRONG, &[1, 2]),
        (accepted(0.9), &[2, 3]),
        (accepted(3.0), &[2, 3]),
        (accepted(2.5), &[1, 3]),
        (abandoned(), &[4]),
        (accepted(1.2), &[4, 5]),
    ];
    for first in 0..run.len() {
        let mut expected = told(run);
        expected.retain(|insight| insight.ordinal as usize >= first);
        assert_eq!(told_from(first, run), expected, "from {first} on");
    }
}

/// The uplift by its definition: all readers of a run compared with all authors.
fn compare_all(run: &[(EntryState, Vec<usize>)], author: usize) -> Option<f64> {
    let speedup = |state: &EntryState| match state {
        EntryState::Accepted { speedup, .. } => Some(*speedup),
        _ => None,
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for (place, (state, shown)) in run.iter().enumerate().skip(1) {
        if shown.contains(&author) {
            with.extend(speedup(state));
        } else if place > author {
            without.extend(speedup(state));
        }
    }
    (with.len().min(without.len()) >= 3)
        .then(|| median(&with).zip(median(&without)))
        .flatten()
        .map(|(with, without)| with / without)
}

proptest! {
    #[test]
    fn an_uplift_is_that_of_a_comparison_with_all(
        drawn in prop::collection::vec((0u8..6, prop::collection::vec(0usize..30, 0..4)), 1..60),
    ) {
        let state = |drawn: &u8| match drawn {
            0 => WRONG,
            1 => abandoned(),
            2 => EntryState::Pending,
            speed => accepted(f64::from(*speed)),
        };
        let run = drawn
            .iter()
            .map(|(drawn, shown)| (state(drawn), shown.clone()))
            .collect::<Vec<_>>();
        let borrowed = run
            .iter()
            .map(|(state, shown)| (state.clone(), shown.as_slice()))
            .collect::<Vec<_>>();
        for insight in told(&borrowed) {
            let place = insight.ordinal as usize;
            prop_assert_eq!(insight.uplift, compare_all(&run, place), "thought {}", place);
        }
    }
}
