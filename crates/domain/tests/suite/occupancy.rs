//! Occupancy against a table of hand-computed cases on an L4.

use domain::device::{Device, DeviceKind, Limits};
use domain::occupancy::occupancy;
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

/// The table that the occupancy of the emulated device is tested with as well.
const TABLE: &str = include_str!("../../../../tests/occupancy.csv");

#[test]
fn occupancy_matches_the_hand_computed_table() {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    for row in rows {
        let fields = row.split(',').map(str::trim).collect::<Vec<_>>();
        let [numbers @ .., limiter] = fields.as_slice() else {
            panic!("an empty row");
        };
        let numbers = numbers.iter().map(|field| field.parse::<u32>().unwrap());
        let [threads, registers, shared, blocks] =
            <[u32; 4]>::try_from(numbers.collect::<Vec<_>>()).unwrap();
        // Static and dynamic shared memory count alike.
        for static_shared_bytes in [0, shared / 3, shared] {
            let resources = KernelResources {
                kernel: "k".to_owned(),
                registers,
                spill_bytes: 0,
                stack_bytes: 0,
                static_shared_bytes,
                constant_bytes: 0,
                parameters: Vec::new(),
            };
            let dynamic = shared - static_shared_bytes;
            let found = occupancy(&resources, threads, dynamic, &l4());
            assert_eq!(
                (found.blocks_per_sm, found.limited_by.as_str()),
                (blocks, *limiter),
                "{row}, {static_shared_bytes} bytes of it static"
            );
            assert_eq!(found.warps, blocks * threads.div_ceil(32));
        }
    }
}
