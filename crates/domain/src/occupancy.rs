//! How many blocks of a launch a multiprocessor can hold at once, and what keeps it from holding
//! more. Computed from what the assembler reports and the device's own limits.

use serde::Serialize;

use crate::device::Device;
use crate::role::KernelResources;

/// Threads of a warp.
pub const WARP: u32 = 32;
/// Registers are granted to a warp in multiples of this (CUDA occupancy calculator, compute
/// capability 7.0 and up).
const REGISTER_UNIT: u32 = 256;
/// Parts of a multiprocessor, each with registers of its own (`cuda_occupancy.h` of CUDA 13.5).
const PARTS: u32 = 4;
/// Shared memory that the driver keeps of each block from compute capability 8.0 on, bytes.
const SHARED_RESERVED: u32 = 1024;

/// What a multiprocessor can hold of one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Occupancy {
    /// Blocks at once; 0 where not even one fits.
    pub blocks_per_sm: u32,
    /// Their warps.
    pub warps: u32,
    /// Warps that the multiprocessor has room for.
    pub warps_limit: u32,
    /// What keeps it from holding more.
    pub limited_by: Limiter,
}

/// What bounds the blocks of a multiprocessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limiter {
    /// Resident threads.
    Threads,
    /// Registers.
    Registers,
    /// The limit on blocks itself.
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

/// What a block is taken to need when it is launched, in registers: as if its warps filled all
/// parts of a multiprocessor alike.
pub(crate) fn registers_of_block(registers: u32, threads: u32) -> u64 {
    let warps = threads.max(1).div_ceil(WARP).next_multiple_of(PARTS);
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
        // Each part has registers of its own.
        limits.registers_per_sm / PARTS / registers_of_warp(resources.registers) * PARTS / warps
    };
    let reserved = if device.compute_capability >= (8, 0) {
        SHARED_RESERVED
    } else {
        0
    };
    let shared = resources.static_shared_bytes + dynamic_shared;
    let mut bounds = vec![
        (limits.threads_per_sm / (warps * WARP), Limiter::Threads),
        (by_registers, Limiter::Registers),
        (limits.blocks_per_sm, Limiter::Blocks),
    ];
    if shared > 0 {
        bounds.push((limits.shared_per_sm / (shared + reserved), Limiter::Shared));
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
