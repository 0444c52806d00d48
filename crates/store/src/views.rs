//! Views for clients: runs, candidates and lineage, each read from one state of the rows.

mod islands;
mod kept;
mod lineage;
mod lists;

use std::collections::BTreeMap;

use crate::sql::{query_as, query_scalar};
use domain::api::{
    BestCandidate, CandidatePage, CandidateState, CandidateSummary, Lineage, PromotionState,
    RunPage, RunRequest, RunStateName, RunView,
};
use domain::digest::Digest;
use domain::evaluation::Evaluation;
use domain::id::{CandidateId, RunId, WorkerId};
use domain::model::Dollars;
use domain::verdict::VerdictKind;
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::RowRef;
use crate::texts::{self, TextId};
use crate::{Connection, Store, StoreError, calls, judgements, leaderboards, promotions, steering};

use islands::Islands;

pub(crate) use kept::KeptAnswers;
pub use lineage::{LineageQuery, MAX_CURVE_BUCKETS};
pub use lists::{CandidateQuery, Cursor, CursorError};

/// Everything recorded about one candidate.
#[derive(Debug, Clone)]
pub struct CandidateRecord {
    /// The run.
    pub run: RunId,
    /// The task's name.
    pub task: String,
    /// The candidate as lists show it.
    pub summary: CandidateSummary,
    /// The name of its file.
    pub file: String,
    /// The text.
    pub source: String,
    /// Its author's idea.
    pub idea: Option<domain::candidate::Idea>,
    /// Identity of the code.
    pub digest: Option<Digest>,
    /// The evaluation, or that of the candidate it duplicates.
    pub evaluation: Option<Evaluation>,
    /// The newest confirmation.
    pub confirmation: Option<Evaluation>,
}

/// The text of a candidate's primary parent, and the ids of its children.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Relatives {
    /// The primary parent's text.
    pub parent_source: Option<String>,
    /// Candidates bred from it, by ordinal; at most 10,000.
    pub children: Vec<CandidateId>,
}

#[derive(sqlx::FromRow)]
struct SummaryRow {
    id: Uuid,
    ordinal: i64,
    generation: i64,
    parent: Option<Uuid>,
    parent_ordinal: Option<i64>,
    further_parents: String,
    operator: String,
    proposer: String,
    title: String,
    configuration: String,
    state: String,
    state_detail: String,
    duplicate_of: Option<Uuid>,
    repeats: Option<Uuid>,
    reused_from: Option<Uuid>,
    created_at: i64,
    worker: Option<Uuid>,
    progress: Option<String>,
    asked: Option<String>,
    trouble: Option<String>,
    verdict: Option<String>,
    summary: Option<String>,
    line: Option<i64>,
    speedup: Option<f64>,
    time_us: Option<f64>,
    modelled: Option<i64>,
    unmet_gates: Option<String>,
    judged_at: Option<i64>,
    cost: Option<i64>,
}

/// Facts of a run that summaries of its candidates show beside their own rows: the best candidate, the
/// promotions, and the islands.
struct RunFacts {
    best: Option<CandidateId>,
    promotions: BTreeMap<CandidateId, PromotionState>,
    islands: Islands,
}

impl RunFacts {
    async fn read(view: &mut Connection, run: RunId) -> Result<Self, StoreError> {
        Ok(Self {
            best: judgements::best(view, run).await?,
            promotions: promotions::states(view, run).await?,
            islands: Islands::of(view, run).await?,
        })
    }
}

