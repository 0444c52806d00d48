//! Sweeps of the elite's tunables, for methods that ask models: models choose structure, the tuner
//! constants.
//!
//! The configurations are children of the candidate that declares the tunables. They are not charged as
//! trials. Their number is at most a share of the timed candidates, so that they take about that share
//! of the devices' time, and no decision depends on how long something took.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::sweep::{self, KnownConfigurations};
use super::totals::Totals;
use super::{Entry, Evolution, Operator, Plan, Proposal, RunSnapshot, methods};
use crate::candidate::KernelSource;
use crate::device::Limits;
use crate::evaluation::EvaluationStage;
use crate::id::CandidateId;
use crate::judge::{self, GateFacts};
use crate::margins::FASTER_MARGIN;
use crate::plan::Configuration;
use crate::task::{CasePurpose, Task};

/// Name of the file of a configuration in messages.
const FILE: &str = "candidate.cu";
/// The highest share of the timed candidates that are configurations, percent.
pub const MAX_SWEEP_PERCENT: u32 = 90;
/// Failed configurations in a row after which a sweep ends.
const MAX_FAILURES: usize = 6;
/// Configurations in a row without a gain of [`FASTER_MARGIN`] after which a sweep ends.
const MAX_WITHOUT_GAIN: usize = 16;

impl Evolution {
    /// The share of the timed candidates that are configurations, percent.
    fn swept_percent(&self) -> usize {
        let percent = if self.faithful { 0 } else { self.sweep_percent };
        percent.min(MAX_SWEEP_PERCENT) as usize
    }
}

/// The tunables of one candidate and the configurations that can be evaluated.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tunables {
    /// None if the text does not parse, as one that an older version accepted.
    source: Option<KernelSource>,
    configurations: Vec<Configuration>,
}

impl Tunables {
    /// Reads the tunables of a source. A configuration is left out if its launch plan breaks a limit of
    /// the device or a gate that plans decide, because its verdict is known.
    pub fn read(task: &Task, file: &str, text: &str, limits: Option<&Limits>) -> Self {
        let Ok(source) = KernelSource::parse(file, text) else {
            return Self::default();
        };
        let names: Vec<String> = source.plan().tunables.keys().cloned().collect();
        let base = source.plan().default_configuration();
        let mut configurations = sweep::configurations(&source, &base, &names);
        if let Some(limits) = limits {
            configurations.retain(|one| *one == base || may_run(task, &source, one, limits));
        }
        Self {
            source: Some(source),
            configurations,
        }
    }

    /// The source that declares the tunables.
    pub fn source(&self) -> Option<&KernelSource> {
        self.source.as_ref()
    }
}

/// Returns true if the launch plan holds to the device's limits in every case of a search, and to the
/// gates that plans decide.
fn may_run(
    task: &Task,
    source: &KernelSource,
    configuration: &Configuration,
    limits: &Limits,
) -> bool {
    let searched = task
        .cases
        .iter()
        .filter(|case| case.is_for(CasePurpose::Check) || case.is_for(CasePurpose::Score));
    let resolved = searched.map(|case| {
        let plan = source
            .plan()
            .resolve(task, &case.dims, configuration, limits);
        plan.map(|plan| (case, plan))
    });
    let Ok(plans) = resolved.collect::<Result<Vec<_>, _>>() else {
        return false;
    };
    let scored = plans
        .iter()
        .filter(|(case, _)| case.is_for(CasePurpose::Score));
    let blocks: Vec<GateFacts<'_>> = scored
        .filter_map(|(case, plan)| GateFacts::planned(&case.name, plan))
        .collect();
    let gates = judge::evaluate_gates(task, &blocks, &[], limits);
    let phase = source.step().map(|step| step.phase.as_str());
    judge::judge_gates(&gates, phase, EvaluationStage::Search).is_none()
}

/// The configurations of a run by the candidates that declare their tunables.
#[derive(Debug, Clone, Default)]
pub(super) struct Sweeps {
    of: HashMap<CandidateId, Sweep>,
    /// Positions of all configurations.
    places: Vec<usize>,
    /// Accepted candidates that models wrote or that are edits.
    timed: usize,
}

/// One candidate that declares tunables, and its configurations, by their positions in the run.
#[derive(Debug, Clone)]
struct Sweep {
    root: usize,
    configurations: Vec<usize>,
}

impl Sweeps {
    /// Adds the candidate at a position. A rejected one needs little of a device's time, so that it makes
    /// no room for configurations.
    pub(super) fn add(&mut self, place: usize, entry: &Entry, entries: &[Entry]) {
        let is_new = entry.operator.asks_model() || matches!(entry.operator, Operator::Edit { .. });
        self.timed += usize::from(is_new && entry.speedup().is_some());
        if entry.operator != Operator::Sweep {
            return;
        }
        self.places.push(place);
        let Some(parent) = entry.parent else { return };
        let before = &entries[..place];
        let root = || before.iter().rposition(|entry| entry.id == parent);
        let known = self.of.get(&parent).map(|sweep| sweep.root);
        if let Some(root) = known.or_else(root) {
            let empty = || Sweep {
                root,
                configurations: Vec::new(),
            };
            let sweep = self.of.entry(parent).or_insert_with(empty);
            sweep.configurations.push(place);
        }
    }

    /// The number of configurations after a position.
    pub(super) fn after(&self, place: usize) -> usize {
        self.places.len() - self.places.partition_point(|other| *other <= place)
    }

    /// Further configurations that fit into their share, where `open` more are on their way.
    fn room(&self, open: usize, percent: usize) -> usize {
        let share = self.timed * percent / (100 - percent);
        share.saturating_sub(self.places.len() + open)
    }
}

