//! Routes of models: the list, the preview of a run's prompts, and a run's calls.

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;
use domain::api::{RunEstimate, RunPreview, RunRequest};
use domain::id::RunId;
use domain::model::ModelView;
use domain::search::{self, Insight};

use super::App;
use super::error::{AnyProblem, ApiError};
use super::extract::{Body, Id};

/// The most insights of one answer.
const MAX_INSIGHTS: usize = 500;
/// The newest candidates of a run whose thoughts are counted.
const NEWEST: u32 = 2000;

/// The configured models, by name. Keys are never shown.
#[utoipa::path(get, path = "/models", tag = "models", security(("token" = ["viewer"])), responses((status = 200, body = Vec<ModelView>), AnyProblem))]
pub async fn list(State(app): State<App>) -> Json<Vec<ModelView>> {
    Json(app.engine.models().views())
}

/// Returns the exact first prompt of a run and an upper estimate of its cost. Starts nothing.
#[utoipa::path(post, path = "/runs/preview", tag = "models", security(("token" = ["viewer"])), request_body = RunRequest, responses((status = 200, body = RunPreview), AnyProblem))]
pub async fn preview(
    State(app): State<App>,
    Body(request): Body<RunRequest>,
) -> Result<Json<RunPreview>, ApiError> {
    Ok(Json(app.engine.preview(&request).await?))
}

/// Estimates what a run will take from this service's earlier runs of the same task, method and models.
/// Starts nothing.
#[utoipa::path(post, path = "/runs/estimate", tag = "runs", security(("token" = ["viewer"])), request_body = RunRequest, responses((status = 200, body = RunEstimate), AnyProblem))]
pub async fn estimate(
    State(app): State<App>,
    Body(request): Body<RunRequest>,
) -> Result<Json<RunEstimate>, ApiError> {
    Ok(Json(app.engine.estimate(&request).await?))
}

/// The thoughts of a run's judged candidates, of its newest 2,000: how often prompts showed each, and how
/// the candidates fared whose authors read it. Those that won most often come first, 500 at most.
#[utoipa::path(
    get,
    path = "/runs/{id}/insights",
    tag = "models",
    security(("token" = ["viewer"])),
    params(("id" = RunId, Path, description = "The run")),
    responses((status = 200, body = Vec<Insight>), AnyProblem)
)]
pub async fn insights(
    State(app): State<App>,
    Id(run): Id<RunId>,
) -> Result<Json<Vec<Insight>>, ApiError> {
    let store = app.engine.store();
    let records = store.insight_records(run, NEWEST).await?;
    let mut insights = search::insights(&records);
    insights.truncate(MAX_INSIGHTS);
    let steering = store.outline(run).await?.steering;
    steering.edit_insights(&mut insights);
    Ok(Json(insights))
}

/// The lessons of a run in Markdown: at most twelve thoughts after which a candidate was faster than its parent,
/// and at most twelve after which none was, each with its outcomes. Of its newest 2,000 candidates; empty
/// if none with a thought has a verdict. The text may be the `lessons` of a new run.
#[utoipa::path(
    get,
    path = "/runs/{id}/lessons",
    tag = "models",
    security(("token" = ["viewer"])),
    params(("id" = RunId, Path, description = "The run")),
    responses((status = 200, body = String, content_type = "text/markdown"), AnyProblem)
)]
pub async fn lessons(
    State(app): State<App>,
    Id(run): Id<RunId>,
) -> Result<impl IntoResponse, ApiError> {
    let text = app.engine.lessons(run).await?;
    Ok(([(CONTENT_TYPE, "text/markdown; charset=utf-8")], text))
}

/// A run's calls as a recording, JSON lines, which replays the run without its models.
#[utoipa::path(
    get,
    path = "/runs/{id}/recording",
    tag = "models",
    security(("token" = ["viewer"])),
    params(("id" = RunId, Path, description = "The run")),
    responses((status = 200, body = String, content_type = "application/jsonl"), AnyProblem)
)]
pub async fn recording(
    State(app): State<App>,
    Id(run): Id<RunId>,
) -> Result<impl IntoResponse, ApiError> {
    let text = app.engine.recording(run).await?;
    let headers = [
        (CONTENT_TYPE, "application/jsonl".to_owned()),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"{}.jsonl\"", run.uuid()),
        ),
    ];
    Ok((headers, text))
}
