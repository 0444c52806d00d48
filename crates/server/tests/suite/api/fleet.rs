use axum::http::StatusCode;
use chrono::TimeDelta;
use domain::api::{FleetHealth, Health, WorkerView};
use domain::control::ControlTally;
use domain::digest::Digest;
use domain::health::Condition;
use domain::lease::{LEASE_SECONDS, Receipt};
use domain::measurement::ConditionCoverage;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::service::{Service, accepted, registration, report};

#[tokio::test]
async fn a_worker_is_listed_with_what_it_evaluates() {
    let service = Service::with_task().await;
    let worker = service.register().await;
    service.launch().await;
    let lease = service.lease(worker).await;
    let renewal = json!({ "attempt": lease.attempt, "stage": "compile" });
    let path = format!("/api/v1/leases/{}/renew", lease.job.uuid());
    let receipt: Receipt = service.post(&path, &renewal).await.read();
    assert_eq!(receipt, Receipt::Accepted);
    let workers: Vec<WorkerView> = service.get("/api/v1/workers").await.read();
    assert_eq!(workers.len(), 1);
    assert_eq!(workers[0].evaluating, Some(lease.candidate));
    assert!(workers[0].alive);
}

#[tokio::test]
async fn a_worker_says_how_its_device_fares() {
    let service = Service::with_task().await;
    let worker = service.register().await;
    let path = format!("/api/v1/workers/{}/health", worker.uuid());
    let condition = json!({ "state": "quarantined", "reason": "it forgets" });
    let report = json!({ "condition": condition, "breaks": {} });
    let noted = service.post(&path, &report).await;
    assert_eq!(noted.status, StatusCode::NO_CONTENT);
    let health: FleetHealth = service.get("/api/v1/devices").await.read();
    assert_eq!(health.devices.len(), 1);
    let reason = "it forgets".to_owned();
    assert_eq!(
        health.devices[0].condition,
        Condition::Quarantined { reason }
    );
    let unreadable = service.post(&path, &json!({ "condition": "well" })).await;
    assert!(unreadable.status.is_client_error());
    let nobody = "/api/v1/workers/01938e5a-0000-7000-8000-000000000001/health";
    let unknown = service.post(nobody, &report).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_device_says_how_often_its_comparisons_are_wrong() {
    let (service, run, worker) = Service::running().await;
    let path = format!("/api/v1/workers/{}/health", worker.uuid());
    let well = json!({ "condition": { "state": "well" }, "breaks": {} });
    service.post(&path, &well).await;
    let controls = async || {
        let fleet: Value = service.get("/api/v1/devices").await.read();
        fleet["devices"][0]["controls"].to_string()
    };
    assert_snapshot!(controls().await, @r#"{"made":0,"promoted":0,"promoted_at_most":null,"screened":0,"screened_at_most":null,"undecided":0,"unfinished":0}"#);

    service.submit(run, "wider", 64).await;
    let lease = service.lease(worker).await;
    let mut report = serde_json::to_value(report(&lease, accepted(90.0))).unwrap();
    let interval = json!({ "lower": 0.0, "upper": 0.0 });
    let settled = json!({ "outcome": "not_faster", "evidence": {
        "effect": 0.0, "interval": interval, "bootstrap": null, "signed_rank": 1.0, "cycles": null,
        "margin": 0.005, "processes": 1, "pairs": 30
    } });
    report["outcome"]["evaluation"]["measurement"] = json!({
        "incumbent": Digest::of("incumbent"), "incumbent_timing": accepted(100.0).acceptance().unwrap().timing,
        "settled": settled, "looks": 1, "rounds": [], "timed": 15, "discarded": [], "regressions": [],
        "anchor": { "ratio": 1.1, "interval": [1.1, 1.1] }, "noise": null, "split": null,
        "watched": ConditionCoverage::default(), "control": { "kind": "level", "screening": settled }, "cases": []
    });
    let path = format!("/api/v1/leases/{}/report", lease.job.uuid());
    let receipt: Receipt = service.post(&path, &report).await.read();
    assert_eq!(receipt, Receipt::Accepted);
    let tally: ControlTally = serde_json::from_str(&controls().await).unwrap();
    assert_eq!((tally.made, tally.screened, tally.promoted), (1, 0, 0));
    // One in twenty would look like this if 95% of comparisons were wrong.
    assert!((tally.promoted_at_most.unwrap() - 0.95).abs() < 1e-9);
    // The candidate's page shows the control itself.
    let path = format!("/api/v1/candidates/{}", lease.candidate.uuid());
    let detail: Value = service.get(&path).await.read();
    let control = &detail["evaluation"]["measurement"]["control"];
    assert_eq!(
        (&control["kind"], &control["screening"]),
        (&json!("level"), &settled)
    );
}

#[tokio::test]
async fn a_poll_without_a_job_ends_empty_and_one_that_waits_is_woken() {
    let service = Service::with_task().await;
    let worker = service.register().await;
    let path = format!("/api/v1/workers/{}/lease?wait=0", worker.uuid());
    let empty = service.post(&path, &()).await;
    assert_eq!(empty.status, StatusCode::NO_CONTENT);
    let (lease, run) = tokio::join!(service.lease(worker), service.launch());
    assert_eq!(lease.run, run);
}

#[tokio::test]
async fn a_report_after_the_lease_ran_out_changes_nothing() {
    let service = Service::with_task().await;
    let worker = service.register().await;
    service.launch().await;
    let late = service.lease(worker).await;
    // The lease runs out by time, the job comes back after the store's own back-off by time too.
    let long = TimeDelta::seconds(10 * i64::from(LEASE_SECONDS));
    service.clock.advance(long);
    let store = service.engine.store();
    // The engine looks for such leases as well, and may have been first.
    store.expire_leases(service.engine.now()).await.unwrap();
    service.clock.advance(long);
    let other = service.register().await;
    let current = service.lease(other).await;
    assert_eq!(current.job, late.job);
    assert!(current.attempt > late.attempt);

    let path = format!("/api/v1/leases/{}/report", late.job.uuid());
    let receipt: Receipt = service
        .post(&path, &report(&late, accepted(1.0)))
        .await
        .read();
    assert_eq!(receipt, Receipt::Superseded);
    let receipt: Receipt = service
        .post(&path, &report(&current, accepted(100.0)))
        .await
        .read();
    assert_eq!(receipt, Receipt::Accepted);
}

#[tokio::test]
async fn a_worker_nobody_knows_is_told_to_register() {
    let service = Service::new().await;
    let path = "/api/v1/workers/01938e5a-0000-7000-8000-000000000001/lease";
    assert_snapshot!(service.post(path, &()).await.show(), @r#"
    404 Not Found
    {
      "detail": "no worker \"work_[id 0]\" is stored here; list what is there first",
      "status": 404,
      "title": "Unknown worker",
      "type": "/problems/unknown-worker"
    }
    "#);
}

#[tokio::test]
async fn a_worker_of_another_release_is_turned_away() {
    let service = Service::new().await;
    let mut other = registration();
    other.evaluator = 999;
    let ours = format!(
        "this service version {};",
        domain::evaluation::EVALUATOR_VERSION
    );
    let shown = service.post("/api/v1/workers", &other).await.show();
    assert_snapshot!(shown.replace(&ours, "this service version OURS;"), @r#"
    409 Conflict
    {
      "detail": "let the worker join: it speaks version 999 of the evaluation protocol and this service version OURS; update the service's program, so that both are of the same release",
      "status": 409,
      "title": "Wrong release",
      "type": "/problems/wrong-release"
    }
    "#);
}

#[tokio::test]
async fn health_counts_living_workers_and_waiting_jobs() {
    let service = Service::with_task().await;
    let run = service.launch().await;
    service.until(run, |run| run.pending == 1).await;
    service.register().await;
    let health: Health = service.get("/api/v1/health").await.read();
    assert_eq!((health.workers, health.queued), (1, 1));
    service.clock.advance(TimeDelta::seconds(3600));
    let health: Health = service.get("/api/v1/health").await.read();
    assert_eq!((health.workers, health.queued), (0, 1));
}
