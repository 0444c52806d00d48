//! The operations of [`VectorOps`] for AVX2 with FMA and F16C.
//!
//! Conversions of halves are the processor's own; it keeps the payload of a NaN, so results pass through
//! [`canonical`], as the definitions demand. None of these instructions depends on the modes of the control register
//! that this program leaves alone.

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256, __m256i, _CMP_EQ_OQ, _CMP_GT_OQ, _CMP_LT_OQ, _CMP_NEQ_OQ, _CMP_UNORD_Q,
    _MM_FROUND_TO_NEAREST_INT, _mm_castsi128_ps, _mm_loadu_ps, _mm_loadu_si128, _mm_setr_epi8,
    _mm_storeu_ps, _mm_storeu_si128, _mm256_add_epi32, _mm256_add_ps, _mm256_and_ps,
    _mm256_and_si256, _mm256_andnot_ps, _mm256_blendv_ps, _mm256_broadcastsi128_si256,
    _mm256_castpd_ps, _mm256_castps_pd, _mm256_castps_si256, _mm256_castps256_ps128,
    _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmp_ps, _mm256_cmpeq_epi32,
    _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_extractf128_ps,
    _mm256_extracti128_si256, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_max_ps,
    _mm256_min_ps, _mm256_movemask_ps, _mm256_mul_ps, _mm256_or_ps, _mm256_packus_epi32,
    _mm256_permute2f128_ps, _mm256_permute4x64_epi64, _mm256_permutevar8x32_epi32, _mm256_set_m128,
    _mm256_set1_epi32, _mm256_set1_ps, _mm256_setr_epi32, _mm256_setzero_ps, _mm256_shuffle_epi8,
    _mm256_slli_epi32, _mm256_storeu_ps, _mm256_storeu_si256, _mm256_sub_ps, _mm256_unpackhi_pd,
    _mm256_unpackhi_ps, _mm256_unpacklo_pd, _mm256_unpacklo_ps, _mm256_xor_si256,
};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::ops::{Factor, Pair, Slot, VectorOps};
use crate::machine::access::fast_path::{self, AccessSite};
use crate::machine::access::{self, Want};
use crate::machine::block::Shared;
use crate::machine::exec::{Exec, Fatal};
use crate::machine::interpret::Stop;
use crate::machine::warp::Warp;
use crate::machine::{full_warp, run_end};
use crate::numeric::float::NAN32;

/// The set. Only [`super::run`] names it, once the processor was asked.
pub(super) struct Avx2;

macro_rules! ask {
    ($call:expr) => {{
        // SAFETY: the type is only named where the processor has been asked for these instructions.
        unsafe { $call }
    }};
}

impl VectorOps for Avx2 {
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
        want: Want,
        mask: u32,
        at: AccessSite,
    ) -> bool {
        ask!(access_fast(exec, block, warp, want, mask, at))
    }

    #[inline(always)]
    fn access(
        exec: &mut Exec<'_>,
        block: &mut Shared,
        warp: &mut Warp,
        want: Want,
        mask: u32,
        at: AccessSite,
    ) -> Result<(), Fatal> {
        ask!(access(exec, block, warp, want, mask, at))
    }

    #[inline(always)]
    fn tensor(exec: &mut Exec<'_>, block: &mut Shared, warp: &mut Warp, x: usize, pc: u32) -> bool {
        ask!(tensor(exec, block, warp, x, pc))
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
        ask!(columns(rows))
    }

    #[inline(always)]
    fn rows(columns: &[[u32; 8]; 4]) -> [[u32; 4]; 8] {
        ask!(rows(columns))
    }

    #[inline(always)]
    fn transposed(columns: &[[u32; 8]; 4]) -> Slot {
        ask!(words_transposed(columns))
    }

    #[inline(always)]
    fn read<const N: usize>(words: &[AtomicU32; N]) -> [u32; N] {
        ask!(read(words))
    }

    #[inline(always)]
    fn write<const N: usize>(words: &[AtomicU32; N], values: &[u32; N]) {
        ask!(write(words, values));
    }
}

