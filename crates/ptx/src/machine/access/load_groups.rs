//! Groups of loads from shared memory whose checks are made once, at the first load of the group.
//!
//! Bounds, alignment, initialisation and costs of a [`Group`] are checked at its leader; its followers only move data.
//! This is valid within one run of one warp with all lanes active, because no other warp changes the block meanwhile.
//! While races are detected, every access is checked by itself.

use std::cell::Cell;

use super::super::block::Shared;
use super::super::exec::{Exec, Traffic};
use super::super::pattern::{Chunk, Pattern, REMEMBERED, Shape};
use super::super::warp::Warp;
use super::Words;
use super::fast_path::{self, AccessSite};
use crate::code::{Group, MemoryOp};
use crate::simd::VectorOps;

/// The layout of a group's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// All lanes read the same word.
    Same,
    /// Each eight lanes read eight consecutive words.
    Runs,
    /// Each eight lanes read one word.
    Sames,
    Other,
}

/// The checked state of a group.
#[derive(Debug, Clone)]
pub(crate) struct GroupState {
    /// The number of the run in which the leader's checks passed.
    run_number: u64,
    /// The version of the leader's pattern that the state was computed for.
    version: u64,
    form: Form,
    /// The leader's first address, and the word indexes of lanes 0, 8, 16 and 24.
    first: u64,
    starts: [u32; 4],
    /// The traffic of one execution of one load, and the executions of the followers since it was last added to the
    /// totals.
    moved: Traffic,
    passes: u64,
    /// Per warp: the version of shared memory and the first address for which all bytes were initialised.
    found_valid: [(u64, u64); REMEMBERED],
}

impl Default for GroupState {
    fn default() -> Self {
        Self {
            run_number: 0,
            version: Pattern::NEVER,
            form: Form::Other,
            first: 0,
            starts: [0; 4],
            moved: Traffic::default(),
            passes: 0,
            found_valid: [(u64::MAX, 0); REMEMBERED],
        }
    }
}

impl GroupState {
    /// Adds the followers' traffic to the totals per instruction.
    fn settle(&mut self, group: &Group, moved: &mut [Traffic]) {
        if self.passes == 0 {
            return;
        }
        let all = self.moved.times(self.passes);
        for (pc, _) in &group.followers {
            moved[*pc as usize].add(&all);
        }
        self.passes = 0;
    }

    #[cold]
    #[inline(never)]
    fn replace_shape(
        &mut self,
        group: &Group,
        op: &MemoryOp,
        pattern: &Pattern,
        moved: &mut [Traffic],
    ) {
        self.settle(group, moved);
        self.version = pattern.version;
        self.moved = pattern.moved;
        self.found_valid = [(u64::MAX, 0); REMEMBERED];
        let all = |chunk: Chunk| op.count == 1 && pattern.chunks == [chunk; 4];
        self.form = if pattern.shape == Shape::Same {
            Form::Same
        } else if all(Chunk::Run) {
            Form::Runs
        } else if all(Chunk::Same) {
            Form::Sames
        } else {
            Form::Other
        };
    }
}

/// Reports whether all bytes that the followers read are initialised.
#[inline(never)]
fn initialised(block: &Shared, group: &Group, pattern: &Pattern, first: u64, bytes: u32) -> bool {
    group.followers.iter().all(|(_, behind)| {
        let first = first.wrapping_add_signed(i64::from(*behind));
        block.every_valid(first, &pattern.relative, bytes)
    })
}

/// Makes the checks of a whole group after its leader, whose first lane reads at `first`, and marks the group as
/// checked for this run if they pass.
#[inline(always)]
pub(super) fn check_followers(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    at: AccessSite,
    first: u64,
) {
    let op = &exec.launch.program.memory[at.x];
    let Some(group) = exec.launch.program.groups.get(op.leads as usize) else {
        return;
    };
    if at.run_number == 0 || block.shadow.is_some() {
        return;
    }
    let pattern = &exec.patterns[at.x];
    let state = &mut exec.load_groups[op.leads as usize];
    let bytes = op.bytes();
    let reach = |lane: i64, follower| {
        (first as i64)
            .wrapping_add(lane)
            .wrapping_add(i64::from(follower))
    };
    let (low, high) = (
        reach(pattern.low, group.low),
        reach(pattern.high, group.high),
    );
    if !op.shared.contains(low, high, bytes, block.bytes) {
        return;
    }
    if state.version != pattern.version {
        state.replace_shape(group, op, pattern, &mut exec.moved);
    }
    if block.invalid != 0 {
        let now = (block.validity, first);
        let found = &mut state.found_valid[warp.index as usize % REMEMBERED];
        if *found != now {
            if !initialised(block, group, pattern, first, bytes) {
                return;
            }
            *found = now;
        }
    }
    state.first = first;
    for (number, start) in state.starts.iter_mut().enumerate() {
        *start = (first.wrapping_add(pattern.relative[8 * number]) / 4) as u32;
    }
    state.passes += 1;
    state.run_number = at.run_number;
}

/// Executes a follower. Returns false, with nothing done, if its group was not checked in this run.
#[inline(always)]
pub(crate) fn load_follower<F: VectorOps>(
    exec: &Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    op: &MemoryOp,
) -> bool {
    let Some(state) = exec.load_groups.get(op.follows as usize) else {
        return false;
    };
    if state.run_number != exec.run_number {
        return false;
    }
    let words = Cell::from_mut(&mut block.words[..]).as_slice_of_cells();
    let slot = |part: usize| op.regs[part].slot() as usize;
    let start = |number: usize| state.starts[number].wrapping_add_signed(op.behind) as usize;
    match state.form {
        Form::Same => {
            for part in 0..op.count as usize {
                warp.r32[slot(part)].0 = [words[start(0) + part].get(); 32];
            }
        }
        Form::Runs => {
            let values = warp.r32[slot(0)].0.as_chunks_mut::<8>().0;
            for (number, into) in values.iter_mut().enumerate() {
                *into = words.row::<F, 8>(start(number));
            }
        }
        Form::Sames => {
            let values = warp.r32[slot(0)].0.as_chunks_mut::<8>().0;
            for (number, into) in values.iter_mut().enumerate() {
                *into = [words[start(number)].get(); 8];
            }
        }
        Form::Other => {
            let first = state.first.wrapping_add_signed(4 * i64::from(op.behind));
            let pattern = &exec.patterns[op.leader.x as usize];
            fast_path::load::<F, _>(warp, words, op, first, pattern);
        }
    }
    true
}

/// Takes back the counted traffic of the followers from `pc` on, because the run that began at `begin` ends before
/// them. They are executed, and counted, elsewhere.
#[inline(never)]
pub(crate) fn abandon_run(exec: &mut Exec<'_>, begin: u32, pc: u32) {
    let groups = &exec.launch.program.groups;
    let from = groups.partition_point(|group| group.leader.pc < begin);
    for (group, state) in groups.iter().zip(&mut exec.load_groups).skip(from) {
        if group.leader.pc >= pc {
            break;
        }
        if state.run_number == exec.run_number {
            state.run_number = 0;
            let none = state.moved.times(1u64.wrapping_neg());
            for (at, _) in &group.followers {
                if *at >= pc {
                    exec.moved[*at as usize].add(&none);
                }
            }
        }
    }
}

/// Adds the traffic of all groups to the totals.
pub(crate) fn settle(exec: &mut Exec<'_>) {
    for (group, state) in exec.launch.program.groups.iter().zip(&mut exec.load_groups) {
        state.settle(group, &mut exec.moved);
    }
}
