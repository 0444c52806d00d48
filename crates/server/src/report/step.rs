//! One step of an engineer's work, and the history of all of them.

use domain::device::Device;
use domain::evaluation::{Evaluation, GateOutcome};
use domain::iteration::Decision;
use serde::Serialize;
use store::{Iteration, IterationState};
use worker::preflight::{Check, Status};

use super::bench::{BenchCase, Benched};
use super::build::Built;
use super::profile::Profile;
use super::sanitize::SanitizerReport;
use super::{bench, build, sanitize};
use crate::evaluation_text;
use crate::terminal::{columns, line, plain};

/// Characters of a hypothesis in a table.
const IDEA_WIDTH: usize = 40;

/// A step with its decision.
#[derive(Debug, Serialize)]
pub struct Step {
    /// The file, from the top of its repository.
    pub file: String,
    /// Its number on its file, from 1.
    pub number: u32,
    /// The hypothesis.
    pub hypothesis: String,
    /// The gain that was expected over the best kept, as a factor.
    pub expected: Option<f64>,
    /// The gain that was found.
    pub gain: Option<f64>,
    /// Baseline's time over the kernel's.
    pub speedup: Option<f64>,
    /// Baseline's time over that of the best kept before.
    pub best_before: Option<f64>,
    /// The decision: kept, reverted or only recorded.
    pub decision: Decision,
    /// The reason of the decision.
    pub reason: String,
    /// The branch that is checked out.
    pub branch: String,
    /// The commit with the kernel; none where nothing was committed.
    pub commit: Option<String>,
    /// The commit that takes it back.
    pub revert: Option<String>,
    /// The reason why a planned commit was not made.
    pub refused: Option<String>,
    /// The evaluation that it rests on.
    pub evaluation: Evaluation,
    /// Its times, where it is right.
    pub bench: Option<Benched>,
}

/// The full report of one step, in the order of its parts.
#[derive(Debug, Serialize)]
pub struct Iterated {
    /// The machine.
    pub preflight: Vec<Check>,
    /// The image.
    pub build: Built,
    /// Verdict, times, decision and commit.
    pub step: Step,
    /// The sanitizers, where it was their turn.
    pub sanitize: Option<SanitizerReport>,
    /// The profile, where the kernel is right and short of its target.
    pub profile: Option<Profile>,
    /// Parts that were left out, with the reasons.
    pub left_out: Vec<String>,
    /// Every step so far.
    pub history: Vec<HistoryEntry>,
}

/// One line of the history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistoryEntry {
    /// Its number, from 1.
    pub number: u32,
    /// Time of the step, seconds since 1970.
    pub at: i64,
    /// The task.
    pub task: String,
    /// The device.
    pub device: String,
    /// True if the times are modelled.
    pub modelled: bool,
    /// The hypothesis.
    pub hypothesis: String,
    /// The gain that was expected.
    pub expected: Option<f64>,
    /// The gain that was found.
    pub gain: Option<f64>,
    /// Baseline's time over the kernel's.
    pub speedup: Option<f64>,
    /// The best speedup kept up to here, on the same task and device.
    pub best: Option<f64>,
    /// The decision.
    pub decision: Decision,
    /// The reason of the decision.
    pub reason: String,
    /// State of the commit: `planned`, `done` or `refused`.
    pub state: &'static str,
    /// The commit.
    pub commit: Option<String>,
    /// The commit that takes it back.
    pub revert: Option<String>,
}

/// The history, each line with the best so far among those that it may be compared with.
pub fn history(iterations: &[Iteration]) -> Vec<HistoryEntry> {
    let same = |a: &Iteration, b: &Iteration| {
        (&a.task_version, &a.device, a.modelled) == (&b.task_version, &b.device, b.modelled)
    };
    let kept = |one: &Iteration| {
        one.decision.keeps_change() && matches!(one.state, IterationState::Done { .. })
    };
    let entries = iterations.iter().enumerate().map(|(index, own)| {
        let best = iterations[..=index]
            .iter()
            .filter(|one| same(one, own) && kept(one))
            .filter_map(|one| one.speedup)
            .max_by(f64::total_cmp);
        let (state, commit, revert) = match &own.state {
            IterationState::Planned => ("planned", None, None),
            IterationState::Done { commit, revert } => ("done", commit.clone(), revert.clone()),
            IterationState::Refused { .. } => ("refused", None, None),
        };
        HistoryEntry {
            number: own.number,
            at: own.at.timestamp(),
            task: own.task.clone(),
            device: own.device.clone(),
            modelled: own.modelled,
            hypothesis: own.hypothesis.clone(),
            expected: own.expected,
            gain: own.gain,
            speedup: own.speedup,
            best,
            decision: own.decision,
            reason: own.reason.clone(),
            state,
            commit,
            revert,
        }
    });
    entries.collect()
}

/// The history as a table.
pub fn table(entries: &[HistoryEntry]) -> String {
    if entries.is_empty() {
        return "no step of this file is recorded: `kernelwright evaluate` makes one\n".to_owned();
    }
    let factor = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.3}x"));
    let head = [
        "#",
        "expected",
        "found",
        "speedup",
        "best",
        "decision",
        "commit",
        "hypothesis",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(entries.iter().map(|entry| {
        let last = entry.revert.as_ref().or(entry.commit.as_ref());
        let commit = last.map_or(entry.state, |commit| commit.get(..10).unwrap_or(commit));
        vec![
            entry.number.to_string(),
            factor(entry.expected),
            factor(entry.gain),
            factor(entry.speedup),
            factor(entry.best),
            entry.decision.as_str().to_uppercase(),
            commit.to_owned(),
            line(&entry.hypothesis, IDEA_WIDTH),
        ]
    }));
    let mut text = columns(&rows, 0);
    let kinds = [
        (true, "modelled: no clock has seen these times"),
        (false, "measured on silicon"),
    ];
    for (modelled, words) in kinds {
        if entries.iter().any(|entry| entry.modelled == modelled) {
            text.push_str(&format!("times      {words}\n"));
        }
    }
    text
}

