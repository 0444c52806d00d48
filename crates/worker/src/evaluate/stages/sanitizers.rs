//! NVIDIA's sanitizers around a candidate's executions: by hand, and before a promotion on a device
//! that proves nothing by itself.
//!
//! A tool's finding counts only if a second run repeats it and the tool has no finding against the
//! task's baseline. A tool that cannot run, or that accuses the baseline, leaves a row that says so.

use std::path::Path;
use std::time::Duration;

use domain::finding::Finding;
use domain::role::{Compiled, Execution, Placement, RunJob};
use domain::tools::sanitize::{self, Sanitizers, Status, Tool, ToolResult};
use domain::verdict::Verdict;

use super::parse::Candidate;
use crate::evaluate::context::{Context, Plans, SMOKE};
use crate::evaluate::error::{EvaluateError, Stop};
use crate::evaluate::examine::confirm::unconfirmed;
use crate::evaluate::facts::Report;
use crate::evaluate::roles::{execution, number_from_zero, run_job_of};
use crate::evaluate::trace::{Traced, read_log};

/// Wall time of one sanitizer.
const DEADLINE: Duration = Duration::from_secs(120);
/// Bytes behind every allocation that memcheck keeps free of others.
const PADDING: &str = "256";
/// The instrument's name on the emulated device.
const OWN_CHECKS: &str = "the emulated device's own checks, on every execution";
/// The instrument's name on silicon.
const PROGRAM: &str = "compute-sanitizer";

/// Runs the sanitizers before a promotion. Every tool leaves a row. On the emulated device, whose own
/// checks rejected everything they proved, `findings` are those of the stages before.
pub(in crate::evaluate) fn run_before_promotion(
    context: &Context<'_>,
    candidate: &Candidate,
    compiled: &Compiled,
    findings: &[Finding],
) -> Report<()> {
    Report::of(|facts| {
        let host = context.host();
        if !host.is_unproved() {
            let tools = sanitize::emulated(findings, None);
            let by = OWN_CHECKS.to_owned();
            facts.sanitizers = Some(Sanitizers { by, tools });
            return Ok(());
        }
        let program = match host.sanitizer() {
            Ok(program) => program,
            Err(reason) => {
                facts.sanitizers = Some(Sanitizers::not_run(PROGRAM, &reason));
                return Ok(());
            }
        };
        let job = bare_job(context, compiled, &candidate.plans)?;
        let mut tools = Vec::new();
        for tool in Tool::ALL {
            let verdict = facts.merge(Report::timed(context, tool.as_str(), |_| {
                let judged = judge_tool(context, tool, &program, &job);
                let (status, verdict) = judged.map_err(|stop| stop.on(context.family()))?;
                tools.push(ToolResult { tool, status });
                Ok(verdict)
            }));
            facts.sanitizers = Some(Sanitizers {
                by: PROGRAM.to_owned(),
                tools: tools.clone(),
            });
            if let Some(verdict) = verdict? {
                return Err(Stop::from(verdict).on(context.family()));
            }
        }
        Ok(())
    })
}

/// Runs the four tools, one after the other, on the small cases with ordinary inputs. Returns their
/// results and the number of executions.
///
/// # Errors
/// A fault.
pub(in crate::evaluate) fn run_all(
    context: &Context<'_>,
    candidate: &Candidate,
    compiled: &Compiled,
    program: &Path,
) -> Result<(Vec<ToolResult>, usize), EvaluateError> {
    let job = bare_job(context, compiled, &candidate.plans)?;
    let mut results = Vec::new();
    for tool in Tool::ALL {
        (context.progress)(tool.as_str());
        let status = run_tool(context, tool, program, &job)?;
        results.push(ToolResult { tool, status });
    }
    Ok((results, job.executions.len()))
}

