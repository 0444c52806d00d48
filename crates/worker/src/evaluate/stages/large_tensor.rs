//! The large-tensor stage of a promotion: a shape in which one tensor has more than 2^31 elements, so
//! that indices do not fit 32 bits.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::candidate::KernelSource;
use domain::evaluation::ProtocolPart;
use domain::plan::Configuration;
use domain::role::Compiled;
use domain::verdict::Verdict;

use super::effort::Efforts;
use super::parse::Candidate;
use crate::evaluate::context::{Context, LARGE};
use crate::evaluate::error::StageStop;
use crate::evaluate::examine::confirm::fails_again;
use crate::evaluate::examine::{ExaminationInputs, Executions, examine as examine_passes};
use crate::evaluate::facts::{Facts, Report};
use crate::evaluate::roles::{Reference, RunLimits};
use crate::evaluate::tensor_size::{self, Room};
use crate::host::FILE_BYTES;

/// Making two billion values and comparing them takes a minute or two each.
const LARGE_TENSOR: RunLimits = RunLimits {
    stage: "many elements",
    deadline: Duration::from_secs(180),
    instructions: LARGE,
};

/// The reasons why the stage ended early: it was not run, or the candidate has its verdict.
enum EarlyEnd {
    /// There is no room, or nothing to compare with; the evaluation goes on.
    NotRun(String),
    Stop(StageStop),
}

impl<E: Into<StageStop>> From<E> for EarlyEnd {
    fn from(stop: E) -> Self {
        Self::Stop(stop.into())
    }
}

/// Examines the candidate on the smallest shape with so large a tensor, where memory suffices and
/// the task's baseline passes it.
pub(in crate::evaluate) fn examine(
    context: &Context<'_>,
    candidate: &Candidate,
    compiled: &Compiled,
    reference: &Reference<'_>,
) -> Report<()> {
    Report::of(
        |facts| match examine_shape(context, candidate, compiled, reference, facts) {
            Ok(()) => Ok(()),
            Err(EarlyEnd::NotRun(reason)) => {
                facts.note_not_run(ProtocolPart::ManyElements, reason);
                Ok(())
            }
            Err(EarlyEnd::Stop(stop)) => Err(stop),
        },
    )
}

fn examine_shape(
    context: &Context<'_>,
    candidate: &Candidate,
    compiled: &Compiled,
    reference: &Reference<'_>,
    facts: &mut Facts,
) -> Result<(), EarlyEnd> {
    let not_run = |reason: &str| EarlyEnd::NotRun(reason.to_owned());
    let beyond = context
        .large_tensor_elements()
        .ok_or_else(|| not_run("the emulated device would execute it for hours"))?;
    let case = tensor_size::smallest_case_beyond(context.task, beyond)?
        .ok_or_else(|| not_run("no shape that the task allows has a tensor of so many"))?;
    let mut task = context.task.clone();
    task.cases.push(case.clone());
    let reference = Reference {
        task: &task,
        compiled: reference.compiled.clone(),
    };
    let device = context.device();
    let resolve = |source: &KernelSource, configuration: &Configuration| {
        let plan = source.plan();
        plan.resolve(&task, &case.dims, configuration, &device.limits)
    };
    let resolve_own = |who: &str, source: &KernelSource| {
        resolve(source, &source.plan().default_configuration()).map_err(|error| {
            EarlyEnd::NotRun(format!(
                "{} cannot be launched by the {who}: {error}",
                case.name
            ))
        })
    };
    let baseline_plan = resolve_own("baseline", &context.task.baseline)?;
    let reference_plan = resolve_own("reference", &context.task.reference)?;
    let room = Room {
        device: device.memory_bytes,
        host: tensor_size::free_memory()
            .ok_or_else(|| not_run("memory: the system does not say how much of it is free"))?,
        file: FILE_BYTES,
    };
    let plans = [&baseline_plan, &reference_plan];
    if let Some(obstacle) = tensor_size::find_obstacle(&task, &case, plans, room)? {
        return Err(EarlyEnd::NotRun(obstacle));
    }
    let in_large = Context {
        task: &task,
        ..*context
    };
    let pass = [in_large.passes().ordinary(&case)?];
    let efforts = Efforts::default();
    let baseline = context
        .build_default(&context.task.baseline)?
        .ok_or_else(|| not_run("the task's baseline does not compile"))?;
    let of_baseline = ExaminationInputs {
        plans: &BTreeMap::from([(case.name.clone(), baseline_plan)]),
        compiled: &baseline,
        reference: &reference,
        efforts: &efforts,
    };
    if fails_again(context, &pass, &of_baseline, LARGE_TENSOR)? {
        let why = format!("the task's baseline fails on {} itself", case.name);
        return Err(EarlyEnd::NotRun(why));
    }
    let plan = resolve(&candidate.source, &candidate.configuration).map_err(|error| {
        let reason = format!("case {}: {error}", case.name);
        StageStop::rejected(Verdict::LaunchRejected { reason }, context.family())
    })?;
    let inputs = ExaminationInputs {
        plans: &BTreeMap::from([(case.name.clone(), plan)]),
        compiled,
        reference: &reference,
        efforts: &efforts,
    };
    let known = Executions::default();
    let found = examine_passes(context, LARGE_TENSOR, &pass, &inputs, &known);
    facts.merge(found)?;
    Ok(())
}
