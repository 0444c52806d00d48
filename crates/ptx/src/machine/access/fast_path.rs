//! The fast path of loads and stores: all lanes active, addresses in the same shape as the last time, everything in one
//! buffer, in bounds and initialised. Any other access takes the general path, which finds out what is wrong.

use std::cell::Cell;

use super::super::block::Shared;
use super::super::exec::{Exec, Track};
use super::super::pattern::{Chunk, Pattern, Shape};
use super::super::traffic::MemoryPath;
use super::super::warp::{FULL, Warp};
use super::global::{global_path, record_reads};
use super::{AccessKind, Words, collect, deliver, load_groups, read_element, write_element};
use crate::code::{File, MemSpace, MemoryOp};
use crate::simd::VectorOps;
use crate::sync::{Accessor, Reading};

/// A memory instruction on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccessSite {
    /// Its entry in the memory table.
    pub(crate) x: usize,
    pub(crate) pc: u32,
    /// Program counter of the first instruction of its run, a sequence executed with the same lanes.
    pub(crate) run_begin: u32,
    /// The number of that run if it is a row of the quick loop, else 0.
    pub(crate) run_number: u64,
}

/// Executes a load or store. Returns false, with nothing done, if it has to take the general path.
#[inline(always)]
pub(crate) fn access<F: VectorOps>(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    access_kind: AccessKind,
    mask: u32,
    at: AccessSite,
) -> bool {
    let op = &exec.launch.program.memory[at.x];
    if mask != FULL || warp.tainted || op.ordered {
        return false;
    }
    match (op.space, access_kind) {
        (MemSpace::Global | MemSpace::Const, AccessKind::Load) => {
            load_global::<F>(exec, block, warp, at)
        }
        (MemSpace::Global, AccessKind::Store) => store_global::<F>(exec, warp, at),
        (MemSpace::Shared, AccessKind::Load) => load_shared::<F>(exec, block, warp, at),
        (MemSpace::Shared, AccessKind::Store) => store_shared::<F>(exec, block, warp, at),
        _ => false,
    }
}

/// The first lane's address, if the addresses have the shape of the instruction's pattern.
#[inline(always)]
fn repeated(exec: &mut Exec<'_>, warp: &Warp, op: &MemoryOp, at: AccessSite) -> Option<u64> {
    // An access through the same register value in this run has the same shape, so nothing is compared.
    let state = (at.run_begin..at.pc).contains(&op.leader.pc);
    let version = if state {
        exec.patterns[op.leader.x as usize].version
    } else {
        Pattern::NEVER
    };
    let pattern = &mut exec.patterns[at.x];
    let known = state && pattern.leader_version == version;
    let (first, differs) = match op.address.get() {
        Some((File::R32, slot)) => {
            let list = &warp.r32[slot].0;
            let mut differs = 0;
            if !known {
                for lane in 0..32 {
                    differs |= list[lane].wrapping_sub(list[0]) ^ pattern.relative[lane] as u32;
                }
            }
            // A 32-bit address may wrap around; no address in bounds does.
            let first = u64::from(list[0].wrapping_add(op.offset as u32));
            (first, differs != 0)
        }
        Some((File::R64, slot)) => {
            let list = &warp.r64[slot].0;
            let mut differs = 0;
            if !known {
                for lane in 0..32 {
                    differs |= list[lane].wrapping_sub(list[0]) ^ pattern.relative[lane];
                }
            }
            (list[0].wrapping_add_signed(op.offset), differs != 0)
        }
        _ => return None,
    };
    if differs || pattern.mask != FULL {
        return None;
    }
    pattern.leader_version = version;
    Some(first)
}

/// The offset of the first lane in the allocation that the instruction used last, if the whole access is in bounds,
/// aligned and initialised there.
#[inline(always)]
fn in_buffer(track: &Track, pattern: &Pattern, first: u64, bytes: u32) -> Option<u64> {
    let (low, high) = pattern.span(first);
    let allocation = &*track.allocation;
    let base = allocation.base();
    if !track.holds(low, high, bytes) || !pattern.aligned(first, bytes) {
        return None;
    }
    let valid = allocation.all_valid()
        || allocation.valid_between(low - base, high - base + u64::from(bytes));
    valid.then_some(first - base)
}

