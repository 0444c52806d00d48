//! Views of tasks, fleet, failures, leaderboards and comparisons.

use axum::http::StatusCode;
use domain::api::{
    CandidateComparison, CandidateDetail, CandidatePage, Fleet, Leaderboard, LeaderboardPage,
    RunComparison, RunEstimate, RunPage, TaskDefinition, TaskVersion, WorkerState,
};
use domain::verdict::{Diagnostic, Severity, Verdict};
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::service::{Service, report};
use crate::fixtures;

#[tokio::test]
async fn a_tasks_definition_says_what_candidates_are_judged_by() {
    let service = Service::with_task().await;
    let answer = service.get("/api/v1/tasks/scale/definition").await;
    let definition: TaskDefinition = answer.read();
    assert_eq!(definition.view.name, "scale");
    assert_eq!(definition.tensors[0].shape, ["N"]);
    assert_eq!(definition.shapes[0].dims["N"], 64);
    assert!(definition.reference.contains("2.0 * (double)x[i]"));
    let paths = definition.files.iter().map(|file| file.path.as_str());
    assert!(paths.clone().any(|path| path == "baseline.cu"));
    let body: Value = answer.read();
    assert_snapshot!(json!([body["dims"], body["gates"], body["tensors"][1], body["policy"]["clock_reads"]]), @r#"[[{"least":1,"most":2147483647,"multiple":1,"name":"N"}],[],{"align":16,"dtype":"f32","name":"y","role":"out","shape":["N"],"values":"normal"},"flag"]"#);
    let unknown = service.get("/api/v1/tasks/nothing/definition").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_tasks_files_are_texts_that_no_browser_interprets() {
    let service = Service::with_task().await;
    let answer = service
        .get("/api/v1/tasks/scale/file?path=baseline.cu")
        .await;
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.body, fixtures::kernel("baseline", 128));
    for path in ["none.cu", "../task.toml", "/etc/passwd"] {
        let answer = service
            .get(&format!("/api/v1/tasks/scale/file?path={path}"))
            .await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert!(answer.body.contains("unknown-file"), "{}", answer.body);
    }
    let without = service.get("/api/v1/tasks/scale/file").await;
    assert_eq!(without.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_tasks_runs_and_leaderboards_name_the_best_of_each_run() {
    let (service, run, worker) = Service::running().await;
    service.submit(run, "wider", 64).await;
    service.judge(worker, 50.0).await;
    let page: RunPage = service.get("/api/v1/tasks/scale/runs?limit=1").await.read();
    assert_eq!((page.runs[0].id, page.next), (run, None));
    let boards: Vec<Leaderboard> = service.get("/api/v1/tasks/scale/leaderboards").await.read();
    assert_eq!((boards.len(), boards[0].modelled), (1, true));
    assert_eq!(boards[0].entries[0].title, "wider");
    assert!((boards[0].entries[0].speedup - 2.0).abs() < 1e-9);
    let all: LeaderboardPage = service.get("/api/v1/leaderboards").await.read();
    assert_eq!((all.boards, all.next), (boards, None));
    let versions: Vec<TaskVersion> = service.get("/api/v1/tasks/scale/versions").await.read();
    assert_eq!((versions.len(), versions[0].open_runs), (1, 1));
    for path in ["runs", "leaderboards", "definition", "versions"] {
        let unknown = service.get(&format!("/api/v1/tasks/nothing/{path}")).await;
        assert_eq!(unknown.status, StatusCode::NOT_FOUND, "{path}");
    }
    let wrong = service.get("/api/v1/tasks/scale/runs?cursor=7").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn failures_are_counted_by_cause_and_lead_to_their_candidates() {
    let (service, run, worker) = Service::running().await;
    for (title, block, name) in [("one", 32, "alpha"), ("two", 64, "beta")] {
        service.submit(run, title, block).await;
        let lease = service.lease(worker).await;
        let verdict = Verdict::CompileRejected {
            diagnostics: vec![Diagnostic {
                line: Some(block),
                severity: Severity::Error,
                message: format!("identifier \"{name}\" is undefined"),
            }],
        };
        let path = format!("/api/v1/leases/{}/report", lease.job.uuid());
        service.post(&path, &report(&lease, verdict)).await;
    }
    let filter = format!("run={}", run.uuid());
    let answer = service.get(&format!("/api/v1/failures?{filter}")).await;
    let page: Value = answer.read();
    let cluster = &page["clusters"][0];
    assert_snapshot!(json!([page["total"], cluster["verdict"], cluster["cause"], cluster["count"], cluster["runs"], cluster["operators"], cluster["proposers"]]), @r#"[2,"compile_rejected","identifier … is undefined",2,1,[{"count":2,"name":"submit"}],[{"count":2,"name":"test"}]]"#);
    let everywhere: Value = service.get("/api/v1/failures?limit=1").await.read();
    assert_eq!(everywhere["total"], 2);
    let cause = "identifier%20%E2%80%A6%20is%20undefined";
    let of = format!(
        "/api/v1/failures/candidates?verdict=compile_rejected&cause={cause}&{filter}&limit=1"
    );
    let first: Value = service.get(&of).await.read();
    let cursor = first["next"].as_str().unwrap();
    let second: Value = service.get(&format!("{of}&cursor={cursor}")).await.read();
    assert_eq!(second["next"], Value::Null);
    let mut titles = [&first, &second].map(|page| page["candidates"][0]["title"].as_str().unwrap());
    titles.sort_unstable();
    assert_eq!(titles, ["one", "two"]);
    for wrong in [
        "failures?cursor=x",
        "failures?run=x",
        "failures/candidates?verdict=sad",
        "failures/candidates?verdict=timeout&cursor=1",
    ] {
        let answer = service.get(&format!("/api/v1/{wrong}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

#[tokio::test]
async fn the_fleet_says_what_each_worker_does() {
    let (service, run, worker) = Service::running().await;
    service.submit(run, "wider", 64).await;
    let lease = service.lease(worker).await;
    let fleet: Fleet = service.get("/api/v1/fleet").await.read();
    let shown = &fleet.workers[0];
    assert_eq!((shown.worker.id, shown.state), (worker, WorkerState::Busy));
    let job = shown.job.as_ref().unwrap();
    assert_eq!(
        (job.candidate, job.run_name.as_str()),
        (lease.candidate, "by hand")
    );
    assert_eq!(shown.evaluations_last_hour, 1);
}

#[tokio::test]
async fn two_candidates_are_compared_with_their_difference() {
    let (service, run, worker) = Service::running().await;
    let fast = service.submit(run, "wider", 64).await;
    service.judge(worker, 50.0).await;
    let waiting = service.submit(run, "widest", 512).await;
    let first: Value = service
        .get(&format!("/api/v1/runs/{}/candidates?limit=1", run.uuid()))
        .await
        .read();
    let baseline = first["candidates"][0]["id"].as_str().unwrap().to_owned();
    let compare = async |left: &str, right: &str| {
        let path = format!("/api/v1/compare/candidates?left={left}&right={right}");
        service.get(&path).await
    };
    let fast = fast.id.uuid().to_string();
    let compared: CandidateComparison = compare(&baseline, &fast).await.read();
    assert_eq!(compared.incomparable, None);
    assert!((compared.ratio.unwrap() - 2.0).abs() < 1e-9);
    assert!((compared.times[0].ratio.unwrap() - 2.0).abs() < 1e-9);
    assert!(
        compared
            .diff
            .iter()
            .any(|line| line.text.contains("blockIdx.x * 64"))
    );
    let half: CandidateComparison = compare(&baseline, &waiting.id.uuid().to_string())
        .await
        .read();
    assert_eq!((half.ratio, half.times[0].right.clone()), (None, None));
    assert_eq!(
        half.incomparable.as_deref(),
        Some("one of them was not evaluated")
    );
    let unknown = compare(&baseline, "01938e5a-0000-7000-8000-000000000001").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn two_runs_are_compared_at_equal_trials() {
    let (service, first, worker) = Service::running().await;
    service.submit(first, "wider", 64).await;
    service.judge(worker, 50.0).await;
    let second = service.launch().await;
    service.judge(worker, 100.0).await;
    let path = format!(
        "/api/v1/compare/runs?left={}&right={}",
        first.uuid(),
        second.uuid()
    );
    let compared: RunComparison = service.get(&path).await.read();
    assert_eq!((compared.incomparable, compared.equal_trials), (None, 0));
    assert_eq!(compared.left.curve.len(), 2);
    assert!((compared.left.best_at_equal_trials.unwrap() - 1.0).abs() < 1e-9);
    assert!(
        compared
            .left
            .curve
            .iter()
            .all(|point| point.spent.is_none())
    );
    let with_costs: RunComparison = service.get(&format!("{path}&spent=true")).await.read();
    let spent = with_costs.left.curve.last().unwrap().spent.unwrap();
    assert_eq!(spent.device_ms, with_costs.left.run.spend.device_ms);
}

#[tokio::test]
async fn an_estimate_rests_on_ended_runs_of_the_same_kind() {
    let (service, run, worker) = Service::running().await;
    let wanted = json!({ "task": "scale", "method": "external", "budget": { "trials": 10 } });
    let estimate: RunEstimate = service.post("/api/v1/runs/estimate", &wanted).await.read();
    assert_eq!((estimate.past_runs, estimate.minutes), (0, None));
    service.submit(run, "wider", 64).await;
    service.judge(worker, 50.0).await;
    let cancel = format!("/api/v1/runs/{}/cancel", run.uuid());
    service.post(&cancel, &()).await;
    let estimate: RunEstimate = service.post("/api/v1/runs/estimate", &wanted).await.read();
    assert_eq!((estimate.past_runs, estimate.trials), (1, 10));
    let minutes = estimate.minutes.unwrap();
    assert!(
        minutes.low > 0.0 && minutes.low <= minutes.high,
        "{minutes:?}"
    );
    let other = json!({ "task": "scale", "method": "sweep" });
    let none: RunEstimate = service.post("/api/v1/runs/estimate", &other).await.read();
    assert_eq!(none.past_runs, 0);
    let unknown = service
        .post(
            "/api/v1/runs/estimate",
            &json!({ "task": "x", "method": "sweep" }),
        )
        .await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn candidates_are_found_by_their_ids_and_by_the_identity_of_their_code() {
    let (service, run, worker) = Service::running().await;
    let mut made = Vec::new();
    for (title, block) in [("one", 32), ("two", 64), ("three", 96)] {
        made.push(service.submit(run, title, block).await);
        service.judge(worker, 50.0).await;
    }
    let list = format!("/api/v1/runs/{}/candidates", run.uuid());
    let titles = async |filter: String| {
        let page: CandidatePage = service.get(&format!("{list}?{filter}")).await.read();
        let titles = page.candidates.into_iter().map(|candidate| candidate.title);
        titles.collect::<Vec<_>>()
    };
    let (third, first) = (made[2].id, made[0].id);
    let both = format!("ids={third},{}", first.uuid());
    assert_eq!(titles(both.clone()).await, ["one", "three"]);
    assert_eq!(titles(format!("{both}&limit=1")).await, ["one"]);
    let detail: CandidateDetail = service
        .get(&format!("/api/v1/candidates/{}", made[1].id.uuid()))
        .await
        .read();
    let digest = detail.digest.unwrap();
    assert_eq!(titles(format!("digest={digest}")).await, ["two"]);
    let elsewhere = fixtures::run_id();
    assert_eq!(
        titles(format!("ids={}", elsewhere.uuid())).await,
        [""; 0],
        "an id of nothing in the run"
    );
    let many = vec![first.uuid().to_string(); 201].join(",");
    for wrong in [
        format!("ids={many}"),
        "ids=".into(),
        "ids=x".into(),
        "digest=1".into(),
    ] {
        let answer = service.get(&format!("{list}?{wrong}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}
