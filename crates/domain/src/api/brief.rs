//! The brief of an outside proposer.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::device::Device;
use crate::id::{CandidateId, RunId};
use crate::model::Prompt;
use crate::task::Case;

/// The brief of an outside proposer: the same facts that a model's prompt holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Brief {
    /// The run.
    pub run: RunId,
    /// The task.
    pub task: String,
    /// The task's facts that a candidate depends on, as text.
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
    /// The candidates tried so far, the newest last, each with its outcome.
    pub history: Vec<HistoryEntry>,
    /// Seeded insights.
    pub insights: String,
    /// Trials left.
    pub trials_left: u32,
    /// The prompt that a model would get, the answer's format included.
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
