//! Counts over the whole database, which the service's metrics show.

use crate::sql::{query_as, query_scalar};
use chrono::{DateTime, TimeDelta, Utc};

use crate::error::ErrorContext;
use crate::rows::{RowRef, micros};
use crate::workers::{ALIVE, LISTED};
use crate::{Connection, Store, StoreError};

/// Counts over the whole database at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceCounts {
    /// Runs by state, such as `running`.
    pub runs: Vec<(String, u64)>,
    /// Jobs that are not done.
    pub jobs: Vec<JobCount>,
    /// Time for which the oldest job has waited that a worker may take now; zero if none waits.
    pub longest_wait: TimeDelta,
    /// Workers by activity: `idle`, `evaluating`, `suspended` after faults, `draining`, or `silent`,
    /// which were seen in the last hour but not within twice the time of a lease.
    pub workers: Vec<(String, u64)>,
    /// Devices by condition: `well` or `quarantined`.
    pub devices: Vec<(String, u64)>,
    /// Calls of models that wait for their answer.
    pub open_calls: u64,
    /// Events for webhooks that no endpoint took, by state: `waiting` for another attempt, or
    /// `given_up`.
    pub undelivered_webhooks: Vec<(String, u64)>,
    /// Totals over all runs.
    pub totals: RunTotals,
    /// Size of the database without its write-ahead log, bytes.
    pub database_bytes: u64,
}

/// The number of jobs of one state for one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobCount {
    /// `queued`, `leased` or `parked`.
    pub state: String,
    /// The device that the run's workers must have; absent until the baseline decides it.
    pub device: Option<String>,
    /// The number.
    pub count: u64,
}

/// Totals over all runs. They only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunTotals {
    /// Answered calls of models.
    pub answered_calls: u64,
    /// Tokens of prompts, those read from a provider's cache included.
    pub input_tokens: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
    /// Cost of the calls whose model has a price, billionths of a dollar.
    pub cost_nanos: u64,
    /// Time for which devices were occupied, microseconds.
    pub device_us: u64,
}

#[derive(sqlx::FromRow)]
struct TotalsRow {
    answered_calls: i64,
    input_tokens: i64,
    output_tokens: i64,
    cost: i64,
    device_us: i64,
}

