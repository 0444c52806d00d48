//! The shape of a warp's addresses, cached per instruction.
//!
//! A memory instruction usually repeats the same shape of addresses (a run, one address, a stride) at different bases.
//! Bounds, alignment, sectors and bank conflicts depend only on the shape and on a few low bits of the base. They are
//! computed once and looked up while the shape repeats; the results are exact.

use super::exec::{SectorMarks, Traffic};
use super::traffic::{self, Cost, MemoryPath};

/// The relation of the lanes' addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Active lanes are consecutive, and each accesses the bytes behind those of the lane before.
    Run,
    /// Every active lane has the same address.
    Same,
    /// Anything else.
    Other,
}

/// The relation of the addresses of eight lanes, for 4-byte elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// Consecutive words.
    Run,
    Same,
    Mixed,
}

/// The cached shape and costs of one memory instruction.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) mask: u32,
    /// Addresses relative to the first active lane's; 0 for inactive lanes.
    pub(crate) relative: [u64; 32],
    /// Changes whenever the shape does.
    pub(crate) version: u64,
    /// The version of the leader's pattern to which this one was found equal.
    pub(crate) leader_version: u64,
    pub(crate) shape: Shape,
    pub(crate) chunks: [Chunk; 4],
    /// Lowest and highest relative address.
    pub(crate) low: i64,
    pub(crate) high: i64,
    /// Bitwise or of all relative addresses, for the alignment check.
    low_bits: u64,
    /// The part of the base that the costs below depend on, see [`Self::update_cost`].
    phase: u64,
    /// The cost of one execution, and the traffic that it adds to the totals.
    pub(crate) cost: Cost,
    pub(crate) moved: Traffic,
    /// The costs of this shape in device memory at each even offset in a sector, and a bit for each that is computed. A
    /// loop over the words or halves of rows goes through these offsets again and again. A new shape clears bits alone,
    /// because an irregular kernel has one for each access.
    costs: [(Cost, Traffic); PLACES],
    costs_known: u32,
    /// The offset in a sector for which the ranges were computed.
    sectors_phase: u64,
    /// The ranges of sectors that one execution touches, for each even offset and for the odd ones: first and last,
    /// relative to the first active lane's sector; and a bit for each that is computed.
    sectors: [Vec<(i64, i64)>; PLACES + 1],
    sectors_known: u32,
    /// True if the lanes' bytes are disjoint; none if not yet computed.
    disjoint: Option<bool>,
    /// Per warp: the version of shared memory and the first address for which all bytes were initialised.
    found_valid: [(u64, u64); REMEMBERED],
    /// Index of the allocation of the last access.
    pub(crate) allocation: usize,
}

/// Places of a sector where an access of two bytes or more may begin.
const PLACES: usize = 16;

/// The place of a sector at which an address lies; none at odd addresses.
fn place_of(address: u64) -> Option<usize> {
    (address & 1 == 0).then_some((address & 31) as usize / 2)
}

/// Warps with an entry of their own in `found_valid`; others share one by index modulo this number.
pub(crate) const REMEMBERED: usize = 8;

impl Default for Pattern {
    fn default() -> Self {
        Self {
            mask: 0,
            relative: [0; 32],
            version: 0,
            leader_version: Self::NEVER,
            shape: Shape::Other,
            chunks: [Chunk::Mixed; 4],
            low: 0,
            high: 0,
            low_bits: 0,
            phase: u64::MAX,
            cost: Cost::default(),
            moved: Traffic::default(),
            costs: [(Cost::default(), Traffic::default()); PLACES],
            costs_known: 0,
            sectors_phase: u64::MAX,
            sectors: Default::default(),
            sectors_known: 0,
            disjoint: None,
            found_valid: [(u64::MAX, 0); REMEMBERED],
            allocation: usize::MAX,
        }
    }
}

impl Pattern {
    /// A version that no pattern ever has.
    pub(crate) const NEVER: u64 = u64::MAX;

    /// Updates the shape from the addresses of the active lanes (at least one), `bytes` bytes each. Returns the first
    /// active lane's address.
    #[inline(always)]
    pub(crate) fn observe(&mut self, mask: u32, addresses: &[u64; 32], bytes: u32) -> u64 {
        let first = addresses[mask.trailing_zeros() as usize & 31];
        let mut relative = [0u64; 32];
        let mut differs = 0;
        for lane in 0..32 {
            let active = 0u64.wrapping_sub(u64::from(mask >> lane & 1));
            relative[lane] = addresses[lane].wrapping_sub(first) & active;
            differs |= relative[lane] ^ self.relative[lane];
        }
        if differs != 0 || mask != self.mask {
            self.replace_shape(mask, &relative, bytes);
        }
        first
    }

    #[cold]
    #[inline(never)]
    fn replace_shape(&mut self, mask: u32, relative: &[u64; 32], bytes: u32) {
        self.version += 1;
        self.leader_version = Self::NEVER;
        self.costs_known = 0;
        self.sectors_phase = u64::MAX;
        self.sectors_known = 0;
        self.disjoint = None;
        self.found_valid = [(u64::MAX, 0); REMEMBERED];
        self.mask = mask;
        self.relative = *relative;
        self.phase = u64::MAX;
        // Inactive lanes repeat the first active one, whose relative address is 0.
        let (mut low, mut high, mut low_bits) = (0, 0, 0);
        for address in relative {
            low = low.min(*address as i64);
            high = high.max(*address as i64);
            low_bits |= address;
        }
        (self.low, self.high, self.low_bits) = (low, high, low_bits);
        let first = mask.trailing_zeros() as u64;
        let consecutive = (mask >> first).trailing_ones() == mask.count_ones();
        self.shape = if low_bits == 0 {
            Shape::Same
        } else if consecutive
            && super::access::lanes(mask)
                .all(|lane| relative[lane] == (lane as u64 - first) * u64::from(bytes))
        {
            Shape::Run
        } else {
            Shape::Other
        };
        for (chunk, lanes) in self.chunks.iter_mut().zip(relative.as_chunks::<8>().0) {
            let steps = |step: u64| {
                (0..)
                    .zip(lanes)
                    .all(|(lane, address)| address.wrapping_sub(lanes[0]) == step * lane)
            };
            *chunk = if steps(0) {
                Chunk::Same
            } else if steps(4) {
                Chunk::Run
            } else {
                Chunk::Mixed
            };
        }
    }

