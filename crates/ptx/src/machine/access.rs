//! Loads, stores and atomics of a warp: bounds, alignment, initialisation, races, costs, then the data.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::block::Shared;
use super::exec::{Exec, Fatal, SEVERAL, Track};
use super::pattern::Shape;
use super::vector::{put32, put64};
use super::warp::{FULL, Warp};
use crate::code::{File, MemSpace, MemoryOp, SlotRef};
use crate::memory::window;
use crate::report::{Access, FindingKind, Party, Space};
use crate::sync::{Accessor, Reading};

/// Memory as 32-bit words.
trait Words {
    fn get(&self, index: usize) -> u32;
    /// Replaces the bits of the mask.
    fn put(&self, index: usize, mask: u32, bits: u32);
}

impl Words for [AtomicU32] {
    #[inline(always)]
    fn get(&self, index: usize) -> u32 {
        self[index].load(Relaxed)
    }

    #[inline(always)]
    fn put(&self, index: usize, mask: u32, bits: u32) {
        if mask == u32::MAX {
            self[index].store(bits, Relaxed);
        } else {
            // Another block may be writing the rest of the word.
            let _ =
                self[index].fetch_update(Relaxed, Relaxed, |old| Some(old & !mask | bits & mask));
        }
    }
}

impl Words for [Cell<u32>] {
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

/// Offsets of the lanes inside their memory; inactive lanes repeat the first active one's.
type Offsets = [u64; 32];

/// One register's worth of a load.
#[inline(always)]
fn gather<W: Words + ?Sized>(
    words: &W,
    offsets: &Offsets,
    shape: Shape,
    op: &MemoryOp,
    index: u32,
) -> [u64; 32] {
    let step = u64::from(index * op.element);
    if shape == Shape::Same {
        return [read_element(words, offsets[0] + step, op.element); 32];
    }
    let mut values = [0; 32];
    match op.element {
        4 => {
            for lane in 0..32 {
                values[lane] = read_element(words, offsets[lane] + step, 4);
            }
        }
        2 => {
            for lane in 0..32 {
                values[lane] = read_element(words, offsets[lane] + step, 2);
            }
        }
        element => {
            for lane in 0..32 {
                values[lane] = read_element(words, offsets[lane] + step, element);
            }
        }
    }
    values
}

/// Writes a loaded element into a register, extended as the instruction says.
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

/// The bits a store takes from a register.
#[inline(always)]
fn collect(warp: &Warp, register: SlotRef) -> [u64; 32] {
    match register.get() {
        Some((File::R32, slot)) => {
            let mut wide = [0; 32];
            for lane in 0..32 {
                wide[lane] = u64::from(warp.r32[slot].0[lane]);
            }
            wide
        }
        Some((File::R64, slot)) => warp.r64[slot].0,
        _ => [0; 32],
    }
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
    let mut list = collect(warp, register);
    for address in &mut list {
        *address = address.wrapping_add_signed(offset);
    }
    list
}

/// What a warp wants from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Load,
    Store,
    Atomic,
}

/// Runs a memory instruction for the lanes of a mask at their addresses; `x` is its entry in the memory table.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "one memory access has this many parts")]
pub(crate) fn access(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    pc: u32,
    want: Want,
    list: &[u64; 32],
) -> Result<(), Fatal> {
    let op = &exec.launch.program.memory[x];
    if warp.tainted {
        address_poison(exec, block, warp, op.address, mask, pc);
    }
    match op.space {
        MemSpace::Global | MemSpace::Const => global(exec, block, warp, x, mask, pc, want, list),
        MemSpace::Shared => shared(exec, block, warp, x, mask, pc, want, list),
        space => other_space(exec, block, warp, x, mask, pc, want, list, space),
    }
}

/// The same outside the interpreter's loop.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "one memory access has this many parts")]
pub(crate) fn access_apart(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    pc: u32,
    want: Want,
    list: &[u64; 32],
) -> Result<(), Fatal> {
    access(exec, block, warp, x, mask, pc, want, list)
}

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
            pc,
            origin,
            block,
            warp,
            poisoned & mask,
            None,
        );
    }
}

