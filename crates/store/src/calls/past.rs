//! Queries over recorded calls: for pages, for recordings and for budgets.

use crate::sql::query_as;
use domain::api::CallView;
use domain::id::{CandidateId, RunId};
use domain::search::Spend;
use uuid::Uuid;

use super::rows::{CallRow, SpendRow};
use crate::error::ErrorContext;
use crate::rows::RowRef;
use crate::texts;
use crate::{Connection, Store, StoreError, runs};

impl Store {
    /// The calls made for a candidate, with their answers.
    ///
    /// # Errors
    /// The database fails.
    pub async fn calls(&self, candidate: CandidateId) -> Result<Vec<CallView>, StoreError> {
        let mut view = self.view().await?;
        let rows: Vec<CallRow> = query_as(
            "SELECT id, turn, model, template, template_digest, prompt_text, dropped, seen, failures, \
             (SELECT CASE WHEN answered_at IS NULL AND c.state <> 'pending' THEN requests - failures \
             WHEN requests > failures THEN requests - failures - 1 ELSE 0 END \
             FROM candidates c WHERE c.id = calls.candidate) AS interrupted, last_error, created_at, answered_at, reply_text, complete, unusable, notes, input_tokens, \
             cached_tokens, cache_written_tokens, output_tokens, usage_estimated, cost, \
             answered_by, first_token_us, total_us, attempts FROM calls WHERE candidate = $1 \
             ORDER BY turn",
        )
        .bind(candidate.uuid())
        .fetch_all(&mut *view)
        .await
        .context("read a candidate's calls")?;
        let mut calls = Vec::with_capacity(rows.len());
        for row in rows {
            let prompt = texts::get(&mut view, row.prompt_text).await?;
            let reply = texts::get_optional(&mut view, row.reply_text).await?;
            calls.push(row.read(&prompt, reply)?);
        }
        Ok(calls)
    }

    /// The candidates of a run that models were asked for, with their ordinals.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn called(&self, run: RunId) -> Result<Vec<(u32, CandidateId)>, StoreError> {
        let mut view = self.view().await?;
        runs::require(&mut view, run).await?;
        let rows: Vec<(Uuid, i64)> = query_as(
            "SELECT DISTINCT c.id, c.ordinal FROM candidates c \
             JOIN calls k ON k.candidate = c.id WHERE c.run = $1 ORDER BY c.ordinal",
        )
        .bind(run.uuid())
        .fetch_all(&mut *view)
        .await
        .context("list the candidates that models wrote")?;
        rows.into_iter()
            .map(|(id, ordinal)| {
                let id = CandidateId::from(id);
                Ok((
                    RowRef::new("candidates", id).number("ordinal", ordinal)?,
                    id,
                ))
            })
            .collect()
    }
}

/// Adds up the usage of a run's models and devices.
pub(crate) async fn spend(connection: &mut Connection, run: RunId) -> Result<Spend, StoreError> {
    // The last request of a call that is still waited for is under way: it is a commitment.
    let row: SpendRow = query_as(
        "WITH open AS (SELECT k.reserved_tokens, k.reserved_nanos, \
         CASE WHEN c.state = 'pending' THEN 1 ELSE 0 END AS waited, \
         CASE WHEN c.state <> 'pending' THEN k.requests - k.failures \
         WHEN k.requests > k.failures THEN k.requests - k.failures - 1 ELSE 0 END AS interrupted \
         FROM calls k JOIN candidates c ON c.id = k.candidate \
         WHERE k.run = $1 AND k.answered_at IS NULL), \
         unanswered AS (SELECT CAST(COALESCE(SUM(waited * reserved_tokens), 0) AS BIGINT) AS committed_tokens, \
         CAST(COALESCE(SUM(waited * reserved_nanos), 0) AS BIGINT) AS committed_nanos, \
         CAST(COALESCE(SUM(interrupted), 0) AS BIGINT) AS requests, \
         CAST(COALESCE(SUM(interrupted * reserved_tokens), 0) AS BIGINT) AS tokens, \
         CAST(COALESCE(SUM(interrupted * reserved_nanos), 0) AS BIGINT) AS nanos FROM open) \
         SELECT r.answered_calls AS calls, r.input_tokens AS input, r.cached_tokens AS cached, \
         r.cache_written_tokens AS cache_written, r.output_tokens AS output, r.cost, \
         r.unpriced_calls AS unpriced, u.committed_tokens, u.committed_nanos, \
         r.interrupted_requests + u.requests AS interrupted, \
         r.interrupted_tokens + u.tokens AS interrupted_tokens, \
         r.interrupted_nanos + u.nanos AS interrupted_nanos, r.device_us, r.device_cost \
         FROM runs r, unanswered u WHERE r.id = $1",
    )
    .bind(run.uuid())
    .fetch_one(connection)
    .await
    .context("add up what the run has used")?;
    row.read(run)
}
