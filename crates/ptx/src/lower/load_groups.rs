//! What accesses in one row of instructions have in common: those through one value of one register point at the same
//! places, some bytes further on.
//!
//! Two facts are noted. Any access knows the first one before it through the same value, whose addresses relate as its
//! own do. Loads of words from shared memory form groups besides: nothing between the first and the last of a group
//! can change which lanes run, so that whoever executes the first, executes all.

use std::collections::HashMap;

use super::allocate::defs;
use super::{Detail, VReg, VirtualInst};
use crate::code::{Group, Leader, MemSpace, MemoryOp, Op, Program, SlotRef};

/// How far behind its leader a load may be: well inside 32 bits, and past any shared memory.
const REACH: i64 = 1 << 20;

/// Notes both.
pub(super) fn find(program: &mut Program, drafts: &[VirtualInst], slot: &impl Fn(VReg) -> SlotRef) {
    let mut leaders: HashMap<SlotRef, Leader> = HashMap::new();
    // By register and words of a lane.
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

/// Whether a load may be in a group.
fn groupable(op: &MemoryOp) -> bool {
    op.space == MemSpace::Shared && op.element == 4 && op.plain && !op.ordered
}

/// Takes a load into a group, if it is a whole number of its accesses behind the leader.
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
