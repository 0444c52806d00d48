//! A data folder with one finished run of about N candidates, for looking at pages of long runs.
//!
//! `cargo run --release -p engine --example synthetic_run -- FOLDER N`, then
//! `kernelwright serve --data FOLDER`.
//!
//! The run is made by the engine itself, with a model and evaluators that answer at once. Nothing was
//! compiled or executed: kernels, verdicts and times are drawn from generators seeded by a candidate's
//! number. Task, device, run and titles carry the word "synthetic".

#![expect(
    clippy::unwrap_used,
    reason = "the fixture of the tests ends the program where it fails"
)]

#[expect(dead_code, reason = "the tests of runs use more of it")]
#[path = "../tests/runs/lab.rs"]
mod lab;
#[expect(dead_code, reason = "the bench uses more of it")]
#[path = "overhead/service.rs"]
mod service;
#[path = "synthetic_run/verdicts.rs"]
mod verdicts;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use domain::api::RunRequest;
use domain::device::Device;
use domain::search::Budget;
use engine::llm::CallRequest;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use service::{Service, Setup, steady_request};

/// Slots that the run keeps open.
const IN_FLIGHT: u32 = 16;
const EVALUATORS: usize = 8;
/// One reply in so many repeats an earlier candidate's code.
const REPEATED: u32 = 97;
/// The distance to the candidate that is repeated.
const REPEATED_BEHIND: u32 = 13;
/// One reply in so many holds no kernel.
const UNUSABLE: u32 = 61;
/// Statements in the body of a kernel.
const STATEMENTS: u32 = 40;
/// The ideas that thoughts consist of.
const IDEAS: [&str; 12] = [
    "load four elements at once",
    "keep partial sums in registers",
    "stage the tile through shared memory",
    "pad rows of shared memory against bank conflicts",
    "let one warp reduce a row with shuffles",
    "unroll the inner loop by eight",
    "give each block several rows",
    "overlap the next load with this computation",
    "use fewer registers for more blocks at once",
    "write results with wide stores",
    "split the longest axis between blocks",
    "replace the division by a multiplication",
];
const REASONS: [&str; 6] = [
    "because memory bandwidth is the limit",
    "because half of the lanes are idle",
    "because latency is not hidden",
    "because the same data is loaded twice",
    "because occupancy is low",
    "because instructions are the limit",
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: synthetic_run FOLDER CANDIDATES";
    let folder = PathBuf::from(arguments.next().ok_or(usage)?);
    let count: u32 = arguments.next().ok_or(usage)?.parse()?;
    std::fs::create_dir_all(&folder)?;
    let mut task = lab::bundle();
    let text = task.files["task.toml"]
        .replace("name = \"fill\"", "name = \"synthetic-fill\"")
        .replace("Fill a vector", "Synthetic: fill a vector");
    task.files.insert("task.toml".to_owned(), text);
    let device = Device {
        name: "synthetic L4".to_owned(),
        ..lab::device()
    };
    let service = Service::start(Setup {
        folder: folder.clone(),
        task,
        device,
        calls: usize::MAX,
        evaluators: EVALUATORS,
        reply,
        verdict: verdicts::verdict,
    })
    .await;
    let began = Instant::now();
    let run = service
        .launch(RunRequest {
            task: "synthetic-fill".to_owned(),
            name: Some(format!("synthetic run of {count} candidates")),
            budget: Budget {
                trials: count,
                ..Budget::default()
            },
            ..steady_request(IN_FLIGHT)
        })
        .await;
    service.judged(count).await;
    let store = service.engine().store().clone();
    store.request_finish(run, service.engine().now()).await?;
    while !store
        .run(run)
        .await?
        .ok_or("the run is there")?
        .state
        .is_over()
    {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    service.stop().await;
    store.close().await;
    println!(
        "{run}: {} in {:.0} s",
        folder.display(),
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

/// The model's reply for a candidate.
fn reply(request: &CallRequest) -> String {
    let ordinal = request.position.ordinal;
    if ordinal.is_multiple_of(UNUSABLE) {
        return "A synthetic reply without a kernel.".to_owned();
    }
    let number = if ordinal.is_multiple_of(REPEATED) {
        ordinal - REPEATED_BEHIND
    } else {
        ordinal
    };
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(number));
    let mut pick = |words: &[&'static str]| words[rng.random_range(0..words.len())];
    let (first, second) = (pick(&IDEAS), pick(&IDEAS));
    let thought = format!("{first}, then {second}, {}", pick(&REASONS));
    let mut code = String::from("__global__ void k(float* y) {\n    float acc = 0.0f;\n");
    for _ in 0..STATEMENTS {
        let (offset, factor) = (rng.random_range(0..64), rng.random_range(1..999));
        code += &format!("    acc += y[threadIdx.x + {offset}] * {factor}e-3f;\n");
    }
    code += "    y[threadIdx.x] = acc;\n}\n";
    let source = lab::kernel(&format!("// version {number}"), &[]);
    let source = source.replace("---*/\n", &format!("---*/\n{code}"));
    format!("name: synthetic {ordinal}: {first}\nthought: {thought}\n\n```cuda\n{source}```\n")
}
