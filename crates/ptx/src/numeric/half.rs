//! Formats narrower than a single: half, bfloat16, tf32 and the 8-bit ones; conversions and packed arithmetic.

use super::float::{canon32, f32_of, flush32, larger32, smaller32, sum_error, to_odd};
use super::{Mode, Rounding};

/// The NaN of half and bfloat16 results.
pub(crate) const NAN16: u16 = 0x7fff;

/// A binary format with a sign bit, `exponent` bits and `mantissa` bits.
pub(crate) struct Format {
    exponent: u32,
    mantissa: u32,
    /// e4m3 has no infinity: its top exponent holds numbers, and only all ones is NaN.
    infinite: bool,
    nan: u32,
}

pub(crate) const F16: Format = Format {
    exponent: 5,
    mantissa: 10,
    infinite: true,
    nan: 0x7fff,
};
pub(crate) const BF16: Format = Format {
    exponent: 8,
    mantissa: 7,
    infinite: true,
    nan: 0x7fff,
};
pub(crate) const TF32: Format = Format {
    exponent: 8,
    mantissa: 10,
    infinite: true,
    nan: 0x3ffff,
};
pub(crate) const E4M3: Format = Format {
    exponent: 4,
    mantissa: 3,
    infinite: false,
    nan: 0x7f,
};
pub(crate) const E5M2: Format = Format {
    exponent: 5,
    mantissa: 2,
    infinite: true,
    nan: 0x7f,
};

impl Format {
    fn bias(&self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// The largest finite magnitude's bits.
    fn largest(&self) -> u32 {
        let top = (1u32 << (self.exponent + self.mantissa)) - 1;
        if self.infinite {
            top - (1 << self.mantissa)
        } else {
            top - 1
        }
    }
}

/// Rounds a double, exact or rounded to odd, to a format.
pub(crate) fn narrow(value: f64, format: &Format, mode: Mode) -> u32 {
    let sign = u32::from(value.is_sign_negative()) << (format.exponent + format.mantissa);
    if value.is_nan() {
        return format.nan;
    }
    let magnitude = value.abs();
    if mode.relu && sign != 0 {
        return 0;
    }
    if magnitude == 0.0 {
        return sign;
    }
    let overflow = |toward_zero: bool| {
        if toward_zero || mode.finite {
            format.largest()
        } else if format.infinite {
            format.largest() + 1
        } else {
            format.nan
        }
    };
    if magnitude.is_infinite() {
        return sign | overflow(false);
    }
    let smallest = 1 - format.bias();
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(smallest);
    // Scaling by a power of two is exact here: the format's range is far inside the double's.
    let steps = magnitude * 2f64.powi(format.mantissa as i32 - exponent);
    let steps = match mode.rounding {
        Rounding::Nearest => steps.round_ties_even(),
        Rounding::Away => steps.round(),
        Rounding::Zero => steps.floor(),
        Rounding::Down if sign == 0 => steps.floor(),
        Rounding::Up if sign != 0 => steps.floor(),
        Rounding::Down | Rounding::Up => steps.ceil(),
    };
    // A carry into the next power of two makes the bits come out right by themselves.
    let bits = ((exponent - smallest) as u64) << format.mantissa;
    let bits = bits + steps as u64;
    let toward_zero = matches!(mode.rounding, Rounding::Zero)
        || (mode.rounding == Rounding::Down && sign == 0)
        || (mode.rounding == Rounding::Up && sign != 0);
    sign | if bits > u64::from(format.largest()) {
        overflow(toward_zero)
    } else {
        bits as u32
    }
}

/// A format's bits as a double, exactly.
pub(crate) fn widen(bits: u32, format: &Format) -> f64 {
    let mantissa = bits & ((1 << format.mantissa) - 1);
    let exponent = bits >> format.mantissa & ((1 << format.exponent) - 1);
    let negative = bits >> (format.mantissa + format.exponent) & 1 == 1;
    let top = (1 << format.exponent) - 1;
    let magnitude = if exponent == top && format.infinite {
        if mantissa == 0 {
            f64::INFINITY
        } else {
            f64::NAN
        }
    } else if !format.infinite && exponent == top && mantissa == (1 << format.mantissa) - 1 {
        f64::NAN
    } else if exponent == 0 {
        f64::from(mantissa) * 2f64.powi(1 - format.bias() - format.mantissa as i32)
    } else {
        f64::from(mantissa | 1 << format.mantissa)
            * 2f64.powi(exponent as i32 - format.bias() - format.mantissa as i32)
    };
    if negative { -magnitude } else { magnitude }
}

/// Half bits to a single, exactly; without branches.
#[inline(always)]
pub(crate) fn f16_to_f32(bits: u32) -> f32 {
    let sign = (bits & 0x8000) << 16;
    let magnitude = bits & 0x7fff;
    // Shifted into place the value is 2^112 too small, subnormals included.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000);
    let special = if magnitude > 0x7c00 {
        super::float::NAN32
    } else {
        0x7f80_0000
    };
    let value = if magnitude >= 0x7c00 {
        special
    } else {
        scaled.to_bits()
    };
    let sign = if magnitude > 0x7c00 { 0 } else { sign };
    f32::from_bits(value | sign)
}

/// A single to half bits, to nearest even; without branches.
#[inline(always)]
pub(crate) fn f32_to_f16(value: f32) -> u32 {
    let bits = value.to_bits();
    let sign = bits >> 16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Normal results: rebias, round to even by adding half an ulp less one plus the lowest kept bit.
    let odd = magnitude >> 13 & 1;
    let normal = magnitude
        .wrapping_sub(0x3800_0000)
        .wrapping_add(0xfff)
        .wrapping_add(odd)
        >> 13;
    // Subnormal results: adding 1/2 lets the hardware round at the right bit.
    let small = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    let finite = if magnitude < 0x3880_0000 {
        small
    } else {
        normal
    };
    let finite = if magnitude >= 0x477f_f000 {
        0x7c00
    } else {
        finite
    };
    if magnitude > 0x7f80_0000 {
        u32::from(NAN16)
    } else {
        finite | sign
    }
}

#[inline(always)]
pub(crate) fn bf16_to_f32(bits: u32) -> f32 {
    f32::from_bits(bits << 16)
}

/// A single to bfloat16 bits, to nearest even.
#[inline(always)]
pub(crate) fn f32_to_bf16(value: f32) -> u32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff).wrapping_add(bits >> 16 & 1) >> 16;
    if value.is_nan() {
        u32::from(NAN16)
    } else {
        rounded & 0xffff
    }
}

