//! A kernel's profile in a few lines: times with their bottleneck, and the counters that explain
//! it.

use std::collections::BTreeMap;

use crate::cleaning;
use crate::device::Device;
use crate::evaluation::{CaseLaunches, Evaluation};
use crate::hottest_lines::{HottestLines, LineWork};
use crate::occupancy::{Limiter, occupancy};
use crate::role::{KernelResources, LaunchFacts};
use crate::statistics::{Bound, Floor};
use crate::timing::{CacheState, ModelledTime, Timing};

/// The most launches shown for one case.
const MAX_LAUNCHES: usize = 8;

/// A line per score case, with its launches where the time model has them apart and with its floor where
/// that is known, and a line with the largest bottleneck and the advice for it. Measured times are followed by
/// modelled ones where the emulated device explains them.
pub(super) fn times(timing: &Timing, evaluation: &Evaluation) -> Vec<String> {
    let mut lines: Vec<String> = match timing {
        Timing::Measured { cases, .. } => cases
            .iter()
            .map(|time| {
                format!(
                    "{}: {:.5} us measured, quartiles {:.5} to {:.5}",
                    time.cache.name_of(&cleaning::clean_line(&time.case, 60)),
                    time.median_us,
                    time.quartiles_us[0],
                    time.quartiles_us[1]
                ) + &floor(evaluation, &time.case, time.cache)
            })
            .collect(),
        Timing::Modelled { cases, .. } => cases
            .iter()
            .map(|time| {
                modelled(time, &evaluation.launches) + &floor(evaluation, &time.case, time.cache)
            })
            .collect(),
    };
    lines.extend(largest_bottleneck(timing));
    if let Some(explanation) = &evaluation.explanation
        && let Timing::Modelled { device, cases, .. } = &explanation.timing
    {
        let device = cleaning::clean_line(device, 60);
        let on = |line: String| format!("{line}; on the emulated {device}, which only explains");
        let told = cases
            .iter()
            .map(|time| modelled(time, &explanation.launches));
        lines.extend(told.map(on));
        lines.extend(largest_bottleneck(&explanation.timing));
    }
    lines
}

/// The modelled time of a score case with its launches.
fn modelled(time: &ModelledTime, launches: &[CaseLaunches]) -> String {
    let ran = launches.iter().find(|ran| ran.case == time.case);
    let parts = time.launches.iter().take(MAX_LAUNCHES).enumerate();
    let parts = parts.map(|(index, launch)| {
        let shape = ran
            .and_then(|ran| ran.launches.get(index))
            .map(shape)
            .unwrap_or_default();
        format!(
            "{}{shape} {:.5} us, {:.0}% of it bound by {}",
            cleaning::clean_line(&launch.kernel, 64),
            launch.us,
            100.0 * launch.share,
            bottleneck(&launch.bottleneck),
        )
    });
    let whole = format!(
        "{}: {:.5} us modelled",
        time.cache.name_of(&cleaning::clean_line(&time.case, 60)),
        time.us
    );
    std::iter::once(whole)
        .chain(parts)
        .collect::<Vec<_>>()
        .join("; ")
}

/// The floor of a case and the part of its time that the floor takes.
fn floor(evaluation: &Evaluation, case: &str, cache: CacheState) -> String {
    let mut floors = evaluation.floors.iter();
    let known = floors.find(|floor| floor.case == case && floor.cache == cache);
    let known = known.filter(|floor| floor.us > 0.0 && floor.found_us > 0.0);
    known.map_or_else(String::new, |floor| {
        let bound = match floor.bound {
            Bound::Bytes => "the bytes that must move",
            Bound::Operations => "the operations that must be done",
            Bound::Launch => "the launch",
        };
        format!(
            "; no kernel takes less than {:.5} us because of {bound}, {:.0}% of the time found",
            floor.us,
            100.0 * floor.us / floor.found_us
        )
    })
}

/// The launch and the term of the time model that take most of the modelled time, with advice.
fn largest_bottleneck(timing: &Timing) -> Option<String> {
    let (time, launch) = timing.largest_bottleneck()?;
    Some(format!(
        "largest bottleneck (modelled): {} in {} on {}; {}",
        bottleneck(&launch.bottleneck),
        cleaning::clean_line(&launch.kernel, 64),
        time.cache.name_of(&cleaning::clean_line(&time.case, 60)),
        advice(&launch.bottleneck)?,
    ))
}

/// The least part of a measured time that a floor takes where its resource bounds the kernel.
const NEAR_FLOOR: f64 = 0.3;

