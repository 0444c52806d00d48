//! How many blocks of a kernel one multiprocessor holds at once, and what stops it from holding more.

use serde::{Deserialize, Serialize};

use crate::device::DeviceLimits;

/// Parts of a multiprocessor, each with a scheduler and registers of its own (`cuda_occupancy.h` of CUDA 13.5, compute
/// capability 5.0 and up).
const PARTS: u32 = 4;

/// What one block of a kernel takes from its multiprocessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Threads per block.
    pub threads: u32,
    /// 32-bit registers per thread.
    pub registers: u32,
    /// Static plus dynamic shared memory per block, in bytes.
    pub shared_bytes: u32,
}

/// What stops a multiprocessor from holding one block more.
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
        // Threads, registers, shared bytes, blocks, limiter.
        let cases = [
            (32, 16, 0, 24, Limiter::Blocks),
            (256, 32, 0, 6, Limiter::Warps),
            (1024, 32, 0, 1, Limiter::Warps),
            // 128 registers x 32 = 4096 per warp, 16 warps fit, 4 per block.
            (128, 128, 0, 4, Limiter::Registers),
            // 168 registers x 32 = 5376 per warp, 12 warps fit, 8 per block.
            (256, 168, 0, 1, Limiter::Registers),
            // 40 registers x 32 = 1280 per warp, 12 warps in each of four parts: 48, where the whole file would hold 51.
            (32 * 3, 40, 0, 16, Limiter::Warps),
            // 72 registers x 32 = 2304 per warp, 7 warps in each part: 28, where the whole file would hold 28.4.
            (32, 72, 0, 24, Limiter::Blocks),
            (64, 72, 0, 14, Limiter::Registers),
            // 168 registers: 3 warps in each part, 12 in all; 9 warps count as 12 and fit exactly.
            (288, 168, 0, 1, Limiter::Registers),
            // 200 registers x 32 = 6400 per warp: 9 warps count as 12, which is 76,800 registers.
            (288, 200, 0, 0, Limiter::Registers),
            // 48 KB + 1 KB twice is 98 of 100 KB.
            (128, 32, 48 << 10, 2, Limiter::SharedMemory),
            (128, 32, 99 << 10, 1, Limiter::SharedMemory),
            (128, 32, 100 << 10, 0, Limiter::SharedMemory),
            (128, 32, u32::MAX, 0, Limiter::SharedMemory),
            (1024, 128, 0, 0, Limiter::Registers),
            (128, 256, 0, 0, Limiter::Registers),
        ];
        for (threads, registers, shared_bytes, blocks, limiter) in cases {
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
        }
    }
}