#[inline(always)]
fn load_global<F: VectorOps>(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    at: AccessSite,
) -> bool {
    let launch = exec.launch;
    let op = &launch.program.memory[at.x];
    // 32-bit addresses could wrap around inside a buffer.
    let Some((File::R64, _)) = op.address.get() else {
        return false;
    };
    let Some(first) = repeated(exec, warp, op, at) else {
        return false;
    };
    let compares = exec.compares_blocks();
    let pattern = &mut exec.patterns[at.x];
    let Some(track) = launch.tracks.get(pattern.allocation) else {
        return false;
    };
    let Some(from) = in_buffer(track, pattern, first, op.bytes()) else {
        return false;
    };
    let noticed = track.notices_reads() || (op.read_only_path && track.changed.get().is_some());
    if compares && noticed {
        return false;
    }
    pattern.update_cost(first, op.bytes(), global_path(op.space, AccessKind::Load));
    exec.moved[at.pc as usize].add(&pattern.moved);
    if op.space == MemSpace::Const {
        warp.cycles += pattern.moved.wavefronts;
    }
    pattern.mark_sectors(track.read_marks(exec.wave), from, op.bytes());
    if op.is_cached() {
        record_reads(block, warp, pattern, first, op.bytes());
    }
    load::<F, _>(warp, track.allocation.words(), op, from, pattern);
    true
}

#[inline(always)]
fn store_global<F: VectorOps>(exec: &mut Exec<'_>, warp: &Warp, at: AccessSite) -> bool {
    let launch = exec.launch;
    let op = &launch.program.memory[at.x];
    let Some((File::R64, _)) = op.address.get() else {
        return false;
    };
    if exec.compares_blocks() {
        return false;
    }
    let Some(first) = repeated(exec, warp, op, at) else {
        return false;
    };
    let pattern = &mut exec.patterns[at.x];
    let Some(track) = launch.tracks.get(pattern.allocation) else {
        return false;
    };
    // A store to uninitialised bytes takes the general path, which marks them as initialised.
    let Some(from) = in_buffer(track, pattern, first, op.bytes()) else {
        return false;
    };
    if track.allocation.read_only() {
        return false;
    }
    pattern.update_cost(first, op.bytes(), MemoryPath::Global);
    exec.moved[at.pc as usize].add(&pattern.moved);
    pattern.mark_sectors(track.write_marks(exec.wave), from, op.bytes());
    exec.waiting.changed = true;
    store::<F, _>(warp, track.allocation.words(), op, from, pattern);
    true
}

/// The byte range of a shared memory access, if it is in bounds and aligned.
#[inline(always)]
fn in_shared(block: &Shared, pattern: &Pattern, first: u64, op: &MemoryOp) -> Option<(u32, u32)> {
    let bytes = op.bytes();
    let low = (first as i64).wrapping_add(pattern.low);
    let high = (first as i64).wrapping_add(pattern.high);
    let inside = op.shared.contains(low, high, bytes, block.bytes);
    if !inside || !pattern.aligned(first, bytes) {
        return None;
    }
    Some((low as u32, high as u32 + bytes))
}

/// Reports whether all bytes that a warp reads are initialised. A positive result is cached until the block's version
/// of shared memory changes.
#[inline(always)]
fn initialised(
    block: &Shared,
    pattern: &mut Pattern,
    warp: &Warp,
    first: u64,
    (begin, end): (u32, u32),
    bytes: u32,
) -> bool {
    let now = (block.validity, first);
    if block.invalid == 0 || *pattern.found_valid(warp.index) == now {
        return true;
    }
    let valid =
        block.valid_between(begin, end) || block.every_valid(first, &pattern.relative, bytes);
    if valid {
        *pattern.found_valid(warp.index) = now;
    }
    valid
}

