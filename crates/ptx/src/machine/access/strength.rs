//! Which instructions race if two threads execute them on the same bytes and nothing orders the two.
//!
//! Two accesses race if one of them writes and one is plain: neither volatile, relaxed, acquire, release nor atomic. An
//! access whose scope leaves out the other thread counts as plain.

use crate::code::{Op, Program, Reach};

/// How an instruction counts towards a thread of its own block, or of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strength {
    Plain,
    Volatile,
    /// Relaxed, acquire, release, or an atomic operation.
    Strong,
}

#[derive(Debug, Clone, Copy)]
struct Side {
    strength: Strength,
    loads: bool,
    /// True for a load whose value reaches a predicate, an address or an atomic.
    decides: bool,
}

/// The relation of two accesses that nothing orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pair {
    /// No race.
    Allowed,
    /// A race of two plain accesses.
    Plain,
    /// A race of a plain access and one that is not, or of a volatile load and a volatile store. It is none where an
    /// ordered load of the reader's block has seen the value.
    Mixed,
}

fn side(program: &Program, pc: u32, same_block: bool) -> Side {
    let plain = Side {
        strength: Strength::Plain,
        loads: false,
        decides: false,
    };
    let Some(inst) = program.code.get(pc as usize) else {
        return plain;
    };
    // Asynchronous copies and fragments of matrices are plain, and only computed with.
    if !matches!(inst.op, Op::Load | Op::Store | Op::Atomic) {
        return plain;
    }
    let op = &program.memory[inst.x as usize];
    let strength = if !op.ordered || (op.reach == Reach::Block && !same_block) {
        Strength::Plain
    } else if op.volatile {
        Strength::Volatile
    } else {
        Strength::Strong
    };
    let loads = inst.op == Op::Load;
    Side {
        strength,
        loads,
        decides: loads && !op.reads_data,
    }
}

/// Reports whether an instruction is ordered towards threads of its own block only.
pub(super) fn has_block_scope(program: &Program, pc: u32) -> bool {
    side(program, pc, true).strength != side(program, pc, false).strength
}

/// Returns what two instructions, of which one writes, are to each other. A load that decides something may poll a flag,
/// so that it races with plain accesses only if it is plain itself.
pub(super) fn pair(program: &Program, one: u32, other: u32, same_block: bool) -> Pair {
    let [one, other] = [one, other].map(|pc| side(program, pc, same_block));
    match (one.strength, other.strength) {
        (Strength::Plain, Strength::Plain) => Pair::Plain,
        _ if one.decides || other.decides => Pair::Allowed,
        (Strength::Plain, _) | (_, Strength::Plain) => Pair::Mixed,
        (Strength::Volatile, Strength::Volatile) if one.loads || other.loads => Pair::Mixed,
        _ => Pair::Allowed,
    }
}
