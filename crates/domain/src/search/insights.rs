//! The effect of the thoughts that prompts showed: the candidates that were shown each, and their
//! outcomes. A record for people; which thoughts are shown next does not depend on it.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Entry, EntryState, Operator};
use crate::api::ShownCandidates;
use crate::id::CandidateId;
use crate::statistics::median;
use crate::verdict::VerdictKind;

/// Accepted candidates needed on either side before readers are compared with the others.
const COMPARABLE: usize = 3;

/// A candidate's thought and what came of showing it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Insight {
    /// The candidate whose thought it is.
    pub candidate: CandidateId,
    /// The candidate's position in the run.
    pub ordinal: u32,
    /// In its author's words.
    pub thought: String,
    /// The candidate's own verdict; none if there will be none.
    pub verdict: Option<VerdictKind>,
    /// The candidate's own speedup over the baseline, if accepted.
    pub speedup: Option<f64>,
    /// Candidates whose prompt showed it.
    pub shown: u32,
    /// The number of those with a verdict.
    pub judged: u32,
    /// The number of those that were accepted.
    pub accepted: u32,
    /// The number of those that were faster than the best that their prompt showed.
    pub wins: u32,
    /// Median speedup of the accepted candidates that were shown it, over that of the accepted
    /// ones that came after it and were not; none with fewer than three on either side. An
    /// observation, not an experiment: what else their prompts showed differs, too.
    pub uplift: Option<f64>,
    /// Position of the last candidate whose prompt showed it.
    pub last_shown: Option<u32>,
    /// Number of the direction that corrected it or left it out of prompts.
    #[serde(default)]
    pub edit: Option<u32>,
    /// The text that prompts show in its place. None with an `edit` means that they do not show it.
    #[serde(default)]
    pub corrected: Option<String>,
}

/// The records that the insights of a run's newest candidates are counted from. A thought is shown to
/// later candidates only, so that earlier ones change no count of it.
#[derive(Debug, Clone, Default)]
pub struct InsightRecords {
    /// Position of the first entry in the run.
    pub first: u32,
    /// Candidates in the order of their positions, to the run's last.
    pub entries: Vec<Entry>,
    /// The candidates that the first prompt of each model-written candidate showed.
    pub seen: HashMap<CandidateId, ShownCandidates>,
    /// Speedups of earlier candidates that a prompt showed as the best.
    pub earlier: HashMap<CandidateId, f64>,
    /// The candidates whose confirmation failed or whose promotion was taken back.
    pub refused: HashSet<CandidateId>,
}

impl InsightRecords {
    /// Position in the run of an entry.
    fn ordinal(&self, place: usize) -> u32 {
        u32::try_from(place).map_or(u32::MAX, |place| self.first.saturating_add(place))
    }
}

/// The thoughts of the judged candidates, those that won most often first.
pub fn insights(records: &InsightRecords) -> Vec<Insight> {
    let (entries, seen) = (&records.entries, &records.seen);
    let places = entries
        .iter()
        .enumerate()
        .map(|(place, entry)| (entry.id, place))
        .collect::<HashMap<_, _>>();
    // The places of the readers of each thought, ascending.
    let mut readers: HashMap<CandidateId, Vec<usize>> = HashMap::new();
    for (place, entry) in entries.iter().enumerate() {
        let shown = seen.get(&entry.id).map(|saw| saw.insights.as_slice());
        let shown = shown.unwrap_or_default();
        for (position, author) in shown.iter().enumerate() {
            if !shown[..position].contains(author) {
                readers.entry(*author).or_default().push(place);
            }
        }
    }
    let mut later = Speedups::of(entries.iter().filter(|entry| seen.contains_key(&entry.id)));
    let mut insights = Vec::new();
    // Backwards, so that the speedups of the candidates behind an author are collected one by one. The
    // baseline's thought is the task's and is not shown as an insight.
    for (place, author) in entries.iter().enumerate().rev() {
        let is_told = author.state != EntryState::Pending
            && author.operator != Operator::Baseline
            && !author.duplicate
            && author.thought.is_some();
        if is_told {
            let own = readers.get(&author.id).map(Vec::as_slice);
            let own = own.unwrap_or_default();
            let mut insight = Insight::of(records.ordinal(place), author);
            for reader in own {
                insight.count(*reader, records, &places);
            }
            insight.uplift = uplift(place, own, entries, &mut later);
            insights.push(insight);
        }
        if seen.contains_key(&author.id) {
            later.add(author.speedup());
        }
    }
    insights.sort_by_key(|insight| {
        let often = |count: u32| std::cmp::Reverse(count);
        (often(insight.wins), often(insight.shown), insight.ordinal)
    });
    insights
}

