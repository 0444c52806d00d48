//! The effect of a comparison, and bounds on it that assume as little as can be.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::distribution::{binomial_tail, student_quantile};
use super::summary::{mean, median, sorted};

/// Bounds on an effect, each of which holds with the stated probability by itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Interval {
    /// The effect is at least this.
    pub lower: f64,
    /// The effect is at most this.
    pub upper: f64,
}

impl Interval {
    /// Bounds that say nothing.
    pub const UNKNOWN: Self = Self {
        lower: f64::NEG_INFINITY,
        upper: f64::INFINITY,
    };

    /// Half of the distance between the bounds.
    pub fn half_width(&self) -> f64 {
        0.5 * (self.upper - self.lower)
    }
}

/// The effect of log-ratios grouped by process: the mean of the processes' medians. None of
/// nothing.
pub fn effect(processes: &[Vec<f64>]) -> Option<f64> {
    mean(&medians(processes))
}

/// Bounds on the effect, each wrong with probability `alpha` at most.
///
/// Of one process: order statistics, which bound the median of any distribution (the interval
/// that inverts the sign test). Of several: Student's t over the processes' medians, since what
/// all rounds of a process share is noise of one draw.
pub fn interval(processes: &[Vec<f64>], alpha: f64) -> Interval {
    match processes {
        [] => Interval::UNKNOWN,
        [only] => by_order(only, alpha),
        several => by_process(&medians(several), alpha),
    }
}

fn medians(processes: &[Vec<f64>]) -> Vec<f64> {
    processes.iter().filter_map(|one| median(one)).collect()
}

fn by_order(values: &[f64], alpha: f64) -> Interval {
    let sorted = sorted(values);
    let n = sorted.len();
    // The number of values that may be left out at either end.
    let spare = (0..n / 2)
        .take_while(|&k| binomial_tail(n, k) <= alpha)
        .count();
    match spare.checked_sub(1) {
        None => Interval::UNKNOWN,
        Some(k) => Interval {
            lower: sorted[k],
            upper: sorted[n - 1 - k],
        },
    }
}

fn by_process(medians: &[f64], alpha: f64) -> Interval {
    let Some((centre, degrees)) = mean(medians).zip(
        u32::try_from(medians.len())
            .ok()
            .and_then(|count| count.checked_sub(1))
            .filter(|&degrees| degrees > 0),
    ) else {
        return Interval::UNKNOWN;
    };
    let squares: f64 = medians.iter().map(|value| (value - centre).powi(2)).sum();
    let variance = squares / f64::from(degrees);
    let error = (variance / f64::from(degrees + 1)).sqrt();
    let reach = student_quantile(alpha, degrees) * error;
    Interval {
        lower: centre - reach,
        upper: centre + reach,
    }
}
