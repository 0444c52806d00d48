//! `adaptive`: each candidate improves the best, with as much of the run in its prompt as its state
//! asks for. While candidates are valid and times fall, a prompt shows the best alone, as in `best_of`:
//! shown more, models write more valid and fewer fast kernels (arXiv 2510.03760). Where validity
//! drops, it also shows thoughts and attempts; where times no longer fall, a candidate is bred from
//! the elite, unless the floor is near.

use rand_chacha::ChaCha8Rng;

use super::{Rules, Selection, Shows, Structure, full};
use crate::search::Operator;
use crate::search::population::Population;

/// Number of candidates whose accepted ones are counted: the last that models wrote and that have verdicts.
const WINDOW: usize = 8;
/// Least number of accepted candidates among the last [`WINDOW`] at which candidates count as valid.
const VALID: usize = 4;
/// Number of candidates after the best, without configurations of tunables, from which on every second is bred.
const STAGNATION: usize = 6;
/// Part of the best's time from which on the floor counts as near: another structure can bring little.
const NEAR_FLOOR: f64 = 0.8;

pub(super) const RULES: Rules = Rules {
    first: 0,
    required: 0,
    cycle: &[Operator::Init],
    width: None,
    is_limited: false,
    elite: 4,
    structure: Structure::Elite,
    select,
};

fn select(seen: &Population<'_>, _: &Operator, rng: &mut ChaCha8Rng) -> Selection {
    let (judged, accepted) = seen.validity(WINDOW);
    let since_best = seen.since_best();
    let is_near_floor = seen
        .best()
        .floor_share
        .is_some_and(|share| share >= NEAR_FLOOR);
    if since_best >= STAGNATION && since_best.is_multiple_of(2) && !is_near_floor {
        let operator = if since_best.is_multiple_of(4) {
            Operator::Crossover
        } else {
            Operator::Mutation
        };
        return (full::RULES.select)(seen, &operator, rng);
    }
    let is_stuck = since_best >= STAGNATION || (judged == WINDOW && accepted < VALID);
    let shows = if is_stuck { Shows::Run } else { Shows::Nothing };
    Selection::from_best(seen, shows)
}
