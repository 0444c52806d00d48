//! Comparison of the search methods with the simulated author, over paired seeds. Everything that it
//! prints about methods is simulated: see `tests/src/simulated/parameters.toml`.
//!
//! `cargo run --package lab --example methods -- record TASK FILE` evaluates every kernel that the author can
//! write for a task on the emulated device, and continues a file that exists.
//! `cargo run --package lab --example methods -- compare FILE SEEDS [RECORDS]` prints the tables of
//! docs/measurements/methods.md, with the other programs' runs in RECORDS.
//! `cargo run --package lab --example methods -- serve FILE RECORDS` prints the address of a server for other
//! programs ([`lab::simulated::opponents`]), and writes their runs when its input ends. `tests/opponents/run` uses it.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation, EvaluationRequest, EvaluationStage};
use domain::role::Key;
use domain::search::{Evolution, Method};
use domain::task::{Bundle, Task};
use domain::timing::Timing;
use lab::simulated::author::Author;
use lab::simulated::landscape::{Landscape, Outcome};
use lab::simulated::libraries::Library;
use lab::simulated::opponents::{Opponents, Records};
use lab::simulated::trial::{Course, Setting, run};
use lab::verdicts::judgement::Judge;

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
        ["record", task, file] => record(Library::of(task)?, Path::new(file)),
        ["compare", file, seeds, records @ ..] => compare(
            &Landscape::read(Path::new(file))?,
            seeds.parse().context("read the number of seeds")?,
            &read_records(records)?,
        ),
        ["serve", file, records] => serve(&Landscape::read(Path::new(file))?, Path::new(records)),
        _ => {
            bail!("say `record TASK FILE`, `compare FILE SEEDS [RECORDS]` or `serve FILE RECORDS`")
        }
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

fn record(library: &Library, path: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("make a folder for the evaluator")?;
    let judge = Judge::new(folder.path())?;
    let bundle = lab::task(library.task)?;
    let task = Task::load(&bundle)?;
    let mut landscape = if path.exists() {
        Landscape::read(path)?
    } else {
        Landscape::default()
    };
    landscape.task = library.task.to_owned();
    let baseline = judge.evaluate(&request(&bundle, task.baseline.text().to_owned()))?;
    landscape.evaluator_version = EVALUATOR_VERSION;
    landscape.task_version = task.version.to_string();
    landscape.device = baseline
        .device
        .as_ref()
        .map(|device| device.name.clone())
        .unwrap_or_default();
    landscape.baseline_us = outcome(&baseline).us.context("time the baseline")?;
    landscape.baseline_floor_share = baseline.floor_share();
    for choices in library.all() {
        if landscape.kernels.contains_key(&choices) {
            continue;
        }
        let evaluation = judge.evaluate(&request(&bundle, library.compose(&choices, None, "")))?;
        let found = outcome(&evaluation);
        eprintln!("{choices} {} {:?}", found.verdict, found.us);
        landscape.kernels.insert(choices, found);
        landscape.write(path)?;
    }
    // The baseline is recorded anew where all kernels are known.
    landscape.write(path)
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
    let freedom = (count - 1.0).max(1.0);
    // The quantile for so many degrees of freedom by that of the normal distribution (Abramowitz, Stegun: Handbook of
    // Mathematical Functions, 26.7.5); 2.26 for 9 and 2.05 for 29.
    let z = 1.959_964_f64;
    let quantile = z
        + (z.powi(3) + z) / (4.0 * freedom)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom.powi(2));
    (mean, quantile * (squares / freedom / count).sqrt())
}

fn cell((mean, half): (f64, f64)) -> String {
    format!("{mean:.3} ± {half:.3}")
}

#[tokio::main]
async fn serve(landscape: &Landscape, records: &Path) -> Result<()> {
    let opponents = Opponents::start(landscape.clone()).await?;
    println!("http://{}", opponents.address);
    let mut input = String::new();
    tokio::task::spawn_blocking(move || std::io::stdin().read_to_string(&mut input)).await??;
    let text = serde_json::to_string(&opponents.records())?;
    std::fs::write(records, text).with_context(|| format!("write {}", records.display()))
}

