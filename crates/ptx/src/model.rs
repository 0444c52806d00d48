//! The time model: turns a launch's counters into a modelled time on a named device.
//!
//! The model is a pure function of the executed work and of the device's data file. It explains and ranks. [`Modelled`]
//! is a type of its own, so that it cannot be mistaken for a measurement. The model knows no source text, no machine
//! state and no other launch.
//!
//! Each resource gives a lower bound on the launch's time. Their smooth maximum is the modelled time. A plain maximum
//! would give no gain for work saved on the second tightest resource, and a sum would deny overlap.

mod occupancy;
mod terms;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::report::Counters;

pub use occupancy::{Footprint, Limiter, Occupancy, occupancy};
pub use terms::{Term, Traffic};

/// Exponent of the smooth maximum, without unit; chosen, not measured. At 5, two equal bounds cost 15 % more than one,
/// which stands for imperfect overlap.
const SHARPNESS: f64 = 5.0;

/// The contents of the L2 cache when a launch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Only what earlier launches of the same pass left there.
    Cold,
    /// The data that were read just before: so many bytes, all that the launch uses among them. As much as fits is
    /// cached, the same share of every part.
    Warm {
        /// Bytes.
        read_before: u64,
    },
}

/// The parameters of a launch that the model needs.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Blocks per axis.
    pub grid: [u32; 3],
    /// The resources that one block takes from its multiprocessor.
    pub footprint: Footprint,
    /// Bytes that the compiler's spills store and load, each instruction counted once: PTX does not hold them.
    pub spilled_bytes: u32,
}

impl Shape {
    fn blocks(&self) -> f64 {
        self.grid
            .iter()
            .map(|&blocks| f64::from(blocks))
            .product::<f64>()
            .max(1.0)
    }
}

/// A modelled time and its explanation. Never a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Modelled {
    /// Identifier of the device the time is for.
    pub device: String,
    /// Calibration: `uncalibrated` until compared with measurements.
    pub label: String,
    /// Modelled duration of the launch in microseconds, launch cost included.
    pub microseconds: f64,
    /// The launch cost alone.
    pub launch_microseconds: f64,
    /// The resource whose bound is the largest (the launch cost included).
    pub bottleneck: Term,
    /// The bottleneck's bound as a share of the modelled time.
    pub share: f64,
    /// Every resource's bound in microseconds.
    pub terms: BTreeMap<Term, f64>,
    /// Bytes that cross each level of the memory.
    pub traffic: Traffic,
    /// Residency on one multiprocessor.
    pub occupancy: Occupancy,
    /// Resident warps with work, as a share of a multiprocessor's capacity and averaged over all rounds: below
    /// `occupancy.share` where the grid is too small or its last round not full.
    pub achieved_occupancy: f64,
    /// Times that the device must be filled to run all blocks; below one, multiprocessors are idle.
    pub waves: f64,
    /// Blocks of the busiest multiprocessor over the mean of all: the cost of the last, partial round.
    pub tail_imbalance: f64,
}

/// Models one launch on a device with the given contents of the L2 cache.
///
/// A kernel of which no block fits is modelled with one resident block; the caller decides whether it may launch.
#[must_use]
pub fn modelled(counters: &Counters, shape: Shape, device: &Device, cache: Cache) -> Modelled {
    let occupancy = occupancy(shape.footprint, &device.limits);
    let resident = f64::from(occupancy.blocks_per_multiprocessor.max(1));
    let multiprocessors = f64::from(device.multiprocessors);
    let blocks = shape.blocks();
    let busiest_blocks = (blocks / multiprocessors).ceil();
    let warps = f64::from(shape.footprint.threads.div_ceil(32).max(1));
    // The first level cache shares its memory with shared memory.
    let at_once = busiest_blocks.clamp(1.0, resident);
    let shared = u64::from(shape.footprint.shared_bytes)
        + u64::from(device.limits.shared_reserved_per_block);
    let l1_bytes_of_block = (device.memory.l1_bytes as f64 / at_once - shared as f64).max(0.0);
    let placement = terms::Placement {
        active: blocks.min(multiprocessors),
        busiest_share: busiest_blocks / blocks,
        busiest_warps: busiest_blocks.min(resident) * warps,
        rounds: (blocks / (multiprocessors * resident)).ceil(),
        l1_bytes_of_block,
    };

    let launch_microseconds = device.launch.microseconds;
    let spilled = terms::spilled(counters, shape.spilled_bytes);
    let mut terms: BTreeMap<Term, f64> = terms::bounds(counters, spilled, placement, device, cache)
        .into_iter()
        .map(|(term, cycles)| (term, cycles / device.cycles_per_microsecond()))
        .collect();
    let execution = smooth_maximum(terms.values().copied());
    let microseconds = execution + launch_microseconds;

    terms.insert(Term::Launch, launch_microseconds);
    let (bottleneck, bound) = terms
        .iter()
        .map(|(term, bound)| (*term, *bound))
        .max_by(|(_, left), (_, right)| left.total_cmp(right))
        .expect("the launch cost is always a term");
    Modelled {
        device: device.id.clone(),
        label: device.label.clone(),
        microseconds,
        launch_microseconds,
        bottleneck,
        share: bound / microseconds,
        terms,
        traffic: terms::traffic(counters, spilled, placement, device, cache),
        achieved_occupancy: blocks / (placement.active * placement.rounds) * warps
            / f64::from(device.limits.warps_per_multiprocessor),
        occupancy,
        waves: blocks / (multiprocessors * resident),
        tail_imbalance: placement.busiest_share * multiprocessors,
    }
}

/// Models a fill of device memory: a launch of 16 bytes per thread that writes each sector once.
#[must_use]
pub fn modelled_fill(bytes: u64, device: &Device) -> Modelled {
    let sectors = bytes.div_ceil(32);
    let threads = bytes.div_ceil(16);
    let mut counters = Counters {
        unique_sectors_written: sectors,
        ..Counters::default()
    };
    counters.total.classes.store_global = threads.div_ceil(32);
    counters.total.global.sectors_written = sectors;
    counters.total.global.sectors_written_ideal = sectors;
    let shape = Shape {
        grid: [
            u32::try_from(threads.div_ceil(256)).unwrap_or(u32::MAX),
            1,
            1,
        ],
        footprint: Footprint {
            threads: 256,
            registers: 16,
            shared_bytes: 0,
        },
        spilled_bytes: 0,
    };
    modelled(&counters, shape, device, Cache::Cold)
}

/// The norm of order [`SHARPNESS`], scaled so that huge values do not overflow.
fn smooth_maximum(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = values.clone().fold(0.0, f64::max);
    if largest == 0.0 {
        return 0.0;
    }
    let sum: f64 = values.map(|value| (value / largest).powf(SHARPNESS)).sum();
    largest * sum.powf(1.0 / SHARPNESS)
}

#[cfg(test)]
mod tests;
