//! Poison: the bits of registers that derive from uninitialised values.
//!
//! Poison is kept per bit, because compilers pack an initialised half with an undefined one and extract it again. Most
//! warps have none; an instruction without a poisoned operand costs one test of a mask per operand.

use super::warp::Warp;
use crate::code::{File, Flow, LaneFn, Op, Program, SlotRef, Spread};

/// The poisoned bits of each register, and the instruction that a register's poison came from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Poison {
    /// Per slot, the lanes of which any bit is poisoned.
    lanes: [Vec<u32>; 3],
    origin: [Vec<u32>; 3],
    /// Per slot and poisoned lane, the poisoned bits. Allocated when the first register is partly poisoned; until then
    /// all bits of a poisoned lane are poisoned.
    bits32: Vec<[u32; 32]>,
    bits64: Vec<[u64; 32]>,
}

fn index(file: File) -> usize {
    match file {
        File::R32 => 0,
        File::R64 => 1,
        File::Predicate => 2,
    }
}

/// All bits of a register.
fn whole(slot: SlotRef) -> u64 {
    match slot.get() {
        Some((File::R32, _)) => u64::from(u32::MAX),
        Some((File::R64, _)) => u64::MAX,
        _ => 1,
    }
}

impl Poison {
    pub(crate) fn new(slots: [usize; 3]) -> Self {
        Self {
            lanes: slots.map(|n| vec![0; n]),
            origin: slots.map(|n| vec![0; n]),
            ..Self::default()
        }
    }

    pub(crate) fn clear(&mut self) {
        for lanes in &mut self.lanes {
            lanes.fill(0);
        }
    }

    /// The lanes of a slot with a poisoned bit, and the instruction that the poison came from.
    #[inline(always)]
    pub(crate) fn get(&self, slot: SlotRef) -> (u32, u32) {
        match slot.get() {
            Some((file, slot)) => (
                self.lanes[index(file)][slot],
                self.origin[index(file)][slot],
            ),
            None => (0, 0),
        }
    }

    /// The poisoned bits of a lane of a slot.
    pub(crate) fn bits(&self, slot: SlotRef, lane: usize) -> u64 {
        let Some((file, number)) = slot.get() else {
            return 0;
        };
        if self.lanes[index(file)][number] >> lane & 1 == 0 {
            return 0;
        }
        match file {
            File::R32 => self
                .bits32
                .get(number)
                .map_or(u64::from(u32::MAX), |bits| u64::from(bits[lane])),
            File::R64 => self.bits64.get(number).map_or(u64::MAX, |bits| bits[lane]),
            File::Predicate => 1,
        }
    }

    /// Poisons some lanes of a slot as a whole and clears the poison of the others of `mask`.
    #[inline(always)]
    pub(crate) fn set(&mut self, slot: SlotRef, mask: u32, poisoned: u32, origin: u32) {
        let Some((file, number)) = slot.get() else {
            return;
        };
        let lanes = &mut self.lanes[index(file)][number];
        *lanes = (*lanes & !mask) | (poisoned & mask);
        if poisoned & mask != 0 {
            self.origin[index(file)][number] = origin;
            self.fill(file, number, poisoned & mask);
        }
    }

    /// Poisons all bits of some lanes of a slot.
    #[inline(never)]
    fn fill(&mut self, file: File, number: usize, lanes: u32) {
        for lane in super::access::lanes(lanes) {
            match file {
                File::R32 if !self.bits32.is_empty() => self.bits32[number][lane] = u32::MAX,
                File::R64 if !self.bits64.is_empty() => self.bits64[number][lane] = u64::MAX,
                _ => {}
            }
        }
    }