/// The term of the time model that takes most of a modelled time. A measured time has no terms: those that explain it
/// stand for them; without an explanation its nearest floor does, and latency where no floor is near. None where the
/// device's rates are not known.
pub(super) fn name_bottleneck(timing: &Timing, evaluation: &Evaluation) -> Option<String> {
    let explanation = evaluation.explanation.as_ref();
    let modelled = explanation.map_or(timing, |explanation| &explanation.timing);
    if let Some((_, launch)) = modelled.largest_bottleneck() {
        return Some(launch.bottleneck.clone());
    }
    let share = |floor: &Floor| floor.us / floor.found_us;
    let known = evaluation
        .floors
        .iter()
        .filter(|floor| share(floor).is_finite());
    let nearest = known.max_by(|one, other| share(one).total_cmp(&share(other)))?;
    let term = match nearest.bound {
        _ if share(nearest) < NEAR_FLOOR => "critical_path",
        Bound::Bytes => "dram_bytes",
        Bound::Operations => "fp32",
        Bound::Launch => "launch",
    };
    Some(term.to_owned())
}

/// The changes that shorten a term of the time model.
fn advice(name: &str) -> Option<&'static str> {
    Some(match name {
        "issue" => {
            "issue fewer instructions: 16-byte loads and stores, unrolled loops, index arithmetic outside of loops"
        }
        "fp32" | "fp16" | "fp64" => {
            "compute less: fused multiply-adds, values that are reused instead of recomputed, faster units where the tolerance allows"
        }
        "integer" => "move index arithmetic out of loops, and use powers of two for strides",
        "special" => {
            "fewer exponentials and divisions: exp2 with a folded factor, one reciprocal for many quotients"
        }
        "conversion" => "convert once, in vectors of two, and keep the converted values",
        "load_store" => "load more bytes with each instruction, and keep values in registers",
        "tensor" => "keep the matrix units fed, and give them no padding to multiply",
        "shared_wavefronts" => {
            "remove bank conflicts by padding or swizzling in units of 16 bytes, and keep more in registers"
        }
        "l1_sectors" => {
            "let neighbouring threads read neighbouring addresses, and reuse tiles from shared memory"
        }
        "l2_bytes" => {
            "reuse more of what is loaded: larger tiles in each block, or several blocks that share a tile in turn"
        }
        "atomic_contention" => {
            "reduce within a warp and a block first, or write partial results to a workspace"
        }
        "dram_bytes" => "move fewer bytes: fuse passes, read each input once, smaller workspaces",
        "critical_path" => {
            "shorten or hide the dependent chain: more blocks or warps, independent loads ahead of their use, a split of the reduction"
        }
        "launch" => {
            "fewer launches: join kernels, or let the last block to finish do the second step"
        }
        _ => return None,
    })
}

fn shape(launch: &LaunchFacts) -> String {
    let extents = |of: [u32; 3]| {
        let used = 3 - of.iter().rev().take_while(|&&n| n == 1).count();
        let extents = of[..used.max(1)].iter().map(u32::to_string);
        extents.collect::<Vec<_>>().join("x")
    };
    format!(
        " (grid {}, block {})",
        extents(launch.grid),
        extents(launch.block)
    )
}

/// The name of a term of the time model with its meaning.
fn bottleneck(name: &str) -> String {
    let meaning = match name {
        "issue" => "the schedulers' issue slots",
        "fp32" => "f32 arithmetic",
        "fp16" => "f16 and bf16 arithmetic",
        "fp64" => "f64 arithmetic",
        "integer" => "integer and logic instructions",
        "special" => "exponentials, roots and reciprocals",
        "conversion" => "conversions between types",
        "load_store" => "load and store instructions",
        "tensor" => "tensor cores",
        "shared_wavefronts" => "passes through shared memory's banks, shuffles included",
        "l1_sectors" => "sectors and passes of loads through the first level cache",
        "l2_bytes" => "bytes through the second level cache",
        "atomic_contention" => "atomics on one word, which follow each other",
        "dram_bytes" => "bytes from and to device memory",
        "critical_path" => "one block's dependent chain, latency that nothing hides",
        "launch" => "the fixed cost of a launch",
        _ => return cleaning::clean_line(name, 40),
    };
    format!("{name} ({meaning})")
}

