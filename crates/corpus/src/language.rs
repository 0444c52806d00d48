//! Kernels that language models run between their matrix products, in inference and in training.

use crate::noise::Noise;
use crate::numbers::{brain, brain_value, half, halves, single, wide};
use crate::session::Arg::{F32 as F, I32 as I, Pointer as P};
use crate::session::Session;
use crate::{Failure, ensure, ensure_eq};

fn brains(bits: &[u16]) -> Vec<f64> {
    bits.iter()
        .map(|bits| f64::from(brain_value(*bits)))
        .collect()
}

pub(crate) fn layer_norm_by_welford(device: &Session<'_>) -> Result<(), Failure> {
    let (rows, columns) = (3, 301);
    let mut noise = Noise(61);
    let x: Vec<f32> = noise
        .units(rows * columns)
        .into_iter()
        .map(|v| 10.0 + v)
        .collect();
    let (gamma, beta) = (noise.units(columns), noise.units(columns));
    let y = device.fresh("y", x.len() * 4)?;
    let args = [
        P(device.buffer("x", &x)?),
        P(device.buffer("gamma", &gamma)?),
        P(device.buffer("beta", &beta)?),
        P(y),
        I(columns as i32),
        F(1e-5),
    ];
    device.launch("layer_norm", [rows as u32, 1, 1], [128, 1, 1], &args)?;
    let mut want = Vec::new();
    for row in wide(&x).chunks(columns) {
        let mean = row.iter().sum::<f64>() / columns as f64;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / columns as f64;
        for (i, v) in row.iter().enumerate() {
            want.push(
                (v - mean) / (variance + 1e-5).sqrt() * f64::from(gamma[i]) + f64::from(beta[i]),
            );
        }
    }
    device.close("y", &wide(&device.read(y, x.len())?), &want, 2e-4)?;
    Ok(())
}

pub(crate) fn rms_norm_with_a_residual(device: &Session<'_>) -> Result<(), Failure> {
    let (rows, pairs) = (2, 150);
    let mut noise = Noise(62);
    let mut make =
        |count: usize| -> Vec<u16> { noise.units(count).into_iter().map(brain).collect() };
    let (x, residual, weight) = (
        make(rows * pairs * 2),
        make(rows * pairs * 2),
        make(pairs * 2),
    );
    let y = device.fresh("y", x.len() * 2)?;
    let args = [
        P(device.buffer("x", &x)?),
        P(device.buffer("residual", &residual)?),
        P(device.buffer("weight", &weight)?),
        P(y),
        I(pairs as i32),
        F(1e-6),
    ];
    device.launch_with(
        "rms_norm",
        [rows as u32, 1, 1],
        [64, 1, 1],
        &args,
        |launch| launch.shared_bytes = pairs as u32 * 8,
    )?;
    let sums: Vec<f64> = x
        .iter()
        .zip(&residual)
        .map(|(a, b)| f64::from(brain_value(brain(brain_value(*a) + brain_value(*b)))))
        .collect();
    let mut want = Vec::new();
    for row in sums.chunks(2 * pairs) {
        let scale =
            1.0 / (row.iter().map(|v| v * v).sum::<f64>() / (2 * pairs) as f64 + 1e-6).sqrt();
        want.extend(row.iter().zip(brains(&weight)).map(|(v, w)| v * scale * w));
    }
    device.close("y", &brains(&device.read(y, x.len())?), &want, 1e-2)?;
    Ok(())
}

pub(crate) fn gradients_of_a_normalisation(device: &Session<'_>) -> Result<(), Failure> {
    let (rows, columns) = (50, 45);
    let mut noise = Noise(63);
    let (dy, xhat) = (noise.units(rows * columns), noise.units(rows * columns));
    let (dgamma, dbeta) = (
        device.fresh("dgamma", columns * 4)?,
        device.fresh("dbeta", columns * 4)?,
    );
    let args = [
        P(device.buffer("dy", &dy)?),
        P(device.buffer("xhat", &xhat)?),
        P(dgamma),
        P(dbeta),
        I(rows as i32),
        I(columns as i32),
    ];
    device.launch("gamma_beta_grad", [2, 1, 1], [32, 8, 1], &args)?;
    let sum = |f: &dyn Fn(usize) -> f64| -> Vec<f64> {
        (0..columns)
            .map(|c| (0..rows).map(|r| f(r * columns + c)).sum())
            .collect()
    };
    let want = sum(&|i| f64::from(dy[i]) * f64::from(xhat[i]));
    device.close("dgamma", &wide(&device.read(dgamma, columns)?), &want, 1e-5)?;
    device.close(
        "dbeta",
        &wide(&device.read(dbeta, columns)?),
        &sum(&|i| f64::from(dy[i])),
        1e-5,
    )?;
    Ok(())
}

