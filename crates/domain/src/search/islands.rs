//! Islands of candidates for `funsearch`: populations that do not exchange members, except that the
//! worse half begins again from members of the better half now and then.

use std::collections::{BTreeMap, HashMap};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::selection::draw_weighted;
use super::{Entry, Operator};
use crate::id::CandidateId;
use crate::margins::FASTER_MARGIN_LOG;

/// Islands of a run.
const ISLANDS: usize = 5;
/// Programs in one prompt.
const PROGRAMS: usize = 2;
/// The temperature by which clusters are drawn from an island without candidates.
const TEMPERATURE: f64 = 0.1;
/// Candidates of an island after which its temperature is back at [`TEMPERATURE`].
const PERIOD: usize = 30_000;
/// Trials between two resets, six on each island. The published program counts four hours instead,
/// which would make the run depend on the clock.
const TRIALS_BETWEEN_RESETS: usize = 30;

/// All islands of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Islands {
    islands: [Island; ISLANDS],
    /// The island of each candidate that a model wrote, for its repairs.
    of: HashMap<CandidateId, u8>,
    trials: usize,
}

/// The island that a run adds a candidate to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// The island of this number, counted from 0.
    Island(u8),
    /// The island of the candidate's primary parent, if that has one.
    OfParent,
    /// No single island: every island begins with the baseline.
    None,
}

impl Membership {
    /// The island of a candidate, from its position in a run with this seed.
    pub fn of(seed: u64, ordinal: u32, operator: &Operator) -> Self {
        match operator {
            Operator::Baseline => Self::None,
            Operator::Repair | Operator::Sweep => Self::OfParent,
            _ => Self::Island(draw_island(&mut stream(seed, u64::from(ordinal)))),
        }
    }
}

/// The candidates of an island by score: its logarithm of the speedup, in steps of the least gain that
/// counts.
#[derive(Debug, Clone, Default)]
struct Island {
    clusters: BTreeMap<i64, Vec<usize>>,
    members: usize,
}

impl Island {
    fn add(&mut self, place: usize, score: i64) {
        self.clusters.entry(score).or_default().push(place);
        self.members += 1;
    }

    /// Score and first member of the fastest cluster.
    fn best(&self) -> Option<(i64, usize)> {
        let (score, places) = self.clusters.last_key_value()?;
        Some((*score, places[0]))
    }
}

impl Islands {
    /// Adds a candidate of a run with this seed to the island whose members its prompt showed, and the
    /// baseline to all.
    pub(super) fn add(&mut self, seed: u64, place: usize, entry: &Entry, is_valid: bool) {
        let score = entry.speedup().filter(|_| is_valid).map(score);
        let ordinal = u32::try_from(place).expect("a run has fewer candidates than 2^32");
        let island = match Membership::of(seed, ordinal, &entry.operator) {
            Membership::None => {
                if let Some(score) = score {
                    self.islands
                        .iter_mut()
                        .for_each(|one| one.add(place, score));
                }
                return;
            }
            Membership::OfParent => entry
                .parent
                .and_then(|parent| self.of.get(&parent).copied()),
            Membership::Island(island) => Some(island),
        };
        let Some(island) = island else { return };
        self.of.insert(entry.id, island);
        if let Some(score) = score {
            self.islands[usize::from(island)].add(place, score);
        }
        self.trials += usize::from(entry.trial);
        if entry.trial && self.trials.is_multiple_of(TRIALS_BETWEEN_RESETS) {
            self.reset(seed);
        }
    }

    /// Empties the worse half of the islands; each begins again with the fastest candidate of an island
    /// of the better half.
    fn reset(&mut self, seed: u64) {
        let resets = (self.trials / TRIALS_BETWEEN_RESETS) as u64;
        // Places are counted from below, so that no slot draws from the same stream.
        let mut rng = stream(seed, u64::MAX - resets);
        let mut order: Vec<usize> = (0..ISLANDS).collect();
        order.sort_by_key(|island| self.islands[*island].best().map(|(score, _)| score));
        let (worse, better) = order.split_at(ISLANDS / 2);
        for island in worse {
            let from = better[rng.random_range(0..better.len())];
            let founder = self.islands[from].best();
            self.islands[*island] = Island::default();
            if let Some((score, place)) = founder {
                self.islands[*island].add(place, score);
            }
        }
    }

