//! The HTTP API's values: what clients send and what they get. Times are UTC; every list is
//! bounded.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::candidate::Idea;
use crate::device::Device;
use crate::digest::Digest;
use crate::evaluation::Evaluation;
use crate::id::{CandidateId, PromotionId, RunId, WorkerId};
use crate::model::{Dollars, Prompt, Usage};
use crate::problem::Problem;
use crate::search::{Budget, Evolution, Method, ModelChoice, Operator, Spend, StopReason};
use crate::task::{Case, GateSubject};
use crate::verdict::VerdictKind;

/// Asks for a run. `POST /api/v1/runs` with an `Idempotency-Key` header: the same key always
/// gives the same run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// Name of a stored task.
    pub task: String,
    /// How candidates come about.
    pub method: Method,
    /// A name for people; made from task and method when absent.
    #[serde(default)]
    pub name: Option<String>,
    /// When to stop.
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
    /// Where a winner goes; the service's own repository when absent.
    #[serde(default)]
    pub promotion: Option<PromotionTarget>,
    /// Which configured models write candidates, for the methods that ask some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelChoice>,
    /// How they are asked.
    #[serde(default)]
    pub evolution: Evolution,
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
        }
    }
}

/// A git repository that winners are committed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromotionTarget {
    /// Path of the repository on the service's machine, bare or not.
    pub repository: String,
    /// The branch a new promotion branch starts from; an empty history when absent.
    #[serde(default)]
    pub base: Option<String>,
    /// Where the winner's file goes in the tree; `kernels/<task>.cu` when absent.
    #[serde(default)]
    pub path: Option<String>,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunState {
    /// Accepted, nothing done yet.
    Created,
    /// The baseline is being evaluated.
    CheckingBaseline,
    /// Candidates are proposed and evaluated.
    Running,
    /// Nothing happens until someone resumes it.
    Paused {
        /// Why.
        reason: String,
    },
    /// Ended as planned.
    Completed {
        /// Why it ended.
        reason: StopReason,
    },
    /// Ended because it could not go on.
    Failed {
        /// Why.
        reason: String,
    },
    /// Ended by request.
    Cancelled,
}

impl RunState {
    /// Whether the run has ended.
    pub fn is_over(&self) -> bool {
        matches!(
            self,
            Self::Completed { .. } | Self::Failed { .. } | Self::Cancelled
        )
    }

    /// The state's name without its reason.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::CheckingBaseline => "checking_baseline",
            Self::Running => "running",
            Self::Paused { .. } => "paused",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
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

/// A run as lists and its page show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    /// Identity.
    pub id: RunId,
    /// Name for people.
    pub name: String,
    /// The task's name.
    pub task: String,
    /// The task's version.
    pub task_version: Digest,
    /// How candidates come about.
    pub method: Method,
    /// Where it stands.
    pub state: RunState,
    /// When to stop.
    pub budget: Budget,
    /// Trials charged.
    pub trials: u32,
    /// Which models write its candidates.
    pub models: Vec<ModelChoice>,
    /// How they are asked.
    pub evolution: Evolution,
    /// What models and devices have used.
    pub spend: Spend,
    /// Milliseconds it has been running, pauses not counted; kept every few seconds.
    pub running_ms: u64,
    /// Candidates by verdict.
    pub verdicts: BTreeMap<VerdictKind, u32>,
    /// Candidates proposed and not yet judged.
    pub pending: u32,
    /// The best accepted candidate.
    pub best: Option<Best>,
    /// The promotion of its champion, once there is one.
    pub promotion: Option<PromotionView>,
    /// Seed of the search.
    pub seed: u64,
    /// When it was asked for.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
}

/// The best accepted candidate of a run so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Best {
    /// The candidate.
    pub candidate: CandidateId,
    /// Its title.
    pub title: String,
    /// Baseline's time over its time, geometric mean over the score cases.
    pub speedup: f64,
    /// Its time, geometric mean over the score cases, microseconds.
    pub time_us: f64,
    /// Whether that time is modelled.
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