pub(crate) fn rotary_embeddings_in_both_conventions(device: &Session<'_>) -> Result<(), Failure> {
    let (tokens, heads, half_dim) = (5, 3, 16);
    let mut noise = Noise(64);
    let q = halves(&noise.units(tokens * heads * half_dim * 2));
    let positions: Vec<i32> = vec![0, 1, 7, 100, 4095];
    let pq = device.buffer("q", &q)?;
    let args = [
        P(pq),
        P(device.buffer("positions", &positions)?),
        I(heads as i32),
        I(half_dim as i32),
        F(10_000.0),
    ];
    device.launch("rope", [tokens as u32, 1, 1], [32, 1, 1], &args)?;
    let got: Vec<u16> = device.read(pq, q.len())?;
    for i in 0..q.len() / 2 {
        let (token, d) = (i / (heads * half_dim), i % half_dim);
        let angle = f64::from(positions[token]) * 10_000f64.powf(-(d as f64) / half_dim as f64);
        let (x, y) = (f64::from(single(q[2 * i])), f64::from(single(q[2 * i + 1])));
        let want = [
            x * angle.cos() - y * angle.sin(),
            x * angle.sin() + y * angle.cos(),
        ];
        for part in 0..2 {
            let value = f64::from(single(got[2 * i + part]));
            ensure!(
                (value - want[part]).abs() < 2e-3,
                "pair {i}: {value} instead of {}",
                want[part]
            );
        }
    }
    let x = noise.units(tokens * heads * half_dim * 2);
    let table: Vec<f32> = (0..tokens * half_dim)
        .flat_map(|i| [(i as f32 * 0.1).cos(), (i as f32 * 0.1).sin()])
        .collect();
    let out = device.fresh("out", x.len() * 4)?;
    let args = [
        P(device.buffer("in", &x)?),
        P(out),
        P(device.buffer("table", &table)?),
        I(heads as i32),
        I(half_dim as i32),
    ];
    device.launch(
        "rope_halves",
        [tokens as u32, heads as u32, 1],
        [half_dim as u32, 1, 1],
        &args,
    )?;
    let got: Vec<f32> = device.read(out, x.len())?;
    for i in 0..x.len() {
        let (token, d) = (i / (heads * 2 * half_dim), i % (2 * half_dim));
        let turn = 2 * (token * half_dim + d % half_dim);
        let (cosine, sine) = (table[turn], table[turn + 1]);
        let want = if d < half_dim {
            x[i] * cosine - x[i + half_dim] * sine
        } else {
            x[i] * cosine + x[i - half_dim] * sine
        };
        ensure!((got[i] - want).abs() < 1e-6, "element {i}");
    }
    Ok(())
}

pub(crate) fn softmax_in_one_pass(device: &Session<'_>) -> Result<(), Failure> {
    let (rows, quads) = (3, 70);
    let x: Vec<f32> = Noise(65)
        .units(rows * quads * 4)
        .into_iter()
        .map(|v| 20.0 * v)
        .collect();
    let y = device.fresh("y", x.len() * 4)?;
    let args = [P(device.buffer("x", &x)?), P(y), I(quads as i32)];
    device.launch("softmax_online", [rows as u32, 1, 1], [96, 1, 1], &args)?;
    let mut want = Vec::new();
    for row in wide(&x).chunks(quads * 4) {
        let top = row.iter().copied().fold(f64::MIN, f64::max);
        let sum: f64 = row.iter().map(|v| (v - top).exp()).sum();
        want.extend(row.iter().map(|v| (v - top).exp() / sum));
    }
    device.close("y", &wide(&device.read(y, x.len())?), &want, 1e-5)?;
    Ok(())
}

