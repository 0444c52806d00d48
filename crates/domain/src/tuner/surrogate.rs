//! A random forest that predicts the ranks of configurations from those that are known.
//!
//! Ranks and not times are predicted, because the slowest configurations of a space are often a
//! hundred times slower than the fastest and would decide every split. Invalid configurations have
//! the last rank, so that the forest learns to keep away from them.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::forest::{Forest, Growth, Matrix};
use super::history::History;
use super::sampling;
use super::space::{Point, Space};

/// Valid configurations of a Latin hypercube sample before the first forest.
const FIRST: usize = 6;
/// The fastest configurations whose neighbours are candidates.
const CENTRES: usize = 4;
/// Random configurations that are candidates too.
const RANDOM: usize = 50;
/// Every configuration of a space of at most this many is a candidate.
const SMALL: usize = 1500;
/// Standard deviations of the trees by which a prediction is taken to be better than their mean.
const OPTIMISM: f64 = 1.0;

const GROWTH: Growth = Growth {
    trees: 20,
    tried: 16,
    leaf: 1,
};

/// The configuration whose predicted rank, less its uncertainty, is the least; none where every
/// candidate is known.
pub(super) fn ask(space: &Space, history: &History, seed: u64) -> Option<Point> {
    if history.valid().len() < FIRST {
        return sampling::latin_hypercube(space, history, seed);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // The first streams belong to the sample.
    rng.set_stream((1 << 32) + history.len() as u64);
    let features = Features::new(space);
    let mut ranked: Vec<(Point, f64)> = history.costs(history.median()).collect();
    ranked.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut examples = features.table();
    for (point, _) in &ranked {
        features.append(*point, &mut examples);
    }
    let forest = Forest::grow(GROWTH, &examples, &log_ranks(&ranked), &mut rng);

    let mut row = features.table();
    let mut best = None;
    let mut least = f64::INFINITY;
    for point in candidates(space, history, &ranked, &mut rng) {
        row.cells.clear();
        features.append(point, &mut row);
        let (mean, deviation) = forest.predict(row.row(0));
        let score = mean - OPTIMISM * deviation;
        if score < least {
            (best, least) = (Some(point), score);
        }
    }
    best
}

/// The logarithms of the ranks as shares of all; equal costs share the first rank of theirs, except
/// that invalid configurations have the last.
fn log_ranks(ranked: &[(Point, f64)]) -> Vec<f64> {
    let all = ranked.len() as f64;
    let mut first = 0;
    let ranks = ranked.iter().enumerate().map(|(at, (_, cost))| {
        if *cost > ranked[first].1 {
            first = at;
        }
        let rank = if cost.is_finite() {
            first + 1
        } else {
            ranked.len()
        };
        (rank as f64 / all).ln()
    });
    ranks.collect()
}

/// Configurations that are not known: all of a small space, otherwise the neighbours of the fastest
/// and a random sample.
fn candidates(
    space: &Space,
    history: &History,
    ranked: &[(Point, f64)],
    rng: &mut ChaCha8Rng,
) -> Vec<Point> {
    let mut points: Vec<Point> = if space.len() <= SMALL {
        (0..space.len()).collect()
    } else {
        let near = ranked.iter().take(CENTRES);
        let near = near.flat_map(|(point, _)| space.neighbours(*point));
        let mut points: Vec<Point> = near.collect();
        points.extend((0..RANDOM).map(|_| space.random(rng)));
        points
    };
    points.retain(|point| !history.contains(*point));
    points
}

/// The features of configurations: the value of every axis, and for every two axes of positive
/// values their product, because products such as the threads of a block decide how fast a kernel is.
struct Features<'a> {
    space: &'a Space,
    /// The axes that have more than one choice, with the feature of each.
    axes: Vec<Axis>,
}

struct Axis {
    position: usize,
    /// The feature of each choice: the logarithm where all values are positive.
    features: Vec<f32>,
    positive: bool,
}

impl<'a> Features<'a> {
    fn new(space: &'a Space) -> Self {
        let varied = (0..space.width()).filter(|axis| space.extent(*axis) > 1);
        let axes = varied.map(|position| {
            let values = space.values(position);
            let positive = values.iter().all(|value| *value > 0.0);
            let feature = |value: &f64| if positive { value.ln() } else { *value } as f32;
            Axis {
                position,
                features: values.iter().map(feature).collect(),
                positive,
            }
        });
        Self {
            space,
            axes: axes.collect(),
        }
    }

    /// A table without rows.
    fn table(&self) -> Matrix {
        let positive = self.axes.iter().filter(|axis| axis.positive).count();
        Matrix {
            width: self.axes.len() + positive * positive.saturating_sub(1) / 2,
            cells: Vec::new(),
        }
    }

    /// Appends the features of a configuration as a row.
    fn append(&self, point: Point, table: &mut Matrix) {
        let choices = self.space.choices(point);
        let feature = |axis: &Axis| axis.features[usize::from(choices[axis.position])];
        table.cells.extend(self.axes.iter().map(feature));
        for (at, one) in self
            .axes
            .iter()
            .enumerate()
            .filter(|(_, axis)| axis.positive)
        {
            let others = self.axes[..at].iter().filter(|axis| axis.positive);
            table
                .cells
                .extend(others.map(|other| feature(one) + feature(other)));
        }
    }
}
