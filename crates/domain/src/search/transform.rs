//! `transform`: structural edits of the fastest candidates, without a model. The task's playbook is the
//! first generation, and the tunables of the elite are swept as for models.

use std::collections::BTreeSet;

use super::islands::stream;
use super::selection::{draw_rank, draw_uniform};
use super::sweep::{self, WAVE};
use super::totals::Totals;
use super::{Entry, Operator, Plan, Proposal, RunSnapshot, StopReason, methods, tuning};
use crate::id::CandidateId;

/// Name of the file of an edited source.
const FILE: &str = "candidate.cu";
/// The fastest candidates that are edited.
const ELITE: usize = 4;

/// Plans a wave and waits for all of it, so that the order in which verdicts arrive changes nothing.
pub(super) fn plan(run: &RunSnapshot<'_>, totals: &mut Totals) -> Plan {
    if totals.settled().is_waiting(run.candidates) {
        return Plan::Wait;
    }
    let steps = steps(run);
    if !steps.is_empty() {
        return Plan::Propose(steps);
    }
    if let Some(plan) = tuning::plan(run, run.candidates, totals, WAVE) {
        return plan;
    }
    let structure = methods::of(run.method).structure;
    totals.advance(run.candidates, run.excluded, structure, run.seed);
    let elite = totals.elite().iter().take(ELITE);
    let mut members: Vec<Member<'_>> = Vec::new();
    let pinned = run.steering.pin_at(run.candidates.len());
    let pinned = pinned.and_then(|id| run.candidates.iter().find(|entry| entry.id == id));
    let chosen: Vec<&Entry> = match pinned {
        Some(pinned) => vec![pinned],
        None => elite.map(|place| &run.candidates[*place]).collect(),
    };
    for entry in chosen {
        let Some(edits) = run.edits.get(&entry.id) else {
            return Plan::ReadEdits(entry.id);
        };
        let tried = tried(run, entry.id);
        let untried = edits.iter().map(|edit| edit.name.as_str());
        let untried = untried.filter(|name| !tried.contains(name));
        members.push(Member {
            entry,
            untried: untried.collect(),
        });
    }
    let mut rng = stream(run.seed, run.candidates.len() as u64);
    let mut proposals = Vec::new();
    while proposals.len() < WAVE {
        members.retain(|member| !member.untried.is_empty());
        let Some(rank) = draw_rank(members.len(), &mut rng) else {
            break;
        };
        let Member { entry, untried } = &mut members[rank];
        let Some(edit) = draw_uniform(untried.len(), 1, &mut rng).first().copied() else {
            break;
        };
        let name = untried.remove(edit);
        proposals.extend(proposal(run, entry, name));
    }
    if proposals.is_empty() {
        Plan::Exhausted(StopReason::Exhausted)
    } else {
        Plan::Propose(proposals)
    }
}

/// A candidate to edit, with the edits that the run does not have.
struct Member<'a> {
    entry: &'a Entry,
    untried: Vec<&'a str>,
}

/// The files of the playbook that the run does not have.
fn steps(run: &RunSnapshot<'_>) -> Vec<Proposal> {
    let missing = run.task.playbook.iter();
    let missing = missing.filter(|(file, _)| run.of_step(file).is_none());
    missing
        .map(|(file, source)| sweep::start_proposal(run, file, source))
        .collect()
}

fn tried<'a>(run: &RunSnapshot<'a>, parent: CandidateId) -> BTreeSet<&'a str> {
    let children = run.candidates.iter();
    let children = children.filter(|entry| entry.parent == Some(parent));
    children
        .filter_map(|entry| match &entry.operator {
            Operator::Edit { edit } => Some(edit.as_str()),
            _ => None,
        })
        .collect()
}

fn proposal(run: &RunSnapshot<'_>, parent: &Entry, name: &str) -> Option<Proposal> {
    let mut edits = run.edits.get(&parent.id)?.iter();
    let edit = edits.find(|edit| edit.name == name)?;
    Some(Proposal {
        parent: Some(parent.id),
        operator: Operator::Edit {
            edit: name.to_owned(),
        },
        generation: parent.generation + 1,
        file: FILE.to_owned(),
        configuration: edit.source.plan().default_configuration(),
        title: name.to_owned(),
        trial: true,
    })
}
