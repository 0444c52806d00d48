//! Instructions that the lanes of a warp execute together: shuffles, votes, matches and reductions.

use super::access::lanes;
use super::block::Shared;
use super::exec::Exec;
use super::warp::{FULL, Fragment, Wait, Warp};
use crate::check::position_text;
use crate::code::{Inst, Op, Program, SlotRef, WarpKind, WarpOp};
use crate::report::FindingKind;
use crate::simd::VectorOps;

/// The member mask of a warp-wide instruction, taken from its first active lane, and whether all lanes agree on it.
#[inline(always)]
pub(crate) fn members(
    warp: &Warp,
    program: &Program,
    inst: &Inst,
    mask: u32,
    pc: u32,
) -> (u32, bool) {
    let slot = mask_slot(program, inst, pc);
    let members = warp.lane(slot, mask.trailing_zeros() as usize & 31) as u32;
    let uniform = program.same_members[pc as usize] || is_uniform(warp, slot, mask, members);
    (members, uniform)
}

/// Gathers the members. Returns true if all live members are here, those that waited here included, and false if the
/// running fragment was parked to wait for others.
#[inline(always)]
pub(crate) fn gather_members(warp: &mut Warp, pc: u32, members: u32, barrier: bool) -> bool {
    // A warp that has not diverged is complete.
    (warp.others.is_empty() && members & warp.live & !warp.mask == 0)
        || wait_for_members(warp, pc, members, barrier)
}

#[inline(never)]
fn wait_for_members(warp: &mut Warp, pc: u32, members: u32, barrier: bool) -> bool {
    let wanted = members & warp.live;
    // Lanes that waited at this instruction join.
    let mut mask = warp.mask;
    warp.others.retain(|other| {
        let joins = other.pc == pc && other.wait == (Wait::Warp { members, barrier });
        if joins {
            mask |= other.mask;
        }
        !joins
    });
    warp.mask = mask;
    if wanted & !mask == 0 {
        warp.ran_ahead.retain(|seen| seen.0 != pc);
        return true;
    }
    if barrier {
        // `bar.warp.sync` may be reached at several instructions.
        let elsewhere = warp.others.iter().fold(0, |there, other| match other.wait {
            Wait::Warp { barrier: true, .. } => there | other.mask,
            _ => there,
        });
        if wanted & !(mask | elsewhere) == 0 {
            for other in &mut warp.others {
                if matches!(other.wait, Wait::Warp { barrier: true, .. }) {
                    other.wait = Wait::Ready;
                    other.pc += 1;
                }
            }
            return true;
        }
    }
    super::run_end::park_at(warp, pc, Wait::Warp { members, barrier });
    false
}

/// Reports whether all lanes of a mask have the same member mask. Tiles of a warp have masks of their own.
#[inline(always)]
pub(crate) fn is_uniform(warp: &Warp, slot: SlotRef, mask: u32, members: u32) -> bool {
    let Some((_, slot)) = slot.get() else {
        return true;
    };
    let mut differs = 0u32;
    for (lane, value) in warp.r32[slot].0.iter().enumerate() {
        differs |= u32::from(*value != members) << lane;
    }
    differs & mask == 0
}

/// Lanes with the same member mask, and the members that are missing.
struct Group {
    members: u32,
    here: u32,
}

/// Executes an instruction whose lanes have different member masks, one group at a time. Complete groups continue; the
/// others wait for their missing lanes.
#[inline(never)]
pub(crate) fn in_groups(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    inst: &Inst,
    mask: u32,
    pc: u32,
) {
    let barrier = inst.op == Op::WarpBarrier;
    let slot = mask_slot(exec.launch.program, inst, pc);
    let mut groups: Vec<Group> = Vec::new();
    for lane in lanes(mask) {
        let members = warp.lane(slot, lane) as u32;
        match groups.iter_mut().find(|group| group.members == members) {
            Some(group) => group.here |= 1 << lane,
            None => groups.push(Group {
                members,
                here: 1 << lane,
            }),
        }
    }
    let passing = warp.mask & !mask;
    warp.mask = passing;
    for Group { members, here } in groups {
        if here & !members != 0 {
            outside(exec, block, warp, here & !members, pc);
        }
        let mut together = here;
        warp.others.retain(|other| {
            let joins = other.pc == pc && other.wait == (Wait::Warp { members, barrier });
            if joins {
                together |= other.mask;
            }
            !joins
        });
        if members & warp.live & !together != 0 {
            warp.others.push(Fragment {
                pc,
                mask: together,
                wait: Wait::Warp { members, barrier },
            });
            exec.counts.count_idle_lanes(pc, here.count_ones());
            continue;
        }
        if let Some(shadow) = &mut block.shadow {
            shadow.warp_sync(warp.index);
        }
        if !barrier {
            run(exec, warp, inst.x as usize, together, pc);
        }
        warp.mask |= together;
    }
}

