//! The fleet: register, lease by long poll, renew, report.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::api::{DeviceMonth, Fleet, FleetHealth, WorkerView};
use domain::health::{Condition, HealthReport};
use domain::id::{JobId, WorkerId};
use domain::lease::{Lease, Receipt, Registered, Registration, Renewal, Report};
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::App;
use super::access::Caller;
use super::error::{AnyProblem, ApiError};
use super::extract::{Body, Id, Parameters};

/// The longest a poll may wait, seconds.
const MAX_WAIT: u32 = 30;
/// The shortest time for which a request waits for its turn to look for a job.
const MIN_PATIENCE: Duration = Duration::from_secs(10);

/// Query parameters of a poll for a job.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct PollQuery {
    /// Seconds to wait for a job, at most 30; 0 answers at once.
    #[serde(default)]
    wait: u32,
}

/// A worker introduces itself.
#[utoipa::path(post, path = "/workers", tag = "fleet", security(("token" = ["worker"])), request_body = Registration, responses((status = 201, body = Registered), AnyProblem))]
pub async fn register(
    State(app): State<App>,
    caller: Caller,
    Body(registration): Body<Registration>,
) -> Result<(StatusCode, Json<Registered>), ApiError> {
    registration.validate().map_err(ApiError::Invalid)?;
    let registered = app
        .engine
        .store()
        .register_as(&registration, caller.owner().as_deref(), app.engine.now())
        .await?;
    let id = registered.worker;
    tracing::info!(worker.id = %id, "registered worker {:?} with {} as {id}", registration.name, registration.device);
    Ok((StatusCode::CREATED, Json(registered)))
}

/// Lists the workers with a request in the last hour.
#[utoipa::path(get, path = "/workers", tag = "fleet", security(("token" = ["viewer"])), responses((status = 200, body = [WorkerView]), AnyProblem))]
pub async fn list(State(app): State<App>) -> Result<Json<Vec<WorkerView>>, ApiError> {
    Ok(Json(app.engine.store().workers(app.engine.now()).await?))
}

/// The workers with their states, their jobs and their throughput, and the jobs that wait.
#[utoipa::path(get, path = "/fleet", tag = "fleet", security(("token" = ["viewer"])), responses((status = 200, body = Fleet), AnyProblem))]
pub async fn fleet(State(app): State<App>) -> Result<Json<Fleet>, ApiError> {
    Ok(Json(app.engine.store().fleet(app.engine.now()).await?))
}

/// The hours of each worker's device by month of UTC, attached and evaluating, with their price; the newest
/// month first, at most 1,000 rows.
#[utoipa::path(get, path = "/fleet/hours", tag = "fleet", security(("token" = ["viewer"])), responses((status = 200, body = [DeviceMonth]), AnyProblem))]
pub async fn hours(State(app): State<App>) -> Result<Json<Vec<DeviceMonth>>, ApiError> {
    Ok(Json(app.engine.store().device_months().await?))
}

