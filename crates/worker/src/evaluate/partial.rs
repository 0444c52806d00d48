//! Partial evaluations: building, testing or timing a candidate. The stages are those of an
//! evaluation, in the same order. There is no verdict of acceptance, so that no promotion can rest
//! on one.

use std::collections::BTreeMap;

use domain::digest::Digest;
use domain::evaluation::{
    CaseLaunches, CheckOutcome, EvaluationRequest, GateOutcome, NotRun, Prescreen, StageTime,
};
use domain::finding::Finding;
use domain::plan::ResolvedPlan;
use domain::problem::Problem;
use domain::role::{ExecutionFacts, ExecutionPurpose, Image, KernelResources};
use domain::task::Task;
use domain::timing::Timing;
use domain::verdict::{Comparison, Diagnostic, Outcome, Verdict};

use super::Evaluator;
use super::compared_kernel::ComparedKernel;
use super::context::{Context, LARGE, SCORE, Setup, load_task};
use super::error::{EvaluateError, StageStop, Stop};
use super::examine::{ExaminationInputs, Executions, examine};
use super::facts::{Facts, Report};
use super::paired::Compared;
use super::passes::Extent;
use super::roles::{NumberedPass, Reference};
use super::stages::compare::{is_launch_bound, observe, paired, time, times};
use super::stages::{compile, effort, parse, prescreen, score, small_cases};
use crate::cancel::Cancellation;

/// The extent of a partial evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Text, plan, image, policy, and the gates on resources. Nothing is executed.
    Build,
    /// Also every execution of an evaluation, with its outputs compared. Nothing is timed.
    Test,
}

/// The facts of a partial evaluation.
#[derive(Debug)]
pub struct PartialEvaluation {
    /// The verdict that rejects the candidate; `None` if no stage did.
    pub against: Option<Verdict>,
    /// Identity of source and values; none if it did not parse.
    pub candidate_digest: Option<Digest>,
    /// The image, once compiled.
    pub image: Option<Image>,
    /// Digest of the launches it plans on every case of the task; none if they could not be resolved.
    pub plans: Option<Digest>,
    /// The compiler.
    pub toolchain: Option<String>,
    /// Each launched kernel's resources.
    pub kernels: Vec<KernelResources>,
    /// Every soft gate that could be evaluated.
    pub gates: Vec<GateOutcome>,
    /// Every output compared.
    pub checks: Vec<CheckOutcome>,
    /// The launches of each score case as they ran.
    pub launches: Vec<CaseLaunches>,
    /// Warnings of the compiler.
    pub diagnostics: Vec<Diagnostic>,
    /// Everything that the policy flags.
    pub flags: Vec<Problem>,
    /// The findings that the emulated device proved.
    pub findings: Vec<Finding>,
    /// The executions of the pre-screen; none where there were none.
    pub prescreen: Option<Prescreen>,
    /// Every part of these stages that was left out or cut short, with its reason.
    pub not_run: Vec<NotRun>,
    /// Wall time of each stage.
    pub stages: Vec<StageTime>,
}

/// The candidate's times, with those of the baseline or of the incumbent that the request names.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidateTimes {
    /// The candidate's.
    pub timing: Timing,
    /// The other kernel's times, taken in the same way.
    pub baseline: Timing,
    /// The ratio of the other kernel's time to the candidate's, with its interval.
    pub comparison: Comparison,
    /// True if it takes little more than launching does.
    pub launch_bound: bool,
}