/// The slot of an instruction's member mask.
fn mask_slot(program: &Program, inst: &Inst, pc: u32) -> SlotRef {
    if inst.op == Op::WarpBarrier {
        program.flow[pc as usize].s[0]
    } else {
        program.warp_ops[inst.x as usize].mask
    }
}

/// Records that a lane executes a warp-wide instruction whose member mask excludes it.
#[cold]
#[inline(never)]
pub(crate) fn outside(exec: &mut Exec<'_>, block: &Shared, warp: &Warp, strangers: u32, pc: u32) {
    if exec
        .findings
        .repeat(exec.launch.program, FindingKind::InvalidOperands, pc)
    {
        return;
    }
    let lane = strangers.trailing_zeros() as usize & 31;
    let message = format!(
        "thread {:?} executes a warp-wide instruction at {} whose member mask leaves lane {lane} out",
        exec.thread_of(warp, lane),
        position_text(exec.launch.program, pc)
    );
    let seen = exec.plain(FindingKind::InvalidOperands, pc, block, warp, lane, message);
    let _ = exec.find(block, seen);
}

/// Remembers that lanes store while others wait for them at a warp-wide instruction before this one. Records a finding if
/// the lanes that waited execute the same store later, because the others have then left that instruction out. Lanes that
/// exit without such a store have returned early, and a member mask may name those.
#[cold]
#[inline(never)]
pub(crate) fn note_store(exec: &mut Exec<'_>, block: &Shared, warp: &mut Warp, pc: u32, mask: u32) {
    for other in &warp.others {
        if let Wait::Warp {
            members,
            barrier: false,
        } = other.wait
            && members & mask != 0
            && pc > other.pc
        {
            let seen = (other.pc, pc, members & mask);
            if !warp.ran_ahead.contains(&seen) {
                warp.ran_ahead.push(seen);
            }
        }
    }
    let skipped = warp.left_out.iter().find(|seen| seen.1 == pc);
    let Some(&(wait, _, skipped)) = skipped else {
        return;
    };
    let program = exec.launch.program;
    if exec
        .findings
        .repeat(program, FindingKind::InvalidOperands, wait)
    {
        return;
    }
    let lane = skipped.trailing_zeros() as usize & 31;
    let message = format!(
        "the member mask of the warp-wide instruction at {} names lane {lane} (thread {:?}), which leaves it out and goes \
         on to the store at {} like the other lanes",
        position_text(program, wait),
        exec.thread_of(warp, lane),
        position_text(program, pc)
    );
    let kind = FindingKind::InvalidOperands;
    let seen = exec.plain(kind, wait, block, warp, lane, message);
    let _ = exec.find(block, seen);
}

/// Executes the instruction for the lanes of a mask.
#[inline(never)]
pub(crate) fn run(exec: &Exec<'_>, warp: &mut Warp, x: usize, mask: u32, pc: u32) {
    let op = &exec.launch.program.warp_ops[x];
    match op.kind {
        WarpKind::ShuffleUp
        | WarpKind::ShuffleDown
        | WarpKind::ShuffleXor
        | WarpKind::ShuffleIndex => {
            shuffle(warp, op, mask, pc);
        }
        WarpKind::Transpose => transpose(warp, op, mask, pc),
        _ => vote(warp, op, mask),
    }
}

