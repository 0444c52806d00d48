//! The effort limit: how many thread instructions one launch of a candidate may execute. A kernel that
//! needs many times the baseline's work is not on its way to being faster, and one that never ends
//! is found out within a moment on a small case.
//!
//! The baseline's work is counted once on the emulated device and kept in the data folder. On silicon
//! nothing is counted; wall time bounds the work there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::digest::Digest;
use domain::evaluation::EVALUATOR_VERSION;
use domain::plan::{ResolvedPlan, ResolvedStep};
use domain::role::{Compiled, ExecutionFacts};
use domain::task::{Case, Task};

use crate::evaluate::context::{Context, LARGE};
use crate::evaluate::error::{EvaluateError, storage};
use crate::evaluate::facts::Report;
use crate::evaluate::passes::Pass;
use crate::evaluate::roles::{Allowance, Numbered};

/// A launch of a candidate may execute so many times the instructions of the baseline's whole
/// execution.
const BASELINE_FACTOR: u64 = 64;
/// And so many for each thread that it launches: a block per row with a reduction executes about 150 in
/// each thread of a row of three elements, where a baseline with a thread per row executes one such
/// row in all. Threads that never end still reach this limit within seconds.
const PER_THREAD: u64 = 512;
/// And always as many as this: on a tiny case, starting a grid that fills the device is more work
/// than the baseline does.
const LEAST: u64 = 1 << 26;
/// The counter of a launch that is summed up.
const COUNTER: &str = "thread_instructions";

/// Thread instructions of one execution of the baseline, by case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::evaluate) struct Efforts(BTreeMap<String, u64>);

impl Efforts {
    /// Thread instructions that one launch of a candidate's plan may execute on a case: a multiple of the
    /// baseline's work, or of the threads that the plan launches where that is more. On the odd shapes
    /// that no task lists, the baseline may do next to nothing where an honest kernel starts whole
    /// blocks, so that they get at least as much as a case whose baseline is not known.
    pub fn limit(&self, task: &Task, case: &str, plan: &ResolvedPlan, allowance: Allowance) -> u64 {
        let known = self.multiple_of_baseline(case, allowance.instructions);
        let listed = task.case(case).is_some_and(|case| !case.uses.is_empty());
        let known = if listed {
            known
        } else {
            known.max(allowance.instructions)
        };
        known.max(launched_threads(plan).saturating_mul(PER_THREAD).min(LARGE))
    }

    /// The share of the limit that the baseline's work gives; `otherwise` where that is not known.
    pub fn multiple_of_baseline(&self, case: &str, otherwise: u64) -> u64 {
        let known = self.0.get(case);
        known.map_or(otherwise, |work| {
            work.saturating_mul(BASELINE_FACTOR).max(LEAST)
        })
    }
}

/// The threads of the plan's largest launch.
fn launched_threads(plan: &ResolvedPlan) -> u64 {
    let launches = plan.steps.iter().map(|step| match step {
        ResolvedStep::Kernel(launch) => {
            let blocks = launch.grid.iter().map(|extent| u64::from(*extent));
            blocks.fold(u64::from(launch.threads()), u64::saturating_mul)
        }
        ResolvedStep::Memset { .. } => 0,
    });
    launches.max().unwrap_or(0)
}

/// Counts the baseline's work on the cases of this evaluation. A case that the baseline fails is left
/// out, because the baseline is not what is being judged.
pub(in crate::evaluate) fn measure_baseline(
    context: &Context<'_>,
    allowance: Allowance,
) -> Report<Efforts> {
    Report::timed(context, "effort", |_| {
        Ok(count_baseline(context, allowance)?)
    })
}

/// The baseline's work: read from the data folder, or counted and kept there.
///
/// # Errors
/// A fault.
pub(in crate::evaluate) fn count_baseline(
    context: &Context<'_>,
    allowance: Allowance,
) -> Result<Efforts, EvaluateError> {
    if !context.is_emulated() || context.is_baseline() {
        return Ok(Efforts::default());
    }
    let Some(baseline) = context.build_default(&context.task.baseline)? else {
        return Ok(Efforts::default());
    };
    let file = file_of(context, &baseline);
    let mut efforts = read(&file);
    let missing = context
        .passes()
        .cases()
        .filter(|case| !efforts.contains_key(&case.name))
        .collect::<Vec<_>>();
    if !missing.is_empty() {
        efforts.extend(count(context, &baseline, &missing, allowance)?);
        let folder = file.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder).map_err(storage(folder))?;
        let text = serde_json::to_vec(&efforts).expect("names and numbers");
        std::fs::write(&file, text).map_err(storage(&file))?;
    }
    Ok(Efforts(efforts))
}

/// The file of a baseline's counts, named by everything that they depend on.
fn file_of(context: &Context<'_>, baseline: &Compiled) -> PathBuf {
    let whole = (
        EVALUATOR_VERSION,
        context.task.version,
        baseline.image.code_digest,
        &context.device().name,
    );
    let identity = Digest::of(serde_json::to_vec(&whole).expect("only text and numbers"));
    let data = context.host().data();
    data.join(format!("efforts/{identity}.json"))
}

/// Executes the baseline once on each case and sums up its instructions.
fn count(
    context: &Context<'_>,
    baseline: &Compiled,
    cases: &[&Case],
    allowance: Allowance,
) -> Result<BTreeMap<String, u64>, EvaluateError> {
    let source = &context.task.baseline;
    let configuration = source.plan().default_configuration();
    let mut efforts = BTreeMap::new();
    for case in cases {
        let limits = &context.device().limits;
        let plan = source
            .plan()
            .resolve(context.task, &case.dims, &configuration, limits);
        let Ok(plan) = plan else { continue };
        let pass = context.passes().ordinary(case)?;
        let numbered = [Numbered {
            id: 0,
            pass: &pass,
            plan: &plan,
            save: None,
            budget: allowance.instructions,
        }];
        context
            .roles
            .run(baseline, &numbered, allowance, |_, reply| {
                let facts = reply
                    .ok()
                    .and_then(|reply| reply.executions.into_iter().next());
                if let Some(work) = facts.and_then(|facts| executed(&facts, &pass)) {
                    efforts.insert(pass.case.clone(), work);
                }
                Ok::<_, EvaluateError>(())
            })?;
    }
    Ok(efforts)
}

/// The thread instructions of an execution; none if it failed or counted nothing.
fn executed(facts: &ExecutionFacts, pass: &Pass) -> Option<u64> {
    let complete = facts.fault.is_none() && facts.unsupported.is_none() && !pass.tensors.is_empty();
    let launches = facts.launches.iter();
    let sum: u64 = launches
        .filter_map(|launch| launch.counters.get(COUNTER))
        .sum();
    (complete && sum > 0).then_some(sum)
}

/// The counts in a file; none if it is missing or damaged.
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
    fn the_limit_follows_the_baseline_and_never_starves_a_small_case() {
        let efforts = Efforts(BTreeMap::from([
            ("tiny".to_owned(), 1000),
            ("large".to_owned(), 1 << 30),
            ("absurd".to_owned(), u64::MAX),
        ]));
        assert_eq!(efforts.multiple_of_baseline("tiny", 7), LEAST);
        assert_eq!(
            efforts.multiple_of_baseline("large", 7),
            BASELINE_FACTOR << 30
        );
        assert_eq!(efforts.multiple_of_baseline("absurd", 7), u64::MAX);
        assert_eq!(efforts.multiple_of_baseline("unknown", 7), 7);
    }
}
