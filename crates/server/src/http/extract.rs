//! Request parts, parsed once at the edge: what comes out is valid, what does not is a problem
//! document.

use std::fmt::Display;
use std::str::FromStr;

use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use domain::id::{CandidateId, JobId, RunId, WorkerId};
use serde::de::DeserializeOwned;

use super::error::ApiError;

/// A JSON body.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
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
