//! A forest of extremely randomised regression trees.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

/// Rows of features, all of one width.
#[derive(Debug, Clone, Default)]
pub(super) struct Matrix {
    pub(super) width: usize,
    pub(super) cells: Vec<f32>,
}

impl Matrix {
    pub(super) fn row(&self, row: usize) -> &[f32] {
        &self.cells[row * self.width..(row + 1) * self.width]
    }
}

/// Trees that were grown on one table of examples.
pub(super) struct Forest(Vec<Tree>);

struct Tree(Vec<Node>);

enum Node {
    Leaf(f64),
    /// The left child follows directly.
    Split {
        feature: usize,
        threshold: f32,
        right: usize,
    },
}

/// The parameters of a forest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    pub(super) trees: usize,
    /// Random splits that compete at each node.
    pub(super) tried: usize,
    /// Nodes of at most this many examples are leaves.
    pub(super) leaf: usize,
}

impl Forest {
    /// Grows trees that predict `targets`, one number for each row of `examples`.
    pub(super) fn grow(
        growth: Growth,
        examples: &Matrix,
        targets: &[f64],
        rng: &mut ChaCha8Rng,
    ) -> Self {
        let all: Vec<usize> = (0..targets.len()).collect();
        let trees = (0..growth.trees).map(|_| {
            let mut tree = Tree(Vec::new());
            tree.grow(growth, examples, targets, &mut all.clone(), rng);
            tree
        });
        Self(trees.collect())
    }

    /// The mean of the trees' predictions, and their standard deviation.
    pub(super) fn predict(&self, row: &[f32]) -> (f64, f64) {
        let (mut sum, mut squares) = (0.0, 0.0);
        for tree in &self.0 {
            let value = tree.predict(row);
            sum += value;
            squares += value * value;
        }
        let count = self.0.len() as f64;
        let mean = sum / count;
        (mean, (squares / count - mean * mean).max(0.0).sqrt())
    }
}

impl Tree {
    fn grow(
        &mut self,
        growth: Growth,
        examples: &Matrix,
        targets: &[f64],
        rows: &mut [usize],
        rng: &mut ChaCha8Rng,
    ) {
        let split = (rows.len() > growth.leaf)
            .then(|| best_split(growth, examples, targets, rows, rng))
            .flatten();
        let Some((feature, threshold)) = split else {
            let sum: f64 = rows.iter().map(|row| targets[*row]).sum();
            self.0.push(Node::Leaf(sum / rows.len() as f64));
            return;
        };
        let mut left = 0;
        for at in 0..rows.len() {
            if examples.row(rows[at])[feature] < threshold {
                rows.swap(left, at);
                left += 1;
            }
        }
        let own = self.0.len();
        self.0.push(Node::Split {
            feature,
            threshold,
            right: 0,
        });
        let (below, above) = rows.split_at_mut(left);
        self.grow(growth, examples, targets, below, rng);
        let next = self.0.len();
        if let Node::Split { right, .. } = &mut self.0[own] {
            *right = next;
        }
        self.grow(growth, examples, targets, above, rng);
    }

    fn predict(&self, row: &[f32]) -> f64 {
        let mut at = 0;
        loop {
            match &self.0[at] {
                Node::Leaf(value) => return *value,
                Node::Split {
                    feature,
                    threshold,
                    right,
                } => {
                    at = if row[*feature] < *threshold {
                        at + 1
                    } else {
                        *right
                    }
                }
            }
        }
    }
}

/// The split, of some random features and thresholds, that leaves the least variance; none where
/// the examples do not differ.
fn best_split(
    growth: Growth,
    examples: &Matrix,
    targets: &[f64],
    rows: &[usize],
    rng: &mut ChaCha8Rng,
) -> Option<(usize, f32)> {
    let mut best = None;
    let mut most = f64::NEG_INFINITY;
    let mut tried = 0;
    // A feature that is the same in all rows does not count as tried.
    for _ in 0..3 * growth.tried {
        if tried == growth.tried {
            break;
        }
        let feature = rng.random_range(0..examples.width);
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        for row in rows {
            let value = examples.row(*row)[feature];
            low = low.min(value);
            high = high.max(value);
        }
        if low >= high {
            continue;
        }
        tried += 1;
        let threshold = (low + (high - low) * rng.random::<f32>())
            .max(low.next_up())
            .min(high);
        let (mut below, mut count, mut total) = (0.0, 0.0, 0.0);
        for row in rows {
            let target = targets[*row];
            total += target;
            if examples.row(*row)[feature] < threshold {
                below += target;
                count += 1.0;
            }
        }
        let above = total - below;
        // The variance explained, but for terms that all splits share.
        let gain = below * below / count + above * above / (rows.len() as f64 - count);
        if gain > most {
            most = gain;
            best = Some((feature, threshold));
        }
    }
    best
}
