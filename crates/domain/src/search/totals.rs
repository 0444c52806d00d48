//! Totals over the candidates that a slot sees, kept from one decision to the next, so that the cost
//! of a decision does not grow with the square of the run.

use super::selection::DistinctThoughts;
use super::{Entry, EntryState, Operator};
use crate::id::CandidateId;
use crate::verdict::VerdictKind;

/// Members of the elite of `full`.
pub(super) const ELITE: usize = 4;

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
    /// The refused candidates that were left out.
    refused: Vec<CandidateId>,
    /// Valid members: accepted, not a duplicate, not refused.
    valid: usize,
    /// Positions of the fastest valid members, best first, the earlier of equals before the later.
    elite: Vec<usize>,
    /// Thoughts of judged candidates, each once.
    thoughts: DistinctThoughts,
}

impl Totals {
    /// Brings the totals to exactly these entries, the first of the run. Starts again if they do
    /// not continue what was added before.
    pub(super) fn advance(&mut self, entries: &[Entry], refused: &[CandidateId]) {
        let before = entries.get(..self.added).map(|added| added.last());
        let continued = before.is_some_and(|last| last.map(|entry| entry.id) == self.last);
        if !continued || self.refused != refused {
            *self = Self {
                refused: refused.to_vec(),
                ..Self::default()
            };
        }
        for (place, entry) in entries.iter().enumerate().skip(self.added) {
            self.add(place, entry, entries);
        }
        self.added = entries.len();
        self.last = entries.last().map(|entry| entry.id);
    }

    fn add(&mut self, place: usize, entry: &Entry, entries: &[Entry]) {
        if entry.duplicate {
            return;
        }
        if entry.speedup().is_some() && !self.refused.contains(&entry.id) {
            self.valid += 1;
            let slower = |member: &usize| entries[*member].compare_speedups(entry).is_lt();
            let rank = self.elite.iter().position(slower);
            self.elite.insert(rank.unwrap_or(self.elite.len()), place);
            self.elite.truncate(ELITE);
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

    /// The number of valid members.
    pub(super) fn valid(&self) -> usize {
        self.valid
    }

    /// Positions of the fastest valid members, best first.
    pub(super) fn elite(&self) -> &[usize] {
        &self.elite
    }

    /// Positions of the candidates whose thoughts say something new.
    pub(super) fn thoughts(&self) -> &[usize] {
        self.thoughts.places()
    }
}
