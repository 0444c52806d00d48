//! Draws of parents and inspirations, and the choice of thoughts that say something new.

use std::collections::BTreeSet;

use domain::search::selection::{
    DistinctThoughts, draw_rank, draw_two_ranks, draw_uniform, rank_probabilities,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[test]
fn ranks_are_drawn_as_published() {
    let expected = [0.329, 0.263, 0.219, 0.188];
    let probabilities = rank_probabilities(4);
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut counts = [0_u32; 4];
    for _ in 0..100_000 {
        counts[draw_rank(4, &mut rng).expect("there are members")] += 1;
    }
    for rank in 0..4 {
        assert!((probabilities[rank] - expected[rank]).abs() < 1e-3);
        // Five standard deviations of a share of 100,000 draws are under 0.0075.
        let share = f64::from(counts[rank]) / 100_000.0;
        assert!(
            (share - probabilities[rank]).abs() < 0.0075,
            "{rank}: {share}"
        );
    }
    assert_eq!(draw_rank(0, &mut rng), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn draws_stay_inside_and_apart(members in 0_usize..9, count in 0_usize..9, seed in any::<u64>()) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let drawn = draw_uniform(members, count, &mut rng);
        prop_assert_eq!(drawn.len(), members.min(count));
        prop_assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(drawn.iter().all(|index| *index < members));
        match draw_two_ranks(members, false, &mut rng) {
            Some((one, two)) => prop_assert!(one != two && one < members && two < members),
            None => prop_assert!(members < 2),
        }
    }

    #[test]
    fn draws_are_those_from_a_list_that_shrinks(
        members in 0_usize..40,
        count in 0_usize..9,
        seed in any::<u64>(),
    ) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut left = (0..members).collect::<Vec<_>>();
        let mut expected = BTreeSet::new();
        while expected.len() < count && !left.is_empty() {
            expected.insert(left.swap_remove(rng.random_range(0..left.len())));
        }
        let drawn = draw_uniform(members, count, &mut ChaCha8Rng::seed_from_u64(seed));
        prop_assert_eq!(drawn, expected.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_thought_said_again_is_left_out(thought in "[a-z]{1,8}( [a-z]{1,8}){0,6}") {
        let louder = thought.to_uppercase() + " !";
        prop_assert_eq!(kept(&[thought, louder, String::new()]), vec![0]);
    }

    #[test]
    fn the_kept_thoughts_are_those_of_comparing_all_with_all(
        thoughts in prop::collection::vec(
            prop::collection::vec(0_usize..WORDS.len(), 0..12), 0..60,
        ),
    ) {
        let sets = thoughts.iter().map(|thought| thought.iter().collect::<BTreeSet<_>>());
        let sets = sets.collect::<Vec<_>>();
        let mut expected: Vec<usize> = Vec::new();
        for (place, words) in sets.iter().enumerate() {
            let same = |other: &usize| {
                let other = &sets[*other];
                words.intersection(other).count() * 5 >= words.union(other).count() * 4
            };
            if !words.is_empty() && !expected.iter().any(same) {
                expected.push(place);
            }
        }
        let texts = thoughts.iter().map(|thought| {
            thought.iter().map(|word| WORDS[*word]).collect::<Vec<_>>().join(" ")
        });
        prop_assert_eq!(kept(&texts.collect::<Vec<_>>()), expected);
    }
}

/// Few words, so that drawn thoughts resemble each other.
const WORDS: [&str; 14] = [
    "a",
    "in",
    "of",
    "warp",
    "tile",
    "loop",
    "each",
    "block",
    "store",
    "vector",
    "shared",
    "unrolled",
    "registers",
    "asynchronous",
];

/// The places of the thoughts that are kept when they are added in order.
fn kept(thoughts: &[String]) -> Vec<usize> {
    let mut distinct = DistinctThoughts::default();
    for (place, thought) in thoughts.iter().enumerate() {
        distinct.add(place, thought);
    }
    distinct.places().to_vec()
}
