//! One allocation: its bytes as 32-bit cells, and a valid bit per byte.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use zerocopy::FromZeros;

use super::Unwritten;

/// Initial content of memory: NaN in every floating-point format, so that its use is visible.
const FRESH: u32 = u32::MAX;

/// Largest range whose valid bits are checked as a whole; longer ones are checked per lane.
const LOOKED_THROUGH: u64 = 2048;
/// Size of a sector in bytes, the unit of the L2 cache.
pub(crate) const SECTOR: u64 = 32;

/// Allocates cells with one value; none if the host is out of memory.
fn cells(count: usize, value: u32) -> Option<Box<[AtomicU32]>> {
    let mut cells = Vec::new();
    cells.try_reserve_exact(count).ok()?;
    cells.extend((0..count).map(|_| AtomicU32::new(value)));
    Some(cells.into_boxed_slice())
}

/// Allocates zeros; none if the host is out of memory. The operating system makes a page of them when it is first used,
/// so that what a kernel does not touch takes neither time nor memory.
pub(crate) fn zeros<T: FromZeros>(count: usize) -> Option<Box<[T]>> {
    <[T]>::new_box_zeroed_with_elems(count).ok()
}

/// The backing store of an allocation.
#[derive(Debug)]
enum Store {
    /// Owned cells.
    Own(Box<[AtomicU32]>),
    /// Mapped host memory.
    Lent(&'static [AtomicU32]),
}

/// An allocation of device memory. All accessors take byte offsets inside it, checked by the caller.
#[derive(Debug)]
pub(crate) struct Allocation {
    base: u64,
    bytes: u64,
    /// Bytes before the first one that kernels may access.
    lead: AtomicU64,
    /// True for constant memory, which no kernel may write to.
    constant: bool,
    /// True if it was made read-only, for kernels and for the host.
    sealed: AtomicBool,
    words: Store,
    /// One bit per byte, 32 bytes per cell.
    valid: Box<[AtomicU32]>,
    /// Bytes whose valid bit is clear; zero lets loads skip the look-up.
    invalid: AtomicU64,
    label: RwLock<Option<Arc<str>>>,
    /// A bit per sector of 32 bytes that the L2 cache may hold; allocated when the first one gets there.
    cached: RwLock<Vec<u32>>,
}

impl Allocation {
    /// None if the host is out of memory.
    pub(super) fn new(base: u64, bytes: u64, label: Option<&str>, constant: bool) -> Option<Self> {
        let words = usize::try_from(bytes.div_ceil(4)).ok()?;
        Some(Self {
            base,
            bytes,
            lead: AtomicU64::new(0),
            constant,
            sealed: AtomicBool::new(false),
            words: Store::Own(cells(words, FRESH)?),
            valid: zeros(words.div_ceil(8))?,
            invalid: AtomicU64::new(bytes),
            label: RwLock::new(label.map(Arc::from)),
            cached: RwLock::default(),
        })
    }

    /// An allocation backed by host memory. The host may write there at any time, so every byte counts as initialised.
    pub(super) fn lent(base: u64, bytes: u64, words: &'static [AtomicU32]) -> Option<Self> {
        Some(Self {
            base,
            bytes,
            lead: AtomicU64::new(0),
            constant: false,
            sealed: AtomicBool::new(false),
            words: Store::Lent(words),
            valid: cells(words.len().div_ceil(8), u32::MAX)?,
            invalid: AtomicU64::new(0),
            label: RwLock::new(None),
            cached: RwLock::default(),
        })
    }

    pub(super) fn is_lent(&self) -> bool {
        matches!(self.words, Store::Lent(_))
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first address that kernels may access.
    pub(crate) fn begin(&self) -> u64 {
        self.base + self.lead.load(Relaxed)
    }

    /// The end of the range that kernels may access.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.bytes
    }

    /// Sets the first address that kernels may access. The host can access everything.
    pub(super) fn begin_at(&self, pointer: u64) {
        self.lead.store(pointer - self.base, Relaxed);
    }

    pub(crate) fn is_constant(&self) -> bool {
        self.constant
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.sealed.load(Relaxed)
    }

    pub(super) fn set_sealed(&self, sealed: bool) {
        self.sealed.store(sealed, Relaxed);
    }