/// The exact error of a sum of singles decides its rounding to odd.
#[inline(always)]
fn odd_sum32(a: f32, b: f32) -> f32 {
    let sum = a + b;
    let from_b = sum - a;
    let from_a = sum - from_b;
    let error = (a - from_a) + (b - from_b);
    let bits = sum.to_bits();
    let away = (error > 0.0) == (sum > 0.0);
    let stepped = if away {
        bits.wrapping_add(1)
    } else {
        bits.wrapping_sub(1)
    };
    let inexact = error != 0.0 && !error.is_nan() && bits & 1 == 0 && sum.abs() < f32::INFINITY;
    f32::from_bits(if inexact { stepped } else { bits })
}

/// Fused multiply-add of halves with one rounding: the product is exact in single precision.
#[inline(always)]
pub(crate) fn fma_f16(a: u32, b: u32, c: u32) -> u32 {
    f32_to_f16(odd_sum32(f16_to_f32(a) * f16_to_f32(b), f16_to_f32(c)))
}

/// Sums and products of halves, computed in single precision, round innocuously (24 >= 2 * 11 + 2 bits).
#[inline(always)]
pub(crate) fn add_f16(a: u32, b: u32) -> u32 {
    f32_to_f16(f16_to_f32(a) + f16_to_f32(b))
}

#[inline(always)]
pub(crate) fn sub_f16(a: u32, b: u32) -> u32 {
    f32_to_f16(f16_to_f32(a) - f16_to_f32(b))
}

#[inline(always)]
pub(crate) fn mul_f16(a: u32, b: u32) -> u32 {
    f32_to_f16(f16_to_f32(a) * f16_to_f32(b))
}

