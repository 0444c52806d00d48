//! Tests of the generated inputs through the crate's public functions.

use domain::digest::Digest;
use domain::dtype::Dtype;
use domain::role::{Alteration, Distribution, Key, TensorData};
use domain::task::Role;
use proptest::prelude::*;
use tensors::inputs;

const FLOATS: [Dtype; 4] = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64];
const ALL: [Distribution; 15] = [
    Distribution::Normal,
    Distribution::Uniform,
    Distribution::Positive,
    Distribution::Integers,
    Distribution::Large,
    Distribution::Tiny,
    Distribution::HeavyTail,
    Distribution::Ties,
    Distribution::IndexCoded,
    Distribution::Small,
    Distribution::Impulse,
    Distribution::Cancellation,
    Distribution::Huge,
    Distribution::Specials,
    Distribution::Shifted,
];

fn tensor(distribution: Distribution, dtype: Dtype, extents: &[u64], key: &str) -> TensorData {
    TensorData {
        name: "q".to_owned(),
        dtype,
        extents: extents.to_vec(),
        role: Role::In,
        align: 16,
        distribution,
        key: Key(Digest::of(key)),
        alteration: None,
    }
}

fn values(distribution: Distribution, dtype: Dtype, extents: &[u64]) -> Vec<f64> {
    inputs::decode(
        dtype,
        &inputs::bytes(&tensor(distribution, dtype, extents, "key")),
    )
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    mean(&values.iter().map(|x| x * x).collect::<Vec<_>>()).sqrt()
}

#[test]
fn the_moments_are_those_of_the_distribution() {
    for dtype in FLOATS {
        for (distribution, expected_mean, expected_deviation, peak) in [
            (Distribution::Normal, 0.0, 1.0, 6.5),
            (Distribution::Uniform, 0.0, (1.0_f64 / 3.0).sqrt(), 1.0),
            (Distribution::Positive, 0.5, (1.0_f64 / 3.0).sqrt(), 1.0),
            (Distribution::Integers, 0.0, 2.0_f64.sqrt(), 2.0),
            (Distribution::Large, 0.0, 100.0, 650.0),
        ] {
            let drawn = values(distribution, dtype, &[64, 1024]);
            let scale = expected_deviation;
            assert!(
                (mean(&drawn) - expected_mean).abs() < 0.02 * scale,
                "{distribution:?} {dtype}"
            );
            assert!(
                (deviation(&drawn) / scale - 1.0).abs() < 0.02,
                "{distribution:?} {dtype}"
            );
            assert!(
                drawn.iter().all(|x| x.abs() <= peak),
                "{distribution:?} {dtype}"
            );
        }
    }
}

#[test]
fn an_impulse_is_one_element_at_varying_positions() {
    let mut places = std::collections::BTreeSet::new();
    for key in 0..64 {
        let tensor = tensor(Distribution::Impulse, Dtype::F16, &[5, 7], &key.to_string());
        let drawn = inputs::decode(Dtype::F16, &inputs::bytes(&tensor));
        let struck = drawn.iter().position(|&value| value != 0.0).unwrap();
        assert!((1.0..=2.0).contains(&drawn[struck]));
        assert_eq!(drawn.iter().filter(|&&value| value != 0.0).count(), 1);
        places.insert(struck);
    }
    assert!(places.len() > 8 && places.contains(&0) && places.contains(&34));
}

#[test]
fn neighbours_along_every_axis_cancel_to_something_small() {
    for dtype in FLOATS {
        let drawn = values(Distribution::Cancellation, dtype, &[7, 33]);
        for (flat, value) in drawn.iter().enumerate() {
            let (row, column) = (flat / 33, flat % 33);
            assert!(value.abs() > 3.0, "{value}");
            for next in [(row + 1, column), (row, column + 1)] {
                if next.0 < 7 && next.1 < 33 {
                    assert!(
                        (value + drawn[next.0 * 33 + next.1]).abs() < 10.0,
                        "{dtype}"
                    );
                }
            }
        }
    }
}

#[test]
fn huge_values_stay_finite_and_leave_room_for_a_sum() {
    for (dtype, most) in [(Dtype::F16, 65504.0), (Dtype::F32, f64::from(f32::MAX))] {
        let drawn = values(Distribution::Huge, dtype, &[64, 64]);
        let largest = drawn.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        assert!(largest > 1e4 && largest <= most / 4.0, "{dtype}: {largest}");
    }
}

