//! The execution of a launch: the order of its blocks, their distribution over host threads, and the merge of their
//! counters and findings into a report.

mod barriers;
mod stuck;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use barriers::release_barriers;
use stuck::{record_deadlock, record_exhausted_budget};

use super::access::load_groups;
use super::block::Shared;
use super::block_reads::{BlockReads, is_observed};
use super::block_work;
use super::counters;
use super::exec::{Exec, Launch};
use super::interpret::Stop;
use super::warp::Warp;
use crate::check::Findings;
use crate::code::Program;
use crate::config::{Checks, LaunchConfig, Schedule};
use crate::report::{BlockWork, LaunchReport, Outcome};
use crate::simd::{self, Isa};
use crate::sync::{BlockOrder, Shadow};

/// Instructions that a warp may execute before the next warp of its block runs.
const SLICE: u64 = 1 << 15;
/// Rounds over its warps that a block may make before the next resident block runs, in launches whose blocks can wait
/// for each other.
const ROUNDS: u32 = 4;

/// A resident block.
struct Block {
    shared: Shared,
    warps: Vec<Warp>,
    started: bool,
}

/// The reason why [`run_rounds`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoundEnd {
    Done,
    /// The block used up its rounds.
    Yield,
    Fatal,
}

/// The random number generator of seeded schedules (`SplitMix64`).
struct ScheduleRng(u64);

impl ScheduleRng {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below.max(1)
    }
}

fn new_block(exec: &Exec<'_>) -> Block {
    let launch = exec.launch;
    let bytes = launch.shared_bytes as usize;
    let shared = Shared {
        index: 0,
        coordinates: [0; 3],
        words: vec![u32::MAX; bytes.div_ceil(4) + 1],
        valid: vec![0; bytes.div_ceil(32) + 1],
        first_reads: HashMap::new(),
        invalid: launch.shared_bytes,
        validity: 0,
        bytes: launch.shared_bytes,
        shadow: (launch.checks == Checks::Full).then(|| {
            Shadow::new(
                bytes,
                launch.program.shared_grain,
                launch.program.memory.len(),
            )
        }),
        barriers: Default::default(),
        completed: Vec::new(),
        live_threads: 0,
        progress: 0,
        exited_after: Vec::new(),
        printed: String::new(),
        work: BlockWork::default(),
        cycles: 0,
        reads: BlockReads::default(),
        order: BlockOrder::default(),
    };
    let warps = launch.block.iter().product::<u32>().div_ceil(32);
    Block {
        shared,
        warps: (0..warps).map(|index| exec.new_warp(index)).collect(),
        started: false,
    }
}

fn start(exec: &Exec<'_>, block: &mut Block, index: u64) {
    let [x, y, _] = exec.launch.grid.map(u64::from);
    let shared = &mut block.shared;
    shared.index = index;
    shared.coordinates = [
        (index % x) as u32,
        (index / x % y) as u32,
        (index / (x * y)) as u32,
    ];
    shared.words.fill(u32::MAX);
    shared.valid.fill(0);
    shared.first_reads.clear();
    shared.invalid = shared.bytes;
    shared.validity = (index + 1) << 32;
    if let Some(shadow) = &mut shared.shadow {
        shadow.clear();
    }
    shared.barriers = Default::default();
    shared.completed.clear();
    shared.live_threads = exec.launch.block.iter().product();
    shared.exited_after.clear();
    shared.printed.clear();
    shared.order.clear();
    shared.progress = 0;
    // Seeded schedules have no modelled time.
    let observed = exec.launch.placement.seed == 0 && is_observed(index, exec.launch.chosen.len());
    shared.reads.begin(observed);
    for warp in &mut block.warps {
        exec.start_warp(warp, shared);
    }
    if let Some(leftovers) = exec.launch.leftovers {
        leftovers.find(shared, &mut block.warps);
    }
    block.started = true;
}

