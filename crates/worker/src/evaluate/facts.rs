//! The facts that stages find, and the report with which a stage returns them.

use std::collections::BTreeMap;
use std::time::Instant;

use domain::digest::Digest;
use domain::evaluation::{
    CaseLaunches, CheckOutcome, DrawnShapes, Explanation, GateOutcome, MachineCode, NotRun,
    Prescreen, ProtocolPart, StageTime,
};
use domain::finding::Finding;
use domain::measurement::Measurement;
use domain::plan::ResolvedPlan;
use domain::problem::Problem;
use domain::role::{Compiled, KernelResources, LineCounters};
use domain::statistics::Floor;
use domain::tools::sanitize::Sanitizers;
use serde::Serialize;

use super::context::Context;
use super::error::StageStop;

/// The facts of one stage, or of all stages so far. An evaluation is made of them.
#[derive(Default)]
pub(super) struct Facts {
    pub candidate_digest: Option<Digest>,
    /// The launches planned on each case.
    pub plans: BTreeMap<String, ResolvedPlan>,
    pub compiled: Option<Compiled>,
    /// True if the candidate ran on the device that decides.
    pub ran: bool,
    pub prescreen: Option<Prescreen>,
    pub not_run: Vec<NotRun>,
    /// The resources of the kernels that the plan launches.
    pub kernels: Vec<KernelResources>,
    pub gates: Option<Vec<GateOutcome>>,
    pub checks: Vec<CheckOutcome>,
    /// The drawn shapes that the candidate was right on.
    pub drawn_shapes: Option<DrawnShapes>,
    /// The launches of each score case as they ran.
    pub launches: Option<Vec<CaseLaunches>>,
    /// The counters of source lines of each score case, on the emulated device.
    pub lines: Vec<CaseLines>,
    pub floors: Option<Vec<Floor>>,
    pub measurement: Option<Measurement>,
    pub explanation: Option<Explanation>,
    pub flags: Vec<Problem>,
    pub machine_code: Option<MachineCode>,
    /// The instructions of the machine code as text, where they were read.
    pub sass: Option<String>,
    pub sanitizers: Option<Sanitizers>,
    pub findings: Vec<Finding>,
    /// The wall time of each stage.
    pub stages: Vec<StageTime>,
}

/// The counters of source lines of a score case, launch by launch.
#[derive(Debug, Serialize)]
pub(super) struct CaseLines {
    pub case: String,
    pub launches: Vec<KernelLines>,
}

/// The counters of source lines of one launch: the lines with the most instructions.
#[derive(Debug, Serialize)]
pub(super) struct KernelLines {
    pub kernel: String,
    pub lines: Vec<LineCounters>,
}

impl Facts {
    /// Merges the facts of a report into these and returns its result. Lists grow; a single fact
    /// that a later stage found again replaces the earlier one.
    pub fn merge<T>(&mut self, report: Report<T>) -> Result<T, StageStop> {
        let Report { facts, result } = report;
        let Self {
            candidate_digest,
            plans,
            compiled,
            ran,
            prescreen,
            not_run,
            kernels,
            gates,
            checks,
            drawn_shapes,
            launches,
            lines,
            floors,
            measurement,
            explanation,
            flags,
            machine_code,
            sass,
            sanitizers,
            findings,
            stages,
        } = facts;
        replace(&mut self.candidate_digest, candidate_digest);
        self.plans.extend(plans);
        replace(&mut self.compiled, compiled);
        self.ran |= ran;
        replace(&mut self.prescreen, prescreen);
        for row in not_run {
            if !self.not_run.contains(&row) {
                self.not_run.push(row);
            }
        }
        if !kernels.is_empty() {
            self.kernels = kernels;
        }
        replace(&mut self.gates, gates);
        self.checks.extend(checks);
        replace(&mut self.drawn_shapes, drawn_shapes);
        replace(&mut self.launches, launches);
        if !lines.is_empty() {
            self.lines = lines;
        }
        replace(&mut self.floors, floors);
        replace(&mut self.measurement, measurement);
        replace(&mut self.explanation, explanation);
        self.flags.extend(flags);
        replace(&mut self.machine_code, machine_code);
        replace(&mut self.sass, sass);
        replace(&mut self.sanitizers, sanitizers);
        self.findings.extend(findings);
        self.stages.extend(stages);
        result
    }

    /// Adds a row about a part of the protocol that was not run. A repeated row counts once.
    pub fn note_not_run(&mut self, part: ProtocolPart, reason: impl Into<String>) {
        let reason = reason.into();
        let row = NotRun { part, reason };
        if !self.not_run.contains(&row) {
            self.not_run.push(row);
        }
    }
}

fn replace<T>(known: &mut Option<T>, later: Option<T>) {
    if later.is_some() {
        *known = later;
    }
}

/// The facts that a stage found, and its result: what the next stage needs, or why the evaluation
/// ends. The facts count in both cases.
pub(super) struct Report<T> {
    pub facts: Facts,
    pub result: Result<T, StageStop>,
}

impl<T> Report<T> {
    /// Runs a stage that collects its facts on the way.
    pub fn of(stage: impl FnOnce(&mut Facts) -> Result<T, StageStop>) -> Self {
        let mut facts = Facts::default();
        let result = stage(&mut facts);
        Self { facts, result }
    }

    /// Runs a stage, announces it as progress and adds its wall time to the facts.
    pub fn timed(
        context: &Context<'_>,
        stage: &str,
        work: impl FnOnce(&mut Facts) -> Result<T, StageStop>,
    ) -> Self {
        (context.progress)(stage);
        let started = Instant::now();
        let mut report = Self::of(work);
        report.facts.stages.push(StageTime {
            stage: stage.to_owned(),
            milliseconds: started.elapsed().as_secs_f64() * 1e3,
        });
        report
    }
}
