//! Routes of failures: clusters by cause, and the candidates of one.

use axum::Json;
use axum::extract::State;
use domain::api::{FailureMembers, FailurePage};
use domain::id::{CandidateId, RunId};
use domain::verdict::VerdictKind;
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use super::error::{AnyProblem, ApiError};
use super::extract::Parameters;
use super::runs::bad_cursor;

/// The most clusters of one page.
const MAX_CLUSTERS: u32 = 100;
/// The most candidates of one page of a cluster.
const MAX_MEMBERS: u32 = 200;

/// Query parameters of the clusters.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct FailureFilter {
    /// Only failures of this run; of all runs when absent.
    run: Option<RunId>,
    /// The `next` of the page before; the largest clusters when absent.
    cursor: Option<String>,
    /// At most this many clusters, 1 to 100; 30 when absent.
    limit: Option<u32>,
}

/// Query parameters of the candidates of a cluster.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct MemberFilter {
    /// The cluster's verdict.
    verdict: VerdictKind,
    /// Its cause, as the cluster has it; empty when absent.
    #[serde(default)]
    cause: String,
    /// Only candidates of this run; of all runs when absent.
    run: Option<RunId>,
    /// The `next` of the page before; the latest candidates when absent.
    cursor: Option<String>,
    /// At most this many candidates, 1 to 200; 50 when absent.
    limit: Option<u32>,
}

/// Counts failed candidates by verdict and cause, the largest cluster first.
#[utoipa::path(get, path = "/failures", tag = "candidates", security(("token" = ["viewer"])), params(FailureFilter), responses((status = 200, body = FailurePage), AnyProblem))]
pub async fn list(
    State(app): State<App>,
    Parameters(filter): Parameters<FailureFilter>,
) -> Result<Json<FailurePage>, ApiError> {
    let skip = filter
        .cursor
        .map_or(Ok(0), |cursor| cursor.parse::<u32>())
        .map_err(|_| bad_cursor())?;
    let limit = filter.limit.unwrap_or(30).clamp(1, MAX_CLUSTERS);
    let store = app.engine.store();
    Ok(Json(store.failures(filter.run, skip, limit).await?))
}

/// Lists the candidates of one cluster, the latest first.
#[utoipa::path(get, path = "/failures/candidates", tag = "candidates", security(("token" = ["viewer"])), params(MemberFilter), responses((status = 200, body = FailureMembers), AnyProblem))]
pub async fn members(
    State(app): State<App>,
    Parameters(filter): Parameters<MemberFilter>,
) -> Result<Json<FailureMembers>, ApiError> {
    let after = filter
        .cursor
        .map(|cursor| member_cursor(&cursor).ok_or_else(bad_cursor))
        .transpose()?;
    let limit = filter.limit.unwrap_or(50).clamp(1, MAX_MEMBERS);
    let members = app
        .engine
        .store()
        .failure_members(filter.run, filter.verdict, &filter.cause, after, limit)
        .await?;
    Ok(Json(members))
}

/// A cursor of the candidates of a cluster: the last one's time and id.
fn member_cursor(text: &str) -> Option<(i64, CandidateId)> {
    let (at, id) = text.split_once('-')?;
    Some((at.parse().ok()?, id.parse().ok()?))
}