pub(crate) fn cross_entropy_and_its_gradient(device: &Session<'_>) -> Result<(), Failure> {
    let (rows, classes) = (5, 77);
    let logits: Vec<u16> = Noise(66)
        .units(rows * classes)
        .into_iter()
        .map(|v| brain(6.0 * v))
        .collect();
    let targets = [3, 76, -1, 0, 40];
    let (loss, gradient) = (
        device.fresh("loss", rows * 4)?,
        device.fresh("gradient", rows * classes * 2)?,
    );
    let args = [
        P(device.buffer("logits", &logits)?),
        P(device.buffer("targets", &targets)?),
        P(loss),
        P(gradient),
        I(rows as i32),
        I(classes as i32),
    ];
    device.launch("cross_entropy", [3, 1, 1], [64, 1, 1], &args)?;
    let (mut losses, mut gradients) = (Vec::new(), Vec::new());
    for (row, target) in brains(&logits).chunks(classes).zip(targets) {
        let sum: f64 = row.iter().map(|v| v.exp()).sum();
        losses.push(if target < 0 {
            0.0
        } else {
            sum.ln() - row[target as usize]
        });
        for (i, v) in row.iter().enumerate() {
            let p = v.exp() / sum - f64::from(u8::from(i as i32 == target));
            gradients.push(if target < 0 { 0.0 } else { p });
        }
    }
    device.close("loss", &wide(&device.read(loss, rows)?), &losses, 1e-5)?;
    device.close(
        "gradient",
        &brains(&device.read(gradient, rows * classes)?),
        &gradients,
        4e-3,
    )?;
    Ok(())
}

