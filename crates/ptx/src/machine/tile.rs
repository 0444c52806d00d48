//! The tensor-core product m16n8k16 with 16-bit factors and `f32` sums, with its register layout written out, because
//! kernels use it most. The products of `wmma` with such factors are several of it side by side, so they take the same
//! path: see [`run_parts`].
//!
//! [`super::matrix`] executes every shape by looking up each element's position. Here rows are moved whole and four of
//! them are summed at once. Each sum runs over k in the same order, so the bits are the same. Instruction sets may have
//! an implementation of their own: [`VectorOps::tile`].

use super::warp::Warp;
use crate::code::{File, SlotRef, TensorOp};
use crate::numeric::float::canon32;
use crate::simd::{Factor, Slot, VectorOps};
use crate::tensor::{Element, Matrix, Size, turned_lane, turned_register};

/// The shape.
pub(super) const SIZE: Size = Size {
    m: 16,
    n: 8,
    k: 16,
    turned: false,
};
/// Its rows and sums; its columns.
const LONG: usize = 16;
const SHORT: usize = 8;
/// Rows whose sums are computed together, enough to hide the latency of a multiply-add.
const TOGETHER: usize = 4;

/// Registers of the four operands, by slot.
pub(super) struct Registers {
    a: [usize; 4],
    b: [usize; 2],
    c: [usize; 4],
    d: [usize; 4],
}

impl Registers {
    /// None if an operand is no list of plain registers.
    #[inline(always)]
    pub(super) fn of(a: &[SlotRef], b: &[SlotRef], c: &[SlotRef], d: &[SlotRef]) -> Option<Self> {
        Some(Self {
            a: slots(a)?,
            b: slots(b)?,
            c: slots(c)?,
            d: slots(d)?,
        })
    }
}

#[inline(always)]
fn slots<const N: usize>(list: &[SlotRef]) -> Option<[usize; N]> {
    let mut slots = [0; N];
    for (slot, register) in slots.iter_mut().zip(list.get(..N)?) {
        let (File::R32, found) = register.get()? else {
            return None;
        };
        *slot = found;
    }
    Some(slots)
}

impl Registers {
    /// a b + c of a warp's registers.
    #[inline(always)]
    fn product<F: VectorOps>(&self, warp: &Warp, factor: Factor) -> [Slot; 4] {
        let registers = &warp.r32;
        let slot = |slot: usize| &registers[slot].0;
        // Spelt out, as `map` would be a call of code for the plainest instruction set.
        let [a0, a1, a2, a3] = self.a;
        let [b0, b1] = self.b;
        let [c0, c1, c2, c3] = self.c;
        F::tile(
            factor,
            [slot(a0), slot(a1), slot(a2), slot(a3)],
            [slot(b0), slot(b1)],
            [slot(c0), slot(c1), slot(c2), slot(c3)],
        )
    }

    #[inline(always)]
    fn write(&self, warp: &mut Warp, results: [Slot; 4]) {
        for (slot, result) in self.d.iter().zip(results) {
            warp.r32[*slot].0 = result;
        }
    }
}

/// d = a b + c in a warp's registers.
#[inline(always)]
pub(super) fn run<F: VectorOps>(warp: &mut Warp, at: &Registers, factor: Factor) {
    let results = at.product::<F>(warp, factor);
    at.write(warp, results);
}

/// The registers of the two tiles of a product with 16 or 32 rows; none if an operand is no list of plain registers.
#[inline(always)]
fn both_tiles(op: &TensorOp, across: usize) -> Option<[Registers; 2]> {
    let tile = |number: usize| {
        Registers::of(
            op.a.get(4 * (number / across)..)?,
            op.b.get(2 * (number % across)..)?,
            op.c.get(4 * number..)?,
            op.d.get(4 * number..)?,
        )
    };
    Some([tile(0)?, tile(1)?])
}

/// Registers of the largest fragment of [`run_parts`].
const MOST: usize = 8;