#[test]
fn specials_are_few_and_of_every_kind() {
    type Is = fn(f64) -> bool;
    let kinds: [Is; 3] = [
        f64::is_nan,
        |x| x == f64::INFINITY,
        |x| x == f64::NEG_INFINITY,
    ];
    for dtype in FLOATS {
        let drawn = values(Distribution::Specials, dtype, &[200, 500]);
        for is in kinds {
            let found = drawn.iter().filter(|&&x| is(x)).count();
            assert!((1..30).contains(&found), "{found} in {dtype}");
        }
    }
    assert!(!values(Distribution::Specials, Dtype::F32, &[1])[0].is_finite());
}

#[test]
fn the_first_rows_of_two_matrices_have_opposite_infinities_in_one_column() {
    let mut alone = 0;
    for number in 0..200 {
        let key = format!("{number}");
        let drawn = tensor(Distribution::Specials, Dtype::F16, &[3, 30, 64], &key);
        let drawn = inputs::decode(Dtype::F16, &inputs::bytes(&drawn));
        let [first, second] = [0, 30 * 64].map(|begin| &drawn[begin..begin + 64]);
        let pairs = first.iter().zip(second);
        let opposite = pairs.filter(|(one, other)| one.is_infinite() && **one == -**other);
        assert_eq!(opposite.count(), 1, "{number}");
        alone += usize::from(first.iter().filter(|x| !x.is_finite()).count() == 1);
    }
    // Three other special values are anywhere in 90 rows.
    assert!(alone > 180, "{alone}");
}

#[test]
fn a_struck_element_is_the_only_one_that_differs() {
    for dtype in FLOATS {
        let before = tensor(Distribution::Normal, dtype, &[50, 100], "key");
        for at in [0, 2047, 2048, 4999] {
            let struck = TensorData {
                alteration: Some(Alteration::ElementReplaced(at)),
                ..before.clone()
            };
            let [old, new] =
                [&before, &struck].map(|one| inputs::decode(dtype, &inputs::bytes(one)));
            for (index, (old, new)) in old.iter().zip(&new).enumerate() {
                if index as u64 == at {
                    assert_eq!(new.abs(), 8.0);
                    assert!(old * new <= 0.0);
                } else {
                    assert_eq!(old, new);
                }
            }
        }
    }
}

#[test]
fn rounding_leaves_the_precision_of_the_type_that_is_imitated() {
    let original = tensor(Distribution::Normal, Dtype::F32, &[4096], "key");
    let imitated = TensorData {
        alteration: Some(Alteration::Rounded(8)),
        ..original.clone()
    };
    let exact = inputs::decode(Dtype::F32, &inputs::bytes(&original));
    let rounded = inputs::decode(Dtype::F32, &inputs::bytes(&imitated));
    for (exact, rounded) in exact.iter().zip(&rounded) {
        let expected = half::bf16::from_f64(*exact).to_f64();
        assert!(
            (rounded - expected).abs() <= expected.abs() * 2_f64.powi(-7),
            "{exact}"
        );
        assert_eq!(half::bf16::from_f64(*rounded).to_f64(), *rounded);
    }
}

#[test]
fn small_values_keep_the_full_precision_of_their_type() {
    for dtype in FLOATS {
        let drawn = values(Distribution::Small, dtype, &[64, 1024]);
        let smallest_normal = if dtype == Dtype::F16 { 6.2e-5 } else { 1.2e-38 };
        assert!(deviation(&drawn) < 0.02 && deviation(&drawn) > 100.0 * smallest_normal);
    }
}

#[test]
fn normal_draws_have_the_tails_of_the_normal_distribution() {
    let drawn = values(Distribution::Normal, Dtype::F32, &[200_000]);
    for (bound, share) in [(1.0, 0.317_3), (2.0, 0.045_5), (3.0, 0.002_7)] {
        let beyond = drawn.iter().filter(|x| x.abs() > bound).count();
        let found = f64::from(u32::try_from(beyond).unwrap()) / 200_000.0;
        assert!(
            (found / share - 1.0).abs() < 0.15,
            "{found} beyond {bound}, expected {share}"
        );
    }
}

