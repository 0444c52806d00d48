//! The schedules of the methods that ask models: which slots are planned when, from which verdicts.
//! [`methods`] decides how each slot is bred.
//!
//! Verdicts are absorbed in the order of the slots, never in the order of their arrival, and every
//! slot draws from a generator of its own, seeded by the run and the slot's place: the same seed
//! and the same replies give the same run, in whatever order they arrive.

use std::collections::{HashMap, HashSet};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::chains::PlannedChains;
use super::islands::{Islands, stream};
use super::methods::{self, Rules, Selection, Shows};
use super::selection::{draw_uniform, draw_weighted};
use super::sweep::WAVE;
use super::totals::Totals;
use super::tuning;
use super::{AskedModel, Entry, EntryState, Operator, Plan, RunSnapshot, StopReason};
use crate::id::CandidateId;
use crate::model::Dollars;
use crate::verdict::VerdictKind;

/// Insights in one prompt.
const INSIGHTS: usize = 3;
/// Last attempts named in one prompt.
const ATTEMPTS: usize = 8;
/// The most serial repairs of one candidate. Later ones rarely find what the first ones did not.
const MAX_REPAIRS: u32 = 4;
/// The newest candidates that may be repaired. A failure is repaired a few slots after its verdict.
const RECENT: usize = 256;

/// The settings of the methods that ask models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Evolution {
    /// The schedule: slots in generations, or one by one.
    pub schedule: Schedule,
    /// Generations after the initial ones. Only the budget ends runs of `best_of`, `refine`, `funsearch`
    /// and `adaptive`.
    pub generations: u32,
    /// Follow the published method to the letter: parents drawn with replacement, the elite filled
    /// up with invalid members, insights without outcomes and only of survivors.
    pub faithful: bool,
    /// Sampling temperature, for models that take one.
    pub temperature: f64,
    /// Serial repairs of each failed candidate, 4 at most: its model gets the candidate back with the
    /// diagnosis. Repairs are no trials. Without effect where `faithful` is set.
    pub repairs: u32,
    /// Share of the timed candidates that are configurations of the elite's tunables, percent, 90 at
    /// most; 0 for none. They are no trials. Without effect where `faithful` is set.
    pub sweep_percent: u32,
    /// Choose model and operator of a slot by how often they raised the best speedup per dollar, instead of
    /// by weights and in turn. Without effect where `faithful` is set.
    pub bandit: bool,
    /// The wording of prompts.
    pub style: PromptStyle,
    /// The longest prompt in tokens; when absent, the room in the model's context.
    pub prompt_tokens: Option<u32>,
}

impl Default for Evolution {
    fn default() -> Self {
        Self {
            schedule: Schedule::Generational,
            generations: 10,
            faithful: false,
            temperature: 1.0,
            repairs: 2,
            sweep_percent: 25,
            bandit: false,
            style: PromptStyle::Standard,
            prompt_tokens: None,
        }
    }
}

impl Evolution {
    /// The most serial repairs of one failed candidate.
    pub fn repairs_of_each(&self) -> u32 {
        if self.faithful {
            0
        } else {
            self.repairs.min(MAX_REPAIRS)
        }
    }
}

/// The schedules by which slots are planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// A generation at a time: all of its slots see the same, and the next waits for all of them.
    Generational,
    /// A new slot as soon as the earliest open one is absorbed.
    Steady {
        /// Slots open at the same time.
        in_flight: u32,
    },
}

/// A family of prompt wordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptStyle {
    /// The published method's sections.
    #[default]
    Standard,
    /// A recommended order of changes: first parallelism, then tensor cores and pipelining, memory,
    /// compute, tuning.
    ParallelismFirst,
    /// Task and insights, nothing else.
    TaskInsights,
}

impl PromptStyle {
    /// Name as the wire and the records carry it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::ParallelismFirst => "parallelism_first",
            Self::TaskInsights => "task_insights",
        }
    }
}

/// A model that a run asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelChoice {
    /// Its configured name.
    pub name: String,
    /// The probability of being asked, relative to the other models.
    #[serde(default = "one")]
    pub weight: f64,
}

