//! The static critical path: the cycles that a warp needs when it runs alone.
//!
//! Between branches, jump targets and barriers ptxas orders instructions freely, so inside such a segment an
//! instruction starts when its operands are ready, whatever stands before it. A warp issues one instruction a cycle:
//! a segment ends when its last instruction could start, and not before those that are ready at any time or later were
//! issued one after another. Results still in flight delay the next segment.
//! Loops are looked at twice, so that what one iteration leaves in flight delays the next.

use crate::code::{Class, Leader, Op, Program, SlotRef};
use crate::config::Latencies;

/// Most segments simulated per segment of the kernel; nested loops cost one more pass each.
const MAX_PASSES: usize = 16;

struct Scoreboard {
    now: u64,
    ready: [Vec<u64>; 3],
}

impl Scoreboard {
    fn ready_at(&mut self, slot: SlotRef) -> Option<&mut u64> {
        let (file, slot) = slot.get()?;
        self.ready[file as usize].get_mut(slot)
    }
}

fn latency(class: Class, latencies: &Latencies) -> u32 {
    match class {
        Class::Fp32 | Class::Fp16 | Class::Integer => latencies.alu,
        // Most moves disappear in ptxas.
        Class::Move => 1,
        Class::Fp64 => latencies.fp64,
        Class::Special => latencies.special,
        Class::Conversion | Class::WideConversion => latencies.conversion,
        Class::DivisionU32 | Class::DivisionS32 | Class::DivisionU64 | Class::DivisionS64 => {
            crate::machine::expansion::latency(class, latencies).unwrap_or(latencies.alu)
        }
        Class::LoadGlobal | Class::Local => latencies.global,
        Class::LoadShared => latencies.shared,
        Class::Constant => latencies.constant,
        Class::AtomicGlobal => latencies.atomic,
        Class::AtomicShared => latencies.shared * 2,
        Class::Tensor => latencies.tensor,
        Class::Warp => latencies.warp,
        Class::StoreGlobal
        | Class::StoreShared
        | Class::AsyncCopy
        | Class::Branch
        | Class::Barrier
        | Class::Other => 0,
    }
}

/// An access to shared memory or to the stack, through which a later instruction may get what an earlier one wrote.
#[derive(Debug, Clone, Copy)]
struct StackOrShared {
    shared: bool,
    reads: bool,
    writes: bool,
    /// The instruction whose value of the address register it uses, the offset from there and the bytes; none if
    /// unknown.
    place: Option<(u32, i64, u32)>,
}

/// A store of the segment, and when it starts.
#[derive(Debug, Clone, Copy)]
struct Stored {
    access: StackOrShared,
    start: u64,
}

impl StackOrShared {
    fn of(program: &Program, at: usize) -> Option<Self> {
        let inst = program.code[at];
        let shared = match program.class[at] {
            Class::LoadShared | Class::StoreShared | Class::AtomicShared => true,
            Class::Local => false,
            _ => return None,
        };
        let place = match inst.op {
            Op::Load | Op::Store | Op::Atomic => {
                let op = &program.memory[inst.x as usize];
                let first = if op.leader == Leader::NONE {
                    at as u32
                } else {
                    op.leader.pc
                };
                Some((first, op.offset, op.bytes()))
            }
            _ => None,
        };
        Some(Self {
            shared,
            reads: inst.op != Op::Store,
            writes: matches!(inst.op, Op::Store | Op::Atomic),
            place,
        })
    }

    /// Reports whether two accesses may be to the same bytes. Different values of address registers may be equal.
    fn may_overlap(&self, other: &Self) -> bool {
        self.shared == other.shared
            && match (self.place, other.place) {
                (Some((first, offset, bytes)), Some((second, start, length))) => {
                    first != second
                        || (offset < start + i64::from(length) && start < offset + i64::from(bytes))
                }
                _ => true,
            }
    }
}

/// The first cycle by which instructions that are ready at these times can all have been issued, one a cycle.
fn end_of_issue(mut ready: Vec<u64>) -> u64 {
    ready.sort_unstable();
    let behind = (1..=ready.len() as u64).rev();
    let ends = ready.iter().zip(behind).map(|(ready, count)| ready + count);
    ends.max().unwrap_or(0)
}

