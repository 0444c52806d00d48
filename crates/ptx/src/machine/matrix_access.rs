//! Loads and stores of matrix fragments (`wmma.load`, `wmma.store`): where their elements lie, the accesses that move
//! them, and what these count.

use super::access::fast_path::AccessSite;
use super::access::{AccessKind, Request, access_apart};
use super::block::Shared;
use super::exec::{Exec, Fatal};
use super::pattern::Pattern;
use super::warp::{FULL, Warp};
use crate::code::{File, MemSpace, SlotRef, TensorOp};
use crate::memory::window;
use crate::simd::VectorOps;
use crate::tensor::{Element, Matrix, Size, TensorKind, element_positions, elements_apart};

/// Executes a load or a store of a whole fragment.
#[inline(always)]
pub(crate) fn access<F: VectorOps>(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    op: &TensorOp,
    pc: u32,
) -> Result<(), Fatal> {
    let (size, matrix, element, row, access_kind) = match op.kind {
        TensorKind::Load {
            size,
            matrix,
            element,
            row,
        } => (size, matrix, element, row, AccessKind::Load),
        TensorKind::Store { size, element, row } => {
            (size, Matrix::Accumulator, element, row, AccessKind::Store)
        }
        _ => return Ok(()),
    };
    let size = Size {
        turned: exec.launch.alternative_fragments,
        ..size
    };
    let base = super::access::addresses(warp, op.address, op.offset);
    if warp.tainted {
        super::access::address_poison(exec, block, warp, op.address, FULL, pc);
    }
    let mut strides = [0; 32];
    warp.read_lanes(op.stride, &mut strides);
    let first = op.memory as usize;
    if exec.fragments.is_empty() {
        exec.fragments
            .resize_with(exec.launch.program.memory.len(), || None);
    }
    // Taken out while the accesses need the execution as a whole.
    let shape = exec.fragments[first].take();
    let shape = shape.filter(|shape| shape.is_of(&strides, &base));
    let layout = (size, matrix, element, row);
    let shape = shape.unwrap_or_else(|| Box::new(FragmentShape::new(layout, strides, &base)));
    let moved = exec.moved[pc as usize];
    let observed = (!shape.accesses_count()).then(|| std::mem::take(&mut block.reads.observed));
    let place = (&*shape, &base, access_kind);
    if shape.registers_whole {
        let entry = first + elements_apart(size, matrix, element);
        move_registers::<F>(exec, block, warp, op, place, entry, pc)?;
    } else {
        move_elements(exec, block, warp, op, place, pc)?;
    }
    if let Some(observed) = observed {
        exec.moved[pc as usize] = moved;
        block.reads.observed = observed;
        count_fragment(exec, block, warp, op, place, pc);
    }
    exec.fragments[first] = Some(shape);
    Ok(())
}

/// Moves the registers of a fragment one after another. Its accesses are the memory entries from `entry` on.
#[inline(always)]
fn move_registers<F: VectorOps>(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    op: &TensorOp,
    (shape, base, access_kind): (&FragmentShape, &[u64; 32], AccessKind),
    entry: usize,
    pc: u32,
) -> Result<(), Fatal> {
    let (held, scratch) = op.d.split_at(op.d.len().saturating_sub(2));
    let addresses = scratch.first().and_then(|scratch| scratch.get());
    let Some((File::R64, addresses)) = addresses else {
        unreachable!("a fragment has a register for addresses");
    };
    if warp.tainted {
        warp.poison.set(scratch[0], FULL, 0, pc);
    }
    let registers = shape.offsets.len() / shape.per_register;
    for number in 0..registers {
        warp.r64[addresses].0 = shape.addresses(number * shape.per_register, base);
        let at = AccessSite {
            x: entry + number,
            pc,
            run_begin: pc,
            run_number: 0,
        };
        if !F::access_fast(exec, block, warp, access_kind, FULL, at) {
            F::access(exec, block, warp, access_kind, FULL, at)?;
        }
    }
    // Fragments with twice the registers hold everything twice.
    for (number, register) in held.iter().enumerate().skip(registers) {
        let source = held[number % registers];
        if let (Some((_, to)), Some((_, from))) = (register.get(), source.get()) {
            warp.r32[to].0 = warp.r32[from].0;
        }
        if warp.tainted {
            let (lanes, from) = warp.poison.get(source);
            warp.poison.set(*register, FULL, lanes, from);
        }
    }
    Ok(())
}

/// Moves a fragment one element of every lane at a time.
#[inline(never)]
fn move_elements(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    op: &TensorOp,
    (shape, base, access_kind): (&FragmentShape, &[u64; 32], AccessKind),
    pc: u32,
) -> Result<(), Fatal> {
    let (held, scratch) = op.d.split_at(op.d.len().saturating_sub(2));
    let scratch = *scratch.last().unwrap_or(&SlotRef::NONE);
    let per = shape.per_register;
    let registers = shape.offsets.len() / per;
    for number in 0..registers {
        let mut packed = [0u64; 32];
        let mut poisoned = 0;
        for part in 0..per {
            let index = number * per + part;
            let shift = 8 * shape.bytes * part as u32;
            if access_kind == AccessKind::Store {
                let source = op.a[number];
                let mut values = [0; 32];
                warp.read_lanes(source, &mut values);
                for value in &mut values {
                    *value >>= shift;
                }
                warp.set_lanes(scratch, FULL, &values);
                if warp.tainted {
                    let (lanes, from) = warp.poison.get(source);
                    warp.poison.set(scratch, FULL, lanes, from);
                }
            }
            access_apart(
                exec,
                block,
                warp,
                &Request {
                    x: op.memory as usize + index,
                    access_kind,
                    mask: FULL,
                    list: &shape.addresses(index, base),
                    pc,
                },
            )?;
            if access_kind == AccessKind::Load {
                let mut values = [0; 32];
                warp.read_lanes(scratch, &mut values);
                for (packed, value) in packed.iter_mut().zip(values) {
                    *packed |= value << shift;
                }
                poisoned |= warp.poison.get(scratch).0;
            }
        }
        if access_kind == AccessKind::Load {
            // Fragments with twice the registers hold everything twice.
            for register in held.iter().skip(number).step_by(registers) {
                warp.set_lanes(*register, FULL, &packed);
                if warp.tainted {
                    warp.poison.set(*register, FULL, poisoned, pc);
                }
            }
        }
    }
    Ok(())
}

