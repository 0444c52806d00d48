//! The operators, parents and shown candidates of each method, with scripted replies.

use std::collections::{BTreeMap, BTreeSet};

use domain::candidate::Technique;
use domain::evaluation::BoundingResource;
use domain::id::CandidateId;
use domain::search::{Action, Cell, Draft, Method, Operator, Schedule, StopReason};
use domain::task::Task;

use super::rehearsal::{Rehearsal, WRONG, Written, accepted, first, task};

fn place(run: &Rehearsal<'_>, id: CandidateId) -> usize {
    let place = run.candidates.iter().position(|entry| entry.id == id);
    place.expect("a candidate of the run")
}

fn speedup(run: &Rehearsal<'_>, id: CandidateId) -> f64 {
    run.candidates[place(run, id)]
        .speedup()
        .expect("an accepted one")
}

fn operators(run: &Rehearsal<'_>) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for (_, draft) in &run.drafts {
        *counts.entry(draft.operator.as_str()).or_default() += 1;
    }
    counts
}

/// A run in which each candidate is valid and has a thought of its own.
fn run_of(task: &Task, method: Method, speedup: impl Fn(usize) -> f64) -> (Rehearsal<'_>, Action) {
    let mut run = Rehearsal::new(task, method);
    let end = run.run(
        |place, _| Written {
            thought: format!("thought number {place} about tile {place}"),
            ..accepted(speedup(place)).into()
        },
        first,
    );
    (run, end)
}

/// A method, the number of drafts by operator, and the reason for which the run ends.
type Case = (Method, &'static [(&'static str, usize)], StopReason);

#[test]
fn every_method_asks_by_its_operators_within_the_budget() {
    let task = task();
    let cases: [Case; 10] = [
        (Method::Free, &[("init", 45)], StopReason::Trials),
        (Method::Insight, &[("init", 45)], StopReason::Trials),
        (
            Method::Full,
            &[("crossover", 20), ("init", 5), ("mutation", 20)],
            StopReason::Trials,
        ),
        (
            Method::Archive,
            &[("init", 5), ("mutation", 40)],
            StopReason::Trials,
        ),
        (Method::BestOf, &[("init", 45)], StopReason::Trials),
        (
            Method::Refine,
            &[("improve", 38), ("init", 7)],
            StopReason::Trials,
        ),
        (
            Method::Eoh,
            &[
                ("crossover", 10),
                ("explore", 10),
                ("improve", 10),
                ("init", 5),
                ("retune", 10),
            ],
            StopReason::Trials,
        ),
        (Method::Funsearch, &[("improve", 45)], StopReason::Trials),
        (
            Method::AiCudaEngineer,
            &[("improve", 40)],
            StopReason::Generations,
        ),
        (Method::Adaptive, &[("init", 45)], StopReason::Trials),
    ];
    for (method, expected, reason) in cases {
        let (run, end) = run_of(&task, method, |place| 1.0 + place as f64 / 100.0);
        let found = operators(&run).into_iter().collect::<Vec<_>>();
        assert_eq!(found, expected, "{}", method.as_str());
        assert_eq!(end, Action::Finish(reason), "{}", method.as_str());
    }
}

#[test]
fn best_of_writes_each_candidate_from_the_best_before_it() {
    let task = task();
    let (run, _) = run_of(&task, Method::BestOf, |place| 1.0 + (place * 7 % 31) as f64);
    for (at, draft) in &run.drafts {
        let before = run.candidates[..*at].iter();
        let best = before
            .filter_map(|entry| entry.speedup())
            .fold(0.0, f64::max);
        assert!((speedup(&run, draft.best) - best).abs() < 1e-9);
        assert_eq!(draft.parents, [draft.best]);
        assert!(draft.insights.is_empty() && draft.attempts.is_empty());
    }
}

/// The first candidate of a chain.
fn root(run: &Rehearsal<'_>, id: CandidateId) -> usize {
    let mut at = place(run, id);
    while run.candidates[at].operator != Operator::Init {
        at = place(run, run.candidates[at].parent.expect("a parent"));
    }
    at
}

