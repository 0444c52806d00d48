//! The worker against a service that speaks the lease protocol, with faults.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its functions too"
)]

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{post, put};
use axum::{Json, Router};
use domain::admission::{Admission, AdmissionRule, RuleResult};
use domain::device::{Device, DeviceKind, Limits};
use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation, EvaluationRequest, EvaluationStage};
use domain::health::{Condition, HealthReport};
use domain::id::{JobId, WorkerId};
use domain::lease::{
    EvidenceReceipt, Lease, Receipt, Registered, Registration, Renewal, Report, ReportOutcome,
};
use domain::role::Key;
use domain::task::Bundle;
use domain::verdict::{Verdict, VerdictKind};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use worker::cancel::Cancellation;
use worker::evaluate::evidence::{FORM, Manifest, Part};
use worker::evaluate::{EvaluateError, SearchEvaluation};
use worker::fleet::{Departure, FleetError, Join, Pace, join};
use worker::health_record::HealthRecordFile;

/// The requests that the service received, in order.
#[derive(Debug, PartialEq)]
enum Seen {
    Registration(String),
    LeaseAsked(WorkerId),
    Health(HealthReport),
    Renewal(Renewal),
    Report(Report),
    /// Of this file, or of the manifest.
    Evidence(Option<String>),
}

/// The service's answers, one for each request of a kind; the last one is repeated.
#[derive(Default)]
struct Script {
    register: VecDeque<Result<Registered, StatusCode>>,
    lease: VecDeque<Result<Option<Lease>, StatusCode>>,
    renew: VecDeque<Result<Receipt, StatusCode>>,
    report: VecDeque<Result<Receipt, StatusCode>>,
    evidence: VecDeque<Result<EvidenceReceipt, StatusCode>>,
}

#[derive(Clone)]
struct Service {
    script: Arc<Mutex<Script>>,
    seen: mpsc::UnboundedSender<Seen>,
}

impl Service {
    fn see<T: Clone>(
        &self,
        seen: Seen,
        pick: fn(&mut Script) -> &mut VecDeque<Result<T, StatusCode>>,
    ) -> Result<T, StatusCode> {
        // The receiver is gone once a test has finished.
        let _ = self.seen.send(seen);
        let mut script = self.script.lock().unwrap();
        let answers = pick(&mut script);
        if answers.len() > 1 {
            answers.pop_front().unwrap()
        } else {
            answers
                .front()
                .cloned()
                .unwrap_or(Err(StatusCode::NOT_FOUND))
        }
    }
}

fn respond<T: serde::Serialize>(answer: Result<T, StatusCode>) -> Response {
    match answer {
        Ok(body) => Json(body).into_response(),
        Err(status) => (status, "the script says so").into_response(),
    }
}

async fn register(State(service): State<Service>, Json(body): Json<Registration>) -> Response {
    respond(service.see(Seen::Registration(body.name), |script| &mut script.register))
}

async fn lease(State(service): State<Service>, Path(worker): Path<Uuid>) -> Response {
    let seen = Seen::LeaseAsked(WorkerId::from(worker));
    match service.see(seen, |script| &mut script.lease) {
        Ok(Some(lease)) => Json(lease).into_response(),
        // A real service holds the request open for a limited time; this one holds it for ever.
        Ok(None) => std::future::pending().await,
        Err(status) => status.into_response(),
    }
}

async fn health(State(service): State<Service>, Json(body): Json<HealthReport>) -> StatusCode {
    let _ = service.seen.send(Seen::Health(body));
    StatusCode::NO_CONTENT
}

async fn renew(
    State(service): State<Service>,
    Path(job): Path<Uuid>,
    Json(body): Json<Renewal>,
) -> Response {
    assert_eq!(JobId::from(job), job_id());
    respond(service.see(Seen::Renewal(body), |script| &mut script.renew))
}

async fn report(
    State(service): State<Service>,
    Path(job): Path<Uuid>,
    Json(body): Json<Report>,
) -> Response {
    assert_eq!(JobId::from(job), job_id());
    respond(service.see(Seen::Report(body), |script| &mut script.report))
}

async fn manifest(State(service): State<Service>) -> Response {
    respond(service.see(Seen::Evidence(None), |script| &mut script.evidence))
}

