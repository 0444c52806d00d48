//! Gives passes to the run role and outputs to the verify role, in jobs whose replies fit.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::digest::Digest;
use domain::evaluation::EVALUATOR_VERSION;
use domain::judge::{self, Trouble};
use domain::plan::{Configuration, ResolvedPlan};
use domain::role::{
    Check, Compiled, Execution, OutputComparison, RunJob, RunReply, TensorData, VerifyJob,
    VerifyReply,
};
use domain::task::{Case, Role as Direction, Task};
use domain::verdict::Verdict;

use super::passes::Pass;
use super::{Fault, storage};
use crate::cancel::Cancellation;
use crate::host::{Host, Role};
use crate::supervise::{self, Answer};

/// Launches of one run job: the facts of so many stay well below the largest reply, at less than
/// 3 KiB each.
const LAUNCHES_PER_JOB: usize = 256;
const VERIFY_DEADLINE: Duration = Duration::from_secs(120);

/// What bounds a run job.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// The stage in words.
    pub stage: &'static str,
    /// How long the role may work.
    pub deadline: Duration,
    /// Thread instructions of one launch on the emulated device, where the baseline's are not known.
    pub instructions: u64,
}

/// A pass with the number and the folder of its outputs.
#[derive(Debug)]
pub struct Numbered<'a> {
    /// The number.
    pub id: u32,
    /// What to do.
    pub pass: &'a Pass,
    /// The plan for its case.
    pub plan: &'a ResolvedPlan,
    /// Where its outputs go; none keeps their digests only.
    pub save: Option<PathBuf>,
    /// Thread instructions of one launch, on the emulated device.
    pub budget: u64,
}

/// The roles with what all their jobs share.
#[derive(Debug, Clone, Copy)]
pub struct Roles<'a> {
    /// The machine.
    pub host: &'a Host,
    /// A folder of this evaluation's own.
    pub scratch: &'a Path,
    /// Calls the work off.
    pub cancellation: &'a Cancellation,
    /// Whether runs report what each source line took, too.
    pub lines: bool,
}

