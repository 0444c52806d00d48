//! Requests for runs, and the views of runs.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ForkOrigin, PromotionView};
use crate::digest::Digest;
use crate::id::{CandidateId, RunId};
use crate::model::{Dollars, Prompt};
use crate::search::{Budget, Evolution, Method, ModelChoice, Spend, StopReason};
use crate::verdict::VerdictKind;

/// Asks for a run. `POST /api/v1/runs` with an `Idempotency-Key` header: the same key always
/// gives the same run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// Name of a stored task.
    pub task: String,
    /// The method.
    pub method: Method,
    /// A name for people; made from task and method when absent.
    #[serde(default)]
    pub name: Option<String>,
    /// The limits that stop the run.
    #[serde(default)]
    pub budget: Budget,
    /// Seed of every random decision of the search.
    #[serde(default)]
    pub seed: u64,
    /// The file of the task that a sweep starts from, such as "playbook/03-kv-split.cu"; the
    /// baseline when absent.
    #[serde(default)]
    pub start: Option<String>,
    /// Only workers whose device has this name take the run's jobs; any when absent.
    #[serde(default)]
    pub device: Option<String>,
    /// The repository that a winner is committed to; the service's own when absent.
    #[serde(default)]
    pub promotion: Option<PromotionTarget>,
    /// The configured models that write candidates, for the methods that ask models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelChoice>,
    /// The settings of the methods that ask models.
    #[serde(default)]
    pub evolution: Evolution,
    /// Lessons of earlier runs, in Markdown, which prompts show beside those of the task: at most 16,384 bytes,
    /// for methods that show lessons.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lessons: String,
    /// Words by which people find the run again: at most 10, each of 1 to 40 letters, digits or `-_./:`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl RunRequest {
    /// A run of a task by a method, with the defaults for everything else.
    pub fn new(task: impl Into<String>, method: Method) -> Self {
        Self {
            task: task.into(),
            method,
            name: None,
            budget: Budget::default(),
            seed: 0,
            start: None,
            device: None,
            promotion: None,
            models: Vec::new(),
            evolution: Evolution::default(),
            lessons: String::new(),
            tags: Vec::new(),
        }
    }
}

/// The tags of a run, in place of those that it has. `PUT /api/v1/runs/{id}/tags`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TagsRequest {
    /// The tags: at most 10, each of 1 to 40 letters, digits or `-_./:`.
    pub tags: Vec<String>,
}

/// A git repository that winners are committed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromotionTarget {
    /// Path of the repository on the service's machine, bare or not.
    pub repository: String,
    /// The branch a new promotion branch starts from; when absent the repository's `HEAD`, or an empty
    /// history in a repository without a commit.
    #[serde(default)]
    pub base: Option<String>,
    /// The path of the winner's file in the repository; `kernels/<task>.cu` when absent.
    #[serde(default)]
    pub path: Option<String>,
    /// The region of that file which the winner replaces; the whole file when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
}

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunState {
    /// Accepted, nothing done yet.
    Created,
    /// The baseline is being evaluated.
    CheckingBaseline,
    /// Candidates are proposed and evaluated.
    Running,
    /// The run proposes and leases nothing until it is resumed.
    Paused {
        /// The reason.
        reason: String,
    },
    /// Ended as planned.
    Completed {
        /// The reason why the run ended.
        reason: StopReason,
    },
    /// Ended because it could not go on.
    Failed {
        /// The reason.
        reason: String,
    },
    /// Ended by request.
    Cancelled,
}

impl RunState {
    /// Returns true if the run has ended.
    pub fn is_over(&self) -> bool {
        matches!(
            self,
            Self::Completed { .. } | Self::Failed { .. } | Self::Cancelled
        )
    }