#[inline(never)]
#[expect(
    clippy::too_many_arguments,
    reason = "one memory access has this many parts"
)]
fn other_space(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    pc: u32,
    want: Want,
    list: &[u64; 32],
    space: MemSpace,
) -> Result<(), Fatal> {
    match space {
        MemSpace::Local => local(exec, block, warp, x, mask, pc, want, list),
        MemSpace::Param => parameter(exec, block, warp, x, mask, pc, want, list),
        _ => {
            // Generic: one pass per window the lanes point into.
            let mut left = mask;
            while left != 0 {
                let base = window::of(list[left.trailing_zeros() as usize]);
                let here = lanes(left)
                    .filter(|lane| window::of(list[*lane]) == base)
                    .fold(0, |m, lane| m | 1 << lane);
                left &= !here;
                let mut own = *list;
                for address in &mut own {
                    *address = address.wrapping_sub(base);
                }
                match base {
                    window::SHARED => shared(exec, block, warp, x, here, pc, want, &own)?,
                    window::LOCAL => local(exec, block, warp, x, here, pc, want, &own)?,
                    window::PARAM => parameter(exec, block, warp, x, here, pc, want, &own)?,
                    _ => global(exec, block, warp, x, here, pc, want, &own)?,
                }
            }
            Ok(())
        }
    }
}

/// The offsets of all lanes from a base, inactive ones at the first active lane's.
#[inline(always)]
fn offsets_from(list: &[u64; 32], mask: u32, first: u64, base: u64) -> Offsets {
    let mut offsets = [0; 32];
    for lane in 0..32 {
        let active = 0u64.wrapping_sub(u64::from(mask >> lane & 1));
        offsets[lane] = ((list[lane] & active) | (first & !active)).wrapping_sub(base);
    }
    offsets
}

#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "one memory access has this many parts"
)]
fn global(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    pc: u32,
    want: Want,
    list: &[u64; 32],
) -> Result<(), Fatal> {
    let launch = exec.launch;
    let op = &launch.program.memory[x];
    let bytes = op.element * op.count;
    let pattern = &mut exec.patterns[x];
    let first = pattern.observe(mask, list, bytes, false);
    let (low, high) = (
        first.wrapping_add_signed(pattern.low),
        first.wrapping_add_signed(pattern.high),
    );
    let holds = |track: &Track| {
        let base = track.allocation.base();
        low >= base
            && high < base + track.allocation.bytes()
            && base + track.allocation.bytes() - high >= u64::from(bytes)
    };
    let aligned = pattern.aligned(first, bytes);
    let shape = pattern.shape;
    let cost = pattern.cost;
    let mut index = pattern.allocation;
    if !launch.tracks.get(index).is_some_and(&holds) {
        index = launch
            .tracks
            .partition_point(|track| track.allocation.base() <= low)
            .wrapping_sub(1);
        pattern.allocation = index;
        if !launch.tracks.get(index).is_some_and(&holds) {
            return scattered(exec, block, warp, x, mask, pc, want, list);
        }
    }
    if !aligned {
        return misaligned(exec, block, warp, op, mask, pc, list, Space::Global);
    }
    let moved = &mut exec.moved[pc as usize];
    moved.sectors += u64::from(cost.sectors);
    moved.sectors_ideal += u64::from(cost.sectors_ideal);
    moved.bytes += u64::from(cost.bytes);
    moved.lane_bytes += u64::from(mask.count_ones() * bytes);
    let track = &launch.tracks[index];
    let allocation = &*track.allocation;
    let offsets = offsets_from(list, mask, first, allocation.base());
    match want {
        Want::Load => {
            footprint(&track.read, &offsets, mask, shape, bytes);
            if exec.full_checks() && !op.ordered {
                if let Some(writers) = track.writers.get() {
                    foreign_writes(exec, block, warp, writers, track, &offsets, mask, bytes, pc);
                }
            }
            let all_valid = allocation.all_valid();
            for part in 0..op.count {
                let values = gather(allocation.words(), &offsets, shape, op, part);
                let register = op.regs[part as usize];
                deliver(warp, op, register, mask, &values);
                if !all_valid || warp.tainted {
                    let step = u64::from(part * op.element);
                    let bad = if all_valid {
                        0
                    } else {
                        lanes(mask)
                            .filter(|lane| !allocation.is_valid(offsets[*lane] + step, op.element))
                            .fold(0, |bad, lane| bad | 1 << lane)
                    };
                    warp.tainted |= bad != 0;
                    warp.poison.set(register, mask, bad, pc);
                }
            }
            Ok(())
        }
        Want::Store => {
            if allocation.read_only() {
                return read_only(exec, block, warp, op, mask, pc, list);
            }
            footprint(&track.written, &offsets, mask, shape, bytes);
            if exec.full_checks() && !op.ordered {
                own_writes(exec, block, warp, track, &offsets, mask, bytes, pc);
            }
            store_global(exec, block, warp, op, track, &offsets, mask, shape, pc);
            Ok(())
        }
        Want::Atomic => {
            if allocation.read_only() {
                return read_only(exec, block, warp, op, mask, pc, list);
            }
            footprint(&track.written, &offsets, mask, shape, bytes);
            let bad = lanes(mask)
                .filter(|lane| !allocation.is_valid(offsets[*lane], op.element))
                .fold(0, |bad, lane| bad | 1 << lane);
            atomic(warp, op, allocation.words(), &offsets, mask);
            atomic_poison(exec, block, warp, op, mask, bad, pc);
            Ok(())
        }
    }
}

