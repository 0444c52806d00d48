//! Evaluations, winners and promotions as text for a terminal.

use std::fmt::Write as _;

use domain::api::{CandidateDetail, PromotionState, RunView};
use domain::evaluation::{CheckOutcome, Evaluation, GateOutcome, MachineCode, NotRun, Prescreen};
use domain::finding::Finding;
use domain::measurement::{DiscardedRound, Measurement};
use domain::model::Dollars;
use domain::role::KernelResources;
use domain::search::Operator;
use domain::task::Enforce;
use domain::timing::{ModelledTime, Timing};
use domain::tools::sanitize::{Sanitizers, Status};
use domain::verdict::{Severity, Verdict};

use crate::controls::control;
use crate::terminal::{columns, counted, labelled_time, line, plain, time};

/// The most findings and diagnostics shown.
const MAX_SHOWN: usize = 5;

/// Renders an evaluation: verdict, findings, times, gates, resources and device.
pub fn evaluation(evaluation: &Evaluation) -> String {
    let mut text = format!(
        "verdict    {}\n",
        line(&evaluation.verdict.to_string(), 400)
    );
    problems(&mut text, &evaluation.verdict);
    findings(&mut text, &evaluation.findings, Some(&evaluation.verdict));
    for diagnostic in evaluation.diagnostics.iter().take(MAX_SHOWN) {
        let severity = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let place = diagnostic.line.map(|line| format!("line {line}: "));
        let place = place.unwrap_or_default();
        let message = line(&diagnostic.message, 240);
        let _infallible = writeln!(text, "{severity:10} {place}{message}");
    }
    for flag in evaluation.flags.iter().take(MAX_SHOWN) {
        let place = if flag.line > 0 {
            format!("line {}: ", flag.line)
        } else {
            String::new()
        };
        let message = line(&flag.message, 240);
        let _infallible = writeln!(text, "noted      {place}{message}");
    }
    if let Some(acceptance) = evaluation.verdict.acceptance() {
        times(&mut text, &acceptance.timing);
        if acceptance.launch_bound {
            text.push_str("           little more than launching an empty kernel takes\n");
        }
    }
    if let Some(found) = &evaluation.measurement {
        measurement(&mut text, found);
    }
    checks(&mut text, &evaluation.checks);
    if let Some(drawn) = &evaluation.drawn_shapes {
        let _infallible = writeln!(text, "shapes     {drawn}");
    }
    if let Some(covered) = &evaluation.preconditions {
        let _infallible = writeln!(text, "proved for {}", line(&covered.to_string(), 400));
    }
    gates(&mut text, &evaluation.gates);
    resources(&mut text, &evaluation.kernels);
    machine_code(&mut text, evaluation.machine_code.as_ref());
    sanitizers(&mut text, evaluation.sanitizers.as_ref());
    prescreen(&mut text, evaluation.prescreen.as_ref());
    not_run(&mut text, &evaluation.not_run);
    if let Some(device) = &evaluation.device {
        let _infallible = writeln!(text, "device     {}", plain(&device.to_string()));
    }
    if let Some(toolchain) = &evaluation.toolchain {
        let _infallible = writeln!(text, "toolchain  {}", plain(toolchain));
    }
    if let Some(digest) = &evaluation.candidate_digest {
        let _infallible = writeln!(text, "identity   {digest}");
    }
    if let Some(digest) = &evaluation.evidence {
        let _infallible = writeln!(text, "evidence   {digest}");
    }
    let stages = evaluation.stages.iter();
    let stages: Vec<_> = stages
        .map(|stage| format!("{} {:.0} ms", plain(&stage.stage), stage.milliseconds))
        .collect();
    if !stages.is_empty() {
        let _infallible = writeln!(text, "took       {}", stages.join(", "));
    }
    text
}

/// Renders findings, without the one that the verdict's own line shows.
pub(crate) fn findings(text: &mut String, findings: &[Finding], verdict: Option<&Verdict>) {
    let shown = verdict.and_then(Verdict::finding);
    let others = findings.iter().filter(|finding| Some(*finding) != shown);
    for finding in others.take(MAX_SHOWN) {
        let _infallible = writeln!(text, "finding    {}", line(&finding.to_string(), 400));
    }
}

/// Renders the executions of the pre-screen.
pub(crate) fn prescreen(text: &mut String, made: Option<&Prescreen>) {
    let Some(Prescreen {
        device,
        executions,
        planned,
        ..
    }) = made
    else {
        return;
    };
    let (made, device) = (executions.len(), plain(&device.to_string()));
    let _infallible = writeln!(
        text,
        "pre-screen {made} of {planned} executions on {device}"
    );
}

