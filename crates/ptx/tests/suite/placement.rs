//! Placement of blocks on multiprocessors, which a kernel may read and on which no result may rest.

use std::collections::BTreeMap;

use crate::support::{Arg, Device, kernel};
use ptx::{LaunchConfig, Schedule};

const MULTIPROCESSORS: u32 = 58;

/// Writes the multiprocessor and the first warp's number of every block to `out`.
const NUMBERS: &str = "mov.u32 %r5, %ctaid.x;\nmov.u32 %r6, %smid;\nmov.u32 %r7, %warpid;\n\
    setp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\nmul.wide.u32 %rd4, %r5, 8;\nadd.s64 %rd5, %rd3, %rd4;\n\
    st.global.v2.u32 [%rd5], {%r6, %r7};\nEND:";

/// Multiprocessor and number of the first warp of each block.
fn numbers(
    blocks: u32,
    schedule: Schedule,
    change: impl FnOnce(&mut LaunchConfig<'_>),
) -> Vec<(u32, u32)> {
    let mut device = Device::new(&kernel(NUMBERS));
    let out = device.fresh("out", 8 * blocks as usize);
    let args = [Arg::Pointer(out), Arg::Pointer(out), Arg::Pointer(out)];
    device.honest("k", [blocks, 1, 1], [64, 1, 1], &args, |config| {
        config.schedule = schedule;
        config.multiprocessors = MULTIPROCESSORS;
        change(config);
    });
    let words = device.read::<u32>(out, 2 * blocks as usize);
    words.chunks(2).map(|pair| (pair[0], pair[1])).collect()
}

fn blocks_of_multiprocessors(numbers: &[(u32, u32)]) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for (multiprocessor, _) in numbers {
        *counts.entry(*multiprocessor).or_default() += 1;
    }
    counts
}

#[test]
fn another_schedule_shares_multiprocessors_and_leaves_the_first_one_idle() {
    for seed in 0..200 {
        for blocks in [1, 2, 3, 5, 57, 58, 59, 200] {
            let numbers = numbers(blocks, Schedule::Seeded(seed), |_| {});
            let counts = blocks_of_multiprocessors(&numbers);
            let text = format!("seed {seed}, {blocks} blocks: {counts:?}");
            assert!(
                counts
                    .keys()
                    .all(|number| (1..MULTIPROCESSORS).contains(number)),
                "{text}"
            );
            assert!(
                blocks == 1 || counts.values().any(|count| *count > 1),
                "{text}"
            );
            assert!(numbers.iter().all(|(_, warp)| *warp != 0), "{numbers:?}");
        }
    }
}

#[test]
fn blocks_that_wait_for_each_other_keep_to_the_multiprocessors_that_hold_them() {
    for seed in 0..50 {
        for (resident, most) in [(MULTIPROCESSORS, 1), (2 * MULTIPROCESSORS, 2)] {
            let numbers = numbers(MULTIPROCESSORS, Schedule::Seeded(seed), |config| {
                config.cooperative = true;
                config.resident_blocks = resident;
            });
            let counts = blocks_of_multiprocessors(&numbers);
            assert_eq!(
                counts.values().max(),
                Some(&most),
                "seed {seed}: {counts:?}"
            );
        }
    }
}

#[test]
fn the_first_schedule_fills_multiprocessors_in_order() {
    let numbers = numbers(3 * MULTIPROCESSORS, Schedule::Serial, |_| {});
    let own: Vec<u32> = numbers.iter().map(|(number, _)| *number).collect();
    let expected: Vec<u32> = (0..3 * MULTIPROCESSORS)
        .map(|n| n % MULTIPROCESSORS)
        .collect();
    assert_eq!(own, expected);
}
