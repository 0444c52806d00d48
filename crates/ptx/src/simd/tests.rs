//! Every form against its definition.

use std::sync::atomic::AtomicU32;

use super::avx2::Avx2;
use super::avx512::Avx512;
use super::ops::Portable;
use super::{Factor, Isa, Pair, Slot, VectorOps};

/// Bits of halves that decide something: zeros, subnormals, ties, the largest, infinities, NaNs with payloads.
const EDGES: [u32; 24] = [
    0x0000, 0x0001, 0x0002, 0x0003, 0x03ff, 0x0400, 0x0401, 0x1400, 0x1401, 0x2c00, 0x3555, 0x3bff,
    0x3c00, 0x3c01, 0x4200, 0x57ff, 0x6400, 0x7800, 0x7bfe, 0x7bff, 0x7c00, 0x7c01, 0x7e00, 0x7fff,
];

/// A small generator.
fn next(state: &mut u64) -> u32 {
    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
    (*state >> 32) as u32
}

/// A half: an edge of either sign, or any bits.
fn half_bits(state: &mut u64) -> u32 {
    let choice = next(state);
    match choice % 4 {
        0 => next(state) & 0xffff,
        // Near one, where products and sums tie.
        1 => 0x3800 | next(state) & 0x83ff,
        _ => EDGES[(choice >> 8) as usize % EDGES.len()] | choice >> 31 << 15,
    }
}

fn slot(state: &mut u64, mut value: impl FnMut(&mut u64) -> u32) -> Slot {
    let mut slot = [0; 32];
    for lane in &mut slot {
        *lane = value(state);
    }
    slot
}

fn packed(state: &mut u64) -> u32 {
    half_bits(state) | half_bits(state) << 16
}

/// Calls a test with every set of forms that this processor can execute.
macro_rules! with_each_set {
    ($test:ident) => {
        if Isa::Avx2.is_available() {
            $test::<Avx2>();
        }
        if Isa::Avx512.is_available() {
            $test::<Avx512>();
        }
    };
}

#[test]
fn conversions_are_the_definitions() {
    with_each_set!(conversions);
}

fn conversions<F: VectorOps>() {
    for first in (0..0x1_0000).step_by(32) {
        let bits: Slot = std::array::from_fn(|lane| first + lane as u32);
        assert_eq!(F::widen(&bits), Portable::widen(&bits), "{first:#x}");
        // All halves as singles, those between two halves, and their neighbours.
        for shift in [0, 1, 0x0fff, 0x1000, 0x1001] {
            let mut singles = Portable::widen(&bits);
            for single in &mut singles {
                *single = single.wrapping_add(shift);
            }
            let expected = Portable::narrow(&singles);
            assert_eq!(F::narrow(&singles), expected, "{first:#x} {shift:#x}");
        }
    }
    let mut state = 1;
    for _ in 0..20_000 {
        let singles = slot(&mut state, next);
        assert_eq!(F::narrow(&singles), Portable::narrow(&singles));
    }
}

#[test]
fn arithmetic_on_halves_is_the_definition() {
    with_each_set!(arithmetic);
}

fn arithmetic<F: VectorOps>() {
    let mut state = 2;
    for _ in 0..20_000 {
        let [a, b, c] = std::array::from_fn(|_| slot(&mut state, packed));
        let expected = Portable::halves_fma(&a, &b, &c);
        assert_eq!(F::halves_fma(&a, &b, &c), expected, "{a:x?} {b:x?} {c:x?}");
        for pair in [Pair::Add, Pair::Sub, Pair::Mul, Pair::Min, Pair::Max] {
            let expected = Portable::halves(pair, &a, &b);
            assert_eq!(F::halves(pair, &a, &b), expected, "{pair:?} {a:x?} {b:x?}");
        }
        let [a, b, c] = [a, b, c].map(|slot| slot.map(|bits| bits & 0xffff));
        assert_eq!(F::half_fma(&a, &b, &c), Portable::half_fma(&a, &b, &c));
        for pair in [Pair::Add, Pair::Sub, Pair::Mul, Pair::Min, Pair::Max] {
            assert_eq!(F::half(pair, &a, &b), Portable::half(pair, &a, &b));
        }
    }
}

/// Bits of singles that decide something.
const SINGLES: [u32; 16] = [
    0x0000_0000,
    0x0000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x0080_0001,
    0x3380_0000,
    0x3f7f_ffff,
    0x3f80_0000,
    0x3f80_0001,
    0x4b40_007f,
    0x7f7f_ffff,
    0x7f80_0000,
    0x7f80_0001,
    0x7fc0_0000,
    0x437c_0000,
    0x3fb8_aa3b,
];

