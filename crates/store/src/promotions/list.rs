//! The promotions of all runs, in pages.

use domain::api::{PromotionEntry, PromotionPage, PromotionStateName};
use domain::id::{PromotionId, RunId};

use super::PromotionRow;
use crate::error::ErrorContext;
use crate::rows::RowRef;
use crate::sql::{Flag, query_as};
use crate::{Store, StoreError};

#[derive(sqlx::FromRow)]
struct EntryRow {
    #[sqlx(flatten)]
    promotion: PromotionRow,
    run_name: String,
    task: String,
    ordinal: i64,
    title: String,
    found: Option<f64>,
    #[sqlx(try_from = "Flag")]
    modelled: bool,
    created_at: i64,
    updated_at: i64,
}

impl Store {
    /// Promotions older than `before`, newest first; those in one state if asked.
    ///
    /// # Errors
    /// The database fails.
    pub async fn promotions(
        &self,
        state: Option<PromotionStateName>,
        before: Option<PromotionId>,
        limit: u32,
    ) -> Result<PromotionPage, StoreError> {
        let mut view = self.view().await?;
        let mut rows: Vec<EntryRow> = query_as(
            "SELECT p.id, p.run, p.candidate, p.repository, p.branch, p.state, p.state_detail, \
             p.commit_id, p.revert_id, p.speedup, p.device_uuid, r.name AS run_name, \
             t.name AS task, c.ordinal, c.title, c.speedup AS found, \
             COALESCE((SELECT e.modelled FROM evaluations e WHERE e.candidate = p.candidate \
             AND e.stage <> 'confirmation'), 0) AS modelled, p.created_at, p.updated_at \
             FROM promotions p JOIN candidates c ON c.id = p.candidate JOIN runs r ON r.id = p.run \
             JOIN tasks t ON t.content = r.task_content \
             WHERE ($1 IS NULL OR p.id < $1) AND ($3 IS NULL OR p.state = $3) \
             ORDER BY p.id DESC LIMIT $2",
        )
        .bind(before.map(PromotionId::uuid))
        .bind(i64::from(limit) + 1)
        .bind(state.map(PromotionStateName::as_str))
        .fetch_all(&mut *view)
        .await
        .context("list the promotions")?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let mut promotions = Vec::with_capacity(rows.len());
        for row in rows {
            let row_ref = RowRef::new("promotions", PromotionId::from(row.promotion.id));
            promotions.push(PromotionEntry {
                run: RunId::from(row.promotion.run),
                run_name: row.run_name,
                task: row.task,
                ordinal: row_ref.number("ordinal", row.ordinal)?,
                title: row.title,
                speedup: row.promotion.speedup.or(row.found),
                modelled: row.modelled,
                created_at: row_ref.time("created_at", row.created_at)?,
                updated_at: row_ref.time("updated_at", row.updated_at)?,
                promotion: row.promotion.view(&mut view).await?,
            });
        }
        let last = promotions.last().filter(|_| more);
        let next = last.map(|entry| entry.promotion.id.to_string());
        Ok(PromotionPage { promotions, next })
    }
}
