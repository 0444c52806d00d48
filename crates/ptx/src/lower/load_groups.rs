//! Relations between accesses of one run: those through the same value of one address register have addresses that
//! differ by a constant.
//!
//! Two relations are recorded. Each access gets the first earlier one through the same value, whose addresses have the
//! same shape. Loads of words from shared memory also form groups: no instruction between the first and the last load
//! of a group can change the active lanes, so every lane that executes the first executes all.

use std::collections::HashMap;

use super::allocate::defs;
use super::{Detail, VReg, VirtualInst};
use crate::code::{Group, Leader, MemSpace, MemoryOp, Op, Program, SlotRef};

/// Maximum distance of a load from its leader in bytes: well inside 32 bits, and larger than any shared memory.
const REACH: i64 = 1 << 20;

/// Records both relations in the program's memory table.
pub(super) fn find(program: &mut Program, drafts: &[VirtualInst], slot: &impl Fn(VReg) -> SlotRef) {
    let mut leaders: HashMap<SlotRef, Leader> = HashMap::new();
    // Keyed by address register and words per lane.
    let mut open: HashMap<(SlotRef, u32), usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (pc, draft) in drafts.iter().enumerate() {
        let x = program.code[pc].x;
        let at = Leader { pc: pc as u32, x };
        let accesses = matches!(draft.detail, Detail::Memory(_) | Detail::Atomic(..));
        if accesses
            && draft.guard.is_none()
            && let Some(op) = program.memory.get_mut(x as usize)
            && matches!(
                op.space,
                MemSpace::Global | MemSpace::Const | MemSpace::Shared
            )
        {
            match leaders.get(&op.address) {
                Some(leader) => op.leader = *leader,
                None => {
                    leaders.insert(op.address, at);
                }
            }
            if draft.op == Op::Load && groupable(op) {
                let group = open.get(&(op.address, op.count)).copied();
                if !group.is_some_and(|group| join(program, &mut groups[group], at)) {
                    let op = &program.memory[x as usize];
                    open.insert((op.address, op.count), groups.len());
                    groups.push(Group {
                        leader: at,
                        followers: Vec::new(),
                        low: 0,
                        high: 0,
                    });
                }
            }
        }
        if !draft.op.keeps_active_lanes() {
            open.clear();
        }
        for v in defs(draft) {
            let slot = slot(v);
            leaders.remove(&slot);
            open.retain(|(address, _), _| *address != slot);
        }
    }
    for group in groups {
        let number = program.groups.len() as u32;
        for (pc, _) in &group.followers {
            let x = program.code[*pc as usize].x;
            program.memory[x as usize].follows = number;
        }
        if !group.followers.is_empty() {
            program.memory[group.leader.x as usize].leads = number;
            program.groups.push(group);
        }
    }
}

/// Reports whether a load can be in a group.
fn groupable(op: &MemoryOp) -> bool {
    op.space == MemSpace::Shared && op.element == 4 && op.plain && !op.ordered
}

/// Adds a load to a group. Returns false if its distance from the leader is no multiple of its size.
fn join(program: &mut Program, group: &mut Group, at: Leader) -> bool {
    let leader = program.memory[group.leader.x as usize].offset;
    let op = &mut program.memory[at.x as usize];
    let behind = op.offset.wrapping_sub(leader);
    if !(-REACH..=REACH).contains(&behind) || behind % i64::from(op.bytes()) != 0 {
        return false;
    }
    let behind = behind as i32;
    op.behind = behind / 4;
    group.followers.push((at.pc, behind));
    group.low = group.low.min(behind);
    group.high = group.high.max(behind);
    true
}