/// The lane that a shuffle reads from, and whether it is in range.
fn source(kind: WarpKind, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (b, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
    let top = (lane & segment) | (clamp & !segment);
    let bottom = lane & segment;
    let (from, fits) = match kind {
        WarpKind::ShuffleUp => (lane.wrapping_sub(b), lane as i32 - b as i32 >= top as i32),
        WarpKind::ShuffleDown => (lane + b, lane + b <= top),
        WarpKind::ShuffleXor => (lane ^ b, lane ^ b <= top),
        _ => {
            let from = bottom | (b & !segment);
            (from, from <= top)
        }
    };
    if fits {
        (from & 31, true)
    } else {
        (lane, false)
    }
}

/// Executes a shuffle of all 32 lanes with uniform operands and without segments. Returns false for any other one.
#[inline(always)]
pub(crate) fn shuffle_full_warp<F: VectorOps>(warp: &mut Warp, op: &WarpOp, mask: u32) -> bool {
    let (Some((_, a)), Some((_, b)), Some((_, c)), Some((_, d))) =
        (op.a.get(), op.b.get(), op.c.get(), op.d.get())
    else {
        return false;
    };
    if mask != FULL || warp.tainted || op.d == SlotRef::NONE {
        return false;
    }
    let (delta, clamp) = (warp.r32[b].0[0], warp.r32[c].0[0]);
    let mut differs = 0;
    for lane in 0..32 {
        differs |= warp.r32[b].0[lane] ^ delta;
        differs |= warp.r32[c].0[lane] ^ clamp;
    }
    // No segments: lane 31 (or 0, going up) is the end.
    let whole = if op.kind == WarpKind::ShuffleUp {
        0
    } else {
        31
    };
    if differs != 0 || clamp != whole {
        return false;
    }
    let delta = (delta & 31) as usize;
    let values = warp.r32[a].0;
    let mut results = values;
    let in_range = match op.kind {
        WarpKind::ShuffleIndex => {
            results = [values[delta]; 32];
            FULL
        }
        WarpKind::ShuffleXor => {
            results = F::shuffle_xor(&values, delta);
            FULL
        }
        WarpKind::ShuffleDown => {
            results[..32 - delta].copy_from_slice(&values[delta..]);
            FULL >> delta
        }
        WarpKind::ShuffleUp => {
            results[delta..].copy_from_slice(&values[..32 - delta]);
            FULL << delta
        }
        _ => return false,
    };
    warp.r32[d].0 = results;
    if let Some((_, p)) = op.p.get() {
        warp.p[p] = in_range;
    }
    true
}

fn shuffle(warp: &mut Warp, op: &WarpOp, mask: u32, pc: u32) {
    let (Some((_, a)), Some((_, b)), Some((_, c))) = (op.a.get(), op.b.get(), op.c.get()) else {
        return;
    };
    let values = warp.r32[a].0;
    let (deltas, clamps) = (warp.r32[b].0, warp.r32[c].0);
    let mut from = [0u32; 32];
    let mut in_range = 0u32;
    for lane in 0..32u32 {
        let (source, fits) = source(op.kind, lane, deltas[lane as usize], clamps[lane as usize]);
        from[lane as usize] = source;
        in_range |= u32::from(fits) << lane;
    }
    let mut results = [0u32; 32];
    let mut absent = 0u32;
    for lane in 0..32 {
        results[lane] = values[(from[lane] & 31) as usize];
        absent |= (!mask >> from[lane] & 1) << lane;
    }
    absent &= mask;
    if let Some((_, d)) = op.d.get() {
        super::vector::put32(&mut warp.r32[d], mask, &results);
    }
    if let Some((_, p)) = op.p.get() {
        warp.p[p] = (warp.p[p] & !mask) | (in_range & mask);
    }
    // The value of an inactive lane is undefined, so the result is poisoned.
    warp.tainted |= absent != 0;
    if warp.tainted {
        let (poisoned, origin) = warp.poison.get(op.a);
        let moved = (0..32).fold(0, |bits, lane| bits | (poisoned >> from[lane] & 1) << lane);
        let origin = if moved & mask != 0 { origin } else { pc };
        if (moved | absent) & mask == 0 {
            warp.poison.set(op.d, mask, 0, pc);
        } else {
            let bits = std::array::from_fn(|lane| {
                if absent >> lane & 1 == 1 {
                    u64::MAX
                } else {
                    warp.poison.bits(op.a, (from[lane] & 31) as usize)
                }
            });
            warp.poison.set_bits(op.d, mask, &bits, origin);
        }
        warp.poison.set(op.p, mask, 0, pc);
    }
}

/// Lane l has the elements of row l / 4 in the columns 2 (l % 4) and the next.
fn transpose(warp: &mut Warp, op: &WarpOp, mask: u32, pc: u32) {
    let values: [u64; 32] = std::array::from_fn(|lane| warp.lane(op.a, lane));
    let bits: [u64; 32] = std::array::from_fn(|lane| warp.poison.bits(op.a, lane));
    let transposed = |words: &[u64; 32], lane: usize| {
        let (column, row) = (lane / 4, lane % 4 * 2);
        let element = |row: usize| words[row * 4 + column / 2] >> (column % 2 * 16) & 0xffff;
        element(row) | element(row + 1) << 16
    };
    for lane in lanes(mask) {
        warp.set_lane(op.d, lane, transposed(&values, lane));
    }
    if warp.tainted {
        let origin = warp.poison.get(op.a).1;
        let poisoned = std::array::from_fn(|lane| transposed(&bits, lane));
        if poisoned.iter().any(|bits| *bits != 0) {
            warp.poison.set_bits(op.d, mask, &poisoned, origin);
        } else {
            warp.poison.set(op.d, mask, 0, pc);
        }
    }
}

fn vote(warp: &mut Warp, op: &WarpOp, mask: u32) {
    let truth = if matches!(
        op.kind,
        WarpKind::VoteAll | WarpKind::VoteAny | WarpKind::VoteUni | WarpKind::Ballot
    ) {
        warp.predicate(op.a, op.negated) & mask
    } else {
        0
    };
    let value = |warp: &Warp, lane: usize| warp.lane(op.a, lane);
    let first = mask.trailing_zeros() as usize & 31;
    let fold32 = |warp: &Warp, f: fn(u32, u32) -> u32| {
        lanes(mask)
            .map(|lane| warp.lane(op.a, lane) as u32)
            .reduce(f)
            .map_or(0, u64::from)
    };
    let mut second = None;
    let uniform = match op.kind {
        WarpKind::VoteAll => u64::from(truth == mask),
        WarpKind::VoteAny => u64::from(truth != 0),
        WarpKind::VoteUni => u64::from(truth == mask || truth == 0),
        WarpKind::Ballot => u64::from(truth),
        WarpKind::ReduxAdd => fold32(warp, u32::wrapping_add),
        WarpKind::ReduxMinS => fold32(warp, |a, b| (a as i32).min(b as i32) as u32),
        WarpKind::ReduxMaxS => fold32(warp, |a, b| (a as i32).max(b as i32) as u32),
        WarpKind::ReduxMinU => fold32(warp, u32::min),
        WarpKind::ReduxMaxU => fold32(warp, u32::max),
        WarpKind::ReduxAnd => fold32(warp, |a, b| a & b),
        WarpKind::ReduxOr => fold32(warp, |a, b| a | b),
        WarpKind::ReduxXor => fold32(warp, |a, b| a ^ b),
        WarpKind::Elect => first as u64,
        WarpKind::MatchAll => {
            let same = lanes(mask).all(|lane| value(warp, lane) == value(warp, first));
            second = Some(u32::from(same).wrapping_neg());
            if same { u64::from(mask) } else { 0 }
        }
        _ => 0,
    };
    let mut results = [uniform; 32];
    if op.kind == WarpKind::MatchAny {
        for lane in lanes(mask) {
            let own = value(warp, lane);
            results[lane] = lanes(mask)
                .filter(|other| value(warp, *other) == own)
                .fold(0, |matching, other| matching | 1 << other);
        }
    }
    if op.kind == WarpKind::Elect {
        second = Some(1 << first);
    }
    for lane in lanes(mask) {
        warp.set_lane(op.d, lane, results[lane]);
        if let Some(bits) = second {
            warp.set_lane(op.p, lane, u64::from(bits >> lane & 1));
        }
    }
    if warp.tainted {
        // One poisoned vote poisons the result of all lanes.
        let (poisoned, origin) = if op.a == SlotRef::NONE {
            (0, 0)
        } else {
            warp.poison.get(op.a)
        };
        let bad = if poisoned & mask != 0 { mask } else { 0 };
        warp.poison.set(op.d, mask, bad, origin);
        warp.poison.set(op.p, mask, bad, origin);
    }
}
