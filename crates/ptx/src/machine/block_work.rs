//! What single blocks took of their multiprocessors, so that the time model knows the heaviest: a grid whose blocks
//! have different amounts of work does not spread it evenly, however many blocks with nothing to do stand beside.

use super::access::load_groups;
use super::block::Shared;
use super::counters::slot_of;
use super::exec::Exec;
use crate::code::Op;
use crate::report::BlockWork;

/// Puts what this host thread has executed since it was last asked on a block's account.
pub(super) fn charge(exec: &mut Exec<'_>, block: &mut Shared) {
    load_groups::settle(exec);
    let program = exec.launch.program;
    let mut now = BlockWork::default();
    for (pc, warps) in exec.counts.warps().enumerate() {
        let class = slot_of(&mut now.classes, program.class[pc]);
        *class = class.wrapping_add(warps);
        let moved = &exec.moved[pc];
        now.sectors = now.sectors.wrapping_add(moved.sectors);
        now.wavefronts = now.wavefronts.wrapping_add(moved.wavefronts);
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

/// A block is done.
pub(super) fn finish(exec: &mut Exec<'_>, block: &mut Shared) {
    exec.heaviest.combine(&block.work, u64::max);
    block.work = BlockWork::default();
}
