//! Every form against its definition.

use super::super::Isa;
use super::super::forms::Portable;
use super::*;

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

fn here() -> bool {
    Isa::detect() == Isa::Avx2
}

#[test]
fn conversions_are_the_definitions() {
    if !here() {
        return;
    }
    for first in (0..0x1_0000).step_by(32) {
        let bits: Slot = std::array::from_fn(|lane| first + lane as u32);
        assert_eq!(Avx2::widen(&bits), Portable::widen(&bits), "{first:#x}");
        // All halves as singles, those between two halves, and their neighbours.
        for shift in [0, 1, 0x0fff, 0x1000, 0x1001] {
            let mut singles = Portable::widen(&bits);
            for single in &mut singles {
                *single = single.wrapping_add(shift);
            }
            let expected = Portable::narrow(&singles);
            assert_eq!(Avx2::narrow(&singles), expected, "{first:#x} {shift:#x}");
        }
    }
    let mut state = 1;
    for _ in 0..20_000 {
        let singles = slot(&mut state, next);
        assert_eq!(Avx2::narrow(&singles), Portable::narrow(&singles));
    }
}

#[test]
fn arithmetic_on_halves_is_the_definition() {
    if !here() {
        return;
    }
    let mut state = 2;
    for _ in 0..20_000 {
        let [a, b, c] = std::array::from_fn(|_| slot(&mut state, packed));
        let expected = Portable::halves_fma(&a, &b, &c);
        assert_eq!(
            Avx2::halves_fma(&a, &b, &c),
            expected,
            "{a:x?} {b:x?} {c:x?}"
        );
        for pair in [Pair::Add, Pair::Sub, Pair::Mul, Pair::Min, Pair::Max] {
            let expected = Portable::halves(pair, &a, &b);
            assert_eq!(
                Avx2::halves(pair, &a, &b),
                expected,
                "{pair:?} {a:x?} {b:x?}"
            );
        }
        let [a, b, c] = [a, b, c].map(|slot| slot.map(|bits| bits & 0xffff));
        assert_eq!(Avx2::half_fma(&a, &b, &c), Portable::half_fma(&a, &b, &c));
        for pair in [Pair::Add, Pair::Sub, Pair::Mul, Pair::Min, Pair::Max] {
            assert_eq!(Avx2::half(pair, &a, &b), Portable::half(pair, &a, &b));
        }
    }
}

#[test]
fn products_are_the_definition() {
    if !here() {
        return;
    }
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
            assert_eq!(Avx2::tile(factor, a, b, c), expected, "{factor:?}");
        }
    }
}

#[test]
fn words_keep_their_places() {
    if !here() {
        return;
    }
    let rows: [[u32; 4]; 8] =
        std::array::from_fn(|row| std::array::from_fn(|word| (10 * row + word) as u32));
    assert_eq!(Avx2::columns(&rows), Portable::columns(&rows));
    assert_eq!(Avx2::rows(&Avx2::columns(&rows)), rows);
    let words: [AtomicU32; 13] = std::array::from_fn(|word| AtomicU32::new(word as u32));
    assert_eq!(Avx2::read(&words), Portable::read(&words));
    let others: [u32; 13] = std::array::from_fn(|word| 100 + word as u32);
    Avx2::write(&words, &others);
    assert_eq!(Portable::read(&words), others);
}
