//! Route of the events that no endpoint took.

use axum::Json;
use axum::extract::State;
use domain::api::WebhookDelivery;

use super::App;
use super::error::{AnyProblem, ApiError};

/// The most events of one answer.
const MAX_LISTED: u32 = 500;

/// Lists the events that their endpoints did not take yet, the newest first, at most 500: those that
/// are tried again, and those that were given up in the last 30 days.
#[utoipa::path(get, path = "/webhooks/undelivered", tag = "service", security(("token" = ["admin"])), responses((status = 200, body = [WebhookDelivery]), AnyProblem))]
pub async fn undelivered(State(app): State<App>) -> Result<Json<Vec<WebhookDelivery>>, ApiError> {
    let store = app.engine.store();
    Ok(Json(store.undelivered_webhooks(MAX_LISTED).await?))
}
