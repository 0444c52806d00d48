//! Measurement of how often the evaluator misjudges: changed kernels that are proven wrong, and changed kernels that
//! are proven right, each evaluated on the emulated device. Prints every misjudgement, a table by class of change, and
//! the rates with their bounds. A list that exists is continued.
//!
//! `cargo build --package server --package driver && cargo run --package lab --example verdict_rates -- --wrong 300
//! --honest 300 --seed 1 --list verdicts.jsonl`

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use lab::verdicts::judgement::Judge;
use lab::verdicts::mutation::{Kind, unchanged};
use lab::verdicts::oracle::ensure_right;
use lab::verdicts::subject::subjects;
use lab::verdicts::tally::{ItemResult, RatesRequest, Record, run, table};

/// Evaluations at a time.
const THREADS: usize = 2;

/// The command line.
struct Arguments {
    wrong: u64,
    honest: u64,
    seed: u64,
    list: PathBuf,
}

impl Arguments {
    fn read() -> Result<Self> {
        let mut arguments = Self {
            wrong: 50,
            honest: 50,
            seed: 1,
            list: PathBuf::from("verdicts.jsonl"),
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
                _ => bail!("{name} is none of --wrong, --honest, --seed, --list"),
            }
        }
        Ok(arguments)
    }
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::read()?;
    let subjects = subjects()?;
    let folders = (0..THREADS)
        .map(|_| tempfile::tempdir())
        .collect::<Result<Vec<_>, _>>()?;
    let judges = folders
        .iter()
        .map(|folder| Judge::new(folder.path()))
        .collect::<Result<Vec<_>>>()?;

    // The oracle must take every unchanged kernel for right before it says anything of others.
    let (mut kernels, mut doubted) = (0, 0);
    for (index, subject) in subjects.iter().enumerate() {
        for base in subject.kernels.keys() {
            let kernel = unchanged(&subjects, index, base).context("the kernel exists")?;
            let ptx = judges[0].compile(&kernel)?;
            let ptx = ptx.with_context(|| format!("compile {}/{base}", subject.name))?;
            if let Err(why) = ensure_right(subject, &kernel, &ptx, judges[0].limits()) {
                eprintln!("the oracle doubts {}/{base}: {why}", subject.name);
                doubted += 1;
            }
            kernels += 1;
        }
    }
    ensure!(
        doubted == 0,
        "the oracle does not take every unchanged kernel for right"
    );
    eprintln!("{kernels} kernels of {} tasks are right", subjects.len());

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
