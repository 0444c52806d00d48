//! The pre-screen: what the emulated device proves of a candidate before a device that proves
//! nothing is touched. It rejects by proof alone and has a few seconds. What it cannot do is a row
//! of the evaluation, and the stages behind it go on as if nobody had looked.

use std::time::Duration;

use domain::evaluation::{NotRun, Prescreen, Prescreened, ProtocolPart};
use domain::finding::{Finding, FindingKind};
use domain::judge::{self, Exit};
use domain::role::{Compiled, ExecutionFacts, Next, RunJob, RunReply};
use domain::task::Task;
use domain::verdict::Verdict;

use super::inspect::numbered;
use super::{Candidate, Course, SMALL, Stop};
use crate::evaluate::EvaluateError;
use crate::evaluate::examine::{cleaned, subject};
use crate::evaluate::passes::{Against, Extent};
use crate::evaluate::roles::{Numbered, execution};
use crate::host::{Host, Prescreener};
use crate::supervise::{self, Answer};

/// What the stage is called.
const STAGE: &str = "pre-screen";

/// Why no further execution is made.
enum End {
    /// A rule was broken.
    Proved(Box<Verdict>),
    /// Something is in the way.
    Cut(String),
}

impl Course<'_> {
    /// Lets the emulated device look at small cases, where the device itself proves nothing.
    ///
    /// # Errors
    /// [`Stop`] with what it proved, or because the work was called off.
    pub(super) fn prescreen(
        &mut self,
        candidate: &Candidate,
        compiled: &Compiled,
    ) -> Result<(), Stop> {
        let Some(Prescreener { device, cap }) = self.evaluator.host.prescreener() else {
            return Ok(());
        };
        let device = match device {
            Ok(device) => device,
            Err(_) => {
                let reason = "there is no emulated device on this machine; `kernelwright preflight` says why";
                self.cut_short(reason.to_owned());
                return Ok(());
            }
        };
        let extent = if self.request.stage.decides_promotion() {
            Extent::All
        } else {
            Extent::Sample
        };
        let passes = self.passes().prescreen(extent)?;
        let asked = numbered(&passes, &candidate.plans, |_| SMALL);
        let job = RunJob {
            threads: device.threads(),
            ..self.job(compiled, asked.iter().map(execution).collect())
        };
        let mut heard = Heard {
            task: self.task,
            device,
            asked: &asked,
            made: Vec::new(),
            findings: Vec::new(),
            end: None,
        };
        let cancellation = self.roles.cancellation;
        let ended = self.timed(STAGE, |_| {
            let hear = |reply| heard.hear(reply);
            match device.run_one_by_one(&job, *cap, cancellation, hear) {
                Err(fault @ supervise::SuperviseError::Cancelled) => {
                    Err(EvaluateError::from(fault).into())
                }
                ended => Ok(ended),
            }
        })?;
        let (made, planned) = (heard.made, asked.len());
        let count = made.len();
        self.evidence.findings.extend(heard.findings);
        self.evidence.prescreen = Some(Prescreen {
            device: device.device().clone(),
            planned: u32::try_from(planned).unwrap_or(u32::MAX),
            executions: made,
        });
        match heard.end.or_else(|| cut_by(ended, *cap)) {
            None => Ok(()),
            Some(End::Proved(verdict)) => Err(Stop::Verdict(verdict)),
            Some(End::Cut(why)) => {
                self.cut_short(format!("after {count} of {planned} executions: {why}"));
                Ok(())
            }
        }
    }

    fn cut_short(&mut self, reason: String) {
        self.evidence.not_run.push(NotRun {
            part: ProtocolPart::Prescreen,
            reason,
        });
    }
}

/// What the end of the process was, where it was not told to make an end.
fn cut_by(ended: Result<Answer<()>, supervise::SuperviseError>, cap: Duration) -> Option<End> {
    let why = match ended {
        Ok(answer) => match answer.reply {
            Ok(()) => return None,
            Err(Exit::TimedOut) => format!("its {} s were over", cap.as_secs_f64()),
            Err(exit) => format!("its process {exit}"),
        },
        Err(supervise::SuperviseError::Unready { late: true, .. }) => {
            "its process was not ready in time".to_owned()
        }
        Err(fault) => {
            tracing::warn!("a pre-screen ended early: failed to {fault}");
            "its process could not work; the worker's log says why".to_owned()
        }
    };
    Some(End::Cut(why))
}

/// What is heard of the executions as they are made.
struct Heard<'a> {
    task: &'a Task,
    device: &'a Host,
    asked: &'a [Numbered<'a>],
    made: Vec<Prescreened>,
    /// Those of the execution that proved something.
    findings: Vec<Finding>,
    end: Option<End>,
}

impl Heard<'_> {
    fn hear(&mut self, reply: RunReply) -> Next {
        if reply.device != *self.device.device() {
            let other = format!("its process used {}", reply.device);
            self.end = Some(End::Cut(other));
        }
        for facts in reply.executions {
            if self.end.is_none() {
                self.end = self.weigh(cleaned(facts));
            }
        }
        match self.end {
            Some(_) => Next::Nothing,
            None => Next::Execution,
        }
    }

    /// Takes note of one execution; says what ends the pre-screen with it.
    fn weigh(&mut self, facts: ExecutionFacts) -> Option<End> {
        let asked = self.asked.get(self.made.len());
        let Some(asked) = asked.filter(|asked| asked.id == facts.id) else {
            return Some(End::Cut(
                "its process made another execution than it was asked".to_owned(),
            ));
        };
        if let Some(verdict) =
            judge::judge_proven_findings(&facts, &subject(self.task, STAGE, asked))
        {
            self.note(asked);
            self.findings = facts.findings;
            return Some(End::Proved(Box::new(verdict)));
        }
        let case = &asked.pass.case;
        if let Some(lacking) = facts.unsupported {
            let line = lacking.line.map(|line| format!(" of line {line}"));
            return Some(End::Cut(format!(
                "the emulated device lacks {}{}",
                lacking.opcode,
                line.unwrap_or_default()
            )));
        }
        if let Some(found) = facts.findings.first() {
            return Some(End::Cut(match found.kind {
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
            return Some(End::Cut(format!(
                "case {case} does not run on {}: {} from {}",
                self.device.device().name,
                fault.name,
                fault.call
            )));
        }
        self.note(asked);
        None
    }

    fn note(&mut self, asked: &Numbered<'_>) {
        self.made.push(Prescreened {
            case: asked.pass.case.clone(),
            distribution: asked.pass.distribution,
            rescheduled: asked.pass.comparison == Against::Rescheduled,
        });
    }
}
