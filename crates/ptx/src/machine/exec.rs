//! The state that one host thread needs to run blocks of a launch, and the counters and findings that it collects.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::access::Want;
use super::access::load_groups::GroupState;
use super::block::Shared;
use super::block_work::BlocksByTraffic;
use super::contention::Contention;
use super::counts::Counts;
use super::leftovers::Leftovers;
use super::pattern::Pattern;
use super::placement::Placement;
use super::traffic::{Cost, MemoryPath};
use super::warp::{FULL, Fragment, Wait, Warp};
use crate::check::{Findings, Observation, buffer_name, outcome_of, position_text};
use crate::code::{File, Inst, LaneMask, Program, SlotRef, Special};
use crate::config::{Checks, Latencies};
use crate::memory::{Allocation, Memory};
use crate::report::{Access, BlockWork, FindingKind, Outcome, Party, Space};
use crate::sync::Signals;

/// Memory traffic of one instruction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub(crate) sectors: u64,
    pub(crate) sectors_ideal: u64,
    pub(crate) bytes: u64,
    pub(crate) wavefronts: u64,
    pub(crate) wavefronts_ideal: u64,
    pub(crate) lane_bytes: u64,
    /// Bytes that the lanes accessed in shared memory, that of generic accesses and copies included.
    pub(crate) shared_bytes: u64,
    pub(crate) local_bytes: u64,
}

impl Traffic {
    /// The traffic of one access of `lane_bytes` bytes over all lanes.
    pub(crate) fn of(cost: &Cost, way: MemoryPath, lane_bytes: u32) -> Self {
        let lane_bytes = u64::from(lane_bytes);
        if matches!(way, MemoryPath::Global | MemoryPath::Constant) {
            Self {
                sectors: u64::from(cost.sectors),
                sectors_ideal: u64::from(cost.sectors_ideal),
                bytes: u64::from(cost.bytes),
                lane_bytes,
                wavefronts: u64::from(cost.wavefronts),
                ..Self::default()
            }
        } else {
            Self {
                wavefronts: u64::from(cost.wavefronts),
                wavefronts_ideal: u64::from(cost.wavefronts_ideal),
                shared_bytes: lane_bytes,
                ..Self::default()
            }
        }
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, other: &Self) {
        // Reading everything before writing lets the compiler use two vector additions. The sums wrap around, because
        // traffic is taken back by adding its negative.
        let (a, b) = (*self, *other);
        *self = Self {
            sectors: a.sectors.wrapping_add(b.sectors),
            sectors_ideal: a.sectors_ideal.wrapping_add(b.sectors_ideal),
            bytes: a.bytes.wrapping_add(b.bytes),
            wavefronts: a.wavefronts.wrapping_add(b.wavefronts),
            wavefronts_ideal: a.wavefronts_ideal.wrapping_add(b.wavefronts_ideal),
            lane_bytes: a.lane_bytes.wrapping_add(b.lane_bytes),
            shared_bytes: a.shared_bytes.wrapping_add(b.shared_bytes),
            local_bytes: a.local_bytes.wrapping_add(b.local_bytes),
        };
    }

    /// The traffic of `count` executions.
    pub(crate) fn times(&self, count: u64) -> Self {
        Self {
            sectors: self.sectors.wrapping_mul(count),
            sectors_ideal: self.sectors_ideal.wrapping_mul(count),
            bytes: self.bytes.wrapping_mul(count),
            wavefronts: self.wavefronts.wrapping_mul(count),
            wavefronts_ideal: self.wavefronts_ideal.wrapping_mul(count),
            lane_bytes: self.lane_bytes.wrapping_mul(count),
            shared_bytes: self.shared_bytes.wrapping_mul(count),
            local_bytes: self.local_bytes.wrapping_mul(count),
        }
    }
}

/// The charge for repeated reads since all blocks last had a turn. It is dropped if something changed meanwhile, because
/// waiting for others that work is no effort of the kernel.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waiting {
    /// Thread instructions.
    pub(crate) charge: u64,
    /// True if memory was written, a barrier opened, or a warp ran that did not wait.
    pub(crate) changed: bool,
}

