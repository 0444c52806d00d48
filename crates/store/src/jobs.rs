//! Jobs and their leases: people take turns, and heartbeats renew a lease.

mod report;

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use crate::sql::{Flag, query, query_as, query_scalar};
use chrono::{DateTime, TimeDelta, Utc};
use domain::api::EventKind;
use domain::evaluation::EvaluationStage;
use domain::health::QUARANTINE_BREAKS;
use domain::id::{CandidateId, JobId, RunId, WorkerId};
use domain::lease::{LEASE_SECONDS, Receipt, Renewal};
use domain::plan::Configuration;
use domain::role::Key;
use domain::task::Bundle;
use domain::timing::Timing;
use uuid::Uuid;

use crate::changes::CommitScope;
use crate::error::ErrorContext;
use crate::faults::{self, HeldLease};
use crate::judgements;
use crate::rows::{RowRef, micros, stage_word};
use crate::texts::{self, TextId};
use crate::workers::{self, ALIVE};
use crate::{Connection, Store, StoreError, events, health, runs};

/// The interval at which it is recorded that a worker without a job was seen, less than the time for
/// which it counts as alive.
const SEEN_INTERVAL: TimeDelta = TimeDelta::seconds(5);
/// The same for a worker with a job, whose renewals say nothing new. Renewals are most of the requests of a busy fleet.
const RENEWED_INTERVAL: TimeDelta = TimeDelta::seconds(LEASE_SECONDS as i64);
/// Incumbents kept in memory; more are read again.
const KEPT_INCUMBENTS: usize = 64;
/// Tasks whose files are kept in memory; more are read again.
const KEPT_BUNDLES: usize = 16;

/// A job lent to a worker, with everything that the evaluation needs.
#[derive(Debug, Clone)]
pub struct LeasedJob {
    /// The job.
    pub job: JobId,
    /// The lease's number. Reports with another number are ignored.
    pub attempt: i64,
    /// The run.
    pub run: RunId,
    /// The run's secret, from which inputs are derived.
    pub secret: Key,
    /// The candidate.
    pub candidate: CandidateId,
    /// The stage of evaluation.
    pub stage: EvaluationStage,
    /// The number of the candidate's earlier jobs of this stage.
    pub round: u32,
    /// The task's files.
    pub bundle: Bundle,
    /// The name of the candidate's file.
    pub file: String,
    /// The candidate's text.
    pub source: String,
    /// Values of all its tunables.
    pub configuration: Configuration,
    /// The candidate to compare with: the best so far in a search, the baseline in a confirmation.
    /// Chosen when the job is lent, and named in the evaluation.
    pub incumbent: Option<Incumbent>,
}

/// An accepted candidate that another one has to beat.
#[derive(Debug, Clone, PartialEq)]
pub struct Incumbent {
    /// The name of its file.
    pub file: String,
    /// Its text.
    pub source: String,
    /// Values of all its tunables.
    pub configuration: Configuration,
    /// The times it was accepted with.
    pub timing: Timing,
}

/// The device of a worker that asks for a job.
#[derive(sqlx::FromRow)]
struct WorkerDevice {
    device_name: String,
    device_uuid: String,
    suspended_until: Option<i64>,
    #[sqlx(try_from = "Flag")]
    quarantined: bool,
    /// It was not seen for a while, which is to be recorded.
    #[sqlx(try_from = "Flag")]
    unseen: bool,
}

#[derive(sqlx::FromRow)]
struct JobRow {
    job: Uuid,
    attempt: i64,
    run: Uuid,
    secret: String,
    candidate: Uuid,
    stage: String,
    #[sqlx(try_from = "Flag")]
    champion: bool,
    round: i64,
    task_content: String,
    file: String,
    source_text: Option<TextId>,
    configuration: String,
}

