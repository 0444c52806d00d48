//! Threads that work together: cooperative groups, CUB, barrier objects, and barriers over the whole grid.

use ptx::Schedule;

use super::numbers::{assert_close, wide};
use super::support::Arg::{F32 as F, I32 as I, Pointer as P};
use super::support::{Device, Noise};

#[test]
fn sums_of_tiles_warps_and_blocks() {
    let n = 230;
    let x: Vec<i32> = (0..n).map(|i| i * i % 91 - 30).collect();
    let mut device = Device::new(super::ptx("groups"));
    let (of_tile, of_block) = (device.fresh("of_tile", 32 * 4), device.fresh("of_block", 8));
    let args = [P(device.buffer("x", &x)), P(of_tile), P(of_block), I(n)];
    device.honest("group_sums", [2, 1, 1], [128, 1, 1], &args, |_| {});
    let sum = |from: usize, to: usize| x[from.min(x.len())..to.min(x.len())].iter().sum::<i32>();
    let want: Vec<i32> = (0..32).map(|t| sum(8 * t, 8 * t + 8)).collect();
    assert_eq!(device.read::<i32>(of_tile, 32), want);
    assert_eq!(
        device.read::<i32>(of_block, 2),
        [sum(0, 128), sum(128, 256)]
    );
}

#[test]
fn scans_of_tiles_and_coalesced_lanes() {
    let n = 128;
    let x = Noise(71).units(n);
    let mut device = Device::new(super::ptx("groups"));
    let (inclusive, largest) = (
        device.fresh("inclusive", n * 4),
        device.fresh("largest", n / 4),
    );
    let (kept, places) = (
        device.buffer("kept", &[0i32]),
        device.fresh("places", n * 4),
    );
    let args = [
        P(device.buffer("x", &x)),
        P(inclusive),
        P(largest),
        P(kept),
        P(places),
        F(0.25),
    ];
    device.honest("group_scan", [2, 1, 1], [64, 1, 1], &args, |_| {});
    let (sums, tops): (Vec<f32>, Vec<f32>) =
        (device.read(inclusive, n), device.read(largest, n / 16));
    for i in 0..n {
        let want: f32 = x[i / 16 * 16..=i].iter().sum();
        assert!((sums[i] - want).abs() < 1e-5, "element {i}");
    }
    for (tile, top) in tops.iter().enumerate() {
        assert_eq!(
            *top,
            x[16 * tile..16 * tile + 16]
                .iter()
                .copied()
                .fold(f32::MIN, f32::max)
        );
    }
    let places: Vec<i32> = device.read(places, n);
    let mut taken: Vec<i32> = (0..n).filter(|i| x[*i] > 0.25).map(|i| places[i]).collect();
    taken.sort_unstable();
    assert_eq!(
        taken,
        (0..device.read::<i32>(kept, 1)[0]).collect::<Vec<_>>()
    );
    assert!((0..n).all(|i| x[i] > 0.25 || places[i] == -1));
}

#[test]
fn partitions_by_label() {
    let mut noise = Noise(72);
    let labels: Vec<i32> = (0..64).map(|_| noise.next() as i32 & 3).collect();
    let x: Vec<i32> = (0..64).collect();
    let mut device = Device::new(super::ptx("groups"));
    let (sums, sizes) = (device.fresh("sums", 256), device.fresh("sizes", 256));
    let args = [
        P(device.buffer("labels", &labels)),
        P(device.buffer("x", &x)),
        P(sums),
        P(sizes),
    ];
    device.honest("labelled", [1, 1, 1], [64, 1, 1], &args, |_| {});
    let (sums, sizes): (Vec<i32>, Vec<i32>) = (device.read(sums, 64), device.read(sizes, 64));
    for i in 0..64 {
        let same = (i / 32 * 32..i / 32 * 32 + 32).filter(|j| labels[*j] == labels[i]);
        assert_eq!(sizes[i] as usize, same.clone().count(), "thread {i}");
        assert_eq!(sums[i], same.map(|j| x[j]).sum::<i32>(), "thread {i}");
    }
}

