//! Searching the declared tunables of one source.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::settled::Settled;
use super::{
    Entry, EntryState, Evolution, Operator, Plan, Proposal, RunSnapshot, StopReason, tuning,
};
use crate::candidate::KernelSource;
use crate::plan::Configuration;
use crate::tuner::{Outcome, Space, Tuner};

/// The most configurations of one sweep.
const MAX_CONFIGURATIONS: usize = 4096;
/// Configurations that are evaluated at a time where the tuner chooses them. It waits for all of
/// them, so that the order in which verdicts arrive changes nothing.
pub(super) const WAVE: usize = 4;

/// The method: evaluates the start file, then its configurations that can run and may differ from others. Where the
/// trials left cover them, all are proposed at once, in an order that the seed decides; otherwise the tuner chooses.
pub(super) fn plan(run: &RunSnapshot<'_>, settled: &Settled) -> Plan {
    let (file, root) = match run.start.filter(|start| *start != "baseline.cu") {
        None => ("baseline.cu", &run.candidates[0]),
        Some(start) => {
            let Some((file, source)) = run.task.playbook.iter().find(|(file, _)| file == start)
            else {
                return Plan::Exhausted(StopReason::Exhausted);
            };
            match run.of_step(file) {
                None => return Plan::Propose(vec![start_proposal(run, file, source)]),
                Some(entry) if entry.state == EntryState::Pending => return Plan::Wait,
                Some(entry) => (file.as_str(), entry),
            }
        }
    };
    let Some(tunables) = run.tunables.get(&root.id) else {
        return Plan::ReadTunables(root.id);
    };
    let children = run.sweep_of(root.id);
    let (open, judged): (Vec<_>, Vec<_>) =
        children.partition(|entry| entry.state == EntryState::Pending);
    let waiting = !open.is_empty();
    let tried = KnownConfigurations { root, judged, open };
    let missing = tuning::worthwhile(tunables, &tried).into_iter();
    let mut missing: Vec<Proposal> = missing.map(|one| proposal(root, file, one)).collect();
    missing.shuffle(&mut ChaCha8Rng::seed_from_u64(run.seed));
    if missing.len() > run.trials_left(settled) {
        if waiting {
            return Plan::Wait;
        }
        missing = choose(run.evolution, run.seed, WAVE, &tried, missing);
    } else {
        let mut ordered = named_first(run.evolution, root, &missing);
        missing.retain(|proposal| !ordered.contains(proposal));
        ordered.append(&mut missing);
        missing = ordered;
    }
    if !missing.is_empty() {
        Plan::Propose(missing)
    } else if waiting {
        Plan::Wait
    } else {
        Plan::Exhausted(StopReason::Exhausted)
    }
}

/// The configurations of one source that a run has.
pub(super) struct KnownConfigurations<'a> {
    /// The candidate with the source's own values.
    pub root: &'a Entry,
    /// Those with a verdict, or for which none will come.
    pub judged: Vec<&'a Entry>,
    /// Those that are being evaluated.
    pub open: Vec<&'a Entry>,
}

impl<'a> KnownConfigurations<'a> {
    /// All of them, the source's own values first.
    pub(super) fn configurations(&self) -> impl Iterator<Item = &'a Configuration> {
        let further = self.judged.iter().chain(&self.open);
        let all = std::iter::once(self.root).chain(further.copied());
        all.map(|entry| &entry.configuration)
    }
}

