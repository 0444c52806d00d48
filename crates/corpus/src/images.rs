//! Stencils, convolutions, and other work on grids.

use crate::noise::Noise;
use crate::numbers::{half, halves, single, wide};
use crate::session::Arg::{F64 as D, I32 as I, Pointer as P};
use crate::session::Session;
use crate::{Failure, ensure, ensure_eq};

pub(crate) fn five_points_with_a_halo(device: &Session<'_>) -> Result<(), Failure> {
    let (width, height) = (45, 37);
    let x = Noise(41).units(width * height);
    let out = device.fresh("out", x.len() * 4)?;
    let args = [
        P(device.buffer("in", &x)?),
        P(out),
        I(width as i32),
        I(height as i32),
    ];
    device.launch("jacobi", [3, 3, 1], [16, 16, 1], &args)?;
    let at = |x_: i64, y: i64| {
        let inside = (0..width as i64).contains(&x_) && (0..height as i64).contains(&y);
        if inside {
            x[y as usize * width + x_ as usize]
        } else {
            0.0
        }
    };
    let want: Vec<f64> = (0..width * height)
        .map(|i| {
            let (x, y) = ((i % width) as i64, (i / width) as i64);
            f64::from(0.25 * (at(x, y - 1) + at(x, y + 1) + at(x - 1, y) + at(x + 1, y)))
        })
        .collect();
    device.close("out", &wide(&device.read(out, x.len())?), &want, 1e-6)?;
    Ok(())
}

pub(crate) fn seven_points_with_a_queue_of_registers(device: &Session<'_>) -> Result<(), Failure> {
    let (nx, ny, nz) = (16, 8, 6);
    let x: Vec<f64> = wide(&Noise(42).units(nx * ny * nz));
    let out = device.buffer("out", &x)?;
    let args = [
        P(device.buffer("in", &x)?),
        P(out),
        I(nx as i32),
        I(ny as i32),
        I(nz as i32),
        D(0.1),
    ];
    device.launch("heat", [2, 1, 1], [8, 8, 1], &args)?;
    let mut want = x.clone();
    for z in 1..nz - 1 {
        for y in 1..ny - 1 {
            for c in 1..nx - 1 {
                let i = (z * ny + y) * nx + c;
                let around =
                    x[i - 1] + x[i + 1] + x[i - nx] + x[i + nx] + x[i - nx * ny] + x[i + nx * ny];
                want[i] = x[i] + 0.1 * (around - 6.0 * x[i]);
            }
        }
    }
    device.close("out", &device.read(out, x.len())?, &want, 1e-14)?;
    Ok(())
}

pub(crate) fn a_filter_in_constant_memory(device: &Session<'_>) -> Result<(), Failure> {
    let (width, height) = (29, 18);
    let mut noise = Noise(43);
    let (x, filter) = (noise.units(width * height), noise.units(9));
    let (address, bytes) = device.variable("filter")?;
    ensure_eq!(bytes, 36);
    let raw: Vec<u8> = filter
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    device.write(address, &raw)?;
    let out = device.fresh("out", x.len() * 4)?;
    let args = [
        P(device.buffer("image", &x)?),
        P(out),
        I(width as i32),
        I(height as i32),
    ];
    device.launch("convolve3x3", [4, 5, 1], [8, 4, 1], &args)?;
    let want: Vec<f64> = (0..x.len())
        .map(|i| {
            let (column, row) = ((i % width) as i64, (i / width) as i64);
            let mut sum = 0.0;
            for r in 0..3 {
                for s in 0..3 {
                    let y = (row + r - 1).clamp(0, height as i64 - 1) as usize;
                    let c = (column + s - 1).clamp(0, width as i64 - 1) as usize;
                    sum += f64::from(filter[(r * 3 + s) as usize]) * f64::from(x[y * width + c]);
                }
            }
            sum.max(0.0)
        })
        .collect();
    device.close("out", &wide(&device.read(out, x.len())?), &want, 1e-6)?;
    Ok(())
}