impl Roles<'_> {
    /// Runs passes in order, in as many processes as their facts need, and calls `look` with each
    /// reply before the next process starts.
    ///
    /// # Errors
    /// A [`Fault`], or what `look` returns.
    pub fn run<E: From<Fault>>(
        &self,
        image: &Compiled,
        passes: &[Numbered<'_>],
        allowance: Allowance,
        mut look: impl FnMut(&[Numbered<'_>], Result<RunReply, Verdict>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = passes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(fitting(rest));
            let job = RunJob {
                image: image.image.clone(),
                kernels: image.kernels.clone(),
                executions: now.iter().map(execution).collect(),
                threads: self.host.threads(),
                lines: self.lines,
            };
            look(now, self.run_job(&job, allowance)?)?;
            rest = later;
        }
        Ok(())
    }

    /// One run job. A runner that dies is replaced once: twice on a healthy device is the
    /// candidate's doing.
    fn run_job(
        &self,
        job: &RunJob,
        allowance: Allowance,
    ) -> Result<Result<RunReply, Verdict>, Fault> {
        let program = self.host.program(Role::Run, self.scratch);
        let bounds = self.host.bounds(Role::Run, allowance.deadline);
        let ask = || supervise::ask::<_, RunReply>(&program, job, bounds, self.cancellation);
        let mut answer = ask()?;
        if matches!(&answer.reply, Err(exit) if exit.is_sudden()) {
            log_death("run", &answer);
            self.host.check(self.cancellation)?;
            answer = ask()?;
        }
        log_death("run", &answer);
        match answer.reply {
            Ok(reply) => {
                if reply.device != *self.host.device() {
                    return Err(Trouble(format!(
                        "run on {}: the runner used {}",
                        self.host.device(),
                        reply.device
                    ))
                    .into());
                }
                Ok(Ok(reply))
            }
            Err(exit) => {
                self.host.check(self.cancellation)?;
                let kind = self.host.device().kind;
                Ok(Err(judge::runner_exit(&exit, allowance.stage, kind)?))
            }
        }
    }

    /// Compares saved outputs with the reference.
    ///
    /// # Errors
    /// A [`Fault`]: the verifier runs no candidate code, so nothing here is the candidate's.
    pub fn verify(
        &self,
        reference: &Reference<'_>,
        passes: &[Numbered<'_>],
    ) -> Result<Vec<OutputComparison>, Fault> {
        let checks = passes
            .iter()
            .filter(|numbered| numbered.save.is_some())
            .map(|numbered| self.check(reference, numbered))
            .collect::<Result<Vec<_>, _>>()?;
        if checks.is_empty() {
            return Ok(Vec::new());
        }
        let expected = checks
            .iter()
            .flat_map(expected_outputs)
            .collect::<BTreeSet<_>>();
        let job = VerifyJob {
            reference: reference.compiled.image.clone(),
            kernels: reference.compiled.kernels.clone(),
            checks,
            threads: self.host.threads(),
        };
        let program = self.host.program(Role::Verify, self.scratch);
        let bounds = self.host.bounds(Role::Verify, VERIFY_DEADLINE);
        let answer = supervise::ask::<_, VerifyReply>(&program, &job, bounds, self.cancellation)?;
        let comparisons = match answer.reply {
            Ok(reply) => reply.comparisons,
            Err(exit) => {
                let said = answer.stderr.last_line();
                let said = said.map(|line| format!(": {line}")).unwrap_or_default();
                return Err(Fault::Verifier {
                    how: format!("{exit}{said}"),
                });
            }
        };
        let compared = comparisons
            .iter()
            .map(|comparison| (comparison.id, comparison.tensor.clone()))
            .collect::<BTreeSet<_>>();
        if compared != expected || comparisons.len() != expected.len() {
            return Err(Fault::Verifier {
                how: "did not compare what it was asked to".to_owned(),
            });
        }
        Ok(comparisons)
    }

    fn check(&self, reference: &Reference<'_>, numbered: &Numbered<'_>) -> Result<Check, Fault> {
        let case = reference.case(&numbered.pass.case)?;
        let plan = reference.plan(case, self.host)?;
        let error_terms = reference
            .task
            .contract
            .error_terms
            .iter()
            .map(|(output, terms)| match terms.scalar(&case.dims) {
                Ok(value) => Ok((output.clone(), value)),
                Err(error) => Err(Fault::Reference(format!(
                    "error_terms of {output} in case {}: {error}",
                    case.name
                ))),
            })
            .collect::<Result<_, _>>()?;
        let cache = self.answers(reference, &plan, &numbered.pass.tensors);
        std::fs::create_dir_all(&cache).map_err(storage(&cache))?;
        Ok(Check {
            id: numbered.id,
            plan,
            tensors: numbered.pass.tensors.clone(),
            outputs: numbered.save.clone(),
            cache,
            tolerance: reference.task.tolerance,
            error_scale: reference.task.contract.error_scale.clone(),
            error_terms,
            exact: numbered.pass.is_exact(reference.task),
        })
    }

    /// The folder of the reference's answer to these inputs: named by everything the answer
    /// depends on, so that it can never be taken for another's.
    fn answers(
        &self,
        reference: &Reference<'_>,
        plan: &ResolvedPlan,
        tensors: &[TensorData],
    ) -> PathBuf {
        let whole = (
            EVALUATOR_VERSION,
            reference.task.version,
            reference.compiled.image.code_digest,
            self.host.device().kind,
            plan,
            tensors,
        );
        let identity = Digest::of(serde_json::to_vec(&whole).expect("only text and numbers"));
        let folder = format!("references/{identity}");
        self.host.data().join(folder)
    }
}

/// The compiled reference of a task.
#[derive(Debug)]
pub struct Reference<'a> {
    /// The task.
    pub task: &'a Task,
    /// The image.
    pub compiled: Compiled,
}

impl Reference<'_> {
    fn case(&self, name: &str) -> Result<&Case, Fault> {
        self.task
            .case(name)
            .ok_or_else(|| Fault::Reference(format!("the task has no case {name}")))
    }

    fn plan(&self, case: &Case, host: &Host) -> Result<ResolvedPlan, Fault> {
        let limits = &host.device().limits;
        let source = &self.task.reference;
        let configuration: Configuration = source.plan().default_configuration();
        source
            .plan()
            .resolve(self.task, &case.dims, &configuration, limits)
            .map_err(|error| Fault::Reference(format!("case {}: {error}", case.name)))
    }
}

/// A pass as the run role is told of it.
pub fn execution(numbered: &Numbered<'_>) -> Execution {
    Execution {
        id: numbered.id,
        case: numbered.pass.case.clone(),
        plan: numbered.plan.clone(),
        tensors: numbered.pass.tensors.clone(),
        poison: numbered.pass.poison,
        schedule: numbered.pass.schedule,
        purpose: numbered.pass.purpose,
        instruction_budget: Some(numbered.budget),
        save: numbered.save.clone(),
    }
}

/// How many of the passes fit one job; at least one.
fn fitting(passes: &[Numbered<'_>]) -> usize {
    let mut launches = 0;
    let fitting = passes.iter().take_while(|numbered| {
        launches += numbered.plan.steps.len();
        launches <= LAUNCHES_PER_JOB
    });
    fitting.count().max(1)
}

fn expected_outputs(check: &Check) -> Vec<(u32, String)> {
    check
        .tensors
        .iter()
        .filter(|tensor| tensor.role != Direction::In)
        .map(|tensor| (check.id, tensor.name.clone()))
        .collect()
}

fn log_death<R>(role: &str, answer: &Answer<R>) {
    if let Err(exit) = &answer.reply {
        let said = answer.stderr.last_line().unwrap_or_default();
        tracing::warn!("the {role} role {exit}: {said}");
    }
}
