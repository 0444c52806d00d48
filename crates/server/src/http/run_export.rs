//! The route that exports a run as one file.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::IntoResponse;
use domain::id::RunId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use super::error::{AnyProblem, ApiError};
use super::extract::{Id, Parameters};
use crate::run_export::{PAGE, Records, RunExportFormat, export as write_export};

/// The policy of exported pages, should a browser show one: no code, nothing from elsewhere, no
/// origin of ours.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// Query parameters of an export.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ExportQuery {
    /// The form; `jsonl` when absent.
    format: Option<RunExportFormat>,
}

/// Exports a run as one file: JSON lines, comma-separated values, an HTML report, or a tar archive
/// with everything that the service has of it. The answer is streamed; a failure closes the connection
/// before its end.
#[utoipa::path(
    get,
    path = "/runs/{id}/export",
    tag = "runs",
    security(("token" = ["viewer"])),
    params(("id" = RunId, Path, description = "The run"), ExportQuery),
    responses(
        (status = 200, description = "The file", content(
            (String = "application/jsonl"),
            (String = "text/csv"),
            (String = "text/html"),
            (Vec<u8> = "application/x-tar")
        )),
        AnyProblem
    )
)]
pub async fn export(
    State(app): State<App>,
    Id(run): Id<RunId>,
    Parameters(query): Parameters<ExportQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let view = app.engine.store().run(run).await?;
    let view = view.ok_or_else(|| ApiError::Unknown {
        subject: "run",
        id: run.to_string(),
    })?;
    let format = query.format.unwrap_or_default();
    let name = format!("run-{}.{}", run.uuid(), format.extension());
    let headers = [
        (CONTENT_TYPE, format.media_type().to_owned()),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        ),
        (CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    let records = Records {
        engine: app.engine,
        evidence: app.evidence,
        page: PAGE,
        closing: app.closing,
    };
    Ok((
        headers,
        Body::from_stream(write_export(records, view, format)),
    ))
}
