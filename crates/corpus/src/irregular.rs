//! Irregular access, calls, atomics, bit work and numerical algorithms.

use std::collections::{HashMap, VecDeque};

use crate::noise::Noise;
use crate::numbers::{brain_value, halves, single, wide};
use crate::session::Arg::{F32 as F, I32 as I, Pointer as P};
use crate::session::Session;
use crate::{Failure, ensure, ensure_eq};

pub(crate) fn rows_from_a_persistent_queue(device: &Session<'_>) -> Result<(), Failure> {
    let rows = 37;
    let starts: Vec<i32> = (0..=rows).map(|row| row * (row + 1) / 2).collect();
    let x = Noise(81).units(starts[rows as usize] as usize);
    let sums = device.fresh("sums", rows as usize * 4)?;
    let args = [
        P(device.buffer("starts", &starts)?),
        P(device.buffer("x", &x)?),
        P(sums),
        I(rows),
    ];
    device.launch("persistent_rows", [3, 1, 1], [64, 1, 1], &args)?;
    let want: Vec<f64> = starts
        .windows(2)
        .map(|ends| {
            x[ends[0] as usize..ends[1] as usize]
                .iter()
                .map(|v| f64::from(*v))
                .sum()
        })
        .collect();
    device.close(
        "sums",
        &wide(&device.read(sums, rows as usize)?),
        &want,
        1e-5,
    )?;
    Ok(())
}

pub(crate) fn breadth_first_search(device: &Session<'_>) -> Result<(), Failure> {
    let nodes = 120;
    let mut noise = Noise(82);
    let mut edges = Vec::new();
    let mut starts = vec![0i32];
    for _ in 0..nodes {
        edges.extend((0..noise.next() % 5).map(|_| (noise.next() % nodes as u64) as i32));
        starts.push(edges.len() as i32);
    }
    edges.push(0);
    let mut want = vec![-1; nodes];
    want[0] = 0;
    let mut queue = VecDeque::from([0usize]);
    while let Some(node) = queue.pop_front() {
        for e in starts[node]..starts[node + 1] {
            let next = edges[e as usize] as usize;
            if want[next] < 0 {
                want[next] = want[node] + 1;
                queue.push_back(next);
            }
        }
    }
    let mut start = vec![-1i32; nodes];
    start[0] = 0;
    let (ps, pe) = (
        device.buffer("starts", &starts)?,
        device.buffer("edges", &edges)?,
    );
    let distance = device.buffer("distance", &start)?;
    let mut frontier = device.buffer("frontier", &vec![0i32; nodes])?;
    let mut next = device.buffer("next", &vec![0i32; nodes])?;
    let size = device.buffer("size", &[0i32])?;
    let (mut count, mut level) = (1, 1);
    while count > 0 {
        device.write(size, &[0; 4])?;
        let args = [
            P(ps),
            P(pe),
            P(distance),
            P(frontier),
            I(count),
            P(next),
            P(size),
            I(level),
        ];
        device.launch("bfs_level", [2, 1, 1], [64, 1, 1], &args)?;
        count = device.read::<i32>(size, 1)?[0];
        std::mem::swap(&mut frontier, &mut next);
        level += 1;
    }
    ensure_eq!(device.read::<i32>(distance, nodes)?, want);
    Ok(())
}