/// Drains a worker: it gets no further job, and leaves once it has reported the present one. Started
/// again, it takes work again.
#[utoipa::path(post, path = "/workers/{id}/drain", tag = "fleet", security(("token" = ["admin"])), params(("id" = WorkerId, Path, description = "The worker")), responses((status = 204, description = "The worker is drained"), AnyProblem))]
pub async fn drain(
    State(app): State<App>,
    Id(worker): Id<WorkerId>,
) -> Result<StatusCode, ApiError> {
    app.engine.store().drain_worker(worker).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Records a worker's report on its device. A quarantined device gets no lease.
#[utoipa::path(post, path = "/workers/{id}/health", tag = "fleet", security(("token" = ["worker"])), params(("id" = WorkerId, Path, description = "The worker")), request_body = HealthReport, responses((status = 204, description = "Noted"), AnyProblem))]
pub async fn tell_health(
    State(app): State<App>,
    caller: Caller,
    Id(worker): Id<WorkerId>,
    Body(report): Body<HealthReport>,
) -> Result<StatusCode, ApiError> {
    report.validate().map_err(ApiError::Invalid)?;
    let store = app.engine.store();
    let owner = caller.owner();
    store.check_worker(worker, owner.as_deref()).await?;
    store.note_health(worker, &report, app.engine.now()).await?;
    if let Condition::Quarantined { reason } = &report.condition {
        tracing::warn!(worker.id = %worker, "a device is set aside: {reason}");
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the health of all devices, and the quarantined candidates.
#[utoipa::path(get, path = "/devices", tag = "fleet", security(("token" = ["viewer"])), responses((status = 200, body = FleetHealth), AnyProblem))]
pub async fn devices(State(app): State<App>) -> Result<Json<FleetHealth>, ApiError> {
    Ok(Json(app.engine.store().fleet_health().await?))
}

/// Lends a job to a worker, waiting for one if it is asked to.
#[utoipa::path(
    post,
    path = "/workers/{id}/lease",
    tag = "fleet",
    security(("token" = ["worker"])),
    params(("id" = WorkerId, Path, description = "The worker"), PollQuery),
    responses(
        (status = 200, body = Lease, description = "A job"),
        (status = 204, description = "No job in that time: ask again"),
        AnyProblem
    )
)]
pub async fn lease(
    State(app): State<App>,
    caller: Caller,
    Id(worker): Id<WorkerId>,
    Parameters(query): Parameters<PollQuery>,
) -> Result<Response, ApiError> {
    let wait = Duration::from_secs(u64::from(query.wait.min(MAX_WAIT)));
    let until = Instant::now() + wait;
    let patience = until.max(Instant::now() + MIN_PATIENCE);
    let owner = caller.owner();
    let store = app.engine.store();
    let device = Box::pin(store.check_lease(worker, owner.as_deref())).await?;
    // Before the first look, so that a job which is queued after it wakes the request.
    let mut request = (!wait.is_zero()).then(|| app.waiting.enter(worker, device));
    loop {
        let turn = tokio::select! {
            turn = app.waiting.turn() => turn,
            () = app.closing.cancelled() => return Ok(StatusCode::NO_CONTENT.into_response()),
            () = tokio::time::sleep_until(patience) => return Ok(StatusCode::NO_CONTENT.into_response()),
        };
        // Boxed, so that a request holds this memory only while it looks.
        let lease = Box::pin(app.engine.lease(worker)).await?;
        drop(turn);
        if let Some(lease) = lease {
            if let Some(request) = request {
                request.finish();
            }
            tracing::info!(
                run.id = %lease.run, candidate.id = %lease.candidate, lease.job = %lease.job, lease.attempt = lease.attempt,
                "lent {} to {worker}", lease.job
            );
            return Ok(Json(lease).into_response());
        }
        let Some(request) = &mut request else {
            return Ok(StatusCode::NO_CONTENT.into_response());
        };
        request.wait_on();
        tokio::select! {
            () = app.closing.cancelled() => return Ok(StatusCode::NO_CONTENT.into_response()),
            () = tokio::time::sleep_until(until) => return Ok(StatusCode::NO_CONTENT.into_response()),
            () = request.woken() => {}
        }
        Box::pin(store.check_lease(worker, owner.as_deref())).await?;
    }
}

/// Extends a lease, and records the worker's stage.
#[utoipa::path(post, path = "/leases/{job}/renew", tag = "fleet", security(("token" = ["worker"])), params(("job" = JobId, Path, description = "The job")), request_body = Renewal, responses((status = 200, body = Receipt), AnyProblem))]
pub async fn renew(
    State(app): State<App>,
    caller: Caller,
    Id(job): Id<JobId>,
    Body(renewal): Body<Renewal>,
) -> Result<Json<Receipt>, ApiError> {
    renewal.validate().map_err(ApiError::Invalid)?;
    let store = app.engine.store();
    if let Some(owner) = caller.owner() {
        store.check_holder(job, &owner).await?;
    }
    Ok(Json(store.renew(job, &renewal, app.engine.now()).await?))
}

/// Ends a lease. A report of an attempt that no longer holds the job changes nothing and is
/// answered `superseded`.
#[utoipa::path(post, path = "/leases/{job}/report", tag = "fleet", security(("token" = ["worker"])), params(("job" = JobId, Path, description = "The job")), request_body = Report, responses((status = 200, body = Receipt), AnyProblem))]
pub async fn report(
    State(app): State<App>,
    caller: Caller,
    Id(job): Id<JobId>,
    Body(report): Body<Report>,
) -> Result<Json<Receipt>, ApiError> {
    report.validate().map_err(ApiError::Invalid)?;
    let store = app.engine.store();
    if let Some(owner) = caller.owner() {
        store.check_holder(job, &owner).await?;
    }
    let receipt = store.report(job, &report, app.engine.now()).await?;
    if receipt == Receipt::Accepted {
        app.metrics.count_report(&report.outcome);
    }
    tracing::info!(lease.job = %job, lease.attempt = report.attempt, "report on {job}: {receipt:?}");
    Ok(Json(receipt))
}