#[test]
fn rounding_down_is_the_definition() {
    with_each_set!(rounded_down);
}

fn rounded_down<F: VectorOps>() {
    let mut state = 5;
    let mut single = |state: &mut u64| {
        let choice = next(state);
        match choice % 4 {
            0 => next(state),
            // Near one, of either sign, where sums cancel.
            1 => 0x3f00_0000 | next(state) & 0x80ff_ffff,
            _ => SINGLES[(choice >> 8) as usize % SINGLES.len()] ^ (choice & 1 << 31),
        }
    };
    for _ in 0..20_000 {
        let [a, b, mut c] = std::array::from_fn(|_| slot(&mut state, &mut single));
        // Some sums cancel exactly.
        for lane in (0..32).step_by(5) {
            c[lane] = (-f32::from_bits(a[lane]) * f32::from_bits(b[lane])).to_bits();
        }
        let expected = Portable::fma_down(&a, &b, &c);
        assert_eq!(F::fma_down(&a, &b, &c), expected, "{a:x?} {b:x?} {c:x?}");
    }
    // The next sum rounds to nearest again.
    let third = std::hint::black_box(1.0_f32) / std::hint::black_box(3.0_f32);
    assert_eq!(third.to_bits(), 0x3eaa_aaab);
}

#[test]
fn products_are_the_definition() {
    with_each_set!(products);
}

fn products<F: VectorOps>() {
    let mut state = 3;
    for round in 0..500 {
        let a: [Slot; 4] = std::array::from_fn(|_| slot(&mut state, packed));
        let b: [Slot; 2] = std::array::from_fn(|_| slot(&mut state, packed));
        let c: [Slot; 4] = std::array::from_fn(|_| slot(&mut state, next));
        // Without specials most sums are numbers; with them all paths to NaN are taken.
        let tame = |slot: &Slot| slot.map(|bits| bits & 0xbbff_bbff);
        let (a, b) = if round % 2 == 0 {
            (a.each_ref().map(tame), b.each_ref().map(tame))
        } else {
            (a, b)
        };
        for factor in [Factor::F16, Factor::Bf16] {
            let (a, b, c) = (a.each_ref(), b.each_ref(), c.each_ref());
            let expected = Portable::tile(factor, a, b, c);
            assert_eq!(F::tile(factor, a, b, c), expected, "{factor:?}");
        }
    }
}

#[test]
fn words_keep_their_places() {
    with_each_set!(places);
}

fn places<F: VectorOps>() {
    let rows: [[u32; 4]; 8] =
        std::array::from_fn(|row| std::array::from_fn(|word| (10 * row + word) as u32));
    assert_eq!(F::columns(&rows), Portable::columns(&rows));
    assert_eq!(F::rows(&F::columns(&rows)), rows);
    let columns: [[u32; 8]; 4] =
        std::array::from_fn(|word| std::array::from_fn(|row| (row << 20 | word) as u32 + 0x1_0000));
    assert_eq!(F::transposed(&columns), Portable::transposed(&columns));
    let lanes: Slot = std::array::from_fn(|lane| 100 + lane as u32);
    for across in 0..32 {
        assert_eq!(
            F::shuffle_xor(&lanes, across),
            Portable::shuffle_xor(&lanes, across)
        );
    }
    let words: [AtomicU32; 13] = std::array::from_fn(|word| AtomicU32::new(word as u32));
    assert_eq!(F::read(&words), Portable::read(&words));
    let others: [u32; 13] = std::array::from_fn(|word| 100 + word as u32);
    F::write(&words, &others);
    assert_eq!(Portable::read(&words), others);
}

#[test]
fn lanes_that_sit_out_keep_their_values() {
    with_each_set!(merged);
}

fn merged<F: VectorOps>() {
    let mut state = 4;
    for _ in 0..100 {
        let mask = next(&mut state);
        let [old, new] = std::array::from_fn(|_| slot(&mut state, next));
        let mut merged = old;
        F::merge(&mut merged, mask, &new);
        let [old_wide, new_wide] = [old, new].map(|slot| slot.map(|word| u64::from(word) << 20));
        let mut wide = old_wide;
        F::merge_wide(&mut wide, mask, &new_wide);
        for lane in 0..32 {
            let takes_part = mask >> lane & 1 == 1;
            let expected = if takes_part { new[lane] } else { old[lane] };
            assert_eq!(merged[lane], expected, "{lane} of {mask:#x}");
            assert_eq!(wide[lane], u64::from(expected) << 20, "{lane} of {mask:#x}");
        }
    }
}
