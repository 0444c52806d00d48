//! Conversions and arithmetic of halves with AVX2.

use std::arch::x86_64::{
    __m256, __m256i, _CMP_EQ_OQ, _CMP_GT_OQ, _CMP_LT_OQ, _CMP_NEQ_OQ, _CMP_UNORD_Q,
    _MM_FROUND_TO_NEAREST_INT, _mm256_add_epi32, _mm256_add_ps, _mm256_and_ps, _mm256_and_si256,
    _mm256_andnot_ps, _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps,
    _mm256_castsi256_si128, _mm256_cmp_ps, _mm256_cmpeq_epi32, _mm256_cvtepu16_epi32,
    _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_fmadd_ps, _mm256_max_ps, _mm256_min_ps,
    _mm256_movemask_ps, _mm256_mul_ps, _mm256_or_ps, _mm256_packus_epi32, _mm256_permute4x64_epi64,
    _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_ps, _mm256_sub_ps,
};

use super::super::ops::{Pair, Slot};
use super::{canonical, eight, four, put_eight, put_four};

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

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
pub(super) fn widen(a: &Slot) -> Slot {
    let mut d = [0; 32];
    for from in (0..32).step_by(8) {
        let value = canonical(lower(eight(a, from)));
        put_eight(&mut d, from, _mm256_castps_si256(value));
    }
    d
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn narrow(a: &Slot) -> Slot {
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
pub(super) fn half(pair: Pair, a: &Slot, b: &Slot) -> Slot {
    let mut d = [0; 32];
    for from in (0..32).step_by(8) {
        let value = paired(pair, lower(eight(a, from)), lower(eight(b, from)));
        put_eight(&mut d, from, raised(value));
    }
    d
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn halves(pair: Pair, a: &Slot, b: &Slot) -> Slot {
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
pub(super) fn half_fma(a: &Slot, b: &Slot, c: &Slot) -> Slot {
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
pub(super) fn halves_fma(a: &Slot, b: &Slot, c: &Slot) -> Slot {
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