/// The counters of each kernel on the case where it takes longest; where times are measured, those of the emulated
/// device that explains them.
pub(super) fn counters(evaluation: &Evaluation) -> Vec<String> {
    let mut slowest: BTreeMap<&str, (&str, &LaunchFacts)> = BTreeMap::new();
    let cost = |launch: &LaunchFacts| {
        let modelled = launch.modelled.as_ref().map_or(0.0, |time| time.us);
        let blocks = launch.grid.iter().map(|&n| u64::from(n)).product::<u64>();
        (modelled, blocks)
    };
    let explanation = evaluation.explanation.as_ref();
    let launches = explanation.map_or(&evaluation.launches, |explanation| &explanation.launches);
    for ran in launches {
        for launch in &ran.launches {
            let known = slowest.entry(&launch.kernel).or_insert((&ran.case, launch));
            if cost(launch) > cost(known.1) {
                *known = (&ran.case, launch);
            }
        }
    }
    let mut lines = Vec::new();
    for (kernel, (case, launch)) in slowest {
        let resources = evaluation.kernels.iter().find(|of| of.kernel == kernel);
        let mut facts = Vec::new();
        if let (Some(resources), Some(device)) = (resources, &evaluation.device) {
            facts.push(residency(resources, launch, device));
            let spills = resources.spill_bytes;
            facts.extend((spills > 0).then(|| format!("{spills} bytes of spills")));
        }
        facts.extend(traffic(&launch.counters));
        facts.extend(explanation.map(|_| "counted on an emulated device".to_owned()));
        if !facts.is_empty() {
            let (kernel, case) = (
                cleaning::clean_line(kernel, 64),
                cleaning::clean_line(case, 60),
            );
            lines.push(format!("{kernel} on {case}: {}", facts.join("; ")));
        }
    }
    lines
}

/// A line for each of the hottest source lines; `quote` gives a line's number with its text.
pub(super) fn hottest_lines(hottest: &HottestLines, quote: impl Fn(u32) -> String) -> Vec<String> {
    let (work, ideal) = match hottest.work {
        LineWork::Instructions => ("instructions", ""),
        LineWork::GlobalSectors => (
            "sectors of global memory",
            "times the sectors that its bytes need",
        ),
        LineWork::SharedWavefronts => (
            "passes through shared memory",
            "times the passes that its bytes need (bank conflicts)",
        ),
    };
    let (kernel, case) = (
        cleaning::clean_line(&hottest.kernel, 64),
        cleaning::clean_line(&hottest.case, 60),
    );
    let told = hottest.lines.iter().map(|line| {
        let excess = line.times_ideal.filter(|_| !ideal.is_empty());
        let excess = excess.map_or_else(String::new, |times| format!("; {times:.2} {ideal}"));
        format!(
            "{}: {:.0}% of the {work} of {kernel} on {case}{excess}",
            quote(line.line),
            100.0 * line.share
        )
    });
    told.collect()
}

fn traffic(counters: &BTreeMap<String, u64>) -> Vec<String> {
    let ratio = |found: &str, ideal: &str| {
        let (found, ideal) = (*counters.get(found)?, *counters.get(ideal)?);
        #[expect(clippy::cast_precision_loss, reason = "a ratio to read")]
        (ideal > 0).then(|| found as f64 / ideal as f64)
    };
    let told = [
        (
            "global.sectors_read",
            "global.sectors_read_ideal",
            "times the sectors that the bytes read need",
        ),
        (
            "global.sectors_written",
            "global.sectors_written_ideal",
            "times the sectors that the bytes written need",
        ),
        (
            "global.sectors_read",
            "unique_sectors_read",
            "reads of each sector",
        ),
        (
            "shared.wavefronts",
            "shared.wavefronts_ideal",
            "times the passes through shared memory that its bytes need (bank conflicts)",
        ),
    ];
    let mut facts: Vec<String> = told
        .into_iter()
        .filter_map(|(found, ideal, words)| Some(format!("{:.2} {words}", ratio(found, ideal)?)))
        .collect();
    if let Some(macs) = counters.get("tensor_macs") {
        facts.push(if *macs == 0 {
            "tensor cores unused".to_owned()
        } else {
            format!("{macs} multiply-adds on tensor cores")
        });
    }
    if let Some(divergent) = counters.get("divergent_branches").filter(|&&n| n > 0) {
        let all = counters.get("classes.branch").copied().unwrap_or_default();
        facts.push(format!("{divergent} of {all} branches diverge"));
    }
    facts
}

/// The number of blocks launched, the number of resident blocks on a multiprocessor with their limiting resource, and
/// what a block needs.
fn residency(resources: &KernelResources, launch: &LaunchFacts, device: &Device) -> String {
    let threads = launch.block.iter().product::<u32>();
    let held = occupancy(resources, threads, launch.shared_bytes, device);
    let limit = match held.limited_by {
        Limiter::Threads => "threads",
        Limiter::Registers => "registers",
        Limiter::Blocks => "the limit on blocks",
        Limiter::Shared => "shared memory",
    };
    let blocks = launch.grid.iter().map(|&n| u64::from(n)).product::<u64>();
    format!(
        "{blocks} blocks over {} multiprocessors, each can hold {} ({} of {} warps, limited by {limit}); \
         {} registers per thread, {} bytes of shared memory per block",
        device.limits.sm_count,
        held.blocks_per_sm,
        held.warps,
        held.warps_limit,
        resources.registers,
        resources.static_shared_bytes + launch.shared_bytes
    )
}
