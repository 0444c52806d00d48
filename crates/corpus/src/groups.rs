//! Cooperating threads: cooperative groups, CUB, barrier objects, and barriers of the whole grid.

use crate::noise::Noise;
use crate::numbers::wide;
use crate::session::Arg::{F32 as F, I32 as I, Pointer as P};
use crate::session::Session;
use crate::{Failure, ensure, ensure_eq};

pub(crate) fn sums_of_tiles_warps_and_blocks(device: &Session<'_>) -> Result<(), Failure> {
    let n = 230;
    let x: Vec<i32> = (0..n).map(|i| i * i % 91 - 30).collect();
    let (of_tile, of_block) = (
        device.fresh("of_tile", 32 * 4)?,
        device.fresh("of_block", 8)?,
    );
    let args = [P(device.buffer("x", &x)?), P(of_tile), P(of_block), I(n)];
    device.launch("group_sums", [2, 1, 1], [128, 1, 1], &args)?;
    let sum = |from: usize, to: usize| x[from.min(x.len())..to.min(x.len())].iter().sum::<i32>();
    let want: Vec<i32> = (0..32).map(|t| sum(8 * t, 8 * t + 8)).collect();
    ensure_eq!(device.read::<i32>(of_tile, 32)?, want);
    ensure_eq!(
        device.read::<i32>(of_block, 2)?,
        [sum(0, 128), sum(128, 256)]
    );
    Ok(())
}

pub(crate) fn scans_of_tiles_and_coalesced_lanes(device: &Session<'_>) -> Result<(), Failure> {
    let n = 128;
    let x = Noise(71).units(n);
    let (inclusive, largest) = (
        device.fresh("inclusive", n * 4)?,
        device.fresh("largest", n / 4)?,
    );
    let (kept, places) = (
        device.buffer("kept", &[0i32])?,
        device.fresh("places", n * 4)?,
    );
    let args = [
        P(device.buffer("x", &x)?),
        P(inclusive),
        P(largest),
        P(kept),
        P(places),
        F(0.25),
    ];
    device.launch("group_scan", [2, 1, 1], [64, 1, 1], &args)?;
    let (sums, tops): (Vec<f32>, Vec<f32>) =
        (device.read(inclusive, n)?, device.read(largest, n / 16)?);
    for i in 0..n {
        let want: f32 = x[i / 16 * 16..=i].iter().sum();
        ensure!((sums[i] - want).abs() < 1e-5, "element {i}");
    }
    for (tile, top) in tops.iter().enumerate() {
        ensure_eq!(
            *top,
            x[16 * tile..16 * tile + 16]
                .iter()
                .copied()
                .fold(f32::MIN, f32::max)
        );
    }
    let places: Vec<i32> = device.read(places, n)?;
    let mut taken: Vec<i32> = (0..n).filter(|i| x[*i] > 0.25).map(|i| places[i]).collect();
    taken.sort_unstable();
    ensure_eq!(
        taken,
        (0..device.read::<i32>(kept, 1)?[0]).collect::<Vec<_>>()
    );
    ensure!((0..n).all(|i| x[i] > 0.25 || places[i] == -1));
    Ok(())
}

pub(crate) fn partitions_by_label(device: &Session<'_>) -> Result<(), Failure> {
    let mut noise = Noise(72);
    let labels: Vec<i32> = (0..64).map(|_| noise.next() as i32 & 3).collect();
    let x: Vec<i32> = (0..64).collect();
    let (sums, sizes) = (device.fresh("sums", 256)?, device.fresh("sizes", 256)?);
    let args = [
        P(device.buffer("labels", &labels)?),
        P(device.buffer("x", &x)?),
        P(sums),
        P(sizes),
    ];
    device.launch("labelled", [1, 1, 1], [64, 1, 1], &args)?;
    let (sums, sizes): (Vec<i32>, Vec<i32>) = (device.read(sums, 64)?, device.read(sizes, 64)?);
    for i in 0..64 {
        let same = (i / 32 * 32..i / 32 * 32 + 32).filter(|j| labels[*j] == labels[i]);
        ensure_eq!(sizes[i] as usize, same.clone().count(), "thread {i}");
        ensure_eq!(sums[i], same.map(|j| x[j]).sum::<i32>(), "thread {i}");
    }
    Ok(())
}