impl Store {
    /// Counts runs, jobs, workers, devices and calls in one consistent state of the database. The
    /// time that this takes grows with the runs, and with the jobs that are not done.
    ///
    /// # Errors
    /// The database fails.
    pub async fn service_counts(&self, now: DateTime<Utc>) -> Result<ServiceCounts, StoreError> {
        let mut view = self.view().await?;
        let runs = query_as("SELECT state, COUNT(*) FROM runs GROUP BY state ORDER BY state");
        let runs: Vec<(String, i64)> = runs
            .fetch_all(&mut *view)
            .await
            .context("count the runs by state")?;
        let jobs: Vec<(String, Option<String>, i64)> = query_as(
            "SELECT j.state, r.device, COUNT(*) FROM jobs j JOIN runs r ON r.id = j.run \
             WHERE j.state IN ('queued', 'leased', 'parked') \
             GROUP BY j.state, r.device ORDER BY j.state, r.device",
        )
        .fetch_all(&mut *view)
        .await
        .context("count the jobs by state")?;
        let oldest: Option<i64> = query_scalar(
            "SELECT MIN(not_before) FROM jobs WHERE state = 'queued' AND not_before <= $1",
        )
        .bind(micros(now))
        .fetch_one(&mut *view)
        .await
        .context("find the job that waits longest")?;
        let devices = query_as("SELECT state, COUNT(*) FROM devices GROUP BY state ORDER BY state");
        let devices: Vec<(String, i64)> = devices
            .fetch_all(&mut *view)
            .await
            .context("count the devices by state")?;
        let open_calls: i64 = query_scalar("SELECT COUNT(*) FROM calls WHERE answered_at IS NULL")
            .fetch_one(&mut *view)
            .await
            .context("count the open calls")?;
        let webhooks: Vec<(String, i64)> = query_as(
            "SELECT CASE WHEN due_at IS NULL THEN 'given_up' ELSE 'waiting' END AS state, COUNT(*) \
             FROM webhook_deliveries WHERE delivered_at IS NULL GROUP BY state ORDER BY state",
        )
        .fetch_all(&mut *view)
        .await
        .context("count the events that were not delivered")?;
        let pages: i64 =
            query_scalar("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
                .on_postgres("SELECT pg_database_size(current_database())")
                .fetch_one(&mut *view)
                .await
                .context("ask for the database's size")?;
        let workers = workers(&mut view, now).await?;
        let totals = totals(&mut view).await?;
        let row = RowRef::new("runs", "in all");
        let oldest = oldest.map(|at| row.time("not_before", at)).transpose()?;
        let jobs = jobs.into_iter().map(|(state, device, count)| {
            Ok(JobCount {
                state,
                device,
                count: row.number("count", count)?,
            })
        });
        Ok(ServiceCounts {
            runs: counted(runs)?,
            jobs: jobs.collect::<Result<_, StoreError>>()?,
            longest_wait: oldest.map_or(TimeDelta::zero(), |at| now - at),
            workers,
            devices: counted(devices)?,
            undelivered_webhooks: counted(webhooks)?,
            open_calls: row.number("count", open_calls)?,
            totals,
            database_bytes: row.number("page_count", pages)?,
        })
    }
}

/// Counts the workers by activity. A registration that a later one of the same installation replaced
/// is left out, and so is a drained worker that has left.
async fn workers(
    view: &mut Connection,
    now: DateTime<Utc>,
) -> Result<Vec<(String, u64)>, StoreError> {
    let rows = query_as(concat!(
        "SELECT CASE WHEN NOT ",
        alive!("$2"),
        " THEN 'silent' WHEN w.draining = 1 THEN 'draining' \
         WHEN w.suspended_until > $3 THEN 'suspended' \
         WHEN EXISTS (SELECT 1 FROM jobs j WHERE j.worker = w.id AND j.state = 'leased') \
         THEN 'evaluating' ELSE 'idle' END AS activity, COUNT(*) FROM workers w \
         WHERE w.seen_at >= $1 AND (w.draining = 0 OR ",
        alive!("$2"),
        ") AND NOT EXISTS \
         (SELECT 1 FROM workers n WHERE n.seen_at >= $1 AND n.name = w.name \
         AND n.device_uuid = w.device_uuid AND n.instance IS NOT DISTINCT FROM w.instance \
         AND n.owner IS NOT DISTINCT FROM w.owner AND n.id > w.id) \
         GROUP BY activity ORDER BY activity"
    ))
    .bind(micros(now - LISTED))
    .bind(micros(now - ALIVE))
    .bind(micros(now))
    .fetch_all(view)
    .await
    .context("count the workers by activity")?;
    counted(rows)
}

async fn totals(view: &mut Connection) -> Result<RunTotals, StoreError> {
    let row: TotalsRow = query_as(
        "SELECT CAST(COALESCE(SUM(answered_calls), 0) AS BIGINT) AS answered_calls, \
         CAST(COALESCE(SUM(input_tokens), 0) AS BIGINT) AS input_tokens, \
         CAST(COALESCE(SUM(output_tokens), 0) AS BIGINT) AS output_tokens, CAST(COALESCE(SUM(cost), 0) AS BIGINT) AS cost, \
         CAST(COALESCE(SUM(device_us), 0) AS BIGINT) AS device_us FROM runs",
    )
    .fetch_one(view)
    .await
    .context("add up the runs' totals")?;
    let row_ref = RowRef::new("runs", "in all");
    Ok(RunTotals {
        answered_calls: row_ref.number("answered_calls", row.answered_calls)?,
        input_tokens: row_ref.number("input_tokens", row.input_tokens)?,
        output_tokens: row_ref.number("output_tokens", row.output_tokens)?,
        cost_nanos: row_ref.number("cost", row.cost)?,
        device_us: row_ref.number("device_us", row.device_us)?,
    })
}

fn counted(rows: Vec<(String, i64)>) -> Result<Vec<(String, u64)>, StoreError> {
    rows.into_iter()
        .map(|(state, count)| {
            let count = RowRef::new("count", &state).number("count", count)?;
            Ok((state, count))
        })
        .collect()
}
