//! The record of the command `evaluate`: every step on a file, its decision, and its commits.

use crate::sql::{Flag, query, query_as, query_scalar};
use chrono::{DateTime, Utc};
use domain::digest::Digest;
use domain::evaluation::Evaluation;
use domain::iteration::Decision;

use crate::error::ErrorContext;
use crate::rows::{RowRef, json, micros};
use crate::{Store, StoreError};

/// The most steps that are listed.
const LISTED: i64 = 1000;

/// A line of steps that belong together: those on one file whose times may be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepSeries {
    /// The checkout's folder.
    pub checkout: String,
    /// The file in it.
    pub path: String,
    /// The task's version.
    pub task_version: Digest,
    /// The evaluation protocol's version.
    pub evaluator: u32,
    /// The device, and the model's label where times are modelled.
    pub device: String,
    /// True if times are modelled.
    pub modelled: bool,
}

/// A step that has been decided and not yet committed.
#[derive(Debug, Clone, PartialEq)]
pub struct NewIteration {
    /// The line that it belongs to.
    pub line: StepSeries,
    /// The branch that is checked out.
    pub branch: String,
    /// The commit at its tip.
    pub base: String,
    /// The task's name.
    pub task: String,
    /// The author's hypothesis.
    pub hypothesis: String,
    /// The gain that was expected, as a factor.
    pub expected: Option<f64>,
    /// Baseline's time over the kernel's.
    pub speedup: Option<f64>,
    /// The gain that was found over the best kept.
    pub gain: Option<f64>,
    /// The decision.
    pub decision: Decision,
    /// The reason of the decision.
    pub reason: String,
    /// The evidence of the decision.
    pub evaluation: Evaluation,
}

/// A step as recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Iteration {
    /// Its number in the database.
    pub id: i64,
    /// Its number on its file, from 1.
    pub number: u32,
    /// The branch.
    pub branch: String,
    /// The commit the branch was at.
    pub base: String,
    /// The task's name.
    pub task: String,
    /// The task's version.
    pub task_version: String,
    /// The device.
    pub device: String,
    /// True if times are modelled.
    pub modelled: bool,
    /// The author's hypothesis.
    pub hypothesis: String,
    /// The gain that was expected.
    pub expected: Option<f64>,
    /// Baseline's time over the kernel's.
    pub speedup: Option<f64>,
    /// The gain that was found.
    pub gain: Option<f64>,
    /// The decision.
    pub decision: Decision,
    /// The reason of the decision.
    pub reason: String,
    /// The progress of git with the decision.
    pub state: IterationState,
    /// Time of the decision.
    pub at: DateTime<Utc>,
}

/// The progress of git with a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IterationState {
    /// Not yet, or the call was killed.
    Planned,
    /// It has.
    Done {
        /// The commit with the file; none where nothing had to be committed.
        commit: Option<String>,
        /// The commit that takes it back.
        revert: Option<String>,
    },
    /// It would not.
    Refused {
        /// The reason.
        reason: String,
    },
}

/// The best step that was kept.
#[derive(Debug, Clone, PartialEq)]
pub struct BestKept {
    /// Baseline's time over its own.
    pub speedup: f64,
    /// Its commit.
    pub commit: Option<String>,
}

#[derive(sqlx::FromRow)]
struct IterationRow {
    id: i64,
    number: i64,
    branch: String,
    base: String,
    task: String,
    task_version: String,
    device: String,
    #[sqlx(try_from = "Flag")]
    modelled: bool,
    hypothesis: String,
    expected: Option<f64>,
    speedup: Option<f64>,
    gain: Option<f64>,
    decision: String,
    reason: String,
    state: String,
    refusal: String,
    commit_id: Option<String>,
    revert_id: Option<String>,
    created_at: i64,
}

impl TryFrom<IterationRow> for Iteration {
    type Error = StoreError;

    fn try_from(row: IterationRow) -> Result<Self, StoreError> {
        let row_ref = RowRef::new("iterations", row.id);
        let state = match row.state.as_str() {
            "planned" => IterationState::Planned,
            "done" => IterationState::Done {
                commit: row.commit_id,
                revert: row.revert_id,
            },
            "refused" => IterationState::Refused {
                reason: row.refusal,
            },
            other => return Err(row_ref.wrong("state", format!("{other:?} is no state"))),
        };
        Ok(Self {
            id: row.id,
            number: row_ref.number("number", row.number)?,
            branch: row.branch,
            base: row.base,
            task: row.task,
            task_version: row.task_version,
            device: row.device,
            modelled: row.modelled,
            hypothesis: row.hypothesis,
            expected: row.expected,
            speedup: row.speedup,
            gain: row.gain,
            decision: row_ref.word("decision", &row.decision)?,
            reason: row.reason,
            state,
            at: row_ref.time("created_at", row.created_at)?,
        })
    }
}

