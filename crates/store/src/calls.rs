//! Calls of models: planned with the candidates that they write, made until they are answered, and
//! charged. The engine writes the prompts and reads the replies.

mod answers;
mod past;
mod rows;

use std::collections::HashSet;
use std::time::Duration;

use crate::sql::{query, query_as};
use chrono::{DateTime, Utc};
use domain::api::{EventKind, RunState, ShownCandidates};
use domain::candidate::{Idea, Identity};
use domain::digest::Digest;
use domain::evaluation::Evaluation;
use domain::id::{CallId, CandidateId, RunId};
use domain::model::{Ceiling, Dollars, Prompt, Usage};
use domain::plan::Configuration;
use domain::search::Draft;
use uuid::Uuid;

use crate::candidates::{self, Charge, NewCandidate};
use crate::changes::CommitScope;
use crate::error::ErrorContext;
use crate::rows::{json, micros};
use crate::texts::{self, TextId};
use crate::{Connection, Store, StoreError, events, runs};
pub(crate) use past::spend;
use rows::DueRow;

/// Calls in a row without an answer after which a run is paused.
pub const MAX_UNANSWERED: u32 = 4;
/// Calls that are read at once.
const MOST_DUE: usize = 256;

/// A call to record, with its prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCall {
    /// Name of the configured model.
    pub model: String,
    /// Seed of the sampling, for models that take one.
    pub seed: u64,
    /// Temperature of the sampling, for models that take one.
    pub temperature: f64,
    /// The template of the prompt.
    pub template: String,
    /// Version of the template with everything it includes.
    pub template_digest: Digest,
    /// The prompt.
    pub prompt: Prompt,
    /// Parts of the prompt that were left out for lack of room.
    pub dropped: Vec<String>,
    /// The candidates that the prompt shows.
    pub seen: ShownCandidates,
    /// The most that prompt and answer may use together. It counts as a commitment until the answer
    /// is recorded.
    pub reserved: Ceiling,
}

/// A candidate that a model is to write.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDraft {
    /// The search's draft.
    pub draft: Draft,
    /// Provisional title; the reply's replaces it.
    pub title: String,
    /// The name of its file.
    pub file: String,
    /// The call that asks for it.
    pub call: NewCall,
}

/// A call that waits for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct DueCall {
    /// Identity.
    pub id: CallId,
    /// The run.
    pub run: RunId,
    /// The candidate it writes.
    pub candidate: CandidateId,
    /// The candidate's ordinal in the run.
    pub ordinal: u32,
    /// Position in the conversation.
    pub turn: u32,
    /// Name of the configured model.
    pub model: String,
    /// Seed of the sampling, for models that take one.
    pub seed: u64,
    /// Temperature of the sampling, for models that take one.
    pub temperature: f64,
    /// The prompt.
    pub prompt: Prompt,
    /// The candidates that the prompt shows.
    pub seen: ShownCandidates,
    /// Requests that failed.
    pub failures: u32,
    /// Digest of the content of the run's task.
    pub content: Digest,
}

/// The calls whose candidates wait for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCalls {
    /// All of them, those of paused runs and those put off too.
    pub waited_for: HashSet<CallId>,
    /// Those to make now, by run and ordinal.
    pub due: Vec<DueCall>,
}

/// A model's answer, as received.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Unchanged text of the reply.
    pub text: String,
    /// True if the model ended by itself and not at its token limit.
    pub complete: bool,
    /// The tokens used.
    pub usage: Usage,
    /// True if the usage is an estimate.
    pub usage_estimated: bool,
    /// The cost, if the price is known.
    pub cost: Option<Dollars>,
    /// The server's name for the model.
    pub answered_by: String,
    /// The server's id of the request.
    pub request_id: Option<String>,
    /// Time until the first token.
    pub first_token: Option<Duration>,
    /// Time until the end.
    pub total: Duration,
    /// Requests it took.
    pub attempts: u32,
}

/// The consequence of an answer for its candidate.
#[derive(Debug, Clone)]
pub enum AnswerEffect {
    /// It holds a text to evaluate, or one whose verdict needs no worker.
    Written {
        /// The candidate's text and what follows from it.
        text: Box<WrittenText>,
        /// Assumptions made when it was read.
        notes: Vec<String>,
    },
    /// It holds none; the model is told why and asked once more.
    AskAgain {
        /// The reason.
        unusable: String,
        /// The next call of the conversation.
        call: Box<NewCall>,
    },
    /// It holds none, and that is the verdict.
    Unusable {
        /// The reason.
        unusable: String,
        /// The verdict.
        verdict: Box<Evaluation>,
    },
}

/// A candidate's text with what follows from it.
#[derive(Debug, Clone)]
pub struct WrittenText {
    /// A few words.
    pub title: String,
    /// The text.
    pub source: String,
    /// Identity of the code; none if the text does not parse.
    pub identity: Option<Identity>,
    /// Values of its tunables.
    pub configuration: Configuration,
    /// The model's idea.
    pub idea: Option<Idea>,
    /// A verdict that needs no worker.
    pub verdict: Option<Box<Evaluation>>,
}

