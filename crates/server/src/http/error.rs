//! The one type of an HTTP error, and how it looks as an RFC 9457 problem document.
//!
//! Every code is part of the API: clients branch on it, texts may change.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::{BytesRejection, JsonRejection, QueryRejection};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::access::Scope;
use domain::api::ProblemDocument;
use domain::causes::with_causes;
use domain::problem::{Problem, Problems};
use engine::EngineError;
use store::StoreError;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use uuid::Uuid;

use crate::json_error;

/// Errors of HTTP requests.
#[derive(Debug)]
pub enum ApiError {
    /// There is no such run, task, candidate, worker or job.
    Unknown {
        /// The kind of thing, such as "run".
        subject: &'static str,
        /// Its name or id.
        id: String,
    },
    /// No route has this path.
    NoRoute(String),
    /// The route exists, but not with this method.
    MethodNotAllowed,
    /// The request could not be read at all.
    Malformed(String),
    /// A field of the body could not be read.
    MalformedField {
        /// The defect of the body and its position.
        detail: String,
        /// The defect of the field alone.
        problem: Problem,
    },
    /// The body is not announced as JSON.
    NotJson,
    /// The body exceeds what the route takes.
    TooLarge,
    /// The request was read, and is wrong.
    Invalid(Problems),
    /// A report is not about the job it was sent for.
    Mismatch(String),
    /// The content that was sent does not match its digest.
    Damaged(String),
    /// The request does not fit the present state.
    Conflict(String),
    /// A worker of another release wants to join.
    WrongRelease(String),
    /// An idempotency key came back with another request.
    KeyReused(String),
    /// The request names a host that is not this machine's loopback.
    ForeignHost(String),
    /// A page of another origin sent the request.
    ForeignOrigin(String),
    /// The request carries no token, and this service asks for one.
    NoToken,
    /// The token of the request is none, or is not valid any more.
    WrongToken(String),
    /// The token may not send this request.
    ScopeTooNarrow {
        /// The scope that the route asks for.
        needed: Scope,
        /// The token's name.
        name: String,
        /// Its scope.
        scope: Scope,
    },
    /// The worker, lease or bundle belongs to another token.
    NotYours(String),
    /// The worker was drained.
    Drained(String),
    /// The request took too long.
    TimedOut,
    /// The disk is full.
    StorageFull(String),
    /// The database is held by someone else.
    Busy(String),
    /// The database does not answer or takes no changes.
    NoDatabase(String),
    /// The folder or bucket of the evidence cannot be used now.
    NoEvidenceStore,
    /// A defect of ours; the text goes to the log, never to the client.
    Internal(anyhow::Error),
}