pub(crate) fn a_hash_table_of_counts_and_a_locked_list(
    device: &Session<'_>,
) -> Result<(), Failure> {
    let mut noise = Noise(83);
    let keys: Vec<u32> = (0..300).map(|_| 1 + (noise.next() % 60) as u32).collect();
    let table = device.buffer("table", &[0u64; 128])?;
    let args = [P(device.buffer("keys", &keys)?), P(table), I(128), I(300)];
    device.launch("count_keys", [5, 1, 1], [64, 1, 1], &args)?;
    let mut want: HashMap<u32, u32> = HashMap::new();
    for key in &keys {
        *want.entry(*key).or_default() += 1;
    }
    let got: HashMap<u32, u32> = device
        .read::<u64>(table, 128)?
        .into_iter()
        .filter(|slot| *slot != 0)
        .map(|slot| ((slot >> 32) as u32, slot as u32))
        .collect();
    ensure_eq!(got, want);
    let x: Vec<i32> = (100..164).collect();
    let (lock, list, length) = (
        device.buffer("lock", &[0i32])?,
        device.buffer("list", &[0i32; 64])?,
        device.buffer("length", &[0i32])?,
    );
    let args = [P(lock), P(list), P(length), P(device.buffer("x", &x)?)];
    device.launch("locked_append", [2, 1, 1], [32, 1, 1], &args)?;
    let mut got: Vec<i32> = device.read(list, 64)?;
    got.sort_unstable();
    ensure_eq!((got, device.read::<i32>(length, 1)?[0]), (x, 64));
    Ok(())
}

pub(crate) fn sparse_products_and_segments(device: &Session<'_>) -> Result<(), Failure> {
    let rows = 20;
    let mut noise = Noise(84);
    let (mut starts, mut columns, mut values) = (vec![0i32], Vec::new(), Vec::new());
    for row in 0..rows {
        for _ in 0..row * 3 {
            columns.push((noise.next() % 50) as i32);
            values.push(noise.unit());
        }
        starts.push(columns.len() as i32);
    }
    let x = noise.units(50);
    let y = device.fresh("y", rows * 4)?;
    let args = [
        P(device.buffer("starts", &starts)?),
        P(device.buffer("columns", &columns)?),
        P(device.buffer("values", &values)?),
        P(device.buffer("x", &x)?),
        P(y),
        I(rows as i32),
    ];
    device.launch("spmv", [11, 1, 1], [64, 1, 1], &args)?;
    let want: Vec<f64> = (0..rows)
        .map(|row| {
            (starts[row] as usize..starts[row + 1] as usize)
                .map(|i| f64::from(values[i]) * f64::from(x[columns[i] as usize]))
                .sum()
        })
        .collect();
    device.close("y", &wide(&device.read(y, rows)?), &want, 1e-5)?;

    let n = 180;
    let segments: Vec<i32> = (0..n).map(|i| i * i / 900).collect();
    let x: Vec<f64> = (0..n).map(|i| f64::from(i % 13)).collect();
    let sums = device.buffer("sums", &[0f64; 40])?;
    let args = [
        P(device.buffer("segments", &segments)?),
        P(device.buffer("terms", &x)?),
        P(sums),
        I(n),
    ];
    device.launch("segmented_sum", [3, 1, 1], [64, 1, 1], &args)?;
    let mut want = [0f64; 40];
    for (segment, value) in segments.iter().zip(&x) {
        want[*segment as usize] += value;
    }
    ensure_eq!(device.read::<f64>(sums, 40)?, want);
    Ok(())
}

pub(crate) fn embeddings_and_a_transpose(device: &Session<'_>) -> Result<(), Failure> {
    let (vocabulary, width) = (11, 48);
    let mut noise = Noise(85);
    let table = halves(&noise.units(vocabulary * width));
    let tokens = [3, 0, 10, 3, 7];
    let out = device.fresh("out", tokens.len() * width * 2)?;
    let pt = device.buffer("tokens", &tokens)?;
    let args = [
        P(pt),
        P(device.buffer("table", &table)?),
        P(out),
        I(width as i32),
    ];
    device.launch("embed", [5, 1, 1], [32, 1, 1], &args)?;
    let got: Vec<u16> = device.read(out, tokens.len() * width)?;
    for (i, token) in tokens.iter().enumerate() {
        ensure_eq!(
            got[i * width..(i + 1) * width],
            table[*token as usize * width..][..width]
        );
    }
    // Multiples of 1/8, so that the order of additions does not change the sum.
    let gradient: Vec<u16> = (0..tokens.len() * width)
        .map(|i| halves(&[(i % 16) as f32 / 8.0])[0])
        .collect();
    let into = device.buffer("gradients", &vec![0u16; vocabulary * width])?;
    let args = [
        P(pt),
        P(device.buffer("gradient", &gradient)?),
        P(into),
        I(width as i32 / 2),
    ];
    device.launch("embed_gradient", [5, 1, 1], [32, 1, 1], &args)?;
    let got: Vec<u16> = device.read(into, vocabulary * width)?;
    for i in 0..vocabulary * width {
        let want: f32 = (0..tokens.len())
            .filter(|t| tokens[*t] as usize == i / width)
            .map(|t| single(gradient[t * width + i % width]))
            .sum();
        let value = if got[i] == 0 { 0.0 } else { single(got[i]) };
        ensure_eq!(value, want, "element {i}");
    }
    let (columns, rows) = (45, 70);
    let x = noise.units(columns * rows);
    let out = device.fresh("turned", x.len() * 4)?;
    let args = [
        P(device.buffer("in", &x)?),
        P(out),
        I(columns as i32),
        I(rows as i32),
    ];
    device.launch("transpose", [2, 3, 1], [32, 8, 1], &args)?;
    let got: Vec<f32> = device.read(out, x.len())?;
    ensure!((0..x.len()).all(|i| got[i] == x[i % rows * columns + i / rows]));
    Ok(())
}

