//! The interpreter: executes one instruction of one warp after another, on 32 lanes at a time.
//!
//! A warp executes runs: consecutive instructions with the same active lanes. Counts, cycles and the rest of the slice
//! are kept outside the warp during a run and settled once at its end. Instructions that may change the active lanes
//! are in [`super::run_end`] and end the run.
//!
//! Every function here is `#[inline(always)]`: the `simd` module compiles the whole loop once per instruction set, and
//! a function that is not inlined would be compiled for the baseline instruction set.

use super::access::{self, AccessKind, fast_path};
use super::block::Shared;
use super::exec::{Exec, Fatal};
use super::run_end::{self, RunEnd};
use super::warp::{FULL, Warp};
use super::{arithmetic, control, full_warp};
use crate::code::{GUARD_NOT, Inst, NONE, Op};
use crate::simd::VectorOps;

/// The reason why a warp stopped running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Every lane exited.
    Done,
    /// Every live lane waits.
    Waiting,
    /// The slice is used up, or the warp yielded it.
    Slice,
    /// The launch ends.
    Fatal,
}

/// Thread instructions that are charged to the budget per live lane when a warp polls an unchanged value, so that an
/// endless wait exhausts the budget soon.
const POLL_COST: u64 = 512;
/// Backward branches after which another ready fragment of the warp runs.
pub(super) const SPIN_LIMIT: u32 = 512;

/// Consecutive instructions that the same lanes execute.
pub(super) struct Run {
    pub(super) begin: u32,
    pub(super) lanes: u32,
}

impl Run {
    /// Counts the instructions before `end`, and sets the warp's program counter to `end`.
    #[inline(always)]
    pub(super) fn settle(&self, exec: &mut Exec<'_>, warp: &mut Warp, left: &mut u64, end: u32) {
        exec.counts.run(self.begin, end, self.lanes.count_ones());
        let cycles = &exec.launch.critical_path.before;
        warp.cycles += cycles[end as usize] - cycles[self.begin as usize];
        *left = left.saturating_sub(u64::from(end - self.begin));
        warp.pc = end;
    }
}

/// Runs a warp until it waits, has exited, or has used up `left` instructions. The slice is checked at backward
/// branches.
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
        // One iteration per instruction, until the run ends.
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
                    exec.counts
                        .count_idle_lanes(pc, (active & !mask).count_ones());
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
                    let access_kind = match inst.op {
                        Op::Load => AccessKind::Load,
                        Op::Store => AccessKind::Store,
                        _ => AccessKind::Atomic,
                    };
                    let at = fast_path::AccessSite {
                        x: inst.x as usize,
                        pc,
                        run_begin: run.begin,
                        run_number: 0,
                    };
                    let quick = mask == FULL
                        && !warp.tainted
                        && F::access_fast(exec, block, warp, access_kind, mask, at);
                    if !quick && F::access(exec, block, warp, access_kind, mask, at) == Err(Fatal) {
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
                        // The awaited thread may be a lane of this warp.
                        warp.spins = SPIN_LIMIT;
                        break;
                    }
                    // A seeded schedule switches warps after an ordered load, so that other threads can act between the
                    // load and what depends on it, for example add to a sum that this thread then overwrites.
                    let reads = inst.op == Op::Load && program.memory[inst.x as usize].ordered;
                    if reads && exec.launch.placement.seed != 0 {
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
                    if mask != 0 {
                        warp.cycles += exec.launch.critical_path.taken[pc as usize];
                    }
                    if mask == active {
                        warp.pc = inst.x;
                    } else if mask != 0 {
                        exec.divergent[pc as usize] += 1;
                        // Both sides continue; the fragment with the lower program counter runs first.
                        control::split_off(warp, active & !mask);
                        warp.mask = mask;
                        warp.pc = inst.x;
                        stop_at = 0;
                    }
                    if mask != 0 && inst.x <= pc {
                        exec.forget_poll(warp, pc);
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
