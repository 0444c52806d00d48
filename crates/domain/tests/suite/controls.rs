//! Controls: which comparisons they follow, what is counted of them, and what that bounds.

use domain::control::{BOUND_ALPHA, Control, ControlResult, ControlTally, ONE_IN, is_due};
use domain::digest::Digest;
use domain::role::Key;
use domain::statistics::binomial_bounds;
use domain::statistics::simulate::{SimulatedNoise, stated};
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

const RESULTS: [ControlResult; 5] = [
    ControlResult::Unfinished,
    ControlResult::Level,
    ControlResult::Caught,
    ControlResult::Undecided,
    ControlResult::Promoted,
];

fn near(found: f64, expected: f64, tolerance: f64) {
    assert!(
        (found - expected).abs() <= tolerance,
        "{found}, not {expected}"
    );
}

#[test]
fn bounds_on_a_share_agree_with_exact_arithmetic() {
    // Zeros of the binomial sums, bisected in rational numbers; of no hits, 1 - 0.05^(1/trials).
    for (hits, trials, lower, upper) in [
        (0, 1, 0.0, 0.95),
        (0, 10, 0.0, 0.258_866),
        (0, 50, 0.0, 0.058_155),
        (0, 100, 0.0, 0.029_513),
        (0, 3000, 0.0, 0.000_998),
        (1, 10, 0.005_116, 0.394_163),
        (1, 100, 0.000_513, 0.046_560),
        (5, 10, 0.222_441, 0.777_559),
        (3, 100, 0.008_226, 0.075_711),
        (10, 10, 0.741_134, 1.0),
    ] {
        let [found_lower, found_upper] = binomial_bounds(hits, trials, 0.05);
        near(found_lower, lower, 1e-6);
        near(found_upper, upper, 1e-6);
    }
    assert_eq!(binomial_bounds(0, 0, 0.05), [0.0, 1.0], "nothing is known");
}

/// P(X = hits) of a binomial distribution.
fn chance(hits: u32, trials: u32, share: f64) -> f64 {
    let mut logarithm = f64::from(hits) * share.ln() + f64::from(trials - hits) * (-share).ln_1p();
    for k in 0..hits {
        logarithm += (f64::from(trials - k) / f64::from(k + 1)).ln();
    }
    logarithm.exp()
}

proptest! {
    #[test]
    fn a_bound_is_wrong_no_more_often_than_it_says(trials in 1_u32..400, share in 1e-4..0.999) {
        // The bound rises with the hits, so that it is wrong up to some number of them.
        let (mut right, mut wrong) = (trials, 0);
        while wrong < right {
            let middle = wrong.midpoint(right);
            if binomial_bounds(middle, trials, BOUND_ALPHA)[1] < share {
                wrong = middle + 1;
            } else {
                right = middle;
            }
        }
        let missed = (0..right).map(|hits| chance(hits, trials, share)).sum::<f64>();
        prop_assert!(missed <= BOUND_ALPHA + 1e-9, "{missed}");
    }

    #[test]
    fn bounds_enclose_what_was_seen_and_narrow_with_more_of_it(
        hits in 0_u32..50,
        more in 0_u32..50,
        times in 2_u32..10,
        alpha in 0.001..0.4,
    ) {
        let trials = hits + more + 1;
        let [lower, upper] = binomial_bounds(hits, trials, alpha);
        let seen = f64::from(hits) / f64::from(trials);
        prop_assert!(lower <= seen + 1e-12 && seen <= upper + 1e-12);
        let [_, one_more] = binomial_bounds(hits + 1, trials, alpha);
        prop_assert!(one_more >= upper);
        let [_, surer] = binomial_bounds(hits, trials, alpha / 2.0);
        prop_assert!(surer >= upper);
        let [lower_of_many, upper_of_many] = binomial_bounds(hits * times, trials * times, alpha);
        prop_assert!(lower_of_many >= lower - 1e-9 && upper_of_many <= upper + 1e-9);
    }

    #[test]
    fn every_control_is_counted_once(counts in proptest::array::uniform5(0_u32..100)) {
        let tally = ControlTally::of(RESULTS.into_iter().zip(counts));
        let [unfinished, level, caught, undecided, promoted] = counts;
        prop_assert_eq!(tally.made + tally.unfinished, counts.iter().sum::<u32>());
        prop_assert_eq!(tally.made - tally.screened, level);
        prop_assert_eq!(tally.screened - tally.promoted - tally.undecided, caught);
        prop_assert_eq!(tally.unfinished, unfinished);
        prop_assert_eq!((tally.promoted, tally.undecided), (promoted, undecided));
        // Counts that are added in two halves give the same.
        let halves = RESULTS.into_iter().zip(counts).flat_map(|(result, count)| {
            [(result, count / 2), (result, count - count / 2)]
        });
        prop_assert_eq!(&ControlTally::of(halves), &tally);
        prop_assert_eq!(tally.screened_at_most.is_some(), tally.made > 0);
        if let Some((screened, promoted)) = tally.screened_at_most.zip(tally.promoted_at_most) {
            prop_assert!(promoted <= screened);
            // An undecided confirmation may have been a promotion.
            let [_, least] = binomial_bounds(tally.promoted, tally.made, BOUND_ALPHA);
            prop_assert!(promoted >= least && (promoted > least || undecided == 0 || least == 1.0));
        }
    }
}

