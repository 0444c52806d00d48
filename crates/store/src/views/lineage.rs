//! Long runs in columns: slices of the lineage, totals by generation, and the curve of the best.

use std::collections::HashMap;

use crate::sql::{Flag, QueryBuilder, query_as, query_scalar};
use chrono::{DateTime, Utc};
use domain::api::{Curve, LineageColumns, LineageGenerations};
use domain::id::{CandidateId, RunId};
use domain::search::Operator;

use super::islands::Islands;
use super::kept;
use crate::error::ErrorContext;
use crate::rows::RowRef;
use crate::{Connection, Store, StoreError, judgements};

/// The most buckets of a curve.
pub const MAX_CURVE_BUCKETS: u32 = 400;

/// The most buckets of generations.
const BUCKETS: u32 = 400;
/// The most links between buckets of generations.
const LINKS: u32 = 2_000;
/// The most ancestors that a path or a slice around a candidate shows.
const ANCESTORS: u32 = 1_000;
/// The most descendants that a slice around a candidate shows, the nearest.
const DESCENDANTS: u32 = 1_000;

/// The candidates of a slice of a lineage. A limit that is absent lets all pass.
#[derive(Debug, Clone, Default)]
pub struct LineageQuery {
    /// The lowest generation.
    pub from_generation: Option<u32>,
    /// The highest generation.
    pub to_generation: Option<u32>,
    /// The candidate whose ancestors and descendants along primary parents are shown.
    pub around: Option<u32>,
    /// The ordinal before the slice.
    pub after: Option<u32>,
}

#[derive(sqlx::FromRow)]
struct NodeRow {
    #[sqlx(try_from = "i64")]
    ordinal: u32,
    #[sqlx(try_from = "i64")]
    generation: u32,
    parent_ordinal: Option<i64>,
    further_parents: String,
    operator: String,
    state: String,
    verdict: Option<String>,
    speedup: Option<f64>,
    at: i64,
    #[sqlx(try_from = "Flag")]
    duplicate: bool,
}

#[derive(sqlx::FromRow)]
struct GenerationsRow {
    #[sqlx(try_from = "i64")]
    bucket: u32,
    #[sqlx(try_from = "i64")]
    first: u32,
    #[sqlx(try_from = "i64")]
    last: u32,
    #[sqlx(try_from = "i64")]
    candidates: u32,
    #[sqlx(try_from = "i64")]
    unjudged: u32,
    #[sqlx(try_from = "i64")]
    accepted: u32,
    fastest: Option<f64>,
}

#[derive(sqlx::FromRow)]
struct CurveRow {
    #[sqlx(try_from = "i64")]
    bucket: u32,
    #[sqlx(try_from = "i64")]
    accepted: u32,
    fastest: Option<f64>,
    #[sqlx(try_from = "i64")]
    ordinal: u32,
    judged_at: Option<i64>,
}

/// The size of a run.
struct Extent {
    created_at: DateTime<Utc>,
    total: u32,
    last_generation: u32,
}

impl Extent {
    async fn read(view: &mut Connection, run: RunId) -> Result<Self, StoreError> {
        let row: Option<(i64, i64, i64)> = query_as(
            "SELECT r.created_at, \
             (SELECT COALESCE(MAX(ordinal) + 1, 0) FROM candidates WHERE run = r.id), \
             (SELECT COALESCE(MAX(generation), 0) FROM candidates WHERE run = r.id) \
             FROM runs r WHERE r.id = $1",
        )
        .bind(run.uuid())
        .fetch_optional(view)
        .await
        .context("measure a run")?;
        let (created_at, total, last_generation) = row.ok_or_else(|| StoreError::Unknown {
            subject: "run",
            id: run.to_string(),
        })?;
        let row_ref = RowRef::new("runs", run);
        Ok(Self {
            created_at: row_ref.time("created_at", created_at)?,
            total: row_ref.number("ordinal", total)?,
            last_generation: row_ref.number("generation", last_generation)?,
        })
    }

    /// Whole seconds from the run's creation to a moment.
    fn seconds(&self, micros: i64) -> u32 {
        let since = micros - self.created_at.timestamp_micros();
        u32::try_from(since.max(0) / 1_000_000).unwrap_or(u32::MAX)
    }
}

