//! The methods that ask a model, driven by a scripted model and evaluator until they end.

mod bandit;
mod methods;
mod rehearsal;
mod selection;
mod steering;
mod tuning;

pub use rehearsal::LIMITS;

use domain::candidate::Technique;
use domain::evaluation::BoundingResource;
use domain::id::CandidateId;
use domain::model::{Ceiling, Dollars, Usage};
use domain::search::{
    Action, Budget, Cell, EntryState, Evolution, Method, Operator, PromotionProgress, Schedule,
    Spend, StopReason,
};
use domain::verdict::VerdictKind;
use proptest::prelude::*;

use rehearsal::{Rehearsal, UNREAD, WRONG, Written, abandoned, accepted, first, model, task};

#[test]
fn full_is_five_first_ones_and_ten_generations_of_four() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Full);
    let end = run.run(
        |place, _| accepted(1.0 + place as f64 / 100.0).into(),
        first,
    );
    assert_eq!(run.trials(), 45);
    assert_eq!(run.drafts_of(&Operator::Init).len(), 5);
    assert_eq!(run.drafts_of(&Operator::Crossover).len(), 20);
    assert_eq!(run.drafts_of(&Operator::Mutation).len(), 20);
    let per_generation = |generation| {
        run.drafts
            .iter()
            .filter(|(_, draft)| draft.generation == generation)
            .map(|(_, draft)| draft.operator.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(per_generation(1), ["init"; 5]);
    for generation in 2..=11 {
        assert_eq!(
            per_generation(generation),
            ["crossover", "crossover", "mutation", "mutation"]
        );
    }
    assert_eq!(end, Action::Finish(StopReason::Trials));
}

#[test]
fn free_and_insight_ask_five_at_a_time_and_never_overshoot() {
    let task = task();
    for method in [Method::Free, Method::Insight] {
        let mut run = Rehearsal::new(&task, method);
        run.budget.trials = 13;
        let end = run.run(|_, _| accepted(1.5).into(), first);
        let generations = run.drafts.iter().map(|(_, draft)| draft.generation);
        let generations = generations.collect::<Vec<_>>();
        assert_eq!(generations, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3]);
        assert_eq!(end, Action::Finish(StopReason::Trials));
    }
}

#[test]
fn the_generations_end_a_run_with_trials_left() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Insight);
    run.evolution.generations = 2;
    let end = run.run(|_, _| WRONG.into(), first);
    assert_eq!(run.trials(), 10);
    assert_eq!(end, Action::Finish(StopReason::Generations));
}

#[test]
fn every_slot_of_a_generation_sees_the_same() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Full);
    run.run(|place, _| accepted(1.0 + place as f64).into(), first);
    for (place, draft) in &run.drafts {
        let earlier = |id: &CandidateId| {
            let seen = run.candidates.iter().find(|entry| entry.id == *id);
            seen.is_some_and(|entry| entry.generation < draft.generation)
        };
        let shown = draft.parents.iter().chain(&draft.insights);
        assert!(shown.chain([&draft.best]).all(earlier), "slot {place}");
    }
}

#[test]
fn only_insight_and_full_are_shown_insights_and_at_most_three() {
    let task = task();
    for method in [Method::Free, Method::Insight, Method::Full] {
        let mut run = Rehearsal::new(&task, method);
        run.run(
            |place, _| Written {
                thought: format!("thought number {place} about tile {place}"),
                ..accepted(1.0 + place as f64 / 100.0).into()
            },
            first,
        );
        let counts = run.drafts.iter().map(|(_, draft)| draft.insights.len());
        let most = counts.max().expect("there are drafts");
        assert_eq!(most, if method == Method::Free { 0 } else { 3 });
        let baseline = run.candidates[0].id;
        assert!(
            run.drafts
                .iter()
                .all(|(_, draft)| !draft.insights.contains(&baseline))
        );
    }
}

