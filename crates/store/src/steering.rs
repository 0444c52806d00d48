//! Steering: the directions that people give a run, with their effects on the records.

use chrono::{DateTime, Utc};
use domain::api::{
    BudgetRequest, EventKind, ForkOrigin, PromotionView, RunRequest, RunState, Steer, SteeringEntry,
};
use domain::evaluation::EvaluationStage;
use domain::id::{CallId, CandidateId, JobId, PromotionId, RunId};
use domain::model::{Ceiling, Prompt};
use domain::search::Steering;
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::{RowRef, json, micros};
use crate::sql::{query, query_as, query_scalar};
use crate::texts::{self, TextId};
use crate::{Connection, Store, StoreError, candidates, events, jobs, promotions, runs};

/// A model that takes the place of another in a run.
#[derive(Debug, Clone, Copy)]
pub struct Takeover<'a> {
    /// Name of the model that was asked.
    pub from: &'a str,
    /// Name of the model that is asked in its place.
    pub to: &'a str,
}

#[derive(sqlx::FromRow)]
struct SteeringRow {
    entry: i64,
    at: i64,
    actor: String,
    since: i64,
    what: String,
    withdrawn_by: Option<i64>,
}

impl SteeringRow {
    fn read(self, run: RunId) -> Result<SteeringEntry, StoreError> {
        let row_ref = RowRef::new("steering", format!("{} of {run}", self.entry));
        let withdrawn_by = self.withdrawn_by;
        Ok(SteeringEntry {
            entry: row_ref.number("entry", self.entry)?,
            at: row_ref.time("at", self.at)?,
            actor: self.actor,
            since: row_ref.number("since", self.since)?,
            what: row_ref.json("what", &self.what)?,
            withdrawn_by: withdrawn_by
                .map(|entry| row_ref.number("withdrawn_by", entry))
                .transpose()?,
        })
    }
}

