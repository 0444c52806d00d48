//! The warm-up of a device: it ends when clocks and caches have settled, and from then on times
//! count.

use serde::{Deserialize, Serialize};

/// Medians of successive blocks of a warm device differ by no more than this share.
const ALIKE: f64 = 0.01;
/// The number of successive medians that must be alike.
const IN_A_ROW: usize = 3;

/// The length of the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// At least, milliseconds.
    pub least_ms: f64,
    /// At most, milliseconds: a device that does not settle is timed as it is.
    pub most_ms: f64,
    /// The most blocks.
    pub most_blocks: usize,
}

impl WarmUp {
    /// For silicon, whose clocks take a tenth of a second to rise.
    pub const MEASURED: Self = Self {
        least_ms: 200.0,
        most_ms: 2000.0,
        most_blocks: usize::MAX,
    };
    /// For the emulated device, which has no clocks to raise: modelled times settle at once or
    /// never.
    pub const MODELLED: Self = Self {
        least_ms: 0.0,
        most_ms: 2000.0,
        most_blocks: 5,
    };

    /// Returns true if the warm-up is over after this time and with blocks of these medians.
    pub fn is_over(&self, medians: &[f64], elapsed_ms: f64) -> bool {
        elapsed_ms >= self.most_ms
            || medians.len() >= self.most_blocks
            || (elapsed_ms >= self.least_ms && settled(medians))
    }
}

/// Returns true if the last few medians are alike.
fn settled(medians: &[f64]) -> bool {
    let Some(last) = medians
        .len()
        .checked_sub(IN_A_ROW)
        .map(|first| &medians[first..])
    else {
        return false;
    };
    let low = last.iter().copied().fold(f64::INFINITY, f64::min);
    let high = last.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // A NaN would be ignored by the extremes, so invalid times are excluded here.
    let times = last.iter().all(|us| us.is_finite() && *us > 0.0);
    times && high <= (1.0 + ALIKE) * low
}