/// Renders the parts of the protocol that were left out or cut short, with the reason.
pub(crate) fn not_run(text: &mut String, rows: &[NotRun]) {
    for row in rows {
        let (part, reason) = (row.part.display_name(), line(&row.reason, 240));
        let _infallible = writeln!(text, "not run    {part}: {reason}");
    }
}

/// Renders the winner of a run with its evidence, or the reason why there is none.
pub fn winner(run: &RunView, winner: Option<&CandidateDetail>) -> String {
    // The baseline is the run's best while nothing that is faster was confirmed.
    let winner = winner.filter(|detail| detail.summary.operator != Operator::Baseline);
    let Some(detail) = winner else {
        return match &run.promotion {
            Some(_) => format!(
                "winner     none: no accepted candidate was confirmed\n{}",
                promotion(run)
            ),
            None => "winner     none: no candidate is accepted and faster than the baseline\n"
                .to_owned(),
        };
    };
    let summary = &detail.summary;
    let mut text = format!(
        "winner     #{} {} ({})\n",
        summary.ordinal,
        line(&summary.title, 80),
        summary.id
    );
    if let (Some(speedup), Some(us)) = (summary.speedup, summary.time_us) {
        let _infallible = writeln!(
            text,
            "speedup    {speedup:.2}x over the baseline, {} (geometric mean over the score cases)",
            labelled_time(us, summary.modelled)
        );
    }
    if let Some(evidence) = &detail.evaluation {
        text.push_str(&evaluation(evidence));
    }
    if let Some(confirmation) = &detail.confirmation {
        let _infallible = writeln!(
            text,
            "confirmed  {} (fresh process, fresh inputs, held-out cases)",
            line(&confirmation.verdict.to_string(), 200)
        );
        if let Some(covered) = &confirmation.preconditions {
            let _infallible = writeln!(text, "proved for {}", line(&covered.to_string(), 400));
        }
    }
    text.push_str(&promotion(run));
    text
}

/// Renders the promotion: branch, state and repository.
fn promotion(run: &RunView) -> String {
    let Some(promotion) = &run.promotion else {
        let why = run.unpromoted.as_deref().unwrap_or("nothing was promoted");
        return format!("branch     none: {}\n", line(why, 400));
    };
    // A branch exists only once a winner was committed to it.
    let commit = match &promotion.state {
        PromotionState::Confirming => return "branch     none yet: being confirmed\n".to_owned(),
        PromotionState::Refused { reason } => {
            return format!("branch     none: not confirmed: {}\n", line(reason, 200));
        }
        PromotionState::Blocked { reason } => {
            return format!("branch     none yet: blocked: {}\n", line(reason, 400));
        }
        PromotionState::Committed { commit } => format!("commit {}", plain(commit)),
        PromotionState::Reverted { commit, reason } => {
            format!("taken back by {}: {}", plain(commit), line(reason, 200))
        }
    };
    let (branch, repository) = (plain(&promotion.branch), plain(&promotion.repository));
    format!("branch     {branch} ({commit})\nin         {repository}\n")
}

pub(crate) fn problems(text: &mut String, verdict: &Verdict) {
    let (Verdict::ParseRejected { problems } | Verdict::PolicyRejected { problems }) = verdict
    else {
        return;
    };
    // The verdict's own sentence has the first.
    for problem in problems.iter().skip(1) {
        let _infallible = writeln!(text, "problem    {}", line(&problem.to_string(), 400));
    }
}

fn times(text: &mut String, timing: &Timing) {
    let mut rows = Vec::new();
    match timing {
        Timing::Measured { cases, unscored } => {
            let unscored = unscored.iter().map(|time| (time, ", not scored"));
            for (case, suffix) in cases.iter().map(|time| (time, "")).chain(unscored) {
                let [low, high] = case.quartiles_us.map(time);
                rows.push(vec![
                    plain(&case.cache.name_of(&case.case)),
                    labelled_time(case.median_us, false),
                    format!(
                        "quartiles {low} to {high}, {} executions{suffix}",
                        case.samples
                    ),
                ]);
            }
        }
        Timing::Modelled {
            label,
            cases,
            unscored,
            ..
        } => {
            let named = |case: &ModelledTime, suffix: &str| {
                vec![
                    plain(&case.cache.name_of(&case.case)),
                    format!(
                        "{} ({}){suffix}",
                        labelled_time(case.us, true),
                        plain(label)
                    ),
                ]
            };
            for case in cases {
                rows.push(named(case, ""));
                for launch in &case.launches {
                    rows.push(vec![
                        format!("  {}", plain(&launch.kernel)),
                        time(launch.us),
                        format!("{:.0}% {}", launch.share * 100.0, plain(&launch.bottleneck)),
                    ]);
                }
            }
            rows.extend(unscored.iter().map(|case| named(case, ", not scored")));
        }
    }
    text.push_str("times\n");
    text.push_str(&columns(&rows, 11));
}