/// Simulates a segment and returns its cycles.
fn segment(
    board: &mut Scoreboard,
    program: &Program,
    from: usize,
    to: usize,
    latencies: &Latencies,
) -> u32 {
    let entry = board.now;
    let mut last_start = entry;
    let mut stores: Vec<Stored> = Vec::new();
    let mut issued: Vec<u64> = Vec::new();
    let mut after = 0;
    for at in from..to {
        let inst = program.code[at];
        let class = program.class[at];
        let flow = program.flow[at];
        let mut start = entry;
        let mut wait = |board: &mut Scoreboard, slots: &[SlotRef]| {
            for slot in slots {
                if let Some(ready) = board.ready_at(*slot) {
                    start = start.max(*ready);
                }
            }
        };
        wait(board, &flow.s);
        match inst.op {
            Op::Store => wait(board, &program.memory[inst.x as usize].regs),
            Op::Tensor | Op::LoadMatrix => {
                let op = &program.tensor[inst.x as usize];
                wait(board, &op.a);
                wait(board, &op.b);
                wait(board, &op.c);
            }
            _ => {}
        }
        if let Some(access) = StackOrShared::of(program, at) {
            if access.reads {
                let before = stores
                    .iter()
                    .filter(|store| store.access.may_overlap(&access));
                start = before.map(|store| store.start).fold(start, u64::max);
            }
            if access.writes {
                stores.push(Stored { access, start });
            }
        }
        let done = start + u64::from(latency(class, latencies));
        let finish = |board: &mut Scoreboard, slots: &[SlotRef]| {
            for slot in slots {
                if let Some(ready) = board.ready_at(*slot) {
                    *ready = done;
                }
            }
        };
        finish(board, &[flow.d, flow.q]);
        match inst.op {
            Op::Load => finish(board, &program.memory[inst.x as usize].regs),
            Op::Tensor | Op::LoadMatrix => finish(board, &program.tensor[inst.x as usize].d),
            _ => {}
        }
        last_start = last_start.max(start);
        if class != Class::Move {
            issued.push(start);
        }
        after += match inst.op {
            Op::Barrier => u64::from(latencies.barrier),
            Op::Branch => u64::from(latencies.branch),
            // A wait for the newest group waits for memory; older groups had time to arrive.
            Op::AsyncWait if inst.x == 0 || inst.x == u32::MAX => u64::from(latencies.global),
            Op::AsyncWait => u64::from(latencies.global) / 4,
            _ => 0,
        };
    }
    board.now = last_start.max(end_of_issue(issued)) + after;
    u32::try_from(board.now - entry).unwrap_or(u32::MAX)
}

/// Cycles to charge when an instruction is issued: a segment's whole time stands at its last instruction.
fn stalls(program: &Program, latencies: &Latencies) -> Vec<u32> {
    let mut starts = vec![false; program.code.len() + 1];
    for (at, inst) in program.code.iter().enumerate() {
        match inst.op {
            Op::Branch => {
                starts[inst.x as usize] = true;
                starts[at + 1] = true;
            }
            Op::BranchTable => {
                for target in &program.tables[inst.x as usize] {
                    starts[*target as usize] = true;
                }
                starts[at + 1] = true;
            }
            Op::Barrier
            | Op::WarpBarrier
            | Op::Exit
            | Op::AsyncWait
            | Op::Call
            | Op::CallPointer
            | Op::Return => starts[at + 1] = true,
            _ => {}
        }
    }
    for entry in &program.entries {
        starts[entry.pc as usize] = true;
    }
    let bounds: Vec<usize> = std::iter::once(0)
        .chain((1..starts.len()).filter(|at| starts[*at] || *at == program.code.len()))
        .collect();
    let mut stalls = vec![0; program.code.len()];
    let mut board = Scoreboard {
        now: 0,
        ready: program.slots.map(|count| vec![0; count]),
    };
    let mut passes = bounds.len().saturating_mul(MAX_PASSES);
    for index in 1..bounds.len() {
        let end = bounds[index];
        stalls[end - 1] = segment(&mut board, program, bounds[index - 1], end, latencies);
        let last = program.code[end - 1];
        if last.op == Op::Branch && (last.x as usize) < end {
            // A loop: once more around, as it runs when it is warm.
            let Ok(first) = bounds.binary_search(&(last.x as usize)) else {
                continue;
            };
            if passes < index - first {
                continue;
            }
            passes -= index - first;
            for inner in first + 1..=index {
                stalls[bounds[inner] - 1] = segment(
                    &mut board,
                    program,
                    bounds[inner - 1],
                    bounds[inner],
                    latencies,
                );
            }
        }
    }
    stalls
}

/// Prefix sums: the cycles of all instructions before each one, and of all at the end.
pub(crate) fn cycles_before(program: &Program, latencies: &Latencies) -> Vec<u64> {
    let mut total = 0;
    let sums = stalls(program, latencies).into_iter().map(|stall| {
        total += u64::from(stall);
        total
    });
    std::iter::once(0).chain(sums).collect()
}