impl SummaryRow {
    async fn read(
        self,
        view: &mut Connection,
        facts: &mut RunFacts,
    ) -> Result<CandidateSummary, StoreError> {
        let id = CandidateId::from(self.id);
        let original = CandidateId::from(self.duplicate_of.unwrap_or(self.id));
        let repeated = self.duplicate_of.or(self.repeats);
        let row_ref = RowRef::new("candidates", id);
        let state = match row_ref.candidate_state(&self.state, &self.state_detail, repeated)? {
            CandidateState::Queued => match (self.asked, self.worker, self.progress) {
                (Some(model), _, _) => CandidateState::Drafting {
                    model,
                    trouble: self.trouble,
                },
                (None, Some(worker), Some(stage)) => CandidateState::Evaluating {
                    stage,
                    worker: WorkerId::from(worker),
                },
                _ => CandidateState::Queued,
            },
            other => other,
        };
        let mut parents: Vec<CandidateId> =
            self.parent.map(CandidateId::from).into_iter().collect();
        let further: Vec<CandidateId> = row_ref.json("further_parents", &self.further_parents)?;
        parents.extend(further);
        let ordinal = row_ref.number("ordinal", self.ordinal)?;
        let parent_ordinal = self
            .parent_ordinal
            .map(|parent| row_ref.number("parent_ordinal", parent))
            .transpose()?;
        let operator = row_ref.json("operator", &self.operator)?;
        let island = facts.islands.find(view, ordinal, parent_ordinal, &operator);
        let island = island.await?;
        Ok(CandidateSummary {
            id,
            ordinal,
            generation: row_ref.number("generation", self.generation)?,
            island,
            parents,
            operator,
            proposer: self.proposer,
            title: self.title,
            configuration: row_ref.json("configuration", &self.configuration)?,
            state,
            verdict: self
                .verdict
                .map(|word| row_ref.word("verdict", &word))
                .transpose()?,
            summary: self.summary,
            line: self
                .line
                .map(|line| row_ref.number("line", line))
                .transpose()?,
            speedup: self.speedup,
            time_us: self.time_us,
            modelled: self.modelled == Some(1),
            unmet_gates: row_ref
                .json("unmet_gates", self.unmet_gates.as_deref().unwrap_or("[]"))?,
            best: facts.best == Some(id),
            verdict_of: self.reused_from.map(CandidateId::from),
            promotion: facts.promotions.get(&original).cloned(),
            cost: self
                .cost
                .map(|nanos| row_ref.number("cost", nanos).map(Dollars::from_nanos))
                .transpose()?,
            created_at: row_ref.time("created_at", self.created_at)?,
            judged_at: self
                .judged_at
                .map(|at| row_ref.time("judged_at", at))
                .transpose()?,
        })
    }
}

/// Selects [`SummaryRow`]s. A duplicate shows its original's evaluation.
macro_rules! summaries {
    ($rest:literal) => {
        concat!(
            "SELECT c.id, c.ordinal, c.generation, c.parent, c.parent_ordinal, c.further_parents, c.operator, c.proposer, c.title, \
             c.configuration, c.state, c.state_detail, c.duplicate_of, c.repeats, e.reused_from, c.created_at, \
             j.worker, j.progress, k.model AS asked, k.last_error AS trouble, e.verdict, e.summary, e.line, e.speedup, e.time_us, \
             e.modelled, e.unmet_gates, e.created_at AS judged_at, \
             (SELECT CAST(SUM(q.cost) AS BIGINT) FROM calls q WHERE q.candidate = c.id) AS cost FROM candidates c \
             LEFT JOIN evaluations e ON e.candidate = COALESCE(c.duplicate_of, c.id) \
             AND e.stage <> 'confirmation' \
             LEFT JOIN jobs j ON j.candidate = c.id AND j.stage <> 'confirmation' \
             AND j.state = 'leased' \
             LEFT JOIN calls k ON k.candidate = c.id AND k.answered_at IS NULL ",
            $rest
        )
    };
}
use summaries;

/// The runs of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunQuery<'a> {
    /// Only those of this task, of all its versions.
    pub task: Option<&'a str>,
    /// Only those in this state.
    pub state: Option<RunStateName>,
    /// Only those with this tag.
    pub tag: Option<&'a str>,
    /// Only those older than this one.
    pub before: Option<RunId>,
}