pub(crate) fn calls_through_pointers_and_of_oneself(device: &Session<'_>) -> Result<(), Failure> {
    let n = 70;
    let x = Noise(86).units(n);
    let which: Vec<i32> = (0..n as i32).map(|i| i * i % 3).collect();
    let out = device.fresh("out", n * 4)?;
    let args = [
        P(device.buffer("x", &x)?),
        P(device.buffer("which", &which)?),
        P(out),
        I(n as i32),
    ];
    device.launch("through_pointers", [2, 1, 1], [64, 1, 1], &args)?;
    let got: Vec<f32> = device.read(out, n)?;
    for i in 0..n {
        let (a, b) = (x[i], x[(i + 1) % n]);
        let want = [a + b, a * b, a.max(b)][which[i] as usize];
        ensure_eq!(got[i], want, "element {i}");
    }
    fn ackermann(m: u32, n: u32) -> u32 {
        match (m, n) {
            (0, n) => n + 1,
            (m, 0) => ackermann(m - 1, 1),
            (m, n) => ackermann(m - 1, ackermann(m, n - 1)),
        }
    }
    let out = device.fresh("values", 40 * 4)?;
    device.launch("recursive", [1, 1, 1], [40, 1, 1], &[P(out)])?;
    let want: Vec<u32> = (0..40).map(|t| ackermann(t % 3, t / 3)).collect();
    ensure_eq!(device.read::<u32>(out, 40)?, want);
    let x: Vec<f64> = (0..160).map(f64::from).collect();
    let (out, tags) = (
        device.fresh("doubled", 160 * 8)?,
        device.fresh("tags", 128)?,
    );
    let args = [P(device.buffer("parts", &x)?), P(out), P(tags)];
    device.launch("structures", [1, 1, 1], [32, 1, 1], &args)?;
    let (got, tags): (Vec<f64>, Vec<i32>) = (device.read(out, 160)?, device.read(tags, 32)?);
    for t in 0..32i32 {
        let times = 1 + t % 4;
        ensure_eq!(tags[t as usize], t + times * (times + 1) / 2);
        for i in 0..5 {
            let at = (t * 5 + i) as usize;
            ensure_eq!(got[at], x[at] * f64::from(1 << times));
        }
    }
    Ok(())
}

pub(crate) fn a_sort_with_a_stack_and_text(device: &Session<'_>) -> Result<(), Failure> {
    let (threads, each) = (64, 30);
    let mut noise = Noise(87);
    let x: Vec<i32> = (0..threads * each)
        .map(|_| noise.next() as i32 % 100)
        .collect();
    let px = device.buffer("x", &x)?;
    device.launch("quicksort", [2, 1, 1], [32, 1, 1], &[P(px), I(each as i32)])?;
    let got: Vec<i32> = device.read(px, x.len())?;
    for t in 0..threads {
        let mut want = x[t * each..(t + 1) * each].to_vec();
        want.sort_unstable();
        ensure_eq!(got[t * each..(t + 1) * each], want, "thread {t}");
    }
    Ok(())
}