impl Store {
    /// The directions that a run was given, oldest first.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn steering(&self, run: RunId) -> Result<Vec<SteeringEntry>, StoreError> {
        let mut view = self.view().await?;
        runs::require(&mut view, run).await?;
        entries(&mut view, run).await
    }

    /// Records a hint, a pin, an idea to avoid, or an edited insight.
    ///
    /// # Errors
    /// The run is unknown or over, or the database fails.
    pub async fn direct(
        &self,
        run: RunId,
        actor: &str,
        what: Steer,
        now: DateTime<Utc>,
    ) -> Result<SteeringEntry, StoreError> {
        let mut tx = self.begin().await?;
        runs::open_state_of(&mut tx, run, "steer").await?;
        let entry = record(&mut tx, run, actor, what, now).await?;
        self.commit(tx).await?;
        Ok(entry)
    }

    /// Bans a candidate with those that repeat it, and its descendants if asked. They are nobody's
    /// parent and no champion any more.
    ///
    /// # Errors
    /// The run is unknown or over, or the database fails.
    pub async fn ban(
        &self,
        run: RunId,
        actor: &str,
        candidate: CandidateId,
        ordinal: u32,
        descendants: bool,
        now: DateTime<Utc>,
    ) -> Result<SteeringEntry, StoreError> {
        let mut tx = self.begin().await?;
        runs::open_state_of(&mut tx, run, "steer").await?;
        let what = Steer::Ban {
            candidate,
            ordinal,
            descendants,
        };
        let entry = record(&mut tx, run, actor, what, now).await?;
        query(
            "WITH RECURSIVE lineage (id) AS (SELECT $2 UNION SELECT c.id FROM lineage l \
             JOIN candidates c ON c.parent = l.id \
             OR c.id IN (SELECT f.child FROM further_parents f WHERE f.parent = l.id) WHERE $4 = 1) \
             INSERT INTO bans (run, candidate, entry) SELECT DISTINCT $1, c.id, $3 FROM lineage l \
             JOIN candidates c ON c.id = l.id OR c.duplicate_of = l.id \
             WHERE c.run = $1",
        )
        .bind(run.uuid())
        .bind(candidate.uuid())
        .bind(i64::from(entry.entry))
        .bind(descendants)
        .execute(&mut *tx)
        .await
        .context("ban a candidate")?;
        self.commit(tx).await?;
        Ok(entry)
    }

    /// Withdraws a hint, a pin, a ban, an avoided idea or an edited insight.
    ///
    /// # Errors
    /// The run is unknown or over, it has no such entry that is in force, or the database fails.
    pub async fn withdraw(
        &self,
        run: RunId,
        actor: &str,
        withdrawn: u32,
        now: DateTime<Utc>,
    ) -> Result<SteeringEntry, StoreError> {
        let mut tx = self.begin().await?;
        runs::open_state_of(&mut tx, run, "steer").await?;
        let entry = record(&mut tx, run, actor, Steer::Withdraw { withdrawn }, now).await?;
        let changed = query(
            "UPDATE steering SET withdrawn_by = $3 WHERE run = $1 AND entry = $2 \
             AND withdrawn_by IS NULL \
             AND json_extract(what, '$.kind') IN ('hint', 'pin', 'ban', 'avoid', 'insight')",
        )
        .bind(run.uuid())
        .bind(i64::from(withdrawn))
        .bind(i64::from(entry.entry))
        .execute(&mut *tx)
        .await
        .context("withdraw a direction")?;
        if changed == 0 {
            return Err(StoreError::Unknown {
                subject: "steering",
                id: format!("{withdrawn} of {run}"),
            });
        }
        query("DELETE FROM bans WHERE run = $1 AND entry = $2")
            .bind(run.uuid())
            .bind(i64::from(withdrawn))
            .execute(&mut *tx)
            .await
            .context("withdraw a ban")?;
        self.commit(tx).await?;
        Ok(entry)
    }

    /// Changes the limits of a run. A completed run goes on.
    ///
    /// # Errors
    /// The run is unknown, failed or was cancelled, or the database fails.
    pub async fn change_budget(
        &self,
        run: RunId,
        actor: &str,
        change: &BudgetRequest,
        now: DateTime<Utc>,
    ) -> Result<SteeringEntry, StoreError> {
        let mut tx = self.begin().await?;
        let state = runs::state_of(&mut tx, run).await?;
        if matches!(state, RunState::Failed { .. } | RunState::Cancelled) {
            return Err(StoreError::WrongState {
                run,
                state: state.to_string(),
                wanted: "change the budget of",
            });
        }
        let mut request = request(&mut tx, run).await?;
        let before = request.budget;
        request.budget = change.applied_to(before);
        set_request(&mut tx, run, &request).await?;
        let what = Steer::Budget {
            before,
            after: request.budget,
        };
        let entry = record(&mut tx, run, actor, what, now).await?;
        if matches!(state, RunState::Completed { .. }) {
            query("UPDATE runs SET unpromoted = NULL WHERE id = $1")
                .bind(run.uuid())
                .execute(&mut *tx)
                .await
                .context("continue a run")?;
            runs::set_state(&mut tx, run, &RunState::Running, now).await?;
        }
        self.commit(tx).await?;
        Ok(entry)
    }

    /// Replaces a model of a run, also in the calls that wait for an answer. `ceiling` is the most that
    /// such a call may use with the new model.
    ///
    /// # Errors
    /// The run is unknown or over, or the database fails.
    pub async fn replace_model(
        &self,
        run: RunId,
        actor: &str,
        takeover: Takeover<'_>,
        ceiling: impl Fn(&Prompt) -> Ceiling + Send,
        now: DateTime<Utc>,
    ) -> Result<SteeringEntry, StoreError> {
        let Takeover { from, to } = takeover;
        let mut tx = self.begin().await?;
        runs::open_state_of(&mut tx, run, "replace a model of").await?;
        let mut request = request(&mut tx, run).await?;
        let place = request.models.iter().position(|choice| choice.name == from);
        if let Some(place) = place {
            let known = request.models.iter().position(|choice| choice.name == to);
            match known {
                Some(known) => {
                    request.models[known].weight += request.models[place].weight;
                    request.models.remove(place);
                }
                None => to.clone_into(&mut request.models[place].name),
            }
        }
        set_request(&mut tx, run, &request).await?;
        let open: Vec<(Uuid, Uuid, TextId)> = query_as(
            "SELECT id, candidate, prompt_text FROM calls \
             WHERE run = $1 AND model = $2 AND answered_at IS NULL ORDER BY id",
        )
        .bind(run.uuid())
        .bind(from)
        .fetch_all(&mut *tx)
        .await
        .context("find the calls of a model")?;
        for (call, candidate, prompt) in open {
            let prompt = texts::get(&mut tx, prompt).await?;
            let prompt: Prompt =
                RowRef::new("calls", CallId::from(call)).json("prompt_text", &prompt)?;
            let reserved = ceiling(&prompt);
            let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            query(
                "UPDATE calls SET model = $2, reserved_tokens = $3, reserved_nanos = $4, \
                 not_before = $5, last_error = NULL WHERE id = $1",
            )
            .bind(call)
            .bind(to)
            .bind(whole(reserved.usage.total()))
            .bind(whole(reserved.dollars.nanos()))
            .bind(micros(now))
            .execute(&mut *tx)
            .await
            .context("ask another model")?;
            query("UPDATE candidates SET proposer = $2 WHERE id = $1")
                .bind(candidate)
                .bind(to)
                .execute(&mut *tx)
                .await
                .context("name another model")?;
        }
        query("UPDATE runs SET unanswered = 0 WHERE id = $1")
            .bind(run.uuid())
            .execute(&mut *tx)
            .await
            .context("ask another model")?;
        let what = Steer::Model {
            from: from.to_owned(),
            to: to.to_owned(),
        };
        let entry = record(&mut tx, run, actor, what, now).await?;
        self.commit(tx).await?;
        Ok(entry)
    }

    /// Queues a further evaluation of a candidate, with the inputs and the thoroughness of a
    /// confirmation. It is recorded beside the first.
    ///
    /// # Errors
    /// The run is unknown or its jobs do not run any more, or the database fails.
    pub async fn reevaluate(
        &self,
        run: RunId,
        actor: &str,
        candidate: CandidateId,
        ordinal: u32,
        now: DateTime<Utc>,
    ) -> Result<SteeringEntry, StoreError> {
        let job = self.draw(|rng| JobId::generate(now, rng));
        let mut tx = self.begin().await?;
        require_jobs(&mut tx, run, "evaluate a candidate again in").await?;
        let under_way: Option<i64> = query_scalar(
            "SELECT attempt FROM jobs WHERE candidate = $1 AND stage = 'confirmation' \
             AND state IN ('queued', 'leased') LIMIT 1",
        )
        .bind(candidate.uuid())
        .fetch_optional(&mut *tx)
        .await
        .context("look for an evaluation under way")?;
        if under_way.is_some() {
            return Err(StoreError::WrongState {
                run,
                state: format!("evaluating #{ordinal} again already; wait for its verdict"),
                wanted: "evaluate a candidate again in",
            });
        }
        let stage = EvaluationStage::Confirmation;
        jobs::enqueue(&mut tx, job, run, candidate, stage, now);
        let what = Steer::Reevaluate { candidate, ordinal };
        let entry = record(&mut tx, run, actor, what, now).await?;
        self.commit(tx).await?;
        Ok(entry)
    }

    /// Begins to promote a candidate that a person chose: queues its confirmation.
    ///
    /// # Errors
    /// The run is unknown or its jobs do not run any more, another promotion is under way, the candidate
    /// had one before, or the database fails.
    pub async fn promote(
        &self,
        run: RunId,
        actor: &str,
        candidate: CandidateId,
        ordinal: u32,
        branch: &str,
        now: DateTime<Utc>,
    ) -> Result<PromotionView, StoreError> {
        const WANTED: &str = "promote a candidate of";
        let ids = self.draw(|rng| (PromotionId::generate(now, rng), JobId::generate(now, rng)));
        let mut tx = self.begin().await?;
        require_jobs(&mut tx, run, WANTED).await?;
        let known: Option<(String, String, Uuid)> = query_as(
            "SELECT state, state_detail, candidate FROM promotions WHERE run = $1 \
             AND (candidate = $2 OR state IN ('confirming', 'blocked')) ORDER BY id DESC LIMIT 1",
        )
        .bind(run.uuid())
        .bind(candidate.uuid())
        .fetch_optional(&mut *tx)
        .await
        .context("look for the promotion")?;
        if let Some((state, detail, of)) = known {
            let of = CandidateId::from(of);
            return Err(StoreError::WrongState {
                run,
                state: match (state.as_str(), of == candidate) {
                    ("confirming", _) => format!("confirming {of}; wait for that"),
                    ("blocked", _) => format!("unable to commit {of} ({detail}); resume it first"),
                    ("committed", _) => format!("at #{ordinal} already, which is committed"),
                    (state, _) => format!("not open to #{ordinal}, which was {state}: {detail}"),
                },
                wanted: WANTED,
            });
        }
        let what = Steer::Promote { candidate, ordinal };
        record(&mut tx, run, actor, what, now).await?;
        let view = promotions::begin(&mut tx, run, candidate, branch, ids, now).await?;
        self.commit(tx).await?;
        Ok(view)
    }
}