/// Where a candidate stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CandidateState {
    /// A model is asked to write it.
    Drafting {
        /// The configured model.
        model: String,
        /// Why it was not answered the last time, if it was asked before.
        trouble: Option<String>,
    },
    /// Waits for a worker.
    Queued,
    /// A worker evaluates it.
    Evaluating {
        /// What the worker is doing.
        stage: String,
        /// Which worker.
        worker: WorkerId,
    },
    /// It has a verdict.
    Evaluated,
    /// The same code was evaluated before; that verdict is its verdict.
    Duplicate {
        /// Of which candidate.
        of: CandidateId,
    },
    /// The infrastructure failed too often to say anything about it.
    Abandoned {
        /// What went wrong last.
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
    /// Parents; the first is the primary one.
    pub parents: Vec<CandidateId>,
    /// How it came about.
    pub operator: Operator,
    /// Who proposed it: "playbook", "sweep", or the name an outside proposer gave.
    pub proposer: String,
    /// A few words.
    pub title: String,
    /// Values of its tunables.
    pub configuration: BTreeMap<String, i64>,
    /// Where it stands.
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
    /// Whether that time is modelled.
    pub modelled: bool,
    /// Phase gates that it does not meet.
    pub unmet_gates: Vec<GateSubject>,
    /// Whether it is the run's best.
    pub best: bool,
    /// When it was proposed.
    pub created_at: DateTime<Utc>,
    /// When its verdict came.
    pub judged_at: Option<DateTime<Utc>>,
}

/// One page of candidates by ordinal.
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
    /// What lists show.
    #[serde(flatten)]
    pub summary: CandidateSummary,
    /// What its file is called.
    pub file: String,
    /// The text.
    pub source: String,
    /// What its author hoped for.
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
    /// What models were asked for it and what they answered, in order.
    pub calls: Vec<CallView>,
}

/// One call of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallView {
    /// Position in the conversation, from 0.
    pub turn: u32,
    /// The configured model.
    pub model: String,
    /// The template of what was said.
    pub template: String,
    /// Version of the template with everything it includes.
    pub template_digest: Digest,
    /// What was said, word for word.
    pub prompt: Prompt,
    /// What was left out for lack of room.
    pub dropped: Vec<String>,
    /// What the prompt showed.
    pub seen: Seen,
    /// How often it failed without an answer.
    pub failures: u32,
    /// Why it failed the last time.
    pub trouble: Option<String>,
    /// The answer, once there is one.
    pub reply: Option<ReplyView>,
    /// When it was planned.
    pub created_at: DateTime<Utc>,
}

/// What a prompt showed, besides the task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Seen {
    /// The best candidate at that time.
    pub best: Option<CandidateId>,
    /// Candidates shown as parents.
    pub parents: Vec<CandidateId>,
    /// Candidates whose thoughts were shown with their outcomes.
    pub insights: Vec<CandidateId>,
    /// Candidates named as repetitions.
    pub duplicates: Vec<CandidateId>,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplyView {
    /// Word for word.
    pub text: String,
    /// Whether the model ended by itself rather than at its token limit.
    pub complete: bool,
    /// Why it holds no candidate, if it holds none.
    pub unusable: Option<String>,
    /// What reading it took for granted.
    pub notes: Vec<String>,
    /// What it used.
    pub usage: Usage,
    /// Whether that is an estimate, because the server did not say.
    pub usage_estimated: bool,
    /// What it cost; none without a known price.
    pub cost: Option<Dollars>,
    /// What the server calls the model that answered.
    pub answered_by: String,
    /// Until the first token, milliseconds, if it was streamed.
    pub first_token_ms: Option<f64>,
    /// Until the end, milliseconds.
    pub total_ms: f64,
    /// Requests it took, refused ones counted.
    pub attempts: u32,
    /// When it came.
    pub at: DateTime<Utc>,
}

/// What the first model call of a run would say and what the run would cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunPreview {
    /// The model that would be asked first.
    pub model: String,
    /// The first prompt, word for word.
    pub prompt: Prompt,
    /// Its template.
    pub template: String,
    /// What was left out for lack of room.
    pub dropped: Vec<String>,
    /// What the prompt cannot show yet, because the baseline was never evaluated here; empty if
    /// the prompt is exact.
    pub unknown: Vec<String>,
    /// Tokens of the first prompt, an upper estimate.
    pub prompt_tokens: u64,
    /// Replies asked for if nothing else ends the run first, repairs counted. Second turns after
    /// replies that cannot be read come on top.
    pub calls: u64,
    /// What they would cost if each prompt were as long as this one and each reply as long as the
    /// model allows; none if a price is unknown.
    pub most_dollars: Option<Dollars>,
}

