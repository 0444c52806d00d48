//! Searching the declared tunables of one source.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::{Entry, EntryState, Operator, Plan, Proposal, RunSnapshot, StopReason};
use crate::candidate::KernelSource;
use crate::plan::Configuration;

/// The most configurations of one sweep.
const MAX_CONFIGURATIONS: usize = 4096;

/// The method: evaluates the start file, then its configurations in an order that the seed
/// decides, so that a budget smaller than the space samples it without a bias.
pub(super) fn plan(run: &RunSnapshot<'_>) -> Plan {
    let (file, source, root) = match run.start.filter(|start| *start != "baseline.cu") {
        None => ("baseline.cu", &run.task.baseline, &run.candidates[0]),
        Some(start) => {
            let Some((file, source)) = run.task.playbook.iter().find(|(file, _)| file == start)
            else {
                return Plan::Exhausted(StopReason::Exhausted);
            };
            match run.of_step(file) {
                None => return Plan::Propose(vec![start_proposal(run, file, source)]),
                Some(entry) if entry.state == EntryState::Pending => return Plan::Wait,
                Some(entry) => (file.as_str(), source, entry),
            }
        }
    };
    let names = source.plan().tunables.keys().cloned().collect::<Vec<_>>();
    let mut missing = missing(run, source, root, &names, file);
    missing.shuffle(&mut ChaCha8Rng::seed_from_u64(run.seed));
    if !missing.is_empty() {
        Plan::Propose(missing)
    } else if run
        .sweep_of(root.id)
        .any(|entry| entry.state == EntryState::Pending)
    {
        Plan::Wait
    } else {
        Plan::Exhausted(StopReason::Exhausted)
    }
}

fn start_proposal(run: &RunSnapshot<'_>, file: &str, source: &KernelSource) -> Proposal {
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
    let tried = |configuration: &Configuration| {
        *configuration == root.configuration
            || run
                .sweep_of(root.id)
                .any(|entry| entry.configuration == *configuration)
    };
    configurations(source, &root.configuration, names)
        .into_iter()
        .filter(|configuration| !tried(configuration))
        .map(|configuration| Proposal {
            parent: Some(root.id),
            operator: Operator::Sweep,
            generation: root.generation,
            file: file.to_owned(),
            title: difference(&configuration, &root.configuration),
            configuration,
            trial: true,
        })
        .collect()
}

/// Every combination of the choices of `names`, the other tunables as in `base`.
fn configurations(
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
