//! Promotions: the confirmation of a champion, its commit, and later re-checks. The rows record
//! what happened; the engine runs git.

mod list;

use std::collections::BTreeMap;

use crate::sql::{Flag, query, query_as, query_scalar};
use chrono::{DateTime, Utc};
use domain::api::{
    ChampionCheck, EventKind, PromotionState, PromotionTarget, PromotionView, RunState, WebhookKind,
};
use domain::evaluation::{Evaluation, EvaluationStage};
use domain::id::{CandidateId, JobId, PromotionId, RunId};
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::{RowRef, micros};
use crate::texts::{self, TextId};
use crate::{Connection, Store, StoreError, events, jobs, runs, webhooks};

/// A promotion that waits for the engine: its confirmation or re-check has ended.
#[derive(Debug, Clone)]
pub struct OutstandingPromotion {
    /// The promotion as clients see it.
    pub view: PromotionView,
    /// The run.
    pub run: RunId,
    /// The repository and path that the winner is committed to.
    pub target: PromotionTarget,
    /// The winner's commit, if there is one. Then it was a re-check that ended.
    pub committed: Option<Committed>,
    /// The commit that the service left at the branch's tip, if it has made any.
    pub expected_tip: Option<String>,
    /// The outcome of the confirmation or re-check.
    pub outcome: ConfirmationOutcome,
}

/// A winner's commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Committed {
    /// The commit.
    pub commit: String,
    /// Baseline's time over the winner's, as confirmed for the commit.
    pub speedup: f64,
    /// Identity of the device that this was found on; none in records of older programs.
    pub device_uuid: Option<String>,
}

/// The outcome of a confirmation.
#[derive(Debug, Clone)]
pub enum ConfirmationOutcome {
    /// It ended with a verdict.
    Evaluated {
        /// The verdict with its evidence.
        evaluation: Box<Evaluation>,
        /// Baseline's time over the candidate's, if it was accepted.
        speedup: Option<f64>,
        /// The number of the candidate's earlier confirmations.
        round: u32,
    },
    /// It ended without a verdict, because of too many faults.
    GivenUp {
        /// The last fault.
        message: String,
    },
}

#[derive(sqlx::FromRow)]
struct PromotionRow {
    id: Uuid,
    run: Uuid,
    candidate: Uuid,
    repository: String,
    branch: String,
    state: String,
    state_detail: String,
    commit_id: Option<String>,
    revert_id: Option<String>,
    speedup: Option<f64>,
    device_uuid: Option<String>,
}

#[derive(sqlx::FromRow)]
struct CheckRow {
    id: Uuid,
    created_at: i64,
    device_name: String,
    device_uuid: String,
    stage: String,
    #[sqlx(try_from = "Flag")]
    champion: bool,
    verdict: String,
    speedup: Option<f64>,
    #[sqlx(try_from = "Flag")]
    modelled: bool,
}

impl PromotionRow {
    /// The promotion with the last outcome of each device that checked its champion.
    async fn view(self, connection: &mut Connection) -> Result<PromotionView, StoreError> {
        let id = PromotionId::from(self.id);
        let row_ref = RowRef::new("promotions", id);
        let rows: Vec<CheckRow> = query_as(
            "SELECT e.id, e.created_at, w.device_name, w.device_uuid, e.stage, j.champion, \
             e.verdict, e.speedup, e.modelled FROM evaluations e JOIN jobs j ON j.id = e.job \
             JOIN workers w ON w.id = e.worker WHERE e.candidate = $1 \
             AND e.stage = 'confirmation' ORDER BY e.created_at DESC, e.id DESC",
        )
        .bind(self.candidate)
        .fetch_all(&mut *connection)
        .await
        .context("read what devices said of a champion")?;
        let mut checks: Vec<ChampionCheck> = Vec::new();
        for row in rows {
            let told = |check: &ChampionCheck| check.device_uuid == row.device_uuid;
            if checks.iter().any(told) {
                continue;
            }
            let row_ref = RowRef::new("evaluations", row.id);
            checks.push(ChampionCheck {
                at: row_ref.time("created_at", row.created_at)?,
                stage: row_ref.stage(&row.stage, row.champion)?,
                verdict: row_ref.word("verdict", &row.verdict)?,
                device: row.device_name,
                device_uuid: row.device_uuid,
                speedup: row.speedup,
                modelled: row.modelled,
            });
        }
        let state = row_ref.promotion_state(
            &self.state,
            &self.state_detail,
            self.commit_id,
            self.revert_id,
        )?;
        let waits = match state {
            PromotionState::Confirming => {
                waits(&runs::state_of(connection, RunId::from(self.run)).await?)
            }
            _ => None,
        };
        Ok(PromotionView {
            id,
            candidate: CandidateId::from(self.candidate),
            repository: self.repository,
            branch: self.branch,
            state,
            waits,
            checks,
        })
    }
}

