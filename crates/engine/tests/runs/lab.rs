//! A service without HTTP: a store, an engine, a clock that tests move, and a worker that judges
//! by a script.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use domain::api::{RunRequest, RunView};
use domain::candidate::KernelSource;
use domain::device::{Device, DeviceKind, Limits};
use domain::evaluation::{EVALUATOR_VERSION, Evaluation, EvaluationRequest, EvaluationStage};
use domain::id::{RunId, WorkerId};
use domain::lease::{Lease, Receipt, Registration, Report, ReportOutcome};
use domain::search::{Budget, Method};
use domain::task::{Bundle, Task};
use domain::timing::{CacheState, ModelledTime, Timing};
use domain::verdict::{Acceptance, Verdict};
use engine::llm::Models;
use engine::{Clock, Engine, ManualClock, Settings};
use store::Store;

const TASK: &str = r#"
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
[[phase]]
name = "only"
"#;

/// A kernel whose code is `body`, with tunables.
pub fn kernel(body: &str, tunables: &[(&str, &[i64])]) -> String {
    let names = tunables.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let declared = tunables
        .iter()
        .map(|(name, choices)| {
            format!(
                "[tunables.{name}]\nvalue = {}\nchoices = {choices:?}\n",
                choices[0]
            )
        })
        .collect::<String>();
    format!(
        "/*---\n[idea]\ntitle = \"{body}\"\n[step]\nphase = \"only\"\nsweep = {names:?}\n\
         [[launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [32]\nargs = [\"y\"]\n\
         {declared}---*/\n{body}\n"
    )
}

/// A task whose playbook first tiles, then breaks, then splits.
pub fn bundle() -> Bundle {
    let files = [
        ("task.toml", TASK.to_owned()),
        ("context.md", "Fill it.".to_owned()),
        ("insights.md", "Wide stores are good.\n".to_owned()),
        ("reference.cu", kernel("reference", &[])),
        ("check.cu", kernel("check", &[])),
        ("baseline.cu", kernel("baseline", &[])),
        ("playbook/01.cu", kernel("tile", &[("TILE", &[16, 32, 64])])),
        ("playbook/02.cu", kernel("broken", &[("TILE", &[16, 32])])),
        (
            "playbook/03.cu",
            kernel("split", &[("SPLIT", &[1, 4]), ("TILE", &[16, 32])]),
        ),
    ];
    Bundle {
        files: files
            .into_iter()
            .map(|(path, text)| (path.to_owned(), text))
            .collect(),
    }
}