impl Store {
    /// Records candidates that models are to write, with the calls that ask for them: all of
    /// them, or none if the run has moved on since the decision was made. Returns whether it did.
    /// `first` is the ordinal of the first of them, `steering` the number of the newest direction that
    /// they follow.
    ///
    /// # Errors
    /// A parent is unknown, the run is over, or the database fails.
    pub async fn draft_all(
        &self,
        run: RunId,
        first: u32,
        steering: u32,
        drafts: &[NewDraft],
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let state = runs::open_state_of(&mut tx, run, "draft a candidate for").await?;
        let (next, version): (i64, i64) = query_as(
            "SELECT (SELECT COALESCE(MAX(ordinal) + 1, 0) FROM candidates WHERE run = $1), \
             (SELECT COALESCE(MAX(entry), 0) FROM steering WHERE run = $1)",
        )
        .bind(run.uuid())
        .fetch_one(&mut *tx)
        .await
        .context("number a candidate")?;
        let stale = next != i64::from(first) || version != i64::from(steering);
        if stale || matches!(state, RunState::Paused { .. }) {
            return Ok(false);
        }
        for (ordinal, new) in (next..).zip(drafts) {
            let (candidate, call) =
                self.draw(|rng| (CandidateId::generate(now, rng), CallId::generate(now, rng)));
            let (parent, further) = match new.draft.parents.split_first() {
                Some((parent, further)) => (Some(*parent), further.to_vec()),
                None => (None, Vec::new()),
            };
            let row = NewCandidate {
                parent,
                further_parents: further,
                operator: new.draft.operator.clone(),
                generation: new.draft.generation,
                proposer: new.draft.model.clone(),
                title: new.title.clone(),
                file: new.file.clone(),
                source: String::new(),
                identity: None,
                configuration: Configuration::new(),
                idea: None,
                trial: new.draft.trial,
                verdict: None,
            };
            let charge = Charge {
                trial: new.draft.trial,
                original: None,
            };
            candidates::insert(&mut tx, run, (candidate, ordinal), &row, charge, now).await?;
            insert_call(&mut tx, call, run, candidate, 0, &new.call, now).await?;
        }
        self.commit_change(tx, CommitScope::Shown(run)).await?;
        Ok(true)
    }

    /// Calls of running runs that wait for an answer and may be made now, by run and ordinal.
    ///
    /// # Errors
    /// The database fails.
    pub async fn due_calls(&self, now: DateTime<Utc>) -> Result<Vec<DueCall>, StoreError> {
        Ok(self.open_calls(&HashSet::new(), None, now).await?.due)
    }

    /// Every call without an answer whose candidate waits for one, of one run or of all. Those that
    /// are under way are not due, so that their prompts are not read again.
    ///
    /// # Errors
    /// The database fails.
    pub async fn open_calls(
        &self,
        under_way: &HashSet<CallId>,
        run: Option<RunId>,
        now: DateTime<Utc>,
    ) -> Result<OpenCalls, StoreError> {
        let mut view = self.view().await?;
        let rows: Vec<DueRow> = query_as(
            "SELECT k.id, k.run, k.candidate, c.ordinal, k.turn, k.model, k.seed, k.temperature, \
             k.prompt_text, k.seen, k.failures, r.task_content, \
             (k.not_before <= $1 AND r.state = 'running') AS due \
             FROM calls k JOIN candidates c ON c.id = k.candidate JOIN runs r ON r.id = k.run \
             WHERE k.answered_at IS NULL AND c.state = 'pending' AND ($2 IS NULL OR k.run = $2) \
             ORDER BY k.run, c.ordinal",
        )
        .bind(micros(now))
        .bind(run.map(RunId::uuid))
        .fetch_all(&mut *view)
        .await
        .context("look for calls to make")?;
        let waited_for = rows.iter().map(|row| CallId::from(row.id)).collect();
        let is_due = |row: &DueRow| row.due && !under_way.contains(&CallId::from(row.id));
        let mut due = Vec::new();
        for row in rows.into_iter().filter(is_due).take(MOST_DUE) {
            let prompt = texts::get(&mut view, row.prompt_text).await?;
            due.push(row.read(&prompt)?);
        }
        Ok(OpenCalls { waited_for, due })
    }

    /// Counts one more request for a call, before it is sent. Returns false, and counts nothing, if
    /// the call is not due any more: it was answered or put off since it was listed, its candidate
    /// was abandoned, or its run was paused.
    ///
    /// # Errors
    /// The database fails.
    pub async fn begin_request(
        &self,
        call: CallId,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let begun = query(
            "UPDATE calls SET requests = requests + 1 WHERE id = $1 AND answered_at IS NULL \
             AND not_before <= $2 AND EXISTS (SELECT 1 FROM candidates c JOIN runs r ON r.id = c.run \
             WHERE c.id = calls.candidate AND c.state = 'pending' AND r.state = 'running')",
        )
        .bind(call.uuid())
        .bind(micros(now))
        .execute(&self.write)
        .await
        .context("count a request to a model")?;
        Ok(begun == 1)
    }

