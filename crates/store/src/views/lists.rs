//! Lists of candidates by filter and order, in pages.

use std::fmt;
use std::str::FromStr;

use crate::sql::{QueryBuilder, query_scalar};
use domain::api::{CandidateOrder, CandidatePage, CandidateSummary};
use domain::digest::Digest;
use domain::id::{CandidateId, RunId};
use domain::verdict::VerdictKind;

use super::{RunFacts, SummaryRow, summaries};
use crate::error::ErrorContext;
use crate::rows::RowRef;
use crate::{Connection, Store, StoreError, runs};

/// Candidates that one page examines for filters without an index. A page of such a list may be short,
/// and still have a next one.
const EXAMINED: u32 = 20_000;

/// The candidates of a list. A filter that is absent lets all pass.
#[derive(Debug, Clone, Default)]
pub struct CandidateQuery {
    /// The verdict; of duplicates that of the original.
    pub verdict: Option<VerdictKind>,
    /// The generation.
    pub generation: Option<u32>,
    /// The position in the run.
    pub ordinal: Option<u32>,
    /// Identities; of any candidate if empty.
    pub ids: Vec<CandidateId>,
    /// Identity of the code.
    pub digest: Option<Digest>,
    /// Name of the operator.
    pub operator: Option<String>,
    /// The proposer: the model, for candidates that models wrote.
    pub proposer: Option<String>,
    /// Part of the title or the thought, in either case of ASCII letters.
    pub text: Option<String>,
    /// The order.
    pub order: CandidateOrder,
    /// The end of the page before.
    pub after: Option<Cursor>,
}

impl CandidateQuery {
    /// Returns true if rows are examined that no index selects.
    fn examines_rows(&self) -> bool {
        self.operator.is_some() || self.proposer.is_some() || self.text.is_some()
    }
}

/// The position of a list's page: `17`, or `17@1.25` where it is ordered by speedup.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cursor {
    ordinal: u32,
    speedup: Option<f64>,
}

impl From<u32> for Cursor {
    fn from(ordinal: u32) -> Self {
        Self {
            ordinal,
            speedup: None,
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ordinal)?;
        self.speedup
            .map_or(Ok(()), |speedup| write!(f, "@{speedup}"))
    }
}

/// A text that is no cursor.
#[derive(Debug, thiserror::Error)]
#[error("read a cursor: {0:?} is none")]
pub struct CursorError(String);

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let (ordinal, speedup) = match text.split_once('@') {
            Some((ordinal, speedup)) => (ordinal, Some(speedup)),
            None => (text, None),
        };
        let wrong = || CursorError(text.to_owned());
        Ok(Self {
            ordinal: ordinal.parse().map_err(|_| wrong())?,
            speedup: speedup.map(str::parse).transpose().map_err(|_| wrong())?,
        })
    }
}

impl Store {
    /// A page of candidates.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn list_candidates(
        &self,
        run: RunId,
        query: &CandidateQuery,
        limit: u32,
    ) -> Result<CandidatePage, StoreError> {
        let mut view = self.view().await?;
        runs::require(&mut view, run).await?;
        let end = next_ordinal(&mut view, run).await?;
        let (mut sql, edge) = select(run, query, end);
        sql.push(" LIMIT ").push_bind(i64::from(limit) + 1);
        let rows: Vec<SummaryRow> = sql
            .build_query_as()
            .fetch_all(&mut *view)
            .await
            .context("list the candidates")?;
        let more = rows.len() > limit as usize;
        let mut facts = RunFacts::read(&mut view, run).await?;
        let mut candidates = Vec::with_capacity(rows.len());
        for row in rows.into_iter().take(limit as usize) {
            candidates.push(row.read(&mut view, &mut facts).await?);
        }
        let next = if more {
            candidates.last().map(|last| cursor(last, query.order))
        } else {
            edge.map(Cursor::from)
        };
        Ok(CandidatePage {
            next: next.map(|cursor| cursor.to_string()),
            candidates,
        })
    }
}

async fn next_ordinal(view: &mut Connection, run: RunId) -> Result<u32, StoreError> {
    let next: i64 =
        query_scalar("SELECT COALESCE(MAX(ordinal) + 1, 0) FROM candidates WHERE run = $1")
            .bind(run.uuid())
            .fetch_one(view)
            .await
            .context("find the last candidate")?;
    RowRef::new("candidates", run).number("ordinal", next)
}

