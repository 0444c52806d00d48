//! Views of the fleet: workers with their state, their job and their throughput.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::WorkerView;
use crate::health::Condition;
use crate::id::{CandidateId, RunId};
use crate::measurement::ConditionCoverage;
use crate::model::Dollars;

/// The state of a worker, the first of these that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// It sent nothing within a lease's duration.
    Lost,
    /// Its device is quarantined: it gets no job.
    Unwell,
    /// Its last jobs all ended in faults: it gets no job for a while.
    Suspended,
    /// It takes no further job and is to leave.
    Draining,
    /// It evaluates a candidate.
    Busy,
    /// It waits for a job.
    Idle,
}

impl WorkerState {
    /// The state of a worker whose device was last reported in this condition.
    pub fn of(worker: &WorkerView, condition: Option<&Condition>) -> Self {
        match worker {
            worker if !worker.alive => Self::Lost,
            _ if matches!(condition, Some(Condition::Quarantined { .. })) => Self::Unwell,
            worker if worker.suspended_until.is_some() => Self::Suspended,
            worker if worker.draining => Self::Draining,
            worker if worker.evaluating.is_some() => Self::Busy,
            _ => Self::Idle,
        }
    }
}

/// The job that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetJob {
    /// The run.
    pub run: RunId,
    /// Its name.
    pub run_name: String,
    /// The candidate.
    pub candidate: CandidateId,
    /// Its position in the run.
    pub ordinal: u32,
    /// A few words about it.
    pub title: String,
    /// The stage that the worker told last, such as "verify"; empty before the first.
    pub progress: String,
    /// The end of the lease, unless the worker renews it.
    pub deadline: DateTime<Utc>,
}

/// One worker with everything that the fleet page shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FleetWorker {
    /// The worker as the list of workers has it.
    #[serde(flatten)]
    pub worker: WorkerView,
    /// Its state.
    pub state: WorkerState,
    /// The version of the evaluation protocol that it speaks. One that differs from the service's gets
    /// no job.
    pub evaluator: u32,
    /// The time at which it registered.
    pub registered_at: DateTime<Utc>,
    /// The job that it holds.
    pub job: Option<FleetJob>,
    /// Evaluations that it reported in the last hour.
    pub evaluations_last_hour: u32,
    /// Faults that it reported since its last verdict.
    pub faults_in_a_row: u32,
    /// The condition of its device, as it was last reported; none before the first health check.
    pub condition: Option<Condition>,
    /// The time of that report.
    pub checked_at: Option<DateTime<Utc>>,
    /// Clock, temperature and reasons for a lower clock during the last evaluation that timed kernels on the
    /// device; none of an emulated device.
    pub watched: Option<ConditionCoverage>,
    /// The time of that evaluation's report.
    pub watched_at: Option<DateTime<Utc>>,
    /// The price of an hour of its machine, US dollars; none where the operator told none.
    pub dollars_per_hour: Option<Dollars>,
}

/// The hours of one worker's device in one month.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeviceMonth {
    /// The month of UTC, such as "2026-11".
    pub month: String,
    /// The worker's name.
    pub worker: String,
    /// The device's identity.
    pub uuid: String,
    /// The device's name.
    pub device: String,
    /// Hours for which the worker was attached: the times between two requests that are less than a minute
    /// apart.
    pub attached_hours: f64,
    /// Hours that the device spent on candidates, compilation not counted.
    pub evaluating_hours: f64,
    /// The price of the attached hours, as far as the worker told the price of one.
    pub dollars: Dollars,
}

/// The workers seen in the last hour, and the jobs that wait for one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Fleet {
    /// The version of the evaluation protocol that the service speaks.
    pub evaluator: u32,
    /// Jobs that wait for a worker.
    pub queued: u32,
    /// The time since which the oldest of them waits.
    pub oldest_queued_at: Option<DateTime<Utc>>,
    /// The workers, the latest seen first; at most 200.
    pub workers: Vec<FleetWorker>,
}