#[test]
fn insights_are_of_evaluated_candidates_and_say_something_new() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Insight);
    run.run(
        |place, _| {
            let (state, thought) = match place % 5 {
                0 => (UNREAD, "a reply that was never read as a kernel"),
                1 => (WRONG, "keep half precision sums in registers"),
                2 => (accepted(1.1), "Keep half-precision sums in registers!"),
                3 => (accepted(1.2), "split the keys over blocks"),
                _ => (accepted(1.3), ""),
            };
            Written {
                thought: thought.to_owned(),
                ..state.into()
            }
        },
        first,
    );
    for (_, draft) in &run.drafts {
        let mut thoughts = Vec::new();
        for id in &draft.insights {
            let entry = run
                .candidates
                .iter()
                .find(|entry| entry.id == *id)
                .expect("known");
            assert_ne!(entry.state, UNREAD);
            let thought = entry
                .thought
                .as_deref()
                .expect("no placeholders")
                .to_lowercase();
            thoughts.push(thought.replace(['-', '!'], " ").trim().to_owned());
        }
        let shown = thoughts.len();
        thoughts.sort();
        thoughts.dedup();
        assert_eq!(thoughts.len(), shown, "the same thought twice");
    }
    assert!(
        run.drafts
            .iter()
            .any(|(_, draft)| draft.insights.len() == 2)
    );
}

#[test]
fn two_parents_are_different_unless_the_paper_is_followed() {
    let task = task();
    let both_equal = |faithful| {
        let mut run = Rehearsal::new(&task, Method::Full);
        run.evolution.faithful = faithful;
        run.run(|place, _| accepted(1.0 + place as f64).into(), first);
        run.drafts_of(&Operator::Crossover)
            .iter()
            .filter(|draft| draft.parents[0] == draft.parents[1])
            .count()
    };
    assert_eq!(both_equal(false), 0);
    assert!(both_equal(true) > 0);
}

#[test]
fn first_ones_are_repeated_until_one_is_valid() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Full);
    run.run(
        |place, _| {
            if place == 8 {
                accepted(1.4).into()
            } else {
                WRONG.into()
            }
        },
        first,
    );
    assert_eq!(run.drafts_of(&Operator::Init).len(), 10);
    let bred = run.drafts_of(&Operator::Crossover);
    let valid = [run.candidates[0].id, run.candidates[8].id];
    assert!(!bred.is_empty());
    for draft in bred {
        assert!(draft.parents.iter().all(|parent| valid.contains(parent)));
    }
}

#[test]
fn a_batch_without_a_kernel_ends_the_run_rather_than_the_budget() {
    let task = task();
    for schedule in [Schedule::Generational, Schedule::Steady { in_flight: 3 }] {
        let mut run = Rehearsal::new(&task, Method::Full);
        run.evolution.schedule = schedule;
        let end = run.run(|_, _| UNREAD.into(), first);
        assert_eq!(end, Action::Finish(StopReason::NothingUsable));
        assert!(run.trials() < 9, "{}", run.trials());
    }
}

#[test]
fn a_failed_candidate_gets_two_serial_repairs_by_default() {
    let task = task();
    assert_eq!(Evolution::default().repairs, 2);
    for schedule in [Schedule::Generational, Schedule::Steady { in_flight: 4 }] {
        let mut run = Rehearsal::new(&task, Method::Free);
        run.evolution.repairs = Evolution::default().repairs;
        run.evolution.schedule = schedule;
        run.budget.trials = 10;
        run.run(
            |place, _| {
                if place % 2 == 0 {
                    UNREAD.into()
                } else {
                    WRONG.into()
                }
            },
            first,
        );
        assert_eq!(run.trials(), 10, "repairs are no trials");
        let state = |id| {
            let entry = run.candidates.iter().find(|entry| entry.id == id);
            entry.expect("known")
        };
        let repairs = run.candidates.iter();
        let repairs = repairs.filter(|entry| entry.operator == Operator::Repair);
        let mut repaired = Vec::new();
        for repair in repairs {
            let failed = state(repair.parent.expect("a parent"));
            assert_eq!(failed.state, WRONG, "what cannot be mended is left");
            assert_eq!(failed.generation, repair.generation);
            if failed.operator == Operator::Repair {
                let first = state(failed.parent.expect("a parent"));
                assert_ne!(first.operator, Operator::Repair, "no third repair");
            }
            repaired.push(failed.id);
        }
        let count = repaired.len();
        repaired.sort();
        repaired.dedup();
        assert_eq!(repaired.len(), count, "a candidate is handed back once");
        let failed = run.candidates.iter().filter(|entry| {
            entry.state == WRONG
                && entry.operator.asks_model()
                && entry.operator != Operator::Repair
        });
        assert!(failed.clone().count() > 1);
        assert!(failed.into_iter().all(|entry| repaired.contains(&entry.id)));
    }
}

