//! A worker's device: facts queried from the driver, never written by hand.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The kind of a device: silicon, or our emulated driver. Times of the two kinds are never
/// compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// NVIDIA's driver: times are measured.
    Nvidia,
    /// The emulated driver: times are modelled.
    Emulated,
}

/// The facts a driver reports of one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Device {
    /// The driver's name of the device, such as "NVIDIA L4".
    pub name: String,
    /// Silicon or emulation.
    pub kind: DeviceKind,
    /// Stable identity of the card, as the driver prints it.
    pub uuid: String,
    /// Compute capability, such as (8, 9).
    pub compute_capability: (u32, u32),
    /// The CUDA version the driver supports, as `cuDriverGetVersion` codes it (13000 is 13.0).
    pub driver_version: u32,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Second-level cache in bytes.
    pub l2_bytes: u64,
    /// The limits of a launch.
    pub limits: Limits,
}

/// Limits of a device that a launch must respect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Threads of one block.
    pub threads_per_block: u32,
    /// Largest block in each dimension.
    pub block: [u32; 3],
    /// Largest grid in each dimension.
    pub grid: [u32; 3],
    /// Shared memory of one block without opting in, bytes.
    pub shared_per_block: u32,
    /// Shared memory of one block after opting in, bytes.
    pub shared_per_block_optin: u32,
    /// Shared memory of one multiprocessor, bytes.
    pub shared_per_sm: u32,
    /// 32-bit registers of one block.
    pub registers_per_block: u32,
    /// 32-bit registers of one multiprocessor.
    pub registers_per_sm: u32,
    /// Resident threads of one multiprocessor.
    pub threads_per_sm: u32,
    /// Resident blocks of one multiprocessor.
    pub blocks_per_sm: u32,
}

impl Device {
    /// The compiler's name of the architecture, such as `sm_89`.
    pub fn architecture(&self) -> String {
        format!(
            "sm_{}{}",
            self.compute_capability.0, self.compute_capability.1
        )
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}, {} SMs)",
            self.name,
            self.architecture(),
            self.limits.sm_count
        )
    }
}
