//! Reports of workers. They are accepted only with the lease's current attempt.

use crate::sql::{Flag, query, query_as};
use chrono::{DateTime, Utc};
use domain::admission::Admission;
use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation, EvaluationStage};
use domain::id::{CandidateId, EvaluationId, JobId, RunId, WorkerId};
use domain::lease::{Receipt, Report, ReportOutcome};
use domain::timing::is_valid_time;
use uuid::Uuid;

use crate::changes::CommitScope;
use crate::error::ErrorContext;
use crate::faults::{self, HeldLease, LeaseEnd};
use crate::judgements::{self, Judgement};
use crate::rows::RowRef;
use crate::{Connection, Store, StoreError, admissions, same_code, workers};

#[derive(sqlx::FromRow)]
struct ReportedRow {
    worker: Option<Uuid>,
    run: Uuid,
    candidate: Uuid,
    stage: String,
    #[sqlx(try_from = "Flag")]
    champion: bool,
    digest: Option<String>,
    launches: Option<String>,
    task_content: String,
    version: String,
    /// The baseline's digest.
    baseline: Option<String>,
    device: Option<String>,
    device_name: Option<String>,
    toolchain: Option<String>,
}

impl ReportedRow {
    /// The digest of the conditions under which the worker evaluated the candidate; none if they are not
    /// known.
    fn conditions(&self) -> Result<Option<Digest>, StoreError> {
        let (Some(baseline), Some(device), Some(toolchain)) =
            (&self.baseline, &self.device, &self.toolchain)
        else {
            return Ok(None);
        };
        let row_ref = RowRef::new("workers", self.candidate);
        let device = row_ref.json("device", device)?;
        let digest = same_code::conditions(&self.version, baseline, &device, toolchain);
        Ok(Some(digest))
    }
}

/// The reasons why a report is not recorded.
enum ReportError {
    /// It does not fit the lease or contradicts itself, for this reason.
    Unusable(String),
    /// The database failed.
    Store(StoreError),
}

impl From<StoreError> for ReportError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl ReportError {
    fn unusable(reason: impl Into<String>) -> Self {
        Self::Unusable(reason.into())
    }
}

impl Store {
    /// Ends a lease with the worker's report. A report of an earlier attempt changes no row.
    ///
    /// # Errors
    /// The report is not about the leased candidate, which counts as a fault of the worker; or the
    /// database fails.
    pub async fn report(
        &self,
        job: JobId,
        report: &Report,
        now: DateTime<Utc>,
    ) -> Result<Receipt, StoreError> {
        let id = self.draw(|rng| EvaluationId::generate(now, rng));
        let mut tx = self.begin().await?;
        let row: Option<ReportedRow> = query_as(
            "SELECT j.worker, j.run, j.candidate, j.stage, j.champion, c.digest, c.launches, t.version, \
             t.content AS task_content, b.digest AS baseline, w.device, w.device_name, w.toolchain FROM jobs j \
             JOIN candidates c ON c.id = j.candidate JOIN runs r ON r.id = j.run \
             JOIN tasks t ON t.content = r.task_content \
             LEFT JOIN candidates b ON b.run = j.run AND b.ordinal = 0 \
             LEFT JOIN workers w ON w.id = j.worker \
             WHERE j.id = $1 AND j.attempt = $2 AND j.state = 'leased'",
        )
        .bind(job.uuid())
        .bind(report.attempt)
        .fetch_optional(&mut *tx)
        .await
        .context("find a lease")?;
        let Some(row) = row else {
            return Ok(Receipt::Superseded);
        };
        let held = HeldLease {
            job,
            run: RunId::from(row.run),
            candidate: CandidateId::from(row.candidate),
            stage: RowRef::new("jobs", job).stage(&row.stage, row.champion)?,
        };
        let worker = row.worker.map(WorkerId::from);
        if let Some(admission) = &report.admission {
            record_admission(&mut tx, &row, admission, now);
        }
        let evaluation = match &report.outcome {
            ReportOutcome::Evaluated { evaluation } => evaluation,
            ReportOutcome::Faulted { message } => {
                let fault = LeaseEnd::Fault {
                    worker,
                    reason: message.clone(),
                };
                faults::give_back(&mut tx, &held, fault, now).await?;
                self.commit(tx).await?;
                return Ok(Receipt::Accepted);
            }
            ReportOutcome::Declined { message } => {
                let reason = message.clone();
                let end = match worker {
                    Some(worker) => LeaseEnd::Declined { worker, reason },
                    None => LeaseEnd::Fault { worker, reason },
                };
                faults::give_back(&mut tx, &held, end, now).await?;
                self.commit(tx).await?;
                return Ok(Receipt::Accepted);
            }
            ReportOutcome::Refused { message } => {
                faults::refuse(&mut tx, &held, message, now).await?;
                self.commit(tx).await?;
                return Ok(Receipt::Accepted);
            }
            ReportOutcome::HandedBack => {
                faults::give_back(&mut tx, &held, LeaseEnd::HandBack, now).await?;
                self.commit(tx).await?;
                return Ok(Receipt::Accepted);
            }
        };
        let speedup = match self.read_speedup(&mut tx, &held, &row, evaluation).await {
            Ok(speedup) => speedup,
            Err(ReportError::Store(error)) => return Err(error),
            Err(ReportError::Unusable(what)) => {
                let fault = LeaseEnd::Fault {
                    worker,
                    reason: what.clone(),
                };
                faults::give_back(&mut tx, &held, fault, now).await?;
                self.commit(tx).await?;
                return Err(StoreError::Mismatch { job, what });
            }
        };
        query("UPDATE jobs SET state = 'done', deadline = NULL WHERE id = $1")
            .bind(job.uuid())
            .defer(&mut tx);
        if let Some(worker) = worker {
            workers::clear_faults(&mut tx, worker);
        }
        if held.stage == EvaluationStage::Baseline && speedup.is_some() {
            pin_device(&mut tx, held.run, evaluation).await?;
        }
        let judgement = Judgement {
            id,
            run: held.run,
            candidate: held.candidate,
            job: Some((job, report.attempt, worker)),
            evaluation,
            speedup,
            launches: row
                .launches
                .as_ref()
                .map(|digest| digest.parse())
                .transpose()
                .map_err(|error: domain::digest::DigestError| {
                    RowRef::new("candidates", held.candidate).wrong("launches", error)
                })?,
            conditions: row.conditions()?,
            reused_from: None,
        };
        judgements::record(&mut tx, &judgement, now).await?;
        // The baseline opens the run, and a confirmation moves its promotion on.
        let scope = match held.stage {
            EvaluationStage::Search => CommitScope::Run(held.run),
            _ => CommitScope::Anything,
        };
        self.commit_change(tx, scope).await?;
        Ok(Receipt::Accepted)
    }

