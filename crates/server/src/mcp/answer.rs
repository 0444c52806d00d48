//! The service's views as short texts for an agent.
//!
//! Of a candidate that was not accepted they hold its feedback only: the sentence of the verdict
//! would tell how far off an output is, and that of a confirmation what it runs on.

use std::fmt::Write as _;

use anyhow::bail;
use domain::api::{
    Brief, CandidateDetail, CandidatePage, CandidateState, CandidateSummary, RunView,
};
use domain::brief::{Feedback, describe_verdict, feedback};
use domain::cleaning;
use domain::evaluation::Evaluation;
use domain::verdict::VerdictKind;

use crate::terminal::{labelled_time, line, plain};

/// Characters of a title.
const TITLE: usize = 80;

/// A run's state and the message of its prompt: the best kernel, its feedback, attempts, insights and
/// directions.
pub(super) fn state(run: &RunView, brief: &Brief) -> String {
    let mut text = run_lines(run);
    put(&mut text, "device", &device(brief));
    put(
        &mut text,
        "parent",
        &format!(
            "{}; `submit` takes it for the parent where you name none, and applies edits to it",
            brief.parent
        ),
    );
    if run.state.is_over() {
        put(
            &mut text,
            "over",
            "the run takes no submissions; start another with `start_run`",
        );
    }
    text.push_str("\nSubmit with the tool `submit`. The text below is the same for all proposers, and its command and request do the same as the tool.\n\n");
    for message in &brief.prompt.messages {
        text.push_str(&message.text);
    }
    text
}

fn device(brief: &Brief) -> String {
    brief.device.as_ref().map_or_else(
        || "not known before the baseline is evaluated".to_owned(),
        |device| plain(&device.to_string()),
    )
}

/// A run in a few lines.
fn run_lines(run: &RunView) -> String {
    let mut text = String::new();
    let name = format!(
        "{} {:?} on task {} by {}: {}",
        run.id,
        line(&run.name, TITLE),
        plain(&run.task),
        run.method.as_str(),
        line(&run.state.to_string(), 200)
    );
    put(&mut text, "run", &name);
    put(&mut text, "trials", &trials(run));
    let best = run.best.as_ref().map_or_else(
        || "none yet: the baseline is not evaluated".to_owned(),
        |best| {
            format!(
                "{} {:?}: {:.2}x the baseline's speed, {}",
                best.candidate,
                line(&best.title, TITLE),
                best.speedup,
                labelled_time(best.time_us, best.modelled)
            )
        },
    );
    put(&mut text, "best", &best);
    text
}

fn trials(run: &RunView) -> String {
    let left = run.budget.trials.saturating_sub(run.trials);
    let verdicts = run.verdicts.iter();
    let verdicts: Vec<_> = verdicts
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let mut text = format!("{left} of {} left", run.budget.trials);
    if run.pending > 0 {
        let _infallible = write!(text, "; {} without a verdict yet", run.pending);
    }
    if !verdicts.is_empty() {
        let _infallible = write!(text, "; so far {}", verdicts.join(", "));
    }
    text
}

/// Runs, a few lines each.
pub(super) fn runs(runs: &[&RunView]) -> String {
    if runs.is_empty() {
        return "no run; start one on a stored task with `start_run`, or list ended ones with `ended`\n"
            .to_owned();
    }
    runs.iter().map(|run| run_lines(run)).collect()
}

/// True if the candidate has no verdict and may get one.
pub(super) fn is_waiting(detail: &CandidateDetail) -> bool {
    detail.summary.verdict.is_none()
        && !matches!(detail.summary.state, CandidateState::Abandoned { .. })
}

/// A candidate with its verdict, and the state of its run.
pub(super) fn candidate(detail: &CandidateDetail, run: &RunView) -> String {
    let summary = &detail.summary;
    let mut text = String::new();
    put(
        &mut text,
        "candidate",
        &format!(
            "{} #{} {:?} by {}",
            summary.id,
            summary.ordinal,
            line(&summary.title, TITLE),
            line(&summary.proposer, TITLE)
        ),
    );
    if let CandidateState::Duplicate { of } = &summary.state {
        put(
            &mut text,
            "duplicate",
            &format!(
                "the run has this code as {of}, whose verdict holds for both; nothing is made from this copy"
            ),
        );
    }
    if let Some(of) = &summary.verdict_of {
        put(
            &mut text,
            "evaluated",
            &format!("in another run, as {of}; nothing was evaluated again"),
        );
    }
    match (&summary.state, &detail.evaluation) {
        (CandidateState::Abandoned { message }, _) => put(
            &mut text,
            "no verdict",
            &format!(
                "the infrastructure failed too often, which says nothing about the kernel: {}; submit it again later",
                cleaning::clean_sentence(message, 300)
            ),
        ),
        (_, Some(evaluation)) => verdict(&mut text, detail, evaluation),
        (_, None) if summary.verdict.is_some() => {
            let kind = summary.verdict.map_or("unknown", VerdictKind::as_str);
            put(&mut text, "verdict", kind);
        }
        (state, None) => put(
            &mut text,
            "no verdict",
            &format!(
                "{}; ask again with the tool `verdict` and this candidate, and do not submit it again",
                waiting(state)
            ),
        ),
    }
    put(&mut text, "trials", &trials(run));
    text
}

fn waiting(state: &CandidateState) -> String {
    match state {
        CandidateState::Drafting { .. } => "yet: a model is still writing it".to_owned(),
        CandidateState::Evaluating { stage, .. } => {
            format!("yet: a worker evaluates it, stage {}", line(stage, TITLE))
        }
        CandidateState::Duplicate { .. } => {
            "yet: the candidate that it repeats is not evaluated".to_owned()
        }
        _ => "yet: it waits for a worker".to_owned(),
    }
}

