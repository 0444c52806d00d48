//! Instructions that may change the active lanes, or that do more than compute and access memory: tensor-core products,
//! warp-wide exchanges, barriers, calls, output. Each ends the interpreter's run.

use super::access::fast_path::{self, AccessSite};
use super::access::{self, AccessKind, lanes};
use super::arithmetic::clear_poison;
use super::block::Shared;
use super::exec::{Exec, Fatal};
use super::interpret::{SPIN_LIMIT, Stop};
use super::vector::{put32, put64};
use super::warp::{FULL, Wait, Warp};
use super::{control, matrix, matrix_access, warpwide};
use crate::code::{Inst, Op, TensorOp};
use crate::report::FindingKind;
use crate::simd::VectorOps;
use crate::tensor::TensorKind;

/// The longest time for which `nanosleep` suspends a warp, in nanoseconds (PTX ISA: one millisecond).
const LONGEST_SLEEP: u64 = 1_000_000;

/// An instruction that ends a run, and the lanes that execute it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunEnd<'a> {
    pub(super) inst: &'a Inst,
    /// The lanes whose guard predicate is true; at least one.
    pub(super) mask: u32,
    pub(super) pc: u32,
    /// Length of the warp's slice in instructions.
    pub(super) slice: u64,
    /// The program counter at which the running fragment must reschedule, because another fragment is ready there.
    pub(super) stop_at: u32,
}

/// Executes the instruction after the run was settled. Returns the program counter at which the fragment that runs now
/// must reschedule, or the reason why the warp stops.
#[inline(always)]
pub(super) fn step<F: VectorOps>(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    left: &mut u64,
    end: &RunEnd<'_>,
) -> Result<u32, Stop> {
    let RunEnd { inst, mask, pc, .. } = *end;
    let program = exec.launch.program;
    let x = inst.x as usize;
    let fatal = |Fatal| Stop::Fatal;
    match inst.op {
        Op::AsyncCopy => super::copy::issue(exec, block, warp, x, mask, pc).map_err(fatal)?,
        Op::AsyncCommit => super::copy::commit(warp, mask),
        Op::AsyncWait => super::copy::wait(exec, block, warp, inst.x, mask),
        Op::MBarrier => {
            let waits = super::mbarrier::run(exec, block, warp, x, mask, pc).map_err(fatal)?;
            // A warp that waits yields its slice to the other warps.
            if waits {
                warp.yield_slice(left);
                warp.waits_at = Some(pc);
                // The awaited thread may be a lane of this warp.
                warp.spins = SPIN_LIMIT;
            }
        }
        Op::LoadMatrix | Op::Tensor => {
            if !warpwide::gather_members(warp, pc, FULL, false) {
                return wait_again(exec, warp, end);
            }
            tensor::<F>(exec, block, warp, end).map_err(fatal)?;
            return Ok(warp.reschedule());
        }
        Op::Shuffle | Op::Vote | Op::Match | Op::Redux | Op::Elect | Op::WarpBarrier => {
            return warp_wide::<F>(exec, block, warp, end);
        }
        Op::ActiveMask => {
            put32(&mut warp.r32[inst.d as usize], mask, &[mask; 32]);
            clear_poison(warp, program.flow[pc as usize].d, mask);
        }
        Op::Barrier => {
            // Lanes whose guard is false skip the barrier.
            control::split_off(warp, warp.mask & !mask);
            warp.mask = mask;
            control::arrive(exec, block, warp, x, mask, pc).map_err(fatal)?;
            return look_again(warp);
        }
        Op::BranchTable => {
            control::table(exec, block, warp, inst, mask, pc).map_err(fatal)?;
            return jumped(warp, *left);
        }
        Op::Call | Op::CallPointer => {
            control::call(exec, block, warp, inst, mask, pc).map_err(fatal)?;
            return jumped(warp, *left);
        }
        Op::StackCopy => {
            access::copy_on_stack(exec, block, warp, x, mask, pc).map_err(fatal)?;
        }
        Op::Return => {
            control::give_back(exec, warp, mask, pc);
            return Ok(warp.reschedule());
        }
        Op::Exit => {
            control::exit(exec, block, warp, mask);
            let stop_at = warp.reschedule();
            if warp.mask != 0 {
                return Ok(stop_at);
            }
            return if warp.live == 0 {
                Err(Stop::Done)
            } else if warp.release_warp_waits() {
                Ok(warp.reschedule())
            } else {
                Err(Stop::Waiting)
            };
        }
        Op::Trap => {
            let message = format!(
                "the kernel executed trap at {}",
                crate::check::position_text(program, pc)
            );
            let lane = mask.trailing_zeros() as usize & 31;
            let seen = exec.plain(FindingKind::Trap, pc, block, warp, lane, message);
            exec.find(block, seen).map_err(fatal)?;
        }
        Op::Fence => control::fence(block, warp, inst.x),
        Op::Sleep => {
            // A sleeping warp yields its slice to the other warps.
            warp.yield_slice(left);
            let nanoseconds = lanes(mask)
                .map(|lane| warp.lane(program.flow[pc as usize].s[0], lane))
                .max()
                .unwrap_or(0)
                .min(LONGEST_SLEEP);
            warp.cycles += nanoseconds * u64::from(exec.launch.core_mhz) / 1000;
        }
        Op::Clock => {
            let now = exec.clock + (end.slice - *left - warp.unused);
            match inst.x {
                0 => put32(&mut warp.r32[inst.d as usize], mask, &[now as u32; 32]),
                2 => {
                    let megahertz = u64::from(exec.launch.core_mhz.max(1));
                    let nanoseconds = now.saturating_mul(1000) / megahertz;
                    put64(&mut warp.r64[inst.d as usize], mask, &[nanoseconds; 32]);
                }
                _ => put64(&mut warp.r64[inst.d as usize], mask, &[now; 32]),
            }
            clear_poison(warp, program.flow[pc as usize].d, mask);
        }
        Op::Print => super::print::print(exec, block, warp, x, mask, pc).map_err(fatal)?,
        Op::AssertFail => {
            super::print::assert_fail(exec, block, warp, x, mask, pc).map_err(fatal)?;
        }
        // `Op::Hint` does nothing; every other operation was executed before.
        _ => {}
    }
    Ok(end.stop_at)
}

