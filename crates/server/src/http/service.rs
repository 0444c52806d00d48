//! The health of the service, and the changes that people asked for.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::access::ChangePage;
use domain::api::Health;
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use super::error::{AnyProblem, ApiError};
use super::extract::Parameters;
use super::runs::bad_cursor;

/// The most changes of one page.
const MAX_CHANGES: u32 = 500;

/// Query parameters of the list of changes.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ChangeFilter {
    /// The `next` of the page before; the latest changes when absent.
    cursor: Option<String>,
    /// At most this many, 1 to 500; 100 when absent.
    limit: Option<u32>,
}

/// Reports the service's version, its workers and its queue. Fails if the database cannot be written
/// to, such as on a full disk.
#[utoipa::path(get, path = "/health", tag = "service", security(("token" = ["viewer"])), responses((status = 200, body = Health), AnyProblem))]
pub async fn health(State(app): State<App>) -> Result<Json<Health>, ApiError> {
    app.engine.store().ensure_writable().await?;
    let load = app.engine.store().load(app.engine.now()).await?;
    Ok(Json(Health {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        workers: load.workers,
        queued: load.queued,
    }))
}

/// Answers as long as the service runs. For supervisors that restart a program that does not answer.
#[utoipa::path(get, path = "/livez", tag = "service", security(()), responses((status = 204, description = "The service runs"), AnyProblem))]
pub async fn live() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Answers 204 if the database can be read and the service is not stopping. For load balancers, which
/// have no token. `/api/v1/health` also checks that the database can be written to.
#[utoipa::path(get, path = "/readyz", tag = "service", security(()), responses((status = 204, description = "The service answers requests"), AnyProblem))]
pub async fn ready(State(app): State<App>) -> Result<StatusCode, ApiError> {
    if app.closing.is_cancelled() {
        return Err(ApiError::Busy("the service is stopping".to_owned()));
    }
    app.engine.store().ensure_readable().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the changes that people asked for, the latest first: who, what and when. Work of workers is
/// recorded with their evaluations instead.
#[utoipa::path(get, path = "/changes", tag = "service", security(("token" = ["admin"])), params(ChangeFilter), responses((status = 200, body = ChangePage), AnyProblem))]
pub async fn changes(
    State(app): State<App>,
    Parameters(filter): Parameters<ChangeFilter>,
) -> Result<Json<ChangePage>, ApiError> {
    let before = filter
        .cursor
        .map(|cursor| cursor.parse::<i64>())
        .transpose()
        .map_err(|_| bad_cursor())?;
    let limit = filter.limit.unwrap_or(100).clamp(1, MAX_CHANGES);
    let changes = app.engine.store().changes(before, limit).await?;
    let full = changes.len() == limit as usize;
    let next = changes.last().filter(|_| full);
    let next = next.map(|change| change.id.to_string());
    Ok(Json(ChangePage { changes, next }))
}