impl ApiError {
    /// An error of ours that the client learns nothing about but its id.
    pub fn internal(error: impl Into<anyhow::Error>) -> Self {
        Self::Internal(error.into())
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Unknown { .. } | Self::NoRoute(_) => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Malformed(_) | Self::MalformedField { .. } => StatusCode::BAD_REQUEST,
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Invalid(_) | Self::Mismatch(_) | Self::Damaged(_) | Self::KeyReused(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::Conflict(_) | Self::WrongRelease(_) => StatusCode::CONFLICT,
            Self::ForeignHost(_)
            | Self::ForeignOrigin(_)
            | Self::ScopeTooNarrow { .. }
            | Self::NotYours(_) => StatusCode::FORBIDDEN,
            Self::NoToken | Self::WrongToken(_) => StatusCode::UNAUTHORIZED,
            Self::Drained(_) => StatusCode::GONE,
            Self::TimedOut | Self::Busy(_) | Self::NoDatabase(_) | Self::NoEvidenceStore => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::StorageFull(_) => StatusCode::INSUFFICIENT_STORAGE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The stable code and its words.
    fn code(&self) -> (String, String) {
        let (code, title) = match self {
            Self::Unknown { subject, .. } => {
                return (format!("unknown-{subject}"), format!("Unknown {subject}"));
            }
            Self::NoRoute(_) => ("no-such-route", "No such route"),
            Self::MethodNotAllowed => ("method-not-allowed", "Method not allowed"),
            Self::Malformed(_) | Self::MalformedField { .. } => {
                ("malformed-request", "Malformed request")
            }
            Self::NotJson => ("not-json", "Not JSON"),
            Self::TooLarge => ("body-too-large", "Body too large"),
            Self::Invalid(_) => ("invalid-request", "Invalid request"),
            Self::Mismatch(_) => ("report-mismatch", "Report does not match its job"),
            Self::Damaged(_) => ("damaged", "Not what its name says"),
            Self::Conflict(_) => ("wrong-state", "Not in this state"),
            Self::WrongRelease(_) => ("wrong-release", "Wrong release"),
            Self::KeyReused(_) => ("key-reused", "Idempotency key reused"),
            Self::ForeignHost(_) => ("foreign-host", "Foreign host"),
            Self::ForeignOrigin(_) => ("foreign-origin", "Foreign origin"),
            Self::NoToken => ("no-token", "No token"),
            Self::WrongToken(_) => ("wrong-token", "Wrong token"),
            Self::ScopeTooNarrow { .. } => ("scope-too-narrow", "Scope too narrow"),
            Self::NotYours(_) => ("not-yours", "Not yours"),
            Self::Drained(_) => ("drained", "Drained"),
            Self::TimedOut => ("timed-out", "Timed out"),
            Self::StorageFull(_) => ("storage-full", "Storage full"),
            Self::Busy(_) => ("busy", "Busy"),
            Self::NoDatabase(_) => ("no-database", "No access to the database"),
            Self::NoEvidenceStore => ("no-evidence-store", "No access to the evidence"),
            Self::Internal(_) => ("internal", "Internal error"),
        };
        (code.to_owned(), title.to_owned())
    }

    fn detail(&self) -> String {
        match self {
            Self::Unknown { subject, id } => {
                format!("no {subject} {id:?} is stored here; list what is there first")
            }
            Self::NoRoute(path) => {
                format!("nothing is served at {path}; the routes are listed at /api/openapi.json")
            }
            Self::MethodNotAllowed => {
                "this route takes other methods; they are listed at /api/openapi.json".to_owned()
            }
            Self::NotJson => {
                "the body must be JSON; send the header content-type: application/json".to_owned()
            }
            Self::TooLarge => {
                "the body is larger than this route takes; a task may have 4 MiB of text, a kernel 256 KiB"
                    .to_owned()
            }
            Self::Invalid(problems) => problems.to_string(),
            Self::ForeignHost(host) => format!(
                "the request is for host {host:?}, and without authentication only loopback names are served; use 127.0.0.1 or localhost"
            ),
            Self::ForeignOrigin(origin) => format!(
                "a page from {origin} may not use this service; open the service's own address"
            ),
            Self::NoToken => "this service asks for a token; send the header `Authorization: Bearer TOKEN`, give a command `--token-file FILE`, or sign in on the dashboard; `kernelwright token create` on the service's machine makes a token".to_owned(),
            Self::WrongToken(why) => format!(
                "{why}; check the token that is sent, or have an administrator make another with `kernelwright token create`"
            ),
            Self::ScopeTooNarrow { needed, name, scope } => format!(
                "this request needs a token of scope {needed}, and the token {name:?} has the scope {scope}; use one made with `kernelwright token create --scope {needed}`"
            ),
            Self::TimedOut => "the request took too long; try again".to_owned(),
            Self::NoEvidenceStore => {
                "the folder or bucket of the evidence cannot be used now; try again later, the service's log has the reason"
                    .to_owned()
            }
            Self::Malformed(detail)
            | Self::MalformedField { detail, .. }
            | Self::Mismatch(detail)
            | Self::Damaged(detail)
            | Self::Conflict(detail)
            | Self::WrongRelease(detail)
            | Self::NotYours(detail)
            | Self::Drained(detail)
            | Self::StorageFull(detail)
            | Self::Busy(detail)
            | Self::NoDatabase(detail) => detail.clone(),
            Self::KeyReused(key) => format!(
                "the idempotency key {key:?} was used for another request; choose a fresh key for a new run"
            ),
            Self::Internal(_) => String::new(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.status();
        let (code, title) = self.code();
        let detail = match &self {
            Self::Internal(error) => {
                let id = Uuid::now_v7();
                tracing::error!(error.id = %id, "failed to {error:#}");
                format!("the service failed; its log has the details under {id}")
            }
            other => other.detail(),
        };
        let problems = match self {
            Self::Invalid(Problems(problems)) => problems,
            Self::MalformedField { problem, .. } => vec![problem],
            _ => Vec::new(),
        };
        let document = ProblemDocument {
            r#type: format!("/problems/{code}"),
            title,
            status: status.as_u16(),
            detail,
            problems,
        };
        let mut response = (status, Json(document)).into_response();
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unknown { subject, id } => Self::Unknown { subject, id },
            StoreError::WrongState { .. } | StoreError::ConversationsRemoved { .. } => {
                Self::Conflict(error.to_string())
            }
            StoreError::WrongEvaluator { .. } => Self::WrongRelease(error.to_string()),
            StoreError::NotYours { .. } => Self::NotYours(error.to_string()),
            StoreError::Drained { .. } => Self::Drained(error.to_string()),
            StoreError::KeyReused { key } => Self::KeyReused(key),
            StoreError::Mismatch { .. } => Self::Mismatch(error.to_string()),
            StoreError::DiskFull { .. } => Self::StorageFull(error.to_string()),
            StoreError::Busy { .. } => Self::Busy(error.to_string()),
            StoreError::Unavailable { .. } | StoreError::ReadOnly { .. } => {
                tracing::warn!("failed to {}", with_causes(&error));
                Self::NoDatabase(error.to_string())
            }
            other => Self::internal(other),
        }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Invalid(problems) => Self::Invalid(problems),
            EngineError::Refused { .. } => Self::Conflict(error.to_string()),
            other => Self::internal(other),
        }
    }
}

impl From<BytesRejection> for ApiError {
    fn from(rejection: BytesRejection) -> Self {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            return Self::TooLarge;
        }
        Self::Malformed(format!(
            "failed to read the body: {}",
            rejection.body_text()
        ))
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            return Self::TooLarge;
        }
        match rejection {
            JsonRejection::MissingJsonContentType(_) => Self::NotJson,
            other => {
                let message = other.body_text();
                let detail = format!(
                    "failed to read the body: {}",
                    json_error::describe(&message)
                );
                match json_error::problem(&message) {
                    Some(problem) => Self::MalformedField { detail, problem },
                    None => Self::Malformed(detail),
                }
            }
        }
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        Self::Malformed(format!(
            "failed to read the query: {}",
            json_error::describe(&rejection.body_text())
        ))
    }
}

/// Documents that any answer may be a problem document instead.
pub struct AnyProblem;

impl utoipa::IntoResponses for AnyProblem {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let content = ContentBuilder::new()
            .schema(Some(Ref::from_schema_name("ProblemDocument")))
            .build();
        let response = ResponseBuilder::new()
            .description("What went wrong, with a stable code in `type`")
            .content("application/problem+json", content)
            .build();
        BTreeMap::from([("default".to_owned(), RefOr::T(response))])
    }
}
