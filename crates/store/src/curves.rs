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
        let rows: Vec<(Uuid, i64, f64)> = query_as(
            "SELECT c.id, t.ordinal, t.speedup FROM (SELECT ordinal, speedup, MAX(speedup) OVER \
             (ORDER BY ordinal ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before \
             FROM candidates WHERE run = $1 AND speedup IS NOT NULL) AS t \
             JOIN candidates c ON c.run = $1 AND c.ordinal = t.ordinal \
             WHERE before IS NULL OR t.speedup > before ORDER BY t.ordinal",
        )
        .bind(run.uuid())
        .fetch_all(&mut *view)
        .await
        .context("read a run's curve")?;
        let uncharged: Vec<i64> = query_scalar(
            "SELECT ordinal FROM candidates WHERE run = $1 AND trial = 0 ORDER BY ordinal",
        )
        .bind(run.uuid())
        .fetch_all(&mut *view)
        .await
        .context("read which candidates are no trials")?;
        let row_ref = RowRef::new("runs", run);
        let curve = rows
            .into_iter()
            .map(|(id, ordinal, speedup)| {
                let free = uncharged.partition_point(|other| *other <= ordinal);
                let trial = ordinal + 1 - i64::try_from(free).unwrap_or(i64::MAX);
                Ok(CurvePoint {
                    trial: row_ref.number("ordinal", trial)?,
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
