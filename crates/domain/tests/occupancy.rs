//! How many blocks a multiprocessor holds, by hand, on an L4.

use domain::device::{Device, DeviceKind, Limits};
use domain::occupancy::{Limiter, occupancy};
use domain::role::KernelResources;

fn l4() -> Device {
    Device {
        name: "NVIDIA L4".to_owned(),
        kind: DeviceKind::Nvidia,
        uuid: String::new(),
        compute_capability: (8, 9),
        driver_version: 13000,
        memory_bytes: 24 << 30,
        l2_bytes: 48 << 20,
        limits: Limits {
            sm_count: 58,
            threads_per_block: 1024,
            block: [1024, 1024, 64],
            grid: [i32::MAX.cast_unsigned(), 65535, 65535],
            shared_per_block: 49152,
            shared_per_block_optin: 101_376,
            shared_per_sm: 102_400,
            registers_per_block: 65536,
            registers_per_sm: 65536,
            threads_per_sm: 1536,
            blocks_per_sm: 24,
        },
    }
}

#[test]
fn what_a_multiprocessor_holds() {
    use Limiter::{Blocks, Registers, Shared, Threads};
    // Threads, registers of each, shared bytes of a block; blocks, and what bounds them.
    let table = [
        (32, 16, 0, 24, Blocks),
        (256, 32, 0, 6, Threads),
        (128, 128, 0, 4, Registers),
        (128, 32, 48 << 10, 2, Shared),
        (128, 32, 100 << 10, 0, Shared),
        // 72 registers are 2304 of a warp: seven warps in each of four parts.
        (64, 72, 0, 14, Registers),
        // 168 registers: three warps in each part. Nine warps are checked as twelve, which fit.
        (288, 168, 0, 1, Registers),
        // Twelve warps of 200 registers are 76,800 of 65,536.
        (288, 200, 0, 0, Registers),
    ];
    for (threads, registers, shared, blocks, limiter) in table {
        let resources = KernelResources {
            kernel: "k".to_owned(),
            registers,
            spill_bytes: 0,
            stack_bytes: 0,
            static_shared_bytes: 0,
            constant_bytes: 0,
            parameters: Vec::new(),
        };
        let found = occupancy(&resources, threads, shared, &l4());
        assert_eq!(
            (found.blocks_per_sm, found.limited_by),
            (blocks, limiter),
            "{threads} threads, {registers} registers, {shared} bytes"
        );
        assert_eq!(found.warps, blocks * threads.div_ceil(32));
    }
}
