//! A stand-in for the cloud's HTTP services: a machine's metadata, groups of machines, objects in buckets, secrets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, FixedOffset, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

/// The public bucket with Google's installer of the driver.
const PUBLIC_BUCKET: &str = "compute-gpu-installation-us/";

/// The state of the stand-in, which a test changes.
#[derive(Debug)]
pub struct Cloud {
    /// Machines that the group is to have; none if there is no group.
    pub size: Option<u64>,
    /// The refusal of each change.
    pub refusal: Option<&'static str>,
    /// Codes of machines that could not be made, with the minutes since then.
    pub failures: Vec<(&'static str, u32)>,
    /// Machines that left the group.
    pub left: Vec<String>,
    /// Machines that were stopped.
    pub stopped: Vec<String>,
    /// True if the machine is about to be taken.
    pub preempted: bool,
    /// Attributes of the machine.
    pub attributes: BTreeMap<String, String>,
    /// True if the machine has a service account.
    pub has_account: bool,
    /// True if the service account may read objects and secrets.
    pub may_read: bool,
    /// Objects by bucket and name.
    pub objects: BTreeMap<String, Vec<u8>>,
    /// Secrets by name, in base64.
    pub secrets: BTreeMap<String, String>,
}

#[derive(Clone)]
pub struct StandIn {
    cloud: Arc<Mutex<Cloud>>,
}

impl StandIn {
    pub fn cloud(&self) -> MutexGuard<'_, Cloud> {
        self.cloud.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts it, and returns it with its address.
    pub async fn start() -> Result<(Self, String)> {
        let group = "projects/team/regions/here/instanceGroupManagers/workers";
        let stand_in = Self {
            cloud: Arc::new(Mutex::new(Cloud {
                size: Some(0),
                refusal: None,
                failures: Vec::new(),
                left: Vec::new(),
                stopped: Vec::new(),
                preempted: false,
                attributes: [("created-by".to_owned(), group.to_owned())].into(),
                has_account: true,
                may_read: true,
                objects: BTreeMap::new(),
                secrets: BTreeMap::new(),
            })),
        };
        let group = format!("/compute/v1/{group}");
        let router = Router::new()
            .route("/computeMetadata/v1/{*path}", get(metadata))
            .route(&group, get(describe))
            .route(&format!("{group}/resize"), post(resize))
            .route(&format!("{group}/listErrors"), get(list_errors))
            .route(&format!("{group}/deleteInstances"), post(delete_instances))
            .route(
                "/compute/v1/projects/team/zones/here-a/instances/{name}/stop",
                post(stop),
            )
            .route("/storage/{*path}", get(object))
            .route("/service/metrics", get(StatusCode::UNAUTHORIZED))
            .route(
                "/secrets/projects/team/secrets/{name}/versions/latest:access",
                get(secret),
            )
            .with_state(stand_in.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok((stand_in, address))
    }
}

/// The variables with which the programs find the stand-in at an address.
pub fn environment(address: &str) -> [(&'static str, String); 6] {
    [
        ("GCE_METADATA_HOST", address.to_owned()),
        ("COMPUTE_API", format!("http://{address}/compute/v1")),
        ("STORAGE_API", format!("http://{address}/storage")),
        ("SECRETS_API", format!("http://{address}/secrets")),
        ("LEAVE_PAUSE", "0".to_owned()),
        ("LEAVE_DELAY", "0".to_owned()),
    ]
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
    if let Some(name) = path.strip_prefix("instance/attributes/") {
        let value = stand_in.cloud().attributes.get(name).cloned();
        return value.ok_or(StatusCode::NOT_FOUND).into_response();
    }
    if path.starts_with("instance/service-accounts/") && !stand_in.cloud().has_account {
        return StatusCode::NOT_FOUND.into_response();
    }
    let text = match path.as_str() {
        "instance/service-accounts/default/token" => r#"{"access_token":"access"}"#,
        "instance/service-accounts/default/email" => "workers@team.example",
        "instance/zone" => "projects/1234/zones/here-a",
        "instance/name" => "workers-x1",
        "project/project-id" => "team",
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

fn is_authorised(headers: &HeaderMap) -> bool {
    headers
        .get("authorization")
        .is_some_and(|token| token == "Bearer access")
}

/// A refusal as Compute Engine and Secret Manager word it.
fn refuse(status: StatusCode, message: &str) -> Response {
    let error = json!({ "error": { "code": status.as_u16(), "message": message } });
    (status, Json(error)).into_response()
}

/// A refusal as Cloud Storage words it.
fn refuse_object(status: StatusCode, code: &str, message: &str) -> Response {
    let error = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
    (status, error).into_response()
}

/// The answer to a request with the machine's access token, unless changes are refused.
fn answer(stand_in: &StandIn, headers: &HeaderMap, changes: bool, answer: Value) -> Response {
    if !is_authorised(headers) {
        return refuse(StatusCode::UNAUTHORIZED, "Invalid Credentials");
    }
    match stand_in.cloud().refusal.filter(|_| changes) {
        Some(refusal) => refuse(StatusCode::FORBIDDEN, refusal),
        None => Json(answer).into_response(),
    }
}

async fn describe(State(stand_in): State<StandIn>, headers: HeaderMap) -> Response {
    let Some(size) = stand_in.cloud().size else {
        let group = "projects/team/regions/here/instanceGroupManagers/workers";
        let message = format!("The resource '{group}' was not found");
        return refuse(StatusCode::NOT_FOUND, &message);
    };
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
        stand_in.cloud().size = Some(wanted.size);
    }
    answered
}

/// Times have the offset of California, as the cloud's have.
async fn list_errors(State(stand_in): State<StandIn>, headers: HeaderMap) -> Response {
    let now = DateTime::<Utc>::from(SystemTime::now());
    let california = FixedOffset::west_opt(8 * 3600).expect("an offset below a day");
    let item = |&(code, minutes): &(&str, u32)| {
        let at = now - Duration::from_secs(60 * u64::from(minutes));
        let at = at.with_timezone(&california);
        let at = at.to_rfc3339_opts(chrono::SecondsFormat::Millis, false);
        json!({ "timestamp": at, "error": { "code": code } })
    };
    let items: Vec<Value> = stand_in.cloud().failures.iter().map(item).collect();
    answer(&stand_in, &headers, false, json!({ "items": items }))
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
        cloud.size = cloud.size.map(|size| size.saturating_sub(1));
    }
    answered
}

async fn stop(
    State(stand_in): State<StandIn>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    let answered = answer(&stand_in, &headers, true, json!({ "status": "RUNNING" }));
    if answered.status().is_success() {
        stand_in.cloud().stopped.push(name);
    }
    answered
}

async fn object(
    State(stand_in): State<StandIn>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Response {
    let cloud = stand_in.cloud();
    if !path.starts_with(PUBLIC_BUCKET) {
        if !is_authorised(&headers) {
            return refuse_object(
                StatusCode::UNAUTHORIZED,
                "AuthenticationRequired",
                "Authentication required.",
            );
        }
        if !cloud.may_read {
            let message = "Access denied.";
            return refuse_object(StatusCode::FORBIDDEN, "AccessDenied", message);
        }
    }
    match cloud.objects.get(&path) {
        Some(content) => content.clone().into_response(),
        None => refuse_object(
            StatusCode::NOT_FOUND,
            "NoSuchKey",
            "The specified key does not exist.",
        ),
    }
}

async fn secret(
    State(stand_in): State<StandIn>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    let cloud = stand_in.cloud();
    if !is_authorised(&headers) {
        return refuse(StatusCode::UNAUTHORIZED, "Invalid Credentials");
    }
    if !cloud.may_read {
        let message = "Permission 'secretmanager.versions.access' denied for the resource";
        return refuse(StatusCode::FORBIDDEN, message);
    }
    match cloud.secrets.get(&name) {
        Some(data) => Json(json!({ "payload": { "data": data } })).into_response(),
        None => refuse(
            StatusCode::NOT_FOUND,
            &format!("Secret [projects/1234/secrets/{name}] not found or has no versions."),
        ),
    }
}
