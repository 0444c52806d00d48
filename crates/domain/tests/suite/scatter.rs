//! The spread of a comparison's samples around their median.

use domain::statistics::scatter;
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Normal values: the mean of twelve uniform ones, scaled.
fn normal(rng: &mut ChaCha8Rng, centre: f64, deviation: f64) -> f64 {
    use rand::RngExt;
    let sum: f64 = (0..12).map(|_| rng.random_range(0.0..1.0)).sum();
    centre + deviation * (sum - 6.0)
}

fn normals(seed: u64, count: usize) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| normal(&mut rng, 0.02, 0.01)).collect()
}

#[test]
fn one_group_is_no_two() {
    let split = (0..1000).filter(|seed| {
        let values = normals(*seed, 30);
        scatter(&values).unwrap().modes.is_some()
    });
    let split = split.count();
    assert!(split <= 5, "{split} of 1000 normal samples");
    let even = (0..60).map(f64::from).collect::<Vec<_>>();
    assert_eq!(scatter(&even).unwrap().modes, None, "uniform");
    assert_eq!(scatter(&[0.5; 60]).unwrap().modes, None, "all the same");
}

#[test]
fn two_groups_are_told_with_their_means() {
    for (weight, seed) in [(15, 1), (30, 2), (8, 3), (52, 4)] {
        let mut values = normals(seed, 60);
        for value in &mut values[..weight] {
            *value += 0.1;
        }
        let found = scatter(&values).unwrap();
        let [lower, upper] = found.modes.unwrap();
        assert!((lower - 0.02).abs() < 0.006, "{weight}: {lower}");
        assert!((upper - 0.12).abs() < 0.012, "{weight}: {upper}");
    }
}

#[test]
fn a_few_that_are_far_out_are_counted_and_are_no_group() {
    let mut values = normals(7, 60);
    values[3] = 0.9;
    values[40] = -0.5;
    let found = scatter(&values).unwrap();
    assert_eq!(found.outliers, 2);
    assert_eq!(found.modes, None);
    assert!((found.farthest - 0.88).abs() < 0.01, "{}", found.farthest);
    assert_eq!(scatter(&[]), None);
    let alone = scatter(&[1.0]).unwrap();
    assert_eq!(
        (alone.farthest, alone.outliers, alone.modes),
        (0.0, 0, None)
    );
}

proptest! {
    #[test]
    fn shape_does_not_depend_on_order_place_or_scale(
        values in proptest::collection::vec(-1.0_f64..1.0, 1..80),
        shift in -4.0_f64..4.0,
    ) {
        let here = scatter(&values).unwrap();
        let mut elsewhere = values.iter().map(|value| 2.0 * value + shift).collect::<Vec<_>>();
        elsewhere.reverse();
        let there = scatter(&elsewhere).unwrap();
        prop_assert!((there.farthest.abs() - 2.0 * here.farthest.abs()).abs() < 1e-9);
        prop_assert!(here.outliers as usize <= values.len() / 2);
        let [lower, upper] = match here.modes {
            Some(modes) => modes,
            None => return Ok(()),
        };
        prop_assert!(lower < upper);
    }
}
