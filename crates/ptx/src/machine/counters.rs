//! Counters per source line and per launch, added up from the counts per instruction.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::block_reads::ReadsOfBlocks;
use super::block_work::BlocksByTraffic;
use super::contention::Contention;
use super::counts::Issued;
use super::exec::{Exec, Launch, Reuse};
use super::expansion;
use super::multiprocessors::place;
use crate::code::{Class, MemSpace, Op};
use crate::report::{
    BlockWork, BusiestMultiprocessor, Classes, Counters, LineTally, PersistingSectors, Tally,
};
use crate::tensor::TensorKind;

pub(super) fn slot_of(classes: &mut Classes, class: Class) -> &mut u64 {
    match class {
        Class::Fp32 => &mut classes.fp32,
        Class::Fp16 => &mut classes.fp16,
        Class::Fp64 => &mut classes.fp64,
        Class::Integer
        | Class::DivisionU32
        | Class::DivisionS32
        | Class::DivisionU64
        | Class::DivisionS64 => &mut classes.integer,
        Class::Special => &mut classes.special,
        Class::Conversion => &mut classes.conversion,
        Class::WideConversion => &mut classes.wide_conversion,
        Class::Move => &mut classes.moves,
        Class::LoadGlobal => &mut classes.load_global,
        Class::StoreGlobal => &mut classes.store_global,
        Class::LoadShared => &mut classes.load_shared,
        Class::StoreShared => &mut classes.store_shared,
        Class::Local => &mut classes.local,
        Class::Constant => &mut classes.constant,
        Class::AtomicGlobal => &mut classes.atomic_global,
        Class::AtomicShared => &mut classes.atomic_shared,
        Class::AsyncCopy => &mut classes.async_copy,
        Class::Tensor => &mut classes.tensor,
        Class::Warp => &mut classes.warp,
        Class::Branch => &mut classes.branch,
        Class::Barrier => &mut classes.barrier,
        Class::Other => &mut classes.other,
    }
}

/// The counters of one instruction over the whole launch.
fn instruction(
    launch: &Launch<'_>,
    parts: &[Exec<'_>],
    issued: &[Vec<Issued>],
    pc: usize,
) -> Tally {
    let mut tally = Tally::default();
    let class = launch.program.class[pc];
    let inst = launch.program.code[pc];
    let writes = match inst.op {
        Op::Store => true,
        Op::Tensor => matches!(
            launch.program.tensor[inst.x as usize].kind,
            TensorKind::Store { .. } | TensorKind::StoreMatrix { .. }
        ),
        _ => false,
    };
    let both = matches!(inst.op, Op::Atomic);
    for (part, issued) in parts.iter().zip(issued) {
        let (issued, moved) = (issued[pc], part.moved[pc]);
        tally.warp_instructions += issued.warps;
        tally.thread_instructions += issued.lanes;
        expansion::charge(&mut tally.classes, class, issued.warps);
        expansion::charge_long_division(&mut tally.classes, class, part.long_divisions[pc].get());
        if !writes {
            tally.global.sectors_read += moved.sectors;
            tally.global.sectors_read_ideal += moved.sectors_ideal;
            tally.global.bytes_read += moved.bytes;
            tally.shared.bytes_read += moved.shared_bytes;
        }
        if writes || both {
            tally.global.sectors_written += moved.sectors;
            tally.global.sectors_written_ideal += moved.sectors_ideal;
            tally.global.bytes_written += moved.lane_bytes;
        }
        if writes || both || inst.op == Op::AsyncCopy {
            tally.shared.bytes_written += moved.shared_bytes;
        }
        if class == Class::Constant {
            tally.classes.constant_replays += moved.wavefronts;
        } else if loads_global(launch, pc) {
            tally.global.l1_wavefronts += moved.wavefronts;
        } else {
            tally.shared.wavefronts += moved.wavefronts;
            tally.shared.wavefronts_ideal += moved.wavefronts_ideal;
            tally.shared.bank_conflicts += moved.wavefronts - moved.wavefronts_ideal;
        }
        tally.local_bytes += moved.local_bytes;
        tally.divergent_branches += part.divergent[pc];
        if inst.op == Op::Tensor {
            tally.tensor_macs += issued.warps * launch.program.tensor[inst.x as usize].kind.macs();
        }
    }
    if inst.op == Op::AsyncCopy {
        tally.shared.bytes_read = 0;
    }
    tally
}

/// Reports whether an instruction loads from device memory, and from nothing else.
fn loads_global(launch: &Launch<'_>, pc: usize) -> bool {
    let inst = launch.program.code[pc];
    let operand = match inst.op {
        Op::Load => inst.x,
        Op::Tensor => launch.program.tensor[inst.x as usize].memory,
        _ => return false,
    };
    let operand = launch.program.memory.get(operand as usize);
    operand.is_some_and(|operand| operand.space == MemSpace::Global)
}

/// Reports whether an instruction reads device memory past the L1 cache.
fn is_past_l1(launch: &Launch<'_>, pc: usize) -> bool {
    let inst = launch.program.code[pc];
    match inst.op {
        Op::Atomic => true,
        Op::AsyncCopy => !launch.program.copies[inst.x as usize].cached,
        Op::Load => !launch.program.memory[inst.x as usize].is_cached(),
        _ => false,
    }
}

/// The factor from the sampled blocks to the whole grid: that of their numbers, or that of their work where they
/// differ.
#[derive(Debug, Clone, Copy)]
struct Scale {
    blocks: u64,
    executed: u64,
    /// The work of the whole grid over that of the executed blocks.
    of_work: Option<f64>,
}

impl Scale {
    fn of(launch: &Launch<'_>, parts: &[Exec<'_>]) -> Self {
        let of_work = launch.survey.as_ref().and_then(|survey| {
            let executed = parts.iter().flat_map(|part| &part.work_of_blocks);
            let executed: u64 = executed.map(|(_, work)| survey.counted(*work)).sum();
            // No less than what was seen.
            (executed > 0).then(|| (survey.of_grid() / executed as f64).max(1.0))
        });
        Self {
            blocks: launch.chosen.grid(),
            executed: launch.chosen.len(),
            of_work,
        }
    }

    fn up(self, count: u64) -> u64 {
        if self.executed == self.blocks {
            return count;
        }
        if let Some(factor) = self.of_work {
            return (count as f64 * factor).round() as u64;
        }
        let all = u128::from(count) * u128::from(self.blocks) / u128::from(self.executed.max(1));
        u64::try_from(all).unwrap_or(u64::MAX)
    }
}

