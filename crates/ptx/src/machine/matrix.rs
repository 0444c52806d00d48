//! Tensor-core instructions of a warp: fragments are read from registers, multiplied, and written back.
//!
//! Sums run in order of k, with one rounding per step in the accumulator's format. GPUs sum in another order and round
//! differently, so results agree within a tolerance, not bit for bit.

use super::tile;
use super::warp::{FULL, Warp};
use crate::code::{File, SlotRef, TensorOp};
use crate::numeric::half;
use crate::simd::{Factor, VectorOps};
use crate::tensor::{
    Combine, Element, Matrix, Size, TensorKind, element_position, element_positions,
};

/// Largest fragment sides: 32 rows or columns, sums of 32.
const SIDE: usize = 32;

/// A matrix of singles.
type Grid = [[f32; SIDE]; SIDE];

/// Distributes the rows that an `ldmatrix` loaded: the scratch registers of lane l hold the 16 bytes of row l.
#[inline(always)]
pub(crate) fn spread<F: VectorOps>(
    warp: &mut Warp,
    op: &TensorOp,
    count: u8,
    transposed: bool,
    pc: u32,
) {
    let (results, scratch) = op.d.split_at(count as usize);
    let slot = |reference: &SlotRef| reference.get().map_or(0, |(_, slot)| slot);
    let mut rows = [[0; 32]; 4];
    for (rows, scratch) in rows.iter_mut().zip(scratch) {
        *rows = warp.r32[slot(scratch)].0;
    }
    for (matrix, result) in results.iter().enumerate() {
        let mut words = [[0; 8]; 4];
        for (word, rows) in words.iter_mut().zip(&rows) {
            word.copy_from_slice(&rows[8 * matrix..8 * matrix + 8]);
        }
        let values = &mut warp.r32[slot(result)].0;
        if transposed {
            *values = F::transposed(&words);
        } else {
            values
                .as_chunks_mut::<4>()
                .0
                .copy_from_slice(&F::rows(&words));
        }
    }
    if warp.tainted {
        spread_poison(warp, results, scratch, transposed, pc);
    }
}

/// A word that `ldmatrix` gave a lane is poisoned where one of the rows it came from is.
#[inline(never)]
fn spread_poison(
    warp: &mut Warp,
    results: &[SlotRef],
    scratch: &[SlotRef],
    transposed: bool,
    pc: u32,
) {
    let mut bad = [0; 4];
    for (bad, scratch) in bad.iter_mut().zip(scratch) {
        *bad = warp.poison.get(*scratch).0;
    }
    for (matrix, result) in results.iter().enumerate() {
        let row = |word: usize, row: usize| bad[word] >> (matrix * 8 + row) & 1;
        let mut poisoned = 0;
        for lane in 0..32 {
            let (group, pair) = (lane / 4, lane % 4);
            poisoned |= if transposed {
                row(group / 2, 2 * pair) | row(group / 2, 2 * pair + 1)
            } else {
                row(pair, group)
            } << lane;
        }
        warp.poison.set(*result, FULL, poisoned, pc);
    }
}

/// Gathers the rows a `stmatrix` stores into the scratch registers: lane l gets 16 bytes of row l.
#[inline(never)]
pub(crate) fn gather(warp: &mut Warp, op: &TensorOp, count: u8, transposed: bool, pc: u32) {
    let slot = |reference: &SlotRef| reference.get().map_or(0, |(_, slot)| slot);
    let values: Vec<([u32; 32], u32)> =
        op.a.iter()
            .map(|register| (warp.r32[slot(register)].0, warp.poison.get(*register).0))
            .collect();
    // The half at a row and column of a matrix, with its poison.
    let half_at = |matrix: usize, row: usize, column: usize| {
        let (group, pair) = if transposed {
            (column, row)
        } else {
            (row, column)
        };
        let lane = group * 4 + pair / 2;
        let (registers, bad) = &values[matrix];
        (
            registers[lane] >> (16 * (pair % 2)) & 0xffff,
            bad >> lane & 1,
        )
    };
    for (word, scratch) in op.d.iter().enumerate() {
        let mut poisoned = 0;
        for matrix in 0..usize::from(count) {
            for row in 0..8 {
                let low = half_at(matrix, row, 2 * word);
                let high = half_at(matrix, row, 2 * word + 1);
                let lane = matrix * 8 + row;
                warp.r32[slot(scratch)].0[lane] = low.0 | high.0 << 16;
                poisoned |= (low.1 | high.1) << lane;
            }
        }
        if warp.tainted {
            warp.poison.set(*scratch, FULL, poisoned, pc);
        }
    }
}

/// One element of a register as a single.
#[inline(always)]
fn decode(element: Element, register: u32, part: usize) -> f32 {
    match element {
        Element::F16 => half::f16_to_f32(register >> (16 * part) & 0xffff),
        Element::Bf16 => half::bf16_to_f32(register >> (16 * part) & 0xffff),
        // The lower 13 bits of a tf32 register are ignored.
        Element::Tf32 => f32::from_bits(register & 0xffff_e000),
        Element::E4m3 => half::widen(register >> (8 * part) & 0xff, &half::E4M3) as f32,
        Element::E5m2 => half::widen(register >> (8 * part) & 0xff, &half::E5M2) as f32,
        _ => f32::from_bits(register),
    }
}

