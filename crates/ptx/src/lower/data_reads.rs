//! Loads whose value is only computed with.
//!
//! A load that decides a branch or an address may be a flag that is polled, or a value that an atomic operation checks,
//! and what it returns is checked by the program. A load whose value only flows into results is a read of data, and needs
//! an order.
//!
//! A value that a compare-and-swap compares with what is there may be out of date: the swap fails then, and the program
//! tries again with what the swap returned.

use std::collections::HashSet;

use super::{Detail, Lowering, VReg, VirtualInst};
use crate::code::{File, MemSpace, Op, Program};

/// Marks the loads from device memory, those from shared memory beside ordered stores, and the ordered loads from any,
/// whose value reaches no predicate, address or atomic, and the loads whose value a compare-and-swap compares.
pub(super) fn find(program: &mut Program, lowering: &Lowering<'_>) {
    let code = &lowering.code;
    mark_checked_by_swap(program, lowering);
    let communicates = program.blocks_communicate;
    let stores_in_order = code.iter().any(|inst| {
        inst.op == Op::Store
            && matches!(&inst.detail, Detail::Memory(detail) if detail.ordered
                && matches!(detail.space, MemSpace::Shared | MemSpace::Generic))
    });
    let is_compared = |inst: &VirtualInst| {
        inst.op == Op::Load
            && matches!(&inst.detail, Detail::Memory(detail) if detail.ordered || match detail.space {
                MemSpace::Global => communicates,
                MemSpace::Shared => stores_in_order,
                MemSpace::Generic => communicates || stores_in_order,
                _ => false,
            })
    };
    if !code.iter().any(is_compared) {
        return;
    }
    let decides = deciding_registers(lowering);
    for (inst, lowered) in code.iter().zip(&program.code) {
        if is_compared(inst) {
            let is_data = !inst.d.iter().any(|d| decides.contains(d));
            program.memory[lowered.x as usize].reads_data = is_data;
        }
    }
}

/// Marks the loads whose value reaches, through moves, the operand of a compare-and-swap that is compared.
fn mark_checked_by_swap(program: &mut Program, lowering: &Lowering<'_>) {
    let code = &lowering.code;
    let compared = |inst: &VirtualInst| match (&inst.detail, inst.s.as_slice()) {
        (Detail::Atomic(..), [_address, compared, _new]) => Some(*compared),
        _ => None,
    };
    let mut checked: HashSet<VReg> = code.iter().filter_map(compared).collect();
    let mut before = 0;
    while checked.len() > before {
        before = checked.len();
        let moves = |inst: &&VirtualInst| matches!(inst.op, Op::Mov32 | Op::Mov64);
        for inst in code.iter().rev().filter(moves) {
            if inst.d.iter().any(|d| checked.contains(d)) {
                checked.extend(inst.s.iter().copied());
            }
        }
    }
    for (inst, lowered) in code.iter().zip(&program.code) {
        if inst.op == Op::Load && inst.d.iter().any(|d| checked.contains(d)) {
            program.memory[lowered.x as usize].checked_by_swap = true;
        }
    }
}

/// The registers whose value reaches a predicate, address or atomic.
fn deciding_registers(lowering: &Lowering<'_>) -> HashSet<VReg> {
    let code = &lowering.code;
    let mut decides = HashSet::new();
    loop {
        let before = decides.len();
        // Backwards, since most values are used after they are computed.
        for inst in code.iter().rev() {
            let predicate = inst.op != Op::Shuffle
                && inst
                    .d
                    .iter()
                    .any(|d| *d != VReg::NONE && lowering.file(*d) == File::Predicate);
            let branches = matches!(inst.op, Op::BranchTable | Op::Branch);
            let computes =
                inst.op == Op::Shuffle || matches!(inst.detail, Detail::None | Detail::Lane(..));
            let passes_on = inst.op != Op::Store && inst.d.iter().any(|d| decides.contains(d));
            for (index, v) in inst.s.iter().enumerate() {
                let decides_here = match inst.op {
                    Op::Store => index == 0,
                    _ => !computes,
                };
                if *v != VReg::NONE && (decides_here || predicate || branches || passes_on) {
                    decides.insert(*v);
                }
            }
        }
        if decides.len() == before {
            return decides;
        }
    }
}