/// Sums of the 1, 2, 4, 8... largest counts, and of all.
fn sums_of_most(mut counts: Vec<u64>) -> Vec<u64> {
    counts.sort_unstable_by(|left, right| right.cmp(left));
    let mut sums = Vec::new();
    let mut sum = 0;
    for (number, count) in (1..=counts.len()).zip(&counts) {
        sum += count;
        if number.is_power_of_two() || number == counts.len() {
            sums.push(sum);
        }
    }
    sums
}

/// The most work of any block, for each kind of work.
fn heaviest_block(parts: &[Exec<'_>]) -> BlockWork {
    let mut heaviest = BlockWork::default();
    for part in parts {
        heaviest.combine(&part.heaviest, u64::max);
    }
    heaviest
}

/// The work of the busiest multiprocessor; none if not all blocks have ended, or they were too many to place.
fn busiest_multiprocessor(
    launch: &Launch<'_>,
    parts: &[Exec<'_>],
) -> Option<BusiestMultiprocessor> {
    let ended: Vec<_> = parts.iter().flat_map(|part| &part.ended).collect();
    (ended.len() as u64 == launch.chosen.grid()).then(|| {
        let resident = launch.resident_blocks / u64::from(launch.multiprocessors.max(1));
        place(ended, launch.multiprocessors, resident)
    })
}

/// Adds up all counters of a launch.
///
/// If only a sample of the blocks ran, counts are scaled to the whole grid, and distinct sectors by what the last
/// wave of a run added. They are limited to the size of their buffer.
pub(crate) fn total(launch: &Launch<'_>, parts: &[Exec<'_>]) -> Counters {
    let (blocks, executed) = (launch.chosen.grid(), launch.chosen.len());
    let scale = Scale::of(launch, parts);
    // The part of the mean work of the executed blocks that the mean block of the grid has.
    let mean = scale
        .of_work
        .map_or(1.0, |factor| factor * executed as f64 / blocks as f64);
    let mut total = Tally::default();
    let mut lines: BTreeMap<(Option<u32>, u32), Tally> = BTreeMap::new();
    let issued: Vec<Vec<Issued>> = parts.iter().map(|part| part.counts.totals()).collect();
    let mut executed_at = Vec::new();
    let mut sectors_read_past_l1 = 0;
    for pc in 0..launch.program.code.len() {
        if issued.iter().all(|part| part[pc].warps == 0) {
            continue;
        }
        executed_at.push(scale.up(issued.iter().map(|part| part[pc].warps).sum()));
        let mut tally = instruction(launch, parts, &issued, pc);
        tally.combine(&Tally::default(), |count, _| scale.up(count));
        if is_past_l1(launch, pc) {
            sectors_read_past_l1 += tally.global.sectors_read;
        }
        total.add(&tally);
        let origin = launch.program.origin[pc];
        let key = origin.place.map_or((None, origin.ptx_line), |place| {
            (Some(place.file), place.line)
        });
        lines.entry(key).or_default().add(&tally);
    }
    let marked = |bits: &[AtomicU32]| -> u64 {
        bits.iter()
            .map(|cell| u64::from(cell.load(Relaxed).count_ones()))
            .sum()
    };
    let mut unique_sectors_read = 0;
    let mut unique_sectors_written = 0;
    let mut cached_sectors_read = 0;
    let mut cached_sectors = launch.memory.cached_sectors();
    let persisting_ranges = launch.memory.persisting();
    let mut persisting = PersistingSectors {
        held: launch.memory.persisting_sectors(),
        ..PersistingSectors::default()
    };
    let reuse = launch.tells_waves.then(|| {
        let (tracks, chosen) = (&launch.tracks, &launch.chosen);
        Reuse::new(tracks, persisting_ranges, chosen, scale.of_work)
    });
    for (number, track) in launch.tracks.iter().enumerate() {
        let all = track.allocation.bytes().div_ceil(32);
        let up = |count: u64| match &reuse {
            Some(reuse) => (count as f64 * reuse.growth[number]).round() as u64,
            None => scale.up(count),
        };
        let distinct = |bits: &[AtomicU32]| up(marked(bits)).min(all);
        let (read, written) = (distinct(&track.read), distinct(&track.written));
        unique_sectors_read += read;
        unique_sectors_written += written;
        cached_sectors_read += up(track.count_found(|_| u32::MAX)).min(read);
        cached_sectors -= track.allocation.cached_among(track.touched());
        cached_sectors += up(track.count_touched()).min(all);
        let kept = track.allocation.sectors_in(persisting_ranges);
        if !kept.is_empty() {
            let among = |bits: &[AtomicU32]| -> u64 {
                let both = bits.iter().zip(&kept);
                both.map(|(cell, kept)| u64::from((cell.load(Relaxed) & kept).count_ones()))
                    .sum()
            };
            persisting.read += up(among(&track.read)).min(all);
            persisting.found += up(track.count_found(|cell| kept[cell])).min(all);
            persisting.written += up(among(&track.written)).min(all);
            let touched = track
                .touched()
                .zip(&kept)
                .map(|(touched, kept)| touched & kept);
            persisting.held -= track.allocation.cached_among(touched);
            persisting.held += up(track.count_touched_among(&kept)).min(all);
        }
    }
    let threads = launch.block.iter().map(|n| u64::from(*n)).product::<u64>();
    let contention: Vec<&Contention> = parts.iter().map(|part| &part.contention).collect();
    Counters {
        sampled_blocks: (executed < blocks).then_some(executed),
        sampling_error_permille: launch
            .survey
            .as_ref()
            .map(|survey| (1000.0 * survey.error()).round() as u64),
        blocks,
        warps: blocks * threads.div_ceil(32),
        threads: blocks * threads,
        total,
        places: executed_at.len() as u64,
        hottest_places: sums_of_most(executed_at),
        unique_sectors_read,
        unique_sectors_written,
        cached_sectors_read,
        cached_sectors,
        persisting: (persisting.held > 0).then_some(persisting),
        sectors_read_past_l1,
        block_reads: parts
            .iter()
            .fold(ReadsOfBlocks::default(), |all, part| {
                all.merge(&part.reads_of_blocks)
            })
            .mean(),
        working_sets: reuse.map(|reuse| reuse.working_sets).unwrap_or_default(),
        heaviest_block: heaviest_block(parts),
        busiest_multiprocessor: busiest_multiprocessor(launch, parts),
        most_atomics_on_one_word: scale.up(Contention::most(&contention)),
        working_blocks: scale.up(parts
            .iter()
            .fold(BlocksByTraffic::default(), |all, part| {
                all.merge(&part.by_traffic)
            })
            .working()),
        critical_path_max: parts.iter().map(|part| part.cycles_max).max().unwrap_or(0),
        critical_path_mean: parts.iter().map(|part| part.cycles_sum).sum::<u64>() as f64
            / executed.max(1) as f64
            * mean,
        registers_estimate: launch.program.registers_estimate,
        lines: lines
            .into_iter()
            .map(|((file, line), tally)| LineTally {
                file: file.and_then(|file| launch.program.files.get(&file).cloned()),
                line,
                tally,
            })
            .collect(),
    }
}
