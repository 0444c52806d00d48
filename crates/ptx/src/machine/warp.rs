//! The state of one warp: registers with their poison, and the fragments into which its lanes have diverged.

use std::collections::HashMap;

use super::poison::Poison;
use super::vector::{put32, put64};
use crate::code::{File, SlotRef};

/// All lanes.
pub(crate) const FULL: u32 = u32::MAX;

/// A 32-bit slot: one value per lane.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Lanes32(pub(crate) [u32; 32]);

/// A 64-bit slot.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Lanes64(pub(crate) [u64; 32]);

/// The event that a fragment waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Ready,
    /// The other lanes of `members`, at a warp-wide instruction.
    Warp {
        members: u32,
        barrier: bool,
    },
    /// The block barrier with this number, in this phase.
    Block {
        barrier: u8,
        phase: u32,
    },
}

/// Lanes of a warp that continue at the same program counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fragment {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) wait: Wait,
}

/// One warp.
#[derive(Debug)]
pub(crate) struct Warp {
    pub(crate) r32: Vec<Lanes32>,
    pub(crate) r64: Vec<Lanes64>,
    pub(crate) p: Vec<u32>,
    pub(crate) poison: Poison,
    /// True if any slot may be poisoned. While false, no poison is propagated.
    pub(crate) tainted: bool,
    /// Program counter and lanes of the running fragment; the mask is empty if none runs.
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) others: Vec<Fragment>,
    /// Lanes that have not exited.
    pub(crate) live: u32,
    /// Backward branches since the last change of fragment, counted while another fragment is ready.
    pub(crate) spins: u32,
    /// Remaining backward branches during which the fragment keeps running although another one has a lower program
    /// counter.
    pub(crate) hold: u32,
    /// Cycles of the static critical path so far.
    pub(crate) cycles: u64,
    /// Index of the warp in its block.
    pub(crate) index: u32,
    /// Stack words, lane-interleaved: word w of lane l is at `w * 32 + l`.
    pub(crate) local: Vec<u32>,
    /// A bit per lane for each stack byte: whether it is initialised.
    pub(crate) local_valid: Vec<u32>,
    /// Of stack bytes that an uninitialised value was stored to, by lane, the instruction that first read the value.
    pub(crate) local_first_reads: HashMap<(usize, u64), u32>,
    /// Stores that lanes executed while a fragment waited for them at a warp-wide instruction: that instruction, the
    /// store, and the lanes.
    pub(crate) ran_ahead: Vec<(u32, u32, u32)>,
    /// The same of lanes that have exited without the instruction that waited for them.
    pub(crate) left_out: Vec<(u32, u32, u32)>,
    /// The program counter of each lane's last block barrier.
    pub(crate) last_barrier: [u32; 32],
    /// Asynchronous copies in flight, and the number of copy groups that each lane has committed.
    pub(crate) copies: Vec<PendingCopy>,
    pub(crate) copy_groups: [u32; 32],
    /// Instructions of its slice that the warp yielded to other warps.
    pub(crate) unused: u64,
    /// The ordered or atomic accesses that last gave a value: instruction, address and value of the first lane.
    pub(crate) last_polls: [(u32, u64, u64); 4],
    /// True if one of them gave the same value again in this slice.
    pub(crate) repeats_read: bool,
    /// The program counter of the last mbarrier test whose phase was not complete.
    pub(crate) waits_at: Option<u32>,
    /// The call stack of each lane, innermost call last.
    pub(crate) callers: [Vec<Caller>; 32],
}

/// The state that a return restores for a lane: return address, registers and their poison.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) back: u32,
    pub(crate) registers: [Vec<u64>; 3],
    pub(crate) poisoned: [Vec<u64>; 3],
}

/// An asynchronous copy whose bytes have not been written to shared memory yet.
#[derive(Debug, Clone)]
pub(crate) struct PendingCopy {
    pub(crate) lane: u8,
    /// The lane's copy group that the copy belongs to.
    pub(crate) group: u32,
    pub(crate) shared: u32,
    pub(crate) bytes: u8,
    pub(crate) data: [u8; 16],
    /// A bit per byte: whether it is initialised.
    pub(crate) valid: u16,
    pub(crate) pc: u32,
}