    /// Gives up the candidates of a run that no model has written yet; none of them is charged.
    /// Returns how many.
    ///
    /// # Errors
    /// The database fails.
    pub async fn abandon_drafts(
        &self,
        run: RunId,
        why: &str,
        now: DateTime<Utc>,
    ) -> Result<usize, StoreError> {
        let mut tx = self.begin().await?;
        let open: Vec<(Uuid, i64)> = query_as(
            "SELECT c.id, MIN(k.turn) FROM candidates c JOIN calls k ON k.candidate = c.id \
             WHERE c.run = $1 AND c.state = 'pending' AND k.answered_at IS NULL GROUP BY c.id \
             ORDER BY c.id",
        )
        .bind(run.uuid())
        .fetch_all(&mut *tx)
        .await
        .context("look for open drafts")?;
        if open.is_empty() {
            return Ok(0);
        }
        for (candidate, turn) in &open {
            // A reply that could not be read was a trial all the same.
            if *turn == 0 {
                query(
                    "UPDATE runs SET trials = trials - (SELECT trial FROM candidates WHERE id = $2) \
                     WHERE id = $1",
                )
                .bind(run.uuid())
                .bind(*candidate)
                .execute(&mut *tx)
                .await
                .context("take a charge back")?;
            }
            query(
                "UPDATE candidates SET state = 'abandoned', state_detail = $2, \
                 trial = CASE WHEN $3 = 0 THEN 0 ELSE trial END WHERE id = $1",
            )
            .bind(*candidate)
            .bind(why)
            .bind(*turn)
            .execute(&mut *tx)
            .await
            .context("abandon a draft")?;
            let abandoned = EventKind::Abandoned {
                candidate: CandidateId::from(*candidate),
                reason: why.to_owned(),
            };
            events::record(&mut tx, run, &abandoned, now);
        }
        self.commit(tx).await?;
        Ok(open.len())
    }
}

/// Makes the open calls of a resumed run due at once, and clears its row of failures.
pub(crate) async fn retry(
    tx: &mut Connection,
    run: RunId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    query("UPDATE calls SET not_before = $2 WHERE run = $1 AND answered_at IS NULL")
        .bind(run.uuid())
        .bind(micros(now))
        .execute(&mut *tx)
        .await
        .context("ask the run's models again")?;
    query("UPDATE runs SET unanswered = 0 WHERE id = $1")
        .bind(run.uuid())
        .execute(tx)
        .await
        .context("ask the run's models again")?;
    Ok(())
}

async fn insert_call(
    tx: &mut Connection,
    id: CallId,
    run: RunId,
    candidate: CandidateId,
    turn: u32,
    new: &NewCall,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let prompt = put_prompt(tx, run, new).await?;
    query(
        "INSERT INTO calls (id, run, candidate, turn, model, seed, temperature, template, \
         template_digest, prompt_text, dropped, seen, reserved_tokens, reserved_nanos, not_before, \
         created_at) VALUES \
         ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15)",
    )
    .bind(id.uuid())
    .bind(run.uuid())
    .bind(candidate.uuid())
    .bind(i64::from(turn))
    .bind(&new.model)
    .bind(whole(new.seed))
    .bind(new.temperature)
    .bind(&new.template)
    .bind(new.template_digest.to_string())
    .bind(prompt)
    .bind(json(&new.dropped))
    .bind(json(&new.seen))
    .bind(whole(new.reserved.usage.total()))
    .bind(whole(new.reserved.dollars.nanos()))
    .bind(micros(now))
    .defer(tx);
    Ok(())
}

/// Stores a prompt. It repeats the run's first prompt of its template, and the sources that it shows.
async fn put_prompt(tx: &mut Connection, run: RunId, new: &NewCall) -> Result<TextId, StoreError> {
    let text = json(&new.prompt);
    let shown = |index: usize| new.seen.parents.get(index).map(|id| id.uuid());
    let bases: Vec<(TextId, i64)> = query_as(
        "SELECT prompt, CAST(1 AS BIGINT) FROM first_prompts WHERE run = $1 AND template = $2 \
         UNION ALL SELECT source_text, CAST(0 AS BIGINT) FROM candidates \
         WHERE id IN ($3, $4, $5) AND source_text IS NOT NULL",
    )
    .bind(run.uuid())
    .bind(&new.template)
    .bind(new.seen.best.map(CandidateId::uuid))
    .bind(shown(0))
    .bind(shown(1))
    .fetch_all(&mut *tx)
    .await
    .context("find the texts that a prompt repeats")?;
    if !bases.iter().any(|(_, is_first)| *is_first == 1) {
        let prompt = texts::put(tx, &text, &[]).await?;
        query("INSERT INTO first_prompts (run, template, prompt) VALUES ($1, $2, $3)")
            .bind(run.uuid())
            .bind(&new.template)
            .bind(prompt)
            .execute(tx)
            .await
            .context("record the first prompt")?;
        return Ok(prompt);
    }
    let bases: Vec<TextId> = bases.into_iter().map(|(id, _)| id).collect();
    texts::put(tx, &text, &bases).await
}