pub(crate) fn a_grid_that_synchronises(device: &Session<'_>) -> Result<(), Failure> {
    let (n, steps) = (200, 5);
    let x = Noise(73).units(n);
    let (a, b) = (device.buffer("a", &x)?, device.fresh("b", n * 4)?);
    let args = [P(a), P(b), I(n as i32), I(steps)];
    device.launch_with("relax", [4, 1, 1], [32, 1, 1], &args, |launch| {
        launch.cooperative = true;
    })?;
    let mut want = wide(&x);
    for _ in 0..steps {
        let at = |i: usize| want.get(i).copied().unwrap_or(0.0);
        want = (0..n)
            .map(|i| 0.5 * at(i) + 0.25 * (if i > 0 { at(i - 1) } else { 0.0 } + at(i + 1)))
            .collect();
    }
    device.close("b", &wide(&device.read(b, n)?), &want, 1e-6)?;
    Ok(())
}

pub(crate) fn cub_reduces_scans_and_sorts(device: &Session<'_>) -> Result<(), Failure> {
    let n = 600;
    let x = Noise(74).units(n);
    let (total, largest) = (device.fresh("total", 8)?, device.fresh("largest", 8)?);
    let args = [
        P(device.buffer("x", &x)?),
        P(total),
        P(largest),
        I(n as i32),
    ];
    device.launch("cub_reduce", [2, 1, 1], [64, 1, 1], &args)?;
    let sums: Vec<f32> = device.read(total, 2)?;
    ensure!((sums[0] + sums[1] - x.iter().sum::<f32>()).abs() < 1e-3);
    let tops: Vec<f32> = device.read(largest, 2)?;
    ensure_eq!(
        tops[0].max(tops[1]),
        x.iter().copied().fold(f32::MIN, f32::max)
    );

    let items: Vec<i32> = (0..512).map(|i| i * 7 % 23 - 5).collect();
    let (out, sums) = (device.fresh("out", 2048)?, device.fresh("sums", 8)?);
    let args = [P(device.buffer("in", &items)?), P(out), P(sums)];
    device.launch("cub_scan", [2, 1, 1], [64, 1, 1], &args)?;
    let (got, sums): (Vec<i32>, Vec<i32>) = (device.read(out, 512)?, device.read(sums, 2)?);
    for (block, total) in sums.iter().enumerate() {
        let mut sum = 0;
        for i in 256 * block..256 * (block + 1) {
            ensure_eq!(got[i], sum, "element {i}");
            sum += items[i];
        }
        ensure_eq!(*total, sum);
    }

    let mut noise = Noise(75);
    let keys: Vec<u32> = (0..512)
        .map(|i| if i % 9 == 0 { 5 } else { noise.next() as u32 })
        .collect();
    let values: Vec<i32> = (0..512).collect();
    let (pk, pv) = (
        device.buffer("keys", &keys)?,
        device.buffer("values", &values)?,
    );
    device.launch("cub_sort", [2, 1, 1], [64, 1, 1], &[P(pk), P(pv)])?;
    let (sorted, order): (Vec<u32>, Vec<i32>) = (device.read(pk, 512)?, device.read(pv, 512)?);
    for block in 0..2 {
        let mut want: Vec<(u32, i32)> = (256 * block..256 * (block + 1))
            .map(|i| (keys[i], values[i]))
            .collect();
        want.sort_by_key(|(key, _)| *key);
        for (i, (key, value)) in want.into_iter().enumerate() {
            ensure_eq!(
                (sorted[256 * block + i], order[256 * block + i]),
                (key, value)
            );
        }
    }
    Ok(())
}

