//! The stages of one evaluation in their order.
//!
//! Each stage is a function of the [`Context`] and of what earlier stages gave. It returns the facts
//! that it found; they are merged here and nowhere else. The first stage that rejects the candidate
//! ends the evaluation.

use domain::evaluation::Evaluation;
use domain::verdict::Verdict;

use super::context::{Context, SCORE};
use super::error::{EvaluateError, Rejection, StageStop};
use super::examine::ExaminationInputs;
use super::facts::Facts;
use super::stages::{
    compare, compile, conclude, effort, explain, gate, large_tensor, parse, prescreen, sanitizers,
    score, small_cases,
};

/// Evaluates one candidate.
///
/// # Errors
/// An [`EvaluateError`]: then there is no verdict.
pub(super) fn evaluate(context: &Context<'_>) -> Result<Evaluation, EvaluateError> {
    let mut facts = Facts::default();
    let end = match run_stages(context, &mut facts) {
        Ok(verdict) => Rejection {
            verdict: Box::new(verdict),
            family: context.family(),
        },
        Err(StageStop::Rejected(rejection)) => rejection,
        Err(StageStop::Fault(error)) => return Err(error),
    };
    conclude::conclude(context, facts, end)
}

/// Runs the stages until one of them ends the evaluation, and adds their facts to `facts`.
fn run_stages(context: &Context<'_>, facts: &mut Facts) -> Result<Verdict, StageStop> {
    let promotion = context.request.stage.decides_promotion();
    let candidate = facts.merge(parse::parse(context))?;
    facts.merge(conclude::note_omissions(context))?;
    let compiled = facts.merge(compile::compile(context, &candidate))?;
    facts.merge(prescreen::prescreen(context, &candidate, &compiled))?;
    let reference = facts.merge(compile::compile_reference(context))?;
    let efforts = facts.merge(effort::measure_baseline(context, SCORE))?;
    let inputs = ExaminationInputs {
        plans: &candidate.plans,
        compiled: &compiled,
        reference: &reference,
        efforts: &efforts,
    };
    facts.merge(small_cases::examine(
        context,
        context.family(),
        context.extent(),
        &inputs,
    ))?;
    if !promotion {
        facts.merge(gate::examine(context, &inputs))?;
    }
    let scored = facts.merge(score::examine(context, &inputs))?;
    if promotion {
        facts.merge(large_tensor::examine(
            context, &candidate, &compiled, &reference,
        ))?;
        let findings = &facts.findings;
        facts.merge(sanitizers::run_before_promotion(
            context, &candidate, &compiled, findings,
        ))?;
    }
    facts.merge(compare::observe(
        context,
        &candidate,
        &scored,
        &facts.kernels,
    ))?;
    let verdict = facts.merge(compare::compare(context, &candidate, &inputs, &scored))?;
    facts.merge(explain::explain(context, &candidate, &compiled, &verdict))?;
    Ok(verdict)
}
