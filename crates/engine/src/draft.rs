//! Drafts: the prompt of each candidate that a model is to write, the most that it may cost, and the
//! rows that record both before a request is sent.

mod context;
mod preview;

use domain::api::ShownCandidates;
use domain::model::ModelView;
use domain::search::{Draft, Evolution, StopReason};
use domain::task::Task;
use store::{NewCall, NewDraft, Snapshot};
use tracing::info;

use crate::model_calls::FILE;
use crate::prompt;
use crate::{Engine, EngineError};
use context::RecordCache;

/// The outcome of planning drafts.
pub(crate) enum Planned {
    /// They are recorded, or the run has moved on.
    Done,
    /// The remaining budget does not cover the first of them.
    Short(StopReason),
    /// They cannot be asked for before the configuration is changed.
    Stuck(String),
}

impl Engine {
    /// Records candidates that models are to write, as many as the budget covers in order.
    pub(crate) async fn plan_drafts(
        &self,
        snapshot: &Snapshot,
        task: &Task,
        drafts: &[Draft],
    ) -> Result<Planned, EngineError> {
        let evolution = &snapshot.request.evolution;
        let method = snapshot.request.method;
        let mut records = RecordCache::open(self, snapshot).await?;
        let mut spend = snapshot.spend;
        let mut planned = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let Some(view) = self.models.view(&draft.model) else {
                return Ok(Planned::Stuck(format!(
                    "no model named {:?} is configured; add it to the models file and resume the \
                     run",
                    draft.model
                )));
            };
            let context = records
                .context(task, draft, method, evolution.faithful)
                .await?;
            let kind = context::kind(method, &draft.operator);
            let room = room(&view, evolution);
            let rendered = match prompt::render(&kind, evolution.style, &context, room) {
                Ok(rendered) => rendered,
                Err(error) => return Ok(Planned::Stuck(format!("failed to {error}"))),
            };
            let ceiling = view.ceiling(&rendered.prompt);
            if let Some(reason) = snapshot.request.budget.forbids(&spend, &ceiling) {
                if planned.is_empty() {
                    return Ok(Planned::Short(reason));
                }
                break;
            }
            spend.committed_tokens += ceiling.usage.total();
            spend.committed_dollars = spend.committed_dollars + ceiling.dollars;
            planned.push(NewDraft {
                title: format!("{} by {}", draft.operator.as_str(), draft.model),
                file: FILE.to_owned(),
                call: NewCall {
                    model: draft.model.clone(),
                    seed: draft.seed,
                    temperature: evolution.temperature,
                    template: rendered.template,
                    template_digest: rendered.template_digest,
                    prompt: rendered.prompt,
                    dropped: rendered.dropped,
                    seen: ShownCandidates {
                        best: Some(draft.best),
                        parents: draft.parents.clone(),
                        insights: draft.insights.clone(),
                        duplicates: draft.duplicates.clone(),
                    },
                    reserved: ceiling,
                },
                draft: draft.clone(),
            });
        }
        let first = u32::try_from(snapshot.entries.len()).unwrap_or(u32::MAX);
        let recorded = self
            .store
            .draft_all(
                snapshot.run,
                first,
                snapshot.steering.version,
                &planned,
                self.now(),
            )
            .await?;
        if recorded {
            info!(
                candidates = planned.len(),
                "planned candidates that models write"
            );
        }
        Ok(Planned::Done)
    }
}

/// The most tokens of a prompt: the model's context less its longest reply, or the run's lower limit.
fn room(view: &ModelView, evolution: &Evolution) -> u64 {
    let left = view.context_tokens.saturating_sub(view.max_output_tokens);
    evolution
        .prompt_tokens
        .map_or(left, |most| left.min(u64::from(most)))
}
