//! Steering of a run while it goes on: requests, and their record.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::{CandidateId, RunId};
use crate::model::Dollars;
use crate::search::{Budget, Evolution, Method, ModelChoice};

/// A direction that someone gave a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SteeringEntry {
    /// Its number in the run, from 1.
    pub entry: u32,
    /// The time.
    pub at: DateTime<Utc>,
    /// The name of the token that asked, or the words for a caller without one.
    pub actor: String,
    /// Candidates that the run had: the direction holds for those that are planned after them.
    pub since: u32,
    /// The direction.
    #[serde(flatten)]
    pub what: Steer,
    /// Number of the entry that withdrew it.
    #[serde(default)]
    pub withdrawn_by: Option<u32>,
}

/// The directions that a run can be given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Steer {
    /// Prompts carry a text.
    Hint {
        /// The text.
        text: String,
        /// The number of candidates whose prompts carry it; all further ones if absent.
        prompts: Option<u32>,
    },
    /// A candidate is a parent of every further candidate; several take turns.
    Pin {
        /// The candidate.
        candidate: CandidateId,
        /// Its ordinal.
        ordinal: u32,
    },
    /// A candidate is nobody's parent and no champion.
    Ban {
        /// The candidate.
        candidate: CandidateId,
        /// Its ordinal.
        ordinal: u32,
        /// True if its descendants are banned, too.
        descendants: bool,
    },
    /// Prompts tell to avoid an idea.
    Avoid {
        /// The idea.
        idea: String,
    },
    /// Prompts show a candidate's thought in other words, or not at all.
    Insight {
        /// The candidate whose thought it is.
        candidate: CandidateId,
        /// Its ordinal.
        ordinal: u32,
        /// The corrected text; none if prompts no longer show the thought.
        text: Option<String>,
    },
    /// An earlier hint, pin, ban, avoided idea or edited insight holds no longer.
    Withdraw {
        /// Number of that entry; not of this one.
        withdrawn: u32,
    },
    /// The limits of the run changed.
    Budget {
        /// The limits before.
        before: Budget,
        /// The limits after.
        after: Budget,
    },
    /// A model takes the place of another.
    Model {
        /// Name of the model that was asked.
        from: String,
        /// Name of the model that is asked in its place.
        to: String,
    },
    /// Another run was started from a candidate.
    Fork {
        /// The candidate.
        candidate: CandidateId,
        /// Its ordinal.
        ordinal: u32,
        /// The new run.
        fork: RunId,
    },
    /// A candidate is evaluated again, with fresh inputs and as thoroughly as before a promotion.
    Reevaluate {
        /// The candidate.
        candidate: CandidateId,
        /// Its ordinal.
        ordinal: u32,
    },
    /// A candidate is confirmed, and committed if that holds.
    Promote {
        /// The candidate.
        candidate: CandidateId,
        /// Its ordinal.
        ordinal: u32,
    },
}

/// A text for the next prompts of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HintRequest {
    /// The text.
    pub text: String,
    /// The number of candidates whose prompts carry it; until it is withdrawn if absent.
    #[serde(default)]
    pub prompts: Option<u32>,
}

/// A candidate that a direction is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CandidateRequest {
    /// The candidate.
    pub candidate: CandidateId,
}

/// A candidate to ban, or an idea that prompts tell to avoid. One of both.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BanRequest {
    /// The candidate.
    pub candidate: Option<CandidateId>,
    /// Ban its descendants, too.
    pub descendants: bool,
    /// The idea.
    pub idea: Option<String>,
}

/// A candidate's thought to correct, or to leave out of prompts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InsightRequest {
    /// The candidate whose thought it is.
    pub candidate: CandidateId,
    /// The corrected text; the thought is left out of prompts if absent.
    #[serde(default)]
    pub text: Option<String>,
}

/// A hint, pin, ban, avoided idea or edited insight to withdraw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WithdrawRequest {
    /// Its number in the run's steering.
    pub entry: u32,
}

/// New limits of a run. Those that are absent stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetRequest {
    /// Candidates, those charged so far included.
    pub trials: Option<u32>,
    /// Wall time of the run in seconds, pauses not counted.
    pub wall_seconds: Option<u64>,
    /// Tokens read and written by models.
    pub tokens: Option<u64>,
    /// The cost of models.
    pub dollars: Option<Dollars>,
    /// Seconds that devices spend on the run's candidates.
    pub device_seconds: Option<u64>,
    /// The price of this time, dollars.
    pub device_dollars: Option<Dollars>,
    /// Percent of the floor at which the run ends; 0 to go on however close it comes.
    pub floor_percent: Option<u32>,
    /// The least gain that another dollar is expected to bring, percent; 0 to go on however small it is.
    pub gain_per_dollar: Option<u32>,
    /// Number of trials in a row that bring nothing faster, after which the run ends; 0 to go on after any number.
    pub trials_without_gain: Option<u32>,
}

impl BudgetRequest {
    /// The limits with these in their places.
    pub fn applied_to(&self, budget: Budget) -> Budget {
        let stop = |given: Option<u32>, before| match given {
            Some(0) => None,
            given => given.or(before),
        };
        Budget {
            trials: self.trials.unwrap_or(budget.trials),
            wall_seconds: self.wall_seconds.or(budget.wall_seconds),
            tokens: self.tokens.or(budget.tokens),
            dollars: self.dollars.or(budget.dollars),
            device_seconds: self.device_seconds.or(budget.device_seconds),
            device_dollars: self.device_dollars.or(budget.device_dollars),
            floor_percent: stop(self.floor_percent, budget.floor_percent),
            gain_per_dollar: stop(self.gain_per_dollar, budget.gain_per_dollar),
            trials_without_gain: stop(self.trials_without_gain, budget.trials_without_gain),
        }
    }
}

/// A model to replace by another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelRequest {
    /// Name of a model of the run.
    pub from: String,
    /// Name of the configured model that takes its place and its weight.
    pub to: String,
}

/// A run to start from a candidate. What is absent is as in the candidate's run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkRequest {
    /// The accepted candidate that the new run starts from.
    pub candidate: CandidateId,
    /// The method: one that asks models, or external.
    #[serde(default)]
    pub method: Option<Method>,
    /// The configured models that write candidates.
    #[serde(default)]
    pub models: Option<Vec<ModelChoice>>,
    /// The limits that stop the new run.
    #[serde(default)]
    pub budget: BudgetRequest,
    /// The settings of the methods that ask models.
    #[serde(default)]
    pub evolution: Option<Evolution>,
    /// Seed of every random decision of the search.
    #[serde(default)]
    pub seed: Option<u64>,
    /// A name for people; made from the candidate's run when absent.
    #[serde(default)]
    pub name: Option<String>,
}

/// The candidate that a run was forked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForkOrigin {
    /// The candidate's run.
    pub run: RunId,
    /// The candidate.
    pub candidate: CandidateId,
    /// Its ordinal in that run.
    pub ordinal: u32,
}
