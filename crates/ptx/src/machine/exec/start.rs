//! The initial state of a warp: its registers, constants and special registers.

use std::collections::HashMap;

use super::{Exec, WARP_SLOTS};
use crate::code::{File, LaneMask, SlotRef, Special};
use crate::machine::block::Shared;
use crate::machine::poison::Poison;
use crate::machine::warp::{FULL, Lanes32, Lanes64, Warp};

/// Sets every lane of a slot to the same bits.
fn broadcast(warp: &mut Warp, slot: SlotRef, bits: u64) {
    match slot.get() {
        Some((File::R32, slot)) => warp.r32[slot].0 = [bits as u32; 32],
        Some((File::R64, slot)) => warp.r64[slot].0 = [bits; 32],
        Some((File::Predicate, slot)) => warp.p[slot] = 0u32.wrapping_sub((bits & 1) as u32),
        None => {}
    }
}

fn axis(values: [u32; 3], axis: u8) -> u32 {
    values.get(axis as usize).copied().unwrap_or(0)
}

impl Exec<'_> {
    /// Resets a warp for a new block, and fills the slots that differ from block to block.
    pub(crate) fn start_warp(&self, warp: &mut Warp, block: &Shared) {
        let program = self.launch.program;
        let index = warp.index;
        let threads = self.launch.block.iter().product::<u32>();
        let here = (threads - index * 32).min(32);
        let live = if here == 32 { FULL } else { (1 << here) - 1 };
        warp.pc = 0;
        warp.mask = live;
        warp.live = live;
        warp.others.clear();
        warp.spins = 0;
        warp.hold = 0;
        warp.cycles = 0;
        warp.local_valid.fill(0);
        warp.local_first_reads.clear();
        warp.ran_ahead.clear();
        warp.left_out.clear();
        warp.last_barrier = [u32::MAX; 32];
        warp.copies.clear();
        warp.waits_at = None;
        warp.last_polls = [(u32::MAX, 0, 0); 4];
        for callers in &mut warp.callers {
            callers.clear();
        }
        warp.copy_groups = [0; 32];
        warp.poison.clear();
        warp.tainted = !program.undefined.is_empty();
        for slot in &program.undefined {
            warp.poison.set(*slot, FULL, FULL, 0);
        }
        for (slot, special) in &program.specials {
            if let Some(value) = self.block_special(*special, block) {
                broadcast(warp, *slot, u64::from(value));
            }
        }
    }

    /// Creates a warp with its constants, to be started for each block.
    pub(crate) fn new_warp(&self, index: u32) -> Warp {
        let program = self.launch.program;
        let mut warp = Warp {
            r32: vec![Lanes32([0; 32]); program.slots[0]],
            r64: vec![Lanes64([0; 32]); program.slots[1]],
            p: vec![0; program.slots[2]],
            poison: Poison::new(program.slots),
            tainted: false,
            pc: 0,
            mask: 0,
            others: Vec::new(),
            live: 0,
            spins: 0,
            hold: 0,
            cycles: 0,
            index,
            local: vec![u32::MAX; program.stack_bytes() as usize / 4 * 32],
            local_valid: vec![0; program.stack_bytes() as usize],
            local_first_reads: HashMap::new(),
            ran_ahead: Vec::new(),
            left_out: Vec::new(),
            last_barrier: [u32::MAX; 32],
            copies: Vec::new(),
            copy_groups: [0; 32],
            unused: 0,
            waits_at: None,
            last_polls: [(u32::MAX, 0, 0); 4],
            repeats_read: false,
            callers: Default::default(),
        };
        for (slot, bits) in &program.constants {
            broadcast(&mut warp, *slot, *bits);
        }
        for (slot, variable, offset) in &program.addresses {
            broadcast(
                &mut warp,
                *slot,
                self.launch.variables[*variable].wrapping_add_signed(*offset),
            );
        }
        for (slot, special) in &program.specials {
            for lane in 0..32 {
                let value = self.thread_special(*special, index * 32 + lane as u32);
                warp.set_lane(*slot, lane, value);
            }
        }
        warp
    }

    /// A special register that differs from block to block.
    fn block_special(&self, special: Special, block: &Shared) -> Option<u32> {
        match special {
            Special::Ctaid(a) => Some(axis(block.coordinates, a)),
            Special::SmId => Some(self.launch.placement.multiprocessor(block.index)),
            _ => None,
        }
    }

    /// A special register that is the same in every block.
    fn thread_special(&self, special: Special, thread: u32) -> u64 {
        let lane = thread % 32;
        if special == Special::GridId {
            return self.launch.number;
        }
        u64::from(match special {
            Special::Tid(a) => axis(self.thread_at(thread), a),
            Special::Ntid(a) => axis(self.launch.block, a),
            // Set by `start_warp`.
            Special::Ctaid(_) | Special::SmId => 0,
            Special::Nctaid(a) => axis(self.launch.grid, a),
            Special::LaneId => lane,
            Special::WarpId => (thread / 32 + self.launch.placement.first_warp()) % WARP_SLOTS,
            Special::NWarpId => WARP_SLOTS,
            Special::NSmId => self.launch.multiprocessors,
            Special::Env(1) => (self.launch.workspace >> 32) as u32,
            Special::Env(2) => self.launch.workspace as u32,
            Special::GridId | Special::Env(_) => 0,
            Special::LaneMask(LaneMask::Eq) => 1 << lane,
            Special::LaneMask(LaneMask::Lt) => (1 << lane) - 1,
            Special::LaneMask(LaneMask::Le) => FULL >> (31 - lane),
            Special::LaneMask(LaneMask::Gt) => !(FULL >> (31 - lane)),
            Special::LaneMask(LaneMask::Ge) => !((1 << lane) - 1),
            Special::DynamicShared => self.launch.dynamic_shared,
            Special::TotalShared => self.launch.shared_bytes,
        })
    }
}
