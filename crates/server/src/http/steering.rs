//! Steering of runs: directions that people give while a run goes on.

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use domain::api::{
    BanRequest, BudgetRequest, CandidateRequest, ForkRequest, HintRequest, InsightRequest,
    ModelRequest, PromotionView, RunView, SteeringEntry, WithdrawRequest,
};
use domain::id::RunId;

use super::App;
use super::access::Caller;
use super::error::{AnyProblem, ApiError};
use super::extract::{Body, Id};
use super::runs::idempotency_key;

/// The directions that a run was given, oldest first.
#[utoipa::path(get, path = "/runs/{id}/steering", tag = "steering", security(("token" = ["viewer"])), params(("id" = RunId, Path, description = "The run")), responses((status = 200, body = Vec<SteeringEntry>), AnyProblem))]
pub async fn list(
    State(app): State<App>,
    Id(run): Id<RunId>,
) -> Result<Json<Vec<SteeringEntry>>, ApiError> {
    Ok(Json(app.engine.store().steering(run).await?))
}

/// Gives a text that the prompts of the next candidates carry.
#[utoipa::path(post, path = "/runs/{id}/hint", tag = "steering", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), request_body = HintRequest, responses((status = 200, body = SteeringEntry), AnyProblem))]
pub async fn hint(
    State(app): State<App>,
    caller: Caller,
    Id(run): Id<RunId>,
    Body(request): Body<HintRequest>,
) -> Result<Json<SteeringEntry>, ApiError> {
    let entry = app.engine.hint(run, caller.actor(), request).await?;
    Ok(Json(entry))
}

/// Makes an accepted candidate a parent of every further one. Several pinned candidates take turns.
#[utoipa::path(post, path = "/runs/{id}/pin", tag = "steering", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), request_body = CandidateRequest, responses((status = 200, body = SteeringEntry), AnyProblem))]
pub async fn pin(
    State(app): State<App>,
    caller: Caller,
    Id(run): Id<RunId>,
    Body(request): Body<CandidateRequest>,
) -> Result<Json<SteeringEntry>, ApiError> {
    let pinned = app
        .engine
        .pin(run, caller.actor(), request.candidate)
        .await?;
    Ok(Json(pinned))
}

/// Bans a candidate, which is then nobody's parent and no champion; or has prompts tell to avoid an
/// idea.
#[utoipa::path(post, path = "/runs/{id}/ban", tag = "steering", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), request_body = BanRequest, responses((status = 200, body = SteeringEntry), AnyProblem))]
pub async fn ban(
    State(app): State<App>,
    caller: Caller,
    Id(run): Id<RunId>,
    Body(request): Body<BanRequest>,
) -> Result<Json<SteeringEntry>, ApiError> {
    Ok(Json(app.engine.ban(run, caller.actor(), request).await?))
}

/// Corrects a candidate's thought as prompts show it, or leaves it out of prompts.
#[utoipa::path(post, path = "/runs/{id}/insight", tag = "steering", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), request_body = InsightRequest, responses((status = 200, body = SteeringEntry), AnyProblem))]
pub async fn insight(
    State(app): State<App>,
    caller: Caller,
    Id(run): Id<RunId>,
    Body(request): Body<InsightRequest>,
) -> Result<Json<SteeringEntry>, ApiError> {
    let actor = caller.actor();
    let entry = app.engine.edit_insight(run, actor, request).await?;
    Ok(Json(entry))
}

/// Withdraws a hint, a pin, a ban, an avoided idea or an edited insight.
#[utoipa::path(post, path = "/runs/{id}/withdraw", tag = "steering", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), request_body = WithdrawRequest, responses((status = 200, body = SteeringEntry), AnyProblem))]
pub async fn withdraw(
    State(app): State<App>,
    caller: Caller,
    Id(run): Id<RunId>,
    Body(request): Body<WithdrawRequest>,
) -> Result<Json<SteeringEntry>, ApiError> {
    let actor = caller.actor();
    Ok(Json(app.engine.withdraw(run, actor, request.entry).await?))
}

