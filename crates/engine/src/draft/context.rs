//! The context of a draft's prompt, read from the records. The same rows give the same context:
//! candidates are named by their ordinal, and no time is shown that a clock gave.

use std::collections::HashMap;
use std::sync::Arc;

use domain::api::CandidateState;
use domain::brief::{
    Attempt, CandidateBrief, Context, Lesson, Repetition, describe_verdict, feedback, outcome,
};
use domain::evaluation::Evaluation;
use domain::id::CandidateId;
use domain::search::{Draft, EntryState, Method, Operator};
use domain::task::Task;
use domain::timing::Timing;
use domain::verdict::VerdictKind;
use store::{CandidateRecord, Snapshot};

use crate::prompt::Kind;
use crate::{Engine, EngineError};

/// Records that several drafts of one generation show, read once.
pub(super) struct RecordCache<'a> {
    engine: &'a Engine,
    records: HashMap<CandidateId, Arc<CandidateRecord>>,
    baseline: Arc<CandidateRecord>,
    snapshot: &'a Snapshot,
}

impl<'a> RecordCache<'a> {
    pub(super) async fn open(
        engine: &'a Engine,
        snapshot: &'a Snapshot,
    ) -> Result<Self, EngineError> {
        let baseline = snapshot.entries.first().map(|entry| entry.id);
        let baseline = match baseline {
            Some(id) => Some(engine.record(id).await?),
            None => None,
        };
        Ok(Self {
            engine,
            records: HashMap::new(),
            baseline: baseline.ok_or_else(|| EngineError::Refused {
                why: format!("ask models in run {}: it has no baseline yet", snapshot.run),
            })?,
            snapshot,
        })
    }

    async fn record(&mut self, id: CandidateId) -> Result<&CandidateRecord, EngineError> {
        if !self.records.contains_key(&id) {
            let record = self.engine.record(id).await?;
            self.records.insert(id, record);
        }
        Ok(&self.records[&id])
    }

    async fn shown(&mut self, id: CandidateId) -> Result<CandidateBrief, EngineError> {
        let anchor = timing(self.baseline.evaluation.as_ref()).cloned();
        let record = self.record(id).await?;
        let thought = record.idea.as_ref().map(|idea| idea.hypothesis.as_str());
        Ok(CandidateBrief::new(
            &name(record),
            &record.summary.title,
            thought,
            &record.source,
            record.evaluation.as_ref(),
            anchor.as_ref(),
        ))
    }

    /// The last attempts with their ideas and outcomes, from the run's entries alone.
    fn attempts(&self, shown: &[CandidateId]) -> Vec<Attempt> {
        let entries = &self.snapshot.entries;
        let attempt = |id: &CandidateId| {
            let place = entries.iter().rposition(|entry| entry.id == *id)?;
            let entry = &entries[place];
            let outcome = match &entry.state {
                EntryState::Accepted { speedup, .. } => self
                    .refusal(*id)
                    .unwrap_or_else(|| format!("{speedup:.2} times the baseline's speed")),
                EntryState::Rejected(kind) => describe_verdict(*kind).to_owned(),
                EntryState::Pending | EntryState::Abandoned { .. } => return None,
            };
            let thought = entry.thought.as_deref().unwrap_or_default();
            Some(Attempt::new(&format!("#{place} {thought}"), &outcome))
        };
        shown.iter().filter_map(attempt).collect()
    }

    /// The reason why a candidate that was accepted is not good enough, as a class: confirmations have inputs that
    /// no prompt may show. None if it did not fail its confirmation.
    fn refusal(&self, id: CandidateId) -> Option<String> {
        let mut refused = self.snapshot.refused.iter();
        let refused = refused.find(|refused| refused.candidate == id)?;
        Some(match refused.verdict {
            Some(verdict) if verdict != VerdictKind::Accepted => {
                let words = describe_verdict(verdict);
                let class = words.strip_prefix("rejected: ").unwrap_or(words);
                format!("failed its confirmation: {class}")
            }
            _ => "failed its confirmation".to_owned(),
        })
    }

