//! A small task, candidates and evaluations of it, and a database in a folder of its own.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use domain::api::{PromotionTarget, RunRequest, RunState};
use domain::candidate::{Idea, KernelSource};
use domain::control::Control;
use domain::device::{Device, DeviceKind, Limits};
use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation, EvaluationStage};
use domain::id::{CandidateId, RunId, WorkerId};
use domain::lease::{Receipt, Registration, Report, ReportOutcome};
use domain::measurement::{Anchored, ConditionCoverage, Measurement};
use domain::role::Key;
use domain::search::{Budget, Method, Operator};
use domain::statistics::{ANALYSIS_PAIRS, Cycles, DecidedComparison, decide_screening};
use domain::task::{Bundle, Task};
use domain::timing::{CacheState, MeasuredTime, ModelledTime, Timing};
use domain::verdict::{Acceptance, Verdict};
use sqlx::Connection as _;
use store::{LeasedJob, NewCandidate, NewRun, Proposed, Store};

pub const TASK: &str = r#"
name = "fill"
title = "Fill a vector"
[dims]
N = {}
[[tensor]]
name = "y"
dtype = "f32"
shape = ["N"]
role = "out"
[tolerance]
class = "f32"
[[case]]
name = "only"
dims = { N = 8 }
use = ["check", "score"]
"#;

pub fn kernel(body: &str) -> String {
    format!(
        "/*---\n[idea]\ntitle = \"{body}\"\n[[launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [32]\n\
         args = [\"y\"]\n---*/\n{body}\n"
    )
}

pub fn bundle() -> Bundle {
    let files = [
        ("task.toml", TASK.to_owned()),
        ("reference.cu", kernel("reference")),
        ("check.cu", kernel("check")),
        ("baseline.cu", kernel("baseline")),
    ];
    Bundle {
        files: files
            .into_iter()
            .map(|(path, text)| (path.to_owned(), text))
            .collect(),
    }
}

/// Seconds after the tests' epoch.
pub fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::seconds(seconds)
}

