//! Soak test of one worker: many honest candidates, one in ten of them hostile. Prints Markdown, and
//! fails if one job changes another's result, or if memory, processes or files are left behind.
//!
//! `cargo build && cargo run -p lab --example soak -- 1000`

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use domain::candidate::KernelSource;
use domain::digest::Digest;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use domain::role::Key;
use domain::task::Bundle;
use domain::verdict::VerdictKind;
use worker::cancel::Cancellation;
use worker::evaluate::Evaluator;
use worker::host::{Host, Settings};

/// One job in this many is hostile.
const ONE_IN: usize = 10;
/// Number of different honest texts, so that most builds are in the cache and some are not.
const VARIANTS: usize = 40;
/// Jobs between two records of the worker's resources.
const LOOK: usize = 100;
/// Spare processes, each with a folder: one for each of compile, run and verify.
const SPARES: usize = 3;
/// Growth of the worker's memory after the first record that counts as the allocator's, not as a leak.
const PLAY_KIB: u64 = 32 << 10;

/// Resources that a worker holds at one moment.
#[derive(Debug, Clone, Copy)]
struct Holding {
    jobs: usize,
    seconds: f64,
    resident_kib: u64,
    descriptors: usize,
    children: usize,
    scratch_files: usize,
    groups: usize,
}

fn main() -> Result<ExitCode> {
    let jobs = std::env::args()
        .nth(1)
        .map_or(Ok(1000), |jobs| jobs.parse());
    let jobs: usize = jobs.context("read the number of jobs")?;
    let data = tempfile::tempdir()?;
    let evaluator = evaluator(data.path())?;
    let walls = &evaluator.host().confinement().walls;
    println!(
        "Walls around every process: {}.\n",
        if walls.are_complete() {
            "all"
        } else {
            "what this machine grants"
        }
    );
    for gap in walls.gaps() {
        println!("- not granted: {}, {}", gap.part, gap.reason);
    }
    println!();
    let task = lab::task_in(&lab::repository().join("tests/adversaries/task"))?;
    let hostile = adversaries()?;

    let usual = without_volatile_fields(evaluate(
        &evaluator,
        &request(&task, "honest.cu", honest(&task, 0)),
    )?);
    let began = Instant::now();
    let mut looks = vec![look(0, began, data.path())?];
    let mut verdicts = BTreeMap::<&str, usize>::new();
    let mut hostile_jobs = 0;
    for job in 1..=jobs {
        let verdict = if job % ONE_IN == 0 {
            let (file, source, expected) = &hostile[job / ONE_IN % hostile.len()];
            hostile_jobs += 1;
            let found = evaluate(&evaluator, &request(&task, file, source.clone()))?;
            let kind = found.verdict.kind();
            ensure!(kind == *expected, "job {job}, {file}: {}", found.verdict);
            kind
        } else {
            let source = honest(&task, job % VARIANTS);
            let found = without_volatile_fields(evaluate(
                &evaluator,
                &request(&task, "honest.cu", source),
            )?);
            ensure!(
                found == usual,
                "job {job}: an honest candidate fares otherwise: {}",
                found.verdict
            );
            found.verdict.kind()
        };
        *verdicts.entry(verdict.as_str()).or_default() += 1;
        if job % LOOK == 0 || job == jobs {
            looks.push(look(job, began, data.path())?);
        }
    }
    // Spare processes must end with the worker.
    drop(evaluator);
    let after = look(jobs, began, data.path())?;
    report(&looks, &after, &verdicts, hostile_jobs);
    Ok(if leaked(&looks, &after) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn evaluator(data: &Path) -> Result<Evaluator> {
    let mut settings = Settings::from_environment(data)?;
    settings.executable = lab::binary();
    settings.emulate = true;
    let host = Host::discover(settings, &Cancellation::new()?)?;
    Ok(Evaluator::new(host)?)
}

/// All adversaries with the verdict that their file announces, without those whose text is
/// completed by a test.
fn adversaries() -> Result<Vec<(String, String, VerdictKind)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(lab::repository().join("tests/adversaries"))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name.filter(|name| name.ends_with(".cu")) else {
            continue;
        };
        let source = std::fs::read_to_string(&path)?;
        if source.contains("KNOWN_COUNT") {
            continue;
        }
        let parsed = KernelSource::parse(name, source.as_str())
            .map_err(|problems| anyhow::anyhow!("read {name}: {problems}"))?;
        let expected = parsed
            .expectation()
            .context("an adversary announces its verdict")?;
        found.push((name.to_owned(), source, expected.verdict));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// The honest candidate with a comment that makes its text unique to a variant.
fn honest(task: &Bundle, variant: usize) -> String {
    format!("{}\n// {variant}\n", task.files["baseline.cu"])
}

fn request(task: &Bundle, file: &str, source: String) -> EvaluationRequest {
    EvaluationRequest {
        task: task.clone(),
        file: file.to_owned(),
        source,
        configuration: BTreeMap::new(),
        stage: EvaluationStage::Search,
        key: Key(Digest::of("the key of the soak")),
        incumbent: None,
    }
}

fn evaluate(evaluator: &Evaluator, request: &EvaluationRequest) -> Result<Evaluation> {
    let cancellation = Cancellation::new()?;
    Ok(evaluator.evaluate(request, |_| {}, &cancellation)?)
}

/// Removes wall times and the text's identity, which differ between equal honest candidates.
fn without_volatile_fields(mut evaluation: Evaluation) -> Evaluation {
    evaluation.stages.clear();
    evaluation.evidence = None;
    evaluation.candidate_digest = None;
    evaluation
}

fn look(jobs: usize, began: Instant, data: &Path) -> Result<Holding> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let resident_kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next())
        .context("the system says how much memory is resident")?
        .parse()?;
    let mut children = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let list = std::fs::read_to_string(thread?.path().join("children"))?;
        children += list.split_whitespace().count();
    }
    Ok(Holding {
        jobs,
        seconds: began.elapsed().as_secs_f64(),
        resident_kib,
        descriptors: std::fs::read_dir("/proc/self/fd")?.count(),
        children,
        scratch_files: std::fs::read_dir(data.join("scratch"))?.count(),
        groups: groups(Path::new("/sys/fs/cgroup")),
    })
}

