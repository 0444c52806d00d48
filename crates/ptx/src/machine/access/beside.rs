//! Plain accesses and atomics of the same words of device memory, with nothing that orders them.
//!
//! A word remembers its last atomic, with block, time and thread. Plain writes are compared with it, and plain reads of
//! data. A plain read that decides something, or whose value an atomic checks, is not compared, because what it returned
//! is verified: the first read of a compare-and-swap loop is one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::super::block::Shared;
use super::super::exec::{Exec, Track};
use super::super::warp::Warp;
use super::between::{self, conflicts, conflicts_with_read, words};
use super::inside::{self, Other};
use super::{Offsets, Request, Want, lanes};
use crate::code::Op;
use crate::sync::{Accessor, Mark, Moment};

/// An access with which one of a lane is not ordered.
#[derive(Debug, Clone, Copy)]
enum Racing {
    OfBlock(Other),
    OfAnother(Mark, bool),
}

/// Compares a warp's atomics with earlier plain accesses to the same words, and records them.
#[inline(never)]
pub(super) fn atomics(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    request: &Request<'_>,
    track: &Track,
    offsets: &Offsets,
) {
    let Some((write_moments, read_moments)) = track.moments() else {
        return;
    };
    let by = Accessor {
        warp: warp.index,
        pc: request.pc,
    };
    let bytes = exec.launch.program.memory[request.x].element;
    let mine = Mark::new(block.index, block.order.touch(), request.pc, 0);
    let cells = track.atomics();
    let mut found = None;
    for lane in lanes(request.mask) {
        for (word, here) in words(offsets[lane], bytes) {
            let writer = mark_at(&track.writers, word);
            let readers = [0, 1].map(|at| mark_at(&track.readers, 2 * word + at));
            let is_compared = |mark: Mark, wrote: bool| {
                if wrote {
                    is_plain_store(exec, mark)
                } else {
                    reads_data_plainly(exec, mark)
                }
            };
            for (mark, wrote) in [(writer, true), (readers[0], false), (readers[1], false)] {
                if conflicts(mark, block, here) && is_compared(mark, wrote) {
                    found.get_or_insert((lane, Racing::OfAnother(mark, wrote)));
                }
            }
            if let Some(shadow) = &block.shadow {
                for (mark, moments, wrote) in [
                    (writer, write_moments, true),
                    (readers[0], read_moments, false),
                ] {
                    let then = Moment::from_bits(moments[word].load(Relaxed));
                    if mark.is_of(block.index)
                        && shadow.is_unordered(then, here, block.index, by)
                        && is_compared(mark, wrote)
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
        (Want::Atomic, request.pc, bytes),
        track,
        offsets,
        found,
    );
}

/// Compares plain reads of data, or plain writes, with the last atomics on the same words.
#[inline(never)]
pub(super) fn plain(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    request: &Request<'_>,
    track: &Track,
    offsets: &Offsets,
) {
    let Some(cells) = track.atomics.get() else {
        return;
    };
    let op = &exec.launch.program.memory[request.x];
    let (bytes, cached) = (op.bytes(), request.want == Want::Load && !op.past_cache);
    if op.atomic.is_some() || (request.want == Want::Load && !op.reads_data) {
        return;
    }
    let by = Accessor {
        warp: warp.index,
        pc: request.pc,
    };
    let mut found = None;
    for lane in lanes(request.mask) {
        for (word, here) in words(offsets[lane], bytes) {
            let mark = Mark::from_bits(cells[2 * word].load(Relaxed));
            if mark == Mark::NONE {
                continue;
            }
            let racing = if mark.is_of(block.index) {
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
                conflicts_with_read(mark, block, here, cached)
                    .then_some(Racing::OfAnother(mark, true))
            };
            if let Some(racing) = racing
                && (request.want == Want::Load
                    || between::changes(exec, warp, request, track, offsets, lane))
            {
                found.get_or_insert((lane, racing));
            }
        }
    }
    report(
        exec,
        block,
        warp,
        (request.want, request.pc, bytes),
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

/// Reports whether a mark is of a plain store. An atomic whose scope is another block is compared elsewhere.
fn is_plain_store(exec: &Exec<'_>, mark: Mark) -> bool {
    let program = exec.launch.program;
    let inst = program.code.get(mark.pc() as usize);
    inst.is_some_and(|inst| inst.op == Op::Store && !program.memory[inst.x as usize].ordered)
}

/// Reports whether a mark is of a plain load of data.
fn reads_data_plainly(exec: &Exec<'_>, mark: Mark) -> bool {
    let program = exec.launch.program;
    program.code.get(mark.pc() as usize).is_some_and(|inst| {
        let is_data = |x: u32| {
            let op = &program.memory[x as usize];
            op.reads_data && !op.ordered
        };
        inst.op == Op::Load && is_data(inst.x)
    })
}

fn report(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    (want, pc, bytes): (Want, u32, u32),
    track: &Track,
    offsets: &Offsets,
    found: Option<(usize, Racing)>,
) {
    let Some((lane, racing)) = found else { return };
    let place = (track, offsets[lane], bytes);
    match racing {
        Racing::OfBlock(other) => inside::race(exec, block, warp, (want, pc, lane), place, other),
        Racing::OfAnother(mark, wrote) => {
            between::race(exec, block, warp, (want, pc), place, lane, (mark, wrote));
        }
    }
}
