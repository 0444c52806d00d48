//! Bundles of evidence: workers elsewhere send them, anybody on this machine reads them.
//!
//! Each file is checked against its digest on arrival, and lies in the data folder as if it had been made
//! here. The keys of the inputs stay where the evaluations ran.

use std::path::PathBuf;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::IntoResponse;
use domain::digest::Digest;
use domain::lease::EvidenceReceipt;
use worker::evaluate::evidence::transfer::{self, TransferError};

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
    let missing = blocking(app, move |data| {
        transfer::receive_manifest(&data, digest, &body)
    })
    .await?;
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
    let take = move |data: PathBuf| transfer::receive_file(&data, digest, &name, &body);
    let missing = blocking(app, take).await?;
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
    let digest = parse(&digest)?;
    Ok(plain(
        blocking(app, move |data| transfer::read_part(&data, digest, None)).await?,
    ))
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
    let digest = parse(&digest)?;
    let give = move |data: PathBuf| transfer::read_part(&data, digest, Some(&name));
    Ok(plain(blocking(app, give).await?))
}

/// Refuses evidence of leases that others held.
async fn check_owner(app: &App, caller: &Caller, digest: Digest) -> Result<(), ApiError> {
    if let Some(owner) = caller.owner() {
        app.engine.store().check_bundle(digest, &owner).await?;
    }
    Ok(())
}

/// Bytes that no browser takes for anything else.
fn plain(bytes: Vec<u8>) -> impl IntoResponse {
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

/// Works on the data folder in a thread that may block on the disk.
async fn blocking<T: Send + 'static>(
    app: App,
    work: impl FnOnce(PathBuf) -> Result<T, TransferError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(move || work(app.data));
    match done.await.map_err(ApiError::internal)? {
        Ok(done) => Ok(done),
        Err(TransferError::Missing { digest, what }) => Err(ApiError::Unknown {
            subject: "evidence",
            id: format!("{digest}, {what}"),
        }),
        Err(error @ TransferError::Refused { .. }) => Err(ApiError::Damaged(error.to_string())),
        Err(error @ TransferError::Storage { .. }) => Err(ApiError::internal(error)),
    }
}
