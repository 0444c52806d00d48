//! Promotion: commits a confirmed champion, and reverts the commit if a later re-check fails.
//!
//! The branch is written before the row, and the trailers of each commit identify it. A process that
//! is started after a kill between the two finds its own commit at the tip and only records it.

mod evidence;
pub mod proposal;
pub mod repository;
pub mod worktree;

use std::path::PathBuf;

use chrono::TimeDelta;
use domain::api::{PromotionState, PromotionView};
use domain::candidate::KernelSource;
use domain::causes::with_causes;
use domain::digest::Digest;
use domain::evaluation::Evaluation;
use domain::id::RunId;
use domain::margins::{MIN_PROMOTION_SPEEDUP, is_promotable, is_regression};
use domain::search::Operator;
use store::{Committed, ConfirmationOutcome, OutstandingPromotion};
use tracing::{info, warn};

use crate::{Engine, EngineError};
use evidence::{Winner, commit_message, evidence_json, revert_message};
use repository::{Change, File, Tip};

/// The wait before a revert that the repository refused is tried again.
const RETRY_REVERT: TimeDelta = TimeDelta::seconds(60);

/// The folders of the branches for winners, for measured and for modelled times.
const ROOTS: [&str; 2] = ["kernelwright", "kernelwright-modelled"];

fn namespaces(task: &str) -> [String; 2] {
    ROOTS.map(|root| format!("{root}/{task}/"))
}

/// Returns true for the branch of a winner whose times are modelled.
pub fn is_modelled_branch(branch: &str) -> bool {
    branch.split('/').next() == Some(ROOTS[1])
}

/// The branch of a run's winner. Modelled times never share a namespace with measured ones.
pub(crate) fn branch_name(task: &str, run: RunId, modelled: bool) -> String {
    let namespace = &namespaces(task)[usize::from(modelled)];
    // The end of the id is random; its beginning is the time and close for runs made together.
    let id = run.uuid().simple().to_string();
    format!("{namespace}{}", &id[id.len() - 12..])
}

impl Engine {
    /// Queues a re-check of the run's committed champion, with fresh seeds, more draws and more
    /// repeats than before its commit. If it is not accepted any more, or slower by more than 2%
    /// on the device that its speedup was found on, a new commit takes it back.
    ///
    /// # Errors
    /// The run is unknown or has no committed champion, or the database fails.
    pub async fn recheck(&self, run: RunId) -> Result<PromotionView, EngineError> {
        Ok(self.store.begin_recheck(run, self.now()).await?)
    }

    /// Queues a re-check of every champion that is due.
    pub(crate) async fn recheck_champions(&self) -> Result<(), EngineError> {
        let Some(after) = self.settings.recheck_after else {
            return Ok(());
        };
        for run in self.store.due_rechecks(self.now() - after).await? {
            let view = self.recheck(run).await?;
            info!(run.id = %run, "re-checking the champion of {run} on {}", view.branch);
        }
        Ok(())
    }

    /// Acts on every confirmation and re-check that has ended.
    pub(crate) async fn settle_promotions(&self) -> Result<(), EngineError> {
        let mut worked = Ok(());
        for promotion in self.store.outstanding_promotions().await? {
            let settled = match promotion.committed.clone() {
                None => self.conclude(&promotion).await,
                Some(committed) => self.reconsider(&promotion, committed).await,
            };
            worked = worked.and(settled);
        }
        worked
    }

