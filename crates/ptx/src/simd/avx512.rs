//! The operations of [`VectorOps`] for AVX-512 (F, BW, DQ and VL) beside what AVX2 has.
//!
//! Lanes that sit out are a mask of the instruction itself, conversions of halves take sixteen at a time, and a tile's
//! product keeps a column of sixteen sums in one vector. What moves rows of eight words is AVX2's. Its bits are those
//! of the definitions, as everywhere.

use std::arch::x86_64::{
    __m512, __m512i, _CMP_EQ_OQ, _CMP_GT_OQ, _CMP_LT_OQ, _CMP_NEQ_OQ, _CMP_UNORD_Q,
    _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _MM_FROUND_TO_NEG_INF, _mm512_abs_ps,
    _mm512_add_epi32, _mm512_add_ps, _mm512_and_ps, _mm512_and_si512, _mm512_castps_si512,
    _mm512_castsi512_ps, _mm512_cmp_ps_mask, _mm512_cmpeq_epi32_mask, _mm512_cvtepi32_epi16,
    _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_cvtps_ph, _mm512_fmadd_ps,
    _mm512_fmadd_round_ps, _mm512_loadu_si512, _mm512_mask_add_epi32, _mm512_mask_mov_ps,
    _mm512_mask_storeu_epi32, _mm512_mask_storeu_epi64, _mm512_max_ps, _mm512_min_ps,
    _mm512_mul_ps, _mm512_or_ps, _mm512_or_si512, _mm512_permutex2var_epi32,
    _mm512_permutex2var_epi64, _mm512_permutexvar_epi32, _mm512_set1_epi32, _mm512_set1_ps,
    _mm512_setr_epi32, _mm512_setr_epi64, _mm512_setzero_ps, _mm512_setzero_si512,
    _mm512_shuffle_i64x2, _mm512_slli_epi32, _mm512_srli_epi32, _mm512_storeu_si512, _mm512_sub_ps,
    _mm512_test_epi32_mask, _mm512_xor_si512,
};
use std::sync::atomic::AtomicU32;

use super::avx2::Avx2;
use super::ops::{Factor, Pair, Slot, VectorOps};
use crate::machine::access::fast_path::{self, AccessSite};
use crate::machine::access::{self, AccessKind};
use crate::machine::block::Shared;
use crate::machine::exec::{Exec, Fatal};
use crate::machine::interpret::Stop;
use crate::machine::warp::Warp;
use crate::machine::{full_warp, run_end};
use crate::numeric::float::NAN32;

/// The set. Only [`super::run`] names it, once the processor was asked.
pub(super) struct Avx512;

macro_rules! ask {
    ($call:expr) => {{
        // SAFETY: the type is only named where the processor has been asked for these instructions.
        unsafe { $call }
    }};
}

impl VectorOps for Avx512 {
    #[inline(always)]
    fn run_full_warp(
        exec: &mut Exec<'_>,
        block: &mut Shared,
        warp: &mut Warp,
        left: &mut u64,
    ) -> Option<Stop> {
        ask!(run_full_warp(exec, block, warp, left))
    }

    #[inline(always)]
    fn access_fast(
        exec: &mut Exec<'_>,
        block: &mut Shared,
        warp: &mut Warp,
        access_kind: AccessKind,
        mask: u32,
        at: AccessSite,
    ) -> bool {
        ask!(access_fast(exec, block, warp, access_kind, mask, at))
    }

    #[inline(always)]
    fn access(
        exec: &mut Exec<'_>,
        block: &mut Shared,
        warp: &mut Warp,
        access_kind: AccessKind,
        mask: u32,
        at: AccessSite,
    ) -> Result<(), Fatal> {
        ask!(access(exec, block, warp, access_kind, mask, at))
    }

    #[inline(always)]
    fn tensor(exec: &mut Exec<'_>, block: &mut Shared, warp: &mut Warp, x: usize, pc: u32) -> bool {
        ask!(tensor(exec, block, warp, x, pc))
    }

    #[inline(always)]
    fn merge(d: &mut Slot, mask: u32, values: &Slot) {
        ask!(merge(d, mask, values));
    }

    #[inline(always)]
    fn merge_wide(d: &mut [u64; 32], mask: u32, values: &[u64; 32]) {
        ask!(merge_wide(d, mask, values));
    }

    #[inline(always)]
    fn shuffle_xor(values: &Slot, across: usize) -> Slot {
        ask!(shuffle_xor(values, across))
    }