#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt")]
#[inline(never)]
fn access(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    want: Want,
    mask: u32,
    at: AccessSite,
) -> Result<(), Fatal> {
    access::instruction(exec, block, warp, want, mask, at)
}

#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt")]
#[inline(never)]
fn run_full_warp(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    left: &mut u64,
) -> Option<Stop> {
    full_warp::run::<Avx2>(exec, block, warp, left)
}

#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt")]
#[inline(never)]
fn access_fast(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    want: Want,
    mask: u32,
    at: AccessSite,
) -> bool {
    fast_path::access::<Avx2>(exec, block, warp, want, mask, at)
}

#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt")]
#[inline(never)]
fn tensor(exec: &mut Exec<'_>, block: &mut Shared, warp: &mut Warp, x: usize, pc: u32) -> bool {
    run_end::tensor_fast::<Avx2>(exec, block, warp, x, pc)
}

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

/// Four words of a slot from a multiple of four on.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn four(slot: &Slot, from: usize) -> __m128i {
    let words: &[u32; 4] = &slot.as_chunks::<4>().0[from / 4];
    // SAFETY: four words are 16 bytes.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

/// Eight words of a slot from a multiple of eight on.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn eight(slot: &Slot, from: usize) -> __m256i {
    let words: &[u32; 8] = &slot.as_chunks::<8>().0[from / 8];
    // SAFETY: eight words are 32 bytes.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn put_four(slot: &mut Slot, from: usize, value: __m128i) {
    let words: &mut [u32; 4] = &mut slot.as_chunks_mut::<4>().0[from / 4];
    // SAFETY: four words are 16 bytes.
    unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), value) }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn put_eight(slot: &mut Slot, from: usize, value: __m256i) {
    let words: &mut [u32; 8] = &mut slot.as_chunks_mut::<8>().0[from / 8];
    // SAFETY: eight words are 32 bytes.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), value) }
}

/// NaN of any kind to the one that results have.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn canonical(value: __m256) -> __m256 {
    let nan = _mm256_castsi256_ps(_mm256_set1_epi32(NAN32 as i32));
    _mm256_blendv_ps(value, nan, _mm256_cmp_ps::<_CMP_UNORD_Q>(value, value))
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn shuffle_xor(values: &Slot, across: usize) -> Slot {
    let inside = _mm256_xor_si256(
        _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
        _mm256_set1_epi32(across as i32 & 7),
    );
    let mut d = [0; 32];
    for number in 0..4 {
        let from = eight(values, 8 * (number ^ (across >> 3 & 3)));
        put_eight(
            &mut d,
            8 * number,
            _mm256_permutevar8x32_epi32(from, inside),
        );
    }
    d
}

/// The control register's state at the start of a program, with rounding toward minus infinity.
static DOWN: u32 = 0x1f80 | 1 << 13;

/// The processor rounds as its control register says, which is changed for these four instructions alone.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn fma_down(a: &Slot, b: &Slot, c: &Slot) -> Slot {
    let load = |slot: &Slot, number: usize| _mm256_castsi256_ps(eight(slot, 8 * number));
    let [mut first, mut second, mut third, mut fourth] =
        [load(a, 0), load(a, 1), load(a, 2), load(a, 3)];
    let mut kept = 0_u32;
    // SAFETY: reads the constant, writes and reads `kept`, and leaves the control register as it was.
    unsafe {
        asm!(
            "vstmxcsr dword ptr [{kept}]",
            "vldmxcsr dword ptr [{down}]",
            "vfmadd213ps {a0}, {b0}, {c0}",
            "vfmadd213ps {a1}, {b1}, {c1}",
            "vfmadd213ps {a2}, {b2}, {c2}",
            "vfmadd213ps {a3}, {b3}, {c3}",
            "vldmxcsr dword ptr [{kept}]",
            kept = in(reg) &raw mut kept,
            down = in(reg) &raw const DOWN,
            a0 = inout(ymm_reg) first,
            a1 = inout(ymm_reg) second,
            a2 = inout(ymm_reg) third,
            a3 = inout(ymm_reg) fourth,
            b0 = in(ymm_reg) load(b, 0),
            b1 = in(ymm_reg) load(b, 1),
            b2 = in(ymm_reg) load(b, 2),
            b3 = in(ymm_reg) load(b, 3),
            c0 = in(ymm_reg) load(c, 0),
            c1 = in(ymm_reg) load(c, 1),
            c2 = in(ymm_reg) load(c, 2),
            c3 = in(ymm_reg) load(c, 3),
            options(nostack, preserves_flags)
        );
    }
    let mut d = [0; 32];
    for (number, value) in [first, second, third, fourth].into_iter().enumerate() {
        put_eight(&mut d, 8 * number, _mm256_castps_si256(canonical(value)));
    }
    d
}

