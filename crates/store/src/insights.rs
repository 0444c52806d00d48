//! The records of which the insights of a run are made.

use std::collections::{HashMap, HashSet};

use domain::api::ShownCandidates;
use domain::id::{CandidateId, RunId};
use domain::search::InsightRecords;
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::RowRef;
use crate::sql::{query_as, query_scalar};
use crate::{Store, StoreError, candidates, runs, snapshot};

impl Store {
    /// The newest candidates of a run, at most so many, with what their prompts showed.
    ///
    /// # Errors
    /// The run is unknown or the database fails.
    pub async fn insight_records(
        &self,
        run: RunId,
        newest: u32,
    ) -> Result<InsightRecords, StoreError> {
        let mut view = self.view().await?;
        runs::require(&mut view, run).await?;
        let end = candidates::next_ordinal(&mut view, run).await?;
        let from = (end - i64::from(newest)).max(0);
        let entries = snapshot::entries(&mut view, run, from).await?;
        let rows: Vec<(Uuid, String)> = query_as(
            "SELECT k.candidate, k.seen FROM candidates c JOIN calls k ON k.candidate = c.id \
             AND k.turn = 0 WHERE c.run = $1 AND c.ordinal >= $2",
        )
        .bind(run.uuid())
        .bind(from)
        .fetch_all(&mut *view)
        .await
        .context("read what prompts showed")?;
        let seen = rows
            .into_iter()
            .map(|(id, seen)| {
                let id = CandidateId::from(id);
                Ok((id, RowRef::new("calls", id).json("seen", &seen)?))
            })
            .collect::<Result<HashMap<CandidateId, ShownCandidates>, StoreError>>()?;
        let mut older: HashSet<CandidateId> = seen.values().filter_map(|saw| saw.best).collect();
        for entry in &entries {
            older.remove(&entry.id);
        }
        let mut earlier = HashMap::new();
        for id in older {
            let speedup: Option<f64> = query_scalar("SELECT speedup FROM candidates WHERE id = $1")
                .bind(id.uuid())
                .fetch_one(&mut *view)
                .await
                .context("read the speedup of a candidate")?;
            earlier.extend(speedup.map(|speedup| (id, speedup)));
        }
        let (_, refused) = snapshot::promotion(&mut view, run).await?;
        Ok(InsightRecords {
            first: RowRef::new("runs", run).number("ordinal", from)?,
            entries,
            seen,
            earlier,
            refused: refused.iter().map(|refused| refused.candidate).collect(),
        })
    }
}
