//! Occupancy: the number of blocks of a launch that one multiprocessor holds at once, and the
//! resource that limits it. Computed from the resources that the assembler reports and the device's
//! limits.
//!
//! `ptx` computes the same for the emulated device, and neither crate may depend on the other. Both
//! are tested with `tests/occupancy.csv`, so that the two cannot differ.

use serde::Serialize;

use crate::device::Device;
use crate::role::KernelResources;

/// Threads of a warp.
pub const WARP: u32 = 32;
/// Registers are granted to a warp in multiples of this (CUDA occupancy calculator, compute
/// capability 7.0 and up).
const REGISTER_UNIT: u32 = 256;
/// Partitions of a multiprocessor, each with a register file of its own (`cuda_occupancy.h` of CUDA 13.5).
const PARTITIONS: u32 = 4;
/// Shared memory that the system reserves in each block from compute capability 8.0 on, bytes (CUDA
/// C++ Programming Guide, "Compute Capability 8.x").
const SHARED_RESERVED: u32 = 1024;
/// Shared memory is allocated to a block in multiples of this, bytes: 128 from compute capability 8.0
/// on, 256 before (CUDA occupancy calculator).
const SHARED_UNIT: u64 = 128;
const SHARED_UNIT_BEFORE_8: u64 = 256;

/// The occupancy of one multiprocessor by one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Occupancy {
    /// Resident blocks; 0 if not even one fits.
    pub blocks_per_sm: u32,
    /// The warps of these blocks.
    pub warps: u32,
    /// The most warps that can be resident on the multiprocessor.
    pub warps_limit: u32,
    /// The scarcest resource.
    pub limited_by: Limiter,
}

/// The resource that limits the number of resident blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limiter {
    /// Resident threads.
    Threads,
    /// Registers.
    Registers,
    /// The device's limit on resident blocks.
    Blocks,
    /// Shared memory, static and dynamic.
    Shared,
}

impl Limiter {
    /// The name as text and JSON carry it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Registers => "registers",
            Self::Blocks => "blocks",
            Self::Shared => "shared",
        }
    }
}

fn registers_of_warp(registers: u32) -> u32 {
    (registers.max(1) * WARP).next_multiple_of(REGISTER_UNIT)
}

/// The registers that the driver requires for a block at its launch: its warps count as if they
/// filled all partitions of a multiprocessor evenly.
pub(crate) fn registers_of_block(registers: u32, threads: u32) -> u64 {
    let warps = threads.max(1).div_ceil(WARP).next_multiple_of(PARTITIONS);
    u64::from(registers_of_warp(registers)) * u64::from(warps)
}

/// The occupancy of a launch of `threads` per block with `dynamic_shared` bytes.
pub fn occupancy(
    resources: &KernelResources,
    threads: u32,
    dynamic_shared: u32,
    device: &Device,
) -> Occupancy {
    let limits = &device.limits;
    let warps = threads.max(1).div_ceil(WARP);
    let whole = registers_of_block(resources.registers, threads);
    let by_registers = if whole > u64::from(limits.registers_per_block) {
        0
    } else {
        // Each partition has a register file of its own.
        limits.registers_per_sm / PARTITIONS / registers_of_warp(resources.registers) * PARTITIONS
            / warps
    };
    let (reserved, unit) = if device.compute_capability >= (8, 0) {
        (SHARED_RESERVED, SHARED_UNIT)
    } else {
        (0, SHARED_UNIT_BEFORE_8)
    };
    let used = u64::from(resources.static_shared_bytes) + u64::from(dynamic_shared);
    let mut bounds = vec![
        (limits.threads_per_sm / (warps * WARP), Limiter::Threads),
        (by_registers, Limiter::Registers),
        (limits.blocks_per_sm, Limiter::Blocks),
    ];
    if used > 0 {
        let allocated = (used + u64::from(reserved)).next_multiple_of(unit);
        let by_shared = u64::from(limits.shared_per_sm) / allocated;
        let by_shared = u32::try_from(by_shared).expect("no more than bytes of shared memory");
        bounds.push((by_shared, Limiter::Shared));
    }
    let (blocks_per_sm, limited_by) = bounds
        .into_iter()
        .min_by_key(|(blocks, _)| *blocks)
        .expect("threads always bound");
    Occupancy {
        blocks_per_sm,
        warps: blocks_per_sm * warps,
        warps_limit: limits.threads_per_sm / WARP,
        limited_by,
    }
}
