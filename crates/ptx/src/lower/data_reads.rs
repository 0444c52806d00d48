//! Ordered loads whose value is only computed with.
//!
//! A volatile or relaxed load that decides a branch or an address may be a flag that is polled, and what it returns is
//! checked by the program. A load whose value only flows into results is a read of data, and needs an order.

use std::collections::{HashMap, HashSet};

use super::{Detail, Lowering, VReg};
use crate::code::{File, Op, Program};

/// Marks the ordered loads whose value reaches no predicate, address or atomic.
pub(super) fn find(program: &mut Program, lowering: &Lowering<'_>) {
    let code = &lowering.code;
    let ordered: Vec<usize> = (0..code.len())
        .filter(|at| {
            code[*at].op == Op::Load
                && matches!(&code[*at].detail, Detail::Memory(detail) if detail.ordered)
        })
        .collect();
    if ordered.is_empty() {
        return;
    }
    let mut uses: HashMap<VReg, Vec<usize>> = HashMap::new();
    for (at, inst) in code.iter().enumerate() {
        for v in inst.s.iter().filter(|v| **v != VReg::NONE) {
            uses.entry(*v).or_default().push(at);
        }
    }
    for at in ordered {
        let mut seen: HashSet<VReg> = code[at].d.iter().copied().collect();
        let mut open: Vec<VReg> = seen.iter().copied().collect();
        let mut decides = false;
        while let Some(v) = open.pop() {
            for user in uses.get(&v).into_iter().flatten() {
                let inst = &code[*user];
                let computes = match inst.op {
                    Op::Store => inst.s[0] != v,
                    Op::Shuffle => true,
                    _ => matches!(inst.detail, Detail::None | Detail::Lane(..)),
                };
                let branches = matches!(inst.op, Op::BranchTable | Op::Branch);
                let predicate = inst
                    .d
                    .iter()
                    .any(|d| *d != VReg::NONE && lowering.file(*d) == File::Predicate);
                decides |= !computes || branches || (predicate && inst.op != Op::Shuffle);
                if inst.op != Op::Store {
                    open.extend(inst.d.iter().copied().filter(|d| seen.insert(*d)));
                }
            }
        }
        let entry = program.code[at].x as usize;
        program.memory[entry].reads_data = !decides;
    }
}
