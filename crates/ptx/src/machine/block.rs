//! The state that the warps of one block share: shared memory, barriers, and the state of race detection.

use std::collections::HashMap;

use super::block_reads::BlockReads;
use super::pattern::Shape;
use crate::report::BlockWork;
use crate::sync::{BlockOrder, Clock, Shadow};

/// Largest number of cells of valid bits that are checked as a range; longer ranges are checked per lane.
const LOOKED_THROUGH: usize = 64;

/// Number of barriers of a block (PTX ISA: 16).
pub(crate) const BARRIERS: usize = 16;

/// The state of one barrier.
#[derive(Debug, Clone, Default)]
pub(crate) struct Barrier {
    /// Threads that have arrived, by waiting or by `barrier.arrive`.
    pub(crate) arrived: u32,
    /// Threads that arrived by `barrier.arrive` and continued.
    pub(crate) announced: u32,
    /// The thread count that the first arrival names; none for all threads of the block.
    pub(crate) expected: Option<u32>,
    /// The program counter of an arrival that expects another number of threads, with its thread and that number.
    pub(crate) disagrees: Option<(u32, u32, u32)>,
    /// Number of times that the barrier has completed.
    pub(crate) phase: u32,
    /// The program counter of the first arrival, and the first arrival at another program counter with its thread.
    pub(crate) first_pc: Option<u32>,
    pub(crate) other: Option<(u32, u32)>,
    /// The thread that arrived first.
    pub(crate) first_thread: u32,
    /// Reduction over the predicates.
    pub(crate) all: bool,
    pub(crate) any: bool,
    pub(crate) count: u32,
    /// Threads that waited or arrived with a reduction.
    pub(crate) voted: bool,
    /// The merged vector clock of the threads that arrived.
    pub(crate) clock: Clock,
}

/// The state of a block that its warps share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) index: u64,
    pub(crate) coordinates: [u32; 3],
    pub(crate) words: Vec<u32>,
    /// A bit per byte, 32 bytes per word.
    pub(crate) valid: Vec<u32>,
    /// Of bytes that an uninitialised value was stored to, the instruction that first read the value.
    pub(crate) first_reads: HashMap<u32, u32>,
    /// Number of uninitialised bytes.
    pub(crate) invalid: u32,
    /// Version that changes whenever a byte becomes uninitialised; no two blocks of a launch share a value.
    pub(crate) validity: u64,
    /// Size of shared memory in bytes, static and dynamic.
    pub(crate) bytes: u32,
    pub(crate) shadow: Option<Shadow>,
    pub(crate) barriers: [Barrier; BARRIERS],
    /// Barriers whose phase is complete and whose threads have not been released yet, by number.
    pub(crate) completed: Vec<(usize, Barrier)>,
    pub(crate) live_threads: u32,
    /// Number of events that may end a wait: stores to shared memory and arrivals.
    pub(crate) progress: u64,
    /// The program counter of the last barrier of threads that exited, with one such thread.
    pub(crate) exited_after: Vec<(u32, u32)>,
    pub(crate) printed: String,
    /// The work that it has executed so far.
    pub(crate) work: BlockWork,
    /// Cycles of its critical path, once it has ended.
    pub(crate) cycles: u64,
    /// The sectors that it has read so far through the L1 cache.
    pub(crate) reads: BlockReads,
    /// Its vector clock among the blocks of the launch.
    pub(crate) order: BlockOrder,
}

impl Barrier {
    /// Threads that the first arrival expects, of so many in the block.
    pub(crate) fn expected_of(&self, threads: u32) -> u32 {
        self.expected.unwrap_or(threads)
    }

    /// Completes the running phase and begins the next one. Returns the state of the completed phase.
    pub(crate) fn complete(&mut self) -> Self {
        let next = Self {
            phase: self.phase.wrapping_add(1),
            ..Self::default()
        };
        std::mem::replace(self, next)
    }
}

