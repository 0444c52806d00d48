//! Asynchronous copies. Their bytes are written to shared memory when the thread waits for them. Until then the
//! destination is poisoned, so that a missing or early wait is found.

use super::access::{
    AccessKind, Reads, Request, address_poison, addresses, lanes, out_of_bounds, outside_access,
    outside_global, reads_beside_others, record_reads,
};
use super::block::Shared;
use super::exec::{Exec, Fatal};
use super::traffic::MemoryPath;
use super::warp::{PendingCopy, Warp};
use crate::code::{CopyOp, SlotRef};
use crate::memory::window;
use crate::report::FindingKind;
use crate::sync::Accessor;

/// Starts the copies of a mask's lanes.
#[inline(never)]
pub(crate) fn issue(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    pc: u32,
) -> Result<(), Fatal> {
    let launch = exec.launch;
    let op = &launch.program.copies[x];
    if warp.tainted {
        address_poison(exec, block, warp, op.shared, mask, pc);
        address_poison(exec, block, warp, op.global, mask, pc);
    }
    let mut to = addresses(warp, op.shared, op.shared_offset);
    for address in &mut to {
        if window::of(*address) == window::SHARED {
            *address -= window::SHARED;
        }
    }
    let from = addresses(warp, op.global, op.global_offset);
    let wanted = |warp: &Warp, lane: usize| {
        if op.ignore != SlotRef::NONE && warp.lane(op.ignore, lane) == 1 {
            return 0;
        }
        match op.source_bytes.get() {
            Some(_) => (warp.lane(op.source_bytes, lane) as u32).min(op.bytes),
            None => op.bytes,
        }
    };
    let reading = lanes(mask)
        .filter(|lane| wanted(warp, *lane) > 0)
        .fold(0, |reading, lane| reading | 1 << lane);
    cost(exec, block, warp, x, (mask, reading), pc, (&from, &to));
    for lane in lanes(mask) {
        let bytes = u64::from(op.bytes);
        let (target, source) = (to[lane], from[lane]);
        let at = target as i64;
        if !op.target.contains(at, at, op.bytes, block.bytes) {
            let access = outside_access(exec, block, op.target, target, op.bytes);
            return out_of_bounds(exec, block, warp, lane, access, AccessKind::Store, pc);
        }
        if (target | source) & (bytes - 1) != 0 {
            let space = if target & (bytes - 1) != 0 {
                "shared"
            } else {
                "global"
            };
            let message = format!(
                "thread {:?} copies {bytes} bytes asynchronously at {}, and the {space} address is not a multiple of {bytes}",
                exec.thread_of(warp, lane),
                crate::check::position_text(launch.program, pc)
            );
            let mut seen = exec.plain(FindingKind::Misaligned, pc, block, warp, lane, message);
            seen.access = Some(exec.shared_access(target as u32, op.bytes));
            return exec.find(block, seen);
        }
        let wanted = wanted(warp, lane);
        let mut copy = PendingCopy {
            lane: lane as u8,
            group: warp.copy_groups[lane],
            shared: target as u32,
            bytes: op.bytes as u8,
            data: [0; 16],
            valid: u16::MAX,
            pc,
        };
        if wanted > 0 {
            let Some(track) = launch.track_of(source, u64::from(wanted)) else {
                let request = Request {
                    x: 0,
                    access_kind: AccessKind::Load,
                    mask,
                    list: &from,
                    pc,
                };
                return outside_global(exec, block, warp, &request, lane, wanted);
            };
            let offset = source - track.allocation.base();
            if track.notices_reads() && exec.compares_blocks() {
                let mut offsets = [0; 32];
                offsets[lane] = offset;
                let reads = Reads {
                    pc,
                    mask: 1 << lane,
                    bytes: wanted,
                    // 16-byte copies may bypass the L1 cache, and which ones do is not recorded.
                    cached: false,
                    polls: false,
                };
                reads_beside_others(exec, block, warp, reads, track, &offsets);
            }
            track
                .allocation
                .read(offset, &mut copy.data[..wanted as usize]);
            track
                .read_marks(exec.wave)
                .mark_bytes(offset, u64::from(wanted));
            if !track.allocation.all_valid() && !track.allocation.is_valid(offset, wanted) {
                for byte in 0..wanted {
                    if !track.allocation.is_valid(offset + u64::from(byte), 1) {
                        copy.valid &= !(1 << byte);
                    }
                }
            }
        }
        // The destination holds neither the old nor the new bytes.
        block.set_valid(target as u32, op.bytes, false);
        note_write(exec, block, warp, &copy);
        warp.copies.push(copy);
    }
    Ok(())
}

