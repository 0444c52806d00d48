//! Machine instructions of the PTX instructions that ptxas expands, by unit.
//!
//! The counts are those of NVRTC 13.5 for `sm_89` (disassembled by nvdisasm 13.5): a kernel with one division, less the
//! same kernel with an addition. `sm_80` and `sm_90` differ by at most three instructions. The CUDA C++ Programming Guide
//! (Arithmetic Instructions) speaks of up to 20 instructions for 32 bits.

use crate::code::Class;
use crate::config::Latencies;
use crate::report::Classes;

/// Machine instructions that one PTX instruction becomes.
#[derive(Debug, Clone, Copy)]
struct Expansion {
    integer: u64,
    special: u64,
    conversion: u64,
    wide_conversion: u64,
    branch: u64,
    /// Instructions of its dependent chain besides conversions and the reciprocal.
    chain: u32,
}

const DIVISION_U32: Expansion = Expansion {
    integer: 15,
    special: 1,
    conversion: 2,
    wide_conversion: 0,
    branch: 0,
    chain: 11,
};
const DIVISION_S32: Expansion = Expansion {
    integer: 21,
    chain: 13,
    ..DIVISION_U32
};
/// 64 bits if the upper halves of both operands are 0 in all lanes: the code tests that, and divides 32 bits.
const SHORT_DIVISION_64: Expansion = Expansion {
    integer: 19,
    branch: 3,
    chain: 13,
    ..DIVISION_U32
};
/// Instructions added by the called function that divides 64 bits if an upper half is not 0.
const LONG_DIVISION_U64: Expansion = Expansion {
    integer: 50,
    special: 0,
    conversion: 0,
    wide_conversion: 2,
    branch: 3,
    chain: 28,
};
const LONG_DIVISION_S64: Expansion = Expansion {
    integer: 66,
    chain: 32,
    ..LONG_DIVISION_U64
};

impl Expansion {
    /// The expansion of a class whose instructions are not executed as they are.
    fn of(class: Class) -> Option<Self> {
        match class {
            Class::DivisionU32 => Some(DIVISION_U32),
            Class::DivisionS32 => Some(DIVISION_S32),
            Class::DivisionU64 | Class::DivisionS64 => Some(SHORT_DIVISION_64),
            _ => None,
        }
    }

    /// Adds so many executions. The sums wrap around, because work may be taken back.
    fn add(self, classes: &mut Classes, executions: u64) {
        let add = |count: &mut u64, each: u64| {
            *count = count.wrapping_add(executions.wrapping_mul(each));
        };
        add(&mut classes.integer, self.integer);
        add(&mut classes.special, self.special);
        add(&mut classes.conversion, self.conversion);
        add(&mut classes.wide_conversion, self.wide_conversion);
        add(&mut classes.branch, self.branch);
    }

    /// Cycles from its operands to its result.
    fn latency(self, latencies: &Latencies) -> u32 {
        let conversions = (self.conversion + self.wide_conversion) as u32;
        self.chain * latencies.alu
            + conversions * latencies.conversion
            + self.special as u32 * latencies.special
            + self.branch as u32 * latencies.branch
    }
}

/// Counts executions of an instruction by the units that execute them.
pub(super) fn charge(classes: &mut Classes, class: Class, executions: u64) {
    match Expansion::of(class) {
        Some(expansion) => expansion.add(classes, executions),
        None => {
            let slot = super::counters::slot_of(classes, class);
            *slot = slot.wrapping_add(executions);
        }
    }
}

fn long_division(class: Class) -> Option<Expansion> {
    match class {
        Class::DivisionU64 => Some(LONG_DIVISION_U64),
        Class::DivisionS64 => Some(LONG_DIVISION_S64),
        _ => None,
    }
}

/// Counts executions of a division whose operands needed 64 bits, besides those of [`charge`].
pub(super) fn charge_long_division(classes: &mut Classes, class: Class, executions: u64) {
    if let Some(expansion) = long_division(class) {
        expansion.add(classes, executions);
    }
}

/// The cycles that operands of 64 bits add to a division.
pub(super) fn long_division_cycles(class: Class, latencies: &Latencies) -> u64 {
    long_division(class).map_or(0, |expansion| u64::from(expansion.latency(latencies)))
}

/// Cycles of an expanded instruction from its operands to its result; none for the others.
pub(crate) fn latency(class: Class, latencies: &Latencies) -> Option<u32> {
    Expansion::of(class).map(|expansion| expansion.latency(latencies))
}
