//! Accesses to the block's shared memory.

use std::cell::Cell;

use super::super::block::Shared;
use super::super::exec::{Exec, Fatal};
use super::super::pattern::Shape;
use super::super::poison::poisoned_bytes;
use super::super::warp::{FULL, Warp};
use super::strength::{self, Pair};
use super::{
    AccessKind, Offsets, Request, atomic, atomic_poison, collect, fault, holds_stored_values,
    lanes, load_part, offsets_at, poison_loaded, read_element, write_element,
};
use crate::code::{MemoryOp, Op, SharedRange};
use crate::report::{Access, Space};
use crate::sync::{Accessor, Reading};

#[inline(always)]
pub(super) fn access(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    request: &Request<'_>,
) -> Result<(), Fatal> {
    let launch = exec.launch;
    let Request { x, mask, pc, .. } = *request;
    let op = &launch.program.memory[x];
    let bytes = op.bytes();
    let pattern = &mut exec.patterns[x];
    let way = request.access_kind.shared_path();
    let first = pattern.observe(mask, request.list, bytes);
    let low = (first as i64).wrapping_add(pattern.low);
    let high = (first as i64).wrapping_add(pattern.high);
    if !op.shared.contains(low, high, bytes, block.bytes) {
        return outside(exec, block, warp, request, bytes);
    }
    if !pattern.aligned(first, bytes) {
        return fault::misaligned(exec, block, warp, request, Space::Shared);
    }
    pattern.update_cost(first, bytes, way);
    exec.moved[pc as usize].add(&pattern.moved);
    let shape = pattern.shape;
    let offsets = offsets_at(first, &pattern.relative);
    let by = Accessor {
        warp: warp.index,
        pc,
    };
    let range = (low as u32, high as u32 + bytes);
    match request.access_kind {
        AccessKind::Load => {
            if let (Some(shadow), true) = (&mut block.shadow, op.ordered) {
                let mut found = None;
                for lane in lanes(mask) {
                    let at = offsets[lane] as u32;
                    shadow.observe(warp.index, u64::from(at));
                    let how = (op.reads_data, op.volatile);
                    found = shadow.ordered_read(lane, at, bytes, how, by).or(found);
                }
                if let Some(conflict) = found {
                    let place = (offsets[conflict.lane] as u32, bytes);
                    exec.shared_race(conflict, pc, place, AccessKind::Load, block, warp);
                }
            } else if let Some(shadow) = &mut block.shadow {
                let reading = Reading {
                    op: x,
                    version: pattern.version,
                    relative: &pattern.relative,
                    first: first as u32,
                    begin: range.0,
                    end: range.1,
                    bytes,
                    mask,
                    checked_by_swap: op.checked_by_swap,
                    data: op.reads_data,
                };
                if let Some(conflict) = shadow.read(&reading, by) {
                    let place = (offsets[conflict.lane] as u32, bytes);
                    exec.shared_race(conflict, pc, place, AccessKind::Load, block, warp);
                }
            }
            let words = Cell::from_mut(&mut block.words[..]).as_slice_of_cells();
            for part in 0..op.count {
                load_part(warp, words, op, part, &offsets, shape, mask);
            }
            if block.invalid != 0 || warp.tainted {
                load_poison(exec, block, warp, op, &offsets, shape, mask, pc);
            }
        }
        AccessKind::Store => store(exec, block, warp, op, &offsets, mask, shape, range, by),
        AccessKind::Atomic => {
            let mut conflict = None;
            if let Some(shadow) = &mut block.shadow {
                shadow.before_write(range.0, range.1);
                if op.release {
                    shadow.fence(warp.index);
                }
                for lane in lanes(mask) {
                    let at = offsets[lane] as u32;
                    conflict = shadow.atomic(lane, at, op.element, by).or(conflict);
                    shadow.observe(warp.index, u64::from(at));
                    shadow.signal(warp.index, u64::from(at));
                }
            }
            if let Some(conflict) = conflict {
                let place = (offsets[conflict.lane] as u32, op.element);
                exec.shared_race(conflict, pc, place, AccessKind::Atomic, block, warp);
            }
            let bad = lanes(mask)
                .filter(|lane| !block.is_valid(offsets[*lane] as u32, op.element))
                .fold(0, |bad, lane| bad | 1 << lane);
            let words = Cell::from_mut(&mut block.words[..]).as_slice_of_cells();
            block.progress += u64::from(atomic(warp, op, words, &offsets, mask));
            atomic_poison(exec, block, warp, request, bad);
        }
    }
    Ok(())
}

