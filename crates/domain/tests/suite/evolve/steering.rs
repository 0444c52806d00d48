//! Directions that people give a run: hints, pins, bans, and runs that start from a candidate.

use chrono::DateTime;
use domain::api::{Steer, SteeringEntry};
use domain::id::CandidateId;
use domain::search::{Action, Method, Operator, PromotionProgress, Steering, StopReason};

use super::rehearsal::{Rehearsal, Written, accepted, first, task};

const METHODS: [Method; 10] = [
    Method::Free,
    Method::Insight,
    Method::Full,
    Method::Archive,
    Method::BestOf,
    Method::Refine,
    Method::Eoh,
    Method::Funsearch,
    Method::AiCudaEngineer,
    Method::Adaptive,
];

fn entry(number: u32, since: u32, what: Steer) -> SteeringEntry {
    SteeringEntry {
        entry: number,
        at: DateTime::UNIX_EPOCH,
        actor: "a person".to_owned(),
        since,
        what,
        withdrawn_by: None,
    }
}

fn hint(text: &str, prompts: Option<u32>) -> Steer {
    Steer::Hint {
        text: text.to_owned(),
        prompts,
    }
}

fn faster_later(place: usize) -> Written {
    Written {
        thought: format!("thought number {place} about tile {place}"),
        ..accepted(1.0 + place as f64 / 100.0).into()
    }
}

/// Runs until so many candidates have verdicts and none is open.
fn run_to(run: &mut Rehearsal<'_>, candidates: usize) {
    while run.candidates.len() < candidates {
        run.act();
        for place in 0..run.candidates.len() {
            if run.candidates[place].speedup().is_none() {
                run.judge(place, faster_later(place));
            }
        }
    }
}

#[test]
fn a_hint_is_in_the_next_prompts_until_it_is_used_up_or_withdrawn() {
    let mut withdrawn = entry(3, 2, hint("old", None));
    withdrawn.withdrawn_by = Some(4);
    let avoid = Steer::Avoid {
        idea: "textures".to_owned(),
    };
    let entries = [
        entry(1, 3, hint("use tensor cores", Some(2))),
        entry(2, 4, hint("vectorise", None)),
        withdrawn,
        entry(5, 4, avoid),
    ];
    let steering = Steering::of(&entries, Vec::new());
    assert_eq!(steering.version, 5);
    assert_eq!(steering.avoided, ["textures"]);
    let task = task();
    let mut run = Rehearsal::new(&task, Method::BestOf);
    run_to(&mut run, 6);
    let carried = |place| steering.hints_at(&run.candidates[..place], place);
    assert_eq!(carried(3), ["use tensor cores", "vectorise"]);
    assert_eq!(carried(4), ["use tensor cores", "vectorise"]);
    assert_eq!(carried(5), ["vectorise"]);
    // Candidates that are planned at the same time count, too.
    assert_eq!(steering.hints_at(&run.candidates[..3], 4).len(), 2);
    assert_eq!(steering.hints_at(&run.candidates[..3], 5), ["vectorise"]);
}

#[test]
fn every_draft_carries_the_directions_that_were_given_before_it() {
    let task = task();
    for method in METHODS {
        let mut run = Rehearsal::new(&task, method);
        run_to(&mut run, 8);
        let since = u32::try_from(run.candidates.len()).expect("few");
        run.steering = Steering::of(&[entry(1, since, hint("vectorise", Some(3)))], Vec::new());
        run.run(|place, _| faster_later(place), first);
        let carrying = run
            .drafts
            .iter()
            .filter(|(_, draft)| !draft.hints.is_empty());
        let places = carrying.map(|(place, _)| *place).collect::<Vec<_>>();
        let expected = (since as usize..since as usize + 3).collect::<Vec<_>>();
        assert_eq!(places, expected, "{}", method.as_str());
    }
}

#[test]
fn an_insight_that_a_person_left_out_is_in_no_further_prompt() {
    let task = task();
    for method in [Method::Insight, Method::Full] {
        for text in [None, Some("it needs 64 registers".to_owned())] {
            let mut run = Rehearsal::new(&task, method);
            run_to(&mut run, 8);
            let since = run.candidates.len();
            let edited = run.candidates[3].id;
            let edit = Steer::Insight {
                candidate: edited,
                ordinal: 3,
                text: text.clone(),
            };
            run.steering = Steering::of(&[entry(1, 8, edit)], Vec::new());
            run.run(|place, _| faster_later(place), first);
            let mut later = run.drafts.iter().filter(|(place, _)| *place >= since);
            let is_shown = later.any(|(_, draft)| draft.insights.contains(&edited));
            assert_eq!(is_shown, text.is_some(), "{}", method.as_str());
            assert_eq!(run.steering.corrected_insight(edited), text.as_deref());
        }
    }
}

