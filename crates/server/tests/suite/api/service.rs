//! A service without a socket, and what a test does with it.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::Response;
use chrono::TimeDelta;
use domain::api::{CandidateSummary, RunState, RunView};
use domain::candidate::KernelSource;
use domain::device::{Device, DeviceKind, Limits};
use domain::evaluation::{EVALUATOR_VERSION, Evaluation};
use domain::id::{RunId, WorkerId};
use domain::lease::{Lease, Receipt, Registered, Registration, Report, ReportOutcome};
use domain::task::Task;
use domain::timing::{CacheState, ModelledTime, Timing};
use domain::verdict::{Acceptance, Verdict};
use engine::llm::Models;
use engine::{Engine, ManualClock, Settings};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use server::http::access::Access;
use server::http::event_feeds::EventFeeds;
use server::http::metrics::Metrics;
use server::http::sso::SingleSignOn;
use server::http::{App, router};
use server::waiting_workers::WaitingWorkers;
use store::Store;
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt as _;
use worker::evaluate::evidence::store::EvidenceStore;

use crate::fixtures;

/// A service in a folder that goes with it.
pub struct Service {
    pub router: Router,
    pub engine: Engine,
    pub clock: Arc<ManualClock>,
    _engine_stops: DropGuard,
    folder: TempDir,
}

/// The answer to a request.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Service {
    /// A service whose engine runs, and that asks for no token.
    pub async fn new() -> Self {
        Self::with_access(Access::default()).await
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The same with other rules for its callers.
    pub async fn with_access(access: Access) -> Self {
        Self::with(access, None).await
    }

    /// A service that asks for no token, with single sign-on or without.
    pub async fn with_sso(sso: Option<SingleSignOn>) -> Self {
        Self::with(Access::default(), sso).await
    }

    async fn with(access: Access, sso: Option<SingleSignOn>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("test.db")).await.unwrap();
        let clock = Arc::new(ManualClock::new(fixtures::then()));
        let settings = Settings {
            default_repository: folder.path().join("promotions.git"),
            author_email: "kernelwright@localhost".to_owned(),
            recheck_after: Some(TimeDelta::days(1)),
            devices_per_person: None,
        };
        let engine = Engine::new(store, clock.clone(), settings, Models::none());
        let closing = CancellationToken::new();
        let app = App {
            sso,
            evidence: EvidenceStore::in_folder(folder.path(), None).unwrap(),
            engine: engine.clone(),
            access: access.clone(),
            metrics: Metrics::default(),
            waiting: WaitingWorkers::start(engine.clone(), closing.clone()).0,
            feeds: EventFeeds::new(engine.store().clone()),
            closing: closing.clone(),
        };
        let (running, stop) = (engine.clone(), closing.clone());
        tokio::spawn(async move { running.run_forever(stop).await });
        Self {
            router: router(app),
            engine,
            clock,
            _engine_stops: closing.drop_guard(),
            folder,
        }
    }

    /// Sends a request as a program on this machine would.
    pub async fn send(&self, request: Request<Body>) -> Answer {
        Answer::of(self.open(request).await).await
    }

    /// The same, with the answer's body still open.
    pub async fn open(&self, mut request: Request<Body>) -> Response {
        let headers = request.headers_mut();
        headers
            .entry("host")
            .or_insert("127.0.0.1:8787".parse().unwrap());
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap())
            .await
    }

    pub async fn post(&self, path: &str, body: &impl Serialize) -> Answer {
        let body = serde_json::to_vec(body).unwrap();
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(body.into())
            .unwrap();
        self.send(request).await
    }

    /// Uploads the task.
    pub async fn with_task() -> Self {
        let service = Self::new().await;
        let answer = service.post("/api/v1/tasks", &fixtures::task()).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
        service
    }

    /// Launches a run whose candidates come from outside.
    pub async fn launch(&self) -> RunId {
        let request = json!({ "task": "scale", "method": "external", "name": "by hand" });
        let run: RunView = self.post("/api/v1/runs", &request).await.read();
        run.id
    }

    /// A worker that is known.
    pub async fn register(&self) -> WorkerId {
        let registered: Registered = self.post("/api/v1/workers", &registration()).await.read();
        registered.worker
    }

    /// The next job, which must be there or come.
    pub async fn lease(&self, worker: WorkerId) -> Lease {
        let path = format!("/api/v1/workers/{}/lease?wait=30", worker.uuid());
        self.post(&path, &()).await.read()
    }

    /// Leases the next job and reports that it takes so long.
    pub async fn judge(&self, worker: WorkerId, us: f64) -> Lease {
        let lease = self.lease(worker).await;
        let report = report(&lease, accepted(us));
        let path = format!("/api/v1/leases/{}/report", lease.job.uuid());
        let receipt: Receipt = self.post(&path, &report).await.read();
        assert_eq!(receipt, Receipt::Accepted);
        self.clock.advance(TimeDelta::seconds(1));
        lease
    }

    /// A run that has its baseline of 100 us and takes submissions.
    pub async fn running() -> (Self, RunId, WorkerId) {
        let service = Self::with_task().await;
        let worker = service.register().await;
        let run = service.launch().await;
        service.judge(worker, 100.0).await;
        service
            .until(run, |run| run.state == RunState::Running)
            .await;
        (service, run, worker)
    }

    /// Proposes a kernel of its own for each block size.
    pub async fn submit(&self, run: RunId, title: &str, block: u32) -> CandidateSummary {
        let body = json!({ "source": fixtures::kernel(title, block), "proposer": "test" });
        let path = format!("/api/v1/runs/{}/candidates", run.uuid());
        self.post(&path, &body).await.read()
    }

    /// Waits for a condition on the run, looking again whenever something was committed.
    pub async fn until(&self, run: RunId, holds: impl Fn(&RunView) -> bool) -> RunView {
        let mut changed = self.engine.store().changed();
        loop {
            changed.borrow_and_update();
            let view: RunView = self
                .get(&format!("/api/v1/runs/{}", run.uuid()))
                .await
                .read();
            if holds(&view) {
                return view;
            }
            changed.changed().await.unwrap();
        }
    }
}

