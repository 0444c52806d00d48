//! The lineage of a run as a tree of text. Pure: a lineage in, lines out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use domain::api::{CandidateState, CandidateSummary, Lineage, PromotionState, RunState};
use domain::id::CandidateId;
use domain::search::Operator;

use crate::terminal::{labelled_time, line};

/// The longest label before the outcome column, characters.
const MAX_LABEL: usize = 56;

/// Draws every candidate of a run under its primary parent, in lines of at most `width`
/// characters. A run that is over evaluates nothing more, so its waiting candidates are shown as
/// not evaluated.
pub fn render(lineage: &Lineage, run: &RunState, width: usize) -> String {
    let known: BTreeMap<CandidateId, &CandidateSummary> =
        lineage.nodes.iter().map(|node| (node.id, node)).collect();
    let mut children: BTreeMap<Option<CandidateId>, Vec<&CandidateSummary>> = BTreeMap::new();
    for node in &lineage.nodes {
        // A parent beyond a truncated list leaves its child a root.
        let parent = node.parents.first().filter(|id| known.contains_key(id));
        children.entry(parent.copied()).or_default().push(node);
    }
    let mut rows = Vec::new();
    for root in children.get(&None).into_iter().flatten() {
        rows.push((label(root), *root));
        branches(root.id, "", &children, &mut rows);
    }
    let labels = rows.iter().map(|(label, _)| label.chars().count());
    let column = labels.max().unwrap_or(0).min(MAX_LABEL);
    let mut text = String::new();
    for (label, node) in rows {
        let label = line_keeping_indent(&label, MAX_LABEL);
        let outcome = line(
            &outcome(node, &known, run),
            width.saturating_sub(column + 2).max(20),
        );
        let padding = column.saturating_sub(label.chars().count()) + 2;
        let _infallible = writeln!(text, "{label}{}{outcome}", " ".repeat(padding));
    }
    if lineage.truncated {
        text.push_str("… more candidates than are shown\n");
    }
    text
}

fn branches<'a>(
    parent: CandidateId,
    prefix: &str,
    children: &BTreeMap<Option<CandidateId>, Vec<&'a CandidateSummary>>,
    rows: &mut Vec<(String, &'a CandidateSummary)>,
) {
    let Some(nodes) = children.get(&Some(parent)) else {
        return;
    };
    for (index, node) in nodes.iter().enumerate() {
        let last = index + 1 == nodes.len();
        let (fork, next) = if last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        rows.push((format!("{prefix}{fork}{}", label(node)), node));
        branches(node.id, &format!("{prefix}{next}"), children, rows);
    }
}

/// Ordinal and name, and who proposed it where that was someone outside.
fn label(node: &CandidateSummary) -> String {
    let name = match &node.operator {
        Operator::Submit => format!("{} (by {})", node.title, node.proposer),
        _ => node.title.clone(),
    };
    format!("#{} {}", node.ordinal, line(&name, MAX_LABEL))
}

fn line_keeping_indent(label: &str, width: usize) -> String {
    if label.chars().count() <= width {
        return label.to_owned();
    }
    let mut cut: String = label.chars().take(width - 1).collect();
    cut.push('…');
    cut
}

fn outcome(
    node: &CandidateSummary,
    known: &BTreeMap<CandidateId, &CandidateSummary>,
    run: &RunState,
) -> String {
    let mut text = match (&node.state, node.speedup, node.time_us) {
        (_, Some(speedup), Some(us)) => {
            format!("{speedup:.2}x  {}", labelled_time(us, node.modelled))
        }
        (
            CandidateState::Queued
            | CandidateState::Drafting { .. }
            | CandidateState::Evaluating { .. },
            ..,
        ) if run.is_over() => "not evaluated: the run ended before".to_owned(),
        (CandidateState::Queued, ..) => "waits for a worker".to_owned(),
        (CandidateState::Evaluating { stage, .. }, ..) => format!("evaluating: {stage}"),
        (CandidateState::Abandoned { message }, ..) => format!("given up: {message}"),
        _ => node
            .summary
            .clone()
            .or_else(|| node.verdict.map(|verdict| verdict.to_string()))
            .unwrap_or_else(|| "no verdict yet".to_owned()),
    };
    if let CandidateState::Duplicate { of } = &node.state {
        let original = known.get(of).map(|node| format!("#{}", node.ordinal));
        let original = original.unwrap_or_else(|| of.to_string());
        let _infallible = write!(text, "  (same code as {original})");
    }
    if let Some(of) = &node.verdict_of {
        let _infallible = write!(text, "  (verdict of {of}, the same code in another run)");
    }
    if let Some(reason) = node.promotion_failure() {
        let what = match &node.promotion {
            Some(PromotionState::Reverted { .. }) => "promotion taken back",
            _ => "not confirmed",
        };
        let _infallible = write!(text, "  ({what}: {reason})");
    }
    if !node.unmet_gates.is_empty() {
        let gates: Vec<_> = node.unmet_gates.iter().map(|gate| gate.as_str()).collect();
        let _infallible = write!(text, "  (gate not met: {})", gates.join(", "));
    }
    // The baseline is the run's best while nothing that is faster was confirmed.
    if node.best && node.operator != Operator::Baseline {
        text.push_str("  * best");
    }
    text
}
