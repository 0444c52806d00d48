//! Register allocation: live ranges over the control flow graph, then a linear scan that assigns slots.
//!
//! Registers that are never live together share a slot, so that a warp's registers stay in the host's L1 cache.
//! Diverged lanes may be at different instructions, but each lane has its own column of every slot, so the argument for
//! one thread holds for all.

mod liveness;

use std::collections::{BTreeSet, HashSet};

pub(super) use self::liveness::defs;
use self::liveness::{Range, live};
use super::{Detail, Lowering, UnsupportedInstruction, VReg, VirtualInst, load_groups};
use crate::code::{
    AtomicOp, BarrierOp, BarrierReduce, CallOp, Class, CopyOp, Entry, File, Flow, GUARD_NOT, Inst,
    Leader, MAX_SLOTS, MBarrierOp, MemSpace, MemoryOp, NO_GROUP, NONE, Op, Program, Reach,
    SharedRange, SlotRef, StackCopy, TensorOp, WarpOp,
};
use crate::tensor::{Matrix, TensorKind, elements_apart};

/// Slots of one file while scanning.
#[derive(Default)]
struct Pool {
    free: BTreeSet<usize>,
    count: usize,
}

impl Pool {
    fn take(&mut self) -> usize {
        self.free.pop_first().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }
}

fn pool(file: File) -> usize {
    match file {
        File::R32 => 0,
        File::R64 => 1,
        File::Predicate => 2,
    }
}

