//! Loads, stores and atomics of a warp. Each access is checked for bounds, alignment, initialisation and races and its
//! cost is counted; then the data are moved.

pub(crate) mod fast_path;
mod fault;
mod global;
mod global_atomic_races;
mod global_block_races;
mod global_warp_races;
pub(crate) mod load_groups;
mod shared;
mod stack;
mod strength;

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub(crate) use fault::{out_of_bounds, outside_global};
pub(super) use global::{global_path, record_reads};
pub(crate) use global_block_races::{Reads, reads as reads_beside_others};
pub(crate) use shared::outside_access;
pub(crate) use stack::copy_on_stack;

use super::block::Shared;
use super::exec::{Exec, Fatal};
use super::pattern::Shape;
use super::poison::of_loaded;
use super::traffic::MemoryPath;
use super::vector::{put32, put64};
use super::warp::Warp;
use crate::code::{File, MemSpace, MemoryOp, SlotRef};
use crate::memory::window;
use crate::report::FindingKind;
use crate::simd::VectorOps;

/// The kind of a memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessKind {
    Load,
    Store,
    Atomic,
}

impl AccessKind {
    /// The path by which the access passes shared memory's banks.
    #[inline(always)]
    pub(crate) fn shared_path(self) -> MemoryPath {
        match self {
            Self::Load => MemoryPath::SharedLoad,
            Self::Store => MemoryPath::SharedStore,
            Self::Atomic => MemoryPath::SharedAtomic,
        }
    }
}

/// One memory instruction of a warp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    /// Its entry in the memory table.
    pub(crate) x: usize,
    pub(crate) access_kind: AccessKind,
    /// The active lanes; at least one.
    pub(crate) mask: u32,
    /// Each lane's address in the address space of the entry.
    pub(crate) list: &'a [u64; 32],
    pub(crate) pc: u32,
}

/// Offsets of the lanes in their memory; inactive lanes repeat that of the first active one.
type Offsets = [u64; 32];

/// Memory as 32-bit words.
trait Words {
    fn get(&self, index: usize) -> u32;
    /// Replaces the bits of `mask`.
    fn put(&self, index: usize, mask: u32, bits: u32);
    /// Consecutive words.
    fn row<F: VectorOps, const N: usize>(&self, index: usize) -> [u32; N];
    fn put_row<F: VectorOps, const N: usize>(&self, index: usize, values: &[u32; N]);
}

/// Consecutive words whose bounds were checked before.
#[inline(always)]
fn neighbours<T, const N: usize>(words: &[T], index: usize) -> &[T; N] {
    words[index..]
        .first_chunk()
        .expect("the range was held against the memory's size")
}

impl Words for [AtomicU32] {
    #[inline(always)]
    fn row<F: VectorOps, const N: usize>(&self, index: usize) -> [u32; N] {
        F::read(neighbours(self, index))
    }

    #[inline(always)]
    fn put_row<F: VectorOps, const N: usize>(&self, index: usize, values: &[u32; N]) {
        F::write(neighbours(self, index), values);
    }

    #[inline(always)]
    fn get(&self, index: usize) -> u32 {
        self[index].load(Relaxed)
    }

    #[inline(always)]
    fn put(&self, index: usize, mask: u32, bits: u32) {
        if mask == u32::MAX {
            self[index].store(bits, Relaxed);
        } else {
            // Another block may be writing the rest of the word; the closure never declines.
            let _ =
                self[index].fetch_update(Relaxed, Relaxed, |old| Some(old & !mask | bits & mask));
        }
    }
}

impl Words for [Cell<u32>] {
    #[inline(always)]
    fn row<F: VectorOps, const N: usize>(&self, index: usize) -> [u32; N] {
        let mut values = [0; N];
        for (value, word) in values.iter_mut().zip(neighbours::<_, N>(self, index)) {
            *value = word.get();
        }
        values
    }

    #[inline(always)]
    fn put_row<F: VectorOps, const N: usize>(&self, index: usize, values: &[u32; N]) {
        for (value, word) in values.iter().zip(neighbours::<_, N>(self, index)) {
            word.set(*value);
        }
    }

    #[inline(always)]
    fn get(&self, index: usize) -> u32 {
        self[index].get()
    }

