//! Tasks: upload with its check, list, get.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use domain::api::TaskView;
use domain::task::{Bundle, Task};

use super::App;
use super::error::{AnyProblem, ApiError};
use super::extract::Body;

/// Checks a task's files and stores them. The same files give the same version.
#[utoipa::path(
    post,
    path = "/tasks",
    tag = "tasks",
    security(("token" = ["user"])),
    request_body = Bundle,
    responses((status = 201, body = TaskView), AnyProblem)
)]
pub async fn upload(
    State(app): State<App>,
    Body(bundle): Body<Bundle>,
) -> Result<impl IntoResponse, ApiError> {
    let task = Task::load(&bundle).map_err(ApiError::Invalid)?;
    let view = app
        .engine
        .store()
        .put_task(&task, &bundle, app.engine.now())
        .await?;
    tracing::info!(
        task.name = view.name,
        "stored task {} version {}",
        view.name,
        view.version.short()
    );
    let location = [(LOCATION, format!("/api/v1/tasks/{}", view.name))];
    Ok((StatusCode::CREATED, location, Json(view)))
}

/// The newest version of every task.
#[utoipa::path(get, path = "/tasks", tag = "tasks", security(("token" = ["viewer"])), responses((status = 200, body = [TaskView]), AnyProblem))]
pub async fn list(State(app): State<App>) -> Result<Json<Vec<TaskView>>, ApiError> {
    Ok(Json(app.engine.store().tasks().await?))
}

/// The newest version of one task.
#[utoipa::path(
    get,
    path = "/tasks/{name}",
    tag = "tasks",
    security(("token" = ["viewer"])),
    params(("name" = String, Path, description = "The task's name")),
    responses((status = 200, body = TaskView), AnyProblem)
)]
pub async fn get(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<TaskView>, ApiError> {
    match app.engine.store().task(&name).await? {
        Some(stored) => Ok(Json(stored.view)),
        None => Err(ApiError::Unknown {
            subject: "task",
            id: name,
        }),
    }
}
