//! Drawing parents and insights. Every draw takes its randomness from the caller, so that a run
//! draws the same again.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use rand::{Rng, RngExt};

/// The share of words that two thoughts have in common from which they are the same thought, as a
/// fraction: 4/5.
const SAME_THOUGHT: (usize, usize) = (4, 5);

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
/// ascending order. Time and memory depend on `count` alone.
pub fn draw_uniform(population: usize, count: usize, rng: &mut impl Rng) -> Vec<usize> {
    // A list of all indices from which each drawn one is removed by moving the last into its place.
    // Only the places whose index was moved are stored.
    let mut moved = HashMap::new();
    let mut drawn = BTreeSet::new();
    for left in (0..population).rev().take(count) {
        let place = rng.random_range(0..left + 1);
        let last = *moved.get(&left).unwrap_or(&left);
        drawn.insert(moved.insert(place, last).unwrap_or(place));
    }
    drawn.into_iter().collect()
}

/// The thoughts that say something new: of thoughts whose words are nearly the same, the one that
/// was added first.
///
/// Two thoughts are nearly the same if the words that both have are at least 80% of the words that
/// either has. Each thought is compared only with those that share a word of its *prefix*: with its
/// words in one fixed order, the first ones, one more than may be missing from the other. Sets that
/// are so similar share at least one such word (prefix filtering: Bayardo, Ma, Srikant, "Scaling up
/// all pairs similarity search", WWW 2007). Of these only the ones with nearly the same signature are
/// read, because many thoughts of a long run share a word.
#[derive(Debug, Clone, Default)]
pub struct DistinctThoughts {
    places: Vec<usize>,
    /// The number of each word, counted in the order in which they were first met.
    numbers: HashMap<String, Word>,
    /// The words of each kept thought, in the order of `places`.
    words: Vec<Box<[Word]>>,
    /// Their signatures.
    signatures: Vec<u64>,
    /// For each word, the kept thoughts that have it in their prefix.
    by_prefix: HashMap<Word, Vec<u32>>,
}

/// The number of a word. Thoughts have theirs in descending order: a word that was met late is rare,
/// so that prefixes of such words have few thoughts in common.
type Word = u32;

impl DistinctThoughts {
    /// Adds the thought of the candidate at a place, unless it has no word or an earlier one is
    /// nearly the same. Returns the place of the kept thought that says it; none without a word.
    pub fn add(&mut self, place: usize, thought: &str) -> Option<usize> {
        let words = self.number(thought);
        if words.is_empty() {
            return None;
        }
        if let Some(kept) = self.find(&words) {
            return Some(self.places[kept]);
        }
        let own = u32::try_from(self.words.len()).expect("fewer thoughts than candidates");
        for word in prefix(&words) {
            self.by_prefix.entry(*word).or_default().push(own);
        }
        self.places.push(place);
        self.signatures.push(signature(&words));
        self.words.push(words);
        Some(place)
    }

    /// The places of the kept thoughts, in the order in which they were added.
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    /// The position of a kept thought with nearly the same words.
    fn find(&self, words: &[Word]) -> Option<usize> {
        let (common, all) = SAME_THOUGHT;
        let own = signature(words);
        // Of thoughts that are nearly the same, at most this many words are only in one: the share of the words in
        // either that may be missing, and these are at most `all / common` times the words of each. Each of them
        // changes at most one bit.
        let most = words.len() * (all - common) / common;
        prefix(words)
            .iter()
            .filter_map(|word| self.by_prefix.get(word))
            .flatten()
            .map(|kept| *kept as usize)
            .filter(|kept| (own ^ self.signatures[*kept]).count_ones() as usize <= most)
            .find(|kept| is_same(words, &self.words[*kept]))
    }

    /// The different words of a thought by their numbers, descending.
    fn number(&mut self, text: &str) -> Box<[Word]> {
        let words = text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase);
        let mut all = BTreeSet::new();
        for word in words {
            let next = Word::try_from(self.numbers.len()).expect("fewer words than 2^32");
            all.insert(*self.numbers.entry(word).or_insert(next));
        }
        all.into_iter().rev().collect()
    }
}

/// The first words of a thought, of which a thought that is nearly the same has at least one among
/// its own first words.
fn prefix(words: &[Word]) -> &[Word] {
    let (common, all) = SAME_THOUGHT;
    let shared_at_least = (words.len() * common).div_ceil(all);
    &words[..words.len() - shared_at_least + 1]
}

/// A bit for each word of a thought. Words may share one.
fn signature(words: &[Word]) -> u64 {
    words.iter().fold(0, |bits, word| bits | 1 << (word % 64))
}

/// Returns true if two thoughts are nearly the same. Words are in descending order.
fn is_same(one: &[Word], other: &[Word]) -> bool {
    let (common, all) = SAME_THOUGHT;
    let (mut shared, mut left, mut right) = (0, 0, 0);
    while let (Some(own), Some(others)) = (one.get(left), other.get(right)) {
        match own.cmp(others) {
            Ordering::Greater => left += 1,
            Ordering::Less => right += 1,
            Ordering::Equal => {
                (shared, left, right) = (shared + 1, left + 1, right + 1);
            }
        }
    }
    let either = one.len() + other.len() - shared;
    shared * all >= either * common
}
