//! The first kernels of the corpus: one per group of instructions.

use crate::noise::Noise;
use crate::numbers::{half, single};
use crate::session::Arg::{I32 as I, Pointer as P};
use crate::session::Session;
use crate::{Failure, ensure, ensure_eq};

pub(crate) fn row_sums(device: &Session<'_>) -> Result<(), Failure> {
    let (rows, columns) = (5, 300);
    let x = Noise(1).units(rows * columns);
    let (px, ps) = (device.buffer("x", &x)?, device.fresh("sums", rows * 4)?);
    let args = [P(px), P(ps), I(columns as i32)];
    device.launch("row_sums", [rows as u32, 1, 1], [128, 1, 1], &args)?;
    let sums: Vec<f32> = device.read(ps, rows)?;
    for (row, sum) in sums.iter().enumerate() {
        let want: f64 = x[row * columns..][..columns]
            .iter()
            .map(|v| f64::from(*v))
            .sum();
        ensure!(
            (f64::from(*sum) - want).abs() < 1e-4,
            "row {row}: {sum} instead of {want}"
        );
    }
    Ok(())
}

pub(crate) fn packed_halves(device: &Session<'_>) -> Result<(), Failure> {
    let pairs = 70;
    let mut noise = Noise(2);
    let mut make = |_| {
        (0..2 * pairs)
            .map(|_| half(noise.unit() * 4.0))
            .collect::<Vec<u16>>()
    };
    let (a, b, c) = (make(0), make(1), make(2));
    let (pa, pb, pc) = (
        device.buffer("a", &a)?,
        device.buffer("b", &b)?,
        device.buffer("c", &c)?,
    );
    let pw = device.fresh("wide", pairs * 8)?;
    let args = [P(pa), P(pb), P(pc), P(pw), I(pairs as i32)];
    device.launch("halves", [2, 1, 1], [64, 1, 1], &args)?;
    let (got, wide): (Vec<u16>, Vec<f32>) =
        (device.read(pc, 2 * pairs)?, device.read(pw, 2 * pairs)?);
    for i in 0..2 * pairs {
        // Halves multiply and add exactly in double precision.
        let exact = f64::from(single(a[i])) * f64::from(single(b[i])) + f64::from(single(c[i]));
        let sum = half(exact as f32);
        ensure_eq!(single(got[i]), single(sum).max(-2.0), "element {i}");
        let brain = f32::from_bits(
            (single(sum).to_bits() + 0x7fff + (single(sum).to_bits() >> 16 & 1)) & 0xffff_0000,
        );
        if i % 2 == 0 {
            ensure_eq!(wide[i], brain, "element {i}");
        } else {
            let square = brain * brain;
            let square = f32::from_bits(
                (square.to_bits() + 0x7fff + (square.to_bits() >> 16 & 1)) & 0xffff_0000,
            );
            ensure_eq!(wide[i], square, "element {i}");
        }
    }
    Ok(())
}

pub(crate) fn histogram_with_atomics_and_votes(device: &Session<'_>) -> Result<(), Failure> {
    let mut noise = Noise(3);
    let values: Vec<u8> = (0..5000).map(|_| noise.next() as u8).collect();
    let pv = device.buffer("values", &values)?;
    let (pb, pa) = (
        device.buffer("bins", &[0u32; 256])?,
        device.buffer("above", &[0u32])?,
    );
    let args = [P(pv), P(pb), P(pa), I(5000), I(200)];
    device.launch("histogram", [7, 1, 1], [96, 1, 1], &args)?;
    let bins: Vec<u32> = device.read(pb, 256)?;
    for (value, count) in bins.iter().enumerate() {
        ensure_eq!(
            *count as usize,
            values.iter().filter(|v| **v as usize == value).count(),
            "bin {value}"
        );
    }
    ensure_eq!(
        device.read::<u32>(pa, 1)?[0] as usize,
        values.iter().filter(|v| **v > 200).count()
    );
    Ok(())
}

pub(crate) fn the_mathematics_library(device: &Session<'_>) -> Result<(), Failure> {
    let mut noise = Noise(4);
    let x: Vec<f32> = (0..64).map(|_| noise.unit() * 3.0).collect();
    let y: Vec<f64> = (0..64).map(|_| f64::from(noise.unit()) * 5.0).collect();
    let (px, py) = (device.buffer("x", &x)?, device.buffer("y", &y)?);
    let (ps, pd) = (
        device.fresh("singles", 64 * 20)?,
        device.fresh("doubles", 64 * 32)?,
    );
    let args = [P(px), P(ps), P(py), P(pd), I(8)];
    device.launch("mathematics", [1, 1, 1], [64, 1, 1], &args)?;
    let (singles, doubles): (Vec<f32>, Vec<f64>) =
        (device.read(ps, 5 * 64)?, device.read(pd, 4 * 64)?);
    let weights = [1.0, -2.0, 0.5, 4.0];
    for i in 0..64 {
        let v = f64::from(x[i]);
        let polynomial = (0..8).fold(0.0, |sum, k| {
            sum * (v / f64::from(k + 1)) + weights[k as usize & 3]
        });
        let wants = [
            v.exp(),
            f64::from(x[i] * 1_000_000.0).sin(),
            v.abs().powf(1.5),
            polynomial,
            v.tanh() + 1.0 / (1.0 + v * v).sqrt(),
        ];
        for (k, want) in wants.into_iter().enumerate() {
            let got = f64::from(singles[5 * i + k]);
            ensure!(
                (got - want).abs() <= 4e-6 * want.abs().max(0.1),
                "x {v}, function {k}: {got} instead of {want}"
            );
        }
        let v = y[i];
        let wants = [
            v.exp(),
            (v * 1e9).sin(),
            (v.abs() + 1.0).ln(),
            v / 3.0 + v.abs().sqrt(),
        ];
        for (k, want) in wants.into_iter().enumerate() {
            let got = doubles[4 * i + k];
            ensure!(
                (got - want).abs() <= 1e-14 * want.abs().max(0.1),
                "y {v}, function {k}: {got} instead of {want}"
            );
        }
    }
    Ok(())
}

