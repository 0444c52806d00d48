//! Operations on whole slots and on rows of memory that an instruction set may implement itself.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::machine::access::fast_path::{self, AccessSite};
use crate::machine::access::{self, AccessKind};
use crate::machine::block::Shared;
use crate::machine::exec::{Exec, Fatal};
use crate::machine::interpret::Stop;
use crate::machine::tile;
use crate::machine::warp::Warp;
use crate::machine::{full_warp, run_end, vector};
use crate::numeric::{float, half};

/// A 32-bit value per lane.
pub(crate) type Slot = [u32; 32];

/// An operation on two halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pair {
    Add,
    Sub,
    Mul,
    Min,
    Max,
}

impl Pair {
    #[inline(always)]
    fn of(self, a: u32, b: u32) -> u32 {
        match self {
            Self::Add => half::add_f16(a, b),
            Self::Sub => half::sub_f16(a, b),
            Self::Mul => half::mul_f16(a, b),
            Self::Min => half::min_f16(a, b),
            Self::Max => half::max_f16(a, b),
        }
    }
}

/// A 16-bit format of a tensor-core factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Factor {
    F16,
    Bf16,
}

/// Operations that an instruction set may implement itself. The implementations given here are the definitions; every
/// other one returns the same bits, which the tests beside it check.
pub(crate) trait VectorOps: Sized {
    /// The interpreter's loop for full warps, compiled for this set.
    fn run_full_warp(
        exec: &mut Exec<'_>,
        block: &mut Shared,
        warp: &mut Warp,
        left: &mut u64,
    ) -> Option<Stop>;

    /// A memory instruction on the fast path. Returns false, with nothing done, if it has to take the general path.
    fn access_fast(
        exec: &mut Exec<'_>,
        block: &mut Shared,
        warp: &mut Warp,
        access_kind: AccessKind,
        mask: u32,
        at: AccessSite,
    ) -> bool;

    /// A memory instruction on the general path, outside the interpreter's loop, compiled for this set.
    fn access(
        exec: &mut Exec<'_>,
        block: &mut Shared,
        warp: &mut Warp,
        access_kind: AccessKind,
        mask: u32,
        at: AccessSite,
    ) -> Result<(), Fatal>;