/// One line of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffLine {
    /// Whether the line was kept, added or removed.
    pub change: Change,
    /// Line number in the parent, from 1.
    pub old: Option<u32>,
    /// Line number in the candidate, from 1.
    pub new: Option<u32>,
    /// The line without its end.
    pub text: String,
}

/// What happened to a line.
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

/// The lineage graph of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lineage {
    /// Candidates by ordinal; edges are their `parents`.
    pub nodes: Vec<CandidateSummary>,
    /// Whether the run has more candidates than are shown.
    pub truncated: bool,
}

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

/// A kernel from an outside proposer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The whole file.
    pub source: String,
    /// What the file is called in messages.
    #[serde(default)]
    pub file: Option<String>,
    /// The candidate it was made from; the run's best when absent.
    #[serde(default)]
    pub parent: Option<CandidateId>,
    /// Who proposes it.
    #[serde(default)]
    pub proposer: Option<String>,
    /// Why it should be faster; overrides the file's own idea.
    #[serde(default)]
    pub hypothesis: Option<String>,
}

/// A promotion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromotionView {
    /// Identity.
    pub id: PromotionId,
    /// The champion.
    pub candidate: CandidateId,
    /// The repository.
    pub repository: String,
    /// The branch.
    pub branch: String,
    /// Where it stands.
    pub state: PromotionState,
}

/// Where a promotion stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum PromotionState {
    /// The champion is being confirmed.
    Confirming,
    /// Committed.
    Committed {
        /// The commit.
        commit: String,
    },
    /// Taken back by a further commit.
    Reverted {
        /// The commit that takes it back.
        commit: String,
        /// Why.
        reason: String,
    },
    /// The confirmation failed; nothing was committed.
    Refused {
        /// Why.
        reason: String,
    },
    /// The repository refused; someone must fix it and resume.
    Blocked {
        /// What is wrong and how to fix it.
        reason: String,
    },
}

/// A task as the list shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskView {
    /// Name.
    pub name: String,
    /// A few words.
    pub title: String,
    /// Version of the definition of the right answer.
    pub version: Digest,
    /// Names of its cases.
    pub cases: Vec<String>,
    /// Playbook files in order.
    pub playbook: Vec<String>,
    /// When this version was stored.
    pub created_at: DateTime<Utc>,
}

/// A worker as the fleet page shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerView {
    /// Identity.
    pub id: WorkerId,
    /// Name for people.
    pub name: String,
    /// Its device.
    pub device: Device,
    /// Its compiler.
    pub toolchain: String,
    /// Whether it was heard of within a lease's time.
    pub alive: bool,
    /// When it was last heard of.
    pub seen_at: DateTime<Utc>,
    /// The candidate it evaluates.
    pub evaluating: Option<CandidateId>,
}

/// Something that happened in a run. `GET /api/v1/runs/{id}/events` streams these; `id` is the
/// SSE id to resume from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Position in the service's event log, from 1.
    pub id: i64,
    /// The run.
    pub run: RunId,
    /// When.
    pub at: DateTime<Utc>,
    /// What.
    pub what: EventKind,
}

/// What happened.
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
        /// What it cost, if the price is known.
        cost: Option<Dollars>,
        /// Why the reply holds no candidate, if it holds none.
        unusable: Option<String>,
    },
    /// A model did not answer; it will be asked again.
    Unanswered {
        /// The candidate it is to write.
        candidate: CandidateId,
        /// The configured model.
        model: String,
        /// Why.
        reason: String,
    },
    /// Nothing will come of a candidate.
    Abandoned {
        /// The candidate.
        candidate: CandidateId,
        /// Why.
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
        /// In one sentence.
        summary: String,
        /// Speedup over the baseline, if accepted.
        speedup: Option<f64>,
        /// Whether it is the best so far.
        best: bool,
    },
    /// A job went back to the queue.
    Requeued {
        /// The candidate.
        candidate: CandidateId,
        /// Why.
        reason: String,
    },
    /// A promotion moved on.
    Promotion {
        /// As it stands now.
        promotion: PromotionView,
    },
}

/// Whether the service works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// The program's version.
    pub version: String,
    /// Workers heard of within a lease's time.
    pub workers: u32,
    /// Jobs waiting for one.
    pub queued: u32,
}

/// An error as RFC 9457 describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemDocument {
    /// A stable code as a URI reference, such as "/problems/unknown-run".
    pub r#type: String,
    /// The code in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened this time, and how to fix it.
    pub detail: String,
    /// Where the input is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}
