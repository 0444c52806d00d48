//! Tests of the comparison rule, as a table and as properties.

use domain::digest::Digest;
use domain::dtype::Dtype;
use domain::role::{Distribution, Key, OutputComparison, TensorData};
use domain::task::{Role, Tolerance, ToleranceClass};
use domain::verdict::WrongElements;
use half::f16;
use proptest::prelude::*;
use tensors::compare::{Output, compare};
use tensors::inputs;

fn tolerance() -> Tolerance {
    ToleranceClass::F16OutF32Acc.tolerance()
}

fn f16_output(found: &[f64], reference: &[f64], scale: Option<&[f64]>) -> OutputComparison {
    f16_output_of(found, reference, scale, false)
}

fn f16_output_of(
    found: &[f64],
    reference: &[f64],
    scale: Option<&[f64]>,
    mixed_magnitudes: bool,
) -> OutputComparison {
    compare(
        &Output {
            execution: 7,
            tensor: "o",
            dtype: Dtype::F16,
            extents: &[reference.len() as u64],
            found,
            reference,
            scale,
            terms: 64.0,
            exact: false,
            mixed_magnitudes,
        },
        &tolerance(),
    )
}

fn passes(comparison: &OutputComparison) -> bool {
    comparison.special_mismatches == 0
        && comparison.beyond_bound == 0
        && comparison
            .relative_l2
            .is_some_and(|error| error <= tolerance().relative_l2)
}

#[test]
fn special_values_must_match_the_reference() {
    const NAN: f64 = f64::NAN;
    const INF: f64 = f64::INFINITY;
    for (found, reference, mismatches) in [
        (NAN, NAN, 0),
        (INF, INF, 0),
        (-INF, -INF, 0),
        (1.0, 1.0, 0),
        (NAN, 1.0, 1),
        (1.0, NAN, 1),
        (INF, 1.0, 1),
        (1.0, INF, 1),
        (INF, -INF, 1),
        (INF, NAN, 1),
        (NAN, INF, 1),
        // 70000 does not fit binary16: the right answer is infinity with the right sign.
        (INF, 70_000.0, 0),
        (-INF, 70_000.0, 1),
        // Within a few roundings of the largest number, overflow and no overflow are both correct.
        (INF, 65_500.0, 0),
        (INF, 60_000.0, 1),
    ] {
        let comparison = f16_output(&[found, 1.0], &[reference, 1.0], Some(&[1.0, 1.0]));
        assert_eq!(
            comparison.special_mismatches, mismatches,
            "{found} for {reference}"
        );
        assert_eq!(
            passes(&comparison),
            mismatches == 0,
            "{found} for {reference}"
        );
    }
}

#[test]
fn one_element_beyond_its_bound_is_counted_and_named() {
    let reference = vec![1.0; 600];
    let mut found = reference.clone();
    found[431] = 1.02;
    let comparison = compare(
        &Output {
            execution: 1,
            tensor: "o",
            dtype: Dtype::F16,
            extents: &[2, 3, 100],
            found: &found,
            reference: &reference,
            scale: Some(&reference),
            terms: 64.0,
            exact: false,
            mixed_magnitudes: false,
        },
        &tolerance(),
    );
    assert_eq!(comparison.beyond_bound, 1);
    let worst = comparison.worst.clone().unwrap();
    assert_eq!(worst.index, [1, 1, 31]);
    assert_eq!(
        (worst.found.as_str(), worst.expected.as_str()),
        ("1.02", "1")
    );
    assert!(comparison.worst_ratio.unwrap() > 1.0);
    assert!(!passes(&comparison));
}

#[test]
fn an_invalid_scale_fails_every_element() {
    for scale in [f64::NAN, f64::INFINITY, -1.0] {
        for mixed_magnitudes in [false, true] {
            let comparison = f16_output_of(&[1.5], &[1.0], Some(&[scale]), mixed_magnitudes);
            assert!(!passes(&comparison), "scale {scale}");
            assert_eq!(comparison.beyond_bound, 1, "scale {scale}");
        }
    }
}

#[test]
fn zeros_are_not_accepted_for_small_numbers() {
    let reference = [3e-3, -2e-3, 1e-3];
    assert!(!passes(&f16_output(&[0.0; 3], &reference, None)));
    assert!(!passes(&f16_output(&[1e-3; 3], &[0.0; 3], None)));
}