impl Warp {
    /// Merges the ready fragments at the running fragment's program counter, and runs the fragment with the lowest one.
    /// Returns the program counter at which the running fragment must reschedule.
    #[inline(always)]
    pub(crate) fn reschedule(&mut self) -> u32 {
        if self.others.is_empty() {
            u32::MAX
        } else {
            self.choose()
        }
    }

    #[inline(never)]
    fn choose(&mut self) -> u32 {
        loop {
            if self.mask == 0 {
                let Some(next) = self.lowest_ready() else {
                    return u32::MAX;
                };
                let fragment = self.others.swap_remove(next);
                self.pc = fragment.pc;
                self.mask = fragment.mask;
                self.spins = 0;
                self.hold = 0;
            }
            let (pc, mut mask) = (self.pc, self.mask);
            self.others.retain(|other| {
                let joins = other.pc == pc && other.wait == Wait::Ready;
                if joins {
                    mask |= other.mask;
                }
                !joins
            });
            self.mask = mask;
            let Some(lowest) = self.lowest_ready() else {
                return u32::MAX;
            };
            if self.hold > 0 {
                return u32::MAX;
            }
            if self.others[lowest].pc > pc {
                return self.others[lowest].pc;
            }
            let other = self.others[lowest];
            self.others[lowest] = Fragment {
                pc,
                mask: self.mask,
                wait: Wait::Ready,
            };
            self.pc = other.pc;
            self.mask = other.mask;
        }
    }

    fn lowest_ready(&self) -> Option<usize> {
        let mut lowest: Option<usize> = None;
        for (index, other) in self.others.iter().enumerate() {
            if matches!(other.wait, Wait::Ready)
                && lowest.is_none_or(|lowest| other.pc < self.others[lowest].pc)
            {
                lowest = Some(index);
            }
        }
        lowest
    }

    /// Runs another ready fragment, so that lanes cannot spin for ever on a value that other lanes of the warp will
    /// write.
    pub(crate) fn rotate(&mut self) {
        let Some(next) = self
            .others
            .iter()
            .position(|other| other.wait == Wait::Ready)
        else {
            return;
        };
        let other = self.others.remove(next);
        self.others.push(Fragment {
            pc: self.pc,
            mask: self.mask,
            wait: Wait::Ready,
        });
        self.pc = other.pc;
        self.mask = other.mask;
        self.spins = 0;
        self.hold = 64;
    }

    /// Suspends the running fragment until its wait is over.
    pub(crate) fn park(&mut self, wait: Wait) {
        self.others.push(Fragment {
            pc: self.pc,
            mask: self.mask,
            wait,
        });
        self.mask = 0;
    }

    /// Releases warp-wide waits whose missing members have exited. Returns true if there was one.
    pub(crate) fn release_warp_waits(&mut self) -> bool {
        let live = self.live;
        let mut released = false;
        for index in 0..self.others.len() {
            if let Wait::Warp { members, barrier } = self.others[index].wait {
                let there = self.others.iter().fold(0, |mask, other| match other.wait {
                    Wait::Warp {
                        barrier: b,
                        members: m,
                    } if b == barrier
                        && (b || (m == members && other.pc == self.others[index].pc)) =>
                    {
                        mask | other.mask
                    }
                    _ => mask,
                });
                if members & live & !there == 0 {
                    // The fragment executes its instruction again, and finds all members there.
                    self.others[index].wait = Wait::Ready;
                    released = true;
                    let (pc, missing) = (self.others[index].pc, members & !there);
                    let ahead = self.ran_ahead.iter().filter(|seen| seen.0 == pc);
                    let ahead = ahead.map(|(wait, store, lanes)| (*wait, *store, lanes & missing));
                    self.left_out.extend(ahead.filter(|seen| seen.2 != 0));
                }
            }
        }
        released
    }

    /// A lane's operand bits.
    #[inline(always)]
    pub(crate) fn lane(&self, slot: SlotRef, lane: usize) -> u64 {
        match slot.get() {
            Some((File::R32, slot)) => u64::from(self.r32[slot].0[lane]),
            Some((File::R64, slot)) => self.r64[slot].0[lane],
            Some((File::Predicate, slot)) => u64::from(self.p[slot] >> lane & 1),
            None => 0,
        }
    }

