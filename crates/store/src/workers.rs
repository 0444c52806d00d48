//! Workers: registrations, when each was last seen, and suspensions after faults.

use crate::sql::{Flag, query, query_as, query_scalar};
use chrono::{DateTime, TimeDelta, Utc};
use domain::api::WorkerView;
use domain::evaluation::EVALUATOR_VERSION;
use domain::id::{CandidateId, RunId, WorkerId};
use domain::lease::{LEASE_SECONDS, Registered, Registration};
use domain::measurement::ConditionCoverage;
use domain::model::Dollars;
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::faults::{self, LeaseEnd};
use crate::rows::{RowRef, json, micros};
use crate::waiting::COUNT_INTERVAL;
use crate::{Connection, Store, StoreError};

/// Time for which a worker is listed after its last request.
pub(crate) const LISTED: TimeDelta = TimeDelta::hours(1);

/// Faults in a row after which a worker gets no job for a while.
pub const MAX_WORKER_FAULTS: u32 = 3;
/// The first suspension of a worker; doubled by each further fault.
const FIRST_SUSPENSION: TimeDelta = TimeDelta::minutes(1);
const LONGEST_SUSPENSION: TimeDelta = TimeDelta::minutes(16);

/// A worker seen within this time counts as alive: it asks for work or renews its lease more often.
pub(crate) const ALIVE: TimeDelta = TimeDelta::seconds(2 * LEASE_SECONDS as i64);

/// The numbers of workers and waiting jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetLoad {
    /// Workers that are alive.
    pub workers: u32,
    /// Jobs that wait for a worker.
    pub queued: u32,
}

#[derive(sqlx::FromRow)]
struct WorkerRow {
    id: Uuid,
    name: String,
    device: String,
    toolchain: String,
    seen: i64,
    #[sqlx(try_from = "Flag")]
    draining: bool,
    suspended_until: Option<i64>,
    evaluating: Option<Uuid>,
    declined: String,
}

impl Store {
    /// Records a worker under a new identity. Leases of an earlier registration of the same worker
    /// return to the queue, because the worker has been restarted. Two registrations are of the
    /// same worker if name, device and, where both tell it, installation are the same.
    ///
    /// # Errors
    /// The worker speaks another version of the protocol, or the database fails.
    pub async fn register(
        &self,
        registration: &Registration,
        now: DateTime<Utc>,
    ) -> Result<Registered, StoreError> {
        self.register_as(registration, None, now).await
    }

    /// The same for a worker of an owner, who alone may take leases as this worker. Leases of another
    /// owner's worker do not return to the queue, whatever name it has.
    ///
    /// # Errors
    /// As [`Store::register`].
    pub async fn register_as(
        &self,
        registration: &Registration,
        owner: Option<&str>,
        now: DateTime<Utc>,
    ) -> Result<Registered, StoreError> {
        if registration.evaluator != EVALUATOR_VERSION {
            return Err(StoreError::WrongEvaluator {
                found: registration.evaluator,
                wanted: EVALUATOR_VERSION,
            });
        }
        let id = self.draw(|rng| WorkerId::generate(now, rng));
        let price = registration.dollars_per_hour.map(Dollars::nanos);
        let price = price
            .map(i64::try_from)
            .transpose()
            .map_err(|error| RowRef::new("workers", id).wrong("hour_price", error))?;
        let mut tx = self.begin().await?;
        let held: Vec<(Uuid, Uuid, Uuid, String)> = query_as(
            "SELECT j.id, j.run, j.candidate, j.stage FROM jobs j JOIN workers w ON w.id = j.worker \
             WHERE j.state = 'leased' AND w.name = $1 AND w.device_uuid = $2 \
             AND (w.instance IS NULL OR $3 IS NULL OR w.instance = $3) \
             AND w.owner IS NOT DISTINCT FROM $4 ORDER BY j.id",
        )
        .bind(&registration.name)
        .bind(&registration.device.uuid)
        .bind(&registration.instance)
        .bind(owner)
        .fetch_all(&mut *tx)
        .await
        .context("find an earlier worker's leases")?;
        for row in &held {
            let loss = LeaseEnd::Loss("its worker was restarted".to_owned());
            faults::give_back(&mut tx, &faults::held(row)?, loss, now).await?;
        }
        query(
            "INSERT INTO workers (id, name, device_name, device_uuid, device, toolchain, \
             evaluator, registered_at, seen_at, instance, owner, hour_price, declined) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9, $10, $11, $12)",
        )
        .bind(id.uuid())
        .bind(&registration.name)
        .bind(&registration.device.name)
        .bind(&registration.device.uuid)
        .bind(json(&registration.device))
        .bind(&registration.toolchain)
        .bind(i64::from(registration.evaluator))
        .bind(micros(now))
        .bind(&registration.instance)
        .bind(owner)
        .bind(price)
        .bind(json(&registration.declined))
        .execute(&mut *tx)
        .await
        .context("register a worker")?;
        self.commit(tx).await?;
        Ok(Registered { worker: id })
    }