/// Runs the warps of a block round-robin until every thread has exited, `rounds` rounds are over, or the launch ends.
fn run_rounds(
    exec: &mut Exec<'_>,
    block: &mut Block,
    isa: Isa,
    rounds: u32,
    rng: &mut Option<ScheduleRng>,
) -> RoundEnd {
    let mut order: Vec<usize> = (0..block.warps.len()).collect();
    let mut idle_rounds = 0;
    exec.wave = exec.launch.chosen.wave_of(block.shared.index);
    for _ in 0..rounds {
        if exec.launch.stopped_at.load(Relaxed) < block.shared.index {
            return RoundEnd::Fatal;
        }
        if let Some(rng) = rng {
            for i in (1..order.len()).rev() {
                order.swap(i, rng.below(i as u64 + 1) as usize);
            }
        }
        let mut moved = false;
        let mut live = false;
        // A round in which every warp only polls an mbarrier, and no other progress is made, would repeat for ever.
        let mut only_asks = true;
        let before = block.shared.progress;
        for &w in &order {
            let warp = &mut block.warps[w];
            if warp.live == 0 {
                continue;
            }
            let slice = rng.as_mut().map_or(SLICE, |rng| 1 + rng.below(200));
            let mut left = slice;
            warp.waits_at = None;
            warp.unused = 0;
            warp.repeats_read = false;
            let lanes = u64::from(warp.live.count_ones());
            let changed_before = std::mem::take(&mut exec.waiting.changed);
            let progress_before = block.shared.progress;
            let stop = simd::run(isa, exec, &mut block.shared, warp, &mut left);
            let executed = slice - left - warp.unused;
            exec.clock += executed;
            moved |= executed > 0;
            live |= warp.live != 0;
            only_asks &= warp.live == 0
                || stop == Stop::Waiting
                || (stop == Stop::Slice && warp.waits_at.is_some());
            let waits = stop == Stop::Waiting || warp.waits_at.is_some() || warp.repeats_read;
            exec.waiting.changed |= block.shared.progress != progress_before;
            // A slice that only waits is charged with the repeated reads, if at all.
            let only_waits = warp.repeats_read && !exec.waiting.changed;
            exec.waiting.changed |= changed_before || !waits;
            match stop {
                Stop::Fatal => return RoundEnd::Fatal,
                Stop::Done | Stop::Waiting | Stop::Slice => {}
            }
            // The budget is charged after every slice, because an endless loop may end each slice at a barrier.
            let work = executed * lanes;
            if only_waits {
                exec.waiting.charge += work;
                continue;
            }
            let spent = exec.launch.spent.fetch_add(work, Relaxed) + work;
            if spent > exec.launch.budget {
                record_exhausted_budget(exec, block, w);
                return RoundEnd::Fatal;
            }
        }
        if !live {
            finish(exec, block);
            return RoundEnd::Done;
        }
        let released = release_barriers(exec, block);
        exec.waiting.changed |= released || block.shared.progress != before;
        if !exec.launch.program.blocks_communicate && !settle_waiting(exec, block) {
            return RoundEnd::Fatal;
        }
        let asks = only_asks && block.warps.iter().any(|warp| warp.waits_at.is_some());
        if asks
            && !released
            && block.shared.progress == before
            && !exec.launch.program.blocks_communicate
        {
            idle_rounds += 1;
            // The fragments of a warp are polled one per round, so several idle rounds are needed before a deadlock is
            // certain.
            if idle_rounds > 64 {
                record_deadlock(exec, block);
                return RoundEnd::Fatal;
            }
        } else {
            idle_rounds = 0;
        }
        if !moved && !released {
            let freed = block
                .warps
                .iter_mut()
                .fold(false, |any, warp| warp.release_warp_waits() | any);
            if !freed {
                record_deadlock(exec, block);
                return RoundEnd::Fatal;
            }
        }
    }
    RoundEnd::Yield
}

