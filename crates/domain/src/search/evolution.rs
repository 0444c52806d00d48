//! The settings of the methods that ask models (schedule, repairs, wording of prompts, models), and of those that
//! search tunables.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Method;
use crate::tuner::Strategy;

/// The most serial repairs of one candidate. Later ones rarely find what the first ones did not.
const MAX_REPAIRS: u32 = 4;

/// The settings of the methods that ask models. `sweep` takes `strategy` and `first_configurations` only, and
/// `transform` also `sweep_percent`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Evolution {
    /// The schedule: slots in generations, or one by one.
    pub schedule: Schedule,
    /// Generations after the initial ones. Only the budget ends runs of `best_of`, `refine`, `funsearch`
    /// and `adaptive`.
    pub generations: u32,
    /// Follow the published method to the letter: parents drawn with replacement, the elite filled
    /// up with invalid members, insights without outcomes and only of survivors.
    pub faithful: bool,
    /// Sampling temperature, for models that take one.
    pub temperature: f64,
    /// Serial repairs of each failed candidate, 4 at most: its model gets the candidate back with the
    /// diagnosis. Repairs are no trials. Without effect where `faithful` is set.
    pub repairs: u32,
    /// Share of the timed candidates that are configurations of the elite's tunables, percent, 90 at
    /// most; 0 for none. They are no trials. Without effect where `faithful` is set.
    pub sweep_percent: u32,
    /// How configurations of tunables are chosen where not all of them are evaluated.
    pub strategy: Strategy,
    /// Configurations that are evaluated before the strategy chooses others, such as the fastest of a benchmark of
    /// one tile; at most 64. Each candidate takes the values of the tunables that it declares, and its own values of
    /// the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub first_configurations: Vec<BTreeMap<String, i64>>,
    /// Choose model and operator of a slot by how often they raised the best speedup per dollar, instead of
    /// by weights and in turn. Without effect where `faithful` is set.
    pub bandit: bool,
    /// The wording of prompts.
    pub style: PromptStyle,
    /// The longest prompt in tokens; when absent, the room in the model's context.
    pub prompt_tokens: Option<u32>,
}

impl Default for Evolution {
    fn default() -> Self {
        Self {
            schedule: Schedule::Generational,
            generations: 10,
            faithful: false,
            temperature: 1.0,
            repairs: 2,
            sweep_percent: 25,
            strategy: Strategy::default(),
            first_configurations: Vec::new(),
            bandit: false,
            style: PromptStyle::Standard,
            prompt_tokens: None,
        }
    }
}

impl Evolution {
    /// True if a method that asks no model has a use for everything that differs from the default.
    pub fn suits(&self, method: Method) -> bool {
        let mut used = Self::default();
        if matches!(method, Method::Sweep | Method::Transform) {
            used.strategy = self.strategy;
            used.first_configurations
                .clone_from(&self.first_configurations);
        }
        if method == Method::Transform {
            used.sweep_percent = self.sweep_percent;
        }
        *self == used
    }

    /// The most serial repairs of one failed candidate.
    pub fn repairs_of_each(&self) -> u32 {
        if self.faithful {
            0
        } else {
            self.repairs.min(MAX_REPAIRS)
        }
    }
}

/// The schedules by which slots are planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// A generation at a time: all of its slots see the same, and the next waits for all of them.
    Generational,
    /// A new slot as soon as the earliest open one is absorbed.
    Steady {
        /// Slots open at the same time.
        in_flight: u32,
    },
}

/// A family of prompt wordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptStyle {
    /// The published method's sections.
    #[default]
    Standard,
    /// A recommended order of changes: first parallelism, then tensor cores and pipelining, memory,
    /// compute, tuning.
    ParallelismFirst,
    /// Task and insights, nothing else.
    TaskInsights,
}

impl PromptStyle {
    /// Name as the wire and the records carry it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::ParallelismFirst => "parallelism_first",
            Self::TaskInsights => "task_insights",
        }
    }
}

/// A model that a run asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelChoice {
    /// Its configured name.
    pub name: String,
    /// The probability of being asked, relative to the other models.
    #[serde(default = "one")]
    pub weight: f64,
}

fn one() -> f64 {
    1.0
}
