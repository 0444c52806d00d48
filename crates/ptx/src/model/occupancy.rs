//! Occupancy: the number of blocks of a kernel that one multiprocessor holds at once, and the resource that limits it.

use serde::{Deserialize, Serialize};

use crate::device::DeviceLimits;

/// Parts of a multiprocessor, each with a scheduler and registers of its own (`cuda_occupancy.h` of CUDA 13.5, compute
/// capability 5.0 and up).
const PARTS: u32 = 4;

/// The resources that one block of a kernel takes from its multiprocessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Threads per block.
    pub threads: u32,
    /// 32-bit registers per thread.
    pub registers: u32,
    /// Static plus dynamic shared memory per block, in bytes.
    pub shared_bytes: u32,
}

/// The resource that keeps a multiprocessor from holding one block more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limiter {
    /// The number of resident blocks.
    Blocks,
    /// The number of resident warps.
    Warps,
    /// The register file.
    Registers,
    /// Shared memory.
    SharedMemory,
}

/// Residency of a kernel on one multiprocessor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Blocks resident at once; zero if not even one fits.
    pub blocks_per_multiprocessor: u32,
    /// Warps resident at once.
    pub warps_per_multiprocessor: u32,
    /// Resident warps as a share of what the multiprocessor can hold.
    pub share: f64,
    /// The scarcest resource.
    pub limited_by: Limiter,
}

/// Computes the residency of blocks of this footprint, with the hardware's granularities.
#[must_use]
pub fn occupancy(footprint: Footprint, limits: &DeviceLimits) -> Occupancy {
    let warps = footprint.threads.div_ceil(32).max(1);
    let registers_per_warp =
        (footprint.registers.max(1) * 32).next_multiple_of(limits.registers_granularity);
    // A caller may ask about any number.
    let shared = (u64::from(footprint.shared_bytes) + u64::from(limits.shared_reserved_per_block))
        .next_multiple_of(u64::from(limits.shared_granularity));
    let by_shared = u64::from(limits.shared_per_multiprocessor) / shared;

    // Each part has registers of its own, and whether a block fits is checked as if its warps filled all parts alike.
    let warps_of_a_part = limits.registers_per_multiprocessor / PARTS / registers_per_warp;
    let whole = registers_per_warp.saturating_mul(warps.next_multiple_of(PARTS));
    let by_registers = if footprint.registers > limits.registers_per_thread
        || whole > limits.registers_per_block
    {
        0
    } else {
        warps_of_a_part * PARTS / warps
    };
    let candidates = [
        (Limiter::Blocks, limits.blocks_per_multiprocessor),
        (Limiter::Warps, limits.warps_per_multiprocessor / warps),
        (Limiter::Registers, by_registers),
        (
            Limiter::SharedMemory,
            u32::try_from(by_shared).unwrap_or(u32::MAX),
        ),
    ];
    let (limited_by, blocks) = candidates
        .into_iter()
        .min_by_key(|(_, blocks)| *blocks)
        .expect("four candidates");
    Occupancy {
        blocks_per_multiprocessor: blocks,
        warps_per_multiprocessor: blocks * warps,
        share: f64::from(blocks * warps) / f64::from(limits.warps_per_multiprocessor),
        limited_by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn residency_matches_hand_computed_cases_on_an_l4() {
        let limits = Device::embedded("l4").expect("embedded").limits;
        let check = |numbers: [u32; 4], limiter: Limiter| {
            let [threads, registers, shared_bytes, blocks] = numbers;
            let found = occupancy(
                Footprint {
                    threads,
                    registers,
                    shared_bytes,
                },
                &limits,
            );
            assert_eq!(
                (found.blocks_per_multiprocessor, found.limited_by),
                (blocks, limiter),
                "{threads} threads, {registers} registers, {shared_bytes} bytes"
            );
        };
        // The same table tests what the evaluator says about real devices.
        let table = include_str!("../../../../tests/occupancy.csv");
        for row in table.lines().filter(|line| !line.starts_with('#')) {
            let (numbers, limiter) = row.rsplit_once(',').expect("five fields");
            let limiter = match limiter.trim() {
                "blocks" => Limiter::Blocks,
                "threads" => Limiter::Warps,
                "registers" => Limiter::Registers,
                "shared" => Limiter::SharedMemory,
                other => panic!("no limiter {other:?}"),
            };
            let numbers = numbers.split(',').map(|field| field.trim().parse());
            let numbers = numbers.collect::<Result<Vec<u32>, _>>().expect("numbers");
            check(numbers.try_into().expect("four numbers"), limiter);
        }
        // Requests beyond the limits of any launch.
        check([128, 32, u32::MAX, 0], Limiter::SharedMemory);
        check([1024, 128, 0, 0], Limiter::Registers);
        check([128, 256, 0, 0], Limiter::Registers);
    }
}
