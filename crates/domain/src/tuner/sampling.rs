//! Space-filling samples.

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use super::history::History;
use super::space::{Point, Space};

/// Samples of one Latin hypercube.
const ROUND: usize = 16;

/// The next point of a Latin hypercube sample: in each round of 16 samples every axis is cut into 16
/// strata, and each stratum is used once. The sample is the nearest point that is not known. None
/// where every point is known.
pub(super) fn latin_hypercube(space: &Space, history: &History, seed: u64) -> Option<Point> {
    let asked = history.len();
    let round = (asked / ROUND) as u64;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(round + 1);
    let position: Vec<f64> = (0..space.width())
        .map(|_| {
            let mut strata: Vec<usize> = (0..ROUND).collect();
            strata.shuffle(&mut rng);
            (strata[asked % ROUND] as f64 + 0.5) / ROUND as f64
        })
        .collect();
    space.nearest(&position, |point| !history.contains(point))
}
