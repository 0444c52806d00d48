//! The sanitizers' four results on a candidate, and the profile of its time.
//!
//! On the emulated device they come from its own checks and counters. On silicon they come from
//! NVIDIA's tools, around a role without confinement, because a tool cannot inspect a confined
//! process. Only a tool's log counts, and a tool that fails says nothing about the candidate.

use std::path::Path;
use std::time::Duration;

use domain::cleaning;
use domain::evaluation::EvaluationRequest;
use domain::finding::Finding;
use domain::role::{
    Compiled, Execution, ExecutionPurpose, LaunchFacts, LaunchLines, LineCounters, RunReply,
};
use domain::tools::ncu::{self, Choice};
use domain::tools::profile::{METRICS, MetricValues, Suggestion, counted, triage};
use domain::tools::sanitize::{self, Sanitizers, ToolResult};

use super::Evaluator;
use super::context::{Context, SCORE, SCREEN};
use super::error::{EvaluateError, StageStop};
use super::facts::{Facts, Report};
use super::partial::PartialEvaluation;
use super::passes::{Extent, Pass};
use super::roles::{Roles, execution, number_from_zero, run_job_of};
use super::stages::parse::{self, Candidate};
use super::stages::{compile, effort, sanitizers};
use super::trace::{Traced, profiler_words, read_log};
use crate::cancel::Cancellation;

/// Wall time of profiling one case.
const PROFILER_DEADLINE: Duration = Duration::from_secs(60);
/// Wall time of listing the metrics.
const QUERY_DEADLINE: Duration = Duration::from_secs(60);

