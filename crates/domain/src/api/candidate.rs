//! Views of candidates: progress, content, parents and model calls.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::PromotionState;
use crate::candidate::Idea;
use crate::digest::Digest;
use crate::evaluation::Evaluation;
use crate::id::{CandidateId, RunId, WorkerId};
use crate::model::{Dollars, Prompt, Usage};
use crate::search::Operator;
use crate::task::GateSubject;
use crate::verdict::VerdictKind;

/// The state of a candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CandidateState {
    /// A model is asked to write it.
    Drafting {
        /// The configured model.
        model: String,
        /// The reason why the last attempt gave no answer, if there was one.
        trouble: Option<String>,
    },
    /// Waits for a worker.
    Queued,
    /// A worker evaluates it.
    Evaluating {
        /// The worker's present activity.
        stage: String,
        /// The worker.
        worker: WorkerId,
    },
    /// The candidate has a verdict.
    Evaluated,
    /// The same code was evaluated before in the run, as written or as compiled. If as written, that verdict
    /// is its verdict.
    Duplicate {
        /// The candidate whose code is repeated.
        of: CandidateId,
    },
    /// The infrastructure failed too often to say anything about it.
    Abandoned {
        /// The last error.
        message: String,
    },
}

/// A candidate as lists and the lineage show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CandidateSummary {
    /// Identity.
    pub id: CandidateId,
    /// Position in the run, from 0 (the baseline).
    pub ordinal: u32,
    /// Generation, from 0.
    pub generation: u32,
    /// Its island, from 0, if the run's method keeps islands; none for the baseline, which all begin with.
    #[serde(default)]
    pub island: Option<u8>,
    /// Parents; the first is the primary one.
    pub parents: Vec<CandidateId>,
    /// The candidate's operator.
    pub operator: Operator,
    /// The proposer: "playbook", "sweep", or the name that an outside proposer gave.
    pub proposer: String,
    /// A few words.
    pub title: String,
    /// Values of its tunables.
    pub configuration: BTreeMap<String, i64>,
    /// The candidate's state.
    pub state: CandidateState,
    /// Its verdict, once it has one.
    pub verdict: Option<VerdictKind>,
    /// The verdict in one sentence.
    pub summary: Option<String>,
    /// The source line the verdict blames.
    pub line: Option<u32>,
    /// Baseline's time over its time; only if accepted.
    pub speedup: Option<f64>,
    /// Its time, geometric mean over the score cases, microseconds; only if accepted.
    pub time_us: Option<f64>,
    /// True if that time is modelled.
    pub modelled: bool,
    /// Phase gates that it does not meet.
    pub unmet_gates: Vec<GateSubject>,
    /// True if the candidate is the run's best.
    pub best: bool,
    /// The candidate of an earlier run with the same code whose verdict this is, if nothing was evaluated
    /// again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict_of: Option<CandidateId>,
    /// The state of the newest promotion of this code in the run, if there was one. An accepted
    /// candidate whose promotion was refused or taken back is not a winner.
    #[serde(default)]
    pub promotion: Option<PromotionState>,
    /// Price of the model calls for it so far; none where no call had a price.
    #[serde(default)]
    pub cost: Option<Dollars>,
    /// The time of the proposal.
    pub created_at: DateTime<Utc>,
    /// The time of the verdict.
    pub judged_at: Option<DateTime<Utc>>,
}

impl CandidateSummary {
    /// The reason its promotion was refused or taken back, if it was.
    pub fn promotion_failure(&self) -> Option<&str> {
        match self.promotion.as_ref()? {
            PromotionState::Refused { reason } | PromotionState::Reverted { reason, .. } => {
                Some(reason)
            }
            PromotionState::Confirming
            | PromotionState::Committed { .. }
            | PromotionState::Blocked { .. } => None,
        }
    }
}

/// The orders of a list of candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CandidateOrder {
    /// By ordinal.
    #[default]
    Ordinal,
    /// By ordinal, descending.
    Newest,
    /// Accepted candidates by speedup, descending.
    Fastest,
}

/// One page of candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CandidatePage {
    /// The candidates.
    pub candidates: Vec<CandidateSummary>,
    /// Pass as `cursor` for the next page; absent on the last.
    pub next: Option<String>,
}

