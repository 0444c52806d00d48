//! Completion of block barriers, and the check that all threads meet them in the same way.

use super::Block;
use super::stuck::waiting_threads;
use crate::check::{Observation, position_text};
use crate::machine::block::Barrier;
use crate::machine::control;
use crate::machine::exec::Exec;
use crate::machine::warp::Wait;
use crate::report::FindingKind;

/// Releases every barrier at which all expected threads have arrived. Returns true if there was one.
pub(super) fn release_barriers(exec: &mut Exec<'_>, block: &mut Block) -> bool {
    let mut completed = std::mem::take(&mut block.shared.completed);
    for (id, barrier) in block.shared.barriers.iter_mut().enumerate() {
        let whole = barrier.expected.is_none() && barrier.arrived >= block.shared.live_threads;
        if whole && barrier.arrived > 0 {
            completed.push((id, barrier.complete()));
        }
    }
    let released = !completed.is_empty();
    for (id, barrier) in completed {
        check_barrier(exec, block, &barrier);
        // A thread that only announced itself is not ordered behind the others.
        let everyone = barrier.announced == 0 && barrier.arrived >= block.shared.live_threads;
        if let (true, Some(shadow)) = (everyone, &mut block.shared.shadow) {
            shadow.block_barrier();
        }
        let slowest = block
            .warps
            .iter()
            .filter(|warp| warp.live != 0)
            .map(|warp| warp.cycles)
            .max()
            .unwrap_or(0);
        for warp in &mut block.warps {
            let mut woken = false;
            for index in 0..warp.others.len() {
                let fragment = warp.others[index];
                let wait = Wait::Block {
                    barrier: id as u8,
                    phase: barrier.phase,
                };
                if fragment.wait == wait {
                    if barrier.voted {
                        control::reduced(
                            exec,
                            warp,
                            fragment,
                            barrier.all,
                            barrier.any,
                            barrier.count,
                        );
                    }
                    let fragment = &mut warp.others[index];
                    fragment.wait = Wait::Ready;
                    fragment.pc += 1;
                    woken = true;
                }
            }
            if let (true, false, Some(shadow)) = (woken, everyone, &mut block.shared.shadow) {
                shadow.acquire(warp.index, &barrier.clock);
            }
            if woken {
                warp.cycles = slowest;
                warp.tainted = warp.tainted && warp.poison.any();
            }
        }
    }
    released
}

/// Records a finding if threads met this barrier at different instructions, or if a thread exited after an earlier
/// arrival at it. Such a barrier works only by accident.
fn check_barrier(exec: &mut Exec<'_>, block: &Block, barrier: &Barrier) {
    let Some(pc) = barrier.first_pc else { return };
    if let Some((other_pc, thread, threads)) = barrier.disagrees {
        let program = exec.launch.program;
        let all = exec.launch.block.iter().product::<u32>();
        let text = format!(
            "thread {:?} waits at the barrier of {} for {} threads while thread {:?} waits at the one of {} for {threads}: \
             every thread at a barrier must expect the same number",
            exec.thread_at(barrier.first_thread),
            position_text(program, pc),
            barrier.expected_of(all),
            exec.thread_at(thread),
            position_text(program, other_pc),
        );
        record_divergent_barrier(exec, block, pc, thread, text);
        return;
    }
    // A barrier with a thread count is meant for a part of the block and may be met at different instructions.
    if barrier.expected.is_some() {
        return;
    }
    let program = exec.launch.program;
    let left = block
        .shared
        .exited_after
        .iter()
        .find(|(last, _)| *last == pc);
    let (thread, text) = match (barrier.other, left) {
        (Some((other_pc, thread)), _) => (
            thread,
            format!(
                "thread {:?} waits at the barrier of {} while thread {:?} waits at the one of {}: every thread of a \
                 block must reach the same __syncthreads() the same number of times",
                exec.thread_at(barrier.first_thread),
                position_text(program, pc),
                exec.thread_at(thread),
                position_text(program, other_pc),
            ),
        ),
        (None, Some((_, thread))) => (
            barrier.first_thread,
            format!(
                "thread {:?} waits again at the barrier of {}, which thread {:?} has left for good: every thread of a \
                 block must reach the same __syncthreads() the same number of times",
                exec.thread_at(barrier.first_thread),
                position_text(program, pc),
                exec.thread_at(*thread),
            ),
        ),
        (None, None) => return,
    };
    record_divergent_barrier(exec, block, pc, thread, text);
}

fn record_divergent_barrier(
    exec: &mut Exec<'_>,
    block: &Block,
    pc: u32,
    thread: u32,
    message: String,
) {
    let waits = waiting_threads(exec, block);
    let seen = Observation {
        kind: FindingKind::DivergentBarrier,
        pc,
        block: block.shared.coordinates,
        thread: exec.thread_at(thread),
        access: None,
        other: None,
        waits,
        message,
    };
    let _ = exec.find(&block.shared, seen);
}