impl Store {
    /// Lends the next job that the worker may take; none if there is no such job. People take turns: the next job is
    /// of the one whose runs use the fewest devices, and among those who use as many, of the one whose last turn is
    /// longest ago. So do the runs of one person. In a run the oldest job is first.
    ///
    /// - Active runs of one person use `quota` devices at a time at the most, where it is given. A confirmation after the
    ///   end of a run is not counted.
    /// - Of a run whose baseline is not accepted yet, only the baseline's job is lent. Nothing of a
    ///   paused run is lent.
    /// - A quarantined device gets no job, and a worker with too many faults in a row gets none for
    ///   a while.
    /// - The job of a candidate that broke too many devices is parked.
    /// - A worker does not get a job again that it declined, reported a fault for or was lost over, while another
    ///   worker that could take it is alive.
    /// - The re-check of a champion goes to another device of its kind than the one that judged it
    ///   last, while one is alive.
    ///
    /// # Errors
    /// The worker is unknown or the database fails.
    pub async fn lease(
        &self,
        worker: WorkerId,
        quota: Option<u32>,
        now: DateTime<Utc>,
    ) -> Result<Option<LeasedJob>, StoreError> {
        if self.is_idle(worker, now).await? {
            return Ok(None);
        }
        let mut tx = self.begin().await?;
        let device: Option<WorkerDevice> = query_as(
            "SELECT device_name, device_uuid, suspended_until, EXISTS (SELECT 1 FROM devices d \
             WHERE d.worker = workers.name AND d.uuid = workers.device_uuid \
             AND d.state = 'quarantined') AS quarantined, \
             seen_at <= $2 AND waiting_at IS DISTINCT FROM $3 AS unseen FROM workers WHERE id = $1",
        )
        .bind(worker.uuid())
        .bind(micros(now - SEEN_INTERVAL))
        .bind(self.replica)
        .fetch_optional(&mut *tx)
        .await
        .context("read a worker's device")?;
        let device = device.ok_or_else(|| StoreError::Unknown {
            subject: "worker",
            id: worker.to_string(),
        })?;
        let suspended = device
            .suspended_until
            .is_some_and(|until| until > micros(now));
        let is_barred = suspended || device.quarantined;
        let mut refused = false;
        let leased = loop {
            let claimed = if is_barred {
                None
            } else {
                claim(&mut tx, worker, &device, quota, now).await?
            };
            let Some(job) = claimed else {
                break None;
            };
            let leased = self.leased(&mut tx, job).await?;
            let content = domain::health::submission_digest(&leased.source, &leased.configuration);
            if !health::is_candidate_quarantined(&mut tx, content).await? {
                break Some(leased);
            }
            let held = HeldLease {
                job,
                run: leased.run,
                candidate: leased.candidate,
                stage: leased.stage,
            };
            let reason = format!(
                "quarantined: {QUARANTINE_BREAKS} devices failed their health check after running this \
                 candidate"
            );
            faults::refuse(&mut tx, &held, &reason, now).await?;
            refused = true;
        };
        if leased.is_some() || device.unseen {
            workers::record_request(&mut tx, worker, now);
        }
        let scope = if refused {
            CommitScope::Anything
        } else {
            CommitScope::Nothing
        };
        self.commit_change(tx, scope).await?;
        Ok(leased)
    }