/// The immutable state that all blocks of a launch share.
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a Program,
    pub(crate) kernel: &'a str,
    pub(crate) memory: &'a Memory,
    /// Bytes of the parameter block, laid out as [`crate::KernelInfo::params`] says.
    pub(crate) params: &'a [u8],
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) dynamic_shared: u32,
    pub(crate) checks: Checks,
    pub(crate) budget: u64,
    /// Thread instructions of finished slices, summed over all host threads.
    pub(crate) spent: AtomicU64,
    /// The lowest index of a block that ended the launch; blocks with a higher index need not run.
    pub(crate) stopped_at: AtomicU64,
    /// Cycles of the static critical path from the first instruction to before each one, with one more entry for the
    /// end.
    pub(crate) cycles_before: &'a [u64],
    /// Per allocation: touched sectors and the state of race detection between blocks.
    pub(crate) tracks: Vec<Track>,
    /// Addresses of the module's variables.
    pub(crate) variables: &'a [u64],
    pub(crate) multiprocessors: u32,
    pub(crate) core_mhz: u32,
    /// Number of blocks that are placed when the launch begins; others go where one has ended.
    pub(crate) first_wave: u64,
    pub(crate) latencies: Latencies,
    pub(crate) placement: Placement,
    /// Number of the launch on this machine, from 1.
    pub(crate) number: u64,
    /// True if `wmma` fragments use the alternative layout.
    pub(crate) alternative_fragments: bool,
    /// True if blocks run on several host threads.
    pub(crate) parallel: bool,
    /// Address of the counter in which a cooperative grid's barrier counts blocks; 0 for other grids.
    pub(crate) workspace: u64,
    pub(crate) printed_limit: usize,
    /// Contents of shared and local memory from earlier blocks; none if every block starts with uninitialised memory.
    pub(super) leftovers: Option<&'a Leftovers>,
}

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

impl Launch<'_> {
    /// The allocation that contains the whole range.
    pub(crate) fn track_of(&self, address: u64, bytes: u64) -> Option<&Track> {
        let index = self
            .tracks
            .partition_point(|track| track.begin <= address)
            .checked_sub(1)?;
        let track = &self.tracks[index];
        (address < track.end && track.end - address >= bytes).then_some(track)
    }
}

/// Words of the largest allocation whose accesses are compared within a block: 64 MiB.
const MOST_COMPARED_WORDS: usize = 16 << 20;