    #[inline(always)]
    fn put(&self, index: usize, mask: u32, bits: u32) {
        self[index].set(self[index].get() & !mask | bits & mask);
    }
}

/// An aligned element of 1, 2, 4 or 8 bytes at a byte offset.
#[inline(always)]
fn read_element<W: Words + ?Sized>(words: &W, offset: u64, element: u32) -> u64 {
    let index = (offset / 4) as usize;
    let low = words.get(index);
    match element {
        4 => u64::from(low),
        8 => u64::from(low) | u64::from(words.get(index + 1)) << 32,
        2 => u64::from(low >> (8 * (offset & 2)) & 0xffff),
        _ => u64::from(low >> (8 * (offset & 3)) & 0xff),
    }
}

#[inline(always)]
fn write_element<W: Words + ?Sized>(words: &W, offset: u64, element: u32, bits: u64) {
    let index = (offset / 4) as usize;
    match element {
        4 => words.put(index, u32::MAX, bits as u32),
        8 => {
            words.put(index, u32::MAX, bits as u32);
            words.put(index + 1, u32::MAX, (bits >> 32) as u32);
        }
        2 => {
            let shift = 8 * (offset & 2) as u32;
            words.put(index, 0xffff << shift, (bits as u32) << shift);
        }
        _ => {
            let shift = 8 * (offset & 3) as u32;
            words.put(index, 0xff << shift, (bits as u32) << shift);
        }
    }
}

/// Reports whether memory has the values already that a lane stores at an offset.
fn holds_stored_values<W: Words + ?Sized>(
    words: &W,
    warp: &Warp,
    op: &MemoryOp,
    offset: u64,
    lane: usize,
) -> bool {
    let keep = if op.element == 8 {
        u64::MAX
    } else {
        (1 << (8 * op.element)) - 1
    };
    (0..op.count).all(|part| {
        let there = read_element(words, offset + u64::from(part * op.element), op.element);
        there == warp.lane(op.regs[part as usize], lane) & keep
    })
}

/// Reads one element per lane and writes it to a register.
#[inline(always)]
fn load_part<W: Words + ?Sized>(
    warp: &mut Warp,
    words: &W,
    op: &MemoryOp,
    part: u32,
    offsets: &Offsets,
    shape: Shape,
    mask: u32,
) {
    let register = op.regs[part as usize];
    let step = u64::from(part * op.element);
    let narrow = match register.get() {
        Some((File::R32, slot)) if !op.signed => Some(slot),
        _ => None,
    };
    if let (Some(slot), 2 | 4) = (narrow, op.element) {
        // The common cases, without widening to 64 bits.
        let values = if shape == Shape::Same {
            [read_element(words, offsets[0] + step, op.element) as u32; 32]
        } else if op.element == 4 {
            let mut values = [0; 32];
            for lane in 0..32 {
                values[lane] = words.get(((offsets[lane] + step) / 4) as usize);
            }
            values
        } else {
            let mut values = [0; 32];
            for lane in 0..32 {
                values[lane] = read_element(words, offsets[lane] + step, 2) as u32;
            }
            values
        };
        put32(&mut warp.r32[slot], mask, &values);
        return;
    }
    let mut values = [0; 32];
    for lane in 0..32 {
        values[lane] = read_element(words, offsets[lane] + step, op.element);
    }
    deliver(warp, op, register, mask, &values);
}

/// A register takes the poison of the bytes it was loaded from: `bad` lanes loaded some that are not initialised.
#[inline(always)]
fn poison_loaded(
    warp: &mut Warp,
    op: &MemoryOp,
    part: u32,
    (mask, bad): (u32, u32),
    pc: u32,
    invalid: impl Fn(usize, u32) -> bool,
) {
    let register = op.regs[part as usize];
    if bad == 0 {
        warp.poison.set(register, mask, 0, pc);
        return;
    }
    let mut bits = [0; 32];
    for lane in lanes(bad) {
        let bytes = (0..op.element)
            .filter(|byte| invalid(lane, *byte))
            .fold(0, |bytes, byte| bytes | 1 << byte);
        bits[lane] = of_loaded(bytes, op.element, op.signed);
    }
    warp.poison.set_bits(register, mask, &bits, pc);
}

