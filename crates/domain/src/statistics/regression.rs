//! The gate against a gain on average that hides a loss on one case.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::distribution::{binomial_tail, student_tail};
use super::interval::effect;
use super::rank::holm;
use super::summary::{mean, median};
use crate::margins::REGRESSION_LOG;

/// The probability that the gate passes a case that is slower than the limit.
const LEVEL: f64 = 0.05;

/// One case before the gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Regression {
    /// The case with its state of the cache, counted from 0 as the comparison's protocol has them.
    pub case: usize,
    /// Its effect; negative is slower.
    pub effect: f64,
    /// The probability of such rounds if the case were slower by the limit, corrected for the
    /// number of cases.
    pub probability: f64,
    /// True if the case blocks the candidate: a slowdown beyond the limit cannot be excluded.
    pub blocks: bool,
}

/// Every case of a comparison before the gate: `cases[case][process][round]`.
pub fn check_regressions(cases: &[Vec<Vec<f64>>]) -> Vec<Regression> {
    let probabilities = cases
        .iter()
        .map(|processes| if_slower(processes))
        .collect::<Vec<_>>();
    let corrected = holm(&probabilities);
    cases
        .iter()
        .zip(corrected)
        .enumerate()
        .map(|(case, (processes, probability))| {
            let excluded = probability <= LEVEL;
            Regression {
                case,
                effect: effect(processes).unwrap_or(f64::NAN),
                probability,
                blocks: !excluded,
            }
        })
        .collect()
}

/// The probability of rounds so high if their centre lay at the limit: the sign test within one
/// process, Student's t over the medians of several. One where it cannot be said.
fn if_slower(processes: &[Vec<f64>]) -> f64 {
    let medians = processes
        .iter()
        .filter_map(|one| median(one))
        .map(|value| value + REGRESSION_LOG)
        .collect::<Vec<_>>();
    match (processes, medians.as_slice()) {
        (_, []) => 1.0,
        ([only], _) => {
            let below = only
                .iter()
                .filter(|value| **value <= -REGRESSION_LOG)
                .count();
            binomial_tail(only.len(), below)
        }
        (_, several) => {
            let Some(degrees) = u32::try_from(several.len() - 1).ok().filter(|&n| n > 0) else {
                return 1.0;
            };
            let centre = mean(several).unwrap_or(f64::NAN);
            let squares: f64 = several.iter().map(|value| (value - centre).powi(2)).sum();
            let error = (squares / f64::from(degrees) / f64::from(degrees + 1)).sqrt();
            if error == 0.0 {
                // Processes that agree to the last digit leave no doubt.
                return if centre > 0.0 { 0.0 } else { 1.0 };
            }
            student_tail(centre / error, degrees)
        }
    }
}