    /// Extends a lease and records what the worker does.
    ///
    /// # Errors
    /// The database fails.
    pub async fn renew(
        &self,
        job: JobId,
        renewal: &Renewal,
        now: DateTime<Utc>,
    ) -> Result<Receipt, StoreError> {
        if self.extend(job, renewal, now).await? {
            return Ok(Receipt::Accepted);
        }
        let mut tx = self.begin().await?;
        let row: Option<(Uuid, Uuid, Option<Uuid>, String)> = query_as(
            "SELECT run, candidate, worker, progress FROM jobs \
             WHERE id = $1 AND attempt = $2 AND state = 'leased'",
        )
        .bind(job.uuid())
        .bind(renewal.attempt)
        .fetch_optional(&mut *tx)
        .await
        .context("find a lease")?;
        let Some((run, candidate, Some(worker), progress)) = row else {
            return Ok(Receipt::Superseded);
        };
        query("UPDATE jobs SET deadline = $2, progress = $3 WHERE id = $1")
            .bind(job.uuid())
            .bind(micros(deadline(now)))
            .bind(&renewal.stage)
            .execute(&mut *tx)
            .await
            .context("renew a lease")?;
        workers::record_request(&mut tx, WorkerId::from(worker), now);
        let news = progress != renewal.stage;
        if news {
            let stage = EventKind::Stage {
                candidate: CandidateId::from(candidate),
                stage: renewal.stage.clone(),
                worker: WorkerId::from(worker),
            };
            events::record(&mut tx, RunId::from(run), &stage, now);
        }
        let scope = if news {
            CommitScope::Run(RunId::from(run))
        } else {
            CommitScope::Nothing
        };
        self.commit_change(tx, scope).await?;
        Ok(Receipt::Accepted)
    }

    /// Extends a lease in one statement, without the lock of those who write. Returns false if there is more to do: the
    /// lease has ended, the worker does something else, or is to be recorded as seen.
    async fn extend(
        &self,
        job: JobId,
        renewal: &Renewal,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let extended = query(
            "UPDATE jobs SET deadline = $2 WHERE id = $1 AND attempt = $3 AND state = 'leased' AND progress = $4 \
             AND worker IN (SELECT id FROM workers WHERE seen_at > $5)",
        )
        .bind(job.uuid())
        .bind(micros(deadline(now)))
        .bind(renewal.attempt)
        .bind(&renewal.stage)
        .bind(micros(now - RENEWED_INTERVAL))
        .execute(&self.write)
        .await
        .context("renew a lease")?;
        Ok(extended > 0)
    }

    /// Returns true if no job waits that the worker could take, so that a poll needs no transaction.
    /// Returns false if the worker was not seen for a while, because that is to be recorded unless the worker waits
    /// at this service.
    async fn is_idle(&self, worker: WorkerId, now: DateTime<Utc>) -> Result<bool, StoreError> {
        let idle: Option<Flag> = query_scalar(
            "SELECT (w.seen_at > $2 OR w.waiting_at IS NOT DISTINCT FROM $4) AND NOT EXISTS (SELECT 1 FROM jobs j JOIN runs r ON r.id = j.run \
             WHERE j.state = 'queued' AND j.not_before <= $3 AND r.state <> 'paused' \
             AND (r.device IS NULL OR r.device = w.device_name)) FROM workers w WHERE w.id = $1",
        )
        .bind(worker.uuid())
        .bind(micros(now - SEEN_INTERVAL))
        .bind(micros(now))
        .bind(self.replica)
        .fetch_optional(&self.read)
        .await
        .context("look for a job")?;
        Ok(idle.is_some_and(bool::from))
    }

    /// Reads a candidate that another one has to beat; none if it was not accepted.
    async fn incumbent(
        &self,
        tx: &mut Connection,
        id: CandidateId,
    ) -> Result<Option<Incumbent>, StoreError> {
        if let Some(known) = self.incumbents().get(&id) {
            return Ok(Some(known.clone()));
        }
        let read = read_incumbent(tx, id).await?;
        if let Some(read) = &read {
            let mut kept = self.incumbents();
            if kept.len() >= KEPT_INCUMBENTS {
                kept.clear();
            }
            kept.insert(id, read.clone());
        }
        Ok(read)
    }

    /// Reads the files of a task's content, which never change.
    async fn task_bundle(&self, tx: &mut Connection, content: &str) -> Result<Bundle, StoreError> {
        if let Some(known) = self.bundles().get(content) {
            return Ok(known.clone());
        }
        let text: String = query_scalar("SELECT bundle FROM tasks WHERE content = $1")
            .bind(content)
            .fetch_one(tx)
            .await
            .context("read a task")?;
        let bundle: Bundle = RowRef::new("tasks", content).json("bundle", &text)?;
        let mut kept = self.bundles();
        if kept.len() >= KEPT_BUNDLES {
            kept.clear();
        }
        kept.insert(content.to_owned(), bundle.clone());
        Ok(bundle)
    }

