//! Candidates: list, submit, read.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, LOCATION, X_CONTENT_TYPE_OPTIONS};
use axum::response::IntoResponse;
use domain::api::{CandidateDetail, CandidateOrder, CandidatePage, CandidateSummary, Submission};
use domain::digest::Digest;
use domain::id::{CandidateId, RunId};
use domain::verdict::VerdictKind;
use serde::Deserialize;
use store::{CandidateQuery, Cursor};
use utoipa::IntoParams;

use super::App;
use super::error::{AnyProblem, ApiError};
use super::extract::{Body, Id, Parameters};
use super::runs::bad_cursor;

/// The most candidates of one page.
const MAX_CANDIDATES: u32 = 500;
/// The most candidates that a list selects by their ids.
const MAX_IDS: usize = 200;

/// Query parameters of a list of candidates.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct CandidateFilter {
    /// Only those with this verdict; a duplicate has that of the candidate it repeats.
    verdict: Option<VerdictKind>,
    /// Only those of this generation.
    generation: Option<u32>,
    /// Only the one with this ordinal.
    ordinal: Option<u32>,
    /// Only these: at most 200 ids, separated by commas.
    #[param(max_length = 8200)]
    ids: Option<String>,
    /// Only those whose code has this identity, as evaluations name it.
    #[param(value_type = Option<String>, pattern = "^[0-9a-f]{64}$")]
    digest: Option<Digest>,
    /// Only those made by this operator.
    #[param(max_length = 40)]
    operator: Option<String>,
    /// Only those of this proposer: the model, for candidates that models wrote.
    #[param(max_length = 200)]
    proposer: Option<String>,
    /// Only those whose title or thought contains this text, in either case of ASCII letters.
    #[param(max_length = 200)]
    text: Option<String>,
    /// The order; by ordinal when absent.
    order: Option<CandidateOrder>,
    /// The `next` of the page before; the first candidates when absent.
    cursor: Option<String>,
    /// At most this many, 1 to 500; 100 when absent.
    limit: Option<u32>,
}

/// Candidates of a run. With `operator`, `proposer` or `text` a page may have fewer candidates than
/// `limit`, even none, and still have a `next`: one request examines at most 20,000 candidates.
#[utoipa::path(get, path = "/runs/{id}/candidates", tag = "candidates", security(("token" = ["viewer"])), params(("id" = RunId, Path, description = "The run"), CandidateFilter), responses((status = 200, body = CandidatePage), AnyProblem))]
pub async fn list(
    State(app): State<App>,
    Id(run): Id<RunId>,
    Parameters(filter): Parameters<CandidateFilter>,
) -> Result<Json<CandidatePage>, ApiError> {
    let after = filter
        .cursor
        .map(|cursor| cursor.parse::<Cursor>())
        .transpose()
        .map_err(|_| bad_cursor())?;
    let query = CandidateQuery {
        verdict: filter.verdict,
        generation: filter.generation,
        ordinal: filter.ordinal,
        ids: filter.ids.as_deref().map_or(Ok(Vec::new()), ids)?,
        digest: filter.digest,
        operator: filter.operator,
        proposer: filter.proposer,
        text: filter.text,
        order: filter.order.unwrap_or_default(),
        after,
    };
    let limit = filter.limit.unwrap_or(100).clamp(1, MAX_CANDIDATES);
    let store = app.engine.store();
    Ok(Json(store.list_candidates(run, &query, limit).await?))
}

/// The ids of a list that are separated by commas.
fn ids(text: &str) -> Result<Vec<CandidateId>, ApiError> {
    let ids = text.split(',').take(MAX_IDS + 1).map(str::parse);
    let ids: Vec<CandidateId> = ids
        .collect::<Result<_, _>>()
        .map_err(|error| ApiError::Malformed(format!("failed to read the query: ids: {error}")))?;
    if ids.len() > MAX_IDS {
        let detail = format!("failed to read the query: ids: at most {MAX_IDS} are read at once");
        return Err(ApiError::Malformed(detail));
    }
    Ok(ids)
}

/// Proposes a kernel. A file that does not parse is a candidate with that verdict, not an error.
#[utoipa::path(post, path = "/runs/{id}/candidates", tag = "candidates", security(("token" = ["user"])), params(("id" = RunId, Path, description = "The run")), request_body = Submission, responses((status = 201, body = CandidateSummary), AnyProblem))]
pub async fn submit(
    State(app): State<App>,
    Id(run): Id<RunId>,
    Body(submission): Body<Submission>,
) -> Result<impl IntoResponse, ApiError> {
    let summary = app.engine.submit(run, submission).await?;
    let id = summary.id;
    tracing::info!(run.id = %run, candidate.id = %id, "took candidate {id} from {:?}", summary.proposer);
    let location = [(LOCATION, format!("/api/v1/candidates/{}", id.uuid()))];
    Ok((StatusCode::CREATED, location, Json(summary)))
}

/// Returns one candidate with its evaluation and its source.
#[utoipa::path(get, path = "/candidates/{id}", tag = "candidates", security(("token" = ["viewer"])), params(("id" = CandidateId, Path, description = "The candidate")), responses((status = 200, body = CandidateDetail), AnyProblem))]
pub async fn get(
    State(app): State<App>,
    Id(candidate): Id<CandidateId>,
) -> Result<Json<CandidateDetail>, ApiError> {
    let detail = app.engine.candidate(candidate).await?;
    detail.map(Json).ok_or_else(|| unknown(candidate))
}

/// A candidate's text, byte for byte.
#[utoipa::path(get, path = "/candidates/{id}/source", tag = "candidates", security(("token" = ["viewer"])), params(("id" = CandidateId, Path, description = "The candidate")), responses((status = 200, body = String, content_type = "text/plain"), AnyProblem))]
pub async fn source(
    State(app): State<App>,
    Id(candidate): Id<CandidateId>,
) -> Result<impl IntoResponse, ApiError> {
    let found = app.engine.store().source(candidate).await?;
    let (_, text) = found.ok_or_else(|| unknown(candidate))?;
    let headers = [
        (CONTENT_TYPE, "text/plain; charset=utf-8"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, text))
}

fn unknown(candidate: CandidateId) -> ApiError {
    ApiError::Unknown {
        subject: "candidate",
        id: candidate.to_string(),
    }
}
