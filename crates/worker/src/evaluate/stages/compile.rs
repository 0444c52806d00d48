//! The second stage: the candidate's image, the policy on it, and the gates on its resources. Before
//! a promotion the machine code is disassembled and the policy is applied to that, too.

use std::collections::BTreeSet;

use domain::evaluation::MachineCode;
use domain::judge;
use domain::plan::ResolvedStep;
use domain::policy::{self, Review};
use domain::role::{Compiled, Contents, DisassembleJob, Disassembly};
use domain::verdict::Verdict;

use super::parse::{Candidate, judge_gates, planned_blocks};
use crate::evaluate::COMPILE_DEADLINE;
use crate::evaluate::build::SOURCE_NAME;
use crate::evaluate::context::Context;
use crate::evaluate::error::{EvaluateError, StageStop};
use crate::evaluate::facts::{Facts, Report};
use crate::evaluate::roles::Reference;
use crate::host::Role;
use crate::supervise;

/// Compiles the candidate and judges its image.
pub(in crate::evaluate) fn compile(
    context: &Context<'_>,
    candidate: &Candidate,
) -> Report<Compiled> {
    Report::timed(context, "compile", |facts| {
        let family = context.family();
        let compiled = context
            .build(&candidate.source, &candidate.configuration)
            .map_err(|stop| stop.on(family))?;
        let launched = launched_kernels(candidate);
        let kernels = compiled.kernels.iter();
        facts.kernels = kernels
            .filter(|kernel| launched.contains(kernel.kernel.as_str()))
            .cloned()
            .collect();
        facts.compiled = Some(compiled.clone());
        let review = policy::review_image(
            &context.request.file,
            candidate.source.text(),
            &compiled.contents,
            &launched,
            &context.task.policy,
        );
        apply(context, review, facts)?;
        if context.request.stage.decides_promotion() {
            let review = review_machine_code(context, candidate.source.text(), &compiled, facts)?;
            apply(context, review, facts)?;
        }
        for plan in candidate.plans.values() {
            let limits = &context.device().limits;
            if let Some(verdict) = judge::judge_image(plan, &compiled.kernels, limits) {
                return Err(StageStop::rejected(verdict, family));
            }
        }
        let planned = planned_blocks(context, &candidate.plans);
        let kernels = facts.kernels.clone();
        judge_gates(context, candidate, &planned, &kernels, facts)?;
        Ok(compiled)
    })
}

/// Compiles the task's reference. A reference that does not compile is a fault, not a verdict.
pub(in crate::evaluate) fn compile_reference<'a>(context: &Context<'a>) -> Report<Reference<'a>> {
    Report::timed(context, "reference", |_| Ok(build_reference(context)?))
}

/// The task's reference as an image.
///
/// # Errors
/// [`EvaluateError::Reference`] if it does not compile.
pub(in crate::evaluate) fn build_reference<'a>(
    context: &Context<'a>,
) -> Result<Reference<'a>, EvaluateError> {
    let source = &context.task.reference;
    let configuration = source.plan().default_configuration();
    let compiled = context
        .build(source, &configuration)
        .map_err(|stop| stop.into_fault_of(""))?;
    Ok(Reference {
        task: context.task,
        compiled,
    })
}

/// The names of the kernels that the plan launches on any case.
fn launched_kernels(candidate: &Candidate) -> BTreeSet<&str> {
    let steps = candidate.plans.values().flat_map(|plan| &plan.steps);
    steps
        .filter_map(|step| match step {
            ResolvedStep::Kernel(launch) => Some(launch.kernel.as_str()),
            ResolvedStep::Memset { .. } => None,
        })
        .collect()
}

/// Notes what the policy flags, and rejects what it denies.
fn apply(context: &Context<'_>, review: Review, facts: &mut Facts) -> Result<(), StageStop> {
    facts.flags.extend(review.flagged);
    if review.denied.is_empty() {
        return Ok(());
    }
    let problems = review.denied;
    let verdict = Verdict::PolicyRejected { problems };
    Err(StageStop::rejected(verdict, context.family()))
}

/// Notes the contents of the machine code, and reviews the features that the PTX did not show by the
/// task's policy.
fn review_machine_code(
    context: &Context<'_>,
    text: &str,
    compiled: &Compiled,
    facts: &mut Facts,
) -> Result<Review, EvaluateError> {
    let disassembly = match disassemble(context, compiled) {
        Ok(disassembly) => disassembly,
        Err(DisassembleError::NotRun(reason)) => {
            facts.machine_code = Some(MachineCode::NotRun { reason });
            return Ok(Review::default());
        }
        Err(DisassembleError::Fault(error)) => return Err(error),
    };
    let known = compiled.contents.uses.iter().map(|found| found.feature);
    let known = known.collect::<BTreeSet<_>>();
    let mut uses = disassembly.uses;
    uses.retain(|found| !known.contains(&found.feature));
    let contents = Contents {
        uses,
        ..Contents::default()
    };
    let (file, policy) = (&context.request.file, &context.task.policy);
    let review = policy::review_image(file, text, &contents, &BTreeSet::new(), policy);
    facts.machine_code = Some(MachineCode::Read {
        tool: disassembly.tool,
        kernels: disassembly.kernels,
    });
    facts.sass = Some(disassembly.sass);
    Ok(review)
}

/// The reasons why there is no disassembly.
enum DisassembleError {
    /// There is no disassembler, or it failed. The evaluation goes on without it.
    NotRun(String),
    Fault(EvaluateError),
}

/// The instructions of an image.
fn disassemble(
    context: &Context<'_>,
    compiled: &Compiled,
) -> Result<Disassembly, DisassembleError> {
    let host = context.host();
    let program = host.disassembler();
    let program = program.map_err(|missing| DisassembleError::NotRun(missing.to_string()))?;
    let job = DisassembleJob {
        program,
        cubin: compiled.image.cubin.clone(),
        source: SOURCE_NAME.to_owned(),
    };
    let role = host.program(Role::Disassemble, context.roles.scratch);
    let bounds = host.bounds(Role::Disassemble, COMPILE_DEADLINE);
    let answer = supervise::ask::<_, Disassembly>(&role, &job, bounds, context.roles.cancellation)
        .map_err(|error| DisassembleError::Fault(error.into()))?;
    answer.reply.map_err(|exit| {
        let last = answer.stderr.last_line();
        let last = last.map(|line| format!(": {line}")).unwrap_or_default();
        DisassembleError::NotRun(format!("the disassembler {exit}{last}"))
    })
}
