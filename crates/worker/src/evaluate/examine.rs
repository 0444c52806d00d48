//! The examination of one list of passes: execute them, judge the facts, compare the outputs with the
//! reference, judge the comparisons.

mod clean;
pub(super) mod confirm;
mod dependence;

use std::collections::BTreeMap;
use std::path::Path;

use domain::cleaning;
use domain::evaluation::{CheckOutcome, ProtocolPart};
use domain::judge::{self, ComparedOutput, ExecutionContext, InfrastructureFault, RepeatVariation};
use domain::role::{
    Compiled, ExecutionFacts, ExecutionPurpose, LaunchLines, LineCounters, OutputComparison,
    RunReply,
};
use domain::seeds::SeedFamily;
use domain::task::Task;
use domain::verdict::Verdict;

pub(super) use self::clean::cleaned;
use super::context::{Context, Plans};
use super::error::{EvaluateError, Rejection, StageStop, storage};
use super::facts::{CaseLines, Facts, KernelLines, Report};
use super::passes::{ExpectedOutputs, Inputs, Pass};
use super::roles::{NumberedPass, Reference, RunLimits};
use super::stages::effort::Efforts;

/// Inputs of an examination that belong to the candidate.
#[derive(Clone, Copy)]
pub(super) struct ExaminationInputs<'i> {
    /// Its plan for each case.
    pub plans: &'i Plans,
    /// Its image.
    pub compiled: &'i Compiled,
    /// The task's reference.
    pub reference: &'i Reference<'i>,
    /// The work of the task's baseline on each case, which bounds the candidate's.
    pub efforts: &'i Efforts,
}

/// The executions of a candidate that were judged and are right so far.
#[derive(Default)]
pub(super) struct Executions {
    /// The first execution on each set of inputs.
    pub originals: BTreeMap<Inputs, ExecutionFacts>,
    /// The executions whose time counts, each with its case.
    pub scored: Vec<(String, ExecutionFacts)>,
    /// The name of the time model; none on silicon.
    pub model_label: Option<String>,
}

impl Executions {
    /// Adds later executions. The first execution on a set of inputs stays.
    pub fn extend(&mut self, later: Self) {
        for (inputs, facts) in later.originals {
            self.originals.entry(inputs).or_insert(facts);
        }
        self.scored.extend(later.scored);
        if later.model_label.is_some() {
            self.model_label = later.model_label;
        }
    }
}

/// A verdict on one execution.
struct FailedPass {
    verdict: Verdict,
    /// The execution's number among those of this examination; none if its process died without
    /// naming one.
    id: Option<u32>,
    /// True if the execution ended only after the blocks beside it had given up.
    outlasted: bool,
    /// The family of its inputs.
    family: SeedFamily,
}

impl From<FailedPass> for Rejection {
    fn from(failed: FailedPass) -> Self {
        Self {
            verdict: Box::new(failed.verdict),
            family: failed.family,
        }
    }
}

/// The reasons why the executions of an examination ended before the last.
enum RunStop {
    Failed(Box<FailedPass>),
    Fault(EvaluateError),
}

impl<E: Into<EvaluateError>> From<E> for RunStop {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}

/// Executes and judges the passes of one stage. `known` are executions of earlier passes, which
/// repeats are compared with.
pub(super) fn examine(
    context: &Context<'_>,
    allowance: RunLimits,
    passes: &[Pass],
    inputs: &ExaminationInputs<'_>,
    known: &Executions,
) -> Report<Executions> {
    Report::of(|facts| {
        // Outputs are removed with this folder once they are judged, because those of large cases
        // take much space.
        let outputs =
            tempfile::tempdir_in(context.roles.scratch).map_err(storage(context.roles.scratch))?;
        let numbered = number(passes, inputs, allowance, outputs.path())?;
        let again = confirm::FailedExamination {
            context,
            inputs,
            allowance,
            made: &numbered,
        };
        let mut found = Executions::default();
        let ran = Report::timed(context, allowance.stage, |facts| {
            let ran = run(
                context, allowance, &numbered, inputs, known, &mut found, facts,
            );
            match ran {
                Ok(()) => Ok(None),
                Err(RunStop::Failed(failed)) => Ok(Some(failed)),
                Err(RunStop::Fault(error)) => Err(error.into()),
            }
        });
        if let Some(failed) = facts.merge(ran)? {
            return Err(StageStop::Rejected(again.confirm_execution(*failed)?));
        }
        let stage = format!("verify {}", allowance.stage);
        facts.merge(Report::timed(context, &stage, |facts| {
            let comparisons = context.roles.verify(inputs.reference, &numbered)?;
            if let Some(failed) = judge_outputs(context.task, &numbered, &comparisons, facts) {
                return Err(StageStop::Rejected(again.confirm_outputs(failed)?));
            }
            dependence::check(context, &numbered, inputs)
        }))?;
        Ok(found)
    })
}