pub fn device() -> Device {
    Device {
        name: "emulated L4".to_owned(),
        kind: DeviceKind::Emulated,
        uuid: "u".to_owned(),
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

pub fn accepted(us: f64) -> Verdict {
    Verdict::Accepted(Acceptance {
        timing: Timing::Modelled {
            device: "l4".to_owned(),
            label: "uncalibrated".to_owned(),
            unscored: Vec::new(),
            cases: vec![ModelledTime {
                case: "only".to_owned(),
                cache: CacheState::Cold,
                us,
                launches: Vec::new(),
            }],
        },
        comparison: None,
        launch_bound: false,
    })
}

pub fn rejected(reason: &str) -> Verdict {
    Verdict::LaunchRejected {
        reason: reason.to_owned(),
    }
}

/// The person who launches and steers runs.
pub const WHO: &str = "a person";

/// A script: what the device would say of a request.
pub type Script = fn(&EvaluationRequest) -> Verdict;

/// The source's code, and the value of one tunable.
pub fn body(request: &EvaluationRequest) -> &str {
    request.source.lines().last().unwrap()
}

pub fn value(request: &EvaluationRequest, name: &str) -> i64 {
    let source = KernelSource::parse(&request.file, request.source.as_str()).unwrap();
    let configuration = source.configure(&request.configuration).unwrap();
    configuration[name]
}

/// The tile of 32 helps, the second step is broken, the split helps more.
pub fn honest(request: &EvaluationRequest) -> Verdict {
    match body(request) {
        "baseline" => accepted(100.0),
        "tile" if value(request, "TILE") == 32 => accepted(40.0),
        "tile" => accepted(50.0),
        "split" if value(request, "SPLIT") == 4 => accepted(10.0),
        "split" => accepted(45.0),
        other => rejected(other),
    }
}

pub struct Lab {
    pub folder: tempfile::TempDir,
    pub clock: Arc<ManualClock>,
    pub engine: Engine,
    pub worker: WorkerId,
    models: Models,
}

impl Lab {
    pub async fn new() -> Self {
        Self::with_models(Models::none()).await
    }

    pub async fn with_models(models: Models) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let start = DateTime::UNIX_EPOCH + TimeDelta::days(20_000);
        let clock = Arc::new(ManualClock::new(start));
        let engine = start_engine(&folder, &clock, &models).await;
        let bundle = bundle();
        let task = Task::load(&bundle).unwrap();
        let store = engine.store();
        store.put_task(&task, &bundle, clock.now()).await.unwrap();
        let worker = join(&engine, "w", device()).await;
        Self {
            folder,
            clock,
            engine,
            worker,
            models,
        }
    }

    /// Another worker, on a device of the same kind.
    pub async fn another(&self, name: &str, uuid: &str) -> WorkerId {
        let uuid = uuid.to_owned();
        join(&self.engine, name, Device { uuid, ..device() }).await
    }

    /// Forgets the engine and its connections without an orderly end, and starts another.
    pub async fn restart(&mut self) {
        self.engine = start_engine(&self.folder, &self.clock, &self.models).await;
    }

    /// The same service, started again without any model.
    pub async fn without_models(mut self) -> Self {
        self.models = Models::none();
        self.restart().await;
        self
    }

    pub fn repository(&self) -> PathBuf {
        self.folder.path().join("promotions.git")
    }

    pub async fn launch(&self, request: RunRequest) -> RunId {
        let created = self.engine.create_run(request, None, WHO).await.unwrap();
        created.run.id
    }

    pub async fn view(&self, run: RunId) -> RunView {
        self.engine.store().run(run).await.unwrap().unwrap()
    }

    pub async fn lease(&self) -> Option<Lease> {
        self.engine.lease(self.worker).await.unwrap()
    }

    pub async fn report(&self, lease: &Lease, verdict: Verdict) {
        self.report_evaluation(lease, evaluation(&lease.request, verdict))
            .await;
    }

    pub async fn report_evaluation(&self, lease: &Lease, evaluation: Evaluation) {
        let report = Report {
            admission: None,
            attempt: lease.attempt,
            outcome: ReportOutcome::Evaluated {
                evaluation: Box::new(evaluation),
            },
        };
        let store = self.engine.store();
        let receipt = store.report(lease.job, &report, self.clock.now()).await;
        assert_eq!(receipt.unwrap(), Receipt::Accepted);
    }

    /// Evaluates everything that is queued; how many.
    pub async fn work(&self, script: Script) -> usize {
        let mut done = 0;
        while let Some(lease) = self.lease().await {
            self.report(&lease, script(&lease.request)).await;
            done += 1;
        }
        done
    }

    /// Waits until every call that may be made now has been answered, or failed.
    pub async fn answered(&self) {
        let store = self.engine.store();
        let mut changed = store.changed();
        // An engine that was dropped may still answer, and nobody is told of that.
        let a_while = Duration::from_millis(100);
        for _ in 0..200 {
            if store.due_calls(self.clock.now()).await.unwrap().is_empty() {
                return;
            }
            let _ = tokio::time::timeout(a_while, changed.changed()).await;
            // An answer may bring about another turn.
            self.engine.tick().await.unwrap();
        }
        panic!("a call never comes to its end");
    }

    /// Ticks and evaluates until the run is over or nothing happens any more.
    pub async fn drive(&self, run: RunId, script: Script) -> RunView {
        for _ in 0..400 {
            self.engine.tick().await.unwrap();
            self.answered().await;
            self.clock.advance(TimeDelta::seconds(1));
            let worked = self.work(script).await;
            let view = self.view(run).await;
            if view.state.is_over() && worked == 0 || view.state.as_str() == "paused" {
                return view;
            }
        }
        panic!("the run never ends: {:?}", self.view(run).await)
    }
}

async fn join(engine: &Engine, name: &str, device: Device) -> WorkerId {
    let registration = Registration {
        name: name.to_owned(),
        device,
        toolchain: "NVRTC 13.5".to_owned(),
        evaluator: EVALUATOR_VERSION,
        instance: None,
        dollars_per_hour: None,
        declined: Vec::new(),
    };
    let joined = engine.store().register(&registration, engine.now()).await;
    joined.unwrap().worker
}

async fn start_engine(
    folder: &tempfile::TempDir,
    clock: &Arc<ManualClock>,
    models: &Models,
) -> Engine {
    let store = Store::open(folder.path().join("test.db")).await.unwrap();
    let settings = Settings {
        default_repository: folder.path().join("promotions.git"),
        author_email: "kernelwright@example.com".to_owned(),
        recheck_after: Some(TimeDelta::days(1)),
        devices_per_person: None,
    };
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    Engine::new(store, clock, settings, models.clone())
}

pub fn request(method: Method, trials: u32) -> RunRequest {
    RunRequest {
        budget: Budget {
            trials,
            ..Budget::default()
        },
        seed: 7,
        ..RunRequest::new("fill", method)
    }
}

pub fn evaluation(request: &EvaluationRequest, verdict: Verdict) -> Evaluation {
    let source = KernelSource::parse(&request.file, request.source.as_str()).unwrap();
    let configuration = source.configure(&request.configuration).unwrap();
    Evaluation {
        verdict,
        evaluator: EVALUATOR_VERSION,
        stage: request.stage,
        found_on: None,
        not_run: Vec::new(),
        prescreen: None,
        drawn_shapes: None,
        preconditions: None,
        sanitizers: None,
        task_version: Task::load(&request.task).unwrap().version,
        candidate_digest: Some(source.candidate_digest(&configuration)),
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
    }
}

/// Returns true if the request is a confirmation.
pub fn confirms(request: &EvaluationRequest) -> bool {
    request.stage == EvaluationStage::Confirmation
}

/// A file of a branch, and the commit's message.
pub fn on_branch(repository: &std::path::Path, branch: &str, path: &str) -> (Vec<u8>, String) {
    let repository = git2::Repository::open(repository).unwrap();
    let reference = repository
        .find_reference(&format!("refs/heads/{branch}"))
        .unwrap();
    let commit = reference.peel_to_commit().unwrap();
    let entry = commit
        .tree()
        .unwrap()
        .get_path(std::path::Path::new(path))
        .unwrap();
    let blob = repository.find_blob(entry.id()).unwrap();
    (
        blob.content().to_vec(),
        commit.message().unwrap().to_owned(),
    )
}
