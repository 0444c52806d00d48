//! Shapes in which one dim lies between its largest listed value and the maximum that the task states, while the others
//! stay small. A promotion meets them.

use std::collections::BTreeMap;

use domain::problem::Problem;
use domain::role::Key;
use domain::task::{CasePurpose, Range};

use super::drawn::{aligned, allowed, beyond, log_uniform};
use super::{Edges, shown, word};
use crate::evaluate::passes::{SMALL_ELEMENTS, elements};

/// Shapes of one confirmation with a drawn value, of each such dim in turn.
const DRAWN: usize = 24;
/// Those of them that may have more elements than a small case, because no shape with the value is small.
const LARGE: usize = 4;
/// The other dims are multiplied by a number of these parts of one.
const PARTS: i64 = 1 << 10;
/// The purposes of these shapes.
const USES: [CasePurpose; 2] = [CasePurpose::Drawn, CasePurpose::TowardsMaximum];

/// A dim with the values that lie beyond the listed ones.
struct Reach<'a> {
    dim: &'a str,
    range: Range,
    listed: i64,
    /// The largest value with which a shape can be executed.
    most: i64,
}

impl Edges<'_> {
    /// Adds shapes with values of one dim beyond its largest listed one: its maximum with the others as large as a small
    /// case allows, the value below, and values whose logarithm is uniform between, every second aligned. A value is in
    /// reach if the shape whose other dims are the least has no more elements than the largest case that a search shows,
    /// or than a small case. A dim without a stated maximum gets no such shapes.
    ///
    /// # Errors
    /// A [`Problem`] of the task: an extent without a value.
    pub(super) fn approach_maxima(&mut self, key: Key) -> Result<(), Problem> {
        let task = self.task;
        let mut room = SMALL_ELEMENTS;
        for case in shown(task) {
            room = room.max(elements(task, case)?);
        }
        let mut reaches = Vec::new();
        for (dim, range) in &task.free_dims {
            let Some(stated) = range.stated_maximum() else {
                continue;
            };
            let listed = shown(task).map(|case| case.dims[dim]).max().unwrap_or(1);
            let most = self.largest_in_reach(dim, range, stated, room)?;
            if most > listed {
                reaches.push(Reach {
                    dim,
                    range: *range,
                    listed,
                    most,
                });
            }
        }
        for reach in &reaches {
            let largest = self.largest_others(reach.dim);
            let dims = self.shape(reach.dim, reach.most, &largest)?;
            self.add(dims, room, &USES)?;
            let below = reach.most - reach.range.multiple;
            if below > reach.listed {
                let others = self.drawn_others(reach.dim, key, "below the maximum");
                let dims = self.shape(reach.dim, below, &others)?;
                self.add(dims, room, &USES)?;
            }
        }
        let mut large = 0;
        for (turn, reach) in reaches.iter().cycle().take(DRAWN).enumerate() {
            let is_aligned = turn / reaches.len() % 2 == 1;
            let dims = self.draw_towards(reach, key, turn, is_aligned)?;
            let is_large = self.size(&dims)? > SMALL_ELEMENTS;
            if !is_large || large < LARGE {
                large += usize::from(is_large);
                self.add(dims, room, &USES)?;
            }
        }
        Ok(())
    }

    /// A shape with a drawn value of one dim.
    fn draw_towards(
        &self,
        reach: &Reach<'_>,
        key: Key,
        turn: usize,
        is_aligned: bool,
    ) -> Result<BTreeMap<String, i64>, Problem> {
        let Reach {
            dim,
            ref range,
            listed,
            most,
        } = *reach;
        let turn = turn.to_string();
        let drawn = word(key, &["towards the maximum", dim, &turn]);
        #[expect(clippy::cast_precision_loss, reason = "the bound of a draw")]
        let mut value = log_uniform(drawn, listed + 1, most as f64);
        let mut others = self.drawn_others(dim, key, &turn);
        if is_aligned {
            let align = |value, dim: &str| {
                aligned(
                    value,
                    word(key, &["aligned towards the maximum", dim, &turn]),
                )
            };
            value = align(value, dim);
            for (other, value) in &mut others {
                *value = align(*value, other);
            }
        }
        self.shape(dim, allowed(value.min(most), range), &others)
    }

    /// Draws a value of each other dim, as drawn shapes have them.
    fn drawn_others(&self, dim: &str, key: Key, turn: &str) -> BTreeMap<String, i64> {
        self.others(dim, |other, range, listed| {
            let drawn = word(key, &["beside", dim, other, turn]);
            log_uniform(drawn, range.least, beyond(listed))
        })
    }

    /// The largest listed value of each other dim.
    fn largest_others(&self, dim: &str) -> BTreeMap<String, i64> {
        self.others(dim, |_, _, listed| listed)
    }

    fn others(&self, dim: &str, value: impl Fn(&str, &Range, i64) -> i64) -> BTreeMap<String, i64> {
        let others = self
            .task
            .free_dims
            .iter()
            .filter(|(other, _)| *other != dim);
        let valued = others.map(|(other, range)| {
            let listed = shown(self.task).map(|case| case.dims[other]).max();
            (other.clone(), value(other, range, listed.unwrap_or(1)))
        });
        valued.collect()
    }

    /// The shape with a value of one dim and with the others reduced in proportion until it is small, or until they are
    /// the least.
    fn shape(
        &self,
        dim: &str,
        value: i64,
        others: &BTreeMap<String, i64>,
    ) -> Result<BTreeMap<String, i64>, Problem> {
        let reduced = |parts: i64| {
            let mut dims = self.task.fixed_dims.clone();
            dims.insert(dim.to_owned(), value);
            for (other, value) in others {
                let part = value.saturating_mul(parts) / PARTS;
                dims.insert(other.clone(), allowed(part, &self.task.free_dims[other]));
            }
            dims
        };
        let (mut enough, mut too_many) = (0, PARTS + 1);
        while enough + 1 < too_many {
            let middle = i64::midpoint(enough, too_many);
            if self.size(&reduced(middle))? <= SMALL_ELEMENTS {
                enough = middle;
            } else {
                too_many = middle;
            }
        }
        Ok(reduced(enough))
    }

    /// The largest value of a dim, at most `stated`, whose shape has at most `room` elements where all other dims are
    /// the least.
    fn largest_in_reach(
        &self,
        dim: &str,
        range: &Range,
        stated: i64,
        room: u64,
    ) -> Result<i64, Problem> {
        let least = self.others(dim, |_, range, _| range.least);
        let fits = |value: i64| Ok(self.size(&self.shape(dim, value, &least)?)? <= room);
        if fits(stated)? {
            return Ok(stated);
        }
        let (mut enough, mut too_many) = (0, stated);
        while enough + 1 < too_many {
            let middle = i64::midpoint(enough, too_many);
            if fits(middle)? {
                enough = middle;
            } else {
                too_many = middle;
            }
        }
        Ok(enough - enough % range.multiple)
    }
}