/// The next configurations to evaluate of the elite's tunables, at most `wave`; none while their share
/// has no room for so many, so that several are of one candidate. Decides from the entries of `prefix`,
/// the first of the run, all of which are judged, and from the configurations that follow them, whose
/// verdicts do not count yet.
pub(super) fn plan(
    run: &RunSnapshot<'_>,
    prefix: &[Entry],
    totals: &mut Totals,
    wave: usize,
) -> Option<Plan> {
    let percent = run.evolution.swept_percent();
    if percent == 0 {
        return None;
    }
    let structure = methods::of(run.method).structure;
    totals.advance(prefix, run.excluded, structure, run.seed);
    let later = run.candidates[prefix.len()..].iter();
    let open: Vec<&Entry> = later
        .filter(|entry| entry.operator == Operator::Sweep)
        .collect();
    if totals.sweeps().room(open.len(), percent) < wave {
        return None;
    }
    for member in totals.elite() {
        let sweep = totals.sweeps().of.get(&prefix[*member].family());
        let place = sweep.map_or(*member, |sweep| sweep.root);
        let root = &prefix[place];
        let is_tunable = root.operator != Operator::Baseline && !root.configuration.is_empty();
        if !is_tunable || run.excluded.contains(&root.id) {
            continue;
        }
        let Some(tunables) = run.tunables.get(&root.id) else {
            return Some(Plan::ReadTunables(root.id));
        };
        let judged = sweep.map_or(&[][..], |sweep| &sweep.configurations);
        let own = |entry: &&&Entry| entry.parent == Some(root.id);
        let tried = KnownConfigurations {
            root,
            judged: judged.iter().map(|place| &prefix[*place]).collect(),
            open: open.iter().filter(own).copied().collect(),
        };
        // Each candidate has a seed of its own, so that their sweeps do not begin with the same values.
        let seed = run.seed.wrapping_add(place as u64);
        let proposals = next_of(run.evolution, seed, tunables, &tried, wave);
        if !proposals.is_empty() {
            return Some(Plan::Propose(proposals));
        }
    }
    None
}

/// The next configurations of one candidate, at most `most`.
fn next_of(
    evolution: &Evolution,
    seed: u64,
    tunables: &Tunables,
    tried: &KnownConfigurations<'_>,
    most: usize,
) -> Vec<Proposal> {
    if is_over(tried) {
        return Vec::new();
    }
    let missing = worthwhile(tunables, tried)
        .into_iter()
        .map(|one| Proposal {
            trial: false,
            ..sweep::proposal(tried.root, FILE, one)
        })
        .collect();
    let mut chosen = sweep::choose(evolution, seed, most, tried, missing);
    chosen.truncate(most);
    chosen
}

/// The configurations that were not tried yet and may differ from those that were: none changes a tunable without
/// effect, and none breaks a limit of the device.
pub(super) fn worthwhile(
    tunables: &Tunables,
    tried: &KnownConfigurations<'_>,
) -> Vec<Configuration> {
    let Some(source) = tunables.source() else {
        return Vec::new();
    };
    let dead = dead_tunables(source, tried);
    let known: BTreeSet<&Configuration> = tried.configurations().collect();
    let own = &tried.root.configuration;
    let changes_nothing = |one: &Configuration| {
        let mut changed = one
            .iter()
            .filter(|(name, value)| dead.contains(name.as_str()) && own.get(*name) != Some(value));
        changed.next().is_some()
    };
    let all = tunables.configurations.iter();
    all.filter(|one| !known.contains(one) && !changes_nothing(one))
        .cloned()
        .collect()
}

/// Returns true if the last configurations of a candidate failed or brought no gain, so that further
/// ones are not worth a device's time.
fn is_over(tried: &KnownConfigurations<'_>) -> bool {
    let mut best = tried.root.speedup().unwrap_or(0.0);
    let (mut failures, mut without_gain) = (0, 0);
    for entry in &tried.judged {
        let speedup = entry.speedup();
        failures = if speedup.is_some() { 0 } else { failures + 1 };
        without_gain += 1;
        if let Some(speedup) = speedup.filter(|speedup| *speedup > best * (1.0 + FASTER_MARGIN)) {
            best = speedup;
            without_gain = 0;
        }
    }
    failures >= MAX_FAILURES || without_gain >= MAX_WITHOUT_GAIN
}

/// Tunables without effect: no launch depends on them, and all configurations that differ in nothing
/// else, two at least, were compiled to the same code.
fn dead_tunables<'a>(
    source: &'a KernelSource,
    tried: &KnownConfigurations<'_>,
) -> BTreeSet<&'a str> {
    let compiled = std::iter::once(tried.root).chain(tried.judged.iter().copied());
    let compiled: Vec<&Entry> = compiled.filter(|entry| entry.image.is_some()).collect();
    let names = source.plan().tunables.keys();
    let is_dead = |name: &&String| {
        let mut code = BTreeMap::new();
        let mut repeated = false;
        for entry in &compiled {
            let mut others = entry.configuration.clone();
            others.remove(*name);
            match code.insert(others, entry.image) {
                Some(image) if image != entry.image => return false,
                Some(_) => repeated = true,
                None => {}
            }
        }
        repeated && !source.plan().depends_on(name)
    };
    names.filter(is_dead).map(String::as_str).collect()
}

impl Entry {
    /// The candidate that declares the tunables of a configuration; of any other candidate itself.
    pub(super) fn family(&self) -> CandidateId {
        let parent = self.parent.filter(|_| self.operator == Operator::Sweep);
        parent.unwrap_or(self.id)
    }
}
