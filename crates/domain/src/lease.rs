//! The one path between the service and its workers: register, lease, renew, report.

mod validate;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::admission::Admission;
use crate::device::Device;
use crate::evaluation::{Evaluation, EvaluationRequest};
use crate::id::{CandidateId, JobId, RunId, WorkerId};
use crate::model::Dollars;

pub use validate::{MAX_ITEMS, MAX_NAME_BYTES, MAX_TEXT_BYTES};

/// The duration of a lease without renewal, seconds.
pub const LEASE_SECONDS: u32 = 15;
/// The interval between a worker's renewals, seconds: a third of the lease.
pub const HEARTBEAT_SECONDS: u32 = 5;

/// A worker introduces itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Registration {
    /// A name for people, the host's by default.
    pub name: String,
    /// The device it evaluates on.
    pub device: Device,
    /// Its compiler with version.
    pub toolchain: String,
    /// Version of the evaluation protocol it speaks.
    pub evaluator: u32,
    /// Identity of the worker's installation, the same after a restart. It tells a restarted worker
    /// from a second one with the same name and device. Absent in workers of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The price of an hour of its machine, US dollars; absent where the operator told none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dollars_per_hour: Option<Dollars>,
    /// The work that this machine cannot do. Absent in workers of older releases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declined: Vec<DeclinedWork>,
}

/// A kind of work that a worker's machine cannot do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeclinedWork {
    /// The work, as the rest of a sentence that begins with "does not".
    pub work: String,
    /// The missing part of the machine, and the way to get it.
    pub reason: String,
}

/// The service's answer to a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registered {
    /// The worker's identity from now on.
    pub worker: WorkerId,
}

/// One evaluation, lent to one worker for a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lease {
    /// The job.
    pub job: JobId,
    /// Fences reports: only the current attempt's report counts.
    pub attempt: i64,
    /// The run it belongs to.
    pub run: RunId,
    /// The candidate it evaluates.
    pub candidate: CandidateId,
    /// The evaluation to make.
    pub request: EvaluationRequest,
    /// W3C trace context: the run is the trace, the job the span.
    pub traceparent: Option<String>,
}

/// Extends a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Renewal {
    /// The attempt the worker holds.
    pub attempt: i64,
    /// The worker's present activity, such as "compile".
    pub stage: String,
}

/// Ends a lease.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Report {
    /// The attempt the worker held.
    pub attempt: i64,
    /// The outcome.
    pub outcome: ReportOutcome,
    /// The admission of the task, which the worker decides before the first evaluation of a run, the
    /// baseline's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Box<Admission>>,
}

/// The outcome of a lease.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ReportOutcome {
    /// A verdict.
    Evaluated {
        /// The evaluation with its evidence.
        evaluation: Box<Evaluation>,
    },
    /// Trouble that is not the candidate's; the job returns to the queue within its budget.
    Faulted {
        /// The error.
        message: String,
    },
    /// This worker's machine lacks what the task needs. Another worker gets the job, and the candidate is charged
    /// with a fault only if no other is alive.
    Declined {
        /// The missing part of the machine, and the way to get it.
        message: String,
    },
    /// The request cannot be evaluated by any worker, because its task was refused admission. The job
    /// is not repeated.
    Refused {
        /// The rules that the task breaks.
        message: String,
    },
    /// The worker stops; the job returns to the queue at no charge.
    HandedBack,
}

/// The files of an evidence bundle that the service still lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EvidenceReceipt {
    /// Names of files to send; none once the bundle is complete.
    pub missing: Vec<String>,
}

/// The service's answer to a renewal or report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Receipt {
    /// The message counted.
    Accepted,
    /// Another attempt holds or held the job; nothing changed.
    Superseded,
}
