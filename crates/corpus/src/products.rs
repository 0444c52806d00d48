//! Matrix products in every number format a tensor core or a quantised kernel uses.

use crate::noise::Noise;
use crate::numbers::{brain, brain_value, half, halves, single, tiny, wide};
use crate::session::Arg::{F32 as F, I32 as I, Pointer as P};
use crate::session::Session;
use crate::{Failure, ensure, ensure_eq};

/// The product of a (m x k) and b (k x n).
fn product(a: &[f64], b: &[f64], m: usize, n: usize, k: usize) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    for row in 0..m {
        for t in 0..k {
            for column in 0..n {
                c[row * n + column] += a[row * k + t] * b[t * n + column];
            }
        }
    }
    c
}

fn transposed(a: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..rows * columns)
        .map(|i| a[i % rows * columns + i / rows])
        .collect()
}

pub(crate) fn single_precision_with_guarded_edges(device: &Session<'_>) -> Result<(), Failure> {
    let (m, n, k) = (70, 45, 37);
    let mut noise = Noise(31);
    let (a, b) = (noise.units(m * k), noise.units(k * n));
    let c = device.fresh("c", m * n * 4)?;
    let args = [
        P(device.buffer("a", &a)?),
        P(device.buffer("b", &b)?),
        P(c),
        I(m as i32),
        I(n as i32),
        I(k as i32),
    ];
    device.launch("gemm_blocked", [2, 3, 1], [64, 1, 1], &args)?;
    let want = product(&wide(&a), &wide(&b), m, n, k);
    device.close("c", &wide(&device.read(c, m * n)?), &want, 1e-5)?;
    Ok(())
}

pub(crate) fn split_k_by_atomics_and_by_the_last_block(
    device: &Session<'_>,
) -> Result<(), Failure> {
    let (m, n, k) = (16, 32, 50);
    let mut noise = Noise(32);
    let (a, b) = (noise.units(m * k), noise.units(k * n));
    let (pa, pb) = (device.buffer("a", &a)?, device.buffer("b", &b)?);
    let sums = device.buffer("sums", &vec![0f32; m * n])?;
    let args = [P(pa), P(pb), P(sums), I(n as i32), I(k as i32)];
    device.launch("split_k_atomic", [2, 2, 4], [16, 8, 1], &args)?;
    let want = product(&wide(&a), &wide(&b), m, n, k);
    device.close("sums", &wide(&device.read(sums, m * n)?), &want, 1e-5)?;
    for kernel in [
        "split_k_last_block",
        "split_k_acquired",
        "split_k_volatile",
        "split_k_past_the_cache",
    ] {
        let (partial, c) = (
            device.fresh("partial", 4 * m * n * 4)?,
            device.fresh("c", m * n * 4)?,
        );
        let args = [P(pa), P(pb), P(partial), P(c), I(n as i32), I(k as i32)];
        device.launch(kernel, [2, 2, 4], [16, 8, 1], &args)?;
        device.close(kernel, &wide(&device.read(c, m * n)?), &want, 1e-5)?;
    }
    Ok(())
}

pub(crate) fn bfloat16_in_a_pipeline_of_three_stages(device: &Session<'_>) -> Result<(), Failure> {
    let (m, n, k) = (64, 32, 160);
    let mut noise = Noise(33);
    let mut make =
        |count: usize| -> Vec<u16> { noise.units(count).into_iter().map(brain).collect() };
    let (a, b) = (make(m * k), make(n * k));
    let value = |list: &[u16]| -> Vec<f64> {
        list.iter()
            .map(|bits| f64::from(brain_value(*bits)))
            .collect()
    };
    let c = device.fresh("c", m * n * 4)?;
    let args = [
        P(device.buffer("a", &a)?),
        P(device.buffer("b", &b)?),
        P(c),
        I(n as i32),
        I(k as i32),
    ];
    device.launch("gemm_bf16", [1, 2, 1], [128, 1, 1], &args)?;
    let want = product(&value(&a), &transposed(&value(&b), n, k), m, n, k);
    device.close("c", &wide(&device.read(c, m * n)?), &want, 1e-5)?;
    Ok(())
}