/// The reason why a confirmation of a run in this state waits, if it does: no worker gets its job.
fn waits(state: &RunState) -> Option<String> {
    match state {
        RunState::Paused { reason } => Some(format!(
            "the run is paused ({reason}); the confirmation begins when the run is resumed"
        )),
        _ => None,
    }
}

impl Store {
    /// Begins to promote a candidate: queues its confirmation. While the run has a promotion
    /// that is under way, or had one of this candidate, this changes nothing.
    ///
    /// # Errors
    /// The run is unknown or over, or the database fails.
    pub async fn begin_promotion(
        &self,
        run: RunId,
        candidate: CandidateId,
        branch: &str,
        now: DateTime<Utc>,
    ) -> Result<PromotionView, StoreError> {
        let ids = self.draw(|rng| (PromotionId::generate(now, rng), JobId::generate(now, rng)));
        let mut tx = self.begin().await?;
        runs::open_state_of(&mut tx, run, "promote a candidate of").await?;
        let known: Option<Uuid> = query_scalar(
            "SELECT id FROM promotions WHERE run = $1 AND (candidate = $2 \
                 OR state IN ('confirming', 'blocked')) ORDER BY id DESC LIMIT 1",
        )
        .bind(run.uuid())
        .bind(candidate.uuid())
        .fetch_optional(&mut *tx)
        .await
        .context("look for the promotion")?;
        if let Some(known) = known {
            return view(&mut tx, PromotionId::from(known)).await;
        }
        let view = begin(&mut tx, run, candidate, branch, ids, now).await?;
        self.commit(tx).await?;
        Ok(view)
    }

    /// Queues a re-check of the run's committed champion, the most thorough evaluation. Changes
    /// nothing while a re-check is under way.
    ///
    /// # Errors
    /// The run is unknown or has no committed champion, or the database fails.
    pub async fn begin_recheck(
        &self,
        run: RunId,
        now: DateTime<Utc>,
    ) -> Result<PromotionView, StoreError> {
        let job = self.draw(|rng| JobId::generate(now, rng));
        let mut tx = self.begin().await?;
        let state = runs::state_of(&mut tx, run).await?;
        let committed: Option<(Uuid, Uuid, Option<Uuid>)> = query_as(
            "SELECT id, candidate, job FROM promotions WHERE run = $1 AND state = 'committed' \
             ORDER BY created_at DESC LIMIT 1",
        )
        .bind(run.uuid())
        .fetch_optional(&mut *tx)
        .await
        .context("find the committed champion")?;
        let may = matches!(state, RunState::Running | RunState::Completed { .. });
        let Some((promotion, candidate, underway)) = committed.filter(|_| may) else {
            return Err(StoreError::WrongState {
                run,
                state: format!("{state}, with no committed champion whose jobs may run"),
                wanted: "re-check the champion of",
            });
        };
        if underway.is_none() {
            let candidate = CandidateId::from(candidate);
            let stage = EvaluationStage::Champion;
            jobs::enqueue(&mut tx, job, run, candidate, stage, now);
            query("UPDATE promotions SET job = $2, updated_at = $3 WHERE id = $1")
                .bind(promotion)
                .bind(job.uuid())
                .bind(micros(now))
                .execute(&mut *tx)
                .await
                .context("record a re-check")?;
        }
        let view = view(&mut tx, PromotionId::from(promotion)).await?;
        self.commit(tx).await?;
        Ok(view)
    }

    /// Runs whose committed champion was last checked before `before`. A champion that a later run
    /// of the same task on the same kind of device has replaced is not checked again.
    ///
    /// # Errors
    /// The database fails.
    pub async fn due_rechecks(&self, before: DateTime<Utc>) -> Result<Vec<RunId>, StoreError> {
        let due: Vec<Uuid> = query_scalar(
            "SELECT p.run FROM promotions p JOIN runs r ON r.id = p.run \
             JOIN tasks t ON t.content = r.task_content WHERE p.state = 'committed' \
             AND p.job IS NULL AND p.updated_at <= $1 AND r.state IN ('running', 'completed') \
             AND NOT EXISTS (SELECT 1 FROM promotions q JOIN runs s ON s.id = q.run \
             JOIN tasks u ON u.content = s.task_content WHERE q.state = 'committed' \
             AND q.created_at > p.created_at AND u.name = t.name AND s.device = r.device) \
             ORDER BY p.updated_at, p.id",
        )
        .bind(micros(before))
        .fetch_all(&self.read)
        .await
        .context("find champions to look at again")?;
        Ok(due.into_iter().map(RunId::from).collect())
    }