    /// A tensor-core instruction, as [`run_end::tensor_fast`].
    fn tensor(exec: &mut Exec<'_>, block: &mut Shared, warp: &mut Warp, x: usize, pc: u32) -> bool;

    /// Replaces the lanes of a mask.
    #[inline(always)]
    fn merge(d: &mut Slot, mask: u32, values: &Slot) {
        vector::blend32(d, mask, values);
    }

    /// The same for 64-bit values.
    #[inline(always)]
    fn merge_wide(d: &mut [u64; 32], mask: u32, values: &[u64; 32]) {
        vector::blend64(d, mask, values);
    }

    /// The value of lane `l ^ across` for every lane l; `across` is below 32.
    #[inline(always)]
    fn shuffle_xor(values: &Slot, across: usize) -> Slot {
        each(|lane| values[(lane ^ across) & 31])
    }

    /// The fused multiply-add of `f32` values, rounded toward minus infinity.
    #[inline(always)]
    fn fma_down(a: &Slot, b: &Slot, c: &Slot) -> Slot {
        each(|lane| float::fma_down32(a[lane], b[lane], c[lane]))
    }

    /// Converts `f16` to `f32`.
    #[inline(always)]
    fn widen(a: &Slot) -> Slot {
        each(|lane| half::f16_to_f32(a[lane]).to_bits())
    }

    /// Converts `f32` to `f16`, rounded to nearest even.
    #[inline(always)]
    fn narrow(a: &Slot) -> Slot {
        each(|lane| half::f32_to_f16(f32::from_bits(a[lane])))
    }

    /// An operation on one half per lane.
    #[inline(always)]
    fn half(pair: Pair, a: &Slot, b: &Slot) -> Slot {
        each(|lane| pair.of(a[lane], b[lane]))
    }

    /// An operation on two packed halves per lane.
    #[inline(always)]
    fn halves(pair: Pair, a: &Slot, b: &Slot) -> Slot {
        each(|lane| half::packed(a[lane], b[lane], 0, |a, b, _| pair.of(a, b)))
    }

    /// The fused multiply-add of one half per lane.
    #[inline(always)]
    fn half_fma(a: &Slot, b: &Slot, c: &Slot) -> Slot {
        each(|lane| half::fma_f16(a[lane], b[lane], c[lane]))
    }

    /// The fused multiply-add of two packed halves per lane.
    #[inline(always)]
    fn halves_fma(a: &Slot, b: &Slot, c: &Slot) -> Slot {
        each(|lane| half::packed(a[lane], b[lane], c[lane], half::fma_f16))
    }

    /// The 16 x 8 x 16 product of fragments with single sums.
    #[inline(always)]
    fn tile(factor: Factor, a: [&Slot; 4], b: [&Slot; 2], c: [&Slot; 4]) -> [Slot; 4] {
        match factor {
            Factor::F16 => tile::multiply_add(a, b, c, half::f16_to_f32),
            Factor::Bf16 => tile::multiply_add(a, b, c, half::bf16_to_f32),
        }
    }

    /// Eight rows of four words as four columns of eight.
    #[inline(always)]
    fn columns(rows: &[[u32; 4]; 8]) -> [[u32; 8]; 4] {
        let mut columns = [[0; 8]; 4];
        for (row, words) in rows.iter().enumerate() {
            for (column, word) in words.iter().enumerate() {
                columns[column][row] = *word;
            }
        }
        columns
    }

    /// Four columns of eight words as eight rows of four.
    #[inline(always)]
    fn rows(columns: &[[u32; 8]; 4]) -> [[u32; 4]; 8] {
        let mut rows = [[0; 4]; 8];
        for (column, words) in columns.iter().enumerate() {
            for (row, word) in words.iter().enumerate() {
                rows[row][column] = *word;
            }
        }
        rows
    }

    /// The transposed 8 x 8 matrix of halves, given as four columns of words; each word of the result has two halves of
    /// one column.
    #[inline(always)]
    fn transposed(columns: &[[u32; 8]; 4]) -> Slot {
        each(|lane| {
            let (group, pair) = (lane / 4, lane % 4);
            let words = columns[group / 2];
            let (first, second) = (words[2 * pair], words[2 * pair + 1]);
            if group % 2 == 0 {
                first & 0xffff | second << 16
            } else {
                first >> 16 | second & 0xffff_0000
            }
        })
    }

    /// Reads neighbouring words that other threads may be writing.
    #[inline(always)]
    fn read<const N: usize>(words: &[AtomicU32; N]) -> [u32; N] {
        let mut values = [0; N];
        for (value, word) in values.iter_mut().zip(words) {
            *value = word.load(Relaxed);
        }
        values
    }

    /// Writes neighbouring words that other threads may be reading.
    #[inline(always)]
    fn write<const N: usize>(words: &[AtomicU32; N], values: &[u32; N]) {
        for (word, value) in words.iter().zip(values) {
            word.store(*value, Relaxed);
        }
    }
}

#[inline(always)]
fn each(f: impl Fn(usize) -> u32) -> Slot {
    let mut values = [0; 32];
    for (lane, value) in values.iter_mut().enumerate() {
        *value = f(lane);
    }
    values
}

/// The portable implementation.
pub(crate) struct Portable;

impl VectorOps for Portable {
    #[inline(never)]
    fn run_full_warp(
        exec: &mut Exec<'_>,
        block: &mut Shared,
        warp: &mut Warp,
        left: &mut u64,
    ) -> Option<Stop> {
        full_warp::run::<Self>(exec, block, warp, left)
    }

    #[inline(never)]
    fn access_fast(
        exec: &mut Exec<'_>,
        block: &mut Shared,
        warp: &mut Warp,
        access_kind: AccessKind,
        mask: u32,
        at: AccessSite,
    ) -> bool {
        fast_path::access::<Self>(exec, block, warp, access_kind, mask, at)
    }

    #[inline(never)]
    fn tensor(exec: &mut Exec<'_>, block: &mut Shared, warp: &mut Warp, x: usize, pc: u32) -> bool {
        run_end::tensor_fast::<Self>(exec, block, warp, x, pc)
    }

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
}
