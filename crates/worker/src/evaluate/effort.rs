//! How much work the task's baseline does on each case, which is what bounds a candidate's: a
//! kernel that needs many times as much is not on its way to being faster, and one that never
//! ends is found out within a moment on a small case.
//!
//! Counted once on the emulated device and kept in the data folder. On silicon nothing is counted;
//! wall time bounds the work there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::device::DeviceKind;
use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, EvaluationStage};
use domain::role::{Compiled, ExecutionFacts};
use domain::task::Case;

use super::passes::Pass;
use super::roles::{Allowance, Numbered};
use super::stages::{Course, Stop};
use super::storage;

/// A launch of a candidate may execute so many times the instructions of the baseline's whole
/// execution.
const FACTOR: u64 = 64;
/// And always as many as this: on a tiny case, starting a grid that fills the device is more work
/// than the baseline does.
const LEAST: u64 = 1 << 26;
/// The counter of a launch that is summed up.
const COUNTER: &str = "thread_instructions";

/// Thread instructions of one execution of the baseline, by case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Efforts(BTreeMap<String, u64>);

impl Efforts {
    /// Thread instructions that one launch of a candidate may execute on a case; `otherwise` where
    /// the baseline's are not known.
    pub fn budget(&self, case: &str, otherwise: u64) -> u64 {
        let known = self.0.get(case);
        known.map_or(otherwise, |work| work.saturating_mul(FACTOR).max(LEAST))
    }
}

impl Course<'_> {
    /// The baseline's efforts on the cases that take part. A baseline that fails on a case leaves
    /// that case without: it is not what is being judged.
    pub(super) fn efforts(&mut self, allowance: Allowance) -> Result<Efforts, Stop> {
        let emulated = self.evaluator.host().device().kind == DeviceKind::Emulated;
        if !emulated || self.request.stage == EvaluationStage::Baseline {
            return Ok(Efforts::default());
        }
        let source = &self.task.baseline;
        let configuration = source.plan().default_configuration();
        let Ok(baseline) = self.build(source, &configuration)? else {
            return Ok(Efforts::default());
        };
        let file = self.efforts_file(&baseline);
        let mut efforts = read(&file);
        let missing = self
            .passes()
            .cases()
            .filter(|case| !efforts.contains_key(&case.name))
            .collect::<Vec<_>>();
        if !missing.is_empty() {
            self.count(&baseline, &missing, allowance, &mut efforts)?;
            let folder = file.parent().unwrap_or(Path::new("/"));
            std::fs::create_dir_all(folder).map_err(storage(folder))?;
            let text = serde_json::to_vec(&efforts).expect("names and numbers");
            std::fs::write(&file, text).map_err(storage(&file))?;
        }
        Ok(Efforts(efforts))
    }

    fn efforts_file(&self, baseline: &Compiled) -> PathBuf {
        let host = self.evaluator.host();
        let whole = (
            EVALUATOR_VERSION,
            self.task.version,
            baseline.image.code_digest,
            &host.device().name,
        );
        let identity = Digest::of(serde_json::to_vec(&whole).expect("only text and numbers"));
        host.data().join(format!("efforts/{identity}.json"))
    }

    /// Runs the baseline once on each case and sums up what it executed.
    fn count(
        &self,
        baseline: &Compiled,
        cases: &[&Case],
        allowance: Allowance,
        efforts: &mut BTreeMap<String, u64>,
    ) -> Result<(), Stop> {
        let host = self.evaluator.host();
        let source = &self.task.baseline;
        let configuration = source.plan().default_configuration();
        let mut planned = Vec::new();
        for case in cases {
            let limits = &host.device().limits;
            let plan = source
                .plan()
                .resolve(self.task, &case.dims, &configuration, limits);
            if let Ok(plan) = plan {
                planned.push((self.passes().ordinary(case)?, plan));
            }
        }
        for (pass, plan) in &planned {
            let numbered = [Numbered {
                id: 0,
                pass,
                plan,
                save: None,
                budget: allowance.instructions,
            }];
            self.roles.run(baseline, &numbered, allowance, |_, reply| {
                let facts = reply
                    .ok()
                    .and_then(|reply| reply.executions.into_iter().next());
                if let Some(work) = facts.and_then(|facts| work(&facts, pass)) {
                    efforts.insert(pass.case.clone(), work);
                }
                Ok::<_, super::EvaluateError>(())
            })?;
        }
        Ok(())
    }
}

/// What an execution took, if it came to its end.
fn work(facts: &ExecutionFacts, pass: &Pass) -> Option<u64> {
    let complete = facts.fault.is_none() && facts.unsupported.is_none() && !pass.tensors.is_empty();
    let launches = facts.launches.iter();
    let sum: u64 = launches
        .filter_map(|launch| launch.counters.get(COUNTER))
        .sum();
    (complete && sum > 0).then_some(sum)
}

/// What is kept; nothing if it is missing or damaged.
fn read(file: &Path) -> BTreeMap<String, u64> {
    std::fs::read(file)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_follows_the_baseline_and_never_starves_a_small_case() {
        let efforts = Efforts(BTreeMap::from([
            ("tiny".to_owned(), 1000),
            ("large".to_owned(), 1 << 30),
            ("absurd".to_owned(), u64::MAX),
        ]));
        assert_eq!(efforts.budget("tiny", 7), LEAST);
        assert_eq!(efforts.budget("large", 7), FACTOR << 30);
        assert_eq!(efforts.budget("absurd", 7), u64::MAX);
        assert_eq!(efforts.budget("unknown", 7), 7);
    }
}