#[test]
fn correctly_rounded_denormals_pass() {
    let reference: Vec<f64> = (1..200).map(|n| f64::from(n) * 3.3e-8).collect();
    let found: Vec<f64> = reference
        .iter()
        .map(|&value| f16::from_f64(value).to_f64())
        .collect();
    let comparison = f16_output(&found, &reference, None);
    assert!(passes(&comparison), "{comparison:?}");
    let flushed = vec![0.0; reference.len()];
    assert!(!passes(&f16_output(&flushed, &reference, None)));
}

#[test]
fn integers_must_be_equal() {
    let compared = |found: f64, reference: f64| {
        compare(
            &Output {
                execution: 1,
                tensor: "count",
                dtype: Dtype::I32,
                extents: &[1],
                found: &[found],
                reference: &[reference],
                scale: None,
                terms: 1.0,
                exact: false,
                mixed_magnitudes: false,
            },
            &tolerance(),
        )
    };
    assert!(passes(&compared(1e6, 1e6)));
    assert_eq!(compared(1e6 + 1.0, 1e6).beyond_bound, 1);
    assert_eq!(compared(1.0, 0.0).beyond_bound, 1);
}

#[test]
fn a_lower_precision_shows_in_the_relative_error() {
    // Values rounded to bfloat16, as a kernel that computes in the wrong type would write them.
    let reference: Vec<f64> = (1..2000).map(|n| f64::from(n).sin()).collect();
    let rounded = |bits: i32| -> Vec<f64> {
        reference
            .iter()
            .map(|value| {
                let step = 2_f64.powi(value.abs().log2().floor() as i32 - bits);
                (value / step).round() * step
            })
            .collect()
    };
    let honest = f16_output(
        &rounded(10),
        &reference,
        Some(&reference.iter().map(|x| x.abs()).collect::<Vec<_>>()),
    );
    assert!(passes(&honest), "{honest:?}");
    let downgraded = f16_output(&rounded(7), &reference, None);
    assert!(downgraded.relative_l2.unwrap() > tolerance().relative_l2);
}

proptest! {
    #[test]
    fn the_rounded_reference_always_passes(reference in proptest::collection::vec(-6e4_f64..6e4, 1..200)) {
        let found: Vec<f64> = reference.iter().map(|&value| f16::from_f64(value).to_f64()).collect();
        let comparison = f16_output(&found, &reference, None);
        prop_assert!(passes(&comparison), "{:?}", comparison);
        prop_assert_eq!(comparison.elements, reference.len() as u64);
    }

    #[test]
    fn every_single_wrong_element_is_detected(
        reference in proptest::collection::vec(-100.0_f64..100.0, 1..400),
        position in 0.0_f64..1.0,
        wrong in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), 500.0_f64..6e4, -6e4_f64..-500.0],
    ) {
        let mut found = reference.clone();
        let index = (position * reference.len() as f64) as usize;
        found[index] = wrong;
        let comparison = f16_output(&found, &reference, None);
        prop_assert!(!passes(&comparison));
        prop_assert_eq!(&comparison.worst.unwrap().index, &[index as u64]);
    }

    #[test]
    fn a_comparison_survives_serialisation(
        found in proptest::collection::vec(proptest::num::f64::ANY, 1..20),
    ) {
        let reference = vec![0.0; found.len()];
        let comparison = f16_output(&found, &reference, None);
        let wire = serde_json::to_string(&comparison).unwrap();
        let read: OutputComparison = serde_json::from_str(&wire).unwrap();
        prop_assert_eq!(read.beyond_bound, comparison.beyond_bound);
        prop_assert_eq!(read.relative_l2.is_some(), comparison.relative_l2.is_some());
    }
}

#[test]
fn an_integer_sum_must_be_exact_below_the_types_integer_limit() {
    let compared = |found: f64, expected: f64, scale: f64, exact: bool| {
        compare(
            &Output {
                execution: 1,
                tensor: "o",
                dtype: Dtype::F32,
                extents: &[1],
                found: &[found],
                reference: &[expected],
                scale: Some(&[scale]),
                terms: 64.0,
                exact,
                mixed_magnitudes: false,
            },
            &ToleranceClass::F32.tolerance(),
        )
    };
    let near = 12.000_001;
    assert!(passes(&compared(near, 12.0, 40.0, false)));
    let off = compared(near, 12.0, 40.0, true);
    assert_eq!((off.beyond_bound, off.worst_ratio), (1, None));
    assert!(passes(&compared(12.0, 12.0, 40.0, true)));
    // Beyond 2^24 a correct partial sum may have been rounded, and fractions are excluded from the rule.
    assert!(passes(&compared(12.000_1, 12.0, 2e8, true)));
    assert!(passes(&compared(0.700_000_1, 0.7, 40.0, true)));
}

