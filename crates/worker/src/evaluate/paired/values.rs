//! The check of timed outputs whose bytes may differ between executions, because a task lets their sums
//! be taken in any order: each is held against the reference, and against the first execution on the
//! same inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use domain::judge::{self, ComparedOutput, InfrastructureFault};
use domain::role::{OrderDependentOutputs, TimeJob, TimeReply};
use domain::statistics::{TimedKernel, sample_order};
use domain::task::Role;
use domain::verdict::Verdict;

use super::{KernelAssignment, PairedComparison};
use crate::evaluate::error::Stop;
use crate::evaluate::passes::Pass;
use crate::evaluate::roles::{Reference, SavedOutputs};

/// The most executions of each case and kernel that are compared in a process.
const MAX_EXECUTIONS: u64 = 64;
/// The most bytes that their files take, beyond two executions.
const MAX_BYTES: u64 = 1 << 30;

/// The right answers to the inputs of a comparison.
#[derive(Debug, Clone)]
pub struct ValueCheck<'a> {
    /// The task's reference.
    pub(in crate::evaluate) reference: Arc<Reference<'a>>,
    /// The inputs by case and draw.
    pub(in crate::evaluate) passes: BTreeMap<(String, usize), Pass>,
}

impl ValueCheck<'_> {
    /// The outputs that a process keeps in a folder.
    pub(super) fn outputs_in(&self, folder: &Path) -> OrderDependentOutputs {
        let bytes = self.passes.values().map(|pass| {
            let outputs = pass.tensors.iter().filter(|tensor| tensor.role != Role::In);
            let bytes = outputs.map(|tensor| tensor.elements() * tensor.dtype.bytes());
            bytes.sum::<u64>()
        });
        let largest = bytes.max().unwrap_or_default().max(1);
        let executions = (MAX_BYTES / largest).clamp(2, MAX_EXECUTIONS);
        OrderDependentOutputs {
            tensors: self.reference.task.contract.order_dependent.clone(),
            folder: folder.to_owned(),
            executions: usize::try_from(executions).expect("at most 64"),
        }
    }
}

impl PairedComparison<'_> {
    /// Compares the outputs that a process kept. The verdict is the candidate's, or says that another
    /// kernel was disturbed.
    pub(super) fn check_values(
        &self,
        job: &TimeJob,
        reply: &TimeReply,
        assignment: KernelAssignment,
    ) -> Result<(), Stop> {
        let (Some(check), Some(outputs)) = (&self.values, &job.order_dependent) else {
            return Ok(());
        };
        ensure_all_are_kept(job, reply)?;
        let unknown = || InfrastructureFault("time: unknown outputs were kept".to_owned());
        let mut firsts = BTreeMap::new();
        let mut saved = Vec::new();
        for (id, kept) in (0_u32..).zip(&reply.kept) {
            let case = self.case_by_number(kept.case);
            let pass = case.and_then(|(name, _)| check.passes.get(&(name.clone(), kept.draw)));
            let pass = pass.ok_or_else(unknown)?;
            let folder = outputs.folder.join(id.to_string());
            let first = firsts.entry(*kept).or_insert_with(|| folder.clone());
            saved.push(SavedOutputs {
                id,
                pass,
                beside: (*first != folder).then(|| first.clone()),
                outputs: folder,
            });
        }
        let comparisons = self.roles.compare(&check.reference, &saved)?;
        let tolerance = &check.reference.task.tolerance;
        for (kept, saved) in reply.kept.iter().zip(&saved) {
            let case = self.case_name(kept.case);
            let own = comparisons.iter().filter(|facts| facts.id == saved.id);
            let own = own.map(|facts| ComparedOutput {
                facts,
                case: &case,
                distribution: saved.pass.distribution,
            });
            let verdict = judge::judge_outputs(&own.collect::<Vec<_>>(), tolerance);
            let Some(verdict) = verdict.map(judge::judge_spread) else {
                continue;
            };
            let player = assignment.kernel_in(kept.contender);
            return Err(match player {
                TimedKernel::Candidate => verdict.into(),
                TimedKernel::Incumbent | TimedKernel::Anchor => Verdict::InvalidRun {
                    reason: format!("the {} beside the candidate: {verdict}", player.as_str()),
                }
                .into(),
            });
        }
        Ok(())
    }
}

/// Checks that outputs of each kernel were kept for every case that was timed.
fn ensure_all_are_kept(job: &TimeJob, reply: &TimeReply) -> Result<(), InfrastructureFault> {
    let anchored = job.images.contains_key(&TimedKernel::Anchor);
    let timed = reply.rounds.iter().flatten().flat_map(|block| {
        let kernels = sample_order(block.order, anchored);
        kernels.into_iter().map(|contender| (block.case, contender))
    });
    let kept = reply.kept.iter();
    let kept = kept.map(|kept| (kept.case, kept.contender));
    let kept = kept.collect::<BTreeSet<_>>();
    if timed.collect::<BTreeSet<_>>() == kept {
        return Ok(());
    }
    let what = "time: outputs were not kept for every case";
    Err(InfrastructureFault(what.to_owned()))
}