impl Store {
    /// Records a step before it is committed. Its number follows the last of its file.
    ///
    /// # Errors
    /// The database fails.
    pub async fn plan_iteration(
        &self,
        new: &NewIteration,
        now: DateTime<Utc>,
    ) -> Result<(i64, u32), StoreError> {
        let mut tx = self.begin().await?;
        let number: i64 = query_scalar(
            "SELECT COALESCE(MAX(number), 0) + 1 FROM iterations WHERE checkout = $1 AND path = $2",
        )
        .bind(&new.line.checkout)
        .bind(&new.line.path)
        .fetch_one(&mut *tx)
        .await
        .context("count the steps of a file")?;
        let id: i64 = query_scalar(
            "INSERT INTO iterations (checkout, path, branch, base, number, task, task_version, \
             evaluator, device, modelled, hypothesis, expected, speedup, gain, decision, reason, \
             evidence, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
             $14, $15, $16, $17, $18) RETURNING id",
        )
        .bind(&new.line.checkout)
        .bind(&new.line.path)
        .bind(&new.branch)
        .bind(&new.base)
        .bind(number)
        .bind(&new.task)
        .bind(new.line.task_version.to_string())
        .bind(i64::from(new.line.evaluator))
        .bind(&new.line.device)
        .bind(new.line.modelled)
        .bind(&new.hypothesis)
        .bind(new.expected)
        .bind(new.speedup)
        .bind(new.gain)
        .bind(new.decision.as_str())
        .bind(&new.reason)
        .bind(json(&new.evaluation))
        .bind(micros(now))
        .fetch_one(&mut *tx)
        .await
        .context("record a step")?;
        self.commit(tx).await?;
        let number = RowRef::new("iterations", id).number("number", number)?;
        Ok((id, number))
    }

    /// Notes what git did, or would not do, about a planned step. One that is settled already stays
    /// as it is.
    ///
    /// # Errors
    /// The database fails.
    pub async fn settle_iteration(
        &self,
        id: i64,
        state: &IterationState,
    ) -> Result<(), StoreError> {
        let (word, refusal, commit, revert) = match state {
            IterationState::Planned => return Ok(()),
            IterationState::Done { commit, revert } => {
                ("done", "", commit.as_deref(), revert.as_deref())
            }
            IterationState::Refused { reason } => ("refused", reason.as_str(), None, None),
        };
        let mut tx = self.begin().await?;
        query(
            "UPDATE iterations SET state = $2, refusal = $3, commit_id = $4, revert_id = $5 \
             WHERE id = $1 AND state = 'planned'",
        )
        .bind(id)
        .bind(word)
        .bind(refusal)
        .bind(commit)
        .bind(revert)
        .execute(&mut *tx)
        .await
        .context("settle a step")?;
        self.commit(tx).await
    }

    /// The fastest step of a line that was kept; of equals the first.
    ///
    /// # Errors
    /// The database fails.
    pub async fn best_kept(&self, line: &StepSeries) -> Result<Option<BestKept>, StoreError> {
        let best: Option<(f64, Option<String>)> = query_as(
            "SELECT speedup, commit_id FROM iterations WHERE checkout = $1 AND path = $2 \
             AND task_version = $3 AND evaluator = $4 AND device = $5 AND modelled = $6 \
             AND state = 'done' AND decision IN ('keep', 'target') AND speedup IS NOT NULL \
             ORDER BY speedup DESC, id LIMIT 1",
        )
        .bind(&line.checkout)
        .bind(&line.path)
        .bind(line.task_version.to_string())
        .bind(i64::from(line.evaluator))
        .bind(&line.device)
        .bind(line.modelled)
        .fetch_optional(&self.read)
        .await
        .context("find the best step")?;
        Ok(best.map(|(speedup, commit)| BestKept { speedup, commit }))
    }

    /// The last step of a file that was kept and has a commit.
    ///
    /// # Errors
    /// The database fails.
    pub async fn last_kept(
        &self,
        checkout: &str,
        path: &str,
    ) -> Result<Option<String>, StoreError> {
        query_scalar(
            "SELECT commit_id FROM iterations WHERE checkout = $1 AND path = $2 \
             AND state = 'done' AND decision IN ('keep', 'target') AND commit_id IS NOT NULL \
             ORDER BY id DESC LIMIT 1",
        )
        .bind(checkout)
        .bind(path)
        .fetch_optional(&self.read)
        .await
        .context("find the last step that was kept")
    }

    /// Every step of a file, oldest first, the last thousand at most.
    ///
    /// # Errors
    /// The database fails, or a row does not decode.
    pub async fn iterations(
        &self,
        checkout: &str,
        path: &str,
    ) -> Result<Vec<Iteration>, StoreError> {
        let rows: Vec<IterationRow> = query_as(
            "SELECT id, number, branch, base, task, task_version, device, modelled, hypothesis, \
             expected, speedup, gain, decision, reason, state, refusal, commit_id, revert_id, \
             created_at FROM (SELECT * FROM iterations WHERE checkout = $1 AND path = $2 \
             ORDER BY id DESC LIMIT $3) AS recent ORDER BY id",
        )
        .bind(checkout)
        .bind(path)
        .bind(LISTED)
        .fetch_all(&self.read)
        .await
        .context("list the steps of a file")?;
        rows.into_iter().map(Iteration::try_from).collect()
    }
}