/// Chooses the next fragment. Returns [`Stop::Waiting`] if none is ready.
#[inline(always)]
fn look_again(warp: &mut Warp) -> Result<u32, Stop> {
    let stop_at = warp.reschedule();
    if warp.mask == 0 {
        Err(Stop::Waiting)
    } else {
        Ok(stop_at)
    }
}

/// Takes back the count of an instruction that waits for absent lanes, and chooses the next fragment.
#[inline(never)]
fn wait_again(exec: &mut Exec<'_>, warp: &mut Warp, end: &RunEnd<'_>) -> Result<u32, Stop> {
    exec.counts.take_back(end.pc, end.mask.count_ones());
    look_again(warp)
}

#[inline(always)]
fn jumped(warp: &mut Warp, left: u64) -> Result<u32, Stop> {
    let stop_at = warp.reschedule();
    if left == 0 {
        Err(Stop::Slice)
    } else {
        Ok(stop_at)
    }
}

/// Executes a multiply-add, or an `ldmatrix` on the fast path. Returns false, with nothing done, for any other
/// instruction and where the fast path does not apply.
#[inline(always)]
pub(crate) fn tensor_fast<F: VectorOps>(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    x: usize,
    pc: u32,
) -> bool {
    let op = &exec.launch.program.tensor[x];
    match op.kind {
        TensorKind::MultiplyAdd { .. } => {
            matrix::multiply_add::<F>(warp, op, exec.launch.alternative_fragments);
        }
        TensorKind::LoadMatrix { count, transposed } => {
            let (rows, at) = matrix_rows(op, count, pc);
            if !fast_path::access::<F>(exec, block, warp, AccessKind::Load, rows, at) {
                return false;
            }
            matrix::spread::<F>(warp, op, count, transposed, pc);
        }
        _ => return false,
    }
    true
}

/// The lanes whose addresses an `ldmatrix` or `stmatrix` uses, one matrix row each: the first 8, 16 or all 32.
#[inline(always)]
fn matrix_rows(op: &TensorOp, count: u8, pc: u32) -> (u32, AccessSite) {
    let at = AccessSite {
        x: op.memory as usize,
        pc,
        run_begin: pc,
        run_number: 0,
    };
    (FULL >> (32 - 8 * u32::from(count)), at)
}

#[inline(always)]
fn tensor<F: VectorOps>(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    end: &RunEnd<'_>,
) -> Result<(), Fatal> {
    let (x, pc) = (end.inst.x as usize, end.pc);
    if F::tensor(exec, block, warp, x, pc) {
        return Ok(());
    }
    let op = &exec.launch.program.tensor[x];
    match op.kind {
        TensorKind::LoadMatrix { count, transposed } => {
            let (rows, at) = matrix_rows(op, count, pc);
            F::access(exec, block, warp, AccessKind::Load, rows, at)?;
            matrix::spread::<F>(warp, op, count, transposed, pc);
        }
        TensorKind::StoreMatrix { count, transposed } => {
            matrix::gather(warp, op, count, transposed, pc);
            let (rows, at) = matrix_rows(op, count, pc);
            F::access(exec, block, warp, AccessKind::Store, rows, at)?;
        }
        _ => matrix_access::access::<F>(exec, block, warp, op, pc)?,
    }
    Ok(())
}

#[inline(always)]
fn warp_wide<F: VectorOps>(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    end: &RunEnd<'_>,
) -> Result<u32, Stop> {
    let RunEnd { inst, mask, pc, .. } = *end;
    let program = exec.launch.program;
    let (members, uniform) = warpwide::members(warp, program, inst, mask, pc);
    if !uniform {
        warpwide::in_groups(exec, block, warp, inst, mask, pc);
        return look_again(warp);
    }
    if members & mask != mask {
        warpwide::outside(exec, block, warp, mask & !members, pc);
    }
    if !warpwide::gather_members(warp, pc, members, inst.op == Op::WarpBarrier) {
        return wait_again(exec, warp, end);
    }
    // Lanes that waited here have joined, so the guard is evaluated again.
    let mask = warp.mask & control::guard(warp, inst.guard);
    if let Some(shadow) = &mut block.shadow {
        shadow.warp_sync(warp.index);
    }
    if inst.op != Op::WarpBarrier
        && !(inst.op == Op::Shuffle
            && warpwide::shuffle_full_warp::<F>(warp, &program.warp_ops[inst.x as usize], mask))
    {
        warpwide::run(exec, warp, inst.x as usize, mask, pc);
    }
    Ok(warp.reschedule())
}

/// Parks the running fragment at an instruction that it will execute again.
pub(super) fn park_at(warp: &mut Warp, pc: u32, wait: Wait) {
    warp.pc = pc;
    warp.park(wait);
}
