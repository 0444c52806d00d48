//! Promotions of all runs.

use axum::Json;
use axum::extract::State;
use domain::api::{PromotionPage, PromotionStateName};
use domain::id::PromotionId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use super::error::{AnyProblem, ApiError};
use super::extract::Parameters;
use super::runs::bad_cursor;

/// The most promotions of one page.
const MAX_PROMOTIONS: u32 = 100;

/// Query parameters of the list of promotions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct PromotionFilter {
    /// The `next` of the page before; the newest promotions when absent.
    cursor: Option<String>,
    /// At most this many, 1 to 100; 30 when absent.
    limit: Option<u32>,
    /// Only those in this state; in any state when absent.
    state: Option<PromotionStateName>,
}

/// Promotions of all runs, newest first, each with the last check of its candidate on each device.
#[utoipa::path(get, path = "/promotions", tag = "runs", security(("token" = ["viewer"])), params(PromotionFilter), responses((status = 200, body = PromotionPage), AnyProblem))]
pub async fn list(
    State(app): State<App>,
    Parameters(filter): Parameters<PromotionFilter>,
) -> Result<Json<PromotionPage>, ApiError> {
    let before = filter.cursor.as_deref().map(str::parse::<PromotionId>);
    let before = before.transpose().map_err(|_| bad_cursor())?;
    let limit = filter.limit.unwrap_or(30).clamp(1, MAX_PROMOTIONS);
    let store = app.engine.store();
    Ok(Json(store.promotions(filter.state, before, limit).await?))
}
