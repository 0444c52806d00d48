//! The work of the heaviest block, for the time model: a grid whose blocks have unequal work does not spread it evenly
//! over the multiprocessors, and blocks without work do not change that. And the number of blocks that share the work.

use std::cell::Cell;

use super::access::load_groups;
use super::block::Shared;
use super::exec::Exec;
use super::expansion;
use super::multiprocessors::{EndedBlock, MOST_BLOCKS};
use crate::code::{Class, Op};
use crate::report::{BlockWork, Classes};

/// Charges a block with the work that this host thread has executed since the last call.
///
/// The program is read once for each block, which may have executed little of it, so that most instructions are only
/// added to the sum of their class.
pub(super) fn charge(exec: &mut Exec<'_>, block: &mut Shared) {
    load_groups::settle(exec);
    let program = exec.launch.program;
    let mut now = BlockWork::default();
    let mut issued = [0_u64; Class::ALL.len()];
    for (pc, warps) in exec.counts.warps().enumerate() {
        let class = program.class[pc];
        let sum = &mut issued[class as usize];
        *sum = sum.wrapping_add(warps);
        if class.is_arithmetic() {
            continue;
        }
        expansion::charge_long_division(&mut now.classes, class, exec.long_divisions[pc].get());
        let moved = &exec.moved[pc];
        now.sectors = now.sectors.wrapping_add(moved.sectors);
        // Passes of constant loads are no passes through shared memory.
        let passes = match class {
            Class::Constant => &mut now.classes.constant_replays,
            _ => &mut now.wavefronts,
        };
        *passes = passes.wrapping_add(moved.wavefronts);
        now.local_bytes = now.local_bytes.wrapping_add(moved.local_bytes);
        let inst = program.code[pc];
        if inst.op == Op::Tensor {
            let macs = program.tensor[inst.x as usize].kind.macs();
            now.tensor_macs = now.tensor_macs.wrapping_add(warps.wrapping_mul(macs));
        }
    }
    for (class, warps) in Class::ALL.into_iter().zip(issued) {
        expansion::charge(&mut now.classes, class, warps);
    }
    let mut since = now.clone();
    since.combine(&exec.accounted, u64::wrapping_sub);
    exec.accounted = now;
    block.work.combine(&since, u64::wrapping_add);
}

/// Updates the maximum when a block has finished.
pub(super) fn finish(exec: &mut Exec<'_>, block: &mut Shared) {
    exec.heaviest.combine(&block.work, u64::max);
    exec.by_traffic.add(block.work.sectors);
    let chosen = &exec.launch.chosen;
    if !chosen.is_whole() {
        let instructions = instructions(&block.work.classes);
        exec.work_of_blocks.push((block.index, instructions));
    } else if chosen.len() <= MOST_BLOCKS {
        exec.ended.push(EndedBlock {
            index: block.index,
            cycles: block.cycles,
            work: block.work.clone(),
        });
    }
    block.work = BlockWork::default();
}

/// The warp instructions of all units.
fn instructions(classes: &Classes) -> u64 {
    let sum = Cell::new(0);
    classes.clone().combine(&Classes::default(), |count, _| {
        sum.set(sum.get() + count);
        count
    });
    sum.get()
}

/// Blocks by the magnitude of their global memory traffic: cell `n` counts those with 2^n to 2^(n+1) - 1 sectors.
#[derive(Debug, Clone)]
pub(crate) struct BlocksByTraffic([u64; u64::BITS as usize]);

impl Default for BlocksByTraffic {
    fn default() -> Self {
        Self([0; u64::BITS as usize])
    }
}

impl BlocksByTraffic {
    fn add(&mut self, sectors: u64) {
        if let Some(magnitude) = sectors.checked_ilog2() {
            self.0[magnitude as usize] += 1;
        }
    }

    /// Adds the blocks of another host thread.
    pub(super) fn merge(mut self, other: &Self) -> Self {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own += other;
        }
        self
    }

    /// The blocks with at least a sixteenth of the traffic of the busiest block, by magnitudes. Blocks that
    /// return at once, or only touch a word, are not among them.
    pub(super) fn working(&self) -> u64 {
        /// Magnitudes below the busiest block's at which a block still shares the work.
        const SHARING: usize = 4;
        let busiest = self.0.iter().rposition(|blocks| *blocks > 0).unwrap_or(0);
        self.0[busiest.saturating_sub(SHARING)..].iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_stand_at_their_numbers() {
        let numbers = Class::ALL.map(|class| class as usize);
        assert!(numbers.into_iter().eq(0..Class::ALL.len()));
    }

    #[test]
    fn blocks_without_a_share_of_the_traffic_do_not_count() {
        let mut blocks = BlocksByTraffic::default();
        assert_eq!(blocks.working(), 0);
        for sectors in [0, 0, 1, 1, 2, 100, 1000, 1023] {
            blocks.add(sectors);
        }
        assert_eq!(blocks.working(), 3);
        let mut others = BlocksByTraffic::default();
        others.add(1 << 20);
        assert_eq!(blocks.merge(&others).working(), 1);
    }
}
