//! Benchmark of the time until a rejection: a gate on the plan, a compile error, a resource gate,
//! and every broken variant of the project's tasks. Two evaluators take turns: one with spare role
//! processes, one that starts each process when it is needed. Prints Markdown, and fails if a
//! median with spare processes is over its bound.
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

/// Bound for the rejection of a plan that cannot be launched, ms.
const PLAN_GATE: f64 = 50.0;
/// Bound for the time added to the compiler's own, ms.
const BESIDE_COMPILER: f64 = 100.0;
/// Bound for the rejection of a wrong kernel, ms.
const WRONG: f64 = 2000.0;
/// Tasks whose broken variants are evaluated.
const TASKS: [&str; 3] = ["attention-f16", "gemm-f32", "softmax-f32"];
/// Argument that makes this program compile one job and nothing else.
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

/// The two evaluators, which take turns so that other load on the machine slows both.
struct Both {
    waiting: Evaluator,
    cold: Evaluator,
}

/// Wall times of the same evaluations by both, ms.
#[derive(Default)]
struct Taken {
    waiting: Vec<f64>,
    cold: Vec<f64>,
}

impl Both {
    /// Evaluates with both in turn and checks both verdicts.
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
        // The order alternates, because the second one finds files in the page cache.
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

/// Measures a plan with a grid larger than any device's.
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

/// Measures a compile error and a resource gate, each beside the compiler alone on the same text.
/// Every text is different, because a build in the cache costs nothing.
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

/// Measures every broken variant of a task, with the reference's answers in the cache.
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

/// Wall time of the compiler in a plain process without confinement, ms.
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

/// Compiles one job and prints the compiler's wall time, its loading included.
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

/// Evaluates a request and measures its wall time, ms.
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

/// Prints a row and returns true if the median with spare processes keeps its bound.
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
