//! Loops that only poll: each round reads one word, and ends the loop once the word has a value that other threads write.
//!
//! How many rounds a warp needs here depends on the order in which the emulator runs blocks, and says nothing of a GPU,
//! where all resident blocks run at the same time. So the critical path has a single round of each such loop.

use crate::code::{Class, Flow, Op, Program, SlotRef};

/// The most instructions of such a loop.
const MAX_LENGTH: usize = 16;

/// The branches with which loops that only poll begin their next round, in ascending order.
pub(super) fn find(program: &Program) -> Vec<u32> {
    let branches = program.code.iter().enumerate();
    branches
        .filter(|(end, branch)| {
            branch.op == Op::Branch && only_polls(program, branch.x as usize, *end)
        })
        .map(|(end, _)| u32::try_from(end).expect("code has fewer than 2^32 instructions"))
        .collect()
}

/// True if a round of the loop is one ordered load of a fixed address, whose value decides something, and arithmetic
/// of integers.
fn only_polls(program: &Program, begin: usize, end: usize) -> bool {
    if begin > end || end - begin >= MAX_LENGTH {
        return false;
    }
    let mut loads = (begin..=end).filter(|pc| program.code[*pc].op == Op::Load);
    let (Some(load), None) = (loads.next(), loads.next()) else {
        return false;
    };
    let poll = &program.memory[program.code[load].x as usize];
    let is_quiet = |pc| {
        let class = program.class[pc];
        pc == load || matches!(class, Class::Integer | Class::Move | Class::Branch)
    };
    poll.ordered
        && !poll.reads_data
        && (begin..=end).all(is_quiet)
        && !changing_registers(program, begin, end, load).contains(&poll.address)
}

/// The registers whose values may differ between the rounds of a loop: those that depend on the load, and those that a
/// round reads before it writes them.
fn changing_registers(program: &Program, begin: usize, end: usize, load: usize) -> Vec<SlotRef> {
    let round = &program.flow[begin..=end];
    let written = |flow: &Flow| {
        let targets = [flow.d, flow.q].into_iter();
        targets.filter(|slot| *slot != SlotRef::NONE)
    };
    let mut changing: Vec<SlotRef> = written(&program.flow[load]).collect();
    for (place, flow) in round.iter().enumerate() {
        let carried = flow.s.iter().filter(|slot| {
            let mut later = round[place..].iter().flat_map(written);
            later.any(|target| target == **slot)
        });
        changing.extend(carried);
    }
    // A value that depends on a changing one passes at least one instruction in each turn.
    for _ in round {
        for flow in round {
            if flow.s.iter().any(|slot| changing.contains(slot)) {
                changing.extend(written(flow));
            }
        }
    }
    changing
}
