//! Rows of calls, and their conversion to values of the domain.

use domain::api::{CallView, ReplyView};
use domain::id::{CallId, CandidateId, RunId};
use domain::model::{Dollars, Usage};
use domain::search::Spend;
use uuid::Uuid;

use super::DueCall;
use crate::rows::RowRef;
use crate::sql::Flag;
use crate::texts::TextId;
use crate::{StoreError, runs};

#[derive(sqlx::FromRow)]
pub(super) struct SpendRow {
    pub(super) calls: i64,
    pub(super) input: i64,
    pub(super) cached: i64,
    pub(super) cache_written: i64,
    pub(super) output: i64,
    pub(super) cost: i64,
    pub(super) unpriced: i64,
    pub(super) committed_tokens: i64,
    pub(super) committed_nanos: i64,
    pub(super) interrupted: i64,
    pub(super) interrupted_tokens: i64,
    pub(super) interrupted_nanos: i64,
    pub(super) device_us: i64,
    pub(super) device_cost: i64,
}

impl SpendRow {
    pub(super) fn read(self, run: RunId) -> Result<Spend, StoreError> {
        let row_ref = RowRef::new("calls", run);
        let number = |column, value| row_ref.number::<u64>(column, value);
        Ok(Spend {
            calls: number("answered_at", self.calls)?,
            usage: Usage {
                input: number("input_tokens", self.input)?,
                cached: number("cached_tokens", self.cached)?,
                cache_written: number("cache_written_tokens", self.cache_written)?,
                output: number("output_tokens", self.output)?,
            },
            dollars: Dollars::from_nanos(number("cost", self.cost)?),
            unpriced_calls: number("cost", self.unpriced)?,
            committed_tokens: number("reserved_tokens", self.committed_tokens)?,
            committed_dollars: Dollars::from_nanos(number("reserved_nanos", self.committed_nanos)?),
            interrupted_calls: number("requests", self.interrupted)?,
            interrupted_tokens: number("reserved_tokens", self.interrupted_tokens)?,
            interrupted_dollars: Dollars::from_nanos(number(
                "reserved_nanos",
                self.interrupted_nanos,
            )?),
            device_ms: number("device_us", self.device_us)? / 1000,
            device_dollars: Dollars::from_nanos(number("device_cost", self.device_cost)?),
        })
    }
}

#[derive(sqlx::FromRow)]
pub(super) struct DueRow {
    pub(super) id: Uuid,
    pub(super) run: Uuid,
    pub(super) candidate: Uuid,
    pub(super) ordinal: i64,
    pub(super) turn: i64,
    pub(super) model: String,
    pub(super) seed: i64,
    pub(super) temperature: f64,
    pub(super) prompt_text: TextId,
    pub(super) seen: String,
    pub(super) failures: i64,
    pub(super) task_content: String,
    #[sqlx(try_from = "Flag")]
    pub(super) due: bool,
}

impl DueRow {
    pub(super) fn read(self, prompt: &str) -> Result<DueCall, StoreError> {
        let id = CallId::from(self.id);
        let row_ref = RowRef::new("calls", id);
        Ok(DueCall {
            id,
            run: RunId::from(self.run),
            candidate: CandidateId::from(self.candidate),
            ordinal: row_ref.number("ordinal", self.ordinal)?,
            turn: row_ref.number("turn", self.turn)?,
            model: self.model,
            seed: row_ref.number("seed", self.seed)?,
            temperature: self.temperature,
            prompt: row_ref.json("prompt_text", prompt)?,
            seen: row_ref.json("seen", &self.seen)?,
            failures: row_ref.number("failures", self.failures)?,
            content: runs::content(self.run.into(), &self.task_content)?,
        })
    }
}

#[derive(sqlx::FromRow)]
pub(super) struct CallRow {
    pub(super) id: Uuid,
    pub(super) turn: i64,
    pub(super) model: String,
    pub(super) template: String,
    pub(super) template_digest: String,
    pub(super) prompt_text: TextId,
    pub(super) dropped: String,
    pub(super) seen: String,
    pub(super) failures: i64,
    pub(super) interrupted: i64,
    pub(super) last_error: Option<String>,
    pub(super) created_at: i64,
    pub(super) answered_at: Option<i64>,
    pub(super) reply_text: Option<TextId>,
    pub(super) complete: Option<i64>,
    pub(super) unusable: Option<String>,
    pub(super) notes: Option<String>,
    pub(super) input_tokens: Option<i64>,
    pub(super) cached_tokens: Option<i64>,
    pub(super) cache_written_tokens: Option<i64>,
    pub(super) output_tokens: Option<i64>,
    pub(super) usage_estimated: Option<i64>,
    pub(super) cost: Option<i64>,
    pub(super) answered_by: Option<String>,
    pub(super) first_token_us: Option<i64>,
    pub(super) total_us: Option<i64>,
    pub(super) attempts: Option<i64>,
}

impl CallRow {
    pub(super) fn read(self, prompt: &str, reply: Option<String>) -> Result<CallView, StoreError> {
        let row_ref = RowRef::new("calls", CallId::from(self.id));
        let tokens = |column, value: Option<i64>| row_ref.number::<u64>(column, value.unwrap_or(0));
        let reply = match (reply, self.answered_at) {
            (Some(text), Some(at)) => Some(ReplyView {
                text,
                complete: self.complete == Some(1),
                unusable: self.unusable,
                notes: row_ref.json("notes", self.notes.as_deref().unwrap_or("[]"))?,
                usage: Usage {
                    input: tokens("input_tokens", self.input_tokens)?,
                    cached: tokens("cached_tokens", self.cached_tokens)?,
                    cache_written: tokens("cache_written_tokens", self.cache_written_tokens)?,
                    output: tokens("output_tokens", self.output_tokens)?,
                },
                usage_estimated: self.usage_estimated == Some(1),
                cost: self
                    .cost
                    .map(|nanos| row_ref.number("cost", nanos).map(Dollars::from_nanos))
                    .transpose()?,
                answered_by: self.answered_by.unwrap_or_default(),
                first_token_ms: self.first_token_us.map(|us| us as f64 / 1000.0),
                total_ms: self.total_us.unwrap_or(0) as f64 / 1000.0,
                attempts: row_ref.number("attempts", self.attempts.unwrap_or(0))?,
                at: row_ref.time("answered_at", at)?,
            }),
            _ => None,
        };
        Ok(CallView {
            turn: row_ref.number("turn", self.turn)?,
            model: self.model,
            template: self.template,
            template_digest: self.template_digest.parse().map_err(
                |error: domain::digest::DigestError| row_ref.wrong("template_digest", error),
            )?,
            prompt: row_ref.json("prompt_text", prompt)?,
            dropped: row_ref.json("dropped", &self.dropped)?,
            seen: row_ref.json("seen", &self.seen)?,
            failures: row_ref.number("failures", self.failures)?,
            interrupted: row_ref.number("requests", self.interrupted)?,
            trouble: self.last_error.filter(|_| reply.is_none()),
            reply,
            created_at: row_ref.time("created_at", self.created_at)?,
        })
    }
}

/// A call with its candidate's state.
#[derive(sqlx::FromRow)]
pub(super) struct CallStateRow {
    pub(super) run: Uuid,
    pub(super) candidate: Uuid,
    pub(super) ordinal: i64,
    pub(super) turn: i64,
    pub(super) model: String,
    pub(super) answered_at: Option<i64>,
    pub(super) state: String,
}
