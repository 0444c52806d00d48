//! The HTML report of a run: a page of bounded size that loads nothing and runs nothing.

use domain::api::{
    CandidateDetail, CandidateOrder, CandidateSummary, Change, DiffLine, LineageGenerations,
    RunView,
};
use engine::Engine;
use store::{CandidateQuery, MAX_CURVE_BUCKETS};

use super::ExportError;
use super::csv::state;
use super::curve::{self, Interval};
use super::html::Html;
use crate::evaluation_text;
use crate::terminal::{plain, time};

/// Candidates that the table of the fastest shows.
const FASTEST: u32 = 50;
/// Candidates on the way to the best that are shown, the last ones.
const STEPS: usize = 60;
/// Rows of the table of generations.
const ROWS: usize = 40;
/// Causes of failures that are shown, the most frequent ones.
const CAUSES: u32 = 12;

const STYLE: &str = "\
:root{color-scheme:light dark;--rule:#8885;--soft:#767676}\
body{max-width:60rem;margin:2rem auto;padding:0 1rem;font:14px/1.5 system-ui,sans-serif}\
h1{margin:0 0 .3rem;font-size:1.5rem}h2{margin:2rem 0 .5rem;font-size:1.1rem}\
.soft{color:var(--soft)}.scroll{overflow-x:auto}\
table{border-collapse:collapse}th,td{padding:3px 14px 3px 0;border-bottom:1px solid var(--rule);\
text-align:left;vertical-align:top}th{color:var(--soft);font-weight:500}\
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}\
pre{overflow-x:auto;padding:10px 12px;border:1px solid var(--rule);border-radius:6px;font:12px/1.45 ui-monospace,monospace}\
.badge{padding:0 5px;border:1px dashed currentColor;border-radius:4px;font-size:.85em}\
.big{font-size:1.5rem;font-weight:650}\
svg{width:100%;height:auto}svg text{font-size:11px;fill:currentColor}\
.grid{stroke:currentColor;opacity:.14}.baseline{stroke:currentColor;stroke-dasharray:5 4;opacity:.6}\
.best{fill:none;stroke:#2a6fdb;stroke-width:2}.interval{stroke:#2a6fdb;stroke-width:5;opacity:.35}\
.dot{fill:currentColor;opacity:.3}.added{color:#1a7f37}.removed{color:#c0392b}";

/// Renders the report.
pub(super) async fn report(engine: &Engine, run: &RunView) -> Result<String, ExportError> {
    let store = engine.store();
    let winner = match &run.best {
        Some(best) => engine.candidate(best.candidate).await?,
        None => None,
    };
    let mut page = Html::default();
    page.raw(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
    );
    page.text(plain(&run.name))
        .raw("</title>\n<style>")
        .raw(STYLE);
    page.raw("</style>\n</head>\n<body>\n");
    head(&mut page, run, winner.as_ref());
    facts(&mut page, run);

    page.raw("<h2>Best speedup</h2>\n");
    let interval = winner.as_ref().and_then(|winner| {
        Some(Interval {
            ordinal: winner.summary.ordinal,
            ends: speedup_interval(winner)?,
        })
    });
    page.piece(&curve::draw(
        &store.curve(run.id, MAX_CURVE_BUCKETS).await?,
        interval,
    ));
    page.raw("<p class=\"soft\">Baseline's time over the candidate's, geometric mean over the score cases, by candidate. ");
    page.raw("The line is the best so far, a dot the fastest of its bucket, the dashed line the baseline");
    page.raw(if interval.is_some() {
        ", the bar the best's confidence interval.</p>\n"
    } else {
        ".</p>\n"
    });

    let generations = store.lineage_generations(run.id).await?;
    lineage(&mut page, engine, run, &generations).await?;
    if let Some(winner) = &winner {
        evidence(&mut page, engine, run, winner).await?;
    }
    let fastest = CandidateQuery {
        order: CandidateOrder::Fastest,
        ..CandidateQuery::default()
    };
    let fastest = store.list_candidates(run.id, &fastest, FASTEST).await?;
    if !fastest.candidates.is_empty() {
        page.raw("<h2>Fastest candidates</h2>\n");
        candidates(&mut page, &fastest.candidates);
    }
    failures(&mut page, engine, run).await?;
    page.raw("<p class=\"soft\">Exported by Kernelwright ")
        .text(env!("CARGO_PKG_VERSION"));
    page.raw(" at ")
        .text(engine.now().format("%Y-%m-%d %H:%M:%S UTC"));
    page.raw(". This file loads nothing and runs nothing.</p>\n</body>\n</html>\n");
    Ok(page.finish())
}

/// The badge of times: modelled ones are never shown without it.
fn badge(page: &mut Html, modelled: bool) {
    page.raw(if modelled {
        " <span class=\"badge\">modelled</span>"
    } else {
        " <span class=\"badge\">measured</span>"
    });
}

