//! The approximate functions of the special function unit, inside the errors the PTX ISA documents.
//!
//! Polynomials are Taylor series on ranges so small that the first omitted term is below half a unit in the last
//! place; every operation is an IEEE one, so the result is the same on every machine.

use super::Mode;
use super::float::{canon32, f32_of, flush32};

/// 1.5 * 2^23: adding it leaves the nearest integer in the low bits.
const ROUNDER: f32 = 12_582_912.0;

/// ln(2)^k / k! for k = 7 down to 1.
const EX2: [f32; 7] = [
    1.525_273_4e-5,
    1.540_353_e-4,
    1.333_355_8e-3,
    9.618_129e-3,
    5.550_410_7e-2,
    2.402_265e-1,
    core::f32::consts::LN_2,
];

/// 2 to the power x.
#[inline(always)]
pub(crate) fn ex2(x: f32) -> f32 {
    let shifted = x + ROUNDER;
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32);
    let fraction = x - (shifted - ROUNDER);
    let mut p = EX2[0];
    p = p.mul_add(fraction, EX2[1]);
    p = p.mul_add(fraction, EX2[2]);
    p = p.mul_add(fraction, EX2[3]);
    p = p.mul_add(fraction, EX2[4]);
    p = p.mul_add(fraction, EX2[5]);
    p = p.mul_add(fraction, EX2[6]);
    p = p.mul_add(fraction, 1.0);
    // Two factors, so that results below the normal range round once.
    let half = n >> 1;
    let rest = n.wrapping_sub(half);
    let first = f32::from_bits((half.wrapping_add(127) as u32) << 23);
    let second = f32::from_bits((rest.wrapping_add(127) as u32) << 23);
    let value = p * first * second;
    let value = if x >= 128.0 { f32::INFINITY } else { value };
    let value = if x <= -151.0 { 0.0 } else { value };
    if x.is_nan() { x } else { value }
}

/// The logarithm to base 2.
#[inline(always)]
pub(crate) fn lg2(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 16_777_216.0 } else { x };
    let bits = scaled.to_bits();
    // Centre the mantissa on [sqrt(1/2), sqrt(2)).
    let shifted = bits.wrapping_sub(0x3f35_04f3);
    let exponent = (shifted as i32) >> 23;
    let mantissa = f32::from_bits((shifted & 0x007f_ffff).wrapping_add(0x3f35_04f3));
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let t = s * s;
    // 2/ln(2) * atanh(s).
    let mut p = 2.623_08e-1_f32;
    p = p.mul_add(t, 3.205_989e-1);
    p = p.mul_add(t, 4.121_986e-1);
    p = p.mul_add(t, 5.770_780_3e-1);
    p = p.mul_add(t, 9.617_967e-1);
    p = p.mul_add(t, 2.885_39);
    let value = p.mul_add(s, exponent as f32 - if tiny { 24.0 } else { 0.0 });
    let value = if x == f32::INFINITY { x } else { value };
    let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
    if x < 0.0 || x.is_nan() {
        f32::NAN
    } else {
        value
    }
}

/// Sine and cosine of an angle, in double precision inside.
fn sin_cos(x: f64) -> (f64, f64) {
    let quarter = (x * core::f64::consts::FRAC_2_PI).round_ties_even();
    let r = (-quarter).mul_add(
        6.123_233_995_736_766e-17,
        (-quarter).mul_add(core::f64::consts::FRAC_PI_2, x),
    );
    let t = r * r;
    let sin = r
        * (1.0
            + t * (-1.0 / 6.0
                + t * (1.0 / 120.0
                    + t * (-1.0 / 5_040.0 + t * (1.0 / 362_880.0 - t * (1.0 / 39_916_800.0))))));
    let cos = 1.0
        + t * (-0.5
            + t * (1.0 / 24.0
                + t * (-1.0 / 720.0
                    + t * (1.0 / 40_320.0 + t * (-1.0 / 3_628_800.0 + t / 479_001_600.0)))));
    match (quarter.rem_euclid(4.0)) as u32 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

fn unary(v: [u64; 4], f: impl Fn(f32) -> f32) -> u64 {
    let mode = Mode::unpack(v[3]);
    let x = f32_of(v[0]);
    let value = f(if mode.flush { flush32(x) } else { x });
    u64::from(canon32(if mode.flush { flush32(value) } else { value }))
}

pub(crate) fn ex2_lane(v: [u64; 4]) -> u64 {
    unary(v, ex2)
}

pub(crate) fn lg2_lane(v: [u64; 4]) -> u64 {
    unary(v, lg2)
}

pub(crate) fn sin_lane(v: [u64; 4]) -> u64 {
    unary(v, |x| sin_cos(f64::from(x)).0 as f32)
}

pub(crate) fn cos_lane(v: [u64; 4]) -> u64 {
    unary(v, |x| sin_cos(f64::from(x)).1 as f32)
}

/// Odd and bounded by 1; of what is small, subnormal numbers included, the argument itself.
pub(crate) fn tanh(x: f32) -> f32 {
    if x.abs() < 1.0 / 4096.0 {
        return x;
    }
    let magnitude = f64::from(x.abs().min(20.0));
    let e = exp(2.0 * magnitude);
    let value = ((e - 1.0) / (e + 1.0)) as f32;
    if x.is_nan() { x } else { value.copysign(x) }
}

pub(crate) fn tanh_lane(v: [u64; 4]) -> u64 {
    unary(v, tanh)
}

/// e to the power x for moderate x.
fn exp(x: f64) -> f64 {
    let n = (x * core::f64::consts::LOG2_E).round_ties_even();
    let r = (-n).mul_add(core::f64::consts::LN_2, x);
    let mut term = 1.0;
    let mut sum = 1.0;
    for k in 1..14 {
        term *= r / f64::from(k);
        sum += term;
    }
    sum * f64::from_bits(((n as i64 + 1023) as u64) << 52)
}

#[inline(always)]
pub(crate) fn rsqrt(x: f32) -> f32 {
    (1.0 / f64::from(x).sqrt()) as f32
}

pub(crate) fn rsqrt_lane(v: [u64; 4]) -> u64 {
    unary(v, rsqrt)
}