impl Store {
    /// A slice of a run's lineage by ordinal.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn lineage_columns(
        &self,
        run: RunId,
        query: &LineageQuery,
        limit: u32,
    ) -> Result<LineageColumns, StoreError> {
        let mut view = self.view().await?;
        let extent = Extent::read(&mut view, run).await?;
        let mut rows: Vec<NodeRow> = select(run, query, limit)
            .build_query_as()
            .fetch_all(&mut *view)
            .await
            .context("read a slice of the lineage")?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let mut columns = LineageColumns {
            total: extent.total,
            last_generation: extent.last_generation,
            best: best(&mut view, run).await?,
            next: rows
                .last()
                .filter(|_| more)
                .map(|last| last.ordinal.to_string()),
            ..LineageColumns::default()
        };
        let mut further: Vec<(u32, CandidateId)> = Vec::new();
        let mut islands = Islands::of(&mut view, run).await?;
        for row in rows {
            let row_ref = RowRef::new("candidates", row.ordinal);
            let operator: Operator = row_ref.json("operator", &row.operator)?;
            let outcome = match (&row.verdict, row.state.as_str()) {
                (Some(verdict), _) => verdict.as_str(),
                (None, "abandoned") => "abandoned",
                (None, _) => "pending",
            };
            let parents: Vec<CandidateId> =
                row_ref.json("further_parents", &row.further_parents)?;
            further.extend(parents.into_iter().map(|parent| (row.ordinal, parent)));
            if row.duplicate {
                columns.duplicates.push(row.ordinal);
            }
            columns.ordinals.push(row.ordinal);
            columns.generations.push(row.generation);
            let parent = row
                .parent_ordinal
                .map(|parent| row_ref.number("parent_ordinal", parent))
                .transpose()?;
            columns.parents.push(parent);
            if islands.are_kept() {
                let island = islands.find(&mut view, row.ordinal, parent, &operator);
                columns.islands.push(island.await?);
            }
            let operator = number(&mut columns.operator_names, operator.as_str());
            columns.operators.push(operator);
            let outcome = number(&mut columns.outcome_names, outcome);
            columns.outcomes.push(outcome);
            columns.speedups.push(row.speedup.map(rounded));
            columns.seconds.push(extent.seconds(row.at));
        }
        columns.further_parents = with_ordinals(&mut view, &further).await?;
        Ok(columns)
    }

    /// Totals of a run's lineage by generation.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn lineage_generations(&self, run: RunId) -> Result<LineageGenerations, StoreError> {
        let mut view = self.view().await?;
        let last_event = kept::last_event(&mut view, run).await?;
        if let Some(known) = self.generations.get(&run, last_event) {
            return Ok(known);
        }
        let extent = Extent::read(&mut view, run).await?;
        let width = (extent.last_generation + 1).div_ceil(BUCKETS);
        let rows: Vec<GenerationsRow> = query_as(
            "SELECT generation / $2 AS bucket, MIN(first) AS first, MAX(last) AS last, \
             CAST(SUM(candidates) AS BIGINT) AS candidates, \
             CAST(SUM(unjudged) AS BIGINT) AS unjudged, CAST(SUM(accepted) AS BIGINT) AS accepted, \
             MAX(fastest) AS fastest FROM (SELECT generation, MIN(ordinal) AS first, \
             MAX(ordinal) AS last, COUNT(*) AS candidates, COUNT(*) - COUNT(verdict) AS unjudged, \
             COUNT(speedup) AS accepted, MAX(speedup) AS fastest \
             FROM candidates WHERE run = $1 GROUP BY generation) AS g GROUP BY bucket ORDER BY bucket",
        )
        .bind(run.uuid())
        .bind(i64::from(width))
        .fetch_all(&mut *view)
        .await
        .context("add up the generations")?;
        let mut answer = LineageGenerations {
            total: extent.total,
            last_generation: extent.last_generation,
            width,
            ..LineageGenerations::default()
        };
        let mut places: HashMap<i64, u32> = HashMap::new();
        for (place, row) in (0..).zip(rows) {
            places.insert(i64::from(row.bucket), place);
            answer.generations.push(row.bucket * width);
            answer.first.push(row.first);
            answer.last.push(row.last);
            answer.candidates.push(row.candidates);
            answer.unjudged.push(row.unjudged);
            answer.accepted.push(row.accepted);
            answer.fastest.push(row.fastest.map(rounded));
        }
        let links: Vec<(i64, i64, i64)> = query_as(
            "SELECT parent_generation / $2 AS parents, generation / $2 AS children, \
             COUNT(*) AS count FROM candidates \
             WHERE run = $1 AND parent_generation IS NOT NULL GROUP BY parents, children \
             ORDER BY count DESC, children, parents LIMIT $3",
        )
        .bind(run.uuid())
        .bind(i64::from(width))
        .bind(i64::from(LINKS))
        .fetch_all(&mut *view)
        .await
        .context("add up the parents of generations")?;
        answer.links = links
            .into_iter()
            .filter_map(|(parents, children, count)| {
                let count = u32::try_from(count).ok()?;
                Some([*places.get(&parents)?, *places.get(&children)?, count])
            })
            .collect();
        if let Some(best) = best(&mut view, run).await? {
            answer.path = path(&mut view, run, best).await?;
        }
        self.generations.put(run, last_event, answer.clone());
        Ok(answer)
    }

    /// The best speedup over the candidates of a run, in at most `buckets` parts, from 1 to [`MAX_CURVE_BUCKETS`].
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn curve(&self, run: RunId, buckets: u32) -> Result<Curve, StoreError> {
        let mut view = self.view().await?;
        let last_event = kept::last_event(&mut view, run).await?;
        if let Some(known) = self.curves.get(&(run, buckets), last_event) {
            return Ok(known);
        }
        let extent = Extent::read(&mut view, run).await?;
        let width = extent
            .total
            .div_ceil(buckets.clamp(1, MAX_CURVE_BUCKETS))
            .max(1);
        // With one MAX, SQLite takes the other columns from the row that has the greatest value.
        let rows: Vec<CurveRow> = query_as(
            "SELECT ordinal / $2 AS bucket, COUNT(speedup) AS accepted, MAX(speedup) AS fastest, \
             ordinal, judged_at FROM candidates WHERE run = $1 GROUP BY bucket ORDER BY bucket",
        )
        .on_postgres(
            "SELECT DISTINCT ON (bucket) bucket, COUNT(speedup) OVER (PARTITION BY bucket) \
             AS accepted, speedup AS fastest, ordinal, judged_at FROM (SELECT ordinal / $2 AS bucket, \
             ordinal, speedup, judged_at FROM candidates WHERE run = $1) AS c \
             ORDER BY bucket, speedup DESC NULLS LAST, ordinal",
        )
        .bind(run.uuid())
        .bind(i64::from(width))
        .fetch_all(&mut *view)
        .await
        .context("read the curve of a run")?;
        let mut curve = Curve {
            total: extent.total,
            width,
            ..Curve::default()
        };
        let mut best: Option<f64> = None;
        for row in rows {
            let is_accepted = row.fastest.is_some();
            best = best.into_iter().chain(row.fastest).reduce(f64::max);
            curve.ordinals.push(row.bucket * width);
            curve.accepted.push(row.accepted);
            curve.fastest.push(row.fastest.map(rounded));
            curve
                .fastest_ordinals
                .push(is_accepted.then_some(row.ordinal));
            let judged_at = row.judged_at.filter(|_| is_accepted);
            curve
                .fastest_seconds
                .push(judged_at.map(|at| extent.seconds(at)));
            curve.best.push(best.map(rounded));
        }
        self.curves.put((run, buckets), last_event, curve.clone());
        Ok(curve)
    }
}

