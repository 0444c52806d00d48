//! The estimate of what a run will take.

use domain::api::{RunEstimate, RunRequest};
use store::RunQuery;

use crate::{Engine, EngineError};

/// Newest runs of the task among which those like the new one are looked for.
const READ_RUNS: u32 = 100;

impl Engine {
    /// Estimates what a run will take from this service's earlier runs of the same task, method and
    /// models. Starts nothing.
    ///
    /// # Errors
    /// The task is unknown or the database fails.
    pub async fn estimate(&self, request: &RunRequest) -> Result<RunEstimate, EngineError> {
        let of_task = RunQuery {
            task: Some(&request.task),
            ..RunQuery::default()
        };
        let past = self.store.runs(&of_task, READ_RUNS).await?;
        Ok(RunEstimate::of(request, &past.runs))
    }
}
