//! Routes of comparisons: two candidates, or two runs.

use axum::Json;
use axum::extract::State;
use domain::api::{CandidateComparison, RunComparison};
use domain::id::{CandidateId, RunId};
use serde::Deserialize;
use store::CurveDetail;
use utoipa::IntoParams;

use super::App;
use super::error::{AnyProblem, ApiError};
use super::extract::Parameters;

/// Query parameters of a comparison of candidates.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct CandidatePair {
    /// The first candidate.
    left: CandidateId,
    /// The second; it may be of another run.
    right: CandidateId,
}

/// Query parameters of a comparison of runs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RunPair {
    /// The first run.
    left: RunId,
    /// The second.
    right: RunId,
    /// Adds to each point of the curves what the candidates up to it cost. The service then reads all of them.
    #[serde(default)]
    spent: bool,
}

/// Compares two candidates: the difference of their sources, their times, resources and launches.
#[utoipa::path(get, path = "/compare/candidates", tag = "candidates", security(("token" = ["viewer"])), params(CandidatePair), responses((status = 200, body = CandidateComparison), AnyProblem))]
pub async fn candidates(
    State(app): State<App>,
    Parameters(pair): Parameters<CandidatePair>,
) -> Result<Json<CandidateComparison>, ApiError> {
    Ok(Json(app.engine.compare(pair.left, pair.right).await?))
}

/// Compares two runs: their curves at equal trials, their verdicts and what they spent.
#[utoipa::path(get, path = "/compare/runs", tag = "runs", security(("token" = ["viewer"])), params(RunPair), responses((status = 200, body = RunComparison), AnyProblem))]
pub async fn runs(
    State(app): State<App>,
    Parameters(pair): Parameters<RunPair>,
) -> Result<Json<RunComparison>, ApiError> {
    let store = app.engine.store();
    let detail = if pair.spent {
        CurveDetail::Costs
    } else {
        CurveDetail::Trials
    };
    let left = store.compared_run(pair.left, detail).await?;
    let right = store.compared_run(pair.right, detail).await?;
    Ok(Json(RunComparison::of(left, right)))
}
