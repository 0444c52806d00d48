//! Accesses to local memory (the thread's stack) and to the launch's parameters.

use std::cell::Cell;

use super::super::block::Shared;
use super::super::exec::{Exec, Fatal};
use super::super::poison::poisoned_bytes;
use super::super::warp::Warp;
use super::{
    AccessKind, Request, Words, collect, deliver, fault, lanes, poison_loaded, read_element,
    write_element,
};
use crate::check::position_text;
use crate::code::MemoryOp;
use crate::report::{Access, FindingKind, Space};
use crate::simd::VectorOps;

/// One lane's stack in the lane-interleaved words.
struct Column<'a> {
    words: &'a [Cell<u32>],
    lane: usize,
}

impl Words for Column<'_> {
    fn row<F: VectorOps, const N: usize>(&self, index: usize) -> [u32; N] {
        std::array::from_fn(|next| self.get(index + next))
    }

    fn put_row<F: VectorOps, const N: usize>(&self, index: usize, values: &[u32; N]) {
        for (next, value) in values.iter().enumerate() {
            self.put(index + next, u32::MAX, *value);
        }
    }

    fn get(&self, index: usize) -> u32 {
        self.words[index * 32 + self.lane].get()
    }

    fn put(&self, index: usize, mask: u32, bits: u32) {
        self.words.put(index * 32 + self.lane, mask, bits);
    }
}

/// The first lane outside `size` bytes, as an access.
fn outside(request: &Request<'_>, bytes: u32, size: u64, space: Space) -> Option<(usize, Access)> {
    let lane = lanes(request.mask)
        .find(|lane| request.list[*lane] > size || size - request.list[*lane] < u64::from(bytes))?;
    let access = Access {
        space,
        buffer: None,
        pointer: request.list[lane],
        offset: request.list[lane] as i64,
        buffer_bytes: Some(size),
        bytes,
    };
    Some((lane, access))
}

#[inline(never)]
pub(super) fn local(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &mut Warp,
    request: &Request<'_>,
) -> Result<(), Fatal> {
    let Request {
        x,
        access_kind,
        mask,
        list,
        pc,
    } = *request;
    let op = &exec.launch.program.memory[x];
    let bytes = op.element * op.count;
    let size = u64::from(exec.launch.program.stack_bytes());
    if let Some((lane, access)) = outside(request, bytes, size, Space::Local) {
        return fault::out_of_bounds(exec, block, warp, lane, access, access_kind, pc);
    }
    if lanes(mask).any(|lane| list[lane] & u64::from(bytes - 1) != 0) {
        return fault::misaligned(exec, block, warp, request, Space::Local);
    }
    if !op.stack_of_call {
        exec.moved[pc as usize].local_bytes += u64::from(mask.count_ones() * bytes);
    }
    if whole_words_at_one_address(warp, op, request) {
        return Ok(());
    }
    for part in 0..op.count {
        let register = op.regs[part as usize];
        let step = u64::from(part * op.element);
        let (poisoned, origin) = if warp.tainted {
            warp.poison.get(register)
        } else {
            (0, 0)
        };
        let mut invalid = [0; 32];
        let mut values = [0; 32];
        for lane in lanes(mask) {
            let at = list[lane] + step;
            let stored = if poisoned >> lane & 1 == 1 {
                poisoned_bytes(warp.poison.bits(register, lane), op.element)
            } else {
                0
            };
            let valid = &mut warp.local_valid[at as usize..(at + u64::from(op.element)) as usize];
            let bit = 1 << lane;
            if access_kind == AccessKind::Load {
                invalid[lane] = (0..)
                    .zip(valid.iter())
                    .filter(|(_, lanes)| *lanes & bit == 0)
                    .fold(0, |bytes, (byte, _)| bytes | 1 << byte);
            } else {
                for (byte, lanes) in valid.iter_mut().enumerate() {
                    *lanes = *lanes & !bit | if stored >> byte & 1 == 0 { bit } else { 0 };
                }
                for byte in (0..u64::from(op.element)).filter(|byte| stored >> byte & 1 == 1) {
                    warp.local_first_reads.insert((lane, at + byte), origin);
                }
            }
            let value = warp.lane(register, lane);
            let column = Column {
                words: Cell::from_mut(&mut warp.local[..]).as_slice_of_cells(),
                lane,
            };
            if access_kind == AccessKind::Load {
                values[lane] = read_element(&column, at, op.element);
            } else {
                write_element(&column, at, op.element, value);
            }
        }
        if access_kind == AccessKind::Load {
            deliver(warp, op, register, mask, &values);
            let bad = lanes(mask)
                .filter(|lane| invalid[*lane] != 0)
                .fold(0, |bad, lane| bad | 1 << lane);
            warp.tainted |= bad != 0;
            if warp.tainted {
                let not_there = |lane: usize, byte: u32| invalid[lane] >> byte & 1 == 1;
                let lane = lanes(bad).next().unwrap_or(0);
                let mut read = (0..u64::from(op.element))
                    .filter(|byte| bad != 0 && invalid[lane] >> byte & 1 == 1)
                    .filter_map(|byte| {
                        let at = list[lane] + step + byte;
                        warp.local_first_reads.get(&(lane, at))
                    });
                let origin = read.next().copied().unwrap_or(pc);
                poison_loaded(warp, op, part, (mask, bad), origin, not_there);
            }
        }
    }
    Ok(())
}

