//! Rare instructions and those that change the active lanes. They are kept out of the interpreter's loop.

use super::access::lanes;
use super::block::Shared;
use super::exec::{Exec, Fatal};
use super::warp::{FULL, Fragment, Wait, Warp};
use crate::check::position_text;
use crate::code::{
    CALL_STACK, Flow, GUARD_NOT, Inst, LaneFn, LaneFn2, NONE, Op, Reach, ReduceKind,
};
use crate::memory::window;
use crate::report::FindingKind;

/// Eight bytes of the parameter block from an offset on, little-endian; bytes past its end are zero.
pub(crate) fn parameter(params: &[u8], offset: u32) -> u64 {
    let mut raw = [0; 8];
    for (byte, value) in raw
        .iter_mut()
        .zip(params.get(offset as usize..).unwrap_or_default())
    {
        *byte = *value;
    }
    u64::from_le_bytes(raw)
}

/// The lanes whose guard predicate is true.
#[inline(always)]
pub(crate) fn guard(warp: &Warp, guard: u16) -> u32 {
    if guard == NONE {
        return FULL;
    }
    let predicate = warp.p[(guard & (GUARD_NOT - 1)) as usize];
    if guard & GUARD_NOT != 0 {
        !predicate
    } else {
        predicate
    }
}

/// Applies a function to each lane's operands.
#[inline(never)]
pub(crate) fn lane(warp: &mut Warp, flow: &Flow, f: LaneFn, mask: u32) {
    let operands = operands(warp, flow);
    let mut values = [0; 32];
    for lane in lanes(mask) {
        // Indexed, because taking the arrays apart copies them.
        let [a, b, c, d] = &operands;
        values[lane] = f([a[lane], b[lane], c[lane], d[lane]]);
    }
    warp.set_lanes(flow.d, mask, &values);
}

/// The operands of all lanes, read at once because a lane's result is no other lane's operand.
#[inline(always)]
fn operands(warp: &Warp, flow: &Flow) -> [[u64; 32]; 4] {
    let mut operands = [[0; 32]; 4];
    // A loop, not `map`, whose closure would not be inlined.
    for (values, slot) in operands.iter_mut().zip(flow.s) {
        warp.read_lanes(slot, values);
    }
    operands
}

/// Divides 64-bit integers. Returns true if the upper half of any operand is not 0.
#[inline(never)]
pub(crate) fn divide64(warp: &mut Warp, flow: &Flow, f: LaneFn, mask: u32) -> bool {
    let upper = lanes(mask).fold(0, |upper, lane| {
        upper | (warp.lane(flow.s[0], lane) | warp.lane(flow.s[1], lane)) >> 32
    });
    lane(warp, flow, f, mask);
    upper != 0
}

#[inline(never)]
pub(crate) fn lane2(warp: &mut Warp, flow: &Flow, f: LaneFn2, mask: u32) {
    let [a, b, c, d] = operands(warp, flow);
    let (mut values, mut further) = ([0; 32], [0; 32]);
    for lane in lanes(mask) {
        (values[lane], further[lane]) = f([a[lane], b[lane], c[lane], d[lane]]);
    }
    warp.set_lanes(flow.d, mask, &values);
    warp.set_lanes(flow.q, mask, &further);
}

#[inline(never)]
pub(crate) fn branch_poison(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    guard: u16,
    active: u32,
    pc: u32,
) {
    let slot = crate::code::SlotRef::new(crate::code::File::Predicate, guard & (GUARD_NOT - 1));
    let (poisoned, origin) = warp.poison.get(slot);
    if poisoned & active != 0 {
        exec.uninitialised(
            FindingKind::UninitialisedBranch,
            (pc, origin),
            block,
            warp,
            poisoned & active,
            None,
        );
    }
}

/// Makes a fragment of lanes that continue at the next instruction while the others execute this one.
#[inline(always)]
pub(crate) fn split_off(warp: &mut Warp, mask: u32) {
    if mask != 0 {
        warp.others.push(Fragment {
            pc: warp.pc,
            mask,
            wait: Wait::Ready,
        });
    }
}

/// `brx.idx`.
#[inline(never)]
pub(crate) fn table(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &mut Warp,
    inst: &Inst,
    mask: u32,
    pc: u32,
) -> Result<(), Fatal> {
    let targets = &exec.launch.program.tables[inst.x as usize];
    let flow = exec.launch.program.flow[pc as usize];
    let (poisoned, origin) = warp.poison.get(flow.s[0]);
    if warp.tainted && poisoned & mask != 0 {
        exec.uninitialised(
            FindingKind::UninitialisedBranch,
            (pc, origin),
            block,
            warp,
            poisoned & mask,
            None,
        );
    }
    split_off(warp, warp.mask & !mask);
    let mut places = [0; 32];
    for lane in lanes(mask) {
        let index = warp.r32[inst.a as usize].0[lane] as usize;
        let Some(&target) = targets.get(index) else {
            let message = format!(
                "the jump table at {} has {} entries, and thread {:?} asks for entry {index}",
                position_text(exec.launch.program, pc),
                targets.len(),
                exec.thread_of(warp, lane)
            );
            let seen = exec.plain(FindingKind::Trap, pc, block, warp, lane, message);
            return exec.find(block, seen);
        };
        places[lane] = target;
    }
    warp.cycles += exec.launch.critical_path.taken[pc as usize];
    scatter(exec, warp, pc, lanes(mask).map(|lane| (lane, places[lane])));
    Ok(())
}

