//! Which block touched which word of device memory, and which block has been ordered behind which.
//!
//! Blocks of a launch are ordered only where one tells another: a fence, then an atomic or volatile store, which the
//! other one sees. For its plain reads that one has to fence in its turn, or to have asked with acquire (release and
//! acquire patterns, PTX ISA, Memory Consistency Model): its multiprocessor's cache may hold what was there before.
//! What it writes, or reads past that cache, is taken to be ordered by what it saw alone. Every block counts its fences; a word remembers who wrote it, and the last two who read it, with
//! that count. A whole block is taken for one party, so that what is found is certain.

use std::collections::HashMap;

/// Who touched a word: block, count of its fences, instruction, and which of the four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u64);

const BYTES: u32 = 4;
const PC: u32 = 20;
const EPOCH: u32 = 16;
/// Blocks past this share marks, and a block never races with itself.
const BLOCKS: u64 = (1 << 24) - 1;
/// A block that fences more often than this is not followed any further.
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

    /// The same with more bytes.
    pub(crate) fn and_bytes(self, bytes: u32) -> Self {
        Self(self.0 | u64::from(bytes & 0xf))
    }

    pub(crate) fn is_of(self, block: u64) -> bool {
        self.block() == Some(block % BLOCKS)
    }
}

/// What a block has done and knows.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Fences after which it touched memory again.
    epoch: u16,
    /// Whether it touched memory since its last fence.
    dirty: bool,
    /// Everything it did before this epoch can be told, once it has fenced.
    fenced: Option<u16>,
    /// For other blocks: everything they did before an epoch comes before what this one does now.
    known: HashMap<u64, u16>,
    /// The same as far as a fence or an acquire followed.
    acquired: HashMap<u64, u16>,
    /// Whether neither has followed what was heard last.
    news: bool,
    /// What it has heard already, by address.
    heard: HashMap<u64, u64>,
    /// Unordered writes that its ordered loads have seen, by address.
    polled: HashMap<u64, Mark>,
}

impl Standing {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The epoch for a mark.
    pub(crate) fn touch(&mut self) -> u16 {
        self.dirty = true;
        self.epoch
    }

    /// A fence orders both ways.
    pub(crate) fn fence(&mut self) {
        self.acquire();
        self.release();
    }

    /// What this block has heard so far comes before its plain reads.
    pub(crate) fn acquire(&mut self) {
        if std::mem::take(&mut self.news) {
            self.acquired.clone_from(&self.known);
        }
    }

    /// What this block did so far becomes visible with its next signal.
    pub(crate) fn release(&mut self) {
        if self.dirty && self.epoch < LAST_EPOCH {
            self.epoch += 1;
            self.dirty = false;
        }
        self.fenced = Some(self.epoch);
    }

    /// Notes that an ordered load that decides something has seen an unordered write: later loads of the block see it
    /// too.
    pub(crate) fn poll(&mut self, address: u64, mark: Mark) {
        self.polled.insert(address, mark);
    }

    /// Reports whether an ordered load has seen this write.
    pub(crate) fn has_polled(&self, address: u64, mark: Mark) -> bool {
        self.polled.get(&address) == Some(&mark)
    }

    /// Whether what a mark stands for comes before what this block does now.
    pub(crate) fn is_behind(&self, mark: Mark) -> bool {
        Self::covers(&self.known, mark)
    }

    /// Whether what a mark stands for comes before what this block reads now, though a cache may answer.
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

/// What was told through words of device memory.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    told: HashMap<u64, Message>,
}

#[derive(Debug, Default)]
struct Message {
    version: u64,
    known: HashMap<u64, u16>,
}

impl Messages {
    /// A block writes a word atomically, or volatile.
    pub(crate) fn signal(&mut self, block: u64, standing: &Standing, address: u64) {
        let Some(fenced) = standing.fenced else {
            return;
        };
        let message = self.told.entry(address).or_default();
        message.version += 1;
        let own = (block % BLOCKS, fenced);
        for (block, epoch) in standing.known.iter().map(|(b, e)| (*b, *e)).chain([own]) {
            let known = message.known.entry(block).or_default();
            *known = (*known).max(epoch);
        }
    }

    /// A block reads such a word.
    pub(crate) fn hear(&self, standing: &mut Standing, address: u64) {
        let Some(message) = self.told.get(&address) else {
            return;
        };
        if standing.heard.insert(address, message.version) == Some(message.version) {
            return;
        }
        for (block, epoch) in &message.known {
            let known = standing.known.entry(*block).or_default();
            *known = (*known).max(*epoch);
        }
        standing.news = true;
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
            Standing::default(),
            Standing::default(),
            Standing::default(),
        );
        let mut messages = Messages::default();
        let before = Mark::new(1, one.touch(), 0, 15);
        // Without a fence nothing is told.
        messages.signal(1, &one, 0x100);
        messages.hear(&mut two, 0x100);
        assert!(!two.is_behind(before));
        one.fence();
        let after = Mark::new(1, one.touch(), 0, 15);
        messages.signal(1, &one, 0x100);
        messages.hear(&mut two, 0x100);
        assert!(two.is_behind(before) && !two.is_behind(after));
        assert!(!two.has_acquired(before), "it has not fenced since");
        two.release();
        assert!(!two.has_acquired(before), "that orders the other way");
        two.acquire();
        assert!(two.has_acquired(before) && !two.has_acquired(after));
        // Who heard it passes it on.
        two.touch();
        two.fence();
        messages.signal(2, &two, 0x200);
        messages.hear(&mut three, 0x200);
        assert!(three.is_behind(before) && !three.is_behind(after));
        assert!(!three.has_acquired(before));
        three.fence();
        assert!(three.has_acquired(before) && !three.has_acquired(after));
        // Fencing again and again while waiting does not use up the counter.
        for _ in 0..100_000 {
            one.fence();
        }
        assert!(one.touch() < 3);
    }
}
