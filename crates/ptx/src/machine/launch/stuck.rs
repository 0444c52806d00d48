//! Findings of blocks that cannot end: deadlocks and exhausted instruction budgets.

use super::Block;
use crate::check::{Observation, position_text};
use crate::machine::exec::Exec;
use crate::machine::warp::Wait;
use crate::report::FindingKind;

/// The waiting threads by instruction and by what they wait for, at most eight entries.
pub(super) fn waiting_threads(exec: &Exec<'_>, block: &Block) -> Vec<crate::report::Wait> {
    let mut list: Vec<(u32, String, u32, u32)> = Vec::new();
    for warp in &block.warps {
        if let Some(pc) = warp.waits_at {
            let thread = warp.index * 32 + warp.mask.trailing_zeros().min(31);
            let awaits = "an mbarrier".to_owned();
            match list
                .iter_mut()
                .find(|(at, text, ..)| *at == pc && *text == awaits)
            {
                Some((.., count)) => *count += warp.mask.count_ones(),
                None => list.push((pc, awaits, thread, warp.mask.count_ones())),
            }
        }
        for fragment in &warp.others {
            let awaits = match fragment.wait {
                Wait::Ready => continue,
                Wait::Warp { members, .. } => format!("lanes {members:#x} of its warp"),
                Wait::Block { barrier, .. } => format!("barrier {barrier}"),
            };
            let thread = warp.index * 32 + fragment.mask.trailing_zeros();
            match list
                .iter_mut()
                .find(|(pc, text, ..)| *pc == fragment.pc && *text == awaits)
            {
                Some((.., count)) => *count += fragment.mask.count_ones(),
                None => list.push((fragment.pc, awaits, thread, fragment.mask.count_ones())),
            }
        }
    }
    list.into_iter()
        .take(8)
        .map(|(pc, awaits, thread, threads)| crate::report::Wait {
            thread: exec.thread_at(thread),
            threads,
            location: crate::check::location(exec.launch.program, pc),
            awaits,
        })
        .collect()
}

pub(super) fn record_deadlock(exec: &mut Exec<'_>, block: &Block) {
    let stuck = block.warps.iter().find_map(|warp| {
        if let Some(pc) = warp.waits_at {
            return Some((warp.index * 32 + warp.mask.trailing_zeros().min(31), pc));
        }
        let fragment = warp
            .others
            .iter()
            .find(|fragment| fragment.wait != Wait::Ready)?;
        Some((
            warp.index * 32 + fragment.mask.trailing_zeros(),
            fragment.pc,
        ))
    });
    let Some((thread, pc)) = stuck else { return };
    let waits = waiting_threads(exec, block);
    let list: Vec<String> = waits
        .iter()
        .map(|wait| {
            let line = wait.location.line.unwrap_or(wait.location.ptx_line);
            format!(
                "{} threads from {:?} on wait for {} at line {line}",
                wait.threads, wait.thread, wait.awaits
            )
        })
        .collect();
    let message = format!("no thread of the block can go on: {}", list.join("; "));
    let seen = Observation {
        kind: FindingKind::Deadlock,
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

pub(super) fn record_exhausted_budget(exec: &mut Exec<'_>, block: &Block, warp: usize) {
    let state = &block.warps[warp];
    let lane = state.mask.trailing_zeros() as usize & 31;
    let pc = state.pc.min(exec.launch.program.code.len() as u32 - 1);
    let message = format!(
        "the launch used up its budget of {} thread instructions; thread {:?} is at {}, which it may never leave",
        exec.launch.budget,
        exec.thread_of(state, lane),
        position_text(exec.launch.program, pc),
    );
    let seen = exec.plain(
        FindingKind::BudgetExhausted,
        pc,
        &block.shared,
        state,
        lane,
        message,
    );
    let _ = exec.find(&block.shared, seen);
}