/// Writes loaded elements to a register, sign- or zero-extended.
#[inline(always)]
fn deliver(warp: &mut Warp, op: &MemoryOp, register: SlotRef, mask: u32, values: &[u64; 32]) {
    let mut values = *values;
    if op.signed && op.element < 8 {
        let shift = 64 - 8 * op.element;
        let keep = if op.keep >= 64 {
            u64::MAX
        } else {
            (1 << op.keep) - 1
        };
        for value in &mut values {
            *value = ((*value << shift) as i64 >> shift) as u64 & keep;
        }
    }
    match register.get() {
        Some((File::R32, slot)) => {
            let mut narrow = [0; 32];
            for lane in 0..32 {
                narrow[lane] = values[lane] as u32;
            }
            put32(&mut warp.r32[slot], mask, &narrow);
        }
        Some((File::R64, slot)) => put64(&mut warp.r64[slot], mask, &values),
        _ => {}
    }
}

/// All lanes of a register, widened.
#[inline(always)]
fn collect(warp: &Warp, register: SlotRef) -> [u64; 32] {
    // Loops, not `map`: a closure would be compiled for the baseline instruction set.
    match register.get() {
        Some((File::R32, slot)) => {
            let mut wide = [0; 32];
            for (wide, value) in wide.iter_mut().zip(&warp.r32[slot].0) {
                *wide = u64::from(*value);
            }
            wide
        }
        Some((File::R64, slot)) => warp.r64[slot].0,
        _ => [0; 32],
    }
}

/// Adds the first active lane's offset to all relative offsets.
#[inline(always)]
fn offsets_at(first: u64, relative: &[u64; 32]) -> Offsets {
    let mut offsets = [0; 32];
    for lane in 0..32 {
        offsets[lane] = first.wrapping_add(relative[lane]);
    }
    offsets
}

/// Lanes of a mask, lowest first.
#[inline(always)]
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        Some(lane)
    })
}

/// Addresses of all lanes.
#[inline(always)]
pub(crate) fn addresses(warp: &Warp, register: SlotRef, offset: i64) -> [u64; 32] {
    // 32-bit addresses wrap around at 32 bits: compilers fold negative bases into large offsets.
    match register.get() {
        Some((File::R32, slot)) => {
            let mut list = [0; 32];
            for (address, value) in list.iter_mut().zip(&warp.r32[slot].0) {
                *address = u64::from(value.wrapping_add(offset as u32));
            }
            list
        }
        Some((File::R64, slot)) => {
            let mut list = warp.r64[slot].0;
            for address in &mut list {
                *address = address.wrapping_add_signed(offset);
            }
            list
        }
        _ => [offset as u64; 32],
    }
}

/// Executes a memory instruction on the general path.
#[inline(always)]
pub(crate) fn instruction(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    access_kind: AccessKind,
    mask: u32,
    at: fast_path::AccessSite,
) -> Result<(), Fatal> {
    let op = &exec.launch.program.memory[at.x];
    let list = addresses(warp, op.address, op.offset);
    let request = Request {
        x: at.x,
        access_kind,
        mask,
        list: &list,
        pc: at.pc,
    };
    access(exec, block, warp, &request)
}

/// Executes a memory instruction with the addresses of `request`.
#[inline(always)]
pub(crate) fn access(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    request: &Request<'_>,
) -> Result<(), Fatal> {
    let op = &exec.launch.program.memory[request.x];
    if warp.tainted {
        address_poison(exec, block, warp, op.address, request.mask, request.pc);
    }
    let is_private = matches!(op.space, MemSpace::Local | MemSpace::Param);
    let has_diverged = !warp.others.is_empty() || !warp.left_out.is_empty();
    if has_diverged && request.access_kind != AccessKind::Load && !is_private {
        super::warpwide::note_store(exec, block, warp, request.pc, request.mask);
    }
    match op.space {
        MemSpace::Global | MemSpace::Const => global::access(exec, block, warp, request),
        MemSpace::Shared => shared::access(exec, block, warp, request),
        MemSpace::Local => stack::local(exec, block, warp, request),
        MemSpace::Param => stack::parameter(exec, block, warp, request),
        MemSpace::Generic => generic(exec, block, warp, request),
    }
}