#[test]
fn integers_are_exact_and_all_occur() {
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::I8, Dtype::I32] {
        let drawn = values(Distribution::Integers, dtype, &[4096]);
        for integer in [-2.0, -1.0, 0.0, 1.0, 2.0] {
            assert!(drawn.contains(&integer), "{integer} in {dtype}");
        }
        assert!(drawn.iter().all(|x| x.fract() == 0.0 && x.abs() <= 2.0));
    }
}

#[test]
fn tiny_draws_straddle_the_smallest_normal_number() {
    for (dtype, smallest) in [
        (Dtype::F16, 2_f64.powi(-14)),
        (Dtype::F32, 2_f64.powi(-126)),
    ] {
        let drawn = values(Distribution::Tiny, dtype, &[4096]);
        assert!(drawn.iter().any(|x| *x != 0.0 && x.abs() < smallest));
        assert!(drawn.iter().any(|x| x.abs() > smallest));
        assert!(drawn.iter().all(|x| x.abs() <= 4.0 * smallest));
    }
}

#[test]
fn one_draw_in_a_hundred_of_a_heavy_tail_is_large() {
    let drawn = values(Distribution::HeavyTail, Dtype::F16, &[100_000]);
    let large = drawn.iter().filter(|x| x.abs() > 10.0).count();
    assert!((800..1200).contains(&large), "{large}");
    assert!(drawn.iter().all(|x| x.is_finite()));
}

#[test]
fn every_third_row_lies_far_below_zero_and_one_far_above() {
    for dtype in FLOATS {
        let drawn = values(Distribution::Shifted, dtype, &[30, 1000]);
        let mut rows = [0; 3];
        for row in drawn.chunks(1000) {
            let mut sorted = row.to_vec();
            sorted.sort_by(f64::total_cmp);
            let middle = sorted[500];
            let centres = [-200.0, 0.0, 200.0];
            let kind = centres
                .iter()
                .position(|centre| (middle - centre).abs() < 4.0)
                .unwrap();
            rows[kind] += 1;
            let (high, low): (Vec<_>, Vec<_>) = row
                .iter()
                .map(|x| x - centres[kind])
                .partition(|x| *x > -50.0);
            assert!(high.iter().all(|x| x.abs() < 60.0), "{dtype}");
            assert!(low.iter().all(|x| (x + 100.0).abs() < 60.0), "{dtype}");
            assert!((80..170).contains(&low.len()), "{dtype}: {}", low.len());
        }
        assert_eq!(rows, [10; 3], "{dtype}");
    }
}

/// A maximum of negative numbers by their bits is the lowest of them. The exponential of the row's spread must not be a
/// number then.
#[test]
fn rows_far_below_zero_span_more_than_exponentials_do() {
    for columns in [32, 100, 300] {
        let drawn = values(Distribution::Shifted, Dtype::F32, &[30, columns]);
        let negative = drawn
            .chunks(columns as usize)
            .filter(|row| row.iter().all(|x| *x < 0.0));
        let spreads = negative.map(|row| {
            let low = row.iter().copied().fold(f64::INFINITY, f64::min);
            row.iter().copied().fold(f64::NEG_INFINITY, f64::max) - low
        });
        let wide = spreads.filter(|spread| *spread > 89.0).count();
        assert!(wide >= 8, "{columns} columns: {wide}");
    }
}

#[test]
fn ties_repeat_rows_and_ascend_in_runs() {
    let (rows, columns) = (16, 33);
    let drawn = values(Distribution::Ties, Dtype::F16, &[16, 33]);
    for row in 0..rows {
        let this = &drawn[row * columns..(row + 1) * columns];
        let first_of_group = &drawn[row / 4 * 4 * columns..][..columns];
        assert_eq!(this, first_of_group, "row {row}");
        for run in this.chunks(8) {
            assert!(run.is_sorted(), "row {row}: {run:?}");
        }
    }
    assert_ne!(drawn[..columns], drawn[4 * columns..5 * columns]);
}