impl Shared {
    /// Reports whether `bytes` bytes (1 to 16, a power of two) at an aligned offset are initialised.
    #[inline(always)]
    pub(crate) fn is_valid(&self, offset: u32, bytes: u32) -> bool {
        // Aligned accesses never straddle two words of bits.
        let mask = (1u32 << bytes) - 1;
        self.valid[(offset / 32) as usize] >> (offset % 32) & mask == mask
    }

    /// Reports whether all bytes that a warp reads are initialised.
    #[inline(always)]
    pub(crate) fn all_valid(
        &self,
        offsets: &[u64; 32],
        mask: u32,
        shape: Shape,
        bytes: u32,
    ) -> bool {
        if shape == Shape::Same {
            return self.is_valid(offsets[mask.trailing_zeros() as usize & 31] as u32, bytes);
        }
        let wanted = (1u32 << bytes) - 1;
        let mut missing = 0;
        // Inactive lanes repeat the first active one.
        for offset in offsets {
            missing |= !(self.valid[(*offset / 32) as usize] >> (*offset % 32)) & wanted;
        }
        missing == 0
    }

    /// Reports whether every byte of a range is initialised. Long ranges are not checked: false says nothing.
    #[inline(always)]
    pub(crate) fn valid_between(&self, begin: u32, end: u32) -> bool {
        let (first, last) = ((begin / 32) as usize, ((end - 1) / 32) as usize);
        if last - first > LOOKED_THROUGH {
            return false;
        }
        let mut missing = 0;
        for cell in first..=last {
            let mut wanted = u32::MAX;
            if cell == first {
                wanted &= u32::MAX << (begin % 32);
            }
            if cell == last {
                wanted &= u32::MAX >> (31 - (end - 1) % 32);
            }
            missing |= wanted & !self.valid[cell];
        }
        missing == 0
    }

    /// Reports whether the bytes that all lanes of a warp read are initialised; `bytes` as for [`Self::is_valid`].
    #[inline(always)]
    pub(crate) fn every_valid(&self, first: u64, relative: &[u64; 32], bytes: u32) -> bool {
        let wanted = (1u32 << bytes) - 1;
        let mut missing = 0;
        for relative in relative {
            let at = first.wrapping_add(*relative);
            missing |= !self.valid[(at / 32) as usize] >> (at % 32) & wanted;
        }
        missing == 0
    }

    /// Marks the bytes that all lanes of a warp write as initialised.
    #[inline(always)]
    pub(crate) fn initialise(&mut self, first: u64, relative: &[u64; 32], bytes: u32) {
        let wanted = (1u32 << bytes) - 1;
        for relative in relative {
            let at = first.wrapping_add(*relative);
            let cell = &mut self.valid[(at / 32) as usize];
            let mask = wanted << (at % 32);
            self.invalid -= (mask & !*cell).count_ones();
            *cell |= mask;
        }
    }

    #[inline(always)]
    pub(crate) fn set_valid(&mut self, offset: u32, bytes: u32, valid: bool) {
        let end = offset + bytes;
        let mut at = offset;
        self.validity += u64::from(!valid);
        if !valid && !self.first_reads.is_empty() {
            for byte in offset..end {
                self.first_reads.remove(&byte);
            }
        }
        while at < end {
            let shift = at % 32;
            let step = (32 - shift).min(end - at);
            let mask = (((1u64 << step) - 1) as u32) << shift;
            let cell = &mut self.valid[(at / 32) as usize];
            if valid {
                self.invalid -= (mask & !*cell).count_ones();
                *cell |= mask;
            } else {
                self.invalid += (mask & *cell).count_ones();
                *cell &= !mask;
            }
            at += step;
        }
    }

    /// The instruction that first read the uninitialised value in `bytes` at an offset; `reading` if that is the one
    /// that reads them now.
    pub(crate) fn first_read(&self, offset: u32, bytes: u32, reading: u32) -> u32 {
        let mut found = (offset..offset + bytes).filter_map(|byte| self.first_reads.get(&byte));
        found.next().copied().unwrap_or(reading)
    }
}
