//! Sectors that launches, fills and copies leave in the L2 cache for later launches.

use crate::support::{Arg, Device, kernel};

/// A kernel of 256 threads that copies 32 sectors from `a` to `out`, and one of which the first thread adds to `a`.
fn copying_and_touching() -> String {
    let touch = kernel(
        "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\nld.global.u32 %r3, [%rd1];\nst.global.u32 [%rd1], %r3;\nEND:",
    );
    let touch = touch.replace(".entry k(", ".entry touch(");
    let copy = kernel(
        "shl.b32 %r2, %r1, 2;\ncvt.u64.u32 %rd7, %r2;\nadd.s64 %rd4, %rd1, %rd7;\nld.global.u32 %r3, [%rd4];\n\
         add.s64 %rd6, %rd3, %rd7;\nst.global.u32 [%rd6], %r3;",
    );
    let (_, entry) = touch.split_once(".visible").expect("it has an entry");
    format!("{copy}\n.visible{entry}")
}

#[test]
fn the_cache_holds_what_the_device_touched_until_the_host_writes_there() {
    let mut device = Device::new(&copying_and_touching());
    let (a, out) = (device.buffer("a", &[7u32; 256]), device.fresh("out", 1024));
    let cached = |device: &mut Device, name: &str, from: u64, to: u64| {
        let args = [Arg::Pointer(from), Arg::Pointer(a), Arg::Pointer(to)];
        let counters = device
            .honest(name, [1; 3], [256, 1, 1], &args, |_| {})
            .counters;
        (counters.cached_sectors_read, counters.cached_sectors)
    };
    assert_eq!(cached(&mut device, "touch", a, out), (0, 1));
    // 256 words are 32 sectors, of which the first was touched.
    assert_eq!(cached(&mut device, "k", a, out), (1, 64));
    assert_eq!(cached(&mut device, "k", a, out), (32, 64), "what it read");
    assert_eq!(cached(&mut device, "k", out, a), (32, 64), "what it wrote");
    device.machine.write(a, &[1; 4]).expect("the host writes");
    assert_eq!(cached(&mut device, "k", a, out), (0, 64));
    device.machine.evict();
    assert_eq!(cached(&mut device, "touch", out, out), (0, 1));
    device.machine.fill(a, &[0], 100).expect("fills");
    assert_eq!(cached(&mut device, "k", a, out), (4, 64), "filled in part");
    device.machine.evict();
    device.machine.copy(out + 512, a, 512).expect("copies");
    assert_eq!(cached(&mut device, "k", a, out), (16, 64), "copied from");
    device.machine.evict();
    device.machine.copy(out + 512, a, 512).expect("copies");
    assert_eq!(cached(&mut device, "k", out, a), (16, 64), "copied to");
}

#[test]
fn the_cache_holds_the_last_launch_alone_once_the_rest_is_too_much() {
    let mut device = Device::new(&copying_and_touching());
    let buffers = ["a", "b", "c", "d"].map(|name| device.buffer(name, &[7u32; 256]));
    // 32 sectors of 32 bytes each; the cache holds 100.
    let cached = |device: &mut Device, from: usize, to: usize| {
        let args = [from, from, to].map(|number| Arg::Pointer(buffers[number]));
        let report = device.honest("k", [1; 3], [256, 1, 1], &args, |config| {
            config.l2_bytes = 100 * 32;
        });
        let counters = report.counters;
        (counters.cached_sectors_read, counters.cached_sectors)
    };
    assert_eq!(cached(&mut device, 0, 1), (0, 64));
    assert_eq!(cached(&mut device, 0, 2), (32, 96));
    // With the fourth buffer there are 128 sectors.
    assert_eq!(cached(&mut device, 0, 3), (32, 128));
    assert_eq!(cached(&mut device, 1, 0), (0, 96), "evicted");
    assert_eq!(cached(&mut device, 1, 0), (32, 96), "touched last");
    device.machine.fill(buffers[2], &[0], 1024).expect("fills");
    assert_eq!(cached(&mut device, 1, 0), (0, 64), "filled over");
}