/// Jumps with each lane to its own target; the running fragment becomes empty.
fn scatter(
    exec: &mut Exec<'_>,
    warp: &mut Warp,
    pc: u32,
    places: impl Iterator<Item = (usize, u32)>,
) {
    let mut pieces: Vec<Fragment> = Vec::new();
    for (lane, target) in places {
        match pieces.iter_mut().find(|piece| piece.pc == target) {
            Some(piece) => piece.mask |= 1 << lane,
            None => pieces.push(Fragment {
                pc: target,
                mask: 1 << lane,
                wait: Wait::Ready,
            }),
        }
    }
    if pieces.len() > 1 {
        exec.divergent[pc as usize] += 1;
    }
    warp.others.append(&mut pieces);
    warp.mask = 0;
}

/// `call` of a subroutine, which has stack frames of its own.
#[inline(never)]
pub(crate) fn call(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &mut Warp,
    inst: &Inst,
    mask: u32,
    pc: u32,
) -> Result<(), Fatal> {
    let program = exec.launch.program;
    let flow = program.flow[pc as usize];
    let mut targets = [inst.x; 32];
    if inst.op == Op::CallPointer {
        if warp.tainted {
            super::access::address_poison(exec, block, warp, flow.s[1], mask, pc);
        }
        let wanted = &program.signatures[inst.x as usize];
        for lane in lanes(mask) {
            let address = warp.lane(flow.s[1], lane);
            let index = address.wrapping_sub(window::FUNCTION) / window::FUNCTION_STEP;
            let entry = program.entries.iter().find(|entry| {
                entry.function as u64 == index && address.is_multiple_of(window::FUNCTION_STEP)
            });
            let problem = match entry {
                Some(entry) if entry.signature == *wanted => {
                    targets[lane] = entry.pc;
                    continue;
                }
                Some(_) => "a function that takes other arguments",
                None => "no function of this module",
            };
            let message = format!(
                "thread {:?} calls address {address:#x} at {}, which is {problem}",
                exec.thread_of(warp, lane),
                position_text(program, pc),
            );
            let seen = exec.plain(FindingKind::IllegalAddress, pc, block, warp, lane, message);
            return exec.find(block, seen);
        }
    }
    split_off(warp, warp.mask & !mask);
    for lane in lanes(mask) {
        let frame = warp.lane(flow.s[0], lane);
        warp.enter(lane, pc + 1);
        warp.set_lane(program.frame_pointer, lane, frame);
        if frame >= u64::from(program.stack_bytes()) {
            let message = format!(
                "thread {:?} is {} calls deep at {} and its stack is full: the recursion does not end, or goes deeper than {} KiB allow",
                exec.thread_of(warp, lane),
                warp.callers[lane].len(),
                position_text(program, pc),
                CALL_STACK >> 10,
            );
            let seen = exec.plain(
                FindingKind::OutOfBoundsWrite,
                pc,
                block,
                warp,
                lane,
                message,
            );
            return exec.find(block, seen);
        }
    }
    scatter(
        exec,
        warp,
        pc,
        lanes(mask).map(|lane| (lane, targets[lane])),
    );
    Ok(())
}

/// `ret` from a subroutine.
#[inline(never)]
pub(crate) fn give_back(exec: &mut Exec<'_>, warp: &mut Warp, mask: u32, pc: u32) {
    split_off(warp, warp.mask & !mask);
    let end = exec.launch.program.code.len() as u32 - 1;
    let mut places = [end; 32];
    for lane in lanes(mask) {
        // A return without a call cannot happen.
        places[lane] = warp.leave(lane).unwrap_or(end);
    }
    warp.tainted = warp.tainted || warp.poison.any();
    scatter(exec, warp, pc, lanes(mask).map(|lane| (lane, places[lane])));
}

/// Ends the lanes of a mask.
#[inline(never)]
pub(crate) fn exit(exec: &mut Exec<'_>, block: &mut Shared, warp: &mut Warp, mask: u32) {
    let _ = exec;
    warp.live &= !mask;
    warp.mask &= !mask;
    block.live_threads -= mask.count_ones();
    let mut known = u32::MAX;
    for lane in lanes(mask) {
        let last = warp.last_barrier[lane];
        if last == known {
            continue;
        }
        known = last;
        if last != u32::MAX && !block.exited_after.iter().any(|(pc, _)| *pc == last) {
            block
                .exited_after
                .push((last, warp.index * 32 + lane as u32));
        }
    }
}

