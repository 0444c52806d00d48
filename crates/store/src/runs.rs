//! Runs: creation, changes of state, and the time spent running.

use crate::sql::{Flag, Transaction, query, query_as, query_scalar};
use chrono::{DateTime, Utc};
use domain::api::{EventKind, ForkOrigin, PromotionTarget, RunRequest, RunState, RunView, Steer};
use domain::digest::Digest;
use domain::id::RunId;
use domain::role::Key;
use domain::search::StopReason;
use rand::Rng;
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::{RowRef, json, micros, run_state_columns};
use crate::{
    Connection, Store, StoreError, calls, events, jobs, promotions, steering, views, webhooks,
};

/// A run to create.
#[derive(Debug, Clone)]
pub struct NewRun<'a> {
    /// The request.
    pub request: &'a RunRequest,
    /// The repository and path that a winner is committed to.
    pub promotion: &'a PromotionTarget,
    /// The same key always gives the same run.
    pub idempotency_key: Option<&'a str>,
    /// The person or program that launches the run.
    pub actor: &'a str,
    /// The candidate that the run starts from, if it is a fork.
    pub fork: Option<ForkOrigin>,
}

/// A run, with whether this call created it.
#[derive(Debug, Clone)]
pub struct CreatedRun {
    /// The run.
    pub run: RunView,
    /// False if the idempotency key had made it before.
    pub fresh: bool,
}

impl Store {
    /// Records a run on the newest task of the requested name, or a fork on the task of its origin.
    ///
    /// # Errors
    /// The task is unknown, the key belongs to another request, or the database fails.
    pub async fn create_run(
        &self,
        new: NewRun<'_>,
        now: DateTime<Utc>,
    ) -> Result<CreatedRun, StoreError> {
        let request = json(new.request);
        let (id, secret) = self.draw(|rng| {
            let mut secret = [0_u8; 32];
            rng.fill_bytes(&mut secret);
            (RunId::generate(now, rng), Digest::of(secret))
        });
        let mut tx = self.begin().await?;
        if let Some(key) = new.idempotency_key {
            let known: Option<(Uuid, String)> = query_as(
                "SELECT id, COALESCE(first_request, request) FROM runs \
                     WHERE idempotency_key = $1",
            )
            .bind(key)
            .fetch_optional(&mut *tx)
            .await
            .context("look for the idempotency key")?;
            if let Some((known, earlier)) = known {
                if earlier != request {
                    return Err(StoreError::KeyReused {
                        key: key.to_owned(),
                    });
                }
                let run = views::run_view(&mut tx, RunId::from(known)).await?;
                return Ok(CreatedRun { run, fresh: false });
            }
        }
        let origin = new.fork;
        let content: Option<String> = query_scalar(
            "SELECT content FROM tasks WHERE name = $1 \
             AND content = COALESCE((SELECT task_content FROM runs WHERE id = $2), content) \
             ORDER BY created_at DESC, content LIMIT 1",
        )
        .bind(&new.request.task)
        .bind(origin.map(|origin| origin.run.uuid()))
        .fetch_optional(&mut *tx)
        .await
        .context("look for the task")?;
        let content = content.ok_or_else(|| StoreError::Unknown {
            subject: "task",
            id: new.request.task.clone(),
        })?;
        let name = new
            .request
            .name
            .clone()
            .unwrap_or_else(|| format!("{} {}", new.request.task, new.request.method.as_str()));
        query(
            "INSERT INTO runs (id, name, task_content, request, promotion_target, \
             idempotency_key, secret, device, created_at, updated_at, forked_from, launched_by) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11)",
        )
        .bind(id.uuid())
        .bind(name)
        .bind(content)
        .bind(request)
        .bind(json(new.promotion))
        .bind(new.idempotency_key)
        .bind(secret.to_string())
        .bind(new.request.device.as_deref())
        .bind(micros(now))
        .bind(origin.map(|origin| origin.candidate.uuid()))
        .bind(new.actor)
        .execute(&mut *tx)
        .await
        .context("record a run")?;
        if let Some(origin) = origin {
            let what = Steer::Fork {
                candidate: origin.candidate,
                ordinal: origin.ordinal,
                fork: id,
            };
            steering::record(&mut tx, origin.run, new.actor, what, now).await?;
        }
        let created = EventKind::RunChanged {
            state: RunState::Created,
        };
        events::record(&mut tx, id, &created, now);
        let run = views::run_view(&mut tx, id).await?;
        self.commit(tx).await?;
        Ok(CreatedRun { run, fresh: true })
    }