    /// Draws an island and the positions of up to two of its members, from different clusters, the
    /// fastest first. `rng` is the slot's own and has drawn nothing before.
    pub(super) fn draw(&self, rng: &mut ChaCha8Rng) -> Vec<usize> {
        let island = &self.islands[usize::from(draw_island(rng))];
        let cooled = (island.members % PERIOD) as f64 / PERIOD as f64;
        let temperature = TEMPERATURE * (1.0 - cooled);
        let most = island.best().map_or(0, |(score, _)| score);
        let clusters: Vec<(&i64, &Vec<usize>)> = island.clusters.iter().collect();
        let mut weights: Vec<f64> = clusters
            .iter()
            .map(|(score, _)| {
                let behind = (**score - most) as f64 * FASTER_MARGIN_LOG;
                (behind / temperature).exp()
            })
            .collect();
        let mut drawn = Vec::new();
        while drawn.len() < PROGRAMS
            && let Some(cluster) = draw_weighted(&weights, rng)
        {
            weights[cluster] = 0.0;
            drawn.push(cluster);
        }
        drawn.sort_unstable_by(|one, other| other.cmp(one));
        let member = |cluster: usize| {
            let places = clusters[cluster].1;
            places[rng.random_range(0..places.len())]
        };
        drawn.into_iter().map(member).collect()
    }
}

/// The generator of the slot at a place of the run.
pub(super) fn stream(seed: u64, place: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(place);
    rng
}

/// The first draw of a slot's generator, so that a candidate's island follows from its place.
fn draw_island(rng: &mut ChaCha8Rng) -> u8 {
    let island = rng.random_range(0..ISLANDS);
    u8::try_from(island).expect("there are few islands")
}

fn score(speedup: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the logarithm of a speedup is far below the range"
    )]
    let score = (speedup.ln() / FASTER_MARGIN_LOG).round() as i64;
    score
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Cell, EntryState};
    use chrono::DateTime;

    fn entry(place: usize, operator: Operator) -> Entry {
        let mut rng = ChaCha8Rng::seed_from_u64(place as u64);
        Entry {
            id: CandidateId::generate(DateTime::UNIX_EPOCH, &mut rng),
            parent: None,
            trial: operator != Operator::Baseline,
            operator,
            generation: 0,
            configuration: crate::plan::Configuration::new(),
            state: EntryState::Accepted {
                speedup: 1.0 + place as f64,
                promotable: true,
                unmet_phases: Vec::new(),
            },
            duplicate: false,
            thought: None,
            image: None,
            floor_share: None,
            cell: Cell::default(),
            asked: None,
        }
    }

    fn fastest(islands: &Islands) -> Vec<usize> {
        let best = islands.islands.iter().filter_map(Island::best);
        best.map(|(_, place)| place).collect()
    }

    #[test]
    fn a_reset_keeps_the_better_islands_and_begins_the_others_from_them() {
        for seed in 0..20 {
            let mut islands = Islands::default();
            islands.add(seed, 0, &entry(0, Operator::Baseline), true);
            for place in 1..TRIALS_BETWEEN_RESETS {
                islands.add(seed, place, &entry(place, Operator::Improve), true);
            }
            let before = islands.clone();
            let last = TRIALS_BETWEEN_RESETS;
            islands.add(seed, last, &entry(last, Operator::Improve), true);
            let after = fastest(&islands);
            let different = after.iter().collect::<std::collections::BTreeSet<_>>();
            assert_eq!(after.len(), ISLANDS, "no island is empty");
            assert!(different.len() <= ISLANDS.div_ceil(2), "{after:?}");
            assert!(after.contains(&last));
            assert!(
                after
                    .iter()
                    .all(|place| *place == last || fastest(&before).contains(place))
            );
            let founded = islands.islands.iter().filter(|island| island.members == 1);
            assert!(founded.count() >= ISLANDS / 2);
        }
    }
}