pub(crate) fn signed_bytes_by_dp4a_and_on_tensor_cores(
    device: &Session<'_>,
) -> Result<(), Failure> {
    let (rows, columns) = (8, 200);
    let mut noise = Noise(34);
    let mut make = |count: usize| -> Vec<i8> { (0..count).map(|_| noise.next() as i8).collect() };
    let (w, x) = (make(rows * columns), make(columns));
    let (a, b) = (make(16 * 96), make(24 * 96));
    let scales: Vec<f32> = (0..rows).map(|row| 0.01 * (row + 1) as f32).collect();
    let (y, c) = (device.fresh("y", rows * 4)?, device.fresh("c", 16 * 24)?);
    let args = [
        P(device.buffer("w", &w)?),
        P(device.buffer("x", &x)?),
        P(device.buffer("scales", &scales)?),
        P(y),
        I(columns as i32 / 4),
    ];
    device.launch("gemv_dp4a", [2, 1, 1], [128, 1, 1], &args)?;
    let want: Vec<f64> = (0..rows)
        .map(|row| {
            let sum: i32 = (0..columns)
                .map(|i| i32::from(w[row * columns + i]) * i32::from(x[i]))
                .sum();
            f64::from(sum as f32 * scales[row])
        })
        .collect();
    device.close("y", &wide(&device.read(y, rows)?), &want, 0.0)?;
    let args = [
        P(device.buffer("a", &a)?),
        P(device.buffer("b", &b)?),
        P(c),
        I(24),
        I(96),
        F(0.001),
    ];
    device.launch("gemm_s8", [3, 1, 1], [32, 1, 1], &args)?;
    let got: Vec<i8> = device.read(c, 16 * 24)?;
    for row in 0..16 {
        for column in 0..24 {
            let sum: i32 = (0..96)
                .map(|t| i32::from(a[row * 96 + t]) * i32::from(b[column * 96 + t]))
                .sum();
            let want = (sum as f32 * 0.001).round_ties_even().clamp(-128.0, 127.0) as i8;
            ensure_eq!(got[row * 24 + column], want, "c[{row}][{column}]");
        }
    }
    Ok(())
}

pub(crate) fn floats_of_eight_bits(device: &Session<'_>) -> Result<(), Failure> {
    let mut noise = Noise(35);
    let n = 300;
    let x: Vec<f32> = (0..n)
        .map(|i| noise.unit() * 2f32.powi(i % 12 - 6))
        .collect();
    let (y, z) = (
        device.fresh("y", n as usize)?,
        device.fresh("z", n as usize)?,
    );
    let args = [P(device.buffer("x", &x)?), P(y), P(z), I(n)];
    device.launch("quantise", [3, 1, 1], [128, 1, 1], &args)?;
    let (e4m3, e5m2): (Vec<u8>, Vec<u8>) =
        (device.read(y, n as usize)?, device.read(z, n as usize)?);
    for (i, value) in x.iter().enumerate() {
        for (bits, mantissa, bias) in [(e4m3[i], 3, 7), (e5m2[i], 2, 15)] {
            // The result must be the nearest number of the format.
            let error = (tiny(bits, mantissa, bias) - value).abs();
            let best = (0..=255u8)
                .filter(|other| tiny(*other, mantissa, bias).abs() <= 448.0)
                .map(|other| (tiny(other, mantissa, bias) - value).abs())
                .fold(f32::MAX, f32::min);
            ensure_eq!(error, best, "{value} became {bits:#x}");
        }
    }
    // Random bit patterns except NaN, as weights and as operands of the tensor cores.
    let mut make = |count: usize| -> Vec<u8> {
        (0..count)
            .map(|_| (noise.next() % 0x60) as u8 | (noise.next() as u8 & 0x80))
            .collect()
    };
    let (rows, columns, k) = (5, 64, 64);
    let (w, a, b) = (make(rows * columns), make(16 * k), make(8 * k));
    let x = noise.units(columns);
    let (y, c) = (device.fresh("y", rows * 4)?, device.fresh("c", 16 * 8 * 4)?);
    let args = [
        P(device.buffer("w", &w)?),
        P(device.buffer("x", &x)?),
        P(y),
        I(columns as i32 / 4),
        F(0.5),
    ];
    device.launch("gemv_fp8", [rows as u32, 1, 1], [32, 1, 1], &args)?;
    let value = |list: &[u8]| -> Vec<f64> {
        list.iter()
            .map(|bits| f64::from(tiny(*bits, 3, 7)))
            .collect()
    };
    let want: Vec<f64> = product(&value(&w), &wide(&x), rows, 1, columns)
        .into_iter()
        .map(|sum| 0.5 * sum)
        .collect();
    device.close("y", &wide(&device.read(y, rows)?), &want, 1e-5)?;
    let args = [
        P(device.buffer("a", &a)?),
        P(device.buffer("b", &b)?),
        P(c),
        I(8),
        I(k as i32),
    ];
    device.launch("gemm_e4m3", [1, 1, 1], [32, 1, 1], &args)?;
    let want = product(&value(&a), &transposed(&value(&b), 8, k), 16, 8, k);
    device.close("c", &wide(&device.read(c, 16 * 8)?), &want, 1e-4)?;
    Ok(())
}