/// Where the elements of a matrix load or store lie. It depends on the leading dimension and the alignment of the base
/// address, which a loop repeats.
#[derive(Debug, Clone)]
pub(crate) struct FragmentShape {
    /// The leading dimension in elements, of each lane.
    strides: [u64; 32],
    /// The lowest bits of the base address, of each lane.
    phases: [u64; 32],
    /// Bytes from the base address to each element that a lane holds.
    offsets: Vec<[u64; 32]>,
    /// Size of an element in bytes.
    bytes: u32,
    /// Elements that share a register.
    per_register: usize,
    /// The widest pieces that lie together in memory for every lane: first element and number of elements.
    pieces: Vec<(usize, usize)>,
    /// True if the elements of each register lie together, so that it moves with one access.
    registers_whole: bool,
}

/// Alignment that the widest piece needs.
const PIECE: u64 = 16;

impl FragmentShape {
    fn new(
        (size, matrix, element, row): (Size, Matrix, Element, bool),
        strides: [u64; 32],
        base: &[u64; 32],
    ) -> Self {
        let (bytes, per) = (element.bits() / 8, element.per_register());
        let phases = base.map(|address| address % PIECE);
        let offsets: Vec<[u64; 32]> = (0..size.per_lane(matrix))
            .map(|index| {
                let positions = element_positions(size, matrix, element, index);
                std::array::from_fn(|lane| {
                    let (r, c) = positions[lane];
                    let at = if row {
                        r as u64 * strides[lane] + c as u64
                    } else {
                        c as u64 * strides[lane] + r as u64
                    };
                    at * u64::from(bytes)
                })
            })
            .collect();
        let placed = offsets
            .iter()
            .map(|offsets| std::array::from_fn(|lane| phases[lane].wrapping_add(offsets[lane])));
        let placed = placed.collect::<Vec<[u64; 32]>>();
        let (mut pieces, mut index) = (Vec::new(), 0);
        while index < placed.len() {
            let mut together = 1;
            while joins(&placed[index..], together, bytes) {
                together *= 2;
            }
            pieces.push((index, together));
            index += together;
        }
        let mut registers = placed.chunks_exact(per);
        let registers_whole = per == 1 || registers.all(|elements| joins(elements, per / 2, bytes));
        Self {
            strides,
            phases,
            offsets,
            bytes,
            per_register: per,
            pieces,
            registers_whole,
        }
    }

    fn is_of(&self, strides: &[u64; 32], base: &[u64; 32]) -> bool {
        *strides == self.strides && base.map(|address| address % PIECE) == self.phases
    }

    /// Returns true if each register is one of the pieces, so that the accesses that move it count what a fragment does.
    fn accesses_count(&self) -> bool {
        self.registers_whole && self.pieces.len() * self.per_register == self.offsets.len()
    }

    /// The addresses of the `index`-th element of every lane.
    #[inline(always)]
    fn addresses(&self, index: usize, base: &[u64; 32]) -> [u64; 32] {
        let offsets = &self.offsets[index];
        std::array::from_fn(|lane| base[lane].wrapping_add(offsets[lane]))
    }
}

/// Counts what a fragment moves in the widest pieces that lie together in memory for every lane: nobody would fetch
/// its elements one by one. Through shared memory that makes as many passes as `ldmatrix` needs for the same rows.
fn count_fragment(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &Warp,
    op: &TensorOp,
    (shape, base, access_kind): (&FragmentShape, &[u64; 32], AccessKind),
    pc: u32,
) {
    let program = exec.launch.program;
    if exec.pieces.is_empty() {
        exec.pieces = vec![Pattern::default(); program.memory.len()];
    }
    let first = op.memory as usize;
    let shared = match program.memory[first].space {
        MemSpace::Shared => true,
        MemSpace::Generic => window::of(base[0]) == window::SHARED,
        _ => false,
    };
    let way = if shared {
        access_kind.shared_path()
    } else {
        super::access::global_path(program.memory[first].space, access_kind)
    };
    let moved = &mut exec.moved[pc as usize];
    for (index, together) in &shape.pieces {
        let piece = shape.bytes * *together as u32;
        let pattern = &mut exec.pieces[first + index];
        let at = pattern.observe(FULL, &shape.addresses(*index, base), piece);
        pattern.update_cost(at, piece, way);
        moved.add(&pattern.moved);
        if !shared && access_kind == AccessKind::Load {
            super::access::record_reads(block, warp, pattern, at, piece);
        }
    }
}

/// Reports whether a lane's next `together` elements and as many behind them are one aligned piece of at most 16 bytes.
fn joins(lists: &[[u64; 32]], together: usize, bytes: u32) -> bool {
    let whole = u64::from(bytes) * 2 * together as u64;
    lists.len() >= 2 * together
        && whole <= 16
        && (0..32).all(|lane| {
            let start = lists[0][lane];
            let follows = |at: usize| lists[at][lane] == start + at as u64 * u64::from(bytes);
            // `whole` is a power of two.
            start & (whole - 1) == 0 && (1..2 * together).all(follows)
        })
}
