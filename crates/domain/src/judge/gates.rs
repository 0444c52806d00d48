//! Soft gates: values of a candidate compared with the task's limits.

use std::collections::BTreeMap;

use super::may_reject;
use crate::device::Limits;
use crate::evaluation::{EvaluationStage, GateOutcome};
use crate::plan::{ResolvedPlan, ResolvedStep};
use crate::role::{KernelResources, LaunchFacts};
use crate::task::{Enforce, Gate, GateSubject, Task};
use crate::verdict::Verdict;

/// The counter of a launch's blocks that share its memory traffic.
const WORKING_BLOCKS: &str = "working_blocks";

/// The counters of passes of shared memory, and of the passes without bank conflicts.
const SHARED_PASSES: [&str; 2] = ["shared.wavefronts", "shared.wavefronts_ideal"];

/// Resources whose busy time gates limit, with the terms of the time model that are theirs. Of several the largest
/// counts, because units of a multiprocessor work side by side.
const RESOURCES: [(GateSubject, &[&str]); 4] = [
    (GateSubject::TensorPercent, &["tensor"]),
    (
        GateSubject::SmPercent,
        &[
            "issue",
            "fp32",
            "fp16",
            "fp64",
            "integer",
            "special",
            "conversion",
            "load_store",
            "tensor",
            "shared_wavefronts",
            "l1_sectors",
        ],
    ),
    (GateSubject::L2Percent, &["l2_bytes"]),
    (GateSubject::DramPercent, &["dram_bytes"]),
];

/// The facts of one case's launches that gates limit, as far as they are known.
#[derive(Debug, Clone, PartialEq)]
pub struct GateFacts<'a> {
    case: &'a str,
    blocks: Blocks,
    /// Percentages by subject; empty before anything ran, and on a device without counters.
    percent: BTreeMap<GateSubject, f64>,
}

#[derive(Debug, Clone, PartialEq)]
enum Blocks {
    /// The fewest and most blocks of the planned launches: none ran, so it is unknown which does the work.
    Planned { fewest: u64, most: u64 },
    /// Those of the launches that do the work.
    Executed(u64),
}

impl<'a> GateFacts<'a> {
    /// The facts of a plan, before it runs; none for a plan without a launch.
    pub fn planned(case: &'a str, plan: &ResolvedPlan) -> Option<Self> {
        let blocks = || {
            plan.steps.iter().filter_map(|step| match step {
                ResolvedStep::Kernel(launch) => Some(launch.blocks()),
                ResolvedStep::Memset { .. } => None,
            })
        };
        Some(Self {
            case,
            blocks: Blocks::Planned {
                fewest: blocks().min()?,
                most: blocks().max()?,
            },
            percent: BTreeMap::new(),
        })
    }

    /// The facts of an execution. Its blocks are the largest number such that launches of at least as
    /// many do more than half of the work, which is the time beyond that of an empty launch.
    ///
    /// Blocks without a share of the launch's memory traffic do not count, where the device tells how
    /// many have one. Where a launch has no such time the one with the fewest blocks counts. None without
    /// launches.
    pub fn executed(case: &'a str, launches: &[LaunchFacts]) -> Option<Self> {
        let mut shares = launches
            .iter()
            .map(|launch| {
                let launched: u64 = launch.grid.iter().map(|&n| u64::from(n)).product();
                let working = launch.counters.get(WORKING_BLOCKS);
                let blocks = working.map_or(launched, |working| launched.min(*working));
                let work = launch
                    .modelled
                    .as_ref()
                    .map(|time| time.us - time.launch_us);
                (blocks, work.filter(|us| us.is_finite() && *us >= 0.0))
            })
            .collect::<Vec<_>>();
        shares.sort_by_key(|&(blocks, _)| std::cmp::Reverse(blocks));
        let fewest = shares.last()?.0;
        let total: Option<f64> = shares.iter().map(|&(_, work)| work).sum();
        let mut done = 0.0;
        let working = shares.iter().find(|&&(_, work)| {
            done += work.unwrap_or(0.0);
            total.is_some_and(|total| 2.0 * done > total)
        });
        Some(Self {
            case,
            blocks: Blocks::Executed(working.map_or(fewest, |&(blocks, _)| blocks)),
            percent: percentages(launches),
        })
    }

    /// The blocks that a gate limits, per multiprocessor; none if it depends on which launch does
    /// the work.
    fn blocks_per_sm(&self, gate: &Gate, limits: &Limits) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a ratio to show and compare")]
        let ratio = |blocks: u64| blocks as f64 / f64::from(limits.sm_count.max(1));
        match self.blocks {
            Blocks::Executed(blocks) => Some(ratio(blocks)),
            Blocks::Planned { fewest, most } => {
                let (fewest, most) = (ratio(fewest), ratio(most));
                if gate.min.is_some_and(|min| most < min) {
                    Some(most)
                } else if gate.max.is_some_and(|max| fewest > max) {
                    Some(fewest)
                } else {
                    let certain = meets(gate, fewest) && meets(gate, most);
                    certain.then_some(if gate.min.is_some() { fewest } else { most })
                }
            }
        }
    }
}