/// Registers take the poison of the bytes they were loaded from.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "everything the access worked out already"
)]
fn load_poison(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &mut Warp,
    op: &MemoryOp,
    offsets: &Offsets,
    shape: Shape,
    mask: u32,
    pc: u32,
) {
    let whole = block.invalid == 0 || block.all_valid(offsets, mask, shape, op.element * op.count);
    if whole && !warp.tainted {
        return;
    }
    for part in 0..op.count {
        let step = part * op.element;
        let bad = if whole {
            0
        } else {
            lanes(mask)
                .filter(|lane| !block.is_valid(offsets[*lane] as u32 + step, op.element))
                .fold(0, |bad, lane| bad | 1 << lane)
        };
        let bad = if bad == 0 {
            0
        } else {
            bad & !in_flight(exec, block, warp, (offsets, step, op.element), bad, pc)
        };
        warp.tainted = true;
        let invalid =
            |lane: usize, byte: u32| !block.is_valid(offsets[lane] as u32 + step + byte, 1);
        let origin = match lanes(bad).next() {
            Some(lane) => block.first_read(offsets[lane] as u32 + step, op.element, pc),
            None => pc,
        };
        poison_loaded(warp, op, part, (mask, bad), origin, invalid);
    }
}

/// The lanes that read bytes of an asynchronous copy in flight, which is a finding of its own kind.
#[inline(never)]
fn in_flight(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    (offsets, step, bytes): (&Offsets, u32, u32),
    bad: u32,
    pc: u32,
) -> u32 {
    let Some(shadow) = &block.shadow else {
        return 0;
    };
    let mut early = 0;
    let mut first = None;
    for lane in lanes(bad) {
        let at = offsets[lane] as u32 + step;
        let writer = shadow
            .writer_of(at)
            .filter(|writer| exec.launch.program.code[*writer as usize].op == Op::AsyncCopy);
        if let Some(writer) = writer {
            early |= 1 << lane;
            first.get_or_insert((lane, at, writer));
        }
    }
    if let Some((lane, at, writer)) = first {
        exec.unawaited_copy((lane, at, bytes), (pc, writer), block, warp);
    }
    early
}

