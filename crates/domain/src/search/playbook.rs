//! The playbook: hand-written steps in order. A step is kept if it is fast enough, or if it is the first that meets
//! the gates of its phase, so that the next phase opens. Its tunables are swept once it is kept. A step begins with the
//! values that its parent found best, and if it comes to nothing with them, its own are tried.

use super::sweep;
use super::{Entry, EntryState, Operator, Plan, Proposal, RunSnapshot, StopReason, fastest};
use crate::candidate::KernelSource;
use crate::margins::MIN_STEP_SHARE;
use crate::plan::Configuration;
use crate::task::Task;

pub(super) fn plan(run: &RunSnapshot<'_>) -> Plan {
    let mut kept = vec![&run.candidates[0]];
    for (index, (file, source)) in run.task.playbook.iter().enumerate() {
        let Some(best) = best_for(run.task, source, &kept) else {
            return Plan::Exhausted(StopReason::PhaseClosed);
        };
        let Some(step) = run.of_step(file) else {
            return Plan::Propose(vec![proposal(index, file, source, best)]);
        };
        let is_usable = |entry: &Entry| !run.steering.banned.contains(&entry.id);
        match step.state {
            EntryState::Pending => return Plan::Wait,
            EntryState::Abandoned { .. } => continue,
            _ if !is_usable(step) => continue,
            _ => {}
        }
        let phases = phases_through(run.task, source);
        let is_open = kept.iter().any(|entry| meets(entry, &phases));
        let is_worth_keeping = |entry: &Entry| {
            let least = best.speedup().unwrap_or(1.0) * MIN_STEP_SHARE;
            let is_fast = entry.speedup().is_some_and(|speedup| speedup >= least);
            is_fast || (meets(entry, &phases) && !is_open)
        };
        if !is_worth_keeping(step) {
            let own = source.plan().default_configuration();
            if step.configuration == own {
                continue;
            }
            let mut others = run.sweep_of(step.id);
            match others.find(|entry| entry.configuration == own) {
                None => return Plan::Propose(vec![sweep::proposal(step, file, own)]),
                Some(entry) if entry.state == EntryState::Pending => return Plan::Wait,
                Some(entry) if is_worth_keeping(entry) => {}
                Some(_) => continue,
            }
        }
        kept.push(step);
        let swept = source
            .step()
            .map(|step| step.sweep.clone())
            .unwrap_or_default();
        let missing = sweep::missing(run, source, step, &swept, file);
        if !missing.is_empty() {
            return Plan::Propose(missing);
        }
        if run
            .sweep_of(step.id)
            .any(|entry| entry.state == EntryState::Pending)
        {
            return Plan::Wait;
        }
        kept.extend(run.sweep_of(step.id).filter(|entry| is_usable(entry)));
    }
    Plan::Exhausted(StopReason::Exhausted)
}

/// The fastest kept candidate that meets the gates of every phase before the step's own.
fn best_for<'a>(task: &Task, source: &KernelSource, kept: &[&'a Entry]) -> Option<&'a Entry> {
    let mut phases = phases_through(task, source);
    phases.pop();
    fastest(kept.iter().copied().filter(|entry| meets(entry, &phases)))
}

/// The names of the phases up to the step's own, which is the last.
fn phases_through<'a>(task: &'a Task, source: &KernelSource) -> Vec<&'a str> {
    let own = source.step().map(|step| step.phase.as_str());
    let names = task.phases.iter().map(|phase| phase.name.as_str());
    let end = names.clone().position(|name| Some(name) == own);
    names.take(end.map_or(0, |end| end + 1)).collect()
}

/// Returns true if a candidate is accepted and meets the gates of these phases.
fn meets(entry: &Entry, phases: &[&str]) -> bool {
    match &entry.state {
        EntryState::Accepted { unmet_phases, .. } => !unmet_phases
            .iter()
            .any(|name| phases.contains(&name.as_str())),
        _ => false,
    }
}

fn proposal(index: usize, file: &str, source: &KernelSource, parent: &Entry) -> Proposal {
    Proposal {
        parent: Some(parent.id),
        operator: Operator::Step {
            file: file.to_owned(),
        },
        generation: u32::try_from(index + 1).unwrap_or(u32::MAX),
        file: file.to_owned(),
        configuration: inherit(source, &parent.configuration),
        title: sweep::title(file, source),
        trial: true,
    }
}

/// The step's own values, except where its parent has found a better one for a tunable of the
/// same name that the step can take too.
fn inherit(source: &KernelSource, parent: &Configuration) -> Configuration {
    let mut configuration = source.plan().default_configuration();
    for (name, value) in &mut configuration {
        let choices = &source.plan().tunables[name].choices;
        if let Some(found) = parent.get(name).filter(|found| choices.contains(found)) {
            *value = *found;
        }
    }
    configuration
}