async fn file(State(service): State<Service>, Path((_, name)): Path<(String, String)>) -> Response {
    respond(service.see(Seen::Evidence(Some(name)), |script| &mut script.evidence))
}

/// A service on its own port, with the requests that it receives.
async fn serve(script: Script) -> (String, mpsc::UnboundedReceiver<Seen>) {
    let (seen, watch) = mpsc::unbounded_channel();
    let service = Service {
        script: Arc::new(Mutex::new(script)),
        seen,
    };
    let router = Router::new()
        .route("/api/v1/workers", post(register))
        .route("/api/v1/workers/{id}/lease", post(lease))
        .route("/api/v1/workers/{id}/health", post(health))
        .route("/api/v1/leases/{job}/renew", post(renew))
        .route("/api/v1/leases/{job}/report", post(report))
        .route("/api/v1/evidence/{digest}", put(manifest))
        .route("/api/v1/evidence/{digest}/{name}", put(file))
        .with_state(service);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (format!("http://{address}/"), watch)
}

fn job_id() -> JobId {
    JobId::from(Uuid::from_u128(7))
}

fn first_worker() -> Registered {
    Registered {
        worker: WorkerId::from(Uuid::from_u128(1)),
    }
}

fn a_lease() -> Lease {
    Lease {
        job: job_id(),
        attempt: 3,
        run: Uuid::from_u128(2).into(),
        candidate: Uuid::from_u128(4).into(),
        request: EvaluationRequest {
            task: Bundle { files: [].into() },
            file: "a.cu".to_owned(),
            source: String::new(),
            configuration: [].into(),
            stage: EvaluationStage::Search,
            key: Key(Digest::of("key")),
            incumbent: None,
        },
        traceparent: None,
    }
}

fn registration() -> Registration {
    let limits = Limits {
        sm_count: 58,
        threads_per_block: 1024,
        block: [1024; 3],
        grid: [65535; 3],
        shared_per_block: 49152,
        shared_per_block_optin: 101_376,
        shared_per_sm: 102_400,
        registers_per_block: 65536,
        registers_per_sm: 65536,
        threads_per_sm: 1536,
        blocks_per_sm: 24,
    };
    Registration {
        name: "bench".to_owned(),
        device: Device {
            name: "emulated".to_owned(),
            kind: DeviceKind::Emulated,
            uuid: "0".to_owned(),
            compute_capability: (8, 9),
            driver_version: 13000,
            memory_bytes: 1 << 30,
            l2_bytes: 1 << 20,
            limits,
        },
        toolchain: "NVRTC".to_owned(),
        evaluator: 1,
        instance: None,
        dollars_per_hour: None,
        declined: Vec::new(),
    }
}

