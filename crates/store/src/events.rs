//! The event log: what streams show and resume from. Nothing is decided by it.

use crate::sql::{query, query_as, query_scalar};
use chrono::{DateTime, Utc};
use domain::api::{Event, EventKind};
use domain::id::RunId;
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::{RowRef, json, micros};
use crate::{Connection, Store, StoreError};

#[derive(sqlx::FromRow)]
struct EventRow {
    id: i64,
    at: i64,
    what: String,
}

impl Store {
    /// Events of a run with an id above `after`, oldest first.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn events_after(
        &self,
        run: RunId,
        after: i64,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        let mut view = self.view().await?;
        crate::runs::require(&mut view, run).await?;
        let rows: Vec<EventRow> = query_as(
            "SELECT id, at, what FROM events WHERE run = $1 AND id > $2 ORDER BY id LIMIT $3",
        )
        .bind(run.uuid())
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(&mut *view)
        .await
        .context("read events")?;
        rows.into_iter()
            .map(|row| {
                let row_ref = RowRef::new("events", row.id);
                Ok(Event {
                    id: row.id,
                    run,
                    at: row_ref.time("at", row.at)?,
                    what: row_ref.json("what", &row.what)?,
                })
            })
            .collect()
    }
}

#[derive(sqlx::FromRow)]
struct EventOfRunRow {
    id: i64,
    run: Uuid,
    at: i64,
    what: String,
}

impl Store {
    /// Events of all runs with an id above `after`, oldest first.
    ///
    /// # Errors
    /// The database fails.
    pub async fn events_of_all_after(
        &self,
        after: i64,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        let mut view = self.view().await?;
        let rows: Vec<EventOfRunRow> =
            query_as("SELECT id, run, at, what FROM events WHERE id > $1 ORDER BY id LIMIT $2")
                .bind(after)
                .bind(i64::from(limit))
                .fetch_all(&mut *view)
                .await
                .context("read the events of all runs")?;
        rows.into_iter()
            .map(|row| {
                let row_ref = RowRef::new("events", row.id);
                Ok(Event {
                    id: row.id,
                    run: row.run.into(),
                    at: row_ref.time("at", row.at)?,
                    what: row_ref.json("what", &row.what)?,
                })
            })
            .collect()
    }

    /// The id of the newest event; 0 if there is none.
    ///
    /// # Errors
    /// The database fails.
    pub async fn newest_event(&self) -> Result<i64, StoreError> {
        let mut view = self.view().await?;
        query_scalar("SELECT COALESCE(MAX(id), 0) FROM events")
            .fetch_one(&mut *view)
            .await
            .context("find the newest event")
    }
}

/// Records an event in the transaction that makes it true.
pub(crate) fn record(tx: &mut Connection, run: RunId, what: &EventKind, now: DateTime<Utc>) {
    query("INSERT INTO events (run, at, what) VALUES ($1, $2, $3)")
        .bind(run.uuid())
        .bind(micros(now))
        .bind(json(what))
        .defer(tx);
    query("UPDATE runs SET updated_at = $2 WHERE id = $1")
        .bind(run.uuid())
        .bind(micros(now))
        .defer(tx);
}
