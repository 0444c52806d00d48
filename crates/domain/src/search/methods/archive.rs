//! `archive`: as `full`, but parents are drawn from the archive of the run instead of an elite
//! ([`crate::search::archive`]).

use rand_chacha::ChaCha8Rng;

use super::{Rules, Selection, Shows, Structure, full};
use crate::search::Operator;
use crate::search::population::Population;

pub(super) const RULES: Rules = Rules {
    structure: Structure::Archive,
    select,
    ..full::RULES
};

fn select(seen: &Population<'_>, operator: &Operator, rng: &mut ChaCha8Rng) -> Selection {
    let from_best = Selection::from_best(seen, Shows::Run);
    let wanted = match operator {
        Operator::Crossover => 2,
        Operator::Mutation => 1,
        _ => return from_best,
    };
    let parents = seen.draw_from_archive(wanted, rng);
    Selection {
        // An archive with one cell has no second parent.
        operator: match parents.len() {
            2.. => Operator::Crossover,
            1 => Operator::Mutation,
            _ => return from_best,
        },
        parents,
        ..from_best
    }
}