/// Compares f32 sums of 4,096 terms of magnitude 64, so that the error scale of each is 2^18.
fn f32_sums(found: &[f64], reference: &[f64], scale: Option<&[f64]>) -> OutputComparison {
    compare(
        &Output {
            execution: 7,
            tensor: "sum",
            dtype: Dtype::F32,
            extents: &[reference.len() as u64],
            found,
            reference,
            scale,
            terms: 4096.0,
            exact: false,
            mixed_magnitudes: false,
        },
        &ToleranceClass::F32.tolerance(),
    )
}

#[test]
fn sums_that_cancel_are_measured_against_their_terms() {
    let limit = ToleranceClass::F32.tolerance().relative_l2;
    let magnitudes = 4096.0 * 64.0;
    let scale = vec![magnitudes; 5];
    // Terms of random sign would sum to about sqrt(4096) x 64 = 4096; these cancel to 0.05 to 0.3.
    let reference = [0.05, -0.3, 0.11, 0.2, -0.07];
    let off_by = |error: f64| {
        let found = reference.map(|value| value + error);
        f32_sums(&found, &reference, Some(&scale))
    };
    // A correct sum: one rounding of a partial sum as large as a sum of the terms with random signs.
    let honest = off_by(4096.0 * 2_f64.powi(-24));
    assert!(
        honest
            .relative_l2
            .is_some_and(|error| error < limit / 100.0)
    );
    assert_eq!(honest.beyond_bound, 0);
    // Terms rounded to 11 bits, as by TF32: a random walk of 4,096 roundings of 64 x 2^-12.
    let downgrade = off_by(64.0 * 64.0 * 2_f64.powi(-12));
    assert!(downgrade.relative_l2.is_some_and(|error| error > limit));
}

#[test]
fn sums_that_do_not_cancel_are_measured_against_themselves() {
    let reference = [4096.0 * 64.0; 5];
    let found = reference.map(|value| value * (1.0 + 1e-6));
    let with_scale = f32_sums(&found, &reference, Some(&reference));
    let without = f32_sums(&found, &reference, None);
    assert_eq!(with_scale.relative_l2, without.relative_l2);
}

#[test]
fn a_tensor_of_zeros_has_no_norm_without_an_error_scale() {
    let comparison = f32_sums(&[1e-9, 0.0], &[0.0, 0.0], None);
    assert_eq!(comparison.relative_l2, Some(f64::MAX));
}

/// The rows of a matrix of one distribution.
fn rows(distribution: Distribution, rows: usize, columns: usize) -> Vec<Vec<f64>> {
    let tensor = TensorData {
        name: "x".to_owned(),
        dtype: Dtype::F32,
        extents: vec![rows as u64, columns as u64],
        role: Role::In,
        align: 4,
        distribution,
        key: Key(Digest::of("serial sums")),
        alteration: None,
    };
    let values = inputs::decode(Dtype::F32, &inputs::bytes(&tensor));
    values.chunks(columns).map(<[f64]>::to_vec).collect()
}

/// The sum of numbers that are rounded to binary32 and added there one after the other.
#[expect(
    clippy::cast_possible_truncation,
    reason = "kernels round terms to binary32"
)]
fn serial_sum(terms: &[f64]) -> f64 {
    f64::from(terms.iter().fold(0.0_f32, |sum, &term| sum + term as f32))
}

/// Compares found sums of rows with their right sums.
fn row_sums(found: &[f64], terms: &[Vec<f64>], mixed_magnitudes: bool) -> OutputComparison {
    let sums = |of: fn(f64) -> f64| {
        let rows = terms.iter();
        rows.map(|row| row.iter().copied().map(of).sum::<f64>())
            .collect::<Vec<_>>()
    };
    compare(
        &Output {
            execution: 7,
            tensor: "sum",
            dtype: Dtype::F32,
            extents: &[found.len() as u64],
            found,
            reference: &sums(|term| term),
            scale: Some(&sums(f64::abs)),
            terms: terms[0].len() as f64,
            exact: false,
            mixed_magnitudes,
        },
        &ToleranceClass::F32.tolerance(),
    )
}

