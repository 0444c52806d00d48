//! Jobs of the run role and of the verify role, sized so that their replies fit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::device::DeviceKind;
use domain::digest::Digest;
use domain::evaluation::EVALUATOR_VERSION;
use domain::judge::{self, InfrastructureFault};
use domain::plan::{Configuration, ResolvedPlan, ResolvedStep};
use domain::role::{
    Alteration, Check, Compiled, Disturbance, Execution, ExecutionPurpose, OutputComparison,
    Placement, RunJob, RunReply, RunnableImage, TensorData, VerifyJob, VerifyReply,
};
use domain::task::{Case, Role as Direction, Task};
use domain::verdict::Verdict;
use gpu::answer_cache;

use super::context::Plans;
use super::error::{EvaluateError, Stop, storage};
use super::passes::{ExpectedOutputs, Pass};
use crate::cancel::Cancellation;
use crate::host::Host;
use crate::supervise::Answer;

/// Launches of one run job: the facts of so many stay well below the largest reply, at less than
/// 3 KiB each.
const LAUNCHES_PER_JOB: usize = 256;
const VERIFY_DEADLINE: Duration = Duration::from_secs(120);

/// The limits of a run job.
#[derive(Debug, Clone, Copy)]
pub struct RunLimits {
    /// The stage's name.
    pub stage: &'static str,
    /// Time that the role may work.
    pub deadline: Duration,
    /// Thread instructions of one launch on the emulated device, where the baseline's are not known.
    pub instructions: u64,
}

/// A pass with the number and the folder of its outputs.
#[derive(Debug)]
pub struct NumberedPass<'a> {
    /// The number.
    pub id: u32,
    /// The pass.
    pub pass: &'a Pass,
    /// The plan for its case.
    pub plan: &'a ResolvedPlan,
    /// The folder for its outputs; none keeps only their digests.
    pub save: Option<PathBuf>,
    /// The folder with the outputs of an earlier execution on the same inputs, which these must be close
    /// to; none where bytes are compared.
    pub beside: Option<PathBuf>,
    /// Thread instructions of one launch, on the emulated device.
    pub budget: u64,
}

/// The outputs of a pass in a folder.
#[derive(Debug)]
pub struct SavedOutputs<'a> {
    /// Their number.
    pub id: u32,
    /// The pass.
    pub pass: &'a Pass,
    /// The folder: `NAME.bin` for each output.
    pub outputs: PathBuf,
    /// The same of an earlier execution on the same inputs, which these must be close to.
    pub beside: Option<PathBuf>,
}

/// The roles, with the parts that all their jobs share.
#[derive(Debug, Clone, Copy)]
pub struct Roles<'a> {
    /// The machine.
    pub host: &'a Host,
    /// A folder of this evaluation's own.
    pub scratch: &'a Path,
    /// Calls the work off.
    pub cancellation: &'a Cancellation,
    /// True if runs also report the counters of each source line.
    pub lines: bool,
    /// Kernels that disturb the device around executions; none on a device that proves that no result
    /// depends on such disturbance.
    pub disturber: Option<&'a Compiled>,
}

