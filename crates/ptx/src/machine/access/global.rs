//! Accesses to device memory.

use super::super::block::Shared;
use super::super::exec::{Exec, Fatal, Track};
use super::super::pattern::{Pattern, Shape};
use super::super::poison::poisoned_bytes;
use super::super::traffic::MemoryPath;
use super::super::warp::Warp;
use super::global_block_races::Reads;
use super::{
    AccessKind, Offsets, Request, Words, atomic, atomic_poison, collect, fault,
    global_atomic_races, global_block_races, lanes, load_part, offsets_at, poison_loaded,
    write_element,
};
use crate::code::{MemSpace, MemoryOp, Reach};
use crate::report::{Access, FindingKind, Space};

/// The path by which an access passes the caches.
#[inline(always)]
pub(in crate::machine) fn global_path(space: MemSpace, access_kind: AccessKind) -> MemoryPath {
    match (space, access_kind) {
        (MemSpace::Const, _) => MemoryPath::Constant,
        (MemSpace::Global, AccessKind::Load) => MemoryPath::GlobalLoad,
        _ => MemoryPath::Global,
    }
}

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
    let first = pattern.observe(mask, request.list, bytes);
    let (low, high) = pattern.span(first);
    let holds = |track: &Track| track.holds(low, high, bytes);
    let mut index = pattern.allocation;
    if !launch.tracks.get(index).is_some_and(holds) {
        index = launch
            .tracks
            .partition_point(|track| track.begin <= low)
            .wrapping_sub(1);
        pattern.allocation = index;
        if !launch.tracks.get(index).is_some_and(holds) {
            return scattered(exec, block, warp, request);
        }
    }
    if !pattern.aligned(first, bytes) {
        return fault::misaligned(exec, block, warp, request, Space::Global);
    }
    pattern.update_cost(first, bytes, global_path(op.space, request.access_kind));
    exec.moved[pc as usize].add(&pattern.moved);
    if op.space == MemSpace::Const {
        warp.cycles += pattern.moved.wavefronts;
    }
    let shape = pattern.shape;
    let track = &launch.tracks[index];
    let allocation = &*track.allocation;
    let from = first - allocation.base();
    let offsets = offsets_at(from, &pattern.relative);
    let touched = if request.access_kind == AccessKind::Load {
        track.read_marks(exec.wave)
    } else {
        track.write_marks(exec.wave)
    };
    if request.access_kind == AccessKind::Load || !allocation.read_only() {
        pattern.mark_sectors(touched, from, bytes);
    }
    if request.access_kind == AccessKind::Load {
        if op.is_cached() {
            record_reads(block, warp, pattern, first, bytes);
        }
        if op.read_only_path {
            global_block_races::reads_apart(exec, block, warp, request, track, &offsets);
        }
        if op.ordered {
            merge_published_clocks(exec, block, warp.index, request);
        }
        if track.notices_reads() && exec.compares_blocks() {
            let reads = Reads::of(exec, request);
            global_block_races::reads(exec, block, warp, reads, track, &offsets);
            let reads = (AccessKind::Load, reads);
            global_atomic_races::others(exec, block, warp, reads, track, &offsets, |_, _| true);
        }
        for part in 0..op.count {
            load_part(warp, allocation.words(), op, part, &offsets, shape, mask);
        }
        if !allocation.all_valid() || warp.tainted {
            load_poison(warp, op, track, &offsets, mask, pc);
        }
        return Ok(());
    }
    if allocation.read_only() {
        return fault::read_only(exec, block, warp, request);
    }
    if request.access_kind == AccessKind::Store {
        // A release publishes its own store as well.
        if exec.compares_blocks() {
            let writes = (AccessKind::Store, Reads::of(exec, request));
            let changes = |exec: &Exec<'_>, lane| {
                global_block_races::changes(exec, warp, request, track, &offsets, lane)
            };
            global_atomic_races::others(exec, block, warp, writes, track, &offsets, changes);
            global_block_races::writes(exec, block, warp, request, track, &offsets);
        }
        if op.ordered {
            signal(exec, block, warp.index, request);
            global_block_races::changes_in_order(exec, request, track, &offsets);
        }
        exec.waiting.changed = true;
        store(warp, op, track, &offsets, mask, shape);
        if !allocation.all_valid() || warp.tainted {
            store_poison(exec, block, warp, request, track, &offsets, shape);
        }
        return Ok(());
    }
    merge_published_clocks(exec, block, warp.index, request);
    if exec.compares_blocks() {
        global_atomic_races::atomics(exec, block, warp, request, track, &offsets);
    }
    signal(exec, block, warp.index, request);
    global_block_races::changes_in_order(exec, request, track, &offsets);
    let bad = lanes(mask)
        .filter(|lane| !allocation.is_valid(offsets[*lane], op.element))
        .fold(0, |bad, lane| bad | 1 << lane);
    let changed = atomic(warp, op, allocation.words(), &offsets, mask);
    exec.waiting.changed |= changed;
    // Polling changes nothing, and how often a warp polls here says nothing of a GPU.
    if changed {
        exec.contention.record(request.list, mask);
    }
    atomic_poison(exec, block, warp, request, bad);
    Ok(())
}

