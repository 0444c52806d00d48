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

/// True if a round of the loop is one ordered load whose value decides something, with arithmetic of integers that keeps
/// nothing for the next round: a loop that counts or computes has the cost of all its rounds.
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
        && !keeps_values(&program.flow[begin..=end])
}

/// True if a round reads a register before it writes it, so that the round before decides its value.
fn keeps_values(round: &[Flow]) -> bool {
    let is_written = |part: &[Flow], slot: SlotRef| {
        slot != SlotRef::NONE && part.iter().any(|flow| flow.d == slot || flow.q == slot)
    };
    let mut reads = round.iter().enumerate();
    reads.any(|(place, flow)| {
        let (before, rest) = round.split_at(place);
        let mut sources = flow.s.into_iter();
        sources.any(|slot| !is_written(before, slot) && is_written(rest, slot))
    })
}