/// The status of a tool, and the verdict that its findings are.
fn judge_tool(
    context: &Context<'_>,
    tool: Tool,
    program: &Path,
    job: &RunJob,
) -> Result<(Status, Option<Verdict>), Stop> {
    let status = run_tool(context, tool, program, job)?;
    let Status::Found { findings } = &status else {
        return Ok((status, None));
    };
    let verdict_of = |status: &Status| match status {
        Status::Found { findings } => findings
            .iter()
            .find_map(|found| sanitize::verdict(tool, found)),
        Status::Clean | Status::NotRun { .. } => None,
    };
    if let Some(job) = baseline_job(context)?
        && let Status::Found { findings: too } = run_tool(context, tool, program, &job)?
    {
        let reason = format!(
            "it accuses the task's baseline as well ({}), so that what it says of this \
             candidate ({}) means nothing",
            too[0].message, findings[0].message
        );
        return Ok((Status::NotRun { reason }, None));
    }
    let Some(verdict) = verdict_of(&status) else {
        let reason = format!(
            "it says something that no verdict is known for: {}",
            findings[0].message
        );
        return Ok((Status::NotRun { reason }, None));
    };
    let again = run_tool(context, tool, program, job)?;
    if verdict_of(&again).is_some_and(|again| again.kind() == verdict.kind()) {
        return Ok((status, Some(verdict)));
    }
    let place = format!("by {}", tool.as_str());
    Err(unconfirmed(&place, &verdict, context.device().kind))
}

/// Runs one sanitizer tool once.
fn run_tool(
    context: &Context<'_>,
    tool: Tool,
    program: &Path,
    job: &RunJob,
) -> Result<Status, EvaluateError> {
    let roles = context.roles;
    let log = roles.scratch.join(format!("{}.log", tool.as_str()));
    // The log of an earlier run must not answer for this one.
    let _ = std::fs::remove_file(&log);
    let mut words = vec![
        "--tool".into(),
        tool.as_str().into(),
        "--print-limit".into(),
        "100".into(),
        // Errors of calls are handled where the calls are made, and some are expected.
        "--report-api-errors".into(),
        "no".into(),
        "--log-file".into(),
        log.clone().into_os_string(),
    ];
    if tool == Tool::Memcheck {
        words.extend(["--padding".into(), PADDING.into()]);
    }
    let around = roles.around(program, &words);
    let ended = roles.trace(&around, job, DEADLINE)?;
    Ok(match read_log(&log)? {
        Some(text) if ended == Traced::InTime => sanitize::read(tool, &text),
        Some(_) => Status::NotRun {
            reason: format!("it did not finish in {} s", DEADLINE.as_secs()),
        },
        None => Status::NotRun {
            reason: format!("{PROGRAM} wrote no log"),
        },
    })
}

/// A job of the small cases with ordinary inputs, without guard pages and poison, which would keep
/// a tool from detecting the ends of buffers and uninitialised values.
fn bare_job(
    context: &Context<'_>,
    compiled: &Compiled,
    plans: &Plans,
) -> Result<RunJob, EvaluateError> {
    let passes = context.passes().smoke()?;
    let numbered = number_from_zero(&passes, plans, |_| SMOKE.instructions);
    let executions = numbered.iter().map(|numbered| Execution {
        placement: Placement::Bare,
        ..execution(numbered)
    });
    Ok(run_job_of(context.host(), compiled, executions.collect()))
}

/// The same job of the task's baseline; none if it has no plan for one of these cases.
fn baseline_job(context: &Context<'_>) -> Result<Option<RunJob>, EvaluateError> {
    let source = &context.task.baseline;
    let Some(compiled) = context.build_default(source)? else {
        return Ok(None);
    };
    let usual = source.plan().default_configuration();
    let limits = &context.device().limits;
    let cases = context.passes().cases();
    let plans = cases.map(|case| {
        let plan = source.plan();
        let plan = plan.resolve(context.task, &case.dims, &usual, limits);
        plan.map(|plan| (case.name.clone(), plan))
    });
    match plans.collect::<Result<Plans, _>>() {
        Ok(plans) => bare_job(context, &compiled, &plans).map(Some),
        Err(_) => Ok(None),
    }
}
