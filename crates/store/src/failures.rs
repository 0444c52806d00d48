//! Failed candidates by the cause of their verdict.

use crate::sql::{query, query_as};
use chrono::{DateTime, Utc};
use domain::api::{FailureCluster, FailureMember, FailureMembers, FailurePage, Share, TrendSpans};
use domain::evaluation::Evaluation;
use domain::failure;
use domain::id::{CandidateId, RunId};
use domain::verdict::VerdictKind;
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::{RowRef, micros};
use crate::{Connection, Store, StoreError, runs};

/// Examples that a page shows of each cluster.
const EXAMPLES: i64 = 3;
/// The spans of time by which a cluster's trend counts.
const SPANS: i64 = 24;
/// Operators and proposers that a cluster names.
const SHARES: usize = 10;

/// Records a candidate whose evaluation in the search was no acceptance.
pub(crate) fn record(
    tx: &mut Connection,
    run: RunId,
    candidate: CandidateId,
    evaluation: &Evaluation,
    now: DateTime<Utc>,
) {
    let Some(cause) = failure::cause(&evaluation.verdict) else {
        return;
    };
    query(
        "INSERT INTO failures (run, verdict, cause, at, candidate, operator, proposer) \
         SELECT $1, $2, $3, $4, id, json_extract(operator, '$.operator'), proposer \
         FROM candidates WHERE id = $5",
    )
    .bind(run.uuid())
    .bind(evaluation.verdict.kind().as_str())
    .bind(cause)
    .bind(micros(now))
    .bind(candidate.uuid())
    .defer(tx);
}

#[derive(sqlx::FromRow)]
struct ClusterRow {
    verdict: String,
    cause: String,
    count: i64,
    runs: i64,
    first: i64,
    last: i64,
}

#[derive(sqlx::FromRow)]
struct MemberRow {
    candidate: Uuid,
    ordinal: i64,
    title: String,
    run: Uuid,
    run_name: String,
    summary: String,
    line: Option<i64>,
    at: i64,
}

impl MemberRow {
    fn read(self) -> Result<FailureMember, StoreError> {
        let row_ref = RowRef::new("failures", self.candidate);
        Ok(FailureMember {
            candidate: CandidateId::from(self.candidate),
            ordinal: row_ref.number("ordinal", self.ordinal)?,
            title: self.title,
            run: RunId::from(self.run),
            run_name: self.run_name,
            summary: self.summary,
            line: self
                .line
                .map(|line| row_ref.number("line", line))
                .transpose()?,
            at: row_ref.time("at", self.at)?,
        })
    }
}

/// Selects the candidates of one cluster: `$1` is the run or none, `$2` the verdict, `$3` the cause.
/// Two conditions on the run rather than one, so that either index is used.
macro_rules! members {
    ($run:literal) => {
        concat!(
            "SELECT f.candidate, c.ordinal, c.title, f.run, r.name AS run_name, e.summary, e.line, f.at \
             FROM failures f JOIN candidates c ON c.id = f.candidate JOIN runs r ON r.id = f.run \
             JOIN evaluations e ON e.candidate = f.candidate AND e.stage <> 'confirmation' WHERE ",
            $run,
            " AND f.verdict = $2 AND f.cause = $3 AND (f.at, f.candidate) < ($4, $5) \
             ORDER BY f.at DESC, f.candidate DESC LIMIT $6"
        )
    };
}

impl Store {
    /// Clusters of failed candidates, the largest first; those of one run if one is named. `skip` of
    /// them are left out, at most `limit` follow.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn failures(
        &self,
        run: Option<RunId>,
        skip: u32,
        limit: u32,
    ) -> Result<FailurePage, StoreError> {
        let mut view = self.view().await?;
        let (counted, clustered) = match run {
            Some(run) => {
                runs::require(&mut view, run).await?;
                (
                    "SELECT COUNT(*), MIN(at), MAX(at) FROM failures WHERE run = $1",
                    "SELECT verdict, cause, COUNT(*) AS count, CAST(1 AS BIGINT) AS runs, MIN(at) AS first, MAX(at) AS last \
                     FROM failures WHERE run = $1 GROUP BY verdict, cause \
                     ORDER BY count DESC, verdict, cause LIMIT $2 OFFSET $3",
                )
            }
            None => (
                "SELECT COUNT(*), MIN(at), MAX(at) FROM failures WHERE $1 IS NULL",
                "SELECT verdict, cause, COUNT(*) AS count, COUNT(DISTINCT run) AS runs, MIN(at) AS first, \
                 MAX(at) AS last FROM failures WHERE $1 IS NULL GROUP BY verdict, cause \
                 ORDER BY count DESC, verdict, cause LIMIT $2 OFFSET $3",
            ),
        };
        let (total, first, last): (i64, Option<i64>, Option<i64>) = query_as(counted)
            .bind(run.map(RunId::uuid))
            .fetch_one(&mut *view)
            .await
            .context("count the failures")?;
        let rows: Vec<ClusterRow> = query_as(clustered)
            .bind(run.map(RunId::uuid))
            .bind(i64::from(limit) + 1)
            .bind(i64::from(skip))
            .fetch_all(&mut *view)
            .await
            .context("cluster the failures")?;
        let more = rows.len() > limit as usize;
        let all = RowRef::new("failures", "in all");
        // Every span has the same length, and the last one holds the latest verdict.
        let from = first.unwrap_or_default();
        let span = (last.unwrap_or_default() - from) / SPANS + 1;
        let mut clusters = Vec::with_capacity(rows.len());
        for row in rows.into_iter().take(limit as usize) {
            clusters.push(cluster(&mut view, run, row, (from, span)).await?);
        }
        let spans = first.map(|first| {
            Ok::<_, StoreError>(TrendSpans {
                from: all.time("at", first)?,
                span_us: all.number("at", span)?,
                spans: all.number("spans", SPANS)?,
            })
        });
        Ok(FailurePage {
            total: all.number("count", total)?,
            spans: spans.transpose()?,
            clusters,
            next: more.then(|| (skip + limit).to_string()),
        })
    }

    /// The candidates of one cluster that come after `after`, the latest first; at most `limit`.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn failure_members(
        &self,
        run: Option<RunId>,
        verdict: VerdictKind,
        cause: &str,
        after: Option<(i64, CandidateId)>,
        limit: u32,
    ) -> Result<FailureMembers, StoreError> {
        let mut view = self.view().await?;
        if let Some(run) = run {
            runs::require(&mut view, run).await?;
        }
        let limit = i64::from(limit);
        let of = (verdict.as_str(), cause);
        let mut found = members(&mut view, run, of, after, limit + 1).await?;
        let more = found.len() > limit as usize;
        found.truncate(limit as usize);
        let next = found
            .last()
            .filter(|_| more)
            .map(|last| format!("{}-{}", micros(last.at), last.candidate.uuid().simple()));
        Ok(FailureMembers {
            candidates: found,
            next,
        })
    }
}