pub(crate) fn depthwise_over_pairs_of_halves(device: &Session<'_>) -> Result<(), Failure> {
    let (length, pairs) = (9, 40);
    let mut noise = Noise(44);
    let (x, w) = (
        halves(&noise.units(length * pairs * 2)),
        halves(&noise.units(4 * pairs * 2)),
    );
    let out = device.fresh("out", x.len() * 2)?;
    let args = [
        P(device.buffer("image", &x)?),
        P(device.buffer("weights", &w)?),
        P(out),
        I(length as i32),
        I(pairs as i32),
    ];
    device.launch(
        "depthwise",
        [length as u32, 1, 1],
        [pairs as u32, 1, 1],
        &args,
    )?;
    let got: Vec<u16> = device.read(out, x.len())?;
    for t in 0..length {
        for c in 0..2 * pairs {
            let mut sum = 0u16;
            for i in 0..4.min(t + 1) {
                // A product of halves plus a half is exact in double precision, and is then rounded once.
                let exact = f64::from(single(x[(t - i) * 2 * pairs + c]))
                    * f64::from(single(w[i * 2 * pairs + c]))
                    + f64::from(single(sum));
                sum = if exact.abs() < 1e-4 {
                    half(0.0)
                } else {
                    half(exact as f32)
                };
            }
            let want = single(sum).max(-0.5);
            let value = single(got[t * 2 * pairs + c]);
            ensure!(
                (value - want).abs() <= 2e-3,
                "[{t}][{c}]: {value} instead of {want}"
            );
        }
    }
    Ok(())
}

pub(crate) fn a_convolution_as_a_product(device: &Session<'_>) -> Result<(), Failure> {
    let (width, height, channels, filters) = (9, 7, 5, 12);
    let (out_width, out_height) = (width - 2, height - 2);
    let mut noise = Noise(45);
    let (x, w) = (
        noise.units(width * height * channels),
        noise.units(filters * 9 * channels),
    );
    let cells = out_width * out_height;
    let out = device.fresh("out", cells * filters * 4)?;
    let args = [
        P(device.buffer("image", &x)?),
        P(device.buffer("weights", &w)?),
        P(out),
        I(width as i32),
        I(channels as i32),
        I(filters as i32),
        I(out_width as i32),
    ];
    device.launch("implicit_gemm", [cells as u32, 1, 1], [16, 1, 1], &args)?;
    let want: Vec<f64> = (0..cells * filters)
        .map(|i| {
            let (p, f) = (i / filters, i % filters);
            let (y, column) = (p / out_width, p % out_width);
            let mut sum = 0.0;
            for r in 0..3 {
                for s in 0..3 {
                    for c in 0..channels {
                        sum += f64::from(x[((y + r) * width + column + s) * channels + c])
                            * f64::from(w[f * 9 * channels + (r * 3 + s) * channels + c]);
                    }
                }
            }
            sum
        })
        .collect();
    device.close(
        "out",
        &wide(&device.read(out, cells * filters)?),
        &want,
        1e-5,
    )?;
    Ok(())
}

pub(crate) fn a_fractal_with_divergent_loops(device: &Session<'_>) -> Result<(), Failure> {
    let (width, height) = (40, 23);
    let out = device.fresh("out", width * height)?;
    let args = [P(out), I(width as i32), I(height as i32), I(60)];
    device.launch("mandelbrot", [5, 3, 1], [8, 8, 1], &args)?;
    let got: Vec<u8> = device.read(out, width * height)?;
    let mut differing = 0;
    for (i, got) in got.iter().enumerate() {
        let re = -2.0 + 3.0 * (i % width) as f64 / width as f64;
        let im = -1.5 + 3.0 * (i / width) as f64 / height as f64;
        let (mut a, mut b, mut want) = (0.0, 0.0, 0u8);
        while want < 60 && a * a + b * b < 4.0 {
            (a, b) = (a * a - b * b + re, 2.0 * a * b + im);
            want += 1;
        }
        differing += usize::from(*got != want);
    }
    // In single precision, points near the border escape a step earlier or later.
    ensure!(differing <= 8, "{differing} pixels differ");
    Ok(())
}