#[test]
fn a_pinned_candidate_is_a_parent_of_every_further_one() {
    let task = task();
    for method in METHODS {
        let mut run = Rehearsal::new(&task, method);
        run_to(&mut run, 8);
        let since = run.candidates.len();
        let pins = [3, 4].map(|place| run.candidates[place].id);
        let entries = [3, 4].map(|place: u32| {
            let pin = Steer::Pin {
                candidate: pins[place as usize - 3],
                ordinal: place,
            };
            entry(place, 8, pin)
        });
        run.steering = Steering::of(&entries, Vec::new());
        run.run(|place, _| faster_later(place), first);
        let later = run.drafts.iter().filter(|(place, _)| *place >= since);
        for (place, draft) in later {
            let has_pin = draft.parents.iter().any(|parent| pins.contains(parent));
            assert!(has_pin, "{} at {place}: {draft:?}", method.as_str());
            if draft.operator == Operator::Init {
                assert!(
                    pins.contains(&draft.best),
                    "a first one is written from the best"
                );
            }
        }
    }
}

#[test]
fn a_banned_candidate_is_nobodys_parent_and_no_champion() {
    let task = task();
    for method in METHODS {
        let mut run = Rehearsal::new(&task, method);
        run_to(&mut run, 8);
        let since = run.candidates.len();
        // The fastest so far and its parent, as a ban with descendants has them.
        let banned: Vec<CandidateId> = run.candidates[since - 3..]
            .iter()
            .map(|one| one.id)
            .collect();
        run.steering = Steering {
            banned: banned.clone(),
            ..Steering::default()
        };
        let end = run.run(|_, _| accepted(1.02).into(), first);
        assert!(matches!(end, Action::Finish(_)), "{end:?}");
        for (place, draft) in run.drafts.iter().filter(|(place, _)| *place >= since) {
            let shown = draft.parents.iter().chain([&draft.best]);
            for id in shown {
                assert!(!banned.contains(id), "{} at {place}", method.as_str());
            }
        }
        let PromotionProgress::Committed(champion) = run.promotion else {
            panic!("{}: {:?}", method.as_str(), run.promotion);
        };
        assert!(!banned.contains(&champion), "{}", method.as_str());
    }
}

#[test]
fn a_run_that_goes_on_promotes_a_further_champion_only_if_it_is_faster() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::BestOf);
    run.budget.trials = 4;
    run.run(|place, _| faster_later(place), first);
    let PromotionProgress::Committed(before) = run.promotion else {
        panic!("{:?}", run.promotion);
    };
    run.budget.trials = 6;
    let end = run.run(|_, _| accepted(1.01).into(), first);
    assert_eq!(end, Action::Finish(StopReason::Trials));
    assert_eq!(run.promotion, PromotionProgress::Committed(before));
    run.budget.trials = 8;
    run.run(|place, _| faster_later(place), first);
    assert_ne!(run.promotion, PromotionProgress::Committed(before));
    assert_eq!(run.candidates.len(), 9);
}

#[test]
fn a_fork_evaluates_its_origin_before_anything_is_bred_from_it() {
    let task = task();
    for method in METHODS {
        let mut run = Rehearsal::new(&task, method);
        run.is_fork = true;
        run.act();
        assert_eq!(run.act(), (1, None), "the origin is proposed");
        assert_eq!(run.candidates[1].operator, Operator::Fork);
        assert_eq!(run.next(), [], "nothing is bred before its verdict");
        run.judge(1, accepted(2.0).into());
        run.act();
        let origin = run.candidates[1].id;
        let (_, draft) = &run.drafts[0];
        let sees = draft.best == origin || draft.parents.contains(&origin);
        // The published methods with islands draw one of several populations, and these first five
        // see the baseline.
        assert!(
            sees || matches!(method, Method::Funsearch),
            "{}",
            method.as_str()
        );
        assert_eq!(run.trials(), run.drafts.len(), "the origin is not charged");
    }
}
