//! The message and trailers of a winner's commit, and its evidence file.

use domain::api::CandidateSummary;
use domain::candidate::Idea;
use domain::cleaning;
use domain::digest::Digest;
use domain::evaluation::Evaluation;
use domain::id::{CandidateId, RunId};
use serde_json::json;

use crate::evaluation_request::{confirmation_seeds, search_seeds};

/// Version of the evidence file's format.
const EVIDENCE_VERSION: u32 = 1;

/// A confirmed champion.
pub(super) struct Winner {
    pub(super) run: RunId,
    pub(super) task: String,
    pub(super) title: String,
    pub(super) summary: CandidateSummary,
    pub(super) idea: Option<Idea>,
    pub(super) digest: Option<Digest>,
    pub(super) source: String,
    pub(super) evaluation: Option<Evaluation>,
    pub(super) confirmation: Evaluation,
    /// The ancestors, from the parent to the baseline.
    pub(super) ancestors: Vec<CandidateSummary>,
    /// The confirmed speedup.
    pub(super) speedup: f64,
    /// The number of the confirmation, from 0.
    pub(super) round: u32,
    pub(super) verdict_digest: Digest,
}

impl Winner {
    fn kind(&self) -> &'static str {
        if self.summary.modelled {
            "modelled"
        } else {
            "measured"
        }
    }
}

/// The evidence file: everything that is needed to repeat the result.
pub(super) fn evidence_json(winner: &Winner) -> String {
    let ancestors = winner
        .ancestors
        .iter()
        .map(|ancestor| {
            json!({
                "candidate": ancestor.id,
                "ordinal": ancestor.ordinal,
                "title": ancestor.title,
                "operator": ancestor.operator,
                "configuration": ancestor.configuration,
                "speedup": ancestor.speedup,
            })
        })
        .collect::<Vec<_>>();
    let confirmation = &winner.confirmation;
    let evidence = json!({
        "version": EVIDENCE_VERSION,
        "run": winner.run,
        "task": winner.task,
        "task_version": confirmation.task_version,
        "candidate": winner.summary.id,
        "ordinal": winner.summary.ordinal,
        "title": winner.title,
        "idea": winner.idea,
        "operator": winner.summary.operator,
        "proposer": winner.summary.proposer,
        "candidate_digest": winner.digest,
        "configuration": winner.summary.configuration,
        "speedup": winner.speedup,
        "timing": winner.kind(),
        "device": confirmation.device,
        "toolchain": confirmation.toolchain,
        "verdict_digest": winner.verdict_digest,
        "seed_families": {
            "search": search_seeds(),
            "confirmation": confirmation_seeds(&winner.summary.id.to_string(), winner.round),
        },
        "parents": ancestors,
        "evaluation": winner.evaluation,
        "confirmation": confirmation,
    });
    let mut text =
        serde_json::to_string_pretty(&evidence).expect("a JSON value is always JSON text");
    text.push('\n');
    text
}

/// The message of a winner's commit.
pub(super) fn commit_message(winner: &Winner) -> String {
    let kind = winner.kind();
    let device = winner
        .confirmation
        .device
        .as_ref()
        .map_or_else(|| "unknown".to_owned(), |device| device.name.clone());
    let parent = winner
        .summary
        .parents
        .first()
        .map_or_else(|| "none".to_owned(), ToString::to_string);
    let about = if winner.summary.modelled {
        "The times are those of a model of the device, not of silicon."
    } else {
        "The times were measured on the device."
    };
    format!(
        "{task}: {title}\n\n\
         {speedup:.2} times the baseline's speed ({kind}). {about}\n\n\
         Candidate: {candidate}\n\
         Parent: {parent}\n\
         Run: {run}\n\
         Task-Version: {version}\n\
         Device: {device}\n\
         Toolchain: {toolchain}\n\
         Speedup: {speedup:.4} {kind}\n\
         {preconditions}\
         Verdict-Digest: {digest}\n{evidence}",
        task = one_line(&winner.task),
        title = one_line(&winner.title),
        speedup = winner.speedup,
        candidate = winner.summary.id,
        run = winner.run,
        version = winner.confirmation.task_version,
        device = one_line(&device),
        toolchain = one_line(
            winner
                .confirmation
                .toolchain
                .as_deref()
                .unwrap_or("unknown")
        ),
        preconditions = winner
            .confirmation
            .preconditions
            .as_ref()
            .map_or_else(String::new, |covered| format!("Proved-For: {covered}\n")),
        digest = winner.verdict_digest,
        evidence = winner
            .confirmation
            .evidence
            .map_or_else(String::new, |evidence| format!("Evidence: {evidence}\n")),
    )
}

/// The message of a commit that takes a winner back.
pub(super) fn revert_message(candidate: CandidateId, commit: &str, reason: &str) -> String {
    format!(
        "Take back {}\n\n{}\n\nCandidate: {candidate}\nReverts: {commit}\n",
        &commit[..commit.len().min(12)],
        one_line(reason)
    )
}

/// Makes a text that git cannot read as a trailer, and that shows all that it holds.
fn one_line(text: &str) -> String {
    cleaning::clean_line(text, usize::MAX)
}