/// Assigns slots and builds the program.
pub(super) fn finish(mut lowering: Lowering<'_>) -> Result<Program, UnsupportedInstruction> {
    let shared_end = lowering
        .shared_bytes
        .next_multiple_of(lowering.dynamic_align);
    let uses_dynamic = !lowering.dynamic.is_empty();
    let static_shared = if uses_dynamic {
        shared_end
    } else {
        lowering.shared_bytes
    };
    let mut constants: Vec<(VReg, u64)> = lowering
        .constants
        .iter()
        .map(|((_, bits), v)| (*v, *bits))
        .collect();
    constants.extend(
        lowering
            .shared_addresses
            .iter()
            .map(|((_, _, bits), v)| (*v, *bits)),
    );
    constants.extend(
        lowering
            .dynamic
            .iter()
            .map(|((_, offset), v)| (*v, (i64::from(shared_end) + offset) as u64)),
    );
    let frame_bytes = |region: Option<usize>| {
        region
            .map_or(lowering.local_bytes, |r| lowering.subroutines[r].bytes)
            .next_multiple_of(16)
    };
    constants.extend(
        lowering
            .frame_sizes
            .iter()
            .map(|(v, region)| (*v, u64::from(frame_bytes(*region)))),
    );
    constants.sort_by_key(|(v, _)| v.0);
    let mut pinned = vec![false; lowering.files.len()];
    let fixed = constants
        .iter()
        .map(|(v, _)| *v)
        .chain(lowering.specials.values().copied())
        .chain(lowering.addresses.values().copied())
        .chain(lowering.frame_pointer);
    for v in fixed {
        pinned[v.0 as usize] = true;
    }
    let live = live(&lowering, &pinned)?;
    let mut pools: [Pool; 3] = Default::default();
    let mut slots: Vec<Option<SlotRef>> = vec![None; lowering.files.len()];
    let give =
        |lowering: &Lowering<'_>, slots: &mut Vec<Option<SlotRef>>, v: usize, slot: usize| {
            if slot >= MAX_SLOTS {
                return Err(lowering.unsupported("a kernel with this many live registers"));
            }
            slots[v] = Some(SlotRef::new(lowering.files[v], slot as u16));
            Ok(())
        };
    let mut order: Vec<(usize, Range)> = live
        .ranges
        .iter()
        .enumerate()
        .filter_map(|(v, range)| Some((v, (*range)?)))
        .collect();
    order.sort_by_key(|(v, range)| (range.start, *v));
    let mut active: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut registers = 0;
    let mut most_registers = 0;
    for (v, range) in order {
        while let Some(&(end, done)) = active.first() {
            if end >= range.start {
                break;
            }
            active.pop_first();
            let file = lowering.files[done];
            let slot = slots[done].expect("active registers have slots").slot() as usize;
            pools[pool(file)].free.insert(slot);
            registers -= width(file);
        }
        let file = lowering.files[v];
        let slot = pools[pool(file)].take();
        give(&lowering, &mut slots, v, slot)?;
        active.insert((range.end, v));
        registers += width(file);
        most_registers = most_registers.max(registers);
    }
    for (v, _) in pinned.iter().enumerate().filter(|(_, pinned)| **pinned) {
        // Pinned slots come after the others, which keeps the busy ones close together.
        let pool = &mut pools[pool(lowering.files[v])];
        pool.count += 1;
        let slot = pool.count - 1;
        give(&lowering, &mut slots, v, slot)?;
    }
    let slot = |v: VReg| -> SlotRef {
        if v == VReg::NONE {
            SlotRef::NONE
        } else {
            slots[v.0 as usize].unwrap_or(SlotRef::NONE)
        }
    };
    let mut program = Program {
        slots: [pools[0].count, pools[1].count, pools[2].count],
        constants: constants
            .iter()
            .map(|(v, bits)| (slot(*v), *bits))
            .filter(|(s, _)| *s != SlotRef::NONE)
            .collect(),
        addresses: lowering
            .addresses
            .iter()
            .map(|((variable, offset), v)| (slot(*v), *variable, *offset))
            .collect(),
        specials: lowering
            .specials
            .iter()
            .map(|((_, special), v)| (slot(*v), *special))
            .collect(),
        undefined: live.undefined.iter().map(|v| slot(*v)).collect(),
        static_shared,
        shared_names: std::mem::take(&mut lowering.shared_names),
        local_bytes: lowering.local_bytes.next_multiple_of(16),
        frame_pointer: lowering.frame_pointer.map_or(SlotRef::NONE, slot),
        // Addresses of 64 bits are folded by ptxas more often than not; a handful is always needed.
        registers_estimate: (most_registers as u32 + 8).clamp(16, 255),
        shared_grain: 4,
        ..Program::default()
    };
    if uses_dynamic {
        program
            .shared_names
            .push((shared_end, u32::MAX, "dynamic shared memory".into()));
    }
    program.writes = super::written_buffers::writes(&lowering);
    let position = |label: usize| lowering.labels[label].map(|at| at as u32);
    for subroutine in &lowering.subroutines {
        let function = &lowering.tree.functions[subroutine.function];
        program.entries.push(Entry {
            function: subroutine.function,
            pc: position(subroutine.entry)
                .ok_or_else(|| lowering.unsupported("a call of nothing"))?,
            signature: Lowering::signature(function).map_err(|super::UnsupportedForm| {
                lowering.unsupported(format!("call {}", function.name))
            })?,
        });
    }
    let fixed: HashSet<VReg> = constants.iter().map(|(v, _)| *v).collect();
    for draft in &lowering.code {
        let members = match draft.op {
            Op::WarpBarrier => draft.s.first(),
            _ if draft.class == Class::Warp => draft.s.get(3),
            _ => None,
        };
        program
            .same_members
            .push(members.is_some_and(|v| fixed.contains(v)));
        let x = table_entry(&mut program, draft, &slot, &position)
            .ok_or_else(|| lowering.unsupported("a jump to nowhere"))?;
        note_memory(&mut program, draft);
        let at = |list: &[VReg], index: usize| list.get(index).map_or(NONE, |v| slot(*v).slot());
        let reference =
            |list: &[VReg], index: usize| list.get(index).map_or(SlotRef::NONE, |v| slot(*v));
        program.code.push(Inst {
            op: draft.op,
            d: at(&draft.d, 0),
            a: at(&draft.s, 0),
            b: at(&draft.s, 1),
            c: if draft.d.len() == 2 {
                at(&draft.d, 1)
            } else {
                at(&draft.s, 2)
            },
            guard: draft.guard.map_or(NONE, |(v, negated)| {
                slot(v).slot() | if negated { GUARD_NOT } else { 0 }
            }),
            x,
        });
        program.flow.push(Flow {
            d: reference(&draft.d, 0),
            q: reference(&draft.d, 1),
            s: [0, 1, 2, 3].map(|index| reference(&draft.s, index)),
            spread: super::spread::spread(draft.op, &draft.detail),
        });
        program.class.push(draft.class);
        program.origin.push(draft.origin);
    }
    load_groups::find(&mut program, &lowering.code, &slot);
    super::data_reads::find(&mut program, &lowering);
    program.polls = super::polls::find(&program);
    super::shared_bounds::find(&mut program, &lowering, shared_end);
    Ok(program)
}

fn width(file: File) -> usize {
    match file {
        File::R32 => 1,
        File::R64 => 2,
        File::Predicate => 0,
    }
}

