//! Drawing parents and insights. Every draw takes its randomness from the caller, so that a run
//! draws the same again.

use std::collections::BTreeSet;

use rand::{Rng, RngExt};

/// The share of words that two thoughts have in common from which they are the same thought.
const SAME_THOUGHT: f64 = 0.8;

/// Probability of each rank, best first, when `members` are drawn from by rank:
/// P(r) = (1 / (r + N)) / sum over r, r from 0 to N - 1. It does not depend on how the times are
/// spread, so a single very fast member does not crowd out the others (EvoEngineer, arXiv
/// 2510.03760, section on population management).
pub fn rank_probabilities(members: usize) -> Vec<f64> {
    let weights = (0..members)
        .map(|rank| 1.0 / (rank + members) as f64)
        .collect::<Vec<_>>();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// Draws an index by the given weights; none if all are zero or there are none.
pub fn draw_weighted(weights: &[f64], rng: &mut impl Rng) -> Option<usize> {
    let sum: f64 = weights.iter().sum();
    if sum <= 0.0 {
        return None;
    }
    let mut left = rng.random::<f64>() * sum;
    for (index, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return Some(index);
        }
    }
    // Rounding may leave a little over.
    weights.iter().rposition(|weight| *weight > 0.0)
}

/// Draws one rank of `members`.
pub fn draw_rank(members: usize, rng: &mut impl Rng) -> Option<usize> {
    draw_weighted(&rank_probabilities(members), rng)
}

/// Draws two ranks of `members`; different ones unless `replace`. None with fewer than two
/// members, or none at all with replacement.
pub fn draw_two_ranks(members: usize, replace: bool, rng: &mut impl Rng) -> Option<(usize, usize)> {
    let mut weights = rank_probabilities(members);
    let first = draw_weighted(&weights, rng)?;
    if !replace {
        weights[first] = 0.0;
    }
    Some((first, draw_weighted(&weights, rng)?))
}

/// Up to `count` different indices below `population`, every subset as likely as another, in
/// ascending order.
pub fn draw_uniform(population: usize, count: usize, rng: &mut impl Rng) -> Vec<usize> {
    let mut left = (0..population).collect::<Vec<_>>();
    let mut drawn = BTreeSet::new();
    while drawn.len() < count && !left.is_empty() {
        drawn.insert(left.swap_remove(rng.random_range(0..left.len())));
    }
    drawn.into_iter().collect()
}

/// The positions of the thoughts that say something new: the first of each group whose words are
/// nearly the same.
pub fn distinct_thoughts(thoughts: &[&str]) -> Vec<usize> {
    let mut kept: Vec<(usize, BTreeSet<String>)> = Vec::new();
    for (index, thought) in thoughts.iter().enumerate() {
        let words = words(thought);
        if words.is_empty() || kept.iter().any(|(_, other)| same(&words, other)) {
            continue;
        }
        kept.push((index, words));
    }
    kept.into_iter().map(|(index, _)| index).collect()
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

fn same(one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    let common = one.intersection(other).count() as f64;
    common / one.union(other).count() as f64 >= SAME_THOUGHT
}
