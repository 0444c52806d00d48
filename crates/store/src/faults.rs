//! Leases that end without a verdict. The job returns to the queue with a growing delay. After too
//! many faults or lost workers it is parked, because a person must find the cause.

use crate::sql::{Flag, query, query_as, query_scalar};
use chrono::{DateTime, TimeDelta, Utc};
use domain::api::EventKind;
use domain::evaluation::EvaluationStage;
use domain::id::{CandidateId, JobId, RunId, WorkerId};
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::{RowRef, micros};
use crate::workers::ALIVE;
use crate::{Connection, Store, StoreError, events, workers};

/// Reported faults of one job after which it is given up.
pub const MAX_FAULTS: u32 = 3;
/// Lost leases of one job after which it is given up. Many more than the faults: a machine
/// that is switched off says nothing about what it worked on.
pub const MAX_LOSSES: u32 = 12;
/// Workers of different names that were lost over one job, after which it is given up: it may be the job that stops
/// machines, and the fleet is not to lose another one.
pub const MAX_LOST_WORKERS: u32 = 4;
/// The longest wait before a job is lent again.
const MAX_BACK_OFF: TimeDelta = TimeDelta::seconds(60);

/// The way in which a lease ended without a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeaseEnd {
    /// The worker reported a fault, or a report that cannot be accepted.
    Fault {
        worker: Option<WorkerId>,
        reason: String,
    },
    /// The worker's machine lacks what the task needs.
    Declined { worker: WorkerId, reason: String },
    /// The worker did not renew the lease in time.
    Loss(String),
    /// The worker stopped and returned the job.
    HandBack,
}

/// A leased job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldLease {
    pub(crate) job: JobId,
    pub(crate) run: RunId,
    pub(crate) candidate: CandidateId,
    pub(crate) stage: EvaluationStage,
}

impl Store {
    /// Takes back every lease whose deadline has passed. Returns how many.
    ///
    /// # Errors
    /// The database fails.
    pub async fn expire_leases(&self, now: DateTime<Utc>) -> Result<usize, StoreError> {
        let late = "SELECT id, run, candidate, stage FROM jobs \
                    WHERE state = 'leased' AND deadline < $1 ORDER BY id";
        // Most of the time there is nothing to take back, and readers do not queue.
        let any: Vec<(Uuid, Uuid, Uuid, String)> = query_as(late)
            .bind(micros(now))
            .fetch_all(&self.read)
            .await
            .context("look for late leases")?;
        if any.is_empty() {
            return Ok(0);
        }
        let mut tx = self.begin().await?;
        let rows: Vec<(Uuid, Uuid, Uuid, String)> = query_as(late)
            .bind(micros(now))
            .fetch_all(&mut *tx)
            .await
            .context("look for late leases")?;
        for row in &rows {
            let held = held(row)?;
            let loss = LeaseEnd::Loss("its worker did not renew the lease in time".to_owned());
            give_back(&mut tx, &held, loss, now).await?;
        }
        self.commit(tx).await?;
        Ok(rows.len())
    }
}

pub(crate) fn held(row: &(Uuid, Uuid, Uuid, String)) -> Result<HeldLease, StoreError> {
    let job = JobId::from(row.0);
    Ok(HeldLease {
        job,
        run: RunId::from(row.1),
        candidate: CandidateId::from(row.2),
        stage: RowRef::new("jobs", job).word("stage", &row.3)?,
    })
}

/// Ends a lease without a verdict: back to the queue, or parked for good.
pub(crate) async fn give_back(
    tx: &mut Connection,
    held: &HeldLease,
    end: LeaseEnd,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let (faults, losses, reason) = match end {
        LeaseEnd::Fault { worker, reason } => {
            if let Some(worker) = worker {
                exclude_worker(tx, held.job, worker).await?;
                workers::count_fault(tx, worker, now).await?;
            }
            (1, 0, reason)
        }
        LeaseEnd::Declined { worker, reason } => {
            exclude_worker(tx, held.job, worker).await?;
            let others_can = can_another_take(tx, held, worker, now).await?;
            (i32::from(!others_can), 0, reason)
        }
        LeaseEnd::Loss(reason) => {
            record_loss(tx, held.job).await?;
            (0, 1, reason)
        }
        LeaseEnd::HandBack => (0, 0, "its worker was stopped".to_owned()),
    };
    let (faults, losses): (i64, i64) = query_as(
        "UPDATE jobs SET state = 'queued', worker = NULL, deadline = NULL, progress = '', \
         faults = faults + $2, losses = losses + $3, not_before = $4, last_error = $5 \
         WHERE id = $1 RETURNING faults, losses",
    )
    .bind(held.job.uuid())
    .bind(i64::from(faults))
    .bind(i64::from(losses))
    .bind(micros(now))
    .bind(&reason)
    .fetch_one(&mut *tx)
    .await
    .context("return a job to the queue")?;
    let given_up = faults >= i64::from(MAX_FAULTS)
        || losses >= i64::from(MAX_LOSSES)
        || lost_workers(tx, held.job).await? >= i64::from(MAX_LOST_WORKERS);
    if given_up {
        park(tx, held, &reason).await?;
    } else {
        query("UPDATE jobs SET not_before = $2 WHERE id = $1")
            .bind(held.job.uuid())
            .bind(micros(now + back_off(faults, losses)))
            .execute(&mut *tx)
            .await
            .context("delay a job")?;
    }
    let reason = if given_up {
        format!("given up: {reason}")
    } else {
        reason
    };
    let requeued = EventKind::Requeued {
        candidate: held.candidate,
        reason,
    };
    events::record(tx, held.run, &requeued, now);
    Ok(())
}

