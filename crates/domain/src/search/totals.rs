//! Totals over the candidates that a slot sees, kept from one decision to the next, so that the cost
//! of a decision does not grow with the square of the run.

use std::collections::VecDeque;

use super::archive::Archive;
use super::bandit::Arms;
use super::chains::Chains;
use super::islands::Islands;
use super::methods::Structure;
use super::selection::DistinctThoughts;
use super::settled::Settled;
use super::tuning::Sweeps;
use super::{Entry, EntryState, Operator};
use crate::id::CandidateId;
use crate::verdict::VerdictKind;

/// Duplicates named in one prompt, the newest.
const DUPLICATES: usize = 5;
/// Members of the largest elite of a method.
const ELITE: usize = 5;

/// Totals over the first candidates of one run, all of which are judged or given up.
///
/// An empty value is always right: the totals derive from the candidates, and
/// [`next_actions`](super::next_actions) takes the same decisions with an empty value as with one
/// that it filled before. A judged candidate's entry never changes, so that a later decision only
/// adds the candidates that came after.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Candidates added, by their positions in the run.
    added: usize,
    /// The last of them, by which another run's totals are recognised.
    last: Option<CandidateId>,
    /// The excluded candidates that were left out.
    excluded: Vec<CandidateId>,
    /// Valid members: accepted, not a duplicate, not excluded, no configuration of another's tunables.
    valid: usize,
    /// Positions of the fastest valid members, best first, the earlier of equals before the later. Of a
    /// candidate and the configurations of its tunables only the fastest is a member.
    elite: Vec<usize>,
    /// Thoughts of judged candidates, each once.
    thoughts: DistinctThoughts,
    /// The chains of a method that has them.
    chains: Chains,
    /// The islands of a method that has them.
    islands: Islands,
    /// The archive of a method that has one.
    archive: Archive,
    /// Configurations of candidates' tunables.
    sweeps: Sweeps,
    /// Outcomes of models and operators.
    arms: Arms,
    /// Positions of the newest duplicates, oldest first.
    duplicates: VecDeque<usize>,
    /// Counts over all leading candidates that are judged or given up, which may be more than those
    /// that were added.
    settled: Settled,
}

impl Totals {
    /// Counts the leading candidates that are judged or given up. Starts again if the totals are of
    /// another run, or if the excluded candidates have changed.
    pub(super) fn settle(&mut self, entries: &[Entry], excluded: &[CandidateId]) {
        if !self.settled.counts_first_of(entries) || self.excluded != excluded {
            *self = Self {
                excluded: excluded.to_vec(),
                ..Self::default()
            };
        }
        self.settled.advance(entries, excluded);
    }

    /// The counts of [`Totals::settle`].
    pub(super) fn settled(&self) -> &Settled {
        &self.settled
    }

    /// Brings the totals to exactly these entries, the first of the run. Starts again if they do
    /// not continue what was added before.
    pub(super) fn advance(
        &mut self,
        entries: &[Entry],
        excluded: &[CandidateId],
        structure: Structure,
        seed: u64,
    ) {
        let before = entries.get(..self.added);
        let last = before.map(|added| added.last().map(|entry| entry.id));
        if last != Some(self.last) || self.excluded != excluded {
            *self = Self {
                excluded: excluded.to_vec(),
                settled: std::mem::take(&mut self.settled),
                ..Self::default()
            };
        }
        for (place, entry) in entries.iter().enumerate().skip(self.added) {
            self.add(place, entry, entries, structure, seed);
        }
        self.added = entries.len();
        self.last = entries.last().map(|entry| entry.id);
    }

    fn add(
        &mut self,
        place: usize,
        entry: &Entry,
        entries: &[Entry],
        structure: Structure,
        seed: u64,
    ) {
        let is_valid =
            entry.speedup().is_some() && !entry.duplicate && !self.excluded.contains(&entry.id);
        match structure {
            Structure::Elite => {}
            Structure::Chains => self.chains.add(place, entry, is_valid),
            Structure::Islands => self.islands.add(seed, place, entry, is_valid),
            Structure::Archive if is_valid => self.archive.add(place, entry, entries),
            Structure::Archive => {}
        }
        self.sweeps.add(place, entry, entries);
        self.arms.add(entry, is_valid);
        if entry.duplicate {
            // Prompts name repetitions to their authors, and a configuration has none.
            if entry.operator == Operator::Sweep {
                return;
            }
            if self.duplicates.len() == DUPLICATES {
                self.duplicates.pop_front();
            }
            self.duplicates.push_back(place);
            return;
        }
        if is_valid {
            self.valid += usize::from(entry.operator != Operator::Sweep);
            self.add_to_elite(place, entry, entries);
        }
        // The baseline's thought is the task's.
        let tells = match entry.state {
            EntryState::Accepted { .. } => true,
            EntryState::Rejected(kind) => kind != VerdictKind::ParseRejected,
            EntryState::Pending | EntryState::Abandoned { .. } => false,
        };
        if tells
            && entry.operator != Operator::Baseline
            && let Some(thought) = &entry.thought
        {
            self.thoughts.add(place, thought);
        }
    }

    fn add_to_elite(&mut self, place: usize, entry: &Entry, entries: &[Entry]) {
        let slower = |member: &usize| entries[*member].compare_speedups(entry).is_lt();
        let related = |member: &usize| entries[*member].family() == entry.family();
        if let Some(rank) = self.elite.iter().position(related) {
            if !slower(&self.elite[rank]) {
                return;
            }
            self.elite.remove(rank);
        }
        let rank = self.elite.iter().position(slower);
        self.elite.insert(rank.unwrap_or(self.elite.len()), place);
        self.elite.truncate(ELITE);
    }

    /// The number of valid members.
    pub(super) fn valid(&self) -> usize {
        self.valid
    }

    /// Positions of the fastest valid members, best first.
    pub(super) fn elite(&self) -> &[usize] {
        &self.elite
    }

    /// The configurations of the run.
    pub(super) fn sweeps(&self) -> &Sweeps {
        &self.sweeps
    }

    /// The outcomes of the run's models and operators.
    pub(super) fn arms(&self) -> &Arms {
        &self.arms
    }

    /// The chains of the run.
    pub(super) fn chains(&self) -> &Chains {
        &self.chains
    }

    /// The islands of the run.
    pub(super) fn islands(&self) -> &Islands {
        &self.islands
    }

    /// The archive of the run.
    pub(super) fn archive(&self) -> &Archive {
        &self.archive
    }

    /// Positions of the candidates whose thoughts say something new.
    pub(super) fn thoughts(&self) -> &[usize] {
        self.thoughts.places()
    }

    /// Positions of the newest duplicates, oldest first.
    pub(super) fn duplicates(&self) -> impl Iterator<Item = usize> {
        self.duplicates.iter().copied()
    }
}
