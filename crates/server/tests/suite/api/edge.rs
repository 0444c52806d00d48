//! Checks made on every request before its route, and requests that no route takes.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use flate2::read::GzDecoder;
use insta::assert_snapshot;
use serde_json::Value;

use super::service::Service;

const UNKNOWN: &str = "01938e5a-0000-7000-8000-000000000001";

async fn from(service: &Service, host: &str, origin: Option<&str>) -> StatusCode {
    let mut request = Request::get("/api/v1/health").header("host", host);
    if let Some(origin) = origin {
        request = request.header("origin", origin);
    }
    let answer = service.send(request.body(Body::empty()).unwrap()).await;
    answer.status
}

#[tokio::test]
async fn only_this_machine_and_our_own_pages_may_ask() {
    let service = Service::new().await;
    for (host, origin) in [
        ("127.0.0.1:8787", None),
        ("localhost:9000", None),
        ("[::1]:8787", None),
        ("localhost:9000", Some("http://localhost:9000")),
    ] {
        let status = from(&service, host, origin).await;
        assert_eq!(status, StatusCode::OK, "{host} {origin:?}");
    }
    for (host, origin) in [
        ("evil.example", None),
        ("127.0.0.1.evil.example:8787", None),
        ("127.0.0.1:8787", Some("http://evil.example")),
        ("127.0.0.1:8787", Some("https://127.0.0.1:8787")),
        ("127.0.0.1:8787", Some("http://127.0.0.1:1")),
        ("127.0.0.1:8787", Some("null")),
    ] {
        let status = from(&service, host, origin).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{host} {origin:?}");
    }
    // A load balancer's probe may name no host; every browser does.
    let probe = Request::get("/livez").body(Body::empty()).unwrap();
    assert_eq!(service.send(probe).await.status, StatusCode::NO_CONTENT);
    let request = Request::get("/").header("host", "evil.example");
    let answer = service.send(request.body(Body::empty()).unwrap()).await;
    assert_snapshot!(answer.show(), @r#"
    403 Forbidden
    {
      "detail": "the request is for host \"evil.example\", and without authentication only loopback names are served; use 127.0.0.1 or localhost",
      "status": 403,
      "title": "Foreign host",
      "type": "/problems/foreign-host"
    }
    "#);
}

#[tokio::test]
async fn what_is_not_there_is_named() {
    let service = Service::new().await;
    for (path, subject) in [
        (format!("/api/v1/runs/{UNKNOWN}"), "run"),
        (format!("/api/v1/runs/{UNKNOWN}/lineage"), "run"),
        (format!("/api/v1/runs/{UNKNOWN}/brief"), "run"),
        (format!("/api/v1/runs/{UNKNOWN}/candidates"), "run"),
        (format!("/api/v1/candidates/{UNKNOWN}"), "candidate"),
        (format!("/api/v1/candidates/{UNKNOWN}/source"), "candidate"),
        ("/api/v1/tasks/nothing".to_owned(), "task"),
    ] {
        let answer = service.get(&path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        let document: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(
            document["type"],
            format!("/problems/unknown-{subject}"),
            "{path}"
        );
    }
    let run = service.get(&format!("/api/v1/runs/run_{UNKNOWN}")).await;
    assert_snapshot!(run.show(), @r#"
    404 Not Found
    {
      "detail": "no run \"run_[id 0]\" is stored here; list what is there first",
      "status": 404,
      "title": "Unknown run",
      "type": "/problems/unknown-run"
    }
    "#);
    assert_snapshot!(service.get("/api/v2/runs").await.show(), @r#"
    404 Not Found
    {
      "detail": "nothing is served at /api/v2/runs; the routes are listed at /api/openapi.json",
      "status": 404,
      "title": "No such route",
      "type": "/problems/no-such-route"
    }
    "#);
}

#[tokio::test]
async fn a_field_that_cannot_be_read_is_named_as_a_problem() {
    let service = Service::with_task().await;
    for (body, field) in [
        (
            serde_json::json!({"task": "scale", "budget": {"trials": -1}}),
            "budget.trials",
        ),
        (
            serde_json::json!({"task": "scale", "method": "guess"}),
            "method",
        ),
        (serde_json::json!({"method": "full"}), "task"),
        (serde_json::json!({"task": "scale", "trials": 3}), "trials"),
    ] {
        let answer = service.post("/api/v1/runs", &body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
        let document: Value = serde_json::from_str(&answer.body).unwrap();
        let problems = document["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 1, "{body}");
        assert_eq!(problems[0]["file"], field, "{body}");
        assert!(
            !problems[0]["message"].as_str().unwrap().is_empty(),
            "{body}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_with_the_place() {
    let service = Service::with_task().await;
    assert_snapshot!(service.get("/api/v1/runs/seven").await.show(), @r#"
    400 Bad Request
    {
      "detail": "failed to read \"seven\" as a run id: expected a UUID, with or without the prefix \"run_\"",
      "status": 400,
      "title": "Malformed request",
      "type": "/problems/malformed-request"
    }
    "#);
    assert_snapshot!(service.get("/api/v1/runs?limit=many").await.show(), @r#"
    400 Bad Request
    {
      "detail": "failed to read the query: limit: a whole number from 0 is needed",
      "status": 400,
      "title": "Malformed request",
      "type": "/problems/malformed-request"
    }
    "#);
    assert_snapshot!(service.get("/api/v1/runs?cursor=nowhere").await.show(), @r#"
    400 Bad Request
    {
      "detail": "the cursor is none that a page gave; pass the `next` of the page before, unchanged",
      "status": 400,
      "title": "Malformed request",
      "type": "/problems/malformed-request"
    }
    "#);
    let unknown_field = serde_json::json!({ "task": "scale", "method": "external", "trials": 3 });
    assert_snapshot!(service.post("/api/v1/runs", &unknown_field).await.show(), @r#"
    400 Bad Request
    {
      "detail": "failed to read the body: line 1, column 44: trials: no field is called \"trials\"; the fields are task, method, name, budget, seed, start, device, promotion, models, evolution, lessons, tags",
      "problems": [
        {
          "column": 0,
          "file": "trials",
          "fix": "",
          "line": 0,
          "message": "no field is called \"trials\"; the fields are task, method, name, budget, seed, start, device, promotion, models, evolution, lessons, tags"
        }
      ],
      "status": 400,
      "title": "Malformed request",
      "type": "/problems/malformed-request"
    }
    "#);
    let unknown_task = serde_json::json!({ "task": "nothing", "method": "external" });
    assert_snapshot!(service.post("/api/v1/runs", &unknown_task).await.show(), @r#"
    404 Not Found
    {
      "detail": "no task \"nothing\" is stored here; list what is there first",
      "status": 404,
      "title": "Unknown task",
      "type": "/problems/unknown-task"
    }
    "#);
    let plain = Request::post("/api/v1/runs").body("{}".into()).unwrap();
    assert_snapshot!(service.send(plain).await.show(), @r#"
    415 Unsupported Media Type
    {
      "detail": "the body must be JSON; send the header content-type: application/json",
      "status": 415,
      "title": "Not JSON",
      "type": "/problems/not-json"
    }
    "#);
    let request = Request::delete("/api/v1/runs").body(Body::empty()).unwrap();
    assert_snapshot!(service.send(request).await.show(), @r#"
    405 Method Not Allowed
    {
      "detail": "this route takes other methods; they are listed at /api/openapi.json",
      "status": 405,
      "title": "Method not allowed",
      "type": "/problems/method-not-allowed"
    }
    "#);
}

#[tokio::test]
async fn bodies_are_bounded_by_what_the_route_takes() {
    let (service, run, _) = Service::running().await;
    let large = serde_json::json!({ "source": "x".repeat(2 << 20) });
    let path = format!("/api/v1/runs/{}/candidates", run.uuid());
    assert_snapshot!(service.post(&path, &large).await.show(), @r#"
    413 Payload Too Large
    {
      "detail": "the body is larger than this route takes; a task may have 4 MiB of text, a kernel 256 KiB",
      "status": 413,
      "title": "Body too large",
      "type": "/problems/body-too-large"
    }
    "#);
    let mut bundle = crate::fixtures::task();
    bundle
        .files
        .insert("context.md".to_owned(), "x".repeat(2 << 20));
    let task = service.post("/api/v1/tasks", &bundle).await;
    assert_eq!(task.status, StatusCode::CREATED, "{}", task.body);
}

#[tokio::test]
async fn pages_are_answered_with_the_dashboard_and_its_policy() {
    let service = Service::new().await;
    let page = service.get("/").await;
    let deep = service.get(&format!("/runs/{UNKNOWN}")).await;
    assert_eq!(page.body, deep.body);
    assert_eq!(
        service.get("/assets/missing.js").await.status,
        StatusCode::NOT_FOUND
    );
    let post = Request::post("/runs").body(Body::empty()).unwrap();
    assert_eq!(
        service.send(post).await.status,
        StatusCode::METHOD_NOT_ALLOWED
    );
    assert_eq!(page.status, StatusCode::OK);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    let policy = page.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'"),
        "{policy}"
    );
    let known = Request::get("/").header("if-none-match", page.header("etag"));
    let unchanged = service.send(known.body(Body::empty()).unwrap()).await;
    assert_eq!(unchanged.status, StatusCode::NOT_MODIFIED);
    assert!(unchanged.body.is_empty());
}

#[tokio::test]
async fn pages_are_compressed_for_readers_that_accept_it() {
    let service = Service::new().await;
    let plain = service.get("/").await;
    for _ in 0..2 {
        let request = Request::get("/").header("accept-encoding", "br, gzip");
        let answer = service.open(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.headers()["content-encoding"], "gzip");
        let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let mut text = String::new();
        GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
        assert_eq!(text, plain.body);
    }
}

/// `KERNELWRIGHT_BLESS=1` rewrites the snapshot.
#[tokio::test]
async fn openapi_is_served_as_it_is_committed() {
    let service = Service::new().await;
    let served: Value = service.get("/api/openapi.json").await.read();
    let served = format!("{}\n", serde_json::to_string_pretty(&served).unwrap());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    if std::env::var_os("KERNELWRIGHT_BLESS").is_some() {
        std::fs::write(&file, &served).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        served == committed,
        "the API and crates/server/openapi.json differ: run KERNELWRIGHT_BLESS=1 cargo test -p server openapi"
    );
}

#[tokio::test]
async fn every_operation_is_described_with_its_problems() {
    let description = serde_json::to_value(server::http::description()).unwrap();
    let paths = description["paths"].as_object().unwrap();
    let operations = paths
        .values()
        .flat_map(|path| path.as_object().unwrap().values());
    let (mut count, mut names) = (0, BTreeSet::new());
    for operation in operations {
        assert!(operation["summary"].is_string(), "{operation}");
        let name = operation["operationId"].as_str().unwrap();
        assert!(names.insert(name), "two operations have the id {name}");
        let problem = &operation["responses"]["default"]["content"]["application/problem+json"];
        assert!(problem.is_object(), "{operation}");
        count += 1;
    }
    assert_ne!(count, 0, "no operation is described");
}

/// Two types of one name would share one description. `schemathesis` found that records of changes were
/// described as lines of a difference.
#[tokio::test]
async fn a_recorded_change_is_described_as_what_it_is() {
    let service = Service::with_task().await;
    let page: Value = service.get("/api/v1/changes").await.read();
    let record = page["changes"][0].as_object().unwrap();
    let description = serde_json::to_value(server::http::description()).unwrap();
    let schemas = &description["components"]["schemas"];
    let name = schemas["ChangePage"]["properties"]["changes"]["items"]["$ref"].as_str();
    let schema = &schemas[name.unwrap().rsplit('/').next().unwrap()];
    for field in record.keys() {
        assert!(schema["properties"][field].is_object(), "{field}: {schema}");
    }
}
