//! The pre-screen: executions on an emulated device before the candidate reaches a device that proves
//! nothing. It rejects by proof alone and is bounded to a few seconds. A pre-screen that was cut
//! short leaves a row in the evaluation, and the stages behind it go on as without one.

use std::time::Duration;

use domain::evaluation::{Prescreen, Prescreened, ProtocolPart};
use domain::finding::{Finding, FindingKind};
use domain::judge::{self, Exit};
use domain::role::{Compiled, ExecutionFacts, Next, RunJob, RunReply};
use domain::task::Task;
use domain::verdict::Verdict;

use super::parse::Candidate;
use crate::evaluate::context::{Context, SMALL};
use crate::evaluate::error::{Rejection, StageStop};
use crate::evaluate::examine::{cleaned, execution_context};
use crate::evaluate::facts::{Facts, Report};
use crate::evaluate::passes::ExpectedOutputs;
use crate::evaluate::roles::{NumberedPass, execution, number_from_zero, run_job_of};
use crate::host::{Host, Prescreener};
use crate::supervise::{Answer, SuperviseError};

/// The name of the stage.
const STAGE: &str = "pre-screen";

/// The reasons why no further execution is made.
enum PrescreenEnd {
    /// The emulated device proved that a rule is broken.
    Proved(Box<Verdict>),
    /// The pre-screen cannot go on, for this reason.
    Cut(String),
}

/// Executes the candidate on small cases on the emulated device, where the device that decides proves
/// nothing.
pub(in crate::evaluate) fn prescreen(
    context: &Context<'_>,
    candidate: &Candidate,
    compiled: &Compiled,
) -> Report<()> {
    Report::of(|facts| {
        let Some(Prescreener { device, cap }) = context.host().prescreener() else {
            return Ok(());
        };
        let Ok(device) = device else {
            facts.note_not_run(
                ProtocolPart::Prescreen,
                "there is no emulated device on this machine; `kernelwright preflight` says why",
            );
            return Ok(());
        };
        run(context, candidate, compiled, device, *cap, facts)
    })
}

fn run(
    context: &Context<'_>,
    candidate: &Candidate,
    compiled: &Compiled,
    device: &Host,
    cap: Duration,
    facts: &mut Facts,
) -> Result<(), StageStop> {
    let passes = context.passes().prescreen(context.extent())?;
    let asked = number_from_zero(&passes, &candidate.plans, |_| SMALL);
    let executions = asked.iter().map(execution).collect();
    let job = RunJob {
        threads: device.threads(),
        ..run_job_of(context.host(), compiled, executions)
    };
    let mut progress = Progress {
        task: context.task,
        device,
        asked: &asked,
        made: Vec::new(),
        findings: Vec::new(),
        end: None,
    };
    let cancellation = context.roles.cancellation;
    let ended = facts.merge(Report::timed(context, STAGE, |_| {
        let handle = |reply| progress.handle_reply(reply);
        match device.run_one_by_one(&job, cap, cancellation, handle) {
            Err(error @ SuperviseError::Cancelled) => Err(error.into()),
            ended => Ok(ended),
        }
    }))?;
    let (made, planned) = (progress.made, asked.len());
    let count = made.len();
    facts.findings.extend(progress.findings);
    facts.prescreen = Some(Prescreen {
        device: device.device().clone(),
        planned: u32::try_from(planned).unwrap_or(u32::MAX),
        executions: made,
    });
    match progress.end.or_else(|| end_of_process(ended, cap)) {
        None => Ok(()),
        Some(PrescreenEnd::Proved(verdict)) => Err(StageStop::Rejected(Rejection {
            verdict,
            family: context.family(),
        })),
        Some(PrescreenEnd::Cut(why)) => {
            let reason = format!("after {count} of {planned} executions: {why}");
            facts.note_not_run(ProtocolPart::Prescreen, reason);
            Ok(())
        }
    }
}

/// The reason why the process ended, if it was not told to.
fn end_of_process(
    ended: Result<Answer<()>, SuperviseError>,
    cap: Duration,
) -> Option<PrescreenEnd> {
    let why = match ended {
        Ok(answer) => match answer.reply {
            Ok(()) => return None,
            Err(Exit::TimedOut) => format!("its {} s were over", cap.as_secs_f64()),
            Err(exit) => format!("its process {exit}"),
        },
        Err(SuperviseError::Unready { late: true, .. }) => {
            "its process was not ready in time".to_owned()
        }
        Err(error) => {
            tracing::warn!("a pre-screen ended early: failed to {error}");
            "its process could not work; the worker's log says why".to_owned()
        }
    };
    Some(PrescreenEnd::Cut(why))
}

/// The executions reported so far.
struct Progress<'a> {
    task: &'a Task,
    device: &'a Host,
    asked: &'a [NumberedPass<'a>],
    made: Vec<Prescreened>,
    /// The findings of the execution that proved something.
    findings: Vec<Finding>,
    end: Option<PrescreenEnd>,
}

impl Progress<'_> {
    /// Records one reply and returns whether another execution is wanted.
    fn handle_reply(&mut self, reply: RunReply) -> Next {
        if reply.device != *self.device.device() {
            let other = format!("its process used {}", reply.device);
            self.end = Some(PrescreenEnd::Cut(other));
        }
        for facts in reply.executions {
            if self.end.is_none() {
                self.end = self.judge(cleaned(facts));
            }
        }
        match self.end {
            Some(_) => Next::Nothing,
            None => Next::Execution,
        }
    }

    /// Judges one execution and records it, unless it ends the pre-screen.
    fn judge(&mut self, facts: ExecutionFacts) -> Option<PrescreenEnd> {
        let asked = self.asked.get(self.made.len());
        let Some(asked) = asked.filter(|asked| asked.id == facts.id) else {
            return Some(PrescreenEnd::Cut(
                "its process made another execution than it was asked".to_owned(),
            ));
        };
        let judged =
            judge::judge_proven_findings(&facts, &execution_context(self.task, STAGE, asked));
        if let Some(verdict) = judged {
            self.record(asked);
            self.findings = facts.findings;
            return Some(PrescreenEnd::Proved(Box::new(verdict)));
        }
        let case = &asked.pass.case;
        if let Some(lacking) = facts.unsupported {
            let line = lacking.line.map(|line| format!(" of line {line}"));
            return Some(PrescreenEnd::Cut(format!(
                "the emulated device lacks {}{}",
                lacking.opcode,
                line.unwrap_or_default()
            )));
        }
        if let Some(found) = facts.findings.first() {
            return Some(PrescreenEnd::Cut(match found.kind {
                FindingKind::Hang => format!(
                    "case {case} took more than {SMALL} thread instructions, which proves nothing of \
                     another device"
                ),
                _ => format!(
                    "case {case} was ended by the kernel itself, which proves nothing of another device: \
                     {}",
                    found.message
                ),
            }));
        }
        if let Some(fault) = facts.fault {
            return Some(PrescreenEnd::Cut(format!(
                "case {case} does not run on {}: {} from {}",
                self.device.device().name,
                fault.name,
                fault.call
            )));
        }
        self.record(asked);
        None
    }

    fn record(&mut self, asked: &NumberedPass<'_>) {
        self.made.push(Prescreened {
            case: asked.pass.case.clone(),
            distribution: asked.pass.distribution,
            rescheduled: asked.pass.comparison == ExpectedOutputs::Rescheduled,
        });
    }
}
