//! Products of matrix tiles and the transpositions of their rows and columns with AVX2.

use std::arch::x86_64::{
    __m128i, __m256, _mm_castsi128_ps, _mm_loadu_ps, _mm_setr_epi8, _mm_storeu_ps,
    _mm256_broadcastsi128_si256, _mm256_castpd_ps, _mm256_castps_pd, _mm256_castps_si256,
    _mm256_castps256_ps128, _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cvtepu16_epi32,
    _mm256_cvtph_ps, _mm256_extractf128_ps, _mm256_extracti128_si256, _mm256_fmadd_ps,
    _mm256_loadu_ps, _mm256_loadu_si256, _mm256_permute2f128_ps, _mm256_permute4x64_epi64,
    _mm256_set_m128, _mm256_set1_ps, _mm256_setzero_ps, _mm256_shuffle_epi8, _mm256_slli_epi32,
    _mm256_storeu_ps, _mm256_unpackhi_pd, _mm256_unpackhi_ps, _mm256_unpacklo_pd,
    _mm256_unpacklo_ps,
};
use std::mem::MaybeUninit;

use super::super::ops::{Factor, Slot};
use super::{canonical, four, put_eight, put_four};

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
pub(super) fn tile(factor: Factor, a: [&Slot; 4], b: [&Slot; 2], c: [&Slot; 4]) -> [Slot; 4] {
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
pub(super) fn columns(rows: &[[u32; 4]; 8]) -> [[u32; 8]; 4] {
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
pub(super) fn rows(columns: &[[u32; 8]; 4]) -> [[u32; 4]; 8] {
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
pub(super) fn words_transposed(columns: &[[u32; 8]; 4]) -> Slot {
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
