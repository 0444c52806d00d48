//! The operations of [`VectorOps`] for AVX2 with FMA and F16C.
//!
//! Conversions of halves are the processor's own; it keeps the payload of a NaN, so results pass through
//! [`canonical`], as the definitions demand. None of these instructions depends on the modes of the control register
//! that this program leaves alone.

mod halves;
mod tiles;

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256, __m256i, _CMP_UNORD_Q, _mm_loadu_si128, _mm_storeu_si128, _mm256_blendv_ps,
    _mm256_castps_si256, _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_loadu_si256,
    _mm256_permutevar8x32_epi32, _mm256_set1_epi32, _mm256_setr_epi32, _mm256_storeu_si256,
    _mm256_xor_si256,
};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use halves::{half, half_fma, halves, halves_fma, narrow, widen};
use tiles::{columns, rows, tile, words_transposed};

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
    access_kind: AccessKind,
    mask: u32,
    at: AccessSite,
) -> Result<(), Fatal> {
    access::instruction(exec, block, warp, access_kind, mask, at)
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
    access_kind: AccessKind,
    mask: u32,
    at: AccessSite,
) -> bool {
    fast_path::access::<Avx2>(exec, block, warp, access_kind, mask, at)
}

#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt")]
#[inline(never)]
fn tensor(exec: &mut Exec<'_>, block: &mut Shared, warp: &mut Warp, x: usize, pc: u32) -> bool {
    run_end::tensor_fast::<Avx2>(exec, block, warp, x, pc)
}

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