    #[inline(always)]
    fn fma_down(a: &Slot, b: &Slot, c: &Slot) -> Slot {
        ask!(fma_down(a, b, c))
    }

    #[inline(always)]
    fn widen(a: &Slot) -> Slot {
        ask!(widen(a))
    }

    #[inline(always)]
    fn narrow(a: &Slot) -> Slot {
        ask!(narrow(a))
    }

    #[inline(always)]
    fn half(pair: Pair, a: &Slot, b: &Slot) -> Slot {
        ask!(half(pair, a, b))
    }

    #[inline(always)]
    fn halves(pair: Pair, a: &Slot, b: &Slot) -> Slot {
        ask!(halves(pair, a, b))
    }

    #[inline(always)]
    fn half_fma(a: &Slot, b: &Slot, c: &Slot) -> Slot {
        ask!(half_fma(a, b, c))
    }

    #[inline(always)]
    fn halves_fma(a: &Slot, b: &Slot, c: &Slot) -> Slot {
        ask!(halves_fma(a, b, c))
    }

    #[inline(always)]
    fn tile(factor: Factor, a: [&Slot; 4], b: [&Slot; 2], c: [&Slot; 4]) -> [Slot; 4] {
        ask!(tile(factor, a, b, c))
    }

    #[inline(always)]
    fn columns(rows: &[[u32; 4]; 8]) -> [[u32; 8]; 4] {
        Avx2::columns(rows)
    }

    #[inline(always)]
    fn rows(columns: &[[u32; 8]; 4]) -> [[u32; 4]; 8] {
        Avx2::rows(columns)
    }

    #[inline(always)]
    fn transposed(columns: &[[u32; 8]; 4]) -> Slot {
        Avx2::transposed(columns)
    }

    #[inline(always)]
    fn read<const N: usize>(words: &[AtomicU32; N]) -> [u32; N] {
        Avx2::read(words)
    }

    #[inline(always)]
    fn write<const N: usize>(words: &[AtomicU32; N], values: &[u32; N]) {
        Avx2::write(words, values);
    }
}

/// Declares a function compiled for the set; `whole` ones are called, the others become part of their callers.
macro_rules! for_set {
    ($(#[doc = $doc:literal])* whole fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[doc = $doc])*
        #[target_feature(
            enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt"
        )]
        #[inline(never)]
        fn $name($($arg: $ty),*) $(-> $out)? $body
    };
    ($(#[doc = $doc:literal])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[doc = $doc])*
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
        #[inline]
        fn $name($($arg: $ty),*) $(-> $out)? $body
    };
}

for_set! {
    whole fn run_full_warp(exec: &mut Exec<'_>, block: &mut Shared, warp: &mut Warp, left: &mut u64) -> Option<Stop> {
        full_warp::run::<Avx512>(exec, block, warp, left)
    }
}

for_set! {
    whole fn access_fast(exec: &mut Exec<'_>, block: &mut Shared, warp: &mut Warp, access_kind: AccessKind, mask: u32, at: AccessSite) -> bool {
        fast_path::access::<Avx512>(exec, block, warp, access_kind, mask, at)
    }
}

for_set! {
    whole fn access(
        exec: &mut Exec<'_>,
        block: &mut Shared,
        warp: &mut Warp,
        access_kind: AccessKind,
        mask: u32,
        at: AccessSite,
    ) -> Result<(), Fatal> {
        access::instruction(exec, block, warp, access_kind, mask, at)
    }
}

for_set! {
    whole fn tensor(exec: &mut Exec<'_>, block: &mut Shared, warp: &mut Warp, x: usize, pc: u32) -> bool {
        run_end::tensor_fast::<Avx512>(exec, block, warp, x, pc)
    }
}

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

