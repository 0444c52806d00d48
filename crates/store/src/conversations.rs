//! Removal of the conversations with models of runs that ended long ago. No verdict, cost or lineage depends on them.

use crate::sql::{query, query_scalar};
use chrono::{DateTime, Utc};
use domain::id::RunId;
use domain::model::Prompt;
use uuid::Uuid;

use crate::changes::CommitScope;
use crate::error::ErrorContext;
use crate::rows::{json, micros};
use crate::texts::TextId;
use crate::{Store, StoreError, runs};

/// Texts that one transaction removes, so that other writers do not wait for long.
const BATCH: i64 = 500;

/// The newest come first, because a prompt may be compressed with an older one as its dictionary.
const REPLACE_PROMPTS: &str = "UPDATE texts SET content = $3, bases = '[]' WHERE id IN (SELECT prompt_text FROM calls \
     WHERE run = $1 AND prompt_text < $2 ORDER BY prompt_text DESC LIMIT $4) RETURNING id";
const REPLACE_REPLIES: &str = "UPDATE texts SET content = $3, bases = '[]' WHERE id IN (SELECT reply_text FROM calls \
     WHERE run = $1 AND reply_text < $2 ORDER BY reply_text DESC LIMIT $4) RETURNING id";

impl Store {
    /// Replaces the prompts and replies of runs that ended before a time by a sentence that says so. Returns these
    /// runs. What a call that was interrupted has left is done by the next call.
    ///
    /// # Errors
    /// The database fails.
    pub async fn remove_conversations(
        &self,
        ended_before: DateTime<Utc>,
    ) -> Result<Vec<RunId>, StoreError> {
        let due: Vec<Uuid> = query_scalar(
            "SELECT id FROM runs WHERE ended_at < $1 AND conversations <> 'removed' \
             AND EXISTS (SELECT 1 FROM calls WHERE run = runs.id) ORDER BY ended_at, id",
        )
        .bind(micros(ended_before))
        .fetch_all(&self.read)
        .await
        .context("look for runs whose conversations are to be removed")?;
        for run in &due {
            self.remove_conversations_of(RunId::from(*run)).await?;
        }
        Ok(due.into_iter().map(RunId::from).collect())
    }

    async fn remove_conversations_of(&self, run: RunId) -> Result<(), StoreError> {
        let notice =
            "removed, because the run ended longer ago than this service keeps conversations";
        let prompt = json(&Prompt {
            system: notice.to_owned(),
            messages: Vec::new(),
        });
        self.mark_conversations(run, "removing").await?;
        for (statement, text) in [
            (REPLACE_PROMPTS, prompt.as_str()),
            (REPLACE_REPLIES, notice),
        ] {
            let mut before = i64::MAX;
            loop {
                let mut tx = self.begin().await?;
                let removed: Vec<TextId> = query_scalar(statement)
                    .bind(run.uuid())
                    .bind(before)
                    .bind(text.as_bytes().to_vec())
                    .bind(BATCH)
                    .fetch_all(&mut *tx)
                    .await
                    .context("remove a run's conversations")?;
                self.commit_change(tx, CommitScope::Nothing).await?;
                match removed.into_iter().min() {
                    Some(lowest) => before = lowest.number(),
                    None => break,
                }
            }
        }
        self.mark_conversations(run, "removed").await
    }

    async fn mark_conversations(&self, run: RunId, word: &'static str) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        query("UPDATE runs SET conversations = $2 WHERE id = $1")
            .bind(run.uuid())
            .bind(word)
            .defer(&mut tx);
        self.commit_change(tx, CommitScope::Run(run)).await
    }

    /// Fails if the run's prompts and replies were removed, for what cannot do without them.
    ///
    /// # Errors
    /// [`StoreError::ConversationsRemoved`], the run is unknown, or the database fails.
    pub async fn ensure_conversations(&self, run: RunId) -> Result<(), StoreError> {
        let mut view = self.view().await?;
        runs::require(&mut view, run).await?;
        let word: String = query_scalar("SELECT conversations FROM runs WHERE id = $1")
            .bind(run.uuid())
            .fetch_one(&mut *view)
            .await
            .context("find out if a run's conversations were removed")?;
        match word.as_str() {
            "kept" => Ok(()),
            _ => Err(StoreError::ConversationsRemoved { run }),
        }
    }
}
