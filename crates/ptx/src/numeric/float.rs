//! Single and double precision: arithmetic with directed rounding, flushing and saturation, comparisons, conversions.

mod conversions;
mod doubles;

pub(crate) use conversions::*;
pub(crate) use doubles::*;

use super::{Mode, Rounding};

/// The NaN every operation on singles returns.
pub(crate) const NAN32: u32 = 0x7fff_ffff;
/// The NaN of doubles.
pub(crate) const NAN64: u64 = 0x7ff8_0000_0000_0000;

#[inline(always)]
pub(crate) fn f32_of(lane: u64) -> f32 {
    f32::from_bits(lane as u32)
}

/// Bits of a result, NaN made canonical.
#[inline(always)]
pub(crate) fn canon32(value: f32) -> u32 {
    if value.is_nan() {
        NAN32
    } else {
        value.to_bits()
    }
}

#[inline(always)]
pub(crate) fn canon64(value: f64) -> u64 {
    if value.is_nan() {
        NAN64
    } else {
        value.to_bits()
    }
}

/// Subnormal to zero of the same sign.
#[inline(always)]
pub(crate) fn flush32(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 {
        bits & 0x8000_0000
    } else {
        bits
    })
}

#[inline]
fn operand32(lane: u64, mode: Mode) -> f32 {
    let value = f32_of(lane);
    if mode.flush { flush32(value) } else { value }
}

#[inline]
fn result32(value: f32, mode: Mode) -> u64 {
    let value = if mode.flush { flush32(value) } else { value };
    if mode.saturate {
        return u64::from(saturate32(value).to_bits());
    }
    u64::from(canon32(value))
}

/// Clamped to [0, 1]; NaN gives +0.
#[inline(always)]
pub(crate) fn saturate32(value: f32) -> f32 {
    if value > 0.0 {
        if value < 1.0 { value } else { 1.0 }
    } else {
        0.0
    }
}

#[inline]
fn result64(value: f64, mode: Mode) -> u64 {
    if mode.saturate {
        return if value > 0.0 {
            value.min(1.0).to_bits()
        } else {
            0
        };
    }
    canon64(value)
}

/// The exact error of `sum = fl(a + b)`.
#[inline]
pub(crate) fn sum_error(a: f64, b: f64, sum: f64) -> f64 {
    let from_b = sum - a;
    let from_a = sum - from_b;
    (a - from_a) + (b - from_b)
}

/// Rounds to odd: `value` is the nearest double to the exact result, `error` the exact result minus it (its sign counts).
#[inline]
pub(crate) fn to_odd(value: f64, error: f64) -> f64 {
    if !value.is_finite() || error == 0.0 || error.is_nan() || value.to_bits() & 1 == 1 {
        return value;
    }
    if error > 0.0 {
        value.next_up()
    } else {
        value.next_down()
    }
}

/// A double to a single in any direction; exact if the double is exact or rounded to odd.
#[inline]
pub(crate) fn round32(value: f64, rounding: Rounding) -> f32 {
    let near = value as f32;
    let back = f64::from(near);
    if back == value || value.is_nan() || value.is_infinite() {
        return near;
    }
    match rounding {
        Rounding::Nearest | Rounding::Away => near,
        Rounding::Zero if back.abs() > value.abs() => {
            if near > 0.0 {
                near.next_down()
            } else {
                near.next_up()
            }
        }
        Rounding::Down if back > value => near.next_down(),
        Rounding::Up if back < value => near.next_up(),
        _ => near,
    }
}

/// A double with a known error sign to a double in any direction.
#[inline]
fn round64(value: f64, error: f64, rounding: Rounding) -> f64 {
    if error == 0.0 || error.is_nan() || !value.is_finite() {
        return value;
    }
    match rounding {
        Rounding::Zero if (error > 0.0) != (value > 0.0) => {
            if value > 0.0 {
                value.next_down()
            } else {
                value.next_up()
            }
        }
        Rounding::Down if error < 0.0 => value.next_down(),
        Rounding::Up if error > 0.0 => value.next_up(),
        _ => value,
    }
}

/// A sum of zero has a sign of its own when rounding down.
#[inline]
fn zero_sum(a: f64, b: f64, rounding: Rounding) -> Option<f64> {
    let cancels =
        a == -b && a.is_finite() && !(a == 0.0 && a.is_sign_negative() == b.is_sign_negative());
    cancels.then_some(if rounding == Rounding::Down {
        -0.0
    } else {
        0.0
    })
}

fn sum32(a: f32, b: f32, mode: Mode) -> u64 {
    if mode.rounding == Rounding::Nearest {
        return result32(a + b, mode);
    }
    let (x, y) = (f64::from(a), f64::from(b));
    if let Some(zero) = zero_sum(x, y, mode.rounding) {
        return result32(zero as f32, mode);
    }
    let sum = x + y;
    result32(
        round32(to_odd(sum, sum_error(x, y, sum)), mode.rounding),
        mode,
    )
}

pub(crate) fn add32(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    sum32(operand32(v[0], mode), operand32(v[1], mode), mode)
}

pub(crate) fn sub32(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    sum32(operand32(v[0], mode), -operand32(v[1], mode), mode)
}

pub(crate) fn mul32(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    let (a, b) = (operand32(v[0], mode), operand32(v[1], mode));
    if mode.rounding == Rounding::Nearest {
        return result32(a * b, mode);
    }
    // 24 by 24 bits fit a double exactly.
    result32(round32(f64::from(a) * f64::from(b), mode.rounding), mode)
}

