//! `full`: five first candidates, then generations of two crossovers and two mutations within an elite
//! of four, with thoughts of the run (EvoEngineer-Full, arXiv 2510.03760).

use rand_chacha::ChaCha8Rng;

use super::{Rules, Selection, Shows, Structure};
use crate::search::Operator;
use crate::search::population::Population;
use crate::search::selection::{draw_rank, draw_two_ranks};

pub(super) const RULES: Rules = Rules {
    first: 5,
    required: 2,
    cycle: &[
        Operator::Crossover,
        Operator::Crossover,
        Operator::Mutation,
        Operator::Mutation,
    ],
    width: None,
    is_limited: true,
    elite: 4,
    structure: Structure::Elite,
    select,
};

fn select(seen: &Population<'_>, operator: &Operator, rng: &mut ChaCha8Rng) -> Selection {
    let from_best = Selection::from_best(seen, Shows::Run);
    let elite = seen.elite();
    let (operator, parents) = match operator {
        Operator::Crossover => match draw_two_ranks(elite.len(), seen.is_faithful(), rng) {
            Some((one, two)) => (Operator::Crossover, vec![elite[one].id, elite[two].id]),
            None => (Operator::Mutation, vec![from_best.best]),
        },
        Operator::Mutation => {
            let drawn = draw_rank(elite.len(), rng).map(|rank| elite[rank].id);
            (Operator::Mutation, vec![drawn.unwrap_or(from_best.best)])
        }
        _ => return from_best,
    };
    Selection {
        operator,
        parents,
        ..from_best
    }
}
