//! Routes of runs: create, read, control.

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use domain::api::{
    Brief, Curve, Lineage, LineageColumns, LineageGenerations, PromotionView, RunPage, RunRequest,
    RunStateName, RunView, TagsRequest,
};
use domain::id::RunId;
use serde::Deserialize;
use store::{LineageQuery as Slice, MAX_CURVE_BUCKETS, RunQuery};
use utoipa::IntoParams;

use super::App;
use super::access::Caller;
use super::error::{AnyProblem, ApiError};
use super::extract::{Body, Id, Parameters};

const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The longest idempotency key, bytes.
const MAX_KEY: usize = 200;
/// The most runs of one page.
const MAX_RUNS: u32 = 200;
/// The most candidates of one lineage.
const MAX_NODES: u32 = 2000;
/// The most candidates of one slice of a lineage. 100 KB hold as many.
const MAX_SLICE: u32 = 2400;

/// Query parameters of the list of runs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RunFilter {
    /// The `next` of the page before; the newest runs when absent.
    cursor: Option<String>,
    /// At most this many, 1 to 200; 50 when absent.
    limit: Option<u32>,
    /// Only those in this state; of any state when absent.
    state: Option<RunStateName>,
    /// Only those with this tag; with any or none when absent.
    tag: Option<String>,
}

impl RunFilter {
    /// The conditions on a page's runs, and the most runs that it holds.
    pub(super) fn query(&self) -> Result<(RunQuery<'_>, u32), ApiError> {
        let before = self.cursor.as_deref().map(str::parse::<RunId>);
        let wanted = RunQuery {
            task: None,
            state: self.state,
            tag: self.tag.as_deref(),
            before: before.transpose().map_err(|_| bad_cursor())?,
        };
        Ok((wanted, self.limit.unwrap_or(50).clamp(1, MAX_RUNS)))
    }
}

/// Query parameters of a lineage.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct LineageQuery {
    /// At most this many candidates, the earliest first, 1 to 2000; 2000 when absent.
    limit: Option<u32>,
}

/// Query parameters of a curve.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct CurveQuery {
    /// At most this many buckets, 1 to 400; 400 when absent.
    buckets: Option<u32>,
}

/// Query parameters of a slice of a lineage.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct SliceQuery {
    /// The lowest generation; the first when absent.
    from_generation: Option<u32>,
    /// The highest generation; the last when absent.
    to_generation: Option<u32>,
    /// Ordinal of a candidate: only it and its relatives along primary parents, at most 1,000
    /// ancestors and 1,000 descendants, the nearest.
    around: Option<u32>,
    /// The `next` of the slice before; the first candidates when absent.
    cursor: Option<String>,
    /// At most this many candidates, the earliest first, 1 to 2400; 2400 when absent.
    limit: Option<u32>,
}

/// Asks for a run. The same `Idempotency-Key` always gives the same run: 201 the first time,
/// 200 after that.
#[utoipa::path(
    post,
    path = "/runs",
    tag = "runs",
    security(("token" = ["user"])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Names this request; at most 200 bytes")),
    request_body = RunRequest,
    responses(
        (status = 201, body = RunView, description = "A new run"),
        (status = 200, body = RunView, description = "The run that this key made before"),
        AnyProblem
    )
)]
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Body(request): Body<RunRequest>,
) -> Result<impl IntoResponse, ApiError> {
    let key = idempotency_key(&headers)?;
    let created = app.engine.create_run(request, key, caller.actor()).await?;
    let run = created.run;
    let status = if created.fresh {
        tracing::info!(run.id = %run.id, "created run {} on {}", run.id, run.task);
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let location = [(LOCATION, format!("/api/v1/runs/{}", run.id.uuid()))];
    Ok((status, location, Json(run)))
}

/// The name of a request that creates a run.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let key = headers.get(IDEMPOTENCY_KEY).map(|value| {
        let readable = value
            .to_str()
            .ok()
            .filter(|key| (1..=MAX_KEY).contains(&key.len()));
        readable.ok_or_else(|| {
            ApiError::Malformed(format!(
                "the header Idempotency-Key must have 1 to {MAX_KEY} visible ASCII characters"
            ))
        })
    });
    key.transpose()
}

