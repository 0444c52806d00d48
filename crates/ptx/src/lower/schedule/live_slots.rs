//! The slots of which a segment or a later one reads the value that they have when it begins.

use super::{reads, writes};
use crate::code::{NONE, Program, SlotRef};

/// By segment, a bit for each slot.
pub(super) struct LiveSlots {
    /// The first bit of each register file.
    first: [usize; 3],
    at_begin: Vec<Vec<u64>>,
}

impl LiveSlots {
    /// `bounds` are the first instruction of each segment and the end of the last, and `next` the segments that may
    /// follow each.
    pub(super) fn of(program: &Program, bounds: &[usize], next: &[Vec<usize>]) -> Self {
        let [first, second, third] = program.slots;
        let words = (first + second + third).div_ceil(64);
        let first = [0, first, first + second];
        let mut at_begin = vec![vec![0; words]; next.len()];
        let mut written = at_begin.clone();
        for (segment, written) in written.iter_mut().enumerate() {
            for at in bounds[segment]..bounds[segment + 1] {
                for (word, bit) in reads(program, at).filter_map(|slot| bit(first, slot)) {
                    at_begin[segment][word] |= bit & !written[word];
                }
                // A guarded write may not happen.
                if program.code[at].guard == NONE {
                    for (word, bit) in writes(program, at).filter_map(|slot| bit(first, slot)) {
                        written[word] |= bit;
                    }
                }
            }
        }
        let mut changed = true;
        while changed {
            changed = false;
            for segment in (0..next.len()).rev() {
                for word in 0..words {
                    let behind = next[segment]
                        .iter()
                        .fold(0, |bits, next| bits | at_begin[*next][word]);
                    let bits = at_begin[segment][word] | behind & !written[segment][word];
                    changed |= bits != at_begin[segment][word];
                    at_begin[segment][word] = bits;
                }
            }
        }
        Self { first, at_begin }
    }

    pub(super) fn contains(&self, segment: usize, slot: SlotRef) -> bool {
        let found = bit(self.first, slot).zip(self.at_begin.get(segment));
        found.is_some_and(|((word, bit), live)| live[word] & bit != 0)
    }
}

/// The word of a slot, and its bit there.
fn bit(first: [usize; 3], slot: SlotRef) -> Option<(usize, u64)> {
    let (file, slot) = slot.get()?;
    let bit = first[file as usize] + slot;
    Some((bit / 64, 1 << (bit % 64)))
}