/// Rows of one value are what padding leaves. Their sums are exact, so that no correct kernel fails on them.
#[test]
fn every_third_group_of_ties_has_rows_of_one_value() {
    for key in 0..6 {
        let tensor = tensor(
            Distribution::Ties,
            Dtype::F32,
            &[48, 33],
            &format!("key {key}"),
        );
        let drawn = inputs::decode(Dtype::F32, &inputs::bytes(&tensor));
        let constant = drawn
            .chunks(33)
            .filter(|row| row.iter().all(|x| *x == row[0]));
        let constant = constant.collect::<Vec<_>>();
        assert_eq!(constant.len(), 16, "key {key}");
        assert!(
            constant
                .iter()
                .all(|row| row[0].fract() == 0.0 && row[0].abs() <= 2.0)
        );
    }
}

#[test]
fn index_codes_differ_between_neighbours_and_powers_of_two() {
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
        let drawn = values(Distribution::IndexCoded, dtype, &[128, 64]);
        for distance in [1, 2, 64, 128, 1024, 4096] {
            assert!(
                drawn
                    .iter()
                    .zip(&drawn[distance..])
                    .all(|(one, other)| one != other),
                "{distance} apart in {dtype}"
            );
        }
    }
}

#[test]
fn index_codes_that_fit_are_all_different() {
    for key in 0..4 {
        let mut drawn = index_codes(Dtype::F32, [1024, 1024], key);
        assert!(drawn.iter().all(|x| x.abs() <= 1.0), "key {key}");
        drawn.sort_by(f64::total_cmp);
        assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]), "key {key}");
    }
}

/// An error of one in an index exceeds the tolerance of each type.
#[test]
fn index_codes_of_neighbours_in_rows_and_columns_are_far_apart() {
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64] {
        for columns in [1, 2, 3, 17, 64, 89, 100] {
            let drawn = index_codes(dtype, [40, columns], 0);
            for distance in [1, columns as usize] {
                let nearest = drawn
                    .iter()
                    .zip(&drawn[distance..])
                    .map(|(one, other)| (one - other).abs())
                    .fold(f64::INFINITY, f64::min);
                assert!(nearest > 0.004, "{dtype}, {columns} columns: {nearest}");
            }
        }
    }
}

/// A softmax of a thousand elements that adds them in order is correct. It was refused for one key in a thousand when
/// the codes wrapped around in the middle of a row.
#[test]
fn exponentials_of_index_codes_are_added_in_order_within_the_tolerance() {
    for key in 0..40 {
        let drawn = index_codes(Dtype::F32, [64, 1024], key);
        let (mut error, mut norm) = (0.0, 0.0);
        for row in drawn.chunks(1024) {
            let right: f64 = row.iter().map(|x| x.exp()).sum();
            let found: f32 = row.iter().fold(0.0, |sum, x| sum + x.exp() as f32);
            error += (f64::from(found) - right).powi(2);
            norm += right.powi(2);
        }
        let relative = (error / norm).sqrt();
        assert!(relative < 4e-6, "key {key}: {relative:.1e}");
    }
}

/// A layer normalisation with one thread per row is correct. It was refused where the codes of a row were consecutive
/// and so almost constant: the error of its mean was 1.5 times what the tolerance allows.
#[test]
fn rows_of_index_codes_are_normalised_in_order_within_the_tolerance() {
    for extents in [
        [7, 769],
        [1, 1009],
        [31, 127],
        [64, 89],
        [5, 1597],
        [3, 4181],
    ] {
        let columns = extents[1] as usize;
        for key in 0..40 {
            let (mut error, mut norm) = (0.0, 0.0);
            for row in index_codes(Dtype::F32, extents, key).chunks(columns) {
                let (right, scale) = normalised(row);
                let found = normalised_in_order(row);
                for (found, right) in found.iter().zip(&right) {
                    error += (f64::from(*found) - right).powi(2);
                }
                let size = row.iter().map(|x| x.abs()).sum::<f64>() / columns as f64;
                let terms = row.iter().map(|x| ((x.abs() + size) * scale).powi(2));
                let magnitudes = terms.sum::<f64>();
                norm += right
                    .iter()
                    .map(|x| x * x)
                    .sum::<f64>()
                    .max(magnitudes / columns as f64);
            }
            let relative = (error / norm).sqrt();
            assert!(relative < 2e-5, "{extents:?}, key {key}: {relative:.1e}");
        }
    }
}