/// A large partial sum absorbs small terms of one sign, so that these rounding errors add up.
#[test]
fn serial_sums_of_large_and_small_terms_pass() {
    let limit = ToleranceClass::F32.tolerance().relative_l2;
    let squares = |columns| {
        let mut rows = rows(Distribution::HeavyTail, 16, columns);
        rows.iter_mut().flatten().for_each(|x| *x *= *x);
        rows
    };
    let serial = |terms: &[Vec<f64>]| terms.iter().map(|row| serial_sum(row)).collect::<Vec<_>>();
    for columns in [64, 2049, 4096, 16_384] {
        let terms = squares(columns);
        let sums = row_sums(&serial(&terms), &terms, true);
        assert_eq!(sums.beyond_bound, 0, "{columns} columns");
        assert!(sums.relative_l2.is_some_and(|error| error <= limit));
    }
    // The sum of a softmax: a term of 1, and 511 that are just too small to change it.
    let mut exponentials = vec![vec![2_f64.powi(-25); 512]];
    exponentials[0][0] = 1.0;
    let sums = row_sums(&[1.0], &exponentials, true);
    assert_eq!(sums.beyond_bound, 0);

    // Of inputs with one magnitude, the roundings of such sums would not add up: both are wrong then.
    let terms = squares(16_384);
    assert_eq!(row_sums(&serial(&terms), &terms, false).beyond_bound, 16);
    assert_eq!(row_sums(&[1.0], &exponentials, false).beyond_bound, 1);
}

/// The allowance for absorbed terms is far smaller than a large term.
#[test]
fn a_lost_large_term_among_small_ones_is_detected() {
    let mut terms = rows(Distribution::HeavyTail, 16, 2049);
    terms.iter_mut().flatten().for_each(|x| *x *= *x);
    let without_largest = |row: &Vec<f64>| {
        let largest = row.iter().copied().fold(0.0, f64::max);
        row.iter().filter(|&&term| term != largest).sum()
    };
    let found = terms.iter().map(without_largest).collect::<Vec<_>>();
    assert_eq!(row_sums(&found, &terms, true).beyond_bound, 16);
}

/// The wrong elements of an output of 4 rows and 8 columns, in words and by their first indices.
fn wrong_places(wrong: impl Fn(usize, usize) -> bool) -> Option<(String, Vec<Vec<u64>>)> {
    let reference = [1.0; 32];
    let found = std::array::from_fn::<_, 32, _>(|at| if wrong(at / 8, at % 8) { 2.0 } else { 1.0 });
    let compared = compare(
        &Output {
            execution: 0,
            tensor: "o",
            dtype: Dtype::F32,
            extents: &[4, 8],
            found: &found,
            reference: &reference,
            scale: None,
            terms: 1.0,
            exact: false,
            mixed_magnitudes: false,
        },
        &tolerance(),
    );
    let first = |wrong: &WrongElements| {
        let first = wrong.first.iter();
        first.map(|element| element.index.clone()).collect()
    };
    compared
        .wrong
        .map(|wrong| (wrong.to_string(), first(&wrong)))
}

#[test]
fn wrong_elements_are_counted_and_placed() {
    let place = |row, column| vec![row, column];
    assert_eq!(wrong_places(|_, _| false), None);
    let (words, first) = wrong_places(|_, _| true).expect("all are wrong");
    assert_eq!(words, "32 of 32 elements are wrong");
    assert_eq!(first, [place(0, 0), place(0, 1), place(0, 2), place(0, 3)]);
    let (words, first) = wrong_places(|row, column| (row, column) == (2, 5)).expect("one is wrong");
    assert_eq!(
        words,
        "1 of 32 elements is wrong, on axis 0 at 2, on axis 1 at 5"
    );
    assert_eq!(first, [place(2, 5)]);
    let (words, first) = wrong_places(|_, column| column >= 6).expect("a tail is wrong");
    assert_eq!(words, "8 of 32 elements are wrong, on axis 1 from 6 to 7");
    assert_eq!(first[..3], [place(0, 6), place(0, 7), place(1, 6)]);
    let (words, _) =
        wrong_places(|row, column| row > 0 && column % 4 == 3).expect("every fourth is wrong");
    let expected =
        "6 of 32 elements are wrong, on axis 0 from 1 to 3, on axis 1 from 3 to 7 in steps of 4";
    assert_eq!(words, expected);
}