#[inline(always)]
pub(crate) fn load_shared<F: VectorOps>(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    at: AccessSite,
) -> bool {
    let op = &exec.launch.program.memory[at.x];
    let bytes = op.bytes();
    let Some(first) = repeated(exec, warp, op, at) else {
        return false;
    };
    let pattern = &mut exec.patterns[at.x];
    let Some((begin, end)) = in_shared(block, pattern, first, op) else {
        return false;
    };
    if !initialised(block, pattern, warp, first, (begin, end), bytes) {
        return false;
    }
    pattern.update_cost(first, bytes, MemoryPath::SharedLoad);
    exec.moved[at.pc as usize].add(&pattern.moved);
    let words = Cell::from_mut(&mut block.words[..]).as_slice_of_cells();
    load::<F, _>(warp, words, op, first, pattern);
    if let Some(shadow) = &mut block.shadow {
        let reading = Reading {
            op: at.x,
            version: pattern.version,
            relative: &pattern.relative,
            first: first as u32,
            begin,
            end,
            bytes,
            mask: FULL,
            checked_by_swap: op.checked_by_swap,
            data: op.reads_data,
        };
        let by = Accessor {
            warp: warp.index,
            pc: at.pc,
        };
        if let Some(conflict) = shadow.read(&reading, by) {
            let offset = first.wrapping_add(pattern.relative[conflict.lane]) as u32;
            exec.shared_race(
                conflict,
                at.pc,
                (offset, bytes),
                AccessKind::Load,
                block,
                warp,
            );
        }
    }
    load_groups::check_followers(exec, block, warp, at, first);
    true
}

#[inline(always)]
fn store_shared<F: VectorOps>(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    at: AccessSite,
) -> bool {
    let op = &exec.launch.program.memory[at.x];
    let bytes = op.bytes();
    let Some(first) = repeated(exec, warp, op, at) else {
        return false;
    };
    let pattern = &mut exec.patterns[at.x];
    let Some((begin, end)) = in_shared(block, pattern, first, op) else {
        return false;
    };
    if let Some(shadow) = &mut block.shadow {
        let by = Accessor {
            warp: warp.index,
            pc: at.pc,
        };
        // Elements narrower than the cells of the shadow share them.
        if op.element < shadow.grain() || !pattern.disjoint() {
            return false;
        }
        let touched = shadow.before_write(begin, end);
        if !shadow.write_apart(first as u32, &pattern.relative, bytes, touched, by) {
            return false;
        }
    }
    pattern.update_cost(first, bytes, MemoryPath::SharedStore);
    exec.moved[at.pc as usize].add(&pattern.moved);
    block.progress += 1;
    let now = (block.validity, first);
    if block.invalid != 0 && *pattern.found_valid(warp.index) != now {
        block.initialise(first, &pattern.relative, bytes);
        *pattern.found_valid(warp.index) = now;
    }
    let words = Cell::from_mut(&mut block.words[..]).as_slice_of_cells();
    store::<F, _>(warp, words, op, first, pattern);
    true
}