pub(crate) fn tf32_rounded_and_corrected(device: &Session<'_>) -> Result<(), Failure> {
    let (m, n, k) = (32, 32, 24);
    let mut noise = Noise(36);
    let (a, b) = (noise.units(m * k), noise.units(k * n));
    let (rough, fine) = (
        device.fresh("rough", m * n * 4)?,
        device.fresh("fine", m * n * 4)?,
    );
    let (pa, pb) = (device.buffer("a", &a)?, device.buffer("b", &b)?);
    let args = |c| [P(pa), P(pb), P(c), I(n as i32), I(k as i32)];
    device.launch("wmma_tf32", [2, 2, 1], [32, 1, 1], &args(rough))?;
    device.launch("mma_3xtf32", [4, 2, 1], [32, 1, 1], &args(fine))?;
    let want = product(&wide(&a), &wide(&b), m, n, k);
    let rough = wide(&device.read(rough, m * n)?);
    device.close("rough", &rough, &want, 5e-3)?;
    device.close("fine", &wide(&device.read(fine, m * n)?), &want, 2e-6)?;
    // The rounding of TF32 to eleven significant bits is visible in the error.
    ensure!(
        rough
            .iter()
            .zip(&want)
            .any(|(got, want)| (got - want).abs() > 1e-5)
    );
    Ok(())
}

pub(crate) fn double_precision_and_directed_rounding(device: &Session<'_>) -> Result<(), Failure> {
    let (m, n, k) = (16, 8, 12);
    let mut noise = Noise(37);
    let mut make = |count: usize| -> Vec<f64> {
        noise
            .units(count)
            .into_iter()
            .map(|v| f64::from(v) / 3.0)
            .collect()
    };
    let (a, b) = (make(m * k), make(n * k));
    let (x, y) = (make(32 * 20), make(32 * 20));
    let c = device.fresh("c", m * n * 8)?;
    let args = [
        P(device.buffer("a", &a)?),
        P(device.buffer("b", &b)?),
        P(c),
        I(n as i32),
        I(k as i32),
    ];
    device.launch("wmma_f64", [1, 2, 1], [32, 1, 1], &args)?;
    let want = product(&a, &transposed(&b, n, k), m, n, k);
    device.close("c", &device.read(c, m * n)?, &want, 1e-14)?;
    let (low, high) = (device.fresh("low", 512)?, device.fresh("high", 512)?);
    let args = [
        P(device.buffer("x", &x)?),
        P(device.buffer("y", &y)?),
        P(low),
        P(high),
        I(20),
    ];
    device.launch("intervals", [1, 1, 1], [32, 1, 1], &args)?;
    let (low, high): (Vec<f64>, Vec<f64>) = (device.read(low, 64)?, device.read(high, 64)?);
    for t in 0..32 {
        let near: f64 = (0..20).map(|i| x[t * 20 + i] * y[t * 20 + i]).sum();
        let (down, up) = (low[2 * t], high[2 * t]);
        ensure!(
            down < up && down <= near && near <= up && up - down < 1e-14,
            "{down} {near} {up}"
        );
        let root = (near.abs() / 3.0).sqrt() + 1.0 / (7.0 + t as f64);
        ensure!((low[2 * t + 1] - root).abs() < 1e-6 && (high[2 * t + 1] - root).abs() < 1e-6);
    }
    Ok(())
}

pub(crate) fn four_bit_weights(device: &Session<'_>) -> Result<(), Failure> {
    let (rows, words) = (6, 40);
    let mut noise = Noise(38);
    let weights: Vec<u32> = (0..rows * words).map(|_| noise.next() as u32).collect();
    let x = halves(&noise.units(words * 8));
    let scales: Vec<u16> = (0..rows)
        .map(|row| half(0.0625 * (row + 1) as f32))
        .collect();
    let (y, floats) = (
        device.fresh("y", rows * 2)?,
        device.fresh("floats", rows * words * 16)?,
    );
    let pw = device.buffer("weights", &weights)?;
    let args = [
        P(pw),
        P(device.buffer("x", &x)?),
        P(device.buffer("scales", &scales)?),
        P(y),
        I(words as i32),
    ];
    device.launch("gemv_int4", [rows as u32, 1, 1], [32, 1, 1], &args)?;
    let want: Vec<f64> = (0..rows)
        .map(|row| {
            let mut sum = 0.0;
            for w in 0..words {
                for i in 0..4 {
                    let word = weights[row * words + w];
                    for part in 0..2 {
                        let weight = f64::from(word >> (4 * i + 16 * part) & 15) - 8.0;
                        sum += weight * f64::from(single(x[w * 8 + 2 * i + part]));
                    }
                }
            }
            sum * f64::from(single(scales[row]))
        })
        .collect();
    let got: Vec<f64> = device
        .read::<u16>(y, rows)?
        .into_iter()
        .map(|bits| f64::from(single(bits)))
        .collect();
    device.close("y", &got, &want, 4e-3)?;
    let count = rows * words;
    let args = [P(pw), P(floats), I(count as i32)];
    device.launch("bytes_to_floats", [4, 1, 1], [64, 1, 1], &args)?;
    let want: Vec<f64> = weights
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .map(f64::from)
        .collect();
    device.close(
        "floats",
        &wide(&device.read(floats, 4 * count)?),
        &want,
        0.0,
    )?;
    Ok(())
}

