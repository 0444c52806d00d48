//! The static critical path: the cycles that a warp needs when it runs alone.
//!
//! Between branches, jump targets and barriers ptxas orders instructions freely, so inside such a segment an
//! instruction starts when its operands are ready, whatever stands before it. A warp issues one instruction a cycle:
//! a segment ends when its last instruction could start, and not before those that are ready at any time or later were
//! issued one after another. Results still in flight delay the next segment.
//!
//! A segment that several paths reach is simulated once, behind the segment above it. A branch to it from further above
//! waits until its results in flight are ready no later than on that path. A loop is simulated twice, and an iteration
//! takes the cycles of the second time. Cycles by which the first time takes longer are charged where the loop is
//! entered. So no branch and no loop hides a latency.

mod live_slots;

use std::collections::BTreeSet;

use self::live_slots::LiveSlots;
use crate::code::{Class, Inst, Leader, NONE, Op, Program, SlotRef};
use crate::config::Latencies;

/// Most segments simulated per segment of the kernel. Each level of nested loops doubles the simulations of its
/// segments.
const MAX_PASSES: usize = 16;

/// A result in flight, and the cycles from a point of the program until it is ready.
type InFlight = (SlotRef, u64);

struct Scoreboard {
    now: u64,
    ready: [Vec<u64>; 3],
    /// The slots that may be ready later than now.
    in_flight: Vec<SlotRef>,
}

impl Scoreboard {
    fn ready_at(&mut self, slot: SlotRef) -> Option<&mut u64> {
        let (file, slot) = slot.get()?;
        self.ready[file as usize].get_mut(slot)
    }

    fn write(&mut self, slot: SlotRef, done: u64) {
        if let Some(ready) = self.ready_at(slot) {
            *ready = done;
            self.in_flight.push(slot);
        }
    }

    /// The results that are not ready yet.
    fn results_in_flight(&mut self) -> Vec<InFlight> {
        let mut slots = std::mem::take(&mut self.in_flight);
        slots.sort_unstable();
        slots.dedup();
        let now = self.now;
        let results = slots.into_iter().filter_map(|slot| {
            let cycles = self.ready_at(slot)?.saturating_sub(now);
            (cycles > 0).then_some((slot, cycles))
        });
        let results: Vec<_> = results.collect();
        self.in_flight = results.iter().map(|(slot, _)| *slot).collect();
        results
    }

    /// Continues with the results in flight on a path that arrives now, in place of those of the path before.
    fn replace(&mut self, arriving: &[InFlight]) {
        let now = self.now;
        for slot in std::mem::take(&mut self.in_flight) {
            if let Some(ready) = self.ready_at(slot) {
                *ready = now.min(*ready);
            }
        }
        for &(slot, cycles) in arriving {
            self.write(slot, now + cycles);
        }
    }

    /// Lets results be ready no earlier than after these cycles.
    fn put_off(&mut self, results: &[InFlight]) {
        let now = self.now;
        for &(slot, cycles) in results {
            let ready = self.ready_at(slot).map_or(0, |ready| *ready);
            self.write(slot, ready.max(now + cycles));
        }
    }

