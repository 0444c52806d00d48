//! Calls of models: planned with the candidates that they write, made until they are answered, and
//! charged. The engine writes the prompts and reads the replies.

mod past;
mod rows;

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::api::{EventKind, RunState, ShownCandidates};
use domain::candidate::Idea;
use domain::digest::Digest;
use domain::evaluation::Evaluation;
use domain::id::{CallId, CandidateId, RunId};
use domain::model::{Ceiling, Dollars, Prompt, Usage};
use domain::plan::Configuration;
use domain::search::Draft;
use sqlx::{query, query_as, query_scalar};
use uuid::Uuid;

use crate::candidates::{self, Charge, Ids, NewCandidate};
use crate::error::Doing;
use crate::rows::{RowRef, json, micros};
use crate::{Connection, Store, StoreError, events, runs};
pub(crate) use past::spend;
use rows::{AskedRow, DueRow};

/// Calls in a row without an answer after which a run is paused.
pub const MAX_UNANSWERED: u32 = 4;
/// Calls that are read at once.
const MOST_DUE: i64 = 256;

/// A call to record, with its prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCall {
    /// The configured model.
    pub model: String,
    /// For models that take one.
    pub seed: u64,
    /// For models that take one.
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
    /// A few words, until the model has given better ones.
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
    /// The configured model.
    pub model: String,
    /// For models that take one.
    pub seed: u64,
    /// For models that take one.
    pub temperature: f64,
    /// The prompt.
    pub prompt: Prompt,
    /// The candidates that the prompt shows.
    pub seen: ShownCandidates,
    /// Requests that failed.
    pub failures: u32,
}