/// Marks the sectors an access touched.
#[inline(always)]
fn footprint(bits: &[AtomicU32], offsets: &Offsets, mask: u32, shape: Shape, bytes: u32) {
    match shape {
        Shape::Same => Track::touch(bits, offsets[0], u64::from(bytes)),
        Shape::Run => {
            let first = offsets[mask.trailing_zeros() as usize & 31];
            Track::touch(bits, first, u64::from(bytes * mask.count_ones()));
        }
        Shape::Other => {
            for lane in lanes(mask) {
                Track::touch(bits, offsets[lane], u64::from(bytes));
            }
        }
    }
}

#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "one memory access has this many parts"
)]
fn store_global(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    op: &MemoryOp,
    track: &Track,
    offsets: &Offsets,
    mask: u32,
    shape: Shape,
    pc: u32,
) {
    let allocation = &*track.allocation;
    for part in 0..op.count {
        let register = op.regs[part as usize];
        let values = collect(warp, register);
        let step = u64::from(part * op.element);
        let words = allocation.words();
        if op.element == 2 && shape == Shape::Run && op.count == 1 {
            // Neighbouring lanes share a word; written together they need no exchange loop.
            let mut left = mask;
            while left != 0 {
                let lane = left.trailing_zeros() as usize;
                left &= left - 1;
                if offsets[lane] & 2 == 0 && left >> (lane + 1).min(31) & 1 == 1 && lane < 31 {
                    left &= left - 1;
                    let both = (values[lane] & 0xffff) as u32 | (values[lane + 1] as u32) << 16;
                    words.put((offsets[lane] / 4) as usize, u32::MAX, both);
                } else {
                    write_element(words, offsets[lane], 2, values[lane]);
                }
            }
        } else {
            for lane in lanes(mask) {
                write_element(words, offsets[lane] + step, op.element, values[lane]);
            }
        }
        let (poisoned, origin) = if warp.tainted {
            warp.poison.get(register)
        } else {
            (0, 0)
        };
        let poisoned = poisoned & mask;
        if poisoned != 0 {
            let lane = poisoned.trailing_zeros() as usize;
            let access = global_place(track, offsets[lane] + step, op.element);
            exec.uninitialised(
                FindingKind::UninitialisedStore,
                pc,
                origin,
                block,
                warp,
                poisoned,
                Some(access),
            );
            for lane in lanes(poisoned) {
                allocation.clear_valid(offsets[lane] + step, u64::from(op.element));
            }
        }
        if !allocation.all_valid() {
            let clean = mask & !poisoned;
            if shape == Shape::Run && op.count == 1 && clean == mask {
                let first = offsets[mask.trailing_zeros() as usize & 31];
                allocation.set_valid(first, u64::from(op.element * mask.count_ones()));
            } else {
                for lane in lanes(clean) {
                    allocation.set_valid(offsets[lane] + step, u64::from(op.element));
                }
            }
        }
    }
}

pub(crate) fn global_place(track: &Track, offset: u64, bytes: u32) -> Access {
    Access {
        space: if track.allocation.read_only() {
            Space::Constant
        } else {
            Space::Global
        },
        buffer: track.allocation.label().map(|label| label.to_string()),
        pointer: track.allocation.base().wrapping_add(offset),
        offset: offset as i64,
        buffer_bytes: Some(track.allocation.bytes()),
        bytes,
    }
}

/// Applies an atomic lane by lane, in lane order.
#[inline(never)]
fn atomic<W: Words + ?Sized>(
    warp: &mut Warp,
    op: &MemoryOp,
    words: &W,
    offsets: &Offsets,
    mask: u32,
) {
    let Some(how) = op.atomic else { return };
    for lane in lanes(mask) {
        let old = read_element(words, offsets[lane], op.element);
        let new = (how.combine)([old, warp.lane(how.b, lane), warp.lane(how.c, lane), 0]);
        write_element(words, offsets[lane], op.element, new);
        warp.set_lane(how.d, lane, old);
    }
}