#[inline(always)]
pub(crate) fn max_f16(a: u32, b: u32) -> u32 {
    f32_to_f16(larger32(f16_to_f32(a), f16_to_f32(b)))
}

#[inline(always)]
pub(crate) fn min_f16(a: u32, b: u32) -> u32 {
    f32_to_f16(smaller32(f16_to_f32(a), f16_to_f32(b)))
}

/// Both halves of packed operands.
#[inline(always)]
pub(crate) fn packed(a: u32, b: u32, c: u32, f: impl Fn(u32, u32, u32) -> u32) -> u32 {
    f(a & 0xffff, b & 0xffff, c & 0xffff) | f(a >> 16, b >> 16, c >> 16) << 16
}

/// One of the two formats a packed or scalar 16-bit operation works on.
trait Narrow {
    fn widen(bits: u32) -> f64;
    fn narrow(value: f64, mode: Mode) -> u32;
}

pub(crate) struct Half;
pub(crate) struct Brain;

impl Narrow for Half {
    fn widen(bits: u32) -> f64 {
        f64::from(f16_to_f32(bits))
    }

    fn narrow(value: f64, mode: Mode) -> u32 {
        narrow(value, &F16, mode)
    }
}

impl Narrow for Brain {
    fn widen(bits: u32) -> f64 {
        f64::from(bf16_to_f32(bits))
    }

    fn narrow(value: f64, mode: Mode) -> u32 {
        narrow(value, &BF16, mode)
    }
}

/// The bits of a 16-bit result after flushing and saturation.
fn finish<F: Narrow>(value: f64, mode: Mode) -> u32 {
    let value = if mode.saturate {
        if value > 0.0 { value.min(1.0) } else { 0.0 }
    } else {
        value
    };
    let value = if mode.relu && value.is_nan() {
        f64::NAN
    } else {
        value
    };
    let bits = F::narrow(value, mode);
    if mode.flush && F::widen(bits).abs() < 2f64.powi(-14) {
        bits & 0x8000
    } else {
        bits
    }
}

fn input<F: Narrow>(bits: u32, mode: Mode) -> f64 {
    let value = F::widen(bits);
    if mode.flush && value.abs() < 2f64.powi(-14) {
        0f64.copysign(value)
    } else {
        value
    }
}