/// Numbers passes and makes folders for the outputs that will be compared with the reference.
fn number<'p>(
    passes: &'p [Pass],
    inputs: &ExaminationInputs<'p>,
    allowance: RunLimits,
    outputs: &Path,
) -> Result<Vec<NumberedPass<'p>>, EvaluateError> {
    let spreads = !inputs.reference.task.contract.order_dependent.is_empty();
    let mut numbered: Vec<NumberedPass<'p>> = Vec::with_capacity(passes.len());
    for (pass, id) in passes.iter().zip(0_u32..) {
        let plan = inputs
            .plans
            .get(&pass.case)
            .expect("passes and plans are made for the same cases");
        let is_repeat = pass.comparison != ExpectedOutputs::Reference;
        let original = numbered
            .iter()
            .find(|original| is_repeat && spreads && original.pass.inputs() == pass.inputs());
        let beside = original.and_then(|original| original.save.clone());
        let save = if !is_repeat || spreads {
            let folder = outputs.join(format!("outputs-{id}"));
            std::fs::create_dir(&folder).map_err(storage(&folder))?;
            Some(folder)
        } else {
            None
        };
        numbered.push(NumberedPass {
            id,
            pass,
            plan,
            save,
            beside,
            budget: inputs.efforts.limit(pass, plan, allowance),
        });
    }
    Ok(numbered)
}