/// A model's answer, as received.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Word for word.
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
pub enum Meaning {
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
    pub digest: Option<Digest>,
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
    /// `first` is the ordinal of the first of them.
    ///
    /// # Errors
    /// A parent is unknown, the run is over, or the database fails.
    pub async fn draft_all(
        &self,
        run: RunId,
        first: u32,
        drafts: &[NewDraft],
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let state = runs::open_state_of(&mut tx, run, "draft a candidate for").await?;
        let stale = candidates::next_ordinal(&mut tx, run).await? != i64::from(first);
        if stale || matches!(state, RunState::Paused { .. }) {
            return Ok(false);
        }
        for new in drafts {
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
                digest: None,
                configuration: Configuration::new(),
                idea: None,
                trial: new.draft.trial,
                verdict: None,
            };
            let charge = Charge {
                trial: new.draft.trial,
                original: None,
            };
            candidates::insert(&mut tx, run, candidate, &row, charge, now).await?;
            insert_call(&mut tx, call, run, candidate, 0, &new.call, now).await?;
        }
        self.commit(tx).await?;
        Ok(true)
    }

    /// Calls of running runs that wait for an answer and may be made now, by run and ordinal.
    ///
    /// # Errors
    /// The database fails.
    pub async fn due_calls(&self, now: DateTime<Utc>) -> Result<Vec<DueCall>, StoreError> {
        let rows: Vec<DueRow> = query_as(
            "SELECT k.id, k.run, k.candidate, c.ordinal, k.turn, k.model, k.seed, k.temperature, \
             k.prompt, k.seen, k.failures FROM calls k JOIN candidates c ON c.id = k.candidate \
             JOIN runs r ON r.id = k.run WHERE k.answered_at IS NULL AND k.not_before <= $1 \
             AND c.state = 'pending' AND r.state = 'running' ORDER BY k.run, c.ordinal LIMIT $2",
        )
        .bind(micros(now))
        .bind(MOST_DUE)
        .fetch_all(&self.read)
        .await
        .doing("look for calls to make")?;
        rows.into_iter().map(DueRow::read).collect()
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
        .doing("count a request to a model")?;
        Ok(begun.rows_affected() == 1)
    }

    /// Every call without an answer whose candidate waits for one, in running and paused runs.
    ///
    /// # Errors
    /// The database fails.
    pub async fn open_calls(&self) -> Result<HashSet<CallId>, StoreError> {
        let ids: Vec<Uuid> = query_scalar(
            "SELECT k.id FROM calls k JOIN candidates c ON c.id = k.candidate \
             WHERE k.answered_at IS NULL AND c.state = 'pending'",
        )
        .fetch_all(&self.read)
        .await
        .doing("look for open calls")?;
        Ok(ids.into_iter().map(CallId::from).collect())
    }

    /// Records an answer with what it means. Only the first answer to a call counts; one for a
    /// candidate that is waited for no longer is accounted for and changes nothing else. Returns
    /// whether it counted.
    ///
    /// # Errors
    /// The call is unknown or the database fails.
    pub async fn answer(
        &self,
        call: CallId,
        answer: &Answer,
        meaning: &Meaning,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let (ids, next) = self.draw(|rng| (Ids::generate(now, rng), CallId::generate(now, rng)));
        let mut tx = self.begin().await?;
        let asked = asked(&mut tx, call).await?;
        if asked.answered {
            return Ok(false);
        }
        write_answer(&mut tx, call, answer, meaning, now).await?;
        query("UPDATE runs SET unanswered = 0 WHERE id = $1")
            .bind(asked.run.uuid())
            .execute(&mut *tx)
            .await
            .doing("count an answer")?;
        let replied = EventKind::Replied {
            candidate: asked.candidate,
            ordinal: asked.ordinal,
            model: asked.model.clone(),
            tokens: answer.usage.total(),
            cost: answer.cost,
            unusable: meaning.unusable().map(str::to_owned),
        };
        events::record(&mut tx, asked.run, &replied, now).await?;
        let counted = asked.pending;
        if counted {
            let ids = Ids {
                candidate: asked.candidate,
                ..ids
            };
            apply_answer(&mut tx, &asked, ids, next, meaning, now).await?;
        }
        self.commit(tx).await?;
        Ok(counted)
    }

    /// Records that a call was not answered: it is tried again at `again`, unless so many calls
    /// of the run have failed in a row, or this one for a reason that waiting does not mend, that
    /// the run is paused. No trial is charged.
    ///
    /// # Errors
    /// The call is unknown or the database fails.
    pub async fn unanswered(
        &self,
        call: CallId,
        reason: &str,
        permanent: bool,
        again: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let asked = asked(&mut tx, call).await?;
        if asked.answered || !asked.pending {
            return Ok(());
        }
        query(
            "UPDATE calls SET failures = failures + 1, last_error = $2, not_before = $3 \
             WHERE id = $1",
        )
        .bind(call.uuid())
        .bind(reason)
        .bind(micros(again))
        .execute(&mut *tx)
        .await
        .doing("record a failed call")?;
        let in_a_row: i64 = query_scalar(
            "UPDATE runs SET unanswered = unanswered + 1 WHERE id = $1 RETURNING unanswered",
        )
        .bind(asked.run.uuid())
        .fetch_one(&mut *tx)
        .await
        .doing("count a failed call")?;
        let unanswered = EventKind::Unanswered {
            candidate: asked.candidate,
            model: asked.model.clone(),
            reason: reason.to_owned(),
        };
        events::record(&mut tx, asked.run, &unanswered, now).await?;
        let state = runs::state_of(&mut tx, asked.run).await?;
        if state == RunState::Running && (permanent || in_a_row >= i64::from(MAX_UNANSWERED)) {
            let times = if permanent {
                String::new()
            } else {
                format!(" ({in_a_row} times in a row)")
            };
            let paused = RunState::Paused {
                reason: format!("model {} does not answer{times}: {reason}", asked.model),
            };
            runs::set_state(&mut tx, asked.run, &paused, now).await?;
        }
        self.commit(tx).await
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
        .doing("look for open drafts")?;
        if open.is_empty() {
            return Ok(0);
        }
        for (candidate, turn) in &open {
            // A reply that could not be read was a trial all the same.
            query(
                "UPDATE candidates SET state = 'abandoned', state_detail = $2, \
                 trial = CASE WHEN $3 = 0 THEN 0 ELSE trial END WHERE id = $1",
            )
            .bind(candidate)
            .bind(why)
            .bind(turn)
            .execute(&mut *tx)
            .await
            .doing("abandon a draft")?;
            let abandoned = EventKind::Abandoned {
                candidate: CandidateId::from(*candidate),
                reason: why.to_owned(),
            };
            events::record(&mut tx, run, &abandoned, now).await?;
        }
        self.commit(tx).await?;
        Ok(open.len())
    }
}