#[test]
fn nothing_is_said_of_a_device_before_its_first_control() {
    let none = ControlTally::of([]);
    assert_eq!(none, ControlTally::default());
    assert_eq!((none.screened_at_most, none.promoted_at_most), (None, None));
    let unfinished = ControlTally::of([(ControlResult::Unfinished, 9)]);
    assert_eq!((unfinished.made, unfinished.promoted_at_most), (0, None));
}

#[test]
fn one_comparison_in_fifty_is_drawn_by_the_searchs_root_and_the_candidate() {
    let candidates = (0..20_000_u32).map(|number| Digest::of(number.to_le_bytes()));
    let candidates = candidates.collect::<Vec<_>>();
    let drawn = |root: &str| {
        let root = Key(Digest::of(root));
        let drawn = candidates.iter().filter(|one| is_due(root, **one));
        drawn.collect::<Vec<_>>()
    };
    let (one, other) = (drawn("one search"), drawn("another"));
    for number in [one.len(), other.len()] {
        let [lower, upper] = binomial_bounds(number as u32, candidates.len() as u32, 1e-6);
        let share = 1.0 / ONE_IN as f64;
        assert!(lower < share && share < upper, "{number}");
    }
    assert_eq!(one, drawn("one search"), "a replay draws the same");
    let both = one.iter().filter(|drawn| other.contains(drawn)).count();
    assert!(both < one.len() / 5, "{both} are drawn in both");
}

#[test]
fn a_word_says_what_the_value_says() {
    let unfinished = Control::Unfinished {
        reason: "time was up".to_owned(),
    };
    assert_eq!(unfinished.result(), ControlResult::Unfinished);
    let json = serde_json::to_value(&unfinished).unwrap();
    let word = serde_json::to_value(unfinished.result()).unwrap();
    assert_eq!(
        json["kind"], word,
        "what is stored is the kind that is sent"
    );
}

/// On a device with the stated noise the rate of false gains agrees with the table of false
/// promotions in `docs/measurements/power.md`: 0.996% and 0.136% of equal candidates are called
/// faster.
#[test]
fn controls_find_the_rate_that_equal_candidates_are_called_faster_at() {
    for (seed, pair, rate) in [(20, 0.01, 0.009_96), (21, 0.03, 0.001_36)] {
        let noise: SimulatedNoise = stated(pair);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let tally = ControlTally::of((0..3000).map(|_| (noise.control(&mut rng), 1)));
        eprintln!("pairs {pair}: {tally:?}");
        assert_eq!((tally.made, tally.promoted, tally.unfinished), (3000, 0, 0));
        let [lower, upper] = binomial_bounds(tally.screened, tally.made, 0.001);
        assert!(lower < rate && rate < upper, "{tally:?}");
        assert!(tally.screened_at_most.unwrap() > rate, "{tally:?}");
        near(tally.promoted_at_most.unwrap(), 0.000_998, 1e-6);
    }
}
