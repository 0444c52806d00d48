//! Workers that wait for jobs at this service, and the jobs that are there for them.
//!
//! A worker that waits is seen as long as its service lives, without a write for each of its requests. The service
//! records that it began to wait and that it left.

use chrono::{DateTime, TimeDelta, Utc};
use domain::id::WorkerId;
use uuid::Uuid;

use crate::changes::CommitScope;
use crate::error::ErrorContext;
use crate::rows::{RowRef, micros};
use crate::sql::{Flag, query, query_as, query_scalar};
use crate::{Store, StoreError, workers};

/// The interval at which the time of workers that wait is to be counted. At most so much of a worker's attached time is
/// lost when its service is killed.
pub const COUNT_INTERVAL: TimeDelta = TimeDelta::minutes(10);

/// Jobs that wait for a worker of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingJobs {
    /// The name of the device that the jobs need; none if any will do.
    pub device: Option<String>,
    /// Their number.
    pub count: usize,
}

impl Store {
    /// Records workers that wait at this service, and workers that left it with the times at which they did. The time
    /// since each was last recorded counts as attached.
    ///
    /// # Errors
    /// The database fails.
    pub async fn record_waiting(
        &self,
        waiting: &[WorkerId],
        left: &[(WorkerId, DateTime<Utc>)],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for worker in waiting {
            workers::record_request(&mut tx, *worker, now);
            query("UPDATE workers SET waiting_at = $2 WHERE id = $1")
                .bind(worker.uuid())
                .bind(self.replica)
                .defer(&mut tx);
        }
        for (worker, at) in left {
            // A worker that has another service now, or a job, was seen later.
            let waits_here: Flag = query_scalar(
                "SELECT EXISTS (SELECT 1 FROM workers WHERE id = $1 AND waiting_at = $2 AND seen_at <= $3)",
            )
            .bind(worker.uuid())
            .bind(self.replica)
            .bind(micros(*at))
            .fetch_one(&mut *tx)
            .await
            .context("find a worker that left")?;
            if bool::from(waits_here) {
                workers::record_request(&mut tx, *worker, *at);
            }
            query("UPDATE workers SET waiting_at = NULL WHERE id = $1 AND waiting_at = $2")
                .bind(worker.uuid())
                .bind(self.replica)
                .defer(&mut tx);
        }
        self.commit_change(tx, CommitScope::Nothing).await
    }

    /// Forgets which workers waited, because the service that starts is the first one of a SQLite database.
    pub(crate) async fn forget_waiting(&self) -> Result<(), StoreError> {
        query("UPDATE workers SET waiting_at = NULL WHERE waiting_at IS NOT NULL")
            .execute(&self.write)
            .await
            .map(drop)
            .context("forget the workers that waited")
    }

    /// The workers that wait at this service and are to leave.
    ///
    /// # Errors
    /// The database fails.
    pub async fn waiting_and_drained(&self) -> Result<Vec<WorkerId>, StoreError> {
        let rows: Vec<Uuid> =
            query_scalar("SELECT id FROM workers WHERE waiting_at = $1 AND draining = 1")
                .bind(self.replica)
                .fetch_all(&self.read)
                .await
                .context("list the drained workers")?;
        Ok(rows.into_iter().map(WorkerId::from).collect())
    }

    /// Counts the jobs that a worker may take now, by the device that they need. A job may be kept from some workers,
    /// and a person's quota may end before all of them are lent, as [`Store::lease`] says.
    ///
    /// # Errors
    /// The database fails.
    pub async fn waiting_jobs(
        &self,
        quota: Option<u32>,
        now: DateTime<Utc>,
    ) -> Result<Vec<WaitingJobs>, StoreError> {
        let rows: Vec<(Option<String>, i64)> = query_as(concat!(
            "SELECT r.device, COUNT(*) FROM jobs j JOIN runs r ON r.id = j.run ",
            join_people!(),
            " WHERE ",
            lendable!("$1"),
            " AND ",
            within_quota!("$2"),
            " GROUP BY r.device ORDER BY r.device"
        ))
        .bind(micros(now))
        .bind(quota.map(i64::from))
        .fetch_all(&self.read)
        .await
        .context("count the jobs that wait")?;
        let row_ref = RowRef::new("jobs", "in all");
        rows.into_iter()
            .map(|(device, count)| {
                let count = row_ref.number("count", count)?;
                Ok(WaitingJobs { device, count })
            })
            .collect()
    }
}
