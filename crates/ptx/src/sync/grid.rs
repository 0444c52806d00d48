//! Race detection between blocks in device memory: marks of the last accesses to each word, and a vector clock for each
//! block.
//!
//! Two blocks of a launch are ordered only by a release and an acquire pattern (PTX ISA, Memory Consistency Model). The
//! first block fences and then stores by an atomic or volatile instruction; the second one reads that value. The second
//! block's plain reads are ordered only after a fence of its own or an acquiring load, because the cache of its
//! multiprocessor may hold older values. Its writes, and its reads that bypass that cache, are taken to be ordered by the
//! value alone.
//!
//! Every block counts its fences (its epoch). A word has marks of its last writer and its last two readers, with their
//! epochs. All threads of a block count as one party, so that each race found is certain.

use std::collections::HashMap;

/// An access to a word: block, its epoch, instruction, and a mask of the four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u64);

const BYTES: u32 = 4;
const PC: u32 = 20;
const EPOCH: u32 = 16;
/// Block indices are taken modulo this number. Blocks that share a remainder are treated as one, and no race is reported
/// between them.
const BLOCKS: u64 = (1 << 24) - 1;
/// The last epoch: accesses of a block with this many fences count as ordered before everything.
const LAST_EPOCH: u16 = u16::MAX;

impl Mark {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn new(block: u64, epoch: u16, pc: u32, bytes: u32) -> Self {
        Self(
            (block % BLOCKS + 1) << (BYTES + PC + EPOCH)
                | u64::from(epoch) << (BYTES + PC)
                | u64::from(pc & ((1 << PC) - 1)) << BYTES
                | u64::from(bytes & 0xf),
        )
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// The block, if there is one.
    pub(crate) fn block(self) -> Option<u64> {
        (self.0 >> (BYTES + PC + EPOCH)).checked_sub(1)
    }

    fn epoch(self) -> u16 {
        (self.0 >> (BYTES + PC)) as u16
    }

    pub(crate) fn pc(self) -> u32 {
        (self.0 >> BYTES) as u32 & ((1 << PC) - 1)
    }

    pub(crate) fn bytes(self) -> u32 {
        self.0 as u32 & 0xf
    }

    /// The same mark with more bytes.
    pub(crate) fn and_bytes(self, bytes: u32) -> Self {
        Self(self.0 | u64::from(bytes & 0xf))
    }

    pub(crate) fn is_of(self, block: u64) -> bool {
        self.block() == Some(block % BLOCKS)
    }
}

/// The epoch of a block, and its vector clock: for each other block the epoch before which its accesses are ordered.
#[derive(Debug, Default)]
pub(crate) struct BlockOrder {
    /// The number of fences that were followed by an access to memory.
    epoch: u16,
    /// True if the block accessed memory since its last fence.
    dirty: bool,
    /// The epoch before which all accesses are published by the next signal; none before the first fence.
    fenced: Option<u16>,
    /// For other blocks the epoch before which all their accesses are ordered before this block's next one.
    known: HashMap<u64, u16>,
    /// The same for plain reads: `known` at the last fence or acquire.
    acquired: HashMap<u64, u16>,
    /// True if `known` has changed since the last fence or acquire.
    acquire_pending: bool,
    /// The version of the signal observed last, by address.
    observed: HashMap<u64, u64>,
    /// Unordered writes that its ordered loads have seen, by address.
    polled: HashMap<u64, Mark>,
}

impl BlockOrder {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Notes an access to memory and returns the epoch for its mark.
    pub(crate) fn note_access(&mut self) -> u16 {
        self.dirty = true;
        self.epoch
    }

    /// A fence: an acquire and a release.
    pub(crate) fn fence(&mut self) {
        self.acquire();
        self.release();
    }

    /// Orders the accesses published by the signals observed so far before this block's plain reads.
    pub(crate) fn acquire(&mut self) {
        if std::mem::take(&mut self.acquire_pending) {
            self.acquired.clone_from(&self.known);
        }
    }

    /// Publishes this block's accesses so far with its next signal.
    pub(crate) fn release(&mut self) {
        if self.dirty && self.epoch < LAST_EPOCH {
            self.epoch += 1;
            self.dirty = false;
        }
        self.fenced = Some(self.epoch);
    }

    /// Notes that an ordered load whose value decides a branch or an address has seen an unordered write: later loads of
    /// the block see it too.
    pub(crate) fn poll(&mut self, address: u64, mark: Mark) {
        self.polled.insert(address, mark);
    }