/// Everything about one candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CandidateDetail {
    /// The run.
    pub run: RunId,
    /// The task.
    pub task: String,
    /// The candidate as lists show it.
    #[serde(flatten)]
    pub summary: CandidateSummary,
    /// The name of the file in messages.
    pub file: String,
    /// The text.
    pub source: String,
    /// The author's idea.
    pub idea: Option<Idea>,
    /// Identity of the code.
    pub digest: Option<Digest>,
    /// The evaluation, or that of the candidate it duplicates.
    pub evaluation: Option<Evaluation>,
    /// The confirmation before promotion, if there was one.
    pub confirmation: Option<Evaluation>,
    /// Line differences to the primary parent.
    pub diff: Vec<DiffLine>,
    /// Candidates bred from it.
    pub children: Vec<CandidateId>,
    /// The model calls made for the candidate, with their answers, in order.
    pub calls: Vec<CallView>,
}

/// One call of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallView {
    /// Position in the conversation, from 0.
    pub turn: u32,
    /// The configured model.
    pub model: String,
    /// The template of the prompt.
    pub template: String,
    /// Version of the template with everything it includes.
    pub template_digest: Digest,
    /// The prompt, word for word.
    pub prompt: Prompt,
    /// The parts of the prompt that were left out for lack of room.
    pub dropped: Vec<String>,
    /// The candidates that the prompt showed.
    pub seen: ShownCandidates,
    /// The number of attempts that failed without an answer.
    pub failures: u32,
    /// Requests of this call whose outcome is unknown, because the service stopped or the run ended
    /// before the answer came. Each is charged with the most that it may have used.
    #[serde(default)]
    pub interrupted: u32,
    /// The reason of the last failure.
    pub trouble: Option<String>,
    /// The answer, once there is one.
    pub reply: Option<ReplyView>,
    /// The time at which the call was planned.
    pub created_at: DateTime<Utc>,
}

/// The candidates that a prompt showed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Seen)]
pub struct ShownCandidates {
    /// The best candidate at that time.
    pub best: Option<CandidateId>,
    /// Candidates shown as parents.
    pub parents: Vec<CandidateId>,
    /// Candidates whose thoughts were shown with their outcomes.
    pub insights: Vec<CandidateId>,
    /// Candidates named as repetitions.
    pub duplicates: Vec<CandidateId>,
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplyView {
    /// Word for word.
    pub text: String,
    /// True if the model ended by itself rather than at its token limit.
    pub complete: bool,
    /// The reason why the reply holds no candidate, if it holds none.
    pub unusable: Option<String>,
    /// The assumptions made while the reply was read.
    pub notes: Vec<String>,
    /// The tokens used.
    pub usage: Usage,
    /// True if the usage is an estimate, because the server did not report it.
    pub usage_estimated: bool,
    /// The cost; none without a known price.
    pub cost: Option<Dollars>,
    /// The server's name for the model that answered.
    pub answered_by: String,
    /// Until the first token, milliseconds, if it was streamed.
    pub first_token_ms: Option<f64>,
    /// Until the end, milliseconds.
    pub total_ms: f64,
    /// Requests it took, refused ones counted.
    pub attempts: u32,
    /// The time of the answer.
    pub at: DateTime<Utc>,
}

/// One line of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffLine {
    /// The line's change: kept, added or removed.
    pub change: Change,
    /// Line number in the parent, from 1.
    pub old: Option<u32>,
    /// Line number in the candidate, from 1.
    pub new: Option<u32>,
    /// The line without its end.
    pub text: String,
}

/// The change of a line in a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// In both.
    Kept,
    /// Only in the candidate.
    Added,
    /// Only in the parent.
    Removed,
}

/// A kernel from an outside proposer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The whole file.
    pub source: String,
    /// The name of the file in messages.
    #[serde(default)]
    pub file: Option<String>,
    /// The candidate it was made from; the run's best when absent.
    #[serde(default)]
    pub parent: Option<CandidateId>,
    /// The proposer.
    #[serde(default)]
    pub proposer: Option<String>,
    /// The reason why it should be faster; overrides the file's own idea.
    #[serde(default)]
    pub hypothesis: Option<String>,
}
