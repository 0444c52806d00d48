//! mbarrier objects in shared memory: initialisation, arrivals, and tests of their phase.

use super::access::{AccessKind, address_poison, addresses, lanes, out_of_bounds};
use super::block::Shared;
use super::copy;
use super::exec::{Exec, Fatal};
use super::warp::Warp;
use crate::check::position_text;
use crate::code::{MBarrierKind, SlotRef};
use crate::memory::window;
use crate::numeric::mbarrier;
use crate::report::{Access, FindingKind, Space};
use crate::sync::Accessor;

/// Size of an mbarrier object in bytes.
const BYTES: u32 = 8;

fn load(block: &Shared, offset: u32) -> u64 {
    let word = offset as usize / 4;
    u64::from(block.words[word]) | u64::from(block.words[word + 1]) << 32
}

fn store(block: &mut Shared, offset: u32, state: u64) {
    let word = offset as usize / 4;
    block.words[word] = state as u32;
    block.words[word + 1] = (state >> 32) as u32;
}

/// Executes the instruction for the lanes of a mask. Returns true if a test found its phase incomplete for at least one
/// lane.
#[inline(never)]
pub(crate) fn run(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    pc: u32,
) -> Result<bool, Fatal> {
    let op = exec.launch.program.mbarriers[x].clone();
    if warp.tainted {
        address_poison(exec, block, warp, op.address, mask, pc);
    }
    let mut list = addresses(warp, op.address, op.offset);
    for address in &mut list {
        if window::of(*address) == window::SHARED {
            *address -= window::SHARED;
        }
    }
    let mut waits = false;
    for lane in lanes(mask) {
        let offset = placed(exec, block, warp, lane, list[lane], pc)?;
        let a = if op.a == SlotRef::NONE {
            1
        } else {
            warp.lane(op.a, lane)
        };
        if op.kind == MBarrierKind::Init {
            init(exec, block, warp, lane, offset, a, pc)?;
            continue;
        }
        check_use(exec, block, warp, lane, offset, pc);
        if !block.is_valid(offset, BYTES) {
            let text = "uses an mbarrier that nobody initialised";
            complain(exec, block, warp, lane, text, pc);
            warp.set_lane(op.d, lane, 1);
            continue;
        }
        let state = load(block, offset);
        match op.kind {
            MBarrierKind::Init => {}
            MBarrierKind::Invalidate => block.set_valid(offset, BYTES, false),
            MBarrierKind::Arrive { drop } => {
                arrive(exec, block, warp, lane, (offset, a, drop), pc);
                warp.set_lane(op.d, lane, state);
            }
            MBarrierKind::Copies { counted } => {
                copy::complete_signalled(exec, block, warp, lane);
                // Without `.noinc` the instruction first raises the pending count and then arrives, so the state stays
                // the same.
                if counted {
                    arrive(exec, block, warp, lane, (offset, 1, false), pc);
                } else if let Some(shadow) = &mut block.shadow {
                    shadow.arrive(warp.index, offset);
                }
            }
            MBarrierKind::Test | MBarrierKind::TestParity => {
                let over = if op.kind == MBarrierKind::Test {
                    mbarrier::is_past(state, a)
                } else {
                    mbarrier::is_past_parity(state, a)
                };
                waits |= !over;
                warp.set_lane(op.d, lane, u64::from(over));
                if let (true, Some(shadow)) = (over, &mut block.shadow) {
                    shadow.pass_mbarrier(warp.index, offset);
                }
            }
        }
    }
    if warp.tainted {
        warp.poison.set(op.d, mask, 0, pc);
    }
    Ok(waits)
}

/// The offset of the object in shared memory, after the checks of bounds and alignment.
fn placed(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    lane: usize,
    address: u64,
    pc: u32,
) -> Result<u32, Fatal> {
    let size = u64::from(block.bytes);
    if address > size || size - address < u64::from(BYTES) {
        let access = Access {
            space: Space::Shared,
            buffer: None,
            pointer: address,
            offset: address as i64,
            buffer_bytes: Some(size),
            bytes: BYTES,
        };
        out_of_bounds(exec, block, warp, lane, access, AccessKind::Atomic, pc)?;
    }
    if !address.is_multiple_of(u64::from(BYTES)) {
        let message = format!(
            "thread {:?} uses an mbarrier at byte {address} of shared memory at {}: it must be aligned to {BYTES}",
            exec.thread_of(warp, lane),
            position_text(exec.launch.program, pc)
        );
        let seen = exec.plain(FindingKind::Misaligned, pc, block, warp, lane, message);
        exec.find(block, seen)?;
    }
    Ok(address as u32)
}

fn init(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    lane: usize,
    offset: u32,
    count: u64,
    pc: u32,
) -> Result<(), Fatal> {
    if count == 0 || count > mbarrier::MAX_COUNT {
        let message = format!(
            "thread {:?} initialises an mbarrier at {} for {count} arrivals; 1 to {} are possible",
            exec.thread_of(warp, lane),
            position_text(exec.launch.program, pc),
            mbarrier::MAX_COUNT
        );
        let seen = exec.plain(FindingKind::Trap, pc, block, warp, lane, message);
        exec.find(block, seen)?;
    }
    store(block, offset, mbarrier::fresh(count));
    block.set_valid(offset, BYTES, true);
    let by = Accessor {
        warp: warp.index,
        pc,
    };
    let conflict = block.shadow.as_mut().and_then(|shadow| {
        shadow.before_write(offset, offset + BYTES);
        shadow.write(lane, offset, BYTES, false, by)
    });
    if let Some(conflict) = conflict {
        exec.shared_race(
            conflict,
            pc,
            (offset, BYTES),
            AccessKind::Store,
            block,
            warp,
        );
    }
    Ok(())
}

/// Checks the use of an object for a race with its initialisation by another thread.
fn check_use(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    lane: usize,
    offset: u32,
    pc: u32,
) {
    let by = Accessor {
        warp: warp.index,
        pc,
    };
    let conflict = block.shadow.as_mut().and_then(|shadow| {
        shadow.before_write(offset, offset + BYTES);
        shadow.atomic(lane, offset, BYTES, by)
    });
    if let Some(conflict) = conflict {
        exec.shared_race(
            conflict,
            pc,
            (offset, BYTES),
            AccessKind::Atomic,
            block,
            warp,
        );
    }
}

fn arrive(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    lane: usize,
    (offset, count, drop): (u32, u64, bool),
    pc: u32,
) {
    if let Some(shadow) = &mut block.shadow {
        shadow.arrive(warp.index, offset);
    }
    let before = load(block, offset);
    match mbarrier::arrive(before, count, drop) {
        Some(state) => {
            if let (true, Some(shadow)) = (mbarrier::is_past(state, before), &mut block.shadow) {
                shadow.complete_phase(offset);
            }
            store(block, offset, state);
            block.progress += 1;
        }
        None => complain(
            exec,
            block,
            warp,
            lane,
            "arrives more often at an mbarrier than its phase expects",
            pc,
        ),
    }
}

fn complain(exec: &mut Exec<'_>, block: &Shared, warp: &Warp, lane: usize, what: &str, pc: u32) {
    let message = format!(
        "thread {:?} {what}, at {}",
        exec.thread_of(warp, lane),
        position_text(exec.launch.program, pc)
    );
    let seen = exec.plain(FindingKind::InvalidOperands, pc, block, warp, lane, message);
    // Findings of this kind never end a launch.
    let _ = exec.find(block, seen);
}