/// The instrument of a sanitizer run or a profile.
#[derive(Debug, Clone, Copy)]
pub enum Instrument<'a> {
    /// The emulated device itself.
    Emulated,
    /// A program of NVIDIA's.
    Program(&'a Path),
    /// None, for this reason.
    Missing(&'a str),
}

/// The sanitizers' results.
#[derive(Debug)]
pub struct Sanitized {
    /// The facts of the stages before; the tools do not run on a candidate that was rejected.
    pub partial: PartialEvaluation,
    /// The name of the instrument.
    pub by: String,
    /// The number of executions.
    pub executions: usize,
    /// Four results, one for each tool.
    pub results: Vec<ToolResult>,
}

/// The profile of a candidate.
#[derive(Debug)]
pub struct Profiled {
    /// The facts of the stages before.
    pub partial: PartialEvaluation,
    /// The name of the instrument.
    pub by: String,
    /// Our metrics that no instrument gives here.
    pub missing: Vec<String>,
    /// Each score case.
    pub cases: Vec<CaseProfile>,
}

/// The profile of one case.
#[derive(Debug)]
pub struct CaseProfile {
    /// The case.
    pub case: String,
    /// Its launches in order, or why there is no profile.
    pub launches: Result<Vec<LaunchProfile>, String>,
}

/// The profile of one launch.
#[derive(Debug)]
pub struct LaunchProfile {
    /// The kernel.
    pub kernel: String,
    /// The launch as the emulated device saw it; none from a profiler.
    pub facts: Option<LaunchFacts>,
    /// The values of its metrics.
    pub values: MetricValues,
    /// Every rule of the triage.
    pub triage: Vec<Suggestion>,
    /// The counters of each source line; on the emulated device only.
    pub lines: Vec<LineCounters>,
}

impl Evaluator {
    /// Runs the four sanitizers on a candidate.
    ///
    /// # Errors
    /// A [`EvaluateError`] if the infrastructure, not the candidate, is to blame.
    pub fn sanitize(
        &self,
        request: &EvaluationRequest,
        instrument: Instrument<'_>,
        progress: impl Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<Sanitized, EvaluateError> {
        let not_run = |reason: &str| Sanitizers::not_run("", reason).tools;
        let (partial, found) =
            self.run_partially(request, &progress, cancellation, |context, facts| {
                let candidate = facts.merge(parse::parse(context))?;
                let compiled = facts.merge(compile::compile(context, &candidate))?;
                match instrument {
                    Instrument::Emulated => check_emulated(context, &candidate, &compiled, facts),
                    Instrument::Program(program) => Ok(sanitizers::run_all(
                        context, &candidate, &compiled, program,
                    )?),
                    Instrument::Missing(reason) => Ok((not_run(reason), 0)),
                }
            })?;
        let by = match instrument {
            Instrument::Emulated => "the emulated device's checks".to_owned(),
            Instrument::Program(program) => program.display().to_string(),
            Instrument::Missing(_) => "nobody".to_owned(),
        };
        let (results, executions) = found.unwrap_or_else(|| {
            let against = partial.against.as_ref().map(ToString::to_string);
            let reason = format!("nothing ran: {}", against.unwrap_or_default());
            (not_run(&reason), 0)
        });
        Ok(Sanitized {
            partial,
            by,
            executions,
            results,
        })
    }

    /// Profiles a candidate. A profiler that fails says nothing about the candidate.
    ///
    /// # Errors
    /// A [`EvaluateError`] if the infrastructure, not the candidate, is to blame.
    pub fn profile(
        &self,
        request: &EvaluationRequest,
        instrument: Instrument<'_>,
        progress: impl Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<Profiled, EvaluateError> {
        let (partial, found) =
            self.run_partially(request, &progress, cancellation, |context, facts| {
                let candidate = facts.merge(parse::parse(context))?;
                let compiled = facts.merge(compile::compile(context, &candidate))?;
                match instrument {
                    Instrument::Emulated => count_lines(context, &candidate, &compiled, facts),
                    Instrument::Program(program) => {
                        profile_with(context, &candidate, &compiled, program)
                    }
                    Instrument::Missing(reason) => {
                        let metrics = METRICS.iter().map(|metric| metric.id.to_owned());
                        Ok((unprofiled(context, reason), metrics.collect()))
                    }
                }
            })?;
        let by = match instrument {
            Instrument::Emulated => "the emulated device's counters".to_owned(),
            Instrument::Program(program) => program.display().to_string(),
            Instrument::Missing(_) => "nobody".to_owned(),
        };
        let (cases, missing) = found.unwrap_or_default();
        Ok(Profiled {
            partial,
            by,
            missing,
            cases,
        })
    }
}

type CasesAndMissing = (Vec<CaseProfile>, Vec<String>);

/// Executes every small case with every distribution, fully checked, whatever its outputs are.
fn check_emulated(
    context: &Context<'_>,
    candidate: &Candidate,
    compiled: &Compiled,
    facts: &mut Facts,
) -> Result<(Vec<ToolResult>, usize), StageStop> {
    let efforts = facts.merge(effort::measure_baseline(context, SCORE))?;
    let passes = context.passes();
    let passes = [passes.smoke()?, passes.screen(Extent::All)?].concat();
    let numbered = number_from_zero(&passes, &candidate.plans, |pass| {
        efforts.limit(pass, &candidate.plans[&pass.case], SCREEN)
    });
    let (mut findings, mut unfinished, mut executions) = (Vec::new(), None, 0);
    facts.merge(Report::timed(context, "sanitize", |_| {
        let ran = context
            .roles
            .run::<InstrumentEnd>(compiled, &numbered, SCREEN, |made, reply| {
                let (done, ended) =
                    take_findings(made.len(), reply, &mut findings, &mut unfinished);
                executions += done;
                ended
            });
        Ok(ended(ran)?)
    }))?;
    facts.findings.extend(findings.iter().cloned());
    let results = sanitize::emulated(&findings, unfinished.as_deref());
    Ok((results, executions))
}

/// Executes each score case once with the counters of its lines.
fn count_lines(
    context: &Context<'_>,
    candidate: &Candidate,
    compiled: &Compiled,
    facts: &mut Facts,
) -> Result<CasesAndMissing, StageStop> {
    let efforts = facts.merge(effort::measure_baseline(context, SCORE))?;
    let roles = Roles {
        lines: true,
        ..context.roles
    };
    let device = context.device();
    let kernels = &facts.kernels;
    let mut cases = Vec::new();
    for pass in &score_only(context)? {
        (context.progress)(&format!("profile {}", pass.case));
        let one = number_from_zero(std::slice::from_ref(pass), &candidate.plans, |pass| {
            efforts.limit(pass, &candidate.plans[&pass.case], SCORE)
        });
        let mut launches = Ok(Vec::new());
        let ran = roles.run::<InstrumentEnd>(compiled, &one, SCORE, |made, reply| {
            let (mut findings, mut unfinished) = (Vec::new(), None);
            let reported = reply.as_ref().ok().cloned();
            let taken = take_findings(made.len(), reply, &mut findings, &mut unfinished);
            if let (_, Err(InstrumentEnd::Fault(error))) = taken {
                return Err(InstrumentEnd::Fault(error));
            }
            if let Some(reason) = unfinished {
                launches = Err(reason);
            } else if let Some(reply) = reported {
                let ran = reply
                    .executions
                    .into_iter()
                    .flat_map(|facts| facts.launches);
                let profiles = ran.zip(reply.lines).map(|(facts, lines)| {
                    let own = kernels.iter().find(|of| of.kernel == facts.kernel);
                    launch(facts.clone(), lines, counted(&facts, own, device), device)
                });
                launches = Ok(profiles.collect());
            }
            Ok(())
        });
        ended(ran)?;
        cases.push(CaseProfile {
            case: pass.case.clone(),
            launches,
        });
    }
    let given = cases
        .iter()
        .filter_map(|case| case.launches.as_ref().ok())
        .flatten()
        .flat_map(|launch| launch.values.keys())
        .collect::<Vec<_>>();
    let missing = METRICS
        .iter()
        .filter(|metric| !given.iter().any(|id| *id == metric.id))
        .map(|metric| metric.id.to_owned())
        .collect();
    Ok((cases, missing))
}

/// Runs Nsight Compute around one warm execution of each score case.
fn profile_with(
    context: &Context<'_>,
    candidate: &Candidate,
    compiled: &Compiled,
    program: &Path,
) -> Result<CasesAndMissing, StageStop> {
    let choice = match choose_metrics(context, compiled, program) {
        Ok(choice) => choice,
        Err(ProfilerError::NotRun(reason)) => {
            return Ok((unprofiled(context, &reason), Vec::new()));
        }
        Err(ProfilerError::Fault(error)) => return Err(error.into()),
    };
    let (roles, device) = (context.roles, context.device());
    let mut cases = Vec::new();
    for pass in score_only(context)? {
        (context.progress)(&format!("profile {}", pass.case));
        let one = number_from_zero(std::slice::from_ref(&pass), &candidate.plans, |_| {
            SCORE.instructions
        });
        // The first execution warms up, and the profiler skips its launches.
        let executions = [0, 1].map(|id| Execution {
            id,
            ..execution(&one[0])
        });
        let job = run_job_of(context.host(), compiled, executions.to_vec());
        let log = roles.scratch.join(format!("{}.csv", one[0].pass.case));
        let words = profiler_words(&choice, candidate, &pass.case, &log);
        let around = roles.around(program, &words);
        let ended = roles.trace(&around, &job, PROFILER_DEADLINE)?;
        let launches = match (ended, read_log(&log)?) {
            (Traced::OutOfTime, _) => Err(format!(
                "the profiler did not finish in {} s",
                PROFILER_DEADLINE.as_secs()
            )),
            (_, None) => Err(format!("{} wrote no log", program.display())),
            (_, Some(text)) => ncu::read(&text, &choice).map(|kernels| {
                let kernels = kernels.into_iter();
                let kernels = kernels.map(|seen| LaunchProfile {
                    kernel: seen.kernel,
                    facts: None,
                    triage: triage(&seen.values, device.limits.sm_count),
                    values: seen.values,
                    lines: Vec::new(),
                });
                kernels.collect()
            }),
        };
        cases.push(CaseProfile {
            case: pass.case.clone(),
            launches,
        });
    }
    let missing = choice.missing.iter().map(|id| (*id).to_owned());
    Ok((cases, missing.collect()))
}

/// The reason why the profiler gave no list of metrics.
enum ProfilerError {
    NotRun(String),
    Fault(EvaluateError),
}

impl From<EvaluateError> for ProfilerError {
    fn from(error: EvaluateError) -> Self {
        Self::Fault(error)
    }
}

/// The device's names for our metrics.
fn choose_metrics(
    context: &Context<'_>,
    compiled: &Compiled,
    program: &Path,
) -> Result<Choice, ProfilerError> {
    let roles = context.roles;
    let list = roles.scratch.join("metrics.txt");
    // The list is longer than what is kept of a child's output. The shell's words are fixed.
    let words = [
        "-c".into(),
        "out=$1; shift; exec \"$@\" >\"$out\" 2>&1".into(),
        "sh".into(),
        list.clone().into_os_string(),
        program.as_os_str().to_owned(),
        "--query-metrics".into(),
    ];
    let mut shell = roles.around(Path::new("/bin/sh"), &words);
    shell.arguments.truncate(words.len());
    let job = run_job_of(context.host(), compiled, Vec::new());
    roles.trace(&shell, &job, QUERY_DEADLINE)?;
    let text = read_log(&list)?.unwrap_or_default();
    if let Some(trouble) = ncu::trouble(&text) {
        return Err(ProfilerError::NotRun(trouble));
    }
    let choice = ncu::choose(&text);
    let listed = choice
        .names
        .values()
        .any(|name| !name.starts_with("launch__"));
    if listed {
        Ok(choice)
    } else {
        let reason = format!("{} lists no metrics", program.display());
        Err(ProfilerError::NotRun(reason))
    }
}

fn unprofiled(context: &Context<'_>, reason: &str) -> Vec<CaseProfile> {
    let cases = context.task.score_cases();
    cases
        .map(|case| CaseProfile {
            case: case.name.clone(),
            launches: Err(reason.to_owned()),
        })
        .collect()
}

fn score_only(context: &Context<'_>) -> Result<Vec<Pass>, EvaluateError> {
    let mut passes = context.passes().score_once()?;
    passes.retain(|pass| pass.purpose == ExecutionPurpose::Score);
    Ok(passes)
}

/// The reasons why the executions of one job ended before the last.
enum InstrumentEnd {
    Candidate,
    Fault(EvaluateError),
}

impl From<EvaluateError> for InstrumentEnd {
    fn from(fault: EvaluateError) -> Self {
        Self::Fault(fault)
    }
}

/// The end of a job of which only a fault matters.
fn ended(ran: Result<(), InstrumentEnd>) -> Result<(), EvaluateError> {
    match ran {
        Ok(()) | Err(InstrumentEnd::Candidate) => Ok(()),
        Err(InstrumentEnd::Fault(error)) => Err(error),
    }
}

/// Adds the findings of a reply. Returns the number of its executions, with one that ended with an
/// error. `unfinished` receives the reason if an execution did not finish.
fn take_findings(
    asked: usize,
    reply: Result<RunReply, domain::verdict::Verdict>,
    findings: &mut Vec<Finding>,
    unfinished: &mut Option<String>,
) -> (usize, Result<(), InstrumentEnd>) {
    let reply = match reply {
        Ok(reply) => reply,
        Err(verdict) => {
            *unfinished = Some(format!("the executions did not finish: {verdict}"));
            return (0, Err(InstrumentEnd::Candidate));
        }
    };
    let mut executed = 0;
    for facts in reply.executions {
        executed += 1;
        findings.extend(facts.findings.into_iter().map(cleaning::clean_finding));
        if let Some(unsupported) = &facts.unsupported {
            let opcode = cleaning::clean_line(&unsupported.opcode, cleaning::NAME_CHARACTERS);
            *unfinished = Some(format!("the emulated device does not support {opcode}"));
        } else if let Some(fault) = &facts.fault {
            let name = cleaning::clean_name(&fault.name);
            *unfinished = Some(format!(
                "an execution ended with error {} ({name})",
                fault.code
            ));
        }
        if unfinished.is_some() {
            return (executed, Err(InstrumentEnd::Candidate));
        }
    }
    if executed < asked {
        *unfinished = Some(format!("{executed} of {asked} executions finished"));
        return (executed, Err(InstrumentEnd::Candidate));
    }
    (executed, Ok(()))
}

fn launch(
    facts: LaunchFacts,
    lines: LaunchLines,
    values: MetricValues,
    device: &domain::device::Device,
) -> LaunchProfile {
    LaunchProfile {
        kernel: cleaning::clean_name(&facts.kernel),
        triage: triage(&values, device.limits.sm_count),
        values,
        lines: lines.lines,
        facts: Some(facts),
    }
}