pub(crate) fn tensor_cores_through_wmma(device: &Session<'_>) -> Result<(), Failure> {
    let k = 48;
    let mut noise = Noise(5);
    let a: Vec<u16> = (0..16 * k).map(|_| half(noise.unit())).collect();
    let b: Vec<u16> = (0..k * 16).map(|_| half(noise.unit())).collect();
    let (pa, pb, pc) = (
        device.buffer("a", &a)?,
        device.buffer("b", &b)?,
        device.fresh("c", 1024)?,
    );
    let args = [P(pa), P(pb), P(pc), I(k as i32)];
    device.launch("wmma_gemm", [1, 1, 1], [32, 1, 1], &args)?;
    let c: Vec<f32> = device.read(pc, 256)?;
    for row in 0..16 {
        for column in 0..16 {
            let want: f64 = (0..k)
                .map(|t| f64::from(single(a[row * k + t])) * f64::from(single(b[t * 16 + column])))
                .sum();
            let got = f64::from(c[row * 16 + column]);
            ensure!(
                (got - want).abs() < 1e-5,
                "[{row}][{column}]: {got} instead of {want}"
            );
        }
    }
    Ok(())
}

pub(crate) fn asynchronous_copies(device: &Session<'_>) -> Result<(), Failure> {
    let tiles = 5;
    let x = Noise(6).units(2 * tiles * 256);
    let (px, ps) = (device.buffer("x", &x)?, device.fresh("sums", 512)?);
    let args = [P(px), P(ps), I(tiles as i32)];
    device.launch("tile_sums", [2, 1, 1], [64, 1, 1], &args)?;
    let sums: Vec<f32> = device.read(ps, 128)?;
    for (thread, sum) in sums.iter().enumerate() {
        let (block, t) = (thread / 64, thread % 64);
        let mut want = 0.0;
        for tile in 0..tiles {
            for i in 0..4 {
                want += x[(block * tiles + tile) * 256 + t + 64 * i];
            }
        }
        ensure_eq!(*sum, want, "thread {thread}");
    }
    Ok(())
}

pub(crate) fn integers_of_all_widths_and_text(device: &Session<'_>) -> Result<(), Failure> {
    let mut noise = Noise(7);
    let x: Vec<i32> = (0..50).map(|_| noise.next() as i32).collect();
    let (px, pw, pn) = (
        device.buffer("x", &x)?,
        device.fresh("wide", 400)?,
        device.fresh("narrow", 200)?,
    );
    let args = [P(px), P(pw), P(pn), I(50)];
    device.launch("integers", [1, 1, 1], [64, 1, 1], &args)?;
    let (wide, narrow): (Vec<i64>, Vec<u32>) = (device.read(pw, 50)?, device.read(pn, 50)?);
    for (i, &value) in x.iter().enumerate() {
        let bytes = value.to_le_bytes();
        let want = match i % 7 {
            0 => i64::from(value).wrapping_mul(1_234_567_891_011),
            1 => i64::from(value / 7 + value % 11),
            2 => (i64::from(value) * 0x1234_5678) >> 32,
            3 => (u64::from(value as u32) / 13) as i64,
            4 => (i64::from(value) << 20) >> 7,
            5 => {
                let signed: Vec<i64> = bytes.iter().map(|b| i64::from(*b as i8)).collect();
                2 * signed[0] + 3 * signed[1] - signed[2] + signed[3] - 5
            }
            _ => {
                let other = 0x1122_3344u32.to_le_bytes();
                i64::from(i32::from_le_bytes([bytes[0], other[0], bytes[1], other[1]]) as u32)
            }
        };
        ensure_eq!(wide[i], want, "element {i} of value {value}");
        let warp = i / 32 * 32;
        let total = (warp..(warp + 32).min(50)).fold(0u32, |sum, j| sum.wrapping_add(x[j] as u32));
        let want = value.count_ones() + 100 * value.leading_zeros() + 10_000 * (total & 0xffff);
        ensure_eq!(narrow[i], want, "element {i}");
    }
    Ok(())
}

pub(crate) fn blocks_that_wait_for_each_other(device: &Session<'_>) -> Result<(), Failure> {
    let x: Vec<i32> = (0..9 * 32).collect();
    let (px, pp, pt) = (
        device.buffer("x", &x)?,
        device.buffer("partial", &[0i32; 9])?,
        device.buffer("total", &[0i32])?,
    );
    let args = [P(px), P(pp), P(pt)];
    device.launch("handshake", [9, 1, 1], [64, 1, 1], &args)?;
    ensure_eq!(device.read::<i32>(pt, 1)?, [x.iter().sum::<i32>()]);
    let (address, bytes) = device.variable("arrived")?;
    ensure_eq!((device.read::<u32>(address, 1)?[0], bytes), (9, 4));
    Ok(())
}