    /// Reads the request that a run was created with.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn request(&self, run: RunId) -> Result<RunRequest, StoreError> {
        let request: Option<String> = query_scalar("SELECT request FROM runs WHERE id = $1")
            .bind(run.uuid())
            .fetch_optional(&self.read)
            .await
            .context("read a run's request")?;
        let request = request.ok_or_else(|| StoreError::Unknown {
            subject: "run",
            id: run.to_string(),
        })?;
        RowRef::new("runs", run).json("request", &request)
    }

    /// Reads the digest of the task's content that a run uses.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn content_of(&self, run: RunId) -> Result<Digest, StoreError> {
        let content: Option<String> = query_scalar("SELECT task_content FROM runs WHERE id = $1")
            .bind(run.uuid())
            .fetch_optional(&self.read)
            .await
            .context("read a run's task")?;
        let content = content.ok_or_else(|| StoreError::Unknown {
            subject: "run",
            id: run.to_string(),
        })?;
        self::content(run, &content)
    }

    /// Moves an active run on to the state that its candidates have reached. Nothing happens to
    /// a run that is in that state, paused or over.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn advance(
        &self,
        run: RunId,
        state: &RunState,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let current = state_of(&mut tx, run).await?;
        if is_active(&current) && current != *state {
            set_state(&mut tx, run, state, now).await?;
            self.commit(tx).await?;
        }
        Ok(())
    }

    /// Ends a run as planned, unless it is over. `unpromoted` is the reason why nothing was promoted.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn finish(
        &self,
        run: RunId,
        reason: StopReason,
        unpromoted: Option<&str>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        if !is_active(&state_of(&mut tx, run).await?) {
            return Ok(());
        }
        query("UPDATE runs SET unpromoted = $2 WHERE id = $1")
            .bind(run.uuid())
            .bind(unpromoted)
            .execute(&mut *tx)
            .await
            .context("record why nothing was promoted")?;
        set_state(&mut tx, run, &RunState::Completed { reason }, now).await?;
        self.commit(tx).await
    }

    /// Ends a run that cannot go on, unless it is paused or over. Its jobs are taken back and its
    /// open candidates abandoned.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn fail(
        &self,
        run: RunId,
        reason: String,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        if !is_active(&state_of(&mut tx, run).await?) {
            return Ok(());
        }
        take_back(&mut tx, run, "the run failed").await?;
        set_state(&mut tx, run, &RunState::Failed { reason }, now).await?;
        self.commit(tx).await
    }

    /// Replaces the tags of a run, whatever its state.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn set_tags(&self, run: RunId, tags: Vec<String>) -> Result<RunView, StoreError> {
        let mut tx = self.begin().await?;
        require(&mut tx, run).await?;
        steering::set_tags(&mut tx, run, tags).await?;
        self.done(tx, run).await
    }

    /// Stops a run until someone resumes it. Jobs that workers hold go on to their verdicts.
    ///
    /// # Errors
    /// The run is unknown or over, or the database fails.
    pub async fn pause(
        &self,
        run: RunId,
        reason: &str,
        now: DateTime<Utc>,
    ) -> Result<RunView, StoreError> {
        let mut tx = self.begin().await?;
        let current = open_state_of(&mut tx, run, "pause").await?;
        if !matches!(current, RunState::Paused { .. }) {
            let paused = RunState::Paused {
                reason: reason.to_owned(),
            };
            set_state(&mut tx, run, &paused, now).await?;
        }
        self.done(tx, run).await
    }

    /// Lets a paused run go on; a promotion that the repository refused is tried again.
    ///
    /// # Errors
    /// The run is unknown or over, or the database fails.
    pub async fn resume(&self, run: RunId, now: DateTime<Utc>) -> Result<RunView, StoreError> {
        let new_job = self.draw(|rng| domain::id::JobId::generate(now, rng));
        let mut tx = self.begin().await?;
        let current = open_state_of(&mut tx, run, "resume").await?;
        if matches!(current, RunState::Paused { .. }) {
            let baseline: Option<String> =
                query_scalar("SELECT state FROM candidates WHERE run = $1 AND ordinal = 0")
                    .bind(run.uuid())
                    .fetch_optional(&mut *tx)
                    .await
                    .context("read the baseline")?;
            let state = match baseline.as_deref() {
                None => RunState::Created,
                Some("evaluated") => RunState::Running,
                Some(_) => RunState::CheckingBaseline,
            };
            set_state(&mut tx, run, &state, now).await?;
            calls::retry(&mut tx, run, now).await?;
            promotions::unblock(&mut tx, run, new_job, now).await?;
        }
        self.done(tx, run).await
    }

    /// Ends a run now. Its jobs are taken back; what workers still report of them changes
    /// nothing. Cancelling a run that is over changes nothing.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn cancel(&self, run: RunId, now: DateTime<Utc>) -> Result<RunView, StoreError> {
        const WHY: &str = "the run was cancelled";
        let mut tx = self.begin().await?;
        if !state_of(&mut tx, run).await?.is_over() {
            take_back(&mut tx, run, WHY).await?;
            promotions::refuse_open(&mut tx, run, WHY, now).await?;
            set_state(&mut tx, run, &RunState::Cancelled, now).await?;
        }
        self.done(tx, run).await
    }

    /// Asks a run to propose nothing more, to promote its champion and to complete. A run that
    /// completed after such a request stays as it is.
    ///
    /// # Errors
    /// The run is unknown, or over without having been asked, or the database fails.
    pub async fn request_finish(
        &self,
        run: RunId,
        now: DateTime<Utc>,
    ) -> Result<RunView, StoreError> {
        let mut tx = self.begin().await?;
        let asked: Option<Flag> = query_scalar("SELECT finish_requested FROM runs WHERE id = $1")
            .bind(run.uuid())
            .fetch_optional(&mut *tx)
            .await
            .context("read if the run was asked to finish")?;
        let current = state_of(&mut tx, run).await?;
        if asked == Some(Flag(true)) && matches!(current, RunState::Completed { .. }) {
            return self.done(tx, run).await;
        }
        open_state_of(&mut tx, run, "finish").await?;
        query("UPDATE runs SET finish_requested = 1, updated_at = $2 WHERE id = $1")
            .bind(run.uuid())
            .bind(micros(now))
            .execute(&mut *tx)
            .await
            .context("ask the run to finish")?;
        self.done(tx, run).await
    }

    /// Adds the time since the last call to the running time of every active run that this service owns, and
    /// records the events of limits that they have reached.
    ///
    /// # Errors
    /// The database fails.
    pub async fn keep_time(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        query(
            "UPDATE runs SET elapsed = elapsed + CASE WHEN running_since < $1 \
             THEN $1 - running_since ELSE 0 END, running_since = $1 \
             WHERE running_since IS NOT NULL AND owner = $2",
        )
        .bind(micros(now))
        .bind(self.replica)
        .execute(&self.write)
        .await
        .context("keep the runs' time")?;
        self.announce_budgets(now).await
    }

    /// Gives a new deadline to leases that workers could not renew while no service ran. Beside another service there
    /// is nothing to do, and a service that fails and starts again and again must not keep the jobs of lost workers.
    ///
    /// # Errors
    /// The database fails.
    pub async fn extend_leases(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let living = self.living(&mut tx).await?;
        if living.iter().any(|service| *service != self.replica) {
            return Ok(());
        }
        query("UPDATE jobs SET deadline = $1 WHERE state = 'leased' AND deadline < $1")
            .bind(micros(jobs::deadline(now)))
            .execute(&mut *tx)
            .await
            .context("extend the leases")?;
        self.commit(tx).await
    }

    async fn done(&self, mut tx: Transaction, run: RunId) -> Result<RunView, StoreError> {
        let view = views::run_view(&mut tx, run).await?;
        self.commit(tx).await?;
        Ok(view)
    }
}

