//! Races in device memory between an atomic and any other access to the same word.
//!
//! A word remembers its last atomic, with block, time and thread. Loads, stores and later atomics are compared with it. A
//! plain read that decides something, or whose value an atomic checks, is not compared, because what it returned is
//! verified: the first read of a compare-and-swap loop is one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::super::block::Shared;
use super::super::exec::{Exec, Track};
use super::super::warp::Warp;
use super::global_block_races::{self, Reads, conflicts, conflicts_with_read, meets, races, words};
use super::global_warp_races::{self, Other};
use super::strength::{Pair, pair};
use super::{AccessKind, Offsets, Request, lanes};
use crate::sync::{Accessor, Mark, Moment};

/// An access with which one of a lane is not ordered.
#[derive(Debug, Clone, Copy)]
enum Racing {
    OfBlock(Other),
    OfAnother(Mark, bool),
}

/// Compares a warp's atomics with earlier accesses to the same words, and records them.
#[inline(never)]
pub(super) fn atomics(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    request: &Request<'_>,
    track: &Track,
    offsets: &Offsets,
) {
    let by = Accessor {
        warp: warp.index,
        pc: request.pc,
    };
    let bytes = exec.launch.program.memory[request.x].element;
    let mine = Mark::new(block.index, block.order.note_access(), request.pc, 0);
    let cells = track.atomics();
    let mut found = None;
    for lane in lanes(request.mask) {
        for (word, here) in words(offsets[lane], bytes) {
            let address = track.allocation.base() + 4 * word as u64;
            let writer = mark_at(&track.writers, word);
            let readers = [0, 1].map(|at| mark_at(&track.readers, 2 * word + at));
            let last = Mark::from_bits(cells[2 * word].load(Relaxed));
            if writer.bytes() & here != 0 {
                let same_block = writer.is_of(block.index);
                let program = exec.launch.program;
                if pair(program, writer.pc(), request.pc, same_block) == Pair::Allowed {
                    block.order.poll(address, writer);
                }
            }
            // Two atomics race only if one has the scope of its block.
            let marks = [
                (writer, true),
                (readers[0], false),
                (readers[1], false),
                (last, true),
            ];
            for (mark, wrote) in marks {
                if meets(mark, block, here)
                    && races(exec, block, address, mark, request.pc, false)
                    && conflicts(mark, block, here)
                {
                    found.get_or_insert((lane, Racing::OfAnother(mark, wrote)));
                }
            }
            if let (Some(shadow), Some((write_moments, read_moments))) =
                (&block.shadow, track.moments())
            {
                for (mark, moments, wrote) in [
                    (writer, write_moments, true),
                    (readers[0], read_moments, false),
                ] {
                    let then = Moment::from_bits(moments[word].load(Relaxed));
                    if mark.is_of(block.index)
                        && shadow.is_unordered(then, here, block.index, by)
                        && races(exec, block, address, mark, request.pc, true)
                    {
                        let other = Other {
                            thread: then.thread(),
                            pc: mark.pc(),
                            wrote,
                        };
                        found.get_or_insert((lane, Racing::OfBlock(other)));
                    }
                }
                let now = shadow.moment(warp.index * 32 + lane as u32, here, block.index);
                cells[2 * word + 1].store(now.bits(), Relaxed);
            }
            cells[2 * word].store(mine.and_bytes(here).bits(), Relaxed);
        }
    }
    report(
        exec,
        block,
        warp,
        (AccessKind::Atomic, request.pc, bytes),
        track,
        offsets,
        found,
    );
}

/// Compares loads or stores with the last atomics on the same words. `changes` tells of a lane whether it changes what is
/// there, or loads.
#[inline(never)]
pub(super) fn others(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    (access_kind, reads): (AccessKind, Reads),
    track: &Track,
    offsets: &Offsets,
    changes: impl Fn(&Exec<'_>, usize) -> bool,
) {
    let Some(cells) = track.atomics.get() else {
        return;
    };
    let Reads {
        pc,
        mask,
        bytes,
        cached,
        ..
    } = reads;
    let by = Accessor {
        warp: warp.index,
        pc,
    };
    let mut found = None;
    for lane in lanes(mask) {
        for (word, here) in words(offsets[lane], bytes) {
            let mark = Mark::from_bits(cells[2 * word].load(Relaxed));
            if mark == Mark::NONE {
                continue;
            }
            let same_block = mark.is_of(block.index);
            let racing = if same_block {
                let then = Moment::from_bits(cells[2 * word + 1].load(Relaxed));
                let shadow = block.shadow.as_ref();
                shadow
                    .filter(|shadow| shadow.is_unordered(then, here, block.index, by))
                    .map(|_| {
                        Racing::OfBlock(Other {
                            thread: then.thread(),
                            pc: mark.pc(),
                            wrote: true,
                        })
                    })
            } else {
                let cached = cached && access_kind == AccessKind::Load;
                conflicts_with_read(mark, block, here, cached)
                    .then_some(Racing::OfAnother(mark, true))
            };
            let address = track.allocation.base() + 4 * word as u64;
            if let Some(racing) = racing
                && races(exec, block, address, mark, pc, same_block)
                && changes(exec, lane)
            {
                found.get_or_insert((lane, racing));
            }
        }
    }
    report(
        exec,
        block,
        warp,
        (access_kind, pc, bytes),
        track,
        offsets,
        found,
    );
}

/// A mark of a list, if the list exists.
fn mark_at(list: &OnceLock<Box<[AtomicU64]>>, at: usize) -> Mark {
    list.get()
        .map_or(Mark::NONE, |list| Mark::from_bits(list[at].load(Relaxed)))
}

fn report(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    (access_kind, pc, bytes): (AccessKind, u32, u32),
    track: &Track,
    offsets: &Offsets,
    found: Option<(usize, Racing)>,
) {
    let Some((lane, racing)) = found else { return };
    let place = (track, offsets[lane], bytes);
    match racing {
        Racing::OfBlock(other) => {
            global_warp_races::race(exec, block, warp, (access_kind, pc, lane), place, other);
        }
        Racing::OfAnother(mark, wrote) => {
            global_block_races::race(
                exec,
                block,
                warp,
                (access_kind, pc),
                place,
                lane,
                (mark, wrote),
            );
        }
    }
}
