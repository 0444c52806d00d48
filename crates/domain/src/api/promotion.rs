//! The list of promotions over all runs.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::PromotionView;
use crate::id::RunId;

/// Names of the states of promotions, for filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "each is documented at the state of the same name"
)]
pub enum PromotionStateName {
    Confirming,
    Committed,
    Reverted,
    Refused,
    Blocked,
}

impl PromotionStateName {
    /// The name as the wire and the database carry it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirming => "confirming",
            Self::Committed => "committed",
            Self::Reverted => "reverted",
            Self::Refused => "refused",
            Self::Blocked => "blocked",
        }
    }
}

/// A promotion with its run and its candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PromotionEntry {
    /// The run.
    pub run: RunId,
    /// The run's name.
    pub run_name: String,
    /// Name of the task.
    pub task: String,
    /// Position of the candidate in the run.
    pub ordinal: u32,
    /// The candidate in a few words.
    pub title: String,
    /// Baseline's time over the candidate's: as confirmed for the commit, else as the search found it.
    pub speedup: Option<f64>,
    /// True if the search's times of the candidate are modelled.
    pub modelled: bool,
    /// The time at which the promotion began.
    pub created_at: DateTime<Utc>,
    /// The time of its last change.
    pub updated_at: DateTime<Utc>,
    /// The promotion.
    pub promotion: PromotionView,
}

/// A page of promotions, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PromotionPage {
    /// The promotions.
    pub promotions: Vec<PromotionEntry>,
    /// Pass as `cursor` for the next page; absent on the last.
    pub next: Option<String>,
}