#[test]
fn a_grid_that_synchronises() {
    for schedule in [Schedule::Serial, Schedule::Seeded(5)] {
        let (n, steps) = (200, 5);
        let x = Noise(73).units(n);
        let mut device = Device::new(super::ptx("grid_sync"));
        let (a, b) = (device.buffer("a", &x), device.fresh("b", n * 4));
        let args = [P(a), P(b), I(n as i32), I(steps)];
        device.honest("relax", [4, 1, 1], [32, 1, 1], &args, |config| {
            config.cooperative = true;
            config.schedule = schedule;
        });
        let mut want = wide(&x);
        for _ in 0..steps {
            let at = |i: usize| want.get(i).copied().unwrap_or(0.0);
            want = (0..n)
                .map(|i| 0.5 * at(i) + 0.25 * (if i > 0 { at(i - 1) } else { 0.0 } + at(i + 1)))
                .collect();
        }
        assert_close("b", &wide(&device.read(b, n)), &want, 1e-6);
    }
}

#[test]
fn cub_reduces_scans_and_sorts() {
    let n = 600;
    let x = Noise(74).units(n);
    let mut device = Device::new(super::ptx("cub_block"));
    let (total, largest) = (device.fresh("total", 8), device.fresh("largest", 8));
    let args = [P(device.buffer("x", &x)), P(total), P(largest), I(n as i32)];
    device.honest("cub_reduce", [2, 1, 1], [64, 1, 1], &args, |_| {});
    let sums: Vec<f32> = device.read(total, 2);
    assert!((sums[0] + sums[1] - x.iter().sum::<f32>()).abs() < 1e-3);
    let tops: Vec<f32> = device.read(largest, 2);
    assert_eq!(
        tops[0].max(tops[1]),
        x.iter().copied().fold(f32::MIN, f32::max)
    );

    let items: Vec<i32> = (0..512).map(|i| i * 7 % 23 - 5).collect();
    let (out, sums) = (device.fresh("out", 2048), device.fresh("sums", 8));
    let args = [P(device.buffer("in", &items)), P(out), P(sums)];
    device.honest("cub_scan", [2, 1, 1], [64, 1, 1], &args, |_| {});
    let (got, sums): (Vec<i32>, Vec<i32>) = (device.read(out, 512), device.read(sums, 2));
    for (block, total) in sums.iter().enumerate() {
        let mut sum = 0;
        for i in 256 * block..256 * (block + 1) {
            assert_eq!(got[i], sum, "element {i}");
            sum += items[i];
        }
        assert_eq!(*total, sum);
    }

    let mut noise = Noise(75);
    let keys: Vec<u32> = (0..512)
        .map(|i| if i % 9 == 0 { 5 } else { noise.next() as u32 })
        .collect();
    let values: Vec<i32> = (0..512).collect();
    let (pk, pv) = (
        device.buffer("keys", &keys),
        device.buffer("values", &values),
    );
    device.honest("cub_sort", [2, 1, 1], [64, 1, 1], &[P(pk), P(pv)], |_| {});
    let (sorted, order): (Vec<u32>, Vec<i32>) = (device.read(pk, 512), device.read(pv, 512));
    for block in 0..2 {
        let mut want: Vec<(u32, i32)> = (256 * block..256 * (block + 1))
            .map(|i| (keys[i], values[i]))
            .collect();
        want.sort_by_key(|(key, _)| *key);
        for (i, (key, value)) in want.into_iter().enumerate() {
            assert_eq!(
                (sorted[256 * block + i], order[256 * block + i]),
                (key, value)
            );
        }
    }
}