/// The lower halves of eight words as singles.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn lower(words: __m256i) -> __m256 {
    let packed = _mm256_packus_epi32(words, words);
    _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(
        packed,
    )))
}

/// Eight singles as halves, each in a word.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn raised(value: __m256) -> __m256i {
    _mm256_cvtepu16_epi32(_mm256_cvtps_ph::<NEAREST>(canonical(value)))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn widen(a: &Slot) -> Slot {
    let mut d = [0; 32];
    for from in (0..32).step_by(8) {
        let value = canonical(lower(eight(a, from)));
        put_eight(&mut d, from, _mm256_castps_si256(value));
    }
    d
}

#[target_feature(enable = "avx2,fma,f16c")]
fn narrow(a: &Slot) -> Slot {
    let mut d = [0; 32];
    for from in (0..32).step_by(8) {
        let value = _mm256_castsi256_ps(eight(a, from));
        put_eight(&mut d, from, raised(value));
    }
    d
}

/// Eight results of an operation, before rounding to halves: sums and products round innocuously in two steps.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn paired(pair: Pair, a: __m256, b: __m256) -> __m256 {
    match pair {
        Pair::Add => _mm256_add_ps(a, b),
        Pair::Sub => _mm256_sub_ps(a, b),
        Pair::Mul => _mm256_mul_ps(a, b),
        // The processor returns b where the operands are equal or one is NaN. Equal ones differ in the sign of zero
        // only, and a NaN loses.
        Pair::Min => chosen(_mm256_min_ps(a, b), _mm256_or_ps(a, b), a, b),
        Pair::Max => chosen(_mm256_max_ps(a, b), _mm256_and_ps(a, b), a, b),
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn chosen(found: __m256, equal: __m256, a: __m256, b: __m256) -> __m256 {
    let found = _mm256_blendv_ps(found, equal, _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b));
    _mm256_blendv_ps(found, a, _mm256_cmp_ps::<_CMP_UNORD_Q>(b, b))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn half(pair: Pair, a: &Slot, b: &Slot) -> Slot {
    let mut d = [0; 32];
    for from in (0..32).step_by(8) {
        let value = paired(pair, lower(eight(a, from)), lower(eight(b, from)));
        put_eight(&mut d, from, raised(value));
    }
    d
}

#[target_feature(enable = "avx2,fma,f16c")]
fn halves(pair: Pair, a: &Slot, b: &Slot) -> Slot {
    let mut d = [0; 32];
    for from in (0..32).step_by(4) {
        let (a, b) = (
            _mm256_cvtph_ps(four(a, from)),
            _mm256_cvtph_ps(four(b, from)),
        );
        let value = canonical(paired(pair, a, b));
        put_four(&mut d, from, _mm256_cvtps_ph::<NEAREST>(value));
    }
    d
}

/// a b + c in single precision such that rounding it to a half gives the half nearest to the exact value.
///
/// The product is exact. The sum, rounded once already, misleads the second rounding only where it lies in the middle
/// between two halves; such lanes, and those below the normal halves, are rounded to odd instead.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn fused(a: __m256, b: __m256, c: __m256) -> __m256 {
    let sum = _mm256_fmadd_ps(a, b, c);
    let bits = _mm256_castps_si256(sum);
    let dropped = _mm256_and_si256(bits, _mm256_set1_epi32(0x1fff));
    let middle = _mm256_cmpeq_epi32(dropped, _mm256_set1_epi32(0x1000));
    let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), sum);
    let smallest = _mm256_set1_ps(f32::from_bits(0x3880_0000));
    let small = _mm256_and_ps(
        _mm256_cmp_ps::<_CMP_LT_OQ>(magnitude, smallest),
        _mm256_cmp_ps::<_CMP_NEQ_OQ>(magnitude, _mm256_setzero_ps()),
    );
    let doubtful = _mm256_or_ps(_mm256_castsi256_ps(middle), small);
    if _mm256_movemask_ps(doubtful) == 0 {
        sum
    } else {
        to_odd(_mm256_mul_ps(a, b), c)
    }
}

