//! Shapes that are drawn before a promotion, and met in that confirmation only.

use std::collections::BTreeMap;

use domain::problem::Problem;
use domain::role::Key;
use domain::task::{CasePurpose, Range, Task};

use super::{Edges, shown, word};
use crate::evaluate::passes::SMALL_ELEMENTS;

/// Drawn shapes of one confirmation. A kernel that is wrong on 4.6% of them or more is found with a
/// probability of 95%.
pub const DRAWN: usize = 64;
/// Draws made at most for each shape that is wanted, because a task can have fewer shapes.
const ATTEMPTS: usize = 16;
/// The largest drawn extent over the largest listed one.
const BEYOND: f64 = 1.25;
/// Alignments that every second shape has, as powers of two: 4 to 128.
const ALIGNMENTS: std::ops::RangeInclusive<u64> = 2..=7;

impl Edges<'_> {
    /// Draws shapes. Each free dim is log-uniform from its least value to 1.25 times its largest listed
    /// one; every second shape has dims that are multiples of 4 to 128. A shape with more elements
    /// than a small case is drawn again, because hundreds of executions must stay cheap.
    ///
    /// # Errors
    /// A [`Problem`] of the task: an extent without a value.
    pub fn draw(&mut self, key: Key) -> Result<(), Problem> {
        let wanted = self.found.len() + DRAWN;
        for turn in 0..ATTEMPTS * DRAWN {
            if self.found.len() >= wanted {
                break;
            }
            let dims = dims(self.task, key, turn);
            self.add(dims, SMALL_ELEMENTS, &[CasePurpose::Drawn])?;
        }
        Ok(())
    }
}

/// The dims of one draw.
fn dims(task: &Task, key: Key, turn: usize) -> BTreeMap<String, i64> {
    let turn_name = turn.to_string();
    let mut dims = task.fixed_dims.clone();
    for (dim, range) in &task.free_dims {
        let listed = shown(task).map(|case| case.dims[dim]).max().unwrap_or(1);
        let drawn = word(key, &["drawn", dim, &turn_name]);
        let value = log_uniform(drawn, range.least, beyond(listed));
        let value = if turn % 2 == 1 {
            aligned(value, word(key, &["alignment", dim, &turn_name]))
        } else {
            value
        };
        dims.insert(dim.clone(), allowed(value, range));
    }
    dims
}

/// The upper bound of a drawn dim.
#[expect(clippy::cast_precision_loss, reason = "a bound of a draw")]
pub(super) fn beyond(listed: i64) -> f64 {
    listed.max(1) as f64 * BEYOND
}

/// The largest multiple of 4 to 128 that is at most `value`; that multiple itself if there is none. `drawn`
/// has 64 uniform bits.
pub(super) fn aligned(value: i64, drawn: u64) -> i64 {
    let exponents = ALIGNMENTS.end() - ALIGNMENTS.start() + 1;
    let multiple = 1_i64 << (ALIGNMENTS.start() + drawn % exponents);
    (value / multiple * multiple).max(multiple)
}

/// A value from `least` to `most` whose logarithm is uniform. `drawn` has 64 uniform bits.
pub(super) fn log_uniform(drawn: u64, least: i64, most: f64) -> i64 {
    #[expect(clippy::cast_precision_loss, reason = "a share of the range")]
    let (share, least) = (drawn as f64 / u64::MAX as f64, least.max(1) as f64);
    // Rounding errors of the logarithm must not push a whole number below itself.
    let value = (least.ln() + share * (most.max(least) / least).ln()).exp() * (1.0 + 1e-12);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most 1.25 times an extent"
    )]
    let value = value as i64;
    value
}

/// The next value at or below the given one that a dim may have; its least one if none is.
pub(super) fn allowed(value: i64, range: &Range) -> i64 {
    let most = range.most.min(value);
    let value = most - most.rem_euclid(range.multiple);
    if value >= range.least {
        return value;
    }
    let first = range.least + range.multiple - 1;
    first - first.rem_euclid(range.multiple)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_uniform_in_the_logarithm_from_one_to_a_quarter_beyond_the_largest() {
        assert_eq!(log_uniform(0, 1, beyond(32_000)), 1);
        assert_eq!(log_uniform(u64::MAX, 1, beyond(32_000)), 40_000);
        assert_eq!(log_uniform(u64::MAX / 2, 1, beyond(32_000)), 200);
        assert_eq!(log_uniform(u64::MAX / 2, 7, beyond(7)), 7);
    }

    #[test]
    fn a_value_is_moved_to_the_multiples_that_a_dim_may_have() {
        let range = Range {
            least: 5,
            most: 100,
            multiple: 8,
        };
        assert_eq!(allowed(1, &range), 8);
        assert_eq!(allowed(23, &range), 16);
        assert_eq!(allowed(1000, &range), 96);
    }
}