/// The proposals that come next of those that are missing, at most `most`: those that the run's request names, and
/// when none of them is left those that the tuner chooses.
pub(super) fn choose(
    evolution: &Evolution,
    seed: u64,
    most: usize,
    tried: &KnownConfigurations<'_>,
    missing: Vec<Proposal>,
) -> Vec<Proposal> {
    let root = tried.root;
    let mut named = named_first(evolution, root, &missing);
    if !named.is_empty() {
        named.truncate(most);
        return named;
    }
    let open = missing.iter().map(|proposal| &proposal.configuration);
    // Proposals are in random order; sorted, the same configurations are the same space at each call.
    let mut all: Vec<&Configuration> = tried.configurations().chain(open).collect();
    all.sort_unstable();
    all.dedup();
    let axes: Vec<Vec<i64>> = root
        .configuration
        .keys()
        .map(|name| {
            let mut values: Vec<i64> = all
                .iter()
                .filter_map(|one| one.get(name))
                .copied()
                .collect();
            values.sort_unstable();
            values.dedup();
            values
        })
        .collect();
    let choices = |configuration: &Configuration| -> Vec<u16> {
        let choice = |(value, axis): (&i64, &Vec<i64>)| {
            let at = axis
                .iter()
                .position(|other| other == value)
                .unwrap_or_default();
            u16::try_from(at).unwrap_or(u16::MAX)
        };
        configuration.values().zip(&axes).map(choice).collect()
    };
    let values = axes
        .iter()
        .map(|axis| axis.iter().map(|value| *value as f64).collect());
    let Ok(space) = Space::new(values.collect(), all.iter().map(|one| choices(one))) else {
        return missing;
    };
    let mut tuner = Tuner::new(&space, evolution.strategy, seed);
    let point = |entry: &Entry| space.find(&choices(&entry.configuration));
    for entry in tried.open.iter().copied() {
        if let Some(point) = point(entry) {
            tuner.mark_pending(point);
        }
    }
    for entry in std::iter::once(root).chain(tried.judged.iter().copied()) {
        let Some(point) = point(entry) else {
            continue;
        };
        tuner.tell(
            point,
            entry
                .speedup()
                .map_or(Outcome::Invalid, |speedup| Outcome::Valid(1.0 / speedup)),
        );
    }
    let wave: Vec<&Configuration> = std::iter::from_fn(|| tuner.ask())
        .take(most)
        .map(|point| all[point])
        .collect();
    let position =
        |proposal: &Proposal| wave.iter().position(|one| **one == proposal.configuration);
    let mut proposals: Vec<(usize, Proposal)> = missing
        .iter()
        .filter_map(|proposal| Some((position(proposal)?, proposal.clone())))
        .collect();
    proposals.sort_by_key(|(position, _)| *position);
    proposals
        .into_iter()
        .map(|(_, proposal)| proposal)
        .collect()
}

/// Of the proposals those that the run's request names, in its order.
fn named_first(evolution: &Evolution, root: &Entry, missing: &[Proposal]) -> Vec<Proposal> {
    let mut named: Vec<Proposal> = Vec::new();
    for values in &evolution.first_configurations {
        let mut wanted = root.configuration.clone();
        for (name, value) in &mut wanted {
            *value = *values.get(name).unwrap_or(value);
        }
        let mut open = missing.iter().filter(|one| one.configuration == wanted);
        named.extend(open.find(|one| !named.contains(one)).cloned());
    }
    named
}

/// A file of the playbook as it stands.
pub(super) fn start_proposal(run: &RunSnapshot<'_>, file: &str, source: &KernelSource) -> Proposal {
    Proposal {
        parent: Some(run.candidates[0].id),
        operator: Operator::Step {
            file: file.to_owned(),
        },
        generation: 1,
        file: file.to_owned(),
        configuration: source.plan().default_configuration(),
        title: title(file, source),
        trial: true,
    }
}

/// The name of a file's idea, or of the file.
pub(super) fn title(file: &str, source: &KernelSource) -> String {
    source
        .idea()
        .map_or_else(|| file.to_owned(), |idea| idea.title.clone())
}

/// The configurations of `names` that no child of `root` has yet, in the order of the choices.
pub(super) fn missing(
    run: &RunSnapshot<'_>,
    source: &KernelSource,
    root: &Entry,
    names: &[String],
    file: &str,
) -> Vec<Proposal> {
    let children = run.sweep_of(root.id).map(|entry| &entry.configuration);
    let tried: BTreeSet<&Configuration> = children.chain([&root.configuration]).collect();
    configurations(source, &root.configuration, names)
        .into_iter()
        .filter(|configuration| !tried.contains(configuration))
        .map(|configuration| proposal(root, file, configuration))
        .collect()
}

/// A configuration of the source of `root`, charged as a trial.
pub(super) fn proposal(root: &Entry, file: &str, configuration: Configuration) -> Proposal {
    Proposal {
        parent: Some(root.id),
        operator: Operator::Sweep,
        generation: root.generation,
        file: file.to_owned(),
        title: difference(&configuration, &root.configuration),
        configuration,
        trial: true,
    }
}

/// Every combination of the choices of `names`, the other tunables as in `base`.
pub(super) fn configurations(
    source: &KernelSource,
    base: &Configuration,
    names: &[String],
) -> Vec<Configuration> {
    let mut all = vec![base.clone()];
    for name in names {
        let Some(tunable) = source.plan().tunables.get(name) else {
            continue;
        };
        all = all
            .iter()
            .flat_map(|configuration| {
                tunable.choices.iter().map(|choice| {
                    let mut configuration = configuration.clone();
                    configuration.insert(name.clone(), *choice);
                    configuration
                })
            })
            .take(MAX_CONFIGURATIONS)
            .collect();
    }
    all
}

fn difference(configuration: &Configuration, base: &Configuration) -> String {
    configuration
        .iter()
        .filter(|(name, value)| base.get(*name) != Some(value))
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join(" ")
}