#[inline(never)]
fn atomic_poison(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &mut Warp,
    op: &MemoryOp,
    mask: u32,
    bad: u32,
    pc: u32,
) {
    let Some(how) = op.atomic else { return };
    warp.tainted |= bad != 0;
    if !warp.tainted {
        return;
    }
    let (b, from) = warp.poison.get(how.b);
    if b & mask != 0 {
        exec.uninitialised(
            FindingKind::UninitialisedStore,
            pc,
            from,
            block,
            warp,
            b & mask,
            None,
        );
    }
    if bad != 0 {
        // The result of an atomic on bytes nobody initialised stays in memory.
        exec.uninitialised(
            FindingKind::UninitialisedStore,
            pc,
            pc,
            block,
            warp,
            bad,
            None,
        );
    }
    warp.poison.set(how.d, mask, bad, pc);
}

/// Whether another block wrote, in this launch, what this one reads.
#[inline(never)]
#[expect(
    clippy::too_many_arguments,
    reason = "one memory access has this many parts"
)]
fn foreign_writes(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    writers: &[AtomicU32],
    track: &Track,
    offsets: &Offsets,
    mask: u32,
    bytes: u32,
    pc: u32,
) {
    let me = writer(block);
    for lane in lanes(mask) {
        for word in offsets[lane] / 4..=(offsets[lane] + u64::from(bytes) - 1) / 4 {
            let seen = writers[word as usize].load(Relaxed);
            let here = byte_mask(offsets[lane], bytes, word);
            if seen != 0 && seen >> 4 != me && seen >> 4 != SEVERAL && seen & here != 0 {
                global_race(
                    exec,
                    block,
                    warp,
                    track,
                    lane,
                    offsets[lane],
                    bytes,
                    seen >> 4,
                    false,
                    pc,
                );
            }
        }
    }
}

/// The bytes of a word an access covers.
fn byte_mask(offset: u64, bytes: u32, word: u64) -> u32 {
    let from = offset.saturating_sub(word * 4).min(4);
    let to = (offset + u64::from(bytes)).saturating_sub(word * 4).min(4);
    ((1u32 << to) - 1) & !((1u32 << from) - 1)
}

/// A block's mark in the writers' shadow.
fn writer(block: &Shared) -> u32 {
    (block.index % u64::from(SEVERAL - 1)) as u32 + 1
}

/// Notes this block as the writer, and finds another one.
#[inline(never)]
#[expect(
    clippy::too_many_arguments,
    reason = "one memory access has this many parts"
)]
fn own_writes(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    track: &Track,
    offsets: &Offsets,
    mask: u32,
    bytes: u32,
    pc: u32,
) {
    let writers = track.writers();
    let me = writer(block);
    for lane in lanes(mask) {
        for word in offsets[lane] / 4..=(offsets[lane] + u64::from(bytes) - 1) / 4 {
            let cell = &writers[word as usize];
            let seen = cell.load(Relaxed);
            let here = byte_mask(offsets[lane], bytes, word);
            if seen == 0 || seen >> 4 == me {
                cell.store(me << 4 | seen & 0xf | here, Relaxed);
            } else if seen >> 4 != SEVERAL {
                if seen & here != 0 {
                    global_race(
                        exec,
                        block,
                        warp,
                        track,
                        lane,
                        offsets[lane],
                        bytes,
                        seen >> 4,
                        true,
                        pc,
                    );
                } else {
                    cell.store(SEVERAL << 4, Relaxed);
                }
            }
        }
    }
}

#[cold]
#[inline(never)]
#[expect(
    clippy::too_many_arguments,
    reason = "one memory access has this many parts"
)]
fn global_race(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    track: &Track,
    lane: usize,
    offset: u64,
    bytes: u32,
    other: u32,
    wrote: bool,
    pc: u32,
) {
    if exec
        .findings
        .repeat(exec.launch.program, FindingKind::GlobalRace, pc)
    {
        return;
    }
    let [x, y, _] = exec.launch.grid;
    let linear = other - 1;
    let other = [linear % x, linear / x % y, linear / (x * y)];
    let access = global_place(track, offset, bytes);
    let message = format!(
        "block {:?} {} byte {} of {} at {}, which block {other:?} writes in the same launch; blocks are not ordered: \
         use an atomic, or a second launch",
        block.coordinates,
        if wrote { "writes" } else { "reads" },
        access.offset,
        crate::check::buffer_name(&access),
        crate::check::spoken(exec.launch.program, pc),
    );
    let mut seen = exec.plain(FindingKind::GlobalRace, pc, block, warp, lane, message);
    seen.access = Some(access);
    seen.other = Some(Party {
        block: other,
        thread: None,
        location: None,
        wrote: true,
    });
    let _ = exec.find(block, seen);
}

