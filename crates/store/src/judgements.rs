//! The record of an evaluation: the verdict with its evidence, the columns that lists show, and the
//! events.

use crate::sql::{query, query_as, query_scalar};
use chrono::{DateTime, Utc};
use domain::api::EventKind;
use domain::brief::describe_verdict;
use domain::candidate::Idea;
use domain::digest::Digest;
use domain::evaluation::{Evaluation, GateOutcome};
use domain::id::{CandidateId, EvaluationId, InsightId, JobId, RunId, WorkerId};
use domain::task::{Enforce, GateSubject};
use domain::timing::Timing;
use domain::verdict::VerdictKind;
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::{RowRef, json, micros, stage_word, word};
use crate::texts::{self, TextId};
use crate::{Connection, Store, StoreError, events, failures, same_code, workers};

/// An evaluation to record.
pub(crate) struct Judgement<'a> {
    pub(crate) id: EvaluationId,
    pub(crate) run: RunId,
    pub(crate) candidate: CandidateId,
    /// The job with its attempt and worker; none if no worker was needed.
    pub(crate) job: Option<(JobId, i64, Option<WorkerId>)>,
    pub(crate) evaluation: &'a Evaluation,
    /// Baseline's time over the candidate's, if it was accepted.
    pub(crate) speedup: Option<f64>,
    /// The digest of the candidate's launches, if it has a plan.
    pub(crate) launches: Option<Digest>,
    /// The digest of the conditions under which a worker evaluated it.
    pub(crate) conditions: Option<Digest>,
    /// The candidate of another run whose evaluation this is.
    pub(crate) reused_from: Option<CandidateId>,
}

/// Records an evaluation, and for all but confirmations what follows from it for the candidate.
pub(crate) async fn record(
    tx: &mut Connection,
    judgement: &Judgement<'_>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let evaluation = judgement.evaluation;
    let timing = evaluation
        .verdict
        .acceptance()
        .map(|acceptance| &acceptance.timing);
    let mut unmet_gates: Vec<GateSubject> = Vec::new();
    let mut unmet_phases: Vec<&str> = Vec::new();
    // An advisory gate is shown with the evidence and holds nothing back.
    let binding = |gate: &&GateOutcome| !gate.met && gate.enforce != Enforce::Advise;
    for gate in evaluation.gates.iter().filter(binding) {
        unmet_gates.push(gate.subject);
        unmet_phases.extend(gate.phase.as_deref());
    }
    unmet_gates.sort_unstable();
    unmet_gates.dedup();
    unmet_phases.sort_unstable();
    unmet_phases.dedup();
    let (job, attempt, worker) = match judgement.job {
        Some((job, attempt, worker)) => (Some(job.uuid()), attempt, worker.map(WorkerId::uuid)),
        None => (None, 0, None),
    };
    // The other run was charged, and its control counts there.
    let (device_us, control) = match judgement.reused_from {
        Some(_) => (0, None),
        None => (device_us(evaluation), control(evaluation)),
    };
    let base = baseline_evidence(tx, judgement.run).await?;
    let evidence = texts::put(tx, &json(evaluation), base.as_slice()).await?;
    query(
        "INSERT INTO evaluations (id, run, candidate, job, stage, worker, attempt, evidence_text, \
         verdict, summary, line, speedup, time_us, modelled, promotable, unmet_gates, \
         unmet_phases, created_at, device_us, control, bundle, image, conditions, reused_from, \
         floor_share, bound) VALUES \
         ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, \
         $22, $23, $24, $25, $26)",
    )
    .bind(judgement.id.uuid())
    .bind(judgement.run.uuid())
    .bind(judgement.candidate.uuid())
    .bind(job)
    .bind(stage_word(evaluation.stage))
    .bind(worker)
    .bind(attempt)
    .bind(evidence)
    .bind(evaluation.verdict.kind().as_str())
    .bind(evaluation.verdict.to_string())
    .bind(evaluation.verdict.line().map(i64::from))
    .bind(judgement.speedup)
    .bind(timing.map(Timing::geomean_us))
    .bind(i64::from(timing.is_some_and(Timing::is_modelled)))
    .bind(i64::from(evaluation.promotable()))
    .bind(json(&unmet_gates))
    .bind(json(&unmet_phases))
    .bind(micros(now))
    .bind(device_us)
    .bind(control)
    .bind(evaluation.evidence.map(|bundle| bundle.to_string()))
    .bind(evaluation.image_digest.map(|image| image.to_string()))
    .bind(judgement.conditions.map(|digest| digest.to_string()))
    .bind(judgement.reused_from.map(CandidateId::uuid))
    .bind(evaluation.floor_share())
    .bind(evaluation.bounding_resource().map(|bound| word(&bound)))
    .defer(tx);
    query("UPDATE runs SET device_us = device_us + $2 WHERE id = $1")
        .bind(judgement.run.uuid())
        .bind(device_us)
        .defer(tx);
    if let Some(worker) = judgement.job.and_then(|(.., worker)| worker) {
        workers::record_device_time(tx, worker, judgement.run, device_us, now);
        if let Some(measurement) = &evaluation.measurement {
            workers::record_conditions(tx, worker, &measurement.watched, now);
        }
    }
    if evaluation.stage.decides_promotion() {
        return announce_again(tx, judgement, now).await;
    }
    if let (Some(image), Some(launches)) = (evaluation.image_digest, judgement.launches) {
        same_code::record_compiled(tx, judgement.run, judgement.candidate, image, launches);
    }
    failures::record(tx, judgement.run, judgement.candidate, evaluation, now);
    announce(tx, judgement, now).await
}