    /// Workers seen in the last hour, the latest first; at most 200. One that waits for a job at a living service is
    /// seen now.
    ///
    /// # Errors
    /// The database fails.
    pub async fn workers(&self, now: DateTime<Utc>) -> Result<Vec<WorkerView>, StoreError> {
        let rows: Vec<WorkerRow> = query_as(
            "SELECT id, name, device, toolchain, CASE WHEN id IN (SELECT id FROM waiting_workers) THEN $2 \
             ELSE seen_at END AS seen, draining, suspended_until, declined, (SELECT j.candidate FROM jobs j \
             WHERE j.worker = w.id AND j.state = 'leased' ORDER BY j.id LIMIT 1) AS evaluating \
             FROM workers w WHERE seen_at >= $1 ORDER BY seen DESC, id DESC LIMIT 200",
        )
        .bind(micros(now - LISTED))
        .bind(micros(now))
        .fetch_all(&self.read)
        .await
        .context("list the workers")?;
        rows.into_iter()
            .map(|row| {
                let id = WorkerId::from(row.id);
                let row_ref = RowRef::new("workers", id);
                let seen_at = row_ref.time("seen_at", row.seen)?;
                Ok(WorkerView {
                    id,
                    name: row.name,
                    device: row_ref.json("device", &row.device)?,
                    toolchain: row.toolchain,
                    alive: seen_at >= now - ALIVE,
                    seen_at,
                    draining: row.draining,
                    evaluating: row.evaluating.map(CandidateId::from),
                    suspended_until: row
                        .suspended_until
                        .map(|until| row_ref.time("suspended_until", until))
                        .transpose()?
                        .filter(|until| *until > now),
                    declined: row_ref.json("declined", &row.declined)?,
                })
            })
            .collect()
    }

    /// Counts the workers alive and the jobs that wait.
    ///
    /// # Errors
    /// The database fails.
    pub async fn load(&self, now: DateTime<Utc>) -> Result<FleetLoad, StoreError> {
        let alive = concat!("SELECT COUNT(*) FROM workers w WHERE ", alive!("$1"));
        let workers: i64 = query_scalar(alive)
            .bind(micros(now - ALIVE))
            .fetch_one(&self.read)
            .await
            .context("count the workers")?;
        let queued: i64 = query_scalar("SELECT COUNT(*) FROM jobs WHERE state = 'queued'")
            .fetch_one(&self.read)
            .await
            .context("count the queued jobs")?;
        let row_ref = RowRef::new("workers", "in all");
        Ok(FleetLoad {
            workers: row_ref.number("count", workers)?,
            queued: row_ref.number("count", queued)?,
        })
    }
}

/// The longest time between two requests for which a worker counts as attached.
const ATTACHED_GAP: TimeDelta = TimeDelta::minutes(1);

/// The longest time for which a worker that waits is not recorded.
const WAITING_GAP: TimeDelta = COUNT_INTERVAL.checked_add(&ATTACHED_GAP).expect("minutes");

