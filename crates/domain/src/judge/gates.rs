//! Soft gates: what was found beside what the task asks for.

use super::may_reject;
use crate::device::Limits;
use crate::evaluation::{EvaluationStage, GateOutcome};
use crate::role::KernelResources;
use crate::task::{Enforce, Gate, GateSubject, Task};
use crate::verdict::Verdict;

/// Every soft gate that the facts can decide, the task's own first, then each phase's.
///
/// `launches` holds, for each score case, the blocks of the plan's largest launch; `kernels` is
/// empty before the compilation, and gates on resources are then left out.
pub fn gates(
    task: &Task,
    launches: &[(&str, u64)],
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
            findings(gate.subject, launches, kernels, limits)
                .into_iter()
                .map(move |(case, found)| outcome(gate, phase, case, found))
        })
        .collect()
}

/// The verdict on a candidate that breaks a rejecting gate: one of the task's own, or of the
/// phase the candidate says it belongs to. A baseline is never rejected.
pub fn rejecting_gate(
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
    let met = gate.min.is_none_or(|min| found >= min) && gate.max.is_none_or(|max| found <= max);
    GateOutcome {
        subject: gate.subject,
        phase: phase.map(str::to_owned),
        case: case.map(str::to_owned),
        min: gate.min,
        max: gate.max,
        found,
        met,
        enforce: gate.enforce,
    }
}

/// What was found of a subject: per score case, or once.
fn findings<'a>(
    subject: GateSubject,
    launches: &[(&'a str, u64)],
    kernels: &[KernelResources],
    limits: &Limits,
) -> Vec<(Option<&'a str>, f64)> {
    let largest = |of: fn(&KernelResources) -> u32| kernels.iter().map(of).max().map(f64::from);
    let once = |found: Option<f64>| found.map(|found| (None, found)).into_iter().collect();
    match subject {
        GateSubject::CtasPerSm => launches
            .iter()
            .map(|&(case, blocks)| {
                #[expect(clippy::cast_precision_loss, reason = "a ratio to show and compare")]
                let blocks = blocks as f64;
                (Some(case), blocks / f64::from(limits.sm_count.max(1)))
            })
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