#[test]
fn refine_continues_the_better_half_of_its_chains_from_their_own_best() {
    let task = task();
    for schedule in [Schedule::Generational, Schedule::Steady { in_flight: 3 }] {
        let mut run = Rehearsal::new(&task, Method::Refine);
        run.evolution.schedule = schedule;
        // A chain's first candidate decides how fast the chain is; every third step of all is wrong.
        run.run(
            |place, entry| Written {
                thought: format!("thought number {place} about tile {place}"),
                ..if place % 3 == 0 {
                    WRONG
                } else {
                    let chain = if entry.operator == Operator::Init {
                        place
                    } else {
                        0
                    };
                    accepted(1.0 + chain as f64 + place as f64 / 1000.0)
                }
                .into()
            },
            first,
        );
        let mut chains: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, draft) in &run.drafts {
            let id = run.candidates[*at].id;
            chains.entry(root(&run, id)).or_default().push(*at);
            if draft.operator == Operator::Init {
                assert_eq!(draft.parents, [run.candidates[0].id]);
                continue;
            }
            assert_eq!(draft.operator, Operator::Improve);
            assert_eq!(draft.parents, [draft.best]);
            let chain = root(&run, draft.best);
            for shown in &draft.attempts {
                assert_eq!(root(&run, *shown), chain, "chains do not see each other");
            }
        }
        // Seven chains; two of their first candidates are wrong and end there. Of the other five, three
        // go on after four candidates, two after eight.
        let lengths = chains.values().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths.len(), 7, "{lengths:?}");
        assert_eq!(lengths.iter().filter(|length| **length == 1).count(), 2);
        assert_eq!(lengths.iter().filter(|length| **length == 4).count(), 2);
        let long = chains.iter().filter(|(_, members)| members.len() > 4);
        let long = long.map(|(root, _)| *root).collect::<Vec<_>>();
        assert_eq!(long, [4, 5, 7], "{lengths:?}");
    }
}