const EPSILON: f64 = 1e-5;

fn index_codes(dtype: Dtype, extents: [u64; 2], key: u32) -> Vec<f64> {
    let name = format!("key {key}");
    let tensor = tensor(Distribution::IndexCoded, dtype, &extents, &name);
    inputs::decode(dtype, &inputs::bytes(&tensor))
}

/// A row with mean 0 and variance 1, and the factor that makes its variance 1.
fn normalised(row: &[f64]) -> (Vec<f64>, f64) {
    let centre = mean(row);
    let squares = row.iter().map(|x| (x - centre).powi(2)).sum::<f64>();
    let scale = (squares / row.len() as f64 + EPSILON).sqrt().recip();
    (row.iter().map(|x| (x - centre) * scale).collect(), scale)
}

/// The same in binary32, with sums from the first element to the last.
fn normalised_in_order(row: &[f64]) -> Vec<f32> {
    let row = row.iter().map(|x| *x as f32).collect::<Vec<_>>();
    let count = row.len() as f32;
    let centre = row.iter().fold(0.0, |sum, x| sum + x) / count;
    let squares = row
        .iter()
        .fold(0.0, |sum: f32, x| (x - centre).mul_add(x - centre, sum));
    let scale = (squares / count + EPSILON as f32).sqrt().recip();
    row.iter().map(|x| (x - centre) * scale).collect()
}

#[test]
fn keys_names_and_distributions_change_the_values() {
    let bytes_of = |tensor: &TensorData| inputs::bytes(tensor);
    for distribution in ALL {
        let base = tensor(distribution, Dtype::F32, &[256], "key");
        let other_key = tensor(distribution, Dtype::F32, &[256], "another key");
        let other_name = TensorData {
            name: "k".to_owned(),
            ..base.clone()
        };
        assert_eq!(bytes_of(&base), bytes_of(&base.clone()));
        assert_ne!(bytes_of(&base), bytes_of(&other_key), "{distribution:?}");
        assert_ne!(bytes_of(&base), bytes_of(&other_name), "{distribution:?}");
    }
}

#[test]
fn the_bytes_are_the_same_on_every_machine() {
    let digest = |distribution, dtype| {
        Digest::of(inputs::bytes(&tensor(
            distribution,
            dtype,
            &[3, 1000],
            "key",
        )))
        .short()
    };
    assert_eq!(digest(Distribution::Normal, Dtype::F16), "22484e58a03c");
    assert_eq!(digest(Distribution::HeavyTail, Dtype::F32), "7fc6c79b5ac3");
}

#[test]
fn poison_differs_between_seeds_purposes_and_buffers() {
    let base = inputs::poison(1, "output", "o", 4096);
    assert_eq!(base, inputs::poison(1, "output", "o", 4096));
    for other in [
        inputs::poison(2, "output", "o", 4096),
        inputs::poison(1, "red zone", "o", 4096),
        inputs::poison(1, "output", "p", 4096),
    ] {
        let equal = base.iter().zip(&other).filter(|(a, b)| a == b).count();
        assert!(equal < 64, "{equal} of 4096 bytes agree");
    }
}

proptest! {
    #[test]
    fn any_part_has_the_bytes_it_has_in_the_whole(
        distribution in proptest::sample::select(ALL.to_vec()),
        dtype in proptest::sample::select(FLOATS.to_vec()),
        rows in 1_u64..40,
        columns in 1_u64..150,
        start in 0.0_f64..1.0,
        length in 0.0_f64..1.0,
    ) {
        let tensor = tensor(distribution, dtype, &[rows, columns], "key");
        let total = tensor.elements();
        let share = |part: f64, of: u64| (part * of as f64) as u64;
        let first = share(start, total);
        let count = share(length, total - first);
        let width = usize::try_from(dtype.bytes()).unwrap();
        let (from, until) = (first as usize * width, (first + count) as usize * width);
        let whole = inputs::bytes(&tensor);
        prop_assert_eq!(inputs::slice(&tensor, first, count), &whole[from..until]);
        let special = inputs::decode(dtype, &whole).iter().any(|value| !value.is_finite());
        prop_assert_eq!(special, distribution == Distribution::Specials);
    }
}
