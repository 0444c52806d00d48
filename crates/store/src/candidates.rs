//! Proposals: a candidate, its job and the event are recorded together or not at all.

use crate::sql::{query, query_as, query_scalar};
use chrono::{DateTime, Utc};
use domain::api::{EventKind, RunRequest};
use domain::candidate::{Idea, Identity, Technique};
use domain::evaluation::{Evaluation, EvaluationStage};
use domain::id::{CandidateId, EvaluationId, JobId, RunId};
use domain::plan::Configuration;
use domain::search::Operator;
use rand::Rng;
use uuid::Uuid;

use crate::changes::CommitScope;
use crate::error::ErrorContext;
use crate::judgements::{self, Judgement};
use crate::rows::{RowRef, json, micros, word};
use crate::texts::{self, TextId};
use crate::{Connection, Store, StoreError, events, jobs, runs, same_code};

/// A candidate to record.
#[derive(Debug, Clone)]
pub struct NewCandidate {
    /// The primary parent; none for the baseline.
    pub parent: Option<CandidateId>,
    /// The other parents, in the order they were shown.
    pub further_parents: Vec<CandidateId>,
    /// The operator that made it.
    pub operator: Operator,
    /// Generation.
    pub generation: u32,
    /// The author: the task, the playbook, a model or a name from outside.
    pub proposer: String,
    /// A few words.
    pub title: String,
    /// The name of its file.
    pub file: String,
    /// The whole text, which holds its configuration.
    pub source: String,
    /// Identity of the code; none if the text does not parse.
    pub identity: Option<Identity>,
    /// Values of all its tunables.
    pub configuration: Configuration,
    /// Its author's idea.
    pub idea: Option<Idea>,
    /// True if it is charged as a trial.
    pub trial: bool,
    /// A verdict that needs no worker, for a text that does not parse.
    pub verdict: Option<Box<Evaluation>>,
}

/// The outcome of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proposed {
    /// A new candidate.
    New(CandidateId),
    /// The run had asked for it before; nothing changed.
    Known(CandidateId),
    /// The trials are used up, or the run was asked to finish; nothing changed.
    OverBudget,
}

impl Store {
    /// Records a candidate with its job. Code that the run has evaluated or is evaluating is
    /// linked to that candidate and gets no job; such a duplicate is no trial in a sweep. Code that another
    /// run has evaluated under the same conditions gets that verdict, where it holds again.
    ///
    /// # Errors
    /// The run or the parent is unknown, the run is over, or the database fails.
    pub async fn propose(
        &self,
        run: RunId,
        new: &NewCandidate,
        now: DateTime<Utc>,
    ) -> Result<Proposed, StoreError> {
        let proposed = self
            .propose_all(run, std::slice::from_ref(new), now)
            .await?;
        Ok(proposed[0])
    }

    /// Records several candidates in order, all or none of them, because one decision made them.
    ///
    /// # Errors
    /// See [`Store::propose`].
    pub async fn propose_all(
        &self,
        run: RunId,
        new: &[NewCandidate],
        now: DateTime<Utc>,
    ) -> Result<Vec<Proposed>, StoreError> {
        let mut tx = self.begin().await?;
        runs::open_state_of(&mut tx, run, "propose a candidate for").await?;
        let mut proposed = Vec::with_capacity(new.len());
        for candidate in new {
            let ids = self.draw(|rng| ProposalIds::generate(now, rng));
            proposed.push(propose(&mut tx, run, candidate, &ids, now).await?);
        }
        self.commit_change(tx, CommitScope::Jobs(run)).await?;
        Ok(proposed)
    }

    /// Reads the name and the text of a candidate's file.
    ///
    /// # Errors
    /// The database fails.
    pub async fn source(
        &self,
        candidate: CandidateId,
    ) -> Result<Option<(String, String)>, StoreError> {
        let mut view = self.view().await?;
        let row: Option<(String, Option<TextId>)> =
            query_as("SELECT file, source_text FROM candidates WHERE id = $1")
                .bind(candidate.uuid())
                .fetch_optional(&mut *view)
                .await
                .context("read a candidate's source")?;
        let Some((file, source)) = row else {
            return Ok(None);
        };
        let source = texts::get_optional(&mut view, source).await?;
        Ok(Some((file, source.unwrap_or_default())))
    }
}

/// Identities for the rows that a proposal may need.
pub(crate) struct ProposalIds {
    pub(crate) candidate: CandidateId,
    pub(crate) job: JobId,
    pub(crate) evaluation: EvaluationId,
}

impl ProposalIds {
    pub(crate) fn generate(now: DateTime<Utc>, rng: &mut impl Rng) -> Self {
        Self {
            candidate: CandidateId::generate(now, rng),
            job: JobId::generate(now, rng),
            evaluation: EvaluationId::generate(now, rng),
        }
    }
}

