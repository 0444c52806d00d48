//! Measurement of how often the evaluator misjudges: changed kernels that are proven wrong, and changed kernels that
//! are proven right, each evaluated on the emulated device. Prints every misjudgement, a table by class of change, and
//! the rates with their bounds; the tables also after every 100 kernels, on standard error. A list that exists is
//! continued.
//!
//! `cargo build --release --package server --package driver && cargo run --release --package lab --example verdict_rates
//! -- --wrong 300 --honest 300 --seed 1 --list verdicts.jsonl --jobs 2`

use std::fs::OpenOptions;
use std::io::Write as _;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use domain::evaluation::EVALUATOR_VERSION;
use lab::verdicts::judgement::Judge;
use lab::verdicts::mutation::{Kind, unchanged};
use lab::verdicts::oracle::ensure_right;
use lab::verdicts::subject::{Subject, subjects};
use lab::verdicts::tally::{ItemResult, RatesRequest, Record, run, table};

/// New records between two tables of what is known so far.
const BETWEEN_TABLES: usize = 100;

/// The command line.
struct Arguments {
    wrong: u64,
    honest: u64,
    seed: u64,
    list: PathBuf,
    /// Evaluations at a time.
    jobs: usize,
}

impl Arguments {
    fn read() -> Result<Self> {
        let mut arguments = Self {
            wrong: 50,
            honest: 50,
            seed: 1,
            list: PathBuf::from("verdicts.jsonl"),
            jobs: std::thread::available_parallelism().map_or(1, NonZero::get),
        };
        let mut words = std::env::args().skip(1);
        while let Some(name) = words.next() {
            let value = words
                .next()
                .with_context(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--wrong" => arguments.wrong = value.parse().context("read --wrong")?,
                "--honest" => arguments.honest = value.parse().context("read --honest")?,
                "--seed" => arguments.seed = value.parse().context("read --seed")?,
                "--list" => arguments.list = PathBuf::from(value),
                "--jobs" => arguments.jobs = value.parse().context("read --jobs")?,
                _ => bail!("{name} is none of --wrong, --honest, --seed, --list, --jobs"),
            }
        }
        ensure!(arguments.jobs > 0, "--jobs is 0; at least one is needed");
        Ok(arguments)
    }
}

/// Checks that the oracle takes every unchanged kernel for right, before it says anything of others. Returns their number.
fn ensure_all_right(subjects: &[Subject], judges: &[Judge]) -> Result<usize> {
    let bases = subjects
        .iter()
        .enumerate()
        .flat_map(|(index, subject)| subject.kernels.keys().map(move |base| (index, base)))
        .collect::<Vec<_>>();
    let doubted = AtomicUsize::new(0);
    let check = |judge: &Judge, (index, base): (usize, &String)| -> Result<()> {
        let subject = &subjects[index];
        let kernel = unchanged(subjects, index, base).context("the kernel exists")?;
        let ptx = judge.compile(&kernel)?;
        let ptx = ptx.with_context(|| format!("compile {}/{base}", subject.name))?;
        if let Err(why) = ensure_right(subject, &kernel, &ptx, judge.limits()) {
            eprintln!("the oracle doubts {}/{base}: {why}", subject.name);
            doubted.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    };
    let next = AtomicUsize::new(0);
    let work = |judge: &Judge| {
        while let Some(base) = bases.get(next.fetch_add(1, Ordering::SeqCst)) {
            check(judge, *base)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = judges
            .iter()
            .map(|judge| scope.spawn(move || work(judge)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let ended: Result<()> = thread
                .join()
                .expect("a thread of this function does not panic");
            ended
        })
    })?;
    ensure!(
        doubted.into_inner() == 0,
        "the oracle does not take every unchanged kernel for right"
    );
    Ok(bases.len())
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::read()?;
    let subjects = subjects()?;
    let folders = (0..arguments.jobs)
        .map(|_| tempfile::tempdir())
        .collect::<Result<Vec<_>, _>>()?;
    let judges = folders
        .iter()
        .map(|folder| Judge::new(folder.path()))
        .collect::<Result<Vec<_>>>()?;

    let began = Instant::now();
    let kernels = ensure_all_right(&subjects, &judges)?;
    eprintln!(
        "{:5} s {kernels} kernels of {} tasks are right",
        began.elapsed().as_secs(),
        subjects.len()
    );

    let known = std::fs::read_to_string(&arguments.list).unwrap_or_default();
    let known = known
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect::<Vec<Record>>();
    let list = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&arguments.list);
    let list = Mutex::new(list.with_context(|| format!("open {}", arguments.list.display()))?);
    let began = Instant::now();
    let mut so_far = known.clone();
    so_far.retain(|record| record.seed == arguments.seed && record.evaluator == EVALUATOR_VERSION);
    let before = so_far.len();
    let so_far = Mutex::new(so_far);
    let done = |record: &Record| {
        let line = serde_json::to_string(record).expect("a record is plain data");
        let mut list = list.lock().expect("no thread panics with it");
        writeln!(list, "{line}").expect("the list can be written");
        let result = match &record.result {
            ItemResult::Judged { judgement, .. } => judgement.kind.as_str(),
            ItemResult::Empty => "empty",
            ItemResult::Unbuilt => "not compiled",
            ItemResult::Unproven { .. } => "not proven",
        };
        let mark = if record.is_misjudged() {
            "MISJUDGED "
        } else {
            ""
        };
        let seconds = began.elapsed().as_secs();
        eprintln!(
            "{seconds:5} s {:?} {}: {mark}{result} ({}, {})",
            record.kind, record.item, record.base, record.class
        );
        drop(list);
        let mut so_far = so_far.lock().expect("no thread panics with it");
        so_far.push(record.clone());
        if (so_far.len() - before).is_multiple_of(BETWEEN_TABLES) {
            eprintln!("{}", table(record.kind, &so_far));
        }
    };
    let mut misjudged = false;
    for (kind, wanted) in [
        (Kind::Wrong, arguments.wrong),
        (Kind::Honest, arguments.honest),
    ] {
        let order = RatesRequest {
            kind,
            seed: arguments.seed,
            wanted,
        };
        let records = run(&subjects, &judges, order, &known, &done)?;
        for record in records.iter().filter(|record| record.is_misjudged()) {
            misjudged = true;
            let ItemResult::Judged { proof, judgement } = &record.result else {
                continue;
            };
            println!(
                "{kind:?} {} {}: {}",
                record.item,
                record.base,
                record.changes.join("; ")
            );
            println!("    proof: {proof}\n    verdict: {}", judgement.verdict);
        }
        println!("\n{}", table(kind, &records));
    }
    Ok(if misjudged {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