    /// Sets a lane's register.
    #[inline(always)]
    pub(crate) fn set_lane(&mut self, slot: SlotRef, lane: usize, bits: u64) {
        match slot.get() {
            Some((File::R32, slot)) => self.r32[slot].0[lane] = bits as u32,
            Some((File::R64, slot)) => self.r64[slot].0[lane] = bits,
            Some((File::Predicate, slot)) => {
                self.p[slot] = self.p[slot] & !(1 << lane) | ((bits & 1) as u32) << lane;
            }
            None => {}
        }
    }

    /// Reads the operand bits of all lanes into `values`, which hold zeros; without a slot they stay.
    #[inline(always)]
    pub(crate) fn read_lanes(&self, slot: SlotRef, values: &mut [u64; 32]) {
        match slot.get() {
            Some((File::R32, slot)) => {
                for (value, bits) in values.iter_mut().zip(&self.r32[slot].0) {
                    *value = u64::from(*bits);
                }
            }
            Some((File::R64, slot)) => *values = self.r64[slot].0,
            Some((File::Predicate, slot)) => {
                for (lane, value) in values.iter_mut().enumerate() {
                    *value = u64::from(self.p[slot] >> lane & 1);
                }
            }
            None => {}
        }
    }

    /// Sets the register of the lanes in `mask`.
    #[inline(always)]
    pub(crate) fn set_lanes(&mut self, slot: SlotRef, mask: u32, values: &[u64; 32]) {
        match slot.get() {
            Some((File::R32, slot)) => {
                let mut narrow = [0; 32];
                for (narrow, bits) in narrow.iter_mut().zip(values) {
                    *narrow = *bits as u32;
                }
                put32(&mut self.r32[slot], mask, &narrow);
            }
            Some((File::R64, slot)) => put64(&mut self.r64[slot], mask, values),
            Some((File::Predicate, slot)) => {
                let mut set = 0;
                for (lane, bits) in values.iter().enumerate() {
                    set |= ((bits & 1) as u32) << lane;
                }
                self.p[slot] = self.p[slot] & !mask | set & mask;
            }
            None => {}
        }
    }

    /// Pushes a lane's registers and return address onto its call stack.
    pub(crate) fn enter(&mut self, lane: usize, back: u32) {
        let registers = [
            self.r32
                .iter()
                .map(|slot| u64::from(slot.0[lane]))
                .collect(),
            self.r64.iter().map(|slot| slot.0[lane]).collect(),
            self.p
                .iter()
                .map(|slot| u64::from(slot >> lane & 1))
                .collect(),
        ];
        let poisoned = self.poison.of_lane(lane);
        self.callers[lane].push(Caller {
            back,
            registers,
            poisoned,
        });
    }

    /// Pops a lane's call stack and restores its registers. Returns the return address, or none if the stack is empty.
    pub(crate) fn leave(&mut self, lane: usize) -> Option<u32> {
        let caller = self.callers[lane].pop()?;
        let [singles, doubles, predicates] = &caller.registers;
        for (slot, value) in self.r32.iter_mut().zip(singles) {
            slot.0[lane] = *value as u32;
        }
        for (slot, value) in self.r64.iter_mut().zip(doubles) {
            slot.0[lane] = *value;
        }
        for (slot, value) in self.p.iter_mut().zip(predicates) {
            *slot = *slot & !(1 << lane) | (*value as u32) << lane;
        }
        self.poison.set_lane(lane, &caller.poisoned);
        Some(caller.back)
    }

    /// Yields the rest of the slice to other warps; the warp stops at its next backward branch.
    pub(crate) fn yield_slice(&mut self, left: &mut u64) {
        self.unused += *left;
        *left = 0;
    }

    /// The lanes for which a predicate operand is true; all if there is no operand.
    pub(crate) fn predicate(&self, slot: SlotRef, negated: bool) -> u32 {
        match slot.get() {
            Some((File::Predicate, slot)) => self.p[slot] ^ if negated { FULL } else { 0 },
            _ => FULL,
        }
    }
}
