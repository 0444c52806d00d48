//! The buffers that a kernel may write: the pointer arguments from which the address of some store derives.
//!
//! Readers of buffers that a launch never writes need not be recorded. The result is conservative: an address that is
//! loaded from memory, or put together from halves, may point anywhere.

use std::collections::HashSet;

use super::{Detail, Lowering, VReg, VirtualInst};
use crate::code::{File, MemSpace, Op, Writes};
use crate::tensor::TensorKind;

/// The origins of a value: a bit per parameter word, one for module variables, one for unknown.
type Origins = u128;
const PARAMETERS: u32 = 120;
const VARIABLES: Origins = 1 << 126;
const ANYTHING: Origins = 1 << 127;

fn source(draft: &VirtualInst, files: &[File]) -> Origins {
    let wide = draft
        .d
        .iter()
        .any(|v| *v != VReg::NONE && files[v.0 as usize] == File::R64);
    match draft.op {
        Op::Param64 if draft.x.is_multiple_of(8) && draft.x / 8 < PARAMETERS => 1 << (draft.x / 8),
        // Pointers have 64 bits.
        Op::Param64 | Op::Pack64 | Op::Load | Op::Atomic | Op::LoadMatrix | Op::Tensor if wide => {
            ANYTHING
        }
        _ => 0,
    }
}

fn stored_address(draft: &VirtualInst) -> Option<VReg> {
    let (space, stores) = match &draft.detail {
        Detail::Memory(detail) => (detail.space, draft.op == Op::Store),
        Detail::Atomic(detail, _) => (detail.space, true),
        Detail::Tensor {
            kind: TensorKind::Store { .. } | TensorKind::StoreMatrix { .. },
            space,
            ..
        } => (*space, true),
        _ => return None,
    };
    (stores && matches!(space, MemSpace::Global | MemSpace::Generic))
        .then(|| draft.s.first().copied())
        .flatten()
}

/// Computes which memory the lowered code may write.
pub(super) fn writes(lowering: &Lowering<'_>) -> Writes {
    let mut origins: Vec<Origins> = vec![0; lowering.files.len()];
    for v in lowering.addresses.values() {
        origins[v.0 as usize] = VARIABLES;
    }
    let mut changed = true;
    while changed {
        changed = false;
        for draft in &lowering.code {
            let mut all = source(draft, &lowering.files);
            if !matches!(draft.op, Op::Load | Op::Atomic) {
                all |= draft
                    .s
                    .iter()
                    .filter(|v| **v != VReg::NONE)
                    .fold(0, |all, v| all | origins[v.0 as usize]);
            }
            for v in draft.d.iter().filter(|v| **v != VReg::NONE) {
                let known = &mut origins[v.0 as usize];
                changed |= *known | all != *known;
                *known |= all;
            }
        }
    }
    let mut all = 0;
    let mut seen = HashSet::new();
    for address in lowering.code.iter().filter_map(stored_address) {
        if address == VReg::NONE || !seen.insert(address.0) {
            continue;
        }
        let from = origins[address.0 as usize];
        // An address without a known origin may point anywhere.
        all |= if from == 0 { ANYTHING } else { from };
    }
    Writes {
        anything: all & ANYTHING != 0,
        variables: all & VARIABLES != 0,
        parameters: (0..PARAMETERS)
            .filter(|word| all >> word & 1 == 1)
            .map(|word| word * 8)
            .collect(),
    }
}