/// The result of the control after the comparison, as its column has it.
fn control(evaluation: &Evaluation) -> Option<String> {
    let control = evaluation.measurement.as_ref()?.control.as_ref()?;
    Some(word(&control.result()))
}

/// The microseconds that the device was occupied: all stages but compilation, which needs no device.
fn device_us(evaluation: &Evaluation) -> i64 {
    let occupied = evaluation
        .stages
        .iter()
        .filter(|stage| stage.stage != "compile")
        .map(|stage| stage.milliseconds)
        .sum::<f64>();
    (occupied * 1000.0).round() as i64
}

/// Tells the outcome of an evaluation that someone asked for again. That of a promotion is told by the
/// promotion.
async fn announce_again(
    tx: &mut Connection,
    judgement: &Judgement<'_>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let ordinal: Option<i64> = query_scalar(
        "SELECT ordinal FROM candidates WHERE id = $1 \
         AND NOT EXISTS (SELECT 1 FROM promotions WHERE job = $2)",
    )
    .bind(judgement.candidate.uuid())
    .bind(judgement.job.map(|(job, ..)| job.uuid()))
    .fetch_optional(&mut *tx)
    .await
    .context("look for the promotion of an evaluation")?;
    let Some(ordinal) = ordinal else {
        return Ok(());
    };
    let verdict = &judgement.evaluation.verdict;
    let again = EventKind::Reevaluated {
        candidate: judgement.candidate,
        ordinal: RowRef::new("candidates", judgement.candidate).number("ordinal", ordinal)?,
        verdict: verdict.kind(),
        summary: verdict.to_string(),
        speedup: judgement.speedup,
    };
    events::record(tx, judgement.run, &again, now);
    Ok(())
}

/// A candidate that gets a verdict.
#[derive(sqlx::FromRow)]
struct JudgedRow {
    id: Uuid,
    ordinal: i64,
    title: String,
    idea: Option<String>,
    trial: i64,
}

/// The result of an evaluation, as candidates and events carry it.
struct JudgedResult {
    verdict: VerdictKind,
    summary: String,
    speedup: Option<f64>,
}

/// Tells that a candidate, and every duplicate of it, has its verdict.
async fn announce(
    tx: &mut Connection,
    judgement: &Judgement<'_>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let Judgement { run, candidate, .. } = *judgement;
    let judged: Vec<JudgedRow> = query_as(
        "SELECT id, ordinal, title, idea, trial FROM candidates WHERE id = $1 \
         UNION ALL SELECT * FROM (SELECT id, ordinal, title, idea, trial FROM candidates \
         WHERE duplicate_of = $1 ORDER BY ordinal) AS duplicates",
    )
    .bind(candidate.uuid())
    .fetch_all(&mut *tx)
    .await
    .context("read a candidate and its duplicates")?;
    let best = best(tx, run).await?;
    let result = JudgedResult {
        verdict: judgement.evaluation.verdict.kind(),
        summary: judgement.evaluation.verdict.to_string(),
        speedup: judgement.speedup,
    };
    for row in judged {
        let is_best = row.id == candidate.uuid() && best == Some(candidate);
        record_judged(tx, run, row, &result, is_best, now)?;
    }
    Ok(())
}