/// Executes a fence: a later signal publishes the warp's accesses so far.
#[inline(never)]
pub(crate) fn fence(block: &mut Shared, warp: &Warp, reach: u32) {
    if reach == Reach::Device as u32 {
        block.order.fence();
    }
    if let Some(shadow) = &mut block.shadow {
        shadow.fence(warp.index);
    }
}

/// Counts the arrival of lanes at a block barrier. The fragment is parked, except for `barrier.arrive`.
#[inline(never)]
pub(crate) fn arrive(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    pc: u32,
) -> Result<(), Fatal> {
    let op = &exec.launch.program.barriers[x];
    let lane = mask.trailing_zeros() as usize & 31;
    let (poisoned, origin) = warp.poison.get(op.id);
    if warp.tainted && poisoned & mask != 0 {
        exec.uninitialised(
            FindingKind::UninitialisedBranch,
            (pc, origin),
            block,
            warp,
            poisoned & mask,
            None,
        );
    }
    let id = warp.lane(op.id, lane) as u32;
    let expected =
        (op.count != crate::code::SlotRef::NONE).then(|| warp.lane(op.count, lane) as u32);
    let wrong = id as usize >= block.barriers.len()
        || expected.is_some_and(|count| count == 0 || count % 32 != 0);
    if wrong {
        let message = format!(
            "{} names barrier {id} with {expected:?} threads; a block has barriers 0 to 15, and counts are multiples of 32",
            position_text(exec.launch.program, pc)
        );
        let seen = exec.plain(FindingKind::Trap, pc, block, warp, lane, message);
        return exec.find(block, seen);
    }
    let threads = exec.launch.block.iter().product::<u32>();
    let barrier = &mut block.barriers[id as usize];
    let phase = barrier.phase;
    if barrier.arrived == 0 {
        barrier.first_thread = warp.index * 32 + lane as u32;
        barrier.first_pc = Some(pc);
        barrier.expected = expected;
        barrier.all = true;
    } else if barrier.disagrees.is_none()
        && barrier.expected_of(threads) != expected.unwrap_or(threads)
    {
        let thread = warp.index * 32 + lane as u32;
        barrier.disagrees = Some((pc, thread, expected.unwrap_or(threads)));
    } else if barrier.first_pc != Some(pc) && barrier.other.is_none() && op.aligned {
        barrier.other = Some((pc, warp.index * 32 + lane as u32));
    }
    barrier.arrived += mask.count_ones();
    if op.arrive {
        barrier.announced += mask.count_ones();
    }
    block.progress += 1;
    if let (true, Some(shadow)) = (expected.is_some(), &mut block.shadow) {
        let clock = shadow.release(warp.index);
        for (known, new) in barrier.clock.iter_mut().zip(clock) {
            *known = (*known).max(new);
        }
    }
    if let Some(reduce) = &op.reduce {
        let votes = warp.predicate(reduce.a, reduce.negated) & mask;
        barrier.voted = true;
        barrier.all &= votes == mask;
        barrier.any |= votes != 0;
        barrier.count += votes.count_ones();
    }
    if mask == FULL {
        warp.last_barrier = [pc; 32];
    } else {
        for lane in lanes(mask) {
            warp.last_barrier[lane] = pc;
        }
    }
    // Later arrivals belong to the next phase, as they do on a GPU.
    if barrier
        .expected
        .is_some_and(|expected| barrier.arrived >= expected)
    {
        let completed = barrier.complete();
        block.completed.push((id as usize, completed));
    }
    if !op.arrive {
        let barrier = id as u8;
        super::run_end::park_at(warp, pc, Wait::Block { barrier, phase });
    }
    Ok(())
}

/// Writes the result of a barrier's reduction to the lanes of a fragment that waited at it.
pub(crate) fn reduced(
    exec: &Exec<'_>,
    warp: &mut Warp,
    fragment: Fragment,
    all: bool,
    any: bool,
    count: u32,
) {
    let inst = &exec.launch.program.code[fragment.pc as usize];
    let Some(reduce) = exec.launch.program.barriers[inst.x as usize].reduce else {
        return;
    };
    let value = match reduce.kind {
        ReduceKind::And => u64::from(all),
        ReduceKind::Or => u64::from(any),
        ReduceKind::Count => u64::from(count),
    };
    for lane in lanes(fragment.mask) {
        warp.set_lane(reduce.d, lane, value);
    }
    if warp.tainted {
        warp.poison.set(reduce.d, fragment.mask, 0, 0);
    }
}
