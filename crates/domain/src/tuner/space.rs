//! A discrete search space: the configurations that exist, each one choice per axis.

use std::collections::HashMap;

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

/// A configuration of a [`Space`], by its position in the space's list.
pub type Point = usize;

/// The configurations that a tuner may ask for.
///
/// Constraints are expressed by leaving configurations out, so that a strategy can never propose
/// one that breaks them.
#[derive(Debug, Clone)]
pub struct Space {
    /// For each axis the numeric value of every choice, which the surrogate's features come from.
    axes: Vec<Vec<f64>>,
    /// The choices of all points, one row of `axes.len()` numbers for each.
    choices: Vec<u16>,
    by_choices: HashMap<Box<[u16]>, Point>,
}

/// Errors of building a [`Space`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// There is no configuration.
    #[error("the space has no configuration")]
    Empty,
    /// A configuration does not have one existing choice for each axis.
    #[error("configuration {0} does not have one existing choice for each axis")]
    Malformed(usize),
    /// A configuration is listed twice.
    #[error("configuration {0} repeats configuration {1}")]
    Duplicate(usize, usize),
}

impl Space {
    /// Builds a space from the value of every choice of each axis and the list of configurations.
    /// Choices of an axis are in an order in which neighbours are similar.
    ///
    /// # Errors
    /// [`SpaceError`], where the list is empty, repeats a configuration, or does not fit the axes.
    pub fn new(
        axes: Vec<Vec<f64>>,
        points: impl IntoIterator<Item = Vec<u16>>,
    ) -> Result<Self, SpaceError> {
        let mut choices = Vec::new();
        let mut by_choices = HashMap::new();
        for (point, row) in points.into_iter().enumerate() {
            let exists = |(choice, axis): (&u16, &Vec<f64>)| usize::from(*choice) < axis.len();
            if row.len() != axes.len() || !row.iter().zip(&axes).all(exists) {
                return Err(SpaceError::Malformed(point));
            }
            choices.extend_from_slice(&row);
            if let Some(earlier) = by_choices.insert(row.into_boxed_slice(), point) {
                return Err(SpaceError::Duplicate(point, earlier));
            }
        }
        if by_choices.is_empty() {
            return Err(SpaceError::Empty);
        }
        Ok(Self {
            axes,
            choices,
            by_choices,
        })
    }

    /// Number of configurations, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a space is never empty")]
    pub fn len(&self) -> usize {
        self.by_choices.len()
    }

    /// The choice of each axis at a point.
    pub fn choices(&self, point: Point) -> &[u16] {
        let width = self.axes.len();
        &self.choices[point * width..(point + 1) * width]
    }

    /// The point with these choices, if it exists.
    pub fn find(&self, choices: &[u16]) -> Option<Point> {
        self.by_choices.get(choices).copied()
    }

    /// Number of axes.
    pub(super) fn width(&self) -> usize {
        self.axes.len()
    }

    /// Number of choices of an axis.
    pub(super) fn extent(&self, axis: usize) -> u16 {
        u16::try_from(self.axes[axis].len()).unwrap_or(u16::MAX)
    }

    /// The values of an axis.
    pub(super) fn values(&self, axis: usize) -> &[f64] {
        &self.axes[axis]
    }

    /// Every existing point that differs in exactly one axis.
    pub(super) fn neighbours(&self, point: Point) -> Vec<Point> {
        let mut row = self.choices(point).to_vec();
        let mut found = Vec::new();
        for axis in 0..row.len() {
            let own = row[axis];
            for choice in (0..self.extent(axis)).filter(|choice| *choice != own) {
                row[axis] = choice;
                found.extend(self.find(&row));
            }
            row[axis] = own;
        }
        found
    }

    /// A uniformly random point.
    pub(super) fn random(&self, rng: &mut ChaCha8Rng) -> Point {
        rng.random_range(0..self.len())
    }

    /// The point nearest to a position, of those that `accept` accepts. A position has one
    /// coordinate in 0..1 for each axis; the distance is the sum over the axes.
    pub(super) fn nearest(
        &self,
        position: &[f64],
        accept: impl Fn(Point) -> bool,
    ) -> Option<Point> {
        let mut best = None;
        let mut least = f64::INFINITY;
        for point in (0..self.len()).filter(|point| accept(*point)) {
            let mut distance = 0.0;
            for (axis, choice) in self.choices(point).iter().enumerate() {
                let extent = self.axes[axis].len() as f64;
                distance += ((f64::from(*choice) + 0.5) / extent - position[axis]).abs();
            }
            if distance < least {
                least = distance;
                best = Some(point);
            }
        }
        best
    }
}
