//! Races in device memory between different blocks.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
    fence,
};

use super::super::block::Shared;
use super::super::exec::{Exec, Track};
use super::super::warp::Warp;
use super::global::access_at;
use super::global_warp_races;
use super::strength::{self, Pair, pair};
use super::{AccessKind, Offsets, Request, holds_stored_values, lanes};
use crate::check::{buffer_name, position_text};
use crate::code::Op;
use crate::report::{FindingKind, Party};
use crate::sync::Mark;

/// The bytes of a word an access covers.
fn byte_mask(offset: u64, bytes: u32, word: u64) -> u32 {
    let from = offset.saturating_sub(word * 4).min(4);
    let to = (offset + u64::from(bytes)).saturating_sub(word * 4).min(4);
    ((1u32 << to) - 1) & !((1u32 << from) - 1)
}

/// The words an access touches, and the bytes in each.
pub(super) fn words(offset: u64, bytes: u32) -> impl Iterator<Item = (usize, u32)> {
    (offset / 4..=(offset + u64::from(bytes) - 1) / 4)
        .map(move |word| (word as usize, byte_mask(offset, bytes, word)))
}

/// Reports whether a mark is of another block and about the same bytes.
#[inline(always)]
pub(super) fn meets(mark: Mark, block: &Shared, bytes: u32) -> bool {
    mark != Mark::NONE && mark.bytes() & bytes != 0 && !mark.is_of(block.index)
}

/// Reports whether a mark is of another block, about the same bytes, and not ordered before this block's accesses.
#[inline(always)]
pub(super) fn conflicts(mark: Mark, block: &Shared, bytes: u32) -> bool {
    meets(mark, block, bytes) && !block.order.is_behind(mark)
}

/// The same for this block's reads: a read that a cache may answer also needs an acquire before it.
#[inline(always)]
pub(super) fn conflicts_with_read(mark: Mark, block: &Shared, bytes: u32, cached: bool) -> bool {
    if cached {
        meets(mark, block, bytes) && !block.order.has_acquired(mark)
    } else {
        conflicts(mark, block, bytes)
    }
}

/// Stores a mark and returns the one before it, atomically where blocks run in parallel.
#[inline(always)]
fn exchange(cell: &AtomicU64, mark: Mark, parallel: bool) -> Mark {
    if parallel {
        return Mark::from_bits(cell.swap(mark.bits(), SeqCst));
    }
    let before = cell.load(Relaxed);
    cell.store(mark.bits(), Relaxed);
    Mark::from_bits(before)
}

/// The loads of a warp's lanes: `bytes` at an offset of each lane's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reads {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) bytes: u32,
    /// True if a cache of the multiprocessor may answer.
    pub(crate) cached: bool,
    /// True for an ordered load whose value decides something: it may poll a flag, and later loads of its block see what
    /// it has seen.
    pub(crate) polls: bool,
}

impl Reads {
    pub(super) fn of(exec: &Exec<'_>, request: &Request<'_>) -> Self {
        let op = &exec.launch.program.memory[request.x];
        Self {
            pc: request.pc,
            mask: request.mask,
            bytes: op.bytes(),
            cached: op.is_cached(),
            polls: op.ordered && !op.reads_data,
        }
    }
}

/// Reports whether an instruction races with an access of another thread that nothing orders before it. What an ordered
/// load of the block has seen is no race beside an ordered access.
#[inline(never)]
pub(super) fn races(
    exec: &Exec<'_>,
    block: &Shared,
    address: u64,
    mark: Mark,
    pc: u32,
    same_block: bool,
) -> bool {
    match pair(exec.launch.program, mark.pc(), pc, same_block) {
        Pair::Allowed => false,
        Pair::Plain => true,
        Pair::Mixed => !block.order.has_polled(address, mark),
    }
}

/// A block reads: another one may have written, and later writers must know.
#[inline(never)]
pub(crate) fn reads(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    reads: Reads,
    track: &Track,
    offsets: &Offsets,
) {
    let Reads {
        pc,
        mask,
        bytes,
        cached,
        polls,
    } = reads;
    let parallel = exec.launch.parallel;
    if track.reads_matter && !polls {
        let readers = track.readers();
        let mine = Mark::new(block.index, block.order.note_access(), pc, 0);
        for lane in lanes(mask) {
            for (word, here) in words(offsets[lane], bytes) {
                note_reader(
                    &readers[2 * word..2 * word + 2],
                    block.index,
                    mine,
                    here,
                    parallel,
                );
            }
        }
        if parallel {
            // Either this block sees a writer's mark, or the writer sees its own.
            fence(SeqCst);
        }
    }
    if track.reads_matter && !polls {
        global_warp_races::reads(exec, block, warp, (pc, mask, bytes), track, offsets);
    }
    let Some(writers) = track.writers.get() else {
        return;
    };
    let mut found = None;
    for lane in lanes(mask) {
        for (word, here) in words(offsets[lane], bytes) {
            let mark = Mark::from_bits(writers[word].load(Relaxed));
            let address = track.allocation.base() + 4 * word as u64;
            if conflicts_with_read(mark, block, here, cached)
                && races(exec, block, address, mark, pc, false)
            {
                found.get_or_insert((lane, mark));
            } else if polls && mark.bytes() & here != 0 {
                block.order.poll(address, mark);
            }
        }
    }
    if let Some((lane, mark)) = found {
        race(
            exec,
            block,
            warp,
            (AccessKind::Load, pc),
            (track, offsets[lane], bytes),
            lane,
            (mark, true),
        );
    }
}