/// Median speedup of the accepted readers of a thought over that of the other accepted candidates
/// behind its author, whose speedups are in `later`; none with too few on either side.
fn uplift(place: usize, readers: &[usize], entries: &[Entry], later: &mut Speedups) -> Option<f64> {
    let with = readers
        .iter()
        .filter_map(|reader| entries[*reader].speedup());
    let with = with.collect::<Vec<_>>();
    if with.len() < COMPARABLE {
        return None;
    }
    let behind = readers.iter().filter(|reader| **reader > place);
    let behind = behind.filter_map(|reader| entries[*reader].speedup());
    let behind = behind.collect::<Vec<_>>();
    for speedup in &behind {
        later.remove(*speedup);
    }
    let without = (later.count >= COMPARABLE).then(|| later.median());
    for speedup in behind {
        later.add(Some(speedup));
    }
    let compared = median(&with).zip(without.flatten());
    compared.map(|(with, without)| with / without)
}

/// A multiset of speedups from a fixed list, with its median in logarithmic time: a Fenwick tree over
/// the ranks in the list.
struct Speedups {
    /// The values that may be added, ascending, each once.
    values: Vec<f64>,
    /// `counts[i]` counts the ranks from `i - lowest_bit(i)` to `i - 1`.
    counts: Vec<usize>,
    count: usize,
}

impl Speedups {
    /// An empty set of the speedups of these candidates.
    fn of<'e>(entries: impl Iterator<Item = &'e Entry>) -> Self {
        let mut values = entries.filter_map(Entry::speedup).collect::<Vec<_>>();
        values.sort_by(f64::total_cmp);
        values.dedup_by(|one, other| one.total_cmp(other).is_eq());
        Self {
            counts: vec![0; values.len() + 1],
            values,
            count: 0,
        }
    }

    fn add(&mut self, speedup: Option<f64>) {
        if let Some(speedup) = speedup {
            self.count += 1;
            self.change(speedup, |count| *count += 1);
        }
    }

    fn remove(&mut self, speedup: f64) {
        self.count -= 1;
        self.change(speedup, |count| *count -= 1);
    }

    fn change(&mut self, speedup: f64, by: impl Fn(&mut usize)) {
        let rank = self
            .values
            .partition_point(|value| value.total_cmp(&speedup).is_lt());
        let mut at = rank + 1;
        while at < self.counts.len() {
            by(&mut self.counts[at]);
            at += at & at.wrapping_neg();
        }
    }

    /// The value with so many others before it.
    fn nth(&self, mut before: usize) -> f64 {
        let mut at = 0;
        let mut step = self.counts.len().next_power_of_two();
        while step > 0 {
            if let Some(count) = self.counts.get(at + step)
                && *count <= before
            {
                before -= count;
                at += step;
            }
            step /= 2;
        }
        self.values[at]
    }

    fn median(&self) -> Option<f64> {
        let last = self.count.checked_sub(1)?;
        median(&[self.nth(last / 2), self.nth(last.div_ceil(2))])
    }
}

impl Insight {
    fn of(ordinal: u32, author: &Entry) -> Self {
        Self {
            candidate: author.id,
            ordinal,
            thought: author.thought.clone().unwrap_or_default(),
            verdict: match author.state {
                EntryState::Accepted { .. } => Some(VerdictKind::Accepted),
                EntryState::Rejected(kind) => Some(kind),
                EntryState::Pending | EntryState::Abandoned { .. } => None,
            },
            speedup: author.speedup(),
            shown: 0,
            judged: 0,
            accepted: 0,
            wins: 0,
            uplift: None,
            last_shown: None,
            edit: None,
            corrected: None,
        }
    }

    /// Counts a candidate whose prompt showed the thought.
    fn count(
        &mut self,
        place: usize,
        records: &InsightRecords,
        places: &HashMap<CandidateId, usize>,
    ) {
        let reader = &records.entries[place];
        self.shown += 1;
        self.last_shown = Some(records.ordinal(place));
        match reader.state {
            EntryState::Pending | EntryState::Abandoned { .. } => {}
            EntryState::Rejected(_) => self.judged += 1,
            EntryState::Accepted { speedup, .. } => {
                self.judged += 1;
                self.accepted += 1;
                let best = records.seen.get(&reader.id).and_then(|saw| saw.best);
                let to_beat = best.and_then(|best| match places.get(&best) {
                    Some(place) => records.entries[*place].speedup(),
                    None => records.earlier.get(&best).copied(),
                });
                self.wins += u32::from(to_beat.is_some_and(|best| speedup > best));
            }
        }
    }
}