    fn bundles(&self) -> MutexGuard<'_, HashMap<String, Bundle>> {
        self.bundles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn incumbents(&self) -> MutexGuard<'_, HashMap<CandidateId, Incumbent>> {
        self.incumbents
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    async fn leased(&self, tx: &mut Connection, job: JobId) -> Result<LeasedJob, StoreError> {
        let row: JobRow = query_as(
            "SELECT j.id AS job, j.attempt, j.run, r.secret, j.candidate, j.stage, j.champion, \
         j.round, r.task_content, c.file, c.source_text, c.configuration FROM jobs j \
         JOIN candidates c ON c.id = j.candidate JOIN runs r ON r.id = j.run \
         WHERE j.id = $1",
        )
        .bind(job.uuid())
        .fetch_one(&mut *tx)
        .await
        .context("read a job")?;
        let run = RunId::from(row.run);
        let candidate = CandidateId::from(row.candidate);
        let row_ref = RowRef::new("jobs", job);
        let stage = row_ref.stage(&row.stage, row.champion)?;
        let incumbent = match stage {
            EvaluationStage::Baseline => None,
            EvaluationStage::Search => judgements::best(tx, run).await?,
            EvaluationStage::Confirmation | EvaluationStage::Champion => {
                judgements::baseline(tx, run).await?
            }
        };
        let incumbent = match incumbent {
            Some(id) => self.incumbent(tx, id).await?,
            None => None,
        };
        Ok(LeasedJob {
            job: JobId::from(row.job),
            attempt: row.attempt,
            run,
            secret: runs::key(&RowRef::new("runs", run), &row.secret)?,
            candidate,
            stage,
            round: row_ref.number("round", row.round)?,
            bundle: self.task_bundle(tx, &row.task_content).await?,
            file: row.file,
            source: texts::get_optional(tx, row.source_text)
                .await?
                .unwrap_or_default(),
            configuration: RowRef::new("candidates", candidate)
                .json("configuration", &row.configuration)?,
            incumbent,
        })
    }
}

/// Queues the evaluation of a candidate, as its next round of the stage.
pub(crate) fn enqueue(
    tx: &mut Connection,
    job: JobId,
    run: RunId,
    candidate: CandidateId,
    stage: EvaluationStage,
    now: DateTime<Utc>,
) {
    query(
        "INSERT INTO jobs (id, run, candidate, stage, round, not_before, created_at, champion) \
         VALUES ($1, $2, $3, $4, (SELECT COALESCE(MAX(round) + 1, 0) FROM jobs \
         WHERE candidate = $3 AND stage = $4), $5, $5, $6)",
    )
    .bind(job.uuid())
    .bind(run.uuid())
    .bind(candidate.uuid())
    .bind(stage_word(stage))
    .bind(micros(now))
    .bind(stage == EvaluationStage::Champion)
    .defer(tx);
}

/// Lends the next job that a worker may take, in the order of [`Store::lease`].
async fn claim(
    tx: &mut Connection,
    worker: WorkerId,
    device: &WorkerDevice,
    quota: Option<u32>,
    now: DateTime<Utc>,
) -> Result<Option<JobId>, StoreError> {
    // Runs first: their order needs a sum over people, which one statement would form again for each job.
    let runs: Vec<Uuid> = query_scalar(concat!(
        "SELECT r.id FROM runs r ",
        join_people!(),
        " WHERE r.id IN (SELECT run FROM jobs WHERE state = 'queued' AND not_before <= $1) \
         AND (r.device IS NULL OR r.device = $2) AND ",
        within_quota!("$3"),
        " ORDER BY COALESCE(p.devices, 0), COALESCE(p.lent_at, 0), COALESCE(r.lent_at, 0), r.id"
    ))
    .bind(micros(now))
    .bind(&device.device_name)
    .bind(quota.map(i64::from))
    .fetch_all(&mut *tx)
    .await
    .context("look for a job")?;
    for run in runs {
        if let Some(job) = claim_of(tx, run, worker, device, now).await? {
            query("UPDATE runs SET lent_at = $2 WHERE id = $1")
                .bind(run)
                .bind(micros(now))
                .defer(tx);
            return Ok(Some(job));
        }
    }
    Ok(None)
}