/// Number of control groups that this worker created and did not remove. Namespaces need no count,
/// because they end with the last process in them, and every process is a child.
fn groups(below: &Path) -> usize {
    let ours = format!("{}{}-", gpu::walls::PREFIX, std::process::id());
    let entries = std::fs::read_dir(below).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let counts = folders.map(|folder| {
        let is_ours = folder.file_name().to_string_lossy().starts_with(&ours);
        usize::from(is_ours) + groups(&folder.path())
    });
    counts.sum()
}

/// Returns true if the worker holds more at the end than in its first record, or leaves anything
/// behind.
fn leaked(looks: &[Holding], after: &Holding) -> bool {
    let (Some(first), Some(last)) = (looks.get(1), looks.last()) else {
        return false;
    };
    let beyond = |look: &Holding| look.children.max(look.scratch_files).max(look.groups) > SPARES;
    looks.iter().any(beyond)
        || last.descriptors > looks[0].descriptors
        || last.resident_kib > first.resident_kib + PLAY_KIB
        || after.children > 0
        || after.scratch_files > 0
        || after.groups > 0
}

fn report(looks: &[Holding], after: &Holding, verdicts: &BTreeMap<&str, usize>, hostile: usize) {
    println!(
        "| jobs | seconds | resident, KiB | descriptors | children | scratch folders | control groups |"
    );
    println!("|---|---|---|---|---|---|---|");
    for look in looks {
        println!(
            "| {} | {:.0} | {} | {} | {} | {} | {} |",
            look.jobs,
            look.seconds,
            look.resident_kib,
            look.descriptors,
            look.children,
            look.scratch_files,
            look.groups
        );
    }
    println!(
        "\nOnce the worker is gone: {} children, {} scratch folders, {} control groups.",
        after.children, after.scratch_files, after.groups
    );
    println!("\n{hostile} jobs were hostile. Every job got the verdict it had to get:\n");
    for (verdict, count) in verdicts {
        println!("- {verdict}: {count}");
    }
    if leaked(looks, after) {
        println!("\nSOMETHING LEAKED");
    }
}