impl Answer {
    async fn of(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, 1 << 24).await.unwrap();
        Self {
            status: parts.status,
            headers: parts.headers,
            body: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    /// The body of a success.
    pub fn read<T: DeserializeOwned>(&self) -> T {
        assert!(self.status.is_success(), "{}: {}", self.status, self.body);
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map(|value| value.to_str().unwrap())
            .unwrap_or_default()
    }

    /// Status and body with each identity replaced by its number, so that it can be a snapshot.
    pub fn show(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap();
        let body = serde_json::to_string_pretty(&body).unwrap();
        format!("{}\n{}", self.status, without_identities(&body))
    }
}

/// Replaces UUIDs by the order in which they first appear.
pub fn without_identities(text: &str) -> String {
    let mut known: Vec<&str> = Vec::new();
    let mut shown = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let uuid = rest
            .get(..36)
            .filter(|part| uuid::Uuid::try_parse(part).is_ok());
        if let Some(uuid) = uuid {
            let number = known.iter().position(|id| *id == uuid).unwrap_or_else(|| {
                known.push(uuid);
                known.len() - 1
            });
            shown.push_str(&format!("[id {number}]"));
            rest = &rest[36..];
        } else {
            let next = rest.chars().next().unwrap();
            shown.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    shown
}

pub fn registration() -> Registration {
    Registration {
        name: "bench".to_owned(),
        device: device(),
        toolchain: "NVRTC 13.5".to_owned(),
        evaluator: EVALUATOR_VERSION,
        instance: None,
        dollars_per_hour: None,
        declined: Vec::new(),
    }
}

fn device() -> Device {
    Device {
        name: "Kernelwright emulated L4".to_owned(),
        kind: DeviceKind::Emulated,
        uuid: "emulated".to_owned(),
        compute_capability: (8, 9),
        driver_version: 13_000,
        memory_bytes: 24 << 30,
        l2_bytes: 48 << 20,
        limits: Limits {
            sm_count: 58,
            threads_per_block: 1024,
            block: [1024, 1024, 64],
            grid: [2_147_483_647, 65_535, 65_535],
            shared_per_block: 49_152,
            shared_per_block_optin: 101_376,
            shared_per_sm: 102_400,
            registers_per_block: 65_536,
            registers_per_sm: 65_536,
            threads_per_sm: 1536,
            blocks_per_sm: 24,
        },
    }
}

pub fn accepted(us: f64) -> Verdict {
    Verdict::Accepted(Acceptance {
        timing: Timing::Modelled {
            device: "l4".to_owned(),
            label: "uncalibrated".to_owned(),
            unscored: Vec::new(),
            cases: vec![ModelledTime {
                case: "small".to_owned(),
                cache: CacheState::Cold,
                us,
                launches: Vec::new(),
            }],
        },
        comparison: None,
        launch_bound: false,
    })
}

/// A healthy worker's report on a lease.
pub fn report(lease: &Lease, verdict: Verdict) -> Report {
    let source = KernelSource::parse(&lease.request.file, lease.request.source.clone()).unwrap();
    let evaluation = Evaluation {
        verdict,
        evaluator: EVALUATOR_VERSION,
        stage: lease.request.stage,
        found_on: None,
        not_run: Vec::new(),
        prescreen: None,
        drawn_shapes: None,
        preconditions: None,
        sanitizers: None,
        task_version: Task::load(&lease.request.task).unwrap().version,
        candidate_digest: Some(source.candidate_digest(&lease.request.configuration)),
        image_digest: None,
        device: Some(device()),
        toolchain: Some("NVRTC 13.5".to_owned()),
        kernels: Vec::new(),
        gates: Vec::new(),
        checks: Vec::new(),
        launches: Vec::new(),
        floors: Vec::new(),
        measurement: None,
        diagnostics: Vec::new(),
        flags: Vec::new(),
        machine_code: None,
        hottest_lines: None,
        explanation: None,
        evidence: None,
        findings: Vec::new(),
        stages: Vec::new(),
    };
    Report {
        admission: None,
        attempt: lease.attempt,
        outcome: ReportOutcome::Evaluated {
            evaluation: Box::new(evaluation),
        },
    }
}