    /// Reports whether kernels must not write to it.
    #[inline(always)]
    pub(crate) fn read_only(&self) -> bool {
        self.constant || self.is_sealed()
    }

    #[inline(always)]
    pub(crate) fn words(&self) -> &[AtomicU32] {
        match &self.words {
            Store::Own(words) => words,
            Store::Lent(words) => words,
        }
    }

    pub(crate) fn label(&self) -> Option<Arc<str>> {
        self.label
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn set_label(&self, name: &str) {
        *self.label.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::from(name));
    }

    /// The number of its sectors that the L2 cache may hold.
    pub(super) fn cached_sectors(&self) -> u64 {
        let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
        cached.iter().map(|bits| u64::from(bits.count_ones())).sum()
    }

    /// The number of the given sectors, 32 in each cell, that the L2 cache may hold.
    pub(crate) fn cached_among(&self, sectors: impl Iterator<Item = u32>) -> u64 {
        let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
        let both = sectors.zip(cached.iter());
        both.map(|(asked, cached)| u64::from((asked & cached).count_ones()))
            .sum()
    }

    /// Marks the given sectors, 32 in each cell, as being in the L2 cache.
    pub(crate) fn cache(&self, sectors: impl ExactSizeIterator<Item = u32>) {
        let mut cached = self.cached.write().unwrap_or_else(PoisonError::into_inner);
        let cells = cached.len().max(sectors.len());
        cached.resize(cells, 0);
        for (cached, touched) in cached.iter_mut().zip(sectors) {
            *cached |= touched;
        }
    }

    /// Marks the sectors of a range as being in the L2 cache.
    pub(super) fn cache_range(&self, offset: u64, bytes: u64) {
        let mut cached = self.cached.write().unwrap_or_else(PoisonError::into_inner);
        cached.resize(self.bytes.div_ceil(SECTOR * 32) as usize, 0);
        let (first, end) = (offset / SECTOR, (offset + bytes).div_ceil(SECTOR));
        for_cells(first, end - first, |cell, mask| cached[cell] |= mask);
    }

    /// Marks all its sectors as not being in the L2 cache, but for those in the given ranges of addresses.
    pub(super) fn evict_all_but(&self, kept: &[Range<u64>]) {
        let kept = self.sectors_in(kept);
        let mut cached = self.cached.write().unwrap_or_else(PoisonError::into_inner);
        cached.truncate(kept.len());
        for (cached, kept) in cached.iter_mut().zip(kept) {
            *cached &= kept;
        }
    }

    /// Its sectors that begin in the given ranges of addresses, 32 in each cell; empty if there are none.
    pub(crate) fn sectors_in(&self, ranges: &[Range<u64>]) -> Vec<u32> {
        let mut sectors = Vec::new();
        for range in ranges {
            let (from, to) = (range.start.max(self.base), range.end.min(self.end()));
            if from < to {
                sectors.resize(self.bytes.div_ceil(SECTOR * 32) as usize, 0);
                let first = (from - self.base).div_ceil(SECTOR);
                let end = (to - self.base).div_ceil(SECTOR);
                for_cells(first, end - first, |cell, mask| sectors[cell] |= mask);
            }
        }
        sectors
    }

    /// Reports whether every byte is initialised.
    #[inline(always)]
    pub(crate) fn all_valid(&self) -> bool {
        self.invalid.load(Relaxed) == 0
    }

    /// Up to 32 valid bits from byte `offset` on, which must not leave the window; `bytes` is 1 to 16.
    #[inline(always)]
    pub(crate) fn is_valid(&self, offset: u64, bytes: u32) -> bool {
        let cell = (offset / 32) as usize;
        let shift = (offset % 32) as u32;
        let mask = (1u64 << bytes) - 1;
        let low = u64::from(self.valid[cell].load(Relaxed));
        let high = if shift + bytes > 32 {
            u64::from(self.valid[cell + 1].load(Relaxed)) << 32
        } else {
            0
        };
        ((low | high) >> shift) & mask == mask
    }

    /// Reports whether every byte of a range is initialised. Long ranges are not checked: false says nothing.
    #[inline(always)]
    pub(crate) fn valid_between(&self, begin: u64, end: u64) -> bool {
        if end - begin > LOOKED_THROUGH {
            return false;
        }
        let mut missing = 0;
        for_cells(begin, end - begin, |cell, mask| {
            missing |= mask & !self.valid[cell].load(Relaxed);
        });
        missing == 0
    }

