//! The health of the service.

use axum::Json;
use axum::extract::State;
use domain::api::Health;

use super::App;
use super::error::{AnyProblem, ApiError};

/// Reports the service's version, its workers and its queue. Fails if the database cannot be written
/// to, such as on a full disk.
#[utoipa::path(get, path = "/health", tag = "service", responses((status = 200, body = Health), AnyProblem))]
pub async fn health(State(app): State<App>) -> Result<Json<Health>, ApiError> {
    app.engine.store().ensure_writable().await?;
    let load = app.engine.store().load(app.engine.now()).await?;
    Ok(Json(Health {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        workers: load.workers,
        queued: load.queued,
    }))
}
