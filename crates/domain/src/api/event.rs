//! Events of a run, in order.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{PromotionView, RunState, Steer};
use crate::id::{CandidateId, RunId, WorkerId};
use crate::model::Dollars;
use crate::verdict::VerdictKind;

/// Something that happened in a run. `GET /api/v1/runs/{id}/events` streams these; `id` is the
/// SSE id to resume from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Position in the service's event log, from 1.
    pub id: i64,
    /// The run.
    pub run: RunId,
    /// The time of the event.
    pub at: DateTime<Utc>,
    /// The event.
    pub what: EventKind,
}

/// The events of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind {
    /// The run's state changed.
    RunChanged {
        /// To this.
        state: RunState,
    },
    /// A candidate was proposed.
    Proposed {
        /// The candidate.
        candidate: CandidateId,
        /// Its ordinal.
        ordinal: u32,
        /// Its title.
        title: String,
    },
    /// A model answered.
    Replied {
        /// The candidate it writes.
        candidate: CandidateId,
        /// Its ordinal.
        ordinal: u32,
        /// The configured model.
        model: String,
        /// Tokens used.
        tokens: u64,
        /// The cost, if the price is known.
        cost: Option<Dollars>,
        /// The reason why the reply holds no candidate, if it holds none.
        unusable: Option<String>,
    },
    /// A model did not answer; it will be asked again.
    Unanswered {
        /// The candidate it is to write.
        candidate: CandidateId,
        /// The configured model.
        model: String,
        /// The reason.
        reason: String,
    },
    /// A candidate was given up without a verdict.
    Abandoned {
        /// The candidate.
        candidate: CandidateId,
        /// The reason.
        reason: String,
    },
    /// A worker began a stage.
    Stage {
        /// The candidate.
        candidate: CandidateId,
        /// The stage.
        stage: String,
        /// The worker.
        worker: WorkerId,
    },
    /// A candidate has its verdict.
    Judged {
        /// The candidate.
        candidate: CandidateId,
        /// Its ordinal.
        ordinal: u32,
        /// Its title.
        title: String,
        /// The verdict.
        verdict: VerdictKind,
        /// The verdict in one sentence.
        summary: String,
        /// Speedup over the baseline, if accepted.
        speedup: Option<f64>,
        /// True if the candidate is the best so far.
        best: bool,
    },
    /// A job went back to the queue.
    Requeued {
        /// The candidate.
        candidate: CandidateId,
        /// The reason.
        reason: String,
    },
    /// Someone gave the run a direction.
    Steered {
        /// Its number in the run.
        entry: u32,
        /// The name of the token that asked, or the words for a caller without one.
        actor: String,
        /// The direction.
        what: Steer,
    },
    /// A candidate was evaluated again on request. Its first verdict stays.
    Reevaluated {
        /// The candidate.
        candidate: CandidateId,
        /// Its ordinal.
        ordinal: u32,
        /// The new verdict.
        verdict: VerdictKind,
        /// The new verdict in one sentence.
        summary: String,
        /// Speedup over the baseline, if accepted.
        speedup: Option<f64>,
    },
    /// A promotion moved on.
    Promotion {
        /// The promotion after the event.
        promotion: PromotionView,
    },
}