/// Tells that a new duplicate has a verdict, if its original has.
pub(crate) async fn announce_duplicate(
    tx: &mut Connection,
    run: RunId,
    duplicate: CandidateId,
    original: CandidateId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let found: Option<(String, String, Option<f64>)> = query_as(
        "SELECT e.verdict, e.summary, e.speedup FROM evaluations e \
         JOIN candidates c ON c.id = e.candidate \
         WHERE c.id = $1 AND c.state = 'evaluated' AND e.stage <> 'confirmation'",
    )
    .bind(original.uuid())
    .fetch_optional(&mut *tx)
    .await
    .context("read the original's evaluation")?;
    let Some((verdict, summary, speedup)) = found else {
        return Ok(());
    };
    let row: JudgedRow =
        query_as("SELECT id, ordinal, title, idea, trial FROM candidates WHERE id = $1")
            .bind(duplicate.uuid())
            .fetch_one(&mut *tx)
            .await
            .context("read a candidate")?;
    let result = JudgedResult {
        verdict: RowRef::new("candidates", original).word("verdict", &verdict)?,
        summary,
        speedup,
    };
    record_judged(tx, run, row, &result, false, now)
}

fn record_judged(
    tx: &mut Connection,
    run: RunId,
    row: JudgedRow,
    result: &JudgedResult,
    best: bool,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let candidate = CandidateId::from(row.id);
    let JudgedResult {
        verdict,
        summary,
        speedup,
    } = result;
    query(
        "UPDATE candidates SET verdict = $2, speedup = $3, judged_at = $4, \
         state = CASE WHEN state = 'duplicate' THEN state ELSE 'evaluated' END WHERE id = $1",
    )
    .bind(candidate.uuid())
    .bind(verdict.as_str())
    .bind(*speedup)
    .bind(micros(now))
    .defer(tx);
    query(
        "INSERT INTO verdict_counts (run, verdict, candidates) VALUES ($1, $2, 1) \
         ON CONFLICT (run, verdict) DO UPDATE SET candidates = verdict_counts.candidates + 1",
    )
    .bind(run.uuid())
    .bind(verdict.as_str())
    .defer(tx);
    let row_ref = RowRef::new("candidates", candidate);
    let judged = EventKind::Judged {
        candidate,
        ordinal: row_ref.number("ordinal", row.ordinal)?,
        title: row.title,
        verdict: *verdict,
        summary: summary.clone(),
        speedup: *speedup,
        best,
    };
    events::record(tx, run, &judged, now);
    let Some(idea) = row.idea.filter(|_| row.trial == 1) else {
        return Ok(());
    };
    let idea: Idea = row_ref.json("idea", &idea)?;
    let outcome = match speedup {
        Some(speedup) => format!("{summary}, {speedup:.2} times the baseline's speed"),
        // Insights are shown to proposers, and the full sentence would reveal the tolerance.
        None => describe_verdict(*verdict).to_owned(),
    };
    // The id only has to be unique: the candidate's own is.
    let id = InsightId::from(candidate.uuid());
    query(
        "INSERT INTO insights (id, run, candidate, idea, outcome, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(id.uuid())
    .bind(run.uuid())
    .bind(candidate.uuid())
    .bind(idea.title)
    .bind(outcome)
    .bind(micros(now))
    .defer(tx);
    Ok(())
}

/// The fastest accepted candidate that repeats no other, is not banned and whose promotion was neither
/// refused nor taken back; the earliest of equals.
pub(crate) async fn best(
    connection: &mut Connection,
    run: RunId,
) -> Result<Option<CandidateId>, StoreError> {
    let id: Option<Uuid> = query_scalar(
        "SELECT c.id FROM evaluations e JOIN candidates c ON c.id = e.candidate \
         WHERE e.run = $1 AND e.stage <> 'confirmation' AND e.speedup IS NOT NULL \
         AND c.repeats IS NULL AND NOT EXISTS (SELECT 1 FROM promotions p \
         WHERE p.candidate = c.id AND p.state IN ('refused', 'reverted')) \
         AND NOT EXISTS (SELECT 1 FROM bans b WHERE b.run = $1 AND b.candidate = c.id) \
         ORDER BY e.speedup DESC, c.ordinal LIMIT 1",
    )
    .bind(run.uuid())
    .fetch_optional(connection)
    .await
    .context("find the best candidate")?;
    Ok(id.map(CandidateId::from))
}

/// The times a candidate was accepted with.
pub(crate) async fn timing(
    connection: &mut Connection,
    candidate: CandidateId,
) -> Result<Option<Timing>, StoreError> {
    let evaluation = accepted(connection, candidate).await?;
    Ok(evaluation.and_then(|evaluation| {
        let acceptance = evaluation.verdict.acceptance()?;
        Some(acceptance.timing.clone())
    }))
}

/// The evaluation by which the search accepted a candidate.
pub(crate) async fn accepted(
    connection: &mut Connection,
    candidate: CandidateId,
) -> Result<Option<Evaluation>, StoreError> {
    let evidence: Option<TextId> = query_scalar(
        "SELECT evidence_text FROM evaluations WHERE candidate = $1 \
         AND stage <> 'confirmation' AND verdict = 'accepted'",
    )
    .bind(candidate.uuid())
    .fetch_optional(&mut *connection)
    .await
    .context("read an evaluation")?;
    let Some(evidence) = evidence else {
        return Ok(None);
    };
    let evidence = texts::get(connection, evidence).await?;
    let evaluation = RowRef::new("evaluations", candidate).json("evidence", &evidence)?;
    Ok(Some(evaluation))
}

/// The evidence of the run's baseline, once it has been evaluated. The other evaluations of the run
/// repeat most of it.
async fn baseline_evidence(tx: &mut Connection, run: RunId) -> Result<Option<TextId>, StoreError> {
    query_scalar(
        "SELECT evidence_text FROM evaluations WHERE run = $1 AND stage = 'baseline' LIMIT 1",
    )
    .bind(run.uuid())
    .fetch_optional(tx)
    .await
    .context("find the baseline's evidence")
}

/// The run's generation 0, once it has been proposed.
pub(crate) async fn baseline(
    connection: &mut Connection,
    run: RunId,
) -> Result<Option<CandidateId>, StoreError> {
    let id: Option<Uuid> = query_scalar("SELECT id FROM candidates WHERE run = $1 AND ordinal = 0")
        .bind(run.uuid())
        .fetch_optional(connection)
        .await
        .context("find the baseline")?;
    Ok(id.map(CandidateId::from))
}

impl Store {
    /// The newest evaluation of a baseline on this version of a task, whichever run asked.
    ///
    /// # Errors
    /// The database fails.
    pub async fn newest_baseline(&self, version: Digest) -> Result<Option<Evaluation>, StoreError> {
        let mut view = self.view().await?;
        let evidence: Option<TextId> = query_scalar(
            "SELECT e.evidence_text FROM evaluations e JOIN runs r ON r.id = e.run \
             JOIN tasks t ON t.content = r.task_content \
             WHERE t.version = $1 AND e.stage = 'baseline' \
             ORDER BY e.created_at DESC, e.id DESC LIMIT 1",
        )
        .bind(version.to_string())
        .fetch_optional(&mut *view)
        .await
        .context("read the newest baseline")?;
        texts::get_optional(&mut view, evidence)
            .await?
            .map(|evidence| RowRef::new("evaluations", version).json("evidence", &evidence))
            .transpose()
    }

    /// The hypotheses of the run's candidates, each with its candidate and its outcome, oldest first;
    /// the newest `limit` of them.
    ///
    /// # Errors
    /// The database fails.
    pub async fn insights(
        &self,
        run: RunId,
        limit: u32,
    ) -> Result<Vec<(CandidateId, String, String)>, StoreError> {
        let newest: Vec<(Uuid, String, String)> = query_as(
            "SELECT i.candidate, i.idea, i.outcome FROM insights i JOIN candidates c ON c.id = i.candidate \
             WHERE i.run = $1 ORDER BY i.created_at DESC, c.ordinal DESC LIMIT $2",
        )
        .bind(run.uuid())
        .bind(i64::from(limit))
        .fetch_all(&self.read)
        .await
        .context("read the insights")?;
        let oldest_first = newest.into_iter().rev();
        Ok(oldest_first
            .map(|(candidate, idea, outcome)| (CandidateId::from(candidate), idea, outcome))
            .collect())
    }
}
