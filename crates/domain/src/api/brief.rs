//! What a proposer is told.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::device::Device;
use crate::id::{CandidateId, RunId};
use crate::model::Prompt;
use crate::task::Case;

/// What an outside proposer is told: the same that a model would be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Brief {
    /// The run.
    pub run: RunId,
    /// The task.
    pub task: String,
    /// What a candidate must know of the task.
    pub context: String,
    /// The device with its limits.
    pub device: Option<Device>,
    /// The cases.
    pub cases: Vec<Case>,
    /// The candidate to start from: the best so far.
    pub parent: CandidateId,
    /// Its text.
    pub parent_source: String,
    /// Its time in microseconds, if it has one.
    pub parent_time_us: Option<f64>,
    /// What was tried, newest last, each with its outcome.
    pub history: Vec<HistoryEntry>,
    /// Seeded insights.
    pub insights: String,
    /// Trials left.
    pub trials_left: u32,
    /// The same as a model is told it, the answer's format included.
    pub prompt: Prompt,
}

/// One earlier attempt with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HistoryEntry {
    /// The candidate.
    pub candidate: CandidateId,
    /// Its title.
    pub title: String,
    /// Its outcome in one sentence.
    pub outcome: String,
}
