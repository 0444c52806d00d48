//! The state that one host thread needs to run blocks of a launch, and the counters and findings that it collects.

mod findings;
mod reuse;
mod start;
mod track;
mod traffic;

pub(crate) use reuse::Reuse;
pub(crate) use track::{SectorMarks, Track};
pub(crate) use traffic::Traffic;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::access::load_groups::GroupState;
use super::block_reads::ReadsOfBlocks;
use super::block_work::BlocksByTraffic;
use super::chosen_blocks::ChosenBlocks;
use super::contention::Contention;
use super::counts::Counts;
use super::leftovers::Leftovers;
use super::matrix_access::FragmentShape;
use super::multiprocessors::EndedBlock;
use super::pattern::Pattern;
use super::placement::Placement;
use super::survey::Survey;
use super::warp::{Fragment, Wait, Warp};
use crate::check::Findings;
use crate::code::{Inst, Program};
use crate::config::{Checks, Latencies};
use crate::lower::schedule::CriticalPath;
use crate::memory::Memory;
use crate::report::{BlockWork, Outcome};
use crate::sync::Signals;

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
    pub(crate) critical_path: &'a CriticalPath,
    /// Per allocation: touched sectors and the state of race detection between blocks.
    pub(crate) tracks: Vec<Track>,
    /// The blocks that are executed.
    pub(crate) chosen: ChosenBlocks,
    /// The survey of the grid; none if all blocks are executed, and if they have the same work.
    pub(crate) survey: Option<Survey>,
    /// True if the tracks tell which sectors each wave of blocks touched.
    pub(crate) tells_waves: bool,
    /// Addresses of the module's variables.
    pub(crate) variables: &'a [u64],
    pub(crate) multiprocessors: u32,
    pub(crate) core_mhz: u32,
    /// Blocks that are resident at the same time on the whole device.
    pub(crate) resident_blocks: u64,
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
    /// Where the elements of each matrix load or store lay last, by its first entry in the program's memory table; empty
    /// before the first one.
    pub(crate) fragments: Vec<Option<Box<FragmentShape>>>,
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
    /// The blocks that have ended on this host thread, where all of the grid are executed and are not too many.
    pub(crate) ended: Vec<EndedBlock>,
    /// The warp instructions of each finished block, where a sample is executed.
    pub(crate) work_of_blocks: Vec<(u64, u64)>,
    /// The reads of the observed blocks that have finished.
    pub(crate) reads_of_blocks: ReadsOfBlocks,
    /// The blocks that have finished on this host thread.
    pub(crate) by_traffic: BlocksByTraffic,
    /// Instructions issued so far in the block, for `%clock`.
    pub(crate) clock: u64,
    /// The vector clocks that blocks published through ordered stores.
    pub(crate) signals: Signals,
    /// Number of the wave of the block that runs now.
    pub(crate) wave: usize,
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
            fragments: Vec::new(),
            findings: Findings::new(findings),
            outcome: None,
            printed: Vec::new(),
            printed_bytes: 0,
            cycles_max: 0,
            cycles_sum: 0,
            accounted: BlockWork::default(),
            waiting: Waiting::default(),
            heaviest: BlockWork::default(),
            ended: Vec::new(),
            work_of_blocks: Vec::new(),
            reads_of_blocks: ReadsOfBlocks::default(),
            by_traffic: BlocksByTraffic::default(),
            clock: 0,
            signals: Signals::default(),
            wave: 0,
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

    pub(crate) fn stop(&mut self, block: u64, outcome: Outcome) {
        if self.outcome.as_ref().is_none_or(|(at, _)| block < *at) {
            self.outcome = Some((block, outcome));
        }
        self.launch.stopped_at.fetch_min(block, Relaxed);
    }

    /// Takes the cycles of a round that polled in vain off a warp's critical path, at the branch behind the round.
    #[inline(always)]
    pub(crate) fn forget_poll(&self, warp: &mut Warp, branch: u32) {
        let program = self.launch.program;
        if program.polls.binary_search(&branch).is_ok() {
            let cycles = &self.launch.critical_path.before;
            let begin = program.code[branch as usize].x;
            let round = cycles[branch as usize + 1] - cycles[begin as usize];
            warp.cycles = warp.cycles.saturating_sub(round);
        }
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
}