/// Collects a fragment as a matrix, with each element at its row and column.
#[inline(always)]
fn collect(
    warp: &Warp,
    registers: &[SlotRef],
    size: Size,
    matrix: Matrix,
    element: Element,
    grid: &mut Grid,
) {
    let per = element.per_register();
    let needed = size.per_lane(matrix) / per;
    for (number, register) in registers.iter().take(needed).enumerate() {
        let Some((File::R32, slot)) = register.get() else {
            continue;
        };
        let values = &warp.r32[slot].0;
        for part in 0..per {
            let positions = element_positions(size, matrix, element, number * per + part);
            for (value, (row, column)) in values.iter().zip(positions) {
                grid[row][column] = decode(element, *value, part);
            }
        }
    }
}

/// The multiply-add.
#[inline(always)]
pub(crate) fn multiply_add<F: VectorOps>(warp: &mut Warp, op: &TensorOp, turned: bool) {
    let TensorKind::MultiplyAdd {
        size,
        a,
        b,
        c,
        d,
        combine,
        clamp,
        opaque,
    } = op.kind
    else {
        return;
    };
    let size = Size {
        turned: turned && opaque,
        ..size
    };
    if warp.tainted {
        poison(warp, op, size, a, b);
    }
    match a {
        Element::F64 => double(warp, op, size),
        Element::S8 | Element::U8 | Element::S4 | Element::U4 | Element::B1 => {
            integer(warp, op, size, (a, b), combine, clamp);
        }
        _ => single::<F>(warp, op, size, a, b, c, d),
    }
}

#[inline(always)]
fn single<F: VectorOps>(
    warp: &mut Warp,
    op: &TensorOp,
    size: Size,
    a: Element,
    b: Element,
    c: Element,
    d: Element,
) {
    let factor = match (a, b) {
        (Element::F16, Element::F16) => Some(Factor::F16),
        (Element::Bf16, Element::Bf16) => Some(Factor::Bf16),
        _ => None,
    };
    if let Some(factor) = factor
        && size.k == tile::SIZE.k
    {
        if size == tile::SIZE
            && (c, d) == (Element::F32, Element::F32)
            && let Some(at) = tile::Registers::of(&op.a, &op.b, &op.c, &op.d)
        {
            tile::run::<F>(warp, &at, factor);
        } else {
            tile::run_parts::<F>(warp, op, size, factor, (c, d));
        }
        return;
    }
    let mut left: Grid = [[0.0; SIDE]; SIDE];
    let mut right: Grid = [[0.0; SIDE]; SIDE];
    let mut sums: Grid = [[0.0; SIDE]; SIDE];
    collect(warp, &op.a, size, Matrix::A, a, &mut left);
    collect(warp, &op.b, size, Matrix::B, b, &mut right);
    collect(warp, &op.c, size, Matrix::Accumulator, c, &mut sums);
    for row in 0..size.m {
        let mut across = 0;
        while across < size.n {
            let mut total = [0f32; 8];
            total.copy_from_slice(&sums[row][across..across + 8]);
            for k in 0..size.k {
                let factor = left[row][k];
                for (column, sum) in total.iter_mut().enumerate() {
                    *sum = factor.mul_add(right[k][across + column], *sum);
                }
            }
            sums[row][across..across + 8].copy_from_slice(&total);
            across += 8;
        }
    }
    let per = d.per_register();
    for (number, register) in op.d.iter().enumerate() {
        let Some((File::R32, slot)) = register.get() else {
            continue;
        };
        let mut values = [0; 32];
        for part in 0..per {
            let positions = element_positions(size, Matrix::Accumulator, d, number * per + part);
            for (value, (row, column)) in values.iter_mut().zip(positions) {
                let sum = sums[row][column];
                *value |= match d {
                    Element::F16 => half::f32_to_f16(sum) << (16 * part),
                    _ => crate::numeric::float::canon32(sum),
                };
            }
        }
        warp.r32[slot].0 = values;
    }
}

fn double(warp: &mut Warp, op: &TensorOp, size: Size) {
    let value = |warp: &Warp, registers: &[SlotRef], matrix, row, column| {
        let per_lane = size.per_lane(matrix);
        (0..32 * per_lane)
            .find(|at| {
                element_position(size, matrix, Element::F64, at / per_lane, at % per_lane)
                    == (row, column)
            })
            .map_or(0.0, |at| {
                f64::from_bits(warp.lane(registers[at % per_lane], at / per_lane))
            })
    };
    let mut results = Vec::new();
    for (number, register) in op.d.iter().enumerate() {
        for lane in 0..32 {
            let (row, column) =
                element_position(size, Matrix::Accumulator, Element::F64, lane, number);
            let start = f64::from_bits(warp.lane(op.c[number], lane));
            let sum = (0..size.k).fold(start, |sum, k| {
                value(warp, &op.a, Matrix::A, row, k)
                    .mul_add(value(warp, &op.b, Matrix::B, k, column), sum)
            });
            results.push((*register, lane, crate::numeric::float::canon64(sum)));
        }
    }
    for (register, lane, bits) in results {
        warp.set_lane(register, lane, bits);
    }
}