    /// Replaces the poison of the lanes of a mask, bit by bit.
    pub(crate) fn set_bits(&mut self, slot: SlotRef, mask: u32, bits: &[u64; 32], origin: u32) {
        let Some((file, number)) = slot.get() else {
            return;
        };
        let whole = whole(slot);
        let (mut poisoned, mut partly) = (0, false);
        for lane in super::access::lanes(mask) {
            let bits = bits[lane] & whole;
            poisoned |= u32::from(bits != 0) << lane;
            partly |= bits != 0 && bits != whole;
        }
        self.set(slot, mask, poisoned, origin);
        if !partly {
            return;
        }
        if self.bits32.is_empty() && self.bits64.is_empty() {
            self.bits32 = vec![[u32::MAX; 32]; self.lanes[0].len()];
            self.bits64 = vec![[u64::MAX; 32]; self.lanes[1].len()];
        }
        for lane in super::access::lanes(poisoned) {
            match file {
                File::R32 => self.bits32[number][lane] = bits[lane] as u32,
                File::R64 => self.bits64[number][lane] = bits[lane],
                File::Predicate => {}
            }
        }
    }

    /// The poisoned bits of a lane in every slot.
    pub(super) fn of_lane(&self, lane: usize) -> [Vec<u64>; 3] {
        [File::R32, File::R64, File::Predicate].map(|file| {
            (0..self.lanes[index(file)].len())
                .map(|number| self.bits(SlotRef::new(file, number as u16), lane))
                .collect()
        })
    }

    /// Restores the poison of a lane that [`Self::of_lane`] returned.
    pub(super) fn set_lane(&mut self, lane: usize, poisoned: &[Vec<u64>; 3]) {
        for (file, poisoned) in [File::R32, File::R64, File::Predicate]
            .into_iter()
            .zip(poisoned)
        {
            for (number, bits) in poisoned.iter().enumerate() {
                let slot = SlotRef::new(file, number as u16);
                let mut list = [0; 32];
                list[lane] = *bits;
                let (_, origin) = self.get(slot);
                self.set_bits(slot, 1 << lane, &list, origin);
            }
        }
    }

    pub(crate) fn any(&self) -> bool {
        self.lanes.iter().flatten().any(|lanes| *lanes != 0)
    }
}

/// Propagates poison from the operands of the instruction at `pc` to its results, before it is executed.
pub(super) fn flow(program: &Program, warp: &mut Warp, mask: u32, pc: usize) {
    let flow = &program.flow[pc];
    let poison = &mut warp.poison;
    let mut poisoned = 0;
    let mut origin = 0;
    for source in flow.s {
        let (lanes, from) = poison.get(source);
        if poisoned == 0 && lanes & mask != 0 {
            origin = from;
        }
        poisoned |= lanes & mask;
    }
    if poisoned == 0 || flow.spread == Spread::All {
        poison.set(flow.d, mask, poisoned, origin);
        poison.set(flow.q, mask, poisoned, origin);
        return;
    }
    spread(program, warp, (mask, poisoned), pc, origin);
}

/// Propagates the poison of partly poisoned operands, bit by bit.
#[inline(never)]
fn spread(
    program: &Program,
    warp: &mut Warp,
    (mask, poisoned): (u32, u32),
    pc: usize,
    origin: u32,
) {
    let flow = program.flow[pc];
    let inst = &program.code[pc];
    let function = (inst.op == Op::Lane).then(|| program.lane_fns[inst.x as usize]);
    let (mut first, mut second) = ([0; 32], [0; 32]);
    for lane in super::access::lanes(poisoned) {
        let values = flow.s.map(|slot| warp.lane(slot, lane));
        let bits = flow.s.map(|slot| warp.poison.bits(slot, lane));
        (first[lane], second[lane]) = through(flow, function, values, bits);
    }
    warp.poison.set_bits(flow.d, mask, &first, origin);
    warp.poison.set_bits(flow.q, mask, &second, origin);
}

