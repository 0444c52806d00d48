//! The replay of a sequential strategy over what is known.
//!
//! A strategy is written as an endless loop that looks costs up. The first cost that is not known
//! stops it: that point is asked for, and the next call runs the strategy again from its seed. So a
//! strategy keeps no state, and continues from recorded results as if it had never stopped.

use std::collections::HashSet;
use std::convert::Infallible;

use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use super::history::History;
use super::space::{Point, Space};

/// The reason why a strategy stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// It needs the cost of a point.
    Ask(Point),
    /// It looks up known costs only, and would for ever.
    Spent,
}

/// A strategy never returns but by a [`Pause`].
pub(super) type Endless = Result<Infallible, Pause>;

/// The costs that are known to a strategy, its random numbers, and the count of its lookups.
pub(super) struct Path<'a> {
    pub(super) space: &'a Space,
    pub(super) rng: ChaCha8Rng,
    history: &'a History,
    /// The cost that is assumed of a pending configuration.
    assumed: f64,
    /// The points whose cost it has looked up.
    seen: HashSet<Point>,
    lookups: usize,
}

impl<'a> Path<'a> {
    pub(super) fn new(space: &'a Space, rng: ChaCha8Rng, history: &'a History) -> Self {
        Self {
            space,
            rng,
            history,
            assumed: history.median(),
            seen: HashSet::new(),
            lookups: 0,
        }
    }

    /// The cost of a point; infinite where it is invalid.
    pub(super) fn cost(&mut self, point: Point) -> Result<f64, Pause> {
        let Some(cost) = self.history.cost(point, self.assumed) else {
            return Err(Pause::Ask(point));
        };
        self.seen.insert(point);
        self.lookups += 1;
        // The limit counts what this path has seen and not what is known, so that a replay with a longer history ends
        // where the first one did.
        if self.lookups > 1000 + 50 * self.seen.len() {
            return Err(Pause::Spent);
        }
        Ok(cost)
    }

    /// The neighbours of a point in random order.
    pub(super) fn shuffled_neighbours(&mut self, point: Point) -> Vec<Point> {
        let mut neighbours = self.space.neighbours(point);
        neighbours.shuffle(&mut self.rng);
        neighbours
    }

    /// A point that differs from another in `axes` random axes, or a random point where none is
    /// found.
    pub(super) fn perturb(&mut self, point: Point, axes: usize) -> Point {
        for _ in 0..20 {
            let mut row = self.space.choices(point).to_vec();
            for _ in 0..axes {
                let axis = self.rng.random_range(0..row.len().max(1));
                if let Some(choice) = row.get_mut(axis) {
                    *choice = self.rng.random_range(0..self.space.extent(axis));
                }
            }
            match self.space.find(&row) {
                Some(found) if found != point => return found,
                _ => {}
            }
        }
        self.space.random(&mut self.rng)
    }

    /// Descends to a local optimum: moves to the first neighbour that is cheaper, until there is
    /// none.
    pub(super) fn descend(&mut self, mut point: Point) -> Result<(Point, f64), Pause> {
        let mut cost = self.cost(point)?;
        'moves: loop {
            for neighbour in self.shuffled_neighbours(point) {
                let other = self.cost(neighbour)?;
                if other < cost {
                    (point, cost) = (neighbour, other);
                    continue 'moves;
                }
            }
            return Ok((point, cost));
        }
    }
}
