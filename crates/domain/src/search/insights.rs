//! The effect of the thoughts that prompts showed: the candidates that were shown each, and their
//! outcomes. A record for people; which thoughts are shown next does not depend on it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Entry, EntryState};
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
}

/// The thoughts of a run's judged candidates, those that won most often first. `seen` has what
/// each model-written candidate's first prompt showed; `entries` are in the order of their
/// positions.
pub fn insights(entries: &[Entry], seen: &HashMap<CandidateId, ShownCandidates>) -> Vec<Insight> {
    let places = entries
        .iter()
        .enumerate()
        .map(|(place, entry)| (entry.id, place))
        .collect::<HashMap<_, _>>();
    let readers = entries
        .iter()
        .enumerate()
        .filter_map(|(place, entry)| Some((place, entry, seen.get(&entry.id)?)))
        .collect::<Vec<_>>();
    // The baseline's thought is the task's and is not shown as an insight.
    let authors = entries.iter().enumerate().skip(1).filter(|(_, entry)| {
        entry.state != EntryState::Pending && !entry.duplicate && entry.thought.is_some()
    });
    let mut insights = authors
        .map(|(place, author)| {
            let mut insight = Insight::of(place, author);
            let (mut with, mut without) = (Vec::new(), Vec::new());
            for (at, reader, saw) in &readers {
                if !saw.insights.contains(&author.id) {
                    without.extend(reader.speedup().filter(|_| *at > place));
                    continue;
                }
                insight.shown += 1;
                insight.last_shown = Some(position(*at));
                match reader.state {
                    EntryState::Pending | EntryState::Abandoned { .. } => {}
                    EntryState::Rejected(_) => insight.judged += 1,
                    EntryState::Accepted { speedup, .. } => {
                        insight.judged += 1;
                        insight.accepted += 1;
                        let best = saw.best.and_then(|best| places.get(&best));
                        let to_beat = best.and_then(|best| entries[*best].speedup());
                        insight.wins += u32::from(to_beat.is_some_and(|best| speedup > best));
                        with.push(speedup);
                    }
                }
            }
            if with.len().min(without.len()) >= COMPARABLE {
                let compared = median(&with).zip(median(&without));
                insight.uplift = compared.map(|(with, without)| with / without);
            }
            insight
        })
        .collect::<Vec<_>>();
    insights.sort_by_key(|insight| {
        let often = |count: u32| std::cmp::Reverse(count);
        (often(insight.wins), often(insight.shown), insight.ordinal)
    });
    insights
}

impl Insight {
    fn of(place: usize, author: &Entry) -> Self {
        Self {
            candidate: author.id,
            ordinal: position(place),
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
        }
    }
}

fn position(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
