//! The shape of a comparison's distribution around its median, for people. It excludes no value and
//! decides nothing, because medians are robust against the tails.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::summary::{mean, median, quantile, sorted};

/// A value this many interquartile ranges beyond a quartile is an outlier: Tukey's "far out".
const FAR_OUT: f64 = 3.0;
/// The fewest values whose modes are described.
const FEWEST: usize = 15;
/// The least share of the values that is a mode of its own, and no tail.
const LEAST_MODE: f64 = 0.1;
/// Two halves are two modes if telling them apart explains this share of the variance (Otsu, 1979).
/// It explains 2/π of a normal distribution's, 3/4 of a uniform one's, and 86% where two narrow
/// modes of equal weight lie five of their standard deviations apart.
const EXPLAINED: f64 = 0.86;

/// The scatter of values about their median.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Scatter {
    /// The value that is farthest from the median, less the median.
    pub farthest: f64,
    /// Values more than three interquartile ranges beyond a quartile.
    pub outliers: u32,
    /// The means of the two groups that the values fall into, the lower first; none where they are
    /// one group, or too few to say.
    pub modes: Option<[f64; 2]>,
}

/// The scatter of values about their median; none without a value.
///
/// # Panics
/// If a value is NaN.
pub fn scatter(values: &[f64]) -> Option<Scatter> {
    let centre = median(values)?;
    let (low, high) = (quantile(values, 0.25)?, quantile(values, 0.75)?);
    let reach = FAR_OUT * (high - low);
    let distances = values.iter().map(|value| value - centre);
    let farthest = distances.max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
    let far = |value: &&f64| **value < low - reach || **value > high + reach;
    Some(Scatter {
        farthest,
        outliers: u32::try_from(values.iter().filter(far).count()).unwrap_or(u32::MAX),
        modes: modes(&sorted(values)),
    })
}

/// The means of the two groups of ascending values that explain most of their variance, if they
/// explain enough and neither is a tail.
fn modes(ascending: &[f64]) -> Option<[f64; 2]> {
    let count = ascending.len();
    if count < FEWEST {
        return None;
    }
    let whole = mean(ascending)?;
    let variance: f64 = ascending.iter().map(|value| (value - whole).powi(2)).sum();
    #[expect(clippy::cast_precision_loss, reason = "there are few values")]
    let explained = |at: usize| -> Option<(f64, [f64; 2])> {
        let (lower, upper) = ascending.split_at(at);
        let means = [mean(lower)?, mean(upper)?];
        let between = lower.len() as f64 * (means[0] - whole).powi(2)
            + upper.len() as f64 * (means[1] - whole).powi(2);
        let smaller = at.min(count - at) as f64 / count as f64;
        (smaller >= LEAST_MODE).then_some((between, means))
    };
    let best = (1..count)
        .filter_map(explained)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (variance > 0.0 && best.0 >= EXPLAINED * variance).then_some(best.1)
}
