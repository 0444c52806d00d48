//! The capabilities of a device, derived from its driver's facts: never written by hand, and never
//! read from a task's prose.

use serde::{Deserialize, Serialize};

use crate::device::{Device, DeviceKind};

/// A device as a prompt shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceBrief {
    /// The driver's name of it.
    pub name: String,
    /// The compiler's name of its architecture, such as `sm_89`.
    pub architecture: String,
    /// True if its times are modelled.
    pub modelled: bool,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Resident threads of one multiprocessor.
    pub threads_per_sm: u32,
    /// Resident blocks of one multiprocessor.
    pub blocks_per_sm: u32,
    /// 32-bit registers of one multiprocessor.
    pub registers_per_sm: u32,
    /// Threads of one block.
    pub threads_per_block: u32,
    /// Shared memory of one multiprocessor, bytes.
    pub shared_per_sm: u32,
    /// Static shared memory of one block, bytes.
    pub shared_per_block: u32,
    /// Dynamic shared memory of one block, bytes.
    pub shared_per_block_optin: u32,
    /// Second-level cache, bytes.
    pub l2_bytes: u64,
    /// Device memory, bytes.
    pub memory_bytes: u64,
    /// Element types that its tensor cores multiply.
    pub tensor_types: Vec<String>,
    /// The features of its architecture beyond plain CUDA, a sentence each.
    pub has: Vec<String>,
    /// The features of newer devices that it lacks, a sentence each.
    pub lacks: Vec<String>,
}

impl DeviceBrief {
    /// The facts of a device.
    pub fn new(device: &Device) -> Self {
        let limits = &device.limits;
        let of = device.compute_capability;
        let offered = |capability: &&Capability| (capability.offered)(of);
        let told = |capability: &Capability| capability.what.to_owned();
        let (has, lacks): (Vec<_>, Vec<_>) = CAPABILITIES.iter().partition(offered);
        Self {
            name: crate::cleaning::clean_line(&device.name, 80),
            architecture: device.architecture(),
            modelled: device.kind == DeviceKind::Emulated,
            sm_count: limits.sm_count,
            threads_per_sm: limits.threads_per_sm,
            blocks_per_sm: limits.blocks_per_sm,
            registers_per_sm: limits.registers_per_sm,
            threads_per_block: limits.threads_per_block,
            shared_per_sm: limits.shared_per_sm,
            shared_per_block: limits.shared_per_block,
            shared_per_block_optin: limits.shared_per_block_optin,
            l2_bytes: device.l2_bytes,
            memory_bytes: device.memory_bytes,
            tensor_types: TENSOR_TYPES
                .iter()
                .filter(|(since, _)| of >= *since)
                .map(|(_, name)| (*name).to_owned())
                .collect(),
            has: has.into_iter().map(told).collect(),
            lacks: lacks.into_iter().map(told).collect(),
        }
    }
}

impl DeviceBrief {
    /// Removes the device's matrix units, for a task that denies them.
    pub(super) fn forget_tensor_cores(&mut self) {
        self.tensor_types.clear();
        for sentences in [&mut self.has, &mut self.lacks] {
            sentences.retain(|one| !one.starts_with("WMMA") && !one.starts_with("WGMMA"));
        }
    }
}

/// Operand types of `mma` by the compute capability that brought them (PTX ISA, "mma").
const TENSOR_TYPES: &[((u32, u32), &str)] = &[
    ((7, 0), "f16 (sums in f16 or f32)"),
    ((7, 5), "i8 and u8 (sums in i32)"),
    ((8, 0), "bf16 (sums in f32)"),
    ((8, 0), "tf32 (sums in f32)"),
    ((8, 0), "f64"),
    ((8, 9), "fp8: e4m3 and e5m2 (sums in f32)"),
];

/// A feature that some architectures have.
struct Capability {
    what: &'static str,
    offered: fn((u32, u32)) -> bool,
}

/// Features worth knowing, with the compute capabilities that have them: the CUDA programming
/// guide's table of compute capabilities and the target notes of the PTX ISA.
const CAPABILITIES: &[Capability] = &[
    Capability {
        what: "WMMA: tensor cores through nvcuda::wmma of <mma.h>",
        offered: |of| of >= (7, 0),
    },
    Capability {
        what: "ldmatrix: a warp loads 8x8 matrices of 16-bit elements from shared memory",
        offered: |of| of >= (7, 5),
    },
    Capability {
        what: "cp.async: copies of 4, 8 or 16 bytes from global to shared memory that run on their own (<cuda_pipeline.h>)",
        offered: |of| of >= (8, 0),
    },
    Capability {
        what: "mbarrier: barriers in shared memory that asynchronous copies can arrive at",
        offered: |of| of >= (8, 0),
    },
    Capability {
        what: "__reduce_add_sync and its like for 32-bit integers",
        offered: |of| of >= (8, 0),
    },
    Capability {
        what: "cp.async.bulk (TMA without a tensor map): bulk copies between global and shared memory",
        offered: |of| of >= (9, 0),
    },
    // Code for plain sm_90 cannot use these. They are listed, because authors know them from other
    // kernels.
    Capability {
        what: "WGMMA, tcgen05 and copies through tensor maps: they need architecture-specific code or a host that makes the map, and neither exists here",
        offered: |_| false,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Limits;

    fn brief(compute_capability: (u32, u32)) -> DeviceBrief {
        DeviceBrief::new(&Device {
            name: "device".to_owned(),
            kind: DeviceKind::Nvidia,
            uuid: "GPU-0".to_owned(),
            compute_capability,
            driver_version: 13000,
            memory_bytes: 1 << 34,
            l2_bytes: 1 << 22,
            limits: Limits {
                sm_count: 58,
                threads_per_block: 1024,
                block: [1024, 1024, 64],
                grid: [1, 1, 1],
                shared_per_block: 48 << 10,
                shared_per_block_optin: 99 << 10,
                shared_per_sm: 100 << 10,
                registers_per_block: 65536,
                registers_per_sm: 65536,
                threads_per_sm: 1536,
                blocks_per_sm: 24,
            },
        })
    }

    #[test]
    fn idioms_come_with_their_architecture() {
        let cases = [
            ((7, 5), "WMMA", "cp.async:"),
            ((8, 0), "cp.async:", "cp.async.bulk"),
            ((8, 9), "ldmatrix", "cp.async.bulk"),
            ((9, 0), "cp.async.bulk", "WGMMA"),
        ];
        for (of, has, lacks) in cases {
            let brief = brief(of);
            let starts = |list: &[String], word: &str| list.iter().any(|one| one.starts_with(word));
            assert!(
                starts(&brief.has, has) && !starts(&brief.lacks, has),
                "{of:?}"
            );
            assert!(
                starts(&brief.lacks, lacks) && !starts(&brief.has, lacks),
                "{of:?}"
            );
        }
        let fp8 = |of| {
            brief(of)
                .tensor_types
                .iter()
                .any(|name| name.starts_with("fp8"))
        };
        assert!(fp8((8, 9)) && fp8((9, 0)) && !fp8((8, 6)));
    }
}
