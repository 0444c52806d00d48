//! The interpreter: one instruction of one warp after another, 32 lanes at a time.
//!
//! A warp executes runs: instructions in a row with the same lanes. What is the same for a run is kept outside the
//! warp and settled once at its end: the counts, the cycles, and what is left of the slice. Instructions that may
//! change who runs are in [`super::run_end`], and end the run.
//!
//! Everything here is `#[inline(always)]` on purpose: the whole loop is compiled once per instruction set in the
//! `simd` module, and a function that is not inlined would be compiled for the plainest one.

use super::access::{self, Want, fast_path};
use super::block::Shared;
use super::exec::{Exec, Fatal};
use super::run_end::{self, RunEnd};
use super::warp::{FULL, Warp};
use super::{arithmetic, control, full_warp};
use crate::code::{GUARD_NOT, Inst, NONE, Op};
use crate::simd::VectorOps;

/// Why a warp stopped running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Every lane exited.
    Done,
    /// Every lane that is left waits.
    Waiting,
    /// The slice is used up.
    Slice,
    /// The launch ends.
    Fatal,
}

/// Instructions of the budget that a lane pays for each repeated read while nothing changes, so that a launch that
/// waits for ever ends soon.
const POLL_COST: u64 = 512;
/// Backward branches before another ready fragment gets a turn.
pub(super) const SPIN_LIMIT: u32 = 512;

/// Instructions in a row, executed by the same lanes.
pub(super) struct Run {
    pub(super) begin: u32,
    pub(super) lanes: u32,
}

impl Run {
    /// Counts the instructions up to `end`, which begins the next run. The warp stands there.
    #[inline(always)]
    pub(super) fn settle(&self, exec: &mut Exec<'_>, warp: &mut Warp, left: &mut u64, end: u32) {
        exec.counts.run(self.begin, end, self.lanes.count_ones());
        let cycles = exec.launch.cycles_before;
        warp.cycles += cycles[end as usize] - cycles[self.begin as usize];
        *left = left.saturating_sub(u64::from(end - self.begin));
        warp.pc = end;
    }
}

/// Runs a warp until it must wait, is done, or has used up `left` instructions (checked at branches).
#[inline(always)]
pub(crate) fn run<F: VectorOps>(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    left: &mut u64,
) -> Stop {
    let program = exec.launch.program;
    let code: &[Inst] = &program.code;
    let slice = *left;
    if warp.live == 0 {
        return Stop::Done;
    }
    let mut stop_at = warp.reschedule();
    if warp.mask == 0 {
        return Stop::Waiting;
    }
    loop {
        if warp.pc >= stop_at {
            stop_at = warp.reschedule();
        }
        if full_warp::can_run(warp) {
            let op = code[warp.pc as usize].op;
            if (op.keeps_active_lanes() || op == Op::Branch)
                && let Some(stop) = F::run_full_warp(exec, block, warp, left)
            {
                return stop;
            }
        }
        let mut pc = warp.pc;
        let active = warp.mask;
        let run = Run {
            begin: pc,
            lanes: active,
        };
        // One turn per instruction, until the run ends.
        loop {
            let inst = &code[pc as usize];
            let mut mask = active;
            if inst.guard != NONE {
                let predicate = warp.p[(inst.guard & (GUARD_NOT - 1)) as usize];
                mask &= if inst.guard & GUARD_NOT != 0 {
                    !predicate
                } else {
                    predicate
                };
                if mask != active {
                    exec.counts.sat_out(pc, (active & !mask).count_ones());
                }
            }
            if mask == 0 && inst.op != Op::Branch
                || arithmetic::run::<F, false>(exec, warp, inst, mask, pc as usize)
            {
                pc += 1;
                if pc < stop_at {
                    continue;
                }
                run.settle(exec, warp, left, pc);
                break;
            }
            match inst.op {
                Op::Load if exec.should_split_lanes(warp, inst, mask) => {
                    run.settle(exec, warp, left, pc);
                    exec.split_lanes(warp, pc);
                    stop_at = u32::MAX;
                }
                Op::Load | Op::Store | Op::Atomic => {
                    let want = match inst.op {
                        Op::Load => Want::Load,
                        Op::Store => Want::Store,
                        _ => Want::Atomic,
                    };
                    let at = fast_path::AccessSite {
                        x: inst.x as usize,
                        pc,
                        run_begin: run.begin,
                        run_number: 0,
                    };
                    let quick = mask == FULL
                        && !warp.tainted
                        && F::access_fast(exec, block, warp, want, mask, at);
                    if !quick && F::access(exec, block, warp, want, mask, at) == Err(Fatal) {
                        run.settle(exec, warp, left, pc + 1);
                        return Stop::Fatal;
                    }
                    // A warp that reads the same value again waits for a write, and lets the others run.
                    if !quick && access::polls_unchanged_value(exec, warp, mask, at) {
                        run.settle(exec, warp, left, pc + 1);
                        warp.yield_slice(left);
                        let lanes = u64::from(warp.live.count_ones());
                        exec.waiting.charge += POLL_COST * lanes;
                        warp.repeats_read = true;
                        // It may be a lane of its own warp.
                        warp.spins = SPIN_LIMIT;
                        break;
                    }
                    // What others do between an ordered load and whatever follows from it is what another schedule
                    // is for: to put back a sum, say, that somebody else has added to meanwhile.
                    let reads = inst.op == Op::Load && program.memory[inst.x as usize].ordered;
                    if reads && exec.launch.placement != 0 {
                        run.settle(exec, warp, left, pc + 1);
                        return Stop::Slice;
                    }
                    pc += 1;
                    if pc < stop_at && !full_warp::can_run(warp) {
                        continue;
                    }
                    run.settle(exec, warp, left, pc);
                }
                Op::Branch => {
                    if warp.tainted && inst.guard != NONE {
                        control::branch_poison(exec, block, warp, inst.guard, active, pc);
                    }
                    run.settle(exec, warp, left, pc + 1);
                    if mask == active {
                        warp.pc = inst.x;
                    } else if mask != 0 {
                        exec.divergent[pc as usize] += 1;
                        // Both ways go on; the lower place first.
                        control::split_off(warp, active & !mask);
                        warp.mask = mask;
                        warp.pc = inst.x;
                        stop_at = 0;
                    }
                    if mask != 0 && inst.x <= pc {
                        if stop_at != u32::MAX || warp.hold > 0 || !warp.others.is_empty() {
                            warp.spins += 1;
                            warp.hold = warp.hold.saturating_sub(1);
                            if warp.spins > SPIN_LIMIT {
                                warp.rotate();
                            }
                            stop_at = warp.reschedule();
                        }
                        if *left == 0 {
                            return Stop::Slice;
                        }
                    }
                }
                _ => {
                    run.settle(exec, warp, left, pc + 1);
                    let end = RunEnd {
                        inst,
                        mask,
                        pc,
                        slice,
                        stop_at,
                    };
                    match run_end::step::<F>(exec, block, warp, left, &end) {
                        Ok(at) => stop_at = at,
                        Err(stop) => return stop,
                    }
                }
            }
            break;
        }
    }
}