/// Records the sectors that each lane's read of `bytes` bytes takes through the L1 cache; `first` is the first active
/// lane's address.
#[inline(always)]
pub(in crate::machine) fn record_reads(
    block: &mut Shared,
    warp: &Warp,
    pattern: &mut Pattern,
    first: u64,
    bytes: u32,
) {
    if block.reads.observed {
        let reads = &mut block.reads;
        pattern.visit_sectors(first, bytes, |from, to| reads.record(from, to, warp.cycles));
    }
}

/// Merges the vector clocks that other threads published at the addresses that an ordered access reads. Blocks are ordered
/// only by accesses whose scope has them.
#[inline(always)]
fn merge_published_clocks(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: u32,
    request: &Request<'_>,
) {
    if !exec.compares_blocks() {
        return;
    }
    let program = exec.launch.program;
    let op = &program.memory[request.x];
    let between_blocks = program.blocks_synchronise && op.reach == Reach::Device;
    for lane in lanes(request.mask) {
        let address = request.list[lane];
        let through_others = between_blocks && exec.signals.observe(&mut block.order, address);
        if let Some(shadow) = &mut block.shadow {
            shadow.observe(warp, address);
            if through_others {
                shadow.acquire_block(warp);
            }
        }
    }
    if between_blocks && op.acquire {
        block.order.acquire();
    }
}

/// Publishes the vector clocks of the warp and of the block at the addresses that an ordered access writes.
#[inline(always)]
fn signal(exec: &mut Exec<'_>, block: &mut Shared, warp: u32, request: &Request<'_>) {
    if !exec.compares_blocks() {
        return;
    }
    let program = exec.launch.program;
    let op = &program.memory[request.x];
    let between_blocks = program.blocks_synchronise && op.reach == Reach::Device;
    if op.release {
        if between_blocks {
            block.order.release();
        }
        if let Some(shadow) = &mut block.shadow {
            shadow.fence(warp);
        }
    }
    for lane in lanes(request.mask) {
        let address = request.list[lane];
        if let Some(shadow) = &mut block.shadow {
            shadow.signal(warp, address);
        }
        if between_blocks {
            exec.signals.signal(block.index, &block.order, address);
        }
    }
}

/// Registers take the poison of the bytes they were loaded from.
#[inline(never)]
fn load_poison(
    warp: &mut Warp,
    op: &MemoryOp,
    track: &Track,
    offsets: &Offsets,
    mask: u32,
    pc: u32,
) {
    let allocation = &*track.allocation;
    let all_valid = allocation.all_valid();
    for part in 0..op.count {
        let step = u64::from(part * op.element);
        let bad = if all_valid {
            0
        } else {
            lanes(mask)
                .filter(|lane| !allocation.is_valid(offsets[*lane] + step, op.element))
                .fold(0, |bad, lane| bad | 1 << lane)
        };
        warp.tainted |= bad != 0;
        let invalid = |lane: usize, byte: u32| {
            !allocation.is_valid(offsets[lane] + step + u64::from(byte), 1)
        };
        poison_loaded(warp, op, part, (mask, bad), pc, invalid);
    }
}

