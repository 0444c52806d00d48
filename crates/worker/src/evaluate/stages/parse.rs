//! The first stage: everything that needs no compiler. Text, policy, launch plans, and the gates
//! that the plans decide.

use std::collections::BTreeMap;
use std::fmt::Display;

use domain::candidate::KernelSource;
use domain::dtype::Dtype;
use domain::judge::{self, GateFacts};
use domain::plan::Configuration;
use domain::policy;
use domain::problem::{Problem, Problems};
use domain::role::KernelResources;
use domain::verdict::Verdict;

use crate::evaluate::context::{Context, Plans};
use crate::evaluate::error::StageStop;
use crate::evaluate::facts::{Facts, Report};
use crate::evaluate::tensor_size::tensor_bytes;
use crate::evaluate::workspace;

/// The most defects of a plan that its verdict names.
const MAX_DEFECTS: usize = 8;

/// A candidate that parses, with its plan for every case of this evaluation.
pub(in crate::evaluate) struct Candidate {
    pub source: KernelSource,
    pub configuration: Configuration,
    pub plans: Plans,
}

/// Parses the candidate, applies the policy to its text, resolves its plan on every case and judges
/// the gates that plans decide.
pub(in crate::evaluate) fn parse(context: &Context<'_>) -> Report<Candidate> {
    Report::timed(context, "parse", |facts| {
        let candidate = read(context, facts)?;
        facts.plans.clone_from(&candidate.plans);
        let planned = planned_blocks(context, &candidate.plans);
        judge_gates(context, &candidate, &planned, &[], facts)?;
        Ok(candidate)
    })
}

fn read(context: &Context<'_>, facts: &mut Facts) -> Result<Candidate, StageStop> {
    let (request, task, family) = (context.request, context.task, context.family());
    let reject =
        |problems: Vec<Problem>| StageStop::rejected(Verdict::ParseRejected { problems }, family);
    let source = KernelSource::parse(&request.file, request.source.as_str())
        .map_err(|Problems(problems)| reject(problems))?;
    let configuration = source
        .configure(&request.configuration)
        .map_err(|problem| reject(vec![problem]))?;
    facts.candidate_digest = Some(source.candidate_digest(&configuration));
    let problems = policy::find_violations(&request.file, &source, &task.baseline);
    if !problems.is_empty() {
        let verdict = Verdict::PolicyRejected { problems };
        return Err(StageStop::rejected(verdict, family));
    }
    let device = context.device();
    let launch_rejected = |case: &str, why: &dyn Display| {
        let reason = format!("case {case}: {why}");
        StageStop::rejected(Verdict::LaunchRejected { reason }, family)
    };
    let mut plans = BTreeMap::new();
    for case in context.passes().cases() {
        let plan = source
            .plan()
            .resolve_all(task, &case.dims, &configuration, &device.limits)
            .map_err(|errors| {
                let texts = errors.iter().take(MAX_DEFECTS).map(ToString::to_string);
                launch_rejected(&case.name, &texts.collect::<Vec<_>>().join("; "))
            })?;
        let tensors = tensor_bytes(task, case, Dtype::bytes)?;
        let (kind, memory) = (device.kind, device.memory_bytes);
        if let Some(why) = workspace::reject(kind, memory, plan.workspace_bytes(), tensors) {
            return Err(launch_rejected(&case.name, &why));
        }
        plans.insert(case.name.clone(), plan);
    }
    Ok(Candidate {
        source,
        configuration,
        plans,
    })
}

/// The blocks of each score case's launches, as planned.
pub(in crate::evaluate) fn planned_blocks<'p>(
    context: &Context<'_>,
    plans: &'p Plans,
) -> Vec<GateFacts<'p>> {
    let cases = context.task.score_cases();
    cases
        .filter_map(|case| plans.get_key_value(&case.name))
        .filter_map(|(case, plan)| GateFacts::planned(case, plan))
        .collect()
}

/// Evaluates every gate that the facts so far decide.
///
/// # Errors
/// [`StageStop::Rejected`] at a broken gate that rejects.
pub(in crate::evaluate) fn judge_gates(
    context: &Context<'_>,
    candidate: &Candidate,
    blocks: &[GateFacts<'_>],
    kernels: &[KernelResources],
    facts: &mut Facts,
) -> Result<(), StageStop> {
    let limits = &context.device().limits;
    let gates = judge::evaluate_gates(context.task, blocks, kernels, limits);
    let phase = candidate.source.step().map(|step| step.phase.as_str());
    let verdict = judge::judge_gates(&gates, phase, context.request.stage);
    facts.gates = Some(gates);
    verdict.map_or(Ok(()), |verdict| {
        Err(StageStop::rejected(verdict, context.family()))
    })
}
