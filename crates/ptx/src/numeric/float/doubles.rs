//! Arithmetic of doubles.

#[cfg(doc)]
use super::smaller32;
use super::{canon64, result64, round64, sum_error, zero_sum};
use crate::numeric::{Mode, Rounding};

fn sum64(a: f64, b: f64, mode: Mode) -> u64 {
    let sum = a + b;
    if mode.rounding == Rounding::Nearest {
        return result64(sum, mode);
    }
    if let Some(zero) = zero_sum(a, b, mode.rounding) {
        return result64(zero, mode);
    }
    result64(round64(sum, sum_error(a, b, sum), mode.rounding), mode)
}

pub(crate) fn add64(v: [u64; 4]) -> u64 {
    sum64(
        f64::from_bits(v[0]),
        f64::from_bits(v[1]),
        Mode::unpack(v[3]),
    )
}

pub(crate) fn sub64(v: [u64; 4]) -> u64 {
    sum64(
        f64::from_bits(v[0]),
        -f64::from_bits(v[1]),
        Mode::unpack(v[3]),
    )
}

pub(crate) fn mul64(v: [u64; 4]) -> u64 {
    canon64(f64::from_bits(v[0]) * f64::from_bits(v[1]))
}

pub(crate) fn fma64(v: [u64; 4]) -> u64 {
    canon64(f64::from_bits(v[0]).mul_add(f64::from_bits(v[1]), f64::from_bits(v[2])))
}

pub(crate) fn div64(v: [u64; 4]) -> u64 {
    canon64(f64::from_bits(v[0]) / f64::from_bits(v[1]))
}

pub(crate) fn rcp64(v: [u64; 4]) -> u64 {
    canon64(1.0 / f64::from_bits(v[0]))
}

pub(crate) fn sqrt64(v: [u64; 4]) -> u64 {
    canon64(f64::from_bits(v[0]).sqrt())
}

/// `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64` work on the upper word alone: about 20 bits, subnormals flushed.
pub(crate) fn rcp64_approx(v: [u64; 4]) -> u64 {
    canon64(1.0 / coarse(v[0])) & 0xffff_ffff_0000_0000
}

pub(crate) fn rsqrt64_approx(v: [u64; 4]) -> u64 {
    canon64(1.0 / coarse(v[0]).sqrt()) & 0xffff_ffff_0000_0000
}

/// The exact definition for `rsqrt.approx.f64`, which is within its documented error.
pub(crate) fn rsqrt64(v: [u64; 4]) -> u64 {
    canon64(1.0 / f64::from_bits(v[0]).sqrt())
}

fn coarse(bits: u64) -> f64 {
    let value = f64::from_bits(bits & 0xffff_ffff_0000_0000);
    if value.is_subnormal() {
        0f64.copysign(value)
    } else {
        value
    }
}

pub(crate) fn neg64(v: [u64; 4]) -> u64 {
    canon64(-f64::from_bits(v[0]))
}

pub(crate) fn abs64(v: [u64; 4]) -> u64 {
    canon64(f64::from_bits(v[0]).abs())
}

/// The smaller double, with the rules of [`smaller32`].
pub(crate) fn smaller64(a: f64, b: f64) -> f64 {
    let equal = f64::from_bits(a.to_bits() | b.to_bits());
    let pick = if a < b {
        a
    } else if b < a {
        b
    } else {
        equal
    };
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        pick
    }
}

pub(crate) fn larger64(a: f64, b: f64) -> f64 {
    let equal = f64::from_bits(a.to_bits() & b.to_bits());
    let pick = if a > b {
        a
    } else if b > a {
        b
    } else {
        equal
    };
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        pick
    }
}

pub(crate) fn min64(v: [u64; 4]) -> u64 {
    canon64(smaller64(f64::from_bits(v[0]), f64::from_bits(v[1])))
}

pub(crate) fn max64(v: [u64; 4]) -> u64 {
    canon64(larger64(f64::from_bits(v[0]), f64::from_bits(v[1])))
}

pub(crate) fn copysign64(v: [u64; 4]) -> u64 {
    v[0] & 1 << 63 | v[1] & !(1 << 63)
}
