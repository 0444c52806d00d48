//! The issue that an event becomes.

use domain::api::{PromotionState, RunView, WebhookBody, WebhookData, WebhookKind};
use domain::cleaning::clean_line;

/// Characters of one fact in an issue.
const MAX_FACT: usize = 400;

/// Title and text of the issue of an event. The words of a run's author and of a verdict stand in a block of
/// code, where they mention nobody and make no markup. `mark` is found again by its text.
pub(super) fn of(body: &WebhookBody, mark: &str) -> (String, String) {
    let (title, intro, facts) = match &body.data {
        WebhookData::Run { run } | WebhookData::Budget { run, .. } => {
            let task = fact(&run.task);
            let (title, intro) = match body.kind {
                WebhookKind::WinnerReverted => (
                    format!("The winner for {task} no longer holds"),
                    "A re-check did not confirm a winner that was committed. A further commit on its branch takes it back.",
                ),
                _ => (
                    format!("{} of a run for {task}", body.kind),
                    "An event of a run.",
                ),
            };
            (title, intro, run_facts(run))
        }
        WebhookData::Device { device } => (
            format!(
                "The device {} of {} is unwell",
                fact(&device.name),
                fact(&device.worker)
            ),
            "A device failed its health check and gets no jobs until a person has looked at it.",
            vec![
                ("device", device.uuid.clone()),
                ("reason", device.reason.clone()),
            ],
        ),
    };
    let mut text = format!("{intro}\n\n```text\n");
    text.push_str(&format!("{:<12}{}\n", "event", body.kind));
    text.push_str(&format!(
        "{:<12}{}\n",
        "at",
        body.timestamp.format("%Y-%m-%dT%H:%M:%SZ")
    ));
    for (name, value) in facts {
        text.push_str(&format!("{name:<12}{}\n", fact(&value)));
    }
    text.push_str(&format!("```\n\n{mark}\n"));
    (title, text)
}

fn run_facts(run: &RunView) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("run", format!("{} ({})", run.id, run.name)),
        ("task", run.task.clone()),
    ];
    if let Some(promotion) = &run.promotion {
        facts.push(("repository", promotion.repository.clone()));
        facts.push(("branch", promotion.branch.clone()));
        facts.push(("candidate", promotion.candidate.to_string()));
        if let PromotionState::Reverted { commit, reason } = &promotion.state {
            facts.push(("taken back", format!("by commit {commit}")));
            facts.push(("reason", reason.clone()));
        }
        if let Some(check) = promotion.checks.first() {
            facts.push((
                "device",
                format!("{} ({})", check.device, check.device_uuid),
            ));
        }
    }
    facts
}

/// One line that cannot end the block of code.
fn fact(text: &str) -> String {
    clean_line(text, MAX_FACT).replace('`', "'")
}
