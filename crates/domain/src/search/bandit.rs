//! A bandit over models and operators: the next slot goes to those that have raised the best speedup most
//! often per dollar, with a bonus for those that were rarely tried (UCB1).
//!
//! Its state is what the run's candidates record, so that it is as durable as they are.

use std::collections::BTreeMap;

use super::{Entry, ModelChoice, Operator};
use crate::margins::FASTER_MARGIN;

/// Weight of the bonus for what was rarely tried. Few candidates raise the best speedup, so that the
/// bonus of UCB1, which fits rewards around one half, would outweigh them.
const EXPLORATION: f64 = 0.5;

/// The pairs of operator and model that a run has tried.
#[derive(Debug, Clone, Default)]
pub(super) struct Arms {
    arms: BTreeMap<(&'static str, String), Arm>,
    /// The highest speedup so far.
    best: f64,
}

/// The outcomes of one pair.
#[derive(Debug, Clone, Copy, Default)]
struct Arm {
    /// Candidates.
    pulls: usize,
    /// Those that raised the best speedup.
    wins: usize,
    /// Their cost, billionths of a dollar.
    nanos: u64,
}

impl Arms {
    /// Adds a judged candidate. Repairs do not count: they continue what another pair began.
    pub(super) fn add(&mut self, entry: &Entry, is_valid: bool) {
        let speedup = entry.speedup().filter(|_| is_valid).unwrap_or(0.0);
        let is_win = speedup > self.best * (1.0 + FASTER_MARGIN);
        if let Some(asked) = entry.asked.as_ref().filter(|_| entry.trial) {
            let pair = (entry.operator.as_str(), asked.model.clone());
            let arm = self.arms.entry(pair).or_default();
            arm.pulls += 1;
            arm.wins += usize::from(is_win);
            arm.nanos += asked.cost.nanos();
        }
        self.best = self.best.max(speedup);
    }

    /// Chooses operator and model of the next slot. `open` are candidates without a verdict yet, which
    /// count as tried, so that several slots planned together differ. Where only one operator is possible
    /// models are compared over all operators.
    pub(super) fn choose<'m>(
        &self,
        operators: &[Operator],
        models: &'m [ModelChoice],
        open: &[&Entry],
    ) -> Option<(Operator, &'m str)> {
        let mut all = self.arms.clone();
        for entry in open {
            if let Some(asked) = entry.asked.as_ref().filter(|_| entry.trial) {
                let pair = (entry.operator.as_str(), asked.model.clone());
                all.entry(pair).or_default().pulls += 1;
            }
        }
        let sum = |takes: &dyn Fn(&str, &str) -> bool| {
            let taken = all
                .iter()
                .filter(|((operator, model), _)| takes(operator, model));
            taken.fold(Arm::default(), |sum, (_, arm)| Arm {
                pulls: sum.pulls + arm.pulls,
                wins: sum.wins + arm.wins,
                nanos: sum.nanos + arm.nanos,
            })
        };
        let tried = sum(&|_, _| true).pulls as f64;
        let mut best: Option<(f64, Operator, &str)> = None;
        for operator in operators {
            for model in models.iter().filter(|model| model.weight > 0.0) {
                let name = model.name.as_str();
                let arm = sum(&|of, model| {
                    model == name && (operators.len() == 1 || of == operator.as_str())
                });
                let cost = self.cost(name);
                let score = match arm.pulls {
                    0 => f64::INFINITY,
                    pulls => {
                        let rate = arm.wins as f64 / pulls as f64;
                        let bonus = EXPLORATION * (tried.ln() / pulls as f64).sqrt();
                        (rate + bonus) / cost
                    }
                };
                if best.as_ref().is_none_or(|(highest, ..)| score > *highest) {
                    best = Some((score, operator.clone(), name));
                }
            }
        }
        best.map(|(_, operator, model)| (operator, model))
    }

    /// The average cost of a model's candidates in dollars. One where nothing was paid, so that models
    /// without a price are compared by their wins.
    fn cost(&self, model: &str) -> f64 {
        let own = self.arms.iter().filter(|((_, name), _)| name == model);
        let (pulls, nanos) = own.fold((0, 0), |(pulls, nanos), (_, arm)| {
            (pulls + arm.pulls, nanos + arm.nanos)
        });
        if nanos == 0 {
            1.0
        } else {
            nanos as f64 / 1e9 / pulls as f64
        }
    }
}
