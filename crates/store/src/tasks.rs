//! Tasks by content. A run keeps the content it started with, even if the task is uploaded again.

use crate::sql::{query, query_as, query_scalar};
use chrono::{DateTime, Utc};
use domain::api::{TaskVersion, TaskView};
use domain::digest::Digest;
use domain::task::{Bundle, Task};

use crate::error::ErrorContext;
use crate::rows::{RowRef, json, micros};
use crate::{Store, StoreError};

/// A task as stored.
#[derive(Debug, Clone)]
pub struct StoredTask {
    /// The task as lists show it.
    pub view: TaskView,
    /// Its files.
    pub bundle: Bundle,
}

#[derive(sqlx::FromRow)]
struct TaskRow {
    content: String,
    view: String,
    bundle: String,
}

impl TryFrom<TaskRow> for StoredTask {
    type Error = StoreError;

    fn try_from(row: TaskRow) -> Result<Self, StoreError> {
        let row_ref = RowRef::new("tasks", &row.content);
        Ok(Self {
            view: row_ref.json("view", &row.view)?,
            bundle: row_ref.json("bundle", &row.bundle)?,
        })
    }
}

#[derive(sqlx::FromRow)]
struct VersionRow {
    content: String,
    version: String,
    created_at: i64,
    runs: i64,
    open_runs: i64,
    last_run_at: Option<i64>,
}

impl TryFrom<VersionRow> for TaskVersion {
    type Error = StoreError;

    fn try_from(row: VersionRow) -> Result<Self, StoreError> {
        let row_ref = RowRef::new("tasks", &row.content);
        let digest = |column, text: &str| {
            text.parse()
                .map_err(|error: domain::digest::DigestError| row_ref.wrong(column, error))
        };
        Ok(Self {
            version: digest("version", &row.version)?,
            content: digest("content", &row.content)?,
            stored_at: row_ref.time("created_at", row.created_at)?,
            runs: row_ref.number("runs", row.runs)?,
            open_runs: row_ref.number("open_runs", row.open_runs)?,
            last_run_at: row
                .last_run_at
                .map(|at| row_ref.time("last_run_at", at))
                .transpose()?,
        })
    }
}

impl Store {
    /// Stores a checked task with the files it was read from, as the newest of its name.
    /// The same files again only become the newest again.
    ///
    /// # Errors
    /// The database fails.
    pub async fn put_task(
        &self,
        task: &Task,
        bundle: &Bundle,
        now: DateTime<Utc>,
    ) -> Result<TaskView, StoreError> {
        let view = TaskView {
            name: task.name.clone(),
            title: task.title.clone(),
            family: task.family.clone(),
            version: task.version,
            cases: task.cases.iter().map(|case| case.name.clone()).collect(),
            playbook: task.playbook.iter().map(|(file, _)| file.clone()).collect(),
            created_at: now,
        };
        let mut tx = self.begin().await?;
        query(
            "INSERT INTO tasks (content, name, version, view, bundle, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (content) DO UPDATE SET view = excluded.view, created_at = excluded.created_at",
        )
        .bind(content_digest(bundle).to_string())
        .bind(&view.name)
        .bind(view.version.to_string())
        .bind(json(&view))
        .bind(json(bundle))
        .bind(micros(now))
        .execute(&mut *tx)
        .await
        .context("store a task")?;
        self.commit(tx).await?;
        Ok(view)
    }

    /// The newest task of a name.
    ///
    /// # Errors
    /// The database fails.
    pub async fn task(&self, name: &str) -> Result<Option<StoredTask>, StoreError> {
        let row: Option<TaskRow> = query_as(
            "SELECT content, view, bundle FROM tasks WHERE name = $1 \
             ORDER BY created_at DESC, content LIMIT 1",
        )
        .bind(name)
        .fetch_optional(&self.read)
        .await
        .context("read a task")?;
        row.map(StoredTask::try_from).transpose()
    }

    /// The newest task of each name, by name.
    ///
    /// # Errors
    /// The database fails.
    pub async fn tasks(&self) -> Result<Vec<TaskView>, StoreError> {
        let rows: Vec<(String, String)> = query_as(
            "SELECT content, view FROM tasks AS own WHERE NOT EXISTS (SELECT 1 FROM tasks AS newer \
             WHERE newer.name = own.name AND (newer.created_at > own.created_at \
             OR (newer.created_at = own.created_at AND newer.content < own.content))) \
             ORDER BY name LIMIT 1000",
        )
        .fetch_all(&self.read)
        .await
        .context("list the tasks")?;
        rows.iter()
            .map(|(content, view)| RowRef::new("tasks", content).json("view", view))
            .collect()
    }

    /// The uploads of a task that differ in any file, newest first, with the runs that use each; at
    /// most 1,000.
    ///
    /// # Errors
    /// The task is unknown or the database fails.
    pub async fn task_versions(&self, name: &str) -> Result<Vec<TaskVersion>, StoreError> {
        let rows: Vec<VersionRow> = query_as(
            "SELECT t.content, t.version, t.created_at, COUNT(r.id) AS runs, \
             COUNT(CASE WHEN r.state NOT IN ('completed', 'failed', 'cancelled') THEN 1 END) AS open_runs, \
             MAX(r.created_at) AS last_run_at \
             FROM tasks t LEFT JOIN runs r ON r.task_content = t.content WHERE t.name = $1 \
             GROUP BY t.content, t.version, t.created_at ORDER BY t.created_at DESC, t.content LIMIT 1000",
        )
        .bind(name)
        .fetch_all(&self.read)
        .await
        .context("list the versions of a task")?;
        if rows.is_empty() {
            return Err(StoreError::Unknown {
                subject: "task",
                id: name.to_owned(),
            });
        }
        rows.into_iter().map(TaskVersion::try_from).collect()
    }

    /// The files of a task by the digest of their content.
    ///
    /// # Errors
    /// No such content, or the database fails.
    pub async fn bundle(&self, content: Digest) -> Result<Bundle, StoreError> {
        let bundle: Option<String> = query_scalar("SELECT bundle FROM tasks WHERE content = $1")
            .bind(content.to_string())
            .fetch_optional(&self.read)
            .await
            .context("read a task's files")?;
        let bundle = bundle.ok_or_else(|| StoreError::Unknown {
            subject: "task content",
            id: content.to_string(),
        })?;
        RowRef::new("tasks", content).json("bundle", &bundle)
    }
}

fn content_digest(bundle: &Bundle) -> Digest {
    Digest::of_parts(
        bundle
            .files
            .iter()
            .flat_map(|(path, text)| [path.as_bytes(), text.as_bytes()]),
    )
}
