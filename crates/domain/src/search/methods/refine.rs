//! `refine`: serial chains that do not see each other. Each begins with a candidate written from the
//! baseline, and each step improves the fastest candidate of its chain. Half of the chains are dropped
//! every four steps, the slowest ones.
//!
//! Eight steps a chain did best at 128 candidates in arXiv 2507.11948 (16 x 8: 1.10, 32 x 4: 1.02,
//! 128 x 1: 0.65). Weak chains are dropped half-way because a chain's rank then tells its final rank
//! (correlation over 0.7, arXiv 2607.18235).

use rand_chacha::ChaCha8Rng;

use super::{Rules, Selection, Shows, Structure};
use crate::search::Operator;
use crate::search::chains::STEPS;
use crate::search::population::Population;

pub(super) const RULES: Rules = Rules {
    first: 0,
    required: 0,
    cycle: &[Operator::Improve],
    width: Some(width),
    is_limited: false,
    elite: 1,
    structure: Structure::Chains,
    select,
};

/// Chains that a run starts: as many as its trials can take to eight steps, where half of the chains
/// end after four.
fn wanted(seen: &Population<'_>) -> usize {
    (seen.trials() / (STEPS + STEPS / 2)).max(1)
}

/// One step of each chain that is open.
fn width(seen: &Population<'_>) -> usize {
    let chains = seen.chains();
    let missing = wanted(seen).saturating_sub(chains.started());
    if missing > 0 {
        missing
    } else {
        chains.open().len().max(1)
    }
}

fn select(seen: &Population<'_>, _: &Operator, _: &mut ChaCha8Rng) -> Selection {
    let from_root = Selection {
        operator: Operator::Init,
        parents: vec![seen.root().id],
        best: seen.root().id,
        shows: Shows::Nothing,
    };
    let chains = seen.chains();
    if chains.started() < wanted(seen) {
        return from_root;
    }
    // A chain without a valid candidate has nothing to improve.
    let Some((chain, place)) = chains.next() else {
        return from_root;
    };
    let best = seen.entry(place).id;
    Selection {
        operator: Operator::Improve,
        parents: vec![best],
        best,
        shows: Shows::Chain(chain),
    }
}