/// Executes the passes in as many processes as they need, and judges each reply.
fn run(
    context: &Context<'_>,
    allowance: RunLimits,
    numbered: &[NumberedPass<'_>],
    inputs: &ExaminationInputs<'_>,
    known: &Executions,
    found: &mut Executions,
    facts: &mut Facts,
) -> Result<(), RunStop> {
    let line = first_fragment_line(inputs.compiled);
    context
        .roles
        .run(inputs.compiled, numbered, allowance, |made, reply| {
            let reply = reply.map_err(|verdict| {
                RunStop::Failed(Box::new(FailedPass {
                    verdict,
                    id: None,
                    outlasted: false,
                    family: made[0].pass.family,
                }))
            })?;
            judge_reply(
                context.task,
                allowance.stage,
                line,
                made,
                reply,
                known,
                found,
                facts,
            )
        })
}

/// Judges the facts of one run job.
#[expect(
    clippy::too_many_arguments,
    reason = "each is a part of one step that is written once"
)]
fn judge_reply(
    task: &Task,
    stage: &str,
    line: Option<u32>,
    made: &[NumberedPass<'_>],
    reply: RunReply,
    known: &Executions,
    found: &mut Executions,
    facts: &mut Facts,
) -> Result<(), RunStop> {
    facts.ran = true;
    let label = |label: String| cleaning::clean_line(&label, cleaning::NAME_CHARACTERS);
    found.model_label = reply.model_label.map(label);
    let lines = reply.lines;
    let executions = reply.executions.into_iter().map(cleaned);
    let executions = executions.collect::<Vec<_>>();
    let (reported, asked) = (executions.len(), made.len());
    for (numbered, execution) in made.iter().zip(executions) {
        if execution.id != numbered.id {
            let what = "run the executions in their order: their numbers differ";
            return Err(InfrastructureFault(what.to_owned()).into());
        }
        let pass = numbered.pass;
        let asked = execution_context(task, stage, numbered);
        let failed = |verdict: Verdict| {
            RunStop::Failed(Box::new(FailedPass {
                verdict,
                id: Some(numbered.id),
                outlasted: execution.outlasted,
                family: pass.family,
            }))
        };
        if execution.unprotected {
            facts.note_not_run(
                ProtocolPart::ReadOnlyInputs,
                "the driver maps no memory for reading only; inputs were compared after every \
                 launch instead",
            );
        }
        facts.findings.extend(execution.findings.iter().cloned());
        if let Some(verdict) = judge::judge_execution(&execution, &asked)? {
            return Err(failed(verdict));
        }
        if pass.comparison != ExpectedOutputs::Reference {
            let inputs = pass.inputs();
            let original = found.originals.get(&inputs);
            let original = original.or_else(|| known.originals.get(&inputs));
            let original = original.ok_or_else(|| {
                InfrastructureFault(format!(
                    "repeat case {}: it was never run before",
                    pass.case
                ))
            })?;
            let variation = variation(pass.comparison, line);
            if let Some(verdict) = judge::judge_repeat(original, &execution, variation, &asked) {
                return Err(failed(verdict));
            }
        }
        if pass.purpose == ExecutionPurpose::Score {
            facts.lines.extend(case_lines(numbered, &lines));
            found.scored.push((pass.case.clone(), execution.clone()));
        }
        found.originals.entry(pass.inputs()).or_insert(execution);
    }
    if reported == asked {
        return Ok(());
    }
    Err(InfrastructureFault(format!(
        "run all executions: the runner reports {reported} of {asked} and no reason"
    ))
    .into())
}

/// The counters of source lines of an execution; none if its device counts none.
pub(super) fn case_lines(numbered: &NumberedPass<'_>, lines: &[LaunchLines]) -> Option<CaseLines> {
    let own = lines.iter().filter(|own| own.execution == numbered.id);
    let launches = own
        .map(|own| KernelLines {
            kernel: cleaning::clean_name(&own.kernel),
            lines: own.lines.iter().map(kept_counters).collect(),
        })
        .collect::<Vec<_>>();
    (!launches.is_empty()).then(|| CaseLines {
        case: numbered.pass.case.clone(),
        launches,
    })
}

/// The counters of a source line that the evidence keeps.
fn kept_counters(line: &LineCounters) -> LineCounters {
    const KEPT: [&str; 7] = [
        "warp_instructions",
        "global.sectors_read",
        "global.sectors_read_ideal",
        "global.sectors_written",
        "global.sectors_written_ideal",
        "shared.wavefronts",
        "shared.wavefronts_ideal",
    ];
    let kept = KEPT.iter().filter_map(|name| {
        let count = line.counters.get(*name)?;
        Some(((*name).to_owned(), *count))
    });
    LineCounters {
        line: line.line,
        counters: kept.collect(),
    }
}

/// Records every comparison. Returns the verdict on the first execution whose outputs are not within
/// the tolerance.
fn judge_outputs(
    task: &Task,
    made: &[NumberedPass<'_>],
    comparisons: &[OutputComparison],
    facts: &mut Facts,
) -> Option<FailedPass> {
    let mut compared = Vec::new();
    for numbered in made {
        let pass = numbered.pass;
        let own = comparisons
            .iter()
            .filter(|comparison| comparison.id == numbered.id);
        compared.extend(own.map(|facts| ComparedOutput {
            facts,
            case: &pass.case,
            distribution: pass.distribution,
        }));
    }
    let tolerance = &task.tolerance;
    let within = |one: &ComparedOutput<'_>| judge::is_within_tolerance(one.facts, tolerance);
    let outcome = |one: &ComparedOutput<'_>| CheckOutcome {
        case: one.case.to_owned(),
        distribution: one.distribution,
        tensor: one.facts.tensor.clone(),
        relative_l2: one.facts.relative_l2,
        worst_ratio: one.facts.worst_ratio,
        passed: within(one),
    };
    facts.checks.extend(compared.iter().map(outcome));
    let verdict = judge::judge_outputs(&compared, tolerance)?;
    let id = compared.iter().find(|one| !within(one))?.facts.id;
    let failed = made.iter().find(|numbered| numbered.id == id)?;
    let verdict = if failed.pass.comparison == ExpectedOutputs::Reference {
        verdict
    } else {
        judge::judge_spread(verdict)
    };
    Some(FailedPass {
        verdict,
        id: Some(id),
        outlasted: false,
        family: failed.pass.family,
    })
}

/// Builds the judge's context of an execution.
pub(super) fn execution_context<'s>(
    task: &'s Task,
    stage: &'s str,
    numbered: &'s NumberedPass<'_>,
) -> ExecutionContext<'s> {
    let pass = numbered.pass;
    ExecutionContext {
        stage,
        case: &pass.case,
        distribution: pass.distribution,
        plan: numbered.plan,
        tensors: &pass.tensors,
        tolerance: &task.tolerance,
        order_dependent: &task.contract.order_dependent,
    }
}

/// The line where an image's source first uses `wmma` fragments.
fn first_fragment_line(compiled: &Compiled) -> Option<u32> {
    let mut uses = compiled.contents.uses.iter();
    uses.by_ref()
        .filter(|found| found.what.starts_with("wmma"))
        .find_map(|found| found.line)
}

/// Difference between a repeat and its first execution; `line` is where the source first uses fragments.
fn variation(comparison: ExpectedOutputs, line: Option<u32>) -> RepeatVariation {
    match comparison {
        ExpectedOutputs::Itself | ExpectedOutputs::Reference => RepeatVariation::None,
        ExpectedOutputs::Rescheduled => RepeatVariation::Schedule,
        ExpectedOutputs::Relaid => RepeatVariation::FragmentLayout { line },
        ExpectedOutputs::Repoisoned => RepeatVariation::MemoryState,
    }
}