/// Fails unless workers get confirmations of the run.
async fn require_jobs(
    tx: &mut Connection,
    run: RunId,
    wanted: &'static str,
) -> Result<(), StoreError> {
    let state = runs::state_of(tx, run).await?;
    match state {
        RunState::Running | RunState::Paused { .. } | RunState::Completed { .. } => Ok(()),
        other => Err(StoreError::WrongState {
            run,
            state: format!("{other}, and its jobs do not run"),
            wanted,
        }),
    }
}

/// Records a direction as the run's next, with its event.
pub(crate) async fn record(
    tx: &mut Connection,
    run: RunId,
    actor: &str,
    what: Steer,
    now: DateTime<Utc>,
) -> Result<SteeringEntry, StoreError> {
    let since = candidates::next_ordinal(tx, run).await?;
    let row: SteeringRow = query_as(
        "INSERT INTO steering (run, entry, at, actor, since, what) VALUES ($1, \
         (SELECT COALESCE(MAX(entry), 0) + 1 FROM steering WHERE run = $1), $2, $3, $4, $5) \
         RETURNING entry, at, actor, since, what, withdrawn_by",
    )
    .bind(run.uuid())
    .bind(micros(now))
    .bind(actor)
    .bind(since)
    .bind(json(&what))
    .fetch_one(&mut *tx)
    .await
    .context("record a direction")?;
    let entry = row.read(run)?;
    let steered = EventKind::Steered {
        entry: entry.entry,
        actor: entry.actor.clone(),
        what,
    };
    events::record(tx, run, &steered, now);
    Ok(entry)
}