async fn cluster(
    view: &mut Connection,
    run: Option<RunId>,
    row: ClusterRow,
    (from, span): (i64, i64),
) -> Result<FailureCluster, StoreError> {
    let made: Vec<(String, String, i64, i64)> = query_as(match run {
        Some(_) => {
            "SELECT operator, proposer, (at - $4) / $5 AS span, COUNT(*) FROM failures \
             WHERE run = $1 AND verdict = $2 AND cause = $3 GROUP BY operator, proposer, span"
        }
        None => {
            "SELECT operator, proposer, (at - $4) / $5 AS span, COUNT(*) FROM failures \
             WHERE $1 IS NULL AND verdict = $2 AND cause = $3 GROUP BY operator, proposer, span"
        }
    })
    .bind(run.map(RunId::uuid))
    .bind(&row.verdict)
    .bind(&row.cause)
    .bind(from)
    .bind(span)
    .fetch_all(&mut *view)
    .await
    .context("share out a cluster of failures")?;
    let of = (row.verdict.as_str(), row.cause.as_str());
    let examples = members(view, run, of, None, EXAMPLES).await?;
    let row_ref = RowRef::new("failures", &row.cause);
    let operators = made
        .iter()
        .map(|(operator, _, _, count)| (operator, *count));
    let proposers = made
        .iter()
        .map(|(_, proposer, _, count)| (proposer, *count));
    let mut trend = vec![0; SPANS as usize];
    for (_, _, span, count) in &made {
        // The spans were computed in the same view, so that each verdict lies in one.
        trend[row_ref.number::<usize>("at", *span)?] += row_ref.number::<u32>("count", *count)?;
    }
    Ok(FailureCluster {
        verdict: row_ref.word("verdict", &row.verdict)?,
        count: row_ref.number("count", row.count)?,
        runs: row_ref.number("runs", row.runs)?,
        first_seen: row_ref.time("at", row.first)?,
        last_seen: row_ref.time("at", row.last)?,
        trend,
        operators: shares(&row_ref, operators)?,
        proposers: shares(&row_ref, proposers)?,
        examples,
        cause: row.cause,
    })
}

/// Adds up the counts of each name, the largest first.
fn shares<'a>(
    row_ref: &RowRef,
    counted: impl Iterator<Item = (&'a String, i64)>,
) -> Result<Vec<Share>, StoreError> {
    let mut sums = std::collections::BTreeMap::<&str, i64>::new();
    for (name, count) in counted {
        *sums.entry(name).or_default() += count;
    }
    let mut sums = sums.into_iter().collect::<Vec<_>>();
    sums.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    sums.into_iter()
        .take(SHARES)
        .map(|(name, count)| {
            Ok(Share {
                name: name.to_owned(),
                count: row_ref.number("count", count)?,
            })
        })
        .collect()
}

async fn members(
    view: &mut Connection,
    run: Option<RunId>,
    (verdict, cause): (&str, &str),
    after: Option<(i64, CandidateId)>,
    limit: i64,
) -> Result<Vec<FailureMember>, StoreError> {
    let (at, candidate) = after.map_or((i64::MAX, Uuid::max()), |(at, id)| (at, id.uuid()));
    let rows: Vec<MemberRow> = query_as(match run {
        Some(_) => members!("f.run = $1"),
        None => members!("$1 IS NULL"),
    })
    .bind(run.map(RunId::uuid))
    .bind(verdict)
    .bind(cause)
    .bind(at)
    .bind(candidate)
    .bind(limit)
    .fetch_all(view)
    .await
    .context("list the candidates of a cluster of failures")?;
    rows.into_iter().map(MemberRow::read).collect()
}