#[test]
fn the_published_insights_are_thoughts_of_the_population() {
    let task = task();
    for method in [Method::Insight, Method::Full] {
        let mut run = Rehearsal::new(&task, method);
        run.evolution.faithful = true;
        run.run(
            |place, _| Written {
                thought: format!("thought number {place} about tile {place}"),
                ..accepted(1.0 + place as f64 / 100.0).into()
            },
            first,
        );
        // Each later candidate is faster, so that the four before a generation are its survivors.
        let of_others = run.drafts.iter().filter(|(_, draft)| {
            let others = draft.insights.iter().filter(|id| **id != draft.best);
            others.count() == 2 || draft.insights.len() == 3
        });
        assert!(of_others.count() > 20, "{}", method.as_str());
    }
}

#[test]
fn the_published_method_repairs_nothing() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Full);
    run.evolution.repairs = 2;
    run.evolution.faithful = true;
    run.run(
        |place, _| if place % 2 == 0 { accepted(2.0) } else { WRONG }.into(),
        first,
    );
    assert!(run.drafts_of(&Operator::Repair).is_empty());
}

#[test]
fn duplicates_never_breed_and_are_named() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Full);
    run.run(
        |place, _| Written {
            duplicate: place % 3 == 2,
            ..accepted(1.0 + place as f64).into()
        },
        first,
    );
    let duplicates = run
        .candidates
        .iter()
        .filter(|entry| entry.duplicate)
        .map(|entry| entry.id)
        .collect::<Vec<_>>();
    for (_, draft) in &run.drafts {
        assert!(
            draft
                .parents
                .iter()
                .all(|parent| !duplicates.contains(parent))
        );
        assert!(
            draft
                .duplicates
                .iter()
                .all(|named| duplicates.contains(named))
        );
    }
    assert!(
        run.drafts
            .iter()
            .any(|(_, draft)| draft.duplicates.len() == 5)
    );
}

#[test]
fn steady_keeps_slots_open_and_sees_only_what_is_absorbed() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Free);
    run.evolution.schedule = Schedule::Steady { in_flight: 4 };
    run.act();
    run.act();
    assert_eq!(run.candidates.len(), 5, "the baseline and four slots");
    run.judge(3, accepted(9.0).into());
    assert_eq!(run.next(), [], "the earliest slot is still open");
    run.judge(1, accepted(2.0).into());
    let actions = run.next();
    let [Action::Draft(draft)] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    assert_eq!(
        draft.best, run.candidates[1].id,
        "slot 3 is not absorbed yet"
    );
}

#[test]
fn a_limit_that_cuts_a_run_short_does_not_wait_for_a_model() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Free);
    run.act();
    run.act();
    run.finish_requested = true;
    assert_eq!(run.next(), [Action::AbandonDrafts]);
    run.act();
    assert_eq!(run.next(), [Action::Finish(StopReason::Requested)]);
}

#[test]
fn a_champion_close_to_the_floor_ends_a_run() {
    let task = task();
    for (percent, share, ends) in [
        (None, Some(0.99), false),
        (Some(90), None, false),
        (Some(90), Some(0.89), false),
        (Some(90), Some(0.9), true),
    ] {
        let mut run = Rehearsal::new(&task, Method::BestOf);
        run.budget.floor_percent = percent;
        run.act();
        run.act();
        run.judge(1, accepted(2.0).into());
        run.candidates[1].floor_share = share;
        run.act();
        let promoted = run.promotion == PromotionProgress::Committed(run.candidates[1].id);
        assert_eq!(promoted, ends, "{percent:?} {share:?}");
        if ends {
            assert_eq!(run.next(), [Action::Finish(StopReason::Floor)]);
        }
    }
}