/// The directions in force.
pub(crate) async fn in_force(
    connection: &mut Connection,
    run: RunId,
) -> Result<Steering, StoreError> {
    let entries = entries(connection, run).await?;
    if entries.is_empty() {
        return Ok(Steering::default());
    }
    let banned: Vec<Uuid> = query_scalar(
        "SELECT b.candidate FROM bans b JOIN candidates c ON c.id = b.candidate \
         WHERE b.run = $1 GROUP BY b.candidate, c.ordinal ORDER BY c.ordinal",
    )
    .bind(run.uuid())
    .fetch_all(connection)
    .await
    .context("read the banned candidates")?;
    let banned = banned.into_iter().map(CandidateId::from).collect();
    Ok(Steering::of(&entries, banned))
}

async fn entries(
    connection: &mut Connection,
    run: RunId,
) -> Result<Vec<SteeringEntry>, StoreError> {
    let rows: Vec<SteeringRow> = query_as(
        "SELECT entry, at, actor, since, what, withdrawn_by FROM steering WHERE run = $1 \
         ORDER BY entry",
    )
    .bind(run.uuid())
    .fetch_all(connection)
    .await
    .context("read the directions")?;
    rows.into_iter().map(|row| row.read(run)).collect()
}

/// The candidate that a run was forked from.
pub(crate) async fn origin(
    connection: &mut Connection,
    run: RunId,
) -> Result<Option<ForkOrigin>, StoreError> {
    let row: Option<(Uuid, Uuid, i64)> = query_as(
        "SELECT c.run, c.id, c.ordinal FROM runs r JOIN candidates c ON c.id = r.forked_from \
         WHERE r.id = $1",
    )
    .bind(run.uuid())
    .fetch_optional(connection)
    .await
    .context("read the origin of a fork")?;
    row.map(|(of, candidate, ordinal)| {
        Ok(ForkOrigin {
            run: RunId::from(of),
            candidate: CandidateId::from(candidate),
            ordinal: RowRef::new("candidates", candidate).number("ordinal", ordinal)?,
        })
    })
    .transpose()
}

async fn request(tx: &mut Connection, run: RunId) -> Result<RunRequest, StoreError> {
    let request: String = query_scalar("SELECT request FROM runs WHERE id = $1")
        .bind(run.uuid())
        .fetch_one(tx)
        .await
        .context("read a run's request")?;
    RowRef::new("runs", run).json("request", &request)
}

/// Replaces the tags in a run's request.
pub(crate) async fn set_tags(
    tx: &mut Connection,
    run: RunId,
    tags: Vec<String>,
) -> Result<(), StoreError> {
    let mut request = request(tx, run).await?;
    request.tags = tags;
    set_request(tx, run, &request).await
}

/// Changes a run's request and keeps the first one, which its idempotency key belongs to.
async fn set_request(
    tx: &mut Connection,
    run: RunId,
    request: &RunRequest,
) -> Result<(), StoreError> {
    query(
        "UPDATE runs SET first_request = COALESCE(first_request, request), request = $2 \
         WHERE id = $1",
    )
    .bind(run.uuid())
    .bind(json(request))
    .execute(tx)
    .await
    .context("change a run's request")?;
    Ok(())
}
