//! The interpreter's loop for runs that all 32 lanes of a warp execute while no register is poisoned.
//!
//! Most instructions of most kernels run in this state. With full mask and no poison established beforehand, an
//! instruction costs little more than its own work. Anything else is left to [`super::interpret`], which continues
//! where this loop stops. Both loops execute arithmetic by the same definitions, compiled twice.

use super::access::fast_path::AccessSite;
use super::access::{AccessKind, load_groups};
use super::block::Shared;
use super::exec::Exec;
use super::interpret::{Run, Stop};
use super::warp::{FULL, Warp};
use super::{arithmetic, warpwide};
use crate::code::{GUARD_NOT, Inst, NONE, Op, Program};
use crate::simd::VectorOps;

/// Reports whether this loop can run the warp: all lanes active, no poison, no other fragment.
#[inline(always)]
pub(super) fn can_run(warp: &Warp) -> bool {
    warp.mask == FULL && !warp.tainted && warp.others.is_empty() && warp.hold == 0
}

/// The lanes whose guard predicate is true.
#[inline(always)]
fn holds(warp: &Warp, inst: &Inst) -> u32 {
    if inst.guard == NONE {
        return FULL;
    }
    let predicate = warp.p[(inst.guard & (GUARD_NOT - 1)) as usize];
    if inst.guard & GUARD_NOT != 0 {
        !predicate
    } else {
        predicate
    }
}

/// Executes a shuffle of all 32 lanes. Returns false, with nothing done, if its operands differ between lanes or it
/// uses segments.
#[inline(always)]
fn shuffle<F: VectorOps>(
    program: &Program,
    block: &mut Shared,
    warp: &mut Warp,
    inst: &Inst,
    pc: u32,
) -> bool {
    if warpwide::members(warp, program, inst, FULL, pc) != (FULL, true)
        || !warpwide::shuffle_full_warp::<F>(warp, &program.warp_ops[inst.x as usize], FULL)
    {
        return false;
    }
    if let Some(shadow) = &mut block.shadow {
        shadow.warp_sync(warp.index);
    }
    true
}

/// Runs a warp. Returns [`Stop::Slice`] when its slice is used up, and none at an instruction that this loop does not
/// execute.
#[inline(always)]
pub(crate) fn run<F: VectorOps>(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    left: &mut u64,
) -> Option<Stop> {
    let program = exec.launch.program;
    let code: &[Inst] = &program.code;
    loop {
        let mut pc = warp.pc;
        let run = Run {
            begin: pc,
            lanes: FULL,
        };
        exec.run_number += 1;
        loop {
            let inst = &code[pc as usize];
            let mask = holds(warp, inst);
            if mask != FULL && inst.op != Op::Branch {
                if mask != 0 {
                    break;
                }
                exec.counts.count_idle_lanes(pc, 32);
                pc += 1;
                continue;
            }
            if arithmetic::run::<F, true>(exec, warp, inst, FULL, pc as usize) {
                pc += 1;
                continue;
            }
            let access_kind = match inst.op {
                Op::Load => AccessKind::Load,
                Op::Store => AccessKind::Store,
                Op::Tensor | Op::LoadMatrix
                    if F::tensor(exec, block, warp, inst.x as usize, pc) =>
                {
                    pc += 1;
                    continue;
                }
                Op::Shuffle if shuffle::<F>(program, block, warp, inst, pc) => {
                    pc += 1;
                    continue;
                }
                _ => break,
            };
            let op = &program.memory[inst.x as usize];
            if access_kind == AccessKind::Store
                || !load_groups::load_follower::<F>(exec, block, warp, op)
            {
                let at = AccessSite {
                    x: inst.x as usize,
                    pc,
                    run_begin: run.begin,
                    run_number: exec.run_number,
                };
                if !F::access_fast(exec, block, warp, access_kind, FULL, at) {
                    break;
                }
            }
            pc += 1;
        }
        let inst = &code[pc as usize];
        let mask = holds(warp, inst);
        if inst.op != Op::Branch || mask != FULL && mask != 0 {
            if inst.op.keeps_active_lanes() {
                load_groups::abandon_run(exec, run.begin, pc);
            }
            run.settle(exec, warp, left, pc);
            return None;
        }
        run.settle(exec, warp, left, pc + 1);
        if mask == FULL {
            warp.cycles += exec.launch.critical_path.taken[pc as usize];
            warp.pc = inst.x;
            if inst.x <= pc {
                exec.forget_poll(warp, pc);
                if *left == 0 {
                    return Some(Stop::Slice);
                }
            }
        } else {
            exec.counts.count_idle_lanes(pc, 32);
        }
    }
}
