//! The check that a ratio seen in shared processes is also seen where incumbent and candidate share
//! none. A candidate that slows the incumbent beside it, or uses data that the incumbent left in a
//! cache, is faster only in shared processes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::decide::ALPHA;
use super::interval::{Interval, effect, interval};
use crate::margins::FASTER_MARGIN_LOG;

/// The number of processes of its own that each of the two has, in turn.
pub const ALTERNATIONS: usize = 4;

/// The comparison of processes that ran one of the two only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Split {
    /// The effect.
    pub effect: f64,
    /// Bounds on it, each at [`ALPHA`].
    pub interval: Interval,
    /// The number of processes of each.
    pub alternations: usize,
}

/// Compares the log-ratios of alternations, each of one process of the incumbent's and one of the
/// candidate's, with the bounds that shared processes gave.
///
/// # Errors
/// Says how the two contradict each other: bounds that do not meet within the margin, or too few
/// alternations to bound anything.
pub fn compare_separate_processes(ratios: &[f64], shared: Interval) -> Result<Split, String> {
    let apart = ratios.iter().map(|ratio| vec![*ratio]).collect::<Vec<_>>();
    let bounds = interval(&apart, ALPHA);
    let found = Split {
        effect: effect(&apart).unwrap_or(f64::NAN),
        interval: bounds,
        alternations: ratios.len(),
    };
    // Written so that bounds that are no numbers fail, and so do those that say nothing.
    let bounded = bounds.lower.is_finite() && bounds.upper.is_finite() && ratios.len() >= 3;
    let meet = bounds.lower <= shared.upper + FASTER_MARGIN_LOG
        && bounds.upper >= shared.lower - FASTER_MARGIN_LOG;
    if bounded && meet {
        return Ok(found);
    }
    let percent = |effect: f64| 100.0 * effect.exp_m1();
    Err(format!(
        "beside the incumbent the candidate gains {:.2}% to {:.2}%, in processes of their own {:.2}% to {:.2}% ({} alternations)",
        percent(shared.lower),
        percent(shared.upper),
        percent(bounds.lower),
        percent(bounds.upper),
        ratios.len()
    ))
}