/// Loads the value of every lane; `from` is the first lane's byte offset.
#[inline(always)]
pub(super) fn load<F: VectorOps, W: Words + ?Sized>(
    warp: &mut Warp,
    words: &W,
    op: &MemoryOp,
    from: u64,
    pattern: &Pattern,
) {
    let relative = &pattern.relative;
    let index = |lane: usize| (from.wrapping_add(relative[lane]) / 4) as usize;
    if !op.plain {
        for part in 0..op.count {
            let step = from + u64::from(part * op.element);
            let mut values = [0; 32];
            if pattern.shape == Shape::Same {
                values = [read_element(words, step, op.element); 32];
            } else if op.element == 8 {
                for lane in 0..32 {
                    let at = (step.wrapping_add(relative[lane]) / 4) as usize;
                    values[lane] = u64::from(words.get(at)) | u64::from(words.get(at + 1)) << 32;
                }
            } else {
                for lane in 0..32 {
                    let at = step.wrapping_add(relative[lane]);
                    values[lane] = read_element(words, at, op.element);
                }
            }
            deliver(warp, op, op.regs[part as usize], FULL, &values);
        }
        return;
    }
    let slot = |part: usize| op.regs[part].slot() as usize;
    match (op.element, op.count) {
        _ if pattern.shape == Shape::Same => {
            for part in 0..op.count {
                let step = u64::from(part * op.element);
                let value = read_element(words, from + step, op.element) as u32;
                warp.r32[slot(part as usize)].0 = [value; 32];
            }
        }
        (4, 1) => {
            let values = warp.r32[slot(0)].0.as_chunks_mut::<8>().0;
            for (number, (into, chunk)) in values.iter_mut().zip(&pattern.chunks).enumerate() {
                let lane = 8 * number;
                *into = match chunk {
                    Chunk::Run => words.row::<F, 8>(index(lane)),
                    Chunk::Same => [words.get(index(lane)); 8],
                    Chunk::Mixed => {
                        let mut mixed = [0; 8];
                        for (next, value) in mixed.iter_mut().enumerate() {
                            *value = words.get(index(lane + next));
                        }
                        mixed
                    }
                };
            }
        }
        (4, 4) => {
            for number in 0..4 {
                let mut rows = [[0; 4]; 8];
                for (lane, row) in rows.iter_mut().enumerate() {
                    *row = words.row::<F, 4>(index(8 * number + lane));
                }
                for (part, column) in F::columns(&rows).into_iter().enumerate() {
                    warp.r32[slot(part)].0.as_chunks_mut::<8>().0[number] = column;
                }
            }
        }
        (2, 1) if pattern.shape == Shape::Run && from.is_multiple_of(4) => {
            let both = [words.row::<F, 8>(index(0)), words.row::<F, 8>(index(0) + 8)];
            let values = &mut warp.r32[slot(0)].0;
            for pair in 0..16 {
                let word = both[pair / 8][pair % 8];
                values[2 * pair] = word & 0xffff;
                values[2 * pair + 1] = word >> 16;
            }
        }
        _ => {
            for part in 0..op.count {
                let step = from + u64::from(part * op.element);
                let values = &mut warp.r32[slot(part as usize)].0;
                for lane in 0..32 {
                    let at = step.wrapping_add(relative[lane]);
                    values[lane] = read_element(words, at, op.element) as u32;
                }
            }
        }
    }
}

/// Stores the value of every lane. If several lanes write one address, the highest lane's value stays.
#[inline(always)]
fn store<F: VectorOps, W: Words + ?Sized>(
    warp: &Warp,
    words: &W,
    op: &MemoryOp,
    from: u64,
    pattern: &Pattern,
) {
    let relative = &pattern.relative;
    let index = |lane: usize| (from.wrapping_add(relative[lane]) / 4) as usize;
    let slot = |part: usize| &warp.r32[op.regs[part].slot() as usize].0;
    match (op.element, op.count) {
        (4, 1) if op.plain => {
            let values = slot(0).as_chunks::<8>().0;
            for (number, (values, chunk)) in values.iter().zip(&pattern.chunks).enumerate() {
                let lane = 8 * number;
                match chunk {
                    Chunk::Run => words.put_row::<F, 8>(index(lane), values),
                    Chunk::Same => words.put(index(lane), u32::MAX, values[7]),
                    Chunk::Mixed => {
                        for (next, value) in values.iter().enumerate() {
                            words.put(index(lane + next), u32::MAX, *value);
                        }
                    }
                }
            }
        }
        (4, 4) if op.plain => {
            for number in 0..4 {
                let mut columns = [[0; 8]; 4];
                for (part, column) in columns.iter_mut().enumerate() {
                    *column = slot(part).as_chunks::<8>().0[number];
                }
                for (lane, row) in F::rows(&columns).iter().enumerate() {
                    words.put_row::<F, 4>(index(8 * number + lane), row);
                }
            }
        }
        (2, 1) if op.plain && pattern.shape == Shape::Run && from.is_multiple_of(4) => {
            let mut both = [[0; 8]; 2];
            let values = slot(0);
            for pair in 0..16 {
                both[pair / 8][pair % 8] = values[2 * pair] & 0xffff | values[2 * pair + 1] << 16;
            }
            words.put_row::<F, 8>(index(0), &both[0]);
            words.put_row::<F, 8>(index(0) + 8, &both[1]);
        }
        _ => {
            for part in 0..op.count {
                let values = collect(warp, op.regs[part as usize]);
                let step = from + u64::from(part * op.element);
                for lane in 0..32 {
                    let at = step.wrapping_add(relative[lane]);
                    write_element(words, at, op.element, values[lane]);
                }
            }
        }
    }
}