#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "everything the access worked out already"
)]
fn store(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    op: &MemoryOp,
    offsets: &Offsets,
    mask: u32,
    shape: Shape,
    (begin, end): (u32, u32),
    by: Accessor,
) {
    let mut watch = false;
    block.progress += 1;
    if let (Some(shadow), true) = (&mut block.shadow, op.ordered) {
        shadow.before_write(begin, end);
        let words = Cell::from_mut(&mut block.words[..]).as_slice_of_cells();
        let program = exec.launch.program;
        let loads_data = |pc| strength::pair(program, pc, by.pc, true) != Pair::Allowed;
        let mut conflict = None;
        for lane in lanes(mask) {
            let same = holds_stored_values(words, warp, op, offsets[lane], lane);
            let at = offsets[lane] as u32;
            let how = (same, op.volatile);
            conflict = shadow
                .ordered_write(lane, at, op.bytes(), how, by, loads_data)
                .or(conflict);
        }
        // A release publishes its own store as well.
        if op.release {
            shadow.fence(warp.index);
        }
        for lane in lanes(mask) {
            shadow.signal(warp.index, offsets[lane]);
        }
        if let Some(conflict) = conflict {
            let place = (offsets[conflict.lane] as u32, op.bytes());
            exec.shared_race(conflict, by.pc, place, AccessKind::Store, block, warp);
        }
    } else if let Some(shadow) = &mut block.shadow {
        watch = true;
        let touched = shadow.before_write(begin, end);
        if !touched && shape == Shape::Run && op.element >= shadow.grain() {
            shadow.write_run(mask, begin, op.element * op.count, by);
            watch = false;
        }
    }
    for part in 0..op.count {
        let register = op.regs[part as usize];
        let values = collect(warp, register);
        let step = u64::from(part * op.element);
        let mut conflict = None;
        let words = Cell::from_mut(&mut block.words[..]).as_slice_of_cells();
        if let (true, Some(shadow)) = (watch, &mut block.shadow) {
            let keep = if op.element == 8 {
                u64::MAX
            } else {
                (1 << (8 * op.element)) - 1
            };
            for lane in lanes(mask) {
                let at = offsets[lane] + step;
                let same = read_element(words, at, op.element) == values[lane] & keep;
                conflict = shadow
                    .write(lane, at as u32, op.element, same, by)
                    .or(conflict);
                write_element(words, at, op.element, values[lane]);
            }
        } else if op.element == 4 && mask == FULL {
            for lane in 0..32 {
                write_element(words, offsets[lane] + step, 4, values[lane]);
            }
        } else {
            for lane in lanes(mask) {
                write_element(words, offsets[lane] + step, op.element, values[lane]);
            }
        }
        if let Some(conflict) = conflict {
            let place = ((offsets[conflict.lane] + step) as u32, op.element);
            exec.shared_race(conflict, by.pc, place, AccessKind::Store, block, warp);
        }
        let (poisoned, origin) = if warp.tainted {
            let (lanes, origin) = warp.poison.get(register);
            (lanes & mask, origin)
        } else {
            (0, 0)
        };
        if block.invalid == 0 && poisoned == 0 {
            continue;
        }
        if shape == Shape::Run && op.count == 1 && poisoned == 0 {
            block.set_valid(begin, end - begin, true);
            continue;
        }
        for lane in lanes(mask) {
            let at = (offsets[lane] + step) as u32;
            if poisoned >> lane & 1 == 0 {
                block.set_valid(at, op.element, true);
                continue;
            }
            let bytes = poisoned_bytes(warp.poison.bits(register, lane), op.element);
            for byte in 0..op.element {
                block.set_valid(at + byte, 1, bytes >> byte & 1 == 0);
                if bytes >> byte & 1 == 1 {
                    block.first_reads.insert(at + byte, origin);
                }
            }
        }
    }
}

#[cold]
#[inline(never)]
fn outside(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    request: &Request<'_>,
    bytes: u32,
) -> Result<(), Fatal> {
    let program = exec.launch.program;
    let range = program.memory[request.x].shared;
    let is_outside = |lane: &usize| {
        let at = request.list[*lane] as i64;
        !range.contains(at, at, bytes, block.bytes)
    };
    let lane = lanes(request.mask).find(is_outside).unwrap_or(0);
    let access = outside_access(exec, block, range, request.list[lane], bytes);
    fault::out_of_bounds(
        exec,
        block,
        warp,
        lane,
        access,
        request.access_kind,
        request.pc,
    )
}

/// An access outside the part of shared memory that it may touch, which is named if it is one of several variables.
#[cold]
#[inline(never)]
pub(crate) fn outside_access(
    exec: &Exec<'_>,
    block: &Shared,
    range: SharedRange,
    address: u64,
    bytes: u32,
) -> Access {
    let mut names = exec.launch.program.shared_names.iter();
    let name = names.find(|(begin, ..)| range != SharedRange::WHOLE && *begin == range.begin);
    Access {
        space: Space::Shared,
        buffer: name.map(|(.., name)| name.clone()),
        pointer: address,
        offset: address as i64 - i64::from(range.begin),
        buffer_bytes: Some(u64::from(range.end.min(block.bytes) - range.begin)),
        bytes,
    }
}