    /// Reports whether an ordered load has seen this write.
    pub(crate) fn has_polled(&self, address: u64, mark: Mark) -> bool {
        self.polled.get(&address) == Some(&mark)
    }

    /// Reports whether a mark's access is ordered before this block's next one.
    pub(crate) fn is_behind(&self, mark: Mark) -> bool {
        Self::covers(&self.known, mark)
    }

    /// Reports whether a mark's access is ordered before this block's next plain read, which a cache may answer.
    pub(crate) fn has_acquired(&self, mark: Mark) -> bool {
        Self::covers(&self.acquired, mark)
    }

    fn covers(known: &HashMap<u64, u16>, mark: Mark) -> bool {
        mark.epoch() == LAST_EPOCH
            || mark
                .block()
                .and_then(|block| known.get(&block))
                .is_some_and(|known| mark.epoch() < *known)
    }
}

/// The vector clocks published through words of device memory, by address.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    published: HashMap<u64, Signal>,
}

/// The clock published through one word.
#[derive(Debug, Default)]
struct Signal {
    version: u64,
    known: HashMap<u64, u16>,
}

impl Signals {
    /// Publishes a block's clock at its last fence through the word that it writes by an atomic or volatile instruction.
    pub(crate) fn signal(&mut self, block: u64, order: &BlockOrder, address: u64) {
        let Some(fenced) = order.fenced else {
            return;
        };
        let signal = self.published.entry(address).or_default();
        signal.version += 1;
        let own = (block % BLOCKS, fenced);
        for (block, epoch) in order.known.iter().map(|(b, e)| (*b, *e)).chain([own]) {
            let known = signal.known.entry(block).or_default();
            *known = (*known).max(epoch);
        }
    }

    /// Joins the clock published through a word to that of a block that reads it by an atomic or volatile instruction.
    /// Returns true if the clock holds accesses of several blocks.
    pub(crate) fn observe(&self, order: &mut BlockOrder, address: u64) -> bool {
        let Some(signal) = self.published.get(&address) else {
            return false;
        };
        if order.observed.insert(address, signal.version) == Some(signal.version) {
            return signal.known.len() > 1;
        }
        for (block, epoch) in &signal.known {
            let known = order.known.entry(*block).or_default();
            *known = (*known).max(*epoch);
        }
        order.acquire_pending = true;
        signal.known.len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_keep_what_they_are_given() {
        let mark = Mark::new(77, 5, 1234, 0b0110);
        assert_eq!(
            (mark.block(), mark.pc(), mark.bytes()),
            (Some(77), 1234, 0b0110)
        );
        assert!(mark.is_of(77) && !mark.is_of(78) && !Mark::NONE.is_of(0));
        assert_eq!(mark.and_bytes(1).bytes(), 0b0111);
    }

    #[test]
    fn a_fence_and_a_signal_order_blocks() {
        let (mut one, mut two, mut three) = (
            BlockOrder::default(),
            BlockOrder::default(),
            BlockOrder::default(),
        );
        let mut signals = Signals::default();
        let before = Mark::new(1, one.note_access(), 0, 15);
        // Without a fence nothing is told.
        signals.signal(1, &one, 0x100);
        signals.observe(&mut two, 0x100);
        assert!(!two.is_behind(before));
        one.fence();
        let after = Mark::new(1, one.note_access(), 0, 15);
        signals.signal(1, &one, 0x100);
        signals.observe(&mut two, 0x100);
        assert!(two.is_behind(before) && !two.is_behind(after));
        assert!(!two.has_acquired(before), "it has not fenced since");
        two.release();
        assert!(!two.has_acquired(before), "that orders the other way");
        two.acquire();
        assert!(two.has_acquired(before) && !two.has_acquired(after));
        // A block that observed a signal passes the clock on.
        two.note_access();
        two.fence();
        signals.signal(2, &two, 0x200);
        signals.observe(&mut three, 0x200);
        assert!(three.is_behind(before) && !three.is_behind(after));
        assert!(!three.has_acquired(before));
        three.fence();
        assert!(three.has_acquired(before) && !three.has_acquired(after));
        // Fencing again and again while waiting does not use up the counter.
        for _ in 0..100_000 {
            one.fence();
        }
        assert!(one.note_access() < 3);
    }
}
