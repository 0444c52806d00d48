//! The HTTP API's values: what clients send and what they get. Times are UTC; every list is
//! bounded.

mod brief;
mod candidate;
mod event;
mod run;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::control::ControlTally;
use crate::device::{Device, DeviceKind};
use crate::digest::Digest;
use crate::evaluation::EvaluationStage;
use crate::health::Condition;
use crate::id::{CandidateId, PromotionId, WorkerId};
use crate::problem::Problem;
use crate::verdict::VerdictKind;

pub use self::brief::{Brief, HistoryEntry};
pub use self::candidate::{
    CallView, CandidateDetail, CandidatePage, CandidateState, CandidateSummary, Change, DiffLine,
    ReplyView, Seen, Submission,
};
pub use self::event::{Event, EventKind};
pub use self::run::{
    Best, Lineage, PromotionTarget, RunPage, RunPreview, RunRequest, RunState, RunView,
};

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
    /// Where it stands.
    pub state: PromotionState,
    /// What each device said of the champion last, the newest first.
    #[serde(default)]
    pub checks: Vec<ChampionCheck>,
}

/// What came of confirming a champion, or of asking it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChampionCheck {
    /// When the verdict arrived.
    pub at: DateTime<Utc>,
    /// Name of the device.
    pub device: String,
    /// Its identity, such as `GPU-2f1b...`.
    pub device_uuid: String,
    /// How much was asked.
    pub stage: EvaluationStage,
    /// The verdict.
    pub verdict: VerdictKind,
    /// Baseline's time over the champion's, if it was accepted.
    pub speedup: Option<f64>,
    /// Whether the times are modelled.
    pub modelled: bool,
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

/// How the fleet's devices fare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FleetHealth {
    /// Every device that a worker has told of.
    pub devices: Vec<DeviceView>,
    /// Candidates that are lent to nobody any more.
    pub poison: Vec<PoisonView>,
}

/// A device in the words of the worker that uses it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeviceView {
    /// The worker's name.
    pub worker: String,
    /// The device's identity.
    pub uuid: String,
    /// What it is.
    pub name: String,
    /// Silicon or emulation: modelled times have no noise, and nothing controls them.
    pub kind: DeviceKind,
    /// Whether it takes work, with the reason if not.
    pub condition: Condition,
    /// Since when.
    pub since: DateTime<Utc>,
    /// When the worker last said so.
    pub told_at: DateTime<Utc>,
    /// How often its comparisons called the incumbent faster than itself, under this version of the
    /// protocol.
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