/// Remembers a reader beside the last one of another block.
#[inline(always)]
fn note_reader(cells: &[AtomicU64], block: u64, mine: Mark, bytes: u32, parallel: bool) {
    let last = Mark::from_bits(cells[0].load(Relaxed));
    if last.is_of(block) {
        let both = mine.and_bytes(last.bytes() | bytes);
        if both != last {
            cells[0].store(both.bits(), Relaxed);
        }
        return;
    }
    let last = exchange(&cells[0], mine.and_bytes(bytes), parallel);
    if last != Mark::NONE {
        cells[1].store(last.bits(), Relaxed);
    }
}

/// A block writes: another one may have written or read.
#[inline(never)]
pub(super) fn writes(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    request: &Request<'_>,
    track: &Track,
    offsets: &Offsets,
) {
    let writers = track.writers();
    let bytes = exec.launch.program.memory[request.x].bytes();
    global_warp_races::writes(exec, block, warp, request, track, offsets);
    let mine = Mark::new(block.index, block.order.note_access(), request.pc, 0);
    let parallel = exec.launch.parallel;
    let mut found = None;
    for lane in lanes(request.mask) {
        for (word, here) in words(offsets[lane], bytes) {
            let address = track.allocation.base() + 4 * word as u64;
            let last = exchange(&writers[word], mine.and_bytes(here), parallel);
            if last.is_of(block.index) {
                // Bytes that this block wrote before, with another instruction, stay its own.
                writers[word].store(mine.and_bytes(last.bytes() | here).bits(), Relaxed);
            } else if conflicts(last, block, here)
                && races(exec, block, address, last, request.pc, false)
                && changes(exec, warp, request, track, offsets, lane)
            {
                found.get_or_insert((lane, last, true));
            }
        }
    }
    if parallel {
        fence(SeqCst);
    }
    if let Some(readers) = track.readers.get() {
        for lane in lanes(request.mask) {
            for (word, here) in words(offsets[lane], bytes) {
                let address = track.allocation.base() + 4 * word as u64;
                for cell in &readers[2 * word..2 * word + 2] {
                    let mark = Mark::from_bits(cell.load(Relaxed));
                    if conflicts(mark, block, here)
                        && races(exec, block, address, mark, request.pc, false)
                        && changes(exec, warp, request, track, offsets, lane)
                    {
                        found.get_or_insert((lane, mark, false));
                    }
                }
            }
        }
    }
    if let Some((lane, mark, wrote)) = found {
        race(
            exec,
            block,
            warp,
            (request.access_kind, request.pc),
            (track, offsets[lane], bytes),
            lane,
            (mark, wrote),
        );
    }
}

/// Reports whether an instruction is an ordered load of data.
fn reads_data(exec: &Exec<'_>, pc: u32) -> bool {
    let program = exec.launch.program;
    let inst = program.code[pc as usize];
    let is_data = |x: u32| {
        let op = &program.memory[x as usize];
        op.ordered && op.reads_data
    };
    inst.op == Op::Load && is_data(inst.x)
}

/// Reports whether a lane's store changes the bytes in memory, because storing the same value again is a race without an
/// effect.
#[cold]
#[inline(never)]
pub(super) fn changes(
    exec: &Exec<'_>,
    warp: &Warp,
    request: &Request<'_>,
    track: &Track,
    offsets: &Offsets,
    lane: usize,
) -> bool {
    let op = &exec.launch.program.memory[request.x];
    !holds_stored_values(track.allocation.words(), warp, op, offsets[lane], lane)
}

/// Words change by an atomic or in order: a later read through the read-only cache must know.
#[inline(always)]
pub(super) fn changes_in_order(
    exec: &Exec<'_>,
    request: &Request<'_>,
    track: &Track,
    offsets: &Offsets,
) {
    if !exec.launch.program.reads_read_only || !exec.compares_blocks() {
        return;
    }
    let bytes = exec.launch.program.memory[request.x].bytes();
    for lane in lanes(request.mask) {
        for (word, _) in words(offsets[lane], bytes) {
            track.changed()[word / 32].fetch_or(1 << (word % 32), Relaxed);
        }
    }
}

