//! The configurations that a search has asked for or was told of.

use std::collections::HashMap;

use super::space::Point;

/// Configurations in the order in which they became known.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    trials: Vec<Trial>,
    by_point: HashMap<Point, usize>,
}

#[derive(Debug, Clone, Copy)]
struct Trial {
    point: Point,
    /// Infinite where invalid, none while it is pending.
    cost: Option<f64>,
}

impl History {
    /// Records a configuration or its cost. A known cost stays known.
    pub(super) fn insert(&mut self, point: Point, cost: Option<f64>) {
        let at = *self.by_point.entry(point).or_insert(self.trials.len());
        match self.trials.get_mut(at) {
            Some(trial) => trial.cost = cost.or(trial.cost),
            None => self.trials.push(Trial { point, cost }),
        }
    }

    pub(super) fn contains(&self, point: Point) -> bool {
        self.by_point.contains_key(&point)
    }

    pub(super) fn len(&self) -> usize {
        self.trials.len()
    }

    pub(super) fn has_pending(&self) -> bool {
        self.trials.iter().any(|trial| trial.cost.is_none())
    }

    /// The cost of a configuration; `assumed` while it is pending.
    pub(super) fn cost(&self, point: Point, assumed: f64) -> Option<f64> {
        let trial = self.trials[*self.by_point.get(&point)?];
        Some(trial.cost.unwrap_or(assumed))
    }

    /// Every configuration with its cost; `assumed` while it is pending.
    pub(super) fn costs(&self, assumed: f64) -> impl Iterator<Item = (Point, f64)> {
        self.trials
            .iter()
            .map(move |trial| (trial.point, trial.cost.unwrap_or(assumed)))
    }

    /// The median of the known valid costs, which is assumed of pending configurations.
    pub(super) fn median(&self) -> f64 {
        let mut valid = self.valid();
        valid.sort_by(f64::total_cmp);
        valid.get(valid.len() / 2).copied().unwrap_or(f64::INFINITY)
    }

    /// The known valid costs.
    pub(super) fn valid(&self) -> Vec<f64> {
        let costs = self.trials.iter().filter_map(|trial| trial.cost);
        costs.filter(|cost| cost.is_finite()).collect()
    }
}