#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "one memory access has this many parts"
)]
fn shared(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    pc: u32,
    want: Want,
    list: &[u64; 32],
) -> Result<(), Fatal> {
    let launch = exec.launch;
    let op = &launch.program.memory[x];
    let bytes = op.element * op.count;
    let pattern = &mut exec.patterns[x];
    let first = pattern.observe(mask, list, bytes, true);
    let low = (first as i64).wrapping_add(pattern.low);
    let high = (first as i64).wrapping_add(pattern.high);
    if low < 0 || high < 0 || high > i64::from(block.bytes) - i64::from(bytes) {
        return shared_bounds(exec, block, warp, op, mask, pc, want, list);
    }
    if !pattern.aligned(first, bytes) {
        return misaligned(exec, block, warp, op, mask, pc, list, Space::Shared);
    }
    let (shape, cost) = (pattern.shape, pattern.cost);
    let moved = &mut exec.moved[pc as usize];
    moved.wavefronts += u64::from(cost.wavefronts);
    moved.wavefronts_ideal += u64::from(cost.wavefronts_ideal);
    moved.shared_bytes += u64::from(mask.count_ones() * bytes);
    let offsets = offsets_from(list, mask, first, 0);
    let by = Accessor {
        warp: warp.index,
        synced: warp.synced,
        pc,
    };
    match want {
        Want::Load => {
            if let (Some(shadow), false) = (&mut block.shadow, op.ordered) {
                let pattern = &exec.patterns[x];
                let reading = Reading {
                    op: x,
                    version: pattern.version,
                    relative: &pattern.relative,
                    first: first as u32,
                    begin: low as u32,
                    end: high as u32 + bytes,
                    bytes,
                    mask,
                };
                if let Some(conflict) = shadow.read(&reading, by) {
                    exec.shared_race(
                        conflict,
                        pc,
                        offsets[conflict.lane] as u32,
                        bytes,
                        false,
                        block,
                        warp,
                    );
                }
            }
            let all_valid = block.invalid == 0;
            let words = Cell::from_mut(&mut block.words[..]).as_slice_of_cells();
            for part in 0..op.count {
                let values = gather(words, &offsets, shape, op, part);
                deliver(warp, op, op.regs[part as usize], mask, &values);
            }
            if !all_valid || warp.tainted {
                let whole = all_valid || block.all_valid(&offsets, mask, shape, bytes);
                for part in 0..op.count {
                    let step = part * op.element;
                    let bad = if whole {
                        0
                    } else {
                        lanes(mask)
                            .filter(|lane| !block.is_valid(offsets[*lane] as u32 + step, op.element))
                            .fold(0, |bad, lane| bad | 1 << lane)
                    };
                    if warp.tainted || bad != 0 {
                        warp.tainted = true;
                        warp.poison.set(op.regs[part as usize], mask, bad, pc);
                    }
                }
            }
        }
        Want::Store => {
            let range = (low as u32, high as u32 + bytes);
            store_shared(exec, block, warp, op, &offsets, mask, shape, range, by);
        }
        Want::Atomic => {
            let bad = lanes(mask)
                .filter(|lane| !block.is_valid(offsets[*lane] as u32, op.element))
                .fold(0, |bad, lane| bad | 1 << lane);
            let words = Cell::from_mut(&mut block.words[..]).as_slice_of_cells();
            atomic(warp, op, words, &offsets, mask);
            atomic_poison(exec, block, warp, op, mask, bad, pc);
        }
    }
    Ok(())
}