/// Renders the comparison with the incumbent and its confidence interval.
fn measurement(text: &mut String, found: &Measurement) {
    let percent = |effect: f64| format!("{:+.2}%", 100.0 * effect.exp_m1());
    let evidence = &found.settled.evidence;
    let analyses = match found.analyses {
        1 => "one analysis".to_owned(),
        several => format!("{several} analyses"),
    };
    let _infallible = writeln!(
        text,
        "compared   {} ({} to {}) against {}: {} pairs, {} process(es), {analyses}, margin {}",
        percent(evidence.effect),
        percent(evidence.interval.lower),
        percent(evidence.interval.upper),
        found.incumbent.short(),
        evidence.pairs,
        evidence.processes,
        percent(evidence.margin),
    );
    let [low, high] = found.anchor.interval;
    let _infallible = writeln!(
        text,
        "score      {:.4}x the baseline's speed ({low:.4} to {high:.4}), timed beside it",
        found.anchor.ratio
    );
    if let Some(noise) = &found.noise {
        let _infallible = writeln!(
            text,
            "noise      the incumbent against itself: {} to {} ({} pairs, {} processes)",
            percent(noise.interval.lower),
            percent(noise.interval.upper),
            noise.pairs,
            noise.processes,
        );
    }
    if let Some(split) = &found.split {
        let _infallible = writeln!(
            text,
            "apart      {} ({} to {}) in processes of their own, {} each",
            percent(split.effect),
            percent(split.interval.lower),
            percent(split.interval.upper),
            split.alternations,
        );
    }
    if let Some((cycles, [low, high])) = evidence.cycles.zip(found.watched.counted_mhz) {
        let clocks = if found.locked { "locked" } else { "free" };
        let _infallible = writeln!(
            text,
            "cycles     {} at {low:.0} to {high:.0} MHz, clocks {clocks}",
            percent(cycles),
        );
    }
    if let Some(found) = &found.control {
        let _infallible = writeln!(
            text,
            "control    the incumbent against itself: {}",
            control(found)
        );
    }
    for case in &found.cases {
        let Some(scatter) = &case.scatter else {
            continue;
        };
        let name = plain(&case.cache.name_of(&case.case));
        if let Some([lower, upper]) = scatter.modes {
            let _infallible = writeln!(
                text,
                "two modes  {name}: pairs gather at {} and at {}",
                percent(lower),
                percent(upper)
            );
        }
        if scatter.outliers > 0 {
            let _infallible = writeln!(
                text,
                "far out    {name}: {}, the farthest by {}",
                scatter.outliers,
                percent(scatter.farthest)
            );
        }
    }
    if !found.discarded.is_empty() {
        let reasons = DiscardedRound::reasons(&found.discarded);
        let reasons = reasons
            .iter()
            .map(|(reason, count)| format!("{count} {}", reason.replace('_', " ")));
        let _infallible = writeln!(
            text,
            "discarded  {} of {} rounds: {}",
            found.discarded.len(),
            found.timed,
            reasons.collect::<Vec<_>>().join(", ")
        );
    }
}

pub(crate) fn checks(text: &mut String, checks: &[CheckOutcome]) {
    if checks.is_empty() {
        return;
    }
    let passed = checks.iter().filter(|check| check.passed).count();
    let worst = checks
        .iter()
        .filter_map(|check| check.worst_ratio.map(|ratio| (ratio, check)))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let _infallible = write!(
        text,
        "correct    {passed} of {} outputs agree with the f64 reference",
        checks.len()
    );
    if let Some((ratio, check)) = worst {
        let case = plain(&check.case);
        let _infallible = write!(text, "; largest error {ratio:.3} of its bound, on {case}");
    }
    text.push('\n');
}

