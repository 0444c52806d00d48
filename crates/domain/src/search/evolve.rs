//! The methods that ask a model: which slots a generation has, what goes into each prompt, and
//! who is bred from. After EvoEngineer (arXiv 2510.03760).
//!
//! Verdicts are absorbed in the order of the slots, never in the order of their arrival, and every
//! slot draws from a generator of its own, seeded by the run and the slot's place: the same seed
//! and the same replies give the same run, in whatever order they arrive.

use std::collections::{HashMap, HashSet};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::selection::{draw_rank, draw_two_ranks, draw_uniform, draw_weighted};
use super::totals::{ELITE, Totals};
use super::{Entry, EntryState, Method, Operator, Plan, RunSnapshot, StopReason};
use crate::id::CandidateId;
use crate::verdict::VerdictKind;

/// Slots of a generation that starts from nothing but the best.
const INIT_SLOTS: usize = 5;
/// Slots of a generation of `full`.
const BREEDING: [Operator; 4] = [
    Operator::Crossover,
    Operator::Crossover,
    Operator::Mutation,
    Operator::Mutation,
];
/// Valid members, the baseline included, before `full` breeds.
const VALID_REQUIRED: usize = 2;
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
    /// Generations after the initial ones.
    pub generations: u32,
    /// Follow the published method to the letter: parents drawn with replacement, the elite filled
    /// up with invalid members, insights without outcomes and only of survivors.
    pub faithful: bool,
    /// Sampling temperature, for models that take one.
    pub temperature: f64,
    /// Serial repairs of each failed candidate, 4 at most: its model gets the candidate back with the
    /// diagnosis. Repairs are no trials. Without effect where `faithful` is set.
    pub repairs: u32,
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
    let seen = Population::new(run, run.candidates, totals);
    let repairs = seen
        .repairable(run.candidates.iter())
        .filter(|entry| entry.generation == current)
        .enumerate()
        .map(|(slot, failed)| seen.repair(failed, run.candidates.len() + slot))
        .collect::<Vec<_>>();
    if !repairs.is_empty() {
        return Plan::Draft(repairs);
    }
    let operators = if !seen.ready() {
        if seen.hopeless() {
            return Plan::Exhausted(StopReason::NothingUsable);
        }
        vec![Operator::Init; INIT_SLOTS]
    } else if seen.rounds() >= run.evolution.generations {
        return Plan::Exhausted(StopReason::Generations);
    } else {
        cycle(run.method).to_vec()
    };
    let drafts = operators
        .into_iter()
        .enumerate()
        .map(|(slot, operator)| seen.draft(&operator, current + 1, run.candidates.len() + slot));
    Plan::Draft(drafts.collect())
}