/// Records memory properties of the whole kernel.
fn note_memory(program: &mut Program, draft: &VirtualInst) {
    if let Detail::Tensor {
        kind: TensorKind::Load { element, .. } | TensorKind::Store { element, .. },
        ..
    } = &draft.detail
    {
        program.shared_grain = program.shared_grain.min(element.bits() / 8);
    }
    if draft.op == Op::Fence && draft.x == Reach::Device as u32 {
        program.blocks_synchronise = true;
    }
    let (detail, atomic) = match &draft.detail {
        Detail::Memory(detail) => (detail, false),
        Detail::Atomic(detail, _) => (detail, true),
        _ => return,
    };
    if matches!(detail.space, MemSpace::Shared | MemSpace::Generic) {
        program.shared_grain = program.shared_grain.min(detail.element);
    }
    if matches!(detail.space, MemSpace::Global | MemSpace::Generic) && (atomic || detail.ordered) {
        program.blocks_communicate = true;
        program.blocks_synchronise |= detail.release && detail.reach == Reach::Device;
    }
    program.reads_read_only |= detail.read_only_path;
}

/// Appends an instruction's detail to its table and returns its `x`.
fn table_entry(
    program: &mut Program,
    draft: &VirtualInst,
    slot: &impl Fn(VReg) -> SlotRef,
    position: &impl Fn(usize) -> Option<u32>,
) -> Option<u32> {
    fn push<T>(table: &mut Vec<T>, entry: T) -> u32 {
        table.push(entry);
        table.len() as u32 - 1
    }
    let d = |index: usize| draft.d.get(index).map_or(SlotRef::NONE, |v| slot(*v));
    let s = |index: usize| draft.s.get(index).map_or(SlotRef::NONE, |v| slot(*v));
    let memory = |detail: &super::MemoryDetail, list: &[VReg], atomic: Option<AtomicOp>| {
        let mut regs = [SlotRef::NONE; 8];
        for (register, v) in regs.iter_mut().zip(list) {
            *register = slot(*v);
        }
        MemoryOp {
            space: detail.space,
            element: detail.element,
            count: list.len() as u32,
            regs,
            address: s(0),
            offset: detail.offset,
            signed: detail.signed,
            keep: detail.keep,
            ordered: detail.ordered,
            volatile: detail.volatile,
            reads_data: false,
            checked_by_swap: false,
            release: detail.release,
            acquire: detail.acquire,
            reach: detail.reach,
            read_only_path: detail.read_only_path,
            past_cache: detail.past_cache,
            atomic,
            stack_of_call: draft.class == Class::Move,
            plain: plain(detail, &regs[..list.len()]),
            leader: Leader::NONE,
            leads: NO_GROUP,
            follows: NO_GROUP,
            behind: 0,
            shared: SharedRange::WHOLE,
        }
    };
    Some(match &draft.detail {
        Detail::None if matches!(draft.op, Op::Branch | Op::Call) => position(draft.x as usize)?,
        Detail::None => draft.x,
        Detail::Lane(f, _) => push(&mut program.lane_fns, *f),
        Detail::Lane2(f) => push(&mut program.lane_fns2, *f),
        Detail::Memory(detail) => {
            let list = if draft.op == Op::Load {
                &draft.d[..]
            } else {
                &draft.s[1..]
            };
            let entry = memory(detail, list, None);
            push(&mut program.memory, entry)
        }
        Detail::Atomic(detail, combine) => {
            let atomic = AtomicOp {
                combine: *combine,
                d: d(0),
                b: s(1),
                c: s(2),
            };
            let mut entry = memory(detail, &[], Some(atomic));
            entry.count = 1;
            push(&mut program.memory, entry)
        }
        Detail::Copy {
            shared_offset,
            global_offset,
            bytes,
            cached,
        } => push(
            &mut program.copies,
            CopyOp {
                shared: s(0),
                shared_offset: *shared_offset,
                global: s(1),
                global_offset: *global_offset,
                bytes: *bytes,
                cached: *cached,
                source_bytes: s(2),
                ignore: s(3),
                target: SharedRange::WHOLE,
            },
        ),
        Detail::Warp { kind, negated } => push(
            &mut program.warp_ops,
            WarpOp {
                kind: *kind,
                d: d(0),
                p: d(1),
                a: s(0),
                negated: *negated,
                b: s(1),
                c: s(2),
                mask: s(3),
            },
        ),
        Detail::Barrier {
            arrive,
            aligned,
            reduce,
            negated,
        } => push(
            &mut program.barriers,
            BarrierOp {
                id: s(0),
                count: s(1),
                arrive: *arrive,
                aligned: *aligned,
                reduce: reduce.map(|kind| BarrierReduce {
                    kind,
                    d: d(0),
                    a: s(2),
                    negated: *negated,
                }),
            },
        ),
        Detail::Call { arguments, result } => push(
            &mut program.calls,
            CallOp {
                arguments: arguments.clone(),
                result: *result,
                frame: s(0),
            },
        ),
        Detail::MBarrier { kind, offset } => push(
            &mut program.mbarriers,
            MBarrierOp {
                kind: *kind,
                address: s(0),
                offset: *offset,
                d: d(0),
                a: s(1),
            },
        ),
        Detail::StackCopy { from, to, bytes } => push(
            &mut program.stack_copies,
            StackCopy {
                from: (s(0), *from),
                to: (s(1), *to),
                bytes: *bytes,
            },
        ),
        Detail::Pointer(signature) => push(&mut program.signatures, signature.clone()),
        Detail::Tensor {
            kind,
            a,
            b,
            c,
            offset,
            space,
        } => {
            let list = |from: usize, count: usize| {
                draft.s[from..from + count]
                    .iter()
                    .map(|v| slot(*v))
                    .collect()
            };
            let first = program.memory.len() as u32;
            program
                .memory
                .extend(matrix_accesses(*kind, *space, draft, slot));
            let end = program.memory.len() as u32;
            push(
                &mut program.tensor,
                TensorOp {
                    kind: *kind,
                    d: draft.d.iter().map(|v| slot(*v)).collect(),
                    a: list(2, *a),
                    b: list(2 + a, *b),
                    c: list(2 + a + b, *c),
                    address: s(0),
                    offset: *offset,
                    stride: s(1),
                    memory: first,
                    memory_end: end,
                },
            )
        }
        Detail::Targets(targets) => {
            let targets = targets
                .iter()
                .map(|label| position(*label))
                .collect::<Option<Vec<u32>>>()?;
            push(&mut program.tables, targets)
        }
    })
}

