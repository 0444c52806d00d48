//! The fleet as people see it: each worker with its state, its job and its throughput.

use std::collections::HashMap;
use std::time::Duration;

use crate::sql::query_as;
use chrono::{DateTime, TimeDelta, Utc};
use domain::api::{DeviceMonth, Fleet, FleetJob, FleetWorker, WorkerState};
use domain::evaluation::EVALUATOR_VERSION;
use domain::health::Condition;
use domain::id::{CandidateId, RunId, WorkerId};
use domain::model::Dollars;
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::{RowRef, micros};
use crate::{Store, StoreError};

/// The columns of a worker that the list of workers does not show.
#[derive(sqlx::FromRow)]
struct WorkerRow {
    id: Uuid,
    evaluator: i64,
    registered_at: i64,
    faults_in_a_row: i64,
    evaluations: i64,
    health: Option<String>,
    health_reason: Option<String>,
    checked_at: Option<i64>,
    watched: Option<String>,
    watched_at: Option<i64>,
    hour_price: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct MonthRow {
    month: String,
    worker: String,
    uuid: String,
    name: String,
    attached_us: i64,
    busy_us: i64,
    cost: i64,
}

#[derive(sqlx::FromRow)]
struct JobRow {
    worker: Uuid,
    run: Uuid,
    run_name: String,
    candidate: Uuid,
    ordinal: i64,
    title: String,
    progress: String,
    deadline: i64,
}

impl Store {
    /// The workers seen in the last hour with their states and jobs, and the queue.
    ///
    /// # Errors
    /// The database fails.
    pub async fn fleet(&self, now: DateTime<Utc>) -> Result<Fleet, StoreError> {
        let workers = self.workers(now).await?;
        let mut view = self.view().await?;
        let (queued, oldest): (i64, Option<i64>) =
            query_as("SELECT COUNT(*), MIN(created_at) FROM jobs WHERE state = 'queued'")
                .fetch_one(&mut *view)
                .await
                .context("count the queued jobs")?;
        let jobs: Vec<JobRow> = query_as(
            "SELECT j.worker, j.run, r.name AS run_name, j.candidate, c.ordinal, c.title, j.progress, \
             j.deadline FROM jobs j JOIN runs r ON r.id = j.run JOIN candidates c ON c.id = j.candidate \
             WHERE j.state = 'leased' AND j.worker IS NOT NULL ORDER BY j.id DESC LIMIT 1000",
        )
        .fetch_all(&mut *view)
        .await
        .context("list the leased jobs")?;
        let mut jobs = jobs
            .into_iter()
            .map(|row| (row.worker, row))
            .collect::<HashMap<_, _>>();
        let mut listed = Vec::with_capacity(workers.len());
        for worker in workers {
            let row: WorkerRow = query_as(
                "SELECT w.id, w.evaluator, w.registered_at, w.faults_in_a_row, \
                 (SELECT COUNT(*) FROM evaluations e WHERE e.worker = w.id AND e.created_at >= $2) \
                 AS evaluations, d.state AS health, d.reason AS health_reason, d.told_at AS checked_at, \
                 w.watched, w.watched_at, w.hour_price \
                 FROM workers w LEFT JOIN devices d ON d.worker = w.name AND d.uuid = w.device_uuid \
                 WHERE w.id = $1",
            )
            .bind(worker.id.uuid())
            .bind(micros(now - TimeDelta::hours(1)))
            .fetch_one(&mut *view)
            .await
            .context("read a worker")?;
            let row_ref = RowRef::new("workers", WorkerId::from(row.id));
            let condition = row.health.map(|state| match state.as_str() {
                "well" => Condition::Well,
                _ => Condition::Quarantined {
                    reason: row.health_reason.unwrap_or_default(),
                },
            });
            listed.push(FleetWorker {
                state: WorkerState::of(&worker, condition.as_ref()),
                evaluator: row_ref.number("evaluator", row.evaluator)?,
                registered_at: row_ref.time("registered_at", row.registered_at)?,
                job: jobs.remove(&row.id).map(JobRow::read).transpose()?,
                evaluations_last_hour: row_ref.number("evaluations", row.evaluations)?,
                faults_in_a_row: row_ref.number("faults_in_a_row", row.faults_in_a_row)?,
                condition,
                checked_at: row
                    .checked_at
                    .map(|at| row_ref.time("checked_at", at))
                    .transpose()?,
                watched: row
                    .watched
                    .map(|watched| row_ref.json("watched", &watched))
                    .transpose()?,
                watched_at: row
                    .watched_at
                    .map(|at| row_ref.time("watched_at", at))
                    .transpose()?,
                dollars_per_hour: row
                    .hour_price
                    .map(|price| row_ref.number("hour_price", price))
                    .transpose()?
                    .map(Dollars::from_nanos),
                worker,
            });
        }
        let row_ref = RowRef::new("jobs", "in all");
        Ok(Fleet {
            evaluator: EVALUATOR_VERSION,
            queued: row_ref.number("count", queued)?,
            oldest_queued_at: oldest
                .map(|at| row_ref.time("created_at", at))
                .transpose()?,
            workers: listed,
        })
    }

    /// The hours of each worker's device by month, the newest month first; at most 1,000 rows.
    ///
    /// # Errors
    /// The database fails.
    pub async fn device_months(&self) -> Result<Vec<DeviceMonth>, StoreError> {
        let rows: Vec<MonthRow> = query_as(
            "SELECT month, worker, uuid, name, attached_us, busy_us, cost FROM device_months \
             ORDER BY month DESC, worker, uuid LIMIT 1000",
        )
        .fetch_all(&self.read)
        .await
        .context("list the hours of devices")?;
        rows.into_iter().map(MonthRow::read).collect()
    }
}

impl MonthRow {
    fn read(self) -> Result<DeviceMonth, StoreError> {
        let row_ref = RowRef::new("device_months", &self.uuid);
        let hours = |column, us| {
            let us: u64 = row_ref.number(column, us)?;
            Ok::<_, StoreError>(Duration::from_micros(us).as_secs_f64() / 3600.0)
        };
        Ok(DeviceMonth {
            attached_hours: hours("attached_us", self.attached_us)?,
            evaluating_hours: hours("busy_us", self.busy_us)?,
            dollars: Dollars::from_nanos(row_ref.number("cost", self.cost)?),
            month: self.month,
            worker: self.worker,
            uuid: self.uuid,
            device: self.name,
        })
    }
}

impl JobRow {
    fn read(self) -> Result<FleetJob, StoreError> {
        let row_ref = RowRef::new("jobs", self.candidate);
        Ok(FleetJob {
            run: RunId::from(self.run),
            run_name: self.run_name,
            candidate: CandidateId::from(self.candidate),
            ordinal: row_ref.number("ordinal", self.ordinal)?,
            title: self.title,
            progress: self.progress,
            deadline: row_ref.time("deadline", self.deadline)?,
        })
    }
}
