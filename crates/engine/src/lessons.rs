//! The lessons of a run, for the prompts of later ones.

use domain::id::RunId;
use domain::search::{LessonsOrigin, lessons};
use store::StoreError;

use crate::{Engine, EngineError};

/// The newest candidates of a run whose thoughts are read.
const NEWEST: u32 = 2000;

impl Engine {
    /// The lessons of a run's newest 2,000 candidates in Markdown: the thoughts that helped and those that did not.
    /// Empty if no candidate with a thought has a verdict.
    ///
    /// # Errors
    /// The run is unknown, or the database fails.
    pub async fn lessons(&self, run: RunId) -> Result<String, EngineError> {
        let view = self.store.run(run).await?;
        let view = view.ok_or_else(|| StoreError::Unknown {
            subject: "run",
            id: run.to_string(),
        })?;
        let outline = self.store.outline(run).await?;
        let baseline = match outline.baseline {
            Some(baseline) => self.store.candidate(baseline).await?,
            None => None,
        };
        let device = baseline
            .and_then(|record| record.evaluation?.device)
            .map(|device| device.to_string());
        let records = self.store.insight_records(run, NEWEST).await?;
        let origin = LessonsOrigin {
            run: &view.name,
            task: &view.task,
            device: device.as_deref(),
        };
        Ok(lessons(&records, &outline.steering, origin))
    }
}