/// Acts until the run ends, and has each new candidate judged before the next one. Returns the end.
fn judge_one_by_one(
    run: &mut Rehearsal<'_>,
    mut judge: impl FnMut(&mut Rehearsal<'_>, usize),
) -> Action {
    loop {
        let (_, end) = run.act();
        if let Some(end) = end {
            return end;
        }
        let place = run.candidates.len() - 1;
        if run.candidates[place].state == EntryState::Pending {
            judge(run, place);
        }
    }
}

#[test]
fn a_run_ends_when_a_dollar_is_expected_to_bring_too_little() {
    let task = task();
    // A candidate costs a cent. Each of the first 20 brings a quarter of a percent.
    let speedup = |place: usize| 1.0 + place.min(20) as f64 / 400.0;
    for (limit, trials) in [(None, 60), (Some(5), 33), (Some(12), 29), (Some(30), 16)] {
        let mut run = Rehearsal::new(&task, Method::BestOf);
        run.budget.trials = 60;
        run.budget.gain_per_dollar = limit;
        let end = judge_one_by_one(&mut run, |run, place| {
            run.judge(place, accepted(speedup(place)).into());
            let cents = 0.01 * place as f64;
            run.spend.dollars = Dollars::new(cents).expect("an amount");
        });
        let reason = match run.trials() {
            60 => StopReason::Trials,
            _ => StopReason::GainPerDollar,
        };
        assert_eq!(end, Action::Finish(reason), "{limit:?}");
        assert_eq!(run.trials(), trials, "{limit:?}");
    }
}

#[test]
fn a_run_ends_when_its_last_trials_brought_nothing_faster() {
    let task = task();
    // The first, the third and the sixth raise the best speedup.
    let outcome = |place: usize| match place {
        3 => accepted(1.5),
        6 => accepted(2.0),
        place if place % 2 == 0 => WRONG,
        _ => accepted(1.25),
    };
    for (limit, trials) in [(None, 30), (Some(2), 5), (Some(3), 9), (Some(10), 16)] {
        let mut run = Rehearsal::new(&task, Method::BestOf);
        run.budget.trials = 30;
        run.budget.trials_without_gain = limit;
        let end = judge_one_by_one(&mut run, |run, place| {
            run.judge(place, outcome(place).into());
        });
        let reason = match limit {
            None => StopReason::Trials,
            Some(_) => StopReason::TrialsWithoutGain,
        };
        assert_eq!(end, Action::Finish(reason), "{limit:?}");
        assert_eq!(run.trials(), trials, "{limit:?}");
    }
}

#[test]
fn devices_time_ends_a_run() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Free);
    run.act();
    run.budget.device_seconds = Some(3);
    run.spend.device_ms = 1_500;
    assert_ne!(run.next(), [Action::Finish(StopReason::DeviceTime)]);
    run.spend.device_ms = 3_000;
    assert_eq!(run.next(), [Action::Finish(StopReason::DeviceTime)]);
}

#[test]
fn the_price_of_devices_time_ends_a_run() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Free);
    run.act();
    let dollars = |dollars| Dollars::new(dollars).unwrap();
    run.budget.device_dollars = Some(dollars(0.03));
    run.budget.device_seconds = Some(1000);
    run.spend.device_ms = 10_000;
    run.spend.device_dollars = dollars(0.015);
    assert!(matches!(run.next().as_slice(), [Action::Draft(_), ..]));
    // One candidate took two thirds, so that another one may not be covered.
    run.spend.device_dollars = dollars(0.02);
    assert_eq!(run.next(), [Action::Finish(StopReason::DeviceDollars)]);
    run.spend.device_dollars = dollars(0.03);
    assert_eq!(run.next(), [Action::Finish(StopReason::DeviceDollars)]);
}

#[test]
fn devices_time_of_candidates_on_their_way_is_set_aside() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Free);
    run.evolution.schedule = Schedule::Steady { in_flight: 3 };
    run.act();
    // The baseline took a second: two more candidates are covered, not three.
    run.budget.device_seconds = Some(3);
    run.spend.device_ms = 1_000;
    assert_eq!(run.act().0, 2);
    assert_eq!(run.next(), []);
    // The first needs less than was set aside, which makes room for another.
    run.judge(1, accepted(1.1).into());
    run.spend.device_ms = 1_100;
    assert!(matches!(run.next().as_slice(), [Action::Draft(_), ..]));
    // Or all of it: the second is waited for, and nothing is planned beside it.
    run.spend.device_ms = 2_000;
    assert_eq!(run.next(), []);
    run.judge(2, accepted(1.2).into());
    run.spend.device_ms = 2_900;
    assert!(matches!(run.next().as_slice(), [Action::Promote(_)]));
}