pub(crate) fn gates(text: &mut String, gates: &[GateOutcome]) {
    if gates.is_empty() {
        return;
    }
    let rows: Vec<_> = gates
        .iter()
        .map(|gate| {
            let limits = [
                gate.min.map(|min| format!(">= {min}")),
                gate.max.map(|max| format!("<= {max}")),
            ];
            let limits: Vec<_> = limits.into_iter().flatten().collect();
            let place = [&gate.phase, &gate.case];
            let place: Vec<_> = place
                .into_iter()
                .flatten()
                .map(|part| plain(part))
                .collect();
            let verdict = match (gate.met, gate.enforce) {
                (true, _) => "met",
                (false, Enforce::Advise) => "not met (advice)",
                (false, Enforce::Phase) => "NOT MET: not promoted",
                (false, Enforce::Reject) => "NOT MET: rejected",
            };
            let modelled = if gate.subject.is_modelled() {
                " modelled"
            } else {
                ""
            };
            vec![
                gate.subject.as_str().to_owned(),
                place.join(" "),
                format!("{:.2}{modelled}", gate.found),
                limits.join(", "),
                verdict.to_owned(),
            ]
        })
        .collect();
    text.push_str("gates\n");
    text.push_str(&columns(&rows, 11));
}

pub(crate) fn resources(text: &mut String, kernels: &[KernelResources]) {
    if kernels.is_empty() {
        return;
    }
    let rows: Vec<_> = kernels
        .iter()
        .map(|kernel| {
            vec![
                plain(&kernel.kernel),
                format!("{} registers", kernel.registers),
                format!("{} B spilled", kernel.spill_bytes),
                format!("{} B static shared", kernel.static_shared_bytes),
            ]
        })
        .collect();
    text.push_str("kernels\n");
    text.push_str(&columns(&rows, 11));
}

/// Renders the result of each sanitizer.
fn sanitizers(text: &mut String, sanitizers: Option<&Sanitizers>) {
    let Some(sanitizers) = sanitizers else { return };
    for row in &sanitizers.tools {
        let what = match &row.status {
            Status::Clean => "clean".to_owned(),
            Status::Found { findings } => {
                let first = findings.first().map(|first| line(&first.message, 200));
                format!("{} found: {}", findings.len(), first.unwrap_or_default())
            }
            Status::NotRun { reason } => format!("NOT RUN: {}", line(reason, 240)),
        };
        let tool = row.tool.as_str();
        let _infallible = writeln!(text, "{tool:10} {what} (by {})", plain(&sanitizers.by));
    }
}

/// The most frequent instructions of each kernel.
fn machine_code(text: &mut String, code: Option<&MachineCode>) {
    match code {
        None => {}
        Some(MachineCode::NotRun { reason }) => {
            let _infallible = writeln!(text, "code       not read: {}", line(reason, 240));
        }
        Some(MachineCode::Read { kernels, .. }) => {
            for kernel in kernels {
                let mut mix: Vec<_> = kernel.mix.iter().collect();
                mix.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
                let told = mix.iter().take(MAX_SHOWN);
                let told: Vec<_> = told
                    .map(|(name, count)| format!("{count} {}", plain(name)))
                    .collect();
                let _infallible = writeln!(
                    text,
                    "code       {}: {} instructions, {} on tensor cores; {}",
                    plain(&kernel.kernel),
                    kernel.instructions,
                    kernel.tensor,
                    told.join(", ")
                );
            }
        }
    }
}

/// Renders the tokens, dollars and device time of a run in one line; none where no model was
/// asked.
pub fn spent(run: &RunView) -> Option<String> {
    let spend = &run.spend;
    if run.models.is_empty() {
        return None;
    }
    let names = run.models.iter().map(|model| plain(&model.name));
    let mut text = format!(
        "models {}: {}, {}, {}",
        names.collect::<Vec<_>>().join(", "),
        counted(spend.calls, "reply", "replies"),
        counted(spend.usage.total(), "token", "tokens"),
        spend.dollars,
    );
    if spend.unpriced_calls > 0 {
        let _infallible = write!(text, " and {} of unknown price", spend.unpriced_calls);
    }
    if spend.interrupted_calls > 0 {
        let _infallible = write!(
            text,
            "; {} interrupted, charged with at most {}, {}",
            counted(spend.interrupted_calls, "request", "requests"),
            counted(spend.interrupted_tokens, "token", "tokens"),
            spend.interrupted_dollars,
        );
    }
    let seconds = spend.device_ms as f64 / 1000.0;
    let _infallible = write!(text, "; devices {seconds:.1} s");
    if spend.device_dollars > Dollars::default() {
        let _infallible = write!(text, ", {}", spend.device_dollars);
    }
    Some(text)
}
