//! Answers of models: their record, their charge, and their consequence for the candidate.

use std::time::Duration;

use crate::sql::{query, query_as, query_scalar};
use chrono::{DateTime, Utc};
use domain::api::{EventKind, RunState};
use domain::evaluation::EvaluationStage;
use domain::id::{CallId, CandidateId, RunId};

use super::rows::CallStateRow;
use super::{Answer, AnswerEffect, MAX_UNANSWERED, insert_call};
use crate::candidates::{self, KnownCode, ProposalIds};
use crate::changes::CommitScope;
use crate::error::ErrorContext;
use crate::rows::{RowRef, json, micros};
use crate::texts::{self, TextId};
use crate::{Connection, Store, StoreError, events, runs, same_code};

impl Store {
    /// Records an answer and applies its effect. Only the first answer to a call counts. An answer for
    /// a candidate that no longer waits is charged and changes nothing else. Returns true if it
    /// counted.
    ///
    /// # Errors
    /// The call is unknown or the database fails.
    pub async fn answer(
        &self,
        call: CallId,
        answer: &Answer,
        effect: &AnswerEffect,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let (ids, next) =
            self.draw(|rng| (ProposalIds::generate(now, rng), CallId::generate(now, rng)));
        let mut tx = self.begin().await?;
        let call_state = read_call_state(&mut tx, call).await?;
        if call_state.answered {
            return Ok(false);
        }
        let source = match effect {
            AnswerEffect::Written { text, .. } if call_state.pending => {
                Some(texts::put(&mut tx, &text.source, &[]).await?)
            }
            _ => None,
        };
        // The reply repeats the source.
        let reply = texts::put(&mut tx, &answer.text, source.as_slice()).await?;
        write_answer(&mut tx, call, answer, reply, effect, now);
        count_answer(&mut tx, call);
        let replied = EventKind::Replied {
            candidate: call_state.candidate,
            ordinal: call_state.ordinal,
            model: call_state.model.clone(),
            tokens: answer.usage.total(),
            cost: answer.cost,
            unusable: effect.unusable().map(str::to_owned),
        };
        events::record(&mut tx, call_state.run, &replied, now);
        let counted = call_state.pending;
        if let Some(cost) = answer.cost.filter(|_| counted) {
            query("UPDATE candidates SET cost = cost + $2 WHERE id = $1")
                .bind(call_state.candidate.uuid())
                .bind(i64::try_from(cost.nanos()).unwrap_or(i64::MAX))
                .defer(&mut tx);
        }
        // A candidate that goes on waiting for its verdict changes no decision of the search.
        let mut waits = false;
        if counted {
            let ids = ProposalIds {
                candidate: call_state.candidate,
                ..ids
            };
            waits = apply_answer(&mut tx, &call_state, source, ids, next, effect, now).await?;
        }
        let scope = match effect {
            AnswerEffect::Written { .. } if waits => CommitScope::ShownJobs(call_state.run),
            _ => CommitScope::Jobs(call_state.run),
        };
        self.commit_change(tx, scope).await?;
        Ok(counted)
    }