for_set! {
    /// Half of a slot: its lanes 0 to 15, or 16 to 31.
    fn sixteen(slot: &Slot, half: usize) -> __m512i {
        let words: &[u32; 16] = &slot.as_chunks::<16>().0[half];
        // SAFETY: sixteen words are 64 bytes.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }
}

for_set! {
    fn put_sixteen(slot: &mut Slot, half: usize, value: __m512i) {
        let words: &mut [u32; 16] = &mut slot.as_chunks_mut::<16>().0[half];
        // SAFETY: sixteen words are 64 bytes.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), value) }
    }
}

for_set! {
    fn merge(d: &mut Slot, mask: u32, values: &Slot) {
        for half in 0..2 {
            let lanes = (mask >> (16 * half)) as u16;
            let words: &mut [u32; 16] = &mut d.as_chunks_mut::<16>().0[half];
            // SAFETY: sixteen words are 64 bytes, of which those of the mask are written.
            unsafe { _mm512_mask_storeu_epi32(words.as_mut_ptr().cast(), lanes, sixteen(values, half)) }
        }
    }
}

for_set! {
    fn merge_wide(d: &mut [u64; 32], mask: u32, values: &[u64; 32]) {
        let (to, from) = (d.as_chunks_mut::<8>().0, values.as_chunks::<8>().0);
        for (number, (to, from)) in to.iter_mut().zip(from).enumerate() {
            let lanes = (mask >> (8 * number)) as u8;
            // SAFETY: eight values are 64 bytes, of which those of the mask are written.
            unsafe {
                let value = _mm512_loadu_si512(from.as_ptr().cast());
                _mm512_mask_storeu_epi64(to.as_mut_ptr().cast(), lanes, value);
            }
        }
    }
}

for_set! {
    /// NaN of any kind to the one that results have.
    fn canonical(value: __m512) -> __m512 {
        let nan = _mm512_castsi512_ps(_mm512_set1_epi32(NAN32 as i32));
        _mm512_mask_mov_ps(value, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value), nan)
    }
}

for_set! {
    fn shuffle_xor(values: &Slot, across: usize) -> Slot {
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let inside = _mm512_xor_si512(lanes, _mm512_set1_epi32(across as i32 & 15));
        let mut d = [0; 32];
        for half in 0..2 {
            let from = sixteen(values, half ^ (across >> 4 & 1));
            put_sixteen(&mut d, half, _mm512_permutexvar_epi32(inside, from));
        }
        d
    }
}

for_set! {
    fn fma_down(a: &Slot, b: &Slot, c: &Slot) -> Slot {
        const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
        let mut d = [0; 32];
        for half in 0..2 {
            let [a, b, c] = [sixteen(a, half), sixteen(b, half), sixteen(c, half)];
            let value = _mm512_fmadd_round_ps::<DOWN>(
                _mm512_castsi512_ps(a),
                _mm512_castsi512_ps(b),
                _mm512_castsi512_ps(c),
            );
            put_sixteen(&mut d, half, _mm512_castps_si512(canonical(value)));
        }
        d
    }
}

for_set! {
    /// The lower halves of sixteen words as singles.
    fn lower(words: __m512i) -> __m512 {
        _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words))
    }
}

for_set! {
    fn upper(words: __m512i) -> __m512 {
        lower(_mm512_srli_epi32::<16>(words))
    }
}

for_set! {
    /// Sixteen singles as halves, each in a word.
    fn raised(value: __m512) -> __m512i {
        _mm512_cvtepu16_epi32(_mm512_cvtps_ph::<NEAREST>(canonical(value)))
    }
}

for_set! {
    /// Two halves in a word.
    fn packed(low: __m512i, high: __m512i) -> __m512i {
        _mm512_or_si512(low, _mm512_slli_epi32::<16>(high))
    }
}

for_set! {
    fn widen(a: &Slot) -> Slot {
        let mut d = [0; 32];
        for half in 0..2 {
            put_sixteen(&mut d, half, _mm512_castps_si512(canonical(lower(sixteen(a, half)))));
        }
        d
    }
}

for_set! {
    fn narrow(a: &Slot) -> Slot {
        let mut d = [0; 32];
        for half in 0..2 {
            put_sixteen(&mut d, half, raised(_mm512_castsi512_ps(sixteen(a, half))));
        }
        d
    }
}

for_set! {
    /// Sixteen results of an operation, before rounding to halves: sums and products round innocuously in two steps.
    fn paired(pair: Pair, a: __m512, b: __m512) -> __m512 {
        match pair {
            Pair::Add => _mm512_add_ps(a, b),
            Pair::Sub => _mm512_sub_ps(a, b),
            Pair::Mul => _mm512_mul_ps(a, b),
            // As with AVX2: equal operands differ in the sign of zero only, and a NaN loses.
            Pair::Min => chosen(_mm512_min_ps(a, b), _mm512_or_ps(a, b), a, b),
            Pair::Max => chosen(_mm512_max_ps(a, b), _mm512_and_ps(a, b), a, b),
        }
    }
}