#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "one memory access has this many parts")]
fn store_shared(
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
    let mut watch = !op.ordered;
    if let (true, Some(shadow)) = (watch, &mut block.shadow) {
        let touched = shadow.before_write(begin, end);
        if !touched && shape == Shape::Run && op.element >= shadow.grain() {
            shadow.write_run(mask, begin, op.element * op.count, by);
            watch = false;
        }
    } else {
        watch = false;
    }
    for part in 0..op.count {
        let register = op.regs[part as usize];
        let values = collect(warp, register);
        let step = u64::from(part * op.element);
        let mut conflict = None;
        let words = Cell::from_mut(&mut block.words[..]).as_slice_of_cells();
        if let (true, Some(shadow)) = (watch, &mut block.shadow) {
            let keep = if op.element == 8 { u64::MAX } else { (1 << (8 * op.element)) - 1 };
            for lane in lanes(mask) {
                let at = offsets[lane] + step;
                let same = read_element(words, at, op.element) == values[lane] & keep;
                conflict = shadow.write(lane, at as u32, op.element, same, by).or(conflict);
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
            let at = offsets[conflict.lane] + step;
            exec.shared_race(conflict, by.pc, at as u32, op.element, true, block, warp);
        }
        let poisoned = if warp.tainted { warp.poison.get(register).0 & mask } else { 0 };
        if block.invalid == 0 && poisoned == 0 {
            continue;
        }
        if shape == Shape::Run && op.count == 1 && poisoned == 0 {
            block.set_valid(begin, end - begin, true);
        } else {
            for lane in lanes(mask) {
                block.set_valid((offsets[lane] + step) as u32, op.element, poisoned >> lane & 1 == 0);
            }
        }
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "one memory access has this many parts"
)]
fn local(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    pc: u32,
    want: Want,
    list: &[u64; 32],
) -> Result<(), Fatal> {
    let op = &exec.launch.program.memory[x];
    let bytes = op.element * op.count;
    let size = u64::from(exec.launch.program.local_bytes);
    let outside =
        lanes(mask).find(|lane| list[*lane] > size || size - list[*lane] < u64::from(bytes));
    if let Some(lane) = outside {
        let access = Access {
            space: Space::Local,
            buffer: None,
            pointer: list[lane],
            offset: list[lane] as i64,
            buffer_bytes: Some(size),
            bytes,
        };
        return out_of_bounds(exec, block, warp, lane, access, want, pc);
    }
    if lanes(mask).any(|lane| list[lane] & u64::from(bytes - 1) != 0) {
        return misaligned(exec, block, warp, op, mask, pc, list, Space::Local);
    }
    if !op.stack_of_call {
        exec.moved[pc as usize].local_bytes += u64::from(mask.count_ones() * bytes);
    }
    for part in 0..op.count {
        let register = op.regs[part as usize];
        let step = u64::from(part * op.element);
        let (poisoned, _) = if warp.tainted {
            warp.poison.get(register)
        } else {
            (0, 0)
        };
        let mut bad = 0;
        for lane in lanes(mask) {
            let at = list[lane] + step;
            let valid = &mut warp.local_valid[at as usize..(at + u64::from(op.element)) as usize];
            let bit = 1 << lane;
            if want == Want::Load {
                if valid.iter().any(|lanes| lanes & bit == 0) {
                    bad |= bit;
                }
            } else {
                let keep = if poisoned & bit == 0 { bit } else { 0 };
                for lanes in valid {
                    *lanes = *lanes & !bit | keep;
                }
            }
            let column = LaneColumn {
                words: Cell::from_mut(&mut warp.local[..]).as_slice_of_cells(),
                lane,
            };
            if want == Want::Load {
                let mut value = read_element(&column, at, op.element);
                if op.signed && op.element < 8 {
                    let shift = 64 - 8 * op.element;
                    let keep = if op.keep >= 64 {
                        u64::MAX
                    } else {
                        (1 << op.keep) - 1
                    };
                    value = ((value << shift) as i64 >> shift) as u64 & keep;
                }
                warp.set_lane(register, lane, value);
            } else {
                let value = warp.lane(register, lane);
                let column = LaneColumn {
                    words: Cell::from_mut(&mut warp.local[..]).as_slice_of_cells(),
                    lane,
                };
                write_element(&column, at, op.element, value);
            }
        }
        if want == Want::Load && (warp.tainted || bad != 0) {
            warp.tainted |= bad != 0;
            warp.poison.set(register, mask, bad, pc);
        }
    }
    Ok(())
}

/// One lane's stack in the interleaved words.
struct LaneColumn<'a> {
    words: &'a [Cell<u32>],
    lane: usize,
}