pub(crate) fn hashes_and_wide_integers(device: &Session<'_>) -> Result<(), Failure> {
    // One block of the padded message "abc", whose digest is published, and another of zeros.
    let mut message = vec![0u8; 128];
    message[..4].copy_from_slice(b"abc\x80");
    message[63] = 24;
    let digest = device.fresh("digest", 64)?;
    let args = [P(device.buffer("message", &message)?), P(digest)];
    device.launch("sha256_blocks", [1, 1, 1], [2, 1, 1], &args)?;
    let words: Vec<u32> = device.read(digest, 8)?;
    ensure_eq!(
        words,
        [
            0xba78_16bf,
            0x8f01_cfea,
            0x4141_40de,
            0x5dae_2223,
            0xb003_61a3,
            0x9617_7a9c,
            0xb410_ff61,
            0xf200_15ad
        ]
    );
    let mut noise = Noise(88);
    let x: Vec<u64> = (0..32).map(|_| noise.next()).collect();
    let out = device.fresh("out", 32 * 32)?;
    let args = [P(device.buffer("x", &x)?), P(out)];
    device.launch("wide", [1, 1, 1], [32, 1, 1], &args)?;
    let got: Vec<u64> = device.read(out, 128)?;
    for t in 0..32 {
        let value = u128::from(x[t]) * u128::from(x[(t + 1) % 32]) + u128::from(x[(t + 2) % 32]);
        let shifted = value >> (t * 3 % 128);
        let total = value.wrapping_add(shifted).wrapping_sub(u128::from(x[t]));
        let want = [
            total as u64,
            (total >> 64) as u64,
            ((u128::from(x[t]) * u128::from(!x[t])) >> 64) as u64,
            if value > shifted {
                (value >> 64) as u64 % 1_000_003
            } else {
                0
            },
        ];
        ensure_eq!(got[4 * t..4 * t + 4], want, "thread {t}");
    }
    Ok(())
}

