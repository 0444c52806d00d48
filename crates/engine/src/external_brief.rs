//! The brief for a proposer outside the service. It says the same as a model's prompt.

use domain::api::{Brief, HistoryEntry};
use domain::brief::{Attempt, CandidateBrief, Context, describe_verdict};
use domain::cleaning;
use domain::id::RunId;
use domain::search::PromptStyle;
use domain::task::CasePurpose;
use store::StoreError;

use crate::intake::best_or_baseline;
use crate::prompt::{self, Kind};
use crate::{Engine, EngineError};

/// The most earlier attempts that the brief lists; the newest ones.
const HISTORY: u32 = 40;
/// The most insights of the run that the brief lists; the newest ones.
const LESSONS: u32 = 20;

impl Engine {
    /// Everything that a person, script or agent needs to propose the next candidate of a run.
    ///
    /// # Errors
    /// The run is unknown or has not begun, or the database fails.
    pub async fn brief(&self, run: RunId) -> Result<Brief, EngineError> {
        let outline = self.begun(run).await?;
        let task = self.task(outline.content).await?;
        let unknown = |subject, id: String| EngineError::Store(StoreError::Unknown { subject, id });
        let parent = best_or_baseline(&outline)?;
        let parent = self
            .store
            .candidate(parent)
            .await?
            .ok_or_else(|| unknown("candidate", parent.to_string()))?;
        let baseline = match outline.baseline {
            Some(baseline) => self.store.candidate(baseline).await?,
            None => None,
        };
        let told = outline.candidates.saturating_sub(HISTORY);
        let page = self
            .store
            .candidates(run, None, told.checked_sub(1), HISTORY)
            .await?;
        let history: Vec<HistoryEntry> = page
            .candidates
            .into_iter()
            .filter_map(|candidate| {
                let outcome = match (candidate.verdict?, candidate.speedup) {
                    (_, Some(speedup)) => {
                        let summary = candidate.summary?;
                        format!("{summary}, {speedup:.2} times the baseline's speed")
                    }
                    // The verdict's own sentence would say how much wrong is still right.
                    (verdict, None) => describe_verdict(verdict).to_owned(),
                };
                Some(HistoryEntry {
                    candidate: candidate.id,
                    title: candidate.title,
                    outcome,
                })
            })
            .collect();
        let lessons = self.store.insights(run, LESSONS).await?;
        let trials = outline.request.budget.trials;
        let trials_left = trials.saturating_sub(outline.charged);
        let judged = baseline.and_then(|record| record.evaluation);
        let device = judged
            .as_ref()
            .and_then(|evaluation| evaluation.device.clone());

        let mut context = Context::new(&task, device.as_ref());
        context.add_lessons(&outline.request.lessons);
        context.toolchain = judged
            .as_ref()
            .and_then(|evaluation| evaluation.toolchain.clone());
        let anchor = judged
            .as_ref()
            .and_then(|evaluation| evaluation.verdict.acceptance())
            .map(|acceptance| &acceptance.timing);
        context.best = Some(CandidateBrief::new(
            &format!("#{}", parent.summary.ordinal),
            &parent.summary.title,
            parent.idea.as_ref().map(|idea| idea.hypothesis.as_str()),
            &parent.source,
            parent.evaluation.as_ref(),
            anchor,
        ));
        let attempts = history.iter();
        context.history = attempts
            .map(|entry| Attempt::new(&entry.title, &entry.outcome))
            .collect();
        context.hints = outline.steering.hints_after(outline.candidates);
        context.avoided.clone_from(&outline.steering.avoided);
        context.trials_left = Some(trials_left);
        let kind = Kind::External {
            run,
            parent: parent.summary.id,
        };
        let told = prompt::render(&kind, PromptStyle::Standard, &context, u64::MAX)?;

        let mut insights = task.insights.clone();
        if !outline.request.lessons.is_empty() {
            insights.push('\n');
            insights.push_str(&cleaning::clean_text(&outline.request.lessons));
        }
        if !lessons.is_empty() {
            insights.push_str("\nFound in this run:\n");
        }
        for (candidate, idea, outcome) in lessons {
            if !outline.steering.shows_insight(candidate) {
                continue;
            }
            let corrected = outline.steering.corrected_insight(candidate);
            let idea = corrected.unwrap_or(&idea);
            insights.push_str(&format!("- {idea}: {outcome}\n"));
        }
        let told_cases = task.cases.iter().filter(|case| {
            // Held-out cases stay secret.
            case.is_for(CasePurpose::Check) || case.is_for(CasePurpose::Score)
        });
        Ok(Brief {
            run,
            task: task.name.clone(),
            context: task.context.clone(),
            device,
            cases: told_cases.cloned().collect(),
            parent: parent.summary.id,
            parent_time_us: parent.summary.time_us,
            parent_source: parent.source,
            history,
            insights,
            trials_left,
            prompt: told.prompt,
        })
    }
}
