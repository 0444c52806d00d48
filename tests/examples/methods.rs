//! Comparison of the search methods with the simulated author, over paired seeds. Everything that it
//! prints about methods is simulated: see `tests/src/simulated/parameters.toml`.
//!
//! `cargo run --package lab --example methods -- record FILE` evaluates every kernel that the author can
//! write on the emulated device, and continues a file that exists.
//! `cargo run --package lab --example methods -- compare FILE SEEDS` prints the tables of
//! docs/measurements/methods.md.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation, EvaluationRequest, EvaluationStage};
use domain::role::Key;
use domain::search::Method;
use domain::task::{Bundle, Task};
use domain::timing::Timing;
use lab::simulated::author::Parameters;
use lab::simulated::kernels::{Choices, compose};
use lab::simulated::landscape::{Landscape, Outcome};
use lab::simulated::trial::{Course, Setting, run};
use lab::verdicts::judgement::Judge;

const TASK: &str = "softmax-f32";
/// Trials of the runs that are compared.
const TRIALS: [u32; 3] = [15, 45, 100];
const METHODS: [Method; 10] = [
    Method::BestOf,
    Method::Free,
    Method::Insight,
    Method::Full,
    Method::Archive,
    Method::Refine,
    Method::Eoh,
    Method::Funsearch,
    Method::AiCudaEngineer,
    Method::Adaptive,
];

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["record", file] => record(&PathBuf::from(file)),
        ["compare", file, seeds] => compare(
            &Landscape::read(Path::new(file))?,
            seeds.parse().context("read the number of seeds")?,
        ),
        _ => bail!("say `record FILE` or `compare FILE SEEDS`"),
    }
}

fn request(bundle: &Bundle, source: String) -> EvaluationRequest {
    EvaluationRequest {
        task: bundle.clone(),
        file: "candidate.cu".to_owned(),
        source,
        configuration: BTreeMap::new(),
        stage: EvaluationStage::Search,
        key: Key(Digest::of("landscape")),
        incumbent: None,
    }
}

fn record(path: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("make a folder for the evaluator")?;
    let judge = Judge::new(folder.path())?;
    let bundle = lab::task(TASK)?;
    let task = Task::load(&bundle)?;
    let mut landscape = if path.exists() {
        Landscape::read(path)?
    } else {
        Landscape::default()
    };
    let baseline = judge.evaluate(&request(&bundle, task.baseline.text().to_owned()))?;
    landscape.evaluator_version = EVALUATOR_VERSION;
    landscape.task_version = task.version.to_string();
    landscape.device = baseline
        .device
        .as_ref()
        .map(|device| device.name.clone())
        .unwrap_or_default();
    landscape.baseline_us = outcome(&baseline).us.context("time the baseline")?;
    for choices in Choices::all() {
        if landscape.kernels.contains_key(&choices) {
            continue;
        }
        let evaluation = judge.evaluate(&request(&bundle, compose(&choices, None, "")))?;
        let found = outcome(&evaluation);
        eprintln!("{choices} {} {:?}", found.verdict, found.us);
        landscape.kernels.insert(choices, found);
        landscape.write(path)?;
    }
    Ok(())
}

fn outcome(evaluation: &Evaluation) -> Outcome {
    let timing = evaluation
        .verdict
        .acceptance()
        .map(|accepted| &accepted.timing);
    let bottleneck = timing.and_then(Timing::largest_bottleneck);
    Outcome {
        verdict: evaluation.verdict.kind(),
        // Three digits are as many as differences between kernels need.
        us: timing.map(|timing| (timing.geomean_us() * 1e3).round() / 1e3),
        bottleneck: bottleneck.map(|(_, launch)| launch.bottleneck.clone()),
    }
}

/// Mean with half the width of its 95% interval, from Student's distribution.
fn interval(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / (count - 1.0).max(1.0) / count).sqrt();
    // The quantile for 29 degrees of freedom; that for 99 is 1.98.
    (mean, 2.045 * error)
}

fn cell((mean, half): (f64, f64)) -> String {
    format!("{mean:.3} ± {half:.3}")
}

fn compare(landscape: &Landscape, seeds: u64) -> Result<()> {
    let task = Task::load(&lab::task(TASK)?)?;
    let parameters = Parameters::load()?;
    let setting = Setting {
        task: &task,
        landscape,
        parameters: &parameters,
    };
    let optimum = landscape.optimum().ln();
    let accepted = landscape.kernels.keys();
    let accepted = accepted
        .filter(|one| landscape.speedup(one).is_some())
        .count();
    println!(
        "Simulated: {} kernels of which {accepted} are accepted, best {:.2} times the baseline ({}), \
         {seeds} seeds, evaluator {}.\n",
        landscape.kernels.len(),
        landscape.optimum(),
        landscape.device,
        landscape.evaluator_version,
    );
    println!(
        "| method | at 15 trials | at 45 | at 100 | area to 100 | against best_of at 45 | valid at 45 | dollars at 45 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    // Share of the logarithm of the highest speedup.
    let share = |speedup: f64| speedup.ln() / optimum;
    let last = |course: &Course| share(course.best.last().copied().unwrap_or(1.0));
    let mut opponent: Vec<f64> = Vec::new();
    for method in METHODS {
        let mut cells = Vec::new();
        let (mut area, mut at_45, mut dollars, mut valid) = (Vec::new(), Vec::new(), 0.0, 0.0);
        for trials in TRIALS {
            let mut found = Vec::new();
            for seed in 0..seeds {
                let course = run(&setting, method, trials, seed)?;
                found.push(last(&course));
                if trials == 45 {
                    dollars += course.dollars / seeds as f64;
                    valid += course.valid / seeds as f64;
                }
                if trials == 100 {
                    let sum: f64 = course.best.iter().map(|best| share(*best)).sum();
                    area.push(sum / f64::from(trials));
                }
            }
            cells.push(cell(interval(&found)));
            if trials == 45 {
                at_45 = found;
            }
        }
        if method == Method::BestOf {
            opponent.clone_from(&at_45);
        }
        let pairs = at_45.iter().zip(&opponent);
        let differences: Vec<f64> = pairs.map(|(own, other)| own - other).collect();
        println!(
            "| `{}` | {} | {} | {} | {:.0}% | {dollars:.2} |",
            method.as_str(),
            cells.join(" | "),
            cell(interval(&area)),
            cell(interval(&differences)),
            100.0 * valid,
        );
    }
    Ok(())
}