/// Executes the access if every lane uses the same offset in its stack, as most code does, elements are of 4 or 8
/// bytes, and nothing is poisoned or uninitialised. Returns false, with nothing done, otherwise.
#[inline(always)]
fn whole_words_at_one_address(warp: &mut Warp, op: &MemoryOp, request: &Request<'_>) -> bool {
    let Request { mask, list, .. } = *request;
    let at = list[mask.trailing_zeros() as usize & 31];
    let store = request.access_kind == AccessKind::Store;
    let covered = at as usize..(at + u64::from(op.element * op.count)) as usize;
    if warp.tainted
        || request.access_kind == AccessKind::Atomic
        || op.element < 4
        || lanes(mask).any(|lane| list[lane] != at)
        || !store
            && !warp.local_valid[covered.clone()]
                .iter()
                .all(|lanes| lanes & mask == mask)
    {
        return false;
    }
    if store {
        for lanes in &mut warp.local_valid[covered] {
            *lanes |= mask;
        }
    }
    for part in 0..op.count {
        let register = op.regs[part as usize];
        let first = (at + u64::from(part * op.element)) as usize / 4 * 32;
        if store {
            let values = collect(warp, register);
            for lane in lanes(mask) {
                warp.local[first + lane] = values[lane] as u32;
                if op.element == 8 {
                    warp.local[first + 32 + lane] = (values[lane] >> 32) as u32;
                }
            }
        } else {
            let mut values = [0; 32];
            for lane in lanes(mask) {
                values[lane] = u64::from(warp.local[first + lane]);
                if op.element == 8 {
                    values[lane] |= u64::from(warp.local[first + 32 + lane]) << 32;
                }
            }
            deliver(warp, op, register, mask, &values);
        }
    }
    true
}

/// Copies bytes of each lane's stack together with their valid bits, so that padding stays uninitialised.
#[inline(never)]
pub(crate) fn copy_on_stack(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    pc: u32,
) -> Result<(), Fatal> {
    let copy = exec.launch.program.stack_copies[x];
    let size = u64::from(exec.launch.program.stack_bytes());
    for lane in lanes(mask) {
        let from = warp.lane(copy.from.0, lane) + u64::from(copy.from.1);
        let to = warp.lane(copy.to.0, lane) + u64::from(copy.to.1);
        let highest = from.max(to);
        if highest > size || size - highest < u64::from(copy.bytes) {
            let access = Access {
                space: Space::Local,
                buffer: None,
                pointer: highest,
                offset: highest as i64,
                buffer_bytes: Some(size),
                bytes: copy.bytes,
            };
            return fault::out_of_bounds(exec, block, warp, lane, access, AccessKind::Store, pc);
        }
        let bit = 1u32 << lane;
        for i in 0..u64::from(copy.bytes) {
            let valid = warp.local_valid[(from + i) as usize] & bit;
            let cell = &mut warp.local_valid[(to + i) as usize];
            *cell = *cell & !bit | valid;
            let column = Column {
                words: Cell::from_mut(&mut warp.local[..]).as_slice_of_cells(),
                lane,
            };
            let value = read_element(&column, from + i, 1);
            write_element(&column, to + i, 1, value);
        }
    }
    Ok(())
}

#[inline(never)]
pub(super) fn parameter(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &mut Warp,
    request: &Request<'_>,
) -> Result<(), Fatal> {
    let Request {
        x,
        access_kind,
        mask,
        list,
        pc,
    } = *request;
    let op = &exec.launch.program.memory[x];
    let bytes = op.element * op.count;
    let params = exec.launch.params;
    if let Some((lane, access)) = outside(request, bytes, params.len() as u64, Space::Parameter) {
        return fault::out_of_bounds(exec, block, warp, lane, access, access_kind, pc);
    }
    if access_kind != AccessKind::Load {
        let lane = mask.trailing_zeros() as usize & 31;
        let message = format!(
            "the kernel's parameters are read-only, and {} writes to them",
            position_text(exec.launch.program, pc)
        );
        let seen = exec.plain(FindingKind::IllegalAddress, pc, block, warp, lane, message);
        return exec.find(block, seen);
    }
    for part in 0..op.count {
        let mut values = [0; 32];
        for lane in lanes(mask) {
            let at = (list[lane] + u64::from(part * op.element)) as usize;
            let mut raw = [0; 8];
            raw[..op.element as usize].copy_from_slice(&params[at..at + op.element as usize]);
            values[lane] = u64::from_le_bytes(raw);
        }
        deliver(warp, op, op.regs[part as usize], mask, &values);
        if warp.tainted {
            warp.poison.set(op.regs[part as usize], mask, 0, pc);
        }
    }
    Ok(())
}