pub(crate) fn every_shape_and_format_of_wmma(device: &Session<'_>) -> Result<(), Failure> {
    /// Bytes per element, and the conversion of an element from its bits.
    type Format = (usize, fn(u32) -> f64);
    let f16: Format = (2, |bits| f64::from(single(bits as u16)));
    let bf16: Format = (2, |bits| f64::from(brain_value(bits as u16)));
    let s8: Format = (1, |bits| f64::from(bits as i8));
    let u8: Format = (1, |bits| f64::from(bits as u8));
    let f32: Format = (4, |bits| f64::from(f32::from_bits(bits)));
    let s32: Format = (4, |bits| f64::from(bits as i32));
    /// Kernel; rows, columns and depth; formats of the inputs and of the sums; true where A and B are row-major.
    type Shape = (&'static str, [usize; 3], Format, Format, [bool; 2]);
    let shapes: [Shape; 9] = [
        ("f16_tall", [32, 8, 16], f16, f32, [true, false]),
        ("f16_wide", [8, 32, 16], f16, f32, [false, true]),
        ("f16_in_halves", [16, 16, 16], f16, f16, [false, false]),
        ("bf16_square", [16, 16, 16], bf16, f32, [true, true]),
        ("bf16_tall", [32, 8, 16], bf16, f32, [false, true]),
        ("bf16_wide", [8, 32, 16], bf16, f32, [true, false]),
        ("s8_square", [16, 16, 16], s8, s32, [true, false]),
        ("u8_tall", [32, 8, 16], u8, s32, [true, true]),
        ("s8_wide", [8, 32, 16], s8, s32, [false, false]),
    ];
    let mut noise = Noise(39);
    for (name, [m, n, k], input, sum, [a_rows, b_rows]) in shapes {
        // Small multiples of an eighth, which every format represents exactly, so that no order of addition rounds.
        let mut make = |count: usize, format: Format, is_input: bool| -> Vec<u8> {
            (0..count)
                .flat_map(|_| {
                    let eighths = (noise.next() % 33) as i32 - 16;
                    let value = eighths as f32 / 8.0;
                    let value = if value.abs() < 0.2 { 0.25 } else { value };
                    let bits: u32 = match (format.0, is_input) {
                        (1, _) => eighths as u32,
                        (2, _) if (format.1)(0x3f80) == 1.0 => u32::from(brain(value)),
                        (2, _) => u32::from(half(value)),
                        _ if (format.1)(1) == 1.0 => eighths as u32,
                        _ => value.to_bits(),
                    };
                    bits.to_le_bytes()[..format.0].to_vec()
                })
                .collect()
        };
        let (a, b, c) = (
            make(m * k, input, true),
            make(k * n, input, true),
            make(m * n, sum, false),
        );
        let d = device.fresh("d", m * n * sum.0)?;
        let args = [
            P(device.buffer("a", &a)?),
            P(device.buffer("b", &b)?),
            P(device.buffer("c", &c)?),
            P(d),
        ];
        device.launch(name, [1, 1, 1], [32, 1, 1], &args)?;
        let at = |bytes: &[u8], index: usize, format: Format| {
            let mut bits = [0; 4];
            bits[..format.0].copy_from_slice(&bytes[index * format.0..(index + 1) * format.0]);
            (format.1)(u32::from_le_bytes(bits))
        };
        let got: Vec<u8> = device.read(d, m * n * sum.0)?;
        for row in 0..m {
            for column in 0..n {
                let mut want = at(&c, row * n + column, sum);
                for t in 0..k {
                    let x = if a_rows { row * k + t } else { t * m + row };
                    let y = if b_rows {
                        t * n + column
                    } else {
                        column * k + t
                    };
                    want += at(&a, x, input) * at(&b, y, input);
                }
                let value = at(&got, column * m + row, sum);
                let tolerance = if sum.0 == 2 {
                    0.01 * want.abs().max(1.0)
                } else {
                    0.0
                };
                ensure!(
                    (value - want).abs() <= tolerance,
                    "{name}[{row}][{column}]: {value} instead of {want}"
                );
            }
        }
    }
    Ok(())
}
