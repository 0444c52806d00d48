//! The work of the heaviest block, for the time model: a grid whose blocks have unequal work does not spread it evenly
//! over the multiprocessors, and blocks without work do not change that.

use super::access::load_groups;
use super::block::Shared;
use super::exec::Exec;
use super::expansion;
use crate::code::{Class, Op};
use crate::report::BlockWork;

/// Charges a block with the work that this host thread has executed since the last call.
pub(super) fn charge(exec: &mut Exec<'_>, block: &mut Shared) {
    load_groups::settle(exec);
    let program = exec.launch.program;
    let mut now = BlockWork::default();
    for (pc, warps) in exec.counts.warps().enumerate() {
        let class = program.class[pc];
        expansion::charge(&mut now.classes, class, warps);
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
    let mut since = now.clone();
    since.combine(&exec.accounted, u64::wrapping_sub);
    exec.accounted = now;
    block.work.combine(&since, u64::wrapping_add);
}

/// Updates the maximum when a block has finished.
pub(super) fn finish(exec: &mut Exec<'_>, block: &mut Shared) {
    exec.heaviest.combine(&block.work, u64::max);
    if block.index < exec.launch.first_wave {
        let placed = block.index % exec.multiprocessors.len() as u64;
        exec.multiprocessors[placed as usize].combine(&block.work, u64::wrapping_add);
    }
    block.work = BlockWork::default();
}
