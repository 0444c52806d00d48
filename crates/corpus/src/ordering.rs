//! Prefix sums, sorting and selection.

use crate::noise::Noise;
use crate::session::Arg::{I32 as I, Pointer as P};
use crate::session::Session;
use crate::{Failure, ensure, ensure_eq};

pub(crate) fn exclusive_sums_of_rows(device: &Session<'_>) -> Result<(), Failure> {
    let (rows, columns) = (3, 333);
    let mut noise = Noise(51);
    let x: Vec<i32> = (0..rows * columns)
        .map(|_| noise.next() as i32 % 1000)
        .collect();
    let out = device.fresh("out", x.len() * 4)?;
    let args = [P(device.buffer("in", &x)?), P(out), I(columns as i32)];
    device.launch("exclusive_rows", [rows as u32, 1, 1], [128, 1, 1], &args)?;
    let got: Vec<i32> = device.read(out, x.len())?;
    for row in 0..rows {
        let mut sum = 0;
        for i in row * columns..(row + 1) * columns {
            ensure_eq!(got[i], sum, "element {i}");
            sum += x[i];
        }
    }
    Ok(())
}

pub(crate) fn a_single_pass_that_looks_back(device: &Session<'_>) -> Result<(), Failure> {
    let n = 700;
    let x: Vec<i32> = (0..n).map(|i| (i * 37) % 101 - 50).collect();
    let out = device.fresh("out", x.len() * 4)?;
    let args = [P(device.buffer("in", &x)?), P(out), I(n)];
    device.launch("single_pass", [11, 1, 1], [64, 1, 1], &args)?;
    let got: Vec<i32> = device.read(out, x.len())?;
    let mut sum = 0;
    for (i, value) in x.iter().enumerate() {
        sum += value;
        ensure_eq!(got[i], sum, "element {i}");
    }
    Ok(())
}

pub(crate) fn bitonic_sort_with_places(device: &Session<'_>) -> Result<(), Failure> {
    let (blocks, n) = (2, 256);
    let x = Noise(52).units(blocks * n);
    let (keys, order) = (
        device.buffer("keys", &x)?,
        device.fresh("order", x.len() * 4)?,
    );
    let args = [P(keys), P(order)];
    device.launch_with(
        "bitonic",
        [blocks as u32, 1, 1],
        [n as u32 / 2, 1, 1],
        &args,
        |launch| launch.shared_bytes = n as u32 * 8,
    )?;
    let (keys, order): (Vec<f32>, Vec<i32>) =
        (device.read(keys, x.len())?, device.read(order, x.len())?);
    for block in 0..blocks {
        let mut want = x[block * n..(block + 1) * n].to_vec();
        want.sort_by(f32::total_cmp);
        ensure_eq!(keys[block * n..(block + 1) * n], want);
        for i in 0..n {
            ensure_eq!(x[block * n + order[block * n + i] as usize], want[i]);
        }
    }
    Ok(())
}

pub(crate) fn radix_sort_by_ballots(device: &Session<'_>) -> Result<(), Failure> {
    let mut noise = Noise(53);
    let x: Vec<u32> = (0..384)
        .map(|i| if i % 5 == 0 { 7 } else { noise.next() as u32 })
        .collect();
    let keys = device.buffer("keys", &x)?;
    device.launch("radix", [3, 1, 1], [128, 1, 1], &[P(keys)])?;
    let got: Vec<u32> = device.read(keys, 384)?;
    for block in 0..3 {
        let mut want = x[block * 128..(block + 1) * 128].to_vec();
        want.sort_unstable();
        ensure_eq!(got[block * 128..(block + 1) * 128], want);
    }
    Ok(())
}

pub(crate) fn the_largest_of_each_row_and_of_all(device: &Session<'_>) -> Result<(), Failure> {
    let (rows, columns, k) = (4, 150, 5);
    let mut x = Noise(54).units(rows * columns);
    x[17] = x[40];
    let (values, indices) = (
        device.fresh("values", rows * k * 4)?,
        device.fresh("indices", rows * k * 4)?,
    );
    let best = device.buffer("best", &[0u64])?;
    let px = device.buffer("x", &x)?;
    let args = [P(px), P(values), P(indices), I(columns as i32), I(k as i32)];
    device.launch("top_k", [rows as u32, 1, 1], [32, 1, 1], &args)?;
    let (values, indices): (Vec<f32>, Vec<i32>) = (
        device.read(values, rows * k)?,
        device.read(indices, rows * k)?,
    );
    for row in 0..rows {
        let mut order: Vec<usize> = (0..columns).collect();
        order.sort_by(|a, b| {
            x[row * columns + b]
                .total_cmp(&x[row * columns + a])
                .then(a.cmp(b))
        });
        for rank in 0..k {
            ensure_eq!(
                indices[row * k + rank] as usize,
                order[rank],
                "row {row}, rank {rank}"
            );
            ensure_eq!(values[row * k + rank], x[row * columns + order[rank]]);
        }
    }
    let n = x.len();
    device.launch(
        "arg_max",
        [5, 1, 1],
        [128, 1, 1],
        &[P(px), P(best), I(n as i32)],
    )?;
    let top = x.iter().copied().fold(f32::MIN, f32::max);
    let first = x
        .iter()
        .position(|value| *value == top)
        .expect("the largest is one of them");
    ensure_eq!(!(device.read::<u64>(best, 1)?[0] as u32), first as u32);
    Ok(())
}

pub(crate) fn tokens_are_routed_to_experts(device: &Session<'_>) -> Result<(), Failure> {
    let (tokens, experts) = (100, 6);
    let logits = Noise(55).units(tokens * experts);
    let (expert_of, weight_of) = (
        device.fresh("expert_of", tokens * 8)?,
        device.fresh("weight_of", tokens * 8)?,
    );
    let (places, counts) = (
        device.fresh("places", tokens * 4)?,
        device.buffer("counts", &vec![0i32; experts])?,
    );
    let args = [
        P(device.buffer("logits", &logits)?),
        P(expert_of),
        P(weight_of),
        P(places),
        P(counts),
        I(tokens as i32),
        I(experts as i32),
    ];
    device.launch("route", [2, 1, 1], [64, 1, 1], &args)?;
    let (chosen, weights): (Vec<i32>, Vec<f32>) = (
        device.read(expert_of, 2 * tokens)?,
        device.read(weight_of, 2 * tokens)?,
    );
    let (places, counts): (Vec<i32>, Vec<i32>) =
        (device.read(places, tokens)?, device.read(counts, experts)?);
    let mut taken = vec![Vec::new(); experts];
    for token in 0..tokens {
        let row = &logits[token * experts..(token + 1) * experts];
        let mut order: Vec<usize> = (0..experts).collect();
        order.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
        ensure_eq!(
            [chosen[2 * token], chosen[2 * token + 1]],
            [order[0] as i32, order[1] as i32]
        );
        let share = 1.0 / (1.0 + (row[order[1]] - row[order[0]]).exp());
        ensure!((weights[2 * token] - share).abs() < 1e-5);
        taken[order[0]].push(places[token]);
    }
    for (expert, mut places) in taken.into_iter().enumerate() {
        places.sort_unstable();
        ensure_eq!(
            places,
            (0..counts[expert]).collect::<Vec<_>>(),
            "expert {expert}"
        );
    }
    Ok(())
}