/// Charges the budget for repeated reads if nothing has changed since the last call. False if the launch ends.
fn settle_waiting(exec: &mut Exec<'_>, block: &Block) -> bool {
    let waiting = std::mem::take(&mut exec.waiting);
    if waiting.changed || waiting.charge == 0 {
        return true;
    }
    let spent = exec.launch.spent.fetch_add(waiting.charge, Relaxed) + waiting.charge;
    if spent <= exec.launch.budget {
        return true;
    }
    let waits = block.warps.iter().position(|warp| warp.repeats_read);
    record_exhausted_budget(exec, block, waits.unwrap_or(0));
    false
}

fn finish(exec: &mut Exec<'_>, block: &mut Block) {
    let cycles = block
        .warps
        .iter()
        .map(|warp| warp.cycles)
        .max()
        .unwrap_or(0);
    block.shared.cycles = cycles;
    exec.cycles_max = exec.cycles_max.max(cycles);
    exec.cycles_sum += cycles;
    exec.reads_of_blocks.add(&mut block.shared.reads, cycles);
    if !block.shared.printed.is_empty() && exec.printed_bytes < exec.launch.printed_limit {
        exec.printed_bytes += block.shared.printed.len();
        exec.printed.push((
            block.shared.index,
            std::mem::take(&mut block.shared.printed),
        ));
    }
    block.started = false;
    if let Some(leftovers) = exec.launch.leftovers {
        leftovers.keep(&block.shared, &block.warps);
    }
}

/// Runs all blocks on this thread. Blocks that can wait for each other are resident together, up to `resident_blocks`;
/// otherwise one block runs at a time.
fn run_serially(exec: &mut Exec<'_>, config: &LaunchConfig<'_>, isa: Isa) {
    let chosen = &exec.launch.chosen;
    let communicate = exec.launch.program.blocks_communicate || config.cooperative;
    let mut rng = match config.schedule {
        Schedule::Serial => None,
        Schedule::Seeded(seed) => Some(ScheduleRng(seed)),
    };
    let mut order: Vec<u64> = (0..chosen.len()).map(|n| chosen.block(n)).collect();
    if let Some(rng) = &mut rng {
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i as u64 + 1) as usize);
        }
    }
    let mut next = order.into_iter();
    let resident = if communicate {
        u64::from(config.resident_blocks.max(1)).min(chosen.len()) as usize
    } else {
        1
    };
    let mut running: Vec<Block> = Vec::new();
    let mut idle: Vec<Block> = Vec::new();
    loop {
        let mut index = 0;
        while index < running.len() {
            let rounds = match (&mut rng, communicate) {
                (_, false) => u32::MAX,
                (None, true) => ROUNDS,
                (Some(rng), true) => 1 + rng.below(u64::from(ROUNDS)) as u32,
            };
            let ended = run_rounds(exec, &mut running[index], isa, rounds, &mut rng);
            // Seeded schedules have no modelled time, so they need no work per block.
            if rng.is_none() {
                block_work::charge(exec, &mut running[index].shared);
            }
            match ended {
                RoundEnd::Done => {
                    block_work::finish(exec, &mut running[index].shared);
                    idle.push(running.swap_remove(index));
                }
                RoundEnd::Yield => index += 1,
                RoundEnd::Fatal => return,
            }
        }
        if let Some(block) = running
            .iter()
            .find(|block| block.warps.iter().any(|warp| warp.repeats_read))
            && !settle_waiting(exec, block)
        {
            return;
        }
        // One block is added per round, because most kernels never need a second resident block.
        if running.len() < resident {
            match next.next() {
                Some(block) => {
                    exec.waiting.changed = true;
                    let mut state = idle.pop().unwrap_or_else(|| new_block(exec));
                    start(exec, &mut state, block);
                    running.push(state);
                }
                None if running.is_empty() => return,
                None => {}
            }
        }
    }
}