    /// The candidates of a chain of repairs before its last one, the oldest first, with the reasons why
    /// they failed.
    async fn failed_before(&mut self, last: &[CandidateId]) -> Result<Vec<Attempt>, EngineError> {
        let mut attempts = Vec::new();
        let mut next = last.first().copied();
        while let Some(id) = next {
            let record = self.record(id).await?;
            if record.summary.operator != Operator::Repair {
                break;
            }
            next = record.summary.parents.first().copied();
            if let Some(before) = next {
                let record = self.record(before).await?;
                let title = format!("{} {}", name(record), record.summary.title);
                let failure = record.evaluation.as_ref().map(|evaluation| {
                    let told = feedback(evaluation, &record.source);
                    let reasons = told.details.into_iter().take(2);
                    let parts = std::iter::once(told.summary).chain(reasons);
                    parts.collect::<Vec<_>>().join("; ")
                });
                attempts.push(Attempt::new(&title, &failure.unwrap_or_default()));
            }
        }
        attempts.reverse();
        Ok(attempts)
    }

    /// Collects everything that a draft's prompt may show.
    pub(super) async fn context(
        &mut self,
        task: &Task,
        draft: &Draft,
        method: Method,
        faithful: bool,
    ) -> Result<Context, EngineError> {
        let device = self.baseline.evaluation.as_ref();
        let device = device.and_then(|evaluation| evaluation.device.clone());
        let mut context = Context::new(task, device.as_ref());
        context.faithful = faithful;
        let evaluation = self.baseline.evaluation.as_ref();
        context.toolchain = evaluation.and_then(|evaluation| evaluation.toolchain.clone());
        if method.shows_lessons() {
            context.add_lessons(&self.snapshot.request.lessons);
        } else {
            // No prompt of such a run shows a lesson, a repair's neither.
            context.seeds.clear();
        }
        context.best = Some(self.shown(draft.best).await?);
        // A first candidate is made from the best, which is shown as such.
        if draft.operator != Operator::Init {
            for parent in &draft.parents {
                context.parents.push(self.shown(*parent).await?);
            }
        }
        context.history = self.attempts(&draft.attempts);
        if draft.operator == Operator::Repair {
            context.history = self.failed_before(&draft.parents).await?;
        }
        context.hints.clone_from(&draft.hints);
        context.avoided.clone_from(&draft.avoided);
        for id in &draft.insights {
            let corrected = self.snapshot.steering.corrected_insight(*id);
            let refusal = self.refusal(*id);
            let record = self.record(*id).await?;
            let found = refusal.or_else(|| found(record)).filter(|_| !faithful);
            let said = record
                .idea
                .iter()
                .flat_map(|idea| [&idea.hypothesis, &idea.title]);
            let mut said = said.filter(|text| !text.trim().is_empty());
            let thought = corrected.or_else(|| said.next().map(String::as_str));
            if let Some(thought) = thought {
                context
                    .insights
                    .push(Lesson::new(thought, found.as_deref()));
            }
        }
        for id in &draft.duplicates {
            let record = self.record(*id).await?;
            let CandidateState::Duplicate { of } = record.summary.state else {
                continue;
            };
            let (title, judged) = (record.summary.title.clone(), found(record));
            let found = self.refusal(*id).or(judged);
            let of = name(self.record(of).await?);
            context
                .duplicates
                .push(Repetition::new(&title, &of, found.as_deref()));
        }
        Ok(context)
    }
}

/// The kind of prompt for a draft.
pub(super) fn kind(method: Method, operator: &Operator) -> Kind {
    match (method, operator) {
        (_, Operator::Repair) => Kind::Repair,
        (Method::Eoh, Operator::Explore) => Kind::EohExplore,
        (Method::Eoh, Operator::Crossover) => Kind::EohCrossover,
        (Method::Eoh, Operator::Improve) => Kind::EohImprove,
        (Method::Eoh, Operator::Retune) => Kind::EohRetune,
        (Method::Eoh, _) => Kind::EohInit,
        (Method::Funsearch, _) => Kind::Funsearch,
        (Method::AiCudaEngineer, _) => Kind::AiCudaEngineer,
        (_, Operator::Crossover) => Kind::FullCrossover,
        (_, Operator::Mutation) => Kind::FullMutation,
        (Method::Free, _) => Kind::Free,
        (Method::Full | Method::Archive, _) => Kind::FullInit,
        _ => Kind::InsightInit,
    }
}

/// The name of a candidate in prompts.
fn name(record: &CandidateRecord) -> String {
    match record.summary.ordinal {
        0 => "the baseline".to_owned(),
        ordinal => format!("#{ordinal}"),
    }
}

fn found(record: &CandidateRecord) -> Option<String> {
    let evaluation = record.evaluation.as_ref()?;
    Some(outcome(evaluation, record.summary.speedup))
}

fn timing(evaluation: Option<&Evaluation>) -> Option<&Timing> {
    let acceptance = evaluation?.verdict.acceptance()?;
    Some(&acceptance.timing)
}
