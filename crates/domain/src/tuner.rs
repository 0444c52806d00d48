//! The tuner: strategies that search a discrete space of configurations, one question after the
//! other.
//!
//! [`Tuner`] is deterministic: the same space, strategy, seed and told outcomes lead to the same
//! questions. It asks for no configuration twice, for none that the space lacks, and for all of them
//! in the end. It holds no state but what it was told, so that a search continues from recorded
//! outcomes.

mod forest;
mod genetic;
mod history;
mod local;
mod path;
mod sampling;
mod space;
mod surrogate;

use std::fmt;
use std::str::FromStr;

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use history::History;
use path::{Path, Pause};

pub use space::{Point, Space, SpaceError};

/// The strategies of a tuner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Every configuration in the order of the space.
    Exhaustive,
    /// Configurations in random order.
    Random,
    /// Latin hypercube samples of 16 configurations each.
    LatinHypercube,
    /// Greedy iterated local search.
    Greedy,
    /// A genetic algorithm.
    Genetic,
    /// Simulated annealing.
    SimulatedAnnealing,
    /// Dual annealing.
    DualAnnealing,
    /// A random forest that predicts the ranks of configurations. The default, because it found the
    /// fastest configurations at most budgets on recorded spaces (docs/measurements/tuners.md).
    #[default]
    Surrogate,
}

/// The outcome of evaluating a configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// It is valid and costs this much; less is better. A number that is not positive and finite
    /// counts as invalid.
    Valid(f64),
    /// It did not compile, run, or compute the right answer.
    Invalid,
}

/// A search of one space by one strategy.
#[derive(Debug, Clone)]
pub struct Tuner<'a> {
    space: &'a Space,
    strategy: Strategy,
    seed: u64,
    history: History,
    /// The configurations in the order in which they are asked for once the strategy has no further
    /// question.
    order: Vec<Point>,
    passed: usize,
    spent: bool,
}

impl<'a> Tuner<'a> {
    /// A search that knows no outcome yet.
    pub fn new(space: &'a Space, strategy: Strategy, seed: u64) -> Self {
        let mut order: Vec<Point> = (0..space.len()).collect();
        if strategy != Strategy::Exhaustive {
            order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        }
        Self {
            space,
            strategy,
            seed,
            history: History::default(),
            order,
            passed: 0,
            spent: false,
        }
    }

    /// The next configuration to evaluate, which counts as pending from now on. None once every
    /// configuration of the space was asked for.
    pub fn ask(&mut self) -> Option<Point> {
        let point = self.planned().or_else(|| self.next_in_order())?;
        self.mark_pending(point);
        Some(point)
    }

    /// Records that a configuration is being evaluated. Strategies take its cost to be the median of
    /// those that are known, so that several can be evaluated at a time.
    pub fn mark_pending(&mut self, point: Point) {
        self.history.insert(point, None);
    }

    /// Records the outcome of a configuration, whether or not it was asked for.
    pub fn tell(&mut self, point: Point, outcome: Outcome) {
        let cost = match outcome {
            Outcome::Valid(cost) if cost.is_finite() && cost > 0.0 => cost,
            Outcome::Valid(_) | Outcome::Invalid => f64::INFINITY,
        };
        self.history.insert(point, Some(cost));
    }

    /// The strategy's own question; none where it has no further one.
    fn planned(&mut self) -> Option<Point> {
        let sequential = match self.strategy {
            Strategy::Exhaustive | Strategy::Random => return None,
            Strategy::LatinHypercube => {
                return sampling::latin_hypercube(self.space, &self.history, self.seed);
            }
            Strategy::Surrogate => return surrogate::ask(self.space, &self.history, self.seed),
            Strategy::Greedy => local::iterated,
            Strategy::SimulatedAnnealing => local::annealing,
            Strategy::DualAnnealing => local::dual_annealing,
            Strategy::Genetic => genetic::genetic,
        };
        if self.spent {
            return None;
        }
        let rng = ChaCha8Rng::seed_from_u64(self.seed);
        let Err(pause) = sequential(&mut Path::new(self.space, rng, &self.history));
        match pause {
            Pause::Ask(point) => Some(point),
            Pause::Spent => {
                // Costs that were assumed may change the path once they are known.
                self.spent = !self.history.has_pending();
                None
            }
        }
    }

    fn next_in_order(&mut self) -> Option<Point> {
        while let Some(point) = self.order.get(self.passed) {
            self.passed += 1;
            if !self.history.contains(*point) {
                return Some(*point);
            }
        }
        None
    }
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 8] = [
        Self::Exhaustive,
        Self::Random,
        Self::LatinHypercube,
        Self::Greedy,
        Self::Genetic,
        Self::SimulatedAnnealing,
        Self::DualAnnealing,
        Self::Surrogate,
    ];

    /// Its name, as commands take it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exhaustive => "exhaustive",
            Self::Random => "random",
            Self::LatinHypercube => "latin-hypercube",
            Self::Greedy => "greedy",
            Self::Genetic => "genetic",
            Self::SimulatedAnnealing => "simulated-annealing",
            Self::DualAnnealing => "dual-annealing",
            Self::Surrogate => "surrogate",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error of reading the name of a [`Strategy`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no strategy; known are {names}", names = Strategy::ALL.map(Strategy::as_str).join(", "))]
pub struct UnknownStrategy(String);

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, UnknownStrategy> {
        let known = Self::ALL.into_iter().find(|one| one.as_str() == text);
        known.ok_or_else(|| UnknownStrategy(text.to_owned()))
    }
}