/// The confidence interval of a candidate's speedup; none for modelled times, which have no noise.
fn speedup_interval(detail: &CandidateDetail) -> Option<[f64; 2]> {
    let measurement = detail.evaluation.as_ref()?.measurement.as_ref()?;
    Some(measurement.anchor.interval)
}

fn head(page: &mut Html, run: &RunView, winner: Option<&CandidateDetail>) {
    page.raw("<h1>").text(plain(&run.name)).raw("</h1>\n<p>");
    page.text(plain(&run.state.to_string())).raw("</p>\n");
    let Some(best) = &run.best else {
        page.raw("<p>No candidate was accepted.</p>\n");
        return;
    };
    page.raw("<p><span class=\"big\">")
        .text(format!("{:.2}x", best.speedup))
        .raw("</span>");
    if let Some([lower, upper]) = winner.and_then(speedup_interval) {
        page.text(format!(" ({lower:.2} to {upper:.2})"));
    }
    badge(page, best.modelled);
    page.text(format!(" the baseline's speed, {}: ", time(best.time_us)));
    page.text(plain(&best.title)).raw("</p>\n");
    if best.modelled {
        page.raw("<p class=\"soft\">All times of this report come from the time model of the emulated device. None was measured on a GPU.</p>\n");
    }
}

fn facts(page: &mut Html, run: &RunView) {
    let verdicts = run.verdicts.iter();
    let verdicts = verdicts.map(|(kind, count)| format!("{count} {kind}"));
    let models = run.models.iter().map(|model| plain(&model.name));
    let facts = [
        ("Run", run.id.uuid().to_string()),
        (
            "Task",
            format!("{}, version {}", plain(&run.task), run.task_version.short()),
        ),
        (
            "Method",
            format!("{}, seed {}", run.method.as_str(), run.seed),
        ),
        ("Models", models.collect::<Vec<_>>().join(", ")),
        ("Trials", format!("{} of {}", run.trials, run.budget.trials)),
        ("Verdicts", verdicts.collect::<Vec<_>>().join(", ")),
        ("Spent", evaluation_text::spent(run).unwrap_or_default()),
        (
            "Began",
            run.created_at.format("%Y-%m-%d %H:%M:%S UTC").to_string(),
        ),
        (
            "Running time",
            format!("{:.1} s", run.running_ms as f64 / 1000.0),
        ),
    ];
    page.raw("<div class=\"scroll\"><table>\n");
    for (label, text) in facts.iter().filter(|(_, text)| !text.is_empty()) {
        page.raw("<tr><th>")
            .text(label)
            .raw("</th>")
            .cell(text)
            .raw("</tr>\n");
    }
    page.raw("</table></div>\n");
}

/// The candidates by generation, and the way to the best.
async fn lineage(
    page: &mut Html,
    engine: &Engine,
    run: &RunView,
    all: &LineageGenerations,
) -> Result<(), ExportError> {
    page.raw("<h2>Lineage</h2>\n<p class=\"soft\">")
        .text(all.total);
    page.raw(" candidates of ")
        .text(all.last_generation + 1)
        .raw(" generations.</p>\n");
    page.raw("<div class=\"scroll\"><table>\n<tr><th class=\"number\">Generations</th><th class=\"number\">Candidates</th><th class=\"number\">Accepted</th><th class=\"number\">Rejected</th><th class=\"number\">No verdict</th><th class=\"number\">Fastest</th></tr>\n");
    let together = all.generations.len().div_ceil(ROWS).max(1);
    let places: Vec<usize> = (0..all.generations.len()).collect();
    for group in places.chunks(together) {
        let sum = |column: &[u32]| group.iter().map(|at| column[*at]).sum::<u32>();
        let fastest = group.iter().filter_map(|at| all.fastest[*at]);
        let fastest = fastest.reduce(f64::max);
        let first = all.generations[group[0]];
        let last = all.generations[group[group.len() - 1]] + all.width - 1;
        let last = last.min(all.last_generation);
        let (candidates, accepted) = (sum(&all.candidates), sum(&all.accepted));
        let unjudged = sum(&all.unjudged);
        let name = if first == last {
            first.to_string()
        } else {
            format!("{first} to {last}")
        };
        page.raw("<tr>")
            .number(name)
            .number(candidates)
            .number(accepted);
        page.number(candidates.saturating_sub(accepted + unjudged))
            .number(unjudged);
        page.number(fastest.map_or_else(String::new, |speedup| format!("{speedup:.2}x")));
        page.raw("</tr>\n");
    }
    page.raw("</table></div>\n");
    if all.path.len() < 2 {
        return Ok(());
    }
    page.raw("<h2>Way to the best</h2>\n");
    if all.path.len() > STEPS {
        page.raw("<p class=\"soft\">The last ")
            .text(STEPS)
            .raw(" of ");
        page.text(all.path.len())
            .raw(" candidates on the way.</p>\n");
    }
    let mut steps = Vec::new();
    for ordinal in all.path.iter().take(STEPS).rev() {
        let one = CandidateQuery {
            ordinal: Some(*ordinal),
            ..CandidateQuery::default()
        };
        steps.extend(
            engine
                .store()
                .list_candidates(run.id, &one, 1)
                .await?
                .candidates,
        );
    }
    candidates(page, &steps);
    Ok(())
}

