//! `iterate`: one whole step in its order, from the machine's state to the decision in git.

use domain::device::DeviceKind;
use domain::tools::sanitize::Status;
use worker::evaluate::Depth;

use super::evaluate::{Work, refusal};
use super::{profile, sanitize};
use crate::cli::IterateArgs;
use crate::outcome::{Ending, Failure};
use crate::report::build::Built;
use crate::report::sanitize::SanitizerReport;
use crate::report::step::{Iterated, history, report};

pub(crate) async fn iterate(args: IterateArgs) -> Ending {
    let mut work = Work::open(&args.evaluate).await?;
    let preflight = work
        .subject
        .ask(|evaluator, _, _, cancellation| {
            Ok(worker::preflight::run_checks(
                evaluator.host(),
                cancellation,
            ))
        })
        .await?;
    let looked = work
        .subject
        .ask(|evaluator, request, progress, cancellation| {
            evaluator.evaluate_partially(request, Depth::Build, progress, cancellation)
        })
        .await?;
    let build = Built::new(looked, None);
    let found = work.evaluate_and_measure().await?;
    let mut left_out = Vec::new();

    let right = found.evaluation.verdict.acceptance().is_some();
    let steps = work.iterations().await?.len() + 1;
    let every = args.sanitize_every.max(1) as usize;
    let sanitize = if !right {
        left_out.push("sanitizers and profile: the kernel has no good verdict".to_owned());
        None
    } else if steps.is_multiple_of(every) {
        Some(sanitize::run_sanitizers(&work.subject).await?)
    } else {
        left_out.push(format!(
            "sanitizers: they look at every step that {every} divides"
        ));
        None
    };
    let target = work.subject.task.objective.target_speedup;
    let short = target.is_none_or(|target| found.speedup.is_none_or(|speedup| speedup < target));
    let profile = if right && short {
        Some(profile::run_profiler(&work.subject).await?)
    } else {
        if right {
            left_out.push("profile: the target is reached".to_owned());
        }
        None
    };
    let against = sanitize.as_ref().and_then(against);
    let step = work.conclude(&args.evaluate, found, against).await?;
    let iterated = Iterated {
        preflight,
        build,
        sanitize,
        profile,
        left_out,
        history: history(&work.iterations().await?),
        step,
    };
    let ok = iterated.step.decision.keeps_change() && iterated.step.refused.is_none();
    let json = args.evaluate.kernel.json;
    let outcome = work
        .subject
        .print_result(json, "iterate", ok, &iterated, report)?;
    if let Some(failure) = refusal(&iterated.step) {
        return Err(failure);
    }
    let missing = iterated
        .sanitize
        .as_ref()
        .filter(|checked| !checked.clean() && !checked.found());
    if missing.is_some() && work.subject.device().kind == DeviceKind::Nvidia {
        return Err(Failure::infrastructure(anyhow::anyhow!(
            "sanitize the kernel: not every tool ran; the step is recorded without them"
        )));
    }
    Ok(outcome)
}

/// The first error that a sanitizer found, in one sentence.
fn against(checked: &SanitizerReport) -> Option<String> {
    checked
        .tools
        .iter()
        .find_map(|result| match &result.status {
            Status::Found { findings } => {
                let first = findings.first()?;
                let place = first.line.map(|line| format!("line {line}: "));
                let place = place.unwrap_or_default();
                Some(format!(
                    "{}: {place}{}",
                    result.tool.as_str(),
                    first.message
                ))
            }
            Status::Clean | Status::NotRun { .. } => None,
        })
}
