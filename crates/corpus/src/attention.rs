//! Attention: through wmma, through mma and ldmatrix, and in plain single precision.

use crate::Failure;
use crate::noise::Noise;
use crate::numbers::{halves, single, wide};
use crate::session::Arg::{F32 as F, I32 as I, Pointer as P};
use crate::session::Session;

/// softmax(q k^T * scale) v for each row; with `causal` a query uses only the keys up to its own position.
fn reference(q: &[f64], k: &[f64], v: &[f64], dim: usize, scale: f64, causal: bool) -> Vec<f64> {
    let keys = k.len() / dim;
    let mut out = Vec::new();
    for (row, query) in q.chunks(dim).enumerate() {
        let seen = if causal { row + 1 } else { keys };
        let scores: Vec<f64> = (0..seen)
            .map(|key| {
                let dot: f64 = query.iter().zip(&k[key * dim..]).map(|(a, b)| a * b).sum();
                dot * scale
            })
            .collect();
        let top = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for d in 0..dim {
            let total: f64 = weights
                .iter()
                .enumerate()
                .map(|(key, w)| w * v[key * dim + d])
                .sum();
            out.push(total / sum);
        }
    }
    out
}

fn values(bits: &[u16]) -> Vec<f64> {
    bits.iter().map(|bits| f64::from(single(*bits))).collect()
}

pub(crate) fn tensor_cores_with_scores_in_shared_memory(
    device: &Session<'_>,
) -> Result<(), Failure> {
    let (dim, queries, keys) = (32, 32, 48);
    let mut noise = Noise(21);
    let mut make = |rows: usize| halves(&noise.units(rows * dim));
    let (q, k, v) = (make(queries), make(keys), make(keys));
    let args = [
        P(device.buffer("q", &q)?),
        P(device.buffer("k", &k)?),
        P(device.buffer("v", &v)?),
        P(device.fresh("out", queries * dim * 4)?),
        I(keys as i32),
        F(0.3),
    ];
    device.launch("attention_wmma", [2, 1, 1], [32, 1, 1], &args)?;
    let P(out) = args[3] else {
        unreachable!("the fourth argument is a pointer")
    };
    let want = reference(
        &values(&q),
        &values(&k),
        &values(&v),
        dim,
        f64::from(0.3f32),
        false,
    );
    device.close("out", &wide(&device.read(out, queries * dim)?), &want, 2e-3)?;
    Ok(())
}

pub(crate) fn flash_attention_with_fragments_in_registers(
    device: &Session<'_>,
) -> Result<(), Failure> {
    let (dim, length, heads) = (64, 96, 2);
    let mut noise = Noise(22);
    let mut make = || halves(&noise.units(heads * length * dim));
    let (q, k, v) = (make(), make(), make());
    let out = device.fresh("out", heads * length * dim * 2)?;
    let args = [
        P(device.buffer("q", &q)?),
        P(device.buffer("k", &k)?),
        P(device.buffer("v", &v)?),
        P(out),
        I(length as i32),
        F(0.125),
    ];
    device.launch("attention_mma", [3, 2, 1], [64, 1, 1], &args)?;
    let got = values(&device.read::<u16>(out, heads * length * dim)?);
    for head in 0..heads {
        let range = head * length * dim..(head + 1) * length * dim;
        let want = reference(
            &values(&q[range.clone()]),
            &values(&k[range.clone()]),
            &values(&v[range.clone()]),
            dim,
            0.125,
            false,
        );
        device.close("out", &got[range], &want, 2e-3)?;
    }
    Ok(())
}

pub(crate) fn causal_attention_with_an_online_softmax(device: &Session<'_>) -> Result<(), Failure> {
    let (dim, length) = (16, 75);
    let mut noise = Noise(23);
    let mut make = || noise.units(length * dim);
    let (q, k, v) = (make(), make(), make());
    let out = device.fresh("out", length * dim * 4)?;
    let args = [
        P(device.buffer("q", &q)?),
        P(device.buffer("k", &k)?),
        P(device.buffer("v", &v)?),
        P(out),
        I(length as i32),
    ];
    device.launch("attention_online", [3, 1, 1], [32, 1, 1], &args)?;
    let want = reference(&wide(&q), &wide(&k), &wide(&v), dim, 0.25, true);
    device.close("out", &wide(&device.read(out, length * dim)?), &want, 1e-5)?;
    Ok(())
}
