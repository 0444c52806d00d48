//! Tasks: upload with its check, list, definition, files, runs and leaderboards.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, LOCATION, X_CONTENT_TYPE_OPTIONS};
use axum::response::IntoResponse;
use domain::api::{
    Leaderboard, LeaderboardPage, RunPage, TaskAdmission, TaskDefinition, TaskVersion, TaskView,
};
use domain::task::{Bundle, Task};
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use super::error::{AnyProblem, ApiError};
use super::extract::{Parameters, RawBody};
use super::runs::RunFilter;

/// The most entries of one leaderboard.
const MAX_ENTRIES: u32 = 100;
/// The most tasks of one page of leaderboards.
const MAX_TASKS: u32 = 50;

/// Query parameters of a task's file.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct FileQuery {
    /// The path in the task's folder, such as "playbook/01-vector-loads.cu".
    path: String,
}

/// Query parameters of a task's leaderboards.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct BoardQuery {
    /// At most this many entries of each, 1 to 100; 20 when absent.
    limit: Option<u32>,
}

/// Query parameters of all leaderboards.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct BoardFilter {
    /// The `next` of the page before; the first tasks when absent.
    cursor: Option<String>,
    /// At most this many tasks, 1 to 50; 20 when absent.
    limit: Option<u32>,
    /// At most this many entries of each leaderboard, 1 to 100; 5 when absent.
    entries: Option<u32>,
}

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
    RawBody(bundle): RawBody<Bundle>,
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
        None => Err(unknown(name)),
    }
}

/// The definition of a task's newest version: everything that candidates are judged by.
#[utoipa::path(
    get,
    path = "/tasks/{name}/definition",
    tag = "tasks",
    security(("token" = ["viewer"])),
    params(("name" = String, Path, description = "The task's name")),
    responses((status = 200, body = TaskDefinition), AnyProblem)
)]
pub async fn definition(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<TaskDefinition>, ApiError> {
    let definition = app.engine.task_definition(&name).await?;
    definition.map(Json).ok_or_else(|| unknown(name))
}

/// The text of one file of a task's newest version.
#[utoipa::path(
    get,
    path = "/tasks/{name}/file",
    tag = "tasks",
    security(("token" = ["viewer"])),
    params(("name" = String, Path, description = "The task's name"), FileQuery),
    responses((status = 200, body = String, content_type = "text/plain"), AnyProblem)
)]
pub async fn file(
    State(app): State<App>,
    Path(name): Path<String>,
    Parameters(query): Parameters<FileQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let stored = app.engine.store().task(&name).await?;
    let mut stored = stored.ok_or_else(|| unknown(name))?;
    let text = stored.bundle.files.remove(&query.path);
    let text = text.ok_or(ApiError::Unknown {
        subject: "file",
        id: query.path,
    })?;
    let headers = [
        (CONTENT_TYPE, "text/plain; charset=utf-8"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, text))
}

/// The uploads of a task that differ in any file, newest first, with the runs that use each.
#[utoipa::path(
    get,
    path = "/tasks/{name}/versions",
    tag = "tasks",
    security(("token" = ["viewer"])),
    params(("name" = String, Path, description = "The task's name")),
    responses((status = 200, body = [TaskVersion]), AnyProblem)
)]
pub async fn versions(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<Vec<TaskVersion>>, ApiError> {
    Ok(Json(app.engine.store().task_versions(&name).await?))
}

/// The admissions of a task: for each upload and kind of device the newest decision if it may be searched,
/// with every rule and its number. The newest first.
#[utoipa::path(
    get,
    path = "/tasks/{name}/admissions",
    tag = "tasks",
    security(("token" = ["viewer"])),
    params(("name" = String, Path, description = "The task's name")),
    responses((status = 200, body = [TaskAdmission]), AnyProblem)
)]
pub async fn admissions(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<Vec<TaskAdmission>>, ApiError> {
    Ok(Json(app.engine.store().task_admissions(&name).await?))
}

/// Runs of a task, of all its versions, newest first.
#[utoipa::path(
    get,
    path = "/tasks/{name}/runs",
    tag = "tasks",
    security(("token" = ["viewer"])),
    params(("name" = String, Path, description = "The task's name"), RunFilter),
    responses((status = 200, body = RunPage), AnyProblem)
)]
pub async fn runs(
    State(app): State<App>,
    Path(name): Path<String>,
    Parameters(filter): Parameters<RunFilter>,
) -> Result<Json<RunPage>, ApiError> {
    let (mut wanted, limit) = filter.query()?;
    wanted.task = Some(&name);
    Ok(Json(app.engine.store().runs(&wanted, limit).await?))
}

/// The leaderboards of a task's newest version: for each device and kind of time the best candidate
/// of each run, the fastest first.
#[utoipa::path(
    get,
    path = "/tasks/{name}/leaderboards",
    tag = "tasks",
    security(("token" = ["viewer"])),
    params(("name" = String, Path, description = "The task's name"), BoardQuery),
    responses((status = 200, body = [Leaderboard]), AnyProblem)
)]
pub async fn leaderboards(
    State(app): State<App>,
    Path(name): Path<String>,
    Parameters(query): Parameters<BoardQuery>,
) -> Result<Json<Vec<Leaderboard>>, ApiError> {
    let limit = query.limit.unwrap_or(20).clamp(1, MAX_ENTRIES);
    let store = app.engine.store();
    Ok(Json(store.leaderboards(&name, limit).await?))
}

/// The leaderboards of all tasks, by the tasks' names.
#[utoipa::path(get, path = "/leaderboards", tag = "tasks", security(("token" = ["viewer"])), params(BoardFilter), responses((status = 200, body = LeaderboardPage), AnyProblem))]
pub async fn all_leaderboards(
    State(app): State<App>,
    Parameters(filter): Parameters<BoardFilter>,
) -> Result<Json<LeaderboardPage>, ApiError> {
    let tasks = filter.limit.unwrap_or(20).clamp(1, MAX_TASKS);
    let entries = filter.entries.unwrap_or(5).clamp(1, MAX_ENTRIES);
    let store = app.engine.store();
    let cursor = filter.cursor.as_deref();
    Ok(Json(store.all_leaderboards(cursor, tasks, entries).await?))
}

fn unknown(name: String) -> ApiError {
    ApiError::Unknown {
        subject: "task",
        id: name,
    }
}
