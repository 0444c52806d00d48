//! Conversions between singles, doubles and integers, and rounding to integral values.

use super::{operand32, result32, result64, round32, round64, to_odd};
use crate::numeric::{Mode, Rounding};

/// A double to the integer nearest in the direction, as a double.
fn integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
        Rounding::Away => value.round(),
    }
}

/// To an integer of `bits` bits; out of range clamps. NaN gives the top bit if either side has 64 bits, else 0.
fn to_integer(value: f64, double: bool, bits: u32, signed: bool, rounding: Rounding) -> u64 {
    if value.is_nan() {
        return if double || bits == 64 {
            1 << (bits - 1)
        } else {
            0
        };
    }
    let value = integral(value, rounding);
    // `as` clamps to 64 bits.
    if signed {
        let top = i64::MAX >> (64 - bits);
        (value as i64).clamp(-top - 1, top) as u64 & (u64::MAX >> (64 - bits))
    } else {
        (value as u64).min(u64::MAX >> (64 - bits))
    }
}

macro_rules! to_integers {
    ($($from32:ident, $from64:ident: $bits:literal, $signed:literal;)*) => {$(
        pub(crate) fn $from32(v: [u64; 4]) -> u64 {
            let mode = Mode::unpack(v[3]);
            to_integer(f64::from(operand32(v[0], mode)), false, $bits, $signed, mode.rounding)
        }

        pub(crate) fn $from64(v: [u64; 4]) -> u64 {
            to_integer(f64::from_bits(v[0]), true, $bits, $signed, Mode::unpack(v[3]).rounding)
        }
    )*};
}

to_integers! {
    f32_to_u8, f64_to_u8: 8, false;
    f32_to_s8, f64_to_s8: 8, true;
    f32_to_u16, f64_to_u16: 16, false;
    f32_to_s16, f64_to_s16: 16, true;
    f32_to_u32, f64_to_u32: 32, false;
    f32_to_s32, f64_to_s32: 32, true;
    f32_to_u64, f64_to_u64: 64, false;
    f32_to_s64, f64_to_s64: 64, true;
}

/// A 64-bit integer to a single: through a double rounded to odd, which no such integer needs more than once.
fn long_to_32(value: i128, mode: Mode) -> u64 {
    let near = value as f64;
    let error = value - near as i128;
    result32(round32(to_odd(near, error as f64), mode.rounding), mode)
}

fn long_to_64(value: i128, mode: Mode) -> u64 {
    let near = value as f64;
    let error = value - near as i128;
    result64(round64(near, error as f64, mode.rounding), mode)
}

macro_rules! from_integers {
    ($($to32:ident, $to64:ident: $ty:ty;)*) => {$(
        pub(crate) fn $to32(v: [u64; 4]) -> u64 {
            let mode = Mode::unpack(v[3]);
            result32(round32(f64::from(v[0] as $ty), mode.rounding), mode)
        }

        pub(crate) fn $to64(v: [u64; 4]) -> u64 {
            result64(f64::from(v[0] as $ty), Mode::unpack(v[3]))
        }
    )*};
}

// A double holds these exactly.
from_integers! {
    u8_to_f32, u8_to_f64: u8;
    s8_to_f32, s8_to_f64: i8;
    u16_to_f32, u16_to_f64: u16;
    s16_to_f32, s16_to_f64: i16;
    u32_to_f32, u32_to_f64: u32;
    s32_to_f32, s32_to_f64: i32;
}

macro_rules! from_long_integers {
    ($($to32:ident, $to64:ident: $ty:ty;)*) => {$(
        pub(crate) fn $to32(v: [u64; 4]) -> u64 {
            long_to_32(i128::from(v[0] as $ty), Mode::unpack(v[3]))
        }

        pub(crate) fn $to64(v: [u64; 4]) -> u64 {
            long_to_64(i128::from(v[0] as $ty), Mode::unpack(v[3]))
        }
    )*};
}

from_long_integers! {
    u64_to_f32, u64_to_f64: u64;
    s64_to_f32, s64_to_f64: i64;
}

pub(crate) fn f32_to_f64(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    result64(f64::from(operand32(v[0], mode)), mode)
}

pub(crate) fn f64_to_f32(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    result32(round32(f64::from_bits(v[0]), mode.rounding), mode)
}

/// `cvt.f32.f32` without an integer rounding: flush and saturate only.
pub(crate) fn f32_to_f32(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    result32(operand32(v[0], mode), mode)
}

pub(crate) fn f64_to_f64(v: [u64; 4]) -> u64 {
    result64(f64::from_bits(v[0]), Mode::unpack(v[3]))
}

/// `cvt.rni.f32.f32` and the like: to an integral value.
pub(crate) fn integral32(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    let value = operand32(v[0], mode);
    result32(
        (integral(f64::from(value), mode.rounding) as f32).copysign(value),
        mode,
    )
}

pub(crate) fn integral64(v: [u64; 4]) -> u64 {
    let mode = Mode::unpack(v[3]);
    let value = f64::from_bits(v[0]);
    result64(integral(value, mode.rounding).copysign(value), mode)
}
