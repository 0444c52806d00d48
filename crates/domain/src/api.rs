//! The HTTP API's values: what clients send and what they get. Times are UTC; every list is
//! bounded.

mod brief;
mod candidate;
mod compare;
mod estimate;
mod event;
mod failures;
mod fleet;
mod lineage;
mod promotion;
mod run;
mod steering;
mod task;
mod webhook;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::control::ControlTally;
use crate::device::{Device, DeviceKind};
use crate::digest::Digest;
use crate::evaluation::EvaluationStage;
use crate::health::Condition;
use crate::id::{CandidateId, PromotionId, WorkerId};
use crate::lease::DeclinedWork;
use crate::problem::Problem;
use crate::verdict::VerdictKind;

pub use self::brief::{Brief, HistoryEntry};
pub use self::candidate::{
    CallView, CandidateDetail, CandidateOrder, CandidatePage, CandidateState, CandidateSummary,
    Change, DiffLine, ReplyView, ShownCandidates, Submission,
};
pub use self::compare::{
    CandidateComparison, CandidatesCost, ComparedCandidate, ComparedEvaluations, ComparedKernel,
    ComparedLaunch, ComparedRun, ComparedTime, CurvePoint, OccupiedLaunch, RunComparison,
    TimeValue,
};
pub use self::estimate::{Estimated, RunEstimate};
pub use self::event::{Event, EventKind};
pub use self::failures::{
    FailureCluster, FailureMember, FailureMembers, FailurePage, Share, TrendSpans,
};
pub use self::fleet::{DeviceMonth, Fleet, FleetJob, FleetWorker, WorkerState};
pub use self::lineage::{Curve, Lineage, LineageColumns, LineageGenerations};
pub use self::promotion::{PromotionEntry, PromotionPage, PromotionStateName};
pub use self::run::{
    BestCandidate, PromotionTarget, RunPage, RunPreview, RunRequest, RunState, RunStateName,
    RunView, TagsRequest,
};
pub use self::steering::{
    BanRequest, BudgetRequest, CandidateRequest, ForkOrigin, ForkRequest, HintRequest,
    InsightRequest, ModelRequest, Steer, SteeringEntry, WithdrawRequest,
};
pub use self::task::{
    Dim, GateView, Leaderboard, LeaderboardEntry, LeaderboardPage, PhaseView, ScalarView, StepView,
    TaskAdmission, TaskDefinition, TaskFile, TaskVersion, TensorView,
};
pub use self::webhook::{UnwellDevice, WebhookBody, WebhookData, WebhookDelivery, WebhookKind};

/// A promotion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PromotionView {
    /// Identity.
    pub id: PromotionId,
    /// The champion.
    pub candidate: CandidateId,
    /// The repository.
    pub repository: String,
    /// The branch.
    pub branch: String,
    /// The state of the promotion.
    pub state: PromotionState,
    /// The reason why the confirmation waits, and what ends that; none if it does not wait.
    #[serde(default)]
    pub waits: Option<String>,
    /// The latest check of the champion on each device, the newest first.
    #[serde(default)]
    pub checks: Vec<ChampionCheck>,
}

/// The result of a champion's confirmation, or of a later re-check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChampionCheck {
    /// The time at which the verdict arrived.
    pub at: DateTime<Utc>,
    /// Name of the device.
    pub device: String,
    /// Its identity, such as `GPU-2f1b...`.
    pub device_uuid: String,
    /// The stage of the evaluation.
    pub stage: EvaluationStage,
    /// The verdict.
    pub verdict: VerdictKind,
    /// Baseline's time over the champion's, if it was accepted.
    pub speedup: Option<f64>,
    /// True if the times are modelled.
    pub modelled: bool,
}

/// The state of a promotion.
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
    /// Reverted by a further commit.
    Reverted {
        /// The commit that takes it back.
        commit: String,
        /// The reason.
        reason: String,
    },
    /// The confirmation failed; nothing was committed.
    Refused {
        /// The reason.
        reason: String,
    },
    /// The repository refused; someone must fix it and resume.
    Blocked {
        /// The defect and its remedy.
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
    /// The operator family, whose tasks share lessons.
    #[serde(default)]
    pub family: Option<String>,
    /// Version of the definition of the right answer.
    pub version: Digest,
    /// Names of its cases.
    pub cases: Vec<String>,
    /// Playbook files in order.
    pub playbook: Vec<String>,
    /// The time at which this version was stored.
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
    /// True if the worker sent something within a lease's duration.
    pub alive: bool,
    /// The time of the worker's last request.
    pub seen_at: DateTime<Utc>,
    /// The candidate it evaluates.
    pub evaluating: Option<CandidateId>,
    /// True if it takes no further job and is to leave.
    #[serde(default)]
    pub draining: bool,
    /// Until when it gets no job, because the last ones that it took all ended in faults.
    #[serde(default)]
    pub suspended_until: Option<DateTime<Utc>>,
    /// The work that its machine cannot do.
    #[serde(default)]
    pub declined: Vec<DeclinedWork>,
}

/// The health of the fleet's devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FleetHealth {
    /// Every device that a worker has registered.
    pub devices: Vec<DeviceView>,
    /// Quarantined candidates, which are not evaluated again.
    pub poison: Vec<PoisonView>,
}

/// A device in the words of the worker that uses it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeviceView {
    /// The worker's name.
    pub worker: String,
    /// The device's identity.
    pub uuid: String,
    /// The device's name.
    pub name: String,
    /// Silicon or emulation: modelled times have no noise, and nothing controls them.
    pub kind: DeviceKind,
    /// The device's condition, with the reason if it takes no work.
    pub condition: Condition,
    /// Since when.
    pub since: DateTime<Utc>,
    /// The time at which the worker last reported it.
    pub told_at: DateTime<Utc>,
    /// The number of controls in which comparisons on this device called the incumbent faster than
    /// itself, under this version of the protocol.
    #[serde(default)]
    pub controls: ControlTally,
}

/// A candidate that no device may meet again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoisonView {
    /// Digest of its text and of the values it was given.
    pub candidate: Digest,
    /// Devices that were unwell after they ran it.
    pub broke: u32,
}

/// The health of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// The program's version.
    pub version: String,
    /// Workers with a request within a lease's time.
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
    /// This occurrence of the error, and its remedy.
    pub detail: String,
    /// The defects of the input, each with its position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}