async fn propose(
    tx: &mut Connection,
    run: RunId,
    new: &NewCandidate,
    ids: &ProposalIds,
    now: DateTime<Utc>,
) -> Result<Proposed, StoreError> {
    let id = ids.candidate;
    let proposal = proposal_key(new);
    let known: Option<Uuid> =
        query_scalar("SELECT id FROM candidates WHERE run = $1 AND proposal = $2")
            .bind(run.uuid())
            .bind(&proposal)
            .fetch_optional(&mut *tx)
            .await
            .context("look for the proposal")?;
    if let Some(known) = known {
        return Ok(Proposed::Known(CandidateId::from(known)));
    }
    if new.trial && !may_charge(tx, run).await? {
        return Ok(Proposed::OverBudget);
    }
    let ordinal = next_ordinal(tx, run).await?;
    let original = same_code::original(tx, run, new.identity.as_ref(), ordinal).await?;
    let trial = new.trial && !(original.is_some() && is_unpaid(&new.operator));
    insert(tx, run, (id, ordinal), new, Charge { trial, original }, now).await?;
    let stage = match new.operator {
        Operator::Baseline => EvaluationStage::Baseline,
        _ => EvaluationStage::Search,
    };
    let code = KnownCode {
        original,
        identity: new.identity.as_ref(),
    };
    let verdict = new.verdict.as_deref();
    judge_or_enqueue(tx, run, ids, code, verdict, stage, now).await?;
    Ok(Proposed::New(id))
}

/// The code of a recorded candidate.
#[derive(Clone, Copy, Default)]
pub(crate) struct KnownCode<'a> {
    /// The candidate that it duplicates.
    pub(crate) original: Option<Uuid>,
    /// None if the text does not parse.
    pub(crate) identity: Option<&'a Identity>,
}

/// Gives a recorded candidate the verdict of the one that it duplicates, a verdict that needs no
/// worker, the verdict of another run, or a job of the stage. Returns true if it waits for a verdict.
pub(crate) async fn judge_or_enqueue(
    tx: &mut Connection,
    run: RunId,
    ids: &ProposalIds,
    code: KnownCode<'_>,
    verdict: Option<&Evaluation>,
    stage: EvaluationStage,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let id = ids.candidate;
    if let Some(original) = code.original {
        let original = CandidateId::from(original);
        judgements::announce_duplicate(tx, run, id, original, now).await?;
        return Ok(false);
    }
    let judgement = |evaluation| Judgement {
        id: ids.evaluation,
        run,
        candidate: id,
        job: None,
        evaluation,
        speedup: None,
        launches: code.identity.map(|identity| identity.launches),
        conditions: None,
        reused_from: None,
    };
    if let Some(evaluation) = verdict {
        judgements::record(tx, &judgement(evaluation), now).await?;
        return Ok(false);
    }
    if stage == EvaluationStage::Search
        && let Some(known) = same_code::known_verdict(tx, run, code.identity).await?
    {
        let judgement = Judgement {
            speedup: known.speedup,
            reused_from: Some(known.candidate),
            ..judgement(&known.evaluation)
        };
        judgements::record(tx, &judgement, now).await?;
        return Ok(false);
    }
    jobs::enqueue(tx, ids.job, run, id, stage, now);
    Ok(true)
}

/// The charge of a candidate, and the candidate that it duplicates.
pub(crate) struct Charge {
    pub(crate) trial: bool,
    /// The candidate that it duplicates.
    pub(crate) original: Option<Uuid>,
}