    /// A first confirmation has ended: commit, or refuse.
    async fn conclude(&self, promotion: &OutstandingPromotion) -> Result<(), EngineError> {
        let (run, id) = (promotion.run, promotion.view.id);
        let (confirmation, speedup, round) = match &promotion.outcome {
            ConfirmationOutcome::Evaluated {
                evaluation,
                speedup,
                round,
            } => (evaluation.as_ref(), *speedup, *round),
            ConfirmationOutcome::GivenUp { message } => {
                let reason = format!(
                    "the champion could not be confirmed: {message}; fix that and resume the run"
                );
                return self
                    .set_promotion_state(promotion, PromotionState::Blocked { reason })
                    .await;
            }
        };
        let speedup = match holds(confirmation, speedup) {
            Ok(speedup) => speedup,
            Err(reason) => {
                return self
                    .set_promotion_state(promotion, PromotionState::Refused { reason })
                    .await;
            }
        };
        let Some(winner) = self.winner(promotion, confirmation, speedup, round).await? else {
            return Ok(());
        };
        let path = promotion
            .target
            .path
            .clone()
            .unwrap_or_else(|| format!("kernels/{}.cu", winner.task));
        let change = Change {
            repository: PathBuf::from(&promotion.target.repository),
            create: self.is_default(promotion),
            base: promotion.target.base.clone(),
            branch: promotion.view.branch.clone(),
            expected_tip: promotion.expected_tip.clone(),
            files: files(&winner, path, promotion.target.region.as_deref()),
            message: commit_message(&winner),
            identity: vec![
                ("Candidate".to_owned(), winner.summary.id.to_string()),
                (
                    "Verdict-Digest".to_owned(),
                    winner.verdict_digest.to_string(),
                ),
            ],
            author_email: self.settings.author_email.clone(),
            at: self.now(),
        };
        match run_blocking(move || repository::commit(&change)).await? {
            Ok(Tip(commit)) => {
                let committed = Committed {
                    commit,
                    speedup,
                    device_uuid: device_uuid(confirmation).map(str::to_owned),
                };
                let view = self
                    .store
                    .commit_promotion(run, id, &committed, self.now())
                    .await?;
                info!(
                    candidate.id = %view.candidate,
                    "promoted candidate {} as {} on {}", view.candidate, committed.commit, view.branch
                );
                Ok(())
            }
            Err(error) => {
                let reason = format!("failed to {}", with_causes(&error));
                self.set_promotion_state(promotion, PromotionState::Blocked { reason })
                    .await
            }
        }
    }

    /// A re-check has ended: keep the commit, or take it back.
    async fn reconsider(
        &self,
        promotion: &OutstandingPromotion,
        committed: Committed,
    ) -> Result<(), EngineError> {
        let keep = PromotionState::Committed {
            commit: committed.commit.clone(),
        };
        let reason = match &promotion.outcome {
            ConfirmationOutcome::GivenUp { message } => {
                warn!(
                    "the re-check of {} found nothing: {message}",
                    promotion.view.id
                );
                return self.set_promotion_state(promotion, keep).await;
            }
            ConfirmationOutcome::Evaluated {
                evaluation,
                speedup,
                ..
            } => match still_holds(evaluation, *speedup, &committed) {
                Ok(()) => return self.set_promotion_state(promotion, keep).await,
                Err(reason) => reason,
            },
        };
        let now = self.now();
        if self.is_postponed(promotion, now) {
            return Ok(());
        }
        let revert = repository::Revert {
            repository: PathBuf::from(&promotion.target.repository),
            branch: promotion.view.branch.clone(),
            commit: committed.commit.clone(),
            message: revert_message(promotion.view.candidate, &committed.commit, &reason),
            author_email: self.settings.author_email.clone(),
            at: now,
        };
        match run_blocking(move || repository::revert(&revert)).await? {
            Ok(Tip(commit)) => {
                warn!("took back {}: {reason}", promotion.view.id);
                let reverted = PromotionState::Reverted { commit, reason };
                self.set_promotion_state(promotion, reverted).await
            }
            Err(error) => {
                warn!(
                    "failed to {}; the revert of {} is tried again in a minute",
                    with_causes(&error),
                    promotion.view.id
                );
                self.postpone(promotion, now + RETRY_REVERT);
                Ok(())
            }
        }
    }

    async fn set_promotion_state(
        &self,
        promotion: &OutstandingPromotion,
        state: PromotionState,
    ) -> Result<(), EngineError> {
        if let PromotionState::Blocked { reason } | PromotionState::Refused { reason } = &state {
            warn!("promotion {} stops: {reason}", promotion.view.id);
        }
        self.store
            .settle_promotion(promotion.run, promotion.view.id, &state, self.now())
            .await?;
        Ok(())
    }

    /// Reads everything that a commit records about the champion.
    async fn winner(
        &self,
        promotion: &OutstandingPromotion,
        confirmation: &Evaluation,
        speedup: f64,
        round: u32,
    ) -> Result<Option<Winner>, EngineError> {
        let Some(record) = self.store.candidate(promotion.view.candidate).await? else {
            return Ok(None);
        };
        let mut ancestors = Vec::new();
        let mut parents = record.summary.parents.clone();
        while let Some(parent) = parents.first() {
            let Some(parent) = self.store.summary(*parent).await? else {
                break;
            };
            parents.clone_from(&parent.parents);
            ancestors.push(parent);
        }
        let verdict = serde_json::to_vec(&confirmation.verdict)
            .expect("a verdict has text keys and is JSON already in the records");
        // A configuration's title has only its values, so the idea of its source is used.
        let idea = KernelSource::parse(&record.file, record.source.as_str())
            .ok()
            .and_then(|source| source.idea().cloned());
        let title = match (&idea, &record.summary.operator) {
            (Some(idea), Operator::Sweep) => format!("{} ({})", idea.title, record.summary.title),
            _ => record.summary.title.clone(),
        };
        Ok(Some(Winner {
            run: promotion.run,
            task: record.task,
            title,
            summary: record.summary,
            idea: record.idea.or(idea),
            digest: record.digest,
            source: record.source,
            evaluation: record.evaluation,
            confirmation: confirmation.clone(),
            ancestors,
            speedup,
            round,
            verdict_digest: Digest::of(verdict),
        }))
    }

