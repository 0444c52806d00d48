//! A run as the search sees it.

use std::time::Duration;

use domain::api::{ForkOrigin, RunRequest, RunState};
use domain::candidate::Idea;
use domain::digest::Digest;
use domain::id::{CandidateId, RunId};
use domain::model::Dollars;
use domain::search::{
    AskedModel, Cell, Entry, EntryState, Operator, PromotionProgress, Spend, Steering,
};
use domain::verdict::VerdictKind;
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::RowRef;
use crate::runs::{content, is_active};
use crate::sql::{Flag, query_as};
use crate::{Connection, Store, StoreError, calls, judgements, steering};

/// Everything that decides what happens next in a run, read at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The run.
    pub run: RunId,
    /// The request that the run was created with.
    pub request: RunRequest,
    /// The run's state.
    pub state: RunState,
    /// Digest of the task's content.
    pub content: Digest,
    /// Time spent running, as far as it was kept.
    pub elapsed: Duration,
    /// Someone asked the run to finish.
    pub finish_requested: bool,
    /// Usage of models and devices so far.
    pub spend: Spend,
    /// Every candidate by ordinal.
    pub entries: Vec<Entry>,
    /// Number of entries before the first pending one.
    pub settled: usize,
    /// The state of the champion's promotion.
    pub promotion: PromotionProgress,
    /// Candidates whose confirmation failed or whose promotion was taken back.
    pub refused: Vec<RefusedCandidate>,
    /// These and the banned ones: nobody's parent and no champion.
    pub excluded: Vec<CandidateId>,
    /// The directions in force.
    pub steering: Steering,
    /// The candidate that the run was forked from.
    pub forked_from: Option<ForkOrigin>,
}

/// A candidate whose confirmation failed or whose promotion was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedCandidate {
    /// The candidate.
    pub candidate: CandidateId,
    /// The verdict of its newest confirmation; none if that never ended.
    pub verdict: Option<VerdictKind>,
}

/// A run without its candidates.
#[derive(Debug, Clone)]
pub struct RunOutline {
    /// The run.
    pub run: RunId,
    /// The request that the run was created with.
    pub request: RunRequest,
    /// The run's state.
    pub state: RunState,
    /// Digest of the task's content.
    pub content: Digest,
    /// Number of candidates.
    pub candidates: u32,
    /// Number of candidates that are charged as trials.
    pub charged: u32,
    /// The first of them.
    pub baseline: Option<CandidateId>,
    /// The fastest accepted one that is not banned and whose promotion was neither refused nor taken
    /// back.
    pub best: Option<CandidateId>,
    /// The directions in force.
    pub steering: Steering,
}

#[derive(sqlx::FromRow)]
struct OutlineRow {
    request: String,
    state: String,
    state_detail: String,
    task_content: String,
    candidates: i64,
    charged: i64,
}

#[derive(sqlx::FromRow)]
struct SnapshotRow {
    request: String,
    state: String,
    state_detail: String,
    task_content: String,
    elapsed: i64,
    finish_requested: i64,
    #[sqlx(try_from = "Flag")]
    has_promotions: bool,
    #[sqlx(try_from = "Flag")]
    has_directions: bool,
    #[sqlx(try_from = "Flag")]
    is_fork: bool,
}

#[derive(sqlx::FromRow)]
struct EntryRow {
    id: Uuid,
    parent: Option<Uuid>,
    operator: String,
    generation: i64,
    configuration: String,
    trial: i64,
    /// State of the candidate, or of the one it duplicates.
    state: String,
    state_detail: String,
    speedup: Option<f64>,
    promotable: Option<i64>,
    unmet_phases: Option<String>,
    verdict: Option<String>,
    #[sqlx(try_from = "Flag")]
    duplicate: bool,
    idea: Option<String>,
    image: Option<String>,
    floor_share: Option<f64>,
    technique: Option<String>,
    bound: Option<String>,
    proposer: String,
    cost: i64,
}

impl TryFrom<EntryRow> for Entry {
    type Error = StoreError;

