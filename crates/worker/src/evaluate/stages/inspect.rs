//! What tools say of a candidate: the sanitizers' four results, and where its time goes.
//!
//! On the emulated device its own checks and counters answer. On silicon NVIDIA's tools do, around
//! a role without confinement, since a tool cannot look into a confined process. Only the tool's
//! log is believed, and a tool that fails says nothing about the candidate.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use domain::cleaning;
use domain::evaluation::EvaluationRequest;
use domain::finding::Finding;
use domain::plan::ResolvedPlan;
use domain::role::{
    Compiled, Execution, ExecutionPurpose, LaunchFacts, LaunchLines, LineCounters, RunJob, RunReply,
};
use domain::tools::ncu::{self, Choice};
use domain::tools::profile::{METRICS, Suggestion, Values, counted, triage};
use domain::tools::sanitize::{self, Sanitizers, ToolResult};

use super::around::{Traced, profiler_words, read_log};
use super::looks::Looked;
use super::{Candidate, Course, SCORE, SCREEN, Stop};
use crate::cancel::Cancellation;
use crate::evaluate::passes::{Extent, Pass};
use crate::evaluate::roles::{Numbered, Roles, execution};
use crate::evaluate::{EvaluateError, Evaluator};

/// What profiling one case may take.
const PROFILER_DEADLINE: Duration = Duration::from_secs(60);
/// What listing the metrics may take.
const QUERY_DEADLINE: Duration = Duration::from_secs(60);
/// Who looks.
#[derive(Debug, Clone, Copy)]
pub enum Instrument<'a> {
    /// The emulated device itself.
    Emulated,
    /// A program of NVIDIA's.
    Program(&'a Path),
    /// Nobody, for this reason.
    Missing(&'a str),
}

/// The sanitizers' results.
#[derive(Debug)]
pub struct Sanitized {
    /// What the stages before found; something that stands against the candidate keeps the tools
    /// from looking.
    pub looked: Looked,
    /// Who looked.
    pub by: String,
    /// Executions looked at.
    pub executions: usize,
    /// Four results, one for each tool.
    pub results: Vec<ToolResult>,
}

/// Where the time goes.
#[derive(Debug)]
pub struct Profiled {
    /// What the stages before found.
    pub looked: Looked,
    /// Who looked.
    pub by: String,
    /// Our metrics that nobody can give here.
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
    /// What is known of it.
    pub values: Values,
    /// Every rule of the triage.
    pub triage: Vec<Suggestion>,
    /// What each source line took; on the emulated device only.
    pub lines: Vec<LineCounters>,
}

impl Evaluator {
    /// Lets the four sanitizers look at a candidate.
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
        let (looked, found) = self.with_course(request, &progress, cancellation, |course| {
            let candidate = course.timed("parse", Course::read)?;
            let compiled = course.timed("compile", |course| course.compile(&candidate))?;
            match instrument {
                Instrument::Emulated => course.emulated_checks(&candidate, &compiled),
                Instrument::Program(program) => course.sanitizers(&candidate, &compiled, program),
                Instrument::Missing(reason) => Ok((not_run(reason), 0)),
            }
        })?;
        let by = match instrument {
            Instrument::Emulated => "the emulated device's checks".to_owned(),
            Instrument::Program(program) => program.display().to_string(),
            Instrument::Missing(_) => "nobody".to_owned(),
        };
        let (results, executions) = found.unwrap_or_else(|| {
            let against = looked.against.as_ref().map(ToString::to_string);
            let reason = format!("nothing ran: {}", against.unwrap_or_default());
            (not_run(&reason), 0)
        });
        Ok(Sanitized {
            looked,
            by,
            executions,
            results,
        })
    }

    /// Asks where a candidate's time goes. A profiler that fails is no news about the candidate.
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
        let (looked, found) = self.with_course(request, &progress, cancellation, |course| {
            let candidate = course.timed("parse", Course::read)?;
            let compiled = course.timed("compile", |course| course.compile(&candidate))?;
            match instrument {
                Instrument::Emulated => course.count_lines(&candidate, &compiled),
                Instrument::Program(program) => course.profile_with(&candidate, &compiled, program),
                Instrument::Missing(reason) => {
                    let cases = course.unprofiled(reason);
                    Ok((
                        cases,
                        METRICS.iter().map(|metric| metric.id.to_owned()).collect(),
                    ))
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
            looked,
            by,
            missing,
            cases,
        })
    }
}

type CasesAndMissing = (Vec<CaseProfile>, Vec<String>);

impl Course<'_> {
    /// Every small case with every distribution, fully checked, whatever its outputs are.
    fn emulated_checks(
        &mut self,
        candidate: &Candidate,
        compiled: &Compiled,
    ) -> Result<(Vec<ToolResult>, usize), Stop> {
        let efforts = self.timed("effort", |course| course.efforts(SCORE))?;
        let passes = self.passes();
        let passes = [passes.smoke()?, passes.screen(Extent::All)?].concat();
        let numbered = numbered(&passes, &candidate.plans, |case| {
            efforts.budget(case, SCREEN.instructions)
        });
        let (mut findings, mut unfinished, mut executions) = (Vec::new(), None, 0);
        let roles = self.roles;
        self.timed("sanitize", |_| {
            let ran = roles.run::<Ended>(compiled, &numbered, SCREEN, |made, reply| {
                executions += hear(made.len(), reply, &mut findings, &mut unfinished)?;
                Ok(())
            });
            match ran {
                Ok(()) | Err(Ended::Candidate) => Ok(()),
                Err(Ended::Fault(fault)) => Err(Stop::Fault(fault)),
            }
        })?;
        self.evidence.findings.extend(findings.iter().cloned());
        let results = sanitize::emulated(&findings, unfinished.as_deref());
        Ok((results, executions))
    }

    /// One execution of each score case with the counters of its lines.
    fn count_lines(
        &mut self,
        candidate: &Candidate,
        compiled: &Compiled,
    ) -> Result<CasesAndMissing, Stop> {
        let efforts = self.timed("effort", |course| course.efforts(SCORE))?;
        let roles = Roles {
            lines: true,
            ..self.roles
        };
        let passes = self.score_only()?;
        let device = self.evaluator.host().device();
        let kernels = &self.evidence.kernels;
        let mut cases = Vec::new();
        for pass in &passes {
            (self.progress)(&format!("profile {}", pass.case));
            let one = numbered(std::slice::from_ref(pass), &candidate.plans, |case| {
                efforts.budget(case, SCORE.instructions)
            });
            let mut launches = Ok(Vec::new());
            let ran = roles.run::<Ended>(compiled, &one, SCORE, |made, reply| {
                let (mut findings, mut unfinished) = (Vec::new(), None);
                let reported = reply.as_ref().ok().cloned();
                hear(made.len(), reply, &mut findings, &mut unfinished)?;
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
            match ran {
                Ok(()) | Err(Ended::Candidate) => {}
                Err(Ended::Fault(fault)) => return Err(Stop::Fault(fault)),
            }
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

    /// Nsight Compute around one warm execution of each score case.
    fn profile_with(
        &mut self,
        candidate: &Candidate,
        compiled: &Compiled,
        program: &Path,
    ) -> Result<CasesAndMissing, Stop> {
        let choice = match self.available(compiled, program)? {
            Ok(choice) => choice,
            Err(reason) => return Ok((self.unprofiled(&reason), Vec::new())),
        };
        let device = self.evaluator.host().device();
        let mut cases = Vec::new();
        for pass in self.score_only()? {
            (self.progress)(&format!("profile {}", pass.case));
            let one = numbered(std::slice::from_ref(&pass), &candidate.plans, |_| {
                SCORE.instructions
            });
            // The first execution warms up, and the profiler skips its launches.
            let executions = [0, 1].map(|id| Execution {
                id,
                ..execution(&one[0])
            });
            let job = self.job(compiled, executions.to_vec());
            let log = self.roles.scratch.join(format!("{}.csv", one[0].pass.case));
            let words = profiler_words(&choice, candidate, &pass.case, &log);
            let around = self.roles.around(program, &words);
            let ended = self.roles.trace(&around, &job, PROFILER_DEADLINE)?;
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

    /// Which of our metrics the device has, or why nobody knows.
    fn available(
        &self,
        compiled: &Compiled,
        program: &Path,
    ) -> Result<Result<Choice, String>, Stop> {
        let list = self.roles.scratch.join("metrics.txt");
        // The list is longer than what is kept of a child's output. The shell's words are fixed.
        let words = [
            "-c".into(),
            "out=$1; shift; exec \"$@\" >\"$out\" 2>&1".into(),
            "sh".into(),
            list.clone().into_os_string(),
            program.as_os_str().to_owned(),
            "--query-metrics".into(),
        ];
        let mut shell = self.roles.around(Path::new("/bin/sh"), &words);
        shell.arguments.truncate(words.len());
        let job = self.job(compiled, Vec::new());
        self.roles.trace(&shell, &job, QUERY_DEADLINE)?;
        let text = read_log(&list)?.unwrap_or_default();
        if let Some(trouble) = ncu::trouble(&text) {
            return Ok(Err(trouble));
        }
        let choice = ncu::choose(&text);
        let listed = choice
            .names
            .values()
            .any(|name| !name.starts_with("launch__"));
        Ok(if listed {
            Ok(choice)
        } else {
            Err(format!("{} lists no metrics", program.display()))
        })
    }

    fn unprofiled(&self, reason: &str) -> Vec<CaseProfile> {
        let cases = self.task.score_cases();
        cases
            .map(|case| CaseProfile {
                case: case.name.clone(),
                launches: Err(reason.to_owned()),
            })
            .collect()
    }

    fn score_only(&self) -> Result<Vec<Pass>, Stop> {
        let passes = self.passes().score_once()?;
        let timed = passes
            .into_iter()
            .filter(|pass| pass.purpose == ExecutionPurpose::Score);
        Ok(timed.collect())
    }

    pub(super) fn job(&self, compiled: &Compiled, executions: Vec<Execution>) -> RunJob {
        RunJob {
            image: compiled.image.clone(),
            kernels: compiled.kernels.clone(),
            executions,
            threads: self.roles.host.threads(),
            lines: false,
            one_by_one: false,
            disturber: None,
        }
    }
}

/// Why the executions of one job ended before the last.
enum Ended {
    Candidate,
    Fault(EvaluateError),
}

impl From<EvaluateError> for Ended {
    fn from(fault: EvaluateError) -> Self {
        Self::Fault(fault)
    }
}

/// Takes the findings of a reply; says in `unfinished` what kept an execution from its end.
fn hear(
    asked: usize,
    reply: Result<RunReply, domain::verdict::Verdict>,
    findings: &mut Vec<Finding>,
    unfinished: &mut Option<String>,
) -> Result<usize, Ended> {
    let reply = match reply {
        Ok(reply) => reply,
        Err(verdict) => {
            *unfinished = Some(format!("the executions did not finish: {verdict}"));
            return Err(Ended::Candidate);
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
            return Err(Ended::Candidate);
        }
    }
    if executed < asked {
        *unfinished = Some(format!("{executed} of {asked} executions finished"));
        return Err(Ended::Candidate);
    }
    Ok(executed)
}

fn launch(
    facts: LaunchFacts,
    lines: LaunchLines,
    values: Values,
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

pub(super) fn numbered<'p>(
    passes: &'p [Pass],
    plans: &'p BTreeMap<String, ResolvedPlan>,
    budget: impl Fn(&str) -> u64,
) -> Vec<Numbered<'p>> {
    let numbers = passes.iter().zip(0..);
    let numbered = numbers.map(|(pass, id)| Numbered {
        id,
        pass,
        plan: &plans[&pass.case],
        save: None,
        budget: budget(&pass.case),
    });
    numbered.collect()
}