/// Reports whether loaded elements go into registers unchanged.
fn plain(detail: &super::MemoryDetail, registers: &[SlotRef]) -> bool {
    let narrow = registers
        .iter()
        .all(|register| matches!(register.get(), Some((File::R32, _))));
    narrow && (!detail.signed || (detail.element == 4 && detail.keep >= 32))
}

/// Memory instructions of which a matrix load or store consists. They use the scratch registers, which are its last
/// results: of a fragment one for addresses and one for elements that share a register.
fn matrix_accesses(
    kind: TensorKind,
    space: MemSpace,
    draft: &VirtualInst,
    slot: &impl Fn(VReg) -> SlotRef,
) -> Vec<MemoryOp> {
    let (count, element, modifiers) = match kind {
        TensorKind::LoadMatrix { .. } | TensorKind::StoreMatrix { .. } => (1, 4, 4),
        TensorKind::Load {
            size,
            matrix,
            element,
            ..
        } => (elements_apart(size, matrix, element), element.bits() / 8, 1),
        TensorKind::Store { size, element, .. } => {
            let matrix = Matrix::Accumulator;
            (elements_apart(size, matrix, element), element.bits() / 8, 1)
        }
        TensorKind::MultiplyAdd { .. } => (0, 4, 0),
    };
    let mut regs = [SlotRef::NONE; 8];
    let scratch = draft.d.len().saturating_sub(modifiers);
    for (register, v) in regs.iter_mut().zip(&draft.d[scratch..]) {
        *register = slot(*v);
    }
    let Detail::Tensor { offset, .. } = draft.detail else {
        return Vec::new();
    };
    let access = MemoryOp {
        space,
        element,
        count: modifiers as u32,
        regs,
        address: slot(draft.s[0]),
        offset,
        signed: false,
        keep: 64,
        ordered: false,
        volatile: false,
        reads_data: true,
        checked_by_swap: false,
        release: false,
        acquire: false,
        reach: Reach::Device,
        read_only_path: false,
        past_cache: false,
        atomic: None,
        stack_of_call: false,
        plain: regs[..modifiers]
            .iter()
            .all(|register| matches!(register.get(), Some((File::R32, _)))),
        leader: Leader::NONE,
        leads: NO_GROUP,
        follows: NO_GROUP,
        behind: 0,
        shared: SharedRange::WHOLE,
    };
    // A register of a fragment that moves as a whole.
    let whole = |register: VReg| {
        let mut regs = [SlotRef::NONE; 8];
        regs[0] = slot(register);
        MemoryOp {
            element: element.max(4),
            address: slot(draft.d[scratch - 1]),
            offset: 0,
            plain: matches!(regs[0].get(), Some((File::R32, _))),
            regs,
            ..access
        }
    };
    let mut accesses = vec![access.clone(); count];
    match kind {
        TensorKind::Load {
            size,
            matrix,
            element,
            ..
        } => {
            let registers = size.per_lane(matrix) / element.per_register();
            accesses.extend(draft.d[..registers].iter().map(|v| whole(*v)));
        }
        TensorKind::Store { .. } => accesses.extend(draft.s[2..].iter().map(|v| whole(*v))),
        _ => {}
    }
    accesses
}