#[test]
fn blocks_that_communicate_find_what_the_launch_wrote_before_it_read() {
    // Each thread writes a word of `out`, and reads it and one of `a`; at last it writes that of `a`.
    let text = kernel(
        "shl.b32 %r2, %r1, 2;\ncvt.u64.u32 %rd7, %r2;\nadd.s64 %rd4, %rd1, %rd7;\nadd.s64 %rd6, %rd3, %rd7;\n\
         st.global.u32 [%rd6], %r1;\nld.global.u32 %r3, [%rd6];\nld.global.u32 %r4, [%rd4];\n\
         add.u32 %r3, %r3, %r4;\nst.global.u32 [%rd4], %r3;\nld.global.u32 %r4, [%rd4];",
    );
    let found = |cooperative: bool| {
        let mut device = Device::new(&text);
        let (a, out) = (device.buffer("a", &[7u32; 256]), device.fresh("out", 1024));
        let args = [Arg::Pointer(a), Arg::Pointer(a), Arg::Pointer(out)];
        let report = device.honest("k", [1; 3], [256, 1, 1], &args, |config| {
            config.cooperative = cooperative;
        });
        assert_eq!(report.counters.unique_sectors_read, 64);
        report.counters.cached_sectors_read
    };
    assert_eq!(found(true), 32);
    assert_eq!(found(false), 0, "blocks run in any order");
}

#[test]
fn what_persists_stays_when_more_was_touched_than_fits() {
    let mut device = Device::new(&copying_and_touching());
    let buffers = ["a", "b", "c", "d"].map(|name| device.buffer(name, &[7u32; 256]));
    // 32 sectors of 32 bytes each; the cache holds 100, of which 40 are set aside.
    let mut launch = |from: usize, to: usize, persisting: std::ops::Range<u64>| {
        let args = [from, from, to].map(|number| Arg::Pointer(buffers[number]));
        let report = device.honest("k", [1; 3], [256, 1, 1], &args, |config| {
            config.l2_bytes = 100 * 32;
            config.persisting_bytes = 40 * 32;
            config.persisting = persisting.clone();
        });
        let counters = report.counters;
        let persisting = counters
            .persisting
            .map(|of| [of.held, of.read, of.found, of.written]);
        (counters.cached_sectors_read, persisting)
    };
    let whole = |buffer: usize| buffers[buffer]..buffers[buffer] + 1024;
    assert_eq!(launch(0, 1, whole(0)), (0, Some([32, 32, 0, 0])));
    assert_eq!(launch(2, 3, 0..0), (0, Some([32, 0, 0, 0])));
    assert_eq!(launch(0, 1, 0..0), (32, Some([32, 32, 32, 0])), "persisted");
    assert_eq!(launch(2, 3, 0..0), (0, Some([32, 0, 0, 0])), "evicted");
    // Of the first range 8 sectors stay, when the second takes 32 of 40.
    assert_eq!(launch(2, 3, whole(3)), (32, Some([40, 0, 0, 32])));
    device.machine.reset_persisting();
    let args = [0, 0, 1].map(|number| Arg::Pointer(buffers[number]));
    let reset = device.honest("k", [1; 3], [256, 1, 1], &args, |_| {});
    assert_eq!(reset.counters.persisting, None);
}

#[test]
fn what_persists_is_no_part_of_the_working_sets_that_are_evicted() {
    // Each of eight blocks reads `a` and 32 sectors of its own of `b`.
    let text = kernel(
        "mov.u32 %r2, %ctaid.x;\nshl.b32 %r2, %r2, 8;\nadd.u32 %r2, %r2, %r1;\nshl.b32 %r2, %r2, 2;\n\
         cvt.u64.u32 %rd8, %r2;\nadd.s64 %rd5, %rd2, %rd8;\nshl.b32 %r4, %r1, 2;\ncvt.u64.u32 %rd7, %r4;\n\
         add.s64 %rd4, %rd1, %rd7;\nld.global.u32 %r3, [%rd4];\nld.global.u32 %r4, [%rd5];\n\
         add.u32 %r3, %r3, %r4;\nadd.s64 %rd6, %rd3, %rd8;\nst.global.u32 [%rd6], %r3;",
    );
    let working_sets = |set_aside: u64| {
        let mut device = Device::new(&text);
        let (a, b) = (
            device.buffer("a", &[7u32; 256]),
            device.buffer("b", &[7u32; 2048]),
        );
        let args = [
            Arg::Pointer(a),
            Arg::Pointer(b),
            Arg::Pointer(device.fresh("out", 8192)),
        ];
        let report = device.honest("k", [8, 1, 1], [256, 1, 1], &args, |config| {
            config.resident_blocks = 1;
            config.l2_bytes = 4096;
            config.persisting_bytes = set_aside;
            config.persisting = a..a + 1024;
        });
        let sets = report.counters.working_sets.into_iter();
        sets.map(|set| set.sectors).take(3).collect::<Vec<_>>()
    };
    assert_eq!(working_sets(0), [96, 160, 224]);
    assert_eq!(working_sets(1024), [64, 128, 192]);
    assert_eq!(working_sets(512), [80, 144, 208]);
}