/// The busy times of resources over the time of all launches, and the share of passes that conflicts add, as far as
/// the device tells them of every launch.
fn percentages(launches: &[LaunchFacts]) -> BTreeMap<GateSubject, f64> {
    let mut found = BTreeMap::new();
    let times = launches
        .iter()
        .map(|launch| Some(launch.modelled.as_ref()?.us));
    let total = times.sum::<Option<f64>>().filter(|total| *total > 0.0);
    let has_terms = launches
        .iter()
        .all(|launch| !launch.modelled_terms.is_empty());
    if let Some(total) = total.filter(|_| has_terms) {
        for (subject, terms) in RESOURCES {
            let of_launch = |launch: &LaunchFacts| {
                let times = terms
                    .iter()
                    .filter_map(|term| launch.modelled_terms.get(*term));
                times.copied().fold(0.0, f64::max)
            };
            let busy = launches.iter().map(of_launch).sum::<f64>();
            found.insert(subject, 100.0 * busy / total);
        }
    }
    let passes = SHARED_PASSES.map(|name| {
        let counts = launches.iter().map(|launch| launch.counters.get(name));
        counts.map(Option::<&u64>::copied).sum::<Option<u64>>()
    });
    if let [Some(all), Some(ideal)] = passes {
        #[expect(clippy::cast_precision_loss, reason = "a ratio to show and compare")]
        let share = all.saturating_sub(ideal) as f64 / all.max(1) as f64;
        found.insert(GateSubject::BankConflictPercent, 100.0 * share);
    }
    found
}

/// Every soft gate that the facts can decide, the task's own first, then each phase's.
///
/// `launches` has an entry for each score case; before anything ran, a gate on blocks is left
/// out where its outcome depends on which launch does the work, and gates on counters are left out.
/// `kernels` is empty before the compilation, and gates on resources are then left out.
pub fn evaluate_gates(
    task: &Task,
    launches: &[GateFacts<'_>],
    kernels: &[KernelResources],
    limits: &Limits,
) -> Vec<GateOutcome> {
    let own = task.gates.iter().map(|gate| (None, gate));
    let phases = task.phases.iter().flat_map(|phase| {
        let name = Some(phase.name.as_str());
        phase.gates.iter().map(move |gate| (name, gate))
    });
    own.chain(phases)
        .flat_map(|(phase, gate)| {
            findings(gate, launches, kernels, limits)
                .into_iter()
                .map(move |(case, found)| outcome(gate, phase, case, found))
        })
        .collect()
}

/// The verdict on a candidate that breaks a rejecting gate: one of the task's own, or of the
/// phase the candidate says it belongs to. A baseline is never rejected.
pub fn judge_gates(
    outcomes: &[GateOutcome],
    phase: Option<&str>,
    stage: EvaluationStage,
) -> Option<Verdict> {
    let broken = outcomes.iter().find(|outcome| {
        let applies = outcome.phase.is_none() || outcome.phase.as_deref() == phase;
        outcome.enforce == Enforce::Reject && !outcome.met && applies
    })?;
    let beyond_max = broken.max.filter(|max| broken.found > *max);
    may_reject(stage).then(|| Verdict::GateRejected {
        gate: broken.subject.as_str().to_owned(),
        limit: beyond_max.or(broken.min).unwrap_or(f64::NAN),
        found: broken.found,
    })
}

fn outcome(gate: &Gate, phase: Option<&str>, case: Option<&str>, found: f64) -> GateOutcome {
    GateOutcome {
        subject: gate.subject,
        phase: phase.map(str::to_owned),
        case: case.map(str::to_owned),
        min: gate.min,
        max: gate.max,
        found,
        met: meets(gate, found),
        enforce: gate.enforce,
    }
}

fn meets(gate: &Gate, found: f64) -> bool {
    gate.min.is_none_or(|min| found >= min) && gate.max.is_none_or(|max| found <= max)
}

/// The values found of a subject: per score case, or one.
fn findings<'a>(
    gate: &Gate,
    launches: &[GateFacts<'a>],
    kernels: &[KernelResources],
    limits: &Limits,
) -> Vec<(Option<&'a str>, f64)> {
    let largest = |of: fn(&KernelResources) -> u32| kernels.iter().map(of).max().map(f64::from);
    let once = |found: Option<f64>| found.map(|found| (None, found)).into_iter().collect();
    match gate.subject {
        GateSubject::CtasPerSm => launches
            .iter()
            .filter_map(|facts| Some((Some(facts.case), facts.blocks_per_sm(gate, limits)?)))
            .collect(),
        GateSubject::TensorPercent
        | GateSubject::SmPercent
        | GateSubject::L2Percent
        | GateSubject::DramPercent
        | GateSubject::BankConflictPercent => launches
            .iter()
            .filter_map(|facts| Some((Some(facts.case), *facts.percent.get(&gate.subject)?)))
            .collect(),
        GateSubject::Registers => once(largest(|kernel| kernel.registers)),
        GateSubject::StaticSharedBytes => once(largest(|kernel| kernel.static_shared_bytes)),
        GateSubject::SpillBytes if kernels.is_empty() => Vec::new(),
        GateSubject::SpillBytes => once(Some(
            kernels
                .iter()
                .map(|kernel| f64::from(kernel.spill_bytes))
                .sum(),
        )),
    }
}
