//! The bandit over models and operators.

use std::collections::BTreeMap;

use domain::model::Dollars;
use domain::search::{Entry, Method};

use super::rehearsal::{Rehearsal, WRONG, Written, accepted, first, model, task};

/// Candidates of each model in a run of 60 trials; every candidate for which `wins` holds is faster than
/// all before it.
fn asked(
    method: Method,
    bandit: bool,
    price: fn(&str) -> Dollars,
    wins: fn(usize, &Entry) -> bool,
) -> BTreeMap<(String, &'static str), usize> {
    let task = task();
    let mut run = Rehearsal::new(&task, method);
    run.budget.trials = 60;
    run.evolution.generations = 100;
    run.evolution.bandit = bandit;
    run.models = vec![model("m", 1.0), model("n", 1.0)];
    run.price = price;
    let write = |place: usize, entry: &Entry| -> Written {
        if wins(place, entry) {
            accepted(1.0 + place as f64 / 10.0).into()
        } else {
            WRONG.into()
        }
    };
    run.run(write, first);
    let mut counts = BTreeMap::new();
    for (place, draft) in &run.drafts {
        let operator = run.candidates[*place].operator.as_str();
        *counts.entry((draft.model.clone(), operator)).or_default() += 1;
    }
    counts
}

fn of_model(counts: &BTreeMap<(String, &'static str), usize>, name: &str) -> usize {
    let own = counts.iter().filter(|((model, _), _)| model == name);
    own.map(|(_, count)| count).sum()
}

fn model_of(entry: &Entry) -> &str {
    let asked = entry.asked.as_ref().expect("a model wrote it");
    &asked.model
}

fn dollars(value: f64) -> Dollars {
    Dollars::new(value).expect("an amount")
}

#[test]
fn the_model_that_wins_more_often_is_asked_more_often() {
    let wins = |place: usize, entry: &Entry| model_of(entry) == "n" && place.is_multiple_of(2);
    let without = asked(Method::BestOf, false, |_| dollars(0.1), wins);
    assert!((20..=40).contains(&of_model(&without, "n")), "{without:?}");
    let with = asked(Method::BestOf, true, |_| dollars(0.1), wins);
    assert!(of_model(&with, "n") > 40, "{with:?}");
    assert!(of_model(&with, "m") > 1, "{with:?}");
}

#[test]
fn of_models_that_win_equally_often_the_cheaper_is_asked_more_often() {
    let wins = |place: usize, _: &Entry| place.is_multiple_of(3);
    let price = |name: &str| dollars(if name == "n" { 0.01 } else { 0.1 });
    let with = asked(Method::BestOf, true, price, wins);
    assert!(of_model(&with, "n") > 45, "{with:?}");
}

#[test]
fn the_operator_that_wins_more_often_gets_more_slots() {
    let wins = |_: usize, entry: &Entry| matches!(entry.operator.as_str(), "init" | "mutation");
    let with = asked(Method::Full, true, |_| dollars(0.1), wins);
    let of = |name: &str| -> usize {
        let own = with.iter().filter(|((_, operator), _)| *operator == name);
        own.map(|(_, count)| count).sum()
    };
    assert!(of("mutation") > 2 * of("crossover"), "{with:?}");
    assert!(of("crossover") > 0, "{with:?}");
}