fn evaluation() -> Evaluation {
    Evaluation {
        verdict: Verdict::CompileTimeout { seconds: 45 },
        evaluator: 1,
        stage: EvaluationStage::Search,
        found_on: None,
        not_run: Vec::new(),
        task_version: Digest::of("task"),
        candidate_digest: None,
        image_digest: None,
        device: None,
        toolchain: None,
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
        prescreen: None,
        drawn_shapes: None,
        preconditions: None,
        sanitizers: None,
        evidence: None,
        findings: Vec::new(),
        stages: Vec::new(),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("read the disk")]
struct DiskGone(#[source] std::io::Error);

/// A running worker; dropping the guard stops it.
struct Worker {
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<Result<Departure, FleetError>>,
}

impl Worker {
    fn start<F, E>(server: String, evaluate: F) -> Self
    where
        F: Fn(&EvaluationRequest, &dyn Fn(&str), &Cancellation) -> Result<Evaluation, E>
            + Send
            + Sync
            + 'static,
        E: std::error::Error + Send + 'static,
    {
        // An empty folder, so that the device counts as healthy.
        let nowhere = std::path::Path::new("/nonexistent");
        Self::with_health(server, HealthRecordFile::new(nowhere, "0"), evaluate)
    }

    fn with_health<F, E>(server: String, health: HealthRecordFile, evaluate: F) -> Self
    where
        F: Fn(&EvaluationRequest, &dyn Fn(&str), &Cancellation) -> Result<Evaluation, E>
            + Send
            + Sync
            + 'static,
        E: std::error::Error + Send + 'static,
    {
        Self::with(
            server,
            health,
            PathBuf::from("/nonexistent"),
            None,
            evaluate,
        )
    }

    fn with<F, E>(
        server: String,
        health: HealthRecordFile,
        data: PathBuf,
        idle_limit: Option<Duration>,
        evaluate: F,
    ) -> Self
    where
        F: Fn(&EvaluationRequest, &dyn Fn(&str), &Cancellation) -> Result<Evaluation, E>
            + Send
            + Sync
            + 'static,
        E: std::error::Error + Send + 'static,
    {
        let shutdown = CancellationToken::new();
        let tick = Duration::from_millis(1);
        let pace = Pace {
            heartbeat: tick,
            first_delay: tick,
            longest_delay: tick,
            ..Pace::default()
        };
        let join = join(
            Join {
                server,
                token: None,
                authority: None,
                registration: registration(),
                health,
                data,
                pace,
                idle_limit,
            },
            move |request: &_, progress: &dyn Fn(&str), cancellation: &_| {
                let evaluation = Box::new(evaluate(request, progress, cancellation)?);
                Ok::<_, E>(SearchEvaluation {
                    evaluation,
                    admission: None,
                })
            },
            shutdown.clone(),
        );
        Self {
            task: tokio::spawn(join),
            shutdown,
        }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        assert_eq!(self.task.await.unwrap().unwrap(), Departure::Stopped);
    }
}

/// The next report that the service receives.
async fn next_report(seen: &mut mpsc::UnboundedReceiver<Seen>) -> Report {
    loop {
        if let Seen::Report(report) = seen.recv().await.unwrap() {
            return report;
        }
    }
}

async fn next_renewal(seen: &mut mpsc::UnboundedReceiver<Seen>, stage: &str) -> Renewal {
    loop {
        match seen.recv().await.unwrap() {
            Seen::Renewal(renewal) if renewal.stage == stage => return renewal,
            _ => {}
        }
    }
}

/// An evaluation that lasts until it is cancelled.
fn until_cancelled(cancellation: &Cancellation) {
    let mut event = [rustix::event::PollFd::new(
        cancellation,
        rustix::event::PollFlags::IN,
    )];
    rustix::event::poll(&mut event, None).unwrap();
}

fn one_lease() -> Script {
    Script {
        register: [Ok(first_worker())].into(),
        lease: [Ok(Some(a_lease())), Ok(None)].into(),
        renew: [Ok(Receipt::Accepted)].into(),
        report: [Ok(Receipt::Accepted)].into(),
        evidence: VecDeque::new(),
    }
}

/// A data folder with a bundle of one file.
fn bundle() -> (tempfile::TempDir, Digest) {
    let data = tempfile::tempdir().unwrap();
    let source = "no kernel";
    let part = Part {
        digest: Digest::of(source),
        bytes: source.len() as u64,
    };
    let manifest = Manifest {
        form: FORM.to_owned(),
        program: "0.1.0".to_owned(),
        evaluator: EVALUATOR_VERSION,
        task: "scale".to_owned(),
        task_version: Digest::of("task"),
        file: "a.cu".to_owned(),
        configuration: BTreeMap::new(),
        stage: EvaluationStage::Search,
        incumbent: None,
        key: Digest::of("a commitment"),
        device: registration().device,
        toolchain: "NVRTC 13.5".to_owned(),
        verdict: VerdictKind::ParseRejected,
        files: BTreeMap::from([("source.cu".to_owned(), part)]),
        left_out: BTreeMap::new(),
    };
    let manifest = serde_json::to_vec(&manifest).unwrap();
    let digest = Digest::of(&manifest);
    let folder = data.path().join("evidence").join(digest.to_string());
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("manifest.json"), manifest).unwrap();
    std::fs::write(folder.join("source.cu"), source).unwrap();
    (data, digest)
}

/// The parts of a bundle that a service with these answers receives, to the last one.
async fn evidence_sent(answers: &[Result<&[&str], StatusCode>]) -> Vec<Option<String>> {
    let (data, digest) = bundle();
    let answers = answers.iter().map(|answer| {
        answer.map(|missing| EvidenceReceipt {
            missing: missing.iter().map(|name| (*name).to_owned()).collect(),
        })
    });
    let (server, mut seen) = serve(Script {
        evidence: answers.collect(),
        ..one_lease()
    })
    .await;
    let health = HealthRecordFile::new(data.path(), "0");
    let worker = Worker::with(
        server,
        health,
        data.path().to_owned(),
        None,
        move |_, _, _| {
            Ok::<_, DiskGone>(Evaluation {
                evidence: Some(digest),
                ..evaluation()
            })
        },
    );
    next_report(&mut seen).await;
    let mut sent = Vec::new();
    while sent.last() != Some(&Some("source.cu".to_owned())) {
        let next = tokio::time::timeout(Duration::from_secs(20), seen.recv()).await;
        if let Seen::Evidence(part) = next.expect("evidence is sent").unwrap() {
            sent.push(part);
        }
    }
    worker.stop().await;
    sent
}

#[tokio::test]
async fn evidence_is_sent_until_the_service_has_it() {
    let source = Some("source.cu".to_owned());
    let at_once = [Ok(["source.cu"].as_slice()), Ok(&[])];
    assert_eq!(evidence_sent(&at_once).await, [None, source.clone()]);
    // The service's archive is away for a while.
    let late = [
        Err(StatusCode::SERVICE_UNAVAILABLE),
        Err(StatusCode::SERVICE_UNAVAILABLE),
        Ok(["source.cu"].as_slice()),
        Ok(&[]),
    ];
    assert_eq!(evidence_sent(&late).await, [None, None, None, source]);
}

#[tokio::test]
async fn a_lease_is_evaluated_and_reported_under_its_attempt() {
    let (server, mut seen) = serve(one_lease()).await;
    let worker = Worker::start(server, |_, _, _| Ok::<_, DiskGone>(evaluation()));
    assert_eq!(
        seen.recv().await.unwrap(),
        Seen::Registration("bench".to_owned())
    );
    assert_eq!(
        seen.recv().await.unwrap(),
        Seen::Health(HealthReport::default())
    );
    assert_eq!(
        seen.recv().await.unwrap(),
        Seen::LeaseAsked(first_worker().worker)
    );
    let report = next_report(&mut seen).await;
    assert_eq!(report.attempt, 3);
    let expected = ReportOutcome::Evaluated {
        evaluation: Box::new(evaluation()),
    };
    assert_eq!(report.outcome, expected);
    worker.stop().await;
}

#[tokio::test]
async fn a_fault_is_reported_with_its_causes_and_a_panic_as_a_fault() {
    for panics in [false, true] {
        let (server, mut seen) = serve(one_lease()).await;
        let worker = Worker::start(server, move |_, _, _| {
            assert!(!panics, "on purpose");
            Err(DiskGone(std::io::Error::other("no such device")))
        });
        match next_report(&mut seen).await.outcome {
            ReportOutcome::Faulted { message } if panics => {
                assert!(message.contains("panicked"), "{message}");
            }
            ReportOutcome::Faulted { message } => {
                assert_eq!(message, "read the disk: no such device");
            }
            other => panic!("{other:?}"),
        }
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_job_that_this_machine_lacks_something_for_is_declined() {
    let (server, mut seen) = serve(one_lease()).await;
    let worker = Worker::start(server, move |_, _, _| {
        Err(EvaluateError::Lacking("NumPy is not installed".to_owned()))
    });
    let expected = ReportOutcome::Declined {
        message: "use what the task needs: NumPy is not installed".to_owned(),
    };
    assert_eq!(next_report(&mut seen).await.outcome, expected);
    worker.stop().await;
}

#[tokio::test]
async fn a_task_that_is_refused_admission_is_reported_as_refused() {
    let (server, mut seen) = serve(one_lease()).await;
    let admission = Admission {
        task: "sum".to_owned(),
        version: Digest::of("task"),
        cases: vec!["small".to_owned()],
        results: vec![RuleResult {
            rule: AdmissionRule::ImpostorRejected,
            subject: "zeros".to_owned(),
            found: None,
            limit: None,
            holds: false,
            explanation: "accepted".to_owned(),
        }],
        floors: Vec::new(),
        advice: Vec::new(),
    };
    let refusal = admission.clone();
    let worker = Worker::start(server, move |_, _, _| {
        Err(EvaluateError::NotAdmitted(Box::new(refusal.clone())))
    });
    let report = next_report(&mut seen).await;
    assert_eq!(report.admission.as_deref(), Some(&admission));
    match report.outcome {
        ReportOutcome::Refused { message } => {
            assert!(
                message.starts_with("admit the task sum: zeros: accepted"),
                "{message}"
            );
        }
        other => panic!("{other:?}"),
    }
    worker.stop().await;
}

#[tokio::test]
async fn a_failed_health_check_is_reported_before_the_lease_ends() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = HealthRecordFile::new(folder.path(), "GPU-1");
    let (server, mut seen) = serve(one_lease()).await;
    let worker = Worker::with_health(server, keeper.clone(), move |_, _, _| {
        keeper.change(|record| {
            record.record_break(Digest::of("poison"));
            record.quarantine("it forgets");
        });
        Err(DiskGone(std::io::Error::other("no such device")))
    });
    let mut told = Vec::new();
    loop {
        match seen.recv().await.unwrap() {
            Seen::Health(health) => told.push(health),
            Seen::Report(_) => break,
            _ => {}
        }
    }
    worker.stop().await;
    let [well, sick] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert_eq!(*well, HealthReport::default());
    let reason = "it forgets".to_owned();
    assert_eq!(sick.condition, Condition::Quarantined { reason });
    assert!(sick.breaks.contains_key(&Digest::of("poison")), "{sick:?}");
}

#[tokio::test]
async fn renewals_carry_the_stage_and_survive_errors_of_the_service() {
    let mut script = one_lease();
    script.renew = [
        Err(StatusCode::SERVICE_UNAVAILABLE),
        Err(StatusCode::INTERNAL_SERVER_ERROR),
        Ok(Receipt::Accepted),
    ]
    .into();
    let (server, mut seen) = serve(script).await;
    let worker = Worker::start(server, |_, progress, cancellation| {
        progress("compile");
        until_cancelled(cancellation);
        Ok::<_, DiskGone>(evaluation())
    });
    let renewal = next_renewal(&mut seen, "compile").await;
    assert_eq!(renewal.attempt, 3);
    next_renewal(&mut seen, "compile").await;
    next_renewal(&mut seen, "compile").await;
    worker.stop().await;
}

#[tokio::test]
async fn a_lost_lease_cancels_the_evaluation_and_is_not_reported() {
    for lost in [Ok(Receipt::Superseded), Err(StatusCode::NOT_FOUND)] {
        let mut script = one_lease();
        script.renew = [lost].into();
        let (server, mut seen) = serve(script).await;
        let worker = Worker::start(server, |_, _, cancellation| {
            until_cancelled(cancellation);
            Ok::<_, DiskGone>(evaluation())
        });
        let mut leases_asked = 0;
        while leases_asked < 2 {
            match seen.recv().await.unwrap() {
                Seen::LeaseAsked(_) => leases_asked += 1,
                Seen::Report(report) => panic!("a lost lease was reported: {report:?}"),
                Seen::Registration(_) | Seen::Health(_) | Seen::Renewal(_) | Seen::Evidence(_) => {}
            }
        }
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_stopping_worker_hands_its_lease_back() {
    let (server, mut seen) = serve(one_lease()).await;
    let worker = Worker::start(server, |_, progress, cancellation| {
        progress("score");
        until_cancelled(cancellation);
        Ok::<_, DiskGone>(evaluation())
    });
    next_renewal(&mut seen, "score").await;
    worker.stop().await;
    let report = next_report(&mut seen).await;
    assert_eq!(report.outcome, ReportOutcome::HandedBack);
    assert_eq!(report.attempt, 3);
}

#[tokio::test]
async fn a_worker_waits_for_a_service_that_is_not_reachable() {
    let mut script = one_lease();
    script.register = [Err(StatusCode::BAD_GATEWAY), Ok(first_worker())].into();
    script.lease = [
        Err(StatusCode::SERVICE_UNAVAILABLE),
        Ok(Some(a_lease())),
        Ok(None),
    ]
    .into();
    script.report = [Err(StatusCode::BAD_GATEWAY), Ok(Receipt::Accepted)].into();
    let (server, mut seen) = serve(script).await;
    let worker = Worker::start(server, |_, _, _| Ok::<_, DiskGone>(evaluation()));
    let refused = next_report(&mut seen).await;
    let repeated = next_report(&mut seen).await;
    assert_eq!(refused, repeated);
    worker.stop().await;
}

#[tokio::test]
async fn a_worker_the_service_has_forgotten_registers_again() {
    let again = Registered {
        worker: WorkerId::from(Uuid::from_u128(9)),
    };
    let mut script = one_lease();
    script.register = [Ok(first_worker()), Ok(again)].into();
    script.lease = [Err(StatusCode::NOT_FOUND), Ok(None)].into();
    let (server, mut seen) = serve(script).await;
    let worker = Worker::start(server, |_, _, _| Ok::<_, DiskGone>(evaluation()));
    let mut asked = Vec::new();
    while asked.len() < 2 {
        if let Seen::LeaseAsked(worker) = seen.recv().await.unwrap() {
            asked.push(worker);
        }
    }
    assert_eq!(asked, [first_worker().worker, again.worker]);
    worker.stop().await;
}

#[tokio::test]
async fn a_worker_that_is_rejected_ends_with_the_services_message() {
    let script = Script {
        register: [Err(StatusCode::UNPROCESSABLE_ENTITY)].into(),
        ..Script::default()
    };
    let (server, _seen) = serve(script).await;
    let worker = Worker::start(server, |_, _, _| Ok::<_, DiskGone>(evaluation()));
    let fault = worker.task.await.unwrap().unwrap_err().to_string();
    assert!(
        fault.contains("answered 422: the script says so"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_worker_whose_token_or_release_is_refused_later_ends_with_the_reason() {
    for status in [401, 403, 409] {
        let status = StatusCode::from_u16(status).unwrap();
        let (server, _seen) = serve(Script {
            register: [Ok(first_worker()), Err(status)].into(),
            lease: [Err(status)].into(),
            ..Script::default()
        })
        .await;
        let worker = Worker::start(server, |_, _, _| Ok::<_, DiskGone>(evaluation()));
        let refused = worker.task.await.unwrap().unwrap_err().to_string();
        assert!(refused.contains(status.as_str()), "{refused}");
    }
}

#[tokio::test]
async fn a_drained_worker_ends_well() {
    let (server, _seen) = serve(Script {
        register: [Ok(first_worker())].into(),
        lease: [Err(StatusCode::GONE)].into(),
        ..Script::default()
    })
    .await;
    let worker = Worker::start(server, |_, _, _| Ok::<_, DiskGone>(evaluation()));
    worker.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_worker_stops_while_there_is_no_service() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let worker = Worker::start(format!("http://{address}"), |_, _, _| {
        Ok::<_, DiskGone>(evaluation())
    });
    worker.stop().await;
}

/// A worker that leaves when it has had no job for a moment.
fn impatient(server: String) -> Worker {
    let nowhere = PathBuf::from("/nonexistent");
    let health = HealthRecordFile::new(&nowhere, "0");
    let limit = Some(Duration::from_millis(50));
    Worker::with(server, health, nowhere, limit, |_, _, _| {
        std::thread::sleep(Duration::from_millis(200));
        Ok::<_, DiskGone>(evaluation())
    })
}

#[tokio::test]
async fn a_worker_without_a_job_leaves_after_its_idle_time() {
    let (server, mut seen) = serve(one_lease()).await;
    let worker = impatient(server);
    // The job takes longer than the idle time and is reported all the same.
    let report = next_report(&mut seen).await;
    assert!(matches!(report.outcome, ReportOutcome::Evaluated { .. }));
    assert_eq!(worker.task.await.unwrap().unwrap(), Departure::Idle);
    assert!(!worker.shutdown.is_cancelled());
}

#[tokio::test]
async fn a_worker_that_cannot_reach_its_service_leaves_after_its_idle_time() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let worker = impatient(server);
    assert_eq!(worker.task.await.unwrap().unwrap(), Departure::Idle);
}
