//! Live ranges of virtual registers over the control flow graph.

use std::collections::{BTreeSet, HashMap};

use super::super::{Detail, Lowering, UnsupportedInstruction, VReg, VirtualInst};
use crate::code::Op;

/// Maximum number of bits of the liveness tables; a kernel that needs more is unsupported.
const MAX_LIVENESS_BITS: usize = 1 << 30;

/// A run of instructions with one entry.
struct Block {
    start: usize,
    end: usize,
    next: Vec<usize>,
}

fn ends_block(op: Op) -> bool {
    matches!(op, Op::Branch | Op::BranchTable | Op::Exit | Op::Return)
}

fn blocks(lowering: &Lowering<'_>) -> Vec<Block> {
    let code = &lowering.code;
    let position = |label: usize| lowering.labels[label].unwrap_or(code.len() - 1);
    let mut leaders: BTreeSet<usize> = BTreeSet::from([0]);
    for (at, draft) in code.iter().enumerate() {
        match (&draft.op, &draft.detail) {
            (Op::Branch, _) => {
                leaders.insert(position(draft.x as usize));
            }
            (Op::BranchTable, Detail::Targets(targets)) => {
                leaders.extend(targets.iter().map(|t| position(*t)));
            }
            _ => {}
        }
        if ends_block(draft.op) {
            leaders.insert(at + 1);
        }
    }
    // Registers are not live into a subroutine, because the machine saves those of callers.
    leaders.extend(
        lowering
            .subroutines
            .iter()
            .map(|subroutine| position(subroutine.entry)),
    );
    leaders.remove(&code.len());
    let starts: Vec<usize> = leaders.into_iter().collect();
    let index: HashMap<usize, usize> = starts
        .iter()
        .enumerate()
        .map(|(i, start)| (*start, i))
        .collect();
    starts
        .iter()
        .enumerate()
        .map(|(i, &start)| {
            let end = starts.get(i + 1).copied().unwrap_or(code.len());
            let last = &code[end - 1];
            let mut next = Vec::new();
            match (&last.op, &last.detail) {
                (Op::Branch, _) => next.push(index[&position(last.x as usize)]),
                (Op::BranchTable, Detail::Targets(targets)) => {
                    next.extend(targets.iter().map(|t| index[&position(*t)]));
                }
                _ => {}
            }
            if (!ends_block(last.op) || last.guard.is_some()) && i + 1 < starts.len() {
                next.push(i + 1);
            }
            Block { start, end, next }
        })
        .collect()
}

pub(super) fn uses(draft: &VirtualInst) -> impl Iterator<Item = VReg> + '_ {
    draft
        .s
        .iter()
        .copied()
        .chain(draft.guard.map(|(v, _)| v))
        .filter(|v| *v != VReg::NONE)
}

pub(in crate::lower) fn defs(draft: &VirtualInst) -> impl Iterator<Item = VReg> + '_ {
    draft.d.iter().copied().filter(|v| *v != VReg::NONE)
}

/// The range in which a register must keep its value, in half steps: reads before writes.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The live ranges of all virtual registers.
pub(super) struct Live {
    pub(super) ranges: Vec<Option<Range>>,
    /// Registers a path can read before writing.
    pub(super) undefined: Vec<VReg>,
}

/// Computes the live ranges of all registers but the pinned ones.
pub(super) fn live(
    lowering: &Lowering<'_>,
    pinned: &[bool],
) -> Result<Live, UnsupportedInstruction> {
    let count = lowering.files.len();
    let modifiers = count.div_ceil(64);
    let blocks = blocks(lowering);
    if blocks.len().saturating_mul(count) > MAX_LIVENESS_BITS {
        return Err(lowering.unsupported("a kernel this long"));
    }
    let mut reads = vec![vec![0u64; modifiers]; blocks.len()];
    let mut writes = vec![vec![0u64; modifiers]; blocks.len()];
    for (block, (reads, writes)) in blocks.iter().zip(reads.iter_mut().zip(&mut writes)) {
        for draft in &lowering.code[block.start..block.end] {
            for v in uses(draft).filter(|v| !pinned[v.0 as usize]) {
                let (word, bit) = (v.0 as usize / 64, 1u64 << (v.0 % 64));
                reads[word] |= bit & !writes[word];
            }
            // A guarded write may not happen.
            if draft.guard.is_none() {
                for v in defs(draft) {
                    writes[v.0 as usize / 64] |= 1 << (v.0 % 64);
                }
            }
        }
    }
    let mut live_in = reads.clone();
    let mut live_out = vec![vec![0u64; modifiers]; blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for b in (0..blocks.len()).rev() {
            for word in 0..modifiers {
                let out = blocks[b]
                    .next
                    .iter()
                    .fold(0, |bits, next| bits | live_in[*next][word]);
                let into = reads[b][word] | (out & !writes[b][word]);
                changed |= into != live_in[b][word];
                live_out[b][word] = out;
                live_in[b][word] = into;
            }
        }
    }
    let mut ranges: Vec<Option<Range>> = vec![None; count];
    let mut extend = |v: usize, at: usize| {
        let range = ranges[v].get_or_insert(Range { start: at, end: at });
        range.start = range.start.min(at);
        range.end = range.end.max(at);
    };
    let members = |set: &[u64]| -> Vec<usize> {
        set.iter()
            .enumerate()
            .flat_map(|(word, bits)| {
                (0..64)
                    .filter(move |bit| bits >> bit & 1 == 1)
                    .map(move |bit| word * 64 + bit)
            })
            .collect()
    };
    for (b, block) in blocks.iter().enumerate() {
        for v in members(&live_in[b]) {
            extend(v, 2 * block.start);
        }
        for v in members(&live_out[b]) {
            extend(v, 2 * block.end);
        }
        for (offset, draft) in lowering.code[block.start..block.end].iter().enumerate() {
            let at = 2 * (block.start + offset);
            // An instruction with several results may write one before it has read everything.
            let simple =
                matches!(draft.detail, Detail::None | Detail::Lane(..)) && draft.d.len() <= 1;
            for v in uses(draft).filter(|v| !pinned[v.0 as usize]) {
                extend(v.0 as usize, if simple { at } else { at + 1 });
            }
            for v in defs(draft) {
                extend(v.0 as usize, at + 1);
            }
        }
    }
    let undefined = members(&live_in[0])
        .into_iter()
        .map(|v| VReg(v as u32))
        .collect();
    Ok(Live { ranges, undefined })
}
