//! The best candidate of each run of a task.

use crate::sql::{Flag, query_as, query_scalar};
use domain::api::{Leaderboard, LeaderboardEntry, LeaderboardPage, RunRequest};
use domain::digest::{Digest, DigestError};
use domain::id::{CandidateId, RunId};
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::RowRef;
use crate::{Connection, Store, StoreError};

/// The newest runs of a task whose best candidates a leaderboard compares.
const COMPARED_RUNS: i64 = 1000;

#[derive(sqlx::FromRow)]
struct EntryRow {
    run: Uuid,
    run_name: String,
    request: String,
    device: String,
    candidate: Uuid,
    ordinal: i64,
    title: String,
    proposer: String,
    time_us: f64,
    speedup: f64,
    #[sqlx(try_from = "Flag")]
    modelled: bool,
    judged_at: i64,
}

impl Store {
    /// The leaderboards of a task's newest version, one for each device and kind of time; at most
    /// `limit` entries each.
    ///
    /// # Errors
    /// The task is unknown or the database fails.
    pub async fn leaderboards(
        &self,
        task: &str,
        limit: u32,
    ) -> Result<Vec<Leaderboard>, StoreError> {
        let mut view = self.view().await?;
        boards(&mut view, task, limit).await
    }

    /// The leaderboards of at most `tasks` tasks whose names come after `after`, in their order.
    ///
    /// # Errors
    /// The database fails.
    pub async fn all_leaderboards(
        &self,
        after: Option<&str>,
        tasks: u32,
        limit: u32,
    ) -> Result<LeaderboardPage, StoreError> {
        let mut view = self.view().await?;
        let mut names: Vec<String> =
            query_scalar("SELECT DISTINCT name FROM tasks WHERE name > $1 ORDER BY name LIMIT $2")
                .bind(after.unwrap_or_default())
                .bind(i64::from(tasks) + 1)
                .fetch_all(&mut *view)
                .await
                .context("list the tasks")?;
        let more = names.len() > tasks as usize;
        names.truncate(tasks as usize);
        let mut found = Vec::new();
        for name in &names {
            found.extend(boards(&mut view, name, limit).await?);
        }
        let next = names.pop().filter(|_| more);
        Ok(LeaderboardPage {
            boards: found,
            next,
        })
    }
}

pub(crate) async fn newest_version(
    view: &mut Connection,
    task: &str,
) -> Result<Digest, StoreError> {
    let version: Option<String> = query_scalar(
        "SELECT version FROM tasks WHERE name = $1 ORDER BY created_at DESC, content LIMIT 1",
    )
    .bind(task)
    .fetch_optional(view)
    .await
    .context("find a task")?;
    let version = version.ok_or_else(|| StoreError::Unknown {
        subject: "task",
        id: task.to_owned(),
    })?;
    version
        .parse()
        .map_err(|error: DigestError| RowRef::new("tasks", task).wrong("version", error))
}

async fn boards(
    view: &mut Connection,
    task: &str,
    limit: u32,
) -> Result<Vec<Leaderboard>, StoreError> {
    let version = newest_version(view, task).await?;
    // By time and not by speedup: contents of one version may differ in their baseline.
    let rows: Vec<EntryRow> = query_as(
        "SELECT r.id AS run, r.name AS run_name, r.request, COALESCE(w.device_name, r.device, '') AS device, \
         c.id AS candidate, c.ordinal, c.title, c.proposer, e.time_us, e.speedup, e.modelled, \
         e.created_at AS judged_at FROM (SELECT r.id, r.name, r.request, r.device FROM runs r \
         JOIN tasks t ON t.content = r.task_content WHERE t.version = $1 ORDER BY r.id DESC LIMIT $2) r \
         JOIN evaluations e ON e.id = (SELECT x.id FROM evaluations x WHERE x.run = r.id \
         AND x.speedup IS NOT NULL AND x.stage <> 'confirmation' AND NOT EXISTS (SELECT 1 FROM promotions p \
         WHERE p.candidate = x.candidate AND p.state IN ('refused', 'reverted')) \
         ORDER BY x.speedup DESC, x.candidate LIMIT 1) \
         JOIN candidates c ON c.id = e.candidate LEFT JOIN workers w ON w.id = e.worker \
         ORDER BY device, e.modelled, e.time_us, c.id",
    )
    .bind(version.to_string())
    .bind(COMPARED_RUNS)
    .fetch_all(view)
    .await
    .context("compare the best candidates of runs")?;
    let mut boards: Vec<Leaderboard> = Vec::new();
    for row in rows {
        let same =
            |board: &Leaderboard| board.device == row.device && board.modelled == row.modelled;
        if !boards.last().is_some_and(same) {
            boards.push(Leaderboard {
                task: task.to_owned(),
                version,
                device: row.device.clone(),
                modelled: row.modelled,
                entries: Vec::new(),
            });
        }
        let board = boards.last_mut().expect("one was pushed where none fits");
        if board.entries.len() < limit as usize {
            board.entries.push(row.read()?);
        }
    }
    Ok(boards)
}

impl EntryRow {
    fn read(self) -> Result<LeaderboardEntry, StoreError> {
        let run = RunId::from(self.run);
        let row_ref = RowRef::new("runs", run);
        let request: RunRequest = row_ref.json("request", &self.request)?;
        Ok(LeaderboardEntry {
            run,
            run_name: self.run_name,
            method: request.method,
            candidate: CandidateId::from(self.candidate),
            ordinal: row_ref.number("ordinal", self.ordinal)?,
            title: self.title,
            proposer: self.proposer,
            time_us: self.time_us,
            speedup: self.speedup,
            judged_at: row_ref.time("created_at", self.judged_at)?,
        })
    }
}
