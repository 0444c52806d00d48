//! Counts over the leading candidates of a run that are judged or given up, so that a decision reads
//! only the candidates that came after them.

use std::collections::VecDeque;

use super::{Entry, EntryState, Operator, Spend, fastest, is_eligible};
use crate::id::CandidateId;

/// Candidates of models from which the gain of the next one is estimated.
const WINDOW: usize = 16;

/// Counts over the leading candidates without a pending one among them.
#[derive(Debug, Clone, Default)]
pub(super) struct Settled {
    /// The number of counted candidates: the position of the first pending one, or their number.
    pub(super) upto: usize,
    /// The last of them, by which another run's counts are recognised.
    last: Option<CandidateId>,
    /// Candidates charged as trials.
    trials: usize,
    /// Candidates charged as trials that models wrote.
    pub(super) written: usize,
    /// Candidates made without parents.
    pub(super) init: usize,
    /// The highest generation.
    pub(super) generation: u32,
    /// Position of the fastest that may be promoted.
    champion: Option<usize>,
    /// The highest speedup.
    best: f64,
    /// Candidates charged as trials since the highest speedup rose.
    pub(super) trials_without_gain: u32,
    /// The highest speedup with the baseline and after each of the last candidates charged as trials that
    /// models wrote.
    progress: VecDeque<f64>,
}

impl Settled {
    /// Returns true if the counted candidates are the first of these.
    pub(super) fn counts_first_of(&self, entries: &[Entry]) -> bool {
        let counted = entries.get(..self.upto);
        counted.map(|counted| counted.last().map(|entry| entry.id)) == Some(self.last)
    }

    /// Counts further candidates up to the first pending one.
    pub(super) fn advance(&mut self, entries: &[Entry], excluded: &[CandidateId]) {
        let further = entries.iter().enumerate().skip(self.upto);
        for (place, entry) in further.take_while(|(_, entry)| entry.state != EntryState::Pending) {
            (self.upto, self.last) = (place + 1, Some(entry.id));
            self.trials += usize::from(entry.trial);
            self.written += usize::from(entry.trial && entry.operator.asks_model());
            self.init += usize::from(entry.operator == Operator::Init);
            self.generation = self.generation.max(entry.generation);
            self.count_progress(entry, excluded);
            if is_eligible(entry, excluded) {
                let best = self.champion.map(|place| &entries[place]);
                let further = fastest(best.into_iter().chain([entry]));
                if further.is_some_and(|champion| std::ptr::eq(champion, entry)) {
                    self.champion = Some(place);
                }
            }
        }
    }

    fn count_progress(&mut self, entry: &Entry, excluded: &[CandidateId]) {
        let is_valid = !entry.duplicate && !excluded.contains(&entry.id);
        let speedup = entry.speedup().filter(|_| is_valid);
        if speedup.is_some_and(|speedup| speedup > self.best) {
            self.trials_without_gain = 0;
        } else {
            self.trials_without_gain += u32::from(entry.trial);
        }
        self.best = self.best.max(speedup.unwrap_or(0.0));
        let is_written = entry.trial && entry.operator.asks_model();
        if is_written || entry.operator == Operator::Baseline {
            self.progress.push_back(self.best);
        }
        if self.progress.len() > WINDOW + 1 {
            self.progress.pop_front();
        }
    }

    /// The percentage by which a further dollar for models is expected to make the fastest candidate
    /// faster. None before there are enough candidates, and where nothing was spent.
    pub(super) fn gain_per_dollar(&self, spend: &Spend) -> Option<f64> {
        let (first, last) = (self.progress.front()?, self.progress.back()?);
        let dollars = spend.dollars.nanos() as f64 / 1e9;
        if self.progress.len() <= WINDOW || dollars <= 0.0 {
            return None;
        }
        let gain = (last / first).ln() / WINDOW as f64;
        let each = dollars / self.written as f64;
        Some(100.0 * (gain / each).exp_m1())
    }

    /// The candidates that are not counted. The first of them, if any, is pending.
    pub(super) fn uncounted<'e>(&self, entries: &'e [Entry]) -> &'e [Entry] {
        &entries[self.upto..]
    }

    /// Returns true if a candidate is pending.
    pub(super) fn is_waiting(&self, entries: &[Entry]) -> bool {
        self.upto < entries.len()
    }

    /// The number of candidates charged as trials.
    pub(super) fn trials(&self, entries: &[Entry]) -> usize {
        let open = self.uncounted(entries).iter().filter(|entry| entry.trial);
        self.trials + open.count()
    }

    /// The fastest candidate that may be promoted, the earliest of equals.
    pub(super) fn champion<'e>(
        &self,
        entries: &'e [Entry],
        excluded: &[CandidateId],
    ) -> Option<&'e Entry> {
        let best = self.champion.map(|place| &entries[place]);
        let rest = self.uncounted(entries).iter();
        let further = rest.filter(|entry| is_eligible(entry, excluded));
        fastest(best.into_iter().chain(further))
    }
}