/// The product of any shape with 16 terms per sum, and of sums with 16 or 32 bits, as products of tiles: 16 rows by 8
/// columns, or 8 rows by 8 columns with the lower half left empty. The fragments' registers are those of the tiles one
/// after another.
#[inline(always)]
pub(super) fn run_parts<F: VectorOps>(
    warp: &mut Warp,
    op: &TensorOp,
    size: Size,
    factor: Factor,
    (c, d): (Element, Element),
) {
    let across = size.n / SHORT;
    if !size.turned
        && size.m >= LONG
        && (c, d) == (Element::F32, Element::F32)
        && let Some([one, other]) = both_tiles(op, across)
    {
        // Results may lie where factors do.
        let first = one.product::<F>(warp, factor);
        let second = other.product::<F>(warp, factor);
        one.write(warp, first);
        other.write(warp, second);
        return;
    }
    let registers = |matrix, per: usize| size.per_lane(matrix) / per;
    let left = gather(warp, &op.a, registers(Matrix::A, 2), size.turned);
    let right = gather(warp, &op.b, registers(Matrix::B, 2), size.turned);
    let per = c.per_register();
    let mut sums = gather(
        warp,
        &op.c,
        registers(Matrix::Accumulator, per),
        size.turned,
    );
    if c == Element::F16 {
        sums = unpacked::<F>(&sums);
    }
    let mut results = [[0; 32]; MOST];
    let empty = [0; 32];
    for tile in 0..size.m.div_ceil(LONG) * across {
        let columns = &right[2 * (tile % across)..][..2];
        let b = [&columns[0], &columns[1]];
        if size.m < LONG {
            let sums = &sums[2 * tile..][..2];
            let a = [&left[0], &empty, &left[1], &empty];
            let d = F::tile(factor, a, b, [&sums[0], &sums[1], &empty, &empty]);
            results[2 * tile..][..2].copy_from_slice(&d[..2]);
        } else {
            let rows = &left[4 * (tile / across)..][..4];
            let sums = &sums[4 * tile..][..4];
            let a = [&rows[0], &rows[1], &rows[2], &rows[3]];
            let d = F::tile(factor, a, b, [&sums[0], &sums[1], &sums[2], &sums[3]]);
            results[4 * tile..][..4].copy_from_slice(&d);
        }
    }
    if d == Element::F16 {
        results = packed::<F>(&results);
    }
    let count = registers(Matrix::Accumulator, d.per_register());
    for (number, register) in op.d.iter().take(count).enumerate() {
        let Some((File::R32, slot)) = register.get() else {
            continue;
        };
        if size.turned {
            let values = &results[turned_register(count, number)];
            for lane in 0..32 {
                warp.r32[slot].0[lane] = values[turned_lane(lane)];
            }
        } else {
            warp.r32[slot].0 = results[number];
        }
    }
}

/// The first registers of a fragment, `count` of them, in the usual layout.
#[inline(always)]
fn gather(warp: &Warp, registers: &[SlotRef], count: usize, turned: bool) -> [Slot; MOST] {
    let mut slots = [[0; 32]; MOST];
    for (number, register) in registers.iter().take(count).enumerate() {
        let Some((File::R32, slot)) = register.get() else {
            continue;
        };
        let values = &warp.r32[slot].0;
        if turned {
            let usual = &mut slots[turned_register(count, number)];
            for lane in 0..32 {
                usual[turned_lane(lane)] = values[lane];
            }
        } else {
            slots[number] = *values;
        }
    }
    slots
}

/// Sums of 16 bits, two per register, as singles.
#[inline(always)]
fn unpacked<F: VectorOps>(pairs: &[Slot; MOST]) -> [Slot; MOST] {
    let mut singles = [[0; 32]; MOST];
    for (pair, both) in pairs.iter().zip(singles.as_chunks_mut::<2>().0) {
        let mut halves = [[0; 32]; 2];
        for lane in 0..32 {
            halves[0][lane] = pair[lane] & 0xffff;
            halves[1][lane] = pair[lane] >> 16;
        }
        *both = [F::widen(&halves[0]), F::widen(&halves[1])];
    }
    singles
}