    fn try_from(row: EntryRow) -> Result<Self, StoreError> {
        let id = CandidateId::from(row.id);
        let row_ref = RowRef::new("candidates", id);
        let state = match row.state.as_str() {
            "pending" => EntryState::Pending,
            "abandoned" => EntryState::Abandoned {
                reason: row.state_detail,
            },
            "evaluated" => match row.speedup {
                Some(speedup) => EntryState::Accepted {
                    speedup,
                    promotable: row.promotable == Some(1),
                    unmet_phases: row_ref
                        .json("unmet_phases", row.unmet_phases.as_deref().unwrap_or("[]"))?,
                },
                None => {
                    let verdict = row.verdict.as_deref().unwrap_or_default();
                    EntryState::Rejected(row_ref.word("verdict", verdict)?)
                }
            },
            other => return Err(row_ref.wrong("state", format!("{other:?} has no state"))),
        };
        let operator: Operator = row_ref.json("operator", &row.operator)?;
        let asked = if operator.asks_model() {
            Some(AskedModel {
                model: row.proposer,
                cost: Dollars::from_nanos(row_ref.number("cost", row.cost)?),
            })
        } else {
            None
        };
        Ok(Self {
            id,
            parent: row.parent.map(CandidateId::from),
            operator,
            generation: row_ref.number("generation", row.generation)?,
            configuration: row_ref.json("configuration", &row.configuration)?,
            state,
            trial: row.trial == 1,
            duplicate: row.duplicate,
            thought: row
                .idea
                .map(|idea| row_ref.json("idea", &idea).map(thought))
                .transpose()?
                .flatten(),
            image: row
                .image
                .map(|image| image.parse())
                .transpose()
                .map_err(|error: domain::digest::DigestError| row_ref.wrong("image", error))?,
            floor_share: row.floor_share,
            cell: Cell {
                technique: row
                    .technique
                    .map(|technique| row_ref.word("technique", &technique))
                    .transpose()?,
                bound: row
                    .bound
                    .map(|bound| row_ref.word("bound", &bound))
                    .transpose()?,
            },
            asked,
        })
    }
}

/// The hypothesis of an idea, or its title if there is no hypothesis.
fn thought(idea: Idea) -> Option<String> {
    let said = [idea.hypothesis, idea.title];
    said.into_iter().find(|text| !text.trim().is_empty())
}

impl Snapshot {
    /// Returns true if the run is neither paused nor over.
    pub fn is_active(&self) -> bool {
        is_active(&self.state)
    }
}

impl Store {
    /// Reads a run without its candidates.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn outline(&self, run: RunId) -> Result<RunOutline, StoreError> {
        let mut view = self.view().await?;
        let row: Option<OutlineRow> = query_as(
            "SELECT request, state, state_detail, task_content, \
             (SELECT COALESCE(MAX(ordinal) + 1, 0) FROM candidates WHERE run = $1) AS candidates, \
             trials AS charged FROM runs WHERE id = $1",
        )
        .bind(run.uuid())
        .fetch_optional(&mut *view)
        .await
        .context("read a run")?;
        let row = row.ok_or_else(|| StoreError::Unknown {
            subject: "run",
            id: run.to_string(),
        })?;
        let row_ref = RowRef::new("runs", run);
        Ok(RunOutline {
            run,
            request: row_ref.json("request", &row.request)?,
            state: row_ref.run_state(&row.state, &row.state_detail)?,
            content: content(run, &row.task_content)?,
            candidates: row_ref.number("candidates", row.candidates)?,
            charged: row_ref.number("charged", row.charged)?,
            baseline: judgements::baseline(&mut view, run).await?,
            best: judgements::best(&mut view, run).await?,
            steering: steering::in_force(&mut view, run).await?,
        })
    }

    /// Reads what decides a run's next actions.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn snapshot(&self, run: RunId) -> Result<Snapshot, StoreError> {
        self.snapshot_after(run, Vec::new(), 0).await
    }

    /// Reads what decides a run's next actions, and of its candidates only those that may have
    /// changed. `known` are the entries of an earlier snapshot of the run, of which at least the first
    /// `settled` were not pending. Those before the first pending one are kept, because the entry of a
    /// candidate that is judged or given up never changes.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn snapshot_after(
        &self,
        run: RunId,
        mut known: Vec<Entry>,
        settled: usize,
    ) -> Result<Snapshot, StoreError> {
        let settled = leading(&known, settled);
        known.truncate(settled);
        let mut view = self.view().await?;
        let row: Option<SnapshotRow> = query_as(
            "SELECT request, state, state_detail, task_content, elapsed, finish_requested, \
             EXISTS (SELECT 1 FROM promotions p WHERE p.run = runs.id) AS has_promotions, \
             EXISTS (SELECT 1 FROM steering s WHERE s.run = runs.id) AS has_directions, \
             forked_from IS NOT NULL AS is_fork FROM runs WHERE id = $1",
        )
        .bind(run.uuid())
        .fetch_optional(&mut *view)
        .await
        .context("read a run")?;
        let row = row.ok_or_else(|| StoreError::Unknown {
            subject: "run",
            id: run.to_string(),
        })?;
        let from = i64::try_from(known.len()).unwrap_or(i64::MAX);
        known.extend(entries(&mut view, run, from).await?);
        let spend = calls::spend(&mut view, run).await?;
        let (promotion, refused) = if row.has_promotions {
            promotion(&mut view, run).await?
        } else {
            (PromotionProgress::None, Vec::new())
        };
        let steering = if row.has_directions {
            steering::in_force(&mut view, run).await?
        } else {
            Steering::default()
        };
        let refused_ids = refused.iter().map(|refused| refused.candidate);
        let excluded = refused_ids.chain(steering.banned.iter().copied()).collect();
        let forked_from = if row.is_fork {
            steering::origin(&mut view, run).await?
        } else {
            None
        };
        let row_ref = RowRef::new("runs", run);
        Ok(Snapshot {
            run,
            request: row_ref.json("request", &row.request)?,
            state: row_ref.run_state(&row.state, &row.state_detail)?,
            content: content(run, &row.task_content)?,
            elapsed: Duration::from_micros(row_ref.number("elapsed", row.elapsed)?),
            finish_requested: row.finish_requested == 1,
            spend,
            settled: leading(&known, settled),
            entries: known,
            promotion,
            refused,
            excluded,
            steering,
            forked_from,
        })
    }
}