/// Plans slots of a steady state. Slot `s` is planned once all but the `in_flight - 1` slots before it
/// have verdicts, and uses exactly those verdicts, even if others have arrived.
fn steady(run: &RunSnapshot<'_>, in_flight: usize, totals: &mut Totals) -> Plan {
    let known = run.candidates.len();
    let mut planned: Vec<Entry> = Vec::new();
    let mut drafts: Vec<Draft> = Vec::new();
    let settled = totals.settled();
    let mut trials_left = run.trials_left(settled);
    let open = settled.rest(run.candidates);
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
        let cycle = cycle(run.method);
        let bred = if run.method == Method::Full {
            written - init
        } else {
            written
        };
        let is_last = bred >= run.evolution.generations as usize * cycle.len() || trials_left == 0;
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
        let seen = Population::new(run, prefix, totals);
        let all = run.candidates.iter().chain(&planned);
        let draft = match seen.repairable(all).next() {
            Some(failed) => seen.repair(failed, place),
            None if is_last => break,
            None => {
                let breeding = run.method == Method::Full && init >= INIT_SLOTS && seen.ready();
                if !breeding && seen.hopeless() {
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

/// The number of candidates in one generation of a method that asks models.
pub fn slots(method: Method) -> usize {
    cycle(method).len()
}

/// The slots of one generation.
fn cycle(method: Method) -> &'static [Operator] {
    match method {
        Method::Full => &BREEDING,
        _ => &[const { Operator::Init }; INIT_SLOTS],
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
        }
    }
}

/// The candidates that a slot is planned from: those up to some position of the run, all with verdicts.
struct Population<'a> {
    run: &'a RunSnapshot<'a>,
    entries: &'a [Entry],
    totals: &'a Totals,
}

impl<'a> Population<'a> {
    fn new(run: &'a RunSnapshot<'a>, entries: &'a [Entry], totals: &'a mut Totals) -> Self {
        totals.advance(entries, run.refused);
        Self {
            run,
            entries,
            totals,
        }
    }

    /// The fastest; the baseline while nothing beats it.
    fn best(&self) -> &'a Entry {
        let fastest = self.totals.elite().first();
        &self.entries[fastest.copied().unwrap_or(0)]
    }

    /// The fastest members, best first; equals in the order of their places.
    fn elite(&self) -> Vec<&'a Entry> {
        let elite = self.totals.elite().iter();
        elite.map(|place| &self.entries[*place]).collect()
    }

    /// Returns true if there are enough valid members for crossover.
    fn ready(&self) -> bool {
        self.run.method != Method::Full || self.totals.valid() >= VALID_REQUIRED
    }

    /// Returns true if a whole batch of first replies held no kernel. More calls would cost as much
    /// with the same result.
    fn hopeless(&self) -> bool {
        if self.ready() {
            return false;
        }
        let init = self.entries.iter().rev();
        let last = init
            .filter(|entry| entry.operator == Operator::Init)
            .take(INIT_SLOTS)
            .collect::<Vec<_>>();
        let unread = EntryState::Rejected(VerdictKind::ParseRejected);
        last.len() == INIT_SLOTS && last.iter().all(|entry| entry.state == unread)
    }

    /// Generations that count towards the limit.
    fn rounds(&self) -> u32 {
        let counts = |entry: &&Entry| match self.run.method {
            Method::Full => matches!(entry.operator, Operator::Crossover | Operator::Mutation),
            _ => entry.operator == Operator::Init,
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
            matches!(entry.state, EntryState::Rejected(kind) if mendable(kind))
                && entry.operator.asks_model()
                && !entry.duplicate
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
        let mut rng = ChaCha8Rng::seed_from_u64(self.run.seed);
        rng.set_stream(place as u64);
        let best = self.best().id;
        let elite = self.elite();
        let (operator, parents) = match operator {
            Operator::Crossover => {
                match draw_two_ranks(elite.len(), self.run.evolution.faithful, &mut rng) {
                    Some((one, two)) => (Operator::Crossover, vec![elite[one].id, elite[two].id]),
                    None => (Operator::Mutation, vec![best]),
                }
            }
            Operator::Mutation => {
                let source = draw_rank(elite.len(), &mut rng).map_or(best, |rank| elite[rank].id);
                (Operator::Mutation, vec![source])
            }
            other => (other.clone(), vec![best]),
        };
        let insights = match self.run.method {
            Method::Insight | Method::Full => self.insights(&elite, &mut rng),
            _ => Vec::new(),
        };
        let weights = self.run.models.iter().map(|model| model.weight);
        let model = draw_weighted(&weights.collect::<Vec<_>>(), &mut rng)
            .map(|index| self.run.models[index].name.clone());
        Draft {
            operator,
            generation,
            parents,
            best,
            insights,
            duplicates: self.duplicates(),
            attempts: self.attempts(),
            model: model.unwrap_or_default(),
            // Servers take seeds of 31 bits at least.
            seed: u64::from(rng.random::<u32>() >> 1),
            trial: true,
        }
    }

    /// The candidates whose thoughts are shown: any with a verdict, each thought once; by the
    /// published method, the survivors.
    fn insights(&self, elite: &[&Entry], rng: &mut ChaCha8Rng) -> Vec<CandidateId> {
        let survivors: Vec<usize>;
        let pool = if self.run.evolution.faithful {
            let members = match self.run.method {
                Method::Full => self.filled(elite),
                _ => vec![self.best().id],
            };
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
        draw_uniform(pool.len(), INSIGHTS, rng)
            .into_iter()
            .map(|index| self.entries[pool[index]].id)
            .collect()
    }

    /// The elite, its empty places filled with the newest invalid members.
    fn filled(&self, elite: &[&Entry]) -> Vec<CandidateId> {
        let invalid = self.entries.iter().rev();
        let invalid = invalid.filter(|entry| matches!(entry.state, EntryState::Rejected(_)));
        let members = elite.iter().copied().chain(invalid);
        members.take(ELITE).map(|entry| entry.id).collect()
    }

    /// The newest candidates with an idea and a verdict, for methods that show what was found.
    fn attempts(&self) -> Vec<CandidateId> {
        let is_shown = matches!(self.run.method, Method::Insight | Method::Full);
        if self.run.evolution.faithful || !is_shown {
            return Vec::new();
        }
        let newest = self.entries.iter().rev().filter(|entry| {
            let judged = matches!(
                entry.state,
                EntryState::Accepted { .. } | EntryState::Rejected(_)
            );
            let is_own = entry.operator != Operator::Baseline && !entry.duplicate;
            judged && is_own && entry.thought.is_some()
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
fn mendable(kind: VerdictKind) -> bool {
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
