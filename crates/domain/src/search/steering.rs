//! Steering: the directions that people gave a run, as one value that the search reads.
//!
//! A direction holds for the candidates that are planned after it. The records fix that position, so
//! that the same directions at the same positions give the same run.

use std::collections::BTreeMap;

use super::{Entry, Insight};
use crate::api::{Steer, SteeringEntry};
use crate::id::CandidateId;

/// The directions that are in force in a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Steering {
    /// Number of the run's newest direction, 0 before the first.
    pub version: u32,
    /// Texts that prompts carry.
    pub hints: Vec<Hint>,
    /// Ideas that prompts tell to avoid.
    pub avoided: Vec<String>,
    /// Candidates of which one is a parent of every candidate.
    pub pinned: Vec<CandidateId>,
    /// Candidates that are nobody's parent and no champion.
    pub banned: Vec<CandidateId>,
    /// The newest edit of each candidate's thought.
    pub insights: BTreeMap<CandidateId, InsightEdit>,
}

/// An edit of a candidate's thought as prompts show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsightEdit {
    /// Number of the direction.
    pub entry: u32,
    /// The corrected text; none if prompts no longer show the thought.
    pub text: Option<String>,
}

/// A text that the prompts of a run carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The text.
    pub text: String,
    /// Candidates that the run had when it was given.
    pub since: u32,
    /// The number of candidates whose prompts carry it; all further ones if none.
    pub prompts: Option<u32>,
}

impl Steering {
    /// The directions in force, from all that the run was given. `banned` has the candidates of the
    /// bans in force, descendants included.
    pub fn of(entries: &[SteeringEntry], banned: Vec<CandidateId>) -> Self {
        let mut steering = Self {
            version: entries.last().map_or(0, |last| last.entry),
            banned,
            ..Self::default()
        };
        for entry in entries.iter().filter(|entry| entry.withdrawn_by.is_none()) {
            match &entry.what {
                Steer::Hint { text, prompts } => steering.hints.push(Hint {
                    text: text.clone(),
                    since: entry.since,
                    prompts: *prompts,
                }),
                Steer::Avoid { idea } => steering.avoided.push(idea.clone()),
                Steer::Pin { candidate, .. } => steering.pinned.push(*candidate),
                Steer::Insight {
                    candidate, text, ..
                } => {
                    let edit = InsightEdit {
                        entry: entry.entry,
                        text: text.clone(),
                    };
                    steering.insights.insert(*candidate, edit);
                }
                Steer::Ban { .. }
                | Steer::Withdraw { .. }
                | Steer::Budget { .. }
                | Steer::Model { .. }
                | Steer::Fork { .. }
                | Steer::Reevaluate { .. }
                | Steer::Promote { .. } => {}
            }
        }
        steering
            .pinned
            .retain(|candidate| !steering.banned.contains(candidate));
        steering
    }

    /// The hints that the prompt of the candidate at a place of the run carries. `candidates` are those
    /// before it; the places from their end to `place` are of candidates that models will write.
    pub fn hints_at(&self, candidates: &[Entry], place: usize) -> Vec<String> {
        let carries = |hint: &&Hint| {
            let Some(prompts) = hint.prompts else {
                return true;
            };
            let since = candidates.iter().skip(hint.since as usize);
            let written = since.filter(|entry| entry.operator.asks_model());
            let planned = place.saturating_sub(candidates.len());
            let most = (prompts as usize).saturating_sub(planned);
            written.take(most).count() < most
        };
        let carried = self.hints.iter().filter(carries);
        carried.map(|hint| hint.text.clone()).collect()
    }

    /// The hints for the next candidate of someone outside, to whom each candidate counts as a prompt.
    pub fn hints_after(&self, candidates: u32) -> Vec<String> {
        let carries = |hint: &&Hint| {
            let since = candidates.saturating_sub(hint.since);
            hint.prompts.is_none_or(|prompts| since < prompts)
        };
        let carried = self.hints.iter().filter(carries);
        carried.map(|hint| hint.text.clone()).collect()
    }

    /// Returns true if prompts may show the thought of a candidate.
    pub fn shows_insight(&self, candidate: CandidateId) -> bool {
        let edit = self.insights.get(&candidate);
        edit.is_none_or(|edit| edit.text.is_some())
    }

    /// The corrected thought of a candidate, if a person corrected it.
    pub fn corrected_insight(&self, candidate: CandidateId) -> Option<&str> {
        self.insights.get(&candidate)?.text.as_deref()
    }

    /// Writes the edits into insights, for people to read.
    pub fn edit_insights(&self, insights: &mut [Insight]) {
        for insight in insights {
            let corrected = self.corrected_insight(insight.candidate);
            insight.corrected = corrected.map(str::to_owned);
            insight.edit = self.insights.get(&insight.candidate).map(|edit| edit.entry);
        }
    }

    /// The pinned candidate that is a parent of the candidate at a place: each in turn.
    pub fn pin_at(&self, place: usize) -> Option<CandidateId> {
        let turn = place.checked_rem(self.pinned.len())?;
        Some(self.pinned[turn])
    }

    /// The newest pinned candidate.
    pub fn newest_pin(&self) -> Option<CandidateId> {
        self.pinned.last().copied()
    }
}
