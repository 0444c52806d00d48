//! The tensor-core product m16n8k16 with 16-bit factors and `f32` sums, with its register layout written out, because
//! kernels use it most.
//!
//! [`super::matrix`] executes every shape by looking up each element's position. Here rows are moved whole and four of
//! them are summed at once. Each sum runs over k in the same order, so the bits are the same. Instruction sets may have
//! an implementation of their own: [`VectorOps::tile`].

use super::warp::Warp;
use crate::code::{File, SlotRef};
use crate::numeric::float::canon32;
use crate::simd::{Factor, Slot, VectorOps};
use crate::tensor::Size;

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

/// d = a b + c in a warp's registers.
#[inline(always)]
pub(super) fn run<F: VectorOps>(warp: &mut Warp, at: &Registers, factor: Factor) {
    let registers = &warp.r32;
    let slot = |slot: usize| &registers[slot].0;
    // Spelt out, as `map` would be a call of code for the plainest instruction set.
    let [a0, a1, a2, a3] = at.a;
    let [b0, b1] = at.b;
    let [c0, c1, c2, c3] = at.c;
    let results = F::tile(
        factor,
        [slot(a0), slot(a1), slot(a2), slot(a3)],
        [slot(b0), slot(b1)],
        [slot(c0), slot(c1), slot(c2), slot(c3)],
    );
    for (slot, result) in at.d.iter().zip(results) {
        warp.r32[*slot].0 = result;
    }
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