/// The statement of a slice.
fn select(run: RunId, query: &LineageQuery, limit: u32) -> QueryBuilder {
    let mut sql = QueryBuilder::new("");
    if let Some(around) = query.around {
        sql.push("WITH RECURSIVE up(ordinal) AS (SELECT ")
            .push_bind(i64::from(around))
            .push(
                " UNION SELECT c.parent_ordinal FROM up \
                 JOIN candidates c ON c.ordinal = up.ordinal AND c.run = ",
            )
            .push_bind(run.uuid())
            .push(" WHERE c.parent_ordinal IS NOT NULL), down(id, ordinal) AS (SELECT id, ordinal FROM candidates WHERE run = ")
            .push_bind(run.uuid())
            .push(" AND ordinal = ")
            .push_bind(i64::from(around))
            .push(
                " UNION SELECT c.id, c.ordinal FROM down JOIN candidates c ON c.parent = down.id) ",
            );
    }
    sql.push(
        "SELECT ordinal, generation, parent_ordinal, further_parents, operator, state, verdict, \
         speedup, COALESCE(judged_at, created_at) AS at, (duplicate_of IS NOT NULL OR repeats IS NOT NULL) AS duplicate \
         FROM candidates WHERE run = ",
    )
    .push_bind(run.uuid())
    .push(" AND ordinal >= ")
    .push_bind(query.after.map_or(0, |after| i64::from(after) + 1));
    if let Some(from) = query.from_generation {
        sql.push(" AND generation >= ").push_bind(i64::from(from));
    }
    if let Some(to) = query.to_generation {
        sql.push(" AND generation <= ").push_bind(i64::from(to));
    }
    if query.around.is_some() {
        // Both databases recur no further than the rows that are read.
        sql.push(" AND ordinal IN (SELECT * FROM (SELECT ordinal FROM up LIMIT ")
            .push_bind(i64::from(ANCESTORS))
            .push(") AS a UNION SELECT * FROM (SELECT ordinal FROM down LIMIT ")
            .push_bind(i64::from(DESCENDANTS))
            .push(") AS d)");
    }
    sql.push(" ORDER BY ordinal LIMIT ")
        .push_bind(i64::from(limit) + 1);
    sql
}