    /// The state's name without its reason.
    pub fn as_str(&self) -> &'static str {
        self.name().as_str()
    }

    /// The state without its reason.
    pub fn name(&self) -> RunStateName {
        match self {
            Self::Created => RunStateName::Created,
            Self::CheckingBaseline => RunStateName::CheckingBaseline,
            Self::Running => RunStateName::Running,
            Self::Paused { .. } => RunStateName::Paused,
            Self::Completed { .. } => RunStateName::Completed,
            Self::Failed { .. } => RunStateName::Failed,
            Self::Cancelled => RunStateName::Cancelled,
        }
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created => f.write_str("created"),
            Self::CheckingBaseline => f.write_str("checking the baseline"),
            Self::Running => f.write_str("running"),
            Self::Paused { reason } => write!(f, "paused: {reason}"),
            Self::Completed { reason } => write!(f, "completed: {reason}"),
            Self::Failed { reason } => write!(f, "failed: {reason}"),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

/// The state of a run without its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "each is documented at the state of the same name"
)]
pub enum RunStateName {
    Created,
    CheckingBaseline,
    Running,
    Paused,
    Completed,
    Failed,
    Cancelled,
}

impl RunStateName {
    /// All names, in the order in which a run may reach them.
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::CheckingBaseline,
        Self::Running,
        Self::Paused,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The name as the wire and the database carry it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::CheckingBaseline => "checking_baseline",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A run as lists and its page show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    /// Identity.
    pub id: RunId,
    /// Name for people.
    pub name: String,
    /// Words by which people find it again, in alphabetical order.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The task's name.
    pub task: String,
    /// The task's version.
    pub task_version: Digest,
    /// The method.
    pub method: Method,
    /// Name of the device that its jobs are for; none before the first one was leased.
    #[serde(default)]
    pub device: Option<String>,
    /// The run's state.
    pub state: RunState,
    /// The limits that stop the run.
    pub budget: Budget,
    /// Trials charged.
    pub trials: u32,
    /// The models that write its candidates.
    pub models: Vec<ModelChoice>,
    /// The settings of the methods that ask models.
    pub evolution: Evolution,
    /// The resources that models and devices have used.
    pub spend: Spend,
    /// Milliseconds it has been running, pauses not counted; kept every few seconds.
    pub running_ms: u64,
    /// Candidates by verdict.
    pub verdicts: BTreeMap<VerdictKind, u32>,
    /// Candidates proposed and not yet judged.
    pub pending: u32,
    /// The best accepted candidate.
    pub best: Option<BestCandidate>,
    /// The newest promotion of the run, once there is one.
    pub promotion: Option<PromotionView>,
    /// The candidate that the run was forked from.
    #[serde(default)]
    pub forked_from: Option<ForkOrigin>,
    /// The reason why the completed run promoted nothing.
    #[serde(default)]
    pub unpromoted: Option<String>,
    /// Id of the newest event. A reader of this view gets later changes from the event stream after it.
    #[serde(default)]
    pub last_event: i64,
    /// Seed of the search.
    pub seed: u64,
    /// The time of the request.
    pub created_at: DateTime<Utc>,
    /// The time of the last change.
    pub updated_at: DateTime<Utc>,
}

/// The best accepted candidate of a run so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Best)]
pub struct BestCandidate {
    /// The candidate.
    pub candidate: CandidateId,
    /// Its title.
    pub title: String,
    /// Baseline's time over its time, geometric mean over the score cases.
    pub speedup: f64,
    /// Lower and upper bound on that speedup, each wrong with a probability of 1%; none where the time is
    /// modelled or the candidate was not timed beside the baseline.
    #[serde(default)]
    pub interval: Option<[f64; 2]>,
    /// Its time, geometric mean over the score cases, microseconds.
    pub time_us: f64,
    /// True if that time is modelled.
    pub modelled: bool,
}

/// One page of runs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunView>,
    /// Pass as `cursor` for the next page; absent on the last.
    pub next: Option<String>,
}

/// A preview of a run: its first prompt and its estimated cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunPreview {
    /// The model that would be asked first.
    pub model: String,
    /// The first prompt, word for word.
    pub prompt: Prompt,
    /// Its template.
    pub template: String,
    /// The parts of the prompt that were left out for lack of room.
    pub dropped: Vec<String>,
    /// The facts that the prompt cannot show yet, because the baseline was never evaluated here;
    /// empty if the prompt is exact.
    pub unknown: Vec<String>,
    /// Tokens of the first prompt, an upper estimate.
    pub prompt_tokens: u64,
    /// Replies asked for if nothing else ends the run first, repairs counted. Second turns after
    /// replies that cannot be read come on top.
    pub calls: u64,
    /// The cost of all calls if each prompt were as long as this one and each reply as long as the
    /// model allows; none if a price is unknown.
    pub most_dollars: Option<Dollars>,
}