pub(crate) fn distances_and_random_numbers(device: &Session<'_>) -> Result<(), Failure> {
    let n = 96;
    let mut noise = Noise(89);
    let codes: Vec<u32> = (0..4 * n).map(|_| noise.next() as u32).collect();
    let query: Vec<u32> = (0..4).map(|_| noise.next() as u32).collect();
    let (distances, nearest) = (
        device.fresh("distances", n * 4)?,
        device.buffer("nearest", &[u32::MAX])?,
    );
    let args = [
        P(device.buffer("codes", &codes)?),
        P(device.buffer("query", &query)?),
        P(distances),
        P(nearest),
    ];
    device.launch("hamming", [3, 1, 1], [32, 1, 1], &args)?;
    let want: Vec<u32> = codes
        .chunks(4)
        .map(|code| {
            code.iter()
                .zip(&query)
                .map(|(a, b)| (a ^ b).count_ones())
                .sum()
        })
        .collect();
    ensure_eq!(device.read::<u32>(distances, n)?, want);
    let best = want
        .iter()
        .enumerate()
        .map(|(i, d)| d << 16 | i as u32)
        .min()
        .expect("there are numbers");
    ensure_eq!(device.read::<u32>(nearest, 1)?[0], best);

    let count = 2000usize;
    let out = device.fresh("numbers", count * 16)?;
    device.launch(
        "philox",
        [32, 1, 1],
        [64, 1, 1],
        &[P(out), I(42), I(count as i32)],
    )?;
    let got = wide(&device.read(out, 4 * count)?);
    let mean = |part: usize| got.iter().skip(part).step_by(4).sum::<f64>() / count as f64;
    let square =
        |part: usize| got.iter().skip(part).step_by(4).map(|v| v * v).sum::<f64>() / count as f64;
    ensure!((mean(0) - 0.5).abs() < 0.03 && (square(1) - 1.0 / 3.0).abs() < 0.03);
    ensure!(mean(2).abs() < 0.08 && (square(3) - 1.0).abs() < 0.1);
    // The first words of counter 0 under this key, computed independently.
    let (mut c, mut key) = ([0u32; 4], [42u32, 0x1234_5678]);
    for _ in 0..10 {
        let (a, b) = (u64::from(c[0]) * 0xD251_1F53, u64::from(c[2]) * 0xCD9E_8D57);
        c = [
            (b >> 32) as u32 ^ c[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ c[3] ^ key[1],
            a as u32,
        ];
        key = [
            key[0].wrapping_add(0x9E37_79B9),
            key[1].wrapping_add(0xBB67_AE85),
        ];
    }
    ensure!((got[0] - f64::from(c[0]) / 2f64.powi(32)).abs() < 1e-6);
    Ok(())
}

pub(crate) fn every_atomic(device: &Session<'_>) -> Result<(), Failure> {
    let x: Vec<i32> = (0..128).map(|i| (i * 7919) % 1000 - 500).collect();
    let i = device.buffer("i", &[0, 0, 0, 0, -1, 0, 0, 0, 0])?;
    let u = device.buffer("u", &[0u32, 0, u32::MAX, 0])?;
    let w = device.buffer("w", &[0u64, i64::MAX as u64, 0])?;
    let f = device.buffer("f", &[0f32, -1e9])?;
    let d = device.buffer("d", &[0f64])?;
    let h = device.buffer("h", &[0u16, 0])?;
    let b = device.buffer("b", &[0u16, 0])?;
    let args = [
        P(i),
        P(u),
        P(w),
        P(f),
        P(d),
        P(h),
        P(b),
        P(device.buffer("x", &x)?),
    ];
    device.launch("all_atomics", [2, 1, 1], [64, 1, 1], &args)?;
    let sum: i32 = x.iter().sum();
    let fold = |start: i32, f: fn(i32, i32) -> i32| x.iter().copied().fold(start, f);
    ensure_eq!(
        device.read::<i32>(i, 9)?,
        [
            sum,
            -sum,
            fold(0, i32::min),
            fold(0, i32::max),
            fold(-1, |a, b| a & b),
            fold(0, |a, b| a | b),
            fold(0, |a, b| a ^ b),
            64,
            256
        ]
    );
    let least = x
        .iter()
        .map(|v| *v as u32)
        .min()
        .expect("there are numbers");
    let most = x
        .iter()
        .map(|v| *v as u32)
        .max()
        .expect("there are numbers");
    // 128 steps around 13 values up, and around 18 values down.
    ensure_eq!(
        device.read::<u32>(u, 4)?,
        [128 % 13, 18 - 128 % 18, least, most]
    );
    let total = x.iter().fold(0u64, |sum, v| sum.wrapping_add(*v as u64));
    let low = x
        .iter()
        .map(|v| i64::from(*v) << 20)
        .min()
        .expect("there are numbers");
    let mixed = x.iter().fold(0u64, |all, v| {
        all ^ 0x1_0000_0001u64.wrapping_mul(*v as u64)
    });
    ensure_eq!(device.read::<u64>(w, 3)?, [total, low as u64, mixed]);
    let parts: f32 = x.iter().map(|v| (v % 64) as f32).sum();
    ensure_eq!(
        device.read::<f32>(f, 2)?,
        [parts, fold(i32::MIN, i32::max) as f32]
    );
    ensure_eq!(device.read::<f64>(d, 1)?, [f64::from(sum) * 0.5]);
    let odd = x.iter().filter(|v| *v & 1 == 1).count() as f32;
    ensure_eq!(single(device.read::<u16>(h, 1)?[0]), odd);
    let twos = x.iter().filter(|v| *v & 2 == 2).count() as f32 * -2.0;
    let pair: Vec<u16> = device.read(b, 2)?;
    ensure_eq!([brain_value(pair[0]), brain_value(pair[1])], [odd, twos]);
    Ok(())
}

pub(crate) fn blocks_in_a_relay(device: &Session<'_>) -> Result<(), Failure> {
    let x: Vec<i32> = (1..=12).collect();
    let (sums, flags) = (
        device.fresh("sums", 48)?,
        device.buffer("flags", &[0i32; 12])?,
    );
    let args = [P(device.buffer("x", &x)?), P(sums), P(flags)];
    device.launch("relay", [12, 1, 1], [32, 1, 1], &args)?;
    let want: Vec<i32> = (1..=12).map(|b| b * (b + 1) / 2).collect();
    ensure_eq!(device.read::<i32>(sums, 12)?, want);
    Ok(())
}

pub(crate) fn bodies_and_transforms(device: &Session<'_>) -> Result<(), Failure> {
    let n = 100;
    let mut noise = Noise(90);
    let bodies: Vec<f32> = (0..4 * n)
        .map(|i| {
            if i % 4 == 3 {
                noise.unit().abs()
            } else {
                noise.unit() * 10.0
            }
        })
        .collect();
    let forces = device.fresh("forces", n * 16)?;
    let args = [
        P(device.buffer("bodies", &bodies)?),
        P(forces),
        I(n as i32),
        F(0.01),
    ];
    device.launch("nbody", [2, 1, 1], [64, 1, 1], &args)?;
    let at = wide(&bodies);
    let mut want = Vec::new();
    for i in 0..n {
        let mut force = [0.0; 4];
        for j in 0..n {
            let delta: Vec<f64> = (0..3).map(|k| at[4 * j + k] - at[4 * i + k]).collect();
            let distance = delta.iter().map(|d| d * d).sum::<f64>() + f64::from(0.01f32);
            for k in 0..3 {
                force[k] += at[4 * j + 3] * delta[k] / distance.powf(1.5);
            }
        }
        want.extend(force);
    }
    device.close("forces", &wide(&device.read(forces, 4 * n)?), &want, 1e-4)?;

    let x = noise.units(256);
    let out = device.fresh("spectrum", 1024)?;
    let args = [P(device.buffer("signal", &x)?), P(out)];
    device.launch("fft64", [2, 1, 1], [32, 1, 1], &args)?;
    let mut want = Vec::new();
    for block in wide(&x).chunks(128) {
        for k in 0..64 {
            let mut sum = [0.0, 0.0];
            for t in 0..64 {
                let angle = -2.0 * std::f64::consts::PI * (k * t) as f64 / 64.0;
                let (re, im) = (block[2 * t], block[2 * t + 1]);
                sum[0] += re * angle.cos() - im * angle.sin();
                sum[1] += re * angle.sin() + im * angle.cos();
            }
            want.extend(sum);
        }
    }
    device.close("spectrum", &wide(&device.read(out, 256)?), &want, 1e-5)?;
    Ok(())
}

pub(crate) fn factorisations(device: &Session<'_>) -> Result<(), Failure> {
    let n = 20;
    let mut noise = Noise(91);
    let mut matrices = Vec::new();
    for _ in 0..2 {
        let root: Vec<f64> = wide(&noise.units(n * n));
        for row in 0..n {
            for column in 0..n {
                let dot: f64 = (0..n)
                    .map(|t| root[row * n + t] * root[column * n + t])
                    .sum();
                matrices.push(dot + if row == column { 1.0 } else { 0.0 });
            }
        }
    }
    let (pm, failed) = (
        device.buffer("matrices", &matrices)?,
        device.buffer("failed", &[0i32])?,
    );
    device.launch(
        "cholesky",
        [2, 1, 1],
        [32, 1, 1],
        &[P(pm), I(n as i32), P(failed)],
    )?;
    ensure_eq!(device.read::<i32>(failed, 1)?, [0]);
    let factors: Vec<f64> = device.read(pm, 2 * n * n)?;
    let mut back = Vec::new();
    for factor in factors.chunks(n * n) {
        for row in 0..n {
            for column in 0..n {
                back.push(
                    (0..n)
                        .map(|t| factor[row * n + t] * factor[column * n + t])
                        .sum(),
                );
            }
        }
    }
    device.close("matrices", &back, &matrices, 1e-12)?;
    Ok(())
}