    /// Promotions whose confirmation or re-check has ended and was not acted on yet.
    ///
    /// # Errors
    /// The database fails.
    pub async fn outstanding_promotions(&self) -> Result<Vec<OutstandingPromotion>, StoreError> {
        let mut view = self.view().await?;
        let rows: Vec<PromotionRow> = query_as(
            "SELECT p.id, p.run, p.candidate, p.repository, p.branch, p.state, p.state_detail, \
             p.commit_id, p.revert_id, p.speedup, p.device_uuid FROM promotions p JOIN jobs j ON j.id = p.job \
             JOIN runs r ON r.id = p.run WHERE j.state IN ('done', 'parked') \
             AND p.state IN ('confirming', 'committed') AND r.state <> 'paused' ORDER BY p.id",
        )
        .fetch_all(&mut *view)
        .await
        .context("list the open promotions")?;
        let mut outstanding = Vec::with_capacity(rows.len());
        for row in rows {
            let run = RunId::from(row.run);
            let committed = row
                .commit_id
                .clone()
                .zip(row.speedup)
                .map(|(commit, speedup)| Committed {
                    commit,
                    speedup,
                    device_uuid: row.device_uuid.clone(),
                });
            let promotion = row.view(&mut view).await?;
            outstanding.push(OutstandingPromotion {
                run,
                target: target(&mut view, run).await?,
                committed,
                expected_tip: expected_tip(&mut view, run).await?,
                outcome: outcome(&mut view, promotion.id).await?,
                view: promotion,
            });
        }
        Ok(outstanding)
    }

    /// Records the winner's commit with the speedup that its confirmation found.
    ///
    /// # Errors
    /// The database fails.
    pub async fn commit_promotion(
        &self,
        run: RunId,
        promotion: PromotionId,
        committed: &Committed,
        now: DateTime<Utc>,
    ) -> Result<PromotionView, StoreError> {
        let mut tx = self.begin().await?;
        let state = PromotionState::Committed {
            commit: committed.commit.clone(),
        };
        set_state(&mut tx, promotion, &state, now).await?;
        query("UPDATE promotions SET job = NULL, speedup = $2, device_uuid = $3 WHERE id = $1")
            .bind(promotion.uuid())
            .bind(committed.speedup)
            .bind(&committed.device_uuid)
            .execute(&mut *tx)
            .await
            .context("record a commit")?;
        query("UPDATE runs SET unpromoted = NULL WHERE id = $1")
            .bind(run.uuid())
            .execute(&mut *tx)
            .await
            .context("record a commit")?;
        let view = record_state(&mut tx, run, promotion, now).await?;
        let kind = WebhookKind::WinnerPromoted;
        webhooks::announce_winner(&mut tx, run, promotion, kind, now).await?;
        self.commit(tx).await?;
        Ok(view)
    }

    /// Records the outcome of a promotion or of its re-check, which is then no longer outstanding.
    ///
    /// # Errors
    /// The database fails.
    pub async fn settle_promotion(
        &self,
        run: RunId,
        promotion: PromotionId,
        state: &PromotionState,
        now: DateTime<Utc>,
    ) -> Result<PromotionView, StoreError> {
        let mut tx = self.begin().await?;
        set_state(&mut tx, promotion, state, now).await?;
        // A blocked promotion keeps its confirmation for when someone has fixed the repository.
        if !matches!(state, PromotionState::Blocked { .. }) {
            query("UPDATE promotions SET job = NULL WHERE id = $1")
                .bind(promotion.uuid())
                .execute(&mut *tx)
                .await
                .context("settle a promotion")?;
        }
        let view = record_state(&mut tx, run, promotion, now).await?;
        if matches!(state, PromotionState::Reverted { .. }) {
            let kind = WebhookKind::WinnerReverted;
            webhooks::announce_winner(&mut tx, run, promotion, kind, now).await?;
        }
        if let PromotionState::Blocked { reason } = state
            && !runs::state_of(&mut tx, run).await?.is_over()
        {
            let paused = RunState::Paused {
                reason: reason.clone(),
            };
            runs::set_state(&mut tx, run, &paused, now).await?;
        }
        self.commit(tx).await?;
        Ok(view)
    }
}

