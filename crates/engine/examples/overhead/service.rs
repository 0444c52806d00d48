//! An engine with a database, a scripted model and evaluators.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

use domain::api::RunRequest;
use domain::candidate::KernelSource;
use domain::device::Device;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation, EvaluationRequest};
use domain::id::{RunId, WorkerId};
use domain::lease::{Registration, Report, ReportOutcome};
use domain::model::{ModelView, ReplyEnd, Usage};
use domain::search::{Budget, Evolution, Method, ModelChoice, Schedule};
use domain::task::{Bundle, Task};
use domain::verdict::Verdict;
use engine::llm::{CallRequest, Llm, LlmError, Models, Reply};
use engine::{Engine, Settings, SystemClock};
use futures::future::BoxFuture;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use store::Store;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::lab::{accepted, body, bundle, device, kernel, rejected, request};

/// The database in the folder of a service.
const DATABASE: &str = "kernelwright.db";

/// Lines of comment in each kernel, so that its text is about as long as a real one.
const LINES: usize = 60;
/// Words that thoughts are drawn from, few enough for thoughts to resemble each other as real ones do.
const WORDS: usize = 400;
/// Words in one thought.
const THOUGHT: usize = 24;
/// More generations than any part makes, and the most that a run may have.
const GENERATIONS: u32 = 100_000;
/// More trials than any part makes.
const TRIALS: u32 = 1_000_000;
const MODEL: Duration = Duration::from_secs(3);
const EVALUATION: Duration = Duration::from_secs(1);
/// Standard deviation of the logarithm of log-normal delays, whose mean is that of constant ones.
const SIGMA: f64 = 0.5;

/// The times that models and evaluators take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Delays {
    /// They answer at once.
    None,
    /// 3 s and 1 s.
    Constant,
    /// Log-normal with these means.
    LogNormal,
}

#[derive(Default)]
struct Shared {
    delays: AtomicU8,
    judged: AtomicU32,
}

impl Shared {
    async fn delay(&self, mean: Duration, seed: u64) {
        let delays = self.delays.load(Ordering::SeqCst);
        if delays == Delays::Constant as u8 {
            tokio::time::sleep(mean).await;
        } else if delays == Delays::LogNormal as u8 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            // Box and Muller's transformation of two uniform variables to a normal one.
            let (one, two): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
            let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos();
            tokio::time::sleep(mean.mul_f64((SIGMA * normal - SIGMA * SIGMA / 2.0).exp())).await;
        }
    }
}

/// A service to start.
pub struct Setup {
    /// The folder of the database and of the repository for winners.
    pub folder: PathBuf,
    pub task: Bundle,
    pub device: Device,
    /// Calls that the model takes at once.
    pub calls: usize,
    pub evaluators: usize,
    /// The model's reply to a call.
    pub reply: fn(&CallRequest) -> String,
    /// The verdict of the evaluators.
    pub verdict: fn(&EvaluationRequest) -> Verdict,
}

impl Setup {
    /// A service with texts of the usual length, whose verdicts cost nothing to find.
    pub fn plain(folder: &Path, calls: usize, evaluators: usize) -> Self {
        Self {
            folder: folder.to_owned(),
            task: bundle(),
            device: device(),
            calls,
            evaluators,
            reply,
            verdict: script,
        }
    }
}

/// A model that answers with a kernel and a thought of its own.
struct ScriptedModel {
    reply: fn(&CallRequest) -> String,
    shared: Arc<Shared>,
    calls: Semaphore,
}

impl Llm for ScriptedModel {
    fn complete<'a>(&'a self, request: &'a CallRequest) -> BoxFuture<'a, Result<Reply, LlmError>> {
        let ordinal = request.position.ordinal;
        let text = (self.reply)(request);
        Box::pin(async move {
            let _call = self.calls.acquire().await.expect("it is never closed");
            self.shared.delay(MODEL, u64::from(ordinal)).await;
            Ok(Reply {
                usage: Usage {
                    input: 4_000,
                    output: text.len() as u64 / 4,
                    ..Usage::default()
                },
                text,
                end: ReplyEnd::Complete,
                usage_estimated: false,
                model: "scripted".to_owned(),
                request_id: None,
                first_token: None,
                total: Duration::from_millis(1),
                attempts: 1,
            })
        })
    }
}

