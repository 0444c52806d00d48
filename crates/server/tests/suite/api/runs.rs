use axum::body::Body;
use axum::http::{Request, StatusCode};
use domain::api::{CandidateDetail, CandidatePage, Lineage, RunPage, RunState, RunView};
use domain::search::{Budget, StopReason};
use domain::verdict::VerdictKind;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::service::Service;
use crate::fixtures;

fn keyed(key: &str, body: &Value) -> Request<Body> {
    Request::post("/api/v1/runs")
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(body.to_string().into())
        .unwrap()
}

#[tokio::test]
async fn a_task_is_stored_listed_and_found() {
    let service = Service::new().await;
    let stored = service.post("/api/v1/tasks", &fixtures::task()).await;
    assert_snapshot!(stored.show(), @r#"
    201 Created
    {
      "cases": [
        "small"
      ],
      "created_at": "2026-09-21T14:13:20Z",
      "family": null,
      "name": "scale",
      "playbook": [],
      "title": "Doubles a vector",
      "version": "206f6a5935813621b18ab05d973a75f2599adf753519831771cf4f526032fa92"
    }
    "#);
    assert_eq!(stored.header("location"), "/api/v1/tasks/scale");
    let list: Value = service.get("/api/v1/tasks").await.read();
    let one: Value = service.get("/api/v1/tasks/scale").await.read();
    assert_eq!(list, json!([one]));
}

#[tokio::test]
async fn a_task_that_does_not_read_is_refused_with_every_place() {
    let service = Service::new().await;
    let mut bundle = fixtures::task();
    let text = bundle.files["task.toml"].replace("shape = [\"N\"]", "shape = [\"M\"]");
    bundle.files.insert("task.toml".to_owned(), text);
    let refused = service.post("/api/v1/tasks", &bundle).await;
    assert_eq!(refused.header("content-type"), "application/problem+json");
    assert_snapshot!(refused.show(), @r#"
    422 Unprocessable Entity
    {
      "detail": "task.toml:8:10: unknown dim \"M\" (an expression over the task's dims)\ntask.toml:13:10: unknown dim \"M\" (an expression over the task's dims)\ntask.toml: tensor x in case small: unknown name \"M\" in \"M\"; known here: N (give the case dims that make every extent positive)\ntask.toml: tensor y in case small: unknown name \"M\" in \"M\"; known here: N (give the case dims that make every extent positive)",
      "problems": [
        {
          "column": 10,
          "file": "task.toml",
          "fix": "an expression over the task's dims",
          "line": 8,
          "message": "unknown dim \"M\""
        },
        {
          "column": 10,
          "file": "task.toml",
          "fix": "an expression over the task's dims",
          "line": 13,
          "message": "unknown dim \"M\""
        },
        {
          "column": 0,
          "file": "task.toml",
          "fix": "give the case dims that make every extent positive",
          "line": 0,
          "message": "tensor x in case small: unknown name \"M\" in \"M\"; known here: N"
        },
        {
          "column": 0,
          "file": "task.toml",
          "fix": "give the case dims that make every extent positive",
          "line": 0,
          "message": "tensor y in case small: unknown name \"M\" in \"M\"; known here: N"
        }
      ],
      "status": 422,
      "title": "Invalid request",
      "type": "/problems/invalid-request"
    }
    "#);
}

#[tokio::test]
async fn a_run_is_created_once_for_each_key() {
    let service = Service::with_task().await;
    let request = json!({ "task": "scale", "method": "external", "name": "by hand" });
    let first = service.send(keyed("k1", &request)).await;
    assert_eq!(first.status, StatusCode::CREATED);
    assert_snapshot!(first.show(), @r#"
    201 Created
    {
      "best": null,
      "budget": {
        "trials": 45,
        "wall_seconds": null
      },
      "created_at": "2026-09-21T14:13:20Z",
      "device": null,
      "evolution": {
        "bandit": false,
        "faithful": false,
        "generations": 10,
        "prompt_tokens": null,
        "repairs": 2,
        "schedule": {
          "mode": "generational"
        },
        "strategy": "surrogate",
        "style": "standard",
        "sweep_percent": 25,
        "temperature": 1.0
      },
      "forked_from": null,
      "id": "[id 0]",
      "last_event": 1,
      "method": "external",
      "models": [],
      "name": "by hand",
      "pending": 0,
      "promotion": null,
      "running_ms": 0,
      "seed": 0,
      "spend": {
        "calls": 0,
        "committed_dollars": 0.0,
        "committed_tokens": 0,
        "device_dollars": 0.0,
        "device_ms": 0,
        "dollars": 0.0,
        "interrupted_calls": 0,
        "interrupted_dollars": 0.0,
        "interrupted_tokens": 0,
        "unpriced_calls": 0,
        "usage": {
          "cache_written": 0,
          "cached": 0,
          "input": 0,
          "output": 0
        }
      },
      "state": {
        "state": "created"
      },
      "tags": [],
      "task": "scale",
      "task_version": "206f6a5935813621b18ab05d973a75f2599adf753519831771cf4f526032fa92",
      "trials": 0,
      "unpromoted": null,
      "updated_at": "2026-09-21T14:13:20Z",
      "verdicts": {}
    }
    "#);
    let run: RunView = first.read();
    assert_eq!(
        first.header("location"),
        format!("/api/v1/runs/{}", run.id.uuid())
    );
    let again = service.send(keyed("k1", &request)).await;
    assert_eq!(again.status, StatusCode::OK);
    assert_eq!(again.read::<RunView>().id, run.id);

    let other = json!({ "task": "scale", "method": "external", "name": "another" });
    assert_snapshot!(service.send(keyed("k1", &other)).await.show(), @r#"
    422 Unprocessable Entity
    {
      "detail": "the idempotency key \"k1\" was used for another request; choose a fresh key for a new run",
      "status": 422,
      "title": "Idempotency key reused",
      "type": "/problems/key-reused"
    }
    "#);
    let long = service.send(keyed(&"k".repeat(201), &request)).await;
    assert_eq!(long.status, StatusCode::BAD_REQUEST, "{}", long.body);
}

#[tokio::test]
async fn runs_come_newest_first_and_in_pages() {
    let service = Service::with_task().await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(service.launch().await);
        service.clock.advance(chrono::TimeDelta::seconds(1));
    }
    runs.reverse();
    let mut seen = Vec::new();
    let mut path = "/api/v1/runs?limit=2".to_owned();
    loop {
        let page: RunPage = service.get(&path).await.read();
        assert!(page.runs.len() <= 2);
        seen.extend(page.runs.iter().map(|run| run.id));
        let Some(next) = page.next else { break };
        path = format!("/api/v1/runs?limit=2&cursor={next}");
    }
    assert_eq!(seen, runs);
    let pause = format!("/api/v1/runs/{}/pause", runs[1].uuid());
    service.post(&pause, &()).await;
    for list in ["/api/v1/runs", "/api/v1/tasks/scale/runs"] {
        let page: RunPage = service.get(&format!("{list}?state=paused")).await.read();
        assert_eq!((page.runs.len(), page.runs[0].id), (1, runs[1]), "{list}");
        let wrong = service.get(&format!("{list}?state=asleep")).await;
        assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{list}");
    }
}

#[tokio::test]
async fn a_run_is_paused_resumed_and_cancelled() {
    let (service, run, _) = Service::running().await;
    let act = async |verb: &str| {
        let path = format!("/api/v1/runs/{}/{verb}", run.uuid());
        service.post(&path, &()).await
    };
    let paused: RunView = act("pause").await.read();
    assert_eq!(paused.state.to_string(), "paused: paused by request");
    let resumed: RunView = act("resume").await.read();
    assert_eq!(resumed.state, RunState::Running);
    let cancelled: RunView = act("cancel").await.read();
    assert_eq!(cancelled.state, RunState::Cancelled);
    assert_snapshot!(act("resume").await.show(), @r#"
    409 Conflict
    {
      "detail": "resume run run_[id 0]: it is cancelled",
      "status": 409,
      "title": "Not in this state",
      "type": "/problems/wrong-state"
    }
    "#);
}

#[tokio::test]
async fn a_run_is_finished_on_request() {
    let (service, run, _) = Service::running().await;
    let path = format!("/api/v1/runs/{}/finish", run.uuid());
    let answer = service.post(&path, &()).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.body);
    let over = service.until(run, |run| run.state.is_over()).await;
    let reason = StopReason::Requested;
    assert_eq!(over.state, RunState::Completed { reason });
}

#[tokio::test]
async fn nothing_promoted_means_nothing_to_recheck() {
    let (service, run, _) = Service::running().await;
    let path = format!("/api/v1/runs/{}/recheck", run.uuid());
    assert_snapshot!(service.post(&path, &()).await.show(), @r#"
    409 Conflict
    {
      "detail": "re-check the champion of run run_[id 0]: it is running, with no committed champion whose jobs may run",
      "status": 409,
      "title": "Not in this state",
      "type": "/problems/wrong-state"
    }
    "#);
}

#[tokio::test]
async fn a_submission_gets_its_verdict_and_its_place_in_the_lineage() {
    let (service, run, worker) = Service::running().await;
    let submitted = service.submit(run, "small blocks", 64).await;
    assert_eq!(submitted.verdict, None);
    service.judge(worker, 50.0).await;
    let view = service.until(run, |run| run.pending == 0).await;
    assert_eq!(view.trials, 1);
    assert_eq!(view.best.unwrap().candidate, submitted.id);

    let path = format!("/api/v1/candidates/{}", submitted.id.uuid());
    let detail: CandidateDetail = service.get(&path).await.read();
    let speedup = detail.summary.speedup.unwrap();
    assert!((speedup - 2.0).abs() < 1e-6, "{speedup}");
    assert!(!detail.diff.is_empty());
    assert!(detail.evaluation.is_some());
    let source = service.get(&format!("{path}/source")).await;
    assert_eq!(source.body, fixtures::kernel("small blocks", 64));
    assert_eq!(source.header("content-type"), "text/plain; charset=utf-8");

    let lineage: Lineage = service
        .get(&format!("/api/v1/runs/{}/lineage", run.uuid()))
        .await
        .read();
    let edges: Vec<_> = lineage
        .nodes
        .iter()
        .map(|node| node.parents.len())
        .collect();
    assert_eq!(edges, [0, 1]);
    assert_eq!(lineage.nodes[1].parents, [lineage.nodes[0].id]);
}

#[tokio::test]
async fn a_candidate_whose_confirmation_failed_carries_the_reason() {
    let (service, run, worker) = Service::running().await;
    let submitted = service.submit(run, "small blocks", 64).await;
    service.judge(worker, 50.0).await;
    let finish = format!("/api/v1/runs/{}/finish", run.uuid());
    service.post(&finish, &()).await;
    // The confirmation finds it slower than the baseline.
    service.judge(worker, 101.0).await;
    service.until(run, |run| run.state.is_over()).await;

    let lineage: Lineage = service
        .get(&format!("/api/v1/runs/{}/lineage", run.uuid()))
        .await
        .read();
    let candidate = &lineage.nodes[1];
    assert_eq!(candidate.id, submitted.id);
    assert_eq!(candidate.verdict, Some(VerdictKind::Accepted));
    let reason = candidate.promotion_failure().unwrap();
    assert!(reason.contains("times"), "{reason}");
    assert!(!candidate.best);
    assert_eq!(lineage.nodes[0].promotion, None);
}

#[tokio::test]
async fn a_kernel_that_does_not_parse_is_a_verdict() {
    let (service, run, _) = Service::running().await;
    let body = json!({ "source": "__global__ void k() {}", "proposer": "test" });
    let path = format!("/api/v1/runs/{}/candidates", run.uuid());
    let answer = service.post(&path, &body).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    let verdict = answer.read::<Value>()["verdict"].clone();
    assert_eq!(verdict, json!("parse_rejected"));
}

#[tokio::test]
async fn candidates_are_filtered_by_verdict_and_paged() {
    let (service, run, worker) = Service::running().await;
    for block in [32, 64, 256] {
        service.submit(run, &format!("block {block}"), block).await;
        service.judge(worker, f64::from(block)).await;
    }
    let body = json!({ "source": "no kernel" });
    let path = format!("/api/v1/runs/{}/candidates", run.uuid());
    service.post(&path, &body).await;

    let all: CandidatePage = service.get(&path).await.read();
    assert_eq!(all.candidates.len(), 5);
    let rejected: CandidatePage = service
        .get(&format!("{path}?verdict=parse_rejected"))
        .await
        .read();
    assert_eq!(rejected.candidates.len(), 1);
    assert_eq!(
        rejected.candidates[0].verdict,
        Some(VerdictKind::ParseRejected)
    );

    let first: CandidatePage = service.get(&format!("{path}?limit=3")).await.read();
    let next = first.next.unwrap();
    let second: CandidatePage = service
        .get(&format!("{path}?limit=3&cursor={next}"))
        .await
        .read();
    let pages = first.candidates.iter().chain(&second.candidates);
    let ordinals: Vec<_> = pages.map(|candidate| candidate.ordinal).collect();
    assert_eq!(ordinals, [0, 1, 2, 3, 4]);
    assert_eq!(second.next, None);
}

#[tokio::test]
async fn a_brief_tells_a_proposer_what_to_start_from() {
    let (service, run, _) = Service::running().await;
    let brief: Value = service
        .get(&format!("/api/v1/runs/{}/brief", run.uuid()))
        .await
        .read();
    assert_eq!(brief["task"], "scale");
    assert_eq!(brief["parent_source"], fixtures::kernel("baseline", 128));
    let time = brief["parent_time_us"].as_f64().unwrap();
    assert!((time - 100.0).abs() < 1e-6, "{time}");
    let trials = Budget::default().trials;
    assert_eq!(brief["trials_left"], trials);
    let told = brief["prompt"]["messages"][0]["text"].as_str().unwrap();
    assert!(told.contains(&fixtures::kernel("baseline", 128)), "{told}");
    assert!(told.contains(&format!("{trials} are left")), "{told}");
}

#[tokio::test]
async fn lessons_of_a_run_reach_the_brief_of_the_next() {
    let (service, run, worker) = Service::running().await;
    let path = format!("/api/v1/runs/{}/lessons", run.uuid());
    let none = service.get(&path).await;
    assert_eq!((none.status, none.body.as_str()), (StatusCode::OK, ""));
    let body = json!({
        "source": fixtures::kernel("small blocks", 64),
        "proposer": "test",
        "hypothesis": "Smaller blocks leave no lane idle.",
    });
    let candidates = format!("/api/v1/runs/{}/candidates", run.uuid());
    assert_eq!(
        service.post(&candidates, &body).await.status,
        StatusCode::CREATED
    );
    service.judge(worker, 50.0).await;
    service.until(run, |run| run.pending == 0).await;
    let lessons = service.get(&path).await;
    assert_eq!(
        lessons.header("content-type"),
        "text/markdown; charset=utf-8"
    );
    let told =
        "\n\nWhat helped:\n- Smaller blocks leave no lane idle. [2.00 times its parent's speed]\n";
    assert!(lessons.body.ends_with(told), "{}", lessons.body);

    let request = json!({ "task": "scale", "method": "external", "lessons": lessons.body });
    let next: RunView = service.post("/api/v1/runs", &request).await.read();
    service.judge(worker, 100.0).await;
    service
        .until(next.id, |run| run.state == RunState::Running)
        .await;
    let brief = service
        .get(&format!("/api/v1/runs/{}/brief", next.id.uuid()))
        .await;
    let brief: Value = brief.read();
    for text in [&brief["prompt"]["system"], &brief["insights"]] {
        let text = text.as_str().unwrap();
        assert!(text.contains(lessons.body.trim()), "{text}");
    }
}
