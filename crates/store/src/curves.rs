//! The best speedup so far over a run's trials.

use crate::sql::query_as;
use domain::api::{CandidatesCost, ComparedRun, CurvePoint};
use domain::id::{CandidateId, RunId};
use domain::model::Dollars;
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::RowRef;
use crate::{Store, StoreError, views};

/// A point of a curve, with sums over the candidates since the point before it.
#[derive(sqlx::FromRow)]
struct PointRow {
    id: Uuid,
    ordinal: i64,
    speedup: f64,
    uncharged: i64,
    cost: Option<i64>,
    device_us: Option<i64>,
}

/// The values of a curve's points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CurveDetail {
    /// Trials and speedups, which indexes have.
    Trials,
    /// The cost of the candidates up to each point, too. It reads all candidates up to the last point.
    Costs,
}

impl Store {
    /// A run with its device and its curve.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn compared_run(
        &self,
        run: RunId,
        detail: CurveDetail,
    ) -> Result<ComparedRun, StoreError> {
        let mut view = self.view().await?;
        let run_view = views::run_view(&mut view, run).await?;
        // Each point counts the candidates since the point before it, so that none is counted twice.
        let rows: Vec<PointRow> = query_as(
            "WITH faster AS (SELECT ordinal, speedup, LAG(ordinal, 1, -1) OVER (ORDER BY ordinal) AS since \
             FROM (SELECT ordinal, speedup, MAX(speedup) OVER \
             (ORDER BY ordinal ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before \
             FROM candidates WHERE run = $1 AND speedup IS NOT NULL) AS timed \
             WHERE before IS NULL OR speedup > before) \
             SELECT c.id, f.ordinal, f.speedup, (SELECT COUNT(*) FROM candidates u WHERE u.run = $1 \
             AND u.trial = 0 AND u.ordinal > f.since AND u.ordinal <= f.ordinal) AS uncharged, \
             CASE WHEN $2 = 1 THEN (SELECT CAST(COALESCE(SUM(u.cost), 0) AS BIGINT) FROM candidates u WHERE u.run = $1 \
             AND u.ordinal > f.since AND u.ordinal <= f.ordinal) END AS cost, \
             CASE WHEN $2 = 1 THEN (SELECT CAST(COALESCE(SUM(e.device_us), 0) AS BIGINT) FROM candidates u \
             JOIN evaluations e ON e.candidate = u.id WHERE u.run = $1 \
             AND u.ordinal > f.since AND u.ordinal <= f.ordinal) END AS device_us \
             FROM faster f JOIN candidates c ON c.run = $1 AND c.ordinal = f.ordinal ORDER BY f.ordinal",
        )
        .bind(run.uuid())
        .bind(i64::from(detail == CurveDetail::Costs))
        .fetch_all(&mut *view)
        .await
        .context("read a run's curve")?;
        Ok(ComparedRun {
            device: run_view.device.clone(),
            run: run_view,
            curve: curve(run, rows)?,
            best_at_equal_trials: None,
        })
    }
}

/// Points with sums over all candidates up to each.
fn curve(run: RunId, rows: Vec<PointRow>) -> Result<Vec<CurvePoint>, StoreError> {
    let row_ref = RowRef::new("runs", run);
    let (mut uncharged, mut cost, mut device_us) = (0, 0, 0);
    rows.into_iter()
        .map(|row| {
            uncharged += row.uncharged;
            let spent = match (row.cost, row.device_us) {
                (Some(added_cost), Some(added_us)) => {
                    cost += added_cost;
                    device_us += added_us;
                    Some(CandidatesCost {
                        dollars: Dollars::from_nanos(row_ref.number("cost", cost)?),
                        device_ms: row_ref.number::<u64>("device_us", device_us)? / 1000,
                    })
                }
                _ => None,
            };
            Ok(CurvePoint {
                trial: row_ref.number("ordinal", row.ordinal + 1 - uncharged)?,
                candidate: CandidateId::from(row.id),
                ordinal: row_ref.number("ordinal", row.ordinal)?,
                speedup: row.speedup,
                spent,
            })
        })
        .collect()
}
