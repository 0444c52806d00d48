//! How long bad news takes: a gate on the plan, an error of the compiler, a resource gate, and every
//! broken variant of the project's tasks, each in turn by an evaluator whose role processes wait for
//! their job and by one that starts them when they are needed. Prints Markdown, and fails where a
//! median with waiting processes is over its bound.
//!
//! `cargo build --workspace && cargo run -p lab --example latency -- 20`

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use domain::candidate::KernelSource;
use domain::digest::Digest;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use domain::role::{CompileJob, Key};
use domain::task::Bundle;
use domain::verdict::VerdictKind;
use worker::cancel::Cancellation;
use worker::evaluate::Evaluator;
use worker::host::{Host, Role, Settings};

/// A plan that cannot be launched is refused in this time, milliseconds.
const PLAN_GATE: f64 = 50.0;
/// What may be added to the compiler's own time, milliseconds.
const BESIDE_COMPILER: f64 = 100.0;
/// A wrong kernel is refused in this time, milliseconds.
const WRONG: f64 = 2000.0;
/// The tasks whose broken variants are tried.
const TASKS: [&str; 3] = ["attention-f16", "gemm-f32", "softmax-f32"];
/// The argument that makes this program the compiler alone.
const COMPILER: &str = "--compiler-alone";

fn main() -> Result<ExitCode> {
    let mut words = std::env::args().skip(1);
    let first = words.next();
    if first.as_deref() == Some(COMPILER) {
        return compiler_alone(&words.next().context("a job")?);
    }
    let times = first.map_or(Ok(20), |times| times.parse());
    let times: usize = times.context("read how often each is tried")?;
    let [waiting, cold] = [tempfile::tempdir()?, tempfile::tempdir()?];
    let both = Both {
        waiting: evaluator(waiting.path(), true)?,
        cold: evaluator(cold.path(), false)?,
    };
    println!(
        "| bad news | tries | median, ms | longest, ms | bound on the median, ms | | \
         median without spares, ms | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut met = gates(&both, times)?;
    met &= compilations(&both, times)?;
    for task in TASKS {
        met &= broken(&both, task, times.div_ceil(4))?;
    }
    Ok(if met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The same machine twice, so that whatever else it does meets both.
struct Both {
    waiting: Evaluator,
    cold: Evaluator,
}

/// Wall times of the same tries, milliseconds.
#[derive(Default)]
struct Taken {
    waiting: Vec<f64>,
    cold: Vec<f64>,
}

impl Both {
    /// Evaluates on both in turn, and checks both verdicts.
    fn try_on(
        &self,
        turn: usize,
        request: &EvaluationRequest,
        expected: VerdictKind,
        taken: &mut Taken,
    ) -> Result<()> {
        let mut sides = [
            (&self.waiting, &mut taken.waiting),
            (&self.cold, &mut taken.cold),
        ];
        // Who comes second finds warmer files.
        if turn % 2 == 1 {
            sides.reverse();
        }
        for (evaluator, taken) in sides {
            let (ms, evaluation) = timed(evaluator, request)?;
            let kind = evaluation.verdict.kind();
            ensure!(kind == expected, "{}: {}", request.file, evaluation.verdict);
            taken.push(ms);
        }
        Ok(())
    }
}

fn evaluator(data: &Path, spares: bool) -> Result<Evaluator> {
    let mut settings = Settings::from_environment(data)?;
    settings.spares = spares;
    settings.executable = lab::binary();
    settings.emulate = true;
    let host = Host::discover(settings, &Cancellation::new()?)?;
    Ok(Evaluator::new(host)?)
}

/// A grid larger than any device's.
fn gates(both: &Both, times: usize) -> Result<bool> {
    let task = lab::task("attention-f16")?;
    let baseline = &task.files["baseline.cu"];
    let grid = baseline
        .lines()
        .find(|line| line.starts_with("grid = "))
        .context("a grid")?;
    let source = baseline.replacen(grid, "grid = [4294967296]", 1);
    let mut taken = Taken::default();
    for turn in 0..times {
        let request = request(&task, "grid.cu", source.clone());
        both.try_on(turn, &request, VerdictKind::LaunchRejected, &mut taken)?;
    }
    Ok(row("a plan that cannot be launched", &taken, PLAN_GATE))
}

/// An error in the source and too much shared memory, each beside the compiler alone on the same
/// text. Every try is another text, since a build that is known costs nothing.
fn compilations(both: &Both, times: usize) -> Result<bool> {
    let task = lab::task("attention-f16")?;
    let baseline = &task.files["baseline.cu"];
    let wrong = baseline.replacen("__global__", "__global__ nonsense", 1);
    let shared = "\n__global__ void spare(float* x) {\n    __shared__ float all[1 << 16];\n    \
                  all[threadIdx.x] = x[threadIdx.x];\n    __syncthreads();\n    \
                  x[threadIdx.x] = all[threadIdx.x ^ 1];\n}\n";
    let large = format!("{baseline}{shared}");
    let mut met = true;
    for (name, source, expected) in [
        (
            "an error in the source",
            wrong,
            VerdictKind::CompileRejected,
        ),
        (
            "too much shared memory",
            large,
            VerdictKind::CompileResource,
        ),
    ] {
        let (mut whole, mut alone) = (Taken::default(), Vec::new());
        for turn in 0..times {
            let source = format!("{source}\n// {turn}\n");
            alone.push(compiler(&both.cold, &source)?);
            let request = request(&task, "wrong.cu", source);
            both.try_on(turn, &request, expected, &mut whole)?;
        }
        let bound = median(&alone) + BESIDE_COMPILER;
        met &= row(name, &whole, bound);
        println!(
            "| - the compiler alone | {} | {:.1} | {:.1} | - | | | |",
            alone.len(),
            median(&alone),
            longest(&alone)
        );
    }
    Ok(met)
}

/// Every broken variant of a task, with the reference's answers known as after a first candidate.
fn broken(both: &Both, name: &str, times: usize) -> Result<bool> {
    let task = lab::task(name)?;
    let files = task
        .files
        .iter()
        .filter(|(file, _)| file.starts_with("broken/"))
        .collect::<Vec<_>>();
    let baseline = task.files["baseline.cu"].clone();
    for evaluator in [&both.waiting, &both.cold] {
        timed(evaluator, &request(&task, "baseline.cu", baseline.clone()))?;
    }
    let mut met = true;
    for (file, source) in files {
        let parsed = KernelSource::parse(file, source.as_str())
            .map_err(|problems| anyhow::anyhow!("read {file}: {problems}"))?;
        let expected = parsed.expectation().context("an expectation")?.verdict;
        let mut taken = Taken::default();
        for turn in 0..times {
            let source = format!("{source}\n// {turn}\n");
            both.try_on(turn, &request(&task, file, source), expected, &mut taken)?;
        }
        met &= row(&format!("{name}, {file}: {expected}"), &taken, WRONG);
    }
    Ok(met)
}

/// The compiler in a process of its own without any of ours around it, milliseconds.
fn compiler(evaluator: &Evaluator, source: &str) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let host = evaluator.host();
    let path = folder.path().join("candidate.cu");
    std::fs::write(&path, source)?;
    let output = folder.path().join("image");
    std::fs::create_dir(&output)?;
    let job = CompileJob {
        source: path,
        architecture: host.device().architecture(),
        defines: BTreeMap::new(),
        headers: None,
        toolchain_headers: host.toolchain_headers(),
        output,
    };
    let program = host.program(Role::Compile, folder.path());
    #[expect(
        clippy::disallowed_methods,
        reason = "the compiler is measured without the supervisor around it"
    )]
    let output = std::process::Command::new(std::env::current_exe()?)
        .args([COMPILER, &serde_json::to_string(&job)?])
        .envs(program.environment)
        .stdin(Stdio::null())
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Compiles one job and prints how long the compiler took, its own start included.
fn compiler_alone(job: &str) -> Result<ExitCode> {
    let job: CompileJob = serde_json::from_str(job)?;
    let began = Instant::now();
    gpu::compile(&job).map_err(|fault| anyhow::anyhow!("{fault}"))?;
    println!("{}", began.elapsed().as_secs_f64() * 1e3);
    Ok(ExitCode::SUCCESS)
}

fn request(task: &Bundle, file: &str, source: String) -> EvaluationRequest {
    EvaluationRequest {
        task: task.clone(),
        file: file.to_owned(),
        source,
        configuration: BTreeMap::new(),
        stage: EvaluationStage::Search,
        key: Key(Digest::of("the key of the latencies")),
        incumbent: None,
    }
}

/// An evaluation and how long it took from the question to the answer, milliseconds.
fn timed(evaluator: &Evaluator, request: &EvaluationRequest) -> Result<(f64, Evaluation)> {
    let cancellation = Cancellation::new()?;
    let began = Instant::now();
    let evaluation = evaluator.evaluate(request, |_| {}, &cancellation)?;
    Ok((began.elapsed().as_secs_f64() * 1e3, evaluation))
}

fn median(taken: &[f64]) -> f64 {
    let mut sorted = taken.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn longest(taken: &[f64]) -> f64 {
    taken.iter().copied().fold(0.0, f64::max)
}

/// Prints a row and answers whether the median with waiting processes keeps its bound.
fn row(name: &str, taken: &Taken, bound: f64) -> bool {
    let (with, without) = (median(&taken.waiting), median(&taken.cold));
    let met = with <= bound;
    println!(
        "| {name} | {} | {with:.1} | {:.1} | {bound:.0} | {} | {without:.1} | {:.2} |",
        taken.waiting.len(),
        longest(&taken.waiting),
        if met { "met" } else { "MISSED" },
        with / without
    );
    met
}