pub(crate) fn fma32(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    let (a, b, c) = (
        operand32(v[0], mode),
        operand32(v[1], mode),
        operand32(v[2], mode),
    );
    if mode.rounding == Rounding::Nearest {
        let value = a.mul_add(b, c);
        return if mode.relu && (value < 0.0 || value.is_nan()) {
            result32(0.0, mode)
        } else {
            result32(value, mode)
        };
    }
    let (product, addend) = (f64::from(a) * f64::from(b), f64::from(c));
    if let Some(zero) = zero_sum(product, addend, mode.rounding) {
        return result32(zero as f32, mode);
    }
    let sum = product + addend;
    result32(
        round32(to_odd(sum, sum_error(product, addend, sum)), mode.rounding),
        mode,
    )
}

/// `fma.rm` of bits: exact product and sum error in double precision, then one step down where rounding went up.
#[inline(always)]
pub(crate) fn fma_down32(a: u32, b: u32, c: u32) -> u32 {
    let [a, b, c] = [a, b, c].map(|bits| f64::from(f32::from_bits(bits)));
    let product = a * b;
    let sum = product + c;
    let error = sum_error(product, c, sum);
    let near = sum as f32;
    let back = f64::from(near);
    let above = back > sum || (back == sum && error < 0.0);
    let bits = near.to_bits();
    let down = if near > 0.0 {
        bits.wrapping_sub(1)
    } else {
        bits.wrapping_add(1)
    };
    let down = if near == 0.0 { 0x8000_0001 } else { down };
    // An exact zero from opposite signs is negative when rounding down, whether numbers cancel or zeros meet.
    let opposite = product.is_sign_negative() != c.is_sign_negative();
    let zero = if near == 0.0 && sum == 0.0 && opposite {
        0x8000_0000
    } else {
        bits
    };
    if near.is_nan() {
        NAN32
    } else if above {
        down
    } else {
        zero
    }
}

pub(crate) fn div32(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    let (a, b) = (operand32(v[0], mode), operand32(v[1], mode));
    if mode.rounding == Rounding::Nearest {
        return result32(a / b, mode);
    }
    let (x, y) = (f64::from(a), f64::from(b));
    let quotient = x / y;
    // The remainder's sign is the error's, seen from the divisor.
    let error = (-quotient).mul_add(y, x) * y.signum();
    result32(round32(to_odd(quotient, error), mode.rounding), mode)
}

pub(crate) fn rcp32(v: [u64; 4]) -> u64 {
    div32([u64::from(1f32.to_bits()), v[0], 0, v[3]])
}

pub(crate) fn sqrt32(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    let a = operand32(v[0], mode);
    if mode.rounding == Rounding::Nearest {
        return result32(a.sqrt(), mode);
    }
    let x = f64::from(a);
    let root = x.sqrt();
    result32(
        round32(to_odd(root, (-root).mul_add(root, x)), mode.rounding),
        mode,
    )
}

pub(crate) fn neg32(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    let value = operand32(v[0], mode);
    if value.is_nan() {
        u64::from(NAN32)
    } else {
        u64::from((-value).to_bits())
    }
}

pub(crate) fn abs32(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    u64::from(canon32(operand32(v[0], mode).abs()))
}

/// The smaller value; -0 is smaller than +0; NaN loses.
#[inline(always)]
pub(crate) fn smaller32(a: f32, b: f32) -> f32 {
    let equal = f32::from_bits(a.to_bits() | b.to_bits());
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

#[inline(always)]
pub(crate) fn larger32(a: f32, b: f32) -> f32 {
    let equal = f32::from_bits(a.to_bits() & b.to_bits());
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

pub(crate) fn min32(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    let (a, b) = (operand32(v[0], mode), operand32(v[1], mode));
    if mode.nan && (a.is_nan() || b.is_nan()) {
        u64::from(NAN32)
    } else {
        u64::from(canon32(smaller32(a, b)))
    }
}

pub(crate) fn max32(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    let (a, b) = (operand32(v[0], mode), operand32(v[1], mode));
    if mode.nan && (a.is_nan() || b.is_nan()) {
        u64::from(NAN32)
    } else {
        u64::from(canon32(larger32(a, b)))
    }
}

/// The sign of a on the magnitude of b.
pub(crate) fn copysign32(v: [u64; 4]) -> u64 {
    v[0] & 0x8000_0000 | v[1] & 0x7fff_ffff
}

macro_rules! classify {
    ($($name:ident, $wide:ident: $test:expr;)*) => {$(
        pub(crate) fn $name(v: [u64; 4]) -> u64 {
            let value = f64::from(f32_of(v[0]));
            let subnormal = f32_of(v[0]).is_subnormal();
            let test: fn(f64, bool) -> bool = $test;
            u64::from(test(value, subnormal))
        }

        pub(crate) fn $wide(v: [u64; 4]) -> u64 {
            let value = f64::from_bits(v[0]);
            let test: fn(f64, bool) -> bool = $test;
            u64::from(test(value, value.is_subnormal()))
        }
    )*};
}

classify! {
    finite32, finite64: |value, _| value.is_finite();
    infinite32, infinite64: |value, _| value.is_infinite();
    number32, number64: |value, _| !value.is_nan();
    notanumber32, notanumber64: |value, _| value.is_nan();
    normal32, normal64: |value, subnormal| value.is_finite() && value != 0.0 && !subnormal;
    subnormal32, subnormal64: |_, subnormal| subnormal;
}