impl Store {
    /// A run.
    ///
    /// # Errors
    /// The database fails.
    pub async fn run(&self, run: RunId) -> Result<Option<RunView>, StoreError> {
        let mut view = self.view().await?;
        match run_view(&mut view, run).await {
            Ok(run) => Ok(Some(run)),
            Err(StoreError::Unknown { subject: "run", .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Runs that meet the conditions, newest first; at most `limit`.
    ///
    /// # Errors
    /// The task is unknown or the database fails.
    pub async fn runs(&self, wanted: &RunQuery<'_>, limit: u32) -> Result<RunPage, StoreError> {
        let mut view = self.view().await?;
        if let Some(task) = wanted.task {
            leaderboards::newest_version(&mut view, task).await?;
        }
        // Tags stand in the request's JSON in quotes, which no tag has itself.
        let ids: Vec<Uuid> = query_scalar(
            "SELECT r.id FROM runs r JOIN tasks t ON t.content = r.task_content \
             WHERE ($1 IS NULL OR r.id < $1) AND ($3 IS NULL OR r.state = $3) \
             AND ($4 IS NULL OR t.name = $4) \
             AND ($5 IS NULL OR instr(COALESCE(json_extract(r.request, '$.tags'), ''), $5) > 0) \
             ORDER BY r.id DESC LIMIT $2",
        )
        .bind(wanted.before.map(RunId::uuid))
        .bind(i64::from(limit) + 1)
        .bind(wanted.state.map(RunStateName::as_str))
        .bind(wanted.task)
        .bind(wanted.tag.map(|tag| format!("\"{tag}\"")))
        .fetch_all(&mut *view)
        .await
        .context("list the runs")?;
        let more = ids.len() > limit as usize;
        let mut runs = Vec::with_capacity(ids.len());
        for id in ids.into_iter().take(limit as usize) {
            runs.push(run_view(&mut view, RunId::from(id)).await?);
        }
        let next = runs.last().filter(|_| more).map(|last| last.id.to_string());
        Ok(RunPage { runs, next })
    }

    /// Candidates with an ordinal above `after`, by ordinal; those of one verdict if asked.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn candidates(
        &self,
        run: RunId,
        verdict: Option<VerdictKind>,
        after: Option<u32>,
        limit: u32,
    ) -> Result<CandidatePage, StoreError> {
        let query = CandidateQuery {
            verdict,
            after: after.map(Cursor::from),
            ..CandidateQuery::default()
        };
        self.list_candidates(run, &query, limit).await
    }

    /// Reads one candidate as lists show it.
    ///
    /// # Errors
    /// The database fails.
    pub async fn summary(
        &self,
        candidate: CandidateId,
    ) -> Result<Option<CandidateSummary>, StoreError> {
        let mut view = self.view().await?;
        summary(&mut view, candidate).await
    }

    /// The run's candidates, at most `limit`, whose parents are the edges.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn lineage(&self, run: RunId, limit: u32) -> Result<Lineage, StoreError> {
        let page = self.candidates(run, None, None, limit).await?;
        Ok(Lineage {
            truncated: page.next.is_some(),
            nodes: page.candidates,
        })
    }

    /// Everything recorded about a candidate itself.
    ///
    /// # Errors
    /// The database fails.
    pub async fn candidate(
        &self,
        candidate: CandidateId,
    ) -> Result<Option<CandidateRecord>, StoreError> {
        let mut view = self.view().await?;
        let Some(summary) = summary(&mut view, candidate).await? else {
            return Ok(None);
        };
        let row: RecordRow = query_as(
            "SELECT c.run, t.name AS task, c.file, c.source_text, c.idea, c.digest, \
             (SELECT evidence_text FROM evaluations WHERE candidate = COALESCE(c.duplicate_of, c.id) \
             AND stage <> 'confirmation') AS evaluation, \
             (SELECT evidence_text FROM evaluations WHERE candidate = c.id \
             AND stage = 'confirmation' ORDER BY created_at DESC, id DESC LIMIT 1) AS confirmation \
             FROM candidates c JOIN runs r ON r.id = c.run \
             JOIN tasks t ON t.content = r.task_content WHERE c.id = $1",
        )
        .bind(candidate.uuid())
        .fetch_one(&mut *view)
        .await
        .context("read a candidate")?;
        let row_ref = RowRef::new("candidates", candidate);
        let evidence = |text: Option<String>| {
            text.map(|text| RowRef::new("evaluations", candidate).json("evidence_text", &text))
                .transpose()
        };
        let source = texts::get_optional(&mut view, row.source_text).await?;
        let evaluation = texts::get_optional(&mut view, row.evaluation).await?;
        let confirmation = texts::get_optional(&mut view, row.confirmation).await?;
        Ok(Some(CandidateRecord {
            run: RunId::from(row.run),
            task: row.task,
            summary,
            file: row.file,
            source: source.unwrap_or_default(),
            idea: row
                .idea
                .map(|idea| row_ref.json("idea", &idea))
                .transpose()?,
            digest: row
                .digest
                .map(|digest| digest.parse())
                .transpose()
                .map_err(|error: domain::digest::DigestError| row_ref.wrong("digest", error))?,
            evaluation: evidence(evaluation)?,
            confirmation: evidence(confirmation)?,
        }))
    }

    /// The parent's text and the children of a candidate.
    ///
    /// # Errors
    /// The database fails.
    pub async fn relatives(&self, candidate: CandidateId) -> Result<Relatives, StoreError> {
        let mut view = self.view().await?;
        let parent: Option<TextId> = query_scalar(
            "SELECT p.source_text FROM candidates c JOIN candidates p ON p.id = c.parent \
             WHERE c.id = $1",
        )
        .bind(candidate.uuid())
        .fetch_optional(&mut *view)
        .await
        .context("find the parent's source")?
        .flatten();
        let parent_source = texts::get_optional(&mut view, parent).await?;
        let children: Vec<Uuid> = query_scalar(
            "SELECT id FROM candidates WHERE parent = $1 \
             OR id IN (SELECT child FROM further_parents WHERE parent = $1) \
             ORDER BY ordinal LIMIT 10000",
        )
        .bind(candidate.uuid())
        .fetch_all(&mut *view)
        .await
        .context("read a candidate's children")?;
        Ok(Relatives {
            parent_source,
            children: children.into_iter().map(CandidateId::from).collect(),
        })
    }
}

#[derive(sqlx::FromRow)]
struct RecordRow {
    run: Uuid,
    task: String,
    file: String,
    source_text: Option<TextId>,
    idea: Option<String>,
    digest: Option<String>,
    evaluation: Option<TextId>,
    confirmation: Option<TextId>,
}

async fn summary(
    connection: &mut Connection,
    candidate: CandidateId,
) -> Result<Option<CandidateSummary>, StoreError> {
    let run: Option<Uuid> = query_scalar("SELECT run FROM candidates WHERE id = $1")
        .bind(candidate.uuid())
        .fetch_optional(&mut *connection)
        .await
        .context("find a candidate")?;
    let Some(run) = run else {
        return Ok(None);
    };
    let row: SummaryRow = query_as(summaries!("WHERE c.id = $1"))
        .bind(candidate.uuid())
        .fetch_one(&mut *connection)
        .await
        .context("read a candidate")?;
    let mut facts = RunFacts::read(connection, RunId::from(run)).await?;
    row.read(connection, &mut facts).await.map(Some)
}

#[derive(sqlx::FromRow)]
struct RunViewRow {
    name: String,
    version: String,
    request: String,
    state: String,
    state_detail: String,
    created_at: i64,
    updated_at: i64,
    elapsed: i64,
    trials: i64,
    last_event: i64,
    unpromoted: Option<String>,
    device: Option<String>,
}

pub(crate) async fn run_view(
    connection: &mut Connection,
    run: RunId,
) -> Result<RunView, StoreError> {
    let row: Option<RunViewRow> = query_as(
        "SELECT r.name, t.version, r.request, r.state, r.state_detail, r.created_at, \
         r.updated_at, r.elapsed, r.unpromoted, r.device, r.trials \
         - (SELECT COUNT(*) FROM calls k JOIN candidates c ON c.id = k.candidate \
         WHERE k.run = r.id AND k.answered_at IS NULL AND k.turn = 0 AND c.trial = 1) AS trials, \
         (SELECT COALESCE(MAX(id), 0) FROM events WHERE run = r.id) AS last_event \
         FROM runs r JOIN tasks t ON t.content = r.task_content WHERE r.id = $1",
    )
    .bind(run.uuid())
    .fetch_optional(&mut *connection)
    .await
    .context("read a run")?;
    let row = row.ok_or_else(|| StoreError::Unknown {
        subject: "run",
        id: run.to_string(),
    })?;
    let row_ref = RowRef::new("runs", run);
    let request: RunRequest = row_ref.json("request", &row.request)?;
    // A duplicate counts with the verdict of its original.
    let tally: Vec<(String, i64)> =
        query_as("SELECT verdict, candidates FROM verdict_counts WHERE run = $1")
            .bind(run.uuid())
            .fetch_all(&mut *connection)
            .await
            .context("read the counts of verdicts")?;
    let mut verdicts = BTreeMap::new();
    for (word, count) in tally {
        let kind: VerdictKind = row_ref.word("verdict", &word)?;
        verdicts.insert(kind, row_ref.number("count", count)?);
    }
    let pending: i64 = query_scalar(
        "SELECT COUNT(*) + CAST(COALESCE(SUM((SELECT COUNT(*) FROM candidates c \
         WHERE c.duplicate_of = o.id)), 0) AS BIGINT) FROM candidates o \
         WHERE o.run = $1 AND o.state = 'pending'",
    )
    .bind(run.uuid())
    .fetch_one(&mut *connection)
    .await
    .context("count the pending candidates")?;
    Ok(RunView {
        id: run,
        name: row.name,
        tags: request.tags,
        task: request.task,
        task_version: row
            .version
            .parse()
            .map_err(|error: domain::digest::DigestError| row_ref.wrong("version", error))?,
        method: request.method,
        device: row.device,
        state: row_ref.run_state(&row.state, &row.state_detail)?,
        budget: request.budget,
        trials: row_ref.number("trials", row.trials)?,
        models: request.models,
        evolution: request.evolution,
        spend: calls::spend(connection, run).await?,
        running_ms: row_ref.number::<u64>("elapsed", row.elapsed)? / 1000,
        verdicts,
        pending: row_ref.number("pending", pending)?,
        best: best(connection, run).await?,
        promotion: promotions::newest(connection, run).await?,
        forked_from: steering::origin(connection, run).await?,
        unpromoted: row.unpromoted,
        last_event: row.last_event,
        seed: request.seed,
        created_at: row_ref.time("created_at", row.created_at)?,
        updated_at: row_ref.time("updated_at", row.updated_at)?,
    })
}

async fn best(
    connection: &mut Connection,
    run: RunId,
) -> Result<Option<BestCandidate>, StoreError> {
    let Some(candidate) = judgements::best(connection, run).await? else {
        return Ok(None);
    };
    let (title, speedup, time_us, modelled): (String, f64, f64, i64) = query_as(
        "SELECT c.title, e.speedup, e.time_us, e.modelled FROM candidates c \
         JOIN evaluations e ON e.candidate = c.id AND e.stage <> 'confirmation' WHERE c.id = $1",
    )
    .bind(candidate.uuid())
    .fetch_one(&mut *connection)
    .await
    .context("read the best candidate")?;
    let modelled = modelled == 1;
    let measurement = if modelled {
        None
    } else {
        let evaluation = judgements::accepted(connection, candidate).await?;
        evaluation.and_then(|evaluation| evaluation.measurement)
    };
    Ok(Some(BestCandidate {
        candidate,
        title,
        speedup,
        interval: measurement.map(|measurement| measurement.anchor.interval),
        time_us,
        modelled,
    }))
}
