//! The accesses of a launch to one allocation: touched sectors, and the last accesses to each word.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use zerocopy::FromZeros;

use super::reuse::WaveMarks;
use crate::machine::chosen_blocks::ChosenBlocks;
use crate::memory::{Allocation, zeros};

/// The accesses of a launch to one allocation.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) allocation: Arc<Allocation>,
    /// The first address that the launch may access, and the end of the range.
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// A bit per sector read, and per sector written.
    pub(crate) read: Box<[AtomicU32]>,
    pub(crate) written: Box<[AtomicU32]>,
    /// A bit per sector that the launch wrote before it read it; none where blocks run in any order.
    pub(crate) written_first: Option<Box<[AtomicU32]>>,
    /// The sectors that each wave of blocks touched; none where all buffers fit the cache.
    pub(crate) waves: Option<WaveMarks>,
    /// The last writer of each word; allocated at the launch's first write here.
    pub(crate) writers: OnceLock<Box<[AtomicU64]>>,
    /// The last reader of each word, and the last reader in another block; allocated at the launch's first read here.
    pub(crate) readers: OnceLock<Box<[AtomicU64]>>,
    /// The last plain write and the last plain read of each word in its block; allocated at the first of them.
    pub(crate) write_moments: OnceLock<Box<[AtomicU64]>>,
    pub(crate) read_moments: OnceLock<Box<[AtomicU64]>>,
    /// The last atomic on each word, as mark and moment; allocated at the first one.
    pub(crate) atomics: OnceLock<Box<[AtomicU64]>>,
    /// A bit per word that the launch changed by atomic or ordered stores; allocated when a later read has to know it.
    pub(crate) changed: OnceLock<Box<[AtomicU32]>>,
    /// True if the launch may write to the allocation, so that its readers have to be recorded.
    pub(crate) reads_matter: bool,
}

/// Words of the largest allocation whose accesses are compared within a block: 64 MiB.
const MOST_COMPARED_WORDS: usize = 16 << 20;

/// Allocates marks or bits that say that nothing was accessed yet.
pub(super) fn unmarked<T: FromZeros>(count: usize) -> Box<[T]> {
    zeros(count).expect("the host has memory for a launch's accesses")
}

impl Track {
    /// Reports whether readers have to be recorded for race detection between blocks.
    #[inline(always)]
    pub(crate) fn notices_reads(&self) -> bool {
        self.reads_matter || self.writers.get().is_some()
    }

    pub(crate) fn new(
        allocation: &Arc<Allocation>,
        reads_matter: bool,
        blocks_communicate: bool,
        waves: Option<&ChosenBlocks>,
    ) -> Self {
        let chunks = allocation.words().len().div_ceil(8 * 32);
        let bits = || unmarked(chunks);
        Self {
            allocation: Arc::clone(allocation),
            begin: allocation.begin(),
            end: allocation.end(),
            read: bits(),
            written: bits(),
            written_first: blocks_communicate.then(bits),
            waves: waves.map(|chosen| WaveMarks::new(chunks, chosen)),
            writers: OnceLock::new(),
            readers: OnceLock::new(),
            atomics: OnceLock::new(),
            changed: OnceLock::new(),
            write_moments: OnceLock::new(),
            read_moments: OnceLock::new(),
            reads_matter,
        }
    }

    /// Reports whether accesses of `bytes` bytes at `low`, at `high` and between them are in bounds. If the address
    /// space wraps around between the lanes, `low` is the larger number.
    #[inline(always)]
    pub(crate) fn holds(&self, low: u64, high: u64, bytes: u32) -> bool {
        low >= self.begin && low <= high && high < self.end && self.end - high >= u64::from(bytes)
    }

    pub(crate) fn writers(&self) -> &[AtomicU64] {
        self.writers
            .get_or_init(|| unmarked(self.allocation.words().len()))
    }

    pub(crate) fn readers(&self) -> &[AtomicU64] {
        self.readers
            .get_or_init(|| unmarked(2 * self.allocation.words().len()))
    }

    /// For each word the last plain write and the last plain read in its block; none for large allocations.
    pub(crate) fn moments(&self) -> Option<(&[AtomicU64], &[AtomicU64])> {
        let words = self.allocation.words().len();
        (words <= MOST_COMPARED_WORDS).then(|| {
            let [writes, reads] = [&self.write_moments, &self.read_moments];
            (
                &**writes.get_or_init(|| unmarked(words)),
                &**reads.get_or_init(|| unmarked(words)),
            )
        })
    }