/// Records a candidate as the last of the run, whose ordinal is the next one, with its event.
pub(crate) async fn insert(
    tx: &mut Connection,
    run: RunId,
    (id, ordinal): (CandidateId, i64),
    new: &NewCandidate,
    charge: Charge,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let parent = match new.parent {
        Some(parent) => Some(place_in_run(tx, parent, run).await?),
        None => None,
    };
    for further in &new.further_parents {
        place_in_run(tx, *further, run).await?;
    }
    let source = match new.source.as_str() {
        "" => None,
        source => {
            let parent = sweep_base(tx, new).await?;
            Some(texts::put(tx, source, parent.as_slice()).await?)
        }
    };
    query(
        "INSERT INTO candidates (id, run, ordinal, generation, parent, operator, proposer, \
         title, file, source_text, digest, configuration, idea, trial, proposal, state, \
         duplicate_of, created_at, further_parents, parent_ordinal, parent_generation, \
         text_digest, launches, technique) VALUES \
         ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, \
         $20, $21, $22, $23, $24)",
    )
    .bind(id.uuid())
    .bind(run.uuid())
    .bind(ordinal)
    .bind(i64::from(new.generation))
    .bind(new.parent.map(CandidateId::uuid))
    .bind(json(&new.operator))
    .bind(&new.proposer)
    .bind(&new.title)
    .bind(&new.file)
    .bind(source)
    .bind(new.identity.map(|identity| identity.digest.to_string()))
    .bind(json(&new.configuration))
    .bind(new.idea.as_ref().map(json))
    .bind(i64::from(charge.trial))
    .bind(proposal_key(new))
    .bind(if charge.original.is_some() {
        "duplicate"
    } else {
        "pending"
    })
    .bind(charge.original)
    .bind(micros(now))
    .bind(json(&new.further_parents))
    .bind(parent.as_ref().map(|place| place.ordinal))
    .bind(parent.as_ref().map(|place| place.generation))
    .bind(new.identity.map(|identity| identity.text.to_string()))
    .bind(new.identity.map(|identity| identity.launches.to_string()))
    .bind(technique(&new.source))
    .defer(tx);
    if charge.trial {
        query("UPDATE runs SET trials = trials + 1 WHERE id = $1")
            .bind(run.uuid())
            .defer(tx);
    }
    for further in &new.further_parents {
        query("INSERT INTO further_parents (parent, child) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(further.uuid())
            .bind(id.uuid())
            .defer(tx);
    }
    let proposed = EventKind::Proposed {
        candidate: id,
        ordinal: RowRef::new("candidates", id).number("ordinal", ordinal)?,
        title: new.title.clone(),
    };
    events::record(tx, run, &proposed, now);
    Ok(())
}

/// The technique of a text as its column has it; none of a text that is not written yet.
pub(crate) fn technique(source: &str) -> Option<String> {
    (!source.is_empty()).then(|| word(&Technique::of(source)))
}

/// The parent's source of a sweep's candidate, which differs from it in a few values. Other sources
/// have no base, because they are bases of prompts and replies.
async fn sweep_base(tx: &mut Connection, new: &NewCandidate) -> Result<Option<TextId>, StoreError> {
    let Some(parent) = new.parent.filter(|_| new.operator == Operator::Sweep) else {
        return Ok(None);
    };
    query_scalar("SELECT source_text FROM candidates WHERE id = $1")
        .bind(parent.uuid())
        .fetch_one(tx)
        .await
        .context("find the parent's source")
}

/// The ordinal of the run's next candidate.
pub(crate) async fn next_ordinal(tx: &mut Connection, run: RunId) -> Result<i64, StoreError> {
    query_scalar("SELECT COALESCE(MAX(ordinal) + 1, 0) FROM candidates WHERE run = $1")
        .bind(run.uuid())
        .fetch_one(tx)
        .await
        .context("number a candidate")
}

/// Returns true for candidates that nobody wrote, so that nothing was paid for one that repeats another.
fn is_unpaid(operator: &Operator) -> bool {
    matches!(operator, Operator::Sweep | Operator::Edit { .. })
}

/// The key that is equal for equal proposals of a run. Submissions and replies have none, because
/// each was paid for.
fn proposal_key(new: &NewCandidate) -> Option<String> {
    match &new.operator {
        Operator::Baseline => Some("baseline".to_owned()),
        Operator::Step { file } => Some(format!("step {file}")),
        Operator::Sweep => {
            let parent = new.parent.map(|id| id.to_string()).unwrap_or_default();
            Some(format!("sweep {parent} {}", json(&new.configuration)))
        }
        Operator::Edit { edit } => {
            let parent = new.parent.map(|id| id.to_string()).unwrap_or_default();
            Some(format!("edit {parent} {edit}"))
        }
        Operator::Fork => Some("fork".to_owned()),
        // A model's reply has its ordinal, which is planned once.
        Operator::Submit
        | Operator::Init
        | Operator::Crossover
        | Operator::Mutation
        | Operator::Repair
        | Operator::Improve
        | Operator::Explore
        | Operator::Retune => None,
    }
}

async fn may_charge(tx: &mut Connection, run: RunId) -> Result<bool, StoreError> {
    let (request, finish_requested, charged): (String, i64, i64) =
        query_as("SELECT request, finish_requested, trials FROM runs WHERE id = $1")
            .bind(run.uuid())
            .fetch_one(tx)
            .await
            .context("count the trials")?;
    let request: RunRequest = RowRef::new("runs", run).json("request", &request)?;
    Ok(finish_requested == 0 && charged < i64::from(request.budget.trials))
}

/// Position and generation of a candidate.
#[derive(sqlx::FromRow)]
struct Place {
    ordinal: i64,
    generation: i64,
}

/// Returns the place of a candidate, which must exist in the run.
async fn place_in_run(
    tx: &mut Connection,
    candidate: CandidateId,
    run: RunId,
) -> Result<Place, StoreError> {
    let place: Option<Place> =
        query_as("SELECT ordinal, generation FROM candidates WHERE id = $1 AND run = $2")
            .bind(candidate.uuid())
            .bind(run.uuid())
            .fetch_optional(tx)
            .await
            .context("look for the parent")?;
    place.ok_or_else(|| StoreError::Unknown {
        subject: "candidate",
        id: candidate.to_string(),
    })
}