fn marks(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

impl Track {
    /// Reports whether readers have to be recorded for race detection between blocks.
    #[inline(always)]
    pub(crate) fn notices_reads(&self) -> bool {
        self.reads_matter || self.writers.get().is_some()
    }

    pub(crate) fn new(allocation: &Arc<Allocation>, reads_matter: bool) -> Self {
        let sectors = allocation.bytes().div_ceil(32);
        let bits = || {
            (0..sectors.div_ceil(32))
                .map(|_| AtomicU32::new(0))
                .collect()
        };
        Self {
            allocation: Arc::clone(allocation),
            begin: allocation.begin(),
            end: allocation.end(),
            read: bits(),
            written: bits(),
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
            .get_or_init(|| marks(self.allocation.words().len()))
    }

    pub(crate) fn readers(&self) -> &[AtomicU64] {
        self.readers
            .get_or_init(|| marks(2 * self.allocation.words().len()))
    }

    /// For each word the last plain write and the last plain read in its block; none for large allocations.
    pub(crate) fn moments(&self) -> Option<(&[AtomicU64], &[AtomicU64])> {
        let words = self.allocation.words().len();
        (words <= MOST_COMPARED_WORDS).then(|| {
            let [writes, reads] = [&self.write_moments, &self.read_moments];
            (
                &**writes.get_or_init(|| marks(words)),
                &**reads.get_or_init(|| marks(words)),
            )
        })
    }

    pub(crate) fn atomics(&self) -> &[AtomicU64] {
        self.atomics
            .get_or_init(|| marks(2 * self.allocation.words().len()))
    }

    pub(crate) fn changed(&self) -> &[AtomicU32] {
        self.changed.get_or_init(|| {
            (0..self.allocation.words().len().div_ceil(32))
                .map(|_| AtomicU32::new(0))
                .collect()
        })
    }

    /// Marks the sectors of a byte range.
    #[inline(always)]
    pub(crate) fn touch(bits: &[AtomicU32], offset: u64, bytes: u64) {
        Self::touch_sectors(bits, offset / 32, (offset + bytes - 1) / 32);
    }

    /// Marks the sectors from `sector` to `last`.
    #[inline(always)]
    pub(crate) fn touch_sectors(bits: &[AtomicU32], mut sector: u64, last: u64) {
        while sector <= last {
            let cell = &bits[(sector / 32) as usize];
            let shift = sector % 32;
            let step = (32 - shift).min(last - sector + 1);
            let mask = (((1u64 << step) - 1) as u32) << shift;
            if cell.load(Relaxed) & mask != mask {
                cell.fetch_or(mask, Relaxed);
            }
            sector += step;
        }
    }
}

/// Sets every lane of a slot to the same bits.
fn broadcast(warp: &mut Warp, slot: SlotRef, bits: u64) {
    match slot.get() {
        Some((File::R32, slot)) => warp.r32[slot].0 = [bits as u32; 32],
        Some((File::R64, slot)) => warp.r64[slot].0 = [bits; 32],
        Some((File::Predicate, slot)) => warp.p[slot] = 0u32.wrapping_sub((bits & 1) as u32),
        None => {}
    }
}

fn axis(values: [u32; 3], axis: u8) -> u32 {
    values.get(axis as usize).copied().unwrap_or(0)
}

/// Backward branches that split-off lanes execute before the lanes they were split from.
const LEAD_BRANCHES: u32 = 64;
/// Warp numbers of a multiprocessor: those of the largest block. Real multiprocessors have more.
pub(super) const WARP_SLOTS: u32 = 32;

/// Mixes the bits of a number (multiplicative hash); 0 stays 0.
pub(super) fn scattered(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// The launch has ended in this block: a fatal finding was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fatal;

/// One host thread's share of a launch.
pub(crate) struct Exec<'a> {
    pub(crate) launch: &'a Launch<'a>,
    pub(crate) counts: Counts,
    pub(crate) moved: Vec<Traffic>,
    pub(crate) divergent: Vec<u64>,
    /// Executions of 64-bit divisions whose operands needed 64 bits.
    pub(crate) long_divisions: Vec<Cell<u64>>,
    pub(crate) contention: Contention,
    pub(crate) patterns: Vec<Pattern>,
    /// The checked state of each group of loads, and the number of the current run, from 1.
    pub(crate) load_groups: Vec<GroupState>,
    pub(crate) run_number: u64,
    /// The patterns of fragment loads and stores, indexed by the first element's entry in the memory table.
    pub(crate) pieces: Vec<Pattern>,
    pub(crate) findings: Findings,
    pub(crate) outcome: Option<(u64, Outcome)>,
    pub(crate) printed: Vec<(u64, String)>,
    pub(crate) printed_bytes: usize,
    pub(crate) cycles_max: u64,
    pub(crate) cycles_sum: u64,
    /// The work that has been charged to blocks so far, and the maximum of any single block.
    pub(crate) accounted: BlockWork,
    pub(crate) waiting: Waiting,
    pub(crate) heaviest: BlockWork,
    /// The work of each multiprocessor's blocks among those that are placed when the launch begins.
    pub(crate) multiprocessors: Vec<BlockWork>,
    /// The blocks that have finished on this host thread.
    pub(crate) by_traffic: BlocksByTraffic,
    /// Instructions issued so far in the block, for `%clock`.
    pub(crate) clock: u64,
    /// The vector clocks that blocks published through ordered stores.
    pub(crate) signals: Signals,
}

impl<'a> Exec<'a> {
    pub(crate) fn new(launch: &'a Launch<'a>, findings: usize) -> Self {
        let code = launch.program.code.len();
        Self {
            launch,
            counts: Counts::new(code),
            moved: vec![Traffic::default(); code],
            divergent: vec![0; code],
            long_divisions: vec![Cell::new(0); code],
            contention: Contention::default(),
            patterns: vec![
                Pattern::default();
                launch.program.memory.len() + launch.program.copies.len() * 2
            ],
            load_groups: vec![GroupState::default(); launch.program.groups.len()],
            run_number: 0,
            pieces: Vec::new(),
            findings: Findings::new(findings),
            outcome: None,
            printed: Vec::new(),
            printed_bytes: 0,
            cycles_max: 0,
            cycles_sum: 0,
            accounted: BlockWork::default(),
            waiting: Waiting::default(),
            heaviest: BlockWork::default(),
            multiprocessors: vec![BlockWork::default(); launch.multiprocessors.max(1) as usize],
            by_traffic: BlocksByTraffic::default(),
            clock: 0,
            signals: Signals::default(),
        }
    }

    /// Reports whether accesses to device memory are checked for races and for read-only loads of changed words.
    pub(crate) fn compares_blocks(&self) -> bool {
        self.launch.checks == Checks::Full
    }

    pub(crate) fn thread_of(&self, warp: &Warp, lane: usize) -> [u32; 3] {
        self.thread_at(warp.index * 32 + lane as u32)
    }

    pub(crate) fn thread_at(&self, linear: u32) -> [u32; 3] {
        let [x, y, _] = self.launch.block;
        [linear % x, linear / x % y, linear / (x * y)]
    }

    /// Records an observation. Returns [`Fatal`] if it ends the launch.
    pub(crate) fn find(&mut self, block: &Shared, seen: Observation) -> Result<(), Fatal> {
        let outcome = outcome_of(seen.kind);
        self.findings
            .add(self.launch.program, self.launch.kernel, block.index, seen);
        match outcome {
            Some(outcome) => {
                self.stop(block.index, outcome);
                Err(Fatal)
            }
            None => Ok(()),
        }
    }

    pub(crate) fn stop(&mut self, block: u64, outcome: Outcome) {
        if self.outcome.as_ref().is_none_or(|(at, _)| block < *at) {
            self.outcome = Some((block, outcome));
        }
        self.launch.stopped_at.fetch_min(block, Relaxed);
    }

    /// Builds an observation without an access and without a second thread.
    pub(crate) fn plain(
        &self,
        kind: FindingKind,
        pc: u32,
        block: &Shared,
        warp: &Warp,
        lane: usize,
        message: String,
    ) -> Observation {
        Observation {
            kind,
            pc,
            block: block.coordinates,
            thread: self.thread_of(warp, lane),
            access: None,
            other: None,
            waits: Vec::new(),
            message,
        }
    }

    /// Records that poison decides an address, a branch or a stored value at `pc`; the poison comes from the
    /// instruction at `origin`.
    #[cold]
    #[inline(never)]
    pub(crate) fn uninitialised(
        &mut self,
        kind: FindingKind,
        (pc, origin): (u32, u32),
        block: &Shared,
        warp: &Warp,
        poisoned: u32,
        access: Option<Access>,
    ) {
        // The finding names the load that read the uninitialised value, because the cause is there.
        if self.findings.repeat(self.launch.program, kind, origin) {
            return;
        }
        let program = self.launch.program;
        let lane = poisoned.trailing_zeros() as usize & 31;
        let cause = position_text(program, origin);
        let message = match kind {
            FindingKind::UninitialisedStore => format!(
                "the value read at {cause} was never initialised, and what is computed from it is stored to {} at {}; \
                 initialise it, or do not use what lies past the valid range",
                access
                    .as_ref()
                    .map_or_else(|| "global memory".into(), buffer_name),
                position_text(program, pc)
            ),
            FindingKind::UninitialisedAddress => format!(
                "the value read at {cause} was never initialised, and it decides an address at {}",
                position_text(program, pc)
            ),
            _ => format!(
                "the value read at {cause} was never initialised, and it decides a branch at {}",
                position_text(program, pc)
            ),
        };
        let mut seen = self.plain(kind, origin, block, warp, lane, message);
        seen.access = access;
        // None of these kinds is fatal.
        let _ = self.find(block, seen);
    }

    /// Resets a warp for a new block, and fills the slots that differ from block to block.
    pub(crate) fn start_warp(&self, warp: &mut Warp, block: &Shared) {
        let program = self.launch.program;
        let index = warp.index;
        let threads = self.launch.block.iter().product::<u32>();
        let here = (threads - index * 32).min(32);
        let live = if here == 32 { FULL } else { (1 << here) - 1 };
        warp.pc = 0;
        warp.mask = live;
        warp.live = live;
        warp.others.clear();
        warp.spins = 0;
        warp.hold = 0;
        warp.cycles = 0;
        warp.local_valid.fill(0);
        warp.last_barrier = [u32::MAX; 32];
        warp.copies.clear();
        warp.waits_at = None;
        warp.last_polls = [(u32::MAX, 0, 0); 4];
        for callers in &mut warp.callers {
            callers.clear();
        }
        warp.copy_groups = [0; 32];
        warp.poison.clear();
        warp.tainted = !program.undefined.is_empty();
        for slot in &program.undefined {
            warp.poison.set(*slot, FULL, FULL, 0);
        }
        for (slot, special) in &program.specials {
            if let Some(value) = self.block_special(*special, block) {
                broadcast(warp, *slot, u64::from(value));
            }
        }
    }

    /// Creates a warp with its constants, to be started for each block.
    pub(crate) fn new_warp(&self, index: u32) -> Warp {
        use super::poison::Poison;
        use super::warp::{Lanes32, Lanes64};
        let program = self.launch.program;
        let mut warp = Warp {
            r32: vec![Lanes32([0; 32]); program.slots[0]],
            r64: vec![Lanes64([0; 32]); program.slots[1]],
            p: vec![0; program.slots[2]],
            poison: Poison::new(program.slots),
            tainted: false,
            pc: 0,
            mask: 0,
            others: Vec::new(),
            live: 0,
            spins: 0,
            hold: 0,
            cycles: 0,
            index,
            local: vec![u32::MAX; program.stack_bytes() as usize / 4 * 32],
            local_valid: vec![0; program.stack_bytes() as usize],
            last_barrier: [u32::MAX; 32],
            copies: Vec::new(),
            copy_groups: [0; 32],
            unused: 0,
            waits_at: None,
            last_polls: [(u32::MAX, 0, 0); 4],
            repeats_read: false,
            callers: Default::default(),
        };
        for (slot, bits) in &program.constants {
            broadcast(&mut warp, *slot, *bits);
        }
        for (slot, variable, offset) in &program.addresses {
            broadcast(
                &mut warp,
                *slot,
                self.launch.variables[*variable].wrapping_add_signed(*offset),
            );
        }
        for (slot, special) in &program.specials {
            for lane in 0..32 {
                let value = self.thread_special(*special, index * 32 + lane as u32);
                warp.set_lane(*slot, lane, value);
            }
        }
        warp
    }

    /// Reports whether a seeded schedule splits a warp's lanes at this ordered load. Lanes that nothing synchronises
    /// may run apart, although GPUs usually keep them together.
    #[inline(always)]
    pub(crate) fn should_split_lanes(&self, warp: &Warp, inst: &Inst, mask: u32) -> bool {
        self.launch.placement.seed != 0
            && self.launch.program.memory[inst.x as usize].ordered
            && warp.others.is_empty()
            && mask == warp.mask
            && mask.count_ones() > 1
    }

    /// Splits off some lanes of a warp, which run first until they wait for the others.
    #[cold]
    #[inline(never)]
    pub(crate) fn split_lanes(&self, warp: &mut Warp, pc: u32) {
        let place = u64::from(warp.index) << 32 | u64::from(pc);
        let drawn = (scattered(self.launch.placement.seed ^ place) >> 16) as u32;
        let first = 1 << warp.mask.trailing_zeros();
        // At least one lane runs first and at least one stays behind.
        let ahead = match warp.mask & drawn & !first {
            0 => warp.mask & !first,
            some => some,
        };
        warp.others.push(Fragment {
            pc,
            mask: warp.mask & !ahead,
            wait: Wait::Ready,
        });
        warp.mask = ahead;
        warp.hold = LEAD_BRANCHES;
    }

    /// A special register that differs from block to block.
    fn block_special(&self, special: Special, block: &Shared) -> Option<u32> {
        match special {
            Special::Ctaid(a) => Some(axis(block.coordinates, a)),
            Special::SmId => Some(self.launch.placement.multiprocessor(block.index)),
            _ => None,
        }
    }

    /// A special register that is the same in every block.
    fn thread_special(&self, special: Special, thread: u32) -> u64 {
        let lane = thread % 32;
        if special == Special::GridId {
            return self.launch.number;
        }
        u64::from(match special {
            Special::Tid(a) => axis(self.thread_at(thread), a),
            Special::Ntid(a) => axis(self.launch.block, a),
            // Set by `start_warp`.
            Special::Ctaid(_) | Special::SmId => 0,
            Special::Nctaid(a) => axis(self.launch.grid, a),
            Special::LaneId => lane,
            Special::WarpId => (thread / 32 + self.launch.placement.first_warp()) % WARP_SLOTS,
            Special::NWarpId => WARP_SLOTS,
            Special::NSmId => self.launch.multiprocessors,
            Special::Env(1) => (self.launch.workspace >> 32) as u32,
            Special::Env(2) => self.launch.workspace as u32,
            Special::GridId | Special::Env(_) => 0,
            Special::LaneMask(LaneMask::Eq) => 1 << lane,
            Special::LaneMask(LaneMask::Lt) => (1 << lane) - 1,
            Special::LaneMask(LaneMask::Le) => FULL >> (31 - lane),
            Special::LaneMask(LaneMask::Gt) => !(FULL >> (31 - lane)),
            Special::LaneMask(LaneMask::Ge) => !((1 << lane) - 1),
            Special::DynamicShared => self.launch.dynamic_shared,
            Special::TotalShared => self.launch.shared_bytes,
        })
    }

    /// Records a race in shared memory; `place` is the offset and size of this thread's access.
    #[cold]
    #[inline(never)]
    pub(crate) fn shared_race(
        &mut self,
        conflict: crate::sync::Conflict,
        pc: u32,
        place: (u32, u32),
        want: Want,
        block: &Shared,
        warp: &Warp,
    ) {
        if conflict.in_flight && want == Want::Load {
            let other = (pc, conflict.other_pc);
            return self.unawaited_copy((conflict.lane, place.0, place.1), other, block, warp);
        }
        let kind = if conflict.same_warp {
            FindingKind::WarpRace
        } else {
            FindingKind::SharedRace
        };
        let program = self.launch.program;
        if self.findings.repeat(program, kind, pc) {
            return;
        }
        let access = self.shared_access(place.0, place.1);
        let does = if want == Want::Load {
            "reads"
        } else {
            "writes"
        };
        let did = if conflict.other_wrote {
            "wrote"
        } else {
            "read"
        };
        let who = match conflict.other {
            Some(thread) => format!("thread {:?}", self.thread_at(thread)),
            None => "other threads".into(),
        };
        let fix = if conflict.same_warp {
            "put __syncwarp(), or __syncthreads() if other warps use the bytes, between the two"
        } else {
            "put __syncthreads() between the two"
        };
        let message = format!(
            "thread {:?} {does} byte {} of {} at {}, which {who} {did} at {} with nothing in between to order them; {fix}",
            self.thread_of(warp, conflict.lane),
            access.offset,
            buffer_name(&access),
            position_text(program, pc),
            position_text(program, conflict.other_pc),
        );
        let mut seen = self.plain(kind, pc, block, warp, conflict.lane, message);
        seen.access = Some(access);
        seen.other = Some(Party {
            block: block.coordinates,
            thread: conflict.other.map(|thread| self.thread_at(thread)),
            location: Some(crate::check::location(program, conflict.other_pc)),
            wrote: conflict.other_wrote,
        });
        let _ = self.find(block, seen);
    }

    /// Records that a lane reads bytes of an asynchronous copy that is not known to have arrived.
    #[cold]
    #[inline(never)]
    pub(crate) fn unawaited_copy(
        &mut self,
        (lane, offset, bytes): (usize, u32, u32),
        (pc, copy): (u32, u32),
        block: &Shared,
        warp: &Warp,
    ) {
        let kind = FindingKind::UnawaitedCopy;
        let program = self.launch.program;
        if self.findings.repeat(program, kind, pc) {
            return;
        }
        let access = self.shared_access(offset, bytes);
        let message = format!(
            "thread {:?} reads byte {} of {} at {} before the asynchronous copy of {} is known to have arrived: wait for \
             its group (cp.async.wait_group counts the newest groups that may still be missing) or for its mbarrier, and \
             then __syncthreads() if another thread copied",
            self.thread_of(warp, lane),
            access.offset,
            buffer_name(&access),
            position_text(program, pc),
            position_text(program, copy),
        );
        let mut seen = self.plain(kind, pc, block, warp, lane, message);
        seen.access = Some(access);
        seen.other = Some(Party {
            block: block.coordinates,
            thread: None,
            location: Some(crate::check::location(program, copy)),
            wrote: true,
        });
        let _ = self.find(block, seen);
    }

    /// The access at an offset of shared memory, with the variable that contains it.
    pub(crate) fn shared_access(&self, offset: u32, bytes: u32) -> Access {
        let holder = self
            .launch
            .program
            .shared_names
            .iter()
            .find(|(start, size, _)| {
                offset >= *start && (*size == u32::MAX || offset - start < *size)
            });
        let start = holder.map_or(0, |(start, ..)| *start);
        Access {
            space: Space::Shared,
            buffer: holder.map(|(.., name)| name.clone()),
            pointer: u64::from(offset),
            offset: i64::from(offset - start),
            buffer_bytes: holder.map(|(start, size, _)| {
                u64::from(if *size == u32::MAX {
                    self.launch.shared_bytes - start
                } else {
                    *size
                })
            }),
            bytes,
        }
    }
}