fn cursor(last: &CandidateSummary, order: CandidateOrder) -> Cursor {
    Cursor {
        ordinal: last.ordinal,
        speedup: last.speedup.filter(|_| order == CandidateOrder::Fastest),
    }
}

/// The statement without its limit, and the ordinal at which the examined part of the run ends, if
/// there is more behind it.
fn select(run: RunId, query: &CandidateQuery, end: u32) -> (QueryBuilder, Option<u32>) {
    // SQLite would look for a few ids among all candidates of the run, which come in the wanted order.
    let mut sql = QueryBuilder::new(if query.ids.is_empty() {
        summaries!("WHERE c.run = ")
    } else {
        summaries!("WHERE COALESCE(c.run, c.run) = ")
    });
    sql.push_bind(run.uuid());
    if let Some(verdict) = query.verdict {
        sql.push(" AND c.verdict = ").push_bind(verdict.as_str());
    }
    if let Some(generation) = query.generation {
        sql.push(" AND c.generation = ")
            .push_bind(i64::from(generation));
    }
    if let Some(ordinal) = query.ordinal {
        sql.push(" AND c.ordinal = ").push_bind(i64::from(ordinal));
    }
    if !query.ids.is_empty() {
        sql.push(" AND c.id IN (");
        for (index, id) in query.ids.iter().enumerate() {
            sql.push(if index > 0 { ", " } else { "" });
            sql.push_bind(id.uuid());
        }
        sql.push(")");
    }
    if let Some(digest) = query.digest {
        sql.push(" AND c.digest = ").push_bind(digest.to_string());
    }
    if let Some(operator) = &query.operator {
        sql.push(" AND json_extract(c.operator, '$.operator') = ")
            .push_bind(operator.clone());
    }
    if let Some(proposer) = &query.proposer {
        sql.push(" AND c.proposer = ").push_bind(proposer.clone());
    }
    if let Some(text) = &query.text {
        sql.push(" AND (instr(lower(c.title), lower(")
            .push_bind(text.clone())
            .push(
                ")) > 0 OR instr(lower(COALESCE(json_extract(c.idea, '$.hypothesis'), '')), lower(",
            )
            .push_bind(text.clone())
            .push(")) > 0)");
    }
    let edge = bound(&mut sql, query, end);
    (sql, edge)
}

/// Adds the order and the range of the page.
fn bound(sql: &mut QueryBuilder, query: &CandidateQuery, end: u32) -> Option<u32> {
    let examined = query.examines_rows().then_some(EXAMINED);
    match query.order {
        CandidateOrder::Ordinal => {
            let first = query
                .after
                .map_or(0, |after| after.ordinal.saturating_add(1));
            sql.push(" AND c.ordinal >= ").push_bind(i64::from(first));
            let edge = examined.map(|count| first.saturating_add(count - 1));
            let edge = edge.filter(|edge| edge.saturating_add(1) < end);
            if let Some(edge) = edge {
                sql.push(" AND c.ordinal <= ").push_bind(i64::from(edge));
            }
            sql.push(" ORDER BY c.ordinal");
            edge
        }
        CandidateOrder::Newest => {
            let last = query.after.map_or(end, |after| after.ordinal);
            sql.push(" AND c.ordinal < ").push_bind(i64::from(last));
            let edge = examined.and_then(|count| last.checked_sub(count));
            let edge = edge.filter(|edge| *edge > 0);
            if let Some(edge) = edge {
                sql.push(" AND c.ordinal >= ").push_bind(i64::from(edge));
            }
            sql.push(" ORDER BY c.ordinal DESC");
            edge
        }
        CandidateOrder::Fastest => {
            sql.push(" AND c.speedup IS NOT NULL");
            if let Some(after) = query.after {
                let speedup = after.speedup.unwrap_or(f64::MAX);
                sql.push(" AND c.speedup <= ")
                    .push_bind(speedup)
                    .push(" AND (c.speedup < ")
                    .push_bind(speedup)
                    .push(" OR c.ordinal > ")
                    .push_bind(i64::from(after.ordinal))
                    .push(")");
            }
            sql.push(" ORDER BY c.speedup DESC, c.ordinal");
            None
        }
    }
}