/// An operation on one pair or triple of 16-bit operands, in any mode. Sums of 16-bit values may not fit a double
/// exactly (bfloat16 spans 2^-133 to 2^128), hence the rounding to odd.
fn arithmetic<F: Narrow>(op: Arithmetic, a: u32, b: u32, c: u32, mode: Mode) -> u32 {
    let (x, y, z) = (
        input::<F>(a, mode),
        input::<F>(b, mode),
        input::<F>(c, mode),
    );
    let sum = |p: f64, q: f64| {
        let total = p + q;
        to_odd(total, sum_error(p, q, total))
    };
    match op {
        Arithmetic::Add => finish::<F>(sum(x, y), mode),
        Arithmetic::Sub => finish::<F>(sum(x, -y), mode),
        Arithmetic::Mul => finish::<F>(x * y, mode),
        Arithmetic::Fma => finish::<F>(sum(x * y, z), mode),
        Arithmetic::Min | Arithmetic::Max => {
            if mode.nan && (x.is_nan() || y.is_nan()) {
                return u32::from(NAN16);
            }
            let (p, q) = (x as f32, y as f32);
            let pick = if op == Arithmetic::Min {
                smaller32(p, q)
            } else {
                larger32(p, q)
            };
            finish::<F>(f64::from(pick), mode)
        }
        Arithmetic::Neg => {
            if x.is_nan() {
                u32::from(NAN16)
            } else {
                F::narrow(-x, Mode::PLAIN)
            }
        }
        Arithmetic::Abs => {
            if x.is_nan() {
                u32::from(NAN16)
            } else {
                F::narrow(x.abs(), Mode::PLAIN)
            }
        }
        Arithmetic::Ex2 => finish::<F>(f64::from(super::approx::ex2(x as f32)), mode),
        Arithmetic::Tanh => finish::<F>(f64::from(super::approx::tanh(x as f32)), mode),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arithmetic {
    Add,
    Sub,
    Mul,
    Fma,
    Min,
    Max,
    Neg,
    Abs,
    Ex2,
    Tanh,
}

macro_rules! lanes {
    ($($one:ident, $two:ident, $brain:ident, $brain_two:ident: $op:ident;)*) => {$(
        pub(crate) fn $one(v: [u64; 4]) -> u64 {
            u64::from(arithmetic::<Half>(Arithmetic::$op, v[0] as u32, v[1] as u32, v[2] as u32, Mode::unpack(v[3])))
        }

        pub(crate) fn $two(v: [u64; 4]) -> u64 {
            let mode = Mode::unpack(v[3]);
            u64::from(packed(v[0] as u32, v[1] as u32, v[2] as u32, |a, b, c| {
                arithmetic::<Half>(Arithmetic::$op, a, b, c, mode)
            }))
        }

        pub(crate) fn $brain(v: [u64; 4]) -> u64 {
            u64::from(arithmetic::<Brain>(Arithmetic::$op, v[0] as u32, v[1] as u32, v[2] as u32, Mode::unpack(v[3])))
        }

        pub(crate) fn $brain_two(v: [u64; 4]) -> u64 {
            let mode = Mode::unpack(v[3]);
            u64::from(packed(v[0] as u32, v[1] as u32, v[2] as u32, |a, b, c| {
                arithmetic::<Brain>(Arithmetic::$op, a, b, c, mode)
            }))
        }
    )*};
}

lanes! {
    add_h, add_h2, add_b, add_b2: Add;
    sub_h, sub_h2, sub_b, sub_b2: Sub;
    mul_h, mul_h2, mul_b, mul_b2: Mul;
    fma_h, fma_h2, fma_b, fma_b2: Fma;
    min_h, min_h2, min_b, min_b2: Min;
    max_h, max_h2, max_b, max_b2: Max;
    neg_h, neg_h2, neg_b, neg_b2: Neg;
    abs_h, abs_h2, abs_b, abs_b2: Abs;
    ex2_h, ex2_h2, ex2_b, ex2_b2: Ex2;
    tanh_h, tanh_h2, tanh_b, tanh_b2: Tanh;
}

pub(crate) fn f16_to_f32_lane(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    let value = f16_to_f32(v[0] as u32);
    u64::from(canon32(if mode.saturate {
        super::float::saturate32(value)
    } else {
        value
    }))
}

pub(crate) fn bf16_to_f32_lane(v: [u64; 4]) -> u64 {
    u64::from(canon32(bf16_to_f32(v[0] as u32)))
}

pub(crate) fn f16_to_f64_lane(v: [u64; 4]) -> u64 {
    super::float::canon64(f64::from(f16_to_f32(v[0] as u32)))
}

pub(crate) fn bf16_to_f64_lane(v: [u64; 4]) -> u64 {
    super::float::canon64(f64::from(bf16_to_f32(v[0] as u32)))
}

fn single_in(lane: u64, mode: Mode) -> f64 {
    let value = f32_of(lane);
    f64::from(if mode.flush { flush32(value) } else { value })
}

pub(crate) fn f32_to_f16_lane(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    u64::from(finish::<Half>(
        single_in(v[0], mode),
        Mode {
            flush: false,
            ..mode
        },
    ))
}

pub(crate) fn f32_to_bf16_lane(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    u64::from(finish::<Brain>(
        single_in(v[0], mode),
        Mode {
            flush: false,
            ..mode
        },
    ))
}

pub(crate) fn f64_to_f16_lane(v: [u64; 4]) -> u64 {
    u64::from(narrow(f64::from_bits(v[0]), &F16, Mode::unpack(v[3])))
}

pub(crate) fn f64_to_bf16_lane(v: [u64; 4]) -> u64 {
    u64::from(narrow(f64::from_bits(v[0]), &BF16, Mode::unpack(v[3])))
}

/// Two singles to a packed pair: a in the upper half.
pub(crate) fn f32_pair_to_f16x2_lane(v: [u64; 4]) -> u64 {
    f32_to_f16_lane(v) << 16 | f32_to_f16_lane([v[1], 0, 0, v[3]])
}

pub(crate) fn f32_pair_to_bf16x2_lane(v: [u64; 4]) -> u64 {
    f32_to_bf16_lane(v) << 16 | f32_to_bf16_lane([v[1], 0, 0, v[3]])
}

fn pair_to_8(v: [u64; 4], format: &Format) -> u64 {
    let mode = Mode::unpack(v[3]);
    let one = |lane| u64::from(narrow(f64::from(f32_of(lane)), format, mode));
    one(v[0]) << 8 | one(v[1])
}

pub(crate) fn f32_pair_to_e4m3_lane(v: [u64; 4]) -> u64 {
    pair_to_8(v, &E4M3)
}

pub(crate) fn f32_pair_to_e5m2_lane(v: [u64; 4]) -> u64 {
    pair_to_8(v, &E5M2)
}

fn halves_to_8(v: [u64; 4], format: &Format) -> u64 {
    let mode = Mode::unpack(v[3]);
    let one = |bits: u64| {
        u64::from(narrow(
            f64::from(f16_to_f32((bits & 0xffff) as u32)),
            format,
            mode,
        ))
    };
    one(v[0] >> 16) << 8 | one(v[0])
}

pub(crate) fn f16x2_to_e4m3_lane(v: [u64; 4]) -> u64 {
    halves_to_8(v, &E4M3)
}

pub(crate) fn f16x2_to_e5m2_lane(v: [u64; 4]) -> u64 {
    halves_to_8(v, &E5M2)
}

fn pair_from_8(v: [u64; 4], format: &Format) -> u64 {
    let mode = Mode::unpack(v[3]);
    let one = |bits: u64| u64::from(narrow(widen((bits & 0xff) as u32, format), &F16, mode));
    one(v[0] >> 8) << 16 | one(v[0])
}

pub(crate) fn e4m3_to_f16x2_lane(v: [u64; 4]) -> u64 {
    pair_from_8(v, &E4M3)
}

pub(crate) fn e5m2_to_f16x2_lane(v: [u64; 4]) -> u64 {
    pair_from_8(v, &E5M2)
}

pub(crate) fn f32_to_tf32_lane(v: [u64; 4]) -> u64 {
    u64::from(narrow(f64::from(f32_of(v[0])), &TF32, Mode::unpack(v[3]))) << 13
}

/// `cvt.rni.f16.f16` and the like.
pub(crate) fn integral_h(v: [u64; 4]) -> u64 {
    let single = u64::from(f16_to_f32(v[0] as u32).to_bits());
    u64::from(f32_to_f16(f32_of(super::float::integral32([
        single, 0, 0, v[3],
    ]))))
}

pub(crate) fn integral_b(v: [u64; 4]) -> u64 {
    let single = u64::from(bf16_to_f32(v[0] as u32).to_bits());
    u64::from(f32_to_bf16(f32_of(super::float::integral32([
        single, 0, 0, v[3],
    ]))))
}

/// Compares packed pairs. `v[3]`: the bits of truth, the comparison from bit 16, bfloat16 at bit 32.
pub(crate) fn set_pair(v: [u64; 4]) -> u64 {
    let (truth, compare, brain) = (v[3] & 0xffff, v[3] >> 16 & 0xffff, v[3] >> 32 & 1 == 1);
    let value = |bits: u64| {
        if brain {
            bf16_to_f32(bits as u32 & 0xffff)
        } else {
            f16_to_f32(bits as u32 & 0xffff)
        }
    };
    (0..2).fold(0, |word, half| {
        let (a, b) = (value(v[0] >> (16 * half)), value(v[1] >> (16 * half)));
        let unordered = a.is_nan() || b.is_nan();
        // In the order of `Compare`.
        let holds = [
            a == b,
            a != b,
            a < b,
            a <= b,
            a > b,
            a >= b,
            unordered || a == b,
            a != b,
            unordered || a < b,
            unordered || a <= b,
            unordered || a > b,
            unordered || a >= b,
            !unordered,
            unordered,
        ];
        if holds.get(compare as usize).copied().unwrap_or(false) {
            word | truth << (16 * half)
        } else {
            word
        }
    })
}
