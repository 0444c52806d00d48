//! The best speedup so far over a run's trials.

use crate::sql::{query_as, query_scalar};
use domain::api::{ComparedRun, CurvePoint};
use domain::id::{CandidateId, RunId};
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::RowRef;
use crate::{Store, StoreError, views};

impl Store {
    /// A run with its device and its curve.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn compared_run(&self, run: RunId) -> Result<ComparedRun, StoreError> {
        let mut view = self.view().await?;
        let run_view = views::run_view(&mut view, run).await?;
        let device: Option<String> = query_scalar("SELECT device FROM runs WHERE id = $1")
            .bind(run.uuid())
            .fetch_one(&mut *view)
            .await
            .context("read a run's device")?;
        // Each point counts the candidates since the point before it, so that none is counted twice.
        let rows: Vec<(Uuid, i64, f64, i64)> = query_as(
            "WITH faster AS (SELECT ordinal, speedup, LAG(ordinal, 1, -1) OVER (ORDER BY ordinal) AS since \
             FROM (SELECT ordinal, speedup, MAX(speedup) OVER \
             (ORDER BY ordinal ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before \
             FROM candidates WHERE run = $1 AND speedup IS NOT NULL) AS timed \
             WHERE before IS NULL OR speedup > before) \
             SELECT c.id, f.ordinal, f.speedup, (SELECT COUNT(*) FROM candidates u WHERE u.run = $1 \
             AND u.trial = 0 AND u.ordinal > f.since AND u.ordinal <= f.ordinal) AS uncharged \
             FROM faster f JOIN candidates c ON c.run = $1 AND c.ordinal = f.ordinal ORDER BY f.ordinal",
        )
        .bind(run.uuid())
        .fetch_all(&mut *view)
        .await
        .context("read a run's curve")?;
        let row_ref = RowRef::new("runs", run);
        let mut free = 0;
        let curve = rows
            .into_iter()
            .map(|(id, ordinal, speedup, uncharged)| {
                free += uncharged;
                Ok(CurvePoint {
                    trial: row_ref.number("ordinal", ordinal + 1 - free)?,
                    candidate: CandidateId::from(id),
                    ordinal: row_ref.number("ordinal", ordinal)?,
                    speedup,
                })
            })
            .collect::<Result<_, StoreError>>()?;
        Ok(ComparedRun {
            run: run_view,
            device,
            curve,
            best_at_equal_trials: None,
        })
    }
}
