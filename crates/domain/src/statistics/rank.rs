//! Tests that rest on ranks, and the correction for making several.

use super::distribution::normal_tail;

/// The most differences for which the distribution of the rank sum is computed exactly.
const EXACT: usize = 50;

/// Wilcoxon's signed-rank test: the probability of values at least as far above zero, if their
/// distribution is symmetric about zero. Zeros are dropped, ties get their mean rank. 1 without values.
pub fn signed_rank(values: &[f64]) -> f64 {
    let mut sized = values
        .iter()
        .filter(|value| **value != 0.0)
        .map(|value| (value.abs(), *value > 0.0))
        .collect::<Vec<_>>();
    sized.sort_by(|a, b| a.0.total_cmp(&b.0));
    let n = sized.len();
    if n == 0 {
        return 1.0;
    }
    // Twice the ranks, which are whole numbers even where two values tie.
    let mut doubled = Vec::with_capacity(n);
    while doubled.len() < n {
        let first = doubled.len();
        let ties = sized[first..]
            .iter()
            .take_while(|value| value.0.total_cmp(&sized[first].0).is_eq())
            .count();
        doubled.extend(std::iter::repeat_n(2 * first + ties + 1, ties));
    }
    let positive: usize = doubled
        .iter()
        .zip(&sized)
        .filter(|(_, (_, positive))| *positive)
        .map(|(rank, _)| *rank)
        .sum();
    if n <= EXACT {
        exact(&doubled, positive)
    } else {
        approximate(&doubled, positive)
    }
}

/// The share of all choices of signs whose positive ranks sum to at least `positive`.
fn exact(doubled: &[usize], positive: usize) -> f64 {
    let whole: usize = doubled.iter().sum();
    // The probability of each sum, one rank after another.
    let mut chances = vec![0.0; whole + 1];
    chances[0] = 1.0;
    for &rank in doubled {
        for sum in (0..=whole).rev() {
            let without = chances[sum];
            let with = sum.checked_sub(rank).map_or(0.0, |rest| chances[rest]);
            chances[sum] = 0.5 * (without + with);
        }
    }
    chances[positive..].iter().sum::<f64>().min(1.0)
}

/// The normal approximation; ties are in the ranks, hence in the variance.
fn approximate(doubled: &[usize], positive: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "sums of a few hundred ranks")]
    let number = |count: usize| count as f64;
    let mean = 0.5 * number(doubled.iter().sum());
    let variance: f64 = doubled
        .iter()
        .map(|&rank| 0.25 * number(rank).powi(2))
        .sum();
    // Half a step of the doubled sum, which moves in steps of two where nothing ties.
    normal_tail((number(positive) - mean - 1.0) / variance.sqrt())
}

/// Holm's correction: the probabilities, in their order, such that comparing all of them with a
/// level holds it for the family.
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order = (0..probabilities.len()).collect::<Vec<_>>();
    order.sort_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
    let mut adjusted = vec![1.0; probabilities.len()];
    let mut largest: f64 = 0.0;
    for (rank, &index) in order.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a family is small")]
        let left = (probabilities.len() - rank) as f64;
        largest = largest.max((left * probabilities[index]).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}