/// Compiled for the instruction set of the caller, whose products of 16 bits it needs.
#[inline(always)]
fn integer(
    warp: &mut Warp,
    op: &TensorOp,
    size: Size,
    (a, b): (Element, Element),
    combine: Combine,
    clamp: bool,
) {
    // B is stored by columns, so that both factors are read along k.
    let mut left = vec![0i16; size.m * size.k];
    let mut right = vec![0i16; size.n * size.k];
    integers(warp, &op.a, size, Matrix::A, a, &mut left);
    integers(warp, &op.b, size, Matrix::B, b, &mut right);
    let mut results = [[0; 32]; 8];
    for (number, (values, start)) in results.iter_mut().zip(&op.c).enumerate() {
        let Some((File::R32, start)) = start.get() else {
            continue;
        };
        let starts = &warp.r32[start].0;
        let positions = element_positions(size, Matrix::Accumulator, Element::S32, number);
        for (lane, (row, column)) in positions.into_iter().enumerate() {
            let left = &left[row * size.k..][..size.k];
            let right = &right[column * size.k..][..size.k];
            // The sum of at most 256 products of 16 bits fits 32 bits.
            let sum = match combine {
                Combine::Product => dot(left, right, |x, y| i32::from(x) * i32::from(y)),
                Combine::Xor => dot(left, right, |x, y| i32::from(x ^ y)),
                Combine::And => dot(left, right, |x, y| i32::from(x & y)),
            };
            let start = starts[lane] as i32;
            let sum = if clamp {
                start.saturating_add(sum)
            } else {
                start.wrapping_add(sum)
            };
            values[lane] = sum as u32;
        }
    }
    for (register, values) in op.d.iter().zip(&results) {
        if let Some((File::R32, slot)) = register.get() {
            warp.r32[slot].0 = *values;
        }
    }
}

#[inline(always)]
fn dot(left: &[i16], right: &[i16], combine: impl Fn(i16, i16) -> i32) -> i32 {
    let mut sum = 0i32;
    for (x, y) in left.iter().zip(right) {
        sum = sum.wrapping_add(combine(*x, *y));
    }
    sum
}

/// Collects a fragment of integers along k: A by rows, B by columns.
#[inline(always)]
fn integers(
    warp: &Warp,
    registers: &[SlotRef],
    size: Size,
    matrix: Matrix,
    element: Element,
    into: &mut [i16],
) {
    let (bits, per) = (element.bits(), element.per_register());
    let signed = matches!(element, Element::S8 | Element::S4);
    for index in 0..size.per_lane(matrix) {
        let Some((File::R32, slot)) = registers[index / per].get() else {
            continue;
        };
        let words = &warp.r32[slot].0;
        let above = 32 - bits * (1 + (index % per) as u32);
        let positions = element_positions(size, matrix, element, index);
        for (word, (row, column)) in words.iter().zip(positions) {
            let raw = word << above;
            let at = if matrix == Matrix::A {
                row * size.k + column
            } else {
                column * size.k + row
            };
            into[at] = if signed {
                (raw as i32 >> (32 - bits)) as i16
            } else {
                (raw >> (32 - bits)) as i16
            };
        }
    }
}

/// A result is poisoned when its row of A, its column of B or its own summand is.
#[inline(never)]
fn poison(warp: &mut Warp, op: &TensorOp, size: Size, a: Element, b: Element) {
    let mut origin = 0;
    let mut rows = 0u64;
    let mut columns = 0u64;
    for (list, matrix, element) in [(&op.a, Matrix::A, a), (&op.b, Matrix::B, b)] {
        let per = element.per_register();
        for (number, register) in list.iter().take(size.per_lane(matrix) / per).enumerate() {
            let (lanes, from) = warp.poison.get(*register);
            for lane in super::access::lanes(lanes) {
                origin = from;
                let (row, column) = element_position(size, matrix, element, lane, number * per);
                if matrix == Matrix::A {
                    rows |= 1 << row;
                } else {
                    columns |= 1 << column;
                }
            }
        }
    }
    let TensorKind::MultiplyAdd { c, d, .. } = op.kind else {
        return;
    };
    let (per_c, per_d) = (c.per_register(), d.per_register());
    let marks: Vec<(u32, u32)> =
        op.c.iter()
            .map(|register| warp.poison.get(*register))
            .collect();
    for (number, register) in op.d.iter().enumerate() {
        let mut bad = 0;
        let mut from = origin;
        for lane in 0..32 {
            for part in 0..per_d {
                let index = number * per_d + part;
                let (row, column) = element_position(size, Matrix::Accumulator, d, lane, index);
                let (lanes, own) = marks[index / per_c];
                if lanes >> lane & 1 == 1 {
                    from = own;
                    bad |= 1 << lane;
                }
                if rows >> row & 1 == 1 || columns >> column & 1 == 1 {
                    bad |= 1 << lane;
                }
            }
        }
        warp.poison.set(*register, FULL, bad, from);
    }
}
