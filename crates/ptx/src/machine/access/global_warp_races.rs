//! Races in device memory between different warps of one block.
//!
//! A word remembers one write and one read in the block that runs, each with its time and its thread. Lanes of one warp are
//! not compared.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::super::block::Shared;
use super::super::exec::{Exec, Track};
use super::super::warp::Warp;
use super::global::access_at;
use super::global_block_races::{changes, races, words};
use super::{AccessKind, Offsets, Request, lanes};
use crate::check::{buffer_name, position_text};
use crate::report::{FindingKind, Party};
use crate::sync::{Accessor, Mark, Moment};

/// An access of another thread, as its moment and its instruction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Other {
    pub(super) thread: u32,
    pub(super) pc: u32,
    pub(super) wrote: bool,
}

/// The two lists of moments of an allocation's words.
struct Moments<'a> {
    writes: &'a [AtomicU64],
    reads: &'a [AtomicU64],
}

impl<'a> Moments<'a> {
    /// The moments of a track; none if accesses are not compared, or the allocation is too large.
    fn of(block: &Shared, track: &'a Track) -> Option<Self> {
        let (writes, reads) = track.moments()?;
        block.shadow.is_some().then_some(Self { writes, reads })
    }
}

/// Compares reads with the writes of other warps of the block, and notes them.
pub(super) fn reads(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    (pc, mask, bytes): (u32, u32, u32),
    track: &Track,
    offsets: &Offsets,
) {
    let (Some(moments), Some(shadow)) = (Moments::of(block, track), &block.shadow) else {
        return;
    };
    let writers = track.writers();
    let by = Accessor {
        warp: warp.index,
        pc,
    };
    let mut found = None;
    for lane in lanes(mask) {
        for (word, here) in words(offsets[lane], bytes) {
            let mark = Mark::from_bits(writers[word].load(Relaxed));
            let then = Moment::from_bits(moments.writes[word].load(Relaxed));
            let address = track.allocation.base() + 4 * word as u64;
            if mark.is_of(block.index)
                && shadow.is_unordered(then, here, block.index, by)
                && races(exec, block, address, mark, pc, true)
            {
                let other = Other {
                    thread: then.thread(),
                    pc: mark.pc(),
                    wrote: true,
                };
                found.get_or_insert((lane, other));
            }
            // One reader is kept: an earlier one of another warp that nothing has ordered yet.
            let earlier = Moment::from_bits(moments.reads[word].load(Relaxed));
            if !shadow.is_unordered(earlier, here, block.index, by) {
                let now = shadow.moment(warp.index * 32 + lane as u32, here, block.index);
                moments.reads[word].store(now.bits(), Relaxed);
            }
        }
    }
    if let Some((lane, other)) = found {
        race(
            exec,
            block,
            warp,
            (AccessKind::Load, pc, lane),
            (track, offsets[lane], bytes),
            other,
        );
    }
}

/// Compares writes with the accesses of other warps of the block, and notes them. Called before the block's marks are
/// changed.
pub(super) fn writes(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    request: &Request<'_>,
    track: &Track,
    offsets: &Offsets,
) {
    let (Some(moments), Some(shadow)) = (Moments::of(block, track), &block.shadow) else {
        return;
    };
    let (writers, readers) = (track.writers(), track.readers.get());
    let op = &exec.launch.program.memory[request.x];
    let bytes = op.bytes();
    let by = Accessor {
        warp: warp.index,
        pc: request.pc,
    };
    let mut found = None;
    for lane in lanes(request.mask) {
        for (word, here) in words(offsets[lane], bytes) {
            let reader = readers.map_or(Mark::NONE, |readers| {
                Mark::from_bits(readers[2 * word].load(Relaxed))
            });
            let writer = Mark::from_bits(writers[word].load(Relaxed));
            let accesses = [
                (writer, &moments.writes[word], true),
                (reader, &moments.reads[word], false),
            ];
            let address = track.allocation.base() + 4 * word as u64;
            for (mark, moment, wrote) in accesses {
                let then = Moment::from_bits(moment.load(Relaxed));
                if mark.is_of(block.index)
                    && shadow.is_unordered(then, here, block.index, by)
                    && races(exec, block, address, mark, request.pc, true)
                    && changes(exec, warp, request, track, offsets, lane)
                {
                    let other = Other {
                        thread: then.thread(),
                        pc: mark.pc(),
                        wrote,
                    };
                    found.get_or_insert((lane, other));
                }
            }
        }
    }
    // Lanes of one instruction are not compared with each other, so that their writes are noted afterwards.
    for lane in lanes(request.mask) {
        for (word, here) in words(offsets[lane], bytes) {
            let now = shadow.moment(warp.index * 32 + lane as u32, here, block.index);
            moments.writes[word].store(now.bits(), Relaxed);
        }
    }
    if let Some((lane, other)) = found {
        race(
            exec,
            block,
            warp,
            (request.access_kind, request.pc, lane),
            (track, offsets[lane], bytes),
            other,
        );
    }
}

#[cold]
#[inline(never)]
pub(super) fn race(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    (access_kind, pc, lane): (AccessKind, u32, usize),
    (track, offset, bytes): (&Track, u64, u32),
    other: Other,
) {
    let program = exec.launch.program;
    if exec.findings.repeat(program, FindingKind::GlobalRace, pc) {
        return;
    }
    let access = access_at(track, offset, bytes);
    let thread = exec.thread_at(other.thread);
    let message = format!(
        "thread {:?} {} byte {} of {} at {}, which thread {thread:?} of the same block {} at {}, with no barrier between: \
         __syncthreads() orders device memory for the threads of a block",
        exec.thread_of(warp, lane),
        if access_kind == AccessKind::Load {
            "reads"
        } else {
            "writes"
        },
        access.offset,
        buffer_name(&access),
        position_text(program, pc),
        if other.wrote { "writes" } else { "reads" },
        position_text(program, other.pc),
    );
    let mut seen = exec.plain(FindingKind::GlobalRace, pc, block, warp, lane, message);
    seen.access = Some(access);
    seen.other = Some(Party {
        block: block.coordinates,
        thread: Some(thread),
        location: Some(crate::check::location(program, other.pc)),
        wrote: other.wrote,
    });
    // A race does not end the launch.
    let _ = exec.find(block, seen);
}
