//! Times that are so good that nothing rests on them before they were taken twice.

use super::floor::Floor;
use crate::margins::FASTER_MARGIN_LOG;
use crate::verdict::{Comparison, Outcome};

/// A candidate that is this many times as fast as the incumbent is measured again.
const LEAP: f64 = 3.0;

/// The reason why a comparison has to be repeated before its candidate may be a parent; none if it
/// need not.
pub fn reason_to_repeat(comparison: &Comparison, floors: &[Floor]) -> Option<String> {
    let ratio = comparison.ratio;
    // Written so that a ratio that is no number surprises.
    let usual = ratio <= LEAP;
    if !usual {
        return Some(format!("it is {ratio:.2} times as fast as the incumbent"));
    }
    let close = floors.iter().find(|floor| floor.is_close())?;
    Some(format!(
        "case {} takes {:.2} us where nothing takes less than {:.2} us",
        close.cache.name_of(&close.case),
        close.found_us,
        close.us
    ))
}

/// Checks that a second comparison agrees with the first one: the bounds meet within the margin,
/// and the candidate was not faster only once.
///
/// # Errors
/// Says how they contradict each other.
pub fn ensure_repeat_agrees(first: &Comparison, second: &Comparison) -> Result<(), String> {
    let lost = first.outcome == Outcome::Faster && second.outcome != Outcome::Faster;
    let margin = FASTER_MARGIN_LOG.exp();
    // Written so that bounds that are no numbers fail.
    let meet = first.interval[0] <= second.interval[1] * margin
        && second.interval[0] <= first.interval[1] * margin;
    if meet && !lost {
        return Ok(());
    }
    let bounds = |one: &Comparison| format!("{:.3} to {:.3}", one.interval[0], one.interval[1]);
    Err(format!(
        "its ratio to the incumbent was {}, and {} when it was timed again",
        bounds(first),
        bounds(second)
    ))
}