    /// The cached initialisation check of a warp.
    #[inline(always)]
    pub(crate) fn found_valid(&mut self, warp: u32) -> &mut (u64, u64) {
        &mut self.found_valid[warp as usize % REMEMBERED]
    }

    /// Reports whether the lanes' bytes are disjoint, given that the addresses are multiples of the access size.
    #[inline(always)]
    pub(crate) fn disjoint(&mut self) -> bool {
        match self.disjoint {
            Some(apart) => apart,
            None => self.compute_disjoint(),
        }
    }

    #[inline(never)]
    fn compute_disjoint(&mut self) -> bool {
        let apart = traffic::all_different(self.mask, &self.relative);
        self.disjoint = Some(apart);
        apart
    }

    /// Updates the cached cost for an access whose first active lane is at `first`.
    #[inline(always)]
    pub(crate) fn update_cost(&mut self, first: u64, bytes: u32, way: MemoryPath) {
        // Sectors depend on the offset within a sector. Bank conflicts do not change when all addresses move by whole
        // words.
        let (phase, place) = match way {
            MemoryPath::Global | MemoryPath::GlobalLoad | MemoryPath::Constant => {
                (first & 31, place_of(first))
            }
            _ => (first & 3 | (way as u64) << 32, None),
        };
        if self.phase != phase {
            self.phase = phase;
            match place.filter(|place| self.costs_known >> place & 1 == 1) {
                Some(place) => (self.cost, self.moved) = self.costs[place],
                None => self.compute_cost(first, bytes, way, place),
            }
        }
    }

    #[inline(never)]
    fn compute_cost(&mut self, first: u64, bytes: u32, way: MemoryPath, place: Option<usize>) {
        self.cost = traffic::cost(way, self.mask, &self.relative, first, bytes, self.shape);
        self.moved = Traffic::of(&self.cost, way, self.mask.count_ones() * bytes);
        if let Some(place) = place {
            self.costs[place] = (self.cost, self.moved);
            self.costs_known |= 1 << place;
        }
    }

    /// The lowest and the highest address of an access.
    #[inline(always)]
    pub(crate) fn span(&self, first: u64) -> (u64, u64) {
        (
            first.wrapping_add_signed(self.low),
            first.wrapping_add_signed(self.high),
        )
    }

    /// Reports whether every address is a multiple of the access size.
    #[inline(always)]
    pub(crate) fn aligned(&self, first: u64, bytes: u32) -> bool {
        (first | self.low_bits) & u64::from(bytes - 1) == 0
    }

    /// Marks the sectors that an access touches; its first active lane is at offset `from`.
    #[inline(always)]
    pub(crate) fn mark_sectors(&mut self, marks: SectorMarks<'_>, from: u64, bytes: u32) {
        self.visit_sectors(from, bytes, |first, last| marks.mark_sectors(first, last));
    }

    /// Calls a function with the first and the last sector of each range that an access touches; its first active lane
    /// is at offset `from`.
    #[inline(always)]
    pub(crate) fn visit_sectors(&mut self, from: u64, bytes: u32, mut visit: impl FnMut(u64, u64)) {
        let size = u64::from(bytes);
        let mut visit_bytes = |bytes: u64| visit(from / 32, (from + bytes - 1) / 32);
        match self.shape {
            Shape::Same => visit_bytes(size),
            Shape::Run => visit_bytes(size * u64::from(self.mask.count_ones())),
            Shape::Other => {
                let at = place_of(from).unwrap_or(PLACES);
                if self.sectors_phase != from & 31 {
                    self.sectors_phase = from & 31;
                    if at == PLACES || self.sectors_known >> at & 1 == 0 {
                        self.find_sectors(size, at);
                    }
                }
                let sector = from / 32;
                for (first, last) in &self.sectors[at] {
                    visit(
                        sector.wrapping_add_signed(*first),
                        sector.wrapping_add_signed(*last),
                    );
                }
            }
        }
    }

    #[inline(never)]
    fn find_sectors(&mut self, size: u64, at: usize) {
        self.sectors_known |= 1 << at;
        let sectors = &mut self.sectors[at];
        sectors.clear();
        for lane in super::access::lanes(self.mask) {
            let offset = (self.sectors_phase as i64).wrapping_add(self.relative[lane] as i64);
            let (first, last) = (offset >> 5, offset.wrapping_add(size as i64 - 1) >> 5);
            match sectors.last_mut() {
                Some(range) if range.0 <= first && first <= range.1.saturating_add(1) => {
                    range.1 = range.1.max(last);
                }
                _ => sectors.push((first, last)),
            }
        }
        // In this order most accesses are joined already.
        if sectors.is_sorted() {
            return;
        }
        sectors.sort_unstable();
        sectors.dedup_by(|next, range| {
            let joins = next.0 <= range.1.saturating_add(1);
            if joins {
                range.1 = range.1.max(next.1);
            }
            joins
        });
    }
}