/// A kernel and a thought. Its code has the call's seed, which differs from run to run, because code that
/// another run knows gets its verdict without an evaluation.
fn reply(request: &CallRequest) -> String {
    let ordinal = request.position.ordinal;
    let seed = request.seed.expect("the search draws one for each slot");
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(ordinal));
    let mut words = |count: usize| {
        let word = |_| format!("word{}", rng.random_range(0..WORDS));
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    };
    let thought = words(THOUGHT);
    let comments = (0..LINES).map(|_| format!("// {}\n", words(8)));
    let comments = comments.collect::<String>();
    let source = kernel(&format!("version {ordinal}"), &[]);
    let source = source.replace(
        "---*/\n",
        &format!("---*/\nconstexpr int SEED = {seed};\n{comments}"),
    );
    format!("name: candidate {ordinal}\nthought: {thought}\n\n```cuda\n{source}```\n")
}

/// Every seventh candidate is wrong; the others are a little faster or slower than one another.
fn script(request: &EvaluationRequest) -> Verdict {
    let number = body(request).strip_prefix("version ");
    let number = number.map(|number| {
        number
            .parse::<u64>()
            .expect("the model numbers its versions")
    });
    match number {
        None => accepted(100.0),
        Some(number) if number.is_multiple_of(7) => rejected("every seventh"),
        Some(number) => accepted(20.0 + (number * 7919 % 1000) as f64 / 10.0),
    }
}

/// The evaluation of a request, made from one that was made in full.
fn evaluation(like: &Evaluation, request: &EvaluationRequest, verdict: Verdict) -> Evaluation {
    let source = KernelSource::parse(&request.file, request.source.as_str());
    let source = source.expect("the model writes kernels");
    Evaluation {
        verdict,
        stage: request.stage,
        candidate_digest: Some(source.candidate_digest(&request.configuration)),
        ..like.clone()
    }
}

