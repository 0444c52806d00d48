//! Bundles of evidence: workers on other machines send them, and callers with the scope `viewer` read them. A service
//! that asks for no tokens lets any program on its machine do both.
//!
//! Each file is checked against its digest on arrival. The keys of the inputs stay where the evaluations ran.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::IntoResponse;
use domain::causes::with_causes;
use domain::digest::Digest;
use domain::lease::EvidenceReceipt;
use worker::evaluate::evidence::store::EvidenceStoreError;

use super::App;
use super::access::Caller;
use super::error::{AnyProblem, ApiError};

/// Takes in a bundle's manifest, and says which files to send.
#[utoipa::path(
    put,
    path = "/evidence/{digest}",
    tag = "fleet",
    security(("token" = ["worker"])),
    params(("digest" = String, Path, description = "The bundle: the digest of its manifest")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = EvidenceReceipt), AnyProblem)
)]
pub async fn put_manifest(
    State(app): State<App>,
    caller: Caller,
    Path(digest): Path<String>,
    body: Bytes,
) -> Result<Json<EvidenceReceipt>, ApiError> {
    let digest = parse(&digest)?;
    check_owner(&app, &caller, digest).await?;
    let missing = app.evidence.receive_manifest(digest, body).await?;
    Ok(Json(EvidenceReceipt { missing }))
}

/// Takes in a file of a bundle whose manifest is here.
#[utoipa::path(
    put,
    path = "/evidence/{digest}/{name}",
    tag = "fleet",
    security(("token" = ["worker"])),
    params(
        ("digest" = String, Path, description = "The bundle"),
        ("name" = String, Path, description = "The file, as the manifest names it")
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = EvidenceReceipt), AnyProblem)
)]
pub async fn put_file(
    State(app): State<App>,
    caller: Caller,
    Path((digest, name)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<EvidenceReceipt>, ApiError> {
    let digest = parse(&digest)?;
    check_owner(&app, &caller, digest).await?;
    let missing = app.evidence.receive_file(digest, &name, body).await?;
    Ok(Json(EvidenceReceipt { missing }))
}

/// A bundle's manifest, byte for byte.
#[utoipa::path(
    get,
    path = "/evidence/{digest}",
    tag = "fleet",
    security(("token" = ["viewer"])),
    params(("digest" = String, Path, description = "The bundle, as an evaluation names it")),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"), AnyProblem)
)]
pub async fn get_manifest(
    State(app): State<App>,
    Path(digest): Path<String>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(plain(app.evidence.read_part(parse(&digest)?, None).await?))
}

/// A file of a bundle, byte for byte.
#[utoipa::path(
    get,
    path = "/evidence/{digest}/{name}",
    tag = "fleet",
    security(("token" = ["viewer"])),
    params(
        ("digest" = String, Path, description = "The bundle"),
        ("name" = String, Path, description = "The file, as the manifest names it")
    ),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"), AnyProblem)
)]
pub async fn get_file(
    State(app): State<App>,
    Path((digest, name)): Path<(String, String)>,
) -> Result<impl IntoResponse, ApiError> {
    let file = app.evidence.read_part(parse(&digest)?, Some(&name));
    Ok(plain(file.await?))
}

/// Refuses evidence of leases that others held.
async fn check_owner(app: &App, caller: &Caller, digest: Digest) -> Result<(), ApiError> {
    if let Some(owner) = caller.owner() {
        app.engine.store().check_bundle(digest, &owner).await?;
    }
    Ok(())
}

/// Bytes that no browser takes for anything else.
fn plain(bytes: Bytes) -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, "application/octet-stream"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, bytes)
}

fn parse(digest: &str) -> Result<Digest, ApiError> {
    digest
        .parse()
        .map_err(|error| ApiError::Malformed(format!("failed to {error}")))
}

impl From<EvidenceStoreError> for ApiError {
    fn from(error: EvidenceStoreError) -> Self {
        match error {
            EvidenceStoreError::Missing { digest, what } => Self::Unknown {
                subject: "evidence",
                id: format!("{digest}, {what}"),
            },
            EvidenceStoreError::Refused { .. } => Self::Damaged(error.to_string()),
            EvidenceStoreError::Storage { .. } => {
                tracing::warn!("failed to {}", with_causes(&error));
                Self::NoEvidenceStore
            }
            other => Self::internal(other),
        }
    }
}
