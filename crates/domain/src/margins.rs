//! The margins that decide whether one time is faster or slower than another, in one place, because
//! they depend on each other.
//!
//! Two of them matter everywhere: half a percent, below which a gain is not counted, and two percent,
//! from which a loss is. Ratios are old time over new time unless a name says otherwise, and logarithms
//! are natural. The relations that must hold between the margins are checked at compile time below, and
//! those that need a logarithm in a test.

/// The least gain that counts as faster: 0.5%. It is the smallest difference that the measuring
/// protocol resolves (decision 0008), and modelled times, which have no noise, are held to the same.
pub const FASTER_MARGIN: f64 = 0.005;

/// [`FASTER_MARGIN`] as a log-ratio: ln 1.005. Measured comparisons are made in logarithms.
pub const FASTER_MARGIN_LOG: f64 = 0.004_987_541_511_039;

/// The slowdown that counts as a regression, as new time over old time: 2%. Four times the least gain
/// that counts, so that noise which hides a gain is not called a loss (decision 0008).
pub const REGRESSION_RATIO: f64 = 1.02;

/// [`REGRESSION_RATIO`] as a log-ratio: ln 1.02. One case of a comparison that may be slower than this
/// blocks the candidate, at any mean over the cases.
pub const REGRESSION_LOG: f64 = 0.019_802_627_296_179_7;

/// The speedup over the baseline that a candidate must exceed to be promoted. A re-check tolerates a
/// regression of [`REGRESSION_RATIO`], and a champion that loses that much must still not be slower
/// than the baseline.
pub const MIN_PROMOTION_SPEEDUP: f64 = REGRESSION_RATIO;

/// A step of a playbook is kept if its speedup is at least this share of its parent's, because a later
/// step may build on it: a loss of 2%. A kernel that an engineer's step would keep is kept here as
/// well.
pub const MIN_STEP_SHARE: f64 = 0.98;

/// The largest difference between incumbent's and candidate's clock in one block, as the absolute
/// log-ratio. A larger one could by itself look like a regression.
pub const MAX_CLOCK_DIFFERENCE_LOG: f64 = 0.02;

const _: () = {
    assert!(1.0 + FASTER_MARGIN < REGRESSION_RATIO);
    assert!(FASTER_MARGIN_LOG < REGRESSION_LOG);
    assert!(MIN_PROMOTION_SPEEDUP >= REGRESSION_RATIO);
    assert!(MIN_STEP_SHARE * REGRESSION_RATIO <= 1.0);
};

/// Returns true if a kernel with `speedup` has regressed from one with the speedup `best`, both over
/// the same baseline.
pub fn is_regression(speedup: f64, best: f64) -> bool {
    speedup * REGRESSION_RATIO < best
}

/// Returns true if a candidate with `speedup` over the baseline is fast enough to be promoted: more than
/// [`MIN_PROMOTION_SPEEDUP`]. False for NaN.
pub fn is_promotable(speedup: f64) -> bool {
    speedup > MIN_PROMOTION_SPEEDUP
}

/// [`REGRESSION_RATIO`] as messages name it: "2%".
pub fn regression_percent() -> String {
    format!("{:.0}%", 100.0 * (REGRESSION_RATIO - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_belong_to_their_ratios() {
        assert!((FASTER_MARGIN_LOG.exp() - (1.0 + FASTER_MARGIN)).abs() < 1e-12);
        assert!((REGRESSION_LOG.exp() - REGRESSION_RATIO).abs() < 1e-12);
        // Clocks that differ by less than a regression are not one; the difference is 1% of it.
        assert!((MAX_CLOCK_DIFFERENCE_LOG / REGRESSION_LOG - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_promoted_champion_that_loses_what_is_tolerated_is_not_slower_than_the_baseline() {
        const { assert!(MIN_PROMOTION_SPEEDUP / REGRESSION_RATIO >= 1.0) };
        assert!(!is_regression(1.0, MIN_PROMOTION_SPEEDUP));
        assert!(is_regression(1.0, 1.0001 * MIN_PROMOTION_SPEEDUP));
    }

    #[test]
    fn a_promotion_needs_more_than_the_margin() {
        assert!(is_promotable(1.0001 * MIN_PROMOTION_SPEEDUP));
        assert!(!is_promotable(MIN_PROMOTION_SPEEDUP));
        assert!(!is_promotable(f64::NAN));
    }

    #[test]
    fn messages_name_the_margin_that_decides() {
        assert_eq!(regression_percent(), "2%");
    }
}