    /// Records that a call was not answered. The call is due again at `again`. The run is paused if
    /// [`MAX_UNANSWERED`] calls failed in a row, or if the reason is permanent. No trial is charged.
    ///
    /// # Errors
    /// The call is unknown or the database fails.
    pub async fn unanswered(
        &self,
        call: CallId,
        reason: &str,
        permanent: bool,
        again: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let call_state = read_call_state(&mut tx, call).await?;
        if call_state.answered || !call_state.pending {
            return Ok(());
        }
        query(
            "UPDATE calls SET failures = failures + 1, last_error = $2, not_before = $3 \
             WHERE id = $1",
        )
        .bind(call.uuid())
        .bind(reason)
        .bind(micros(again))
        .execute(&mut *tx)
        .await
        .context("record a failed call")?;
        let in_a_row: i64 = query_scalar(
            "UPDATE runs SET unanswered = unanswered + 1 WHERE id = $1 RETURNING unanswered",
        )
        .bind(call_state.run.uuid())
        .fetch_one(&mut *tx)
        .await
        .context("count a failed call")?;
        let unanswered = EventKind::Unanswered {
            candidate: call_state.candidate,
            model: call_state.model.clone(),
            reason: reason.to_owned(),
        };
        events::record(&mut tx, call_state.run, &unanswered, now);
        let state = runs::state_of(&mut tx, call_state.run).await?;
        if state == RunState::Running && (permanent || in_a_row >= i64::from(MAX_UNANSWERED)) {
            let times = if permanent {
                String::new()
            } else {
                format!(" ({in_a_row} times in a row)")
            };
            let paused = RunState::Paused {
                reason: format!(
                    "model {} does not answer{times}: {reason}",
                    call_state.model
                ),
            };
            runs::set_state(&mut tx, call_state.run, &paused, now).await?;
        }
        self.commit(tx).await
    }
}

/// The stage of evaluation of what models write.
const STAGE: EvaluationStage = EvaluationStage::Search;

impl AnswerEffect {
    fn unusable(&self) -> Option<&str> {
        match self {
            Self::Written { .. } => None,
            Self::AskAgain { unusable, .. } | Self::Unusable { unusable, .. } => Some(unusable),
        }
    }
}

/// A call with its candidate's state.
struct CallState {
    run: RunId,
    candidate: CandidateId,
    ordinal: u32,
    turn: u32,
    model: String,
    answered: bool,
    /// True if the candidate still waits for its text.
    pending: bool,
}

async fn read_call_state(tx: &mut Connection, call: CallId) -> Result<CallState, StoreError> {
    let row: Option<CallStateRow> = query_as(
        "SELECT k.run, k.candidate, c.ordinal, k.turn, k.model, k.answered_at, c.state \
         FROM calls k JOIN candidates c ON c.id = k.candidate WHERE k.id = $1",
    )
    .bind(call.uuid())
    .fetch_optional(tx)
    .await
    .context("read a call")?;
    let row = row.ok_or_else(|| StoreError::Unknown {
        subject: "call",
        id: call.to_string(),
    })?;
    let row_ref = RowRef::new("calls", call);
    Ok(CallState {
        run: RunId::from(row.run),
        candidate: CandidateId::from(row.candidate),
        ordinal: row_ref.number("ordinal", row.ordinal)?,
        turn: row_ref.number("turn", row.turn)?,
        model: row.model,
        answered: row.answered_at.is_some(),
        pending: row.state == "pending",
    })
}

fn write_answer(
    tx: &mut Connection,
    call: CallId,
    answer: &Answer,
    reply: TextId,
    effect: &AnswerEffect,
    now: DateTime<Utc>,
) {
    let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let us = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let notes = match effect {
        AnswerEffect::Written { notes, .. } => notes.as_slice(),
        AnswerEffect::AskAgain { .. } | AnswerEffect::Unusable { .. } => &[],
    };
    query(
        "UPDATE calls SET answered_at = $2, reply_text = $3, complete = $4, unusable = $5, notes = $6, \
         input_tokens = $7, cached_tokens = $8, cache_written_tokens = $9, output_tokens = $10, \
         usage_estimated = $11, cost = $12, answered_by = $13, request_id = $14, \
         first_token_us = $15, total_us = $16, attempts = $17 WHERE id = $1",
    )
    .bind(call.uuid())
    .bind(micros(now))
    .bind(reply)
    .bind(i64::from(answer.complete))
    .bind(effect.unusable())
    .bind(json(&notes))
    .bind(whole(answer.usage.input))
    .bind(whole(answer.usage.cached))
    .bind(whole(answer.usage.cache_written))
    .bind(whole(answer.usage.output))
    .bind(i64::from(answer.usage_estimated))
    .bind(answer.cost.map(|cost| whole(cost.nanos())))
    .bind(&answer.answered_by)
    .bind(&answer.request_id)
    .bind(answer.first_token.map(us))
    .bind(us(answer.total))
    .bind(i64::from(answer.attempts))
    .defer(tx);
}

