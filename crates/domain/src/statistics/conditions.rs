//! The conditions of a device during a block, from samples of its state that come at their own
//! pace.

use super::plan::TimedKernel;
use super::summary::median;
use super::validity::Conditions;
use crate::role::DeviceSample;

/// The longest distance of a device sample from an interval that it describes, nanoseconds.
const REACH_NS: u64 = 250_000_000;

/// The interval in which one kernel was timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedInterval {
    /// The kernel.
    pub contender: TimedKernel,
    /// The beginning, by the clock of the device's samples, nanoseconds.
    pub from_ns: u64,
    /// Until.
    pub until_ns: u64,
}

/// The conditions of the device during the samples of one block.
///
/// A clock is that of the device samples nearest to a contender's samples, so that short blocks, which fit
/// between two device samples, have one clock for both. Faults, errors, slowdowns and other processes count
/// if any sample from the last one before the block to the first one after it saw them.
pub fn summarise_conditions(
    device_samples: &[DeviceSample],
    samples: &[TimedInterval],
) -> Conditions {
    let Some((first, last)) = samples.first().zip(samples.last()) else {
        return Conditions::default();
    };
    let before = device_samples.partition_point(|sample| sample.at_ns <= first.from_ns);
    let after = device_samples.partition_point(|sample| sample.at_ns < last.until_ns);
    let around = &device_samples[before.saturating_sub(1)..device_samples.len().min(after + 1)];
    let near = around.iter().filter(|sample| {
        sample.at_ns + REACH_NS >= first.from_ns && sample.at_ns <= last.until_ns + REACH_NS
    });
    let near = near.copied().collect::<Vec<_>>();
    Conditions {
        sm_mhz: clock(&near, samples, TimedKernel::Incumbent)
            .zip(clock(&near, samples, TimedKernel::Candidate))
            .map(|(incumbent, candidate)| [incumbent, candidate]),
        clock_events: near
            .iter()
            .filter_map(|sample| sample.clock_events)
            .reduce(|all, one| all | one),
        new_xids: risen(near.iter().map(|sample| sample.xids.map(u64::from))),
        ecc_errors: risen(near.iter().map(|sample| sample.ecc_errors)),
        celsius: near
            .iter()
            .filter_map(|sample| sample.celsius)
            .max()
            .map(f64::from),
        foreign_processes: near
            .iter()
            .filter_map(|sample| sample.foreign_processes)
            .max(),
    }
}

/// The median clock of the device samples nearest to each of a contender's samples.
fn clock(
    device_samples: &[DeviceSample],
    samples: &[TimedInterval],
    contender: TimedKernel,
) -> Option<f64> {
    let own = samples
        .iter()
        .filter(|sample| sample.contender == contender);
    let clocks = own
        .filter_map(|sample| {
            let known = device_samples
                .iter()
                .filter_map(|sample| Some((sample.at_ns, sample.sm_mhz?)));
            let middle = sample.from_ns.midpoint(sample.until_ns);
            let nearest = known.min_by_key(|(at, _)| at.abs_diff(middle));
            nearest.map(|(_, mhz)| f64::from(mhz))
        })
        .collect::<Vec<_>>();
    median(&clocks)
}

/// The increase of a counter between the first and the last sample that know it; none of fewer than
/// two.
fn risen(counts: impl Iterator<Item = Option<u64>>) -> Option<u32> {
    let known = counts.flatten().collect::<Vec<_>>();
    let (first, last) = known
        .first()
        .zip(known.last())
        .filter(|_| known.len() > 1)?;
    Some(u32::try_from(last.saturating_sub(*first)).unwrap_or(u32::MAX))
}