/// Runs, newest first.
#[utoipa::path(get, path = "/runs", tag = "runs", security(("token" = ["viewer"])), params(RunFilter), responses((status = 200, body = RunPage), AnyProblem))]
pub async fn list(
    State(app): State<App>,
    Parameters(filter): Parameters<RunFilter>,
) -> Result<Json<RunPage>, ApiError> {
    let (wanted, limit) = filter.query()?;
    Ok(Json(app.engine.store().runs(&wanted, limit).await?))
}

/// One run.
#[utoipa::path(get, path = "/runs/{id}", tag = "runs", security(("token" = ["viewer"])), params(("id" = RunId, Path, description = "The run")), responses((status = 200, body = RunView), AnyProblem))]
pub async fn get(State(app): State<App>, Id(run): Id<RunId>) -> Result<Json<RunView>, ApiError> {
    match app.engine.store().run(run).await? {
        Some(view) => Ok(Json(view)),
        None => Err(ApiError::Unknown {
            subject: "run",
            id: run.to_string(),
        }),
    }
}

/// Replaces the tags of a run, in any state.
#[utoipa::path(put, path = "/runs/{id}/tags", tag = "runs", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), request_body = TagsRequest, responses((status = 200, body = RunView), AnyProblem))]
pub async fn set_tags(
    State(app): State<App>,
    Id(run): Id<RunId>,
    Body(request): Body<TagsRequest>,
) -> Result<Json<RunView>, ApiError> {
    Ok(Json(app.engine.set_tags(run, request.tags).await?))
}

/// Pauses a run: nothing new is proposed or leased until it is resumed.
#[utoipa::path(post, path = "/runs/{id}/pause", tag = "runs", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), responses((status = 200, body = RunView), AnyProblem))]
pub async fn pause(State(app): State<App>, Id(run): Id<RunId>) -> Result<Json<RunView>, ApiError> {
    let now = app.engine.now();
    let view = app
        .engine
        .store()
        .pause(run, "paused by request", now)
        .await?;
    Ok(Json(view))
}

/// A paused run goes on.
#[utoipa::path(post, path = "/runs/{id}/resume", tag = "runs", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), responses((status = 200, body = RunView), AnyProblem))]
pub async fn resume(State(app): State<App>, Id(run): Id<RunId>) -> Result<Json<RunView>, ApiError> {
    Ok(Json(
        app.engine.store().resume(run, app.engine.now()).await?,
    ))
}

/// The run ends now; what is being evaluated is dropped and nothing is promoted.
#[utoipa::path(post, path = "/runs/{id}/cancel", tag = "runs", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), responses((status = 200, body = RunView), AnyProblem))]
pub async fn cancel(State(app): State<App>, Id(run): Id<RunId>) -> Result<Json<RunView>, ApiError> {
    Ok(Json(
        app.engine.store().cancel(run, app.engine.now()).await?,
    ))
}

/// Finishes a run: nothing new is proposed, pending candidates are evaluated, and the best is
/// promoted.
#[utoipa::path(post, path = "/runs/{id}/finish", tag = "runs", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), responses((status = 202, body = RunView), AnyProblem))]
pub async fn finish(
    State(app): State<App>,
    Id(run): Id<RunId>,
) -> Result<(StatusCode, Json<RunView>), ApiError> {
    let view = app
        .engine
        .store()
        .request_finish(run, app.engine.now())
        .await?;
    Ok((StatusCode::ACCEPTED, Json(view)))
}