pub(crate) fn adamw_with_a_rounded_copy(device: &Session<'_>) -> Result<(), Failure> {
    let n = 4 * 70;
    let mut noise = Noise(67);
    let (p, g, m) = (noise.units(n), noise.units(n), noise.units(n));
    let v: Vec<f32> = noise.units(n).into_iter().map(f32::abs).collect();
    let (pp, rounded) = (device.buffer("p", &p)?, device.fresh("rounded", n * 2)?);
    let (pm, pv) = (device.buffer("m", &m)?, device.buffer("v", &v)?);
    let args = [
        P(pp),
        P(rounded),
        P(device.buffer("g", &g)?),
        P(pm),
        P(pv),
        I(n as i32 / 4),
        F(0.01),
        F(0.1),
        F(1.2),
        F(1.1),
    ];
    device.launch("adamw", [3, 1, 1], [32, 1, 1], &args)?;
    let (mut wants, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..n {
        let (g, m, v, p) = (
            f64::from(g[i]),
            f64::from(m[i]),
            f64::from(v[i]),
            f64::from(p[i]),
        );
        let (m, v) = (0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g);
        wants.push(p - 0.01 * (m * 1.2 / ((v * 1.1).sqrt() + 1e-8) + 0.1 * p));
        first.push(m);
        second.push(v);
    }
    let got: Vec<f32> = device.read(pp, n)?;
    device.close("parameters", &wide(&got), &wants, 1e-5)?;
    device.close("first", &wide(&device.read(pm, n)?), &first, 1e-6)?;
    device.close("second", &wide(&device.read(pv, n)?), &second, 1e-6)?;
    let copies: Vec<u16> = device.read(rounded, n)?;
    ensure!(
        copies
            .iter()
            .zip(&got)
            .all(|(copy, value)| *copy == brain(*value))
    );
    Ok(())
}

pub(crate) fn activations_of_both_kinds(device: &Session<'_>) -> Result<(), Failure> {
    let pairs = 90;
    let mut noise = Noise(68);
    let (gate, up) = (
        halves(&noise.units(2 * pairs)),
        halves(&noise.units(2 * pairs)),
    );
    let (swiglu, gelu) = (
        device.fresh("swiglu", pairs * 4)?,
        device.fresh("gelu", pairs * 4)?,
    );
    let args = [
        P(device.buffer("gate", &gate)?),
        P(device.buffer("up", &up)?),
        P(swiglu),
        P(gelu),
        I(pairs as i32),
    ];
    device.launch("activations", [3, 1, 1], [32, 1, 1], &args)?;
    let (swiglu, gelu): (Vec<u16>, Vec<u16>) = (
        device.read(swiglu, 2 * pairs)?,
        device.read(gelu, 2 * pairs)?,
    );
    for i in 0..2 * pairs {
        let (g, u) = (f64::from(single(gate[i])), f64::from(single(up[i])));
        let want = g / (1.0 + (-g).exp()) * u;
        ensure!(
            (f64::from(single(swiglu[i])) - want).abs() < 2e-3,
            "swiglu {i}"
        );
        // Both forms of the activation agree to three digits.
        let want = 0.5 * g * (1.0 + (0.797_884_560_8 * (g + 0.044_715 * g * g * g)).tanh());
        ensure!((f64::from(single(gelu[i])) - want).abs() < 2e-3, "gelu {i}");
    }
    Ok(())
}

pub(crate) fn bytes_with_a_scale_per_block_and_clipping(
    device: &Session<'_>,
) -> Result<(), Failure> {
    let n = 200;
    let x = Noise(69).units(n);
    let (q, scales) = (
        device.fresh("q", n)?,
        device.fresh("scales", n.div_ceil(32) * 4)?,
    );
    let (px, total) = (device.buffer("x", &x)?, device.buffer("total", &[0f64])?);
    device.launch(
        "quantise_blocks",
        [4, 1, 1],
        [64, 1, 1],
        &[P(px), P(q), P(scales), I(n as i32)],
    )?;
    let (q, scales): (Vec<i8>, Vec<f32>) =
        (device.read(q, n)?, device.read(scales, n.div_ceil(32))?);
    for (i, value) in x.iter().enumerate() {
        let top = x[i / 32 * 32..n.min(i / 32 * 32 + 32)]
            .iter()
            .fold(0f32, |top, v| top.max(v.abs()));
        ensure_eq!(scales[i / 32], top / 127.0);
        ensure_eq!(
            q[i],
            (value / (top / 127.0)).round_ties_even() as i8,
            "element {i}"
        );
    }
    device.launch(
        "squared_norm",
        [3, 1, 1],
        [64, 1, 1],
        &[P(px), P(total), I(n as i32)],
    )?;
    let want: f64 = x.iter().map(|v| f64::from(*v).powi(2)).sum();
    ensure!((device.read::<f64>(total, 1)?[0] - want).abs() < 1e-9);
    device.launch(
        "clip",
        [4, 1, 1],
        [64, 1, 1],
        &[P(px), P(total), F(2.0), I(n as i32)],
    )?;
    let clipped: f64 = device
        .read::<f32>(px, n)?
        .iter()
        .map(|v| f64::from(*v).powi(2))
        .sum();
    ensure!((clipped.sqrt() - 2.0).abs() < 1e-5, "{clipped}");
    Ok(())
}

pub(crate) fn a_dropout_whose_mask_one_lane_writes(device: &Session<'_>) -> Result<(), Failure> {
    let n = 150;
    let x = Noise(70).units(n);
    let (y, mask) = (
        device.fresh("y", n * 4)?,
        device.fresh("mask", n.div_ceil(32) * 4)?,
    );
    let args = [
        P(device.buffer("x", &x)?),
        P(y),
        P(mask),
        I(99),
        F(0.75),
        I(n as i32),
    ];
    device.launch("dropout", [3, 1, 1], [64, 1, 1], &args)?;
    let (y, mask): (Vec<f32>, Vec<u32>) = (device.read(y, n)?, device.read(mask, n.div_ceil(32))?);
    let mut kept = 0;
    for i in 0..n {
        let stays = mask[i / 32] >> (i % 32) & 1 == 1;
        ensure_eq!(y[i], if stays { x[i] / 0.75 } else { 0.0 }, "element {i}");
        kept += usize::from(stays);
    }
    ensure!((90..135).contains(&kept), "{kept} of {n} stay");
    ensure_eq!(half(1.0), 0x3c00);
    Ok(())
}