pub(crate) fn cub_within_warps(device: &Session<'_>) -> Result<(), Failure> {
    let x: Vec<f64> = (0..128).map(|i| f64::from(i) * 0.25).collect();
    let flags: Vec<i32> = (0..128).map(|i| i * 5 % 3 % 2).collect();
    let (sums, ranks) = (device.fresh("sums", 32)?, device.fresh("ranks", 512)?);
    let args = [
        P(device.buffer("x", &x)?),
        P(sums),
        P(ranks),
        P(device.buffer("flags", &flags)?),
    ];
    device.launch("cub_warp", [2, 1, 1], [64, 1, 1], &args)?;
    let want: Vec<f64> = x.chunks(32).map(|warp| warp.iter().sum()).collect();
    ensure_eq!(device.read::<f64>(sums, 4)?, want);
    let ranks: Vec<i32> = device.read(ranks, 128)?;
    for i in 0..128 {
        ensure_eq!(
            ranks[i],
            flags[i / 32 * 32..i].iter().sum::<i32>(),
            "thread {i}"
        );
    }
    Ok(())
}

pub(crate) fn phases_of_a_barrier_object(device: &Session<'_>) -> Result<(), Failure> {
    let x: Vec<i32> = (0..128).map(|i| i % 17).collect();
    let out = device.fresh("out", 512)?;
    let args = [P(device.buffer("x", &x)?), P(out), I(4)];
    device.launch("phases", [2, 1, 1], [64, 1, 1], &args)?;
    for block in 0..2 {
        let mut values = x[64 * block..64 * (block + 1)].to_vec();
        for round in 0..4 {
            values = (0..64).map(|t| values[(t + 1) % 64] * 3 + round).collect();
        }
        ensure_eq!(device.read::<i32>(out + 256 * block as u64, 64)?, values);
    }
    Ok(())
}

pub(crate) fn copies_that_arrive_at_barriers(device: &Session<'_>) -> Result<(), Failure> {
    let tiles = 5;
    let x: Vec<f32> = (0..tiles * 256).map(|i| (i % 100) as f32).collect();
    let sums = device.fresh("sums", 256)?;
    let args = [P(device.buffer("x", &x)?), P(sums), I(tiles)];
    device.launch("fetched", [1, 1, 1], [64, 1, 1], &args)?;
    let want: Vec<f32> = (0..64)
        .map(|t| {
            let quad = |tile: usize| &x[256 * tile + 4 * (63 - t)..][..4];
            (0..tiles as usize)
                .map(|tile| quad(tile).iter().sum::<f32>())
                .sum()
        })
        .collect();
    ensure_eq!(device.read::<f32>(sums, 64)?, want);

    let batches = 6;
    let x: Vec<i32> = (0..batches * 64).map(|i| i * 3 % 50).collect();
    let out = device.fresh("out", 256)?;
    let args = [P(device.buffer("x2", &x)?), P(out), I(batches)];
    device.launch("staged", [1, 1, 1], [64, 1, 1], &args)?;
    let want: Vec<i32> = (0..64)
        .map(|t| {
            (0..batches)
                .map(|b| x[(64 * b) as usize + (t ^ 1)] * (b + 1))
                .sum()
        })
        .collect();
    ensure_eq!(device.read::<i32>(out, 64)?, want);
    Ok(())
}

pub(crate) fn warps_that_hand_tiles_over(device: &Session<'_>) -> Result<(), Failure> {
    let tiles = 7usize;
    let x: Vec<i32> = (0..tiles as i32 * 128).map(|i| i * 7 % 1000).collect();
    let (px, out) = (device.buffer("x", &x)?, device.fresh("out", 256)?);
    let args = [P(px), P(out), I(tiles as i32)];
    device.launch("producer_consumer", [1, 1, 1], [96, 1, 1], &args)?;
    let want: Vec<i32> = (0..64)
        .map(|t| {
            (0..tiles)
                .map(|tile| x[128 * tile + t] - x[128 * tile + 127 - t])
                .sum()
        })
        .collect();
    ensure_eq!(device.read::<i32>(out, 64)?, want);
    let named = device.fresh("named", 128)?;
    let args = [P(px), P(named), I(6)];
    device.launch("named", [1, 1, 1], [64, 1, 1], &args)?;
    let want: Vec<i32> = (0..32)
        .map(|lane| (0..6).map(|t| x[32 * t + 31 - lane]).sum())
        .collect();
    ensure_eq!(device.read::<i32>(named, 32)?, want);
    Ok(())
}