/// Remembers that a worker could not evaluate a job, so that another worker gets it next.
async fn exclude_worker(
    tx: &mut Connection,
    job: JobId,
    worker: WorkerId,
) -> Result<(), StoreError> {
    query("INSERT INTO job_faults (job, worker) VALUES ($1, $2) ON CONFLICT DO NOTHING")
        .bind(job.uuid())
        .bind(worker.uuid())
        .execute(tx)
        .await
        .map(drop)
        .context("record which worker could not evaluate a job")
}

/// Remembers that the job's worker was lost over it.
async fn record_loss(tx: &mut Connection, job: JobId) -> Result<(), StoreError> {
    query(
        "INSERT INTO job_faults (job, worker, lost) SELECT id, worker, 1 FROM jobs \
         WHERE id = $1 AND worker IS NOT NULL ON CONFLICT (job, worker) DO UPDATE SET lost = 1",
    )
    .bind(job.uuid())
    .execute(tx)
    .await
    .map(drop)
    .context("record which worker was lost")
}

/// Counts the workers that were lost over a job. One that was started again has its old name, and counts once.
async fn lost_workers(tx: &mut Connection, job: JobId) -> Result<i64, StoreError> {
    query_scalar(
        "SELECT COUNT(DISTINCT w.name) FROM job_faults f JOIN workers w ON w.id = f.worker \
         WHERE f.job = $1 AND f.lost = 1",
    )
    .bind(job.uuid())
    .fetch_one(tx)
    .await
    .context("count the workers that were lost")
}

/// Returns true if a worker is alive that has not been excluded from the job and has the device of its run.
async fn can_another_take(
    tx: &mut Connection,
    held: &HeldLease,
    worker: WorkerId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let can: Flag = query_scalar(concat!(
        "SELECT EXISTS (SELECT 1 FROM runs r JOIN workers w ON w.id <> $3 WHERE r.id = $2 AND ",
        another_can_take!("$1", "$4", "$5"),
        ")"
    ))
    .bind(held.job.uuid())
    .bind(held.run.uuid())
    .bind(worker.uuid())
    .bind(micros(now - ALIVE))
    .bind(micros(now))
    .fetch_one(tx)
    .await
    .context("look for another worker")?;
    Ok(can.into())
}

/// Takes a job back for good before anybody has worked on it.
pub(crate) async fn refuse(
    tx: &mut Connection,
    held: &HeldLease,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    query(
        "UPDATE jobs SET state = 'parked', worker = NULL, deadline = NULL, progress = '', \
         last_error = $2 WHERE id = $1",
    )
    .bind(held.job.uuid())
    .bind(reason)
    .execute(&mut *tx)
    .await
    .context("take back a job")?;
    park(tx, held, reason).await?;
    let given_up = EventKind::Requeued {
        candidate: held.candidate,
        reason: format!("given up: {reason}"),
    };
    events::record(tx, held.run, &given_up, now);
    Ok(())
}

async fn park(tx: &mut Connection, held: &HeldLease, reason: &str) -> Result<(), StoreError> {
    query("UPDATE jobs SET state = 'parked' WHERE id = $1")
        .bind(held.job.uuid())
        .execute(&mut *tx)
        .await
        .context("park a job")?;
    if !held.stage.decides_promotion() {
        query("UPDATE candidates SET state = 'abandoned', state_detail = $2 WHERE id = $1")
            .bind(held.candidate.uuid())
            .bind(reason)
            .execute(tx)
            .await
            .context("abandon a candidate")?;
    }
    Ok(())
}

/// The delay before a job is lent again. No delay after a hand-back; 1, 3, 7 and so on seconds after
/// faults, because the next worker may meet the same fault; one second more for each lost worker,
/// because a loss says little about the next worker.
fn back_off(faults: i64, losses: i64) -> TimeDelta {
    let doublings = u32::try_from(faults).unwrap_or(0).min(16);
    TimeDelta::seconds((1_i64 << doublings) - 1 + losses).min(MAX_BACK_OFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_and_is_bounded() {
        let waits = [(0, 0), (1, 0), (2, 0), (3, 2), (30, 0), (0, 1), (0, 5)]
            .map(|(faults, losses)| back_off(faults, losses).num_seconds());
        assert_eq!(waits, [0, 1, 3, 9, 60, 1, 5]);
    }
}