impl Words for LaneColumn<'_> {
    fn get(&self, index: usize) -> u32 {
        self.words[index * 32 + self.lane].get()
    }

    fn put(&self, index: usize, mask: u32, bits: u32) {
        self.words.put(index * 32 + self.lane, mask, bits);
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "one memory access has this many parts"
)]
fn parameter(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    pc: u32,
    want: Want,
    list: &[u64; 32],
) -> Result<(), Fatal> {
    let op = &exec.launch.program.memory[x];
    let bytes = op.element * op.count;
    let size = exec.launch.params.len() as u64;
    for lane in lanes(mask) {
        let access = Access {
            space: Space::Parameter,
            buffer: None,
            pointer: list[lane],
            offset: list[lane] as i64,
            buffer_bytes: Some(size),
            bytes,
        };
        if list[lane] > size || size - list[lane] < u64::from(bytes) {
            return out_of_bounds(exec, block, warp, lane, access, want, pc);
        }
        if want != Want::Load {
            let message = format!(
                "the kernel's parameters are read-only, and {} writes to them",
                crate::check::spoken(exec.launch.program, pc)
            );
            let mut seen = exec.plain(FindingKind::IllegalAddress, pc, block, warp, lane, message);
            seen.access = Some(access);
            return exec.find(block, seen);
        }
    }
    for part in 0..op.count {
        let mut values = [0; 32];
        for lane in lanes(mask) {
            let at = (list[lane] + u64::from(part * op.element)) as usize;
            let mut raw = [0; 8];
            raw[..op.element as usize]
                .copy_from_slice(&exec.launch.params[at..at + op.element as usize]);
            values[lane] = u64::from_le_bytes(raw);
        }
        deliver(warp, op, op.regs[part as usize], mask, &values);
        if warp.tainted {
            warp.poison.set(op.regs[part as usize], mask, 0, pc);
        }
    }
    Ok(())
}

/// Lanes that do not share one allocation: one at a time, and the first that is in none ends the launch.
#[cold]
#[inline(never)]
#[expect(
    clippy::too_many_arguments,
    reason = "one memory access has this many parts"
)]
fn scattered(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    pc: u32,
    want: Want,
    list: &[u64; 32],
) -> Result<(), Fatal> {
    let launch = exec.launch;
    let op = &launch.program.memory[x];
    let bytes = op.element * op.count;
    for lane in lanes(mask) {
        let address = list[lane];
        let index = launch
            .tracks
            .partition_point(|track| track.allocation.base() <= address)
            .checked_sub(1);
        let nearest = index.map(|index| &launch.tracks[index]);
        let inside = nearest.is_some_and(|track| {
            let offset = address - track.allocation.base();
            offset < track.allocation.bytes()
                && track.allocation.bytes() - offset >= u64::from(bytes)
        });
        if !inside {
            return global_bounds(exec, block, warp, op, lane, pc, want, address);
        }
    }
    for lane in lanes(mask) {
        if mask.count_ones() > 1 {
            scattered_lane(exec, block, warp, x, 1 << lane, pc, want, list)?;
        }
    }
    Ok(())
}

#[inline(never)]
#[expect(
    clippy::too_many_arguments,
    reason = "one memory access has this many parts"
)]
fn scattered_lane(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    pc: u32,
    want: Want,
    list: &[u64; 32],
) -> Result<(), Fatal> {
    global(exec, block, warp, x, mask, pc, want, list)
}

#[cold]
#[inline(never)]
#[expect(
    clippy::too_many_arguments,
    reason = "one memory access has this many parts"
)]
pub(crate) fn global_bounds(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    op: &MemoryOp,
    lane: usize,
    pc: u32,
    want: Want,
    address: u64,
) -> Result<(), Fatal> {
    let bytes = op.element * op.count;
    let access = nearest_access(exec, address, bytes);
    if address < 1 << 16 {
        let message = format!(
            "thread {:?} uses address {address:#x} at {}: a null pointer, or an integer that is none",
            exec.thread_of(warp, lane),
            crate::check::spoken(exec.launch.program, pc)
        );
        let mut seen = exec.plain(FindingKind::IllegalAddress, pc, block, warp, lane, message);
        seen.access = Some(Access {
            buffer: None,
            buffer_bytes: None,
            offset: address as i64,
            ..access
        });
        return exec.find(block, seen);
    }
    out_of_bounds(exec, block, warp, lane, access, want, pc)
}

