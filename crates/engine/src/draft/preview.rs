//! The preview of a run: its first prompt and an upper estimate of its cost.

use domain::api::{RunPreview, RunRequest};
use domain::brief::{CandidateBrief, Context};
use domain::problem::Problems;
use domain::search::{Method, Operator};
use domain::task::Task;
use store::StoreError;

use super::context::kind;
use super::room;
use crate::prompt;
use crate::{Engine, EngineError, model_choices};

impl Engine {
    /// The first prompt that a run would send, word for word, and an upper estimate of its cost.
    /// The times and the profile of the baseline are those of the newest run on this task.
    ///
    /// # Errors
    /// The request is wrong or asks no model, the task is unknown, the prompt does not fit the
    /// model, or the database fails.
    pub async fn preview(&self, request: &RunRequest) -> Result<RunPreview, EngineError> {
        let stored = self.store.task(&request.task).await?;
        let stored = stored.ok_or_else(|| StoreError::Unknown {
            subject: "task",
            id: request.task.clone(),
        })?;
        let task = Task::load(&stored.bundle).map_err(EngineError::Task)?;
        let problems = model_choices::defects(request, &self.models);
        if !problems.is_empty() {
            return Err(EngineError::Invalid(Problems(problems)));
        }
        let model = request
            .models
            .iter()
            .find(|choice| choice.weight > 0.0)
            .and_then(|choice| self.models.view(&choice.name));
        let Some(view) = model else {
            return Err(EngineError::Refused {
                why: format!(
                    "preview the method {}: it asks no model; choose one that does, such as insight",
                    request.method.as_str()
                ),
            });
        };
        let mut unknown = Vec::new();
        let judged = self.store.newest_baseline(task.version).await?;
        let device = judged
            .as_ref()
            .and_then(|evaluation| evaluation.device.clone());
        if device.is_none() {
            unknown.push("the device with its limits".to_owned());
        }
        let timed = judged
            .as_ref()
            .and_then(|evaluation| evaluation.verdict.acceptance());
        if timed.is_none() && request.method != Method::Free {
            unknown.push("the baseline's time and profile".to_owned());
        }
        let mut context = Context::new(&task, device.as_ref());
        context.add_lessons(&request.lessons);
        context.faithful = request.evolution.faithful;
        context.toolchain = judged
            .as_ref()
            .and_then(|evaluation| evaluation.toolchain.clone());
        let idea = task.baseline.idea();
        context.best = Some(CandidateBrief::new(
            "the baseline",
            "baseline",
            idea.map(|idea| idea.hypothesis.as_str()),
            task.baseline.text(),
            judged.as_ref(),
            timed.map(|acceptance| &acceptance.timing),
        ));
        let first = kind(request.method, &Operator::Init);
        let style = request.evolution.style;
        let rendered = prompt::render(&first, style, &context, room(&view, &request.evolution))?;
        let calls = most_calls(request);
        let ceiling = view.ceiling(&rendered.prompt);
        Ok(RunPreview {
            model: view.name.clone(),
            prompt_tokens: ceiling.usage.input,
            prompt: rendered.prompt,
            template: rendered.template,
            dropped: rendered.dropped,
            unknown,
            calls,
            most_dollars: view.price.map(|_| ceiling.dollars * calls),
        })
    }
}

/// Replies that a run pays for at most: what ends first of trials and generations, each with all of
/// its repairs. Further turns after replies that cannot be read come on top.
fn most_calls(request: &RunRequest) -> u64 {
    let evolution = &request.evolution;
    let trials = u64::from(request.budget.trials);
    let planned = domain::search::most_slots(request.method, evolution.generations);
    planned.map_or(trials, |planned| planned.min(trials))
        * (1 + u64::from(evolution.repairs_of_each()))
}
