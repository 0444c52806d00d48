//! The modelled time of work of which only a part is executed, because the whole would take too long here.
//!
//! A loop's equal parts, such as ranges of a matrix product's inner dimension, add the same to each bound of the time
//! model. What a kernel does once, such as writing its results, they do not repeat. So a launch with one part and a
//! launch with two tell the bounds of all parts. Times themselves cannot be continued like this, because another bound
//! may dominate the whole.

use std::collections::BTreeMap;

/// The bounds of one modelled launch by the name of their term, in microseconds, its fixed cost among them.
pub type Bounds = BTreeMap<String, f64>;

/// The term of the fixed cost.
const LAUNCH: &str = "launch";
/// Order of the norm that joins the bounds to a time, as `docs/reference/time-model.md` says.
const ORDER: f64 = 5.0;

/// The bounds of `parts` equal parts, from those of one part and of two.
pub fn continued(one: &Bounds, two: &Bounds, parts: u32) -> Bounds {
    let further = f64::from(parts - 1);
    let terms = one.keys().chain(two.keys());
    let bound = |term: &String| {
        let [one, two] = [one, two].map(|bounds| bounds.get(term).copied().unwrap_or(0.0));
        (one + further * (two - one)).max(0.0)
    };
    terms.map(|term| (term.clone(), bound(term))).collect()
}

/// The time that the time model gives a launch with these bounds, in microseconds.
pub fn time(bounds: &Bounds) -> f64 {
    let launch = bounds.get(LAUNCH).copied().unwrap_or(0.0);
    let others = bounds.iter().filter(|(term, _)| *term != LAUNCH);
    let powers: f64 = others.map(|(_, bound)| bound.powf(ORDER)).sum();
    powers.powf(1.0 / ORDER) + launch
}

/// The largest bound with its term.
pub fn largest(bounds: &Bounds) -> Option<(&str, f64)> {
    let bounds = bounds.iter().map(|(term, bound)| (term.as_str(), *bound));
    bounds.max_by(|(_, left), (_, right)| left.total_cmp(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(terms: &[(&str, f64)]) -> Bounds {
        let terms = terms.iter().map(|(term, us)| ((*term).to_owned(), *us));
        terms.collect()
    }

    #[test]
    fn what_a_part_adds_counts_for_each_further_one() {
        // Results are written once, and the second part is the first to draw on shared memory.
        let one = bounds(&[("dram_bytes", 90.0), ("fp32", 30.0), ("launch", 4.0)]);
        let two = bounds(&[
            ("dram_bytes", 91.0),
            ("fp32", 60.0),
            ("shared_wavefronts", 2.0),
            ("launch", 4.0),
        ]);
        assert_eq!(largest(&one), Some(("dram_bytes", 90.0)));
        let all = continued(&one, &two, 10);
        let expected = [
            ("dram_bytes", 99.0),
            ("fp32", 300.0),
            ("shared_wavefronts", 18.0),
            ("launch", 4.0),
        ];
        assert_eq!(all, bounds(&expected));
        assert_eq!(largest(&all), Some(("fp32", 300.0)));
        assert!((time(&all) - (300.0 + 4.0)).abs() < 0.3, "{}", time(&all));
        assert_eq!(continued(&one, &two, 2), two);
    }

    #[test]
    fn two_equal_bounds_take_15_percent_longer_than_one() {
        let both = bounds(&[("fp32", 100.0), ("issue", 100.0), ("launch", 5.0)]);
        assert!((time(&both) - 119.9).abs() < 0.1, "{}", time(&both));
    }
}