/// a + b, rounded to odd: the exact error of the rounded sum says which way an even one must step.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn to_odd(a: __m256, b: __m256) -> __m256 {
    let zero = _mm256_setzero_ps();
    let sum = _mm256_add_ps(a, b);
    let from_b = _mm256_sub_ps(sum, a);
    let from_a = _mm256_sub_ps(sum, from_b);
    let error = _mm256_add_ps(_mm256_sub_ps(a, from_a), _mm256_sub_ps(b, from_b));
    let bits = _mm256_castps_si256(sum);
    let even = _mm256_cmpeq_epi32(
        _mm256_and_si256(bits, _mm256_set1_epi32(1)),
        _mm256_set1_epi32(0),
    );
    let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), sum);
    let finite = _mm256_cmp_ps::<_CMP_LT_OQ>(magnitude, _mm256_set1_ps(f32::INFINITY));
    let inexact = _mm256_and_ps(
        _mm256_and_ps(_mm256_cmp_ps::<_CMP_NEQ_OQ>(error, zero), finite),
        _mm256_castsi256_ps(even),
    );
    // All ones where the signs agree: the magnitude grows by one unit, elsewhere it shrinks.
    let away = _mm256_cmpeq_epi32(
        _mm256_castps_si256(_mm256_cmp_ps::<_CMP_GT_OQ>(error, zero)),
        _mm256_castps_si256(_mm256_cmp_ps::<_CMP_GT_OQ>(sum, zero)),
    );
    let step = _mm256_and_si256(away, _mm256_set1_epi32(2));
    let stepped = _mm256_add_epi32(_mm256_add_epi32(bits, step), _mm256_set1_epi32(-1));
    _mm256_blendv_ps(sum, _mm256_castsi256_ps(stepped), inexact)
}

#[target_feature(enable = "avx2,fma,f16c")]
fn half_fma(a: &Slot, b: &Slot, c: &Slot) -> Slot {
    let mut d = [0; 32];
    for from in (0..32).step_by(8) {
        let [a, b, c] = [
            lower(eight(a, from)),
            lower(eight(b, from)),
            lower(eight(c, from)),
        ];
        put_eight(&mut d, from, raised(fused(a, b, c)));
    }
    d
}

#[target_feature(enable = "avx2,fma,f16c")]
fn halves_fma(a: &Slot, b: &Slot, c: &Slot) -> Slot {
    let mut d = [0; 32];
    for from in (0..32).step_by(4) {
        let [a, b, c] = [
            _mm256_cvtph_ps(four(a, from)),
            _mm256_cvtph_ps(four(b, from)),
            _mm256_cvtph_ps(four(c, from)),
        ];
        let value = canonical(fused(a, b, c));
        put_four(&mut d, from, _mm256_cvtps_ph::<NEAREST>(value));
    }
    d
}

/// Eight 16-bit factors, packed in four words, as singles.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn factors(factor: Factor, words: __m128i) -> __m256 {
    match factor {
        Factor::F16 => _mm256_cvtph_ps(words),
        Factor::Bf16 => _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(words))),
    }
}