/// Returns true if the run is neither paused nor over.
pub(crate) fn is_active(state: &RunState) -> bool {
    matches!(
        state,
        RunState::Created | RunState::CheckingBaseline | RunState::Running
    )
}

/// Parks the open jobs of a run that ends and abandons its open candidates.
async fn take_back(tx: &mut Connection, run: RunId, why: &str) -> Result<(), StoreError> {
    query(
        "UPDATE jobs SET state = 'parked', worker = NULL, deadline = NULL, last_error = $2 \
         WHERE run = $1 AND state IN ('queued', 'leased')",
    )
    .bind(run.uuid())
    .bind(why)
    .execute(&mut *tx)
    .await
    .context("take the run's jobs back")?;
    query(
        "UPDATE candidates SET state = 'abandoned', state_detail = $2 \
         WHERE run = $1 AND state = 'pending'",
    )
    .bind(run.uuid())
    .bind(why)
    .execute(tx)
    .await
    .context("abandon the run's candidates")?;
    Ok(())
}

/// The run's secret, the root of its inputs.
pub(crate) fn key(row_ref: &RowRef, secret: &str) -> Result<Key, StoreError> {
    secret
        .parse()
        .map(Key)
        .map_err(|error: domain::digest::DigestError| row_ref.wrong("secret", error))
}

