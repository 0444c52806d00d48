//! The evaluation request of a leased job.

use domain::candidate::KernelSource;
use domain::evaluation::{EvaluationRequest, EvaluationStage, Incumbent};
use domain::plan::Configuration;
use domain::role::Key;
use store::LeasedJob;

/// The seeds of the search change with it; one epoch lets all candidates of a run share the
/// reference's answers.
const SEARCH_EPOCH: &str = "0";

/// Returns the evaluation request of a leased job.
pub fn evaluation_request(leased: LeasedJob) -> EvaluationRequest {
    let family = seed_family(&leased);
    let parts = family.iter().map(String::as_str).collect::<Vec<_>>();
    let key: Key = leased.secret.derive(&parts);
    EvaluationRequest {
        configuration: differing(&leased.file, &leased.source, &leased.configuration),
        incumbent: leased.incumbent.map(|rival| Incumbent {
            configuration: differing(&rival.file, &rival.source, &rival.configuration),
            file: rival.file,
            source: rival.source,
            timing: rival.timing,
        }),
        task: leased.bundle,
        file: leased.file,
        source: leased.source,
        stage: leased.stage,
        key,
    }
}

/// The text that the run's secret is combined with. It differs between the search and every
/// confirmation, so that they share no inputs.
fn seed_family(leased: &LeasedJob) -> Vec<String> {
    match leased.stage {
        EvaluationStage::Baseline | EvaluationStage::Search => search_seeds(),
        EvaluationStage::Confirmation | EvaluationStage::Champion => {
            confirmation_seeds(&leased.candidate.to_string(), leased.round)
        }
    }
}

pub(crate) fn search_seeds() -> Vec<String> {
    vec!["search".to_owned(), SEARCH_EPOCH.to_owned()]
}

pub(crate) fn confirmation_seeds(candidate: &str, round: u32) -> Vec<String> {
    vec![
        "confirmation".to_owned(),
        candidate.to_owned(),
        round.to_string(),
    ]
}

/// Tunables whose value is not the one in the text. None, unless the text is of an older program
/// that did not write them into it.
fn differing(file: &str, source: &str, values: &Configuration) -> Configuration {
    if values.is_empty() {
        return Configuration::new();
    }
    let declared = KernelSource::parse(file, source)
        .map(|source| source.plan().default_configuration())
        .unwrap_or_default();
    values
        .iter()
        .filter(|(name, value)| declared.get(*name) != Some(value))
        .map(|(name, value)| (name.clone(), *value))
        .collect()
}