#[test]
fn eoh_shows_the_baseline_and_never_the_best_as_such() {
    let task = task();
    let (run, _) = run_of(&task, Method::Eoh, |place| 1.0 + place as f64);
    let baseline = run.candidates[0].id;
    for (_, draft) in &run.drafts {
        assert_eq!(draft.best, baseline);
        assert!(draft.insights.is_empty() && draft.attempts.is_empty());
        let count = match draft.operator {
            Operator::Explore | Operator::Crossover => 2,
            _ => 1,
        };
        assert_eq!(draft.parents.len(), count);
    }
    let generation = |number: u32| {
        let own = run.drafts.iter().map(|(_, draft)| draft);
        own.filter(|draft| draft.generation == number)
            .map(|draft| draft.operator.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(generation(2), ["explore", "crossover", "improve", "retune"]);
}

#[test]
fn funsearch_shows_two_programs_the_fastest_first_and_keeps_islands_apart() {
    let task = task();
    let (run, _) = run_of(&task, Method::Funsearch, |place| 1.0 + place as f64 / 10.0);
    let two = run
        .drafts
        .iter()
        .filter(|(_, draft)| draft.parents.len() == 2);
    assert!(two.clone().count() > 20);
    for (_, draft) in two {
        let speeds = draft.parents.iter().map(|id| speedup(&run, *id));
        let speeds = speeds.collect::<Vec<_>>();
        assert!(
            speeds[0] > speeds[1],
            "different clusters, the fastest first"
        );
        assert_eq!(draft.best, draft.parents[0]);
    }
    // Before the first reset, candidates with a common ancestor other than the baseline are of one
    // island, so that ancestry divides them into as many groups as islands were drawn, or more.
    let mut group: Vec<usize> = (0..31).collect();
    for (at, draft) in &run.drafts[..30] {
        for parent in draft.parents.iter().map(|id| place(&run, *id)) {
            let (old, new) = (group[parent], group[*at]);
            if parent > 0 {
                group
                    .iter_mut()
                    .filter(|one| **one == old)
                    .for_each(|one| *one = new);
            }
        }
    }
    assert!(
        group[1..].iter().collect::<BTreeSet<_>>().len() >= 4,
        "{group:?}"
    );
    let bests = run.drafts[15..30].iter().map(|(_, draft)| draft.best);
    assert!(bests.collect::<BTreeSet<_>>().len() > 2);
}

#[test]
fn ai_cuda_engineer_shows_the_five_fastest() {
    let task = task();
    let (run, _) = run_of(&task, Method::AiCudaEngineer, |place| {
        1.0 + (place * 7 % 31) as f64
    });
    for (at, draft) in &run.drafts {
        let seen = run.candidates[..*at].iter();
        let seen = seen.filter(|entry| entry.generation < draft.generation);
        let mut speeds = seen.filter_map(|entry| entry.speedup()).collect::<Vec<_>>();
        speeds.sort_by(|one, other| other.total_cmp(one));
        speeds.truncate(5);
        let shown = draft.parents.iter().map(|id| speedup(&run, *id));
        assert_eq!(shown.collect::<Vec<_>>(), speeds);
    }
}

#[test]
fn archive_breeds_from_the_fastest_of_each_technique_and_bound() {
    let techniques = [
        Technique::Threads,
        Technique::SharedMemory,
        Technique::TensorCores,
    ];
    let bounds = [BoundingResource::Compute, BoundingResource::Memory];
    let cell = |place: usize| Cell {
        technique: Some(techniques[place % 3]),
        bound: Some(bounds[place % 2]),
    };
    // Candidates of the first technique are ten times as slow as all others.
    let pace = |place: usize| 1.0 + (place * 7 % 31) as f64;
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Archive);
    run.run(
        |place, _| Written {
            cell: cell(place),
            ..accepted(pace(place) / if place.is_multiple_of(3) { 10.0 } else { 1.0 }).into()
        },
        first,
    );
    let mut drawn = BTreeMap::new();
    for (at, draft) in &run.drafts {
        if draft.operator == Operator::Init {
            continue;
        }
        let seen = run.candidates[..*at].iter();
        let seen = seen.filter(|entry| entry.generation < draft.generation);
        let mut cells = BTreeSet::new();
        for parent in draft.parents.iter().map(|id| place(&run, *id)) {
            let parent = &run.candidates[parent];
            let mut members = seen.clone().filter(|entry| entry.cell == parent.cell);
            assert!(members.all(|entry| entry.speedup() <= parent.speedup()));
            assert!(cells.insert(parent.cell), "parents of different cells");
            *drawn.entry(parent.cell).or_insert(0) += 1;
        }
        assert_eq!(
            cells.len(),
            if draft.operator == Operator::Crossover {
                2
            } else {
                1
            }
        );
    }
    // Six cells and that of the baseline, which has no technique here; the slow ones are not left out.
    assert_eq!(drawn.len(), 7, "{drawn:?}");
    assert!(drawn.values().all(|count| *count >= 3), "{drawn:?}");
}

#[test]
fn adaptive_shows_more_of_a_run_that_goes_badly() {
    let task = task();
    let shows_run = |draft: &Draft| !draft.insights.is_empty() || !draft.attempts.is_empty();

    let (run, _) = run_of(&task, Method::Adaptive, |place| 1.0 + place as f64);
    assert!(run.drafts.iter().all(|(_, draft)| !shows_run(draft)));

    let mut wrong = Rehearsal::new(&task, Method::Adaptive);
    wrong.run(
        |place, _| Written {
            thought: format!("thought number {place} about tile {place}"),
            ..if place % 9 == 0 {
                accepted(1.0 + place as f64)
            } else {
                WRONG
            }
            .into()
        },
        first,
    );
    assert!(wrong.drafts[8..].iter().all(|(_, draft)| shows_run(draft)));

    let (still, _) = run_of(&task, Method::Adaptive, |place| 3.0 - place as f64 / 100.0);
    let bred = operators(&still);
    assert!(bred["crossover"] > 8 && bred["mutation"] > 8, "{bred:?}");

    // The floor is 30% and 90% of the fastest candidate's time.
    for (floor, is_bred) in [(0.1, true), (0.3, false)] {
        let mut near = Rehearsal::new(&task, Method::Adaptive);
        near.floor_of_baseline = Some(floor);
        near.run(
            |place, _| accepted(3.0 - place as f64 / 100.0).into(),
            first,
        );
        assert_eq!(
            operators(&near).contains_key("crossover"),
            is_bred,
            "{floor}"
        );
    }
}