/// Adds an answered call to the totals of its run.
fn count_answer(tx: &mut Connection, call: CallId) {
    query(
        "UPDATE runs SET unanswered = 0, answered_calls = runs.answered_calls + 1, \
         input_tokens = runs.input_tokens + k.input_tokens, \
         cached_tokens = runs.cached_tokens + k.cached_tokens, \
         cache_written_tokens = runs.cache_written_tokens + k.cache_written_tokens, \
         output_tokens = runs.output_tokens + k.output_tokens, \
         cost = runs.cost + COALESCE(k.cost, 0), \
         unpriced_calls = runs.unpriced_calls + CASE WHEN k.cost IS NULL THEN 1 ELSE 0 END, \
         interrupted_requests = runs.interrupted_requests + k.interrupted, \
         interrupted_tokens = runs.interrupted_tokens + k.interrupted * k.reserved_tokens, \
         interrupted_nanos = runs.interrupted_nanos + k.interrupted * k.reserved_nanos \
         FROM (SELECT *, CASE WHEN requests > failures + 1 THEN requests - failures - 1 ELSE 0 END \
         AS interrupted FROM calls WHERE id = $1) \
         AS k WHERE runs.id = k.run",
    )
    .bind(call.uuid())
    .defer(tx);
}

/// Applies an answer to the candidate that waits for it. Returns true if the candidate was written and
/// waits for a verdict.
async fn apply_answer(
    tx: &mut Connection,
    call_state: &CallState,
    source: Option<TextId>,
    ids: ProposalIds,
    next: CallId,
    effect: &AnswerEffect,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    match effect {
        AnswerEffect::Written { text, .. } => {
            let identity = text.identity.as_ref();
            let ordinal = i64::from(call_state.ordinal);
            let original = same_code::original(tx, call_state.run, identity, ordinal).await?;
            if let (Some(identity), None) = (identity, original) {
                let (run, candidate) = (call_state.run, call_state.candidate);
                same_code::mark_later_copies(tx, run, candidate, ordinal, identity);
            }
            query(
                "UPDATE candidates SET title = $2, source_text = $3, digest = $4, configuration = $5, \
                 idea = $6, state = $7, duplicate_of = $8, text_digest = $9, launches = $10, \
                 technique = $11 WHERE id = $1",
            )
            .bind(call_state.candidate.uuid())
            .bind(&text.title)
            .bind(source)
            .bind(identity.map(|identity| identity.digest.to_string()))
            .bind(json(&text.configuration))
            .bind(text.idea.as_ref().map(json))
            .bind(if original.is_some() {
                "duplicate"
            } else {
                "pending"
            })
            .bind(original)
            .bind(identity.map(|identity| identity.text.to_string()))
            .bind(identity.map(|identity| identity.launches.to_string()))
            .bind(candidates::technique(&text.source))
            .defer(tx);
            let (run, verdict) = (call_state.run, text.verdict.as_deref());
            let code = KnownCode { original, identity };
            candidates::judge_or_enqueue(tx, run, &ids, code, verdict, STAGE, now).await
        }
        AnswerEffect::AskAgain { call, .. } => {
            insert_call(
                tx,
                next,
                call_state.run,
                call_state.candidate,
                call_state.turn + 1,
                call,
                now,
            )
            .await?;
            Ok(false)
        }
        AnswerEffect::Unusable { verdict, .. } => {
            let (run, verdict) = (call_state.run, Some(&**verdict));
            let code = KnownCode::default();
            candidates::judge_or_enqueue(tx, run, &ids, code, verdict, STAGE, now).await
        }
    }
}
