//! Bounds on a probability from a number of hits among a number of trials.

/// Bounds on a probability of which `hits` of `trials` were seen, each wrong with probability
/// `alpha` (Clopper and Pearson, 1934).
pub fn binomial_bounds(hits: u32, trials: u32, alpha: f64) -> [f64; 2] {
    let lower = if hits == 0 {
        0.0
    } else {
        solve(|p| 1.0 - at_most(hits - 1, trials, p) - alpha)
    };
    let upper = if hits >= trials {
        1.0
    } else {
        solve(|p| alpha - at_most(hits, trials, p))
    };
    [lower, upper]
}

/// The zero of a function that rises from 0 to 1.
fn solve(rising: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if rising(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// P(X <= hits) of a binomial distribution.
fn at_most(hits: u32, trials: u32, share: f64) -> f64 {
    if share <= 0.0 {
        return 1.0;
    }
    let odds = (share / (1.0 - share)).ln();
    let mut logarithm = f64::from(trials) * (1.0 - share).ln();
    let mut sum = logarithm.exp();
    for k in 0..hits {
        logarithm += (f64::from(trials - k) / f64::from(k + 1)).ln() + odds;
        sum += logarithm.exp();
    }
    sum.min(1.0)
}