for_set! {
    fn chosen(found: __m512, equal: __m512, a: __m512, b: __m512) -> __m512 {
        let found = _mm512_mask_mov_ps(found, _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b), equal);
        _mm512_mask_mov_ps(found, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(b, b), a)
    }
}

for_set! {
    fn half(pair: Pair, a: &Slot, b: &Slot) -> Slot {
        let mut d = [0; 32];
        for half in 0..2 {
            let (a, b) = (sixteen(a, half), sixteen(b, half));
            put_sixteen(&mut d, half, raised(paired(pair, lower(a), lower(b))));
        }
        d
    }
}

for_set! {
    fn halves(pair: Pair, a: &Slot, b: &Slot) -> Slot {
        let mut d = [0; 32];
        for half in 0..2 {
            let (a, b) = (sixteen(a, half), sixteen(b, half));
            let low = raised(paired(pair, lower(a), lower(b)));
            let high = raised(paired(pair, upper(a), upper(b)));
            put_sixteen(&mut d, half, packed(low, high));
        }
        d
    }
}

for_set! {
    /// a b + c in single precision such that rounding it to a half gives the half nearest to the exact value: AVX2's
    /// way, sixteen at a time.
    fn fused(a: __m512, b: __m512, c: __m512) -> __m512 {
        let sum = _mm512_fmadd_ps(a, b, c);
        let dropped = _mm512_and_si512(_mm512_castps_si512(sum), _mm512_set1_epi32(0x1fff));
        let middle = _mm512_cmpeq_epi32_mask(dropped, _mm512_set1_epi32(0x1000));
        let smallest = _mm512_set1_ps(f32::from_bits(0x3880_0000));
        let small = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(_mm512_abs_ps(sum), smallest)
            & _mm512_cmp_ps_mask::<_CMP_NEQ_OQ>(sum, _mm512_setzero_ps());
        if middle | small == 0 {
            sum
        } else {
            to_odd(_mm512_mul_ps(a, b), c)
        }
    }
}

for_set! {
    /// a + b, rounded to odd: the exact error of the rounded sum says which way an even one must step.
    fn to_odd(a: __m512, b: __m512) -> __m512 {
        let zero = _mm512_setzero_ps();
        let sum = _mm512_add_ps(a, b);
        let from_b = _mm512_sub_ps(sum, a);
        let from_a = _mm512_sub_ps(sum, from_b);
        let error = _mm512_add_ps(_mm512_sub_ps(a, from_a), _mm512_sub_ps(b, from_b));
        let bits = _mm512_castps_si512(sum);
        let even = !_mm512_test_epi32_mask(bits, _mm512_set1_epi32(1));
        let finite = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(_mm512_abs_ps(sum), _mm512_set1_ps(f32::INFINITY));
        let inexact = _mm512_cmp_ps_mask::<_CMP_NEQ_OQ>(error, zero) & finite & even;
        // Where the signs agree the magnitude grows by one unit, elsewhere it shrinks.
        let away = !(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(error, zero) ^ _mm512_cmp_ps_mask::<_CMP_GT_OQ>(sum, zero));
        let shrunk = _mm512_mask_add_epi32(bits, inexact, bits, _mm512_set1_epi32(-1));
        let stepped = _mm512_mask_add_epi32(shrunk, inexact & away, bits, _mm512_set1_epi32(1));
        _mm512_castsi512_ps(stepped)
    }
}

for_set! {
    fn half_fma(a: &Slot, b: &Slot, c: &Slot) -> Slot {
        let mut d = [0; 32];
        for half in 0..2 {
            let (a, b, c) = (sixteen(a, half), sixteen(b, half), sixteen(c, half));
            put_sixteen(&mut d, half, raised(fused(lower(a), lower(b), lower(c))));
        }
        d
    }
}

for_set! {
    fn halves_fma(a: &Slot, b: &Slot, c: &Slot) -> Slot {
        let mut d = [0; 32];
        for half in 0..2 {
            let (a, b, c) = (sixteen(a, half), sixteen(b, half), sixteen(c, half));
            let low = raised(fused(lower(a), lower(b), lower(c)));
            let high = raised(fused(upper(a), upper(b), upper(c)));
            put_sixteen(&mut d, half, packed(low, high));
        }
        d
    }
}

for_set! {
    /// The factors in the lower and in the upper halves of sixteen words, as singles.
    fn factors(factor: Factor, words: __m512i) -> [__m512; 2] {
        match factor {
            Factor::F16 => [lower(words), upper(words)],
            Factor::Bf16 => [
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words)),
                _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(0xffff_0000_u32 as i32))),
            ],
        }
    }
}