/// The feedback of an evaluation, with speedup, stage, confirmation and evidence.
fn verdict(text: &mut String, detail: &CandidateDetail, evaluation: &Evaluation) {
    let summary = &detail.summary;
    let told = feedback(evaluation, &detail.source);
    let kind = evaluation.verdict.kind();
    let sentence = told.summary.strip_prefix("accepted: ");
    let sentence = sentence.unwrap_or(&told.summary);
    put(text, "verdict", &format!("{kind}: {sentence}"));
    if let Some(speedup) = summary.speedup {
        let best = if summary.best {
            "; the best of the run"
        } else {
            ""
        };
        put(
            text,
            "speedup",
            &format!("{speedup:.2}x the baseline's speed{best}"),
        );
    }
    let stage = evaluation.stages.last();
    let stage = stage.filter(|_| kind != VerdictKind::Accepted && evaluation.may_be_shown());
    if let Some(stage) = stage {
        put(text, "stage", &line(&stage.stage, TITLE));
    }
    rows(text, &told);
    if let Some(confirmation) = &detail.confirmation {
        let kind = confirmation.verdict.kind();
        put(text, "confirmed", describe_verdict(kind));
    }
    if let Some(digest) = &evaluation.evidence {
        put(text, "evidence", &digest.to_string());
    }
}

/// Details, messages of the compiler, times and gates that are not met.
fn rows(text: &mut String, told: &Feedback) {
    for detail in &told.details {
        put(text, "reason", detail);
    }
    if let Some(messages) = &told.diagnostics {
        // The kernel's text has a hand in these lines.
        put(
            text,
            "compiler",
            &format!("between the marks {}", messages.fence),
        );
        let _infallible = writeln!(text, "{}", messages.fence);
        for message in &messages.lines {
            let _infallible = writeln!(text, "{message}");
        }
        let _infallible = writeln!(text, "{}", messages.fence);
    }
    for time in &told.times {
        put(text, "time", time);
    }
    for gate in &told.unmet {
        put(text, "gate", &format!("not met: {gate}"));
    }
}

/// The profile of an accepted candidate.
pub(super) fn profile(detail: &CandidateDetail) -> anyhow::Result<String> {
    let summary = &detail.summary;
    let accepted = detail
        .evaluation
        .as_ref()
        .and_then(|evaluation| Some((evaluation, evaluation.verdict.acceptance()?)));
    let Some((evaluation, acceptance)) = accepted else {
        bail!(
            "profile {}: only accepted candidates are timed, and this one {}; ask `verdict` for the reason",
            summary.id,
            summary
                .verdict
                .map_or("has no verdict yet", describe_verdict)
        );
    };
    let told = feedback(evaluation, &detail.source);
    let mut text = String::new();
    let modelled = acceptance.timing.is_modelled();
    let kind = if modelled {
        "modelled: times are from the emulated device's model, and no GPU was used"
    } else {
        "measured on a GPU"
    };
    put(&mut text, "candidate", &summary.id.to_string());
    put(&mut text, "times are", kind);
    for time in &told.times {
        put(&mut text, "time", time);
    }
    for kernel in &evaluation.kernels {
        put(
            &mut text,
            "kernel",
            &format!(
                "{}: {} registers, {} bytes spilled, {} bytes of static shared memory",
                line(&kernel.kernel, TITLE),
                kernel.registers,
                kernel.spill_bytes,
                kernel.static_shared_bytes
            ),
        );
    }
    for counter in &told.counters {
        put(&mut text, "counters", counter);
    }
    put(
        &mut text,
        "lines",
        "the work of each source line is not in this answer; `kernelwright profile FILE --task DIR` prints it on a machine with the task's folder",
    );
    Ok(text)
}

/// Attempts of a run, a line each, with the counts of all.
pub(super) fn attempts(page: &CandidatePage, run: &RunView) -> String {
    let mut text = String::new();
    put(&mut text, "run", &run.id.to_string());
    put(&mut text, "trials", &trials(run));
    if page.candidates.is_empty() {
        put(&mut text, "attempts", "none of those examined fits");
    }
    for attempt in &page.candidates {
        put(&mut text, "attempt", &attempt_line(attempt));
    }
    if let Some(next) = &page.next {
        put(
            &mut text,
            "more",
            &format!("pass `next`: {next:?} with the same filters"),
        );
    }
    text
}

fn attempt_line(attempt: &CandidateSummary) -> String {
    let outcome = match (attempt.verdict, attempt.speedup) {
        (Some(_), Some(speedup)) => {
            let time = attempt
                .time_us
                .map(|us| format!(", {}", labelled_time(us, attempt.modelled)));
            format!(
                "accepted, {speedup:.2}x the baseline's speed{}",
                time.unwrap_or_default()
            )
        }
        (Some(kind), None) => describe_verdict(kind).to_owned(),
        (None, _) => format!("no verdict {}", waiting(&attempt.state)),
    };
    format!(
        "{} #{} {:?} by {} ({}): {outcome}",
        attempt.id,
        attempt.ordinal,
        line(&attempt.title, TITLE),
        line(&attempt.proposer, TITLE),
        attempt.operator.as_str()
    )
}

/// Adds a line with a name.
fn put(text: &mut String, name: &str, value: &str) {
    let _infallible = writeln!(text, "{name:10} {value}");
}