/// Queues the confirmation of a candidate and records its promotion.
pub(crate) async fn begin(
    tx: &mut Connection,
    run: RunId,
    candidate: CandidateId,
    branch: &str,
    (id, job): (PromotionId, JobId),
    now: DateTime<Utc>,
) -> Result<PromotionView, StoreError> {
    let target = target(tx, run).await?;
    let stage = EvaluationStage::Confirmation;
    jobs::enqueue(tx, job, run, candidate, stage, now);
    query(
        "INSERT INTO promotions (id, run, candidate, repository, branch, state, job, \
         created_at, updated_at) VALUES ($1, $2, $3, $4, $5, 'confirming', $6, $7, $7)",
    )
    .bind(id.uuid())
    .bind(run.uuid())
    .bind(candidate.uuid())
    .bind(target.repository)
    .bind(branch)
    .bind(job.uuid())
    .bind(micros(now))
    .execute(&mut *tx)
    .await
    .context("record a promotion")?;
    record_state(tx, run, id, now).await
}

/// Retries the blocked promotions of a run, with a new confirmation where the last one ended
/// without a verdict.
pub(crate) async fn unblock(
    tx: &mut Connection,
    run: RunId,
    job: JobId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let blocked: Option<(Uuid, Uuid, Option<String>)> = query_as(
        "SELECT p.id, p.candidate, j.state FROM promotions p LEFT JOIN jobs j ON j.id = p.job \
         WHERE p.run = $1 AND p.state = 'blocked' ORDER BY p.created_at DESC LIMIT 1",
    )
    .bind(run.uuid())
    .fetch_optional(&mut *tx)
    .await
    .context("find the blocked promotion")?;
    let Some((promotion, candidate, confirmation)) = blocked else {
        return Ok(());
    };
    if confirmation.as_deref() != Some("done") {
        let candidate = CandidateId::from(candidate);
        let stage = EvaluationStage::Confirmation;
        jobs::enqueue(tx, job, run, candidate, stage, now);
        query("UPDATE promotions SET job = $2 WHERE id = $1")
            .bind(promotion)
            .bind(job.uuid())
            .execute(&mut *tx)
            .await
            .context("confirm a champion again")?;
    }
    let promotion = PromotionId::from(promotion);
    set_state(tx, promotion, &PromotionState::Confirming, now).await?;
    record_state(tx, run, promotion, now).await.map(drop)
}

/// Refuses the promotions of a run that are not committed, because the run ends.
pub(crate) async fn refuse_open(
    tx: &mut Connection,
    run: RunId,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let open: Vec<Uuid> = query_scalar(
        "SELECT id FROM promotions WHERE run = $1 AND state IN ('confirming', 'blocked')",
    )
    .bind(run.uuid())
    .fetch_all(&mut *tx)
    .await
    .context("find the open promotions")?;
    for promotion in open {
        let promotion = PromotionId::from(promotion);
        let refused = PromotionState::Refused {
            reason: reason.to_owned(),
        };
        set_state(tx, promotion, &refused, now).await?;
        record_state(tx, run, promotion, now).await?;
    }
    Ok(())
}

#[derive(sqlx::FromRow)]
struct StateRow {
    id: Uuid,
    candidate: Uuid,
    state: String,
    state_detail: String,
    commit_id: Option<String>,
    revert_id: Option<String>,
}

/// The state of the newest promotion of each candidate of the run that had one.
pub(crate) async fn states(
    connection: &mut Connection,
    run: RunId,
) -> Result<BTreeMap<CandidateId, PromotionState>, StoreError> {
    let rows: Vec<StateRow> = query_as(
        "SELECT id, candidate, state, state_detail, commit_id, revert_id FROM promotions \
         WHERE run = $1 ORDER BY created_at, id",
    )
    .bind(run.uuid())
    .fetch_all(connection)
    .await
    .context("read the states of the promotions")?;
    rows.into_iter()
        .map(|row| {
            let row_ref = RowRef::new("promotions", PromotionId::from(row.id));
            let (state, detail) = (&row.state, &row.state_detail);
            let state = row_ref.promotion_state(state, detail, row.commit_id, row.revert_id)?;
            Ok((CandidateId::from(row.candidate), state))
        })
        .collect()
}