fn one() -> f64 {
    1.0
}

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
    /// Told to models that take a seed, so that equal prompts get different replies.
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
            asked: Some(AskedModel {
                model: draft.model.clone(),
                cost: Dollars::default(),
            }),
        }
    }
}

/// The candidates that a slot is planned from: those up to some position of the run, all with verdicts,
/// and the number and parents of those that are planned after them.
pub(super) struct Population<'a> {
    run: &'a RunSnapshot<'a>,
    rules: &'static Rules,
    entries: &'a [Entry],
    planned: &'a [Entry],
    totals: &'a Totals,
}

impl<'a> Population<'a> {
    fn new(
        run: &'a RunSnapshot<'a>,
        entries: &'a [Entry],
        planned: &'a [Entry],
        totals: &'a mut Totals,
    ) -> Self {
        let rules = methods::of(run.method);
        totals.advance(entries, run.excluded, rules.structure, run.seed);
        Self {
            run,
            rules,
            entries,
            planned,
            totals,
        }
    }

    /// The baseline.
    pub(super) fn baseline(&self) -> &'a Entry {
        &self.entries[0]
    }

    /// The candidate that first candidates are written from where they do not see the best: the copy of
    /// the candidate that the run was forked from, else the baseline.
    pub(super) fn root(&self) -> &'a Entry {
        let origin = self.run.origin().filter(|_| self.run.is_fork);
        let is_usable =
            |origin: &&Entry| origin.speedup().is_some() && !self.run.excluded.contains(&origin.id);
        origin.filter(is_usable).unwrap_or(self.baseline())
    }

    /// The candidate at a position of the run.
    pub(super) fn entry(&self, place: usize) -> &'a Entry {
        &self.entries[place]
    }

    /// The fastest; the baseline while nothing beats it.
    pub(super) fn best(&self) -> &'a Entry {
        &self.entries[self.best_place()]
    }

    fn best_place(&self) -> usize {
        self.totals.elite().first().copied().unwrap_or(0)
    }

    /// The number of candidates after the fastest, configurations of tunables not counted.
    pub(super) fn since_best(&self) -> usize {
        let best = self.best_place();
        self.entries.len() - 1 - best - self.totals.sweeps().after(best)
    }

    /// Of the last candidates that models wrote and that have verdicts, at most `window`: their number,
    /// and the number of accepted ones.
    pub(super) fn validity(&self, window: usize) -> (usize, usize) {
        let written = self.entries.iter().rev().filter(|entry| {
            entry.operator.asks_model() && !matches!(entry.state, EntryState::Abandoned { .. })
        });
        let last = written.take(window).map(|entry| entry.speedup().is_some());
        last.fold((0, 0), |(all, valid), is_valid| {
            (all + 1, valid + usize::from(is_valid))
        })
    }

    /// The fastest members, best first; equals in the order of their places.
    pub(super) fn elite(&self) -> Vec<&'a Entry> {
        let elite = self.totals.elite().iter().take(self.rules.elite);
        elite.map(|place| &self.entries[*place]).collect()
    }

    /// The chains of the run, planned candidates counted.
    pub(super) fn chains(&self) -> PlannedChains {
        let unabsorbed = self.run.candidates[self.entries.len()..].iter();
        let planned = unabsorbed.chain(self.planned);
        self.totals.chains().with_planned(planned)
    }

    /// The islands of the run.
    pub(super) fn islands(&self) -> &'a Islands {
        self.totals.islands()
    }

    /// Trials that the run may charge in all.
    pub(super) fn trials(&self) -> usize {
        self.run.budget.trials as usize
    }

    /// Returns true if the run follows the published method to the letter.
    pub(super) fn is_faithful(&self) -> bool {
        self.run.evolution.faithful
    }

    /// Returns true if there are enough valid members to breed from.
    fn ready(&self) -> bool {
        self.totals.valid() >= self.rules.required
    }

    /// Returns true if a whole batch of first replies held no kernel. More calls would cost as much
    /// with the same result.
    fn found_only_empty_replies(&self) -> bool {
        if self.ready() {
            return false;
        }
        let init = self.entries.iter().rev();
        let last = init
            .filter(|entry| entry.operator == Operator::Init)
            .take(self.rules.first)
            .collect::<Vec<_>>();
        let unread = EntryState::Rejected(VerdictKind::ParseRejected);
        last.len() == self.rules.first && last.iter().all(|entry| entry.state == unread)
    }

    /// Generations that count towards the limit: those that are bred.
    fn rounds(&self) -> u32 {
        let is_first =
            |operator: &Operator| self.rules.required > 0 && matches!(operator, Operator::Init);
        let counts = |entry: &&Entry| {
            entry.operator.asks_model()
                && entry.operator != Operator::Repair
                && !is_first(&entry.operator)
        };
        let mut generations = self
            .entries
            .iter()
            .filter(counts)
            .map(|entry| entry.generation)
            .collect::<Vec<_>>();
        generations.dedup();
        u32::try_from(generations.len()).unwrap_or(u32::MAX)
    }

    /// Failed candidates that no entry of `all` repairs yet, and whose chain of repairs is not over. Only
    /// the last [`RECENT`] candidates count, so that a decision reads no more of a long run.
    fn repairable<'e>(
        &self,
        all: impl Iterator<Item = &'e Entry>,
    ) -> impl Iterator<Item = &'a Entry> {
        // A repair stands soon behind the candidate that it repairs, so that chains begin little earlier.
        let start = self.entries.len().saturating_sub(RECENT);
        let first = start.saturating_sub(3 * RECENT);
        let mut repaired = HashSet::new();
        let mut depths: HashMap<CandidateId, u32> = HashMap::new();
        let repairs = all
            .skip(first)
            .filter(|entry| entry.operator == Operator::Repair);
        for entry in repairs {
            let before = entry.parent.and_then(|parent| depths.get(&parent));
            depths.insert(entry.id, before.map_or(1, |depth| depth + 1));
            repaired.extend(entry.parent);
        }
        let most = self.run.evolution.repairs_of_each();
        self.entries[start..].iter().filter(move |entry| {
            matches!(entry.state, EntryState::Rejected(kind) if is_repairable(kind))
                && entry.operator.asks_model()
                && !entry.duplicate
                && !self.run.excluded.contains(&entry.id)
                && !repaired.contains(&entry.id)
                && depths.get(&entry.id).copied().unwrap_or(0) < most
        })
    }

    fn repair(&self, failed: &Entry, place: usize) -> Draft {
        Draft {
            operator: Operator::Repair,
            generation: failed.generation,
            parents: vec![failed.id],
            trial: false,
            insights: Vec::new(),
            attempts: Vec::new(),
            ..self.draft(&Operator::Init, failed.generation, place)
        }
    }

    /// Plans the slot at a place of the run. The place selects the stream of random numbers.
    fn draft(&self, operator: &Operator, generation: u32, place: usize) -> Draft {
        let mut rng = stream(self.run.seed, place as u64);
        let chosen = self.chosen_by_bandit(operator);
        let operator = chosen.as_ref().map_or(operator, |(operator, _)| operator);
        let mut selection = (self.rules.select)(self, operator, &mut rng);
        if let Some(pinned) = self.run.steering.pin_at(place) {
            selection.include(pinned);
        }
        let Selection {
            operator,
            parents,
            best,
            shows,
        } = selection;
        let insights = match shows {
            Shows::Run => self.insights(&mut rng),
            Shows::Nothing | Shows::Chain(_) => Vec::new(),
        };
        let weights = self.run.models.iter().map(|model| model.weight);
        let drawn = draw_weighted(&weights.collect::<Vec<_>>(), &mut rng)
            .map(|index| self.run.models[index].name.as_str());
        let model = chosen.map(|(_, model)| model).or(drawn).map(str::to_owned);
        Draft {
            operator,
            generation,
            parents,
            best,
            insights,
            duplicates: self.duplicates(),
            attempts: self.attempts(shows),
            hints: self.run.steering.hints_at(self.run.candidates, place),
            avoided: self.run.steering.avoided.clone(),
            model: model.unwrap_or_default(),
            // Servers take seeds of 31 bits at least.
            seed: u64::from(rng.random::<u32>() >> 1),
            trial: true,
        }
    }

    /// Operator and model that the bandit chooses for a slot, if the run has one. A method that still makes
    /// its first candidates keeps its operator.
    fn chosen_by_bandit(&self, operator: &Operator) -> Option<(Operator, &'a str)> {
        if !self.run.evolution.bandit || self.is_faithful() {
            return None;
        }
        let cycle = self.rules.cycle;
        let mut operators = Vec::new();
        for one in cycle.iter().filter(|_| cycle.contains(operator)) {
            if !operators.contains(one) {
                operators.push(one.clone());
            }
        }
        if operators.is_empty() {
            operators.push(operator.clone());
        }
        let unabsorbed = self.run.candidates[self.entries.len()..].iter();
        let open: Vec<&Entry> = unabsorbed.chain(self.planned).collect();
        self.totals
            .arms()
            .choose(&operators, self.run.models, &open)
    }

    /// The candidates whose thoughts are shown: any with a verdict, each thought once; by the
    /// published method, the survivors.
    fn insights(&self, rng: &mut ChaCha8Rng) -> Vec<CandidateId> {
        let survivors: Vec<usize>;
        let shown: Vec<usize>;
        let mut pool = if self.is_faithful() {
            let members = self.survivors();
            let tells = |entry: &Entry| {
                entry.operator != Operator::Baseline
                    && entry.thought.is_some()
                    && members.contains(&entry.id)
            };
            let places = self.entries.iter().enumerate();
            survivors = places
                .filter(|(_, entry)| tells(entry))
                .map(|(place, _)| place)
                .collect();
            &survivors
        } else {
            self.totals.thoughts()
        };
        let steering = self.run.steering;
        if !steering.insights.is_empty() {
            let places = pool.iter().copied();
            shown = places
                .filter(|place| steering.shows_insight(self.entries[*place].id))
                .collect();
            pool = &shown;
        }
        draw_uniform(pool.len(), INSIGHTS, rng)
            .into_iter()
            .map(|index| self.entries[pool[index]].id)
            .collect()
    }

    /// The elite, its empty places filled with the newest invalid members.
    fn survivors(&self) -> Vec<CandidateId> {
        let invalid = self.entries.iter().rev();
        let invalid = invalid.filter(|entry| matches!(entry.state, EntryState::Rejected(_)));
        let members = self.elite().into_iter().chain(invalid);
        let survivors = members.take(self.rules.elite);
        survivors.map(|entry| entry.id).collect()
    }

    /// The newest candidates with an idea and a verdict, of the run or of one chain.
    fn attempts(&self, shows: Shows) -> Vec<CandidateId> {
        let is_shown = |entry: &Entry| match shows {
            Shows::Nothing => false,
            Shows::Run => true,
            Shows::Chain(chain) => self.totals.chains().is_member(entry.id, chain),
        };
        if self.is_faithful() || shows == Shows::Nothing {
            return Vec::new();
        }
        let newest = self.entries.iter().rev().filter(|entry| {
            let judged = matches!(
                entry.state,
                EntryState::Accepted { .. } | EntryState::Rejected(_)
            );
            let is_own = entry.operator != Operator::Baseline && !entry.duplicate;
            judged && is_own && entry.thought.is_some() && is_shown(entry)
        });
        let mut shown = newest
            .take(ATTEMPTS)
            .map(|entry| entry.id)
            .collect::<Vec<_>>();
        shown.reverse();
        shown
    }

    fn duplicates(&self) -> Vec<CandidateId> {
        if self.run.evolution.faithful {
            return Vec::new();
        }
        let newest = self.totals.duplicates();
        newest.map(|place| self.entries[place].id).collect()
    }
}

/// Returns true if a verdict says what to repair. The others blame the machine, or would need
/// another idea.
fn is_repairable(kind: VerdictKind) -> bool {
    use VerdictKind as V;
    matches!(
        kind,
        V::PolicyRejected
            | V::GateRejected
            | V::CompileRejected
            | V::CompileResource
            | V::LaunchRejected
            | V::Timeout
            | V::RuntimeFault
            | V::OutOfBounds
            | V::UninitDependent
            | V::DataRace
            | V::BarrierError
            | V::InputMutated
            | V::IncorrectOutput
            | V::PrecisionDowngrade
            | V::NonDeterministic
    )
}