/// The inverse of [`unpacked`], rounded to nearest even.
#[inline(always)]
fn packed<F: VectorOps>(singles: &[Slot; MOST]) -> [Slot; MOST] {
    let mut pairs = [[0; 32]; MOST];
    for (both, pair) in singles.as_chunks::<2>().0.iter().zip(&mut pairs) {
        let halves = [F::narrow(&both[0]), F::narrow(&both[1])];
        for lane in 0..32 {
            pair[lane] = halves[0][lane] | halves[1][lane] << 16;
        }
    }
    pairs
}

/// Both 16-bit parts of every lane's register as singles.
#[inline(always)]
fn parts(values: &Slot, decode: impl Fn(u32) -> f32) -> [[f32; 32]; 2] {
    let mut parts = [[0.0; 32]; 2];
    for lane in 0..32 {
        parts[0][lane] = decode(values[lane] & 0xffff);
    }
    for lane in 0..32 {
        parts[1][lane] = decode(values[lane] >> 16);
    }
    parts
}

/// a b + c, with the factors' format given by how its bits become a single.
#[inline(always)]
pub(crate) fn multiply_add(
    a: [&Slot; 4],
    b: [&Slot; 2],
    c: [&Slot; 4],
    decode: impl Fn(u32) -> f32 + Copy,
) -> [Slot; 4] {
    let mut left = [[0.0_f32; LONG]; LONG];
    for (number, values) in a.into_iter().enumerate() {
        let parts = parts(values, decode);
        for group in 0..8 {
            let row = &mut left[group + 8 * (number % 2)];
            for pair in 0..4 {
                let k = 8 * (number / 2) + 2 * pair;
                row[k] = parts[0][4 * group + pair];
                row[k + 1] = parts[1][4 * group + pair];
            }
        }
    }
    let mut right = [[0.0_f32; SHORT]; LONG];
    for (number, values) in b.into_iter().enumerate() {
        let parts = parts(values, decode);
        for pair in 0..4 {
            let k = 8 * number + 2 * pair;
            for column in 0..SHORT {
                right[k][column] = parts[0][4 * column + pair];
                right[k + 1][column] = parts[1][4 * column + pair];
            }
        }
    }
    let mut sums = [[0.0_f32; SHORT]; LONG];
    for (number, values) in c.into_iter().enumerate() {
        for (lane, value) in values.iter().enumerate() {
            let (row, column) = summand(number, lane);
            sums[row][column] = f32::from_bits(*value);
        }
    }
    for first in (0..LONG).step_by(TOGETHER) {
        let mut totals = [[0.0_f32; SHORT]; TOGETHER];
        totals.copy_from_slice(&sums[first..first + TOGETHER]);
        for k in 0..LONG {
            for (row, total) in totals.iter_mut().enumerate() {
                let factor = left[first + row][k];
                for column in 0..SHORT {
                    total[column] = factor.mul_add(right[k][column], total[column]);
                }
            }
        }
        sums[first..first + TOGETHER].copy_from_slice(&totals);
    }
    let mut d = [[0; 32]; 4];
    for (number, values) in d.iter_mut().enumerate() {
        for (lane, value) in values.iter_mut().enumerate() {
            let (row, column) = summand(number, lane);
            *value = canon32(sums[row][column]);
        }
    }
    d
}

/// Row and column of a lane's summand.
#[inline(always)]
fn summand(number: usize, lane: usize) -> (usize, usize) {
    (lane / 4 + 8 * (number / 2), lane % 4 * 2 + number % 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Element, Matrix, element_position};

    /// The layout above is the table's.
    #[test]
    fn every_element_is_where_the_table_says() {
        for lane in 0..32 {
            let (group, pair) = (lane / 4, lane % 4);
            for index in 0..8 {
                let (number, part) = (index / 2, index % 2);
                let a = (group + 8 * (number % 2), 8 * (number / 2) + 2 * pair + part);
                assert_eq!(
                    a,
                    element_position(SIZE, Matrix::A, Element::F16, lane, index)
                );
            }
            for index in 0..4 {
                let (number, part) = (index / 2, index % 2);
                let b = (8 * number + 2 * pair + part, group);
                assert_eq!(
                    b,
                    element_position(SIZE, Matrix::B, Element::Bf16, lane, index)
                );
                let c = element_position(SIZE, Matrix::Accumulator, Element::F32, lane, index);
                assert_eq!(summand(index, lane), c);
            }
        }
    }
}