#[test]
fn a_call_is_forbidden_by_what_is_spent_and_committed() {
    let cent = |cents: f64| Dollars::new(cents / 100.0).expect("an amount");
    let spend = Spend {
        usage: Usage {
            input: 600,
            output: 100,
            ..Usage::default()
        },
        committed_tokens: 200,
        dollars: cent(10.0),
        committed_dollars: cent(5.0),
        ..Spend::default()
    };
    let call = Ceiling {
        usage: Usage {
            input: 60,
            output: 40,
            ..Usage::default()
        },
        dollars: cent(1.0),
    };
    let cases = [
        (None, None, None),
        (Some(1_000), None, None),
        (Some(999), None, Some(StopReason::Tokens)),
        (None, Some(cent(16.0)), None),
        (None, Some(cent(15.9)), Some(StopReason::Dollars)),
    ];
    for (tokens, dollars, forbidden) in cases {
        let budget = Budget {
            tokens,
            dollars,
            ..Budget::default()
        };
        assert_eq!(budget.forbids(&spend, &call), forbidden, "{budget:?}");
    }
}

#[test]
fn weights_decide_how_often_a_model_is_asked() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Free);
    run.models = vec![
        model("often", 3.0),
        model("never", 0.0),
        model("seldom", 1.0),
    ];
    run.budget.trials = 400;
    run.evolution.generations = 100;
    run.run(|_, _| WRONG.into(), first);
    let asked = |name: &str| {
        run.drafts
            .iter()
            .filter(|(_, draft)| draft.model == name)
            .count()
    };
    assert_eq!(asked("never"), 0);
    assert!((260..340).contains(&asked("often")), "{}", asked("often"));
    let mut seeds = run
        .drafts
        .iter()
        .map(|(_, draft)| draft.seed)
        .collect::<Vec<_>>();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(
        seeds.len(),
        400,
        "equal prompts are told apart by their seeds"
    );
}

const ASKING: [Method; 10] = [
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

fn verdicts() -> impl Strategy<Value = Vec<(EntryState, bool)>> {
    let state = prop_oneof![
        Just(WRONG),
        Just(UNREAD),
        Just(EntryState::Rejected(VerdictKind::CompileRejected)),
        Just(abandoned()),
        (0.5_f64..3.0).prop_map(accepted),
    ];
    proptest::collection::vec((state, any::<bool>()), 24)
}

fn cells() -> impl Strategy<Value = Vec<Cell>> {
    let techniques = [
        None,
        Some(Technique::SharedMemory),
        Some(Technique::TensorCores),
    ];
    let bounds = [
        None,
        Some(BoundingResource::Memory),
        Some(BoundingResource::Latency),
    ];
    let cell = (
        prop::sample::select(techniques.to_vec()),
        prop::sample::select(bounds.to_vec()),
    )
        .prop_map(|(technique, bound)| Cell { technique, bound });
    proptest::collection::vec(cell, 24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The same replies give the same run, in whatever order they arrive.
    #[test]
    fn the_order_of_arrival_changes_nothing(
        method in prop::sample::select(ASKING.to_vec()),
        steady in proptest::option::of(1_u32..7),
        faithful in any::<bool>(),
        repairs in 0_u32..6,
        sweep_percent in 0_u32..60,
        bandit in any::<bool>(),
        trials in 0_u32..30,
        verdicts in verdicts(),
        cells in cells(),
        arrivals in proptest::collection::vec(any::<prop::sample::Index>(), 64),
    ) {
        let task = task();
        let mut runs = Vec::new();
        for shuffled in [false, true] {
            let mut run = Rehearsal::new(&task, method);
            run.budget.trials = trials;
            run.evolution.faithful = faithful;
            run.evolution.repairs = repairs;
            run.evolution.sweep_percent = sweep_percent;
            run.evolution.bandit = bandit;
            run.models.push(model("other", 0.5));
            run.source = tuning::TUNABLE;
            if let Some(in_flight) = steady {
                run.evolution.schedule = Schedule::Steady { in_flight };
            }
            let mut step = 0;
            let end = run.run(
                |place, _| {
                    let (state, duplicate) = verdicts[place % verdicts.len()].clone();
                    Written {
                        state,
                        duplicate: duplicate && place > 1,
                        thought: format!("idea {place} alone {place}"),
                        cell: cells[place % cells.len()],
                    }
                },
                |open| {
                    step += 1;
                    if shuffled { arrivals[step % arrivals.len()].index(open.len()) } else { 0 }
                },
            );
            prop_assert!(run.trials() <= trials as usize);
            let configurations = run.candidates.into_iter().map(|entry| entry.configuration);
            runs.push((run.drafts, configurations.collect::<Vec<_>>(), end));
        }
        prop_assert_eq!(&runs[0], &runs[1]);
    }
}
