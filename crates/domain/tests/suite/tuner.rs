//! The tuner: every strategy asks for existing configurations only, for none twice, and for all of
//! them in the end.

use std::collections::BTreeSet;

use domain::tuner::{Outcome, Point, Space, SpaceError, Strategy, Tuner};
use proptest::prelude::*;
use proptest::strategy::Strategy as _;

/// A space of some of the combinations of small axes, and the outcome of each configuration.
#[derive(Debug, Clone)]
struct Landscape {
    axes: Vec<Vec<f64>>,
    points: Vec<Vec<u16>>,
    outcomes: Vec<Outcome>,
}

impl Landscape {
    fn space(&self) -> Space {
        Space::new(self.axes.clone(), self.points.clone()).expect("the points are distinct")
    }
}

/// Every combination of the choices of axes with these extents.
fn combinations(extents: &[u16]) -> Vec<Vec<u16>> {
    extents.iter().fold(vec![Vec::new()], |all, extent| {
        let extended = all
            .iter()
            .flat_map(|row| (0..*extent).map(move |choice| [row.as_slice(), &[choice]].concat()));
        extended.collect()
    })
}

fn outcome() -> impl proptest::strategy::Strategy<Value = Outcome> {
    prop_oneof![
        6 => (0.01..100.0_f64).prop_map(Outcome::Valid),
        1 => Just(Outcome::Valid(1.0)),
        2 => Just(Outcome::Invalid),
        1 => Just(Outcome::Valid(f64::NAN)),
    ]
}

fn landscape() -> impl proptest::strategy::Strategy<Value = Landscape> {
    proptest::collection::vec(1..5_u16, 1..4)
        .prop_flat_map(|extents| {
            let all = combinations(&extents);
            let count = all.len();
            (
                Just(extents),
                proptest::sample::subsequence(all, 1..=count),
                proptest::collection::vec(outcome(), count),
            )
        })
        .prop_map(|(extents, points, outcomes)| Landscape {
            axes: extents
                .iter()
                .map(|extent| (0..*extent).map(f64::from).collect())
                .collect(),
            points,
            outcomes,
        })
}

fn any_strategy() -> impl proptest::strategy::Strategy<Value = Strategy> {
    proptest::sample::select(Strategy::ALL.to_vec())
}

/// Every configuration that a tuner asks for, with `at_once` of them pending at a time.
fn asked(tuner: &mut Tuner<'_>, outcomes: &[Outcome], at_once: usize) -> Vec<Point> {
    let mut all = Vec::new();
    loop {
        let batch: Vec<Point> = (0..at_once).map_while(|_| tuner.ask()).collect();
        for point in &batch {
            tuner.tell(*point, outcomes[*point]);
        }
        all.extend(&batch);
        if batch.len() < at_once {
            return all;
        }
    }
}

proptest! {
    #[test]
    fn every_configuration_is_asked_for_exactly_once(
        landscape in landscape(),
        strategy in any_strategy(),
        seed: u64,
        at_once in 1..4_usize,
    ) {
        let space = landscape.space();
        let mut tuner = Tuner::new(&space, strategy, seed);
        let order = asked(&mut tuner, &landscape.outcomes, at_once);
        let distinct: BTreeSet<Point> = order.iter().copied().collect();
        prop_assert_eq!(order.len(), space.len());
        prop_assert_eq!(distinct, (0..space.len()).collect());
        prop_assert_eq!(tuner.ask(), None);
    }

    #[test]
    fn a_search_continues_from_its_recorded_outcomes(
        landscape in landscape(),
        strategy in any_strategy(),
        seed: u64,
        recorded in 0..40_usize,
    ) {
        let space = landscape.space();
        let order = asked(&mut Tuner::new(&space, strategy, seed), &landscape.outcomes, 1);
        let recorded = recorded.min(order.len());
        let mut continued = Tuner::new(&space, strategy, seed);
        for point in &order[..recorded] {
            continued.tell(*point, landscape.outcomes[*point]);
        }
        prop_assert_eq!(&asked(&mut continued, &landscape.outcomes, 1), &order[recorded..]);
    }
}

/// A bowl over five axes of eight choices: the cost grows with the distance from its bottom, and a
/// corner of the space is invalid.
fn bowl(choices: &[u16]) -> Outcome {
    if choices[0] + choices[1] > 12 {
        return Outcome::Invalid;
    }
    let bottom = [5.0, 2.0, 6.0, 1.0, 4.0];
    let distance: f64 = choices
        .iter()
        .zip(bottom)
        .map(|(choice, bottom)| (f64::from(*choice) - bottom).powi(2))
        .sum();
    Outcome::Valid(1.0 + distance)
}

/// The least cost after 150 questions, as the mean over eight seeds.
fn mean_best(space: &Space, strategy: Strategy) -> f64 {
    let best = |seed| {
        let mut tuner = Tuner::new(space, strategy, seed);
        let mut best = f64::INFINITY;
        for _ in 0..150 {
            let point = tuner.ask().expect("the space is larger");
            let outcome = bowl(space.choices(point));
            if let Outcome::Valid(cost) = outcome {
                best = best.min(cost);
            }
            tuner.tell(point, outcome);
        }
        best
    };
    (0..8).map(best).sum::<f64>() / 8.0
}

#[test]
fn strategies_that_learn_find_faster_configurations_than_chance() {
    let axes = vec![(1..=8).map(f64::from).collect::<Vec<_>>(); 5];
    let space = Space::new(axes, combinations(&[8; 5])).unwrap();
    let chance = mean_best(&space, Strategy::Random);
    for strategy in [
        Strategy::Greedy,
        Strategy::Genetic,
        Strategy::SimulatedAnnealing,
        Strategy::DualAnnealing,
        Strategy::Surrogate,
    ] {
        let found = mean_best(&space, strategy);
        assert!(found < 0.8 * chance, "{strategy}: {found}, chance {chance}");
    }
}

#[test]
fn a_space_has_distinct_configurations_of_existing_choices() {
    let axes = vec![vec![16.0, 32.0], vec![1.0]];
    let build = |points: &[[u16; 2]]| {
        Space::new(axes.clone(), points.iter().map(|row| row.to_vec())).map(|space| space.len())
    };
    assert_eq!(build(&[[1, 0], [0, 0]]), Ok(2));
    assert_eq!(build(&[]), Err(SpaceError::Empty));
    assert_eq!(build(&[[0, 0], [2, 0]]), Err(SpaceError::Malformed(1)));
    assert_eq!(build(&[[0, 0], [0, 0]]), Err(SpaceError::Duplicate(1, 0)));
    let short = Space::new(axes.clone(), [vec![0]]).map(|space| space.len());
    assert_eq!(short, Err(SpaceError::Malformed(0)));
}

#[test]
fn strategies_are_read_by_their_names() {
    for strategy in Strategy::ALL {
        assert_eq!(strategy.as_str().parse(), Ok(strategy));
    }
    let refused = "annealing".parse::<Strategy>().unwrap_err().to_string();
    assert!(
        refused.contains("\"annealing\" is no strategy"),
        "{refused}"
    );
    assert!(refused.contains("simulated-annealing"), "{refused}");
}