/// The candidates of a run from an ordinal on.
pub(crate) async fn entries(
    view: &mut Connection,
    run: RunId,
    from: i64,
) -> Result<Vec<Entry>, StoreError> {
    let rows: Vec<EntryRow> = query_as(
        "SELECT c.id, c.parent, c.operator, c.generation, c.configuration, c.trial, \
         o.state, o.state_detail, e.speedup, e.promotable, e.unmet_phases, e.verdict, \
         (c.duplicate_of IS NOT NULL OR c.repeats IS NOT NULL) AS duplicate, c.idea, e.image, e.floor_share, \
         c.technique, e.bound, c.proposer, c.cost FROM candidates c \
         JOIN candidates o ON o.id = COALESCE(c.duplicate_of, c.id) \
         LEFT JOIN evaluations e ON e.candidate = o.id AND e.stage <> 'confirmation' \
         WHERE c.run = $1 AND c.ordinal >= $2 ORDER BY c.ordinal",
    )
    .bind(run.uuid())
    .bind(from)
    .fetch_all(view)
    .await
    .context("read the run's candidates")?;
    rows.into_iter().map(Entry::try_from).collect()
}

/// The number of entries before the first pending one, of which the first `settled` are not.
fn leading(entries: &[Entry], settled: usize) -> usize {
    let mut further = entries.iter().skip(settled);
    let pending = further.position(|entry| entry.state == EntryState::Pending);
    pending.map_or(entries.len(), |more| settled + more)
}

pub(crate) async fn promotion(
    connection: &mut Connection,
    run: RunId,
) -> Result<(PromotionProgress, Vec<RefusedCandidate>), StoreError> {
    let states: Vec<(String, Uuid)> =
        query_as("SELECT state, candidate FROM promotions WHERE run = $1 ORDER BY created_at, id")
            .bind(run.uuid())
            .fetch_all(&mut *connection)
            .await
            .context("read the promotions")?;
    let any = |wanted: &[&str]| {
        let mut states = states.iter();
        states.any(|(state, _)| wanted.contains(&state.as_str()))
    };
    let mut newest_first = states.iter().rev();
    let committed = newest_first.find(|(state, _)| state == "committed");
    let progress = match committed {
        _ if any(&["confirming", "blocked"]) => PromotionProgress::Underway,
        Some((_, candidate)) => PromotionProgress::Committed(CandidateId::from(*candidate)),
        None => PromotionProgress::None,
    };
    if !any(&["refused", "reverted"]) {
        return Ok((progress, Vec::new()));
    }
    // The same code under another name is refused with it.
    let rows: Vec<(Uuid, Option<String>)> = query_as(
        "SELECT c.id, (SELECT e.verdict FROM evaluations e WHERE e.candidate = p.candidate \
         AND e.stage = 'confirmation' ORDER BY e.created_at DESC, e.id DESC LIMIT 1) \
         FROM candidates c JOIN promotions p \
         ON p.candidate = COALESCE(c.duplicate_of, c.id) \
         WHERE c.run = $1 AND p.state IN ('refused', 'reverted') ORDER BY c.ordinal",
    )
    .bind(run.uuid())
    .fetch_all(connection)
    .await
    .context("read the refused promotions")?;
    let refused = rows.into_iter().map(|(id, verdict)| {
        let candidate = CandidateId::from(id);
        let row_ref = RowRef::new("evaluations", candidate);
        let verdict = verdict.map(|verdict| row_ref.word("verdict", &verdict));
        let verdict = verdict.transpose()?;
        Ok(RefusedCandidate { candidate, verdict })
    });
    let refused = refused.collect::<Result<_, StoreError>>()?;
    Ok((progress, refused))
}
