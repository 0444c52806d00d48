//! The variable of shared memory that an address was computed from, whose bounds an access through it has to keep.
//!
//! Variables of shared memory lie side by side, so that an overrun of one changes its neighbour without leaving the
//! block's memory. An address that a program computes from one variable's address must stay inside that variable,
//! because no language rule says what lies beside it.

use super::{Detail, Lowering, VReg, VirtualInst};
use crate::code::{File, Op, Program, SharedRange};

/// The variables that a register's value was computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// None that is known.
    None,
    /// One, which begins here.
    Variable(u32),
    /// Several, or values from memory that may be addresses.
    Unclear,
}

impl Source {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, one) | (one, Self::None) => one,
            (one, other) if one == other => one,
            _ => Self::Unclear,
        }
    }
}

/// Sets the bounds of each load, store, atomic, asynchronous copy and matrix access whose address in shared memory was
/// computed from one variable.
/// `dynamic_begin` is the offset of the launch's dynamic shared memory.
pub(super) fn find(program: &mut Program, lowering: &Lowering<'_>, dynamic_begin: u32) {
    let variables = program.shared_names.iter().map(|(begin, size, _)| {
        let end = begin.saturating_add(*size);
        SharedRange { begin: *begin, end }
    });
    if variables.len() < 2 {
        return;
    }
    let mut sources = propagate(lowering, dynamic_begin, Source::None);
    // If the kernel stores an address, a loaded value may be one.
    if lowering.code.iter().any(|inst| stores(inst, &sources)) {
        sources = propagate(lowering, dynamic_begin, Source::Unclear);
    }
    for (inst, lowered) in lowering.code.iter().zip(&program.code) {
        let address = inst
            .s
            .first()
            .map_or(Source::None, |v| source(&sources, *v));
        if let Source::Variable(begin) = address
            && let Some(range) = variables
                .clone()
                .find(|range| range.begin == begin && range.end > begin)
        {
            let index = lowered.x as usize;
            match &inst.detail {
                Detail::Memory(_) | Detail::Atomic(..) => program.memory[index].shared = range,
                Detail::Copy { .. } => program.copies[index].target = range,
                Detail::Tensor { .. } => {
                    let tensor = &program.tensor[index];
                    let accesses = tensor.memory as usize..tensor.memory_end as usize;
                    for access in &mut program.memory[accesses] {
                        access.shared = range;
                    }
                }
                _ => {}
            }
        }
    }
}

fn source(sources: &[Source], v: VReg) -> Source {
    if v == VReg::NONE {
        Source::None
    } else {
        sources[v.0 as usize]
    }
}

/// Returns true if an instruction writes a value to memory that was computed from an address of shared memory.
fn stores(inst: &VirtualInst, sources: &[Source]) -> bool {
    let writes = inst.op == Op::Store || matches!(inst.detail, Detail::Atomic(..));
    let mut values = inst.s.iter().skip(1);
    writes && values.any(|v| source(sources, *v) != Source::None)
}

/// The sources of all registers, where values from memory have the source `loaded`.
fn propagate(lowering: &Lowering<'_>, dynamic_begin: u32, loaded: Source) -> Vec<Source> {
    let mut sources = vec![Source::None; lowering.files.len()];
    for ((_, begin, _), v) in &lowering.shared_addresses {
        sources[v.0 as usize] = Source::Variable(*begin);
    }
    for v in lowering.dynamic.values() {
        sources[v.0 as usize] = Source::Variable(dynamic_begin);
    }
    loop {
        let mut changed = false;
        for inst in &lowering.code {
            let computes = inst.op == Op::Shuffle
                || matches!(
                    inst.detail,
                    Detail::None | Detail::Lane(..) | Detail::Lane2(..)
                );
            let operands = inst.s.iter().map(|v| source(&sources, *v));
            let value = if computes {
                operands.fold(Source::None, Source::join)
            } else {
                loaded
            };
            for d in inst.d.iter().filter(|d| **d != VReg::NONE) {
                if lowering.file(*d) == File::Predicate {
                    continue;
                }
                let known = &mut sources[d.0 as usize];
                let joined = known.join(value);
                changed |= *known != joined;
                *known = joined;
            }
        }
        if !changed {
            return sources;
        }
    }
}
