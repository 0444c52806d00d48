//! Cost of the search itself: one run with a model and an evaluator that answer at once, so that all
//! time is the engine's and the database's. Prints Markdown, one row for each count of candidates.
//!
//! `cargo run --release -p engine --example overhead -- 200 1000 5000`

#![expect(
    clippy::unwrap_used,
    reason = "the fixture of the tests ends the program where it fails"
)]

#[expect(dead_code, reason = "the tests of runs use more of it")]
#[path = "../tests/runs/lab.rs"]
mod lab;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use domain::api::RunRequest;
use domain::evaluation::EvaluationRequest;
use domain::lease::{Report, ReportOutcome};
use domain::model::{ModelView, ReplyEnd, Usage};
use domain::search::{Budget, Evolution, Method, ModelChoice, Schedule};
use domain::verdict::Verdict;
use engine::llm::{CallRequest, Llm, LlmError, Models, Reply};
use futures::future::BoxFuture;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio_util::sync::CancellationToken;

use lab::{Lab, accepted, body, evaluation, kernel, rejected, request};

/// Slots that the run keeps open, as many as evaluators wait for jobs.
const IN_FLIGHT: u32 = 8;
/// Lines of comment in each kernel, so that its text is about as long as a real one.
const LINES: usize = 60;
/// Words that thoughts are drawn from, few enough for thoughts to resemble each other as real ones do.
const WORDS: usize = 400;
/// Words in one thought.
const THOUGHT: usize = 24;
/// Ticks of the processor clock in one second, the value of `getconf CLK_TCK` on Linux.
const TICKS: f64 = 100.0;

/// A model that answers at once with a kernel and a thought of its own.
struct InstantModel;

impl Llm for InstantModel {
    fn complete<'a>(&'a self, request: &'a CallRequest) -> BoxFuture<'a, Result<Reply, LlmError>> {
        let ordinal = request.position.ordinal;
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
        let text =
            format!("name: candidate {ordinal}\nthought: {thought}\n\n```cuda\n{source}```\n");
        Box::pin(async move {
            Ok(Reply {
                usage: Usage {
                    input: 4_000,
                    output: text.len() as u64 / 4,
                    ..Usage::default()
                },
                text,
                end: ReplyEnd::Complete,
                usage_estimated: false,
                model: "instant".to_owned(),
                request_id: None,
                first_token: None,
                total: Duration::from_millis(1),
                attempts: 1,
            })
        })
    }
}

/// Every seventh candidate is wrong; the others are a little faster or slower than one another.
fn script(request: &EvaluationRequest) -> Verdict {
    match body(request).strip_prefix("version ") {
        None => accepted(100.0),
        Some(number) => match number
            .parse::<u64>()
            .expect("the model numbers its versions")
        {
            number if number % 7 == 0 => rejected("every seventh"),
            number => accepted(20.0 + (number * 7919 % 1000) as f64 / 10.0),
        },
    }
}

/// Usage of this process since its start.
struct Usages {
    processor_seconds: f64,
    resident_mib: f64,
}

fn usages() -> std::io::Result<Usages> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program may hold spaces; it ends with the last parenthesis.
    let fields = stat[stat.rfind(')').unwrap_or(0)..]
        .split_whitespace()
        .collect::<Vec<_>>();
    let ticks = |index: usize| fields[index].parse::<f64>().unwrap_or(0.0);
    let status = std::fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.and_then(|line| line.split_whitespace().next());
    Ok(Usages {
        processor_seconds: (ticks(12) + ticks(13)) / TICKS,
        resident_mib: resident.and_then(|kib| kib.parse().ok()).unwrap_or(0.0) / 1024.0,
    })
}

async fn evaluate(lab: Arc<Lab>, judged: Arc<AtomicU32>, stop: CancellationToken) {
    let store = lab.engine.store();
    let mut changed = store.changed();
    while !stop.is_cancelled() {
        changed.borrow_and_update();
        let Some(lease) = lab.lease().await else {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = changed.changed() => continue,
            }
        };
        let report = Report {
            attempt: lease.attempt,
            outcome: ReportOutcome::Evaluated {
                evaluation: Box::new(evaluation(&lease.request, script(&lease.request))),
            },
        };
        let now = lab.engine.now();
        store
            .report(lease.job, &report, now)
            .await
            .expect("the report is about what was leased");
        judged.fetch_add(1, Ordering::SeqCst);
    }
}

fn models() -> Models {
    let view = ModelView {
        name: "m".to_owned(),
        api: "openai".to_owned(),
        model: "instant".to_owned(),
        host: None,
        price: None,
        context_tokens: 100_000,
        max_output_tokens: 1_000,
        concurrency: IN_FLIGHT,
    };
    Models::of([(view, Arc::new(InstantModel) as Arc<dyn Llm>)])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut counts = Vec::new();
    for argument in std::env::args().skip(1).filter(|one| !one.starts_with('-')) {
        counts.push(argument.parse::<u32>()?);
    }
    if counts.is_empty() {
        counts = vec![200, 1_000, 5_000];
    }
    let last = counts.iter().copied().max().unwrap_or(0);
    let lab = Arc::new(Lab::with_models(models()).await);
    lab.launch(RunRequest {
        models: vec![ModelChoice {
            name: "m".to_owned(),
            weight: 1.0,
        }],
        budget: Budget {
            trials: last + IN_FLIGHT,
            ..Budget::default()
        },
        evolution: Evolution {
            schedule: Schedule::Steady {
                in_flight: IN_FLIGHT,
            },
            generations: last,
            ..Evolution::default()
        },
        ..request(Method::Full, last + IN_FLIGHT)
    })
    .await;
    let stop = CancellationToken::new();
    let judged = Arc::new(AtomicU32::new(0));
    let engine = lab.engine.clone();
    let driven = tokio::spawn({
        let stop = stop.clone();
        async move { engine.run_forever(stop).await }
    });
    let evaluators = (0..IN_FLIGHT)
        .map(|_| {
            let (lab, judged) = (Arc::clone(&lab), Arc::clone(&judged));
            tokio::spawn(evaluate(lab, judged, stop.clone()))
        })
        .collect::<Vec<_>>();

    println!("| candidates | a second | processor ms each | resident MiB | database KiB each |");
    println!("|---|---|---|---|---|");
    let (mut before, mut began, mut from) = (usages()?, Instant::now(), 0);
    for count in counts {
        while judged.load(Ordering::SeqCst) < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (now, seconds) = (usages()?, began.elapsed().as_secs_f64());
        let made = f64::from(count - from);
        let mut bytes = 0;
        for file in ["test.db", "test.db-wal"] {
            bytes += std::fs::metadata(lab.folder.path().join(file)).map_or(0, |file| file.len());
        }
        println!(
            "| {from} to {count} | {:.1} | {:.2} | {:.0} | {:.1} |",
            made / seconds,
            (now.processor_seconds - before.processor_seconds) * 1000.0 / made,
            now.resident_mib,
            bytes as f64 / 1024.0 / f64::from(count),
        );
        (before, began, from) = (now, Instant::now(), count);
    }
    stop.cancel();
    driven.await?;
    for evaluator in evaluators {
        evaluator.await?;
    }
    Ok(())
}