/// Records a request of a worker, and counts the time since the one before as attached.
pub(crate) fn record_request(tx: &mut Connection, worker: WorkerId, now: DateTime<Utc>) {
    // Milliseconds times the price of a second keep within 64 bits, for days and the highest price.
    query(
        "INSERT INTO device_months (worker, uuid, month, name, attached_us, busy_us, cost) \
         SELECT w.name, w.device_uuid, $2, w.device_name, $3 - w.seen_at, 0, \
         ($3 - w.seen_at) / 1000 * (COALESCE(w.hour_price, 0) / 3600) / 1000 FROM workers w \
         WHERE w.id = $1 AND w.seen_at BETWEEN CASE WHEN w.waiting_at IS NULL THEN $4 ELSE $5 END AND $3 \
         ON CONFLICT (worker, uuid, month) DO UPDATE SET name = excluded.name, \
         attached_us = device_months.attached_us + excluded.attached_us, \
         cost = device_months.cost + excluded.cost",
    )
    .bind(worker.uuid())
    .bind(month(now))
    .bind(micros(now))
    .bind(micros(now - ATTACHED_GAP))
    .bind(micros(now - WAITING_GAP))
    .defer(tx);
    query("UPDATE workers SET seen_at = $2 WHERE id = $1")
        .bind(worker.uuid())
        .bind(micros(now))
        .defer(tx);
}

/// Counts the time that a worker's device spent on a candidate of a run, in microseconds.
pub(crate) fn record_device_time(
    tx: &mut Connection,
    worker: WorkerId,
    run: RunId,
    device_us: i64,
    now: DateTime<Utc>,
) {
    query(
        "INSERT INTO device_months (worker, uuid, month, name, attached_us, busy_us, cost) \
         SELECT w.name, w.device_uuid, $2, w.device_name, 0, $3, 0 FROM workers w WHERE w.id = $1 \
         ON CONFLICT (worker, uuid, month) DO UPDATE SET \
         busy_us = device_months.busy_us + excluded.busy_us",
    )
    .bind(worker.uuid())
    .bind(month(now))
    .bind(device_us)
    .defer(tx);
    query(
        "UPDATE runs SET device_cost = device_cost + $3 / 1000 * (COALESCE((SELECT hour_price FROM workers \
         WHERE id = $2), 0) / 3600) / 1000 WHERE id = $1",
    )
    .bind(run.uuid())
    .bind(worker.uuid())
    .bind(device_us)
    .defer(tx);
}

/// Keeps what was known of a worker's device while it timed kernels.
pub(crate) fn record_conditions(
    tx: &mut Connection,
    worker: WorkerId,
    watched: &ConditionCoverage,
    now: DateTime<Utc>,
) {
    query("UPDATE workers SET watched = $2, watched_at = $3 WHERE id = $1")
        .bind(worker.uuid())
        .bind(json(watched))
        .bind(micros(now))
        .defer(tx);
}

fn month(now: DateTime<Utc>) -> String {
    now.format("%Y-%m").to_string()
}

/// Counts a fault of a worker. It gets no further job for a while after
/// [`MAX_WORKER_FAULTS`] in a row, because the cause is then more likely the worker than the jobs.
pub(crate) async fn count_fault(
    tx: &mut Connection,
    worker: WorkerId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let faults: i64 = query_scalar(
        "UPDATE workers SET faults_in_a_row = faults_in_a_row + 1 WHERE id = $1 \
         RETURNING faults_in_a_row",
    )
    .bind(worker.uuid())
    .fetch_one(&mut *tx)
    .await
    .context("count a worker's fault")?;
    // Negative below the limit.
    let Ok(further) = u32::try_from(faults - i64::from(MAX_WORKER_FAULTS)) else {
        return Ok(());
    };
    let pause = (FIRST_SUSPENSION * (1 << further.min(8))).min(LONGEST_SUSPENSION);
    query("UPDATE workers SET suspended_until = $2 WHERE id = $1")
        .bind(worker.uuid())
        .bind(micros(now + pause))
        .execute(tx)
        .await
        .context("suspend a worker")?;
    Ok(())
}

/// Ends a worker's row of faults, because it reported a verdict.
pub(crate) fn clear_faults(tx: &mut Connection, worker: WorkerId) {
    query("UPDATE workers SET faults_in_a_row = 0, suspended_until = NULL WHERE id = $1")
        .bind(worker.uuid())
        .defer(tx);
}