/// The position of a name in a list, at whose end a new one is added.
fn number(names: &mut Vec<String>, name: &str) -> u8 {
    let known = names.iter().position(|known| known == name);
    let place = known.unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    u8::try_from(place).expect("there are fewer operators and verdicts than 256")
}

/// A speedup with four decimals, which is more than its error leaves.
fn rounded(speedup: f64) -> f64 {
    (speedup * 1e4).round() / 1e4
}

/// Replaces further parents by their ordinals.
async fn with_ordinals(
    view: &mut Connection,
    further: &[(u32, CandidateId)],
) -> Result<Vec<[u32; 2]>, StoreError> {
    let mut ordinals: HashMap<CandidateId, u32> = HashMap::new();
    let mut pairs = Vec::with_capacity(further.len());
    for (child, parent) in further {
        let ordinal = match ordinals.get(parent) {
            Some(ordinal) => *ordinal,
            None => {
                let ordinal = ordinal(view, *parent).await?;
                ordinals.insert(*parent, ordinal);
                ordinal
            }
        };
        pairs.push([*child, ordinal]);
    }
    Ok(pairs)
}

async fn ordinal(view: &mut Connection, candidate: CandidateId) -> Result<u32, StoreError> {
    let ordinal: i64 = query_scalar("SELECT ordinal FROM candidates WHERE id = $1")
        .bind(candidate.uuid())
        .fetch_one(view)
        .await
        .context("find a candidate's position")?;
    RowRef::new("candidates", candidate).number("ordinal", ordinal)
}

/// The ordinal of the run's best candidate.
async fn best(view: &mut Connection, run: RunId) -> Result<Option<u32>, StoreError> {
    match judgements::best(view, run).await? {
        Some(best) => ordinal(view, best).await.map(Some),
        None => Ok(None),
    }
}

/// Ordinals from a candidate to the baseline along primary parents.
async fn path(view: &mut Connection, run: RunId, from: u32) -> Result<Vec<u32>, StoreError> {
    // Both databases recur no further than the rows that are read.
    let ordinals: Vec<i64> = query_scalar(
        "WITH RECURSIVE up(ordinal) AS (SELECT $2 UNION ALL SELECT c.parent_ordinal FROM up \
         JOIN candidates c ON c.ordinal = up.ordinal AND c.run = $1 \
         WHERE c.parent_ordinal IS NOT NULL) SELECT ordinal FROM up LIMIT $3",
    )
    .bind(run.uuid())
    .bind(i64::from(from))
    .bind(i64::from(ANCESTORS))
    .fetch_all(view)
    .await
    .context("find the best candidate's ancestors")?;
    let row_ref = RowRef::new("candidates", run);
    let ordinals = ordinals.into_iter();
    ordinals
        .map(|ordinal| row_ref.number("parent_ordinal", ordinal))
        .collect()
}