fn read_records(files: &[&str]) -> Result<Records> {
    let mut all = Records::new();
    for file in files {
        let text = std::fs::read_to_string(file).with_context(|| format!("read {file}"))?;
        let records: Records =
            serde_json::from_str(&text).with_context(|| format!("read {file}"))?;
        all.extend(records);
    }
    Ok(all)
}

/// Courses of one way to search, by the number of trials, one for each seed.
type Courses = BTreeMap<u32, Vec<Course>>;

fn compare(landscape: &Landscape, seeds: u64, records: &Records) -> Result<()> {
    let task = Task::load(&lab::task(&landscape.task)?)?;
    let author = Author::of(&landscape.task)?;
    let setting = Setting::new(&task, &author, landscape);
    let accepted = landscape.kernels.keys();
    let accepted = accepted
        .filter(|one| landscape.speedup(one).is_some())
        .count();
    println!(
        "Simulated: {} kernels for {} of which {accepted} are accepted, best {:.2} times the baseline ({}), \
         {seeds} seeds, evaluator {}.\n",
        landscape.kernels.len(),
        landscape.task,
        landscape.optimum(),
        landscape.device,
        landscape.evaluator_version,
    );
    println!(
        "| method | at 15 trials | at 45 | at 100 | area to 100 | against best_of at 45 | valid at 45 | dollars at 45 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let default = Evolution::default();
    let bandit = Evolution {
        bandit: true,
        ..default.clone()
    };
    let unrepaired = Evolution {
        repairs: 0,
        ..default.clone()
    };
    let ours = METHODS.map(|method| (method, &default, format!("`{}`", method.as_str())));
    let further = [
        (Method::Full, &bandit, "`full`, bandit".to_owned()),
        (
            Method::BestOf,
            &unrepaired,
            "`best_of`, no repairs".to_owned(),
        ),
    ];
    let mut best_of = Vec::new();
    for (method, evolution, name) in ours.into_iter().chain(further) {
        let mut courses = Courses::new();
        for trials in TRIALS {
            let each = (0..seeds).map(|seed| run(&setting, method, evolution, trials, seed));
            courses.insert(trials, each.collect::<Result<_>>()?);
        }
        print_row(&name, &courses, landscape, &mut best_of);
    }
    for (name, runs) in records {
        let mut courses = Courses::new();
        for trials in TRIALS {
            let each = runs.values().map(|run| run.course(trials as usize));
            let each = each.collect::<Result<_>>();
            courses.insert(
                trials,
                each.with_context(|| format!("read a run of {name}"))?,
            );
        }
        let name = format!("{name}, {} seeds", runs.len());
        print_row(&name, &courses, landscape, &mut best_of);
    }
    Ok(())
}

/// Prints a row of the table. `best_of` holds the results at 45 trials of the first row, which later ones are compared
/// with.
fn print_row(name: &str, courses: &Courses, landscape: &Landscape, best_of: &mut Vec<f64>) {
    // Share of the logarithm of the highest speedup.
    let optimum = landscape.optimum().ln();
    let share = |speedup: f64| speedup.ln() / optimum;
    let found = |trials| -> Vec<f64> {
        let last = |course: &Course| share(course.best.last().copied().unwrap_or(1.0));
        courses[&trials].iter().map(last).collect()
    };
    let area = |course: &Course| {
        let sum: f64 = course.best.iter().map(|best| share(*best)).sum();
        sum / course.best.len() as f64
    };
    let [early, middle, late] = TRIALS;
    let areas: Vec<f64> = courses[&late].iter().map(area).collect();
    let at_45 = found(middle);
    if best_of.is_empty() {
        best_of.clone_from(&at_45);
    }
    let pairs = at_45.iter().zip(best_of.iter());
    let differences: Vec<f64> = pairs.map(|(own, other)| own - other).collect();
    let mean = |value: fn(&Course) -> f64| {
        let values = courses[&middle].iter().map(value);
        values.sum::<f64>() / courses[&middle].len() as f64
    };
    println!(
        "| {name} | {} | {} | {} | {} | {} | {:.0}% | {:.2} |",
        cell(interval(&found(early))),
        cell(interval(&at_45)),
        cell(interval(&found(late))),
        cell(interval(&areas)),
        cell(interval(&differences)),
        100.0 * mean(|course| course.valid),
        mean(|course| course.dollars),
    );
}