fn candidates(page: &mut Html, list: &[CandidateSummary]) {
    page.raw("<div class=\"scroll\"><table>\n<tr><th class=\"number\">#</th><th>Title</th><th>Operator</th><th>Proposer</th><th>Verdict</th><th class=\"number\">Speedup</th><th class=\"number\">Time</th></tr>\n");
    for candidate in list {
        let verdict = candidate
            .verdict
            .map_or(state(candidate), |kind| kind.as_str());
        page.raw("<tr>")
            .number(candidate.ordinal)
            .cell(plain(&candidate.title));
        page.cell(candidate.operator.as_str())
            .cell(plain(&candidate.proposer));
        page.cell(verdict.replace('_', " "))
            .raw("<td class=\"number\">");
        if let Some(speedup) = candidate.speedup {
            page.text(format!("{speedup:.2}x"));
            badge(page, candidate.modelled);
        }
        page.raw("</td>")
            .number(candidate.time_us.map_or_else(String::new, time))
            .raw("</tr>\n");
    }
    page.raw("</table></div>\n");
}

/// The best candidate with its evidence, its source and what it changes of the baseline.
async fn evidence(
    page: &mut Html,
    engine: &Engine,
    run: &RunView,
    winner: &CandidateDetail,
) -> Result<(), ExportError> {
    let summary = &winner.summary;
    page.raw("<h2>Winner</h2>\n<p>#")
        .text(summary.ordinal)
        .raw(" ");
    page.text(plain(&summary.title));
    badge(page, summary.modelled);
    page.raw("</p>\n");
    if let Some(idea) = &winner.idea {
        page.raw("<p>").text(plain(&idea.hypothesis)).raw("</p>\n");
    }
    page.raw("<pre>")
        .text(evaluation_text::winner(run, Some(winner)))
        .raw("</pre>\n");
    page.raw("<details><summary>Source</summary>\n<pre>")
        .text(&winner.source)
        .raw("</pre></details>\n");
    let baseline = CandidateQuery {
        ordinal: Some(0),
        ..CandidateQuery::default()
    };
    let baseline = engine.store().list_candidates(run.id, &baseline, 1).await?;
    if let Some(baseline) = baseline
        .candidates
        .first()
        .filter(|one| one.id != summary.id)
    {
        let compared = engine.compare(baseline.id, summary.id).await?;
        page.raw("<details><summary>Difference to the baseline</summary>\n<pre>");
        compared.diff.iter().for_each(|line| difference(page, line));
        page.raw("</pre></details>\n");
    }
    Ok(())
}

fn difference(page: &mut Html, line: &DiffLine) {
    match line.change {
        Change::Kept => page.raw("  ").text(&line.text).raw("\n"),
        Change::Added => page
            .raw("<span class=\"added\">+ ")
            .text(&line.text)
            .raw("</span>\n"),
        Change::Removed => page
            .raw("<span class=\"removed\">- ")
            .text(&line.text)
            .raw("</span>\n"),
    };
}

async fn failures(page: &mut Html, engine: &Engine, run: &RunView) -> Result<(), ExportError> {
    let failed = engine.store().failures(Some(run.id), 0, CAUSES).await?;
    if failed.clusters.is_empty() {
        return Ok(());
    }
    page.raw("<h2>Failures</h2>\n<p class=\"soft\">")
        .text(failed.total)
        .raw(" candidates, by cause");
    page.raw(if failed.next.is_some() {
        "; the most frequent causes.</p>\n"
    } else {
        ".</p>\n"
    });
    page.raw("<div class=\"scroll\"><table>\n<tr><th class=\"number\">Candidates</th><th>Verdict</th><th>Cause</th><th>Latest</th></tr>\n");
    for cluster in &failed.clusters {
        page.raw("<tr>")
            .number(cluster.count)
            .cell(cluster.verdict.as_str().replace('_', " "));
        page.cell(plain(&cluster.cause));
        let latest = cluster.examples.first();
        page.cell(latest.map_or_else(String::new, |latest| {
            format!("#{} {}", latest.ordinal, plain(&latest.summary))
        }));
        page.raw("</tr>\n");
    }
    page.raw("</table></div>\n");
    Ok(())
}
