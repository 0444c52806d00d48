//! Loops that only poll: each round reads one word, and ends the loop once the word has a value that other threads write.
//!
//! How many rounds a warp needs here depends on the order in which the emulator runs blocks, and says nothing of a GPU,
//! where all resident blocks run at the same time. So the critical path has a single round of each such loop.

use crate::code::{Class, Inst, Op, Program};

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
    let of_round = begin..=end;
    let is_load = |inst: &Inst| inst.op == Op::Load;
    let loads = program.code[of_round.clone()]
        .iter()
        .filter(|inst| is_load(inst));
    let mut loads = loads.map(|inst| &program.memory[inst.x as usize]);
    let (Some(poll), None) = (loads.next(), loads.next()) else {
        return false;
    };
    poll.ordered
        && !poll.reads_data
        && of_round.into_iter().all(|pc| {
            let writes = [program.flow[pc].d, program.flow[pc].q];
            let is_quiet = is_load(&program.code[pc])
                || matches!(
                    program.class[pc],
                    Class::Integer | Class::Move | Class::Branch
                );
            is_quiet && !writes.contains(&poll.address)
        })
}