/// Runs blocks that cannot observe each other on several host threads. Each thread takes the next block that is left.
fn run_in_parallel<'a>(
    launch: &'a Launch<'a>,
    config: &LaunchConfig<'_>,
    isa: Isa,
    findings: usize,
) -> Vec<Exec<'a>> {
    let chosen = &launch.chosen;
    let next = AtomicU64::new(0);
    let workers = config
        .threads
        .min(usize::try_from(chosen.len()).unwrap_or(usize::MAX))
        .max(1);
    let work = || {
        let mut exec = Exec::new(launch, findings);
        let mut block = new_block(&exec);
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= chosen.len() {
                return exec;
            }
            let index = chosen.block(number);
            if launch.stopped_at.load(Relaxed) < index {
                return exec;
            }
            start(&exec, &mut block, index);
            run_rounds(&mut exec, &mut block, isa, u32::MAX, &mut None);
            block_work::charge(&mut exec, &mut block.shared);
            block_work::finish(&mut exec, &mut block.shared);
        }
    };
    std::thread::scope(|scope| {
        // This thread is one of the workers.
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
        let mut parts = vec![work()];
        for other in others {
            parts.push(
                other
                    .join()
                    .expect("a worker of the machine does not panic"),
            );
        }
        parts
    })
}

/// Reports whether blocks may run on several host threads: they must not be able to observe each other.
pub(crate) fn in_parallel(program: &Program, config: &LaunchConfig<'_>, blocks: u64) -> bool {
    config.threads > 1
        && blocks > 1
        && !program.blocks_communicate
        && !config.cooperative
        && config.schedule == Schedule::Serial
}

fn execute<'a>(
    launch: &'a Launch<'a>,
    config: &LaunchConfig<'_>,
    isa: Isa,
    limit: usize,
) -> Vec<Exec<'a>> {
    if launch.parallel {
        return run_in_parallel(launch, config, isa, limit);
    }
    let mut exec = Exec::new(launch, limit);
    run_serially(&mut exec, config, isa);
    vec![exec]
}

/// Executes the blocks of a sample, and returns the warp instructions of each that finished, by block. What they find
/// is left to the execution that counts.
pub(crate) fn look_at_blocks(
    launch: &Launch<'_>,
    config: &LaunchConfig<'_>,
    isa: Isa,
) -> Vec<(u64, u64)> {
    let parts = execute(launch, config, isa, 1).into_iter();
    let mut work: Vec<_> = parts.flat_map(|part| part.work_of_blocks).collect();
    work.sort_unstable();
    work
}

/// Executes a launch whose configuration is valid.
pub(crate) fn run(
    launch: &Launch<'_>,
    config: &LaunchConfig<'_>,
    isa: Isa,
    limit: usize,
) -> LaunchReport {
    let mut parts = execute(launch, config, isa, limit);
    for part in &mut parts {
        load_groups::settle(part);
    }
    let outcome = parts
        .iter()
        .filter_map(|exec| exec.outcome.clone())
        .min_by_key(|(block, _)| *block)
        .map_or(Outcome::Completed, |(_, outcome)| outcome);
    let counters = counters::total(launch, &parts);
    let mut printed: Vec<(u64, String)> = Vec::new();
    let mut findings = Vec::new();
    for mut part in parts {
        printed.append(&mut part.printed);
        findings.push(part.findings);
    }
    printed.sort_by_key(|(block, _)| *block);
    let mut text: String = printed.into_iter().map(|(_, text)| text).collect();
    if text.len() > launch.printed_limit {
        let end = (0..=launch.printed_limit)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text.truncate(end);
    }
    let (findings, findings_dropped) = Findings::merge(findings, limit);
    LaunchReport {
        kernel: launch.kernel.to_owned(),
        grid: launch.grid,
        block: launch.block,
        shared_bytes: launch.shared_bytes,
        outcome,
        findings,
        findings_dropped,
        printed: text,
        counters,
    }
}
