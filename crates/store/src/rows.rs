//! Between columns and the domain's values. A value that does not convert is an error with its
//! row, never a default.

use std::error::Error;
use std::fmt::Display;

use chrono::{DateTime, Utc};
use domain::api::{CandidateState, PromotionState, RunState};
use domain::evaluation::EvaluationStage;
use domain::id::CandidateId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::StoreError;

/// A row, for errors.
#[derive(Debug)]
pub(crate) struct RowRef {
    table: &'static str,
    row: String,
}

impl RowRef {
    pub(crate) fn new(table: &'static str, row: impl Display) -> Self {
        Self {
            table,
            row: row.to_string(),
        }
    }

    pub(crate) fn wrong(
        &self,
        column: &'static str,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> StoreError {
        StoreError::Inconsistent {
            table: self.table,
            column,
            row: self.row.clone(),
            source: source.into(),
        }
    }

    pub(crate) fn json<T: DeserializeOwned>(
        &self,
        column: &'static str,
        text: &str,
    ) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|error| self.wrong(column, error))
    }

    /// A value that is one word, such as a unit variant.
    pub(crate) fn word<T: DeserializeOwned>(
        &self,
        column: &'static str,
        text: &str,
    ) -> Result<T, StoreError> {
        serde_json::from_value(Value::String(text.to_owned()))
            .map_err(|error| self.wrong(column, error))
    }

    /// A job's stage from its two columns: to ask a champion again is to confirm it, and to ask
    /// for more.
    pub(crate) fn stage(&self, word: &str, champion: bool) -> Result<EvaluationStage, StoreError> {
        match self.word("stage", word)? {
            EvaluationStage::Confirmation if champion => Ok(EvaluationStage::Champion),
            stage => Ok(stage),
        }
    }

    pub(crate) fn number<T: TryFrom<i64>>(
        &self,
        column: &'static str,
        value: i64,
    ) -> Result<T, StoreError> {
        T::try_from(value).map_err(|_| self.wrong(column, format!("{value} is out of range")))
    }

    pub(crate) fn time(
        &self,
        column: &'static str,
        micros: i64,
    ) -> Result<DateTime<Utc>, StoreError> {
        DateTime::from_timestamp_micros(micros)
            .ok_or_else(|| self.wrong(column, format!("{micros} us is no time")))
    }

    /// A run's state from its two columns.
    pub(crate) fn run_state(&self, state: &str, detail: &str) -> Result<RunState, StoreError> {
        Ok(match state {
            "created" => RunState::Created,
            "checking_baseline" => RunState::CheckingBaseline,
            "running" => RunState::Running,
            "paused" => RunState::Paused {
                reason: detail.to_owned(),
            },
            "completed" => RunState::Completed {
                reason: self.word("state_detail", detail)?,
            },
            "failed" => RunState::Failed {
                reason: detail.to_owned(),
            },
            "cancelled" => RunState::Cancelled,
            other => return Err(self.wrong("state", format!("{other:?} is no run state"))),
        })
    }

    /// A promotion's state from its columns.
    pub(crate) fn promotion_state(
        &self,
        state: &str,
        detail: &str,
        commit: Option<String>,
        revert: Option<String>,
    ) -> Result<PromotionState, StoreError> {
        let reason = detail.to_owned();
        Ok(match state {
            "confirming" => PromotionState::Confirming,
            "committed" => PromotionState::Committed {
                commit: commit.ok_or_else(|| self.wrong("commit_id", "a commit is missing"))?,
            },
            "reverted" => PromotionState::Reverted {
                commit: revert.ok_or_else(|| self.wrong("revert_id", "a commit is missing"))?,
                reason,
            },
            "refused" => PromotionState::Refused { reason },
            "blocked" => PromotionState::Blocked { reason },
            other => return Err(self.wrong("state", format!("{other:?} is no promotion state"))),
        })
    }

    /// A candidate's state, without the stage of its evaluation. `repeated` is the candidate whose code it has.
    /// That may be known before it has a verdict of its own: a model answered for it first.
    pub(crate) fn candidate_state(
        &self,
        state: &str,
        detail: &str,
        repeated: Option<uuid::Uuid>,
    ) -> Result<CandidateState, StoreError> {
        Ok(match (state, repeated) {
            ("pending", _) => CandidateState::Queued,
            ("evaluated", None) => CandidateState::Evaluated,
            // It was evaluated before it was known to be compiled to the same code.
            ("evaluated", Some(of)) => CandidateState::Duplicate {
                of: CandidateId::from(of),
            },
            ("abandoned", _) => CandidateState::Abandoned {
                message: detail.to_owned(),
            },
            ("duplicate", Some(of)) => CandidateState::Duplicate {
                of: CandidateId::from(of),
            },
            _ => return Err(self.wrong("state", format!("{state:?} is no candidate state"))),
        })
    }
}

/// The two columns of a run's state.
pub(crate) fn run_state_columns(state: &RunState) -> (&'static str, String) {
    let detail = match state {
        RunState::Paused { reason } | RunState::Failed { reason } => reason.clone(),
        RunState::Completed { reason } => word(reason),
        RunState::Created
        | RunState::CheckingBaseline
        | RunState::Running
        | RunState::Cancelled => String::new(),
    };
    (state.as_str(), detail)
}

/// The JSON text of a value of the domain.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("the domain's values have text keys")
}

/// The one word of a unit variant.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        other => unreachable!("a unit variant is one word, not {other:?}"),
    }
}

/// Microseconds since 1970.
pub(crate) fn micros(time: DateTime<Utc>) -> i64 {
    time.timestamp_micros()
}

/// The word for a stage, which a champion's shares with a confirmation's: both come of the same
/// family of inputs, are counted together, and decide about a promotion.
pub(crate) fn stage_word(stage: EvaluationStage) -> &'static str {
    match stage {
        EvaluationStage::Baseline => "baseline",
        EvaluationStage::Search => "search",
        EvaluationStage::Confirmation | EvaluationStage::Champion => "confirmation",
    }
}
