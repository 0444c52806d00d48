//! The schedules of the methods that ask models: which slots are planned when, from which verdicts.
//! [`Population`] plans each slot.
//!
//! Verdicts are absorbed in the order of the slots, never in the order of their arrival, and every
//! slot draws from a generator of its own, seeded by the run and the slot's place: the same seed
//! and the same replies give the same run, in whatever order they arrive.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::methods;
use super::population::Population;
use super::sweep::WAVE;
use super::totals::Totals;
use super::tuning;
use super::{
    AskedModel, Cell, Entry, EntryState, Operator, Plan, RunSnapshot, Schedule, StopReason,
};
use crate::id::CandidateId;
use crate::model::Dollars;

/// A candidate that a model is to write, with the candidates that its prompt shows. It does not change
/// after it was planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Draft {
    /// The operator.
    pub operator: Operator,
    /// Generation.
    pub generation: u32,
    /// The parents; edits apply to the first.
    pub parents: Vec<CandidateId>,
    /// The best candidate when the slot was planned.
    pub best: CandidateId,
    /// Candidates whose thoughts are shown.
    pub insights: Vec<CandidateId>,
    /// Candidates that repeated others and are named as such.
    pub duplicates: Vec<CandidateId>,
    /// The last attempts, whose ideas and outcomes are shown, the oldest first.
    #[serde(default)]
    pub attempts: Vec<CandidateId>,
    /// Texts of people that the prompt carries.
    #[serde(default)]
    pub hints: Vec<String>,
    /// Ideas that the prompt tells to avoid, as people asked.
    #[serde(default)]
    pub avoided: Vec<String>,
    /// The configured model that is asked.
    pub model: String,
    /// Seed that is sent to models that take one, so that equal prompts get different replies.
    pub seed: u64,
    /// True if it is charged as a trial once its reply is there.
    pub trial: bool,
}

pub(super) fn plan(run: &RunSnapshot<'_>, totals: &mut Totals) -> Plan {
    match run.evolution.schedule {
        Schedule::Generational => generational(run, totals),
        Schedule::Steady { in_flight } => steady(run, in_flight.max(1) as usize, totals),
    }
}

fn generational(run: &RunSnapshot<'_>, totals: &mut Totals) -> Plan {
    if totals.settled().is_waiting(run.candidates) {
        return Plan::Wait;
    }
    let current = totals.settled().generation;
    let seen = Population::new(run, run.candidates, &[], totals);
    let repairs = seen
        .repairable(run.candidates.iter())
        .filter(|entry| entry.generation == current)
        .enumerate()
        .map(|(slot, failed)| seen.repair(failed, run.candidates.len() + slot))
        .collect::<Vec<_>>();
    if !repairs.is_empty() {
        return Plan::Draft(repairs);
    }
    if let Some(plan) = tuning::plan(run, run.candidates, totals, WAVE) {
        return plan;
    }
    let seen = Population::new(run, run.candidates, &[], totals);
    let rules = seen.rules;
    let operators = if !seen.ready() {
        if seen.found_only_empty_replies() {
            return Plan::Exhausted(StopReason::NothingUsable);
        }
        vec![Operator::Init; rules.first]
    } else if rules.is_limited && seen.rounds() >= run.evolution.generations {
        return Plan::Exhausted(StopReason::Generations);
    } else if let Some(width) = rules.width {
        vec![rules.cycle[0].clone(); width(&seen)]
    } else {
        rules.cycle.to_vec()
    };
    let mut drafts = Vec::new();
    let mut planned = Vec::new();
    for (slot, operator) in operators.iter().enumerate() {
        let seen = Population::new(run, run.candidates, &planned, totals);
        let draft = seen.draft(operator, current + 1, run.candidates.len() + slot);
        planned.push(Entry::drafted(&draft));
        drafts.push(draft);
    }
    Plan::Draft(drafts)
}

/// Plans slots of a steady state. Slot `s` is planned once all but the `in_flight - 1` slots before it
/// have verdicts, and uses exactly those verdicts, even if others have arrived.
fn steady(run: &RunSnapshot<'_>, in_flight: usize, totals: &mut Totals) -> Plan {
    let rules = methods::of(run.method);
    let known = run.candidates.len();
    let mut planned: Vec<Entry> = Vec::new();
    let mut drafts: Vec<Draft> = Vec::new();
    let settled = totals.settled();
    let mut trials_left = run.trials_left(settled);
    let open = settled.uncounted(run.candidates);
    let (upto, written_before, init_before) = (settled.upto, settled.written, settled.init);
    let mut over = StopReason::Generations;
    while drafts.len() < in_flight {
        let place = known + planned.len();
        let further = || open.iter().chain(&planned);
        let written = written_before
            + further()
                .filter(|entry| entry.operator.asks_model() && entry.trial)
                .count();
        let init = init_before
            + further()
                .filter(|entry| entry.operator == Operator::Init)
                .count();
        let cycle = rules.cycle;
        let bred = if rules.required > 0 {
            written - init
        } else {
            written
        };
        let is_bred = rules.is_limited && bred >= run.evolution.generations as usize * cycle.len();
        let is_last = is_bred || trials_left == 0;
        // Behind the last slot nothing is planned but repairs, which see every verdict, that of the last
        // slot too.
        if is_last && drafts.iter().any(|draft| draft.trial) {
            break;
        }
        let absorbed = if is_last {
            known
        } else {
            (place + 1).saturating_sub(in_flight).max(1)
        };
        let prefix = &run.candidates[..absorbed.min(known)];
        if upto < prefix.len() {
            break;
        }
        // A configuration takes one place, like a slot. Places are taken in order, so that it waits until
        // the slots before it are recorded.
        match tuning::plan(run, prefix, totals, 1) {
            Some(plan) if drafts.is_empty() => return plan,
            Some(_) => break,
            None => {}
        }
        let seen = Population::new(run, prefix, &planned, totals);
        let all = run.candidates.iter().chain(&planned);
        let draft = match seen.repairable(all).next() {
            Some(failed) => seen.repair(failed, place),
            None if is_last => break,
            None => {
                let breeding = rules.required == 0 || (init >= rules.first && seen.ready());
                if !breeding && seen.found_only_empty_replies() {
                    over = StopReason::NothingUsable;
                    break;
                }
                trials_left -= 1;
                let operator = if breeding {
                    cycle[bred % cycle.len()].clone()
                } else {
                    Operator::Init
                };
                let generation = 1 + u32::try_from(written / cycle.len()).unwrap_or(u32::MAX - 1);
                seen.draft(&operator, generation, place)
            }
        };
        planned.push(Entry::drafted(&draft));
        drafts.push(draft);
    }
    if !drafts.is_empty() {
        Plan::Draft(drafts)
    } else if !open.is_empty() {
        Plan::Wait
    } else {
        Plan::Exhausted(over)
    }
}

impl Entry {
    /// A draft as an entry among the others before it has an identity: only its position, its
    /// operator and the candidate it repairs count.
    fn drafted(draft: &Draft) -> Self {
        Self {
            id: draft.best,
            parent: draft.parents.first().copied(),
            operator: draft.operator.clone(),
            generation: draft.generation,
            configuration: crate::plan::Configuration::new(),
            state: EntryState::Pending,
            trial: draft.trial,
            duplicate: false,
            thought: None,
            image: None,
            floor_share: None,
            cell: Cell::default(),
            asked: Some(AskedModel {
                model: draft.model.clone(),
                cost: Dollars::default(),
            }),
        }
    }
}