    fn is_default(&self, promotion: &OutstandingPromotion) -> bool {
        self.settings.default_repository.to_str() == Some(promotion.target.repository.as_str())
    }

    fn is_postponed(
        &self,
        promotion: &OutstandingPromotion,
        now: chrono::DateTime<chrono::Utc>,
    ) -> bool {
        let postponed = self
            .postponed
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        postponed
            .get(&promotion.view.id)
            .is_some_and(|until| now < *until)
    }

    fn postpone(&self, promotion: &OutstandingPromotion, until: chrono::DateTime<chrono::Utc>) {
        self.postponed
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .insert(promotion.view.id, until);
    }
}

/// The files of a winner's commit. Of a file with a region nothing else changes, and no file is added
/// beside it: the commit's message names the evidence.
fn files(winner: &Winner, path: String, region: Option<&str>) -> Vec<File> {
    if let Some(region) = region {
        let content = region_lines(&winner.source, region).into_bytes();
        let region = Some(region.to_owned());
        return vec![File {
            path,
            content,
            region,
        }];
    }
    let evidence = format!("{path}.evidence.json");
    let whole = |path, content: String| File {
        path,
        content: content.into_bytes(),
        region: None,
    };
    vec![
        whole(path, winner.source.clone()),
        whole(evidence, evidence_json(winner)),
    ]
}

/// The lines that a winner puts into a region: those of its own region of that name, else all of it with
/// its launch plan. The values of its tunables stand before the code that uses them.
fn region_lines(source: &str, region: &str) -> String {
    let Ok(kernel) = KernelSource::parse("winner.cu", source) else {
        return source.to_owned();
    };
    let values = kernel.plan().default_configuration();
    let values = values
        .iter()
        .map(|(name, value)| format!("#define {name} {value}\n"));
    let values = values.collect::<String>();
    match domain::patch::region(kernel.body(), region) {
        Ok(lines) => format!("{values}{lines}"),
        Err(_) => {
            let head = source.len() - kernel.body().len();
            format!("{}{values}{}", &source[..head], kernel.body())
        }
    }
}

/// Runs git operations on a thread that may block.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EngineError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(EngineError::Interrupted)
}

/// The confirmed speedup if the champion may be promoted, or the reason why not.
fn holds(confirmation: &Evaluation, speedup: Option<f64>) -> Result<f64, String> {
    let Some(speedup) = speedup else {
        return Err(format!("its confirmation says: {}", confirmation.verdict));
    };
    if !confirmation.promotable() {
        return Err("a gate that stands before promotion does not hold".to_owned());
    }
    if !is_promotable(speedup) {
        return Err(format!(
            "confirmed at only {speedup:.3} times the baseline's speed; a promotion needs more than \
             {MIN_PROMOTION_SPEEDUP}"
        ));
    }
    Ok(speedup)
}

/// Succeeds if a re-check confirms the commit, or returns the reason why not. Another device must
/// find the champion right and faster than the baseline; the speedup itself differs between devices.
fn still_holds(
    recheck: &Evaluation,
    speedup: Option<f64>,
    committed: &Committed,
) -> Result<(), String> {
    let speedup = holds(recheck, speedup)?;
    let known = committed.device_uuid.as_deref();
    let comparable = known.is_none() || known == device_uuid(recheck);
    if comparable && is_regression(speedup, committed.speedup) {
        let recorded = committed.speedup;
        return Err(format!(
            "re-checked at {speedup:.3} times the baseline's speed; {recorded:.3} was recorded"
        ));
    }
    Ok(())
}

/// Identity of the device that an evaluation was made on.
fn device_uuid(evaluation: &Evaluation) -> Option<&str> {
    let device = evaluation.device.as_ref()?;
    Some(device.uuid.as_str())
}