/// Rows to columns.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn transposed(rows: [__m256; 8]) -> [__m256; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    let (top, bottom) = (
        transposed_halves([a, b, c, d]),
        transposed_halves([e, f, g, h]),
    );
    let mut columns = [_mm256_setzero_ps(); 8];
    for at in 0..4 {
        columns[at] = _mm256_permute2f128_ps::<0x20>(top[at], bottom[at]);
        columns[at + 4] = _mm256_permute2f128_ps::<0x31>(top[at], bottom[at]);
    }
    columns
}

/// The order in which the columns of sums stand in a vector: a lane holds two neighbours in two registers, so all even
/// ones come first.
const COLUMNS: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];

/// Each sum runs over k in ascending order, as in the definition.
#[target_feature(enable = "avx2,fma,f16c")]
fn tile(factor: Factor, a: [&Slot; 4], b: [&Slot; 2], c: [&Slot; 4]) -> [Slot; 4] {
    // Four neighbouring lanes hold eight neighbours along k: of a row in A, of a column in B.
    let mut left = MaybeUninit::<[[f32; 16]; 16]>::uninit();
    for row in 0..16 {
        for part in 0..2 {
            let words = four(a[row / 8 + 2 * part], row % 8 * 4);
            // SAFETY: the eight singles from there on are in this row.
            unsafe {
                let eight = left.as_mut_ptr().cast::<f32>().add(16 * row + 8 * part);
                _mm256_storeu_ps(eight, factors(factor, words));
            }
        }
    }
    // SAFETY: both parts of all rows were written.
    let left = unsafe { left.assume_init_ref() };
    let mut right = [_mm256_setzero_ps(); 16];
    for part in 0..2 {
        let mut columns = [_mm256_setzero_ps(); 8];
        for (vector, column) in columns.iter_mut().zip(COLUMNS) {
            *vector = factors(factor, four(b[part], 4 * column));
        }
        right[8 * part..8 * part + 8].copy_from_slice(&transposed(columns));
    }
    let mut d = [[0; 32]; 4];
    for block in 0..2 {
        let mut sums = [_mm256_setzero_ps(); 8];
        for (row, sum) in sums.iter_mut().enumerate() {
            let even = four(c[2 * block], 4 * row);
            let odd = four(c[2 * block + 1], 4 * row);
            *sum = _mm256_set_m128(_mm_castsi128_ps(odd), _mm_castsi128_ps(even));
        }
        for k in 0..16 {
            for (row, sum) in sums.iter_mut().enumerate() {
                let value = _mm256_set1_ps(left[8 * block + row][k]);
                *sum = _mm256_fmadd_ps(value, right[k], *sum);
            }
        }
        for (row, sum) in sums.iter().enumerate() {
            let sum = _mm256_castps_si256(canonical(*sum));
            put_four(&mut d[2 * block], 4 * row, _mm256_castsi256_si128(sum));
            put_four(
                &mut d[2 * block + 1],
                4 * row,
                _mm256_extracti128_si256::<1>(sum),
            );
        }
    }
    d
}

