//! The dashboard's built files, from the program itself. Pages are made in the browser, so any
//! path without a file extension is answered with the one page there is.

use std::collections::HashMap;
use std::io::Read;
use std::sync::{LazyLock, Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::read::GzEncoder;
use rust_embed::{EmbeddedFile, RustEmbed};

use super::error::ApiError;

#[derive(RustEmbed)]
#[folder = "ui/dist"]
#[allow_missing = true]
struct Files;

/// The content security policy: nothing from other origins and nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Files that were asked for, compressed, by their tag: compressing the program for each reader takes longer than sending it.
static COMPRESSED: LazyLock<Mutex<HashMap<String, Bytes>>> = LazyLock::new(Mutex::default);

const NOT_BUILT: &str = "The dashboard's files are not part of this build. In crates/server/ui run `npm ci && npm run build`, then build the program again. The API is described at /api/openapi.json.\n";

/// Answers what no API route took.
pub async fn serve(request: Request) -> Response {
    let path = request.uri().path();
    if path == "/api" || path.starts_with("/api/") {
        return ApiError::NoRoute(path.to_owned()).into_response();
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return ApiError::MethodNotAllowed.into_response();
    }
    let name = path.trim_start_matches('/');
    if let Some(file) = Files::get(name) {
        return answer(name, file, request.headers());
    }
    let last = name.rsplit('/').next().unwrap_or_default();
    if last.contains('.') {
        return ApiError::NoRoute(path.to_owned()).into_response();
    }
    match Files::get("index.html") {
        Some(page) => answer("index.html", page, request.headers()),
        None => (StatusCode::NOT_FOUND, NOT_BUILT).into_response(),
    }
}

/// Every file is revalidated by its digest: a new build shows at once, an old one costs 304.
fn answer(name: &str, file: EmbeddedFile, request: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", domain::digest::Digest::of(&file.data).short());
    let headers = [
        (CONTENT_TYPE, content_type(name).to_owned()),
        (CACHE_CONTROL, "no-cache".to_owned()),
        (ETAG, tag.clone()),
        (CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    let known = request
        .get(IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|tags| tags.split(',').any(|known| known.trim() == tag));
    if known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    let vary = (VARY, "accept-encoding");
    match accepts_gzip(request).then(|| compressed(&tag, &file.data)) {
        Some(Ok(bytes)) => (headers, [vary, (CONTENT_ENCODING, "gzip")], bytes).into_response(),
        // Memory takes every byte; the layer around all answers compresses what comes plain.
        Some(Err(_)) | None => (headers, [vary], file.data.into_owned()).into_response(),
    }
}

fn accepts_gzip(request: &HeaderMap) -> bool {
    let accepted = request.get(ACCEPT_ENCODING);
    accepted
        .and_then(|value| value.to_str().ok())
        .is_some_and(|names| names.split(',').any(|name| name.trim() == "gzip"))
}

/// The file with this tag in gzip, compressed once.
fn compressed(tag: &str, data: &[u8]) -> std::io::Result<Bytes> {
    // Entries are whole, whatever ended a thread that held the lock.
    let mut kept = COMPRESSED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = kept.get(tag) {
        return Ok(bytes.clone());
    }
    let mut bytes = Vec::new();
    GzEncoder::new(data, Compression::best()).read_to_end(&mut bytes)?;
    let bytes = Bytes::from(bytes);
    kept.insert(tag.to_owned(), bytes.clone());
    Ok(bytes)
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("json" | "map") => "application/json",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