/// Renders a step for a terminal.
pub fn text(step: &Step, device: &Device) -> String {
    let mut text = evaluation_text::evaluation(&step.evaluation);
    if let Some(benched) = &step.bench {
        text.push_str(&bench::text(benched, device));
    }
    decision(&mut text, step);
    text
}

/// The shortfall of the first phase that the kernel does not pass; none where no gate of a phase was judged.
fn phase(evaluation: &Evaluation) -> Option<String> {
    let mut of_phases = evaluation
        .gates
        .iter()
        .filter(|gate| gate.phase.is_some())
        .peekable();
    of_phases.peek()?;
    let broken = of_phases.find(|gate| gate.stands_before_promotion());
    Some(broken.map_or_else(
        || "no gate that a phase enforces is broken".to_owned(),
        GateOutcome::shortfall,
    ))
}

/// Times of baseline and kernel in one run, and the blocks of the launches.
fn latency(benched: &Benched) -> Option<String> {
    let mean = |us: fn(&BenchCase) -> f64| {
        let logs = benched.cases.iter().map(|case| us(case).ln()).sum::<f64>();
        (logs / benched.cases.len() as f64).exp()
    };
    let kind = if benched.modelled {
        "modelled"
    } else {
        "measured"
    };
    let speedup = benched.speedup.as_ref()?.ratio;
    let (baseline, own) = (mean(|case| case.baseline_us), mean(|case| case.us));
    let blocks = benched.cases.iter().flat_map(|case| &case.launches);
    let least = blocks.map(|launch| launch.blocks_per_sm).reduce(f64::min)?;
    Some(format!(
        "baseline {baseline:.2} us -> {own:.2} us {kind}, {speedup:.3}x; at least {least:.1} CTAs per SM in every launch"
    ))
}

fn decision(text: &mut String, step: &Step) {
    let factor = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.3}x"));
    text.push_str(&format!("file       {}\n", plain(&step.file)));
    if let Some(phase) = phase(&step.evaluation) {
        text.push_str(&format!("phase      {phase}\n"));
    }
    if let Some(latency) = step.bench.as_ref().and_then(latency) {
        text.push_str(&format!("latency    {latency}\n"));
    }
    if !step.hypothesis.is_empty() {
        text.push_str(&format!("hypothesis {}\n", line(&step.hypothesis, 300)));
    }
    text.push_str(&format!(
        "gain       expected {}, found {} over the best kept ({})\n",
        factor(step.expected),
        factor(step.gain),
        factor(step.best_before)
    ));
    text.push_str(&format!(
        "decision   {} (step {}): {}\n",
        step.decision.as_str().to_uppercase(),
        step.number,
        line(&step.reason, 300)
    ));
    match (&step.commit, &step.revert, &step.refused) {
        (_, _, Some(reason)) => text.push_str(&format!("git        {}\n", line(reason, 400))),
        (Some(commit), Some(revert), _) => text.push_str(&format!(
            "git        {}: {} took back {}\n",
            plain(&step.branch),
            plain(revert),
            plain(commit)
        )),
        (Some(commit), None, _) => text.push_str(&format!(
            "git        {}: {}\n",
            plain(&step.branch),
            plain(commit)
        )),
        (None, ..) => text.push_str("git        nothing to commit\n"),
    }
}

/// Renders the full report of one step for a terminal.
pub fn report(iterated: &Iterated, device: &Device) -> String {
    let mut text = String::from("# Preflight\n");
    for check in &iterated.preflight {
        if check.status != Status::Pass {
            text.push_str(&format!(
                "{:10} {}: {}\n",
                check.status.as_str(),
                check.name.replace('_', " "),
                plain(&check.found)
            ));
        }
    }
    let passed = iterated
        .preflight
        .iter()
        .filter(|check| check.status == Status::Pass)
        .count();
    text.push_str(&format!("pass       {passed} checks\n\n# Build\n"));
    text.push_str(&build::text(&iterated.build, device));
    text.push_str("\n# Test\n");
    text.push_str(&evaluation_text::evaluation(&iterated.step.evaluation));
    if let Some(benched) = &iterated.step.bench {
        text.push_str("\n# Benchmark\n");
        text.push_str(&bench::text(benched, device));
    }
    if let Some(checked) = &iterated.sanitize {
        text.push_str("\n# Sanitizers\n");
        text.push_str(&sanitize::text(checked, device));
    }
    if let Some(profile) = &iterated.profile {
        text.push_str("\n# Profile\n");
        text.push_str(&super::profile::summary(profile));
    }
    text.push_str("\n# Decision\n");
    decision(&mut text, &iterated.step);
    for left_out in &iterated.left_out {
        text.push_str(&format!("left out   {}\n", plain(left_out)));
    }
    text.push_str("\n# History\n");
    text.push_str(&table(&iterated.history));
    text
}