/// All kernels compute the same sums, with different means to order the writes and reads of a tile.
pub(crate) fn tiles_handed_over_by_every_means(device: &Session<'_>) -> Result<(), Failure> {
    let (threads, tiles) = (256usize, 5usize);
    let x: Vec<i32> = (0..(threads * tiles) as i32)
        .map(|i| i * 11 % 701)
        .collect();
    let px = device.buffer("x", &x)?;
    let want: Vec<i32> = (0..threads)
        .map(|t| {
            (0..tiles)
                .map(|s| {
                    let tile = &x[s * threads..][..threads];
                    tile[(t * 37 + s) % threads] - 2 * tile[threads - 1 - t]
                })
                .sum()
        })
        .collect();
    for (kernel, launched) in [
        ("all_meet_at_two_barriers", threads),
        ("all_meet_at_one_object", threads),
        ("one_lane_arrives_for_its_warp", threads),
        ("all_share_a_pipeline", threads),
        ("two_warps_fetch_for_eight", threads + 64),
        ("warps_meet_from_two_places", threads),
    ] {
        let out = device.fresh(kernel, threads * 4)?;
        let args = [P(px), P(out), I(tiles as i32)];
        device.launch(kernel, [1, 1, 1], [launched as u32, 1, 1], &args)?;
        ensure_eq!(device.read::<i32>(out, threads)?, want, "{kernel}");
    }
    Ok(())
}

pub(crate) fn cub_sorts_by_merging(device: &Session<'_>) -> Result<(), Failure> {
    let (n, some) = (192usize, 131usize);
    let mut noise = Noise(76);
    let keys: Vec<i32> = (0..some).map(|_| noise.next() as i32).collect();
    let sorted = device.fresh("sorted", some * 4)?;
    let args = [P(device.buffer("keys", &keys)?), P(sorted), I(some as i32)];
    device.launch("merge_sort_some", [1, 1, 1], [64, 1, 1], &args)?;
    let mut want = keys;
    want.sort_unstable();
    ensure_eq!(device.read::<i32>(sorted, some)?, want);

    // Two keys per word and four positions per word, because the buffers of this crate hold words.
    let short: Vec<u16> = (0..n).map(|_| noise.next() as u16 & 0x3f).collect();
    let words: Vec<u32> = short
        .chunks(2)
        .map(|pair| u32::from(pair[0]) | u32::from(pair[1]) << 16)
        .collect();
    let (sorted, places) = (device.fresh("short", n * 2)?, device.fresh("places", n)?);
    let args = [P(device.buffer("words", &words)?), P(sorted), P(places)];
    device.launch("merge_sort_pairs", [1, 1, 1], [64, 1, 1], &args)?;
    let mut want: Vec<(u16, u8)> = (0..n).map(|i| (short[i], i as u8)).collect();
    want.sort_by_key(|(key, _)| *key);
    let got: Vec<u32> = device.read(sorted, n / 2)?;
    let order: Vec<u32> = device.read(places, n / 4)?;
    for (i, (key, place)) in want.into_iter().enumerate() {
        ensure_eq!((got[i / 2] >> (16 * (i % 2))) as u16, key, "element {i}");
        ensure_eq!((order[i / 4] >> (8 * (i % 4))) as u8, place, "element {i}");
    }

    let x = Noise(77).units(n);
    let sorted = device.fresh("floats", n * 4)?;
    let px = device.buffer("x", &x)?;
    device.launch(
        "merge_sort_in_warps",
        [1, 1, 1],
        [64, 1, 1],
        &[P(px), P(sorted)],
    )?;
    let mut want = x.clone();
    for warp in want.chunks_mut(n / 2) {
        warp.sort_by(f32::total_cmp);
    }
    ensure_eq!(device.read::<f32>(sorted, n)?, want);

    let (row, value) = (device.fresh("row", 4)?, device.fresh("value", 4)?);
    let args = [P(px), P(row), P(value), I(50)];
    device.launch("best_of_block", [1, 1, 1], [64, 1, 1], &args)?;
    let top = x[..50].iter().copied().fold(f32::MIN, f32::max);
    ensure_eq!(device.read::<f32>(value, 1)?, [top]);
    ensure_eq!(
        Some(device.read::<i32>(row, 1)?[0] as usize),
        x.iter().position(|value| *value == top)
    );
    Ok(())
}