pub fn device(name: &str) -> Device {
    Device {
        name: name.to_owned(),
        kind: DeviceKind::Emulated,
        uuid: format!("uuid of {name}"),
        compute_capability: (8, 9),
        driver_version: 13_000,
        memory_bytes: 1 << 34,
        l2_bytes: 1 << 25,
        limits: Limits {
            sm_count: 58,
            threads_per_block: 1024,
            block: [1024, 1024, 64],
            grid: [i32::MAX.cast_unsigned(), 65_535, 65_535],
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

pub const DEVICE: &str = "emulated L4";

pub fn request(trials: u32) -> RunRequest {
    RunRequest {
        budget: Budget {
            trials,
            ..Budget::default()
        },
        seed: 1,
        ..RunRequest::new("fill", Method::External)
    }
}

pub fn target() -> PromotionTarget {
    PromotionTarget {
        repository: "/nowhere".to_owned(),
        base: None,
        path: None,
        region: None,
    }
}

pub fn candidate(operator: Operator, parent: Option<CandidateId>, body: &str) -> NewCandidate {
    let source = KernelSource::parse("k.cu", kernel(body)).unwrap();
    NewCandidate {
        parent,
        further_parents: Vec::new(),
        trial: operator != Operator::Baseline,
        operator,
        generation: u32::from(parent.is_some()),
        proposer: "tests".to_owned(),
        title: body.to_owned(),
        file: "k.cu".to_owned(),
        identity: Some(source.identity(&BTreeMap::new())),
        source: source.text().to_owned(),
        configuration: BTreeMap::new(),
        idea: Some(Idea {
            title: body.to_owned(),
            hypothesis: String::new(),
            gain: None,
        }),
        verdict: None,
    }
}

pub fn timing(us: f64) -> Timing {
    Timing::Modelled {
        device: "l4".to_owned(),
        label: "uncalibrated".to_owned(),
        unscored: Vec::new(),
        cases: vec![ModelledTime {
            case: "only".to_owned(),
            cache: CacheState::Cold,
            us,
            launches: Vec::new(),
        }],
    }
}

pub fn accepted(us: f64) -> Verdict {
    Verdict::Accepted(Acceptance {
        timing: timing(us),
        comparison: None,
        launch_bound: false,
    })
}

/// An acceptance with measured times.
pub fn measured() -> Verdict {
    Verdict::Accepted(Acceptance {
        timing: Timing::Measured {
            cases: vec![MeasuredTime {
                case: "only".to_owned(),
                cache: CacheState::Cold,
                median_us: 25.0,
                quartiles_us: [24.0, 26.0],
                samples: 60,
            }],
            unscored: Vec::new(),
        },
        comparison: None,
        launch_bound: false,
    })
}

/// The report of a worker whose disk is missing.
pub fn faulted(leased: &LeasedJob) -> Report {
    Report {
        admission: None,
        attempt: leased.attempt,
        outcome: ReportOutcome::Faulted {
            message: "no disk".to_owned(),
        },
    }
}

/// The evaluation a healthy worker makes of a leased job.
pub fn evaluation(leased: &LeasedJob, verdict: Verdict) -> Evaluation {
    let source = KernelSource::parse(&leased.file, leased.source.clone()).unwrap();
    Evaluation {
        verdict,
        evaluator: EVALUATOR_VERSION,
        stage: leased.stage,
        found_on: None,
        not_run: Vec::new(),
        prescreen: None,
        drawn_shapes: None,
        preconditions: None,
        sanitizers: None,
        task_version: Task::load(&leased.bundle).unwrap().version,
        candidate_digest: Some(source.candidate_digest(&leased.configuration)),
        image_digest: None,
        device: Some(device(DEVICE)),
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
    }
}

/// The verdict on a text that never reaches a worker.
pub fn unread() -> Evaluation {
    Evaluation {
        verdict: Verdict::ParseRejected {
            problems: Vec::new(),
        },
        evaluator: EVALUATOR_VERSION,
        stage: EvaluationStage::Search,
        found_on: None,
        not_run: Vec::new(),
        prescreen: None,
        drawn_shapes: None,
        preconditions: None,
        sanitizers: None,
        task_version: Task::load(&bundle()).unwrap().version,
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
        evidence: None,
        findings: Vec::new(),
        stages: Vec::new(),
    }
}

/// The decision of a screening whose rounds all have this log-ratio.
pub fn settled(ratio: f64) -> DecidedComparison {
    let rounds = vec![ratio; ANALYSIS_PAIRS[0] / 2];
    let key = Key(Digest::of("the key of these tests"));
    decide_screening(&rounds, &Cycles::Unknown, key).unwrap()
}

/// A comparison with what came of the control after it.
pub fn measurement(control: Option<Control>) -> Measurement {
    let settled = settled(0.02);
    Measurement {
        incumbent: Digest::of("incumbent"),
        incumbent_timing: timing(100.0),
        analyses: 1,
        rounds: Vec::new(),
        timed: 15,
        discarded: Vec::new(),
        regressions: Vec::new(),
        anchor: Anchored {
            ratio: 1.02,
            interval: [1.02, 1.02],
            timing: None,
        },
        settled,
        noise: None,
        split: None,
        watched: ConditionCoverage::default(),
        locked: false,
        control,
        cases: Vec::new(),
    }
}

pub fn report(leased: &LeasedJob, verdict: Verdict) -> Report {
    report_of(leased, evaluation(leased, verdict))
}

/// The report of an evaluation.
pub fn report_of(leased: &LeasedJob, evaluation: Evaluation) -> Report {
    Report {
        admission: None,
        attempt: leased.attempt,
        outcome: ReportOutcome::Evaluated {
            evaluation: Box::new(evaluation),
        },
    }
}

/// Names the Postgres server on which the tests make their databases. Without it they use SQLite.
const SERVER: &str = "KERNELWRIGHT_TEST_POSTGRES";

/// A store with a database of its own.
pub struct Lab {
    pub store: Store,
    /// The folder of a SQLite database, which goes with it.
    pub folder: tempfile::TempDir,
    /// The URL of a Postgres database.
    pub url: Option<String>,
}

impl Lab {
    /// Makes a database where the environment says.
    pub async fn new() -> Self {
        match std::env::var(SERVER) {
            Ok(server) => Self::postgres(&server).await,
            Err(_) => Self::sqlite().await,
        }
    }

    /// Makes a SQLite database, for tests of its file.
    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("test.db")).await.unwrap();
        Self::with(store, folder, None).await
    }

    /// Makes an empty Postgres database, and returns its URL.
    pub async fn empty_postgres() -> String {
        let server = std::env::var(SERVER).expect("KERNELWRIGHT_TEST_POSTGRES names a server");
        Self::create_database(&server).await
    }

    async fn create_database(server: &str) -> String {
        let name = format!("test_{}", uuid::Uuid::now_v7().simple());
        let options: sqlx::postgres::PgConnectOptions = server.parse().unwrap();
        let options = options.database("postgres");
        let mut connection = sqlx::PgConnection::connect_with(&options).await.unwrap();
        sqlx::query(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}")))
            .execute(&mut connection)
            .await
            .unwrap();
        match server.split_once('?') {
            Some((server, options)) => format!("{server}/{name}?{options}"),
            None => format!("{server}/{name}"),
        }
    }

    async fn postgres(server: &str) -> Self {
        let url = Self::create_database(server).await;
        let store = Store::connect(&url).await.unwrap();
        Self::with(store, tempfile::tempdir().unwrap(), Some(url)).await
    }

    /// Ends every connection to the Postgres database, as a restart of its server does.
    pub async fn cut_connections(&self) {
        let mut connection = sqlx::PgConnection::connect(self.url.as_ref().unwrap())
            .await
            .unwrap();
        sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .execute(&mut connection)
        .await
        .unwrap();
    }

    async fn with(store: Store, folder: tempfile::TempDir, url: Option<String>) -> Self {
        let bundle = bundle();
        let task = Task::load(&bundle).unwrap();
        store.put_task(&task, &bundle, at(0)).await.unwrap();
        Self { store, folder, url }
    }

    /// Connects to the same database again, as after a restart.
    pub async fn reopen(&self) -> Store {
        match &self.url {
            Some(url) => Store::connect(url).await,
            None => Store::open(self.folder.path().join("test.db")).await,
        }
        .unwrap()
    }

    pub async fn run(&self, trials: u32) -> RunId {
        self.run_as(&request(trials)).await
    }

    pub async fn run_as(&self, request: &RunRequest) -> RunId {
        self.run_by(request, "ada").await
    }

    pub async fn run_by(&self, request: &RunRequest, actor: &str) -> RunId {
        let new = NewRun {
            request,
            promotion: &target(),
            idempotency_key: None,
            actor,
            fork: None,
        };
        self.store.create_run(new, at(1)).await.unwrap().run.id
    }

    pub async fn worker(&self, name: &str, device_name: &str) -> WorkerId {
        self.worker_with(name, device_name, "NVRTC 13.5").await
    }

    pub async fn worker_with(&self, name: &str, device_name: &str, toolchain: &str) -> WorkerId {
        let registration = Registration {
            name: name.to_owned(),
            device: device(device_name),
            toolchain: toolchain.to_owned(),
            evaluator: EVALUATOR_VERSION,
            instance: None,
            dollars_per_hour: None,
            declined: Vec::new(),
        };
        self.store
            .register(&registration, at(1))
            .await
            .unwrap()
            .worker
    }

    pub async fn propose(&self, run: RunId, new: &NewCandidate) -> CandidateId {
        match self.store.propose(run, new, at(2)).await.unwrap() {
            Proposed::New(id) => id,
            other => panic!("proposed anew, but got {other:?}"),
        }
    }

    /// Submits a candidate made from `parent`, with `body` as title and code.
    pub async fn submit(&self, run: RunId, parent: CandidateId, body: &str) -> CandidateId {
        self.propose(run, &candidate(Operator::Submit, Some(parent), body))
            .await
    }

    /// Submits a candidate with code that no other run has, whose verdict would hold.
    pub async fn submit_new_code(
        &self,
        run: RunId,
        parent: CandidateId,
        title: &str,
    ) -> CandidateId {
        let body = format!("{title} of {run}");
        let mut new = candidate(Operator::Submit, Some(parent), &body);
        new.title = title.to_owned();
        self.propose(run, &new).await
    }

    /// Reports a fault of the worker that holds a lease.
    pub async fn fault(&self, leased: &LeasedJob, now: DateTime<Utc>) -> Receipt {
        let report = faulted(leased);
        self.store.report(leased.job, &report, now).await.unwrap()
    }

    /// A run whose baseline was accepted with 100 us; the worker that did it, and the baseline.
    pub async fn running(&self, trials: u32) -> (RunId, WorkerId, CandidateId) {
        let worker = self.worker("w", DEVICE).await;
        let (run, baseline) = self.running_on(trials, worker).await;
        (run, worker, baseline)
    }

    /// The same, judged by a worker that is registered already.
    pub async fn running_on(&self, trials: u32, worker: WorkerId) -> (RunId, CandidateId) {
        self.running_by("ada", trials, worker).await
    }

    /// The same, launched by this person.
    pub async fn running_by(
        &self,
        person: &str,
        trials: u32,
        worker: WorkerId,
    ) -> (RunId, CandidateId) {
        let run = self.run_by(&request(trials), person).await;
        let baseline = self
            .propose(run, &candidate(Operator::Baseline, None, "baseline"))
            .await;
        let checking = RunState::CheckingBaseline;
        self.store.advance(run, &checking, at(2)).await.unwrap();
        let leased = self.lease(worker, at(3)).await.unwrap();
        assert_eq!(leased.stage, EvaluationStage::Baseline);
        self.judge(&leased, accepted(100.0)).await;
        self.store
            .advance(run, &RunState::Running, at(4))
            .await
            .unwrap();
        (run, baseline)
    }

    pub async fn lease(&self, worker: WorkerId, now: DateTime<Utc>) -> Option<LeasedJob> {
        self.store.lease(worker, None, now).await.unwrap()
    }

    pub async fn judge(&self, leased: &LeasedJob, verdict: Verdict) {
        let receipt = self
            .store
            .report(leased.job, &report(leased, verdict), at(4))
            .await;
        assert_eq!(receipt.unwrap(), Receipt::Accepted);
    }
}

/// Six decimals: a geometric mean passes through logarithms.
pub fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