/// Changes the limits of a run, not below what it has used. One that ended because of a limit goes on
/// when this limit is raised.
#[utoipa::path(post, path = "/runs/{id}/budget", tag = "steering", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), request_body = BudgetRequest, responses((status = 200, body = SteeringEntry), AnyProblem))]
pub async fn budget(
    State(app): State<App>,
    caller: Caller,
    Id(run): Id<RunId>,
    Body(request): Body<BudgetRequest>,
) -> Result<Json<SteeringEntry>, ApiError> {
    let actor = caller.actor();
    Ok(Json(app.engine.change_budget(run, actor, request).await?))
}

/// Replaces a model of a run by another configured one, also in the calls that wait for an answer. A
/// paused run stays paused.
#[utoipa::path(post, path = "/runs/{id}/model", tag = "steering", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), request_body = ModelRequest, responses((status = 200, body = SteeringEntry), AnyProblem))]
pub async fn model(
    State(app): State<App>,
    caller: Caller,
    Id(run): Id<RunId>,
    Body(request): Body<ModelRequest>,
) -> Result<Json<SteeringEntry>, ApiError> {
    let actor = caller.actor();
    Ok(Json(app.engine.replace_model(run, actor, request).await?))
}

/// Starts a run of the same task from an accepted candidate. The same `Idempotency-Key` always gives the
/// same run: 201 the first time, 200 after that.
#[utoipa::path(
    post,
    path = "/runs/{id}/fork",
    tag = "steering",
    security(("token" = ["user"])),
    params(
        ("id" = RunId, Path, description = "The run of the candidate"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request; at most 200 bytes")
    ),
    request_body = ForkRequest,
    responses(
        (status = 201, body = RunView, description = "A new run"),
        (status = 200, body = RunView, description = "The run that this key made before"),
        AnyProblem
    )
)]
pub async fn fork(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Id(run): Id<RunId>,
    Body(request): Body<ForkRequest>,
) -> Result<impl IntoResponse, ApiError> {
    let key = idempotency_key(&headers)?;
    let forked = app.engine.fork(run, caller.actor(), request, key).await?;
    let status = if forked.fresh {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let location = [(LOCATION, format!("/api/v1/runs/{}", forked.run.id.uuid()))];
    Ok((status, location, Json(forked.run)))
}

/// Evaluates a candidate again, with fresh inputs and as thoroughly as before a promotion. The outcome
/// arrives as an event and is recorded beside the first, which stays.
#[utoipa::path(post, path = "/runs/{id}/reevaluate", tag = "steering", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), request_body = CandidateRequest, responses((status = 202, body = SteeringEntry), AnyProblem))]
pub async fn reevaluate(
    State(app): State<App>,
    caller: Caller,
    Id(run): Id<RunId>,
    Body(request): Body<CandidateRequest>,
) -> Result<(StatusCode, Json<SteeringEntry>), ApiError> {
    let actor = caller.actor();
    let entry = app.engine.reevaluate(run, actor, request.candidate).await?;
    Ok((StatusCode::ACCEPTED, Json(entry)))
}

/// Promotes an accepted candidate: it is confirmed with fresh inputs and, if it holds, committed.
#[utoipa::path(post, path = "/runs/{id}/promote", tag = "steering", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), request_body = CandidateRequest, responses((status = 202, body = PromotionView), AnyProblem))]
pub async fn promote(
    State(app): State<App>,
    caller: Caller,
    Id(run): Id<RunId>,
    Body(request): Body<CandidateRequest>,
) -> Result<(StatusCode, Json<PromotionView>), ApiError> {
    let actor = caller.actor();
    let promotion = app.engine.promote(run, actor, request.candidate).await?;
    Ok((StatusCode::ACCEPTED, Json(promotion)))
}
