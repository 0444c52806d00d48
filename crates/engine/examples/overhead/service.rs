//! An engine with a database, a scripted model and evaluators.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

use domain::api::RunRequest;
use domain::candidate::KernelSource;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation, EvaluationRequest};
use domain::id::{RunId, WorkerId};
use domain::lease::{Registration, Report, ReportOutcome};
use domain::model::{ModelView, ReplyEnd, Usage};
use domain::search::{Budget, Evolution, Method, ModelChoice, Schedule};
use domain::task::Task;
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

/// Lines of comment in each kernel, so that its text is about as long as a real one.
const LINES: usize = 60;
/// Words that thoughts are drawn from, few enough for thoughts to resemble each other as real ones do.
const WORDS: usize = 400;
/// Words in one thought.
const THOUGHT: usize = 24;
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

/// A model that answers with a kernel and a thought of its own.
struct ScriptedModel {
    shared: Arc<Shared>,
    calls: Semaphore,
}

impl Llm for ScriptedModel {
    fn complete<'a>(&'a self, request: &'a CallRequest) -> BoxFuture<'a, Result<Reply, LlmError>> {
        let ordinal = request.position.ordinal;
        let text = reply(ordinal);
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

fn reply(ordinal: u32) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(ordinal));
    let mut words = |count: usize| {
        let word = |_| format!("word{}", rng.random_range(0..WORDS));
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    };
    let thought = words(THOUGHT);
    let comments = (0..LINES).map(|_| format!("// {}\n", words(8)));
    let comments = comments.collect::<String>();
    let source = kernel(&format!("version {ordinal}"), &[]);
    let source = source.replace("---*/\n", &format!("---*/\n{comments}"));
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
fn evaluation(like: &Evaluation, request: &EvaluationRequest) -> Evaluation {
    let source = KernelSource::parse(&request.file, request.source.as_str());
    let source = source.expect("the model writes kernels");
    Evaluation {
        verdict: script(request),
        stage: request.stage,
        candidate_digest: Some(source.candidate_digest(&request.configuration)),
        ..like.clone()
    }
}

/// The service, until it is stopped.
pub struct Service {
    engine: Engine,
    folder: tempfile::TempDir,
    shared: Arc<Shared>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Service {
    /// Starts an engine with a model that takes so many calls at once, and evaluators.
    pub async fn start(calls: usize, evaluators: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shared = Arc::new(Shared::default());
        let store = Store::open(folder.path().join("test.db")).await.unwrap();
        let settings = Settings {
            default_repository: folder.path().join("promotions.git"),
            author_email: "kernelwright@example.com".to_owned(),
            recheck_after: None,
        };
        let models = models(&shared, calls.min(Semaphore::MAX_PERMITS));
        let engine = Engine::new(store, Arc::new(SystemClock), settings, models);
        let (bundle, store) = (bundle(), engine.store());
        let task = Task::load(&bundle).unwrap();
        store.put_task(&task, &bundle, engine.now()).await.unwrap();
        let registration = Registration {
            name: "w".to_owned(),
            device: device(),
            toolchain: "NVRTC 13.5".to_owned(),
            evaluator: EVALUATOR_VERSION,
            instance: None,
        };
        let joined = store.register(&registration, engine.now()).await;
        let worker = joined.unwrap().worker;
        let stop = CancellationToken::new();
        let driven = (engine.clone(), stop.clone());
        let mut tasks = vec![tokio::spawn(
            async move { driven.0.run_forever(driven.1).await },
        )];
        for _ in 0..evaluators {
            let (engine, shared, stop) = (engine.clone(), Arc::clone(&shared), stop.clone());
            tasks.push(tokio::spawn(evaluate(engine, worker, shared, stop)));
        }
        Self {
            engine,
            folder,
            shared,
            stop,
            tasks,
        }
    }

    /// Creates a run of the method `full`.
    pub async fn launch(&self, in_flight: u32) -> RunId {
        let evolution = Evolution {
            schedule: Schedule::Steady { in_flight },
            generations: TRIALS,
            ..Evolution::default()
        };
        let request = RunRequest {
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
        };
        self.engine.create_run(request, None).await.unwrap().run.id
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

    pub async fn trials(&self, run: RunId) -> u32 {
        self.engine.store().run(run).await.unwrap().unwrap().trials
    }

    pub fn database_kib(&self) -> f64 {
        let size =
            |file| std::fs::metadata(self.folder.path().join(file)).map_or(0, |file| file.len());
        (size("test.db") + size("test.db-wal")) as f64 / 1024.0
    }

    /// Stops everything but the database, which goes with the folder.
    pub async fn stop(self) -> Stopped {
        self.stop.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
        Stopped {
            engine: self.engine,
            _folder: self.folder,
        }
    }
}

/// An engine that nothing drives, with its database.
pub struct Stopped {
    pub engine: Engine,
    _folder: tempfile::TempDir,
}

fn models(shared: &Arc<Shared>, calls: usize) -> Models {
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
        shared: Arc::clone(shared),
        calls: Semaphore::new(calls),
    };
    Models::of([(view, Arc::new(model) as Arc<dyn Llm>)])
}

async fn evaluate(engine: Engine, worker: WorkerId, shared: Arc<Shared>, stop: CancellationToken) {
    let mut jobs = engine.store().changed_jobs();
    let mut like: Option<Evaluation> = None;
    while !stop.is_cancelled() {
        jobs.borrow_and_update();
        let Some(lease) = engine.lease(worker).await.unwrap() else {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = jobs.changed() => continue,
            }
        };
        shared
            .delay(EVALUATION, lease.job.uuid().as_u64_pair().1)
            .await;
        let like = like
            .get_or_insert_with(|| crate::lab::evaluation(&lease.request, script(&lease.request)));
        let report = Report {
            attempt: lease.attempt,
            outcome: ReportOutcome::Evaluated {
                evaluation: Box::new(evaluation(like, &lease.request)),
            },
        };
        let reported = engine
            .store()
            .report(lease.job, &report, engine.now())
            .await;
        reported.expect("the report is about what was leased");
        shared.judged.fetch_add(1, Ordering::SeqCst);
    }
}