#[test]
fn cub_within_warps() {
    let x: Vec<f64> = (0..128).map(|i| f64::from(i) * 0.25).collect();
    let flags: Vec<i32> = (0..128).map(|i| i * 5 % 3 % 2).collect();
    let mut device = Device::new(super::ptx("cub_block"));
    let (sums, ranks) = (device.fresh("sums", 32), device.fresh("ranks", 512));
    let args = [
        P(device.buffer("x", &x)),
        P(sums),
        P(ranks),
        P(device.buffer("flags", &flags)),
    ];
    device.honest("cub_warp", [2, 1, 1], [64, 1, 1], &args, |_| {});
    let want: Vec<f64> = x.chunks(32).map(|warp| warp.iter().sum()).collect();
    assert_eq!(device.read::<f64>(sums, 4), want);
    let ranks: Vec<i32> = device.read(ranks, 128);
    for i in 0..128 {
        assert_eq!(
            ranks[i],
            flags[i / 32 * 32..i].iter().sum::<i32>(),
            "thread {i}"
        );
    }
}

#[test]
fn phases_of_a_barrier_object() {
    let x: Vec<i32> = (0..128).map(|i| i % 17).collect();
    let mut device = Device::new(super::ptx("barriers"));
    let out = device.fresh("out", 512);
    let args = [P(device.buffer("x", &x)), P(out), I(4)];
    device.honest("phases", [2, 1, 1], [64, 1, 1], &args, |_| {});
    for block in 0..2 {
        let mut values = x[64 * block..64 * (block + 1)].to_vec();
        for round in 0..4 {
            values = (0..64).map(|t| values[(t + 1) % 64] * 3 + round).collect();
        }
        assert_eq!(device.read::<i32>(out + 256 * block as u64, 64), values);
    }
}

#[test]
fn copies_that_arrive_at_barriers() {
    let tiles = 5;
    let x: Vec<f32> = (0..tiles * 256).map(|i| (i % 100) as f32).collect();
    let mut device = Device::new(super::ptx("barriers"));
    let sums = device.fresh("sums", 256);
    let args = [P(device.buffer("x", &x)), P(sums), I(tiles)];
    device.honest("fetched", [1, 1, 1], [64, 1, 1], &args, |_| {});
    let want: Vec<f32> = (0..64)
        .map(|t| {
            let quad = |tile: usize| &x[256 * tile + 4 * (63 - t)..][..4];
            (0..tiles as usize)
                .map(|tile| quad(tile).iter().sum::<f32>())
                .sum()
        })
        .collect();
    assert_eq!(device.read::<f32>(sums, 64), want);

    let batches = 6;
    let x: Vec<i32> = (0..batches * 64).map(|i| i * 3 % 50).collect();
    let out = device.fresh("out", 256);
    let args = [P(device.buffer("x2", &x)), P(out), I(batches)];
    device.honest("staged", [1, 1, 1], [64, 1, 1], &args, |_| {});
    let want: Vec<i32> = (0..64)
        .map(|t| {
            (0..batches)
                .map(|b| x[(64 * b) as usize + (t ^ 1)] * (b + 1))
                .sum()
        })
        .collect();
    assert_eq!(device.read::<i32>(out, 64), want);
}

#[test]
fn warps_that_hand_tiles_over() {
    for schedule in [Schedule::Serial, Schedule::Seeded(7)] {
        let tiles = 7usize;
        let x: Vec<i32> = (0..tiles as i32 * 128).map(|i| i * 7 % 1000).collect();
        let mut device = Device::new(super::ptx("barriers"));
        let (px, out) = (device.buffer("x", &x), device.fresh("out", 256));
        let args = [P(px), P(out), I(tiles as i32)];
        device.honest(
            "producer_consumer",
            [1, 1, 1],
            [96, 1, 1],
            &args,
            |config| config.schedule = schedule,
        );
        let want: Vec<i32> = (0..64)
            .map(|t| {
                (0..tiles)
                    .map(|tile| x[128 * tile + t] - x[128 * tile + 127 - t])
                    .sum()
            })
            .collect();
        assert_eq!(device.read::<i32>(out, 64), want);
        let named = device.fresh("named", 128);
        let args = [P(px), P(named), I(6)];
        device.honest("named", [1, 1, 1], [64, 1, 1], &args, |config| {
            config.schedule = schedule;
        });
        let want: Vec<i32> = (0..32)
            .map(|lane| (0..6).map(|t| x[32 * t + 31 - lane]).sum())
            .collect();
        assert_eq!(device.read::<i32>(named, 32), want);
    }
}
