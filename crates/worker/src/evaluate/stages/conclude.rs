//! The end of an evaluation: the facts of all stages become one value, and the evidence bundle is
//! written.

use domain::evaluation::{EVALUATOR_VERSION, Evaluation, EvaluationStage, ProtocolPart};
use domain::hottest_lines::HottestLines;
use domain::preconditions::Preconditions;

use crate::evaluate::context::Context;
use crate::evaluate::error::{EvaluateError, Rejection};
use crate::evaluate::evidence::{self, Parts};
use crate::evaluate::facts::{CaseLines, Facts, Report};

/// Findings kept as evidence.
const MAX_FINDINGS: usize = 32;

/// Notes the parts of the protocol that this machine leaves out.
pub(in crate::evaluate) fn note_omissions(context: &Context<'_>) -> Report<()> {
    Report::of(|facts| {
        let host = context.host();
        if host.is_unproved() && context.roles.disturber.is_none() {
            facts.note_not_run(
                ProtocolPart::Disturbance,
                "there is neither a compiler for the kernels that disturb nor a build of them",
            );
        }
        if context.request.stage != EvaluationStage::Champion {
            return Ok(());
        }
        if !host.is_unproved() {
            facts.note_not_run(
                ProtocolPart::Repeats,
                "the emulated device proves on each execution what repeats would show",
            );
            facts.note_not_run(
                ProtocolPart::Draws,
                "on the emulated device each draw of a score case takes as long as all small cases",
            );
        }
        facts.note_not_run(
            ProtocolPart::SecondDevice,
            "an evaluation is one device's word; a service asks another that has joined it, and by \
             hand CUDA_VISIBLE_DEVICES names another",
        );
        Ok(())
    })
}

/// Writes the evidence bundle, and returns the evaluation with the bundle's name.
///
/// # Errors
/// [`EvaluateError::Storage`].
pub(in crate::evaluate) fn conclude(
    context: &Context<'_>,
    mut facts: Facts,
    end: Rejection,
) -> Result<Evaluation, EvaluateError> {
    let plans = std::mem::take(&mut facts.plans);
    let compiled = facts.compiled.clone();
    let lines = std::mem::take(&mut facts.lines);
    let sass = facts.sass.take();
    let mut evaluation = evaluation(context, facts, end);
    evaluation.hottest_lines = hottest_lines(&evaluation, &lines);
    let parts = Parts {
        request: context.request,
        task_name: &context.task.name,
        evaluation: &evaluation,
        plans: &plans,
        compiled: compiled.as_ref(),
        lines: &lines,
        sass: sass.as_deref(),
    };
    evaluation.evidence = Some(evidence::write_bundle(context.host(), &parts)?);
    Ok(evaluation)
}

/// The hottest lines of an accepted candidate.
fn hottest_lines(evaluation: &Evaluation, counted: &[CaseLines]) -> Option<HottestLines> {
    let acceptance = evaluation.verdict.acceptance()?;
    HottestLines::find(&acceptance.timing, &evaluation.launches, |case, launch| {
        let own = counted.iter().find(|own| own.case == case)?;
        Some(own.launches.get(launch)?.lines.as_slice())
    })
}

/// The evaluation with its facts, the deciding finding first.
fn evaluation(context: &Context<'_>, facts: Facts, end: Rejection) -> Evaluation {
    let verdict = *end.verdict;
    let mut findings = facts.findings;
    if let Some(deciding) = verdict.finding() {
        findings.retain(|finding| finding != deciding);
        findings.insert(0, deciding.clone());
    }
    findings.truncate(MAX_FINDINGS);
    let compiled = facts.compiled;
    let stage = context.request.stage;
    let covered = stage.decides_promotion() && verdict.acceptance().is_some();
    let preconditions = covered
        .then(|| Preconditions::of(context.task, &facts.checks))
        .flatten();
    Evaluation {
        verdict,
        evaluator: EVALUATOR_VERSION,
        stage,
        found_on: (facts.ran || facts.prescreen.is_some()).then_some(end.family),
        not_run: facts.not_run,
        task_version: context.task.version,
        candidate_digest: facts.candidate_digest,
        image_digest: compiled.as_ref().map(|compiled| compiled.image.code_digest),
        device: facts.ran.then(|| context.device().clone()),
        prescreen: facts.prescreen,
        toolchain: compiled.as_ref().map(|compiled| compiled.toolchain.clone()),
        kernels: facts.kernels,
        gates: facts.gates.unwrap_or_default(),
        checks: facts.checks,
        drawn_shapes: facts.drawn_shapes,
        preconditions,
        launches: facts.launches.unwrap_or_default(),
        hottest_lines: None,
        floors: facts.floors.unwrap_or_default(),
        measurement: facts.measurement,
        explanation: facts.explanation,
        diagnostics: compiled
            .map(|compiled| compiled.diagnostics)
            .unwrap_or_default(),
        flags: facts.flags,
        machine_code: facts.machine_code,
        sanitizers: facts.sanitizers,
        evidence: None,
        findings,
        stages: facts.stages,
    }
}
