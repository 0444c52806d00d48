//! The kernels of a paired comparison: each is an image with its plan for every score case.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::candidate::KernelSource;
use domain::digest::Digest;
use domain::evaluation::Incumbent;
use domain::plan::Configuration;
use domain::role::{ExecutionPurpose, RunnableImage, TimedCase, fingerprint};
use domain::statistics::TimedKernel;
use domain::timing::CacheState;

use super::context::{Context, Plans};
use super::error::EvaluateError;
use super::examine::Executions;
use super::history::HistoryFile;
use super::paired::{PairedComparison, ValueCheck};
use super::stages::compile::build_reference;

/// One kernel of a paired comparison.
#[derive(Debug, Clone)]
pub(super) struct ComparedKernel {
    /// Identity of its source and tunables.
    pub digest: Digest,
    /// Its image.
    pub image: RunnableImage,
    /// Its plan for each score case.
    pub plans: Plans,
}

/// The candidate, the incumbent, and the task's baseline that scores are relative to, ready to be timed
/// in turn. Without an incumbent the baseline takes its place; an opponent without source does so
/// before both.
///
/// # Errors
/// [`EvaluateError::Reference`] if a kernel that was accepted before cannot take part.
pub(super) fn prepare<'a>(
    context: &Context<'a>,
    candidate: ComparedKernel,
    instructions: u64,
    executions: &Executions,
    opponent: Option<&ComparedKernel>,
) -> Result<PairedComparison<'a>, EvaluateError> {
    let task = context.task;
    let configuration = task.baseline.plan().default_configuration();
    let anchor = accepted_kernel(context, &task.baseline, &configuration, "the baseline")?;
    let incumbent = match (opponent, &context.request.incumbent) {
        (Some(opponent), _) => opponent.clone(),
        (None, Some(incumbent)) => incumbent_kernel(context, incumbent)?,
        (None, None) => anchor.clone(),
    };
    let anchor_digest = anchor.digest;
    let mut kernels = BTreeMap::from([
        (TimedKernel::Incumbent, incumbent),
        (TimedKernel::Candidate, candidate),
    ]);
    if kernels[&TimedKernel::Incumbent].digest != anchor.digest {
        kernels.insert(TimedKernel::Anchor, anchor);
    }
    let mut timed: Vec<(String, TimedCase)> = Vec::new();
    let mut verified = BTreeMap::new();
    let mut values = match task.contract.order_dependent.as_slice() {
        [] => None,
        _ => Some(ValueCheck {
            reference: Arc::new(build_reference(context)?),
            passes: BTreeMap::new(),
        }),
    };
    let passes = context.passes().score(|case| context.draws(case))?;
    for pass in passes
        .into_iter()
        .filter(|pass| pass.purpose == ExecutionPurpose::Score)
    {
        if timed.last().is_none_or(|(name, _)| *name != pass.case) {
            let plans = kernels.iter();
            let case = TimedCase {
                plans: plans
                    .map(|(contender, kernel)| (*contender, kernel.plans[&pass.case].clone()))
                    .collect(),
                draws: Vec::new(),
                cache: CacheState::Cold,
                batch: 1,
            };
            timed.push((pass.case.clone(), case));
        }
        let number = timed.len() - 1;
        let draws = &mut timed[number].1.draws;
        let number_of_draw = draws.len();
        if let Some(facts) = executions.originals.get(&pass.inputs()) {
            let inputs = (pass.case.clone(), number_of_draw);
            let digest = fingerprint(&facts.outputs, &task.contract.order_dependent);
            verified.insert(inputs, digest);
        }
        draws.push(pass.tensors.clone());
        if let Some(values) = &mut values {
            let inputs = (pass.case.clone(), number_of_draw);
            values.passes.insert(inputs, pass);
        }
    }
    Ok(PairedComparison {
        incumbent: kernels[&TimedKernel::Incumbent].digest,
        images: kernels
            .into_iter()
            .map(|(contender, kernel)| (contender, kernel.image))
            .collect(),
        cases: in_states(&timed, task.objective.cache.scored()),
        unscored: in_states(&timed, task.objective.cache.unscored().as_slice()),
        verified,
        values,
        history: HistoryFile::of(context.host(), task.version, anchor_digest),
        key: context.passes().secret(),
        stage: context.request.stage,
        instructions,
        until: None,
        roles: context.roles,
    })
}

fn incumbent_kernel(
    context: &Context<'_>,
    incumbent: &Incumbent,
) -> Result<ComparedKernel, EvaluateError> {
    let who = "the incumbent";
    let unreadable = |reason: String| EvaluateError::Reference(format!("{who}: {reason}"));
    let source = KernelSource::parse(&incumbent.file, incumbent.source.as_str())
        .map_err(|problems| unreadable(problems.to_string()))?;
    let configuration = source
        .configure(&incumbent.configuration)
        .map_err(|problem| unreadable(problem.to_string()))?;
    accepted_kernel(context, &source, &configuration, who)
}

/// A source that was accepted before, as an image with its plans.
fn accepted_kernel(
    context: &Context<'_>,
    source: &KernelSource,
    configuration: &Configuration,
    who: &str,
) -> Result<ComparedKernel, EvaluateError> {
    let compiled = context
        .build(source, configuration)
        .map_err(|stop| stop.into_fault_of(&format!("{who}: ")))?;
    let limits = &context.device().limits;
    let mut plans = Plans::new();
    for case in context.task.score_cases() {
        let plan = source
            .plan()
            .resolve(context.task, &case.dims, configuration, limits)
            .map_err(|error| {
                EvaluateError::Reference(format!("{who} on case {}: {error}", case.name))
            })?;
        plans.insert(case.name.clone(), plan);
    }
    Ok(ComparedKernel {
        digest: source.candidate_digest(configuration),
        image: RunnableImage::from(&compiled),
        plans,
    })
}

/// Each case once with the cache in each of these states.
fn in_states(cases: &[(String, TimedCase)], states: &[CacheState]) -> Vec<(String, TimedCase)> {
    let entries = cases.iter().flat_map(|(name, case)| {
        let in_state = move |cache: &CacheState| TimedCase {
            cache: *cache,
            ..case.clone()
        };
        states
            .iter()
            .map(move |cache| (name.clone(), in_state(cache)))
    });
    entries.collect()
}