    pub(crate) fn set_valid(&self, offset: u64, bytes: u64) {
        let mut new = 0;
        for_cells(offset, bytes, |cell, mask| {
            if self.valid[cell].load(Relaxed) & mask != mask {
                let before = self.valid[cell].fetch_or(mask, Relaxed);
                new += u64::from((mask & !before).count_ones());
            }
        });
        if new != 0 {
            self.invalid.fetch_sub(new, Relaxed);
        }
    }

    /// Has no effect on mapped host memory, which always counts as initialised.
    pub(crate) fn clear_valid(&self, offset: u64, bytes: u64) {
        if self.is_lent() {
            return;
        }
        for_cells(offset, bytes, |cell, mask| {
            let before = self.valid[cell].fetch_and(!mask, Relaxed);
            self.invalid
                .fetch_add(u64::from((mask & before).count_ones()), Relaxed);
        });
    }

    pub(super) fn unwritten(&self, offset: u64, bytes: u64) -> Unwritten {
        let mut answer = Unwritten {
            count: 0,
            first: None,
        };
        if self.all_valid() {
            return answer;
        }
        for_cells(offset, bytes, |cell, mask| {
            let missing = mask & !self.valid[cell].load(Relaxed);
            if missing != 0 {
                answer.count += u64::from(missing.count_ones());
                answer
                    .first
                    .get_or_insert(cell as u64 * 32 + u64::from(missing.trailing_zeros()) - offset);
            }
        });
        answer
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) {
        let (first, shift) = (offset / 4, (offset % 4) as usize);
        let words = &self.words()[first as usize..];
        let (head, data) = data.split_at(data.len().min((4 - shift) % 4));
        let words = write_part(words, shift, head);
        let (whole, tail) = data.as_chunks::<4>();
        for (word, bytes) in words.iter().zip(whole) {
            word.store(u32::from_le_bytes(*bytes), Relaxed);
        }
        write_part(&words[whole.len()..], 0, tail);
    }

    pub(crate) fn read(&self, offset: u64, data: &mut [u8]) {
        let (first, shift) = (offset / 4, (offset % 4) as usize);
        let words = &self.words()[first as usize..];
        let (head, data) = data.split_at_mut(data.len().min((4 - shift) % 4));
        let words = read_part(words, shift, head);
        let (whole, tail) = data.as_chunks_mut::<4>();
        for (bytes, word) in whole.iter_mut().zip(words) {
            *bytes = word.load(Relaxed).to_le_bytes();
        }
        let read = whole.len();
        read_part(&words[read..], 0, tail);
    }
}

/// Calls with each cell of 32 bits that the range of bits touches, and the bits in it.
#[inline(always)]
fn for_cells(first: u64, count: u64, mut with: impl FnMut(usize, u32)) {
    let end = first + count;
    let mut at = first;
    while at < end {
        let shift = (at % 32) as u32;
        let step = u64::from(32 - shift).min(end - at);
        let mask = (((1u64 << step) - 1) as u32) << shift;
        with((at / 32) as usize, mask);
        at += step;
    }
}

/// Replaces bytes of the first word, from `shift` on; without bytes none. Returns the words behind it.
fn write_part<'w>(words: &'w [AtomicU32], shift: usize, data: &[u8]) -> &'w [AtomicU32] {
    let [word, rest @ ..] = words else {
        return words;
    };
    if data.is_empty() {
        return words;
    }
    let mut bytes = word.load(Relaxed).to_le_bytes();
    bytes[shift..shift + data.len()].copy_from_slice(data);
    word.store(u32::from_le_bytes(bytes), Relaxed);
    rest
}

/// Reads bytes of the first word, from `shift` on; without bytes none. Returns the words behind it.
fn read_part<'w>(words: &'w [AtomicU32], shift: usize, data: &mut [u8]) -> &'w [AtomicU32] {
    let [word, rest @ ..] = words else {
        return words;
    };
    if data.is_empty() {
        return words;
    }
    data.copy_from_slice(&word.load(Relaxed).to_le_bytes()[shift..shift + data.len()]);
    rest
}