    pub(crate) fn atomics(&self) -> &[AtomicU64] {
        self.atomics
            .get_or_init(|| unmarked(2 * self.allocation.words().len()))
    }

    pub(crate) fn changed(&self) -> &[AtomicU32] {
        self.changed
            .get_or_init(|| unmarked(self.allocation.words().len().div_ceil(32)))
    }

    /// The marks of a load by a block of a wave.
    #[inline(always)]
    pub(crate) fn read_marks(&self, wave: usize) -> SectorMarks<'_> {
        let written_first = self.written_first.as_deref();
        SectorMarks {
            bits: &self.read,
            written_first: written_first.map(|marks| (&*self.written, marks)),
            waves: self.waves.as_ref().map(|waves| (waves, wave)),
        }
    }

    /// The marks of a store by a block of a wave.
    #[inline(always)]
    pub(crate) fn write_marks(&self, wave: usize) -> SectorMarks<'_> {
        SectorMarks {
            bits: &self.written,
            written_first: None,
            waves: self.waves.as_ref().map(|waves| (waves, wave)),
        }
    }

    /// The sectors read or written, 32 in each cell.
    pub(crate) fn touched(&self) -> impl ExactSizeIterator<Item = u32> {
        let cells = self.read.iter().zip(&self.written);
        cells.map(|(read, written)| read.load(Relaxed) | written.load(Relaxed))
    }

    /// Number of distinct sectors read or written.
    pub(crate) fn count_touched(&self) -> u64 {
        self.touched()
            .map(|bits| u64::from(bits.count_ones()))
            .sum()
    }

    /// Number of distinct sectors read that the L2 cache may have held, since before the launch or since the launch wrote
    /// them itself; of each cell of 32 sectors only those that `among` tells.
    pub(crate) fn count_found(&self, among: impl Fn(usize) -> u32) -> u64 {
        let read = |cell: usize| self.read[cell].load(Relaxed) & among(cell);
        let written_first = |cell: usize| match &self.written_first {
            Some(marks) => marks[cell].load(Relaxed),
            None => 0,
        };
        let cells = 0..self.read.len();
        let own = cells.clone().map(|cell| read(cell) & written_first(cell));
        let own: u64 = own.map(|bits| u64::from(bits.count_ones())).sum();
        let others = cells.map(|cell| read(cell) & !written_first(cell));
        own + self.allocation.cached_among(others)
    }

    /// Number of the given sectors, 32 in each cell, that were read or written.
    pub(crate) fn count_touched_among(&self, sectors: &[u32]) -> u64 {
        let both = self.touched().zip(sectors);
        both.map(|(touched, asked)| u64::from((touched & asked).count_ones()))
            .sum()
    }
}

/// The places where the sectors that an access touches are marked.
#[derive(Clone, Copy)]
pub(crate) struct SectorMarks<'a> {
    /// A bit per sector of the allocation.
    pub(crate) bits: &'a [AtomicU32],
    /// Of a read: the sectors written so far, and where those among them are marked that are read for the first time.
    pub(crate) written_first: Option<(&'a [AtomicU32], &'a [AtomicU32])>,
    /// The marks of waves, with the number of the block's.
    pub(crate) waves: Option<(&'a WaveMarks, usize)>,
}

impl SectorMarks<'_> {
    /// Marks the sectors of a byte range.
    #[inline(always)]
    pub(crate) fn mark_bytes(self, offset: u64, bytes: u64) {
        self.mark_sectors(offset / 32, (offset + bytes - 1) / 32);
    }

    /// Marks the sectors from `sector` to `last`.
    #[inline(always)]
    pub(crate) fn mark_sectors(self, mut sector: u64, last: u64) {
        while sector <= last {
            let chunk = (sector / 32) as usize;
            let shift = sector % 32;
            let step = (32 - shift).min(last - sector + 1);
            let mask = (((1u64 << step) - 1) as u32) << shift;
            let cell = &self.bits[chunk];
            if cell.load(Relaxed) & mask != mask {
                let before = cell.fetch_or(mask, Relaxed);
                if let Some((written, written_first)) = self.written_first {
                    let found = mask & !before & written[chunk].load(Relaxed);
                    written_first[chunk].fetch_or(found, Relaxed);
                }
            }
            if let Some((waves, wave)) = self.waves {
                waves.mark(wave, chunk, mask);
            }
            sector += step;
        }
    }
}
