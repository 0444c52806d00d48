//! Workers on machines of Google Cloud: the programs of `docker/gce` and the notice of a machine that is taken,
//! against a stand-in for the cloud's two services, the one of groups and the one of a machine's metadata.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use domain::api::{RunRequest, RunState};
use domain::search::Method;
use lab::{Finished, Lab};
use serde::Deserialize;
use serde_json::{Value, json};

/// The state of the stand-in, which a test changes.
#[derive(Debug, Default)]
struct Cloud {
    /// Machines that the group is to have.
    size: u64,
    /// The refusal of each change.
    refusal: Option<&'static str>,
    /// Codes of machines that could not be made, just now.
    failures: Vec<&'static str>,
    /// Machines that left the group.
    left: Vec<String>,
    /// True if the machine is about to be taken.
    preempted: bool,
}

#[derive(Clone, Default)]
struct StandIn {
    cloud: Arc<Mutex<Cloud>>,
}

impl StandIn {
    fn cloud(&self) -> MutexGuard<'_, Cloud> {
        self.cloud.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts it, and returns it with its address.
    async fn start() -> Result<(Self, String)> {
        let stand_in = Self::default();
        let group = "/compute/v1/projects/team/regions/here/instanceGroupManagers/workers";
        let router = Router::new()
            .route("/computeMetadata/v1/{*path}", get(metadata))
            .route(group, get(describe))
            .route(&format!("{group}/resize"), post(resize))
            .route(&format!("{group}/listErrors"), get(list_errors))
            .route(&format!("{group}/deleteInstances"), post(delete_instances))
            .with_state(stand_in.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok((stand_in, address))
    }
}

#[derive(Deserialize)]
struct Waiting {
    last_etag: Option<String>,
}

/// The metadata server: it wants a header that no web page can send, and holds a request open until a value changes.
async fn metadata(
    State(stand_in): State<StandIn>,
    Path(path): Path<String>,
    Query(waiting): Query<Waiting>,
    headers: HeaderMap,
) -> Response {
    if headers
        .get("metadata-flavor")
        .is_none_or(|flavor| flavor != "Google")
    {
        return StatusCode::FORBIDDEN.into_response();
    }
    let text = match path.as_str() {
        "instance/service-accounts/default/token" => r#"{"access_token":"access"}"#.to_owned(),
        "instance/attributes/created-by" => {
            "projects/team/regions/here/instanceGroupManagers/workers".to_owned()
        }
        "instance/zone" => "projects/1234/zones/here-a".to_owned(),
        "instance/name" => "workers-x1".to_owned(),
        "project/project-id" => "team".to_owned(),
        "instance/preempted" => {
            let version = |preempted: bool| format!("version-{preempted}");
            while waiting.last_etag == Some(version(stand_in.cloud().preempted)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let preempted = stand_in.cloud().preempted;
            let text = if preempted { "TRUE" } else { "FALSE" };
            return ([("etag", version(preempted))], text).into_response();
        }
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    text.into_response()
}

/// The answer to a request with the machine's access token, unless changes are refused.
fn answer(stand_in: &StandIn, headers: &HeaderMap, changes: bool, answer: Value) -> Response {
    let refuse = |status: StatusCode, message: &str| {
        let error = json!({ "error": { "code": status.as_u16(), "message": message } });
        (status, Json(error)).into_response()
    };
    if headers
        .get("authorization")
        .is_none_or(|token| token != "Bearer access")
    {
        return refuse(StatusCode::UNAUTHORIZED, "Invalid Credentials");
    }
    match stand_in.cloud().refusal.filter(|_| changes) {
        Some(refusal) => refuse(StatusCode::FORBIDDEN, refusal),
        None => Json(answer).into_response(),
    }
}

async fn describe(State(stand_in): State<StandIn>, headers: HeaderMap) -> Response {
    let size = stand_in.cloud().size;
    answer(&stand_in, &headers, false, json!({ "targetSize": size }))
}

#[derive(Deserialize)]
struct Size {
    size: u64,
}

async fn resize(
    State(stand_in): State<StandIn>,
    Query(wanted): Query<Size>,
    headers: HeaderMap,
) -> Response {
    let answered = answer(&stand_in, &headers, true, json!({ "status": "RUNNING" }));
    if answered.status().is_success() {
        stand_in.cloud().size = wanted.size;
    }
    answered
}

async fn list_errors(State(stand_in): State<StandIn>, headers: HeaderMap) -> Response {
    // Failures of now have a time that stays later than ten minutes ago. One is old.
    let now = "2999-01-01T00:00:00.000-08:00";
    let failures = stand_in.cloud().failures.clone();
    let failures = failures.into_iter().map(|code| (now, code));
    let old = ("2026-01-01T00:00:00.000-08:00", "INTERNAL_ERROR");
    let items = failures.chain([old]);
    let items = items.map(|(at, code)| json!({ "timestamp": at, "error": { "code": code } }));
    answer(
        &stand_in,
        &headers,
        false,
        json!({ "items": items.collect::<Vec<_>>() }),
    )
}

async fn delete_instances(
    State(stand_in): State<StandIn>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let answered = answer(&stand_in, &headers, true, json!({ "status": "RUNNING" }));
    if answered.status().is_success() {
        let machines = body["instances"].as_array().into_iter().flatten();
        let machines = machines.filter_map(Value::as_str).map(str::to_owned);
        let mut cloud = stand_in.cloud();
        cloud.left.extend(machines);
        cloud.size = cloud.size.saturating_sub(1);
    }
    answered
}

/// Runs a program of `docker/gce` on another thread, so that the stand-in keeps answering.
async fn run(name: &str, address: &str, arguments: &[&str]) -> Result<Finished> {
    let program = lab::repository().join("docker/gce").join(name);
    let api = format!("http://{address}/compute/v1");
    let address = address.to_owned();
    let arguments = arguments
        .iter()
        .map(|&one| one.to_owned())
        .collect::<Vec<_>>();
    tokio::task::spawn_blocking(move || {
        let environment = [
            ("GCE_METADATA_HOST", address.as_str()),
            ("COMPUTE_API", api.as_str()),
            ("LEAVE_PAUSE", "0"),
        ];
        let arguments = arguments.iter().map(String::as_str).collect::<Vec<_>>();
        lab::program(&program, &environment, &arguments)
    })
    .await?
}

/// The example's settings, for this service and the stand-in's group.
fn settings(lab: &Lab, more: &str) -> Result<PathBuf> {
    let example = lab::repository().join("docker/gce/settings.example");
    let own = format!(
        "PROJECT=team\nREGION=here\nGROUP=workers\nSERVICE={}\nMETRICS_TOKEN_FILE=\n{more}",
        lab.address()?
    );
    let text = std::fs::read_to_string(example)? + &own;
    let path = lab.path().join("gce");
    std::fs::write(&path, text)?;
    Ok(path)
}

async fn launch(lab: &Lab) -> Result<domain::api::RunView> {
    let request = RunRequest::new("softmax-f32", Method::Playbook);
    lab.launch(&lab::small_softmax()?, &request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_grows_with_the_queue_and_machines_leave_it() -> Result<()> {
    let (stand_in, address) = StandIn::start().await?;
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let group = settings(&lab, "JOBS_PER_WORKER=1\nMAX_WORKERS=2")?;
    let group = group.to_str().context("a UTF-8 path")?;
    let arguments = [group];
    let grow = || run("grow-group", &address, &arguments);

    let done = grow().await?;
    ensure!(
        done.stdout.contains("0 jobs: 0 machines are enough"),
        "{done:?}"
    );
    for _ in 0..3 {
        launch(&lab).await?;
    }
    // A run's first job is there a moment after its launch.
    let metrics = lab.address()? + "/metrics";
    let began = std::time::Instant::now();
    loop {
        let text = reqwest::get(&metrics).await?.text().await?;
        if text.contains("kernelwright_jobs{state=\"queued\",device=\"\"} 3") {
            break;
        }
        ensure!(began.elapsed() < Duration::from_secs(20), "{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    stand_in.cloud().refusal = Some("Quota 'NVIDIA_L4_GPUS' exceeded. Limit: 0.0 in region here.");
    let done = grow().await?;
    assert_eq!(done.status.code(), Some(1));
    ensure!(
        done.stderr.contains("Quota 'NVIDIA_L4_GPUS' exceeded"),
        "{done:?}"
    );
    assert_eq!(stand_in.cloud().size, 0);

    stand_in.cloud().refusal = None;
    stand_in.cloud().failures = vec!["ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"; 2];
    let done = grow().await?;
    ensure!(
        done.status.success() && done.stdout.contains("from 0 to 2 machines"),
        "{done:?}"
    );
    let shortage = "no machine is free in a zone (2 attempts";
    ensure!(done.stderr.contains(shortage), "{done:?}");
    ensure!(!done.stderr.contains("INTERNAL_ERROR"), "{done:?}");
    assert_eq!(stand_in.cloud().size, 2);
    let done = grow().await?;
    ensure!(done.stdout.contains("2 machines are enough"), "{done:?}");

    // An idle machine leaves, and the group makes no other in its place.
    let done = run("leave-group", &address, &[]).await?;
    ensure!(done.status.success(), "{done:?}");
    assert_eq!(
        stand_in.cloud().left,
        ["projects/team/zones/here-a/instances/workers-x1"]
    );
    assert_eq!(stand_in.cloud().size, 1);
    stand_in.cloud().refusal = Some("Required 'compute.instanceGroupManagers.update' permission");
    let done = run("leave-group", &address, &[]).await?;
    ensure!(
        !done.status.success() && done.stderr.contains("permission"),
        "{done:?}"
    );

    // A service that cannot be reached is named.
    let nowhere = settings(&lab, "SERVICE=http://127.0.0.1:9\n")?;
    let nowhere = nowhere.to_str().context("a UTF-8 path")?;
    let done = run("grow-group", &address, &[nowhere]).await?;
    ensure!(
        !done.status.success() && done.stderr.contains("127.0.0.1:9/metrics"),
        "{done:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_on_a_machine_that_is_taken_hands_its_job_back() -> Result<()> {
    let (stand_in, address) = StandIn::start().await?;
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let environment = [
        ("KERNELWRIGHT_PREEMPTION_NOTICE", "gce"),
        ("GCE_METADATA_HOST", address.as_str()),
    ];
    let spot = lab.worker_with("spot", &environment)?;
    let run = launch(&lab).await?;
    lab.until_logged(&spot, "evaluating cand_").await?;
    stand_in.cloud().preempted = true;
    lab.until_logged(&spot, "this machine is about to be taken")
        .await?;
    lab.until_logged(&spot, "handing the lease back").await?;
    drop(spot);
    // Another machine goes on.
    let _worker = lab.worker("another")?;
    let run = lab.finished(run.id).await?;
    ensure!(
        matches!(run.state, RunState::Completed { .. }),
        "{}",
        run.state
    );
    Ok(())
}