/// A read through the cache for what nobody writes while the kernel runs: it may have what was there before, whatever
/// orders the two.
#[inline(never)]
pub(super) fn reads_apart(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    request: &Request<'_>,
    track: &Track,
    offsets: &Offsets,
) {
    let (writers, changed) = (track.writers.get(), track.changed.get());
    if writers.is_none() && changed.is_none() {
        return;
    }
    let program = exec.launch.program;
    let bytes = program.memory[request.x].bytes();
    // Blocks that run side by side are not ordered, so that what another one wrote is a race anyway, and whether it
    // is there yet is luck.
    let comes_before = |mark: Mark, here: u32| {
        mark.bytes() & here != 0 && (!exec.launch.parallel || mark.is_of(block.index))
    };
    let found = lanes(request.mask).find_map(|lane| {
        words(offsets[lane], bytes).find_map(|(word, here)| {
            let mark = writers.map_or(Mark::NONE, |writers| {
                Mark::from_bits(writers[word].load(Relaxed))
            });
            let plain = mark != Mark::NONE && comes_before(mark, here);
            let in_order = changed
                .is_some_and(|changed| changed[word / 32].load(Relaxed) >> (word % 32) & 1 == 1);
            (plain || in_order).then_some((lane, plain.then_some(mark)))
        })
    });
    let Some((lane, mark)) = found else { return };
    if exec
        .findings
        .repeat(program, FindingKind::GlobalRace, request.pc)
    {
        return;
    }
    let access = access_at(track, offsets[lane], bytes);
    let message = format!(
        "thread {:?} of block {:?} reads byte {} of {} at {} through the cache for what nobody writes meanwhile \
         (ld.global.nc), though the same launch has written it{}: that cache need not notice; read without __ldg() and \
         const __restrict__, or in a second launch",
        exec.thread_of(warp, lane),
        block.coordinates,
        access.offset,
        buffer_name(&access),
        position_text(program, request.pc),
        mark.map_or_else(String::new, |mark| format!(
            " at {}",
            position_text(program, mark.pc())
        )),
    );
    let mut seen = exec.plain(
        FindingKind::GlobalRace,
        request.pc,
        block,
        warp,
        lane,
        message,
    );
    seen.access = Some(access);
    seen.other = mark.map(|mark| Party {
        block: coordinates(exec, mark.block().unwrap_or(0)),
        thread: None,
        location: Some(crate::check::location(program, mark.pc())),
        wrote: true,
    });
    // It does not end the launch.
    let _ = exec.find(block, seen);
}

/// The coordinates of a block in its grid.
fn coordinates(exec: &Exec<'_>, linear: u64) -> [u32; 3] {
    let [x, y, _] = exec.launch.grid.map(u64::from);
    [
        (linear % x) as u32,
        (linear / x % y) as u32,
        (linear / (x * y)) as u32,
    ]
}

#[cold]
#[inline(never)]
pub(super) fn race(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    (access_kind, pc): (AccessKind, u32),
    (track, offset, bytes): (&Track, u64, u32),
    lane: usize,
    (mark, wrote): (Mark, bool),
) {
    let program = exec.launch.program;
    if exec.findings.repeat(program, FindingKind::GlobalRace, pc) {
        return;
    }
    let access = access_at(track, offset, bytes);
    let other = coordinates(exec, mark.block().unwrap_or(0));
    let of_block_scope = [mark.pc(), pc]
        .into_iter()
        .find(|one| strength::has_block_scope(program, *one))
        .map(|one| {
            format!(
                "{} orders threads of its own block only (scope cta): give it device scope, such as atomicAdd() for \
                 atomicAdd_block()",
                position_text(program, one)
            )
        });
    let advice = if let Some(advice) = &of_block_scope {
        advice.as_str()
    } else if wrote && access_kind == AccessKind::Load && block.order.is_behind(mark) {
        "it was told so, and has not fenced since, so that a cache may answer with what was there before: put \
         __threadfence() behind the atomic or volatile read that told it, or read with __ldcg() or volatile"
    } else if wrote && reads_data(exec, pc) {
        "a volatile or relaxed read orders nothing: the writer has to fence (__threadfence()) between this write and the \
         atomic or flag by which it tells that it is done"
    } else {
        "blocks are not ordered: use an atomic, a fence with an atomic flag, or a second launch"
    };
    let message = format!(
        "block {:?} {} byte {} of {} at {}, which block {other:?} {} at {} in the same launch; {advice}",
        block.coordinates,
        if access_kind == AccessKind::Load {
            "reads"
        } else {
            "writes"
        },
        access.offset,
        buffer_name(&access),
        position_text(program, pc),
        if wrote { "writes" } else { "reads" },
        position_text(program, mark.pc()),
    );
    let mut seen = exec.plain(FindingKind::GlobalRace, pc, block, warp, lane, message);
    seen.access = Some(access);
    seen.other = Some(Party {
        block: other,
        thread: None,
        location: Some(crate::check::location(program, mark.pc())),
        wrote,
    });
    // A race does not end the launch.
    let _ = exec.find(block, seen);
}