for_set! {
    /// Four neighbouring lanes hold four places along one of sixteen rows, eight of them in each slot: one vector for
    /// each place, over all rows.
    fn over_rows(top: &Slot, bottom: &Slot) -> [__m512i; 4] {
        let first = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
        let second = _mm512_add_epi32(first, _mm512_set1_epi32(2));
        let (low, high) = (sixteen(top, 0), sixteen(top, 1));
        let tops = [
            _mm512_permutex2var_epi32(low, first, high),
            _mm512_permutex2var_epi32(low, second, high),
        ];
        let (low, high) = (sixteen(bottom, 0), sixteen(bottom, 1));
        let bottoms = [
            _mm512_permutex2var_epi32(low, first, high),
            _mm512_permutex2var_epi32(low, second, high),
        ];
        [
            _mm512_shuffle_i64x2::<0b01_00_01_00>(tops[0], bottoms[0]),
            _mm512_shuffle_i64x2::<0b11_10_11_10>(tops[0], bottoms[0]),
            _mm512_shuffle_i64x2::<0b01_00_01_00>(tops[1], bottoms[1]),
            _mm512_shuffle_i64x2::<0b11_10_11_10>(tops[1], bottoms[1]),
        ]
    }
}

for_set! {
    /// The way back.
    fn into_slots(places: [__m512i; 4]) -> [Slot; 2] {
        let [a, b, c, d] = places;
        let words = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        let pairs = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
        let eight = _mm512_set1_epi32(8);
        let four = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
        let mut slots = [[0; 32]; 2];
        for (number, slot) in slots.iter_mut().enumerate() {
            let words = if number == 0 { words } else { _mm512_add_epi32(words, eight) };
            let left = _mm512_permutex2var_epi32(a, words, b);
            let right = _mm512_permutex2var_epi32(c, words, d);
            put_sixteen(slot, 0, _mm512_permutex2var_epi64(left, pairs, right));
            put_sixteen(slot, 1, _mm512_permutex2var_epi64(left, four, right));
        }
        slots
    }
}

for_set! {
    /// Each sum runs over k in ascending order, as in the definition.
    fn tile(factor: Factor, a: [&Slot; 4], b: [&Slot; 2], c: [&Slot; 4]) -> [Slot; 4] {
        // A column of A for each k.
        let mut left = [_mm512_setzero_ps(); 16];
        for part in 0..2 {
            let words = over_rows(a[2 * part], a[2 * part + 1]);
            for (pair, words) in words.into_iter().enumerate() {
                let both = factors(factor, words);
                left[8 * part + 2 * pair] = both[0];
                left[8 * part + 2 * pair + 1] = both[1];
            }
        }
        // B as its lanes hold it: by part, half of the word, and lane.
        let mut right = [[[0_u32; 32]; 2]; 2];
        for part in 0..2 {
            for half in 0..2 {
                let [low, high] = factors(factor, sixteen(b[part], half));
                put_sixteen(&mut right[part][0], half, _mm512_castps_si512(low));
                put_sixteen(&mut right[part][1], half, _mm512_castps_si512(high));
            }
        }
        // Columns of sums: all even ones, then all odd ones.
        let (even, odd) = (over_rows(c[0], c[2]), over_rows(c[1], c[3]));
        let mut sums = [_mm512_setzero_ps(); 8];
        for pair in 0..4 {
            sums[pair] = _mm512_castsi512_ps(even[pair]);
            sums[pair + 4] = _mm512_castsi512_ps(odd[pair]);
        }
        for k in 0..16 {
            let factors = &right[k / 8][k % 2];
            for (number, sum) in sums.iter_mut().enumerate() {
                let column = 2 * (number % 4) + number / 4;
                let value = _mm512_set1_ps(f32::from_bits(factors[4 * column + k % 8 / 2]));
                *sum = _mm512_fmadd_ps(left[k], value, *sum);
            }
        }
        let mut places = [_mm512_setzero_si512(); 8];
        for (place, sum) in places.iter_mut().zip(sums) {
            *place = _mm512_castps_si512(canonical(sum));
        }
        let [a, b, c, d, e, f, g, h] = places;
        let ([even_top, even_bottom], [odd_top, odd_bottom]) =
            (into_slots([a, b, c, d]), into_slots([e, f, g, h]));
        [even_top, odd_top, even_bottom, odd_bottom]
    }
}