    /// The cycles that another path must wait so that its results are ready no later than here.
    fn later_by(&mut self, arriving: &[InFlight]) -> u64 {
        let now = self.now;
        let later = arriving.iter().map(|&(slot, cycles)| {
            let ready = self.ready_at(slot).map_or(0, |ready| *ready);
            (now + cycles).saturating_sub(ready.max(now))
        });
        later.max().unwrap_or(0)
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

/// The slots whose values an instruction waits for.
fn reads(program: &Program, at: usize) -> impl Iterator<Item = SlotRef> {
    let inst = program.code[at];
    let stored = match inst.op {
        Op::Store => &program.memory[inst.x as usize].regs[..],
        _ => &[],
    };
    let product = match inst.op {
        Op::Tensor | Op::LoadMatrix => Some(&program.tensor[inst.x as usize]),
        _ => None,
    };
    let fragments = product
        .into_iter()
        .flat_map(|op| op.a.iter().chain(&op.b).chain(&op.c));
    let operands = program.flow[at].s.iter();
    operands.chain(stored).chain(fragments).copied()
}

/// The slots to which an instruction writes its results.
fn writes(program: &Program, at: usize) -> impl Iterator<Item = SlotRef> {
    let inst = program.code[at];
    let further = match inst.op {
        Op::Load => &program.memory[inst.x as usize].regs[..],
        Op::Tensor | Op::LoadMatrix => &program.tensor[inst.x as usize].d[..],
        _ => &[],
    };
    let flow = &program.flow[at];
    [flow.d, flow.q].into_iter().chain(further.iter().copied())
}

/// The first cycle by which instructions that are ready at these times can all have been issued, one a cycle.
fn end_of_issue(mut ready: Vec<u64>) -> u64 {
    ready.sort_unstable();
    let behind = (1..=ready.len() as u64).rev();
    let ends = ready.iter().zip(behind).map(|(ready, count)| ready + count);
    ends.max().unwrap_or(0)
}

/// Simulates a segment and returns its cycles.
fn simulate_segment(
    board: &mut Scoreboard,
    program: &Program,
    from: usize,
    to: usize,
    latencies: &Latencies,
) -> u64 {
    let entry = board.now;
    let mut last_start = entry;
    let mut stores: Vec<Stored> = Vec::new();
    let mut issued: Vec<u64> = Vec::new();
    let mut after = 0;
    for at in from..to {
        let inst = program.code[at];
        let class = program.class[at];
        let mut start = entry;
        for slot in reads(program, at) {
            if let Some(ready) = board.ready_at(slot) {
                start = start.max(*ready);
            }
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
        for slot in writes(program, at) {
            board.write(slot, done);
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
    board.now - entry
}

/// The segments that a branch back repeats.
#[derive(Debug, Clone, Copy)]
struct Loop {
    first: usize,
    last: usize,
    /// Cycles by which the first iteration takes longer than the next.
    entry: u64,
}

/// Reports whether the instruction behind one may be the next.
fn continues(inst: &Inst) -> bool {
    let leaves = matches!(
        inst.op,
        Op::Branch | Op::BranchTable | Op::Exit | Op::Return
    );
    !leaves || inst.guard != NONE
}

/// The segments of a program, and the cycles that are charged to each.
struct Segments<'a> {
    program: &'a Program,
    latencies: &'a Latencies,
    /// The first instruction of each segment, and the end of the last.
    bounds: Vec<usize>,
    /// By segment, those to which its last instruction may jump.
    targets: Vec<Vec<usize>>,
    /// By segment, those that may be executed next.
    next: Vec<Vec<usize>>,
    live: LiveSlots,
    board: Scoreboard,
    stalls: Vec<u64>,
    /// By the segment at their end.
    loops: Vec<Option<Loop>>,
    /// By segment, those that branch forward to it and what is in flight there.
    arriving: Vec<Vec<(usize, Vec<InFlight>)>>,
    /// By segment, the cycles that it waits if its branch forward is taken.
    taken: Vec<u64>,
    /// Segments that may still be simulated once more.
    passes: usize,
}

impl<'a> Segments<'a> {
    fn of(program: &'a Program, latencies: &'a Latencies) -> Self {
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
        let segments = bounds.len() - 1;
        let last_of = |segment: usize| &program.code[bounds[segment + 1] - 1];
        let targets_of = |segment| {
            let inst = last_of(segment);
            let places = match inst.op {
                Op::Branch => std::slice::from_ref(&inst.x),
                Op::BranchTable => &program.tables[inst.x as usize][..],
                _ => &[],
            };
            let found = |place: &u32| bounds.binary_search(&(*place as usize)).ok();
            let found = places.iter().filter_map(found);
            found.filter(|target| *target < segments).collect()
        };
        let targets: Vec<Vec<usize>> = (0..segments).map(targets_of).collect();
        let next_of = |segment: usize| {
            let above =
                Some(segment + 1).filter(|next| *next < segments && continues(last_of(segment)));
            targets[segment].iter().copied().chain(above).collect()
        };
        let next: Vec<Vec<usize>> = (0..segments).map(next_of).collect();
        let live = LiveSlots::of(program, &bounds, &next);
        Self {
            program,
            latencies,
            targets,
            next,
            live,
            board: Scoreboard {
                now: 0,
                ready: program.slots.map(|count| vec![0; count]),
                in_flight: Vec::new(),
            },
            stalls: vec![0; segments],
            taken: vec![0; segments],
            loops: vec![None; segments],
            arriving: vec![Vec::new(); segments],
            passes: segments.saturating_mul(MAX_PASSES),
            bounds,
        }
    }

    /// Continues at a segment behind the one above it, or if that leaves for elsewhere, behind the first branch.
    fn arrive(&mut self, segment: usize) {
        let arriving = std::mem::take(&mut self.arriving[segment]);
        if segment > 0
            && !self.next[segment - 1].contains(&segment)
            && let Some((_, results)) = arriving.first()
        {
            self.board.replace(results);
        }
        for (from, results) in &arriving {
            let later = self.board.later_by(results);
            self.taken[*from] = self.taken[*from].max(later);
        }
    }

    /// Simulates segments one after another, the loops among them twice, and returns their cycles with one iteration of
    /// each loop. If the segments are themselves a loop, its branch back is not followed again.
    fn simulate(&mut self, from: usize, to: usize, is_loop: bool) -> u64 {
        // The cycles before each segment.
        let mut before = vec![0];
        let mut cycles = 0;
        for segment in from..to {
            if segment > from || !is_loop {
                self.arrive(segment);
            }
            let (begin, end) = (self.bounds[segment], self.bounds[segment + 1]);
            let stall = simulate_segment(&mut self.board, self.program, begin, end, self.latencies);
            self.stalls[segment] = stall;
            self.taken[segment] = 0;
            cycles += stall;
            let results = self.board.results_in_flight();
            let mut back = None;
            for &target in &self.targets[segment] {
                if target > segment {
                    let read = results.iter().copied();
                    let read = read.filter(|(slot, _)| self.live.contains(target, *slot));
                    self.arriving[target].push((segment, read.collect()));
                } else if target >= from && !(is_loop && target == from && segment + 1 == to) {
                    back = Some(back.map_or(target, |first: usize| first.min(target)));
                }
            }
            if let Some(first) = back
                && let Some(passes) = self.passes.checked_sub(segment + 1 - first)
            {
                self.passes = passes;
                let cold = cycles - before[first - from];
                let warm = self.simulate(first, segment + 1, true);
                self.loops[segment] = Some(Loop {
                    first,
                    last: segment,
                    entry: cold.saturating_sub(warm),
                });
                // The loop may end after one iteration.
                self.board.put_off(&results);
            }
            before.push(cycles);
        }
        cycles
    }

    /// The segments from which each one is reached without a branch back.
    fn sources(&self) -> Vec<Vec<usize>> {
        let mut sources = vec![Vec::new(); self.stalls.len()];
        for (segment, next) in self.next.iter().enumerate() {
            for next in next.iter().filter(|next| **next > segment) {
                sources[*next].push(segment);
            }
        }
        sources
    }

    /// The segments from which a loop is entered. If an earlier loop leads to it, those from which that is entered.
    fn entries(&self, sources: &[Vec<usize>], first: usize, entries: &mut BTreeSet<usize>) {
        for &segment in &sources[first] {
            let earlier = self.loops.iter().flatten().filter(|earlier| {
                (earlier.first..=earlier.last).contains(&segment) && earlier.last < first
            });
            match earlier.map(|earlier| earlier.first).min() {
                Some(earlier) => self.entries(sources, earlier, entries),
                None => {
                    entries.insert(segment);
                }
            }
        }
    }
}

/// The static critical path of a program.
#[derive(Debug)]
pub(crate) struct CriticalPath {
    /// Cycles from the first instruction to before each one, and to the end. A segment's whole time stands at its last
    /// instruction.
    pub(crate) before: Vec<u64>,
    /// By instruction, the cycles that it waits if it is a branch forward that is taken.
    pub(crate) taken: Vec<u64>,
}

impl CriticalPath {
    pub(crate) fn of(program: &Program, latencies: &Latencies) -> Self {
        let mut segments = Segments::of(program, latencies);
        segments.simulate(0, segments.stalls.len(), false);
        let mut stalls = segments.stalls.clone();
        let sources = segments.sources();
        let loops = segments.loops.iter().flatten();
        for repeated in loops.filter(|repeated| repeated.entry > 0) {
            let mut entries = BTreeSet::new();
            segments.entries(&sources, repeated.first, &mut entries);
            for entry in entries {
                stalls[entry] += repeated.entry;
            }
        }
        let mut before = vec![0; program.code.len() + 1];
        let mut taken = vec![0; program.code.len()];
        for (segment, stall) in stalls.into_iter().enumerate() {
            let (begin, end) = (segments.bounds[segment], segments.bounds[segment + 1]);
            let sum = before[begin];
            before[begin + 1..end].fill(sum);
            before[end] = sum + stall;
            taken[end - 1] = segments.taken[segment];
        }
        Self { before, taken }
    }
}