/// The nearest buffer to an address outside all of them.
pub(crate) fn nearest_access(exec: &Exec<'_>, address: u64, bytes: u32) -> Access {
    let tracks = &exec.launch.tracks;
    let after = tracks.partition_point(|track| track.allocation.base() <= address);
    let before = after.checked_sub(1).map(|index| &tracks[index]);
    let behind = tracks.get(after);
    let past = before
        .map(|track| address.saturating_sub(track.allocation.base() + track.allocation.bytes()));
    let short = behind.map(|track| track.allocation.base() - address);
    let track = match (past, short) {
        (Some(past), Some(short)) if short < past => behind,
        (Some(_), _) => before,
        (None, _) => behind,
    };
    match track {
        Some(track) => {
            let offset = (address as i64).wrapping_sub(track.allocation.base() as i64);
            Access {
                pointer: address,
                offset,
                ..global_place(track, 0, bytes)
            }
        }
        None => Access {
            space: Space::Generic,
            buffer: None,
            pointer: address,
            offset: address as i64,
            buffer_bytes: None,
            bytes,
        },
    }
}

#[cold]
#[inline(never)]
pub(crate) fn out_of_bounds(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    lane: usize,
    access: Access,
    want: Want,
    pc: u32,
) -> Result<(), Fatal> {
    let (kind, does) = match want {
        Want::Load => (FindingKind::OutOfBoundsRead, "reads"),
        Want::Store | Want::Atomic => (FindingKind::OutOfBoundsWrite, "writes"),
    };
    let size = access
        .buffer_bytes
        .map_or_else(String::new, |size| format!(", which has {size} bytes"));
    let message = format!(
        "thread {:?} of block {:?} {does} {} bytes at byte {} of {}{size}, at {}",
        exec.thread_of(warp, lane),
        block.coordinates,
        access.bytes,
        access.offset,
        crate::check::buffer_name(&access),
        crate::check::spoken(exec.launch.program, pc),
    );
    let mut seen = exec.plain(kind, pc, block, warp, lane, message);
    seen.access = Some(access);
    exec.find(block, seen)
}

#[cold]
#[inline(never)]
#[expect(
    clippy::too_many_arguments,
    reason = "one memory access has this many parts"
)]
fn shared_bounds(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    op: &MemoryOp,
    mask: u32,
    pc: u32,
    want: Want,
    list: &[u64; 32],
) -> Result<(), Fatal> {
    let bytes = op.element * op.count;
    let outside = |lane: &usize| {
        list[*lane] > u64::from(block.bytes)
            || u64::from(block.bytes) - list[*lane] < u64::from(bytes)
    };
    let lane = lanes(mask).find(outside).unwrap_or(0);
    let access = Access {
        space: Space::Shared,
        buffer: None,
        pointer: list[lane],
        offset: list[lane] as i64,
        buffer_bytes: Some(u64::from(block.bytes)),
        bytes,
    };
    out_of_bounds(exec, block, warp, lane, access, want, pc)
}

#[cold]
#[inline(never)]
#[expect(
    clippy::too_many_arguments,
    reason = "one memory access has this many parts"
)]
fn misaligned(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    op: &MemoryOp,
    mask: u32,
    pc: u32,
    list: &[u64; 32],
    space: Space,
) -> Result<(), Fatal> {
    let bytes = op.element * op.count;
    let lane = lanes(mask)
        .find(|lane| list[*lane] & u64::from(bytes - 1) != 0)
        .unwrap_or(0);
    let access = match space {
        Space::Global => nearest_access(exec, list[lane], bytes),
        Space::Shared => exec.shared_access(list[lane] as u32, bytes),
        _ => Access {
            space,
            buffer: None,
            pointer: list[lane],
            offset: list[lane] as i64,
            buffer_bytes: None,
            bytes,
        },
    };
    let message = format!(
        "thread {:?} accesses {bytes} bytes at byte {} of {} at {}: the address {:#x} is not a multiple of {bytes}",
        exec.thread_of(warp, lane),
        access.offset,
        crate::check::buffer_name(&access),
        crate::check::spoken(exec.launch.program, pc),
        list[lane],
    );
    let mut seen = exec.plain(FindingKind::Misaligned, pc, block, warp, lane, message);
    seen.access = Some(access);
    exec.find(block, seen)
}

#[cold]
#[inline(never)]
fn read_only(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    op: &MemoryOp,
    mask: u32,
    pc: u32,
    list: &[u64; 32],
) -> Result<(), Fatal> {
    let lane = mask.trailing_zeros() as usize & 31;
    let access = nearest_access(exec, list[lane], op.element * op.count);
    let message = format!(
        "{} writes to {}, a constant",
        crate::check::spoken(exec.launch.program, pc),
        crate::check::buffer_name(&access)
    );
    let mut seen = exec.plain(FindingKind::IllegalAddress, pc, block, warp, lane, message);
    seen.access = Some(access);
    exec.find(block, seen)
}