/// The run's newest promotion.
pub(crate) async fn newest(
    connection: &mut Connection,
    run: RunId,
) -> Result<Option<PromotionView>, StoreError> {
    let row: Option<PromotionRow> = query_as(
        "SELECT id, run, candidate, repository, branch, state, state_detail, commit_id, revert_id, \
         speedup, device_uuid FROM promotions WHERE run = $1 \
         ORDER BY created_at DESC, id DESC LIMIT 1",
    )
    .bind(run.uuid())
    .fetch_optional(&mut *connection)
    .await
    .context("read a promotion")?;
    match row {
        Some(row) => row.view(connection).await.map(Some),
        None => Ok(None),
    }
}

async fn view(
    connection: &mut Connection,
    promotion: PromotionId,
) -> Result<PromotionView, StoreError> {
    let row: PromotionRow = query_as(
        "SELECT id, run, candidate, repository, branch, state, state_detail, commit_id, revert_id, \
         speedup, device_uuid FROM promotions WHERE id = $1",
    )
    .bind(promotion.uuid())
    .fetch_one(&mut *connection)
    .await
    .context("read a promotion")?;
    row.view(connection).await
}

async fn record_state(
    tx: &mut Connection,
    run: RunId,
    promotion: PromotionId,
    now: DateTime<Utc>,
) -> Result<PromotionView, StoreError> {
    let view = view(tx, promotion).await?;
    let moved = EventKind::Promotion {
        promotion: view.clone(),
    };
    events::record(tx, run, &moved, now);
    Ok(view)
}

async fn set_state(
    tx: &mut Connection,
    promotion: PromotionId,
    state: &PromotionState,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let (word, detail, commit, revert) = match state {
        PromotionState::Confirming => ("confirming", "", None, None),
        PromotionState::Committed { commit } => ("committed", "", Some(commit), None),
        PromotionState::Reverted { commit, reason } => {
            ("reverted", reason.as_str(), None, Some(commit))
        }
        PromotionState::Refused { reason } => ("refused", reason.as_str(), None, None),
        PromotionState::Blocked { reason } => ("blocked", reason.as_str(), None, None),
    };
    query(
        "UPDATE promotions SET state = $2, state_detail = $3, \
         commit_id = COALESCE($4, commit_id), revert_id = COALESCE($5, revert_id), \
         updated_at = $6 WHERE id = $1",
    )
    .bind(promotion.uuid())
    .bind(word)
    .bind(detail)
    .bind(commit)
    .bind(revert)
    .bind(micros(now))
    .execute(tx)
    .await
    .context("change a promotion's state")?;
    Ok(())
}

/// Reads the run's promotion target.
pub(crate) async fn target(
    connection: &mut Connection,
    run: RunId,
) -> Result<PromotionTarget, StoreError> {
    let target: String = query_scalar("SELECT promotion_target FROM runs WHERE id = $1")
        .bind(run.uuid())
        .fetch_one(connection)
        .await
        .context("read the promotion target")?;
    RowRef::new("runs", run).json("promotion_target", &target)
}

/// The last commit that the service recorded on the run's branch.
async fn expected_tip(
    connection: &mut Connection,
    run: RunId,
) -> Result<Option<String>, StoreError> {
    let tip: Option<String> = query_scalar(
        "SELECT COALESCE(revert_id, commit_id) FROM promotions \
         WHERE run = $1 AND commit_id IS NOT NULL ORDER BY updated_at DESC, id DESC LIMIT 1",
    )
    .bind(run.uuid())
    .fetch_optional(connection)
    .await
    .context("find the branch's last commit")?;
    Ok(tip)
}

async fn outcome(
    connection: &mut Connection,
    promotion: PromotionId,
) -> Result<ConfirmationOutcome, StoreError> {
    let (round, message, evidence, speedup): (i64, String, Option<TextId>, Option<f64>) = query_as(
        "SELECT j.round, j.last_error, e.evidence_text, e.speedup FROM promotions p \
             JOIN jobs j ON j.id = p.job LEFT JOIN evaluations e ON e.job = j.id WHERE p.id = $1",
    )
    .bind(promotion.uuid())
    .fetch_one(&mut *connection)
    .await
    .context("read a confirmation")?;
    let evidence = texts::get_optional(connection, evidence).await?;
    let row_ref = RowRef::new("evaluations", format!("of promotion {promotion}"));
    Ok(match evidence {
        Some(evidence) => ConfirmationOutcome::Evaluated {
            evaluation: row_ref.json("evidence", &evidence)?,
            speedup,
            round: row_ref.number("round", round)?,
        },
        None => ConfirmationOutcome::GivenUp { message },
    })
}
