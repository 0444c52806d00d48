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
