//! Two candidates side by side.

use domain::api::{CandidateComparison, ComparedCandidate, ComparedEvaluations};
use domain::id::CandidateId;
use store::{CandidateRecord, StoreError};

use crate::{Engine, EngineError, diff};

impl Engine {
    /// Compares two candidates, which may be of different runs.
    ///
    /// # Errors
    /// A candidate is unknown or the database fails.
    pub async fn compare(
        &self,
        left: CandidateId,
        right: CandidateId,
    ) -> Result<CandidateComparison, EngineError> {
        let (left, right) = (self.present(left).await?, self.present(right).await?);
        let diff = diff::lines(&left.source, &right.source);
        let compared = ComparedEvaluations::of(left.evaluation.as_ref(), right.evaluation.as_ref());
        Ok(CandidateComparison {
            left: side(&left),
            right: side(&right),
            incomparable: compared.incomparable,
            ratio: compared.ratio,
            times: compared.times,
            kernels: compared.kernels,
            launches: compared.launches,
            diff,
        })
    }

    /// The record of a candidate as it is now: a kept one may have an older promotion.
    async fn present(&self, id: CandidateId) -> Result<CandidateRecord, EngineError> {
        let record = self.store.candidate(id).await?;
        record.ok_or_else(|| {
            EngineError::Store(StoreError::Unknown {
                subject: "candidate",
                id: id.to_string(),
            })
        })
    }
}

fn side(record: &CandidateRecord) -> ComparedCandidate {
    let evaluation = record.evaluation.as_ref();
    let measurement = evaluation.and_then(|evaluation| evaluation.measurement.as_ref());
    ComparedCandidate {
        run: record.run,
        task: record.task.clone(),
        summary: record.summary.clone(),
        task_version: evaluation.map(|evaluation| evaluation.task_version),
        device: evaluation
            .and_then(|evaluation| evaluation.device.as_ref())
            .map(|device| device.name.clone()),
        toolchain: evaluation.and_then(|evaluation| evaluation.toolchain.clone()),
        speedup_interval: measurement.map(|measurement| measurement.anchor.interval),
    }
}
