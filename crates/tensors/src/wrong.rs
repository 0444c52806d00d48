//! The places of wrong elements in a tensor, collected one by one.

use domain::verdict::AxisSpan;

/// The first wrong elements that are kept.
const FIRST: usize = 4;

/// Wrong elements of a tensor with these extents.
pub(crate) struct WrongPlaces<'a> {
    extents: &'a [u64],
    /// Flat indices of the first ones.
    pub first: Vec<usize>,
    pub count: u64,
    axes: Vec<Axis>,
}

/// The coordinates of wrong elements along one axis.
#[derive(Clone, Copy)]
struct Axis {
    least: u64,
    most: u64,
    /// The greatest common divisor of their differences; 0 while there is none.
    step: u64,
}

impl<'a> WrongPlaces<'a> {
    pub fn new(extents: &'a [u64]) -> Self {
        Self {
            extents,
            first: Vec::new(),
            count: 0,
            axes: Vec::new(),
        }
    }

    /// Adds an element by its flat index.
    pub fn add(&mut self, index: usize) {
        if self.first.len() < FIRST {
            self.first.push(index);
        }
        self.count += 1;
        let mut flat = index as u64;
        if self.axes.is_empty() {
            let start = Axis {
                least: u64::MAX,
                most: 0,
                step: 0,
            };
            self.axes = vec![start; self.extents.len()];
        }
        for (axis, extent) in self.axes.iter_mut().zip(self.extents).rev() {
            let extent = (*extent).max(1);
            axis.add(flat % extent);
            flat /= extent;
        }
    }

    /// The part of each axis that has wrong elements; none where it is the whole axis.
    pub fn spans(&self) -> Vec<Option<AxisSpan>> {
        let axes = self.axes.iter().zip(self.extents);
        axes.map(|(axis, extent)| {
            let is_whole = axis.least == 0 && axis.most + 1 == *extent && axis.step <= 1;
            (!is_whole).then_some(AxisSpan {
                from: axis.least,
                to: axis.most,
                step: axis.step.max(1),
            })
        })
        .collect()
    }
}

impl Axis {
    fn add(&mut self, at: u64) {
        if self.least != u64::MAX {
            self.step = greatest_common_divisor(self.step, at.abs_diff(self.least));
        }
        self.least = self.least.min(at);
        self.most = self.most.max(at);
    }
}

fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}