/// Lends the oldest job of a run that a worker may take.
async fn claim_of(
    tx: &mut Connection,
    run: Uuid,
    worker: WorkerId,
    device: &WorkerDevice,
    now: DateTime<Utc>,
) -> Result<Option<JobId>, StoreError> {
    // No other transaction writes meanwhile, on Postgres neither (`Store::begin`).
    let claimed: Option<Uuid> = query_scalar(concat!(
        "UPDATE jobs SET state = 'leased', worker = $1, attempt = attempt + 1, \
         deadline = $2, progress = '' WHERE id = (\
         SELECT j.id FROM jobs j JOIN runs r ON r.id = j.run \
         JOIN candidates c ON c.id = j.candidate WHERE j.run = $7 AND ",
        lendable!("$3"),
        " AND (r.device IS NULL OR r.device = $4) \
         AND (NOT EXISTS (SELECT 1 FROM job_faults f WHERE f.job = j.id AND f.worker = $1) \
         OR NOT EXISTS (SELECT 1 FROM workers w WHERE w.id <> $1 AND ",
        another_can_take!("j.id", "$6", "$3"),
        ")) \
         AND (j.champion = 0 OR $5 IS DISTINCT FROM (SELECT w.device_uuid FROM evaluations e \
         JOIN workers w ON w.id = e.worker WHERE e.candidate = j.candidate \
         AND e.stage = 'confirmation' ORDER BY e.created_at DESC, e.id DESC LIMIT 1) \
         OR NOT EXISTS (SELECT 1 FROM workers w WHERE w.device_name = $4 \
         AND w.device_uuid <> $5 AND ",
        alive!("$6"),
        " AND NOT EXISTS (SELECT 1 FROM devices d \
         WHERE d.worker = w.name AND d.uuid = w.device_uuid AND d.state = 'quarantined'))) \
         ORDER BY j.created_at, c.ordinal LIMIT 1) RETURNING id"
    ))
    .bind(worker.uuid())
    .bind(micros(deadline(now)))
    .bind(micros(now))
    .bind(&device.device_name)
    .bind(&device.device_uuid)
    .bind(micros(now - ALIVE))
    .bind(run)
    .fetch_optional(tx)
    .await
    .context("lend a job")?;
    Ok(claimed.map(JobId::from))
}

/// The deadline of a lease that is taken or renewed now.
pub(crate) fn deadline(now: DateTime<Utc>) -> DateTime<Utc> {
    now + TimeDelta::seconds(i64::from(LEASE_SECONDS))
}

/// Reads a candidate that another one has to beat; none if it was not accepted.
async fn read_incumbent(
    tx: &mut Connection,
    id: CandidateId,
) -> Result<Option<Incumbent>, StoreError> {
    let Some(timing) = judgements::timing(tx, id).await? else {
        return Ok(None);
    };
    let (file, source, configuration): (String, Option<TextId>, String) =
        query_as("SELECT file, source_text, configuration FROM candidates WHERE id = $1")
            .bind(id.uuid())
            .fetch_one(&mut *tx)
            .await
            .context("read the incumbent")?;
    Ok(Some(Incumbent {
        file,
        source: texts::get_optional(tx, source).await?.unwrap_or_default(),
        configuration: RowRef::new("candidates", id).json("configuration", &configuration)?,
        timing,
    }))
}
