//! NVIDIA's sanitizers around a candidate's executions: for whoever asks, and before a promotion on a
//! device that proves nothing by itself.
//!
//! A tool accuses a candidate only if it says so twice and has nothing of the kind to say of the
//! task's baseline; where it cannot look, or accuses everybody, its row says that it did not run.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use domain::plan::ResolvedPlan;
use domain::role::{Compiled, Execution, Placement, RunJob};
use domain::tools::sanitize::{self, Sanitizers, Status, Tool, ToolResult};
use domain::verdict::Verdict;

use super::around::{Traced, read_log};
use super::inspect::numbered;
use super::{Candidate, Course, SMOKE, Stop};
use crate::evaluate::examine::unconfirmed;
use crate::evaluate::roles::execution;

/// What one sanitizer may take.
const DEADLINE: Duration = Duration::from_secs(120);
/// Bytes behind every allocation that memcheck keeps free of others.
const PADDING: &str = "256";
/// Who looks on the emulated device.
const OWN_CHECKS: &str = "the emulated device's own checks, on every execution";
/// Who looks on silicon.
const PROGRAM: &str = "compute-sanitizer";

impl Course<'_> {
    /// Lets the sanitizers look before a promotion. Every tool leaves a row.
    ///
    /// # Errors
    /// [`Stop`] with the verdict of the first finding that stands.
    pub(super) fn sanitize(
        &mut self,
        candidate: &Candidate,
        compiled: &Compiled,
    ) -> Result<(), Stop> {
        let host = &self.evaluator.host;
        if !host.is_unproved() {
            // Whatever they prove is a verdict at once, so that who comes here is clean.
            let tools = sanitize::emulated(&self.evidence.findings, None);
            let by = OWN_CHECKS.to_owned();
            self.evidence.sanitizers = Some(Sanitizers { by, tools });
            return Ok(());
        }
        let program = match host.sanitizer() {
            Ok(program) => program,
            Err(reason) => {
                self.evidence.sanitizers = Some(Sanitizers::not_run(PROGRAM, &reason));
                return Ok(());
            }
        };
        self.evidence.sanitizers = Some(Sanitizers {
            by: PROGRAM.to_owned(),
            tools: Vec::new(),
        });
        let job = self.watched(compiled, &candidate.plans)?;
        for tool in Tool::ALL {
            self.timed(tool.as_str(), |course| {
                let (status, verdict) = course.accuse(tool, &program, &job)?;
                let kept = course.evidence.sanitizers.as_mut();
                let kept = kept.expect("the rows were begun above");
                kept.tools.push(ToolResult { tool, status });
                verdict.map_or(Ok(()), |verdict| Err(verdict.into()))
            })?;
        }
        Ok(())
    }

    /// The four tools, one after the other, on the small cases with ordinary inputs.
    pub(super) fn sanitizers(
        &mut self,
        candidate: &Candidate,
        compiled: &Compiled,
        program: &Path,
    ) -> Result<(Vec<ToolResult>, usize), Stop> {
        let job = self.watched(compiled, &candidate.plans)?;
        let mut results = Vec::new();
        for tool in Tool::ALL {
            (self.progress)(tool.as_str());
            let status = self.hear_of(tool, program, &job)?;
            results.push(ToolResult { tool, status });
        }
        Ok((results, job.executions.len()))
    }

    /// What a tool says, and the verdict that it is.
    fn accuse(
        &self,
        tool: Tool,
        program: &Path,
        job: &RunJob,
    ) -> Result<(Status, Option<Verdict>), Stop> {
        let status = self.hear_of(tool, program, job)?;
        let Status::Found { findings } = &status else {
            return Ok((status, None));
        };
        let says = |status: &Status| match status {
            Status::Found { findings } => findings
                .iter()
                .find_map(|said| sanitize::verdict(tool, said)),
            Status::Clean | Status::NotRun { .. } => None,
        };
        let baseline = self.of_the_baseline()?;
        if let Some(Status::Found { findings: too }) = match &baseline {
            Some(job) => Some(self.hear_of(tool, program, job)?),
            None => None,
        } {
            let reason = format!(
                "it accuses the task's baseline as well ({}), so that what it says of this \
                 candidate ({}) means nothing",
                too[0].message, findings[0].message
            );
            return Ok((Status::NotRun { reason }, None));
        }
        let Some(verdict) = says(&status) else {
            let reason = format!(
                "it says something that no verdict is known for: {}",
                findings[0].message
            );
            return Ok((Status::NotRun { reason }, None));
        };
        let again = self.hear_of(tool, program, job)?;
        if says(&again).is_some_and(|again| again.kind() == verdict.kind()) {
            return Ok((status, Some(verdict)));
        }
        let kind = self.evaluator.host.device().kind;
        Err(unconfirmed(
            &format!("by {}", tool.as_str()),
            &verdict,
            kind,
        ))
    }

    /// One run of one tool.
    fn hear_of(&self, tool: Tool, program: &Path, job: &RunJob) -> Result<Status, Stop> {
        let log = self.roles.scratch.join(format!("{}.log", tool.as_str()));
        // What an earlier run left must not answer for this one.
        let _ = std::fs::remove_file(&log);
        let mut words = vec![
            "--tool".into(),
            tool.as_str().into(),
            "--print-limit".into(),
            "100".into(),
            // Errors of calls are looked at where the calls are made, and some are expected.
            "--report-api-errors".into(),
            "no".into(),
            "--log-file".into(),
            log.clone().into_os_string(),
        ];
        if tool == Tool::Memcheck {
            words.extend(["--padding".into(), PADDING.into()]);
        }
        let around = self.roles.around(program, &words);
        let ended = self.roles.trace(&around, job, DEADLINE)?;
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

    /// The small cases with ordinary inputs, with nothing of ours around buffers or in them that
    /// would keep a tool from seeing where they end and what was never written.
    fn watched(
        &self,
        compiled: &Compiled,
        plans: &BTreeMap<String, ResolvedPlan>,
    ) -> Result<RunJob, Stop> {
        let passes = self.passes().smoke()?;
        let numbered = numbered(&passes, plans, |_| SMOKE.instructions);
        let executions = numbered.iter().map(|numbered| Execution {
            placement: Placement::Bare,
            ..execution(numbered)
        });
        Ok(self.job(compiled, executions.collect()))
    }

    /// The same of the task's baseline, if it has a plan for all of these cases.
    fn of_the_baseline(&self) -> Result<Option<RunJob>, Stop> {
        let source = &self.task.baseline;
        let usual = source.plan().default_configuration();
        let Ok(compiled) = self.build(source, &usual)? else {
            return Ok(None);
        };
        let limits = &self.evaluator.host.device().limits;
        let cases = self.passes().cases();
        let plans = cases.map(|case| {
            let plan = source.plan().resolve(self.task, &case.dims, &usual, limits);
            plan.map(|plan| (case.name.clone(), plan))
        });
        match plans.collect::<Result<BTreeMap<_, _>, _>>() {
            Ok(plans) => self.watched(&compiled, &plans).map(Some),
            Err(_) => Ok(None),
        }
    }
}