/// Fails unless the run exists.
pub(crate) async fn require(connection: &mut Connection, run: RunId) -> Result<(), StoreError> {
    state_of(connection, run).await.map(drop)
}

pub(crate) async fn state_of(
    connection: &mut Connection,
    run: RunId,
) -> Result<RunState, StoreError> {
    let row: Option<(String, String)> =
        query_as("SELECT state, state_detail FROM runs WHERE id = $1")
            .bind(run.uuid())
            .fetch_optional(connection)
            .await
            .context("read a run's state")?;
    let (state, detail) = row.ok_or_else(|| StoreError::Unknown {
        subject: "run",
        id: run.to_string(),
    })?;
    RowRef::new("runs", run).run_state(&state, &detail)
}

/// The state of a run that is not over.
/// Reads the digest of the content of a run's task.
pub(crate) fn content(run: RunId, text: &str) -> Result<Digest, StoreError> {
    text.parse().map_err(|error: domain::digest::DigestError| {
        RowRef::new("runs", run).wrong("task_content", error)
    })
}

pub(crate) async fn open_state_of(
    connection: &mut Connection,
    run: RunId,
    wanted: &'static str,
) -> Result<RunState, StoreError> {
    let state = state_of(connection, run).await?;
    if state.is_over() {
        return Err(StoreError::WrongState {
            run,
            state: state.to_string(),
            wanted,
        });
    }
    Ok(state)
}

pub(crate) async fn set_state(
    tx: &mut Connection,
    run: RunId,
    state: &RunState,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let (word, detail) = run_state_columns(state);
    let running = matches!(state, RunState::CheckingBaseline | RunState::Running);
    query(
        "UPDATE runs SET state = $2, state_detail = $3, \
         elapsed = elapsed + CASE WHEN running_since < $4 THEN $4 - running_since ELSE 0 END, \
         running_since = $5, ended_at = $6 WHERE id = $1",
    )
    .bind(run.uuid())
    .bind(word)
    .bind(detail)
    .bind(micros(now))
    .bind(running.then(|| micros(now)))
    .bind(state.is_over().then(|| micros(now)))
    .execute(&mut *tx)
    .await
    .context("change a run's state")?;
    let changed = EventKind::RunChanged {
        state: state.clone(),
    };
    events::record(tx, run, &changed, now);
    webhooks::announce_state(tx, run, state, now).await
}