#[inline(always)]
fn store(warp: &Warp, op: &MemoryOp, track: &Track, offsets: &Offsets, mask: u32, shape: Shape) {
    let words = track.allocation.words();
    for part in 0..op.count {
        let values = collect(warp, op.regs[part as usize]);
        let step = u64::from(part * op.element);
        if op.element != 2 || op.count != 1 || shape != Shape::Run {
            for lane in lanes(mask) {
                write_element(words, offsets[lane] + step, op.element, values[lane]);
            }
            continue;
        }
        // Neighbouring lanes share a word; written together they need no exchange loop.
        let mut left = mask;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            left &= left - 1;
            if offsets[lane] & 2 == 0 && lane < 31 && left >> (lane + 1) & 1 == 1 {
                left &= left - 1;
                let both = (values[lane] & 0xffff) as u32 | (values[lane + 1] as u32) << 16;
                words.put((offsets[lane] / 4) as usize, u32::MAX, both);
            } else {
                write_element(words, offsets[lane], 2, values[lane]);
            }
        }
    }
}

/// Propagates poison from registers to the stored bytes.
#[inline(never)]
fn store_poison(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    request: &Request<'_>,
    track: &Track,
    offsets: &Offsets,
    shape: Shape,
) {
    let Request { x, mask, pc, .. } = *request;
    let op = &exec.launch.program.memory[x];
    let allocation = &*track.allocation;
    for part in 0..op.count {
        let step = u64::from(part * op.element);
        let register = op.regs[part as usize];
        let (poisoned, origin) = if warp.tainted {
            warp.poison.get(register)
        } else {
            (0, 0)
        };
        let bytes = |lane: usize| poisoned_bytes(warp.poison.bits(register, lane), op.element);
        // Bits above the stored bytes are not stored.
        let poisoned = lanes(poisoned & mask)
            .filter(|lane| bytes(*lane) != 0)
            .fold(0u32, |stored, lane| stored | 1 << lane);
        if poisoned != 0 {
            let place = access_at(
                track,
                offsets[poisoned.trailing_zeros() as usize] + step,
                op.element,
            );
            exec.uninitialised(
                FindingKind::UninitialisedStore,
                (pc, origin),
                block,
                warp,
                poisoned,
                Some(place),
            );
            for lane in lanes(poisoned) {
                for byte in 0..op.element {
                    let at = offsets[lane] + step + u64::from(byte);
                    if bytes(lane) >> byte & 1 == 1 {
                        allocation.clear_valid(at, 1);
                    } else {
                        allocation.set_valid(at, 1);
                    }
                }
            }
        }
        if shape == Shape::Run && op.count == 1 && poisoned == 0 {
            let first = offsets[mask.trailing_zeros() as usize & 31];
            allocation.set_valid(first, u64::from(op.element * mask.count_ones()));
        } else {
            for lane in lanes(mask & !poisoned) {
                allocation.set_valid(offsets[lane] + step, u64::from(op.element));
            }
        }
    }
}

/// The access at an offset of an allocation, with the buffer that contains it.
pub(super) fn access_at(track: &Track, offset: u64, bytes: u32) -> Access {
    let pointer = track.allocation.base().wrapping_add(offset);
    Access {
        space: if track.allocation.is_constant() {
            Space::Constant
        } else {
            Space::Global
        },
        buffer: track.allocation.label().map(|label| label.to_string()),
        pointer,
        offset: pointer.wrapping_sub(track.begin) as i64,
        buffer_bytes: Some(track.end - track.begin),
        bytes,
    }
}

/// Executes an access whose lanes are in several allocations, one lane at a time. The first lane outside every
/// allocation ends the launch.
#[cold]
#[inline(never)]
fn scattered(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    request: &Request<'_>,
) -> Result<(), Fatal> {
    let launch = exec.launch;
    let op = &launch.program.memory[request.x];
    let bytes = op.element * op.count;
    for lane in lanes(request.mask) {
        let address = request.list[lane];
        if launch.track_of(address, u64::from(bytes)).is_none() {
            return fault::outside_global(exec, block, warp, request, lane, bytes);
        }
    }
    for lane in lanes(request.mask) {
        one_lane(
            exec,
            block,
            warp,
            &Request {
                mask: 1 << lane,
                ..*request
            },
        )?;
    }
    Ok(())
}

#[inline(never)]
fn one_lane(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    request: &Request<'_>,
) -> Result<(), Fatal> {
    access(exec, block, warp, request)
}