/// Counts the traffic of both sides: global reads of the lanes that read, and writes to shared memory.
fn cost(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    x: usize,
    (mask, reading): (u32, u32),
    pc: u32,
    (from, to): (&[u64; 32], &[u64; 32]),
) {
    let program = exec.launch.program;
    let CopyOp { bytes, cached, .. } = program.copies[x];
    let base = program.memory.len();
    let moved = &mut exec.moved[pc as usize];
    if reading != 0 {
        let global = &mut exec.patterns[base + 2 * x];
        let first = global.observe(reading, from, bytes);
        global.update_cost(first, bytes, MemoryPath::Global);
        moved.add(&global.moved);
        if cached {
            record_reads(block, warp, global, first, bytes);
        }
    }
    let shared = &mut exec.patterns[base + 2 * x + 1];
    let first = shared.observe(mask, to, bytes);
    shared.update_cost(first, bytes, MemoryPath::SharedStore);
    moved.add(&shared.moved);
}

fn note_write(exec: &mut Exec<'_>, block: &mut Shared, warp: &Warp, copy: &PendingCopy) {
    let by = Accessor {
        warp: warp.index,
        pc: copy.pc,
    };
    let bytes = u32::from(copy.bytes);
    let conflict = block.shadow.as_mut().and_then(|shadow| {
        shadow.before_write(copy.shared, copy.shared + bytes);
        shadow.write(copy.lane as usize, copy.shared, bytes, false, by)
    });
    if let Some(conflict) = conflict {
        exec.shared_race(
            conflict,
            copy.pc,
            (copy.shared, bytes),
            AccessKind::Store,
            block,
            warp,
        );
    }
}

/// Commits the lanes' copies so far as a group.
pub(crate) fn commit(warp: &mut Warp, mask: u32) {
    for lane in lanes(mask) {
        warp.copy_groups[lane] += 1;
    }
}

/// Completes a lane's copies without a wait by the lane: an mbarrier tells when they have arrived.
pub(crate) fn complete_signalled(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    lane: usize,
) {
    let (completed, flying): (Vec<_>, Vec<_>) = std::mem::take(&mut warp.copies)
        .into_iter()
        .partition(|copy| usize::from(copy.lane) == lane);
    warp.copies = flying;
    for copy in completed {
        note_write(exec, block, warp, &copy);
        write_copied_bytes(block, &copy);
        let by = Accessor {
            warp: warp.index,
            pc: copy.pc,
        };
        if let Some(shadow) = &mut block.shadow {
            shadow.record_signalled_copy(lane, copy.shared, u32::from(copy.bytes), by);
        }
    }
}

/// Writes a copy's bytes to shared memory.
fn write_copied_bytes(block: &mut Shared, copy: &PendingCopy) {
    block.progress += 1;
    if let Some(shadow) = &mut block.shadow {
        shadow.mark_copied(copy.shared, u32::from(copy.bytes));
    }
    // Copies are whole, aligned words.
    for (word, bytes) in copy.data[..copy.bytes as usize].chunks_exact(4).enumerate() {
        block.words[copy.shared as usize / 4 + word] =
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    if copy.valid == u16::MAX {
        block.set_valid(copy.shared, u32::from(copy.bytes), true);
        return;
    }
    for byte in (0..u32::from(copy.bytes)).filter(|byte| copy.valid >> byte & 1 == 1) {
        block.set_valid(copy.shared + byte, 1, true);
    }
}

/// Completes all but the newest `keep` groups of the lanes; `u32::MAX` completes everything.
#[inline(never)]
pub(crate) fn wait(exec: &mut Exec<'_>, block: &mut Shared, warp: &mut Warp, keep: u32, mask: u32) {
    let groups = warp.copy_groups;
    let (completed, flying): (Vec<_>, Vec<_>) = std::mem::take(&mut warp.copies)
        .into_iter()
        .partition(|copy| {
            mask >> copy.lane & 1 == 1
                && (keep == u32::MAX
                    || copy.group.saturating_add(keep) < groups[copy.lane as usize])
        });
    warp.copies = flying;
    for copy in completed {
        note_write(exec, block, warp, &copy);
        write_copied_bytes(block, &copy);
    }
}
