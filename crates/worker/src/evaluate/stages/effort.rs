//! The effort limit: the number of thread instructions that one launch of a candidate may execute. It
//! ends endless loops, and a kernel that needs many times the baseline's work is not on its way to
//! being faster.
//!
//! The rule: a launch may execute 64 times the thread instructions of the baseline's whole execution on
//! the case, or for each thread that it launches 32,768 and 128 times the largest extent of a tensor
//! (8,192 at most), whichever is more.
//!
//! The baseline's work is counted once on the emulated device and kept in the data folder. On silicon
//! nothing is counted; wall time bounds the work there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::digest::Digest;
use domain::evaluation::EVALUATOR_VERSION;
use domain::plan::{ResolvedPlan, ResolvedStep};
use domain::role::{Compiled, ExecutionFacts};
use domain::task::{Case, CasePurpose};

use crate::evaluate::context::{Context, LARGE};
use crate::evaluate::error::{EvaluateError, storage};
use crate::evaluate::facts::Report;
use crate::evaluate::passes::Pass;
use crate::evaluate::roles::{NumberedPass, RunLimits};

/// The effort limit as a multiple of the baseline's whole execution.
const BASELINE_FACTOR: u64 = 64;
/// The effort limit for each launched thread, in instructions. The baseline of a reduction executes ten
/// instructions for a row of three elements, in one thread; a block per row with a kilobyte of
/// local memory in each thread executes 5,000 in each of 256 threads on the same row. 32,768 is six
/// times that. A grid of 2^15 threads that never end executes 2^30 instructions, which takes the
/// emulated device a second.
const PER_THREAD: u64 = 1 << 15;
/// The further effort limit for each launched thread and element of the largest extent. Where every thread
/// of a cooperative grid walks over all rows, 50 to 60 instructions add its part of a short row to the
/// others of its block.
const PER_STEP: u64 = 128;
/// The most elements of the largest extent that count, so that endless loops end soon on long vectors.
const MOST_STEPS: u64 = 1 << 13;
/// The least effort limit of a case whose baseline is known: on a tiny case, starting a grid that fills
/// the device is more work than the baseline does.
const LEAST: u64 = 1 << 26;
/// The counter of a launch that is summed up.
const COUNTER: &str = "thread_instructions";

/// Thread instructions of one execution of the baseline, by case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::evaluate) struct Efforts(BTreeMap<String, u64>);

impl Efforts {
    /// Thread instructions that one launch of a candidate's plan may execute in a pass. Where the
    /// baseline's work is not known, the stage's allowance stands in for its multiple.
    pub fn limit(&self, pass: &Pass, plan: &ResolvedPlan, allowance: RunLimits) -> u64 {
        let extents = pass.tensors.iter().flat_map(|tensor| &tensor.extents);
        let steps = extents.copied().max().unwrap_or(0);
        self.multiple_of_baseline(&pass.case, allowance.instructions)
            .max(multiple_of_threads(plan, steps))
    }

    /// The share of the limit that the baseline's work gives; `otherwise` where that is not known.
    pub fn multiple_of_baseline(&self, case: &str, otherwise: u64) -> u64 {
        let known = self.0.get(case);
        known.map_or(otherwise, |work| {
            work.saturating_mul(BASELINE_FACTOR).max(LEAST)
        })
    }
}

/// The share of the limit that the launched threads give, on a case with this largest extent.
fn multiple_of_threads(plan: &ResolvedPlan, steps: u64) -> u64 {
    let per_thread = PER_THREAD.saturating_add(PER_STEP * steps.min(MOST_STEPS));
    launched_threads(plan).saturating_mul(per_thread).min(LARGE)
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

/// Counts the baseline's work on the listed cases of this evaluation. Edges and drawn shapes are left out,
/// because each of them would cost an execution of its own for a limit that the launched threads give
/// as well. A case that the baseline fails is left out, because the baseline is not what is being
/// judged.
pub(in crate::evaluate) fn measure_baseline(
    context: &Context<'_>,
    allowance: RunLimits,
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
    allowance: RunLimits,
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
        .filter(|case| is_counted(case) && !efforts.contains_key(&case.name))
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

/// Returns true if the baseline's work on a case is counted.
fn is_counted(case: &Case) -> bool {
    !case.uses.is_empty() && !case.is_for(CasePurpose::Drawn)
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
    allowance: RunLimits,
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
        let numbered = [NumberedPass {
            id: 0,
            pass: &pass,
            plan: &plan,
            save: None,
            beside: None,
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
    use domain::plan::ResolvedLaunch;

    use super::*;

    /// A plan of one launch.
    fn plan(blocks: u32, threads: u32) -> ResolvedPlan {
        let launch = ResolvedLaunch {
            kernel: "k".to_owned(),
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared_bytes: 0,
            cooperative: false,
            l2_persist: None,
            arguments: Vec::new(),
        };
        ResolvedPlan {
            workspaces: Vec::new(),
            steps: vec![ResolvedStep::Kernel(launch)],
        }
    }

    #[test]
    fn the_limit_grows_with_the_threads_of_a_launch_and_ends_at_what_a_score_case_may_execute() {
        let limit = |blocks, threads| multiple_of_threads(&plan(blocks, threads), 0);
        assert_eq!(limit(1, 32), 32 * PER_THREAD);
        assert_eq!(limit(1009, 256), 1009 * 256 * PER_THREAD);
        assert_eq!(limit(u32::MAX, 1024), LARGE);
    }

    #[test]
    fn the_limit_of_a_thread_grows_with_the_rows_that_it_may_walk_over() {
        // 116 blocks of 256 threads, each of which takes 60 instructions for each of 1009 rows.
        let limit = multiple_of_threads(&plan(116, 256), 1009);
        assert!(limit > 116 * 256 * 1009 * 60, "{limit}");
    }

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