/// The service, until it is stopped.
pub struct Service {
    engine: Engine,
    folder: PathBuf,
    shared: Arc<Shared>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Service {
    /// Starts an engine with its model and evaluators.
    pub async fn start(setup: Setup) -> Self {
        let shared = Arc::new(Shared::default());
        let store = Store::open(setup.folder.join(DATABASE)).await.unwrap();
        let settings = Settings {
            default_repository: setup.folder.join("promotions.git"),
            author_email: "kernelwright@example.com".to_owned(),
            recheck_after: None,
            devices_per_person: None,
        };
        let models = models(
            &shared,
            setup.calls.min(Semaphore::MAX_PERMITS),
            setup.reply,
        );
        let engine = Engine::new(store, Arc::new(SystemClock), settings, models);
        let (bundle, store) = (&setup.task, engine.store());
        let task = Task::load(bundle).unwrap();
        store.put_task(&task, bundle, engine.now()).await.unwrap();
        let registration = Registration {
            name: "w".to_owned(),
            device: setup.device.clone(),
            toolchain: "NVRTC 13.5".to_owned(),
            evaluator: EVALUATOR_VERSION,
            instance: None,
            dollars_per_hour: None,
            declined: Vec::new(),
        };
        let joined = store.register(&registration, engine.now()).await;
        let worker = joined.unwrap().worker;
        let stop = CancellationToken::new();
        let driven = (engine.clone(), stop.clone());
        let mut tasks = vec![tokio::spawn(
            async move { driven.0.run_forever(driven.1).await },
        )];
        for _ in 0..setup.evaluators {
            let evaluator = Evaluator {
                engine: engine.clone(),
                worker,
                device: setup.device.clone(),
                verdict: setup.verdict,
                shared: Arc::clone(&shared),
            };
            tasks.push(tokio::spawn(evaluator.work(stop.clone())));
        }
        Self {
            engine,
            folder: setup.folder,
            shared,
            stop,
            tasks,
        }
    }

    /// Creates a run.
    pub async fn launch(&self, request: RunRequest) -> RunId {
        self.engine
            .create_run(request, None, "overhead")
            .await
            .unwrap()
            .run
            .id
    }

    pub fn set_delays(&self, delays: Delays) {
        self.shared.delays.store(delays as u8, Ordering::SeqCst);
    }

    /// The candidates that were judged so far, baselines included.
    pub fn count(&self) -> u32 {
        self.shared.judged.load(Ordering::SeqCst)
    }

    /// Waits until so many candidates are judged.
    pub async fn judged(&self, count: u32) {
        while self.count() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub async fn trials(&self, run: RunId) -> u32 {
        self.engine.store().run(run).await.unwrap().unwrap().trials
    }

    pub fn database_kib(&self) -> f64 {
        let size = |file| std::fs::metadata(self.folder.join(file)).map_or(0, |file| file.len());
        (size(DATABASE) + size("kernelwright.db-wal")) as f64 / 1024.0
    }

    /// Stops everything but the database. Returns the engine, which nothing drives any more.
    pub async fn stop(self) -> Engine {
        self.stop.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
        self.engine
    }
}

/// A request for a run of the method `full` that keeps so many slots open.
pub fn steady_request(in_flight: u32) -> RunRequest {
    let evolution = Evolution {
        schedule: Schedule::Steady { in_flight },
        generations: GENERATIONS,
        ..Evolution::default()
    };
    RunRequest {
        models: vec![ModelChoice {
            name: "m".to_owned(),
            weight: 1.0,
        }],
        budget: Budget {
            trials: TRIALS,
            ..Budget::default()
        },
        evolution,
        ..request(Method::Full, TRIALS)
    }
}

fn models(shared: &Arc<Shared>, calls: usize, reply: fn(&CallRequest) -> String) -> Models {
    let view = ModelView {
        name: "m".to_owned(),
        api: "openai".to_owned(),
        model: "scripted".to_owned(),
        host: None,
        price: None,
        context_tokens: 100_000,
        max_output_tokens: 1_000,
        concurrency: u32::try_from(calls).unwrap_or(u32::MAX),
    };
    let model = ScriptedModel {
        reply,
        shared: Arc::clone(shared),
        calls: Semaphore::new(calls),
    };
    Models::of([(view, Arc::new(model) as Arc<dyn Llm>)])
}

/// A worker that judges what it leases, one job at a time.
struct Evaluator {
    engine: Engine,
    worker: WorkerId,
    device: Device,
    verdict: fn(&EvaluationRequest) -> Verdict,
    shared: Arc<Shared>,
}

impl Evaluator {
    async fn work(self, stop: CancellationToken) {
        let store = self.engine.store();
        let mut jobs = store.changed_jobs();
        let mut like: Option<Evaluation> = None;
        while !stop.is_cancelled() {
            jobs.borrow_and_update();
            let Some(lease) = self.engine.lease(self.worker).await.unwrap() else {
                tokio::select! {
                    () = stop.cancelled() => return,
                    _ = jobs.changed() => continue,
                }
            };
            let seed = lease.job.uuid().as_u64_pair().1;
            self.shared.delay(EVALUATION, seed).await;
            let like = like.get_or_insert_with(|| Evaluation {
                device: Some(self.device.clone()),
                ..crate::lab::evaluation(&lease.request, (self.verdict)(&lease.request))
            });
            let found = evaluation(like, &lease.request, (self.verdict)(&lease.request));
            let report = Report {
                admission: None,
                attempt: lease.attempt,
                outcome: ReportOutcome::Evaluated {
                    evaluation: Box::new(found),
                },
            };
            let reported = store.report(lease.job, &report, self.engine.now()).await;
            reported.expect("the report is about what was leased");
            self.shared.judged.fetch_add(1, Ordering::SeqCst);
        }
    }
}