impl Meaning {
    fn unusable(&self) -> Option<&str> {
        match self {
            Self::Written { .. } => None,
            Self::AskAgain { unusable, .. } | Self::Unusable { unusable, .. } => Some(unusable),
        }
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
        .doing("ask the run's models again")?;
    query("UPDATE runs SET unanswered = 0 WHERE id = $1")
        .bind(run.uuid())
        .execute(tx)
        .await
        .doing("ask the run's models again")?;
    Ok(())
}

/// A call with its candidate's state.
struct Asked {
    run: RunId,
    candidate: CandidateId,
    ordinal: u32,
    turn: u32,
    model: String,
    answered: bool,
    /// True if the candidate still waits for its text.
    pending: bool,
}

async fn asked(tx: &mut Connection, call: CallId) -> Result<Asked, StoreError> {
    let row: Option<AskedRow> = query_as(
        "SELECT k.run, k.candidate, c.ordinal, k.turn, k.model, k.answered_at, c.state \
         FROM calls k JOIN candidates c ON c.id = k.candidate WHERE k.id = $1",
    )
    .bind(call.uuid())
    .fetch_optional(tx)
    .await
    .doing("read a call")?;
    let row = row.ok_or_else(|| StoreError::Unknown {
        subject: "call",
        id: call.to_string(),
    })?;
    let row_ref = RowRef::new("calls", call);
    Ok(Asked {
        run: RunId::from(row.run),
        candidate: CandidateId::from(row.candidate),
        ordinal: row_ref.number("ordinal", row.ordinal)?,
        turn: row_ref.number("turn", row.turn)?,
        model: row.model,
        answered: row.answered_at.is_some(),
        pending: row.state == "pending",
    })
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
    query(
        "INSERT INTO calls (id, run, candidate, turn, model, seed, temperature, template, \
         template_digest, prompt, dropped, seen, reserved_tokens, reserved_nanos, not_before, \
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
    .bind(json(&new.prompt))
    .bind(json(&new.dropped))
    .bind(json(&new.seen))
    .bind(whole(new.reserved.usage.total()))
    .bind(whole(new.reserved.dollars.nanos()))
    .bind(micros(now))
    .execute(tx)
    .await
    .doing("record a call")?;
    Ok(())
}

async fn write_answer(
    tx: &mut Connection,
    call: CallId,
    answer: &Answer,
    meaning: &Meaning,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let us = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let notes = match meaning {
        Meaning::Written { notes, .. } => notes.as_slice(),
        Meaning::AskAgain { .. } | Meaning::Unusable { .. } => &[],
    };
    query(
        "UPDATE calls SET answered_at = $2, reply = $3, complete = $4, unusable = $5, notes = $6, \
         input_tokens = $7, cached_tokens = $8, cache_written_tokens = $9, output_tokens = $10, \
         usage_estimated = $11, cost = $12, answered_by = $13, request_id = $14, \
         first_token_us = $15, total_us = $16, attempts = $17 WHERE id = $1",
    )
    .bind(call.uuid())
    .bind(micros(now))
    .bind(&answer.text)
    .bind(i64::from(answer.complete))
    .bind(meaning.unusable())
    .bind(json(&notes))
    .bind(whole(answer.usage.input))
    .bind(whole(answer.usage.cached))
    .bind(whole(answer.usage.cache_written))
    .bind(whole(answer.usage.output))
    .bind(i64::from(answer.usage_estimated))
    .bind(answer.cost.map(|cost| whole(cost.nanos())))
    .bind(&answer.answered_by)
    .bind(&answer.request_id)
    .bind(answer.first_token.map(us))
    .bind(us(answer.total))
    .bind(i64::from(answer.attempts))
    .execute(tx)
    .await
    .doing("record an answer")?;
    Ok(())
}

/// Applies an answer to the candidate that waits for it.
async fn apply_answer(
    tx: &mut Connection,
    asked: &Asked,
    ids: Ids,
    next: CallId,
    meaning: &Meaning,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    match meaning {
        Meaning::Written { text, .. } => {
            let original = candidates::original(tx, asked.run, text.digest).await?;
            query(
                "UPDATE candidates SET title = $2, source = $3, digest = $4, configuration = $5, \
                 idea = $6, state = $7, duplicate_of = $8 WHERE id = $1",
            )
            .bind(asked.candidate.uuid())
            .bind(&text.title)
            .bind(&text.source)
            .bind(text.digest.map(|digest| digest.to_string()))
            .bind(json(&text.configuration))
            .bind(text.idea.as_ref().map(json))
            .bind(if original.is_some() {
                "duplicate"
            } else {
                "pending"
            })
            .bind(original)
            .execute(&mut *tx)
            .await
            .doing("record what a model wrote")?;
            let verdict = text.verdict.as_deref();
            candidates::judge_or_enqueue(tx, asked.run, &ids, original, verdict, now).await
        }
        Meaning::AskAgain { call, .. } => {
            insert_call(
                tx,
                next,
                asked.run,
                asked.candidate,
                asked.turn + 1,
                call,
                now,
            )
            .await
        }
        Meaning::Unusable { verdict, .. } => {
            candidates::judge_or_enqueue(tx, asked.run, &ids, None, Some(verdict), now).await
        }
    }
}
