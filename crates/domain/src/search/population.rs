//! The candidates that one slot of a model is planned from, and the draft that is planned from them.
//!
//! Every slot draws from a generator of random numbers of its own, seeded by the run and the slot's place.
//! [`methods`] decides how each slot is bred.

use std::collections::{HashMap, HashSet};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::chains::PlannedChains;
use super::evolve::Draft;
use super::islands::{Islands, stream};
use super::methods::{self, Rules, Selection, Shows};
use super::selection::{draw_uniform, draw_weighted};
use super::totals::Totals;
use super::{Entry, EntryState, Operator, RunSnapshot};
use crate::id::CandidateId;
use crate::verdict::VerdictKind;

/// Insights in one prompt.
const INSIGHTS: usize = 3;
/// Last attempts named in one prompt.
const ATTEMPTS: usize = 8;
/// The newest candidates that may be repaired. A failure is repaired a few slots after its verdict.
const RECENT: usize = 256;

/// The candidates that a slot is planned from: those up to some position of the run, all with verdicts,
/// and the number and parents of those that are planned after them.
pub(super) struct Population<'a> {
    run: &'a RunSnapshot<'a>,
    pub(super) rules: &'static Rules,
    entries: &'a [Entry],
    planned: &'a [Entry],
    totals: &'a Totals,
}

impl<'a> Population<'a> {
    /// The candidates of `entries`, whose totals are brought up to date, and the `planned` ones after them.
    pub(super) fn new(
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

    /// Draws up to `count` members of different cells of the archive, the fastest first.
    pub(super) fn draw_from_archive(&self, count: usize, rng: &mut ChaCha8Rng) -> Vec<CandidateId> {
        let drawn = self.totals.archive().draw(count, self.entries, rng);
        drawn.iter().map(|place| self.entry(*place).id).collect()
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
    pub(super) fn ready(&self) -> bool {
        self.totals.valid() >= self.rules.required
    }

    /// Returns true if a whole batch of first replies held no kernel. More calls would cost as much
    /// with the same result.
    pub(super) fn found_only_empty_replies(&self) -> bool {
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
    pub(super) fn rounds(&self) -> u32 {
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
    pub(super) fn repairable<'e>(
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

    /// Plans the repair of a failed candidate at a place of the run.
    pub(super) fn repair(&self, failed: &Entry, place: usize) -> Draft {
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
    pub(super) fn draft(&self, operator: &Operator, generation: u32, place: usize) -> Draft {
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

    /// The newest candidates that repeated others.
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