/// Reports whether an ordered or atomic instruction has just got the value that it got from the same address when the
/// warp last executed it. Several are remembered, because a loop may wait for one of several flags.
#[inline(always)]
pub(crate) fn polls_unchanged_value(
    exec: &Exec<'_>,
    warp: &mut Warp,
    mask: u32,
    at: fast_path::AccessSite,
) -> bool {
    let op = &exec.launch.program.memory[at.x];
    let result = op.atomic.map_or(op.regs[0], |how| how.d);
    if !op.ordered || result == SlotRef::NONE || mask == 0 {
        return false;
    }
    let lane = mask.trailing_zeros() as usize;
    let now = (
        at.pc,
        warp.lane(op.address, lane).wrapping_add_signed(op.offset),
        warp.lane(result, lane),
    );
    if let Some(last) = warp.last_polls.iter_mut().find(|last| last.0 == now.0) {
        return std::mem::replace(last, now) == now;
    }
    warp.last_polls.rotate_right(1);
    warp.last_polls[0] = now;
    false
}

/// [`access`], compiled once outside the interpreter's loop.
#[inline(never)]
pub(crate) fn access_apart(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    request: &Request<'_>,
) -> Result<(), Fatal> {
    access(exec, block, warp, request)
}

/// Records a finding if an address is poisoned.
#[inline(never)]
pub(crate) fn address_poison(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    address: SlotRef,
    mask: u32,
    pc: u32,
) {
    let (poisoned, origin) = warp.poison.get(address);
    if poisoned & mask != 0 {
        exec.uninitialised(
            FindingKind::UninitialisedAddress,
            (pc, origin),
            block,
            warp,
            poisoned & mask,
            None,
        );
    }
}

/// Executes an access with generic addresses: once per state space to which lanes point.
#[inline(never)]
fn generic(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    request: &Request<'_>,
) -> Result<(), Fatal> {
    let mut left = request.mask;
    while left != 0 {
        let base = window::of(request.list[left.trailing_zeros() as usize]);
        let here = lanes(left)
            .filter(|lane| window::of(request.list[*lane]) == base)
            .fold(0, |mask, lane| mask | 1 << lane);
        left &= !here;
        let own = request.list.map(|address| address.wrapping_sub(base));
        let part = Request {
            mask: here,
            list: &own,
            ..*request
        };
        match base {
            window::SHARED => shared::access(exec, block, warp, &part)?,
            window::LOCAL => stack::local(exec, block, warp, &part)?,
            window::PARAM => stack::parameter(exec, block, warp, &part)?,
            _ => global::access(exec, block, warp, &part)?,
        }
    }
    Ok(())
}

/// Applies an atomic lane by lane, in lane order. Returns true if it changed memory.
#[inline(never)]
fn atomic<W: Words + ?Sized>(
    warp: &mut Warp,
    op: &MemoryOp,
    words: &W,
    offsets: &Offsets,
    mask: u32,
) -> bool {
    let Some(how) = op.atomic else { return false };
    let mut changed = false;
    for lane in lanes(mask) {
        let old = read_element(words, offsets[lane], op.element);
        let new = (how.combine)([old, warp.lane(how.b, lane), warp.lane(how.c, lane), 0]);
        write_element(words, offsets[lane], op.element, new);
        changed |= read_element(words, offsets[lane], op.element) != old;
        warp.set_lane(how.d, lane, old);
    }
    changed
}

/// An atomic on bytes nobody initialised (`bad`), or with an operand nobody initialised.
#[inline(never)]
fn atomic_poison(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &mut Warp,
    request: &Request<'_>,
    bad: u32,
) {
    let Some(how) = exec.launch.program.memory[request.x].atomic else {
        return;
    };
    warp.tainted |= bad != 0;
    if !warp.tainted {
        return;
    }
    let (mask, pc) = (request.mask, request.pc);
    let (b, from) = warp.poison.get(how.b);
    if b & mask != 0 {
        exec.uninitialised(
            FindingKind::UninitialisedStore,
            (pc, from),
            block,
            warp,
            b & mask,
            None,
        );
    }
    if bad != 0 {
        // The result of the atomic stays in memory.
        exec.uninitialised(
            FindingKind::UninitialisedStore,
            (pc, pc),
            block,
            warp,
            bad,
            None,
        );
    }
    warp.poison.set(how.d, mask, bad, pc);
}
