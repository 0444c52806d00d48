//! Loops over the 32 lanes of slots, which the compiler vectorises for the instruction set of the surrounding function.

use super::warp::{FULL, Lanes32, Lanes64};
use crate::simd::VectorOps;

/// All ones in the lanes of a mask.
#[inline(always)]
fn spread32(mask: u32) -> [u32; 32] {
    let mut bits = [0; 32];
    for (lane, bits) in bits.iter_mut().enumerate() {
        *bits = 0u32.wrapping_sub(mask >> lane & 1);
    }
    bits
}

#[inline(always)]
fn spread64(mask: u32) -> [u64; 32] {
    let mut bits = [0; 32];
    for (lane, bits) in bits.iter_mut().enumerate() {
        *bits = 0u64.wrapping_sub(u64::from(mask >> lane & 1));
    }
    bits
}

/// Replaces the lanes of a mask.
#[inline(always)]
pub(crate) fn blend32(d: &mut [u32; 32], mask: u32, values: &[u32; 32]) {
    let bits = spread32(mask);
    for lane in 0..32 {
        d[lane] = (values[lane] & bits[lane]) | (d[lane] & !bits[lane]);
    }
}

#[inline(always)]
pub(crate) fn blend64(d: &mut [u64; 32], mask: u32, values: &[u64; 32]) {
    let bits = spread64(mask);
    for lane in 0..32 {
        d[lane] = (values[lane] & bits[lane]) | (d[lane] & !bits[lane]);
    }
}

/// Writes the lanes of a mask.
#[inline(always)]
pub(crate) fn put32(d: &mut Lanes32, mask: u32, values: &[u32; 32]) {
    if mask == FULL {
        d.0 = *values;
    } else {
        blend32(&mut d.0, mask, values);
    }
}

#[inline(always)]
pub(crate) fn put64(d: &mut Lanes64, mask: u32, values: &[u64; 32]) {
    if mask == FULL {
        d.0 = *values;
    } else {
        blend64(&mut d.0, mask, values);
    }
}

/// The same with [`VectorOps`] of the instruction set.
#[inline(always)]
pub(crate) fn merge32<F: VectorOps>(d: &mut Lanes32, mask: u32, values: &[u32; 32]) {
    if mask == FULL {
        d.0 = *values;
    } else {
        F::merge(&mut d.0, mask, values);
    }
}

#[inline(always)]
pub(crate) fn merge64<F: VectorOps>(d: &mut Lanes64, mask: u32, values: &[u64; 32]) {
    if mask == FULL {
        d.0 = *values;
    } else {
        F::merge_wide(&mut d.0, mask, values);
    }
}

macro_rules! map {
    ($($name:ident $d:ident $dt:ty, $put:ident: $($arg:ident $file:ty, $ft:ty),*;)*) => {$(
        /// Applies a function to each lane of the mask.
        #[inline(always)]
        pub(crate) fn $name<F: VectorOps>(
            d: &mut $d,
            mask: u32,
            $($arg: &$file,)*
            f: impl Fn($($ft),*) -> $dt,
        ) {
            if mask == FULL {
                for lane in 0..32 {
                    d.0[lane] = f($($arg.0[lane]),*);
                }
            } else {
                let mut values = [0; 32];
                for lane in 0..32 {
                    values[lane] = f($($arg.0[lane]),*);
                }
                $put::<F>(d, mask, &values);
            }
        }
    )*};
}

map! {
    map1_32 Lanes32 u32, merge32: a Lanes32, u32;
    map2_32 Lanes32 u32, merge32: a Lanes32, u32, b Lanes32, u32;
    map3_32 Lanes32 u32, merge32: a Lanes32, u32, b Lanes32, u32, c Lanes32, u32;
    map1_64 Lanes64 u64, merge64: a Lanes64, u64;
    map2_64 Lanes64 u64, merge64: a Lanes64, u64, b Lanes64, u64;
    map3_64 Lanes64 u64, merge64: a Lanes64, u64, b Lanes64, u64, c Lanes64, u64;
    shift_64 Lanes64 u64, merge64: a Lanes64, u64, b Lanes32, u32;
    widen1 Lanes64 u64, merge64: a Lanes32, u32;
    widen2 Lanes64 u64, merge64: a Lanes32, u32, b Lanes32, u32;
    widen3 Lanes64 u64, merge64: a Lanes32, u32, b Lanes32, u32, c Lanes64, u64;
    narrow1 Lanes32 u32, merge32: a Lanes64, u64;
}

/// A bit per lane for which the function holds.
#[inline(always)]
pub(crate) fn compare32(a: &Lanes32, b: &Lanes32, f: impl Fn(u32, u32) -> bool) -> u32 {
    let mut bits = 0;
    for lane in 0..32 {
        bits |= u32::from(f(a.0[lane], b.0[lane])) << lane;
    }
    bits
}

#[inline(always)]
pub(crate) fn compare64(a: &Lanes64, b: &Lanes64, f: impl Fn(u64, u64) -> bool) -> u32 {
    let mut bits = 0;
    for lane in 0..32 {
        bits |= u32::from(f(a.0[lane], b.0[lane])) << lane;
    }
    bits
}

/// Picks a where the bit is set, b elsewhere.
#[inline(always)]
pub(crate) fn select32<F: VectorOps>(
    d: &mut Lanes32,
    mask: u32,
    a: &Lanes32,
    b: &Lanes32,
    choice: u32,
) {
    let bits = spread32(choice);
    let mut values = [0; 32];
    for lane in 0..32 {
        values[lane] = (a.0[lane] & bits[lane]) | (b.0[lane] & !bits[lane]);
    }
    merge32::<F>(d, mask, &values);
}

#[inline(always)]
pub(crate) fn select64<F: VectorOps>(
    d: &mut Lanes64,
    mask: u32,
    a: &Lanes64,
    b: &Lanes64,
    choice: u32,
) {
    let bits = spread64(choice);
    let mut values = [0; 32];
    for lane in 0..32 {
        values[lane] = (a.0[lane] & bits[lane]) | (b.0[lane] & !bits[lane]);
    }
    merge64::<F>(d, mask, &values);
}