impl Evaluator {
    /// Builds or tests a candidate. The stages are those of an evaluation; there is no verdict of
    /// acceptance at their end.
    ///
    /// # Errors
    /// An [`EvaluateError`] if the infrastructure, not the candidate, is to blame.
    pub fn evaluate_partially(
        &self,
        request: &EvaluationRequest,
        depth: Depth,
        progress: impl Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<PartialEvaluation, EvaluateError> {
        let (partial, _) =
            self.run_partially(request, &progress, cancellation, |context, facts| {
                let candidate = facts.merge(parse::parse(context))?;
                let compiled = facts.merge(compile::compile(context, &candidate))?;
                if depth == Depth::Build {
                    return Ok(());
                }
                facts.merge(prescreen::prescreen(context, &candidate, &compiled))?;
                let reference = facts.merge(compile::compile_reference(context))?;
                let efforts = facts.merge(effort::measure_baseline(context, SCORE))?;
                let inputs = ExaminationInputs {
                    plans: &candidate.plans,
                    compiled: &compiled,
                    reference: &reference,
                    efforts: &efforts,
                };
                let family = context.family();
                facts.merge(small_cases::examine(context, family, Extent::All, &inputs))?;
                let passes = context.passes().score_once()?;
                let known = Executions::default();
                let scored = facts.merge(examine(context, SCORE, &passes, &inputs, &known))?;
                facts.merge(observe(context, &candidate, &scored, &facts.kernels))
            })?;
        Ok(partial)
    }

    /// Times a candidate beside the task's baseline, or the incumbent that the request names, once
    /// its outputs on the score cases are right. A promotion never rests on the result. Modelled
    /// times of an incumbent are used as the request states them.
    ///
    /// # Errors
    /// An [`EvaluateError`] if the infrastructure, not the candidate, is the cause.
    pub fn measure(
        &self,
        request: &EvaluationRequest,
        progress: impl Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<(PartialEvaluation, Option<CandidateTimes>), EvaluateError> {
        self.measure_against(request, None, &progress, cancellation)
    }

    /// Times a candidate beside an opponent that has no source. On a device that models times, the
    /// request's incumbent has the opponent's times.
    pub(super) fn measure_against(
        &self,
        request: &EvaluationRequest,
        opponent: Option<&ComparedKernel>,
        progress: &dyn Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<(PartialEvaluation, Option<CandidateTimes>), EvaluateError> {
        self.run_partially(request, progress, cancellation, |context, facts| {
            let candidate = facts.merge(parse::parse(context))?;
            let compiled = facts.merge(compile::compile(context, &candidate))?;
            let reference = facts.merge(compile::compile_reference(context))?;
            let efforts = facts.merge(effort::measure_baseline(context, SCORE))?;
            let inputs = ExaminationInputs {
                plans: &candidate.plans,
                compiled: &compiled,
                reference: &reference,
                efforts: &efforts,
            };
            let passes = score::first_passes(context)?;
            let known = Executions::default();
            let scored = facts.merge(examine(context, SCORE, &passes, &inputs, &known))?;
            facts.merge(observe(context, &candidate, &scored, &facts.kernels))?;
            if !context.is_emulated() {
                let comparison = paired(context, &candidate, &compiled, &scored, opponent)?;
                let compared = facts.merge(time(context, "time", comparison))?;
                return Ok(CandidateTimes {
                    launch_bound: is_launch_bound(context, &scored, &compared.timing),
                    timing: compared.timing,
                    baseline: compared.measurement.incumbent_timing,
                    comparison: compared.comparison,
                });
            }
            let own = times(context, &scored, &scored.scored)?;
            let baseline = match &context.request.incumbent {
                Some(incumbent) => incumbent.timing.clone(),
                None => facts.merge(Report::timed(context, "baseline", |_| {
                    let executions = execute_baseline(context, &reference)?;
                    Ok(times(context, &scored, &executions)?)
                }))?,
            };
            Ok(CandidateTimes {
                comparison: compare_modelled(&own, &baseline)?,
                launch_bound: is_launch_bound(context, &scored, &own),
                timing: own,
                baseline,
            })
        })
    }

    /// Times a candidate in turn with the incumbent, which is the task's baseline unless the
    /// request names another, without judging outputs. A promotion never rests on the result.
    ///
    /// # Errors
    /// [`Stop`] with the verdict on the candidate, or with a fault of the infrastructure.
    pub fn bench(
        &self,
        request: &EvaluationRequest,
        progress: impl Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<Compared, Stop> {
        let (partial, compared) =
            self.run_partially(request, &progress, cancellation, |context, facts| {
                let candidate = facts.merge(parse::parse(context))?;
                let compiled = facts.merge(compile::compile(context, &candidate))?;
                let known = Executions::default();
                let comparison = facts.merge(Report::timed(context, "opponents", |_| {
                    Ok(paired(context, &candidate, &compiled, &known, None)?)
                }))?;
                (context.progress)("time");
                let compared = comparison.measure_and_decide();
                compared.map_err(|stop| stop.on(context.family()))
            })?;
        match (compared, partial.against) {
            (Some(compared), _) => Ok(compared),
            (None, Some(verdict)) => Err(verdict.into()),
            (None, None) => unreachable!("without a comparison there is a verdict"),
        }
    }

    /// Runs stages of the caller's choice. Returns their facts, and their result unless one of them
    /// rejected the candidate.
    pub(super) fn run_partially<T>(
        &self,
        request: &EvaluationRequest,
        progress: &dyn Fn(&str),
        cancellation: &Cancellation,
        stages: impl FnOnce(&Context<'_>, &mut Facts) -> Result<T, StageStop>,
    ) -> Result<(PartialEvaluation, Option<T>), EvaluateError> {
        let task = load_task(request)?;
        let setup = Setup::new(self, request, task, cancellation)?;
        let context = setup.context(progress);
        let mut facts = Facts::default();
        match stages(&context, &mut facts) {
            Ok(found) => Ok((partial(context.task, facts, None), Some(found))),
            Err(StageStop::Rejected(rejection)) => {
                let verdict = Some(*rejection.verdict);
                Ok((partial(context.task, facts, verdict), None))
            }
            Err(StageStop::Fault(error)) => Err(error),
        }
    }
}

/// Executes the baseline once on each score case.
fn execute_baseline(
    context: &Context<'_>,
    reference: &Reference<'_>,
) -> Result<Vec<(String, ExecutionFacts)>, EvaluateError> {
    let source = &reference.task.baseline;
    let configuration = source.plan().default_configuration();
    let fault = |what: String| EvaluateError::Reference(format!("the baseline: {what}"));
    let compiled = context
        .build(source, &configuration)
        .map_err(|stop| stop.into_fault_of("the baseline: "))?;
    let passes = context.passes().score_once()?;
    let passes = passes
        .iter()
        .filter(|pass| pass.purpose == ExecutionPurpose::Score)
        .collect::<Vec<_>>();
    let limits = &context.device().limits;
    let plans = passes
        .iter()
        .map(|pass| {
            let case = context.task.case(&pass.case).expect("passes name cases");
            source
                .plan()
                .resolve(context.task, &case.dims, &configuration, limits)
                .map_err(|error| fault(format!("case {}: {error}", pass.case)))
        })
        .collect::<Result<Vec<ResolvedPlan>, EvaluateError>>()?;
    let numbered = passes
        .iter()
        .zip(&plans)
        .zip(0..)
        .map(|((pass, plan), id)| NumberedPass {
            id,
            pass,
            plan,
            save: None,
            beside: None,
            budget: LARGE,
        })
        .collect::<Vec<_>>();
    let mut scored = Vec::new();
    context
        .roles
        .run::<EvaluateError>(&compiled, &numbered, SCORE, |made, reply| {
            let reply = reply.map_err(|verdict| fault(verdict.to_string()))?;
            let ran = made.iter().zip(reply.executions);
            scored.extend(ran.map(|(numbered, facts)| (numbered.pass.case.clone(), facts)));
            Ok(())
        })?;
    Ok(scored)
}

/// Compares two modelled times. They have no noise, so that both ends of the interval are their
/// ratio.
fn compare_modelled(own: &Timing, baseline: &Timing) -> Result<Comparison, EvaluateError> {
    let ratio = own.speedup_over(baseline).ok_or_else(|| {
        let what = "compare with the baseline: the two were not timed on the same cases";
        domain::judge::InfrastructureFault(what.to_owned())
    })?;
    Ok(Comparison {
        outcome: if ratio > 1.0 {
            Outcome::Faster
        } else {
            Outcome::NotFaster
        },
        ratio,
        interval: [ratio, ratio],
    })
}

fn partial(task: &Task, facts: Facts, against: Option<Verdict>) -> PartialEvaluation {
    let compiled = facts.compiled;
    // Further shapes are left out, because they depend on the evaluation's key.
    let listed = task.cases.iter().filter(|case| !case.uses.is_empty());
    let plans = listed
        .filter_map(|case| facts.plans.get_key_value(&case.name))
        .collect::<BTreeMap<_, _>>();
    PartialEvaluation {
        against,
        candidate_digest: facts.candidate_digest,
        plans: (!plans.is_empty()).then(|| {
            let text = serde_json::to_vec(&plans).expect("a plan has text keys");
            Digest::of(text)
        }),
        image: compiled.as_ref().map(|compiled| compiled.image.clone()),
        toolchain: compiled.as_ref().map(|compiled| compiled.toolchain.clone()),
        kernels: facts.kernels,
        gates: facts.gates.unwrap_or_default(),
        checks: facts.checks,
        launches: facts.launches.unwrap_or_default(),
        diagnostics: compiled
            .map(|compiled| compiled.diagnostics)
            .unwrap_or_default(),
        flags: facts.flags,
        findings: facts.findings,
        prescreen: facts.prescreen,
        not_run: facts.not_run,
        stages: facts.stages,
    }
}