/// Transposes the two 4 x 4 matrices whose rows are in the lower, and in the upper halves of four vectors.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn transposed_halves(rows: [__m256; 4]) -> [__m256; 4] {
    let [a, b, c, d] = rows;
    let pair = |low: __m256, high: __m256| {
        let (low, high) = (_mm256_castps_pd(low), _mm256_castps_pd(high));
        [
            _mm256_castpd_ps(_mm256_unpacklo_pd(low, high)),
            _mm256_castpd_ps(_mm256_unpackhi_pd(low, high)),
        ]
    };
    let [first, second] = pair(_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
    let [third, fourth] = pair(_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
    [first, second, third, fourth]
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn columns(rows: &[[u32; 4]; 8]) -> [[u32; 8]; 4] {
    let mut both = [_mm256_setzero_ps(); 4];
    for (row, both) in both.iter_mut().enumerate() {
        // SAFETY: each row has 16 bytes.
        *both = unsafe {
            _mm256_set_m128(
                _mm_loadu_ps(rows[row + 4].as_ptr().cast()),
                _mm_loadu_ps(rows[row].as_ptr().cast()),
            )
        };
    }
    let mut columns = [[0; 8]; 4];
    for (column, value) in columns.iter_mut().zip(transposed_halves(both)) {
        // SAFETY: each column has 32 bytes.
        unsafe { _mm256_storeu_ps(column.as_mut_ptr().cast(), value) };
    }
    columns
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn rows(columns: &[[u32; 8]; 4]) -> [[u32; 4]; 8] {
    let mut vectors = [_mm256_setzero_ps(); 4];
    for (vector, column) in vectors.iter_mut().zip(columns) {
        // SAFETY: each column has 32 bytes.
        *vector = unsafe { _mm256_loadu_ps(column.as_ptr().cast()) };
    }
    let mut rows = [[0; 4]; 8];
    for (row, both) in transposed_halves(vectors).into_iter().enumerate() {
        // SAFETY: each row has 16 bytes.
        unsafe {
            _mm_storeu_ps(rows[row].as_mut_ptr().cast(), _mm256_castps256_ps128(both));
            _mm_storeu_ps(
                rows[row + 4].as_mut_ptr().cast(),
                _mm256_extractf128_ps::<1>(both),
            );
        }
    }
    rows
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn words_transposed(columns: &[[u32; 8]; 4]) -> Slot {
    // Two rows make 64 bits; the lower halves of both words come first, then the upper ones.
    let halves = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,
    ));
    let mut values = [0; 32];
    for (number, words) in columns.iter().enumerate() {
        // SAFETY: each column has 32 bytes.
        let words = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
        let sorted = _mm256_shuffle_epi8(words, halves);
        put_eight(
            &mut values,
            8 * number,
            _mm256_permute4x64_epi64::<0b11_01_10_00>(sorted),
        );
    }
    values
}

/// Relaxed loads of neighbouring words. The processor reads each aligned word whole, whatever the width of the
/// instruction, so one instruction may do what eight relaxed loads are allowed to do; Rust has no other way to say so.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn read<const N: usize>(words: &[AtomicU32; N]) -> [u32; N] {
    let mut values = [0; N];
    let (eights, rest) = words.as_chunks::<8>();
    let (into, behind) = values.as_chunks_mut::<8>();
    for (eight, into) in eights.iter().zip(into) {
        let value: __m256i;
        // SAFETY: reads the 32 bytes of eight words, and nothing else.
        unsafe {
            asm!(
                "vmovdqu {value}, ymmword ptr [{from}]",
                value = lateout(ymm_reg) value,
                from = in(reg) eight.as_ptr(),
                options(nostack, readonly, preserves_flags)
            );
            _mm256_storeu_si256(into.as_mut_ptr().cast(), value);
        }
    }
    let (fours, rest) = rest.as_chunks::<4>();
    let (into, behind) = behind.as_chunks_mut::<4>();
    for (four, into) in fours.iter().zip(into) {
        let value: __m128i;
        // SAFETY: reads the 16 bytes of four words, and nothing else.
        unsafe {
            asm!(
                "vmovdqu {value}, xmmword ptr [{from}]",
                value = lateout(xmm_reg) value,
                from = in(reg) four.as_ptr(),
                options(nostack, readonly, preserves_flags)
            );
            _mm_storeu_si128(into.as_mut_ptr().cast(), value);
        }
    }
    for (word, into) in rest.iter().zip(behind) {
        *into = word.load(Relaxed);
    }
    values
}

/// Relaxed stores of neighbouring words, by the argument of [`read`].
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn write<const N: usize>(words: &[AtomicU32; N], values: &[u32; N]) {
    let (eights, rest) = words.as_chunks::<8>();
    let (from, behind) = values.as_chunks::<8>();
    for (eight, from) in eights.iter().zip(from) {
        // SAFETY: writes the 32 bytes of eight words, which may be written through shared references.
        unsafe {
            let value = _mm256_loadu_si256(from.as_ptr().cast());
            asm!(
                "vmovdqu ymmword ptr [{to}], {value}",
                value = in(ymm_reg) value,
                to = in(reg) eight.as_ptr(),
                options(nostack, preserves_flags)
            );
        }
    }
    for (word, value) in rest.iter().zip(behind) {
        word.store(*value, Relaxed);
    }
}