/// The poisoned bits of both results of an instruction, from its operands' values and poisoned bits.
fn through(flow: Flow, function: Option<LaneFn>, v: [u64; 4], p: [u64; 4]) -> (u64, u64) {
    let any = p.iter().any(|bits| *bits != 0);
    let all = if any { u64::MAX } else { 0 };
    let shifted = |result: u64| if p[1] == 0 { result } else { u64::MAX };
    let halves = |low: u64, high: u64| {
        let half = |bits: u64| if bits == 0 { 0 } else { 0xffff };
        half(low) | half(high) << 16
    };
    match flow.spread {
        Spread::All => (all, all),
        Spread::Copy => (p[0], 0),
        Spread::SignExtend => (p[0] as u32 as i32 as i64 as u64, 0),
        // A bit that is known to be 0 decides an `and`, and one that is known to be 1 an `or`.
        Spread::And => (p[0] & (v[1] | p[1]) | p[1] & (v[0] | p[0]), 0),
        Spread::Or => (p[0] & (!v[1] | p[1]) | p[1] & (!v[0] | p[0]), 0),
        Spread::Xor => (p[0] | p[1], 0),
        Spread::ShiftLeft => (shifted(p[0].checked_shl(v[1] as u32).unwrap_or(0)), 0),
        Spread::ShiftRight => (shifted(p[0].checked_shr(v[1] as u32).unwrap_or(0)), 0),
        Spread::ShiftRightSigned(width) => {
            let unused = 64 - u32::from(width);
            let extended = (p[0] << unused) as i64 >> unused;
            (shifted((extended >> (v[1] as u32).min(63)) as u64), 0)
        }
        // A bit that is the same in both choices does not depend on the predicate.
        Spread::Select if p[2] != 0 => (v[0] ^ v[1] | p[0] | p[1], 0),
        Spread::Select => (if v[2] & 1 == 1 { p[0] } else { p[1] }, 0),
        Spread::Pack(width) => {
            let low = p[0] & ((1 << width) - 1);
            (low | p[1] << width, 0)
        }
        Spread::Unpack(width) => {
            let low = (1 << width) - 1;
            (p[0] & low, p[0] >> width & low)
        }
        Spread::Upwards => {
            let lowest = (p[0] | p[1] | p[2]).trailing_zeros();
            (u64::MAX.checked_shl(lowest).unwrap_or(0), 0)
        }
        // The first operand becomes the upper half.
        Spread::NarrowPair => (halves(p[1], p[0]), 0),
        Spread::Halves => {
            let joined = p[0] | p[1] | p[2];
            (halves(joined & 0xffff, joined >> 16 & 0xffff), 0)
        }
        Spread::Bits(data) => {
            let known = p[usize::from(data)..].iter().all(|bits| *bits == 0);
            match function {
                Some(f) if known => (changing(f, usize::from(data), v, p), 0),
                _ => (all, all),
            }
        }
    }
}

/// The bits of a bitwise function's result that change with the poisoned bits of its first `data` operands: each of
/// them is a function of at most one bit of each operand.
fn changing(f: LaneFn, data: usize, v: [u64; 4], p: [u64; 4]) -> u64 {
    let first = f(v);
    (1..1_u32 << data).fold(0, |changed, flipped| {
        let mut other = v;
        for (operand, (value, bits)) in other.iter_mut().zip(p).enumerate() {
            if flipped >> operand & 1 == 1 {
                *value ^= bits;
            }
        }
        changed | (first ^ f(other))
    })
}

/// The poisoned bits of an element that was loaded, of whose bytes some are not initialised.
pub(super) fn of_loaded(invalid_bytes: u32, element: u32, signed: bool) -> u64 {
    let bits = (0..element)
        .filter(|byte| invalid_bytes >> byte & 1 == 1)
        .fold(0, |bits, byte| bits | 0xff << (8 * byte));
    if signed {
        let unused = 64 - 8 * element;
        ((bits << unused) as i64 >> unused) as u64
    } else {
        bits
    }
}

/// The bytes of an element with a poisoned bit.
pub(super) fn poisoned_bytes(bits: u64, element: u32) -> u32 {
    (0..element)
        .filter(|byte| bits >> (8 * byte) & 0xff != 0)
        .fold(0, |bytes, byte| bytes | 1 << byte)
}