    /// Checks that an evaluation belongs to the leased candidate. Returns its speedup over the baseline
    /// if it was accepted.
    async fn read_speedup(
        &self,
        tx: &mut Connection,
        held: &HeldLease,
        row: &ReportedRow,
        evaluation: &Evaluation,
    ) -> Result<Option<f64>, ReportError> {
        let version: Digest =
            row.version
                .parse()
                .map_err(|error: domain::digest::DigestError| {
                    RowRef::new("tasks", held.run).wrong("version", error)
                })?;
        let reported = evaluation.candidate_digest.map(|digest| digest.to_string());
        let accepted = evaluation.verdict.acceptance();
        if evaluation.evaluator != EVALUATOR_VERSION {
            let found = evaluation.evaluator;
            return Err(ReportError::Unusable(format!(
                "it speaks version {found} of the protocol"
            )));
        }
        if evaluation.stage != held.stage {
            return Err(ReportError::unusable("it answers another stage"));
        }
        if evaluation.task_version != version {
            return Err(ReportError::unusable(
                "it is about another version of the task",
            ));
        }
        if reported != row.digest && (reported.is_some() || accepted.is_some()) {
            return Err(ReportError::unusable(
                "it is about another candidate's code",
            ));
        }
        let Some(acceptance) = accepted else {
            return Ok(None);
        };
        if evaluation.device.is_none() {
            return Err(ReportError::unusable("it accepts without naming a device"));
        }
        let cases = acceptance.timing.cases();
        if cases.is_empty() || !cases.iter().all(|time| is_valid_time(time.us)) {
            return Err(ReportError::unusable(
                "it accepts without a positive time for each case",
            ));
        }
        if held.stage == EvaluationStage::Baseline {
            return Ok(Some(1.0));
        }
        if !acceptance.timing.is_modelled() {
            // Times measured on another day, or by another worker, are not compared.
            let ratio = evaluation
                .measurement
                .as_ref()
                .map(|found| found.anchor.ratio);
            return ratio
                .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
                .map(Some)
                .ok_or_else(|| ReportError::unusable("it was not timed beside the baseline"));
        }
        let baseline = match judgements::baseline(tx, held.run).await? {
            Some(baseline) => self.incumbent(tx, baseline).await?,
            None => None,
        };
        baseline
            .and_then(|baseline| acceptance.timing.speedup_over(&baseline.timing))
            .map(Some)
            .ok_or_else(|| {
                ReportError::unusable(
                    "its times cannot be compared with the baseline's: another device, model or set \
                     of cases",
                )
            })
    }
}

/// Keeps the admission that a worker decided. One of another task is not kept: a task without a report says
/// less than one with a wrong report.
fn record_admission(
    tx: &mut Connection,
    row: &ReportedRow,
    admission: &Admission,
    now: DateTime<Utc>,
) {
    if let (Some(device), Some(toolchain)) = (&row.device_name, &row.toolchain)
        && admission.version.to_string() == row.version
    {
        admissions::record(tx, &row.task_content, device, toolchain, admission, now);
    }
}

/// Records the device of the baseline, because all times of a run come from one kind of device.
async fn pin_device(
    tx: &mut Connection,
    run: RunId,
    evaluation: &Evaluation,
) -> Result<(), StoreError> {
    let name = evaluation
        .device
        .as_ref()
        .map(|device| device.name.as_str());
    query("UPDATE runs SET device = COALESCE(device, $2) WHERE id = $1")
        .bind(run.uuid())
        .bind(name)
        .execute(tx)
        .await
        .context("record the run's device")?;
    Ok(())
}