/// Evaluates the promoted winner again with fresh seeds; if it does not hold, a further commit
/// takes it back. The outcome arrives as an event.
#[utoipa::path(post, path = "/runs/{id}/recheck", tag = "runs", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), responses((status = 202, body = PromotionView), AnyProblem))]
pub async fn recheck(
    State(app): State<App>,
    Id(run): Id<RunId>,
) -> Result<(StatusCode, Json<PromotionView>), ApiError> {
    Ok((StatusCode::ACCEPTED, Json(app.engine.recheck(run).await?)))
}

/// Returns the brief: the prompt and the parent from which the next kernel can be written.
#[utoipa::path(get, path = "/runs/{id}/brief", tag = "runs", security(("token" = ["viewer"])), params(("id" = RunId, Path, description = "The run")), responses((status = 200, body = Brief), AnyProblem))]
pub async fn brief(State(app): State<App>, Id(run): Id<RunId>) -> Result<Json<Brief>, ApiError> {
    Ok(Json(app.engine.brief(run).await?))
}

/// The lineage graph.
#[utoipa::path(get, path = "/runs/{id}/lineage", tag = "runs", security(("token" = ["viewer"])), params(("id" = RunId, Path, description = "The run"), LineageQuery), responses((status = 200, body = Lineage), AnyProblem))]
pub async fn lineage(
    State(app): State<App>,
    Id(run): Id<RunId>,
    Parameters(query): Parameters<LineageQuery>,
) -> Result<Json<Lineage>, ApiError> {
    let limit = query.limit.unwrap_or(MAX_NODES).clamp(1, MAX_NODES);
    Ok(Json(app.engine.store().lineage(run, limit).await?))
}

/// A slice of the lineage in columns, of at most 100 KB: by generations, or around a candidate.
#[utoipa::path(get, path = "/runs/{id}/lineage/columns", tag = "runs", security(("token" = ["viewer"])), params(("id" = RunId, Path, description = "The run"), SliceQuery), responses((status = 200, body = LineageColumns), AnyProblem))]
pub async fn lineage_columns(
    State(app): State<App>,
    Id(run): Id<RunId>,
    Parameters(query): Parameters<SliceQuery>,
) -> Result<Json<LineageColumns>, ApiError> {
    let slice = Slice {
        from_generation: query.from_generation,
        to_generation: query.to_generation,
        around: query.around,
        after: query
            .cursor
            .map(|cursor| cursor.parse::<u32>())
            .transpose()
            .map_err(|_| bad_cursor())?,
    };
    let limit = query.limit.unwrap_or(MAX_SLICE).clamp(1, MAX_SLICE);
    let store = app.engine.store();
    Ok(Json(store.lineage_columns(run, &slice, limit).await?))
}

/// The lineage by generation, in at most 400 buckets, with the path from the best candidate to the
/// baseline.
#[utoipa::path(get, path = "/runs/{id}/lineage/generations", tag = "runs", security(("token" = ["viewer"])), params(("id" = RunId, Path, description = "The run")), responses((status = 200, body = LineageGenerations), AnyProblem))]
pub async fn lineage_generations(
    State(app): State<App>,
    Id(run): Id<RunId>,
) -> Result<Json<LineageGenerations>, ApiError> {
    Ok(Json(app.engine.store().lineage_generations(run).await?))
}

/// The best speedup over the candidates of a run, in at most 400 buckets.
#[utoipa::path(get, path = "/runs/{id}/curve", tag = "runs", security(("token" = ["viewer"])), params(("id" = RunId, Path, description = "The run"), CurveQuery), responses((status = 200, body = Curve), AnyProblem))]
pub async fn curve(
    State(app): State<App>,
    Id(run): Id<RunId>,
    Parameters(query): Parameters<CurveQuery>,
) -> Result<Json<Curve>, ApiError> {
    let buckets = query.buckets.unwrap_or(MAX_CURVE_BUCKETS);
    Ok(Json(app.engine.store().curve(run, buckets).await?))
}

/// The error for a cursor that no page gave out.
pub(super) fn bad_cursor() -> ApiError {
    ApiError::Malformed(
        "the cursor is none that a page gave; pass the `next` of the page before, unchanged"
            .to_owned(),
    )
}
