//! The admissions of tasks, as workers decided them.

use crate::sql::{query, query_as};
use chrono::{DateTime, Utc};
use domain::admission::Admission;
use domain::api::TaskAdmission;

use crate::error::ErrorContext;
use crate::rows::{RowRef, json, micros};
use crate::{Connection, Store, StoreError};

/// The most admissions of one task that are listed.
const MAX_LISTED: i64 = 100;

#[derive(sqlx::FromRow)]
struct AdmissionRow {
    task_content: String,
    device: String,
    toolchain: String,
    decided_at: i64,
    report: String,
}

/// Keeps the admission of a task's files on a device, in place of an earlier one.
pub(crate) fn record(
    tx: &mut Connection,
    task_content: &str,
    device: &str,
    toolchain: &str,
    admission: &Admission,
    now: DateTime<Utc>,
) {
    query(
        "INSERT INTO admissions (task_content, device, toolchain, decided_at, report) \
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT (task_content, device) DO UPDATE SET \
         toolchain = excluded.toolchain, decided_at = excluded.decided_at, report = excluded.report",
    )
    .bind(task_content)
    .bind(device)
    .bind(toolchain)
    .bind(micros(now))
    .bind(json(admission))
    .defer(tx);
}

impl Store {
    /// The newest admission of each upload of a task on each kind of device, the newest first; at most
    /// 100.
    ///
    /// # Errors
    /// The task is unknown or the database fails.
    pub async fn task_admissions(&self, name: &str) -> Result<Vec<TaskAdmission>, StoreError> {
        let rows: Vec<AdmissionRow> = query_as(
            "SELECT a.task_content, a.device, a.toolchain, a.decided_at, a.report FROM admissions a \
             JOIN tasks t ON t.content = a.task_content WHERE t.name = $1 \
             ORDER BY a.decided_at DESC, a.device LIMIT $2",
        )
        .bind(name)
        .bind(MAX_LISTED)
        .fetch_all(&self.read)
        .await
        .context("list the admissions of a task")?;
        if rows.is_empty() && self.task(name).await?.is_none() {
            return Err(StoreError::Unknown {
                subject: "task",
                id: name.to_owned(),
            });
        }
        rows.into_iter().map(AdmissionRow::read).collect()
    }
}

impl AdmissionRow {
    fn read(self) -> Result<TaskAdmission, StoreError> {
        let row_ref = RowRef::new("admissions", &self.task_content);
        let admission: Admission = row_ref.json("report", &self.report)?;
        Ok(TaskAdmission {
            content: self
                .task_content
                .parse()
                .map_err(|error: domain::digest::DigestError| {
                    row_ref.wrong("task_content", error)
                })?,
            device: self.device,
            toolchain: self.toolchain,
            decided_at: row_ref.time("decided_at", self.decided_at)?,
            admitted: admission.admitted(),
            admission,
        })
    }
}
