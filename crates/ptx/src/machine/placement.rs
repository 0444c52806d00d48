//! Placement of blocks on multiprocessors, as `%smid` and `%warpid` show it.

use super::exec::{WARP_SLOTS, scattered};
use crate::config::{LaunchConfig, Schedule};

/// The multiprocessors that hold the blocks of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    /// Seed of the schedule; 0 for the serial schedule.
    pub(crate) seed: u64,
    /// The first multiprocessor that holds blocks, and the number of those that do.
    first: u64,
    used: u64,
}

impl Placement {
    /// The placement of `blocks` blocks.
    ///
    /// The serial schedule fills the multiprocessors in order, as an idle GPU does. CUDA guarantees no placement,
    /// because other work may hold any multiprocessor. A seeded schedule therefore leaves multiprocessor 0 idle and
    /// uses no more multiprocessors than half the number of blocks, so that two blocks always share one. Only a
    /// cooperative grid gets as many as it needs to be resident.
    pub(crate) fn new(config: &LaunchConfig<'_>, blocks: u64) -> Self {
        let multiprocessors = u64::from(config.multiprocessors.max(1));
        let Schedule::Seeded(seed) = config.schedule else {
            return Self {
                seed: 0,
                first: 0,
                used: multiprocessors,
            };
        };
        let seed = seed | 1;
        let needed = if config.cooperative {
            let resident = u64::from(config.resident_blocks) / multiprocessors;
            blocks.div_ceil(resident.max(1))
        } else {
            1
        };
        let used = (blocks.min(multiprocessors) / 2)
            .max(needed)
            .clamp(1, multiprocessors);
        let idle = multiprocessors - used;
        let first = match idle {
            0 => 0,
            _ => 1 + (scattered(seed) >> 32) % idle,
        };
        Self { seed, first, used }
    }

    /// The multiprocessor that executes a block.
    pub(crate) fn multiprocessor(self, block: u64) -> u32 {
        (self.first + block % self.used) as u32
    }

    /// Number of a block's first warp on its multiprocessor, which numbers the warps of all its blocks. It is 0 in the
    /// serial schedule only.
    pub(crate) fn first_warp(self) -> u32 {
        match self.seed {
            0 => 0,
            seed => 1 + (scattered(seed) % u64::from(WARP_SLOTS - 1)) as u32,
        }
    }
}
