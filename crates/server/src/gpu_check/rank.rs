//! Rank correlation: whether a model orders kernels as a clock does.

/// Spearman's coefficient of pairs, ties sharing their mean rank. None of fewer than three pairs
/// and where one side does not vary.
pub(crate) fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let first: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
    let second: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    pearson(&ranks(&first), &ranks(&second))
}

fn ranks(values: &[f64]) -> Vec<f64> {
    values
        .iter()
        .map(|value| {
            let below = values.iter().filter(|other| *other < value).count();
            let equal = values.iter().filter(|other| *other == value).count();
            below as f64 + 0.5 * (equal as f64 + 1.0)
        })
        .collect()
}

fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut both, mut only_a, mut only_b) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        both += (a - mean_a) * (b - mean_b);
        only_a += (a - mean_a).powi(2);
        only_b += (b - mean_b).powi(2);
    }
    let scale = (only_a * only_b).sqrt();
    (scale > 0.0).then(|| both / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_all_that_counts() {
        let up = [(1.0, 10.0), (2.0, 11.0), (3.0, 500.0), (4.0, 501.0)];
        assert_eq!(spearman(&up), Some(1.0));
        let down: Vec<(f64, f64)> = up.iter().map(|(a, b)| (*a, -b)).collect();
        assert_eq!(spearman(&down), Some(-1.0));
    }

    #[test]
    fn ties_share_a_rank_and_too_little_says_nothing() {
        // Ranks 1.5, 1.5, 3 against 1, 2, 3.
        let tied = spearman(&[(1.0, 1.0), (1.0, 2.0), (2.0, 3.0)]).unwrap();
        assert!((tied - 0.866).abs() < 1e-3, "{tied}");
        assert_eq!(spearman(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(spearman(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    }
}