impl Roles<'_> {
    /// Runs passes in order, in as many processes as their facts need, and calls `handle` with
    /// each reply before the next process starts.
    ///
    /// # Errors
    /// A [`EvaluateError`], or what `handle` returns.
    pub fn run<E: From<EvaluateError>>(
        &self,
        image: &Compiled,
        passes: &[NumberedPass<'_>],
        allowance: RunLimits,
        mut handle: impl FnMut(&[NumberedPass<'_>], Result<RunReply, Verdict>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = passes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(count_fitting(rest));
            let job = RunJob {
                image: image.image.clone(),
                kernels: image.kernels.clone(),
                executions: now
                    .iter()
                    .map(|numbered| {
                        let disturbance = self.disturbance(numbered);
                        let execution = execution(numbered);
                        with_placement(
                            Execution {
                                disturbance,
                                ..execution
                            },
                            self.host,
                        )
                    })
                    .collect(),
                disturber: self.disturber.map(RunnableImage::from),
                // Modelled times hold no loading.
                keeps_image: self.host.is_unproved() && !image.is_stateful(),
                threads: self.host.threads(),
                lines: self.lines || self.counts_lines(now),
                one_by_one: false,
                values: BTreeMap::new(),
            };
            let reply = match self.run_job(&job, allowance) {
                Ok(reply) => Ok(reply),
                Err(Stop::Verdict(verdict)) => Err(*verdict),
                Err(Stop::Fault(error)) => return Err(error.into()),
            };
            handle(now, reply)?;
            rest = later;
        }
        Ok(())
    }

    /// Returns true if the evidence keeps the counters of the passes' source lines: those of scored passes
    /// on the emulated device.
    fn counts_lines(&self, passes: &[NumberedPass<'_>]) -> bool {
        let scored = |numbered: &NumberedPass<'_>| numbered.pass.purpose == ExecutionPurpose::Score;
        !self.host.is_unproved() && passes.iter().any(scored)
    }

    /// Garbage in shared memory and registers before every execution that is not timed, and other
    /// blocks beside it where the pass asks for them.
    fn disturbance(&self, numbered: &NumberedPass<'_>) -> Disturbance {
        let pass = numbered.pass;
        let disturbs = self.disturber.is_some() && pass.purpose == ExecutionPurpose::Check;
        // A launch that needs all of the device at once says so in its plan and has it.
        let cooperative = numbered
            .plan
            .steps
            .iter()
            .any(|step| matches!(step, ResolvedStep::Kernel(launch) if launch.cooperative));
        Disturbance {
            garbage: disturbs,
            company: disturbs && pass.company && !cooperative,
        }
    }

    /// Runs one job. A runner that dies is replaced once: if two die on a healthy device, the
    /// candidate is the reason.
    fn run_job(&self, job: &RunJob, allowance: RunLimits) -> Result<RunReply, Stop> {
        let ask = || self.host.run(job, allowance.deadline, self.cancellation);
        let mut answer = ask()?;
        if matches!(&answer.reply, Err(exit) if exit.may_succeed_on_retry()) {
            log_death("run", &answer);
            self.host.check_health(self.cancellation)?;
            answer = ask()?;
        }
        log_death("run", &answer);
        match answer.reply {
            Ok(reply) => {
                if reply.device != *self.host.device() {
                    return Err(InfrastructureFault(format!(
                        "run on {}: the runner used {}",
                        self.host.device(),
                        reply.device
                    ))
                    .into());
                }
                Ok(reply)
            }
            Err(exit) => {
                self.host.check_health(self.cancellation)?;
                let kind = self.host.device().kind;
                Err(judge::judge_runner_exit(&exit, allowance.stage, kind)?.into())
            }
        }
    }

    /// Compares saved outputs with the reference.
    ///
    /// # Errors
    /// A [`EvaluateError`]: the verifier runs no candidate code, so nothing here is the candidate's.
    pub fn verify(
        &self,
        reference: &Reference<'_>,
        passes: &[NumberedPass<'_>],
    ) -> Result<Vec<OutputComparison>, EvaluateError> {
        let saved = passes.iter().filter_map(|numbered| {
            Some(SavedOutputs {
                id: numbered.id,
                pass: numbered.pass,
                outputs: numbered.save.clone()?,
                beside: numbered.beside.clone(),
            })
        });
        self.compare(reference, &saved.collect::<Vec<_>>())
    }

    /// Compares outputs in any folder with the reference.
    ///
    /// # Errors
    /// A [`EvaluateError`] as for [`Self::verify`].
    pub fn compare(
        &self,
        reference: &Reference<'_>,
        saved: &[SavedOutputs<'_>],
    ) -> Result<Vec<OutputComparison>, EvaluateError> {
        let checks = saved
            .iter()
            .map(|saved| {
                let check =
                    self.check(reference, saved.pass, saved.id, Some(saved.outputs.clone()));
                let beside = saved.beside.clone();
                check.map(|check| Check { beside, ..check })
            })
            .collect::<Result<Vec<_>, _>>()?;
        if checks.is_empty() {
            return Ok(Vec::new());
        }
        let expected = checks
            .iter()
            .flat_map(expected_outputs)
            .collect::<BTreeSet<_>>();
        let comparisons = self.ask_verifier(reference, checks)?.comparisons;
        let compared = comparisons
            .iter()
            .map(|comparison| (comparison.id, comparison.tensor.clone()))
            .collect::<BTreeSet<_>>();
        if compared != expected || comparisons.len() != expected.len() {
            return Err(EvaluateError::Verifier {
                how: "did not compare what it was asked to".to_owned(),
            });
        }
        Ok(comparisons)
    }

    /// Runs one job. A verifier that dies is replaced once; if two die, the evaluation is a fault,
    /// because the verifier runs no candidate code.
    fn ask_verifier(
        &self,
        reference: &Reference<'_>,
        checks: Vec<Check>,
    ) -> Result<VerifyReply, EvaluateError> {
        let job = VerifyJob {
            reference: reference.compiled.image.clone(),
            kernels: reference.compiled.kernels.clone(),
            checks,
            threads: self.host.threads(),
        };
        let ask = || self.host.verify(&job, VERIFY_DEADLINE, self.cancellation);
        let mut answer = ask()?;
        if matches!(&answer.reply, Err(exit) if exit.may_succeed_on_retry()) {
            log_death("verify", &answer);
            answer = ask()?;
        }
        answer.reply.map_err(|exit| {
            let said = answer.stderr.last_line();
            let said = said.map(|line| format!(": {line}")).unwrap_or_default();
            EvaluateError::Verifier {
                how: format!("{exit}{said}"),
            }
        })
    }

    /// Computes the reference's answer to the inputs of each pass: the values of every output by name.
    ///
    /// # Errors
    /// A [`EvaluateError`] as for [`Self::verify`].
    pub fn answers(
        &self,
        reference: &Reference<'_>,
        passes: &[Pass],
    ) -> Result<Vec<BTreeMap<String, Vec<f64>>>, EvaluateError> {
        let checks = passes
            .iter()
            .zip(0_u32..)
            .map(|(pass, id)| self.check(reference, pass, id, None))
            .collect::<Result<Vec<_>, _>>()?;
        self.ask_verifier(reference, checks.clone())?;
        checks
            .iter()
            .map(|check| {
                let outputs = check.tensors.iter();
                outputs
                    .filter(|tensor| tensor.role != Direction::In)
                    .map(|tensor| {
                        let values = read_answer(&check.cache, &tensor.name, tensor.elements())?;
                        Ok((tensor.name.clone(), values))
                    })
                    .collect()
            })
            .collect()
    }

    fn check(
        &self,
        reference: &Reference<'_>,
        pass: &Pass,
        id: u32,
        outputs: Option<PathBuf>,
    ) -> Result<Check, EvaluateError> {
        let case = reference.case(&pass.case)?;
        let plan = reference.plan(case, self.host)?;
        let error_terms = reference
            .task
            .contract
            .error_terms
            .iter()
            .map(|(output, terms)| match terms.scalar(&case.dims) {
                Ok(value) => Ok((output.clone(), value)),
                Err(error) => Err(EvaluateError::Reference(format!(
                    "error_terms of {output} in case {}: {error}",
                    case.name
                ))),
            })
            .collect::<Result<_, _>>()?;
        // A candidate may be given coarser operands than the task's; the right answer is to the
        // task's.
        let mut tensors = pass.tensors.clone();
        for tensor in &mut tensors {
            if matches!(tensor.alteration, Some(Alteration::Rounded(_))) {
                tensor.alteration = None;
            }
        }
        let cache = self.place_of_answers(reference, &plan, &tensors);
        std::fs::create_dir_all(&cache).map_err(storage(&cache))?;
        Ok(Check {
            id,
            plan,
            tensors,
            outputs,
            beside: None,
            cache,
            tolerance: pass.tolerance(reference.task),
            error_scale: reference.task.contract.error_scale.clone(),
            error_terms,
            exact: pass.is_exact(reference.task),
            mixed_magnitudes: pass.has_mixed_magnitudes(),
        })
    }

    /// The folder of the reference's answer to these inputs: named by everything the answer
    /// depends on, so that it can never be taken for another's.
    fn place_of_answers(
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

/// Reads the binary64 values that a verifier wrote for an output into a folder.
pub(super) fn read_answer(
    folder: &Path,
    tensor: &str,
    elements: u64,
) -> Result<Vec<f64>, EvaluateError> {
    let file = answer_cache::answer_file(tensor);
    answer_cache::read_cached(folder, &file, elements).ok_or_else(|| EvaluateError::Verifier {
        how: format!("left {} damaged; remove it", folder.join(file).display()),
    })
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
    fn case(&self, name: &str) -> Result<&Case, EvaluateError> {
        self.task
            .case(name)
            .ok_or_else(|| EvaluateError::Reference(format!("the task has no case {name}")))
    }

    fn plan(&self, case: &Case, host: &Host) -> Result<ResolvedPlan, EvaluateError> {
        let limits = &host.device().limits;
        let source = &self.task.reference;
        let configuration: Configuration = source.plan().default_configuration();
        source
            .plan()
            .resolve(self.task, &case.dims, &configuration, limits)
            .map_err(|error| EvaluateError::Reference(format!("case {}: {error}", case.name)))
    }
}

/// Numbers passes from zero, with a limit on the thread instructions of one launch for each case.
/// Their outputs are not kept.
pub(super) fn number_from_zero<'p>(
    passes: &'p [Pass],
    plans: &'p Plans,
    limit: impl Fn(&Pass) -> u64,
) -> Vec<NumberedPass<'p>> {
    let numbers = passes.iter().zip(0..);
    let numbered = numbers.map(|(pass, id)| NumberedPass {
        id,
        pass,
        plan: &plans[&pass.case],
        save: None,
        beside: None,
        budget: limit(pass),
    });
    numbered.collect()
}

/// A run job of an image whose executions nothing disturbs.
pub(super) fn run_job_of(host: &Host, compiled: &Compiled, executions: Vec<Execution>) -> RunJob {
    RunJob {
        image: compiled.image.clone(),
        kernels: compiled.kernels.clone(),
        executions,
        threads: host.threads(),
        lines: false,
        one_by_one: false,
        values: BTreeMap::new(),
        keeps_image: false,
        disturber: None,
    }
}

/// The execution of a pass, as the run role takes it.
pub fn execution(numbered: &NumberedPass<'_>) -> Execution {
    Execution {
        id: numbered.id,
        case: numbered.pass.case.clone(),
        plan: numbered.plan.clone(),
        tensors: numbered.pass.tensors.clone(),
        poison: numbered.pass.poison,
        schedule: numbered.pass.schedule,
        placement: numbered.pass.placement,
        turned_fragments: numbered.pass.comparison == ExpectedOutputs::Relaid,
        disturbance: Disturbance::default(),
        purpose: numbered.pass.purpose,
        instruction_budget: Some(numbered.budget),
        save: numbered.save.clone(),
    }
}

/// Chooses where each buffer lies. The emulated device detects accesses past an allocation by itself,
/// so that a base can have the weakest alignment that the task allows. On other devices buffers end
/// at, or begin after, an unmapped page, except in timed executions: a buffer that ends at a page
/// has a base as weakly aligned as its size makes it, one that begins at a page the best.
fn with_placement(execution: Execution, host: &Host) -> Execution {
    let timed = execution.purpose == ExecutionPurpose::Score;
    let placement = match execution.placement {
        Placement::Ending if timed && host.device().kind == DeviceKind::Nvidia => {
            Placement::Weakest
        }
        Placement::Ending if !timed && host.is_unproved() => Placement::GuardBehind,
        Placement::Allocated if !timed && host.is_unproved() => Placement::GuardBefore,
        Placement::Ending if !timed => Placement::Weakest,
        other => other,
    };
    Execution {
        placement,
        ..execution
    }
}

/// The number of passes that fit one job; at least one.
fn count_fitting(passes: &[NumberedPass<'_>]) -> usize {
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
