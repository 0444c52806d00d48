//! Request parts, parsed once at the edge: what comes out is valid, what does not is a problem
//! document.

use std::fmt::Display;
use std::str::FromStr;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use domain::cleaning;
use domain::id::{CandidateId, JobId, RunId, WorkerId};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::ApiError;

/// A JSON body with clean texts, so that no text of a client or a worker deceives a reader of pages,
/// events, prompts, commits or logs. Whole sources are cleaned where they are parsed.
#[derive(Debug)]
pub struct Body<T>(pub T);

/// A JSON body as it was sent.
#[derive(Debug)]
pub struct RawBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = Bytes::from_request(Request::from_parts(parts.clone(), body), state).await?;
        let again = |bytes: Bytes| Request::from_parts(parts, bytes.into());
        let text = cleaned(&bytes).map_or(bytes, Bytes::from);
        let Json(value) = Json::from_request(again(text), state).await?;
        Ok(Self(value))
    }
}

/// The JSON text with clean texts; none if nothing changes or it is no JSON, which is reported with
/// its position where it is read.
fn cleaned(bytes: &[u8]) -> Option<Vec<u8>> {
    let body: Value = serde_json::from_slice(bytes).ok()?;
    let mut clean = body.clone();
    cleaning::clean_body(&mut clean);
    (clean != body).then(|| clean.to_string().into_bytes())
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for RawBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let Json(value) = Json::from_request(request, state).await?;
        Ok(Self(value))
    }
}

/// Query parameters.
#[derive(Debug)]
pub struct Parameters<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Query(value) = Query::from_request_parts(parts, state).await?;
        Ok(Self(value))
    }
}

/// An id in the path, with or without its prefix; it is recorded in the request's span.
#[derive(Debug)]
pub struct Id<T>(pub T);

/// An id that a path may carry.
pub trait PathId: FromStr<Err: Display> + Display + Copy {
    /// The span's field for it.
    const FIELD: &'static str;
}

impl PathId for RunId {
    const FIELD: &'static str = "run.id";
}

impl PathId for CandidateId {
    const FIELD: &'static str = "candidate.id";
}

impl PathId for WorkerId {
    const FIELD: &'static str = "worker.id";
}

impl PathId for JobId {
    const FIELD: &'static str = "lease.job";
}

impl<S: Send + Sync, T: PathId> FromRequestParts<S> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| ApiError::Malformed(rejection.body_text()))?;
        let id = text
            .parse::<T>()
            .map_err(|error| ApiError::Malformed(format!("failed to {error}")))?;
        tracing::Span::current().record(T::FIELD, tracing::field::display(id));
        Ok(Self(id))
    }
}
