//! Soft gates: measured values compared with the task's limits.

use super::may_reject;
use crate::device::Limits;
use crate::evaluation::{EvaluationStage, GateOutcome};
use crate::plan::{ResolvedPlan, ResolvedStep};
use crate::role::{KernelResources, LaunchFacts};
use crate::task::{Enforce, Gate, GateSubject, Task};
use crate::verdict::Verdict;

/// The counter of a launch's blocks that share its memory traffic.
const WORKING_BLOCKS: &str = "working_blocks";

/// The blocks of one case's launches, as far as they are known.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseBlocks<'a> {
    case: &'a str,
    blocks: Blocks,
}

#[derive(Debug, Clone, PartialEq)]
enum Blocks {
    /// The fewest and most blocks of the planned launches: none ran, so it is unknown which does the work.
    Planned { fewest: u64, most: u64 },
    /// Those of the launches that do the work.
    Executed(u64),
}

impl<'a> CaseBlocks<'a> {
    /// The blocks of a plan, before it runs; none for a plan without a launch.
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
        })
    }

    /// The blocks of an execution: the largest number of blocks such that launches of at least as
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
        })
    }

    /// The value that a gate limits, per multiprocessor; none if it depends on which launch does
    /// the work.
    fn found(&self, gate: &Gate, limits: &Limits) -> Option<f64> {
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

/// Every soft gate that the facts can decide, the task's own first, then each phase's.
///
/// `launches` has an entry for each score case; before anything ran, a gate on blocks is left
/// out where its outcome depends on which launch does the work. `kernels` is empty before the
/// compilation, and gates on resources are then left out.
pub fn evaluate_gates(
    task: &Task,
    launches: &[CaseBlocks<'_>],
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
    launches: &[CaseBlocks<'a>],
    kernels: &[KernelResources],
    limits: &Limits,
) -> Vec<(Option<&'a str>, f64)> {
    let largest = |of: fn(&KernelResources) -> u32| kernels.iter().map(of).max().map(f64::from);
    let once = |found: Option<f64>| found.map(|found| (None, found)).into_iter().collect();
    match gate.subject {
        GateSubject::CtasPerSm => launches
            .iter()
            .filter_map(|launches| Some((Some(launches.case), launches.found(gate, limits)?)))
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
