//! `task check`: reads a task folder as the service would and finds out whether the task may be
//! searched; with `--evaluate` also holds every kernel of it against the verdict that it must get.

use std::collections::BTreeMap;

use domain::admission::{Admission, AdmissionRule};
use domain::candidate::KernelSource;
use domain::evaluation::EvaluationStage;
use domain::task::{Bundle, ScoredCache, Task};
use domain::timing::Timing;
use domain::verdict::{Verdict, VerdictKind};
use serde::Serialize;

use super::eval::LocalEvaluator;
use super::follow::{print, print_json};
use crate::bundle;
use crate::cli::CheckArgs;
use crate::outcome::{Ending, Failure, Outcome};
use crate::terminal::{columns, labelled_time, line};

/// Ends the line of a broken variant that its verdict must blame.
const MARK: &str = "// <- finding";

#[derive(Serialize)]
struct TaskCheck<'a> {
    name: &'a str,
    version: String,
    cases: Vec<&'a str>,
    /// The states of the cache whose times are the score.
    cache: ScoredCache,
    playbook: Vec<&'a str>,
    broken: Vec<&'a str>,
    /// None where the folder was only read.
    admission: Option<Admission>,
    kernels: Vec<Kernel>,
}

/// One kernel of the folder with its verdict.
#[derive(Serialize)]
struct Kernel {
    file: String,
    expected: VerdictKind,
    expected_line: Option<u32>,
    found: VerdictKind,
    found_line: Option<u32>,
    holds: bool,
    summary: String,
    /// The times of an accepted kernel.
    timing: Option<Timing>,
}

pub(super) async fn check(args: CheckArgs) -> Ending {
    let bundle = bundle::read(&args.dir).map_err(Failure::input)?;
    let task = Task::load(&bundle).map_err(|problems| {
        let doing = format!("read the task {}:\n{problems}", args.dir.display());
        Failure::input(anyhow::anyhow!(doing))
    })?;
    let (mut admission, mut kernels) = (None, Vec::new());
    if !args.read_only {
        let evaluator = LocalEvaluator::open(&args.folder.data, args.seed).await?;
        admission = Some(evaluator.admit(&bundle).await?);
        if args.evaluate {
            kernels = evaluate(&evaluator, &task, &bundle).await?;
        }
    }
    let all_hold = kernels.iter().all(|kernel| kernel.holds)
        && admission.as_ref().is_none_or(Admission::admitted);
    let names = |files: &'_ [(String, KernelSource)]| -> Vec<String> {
        files.iter().map(|(file, _)| file.clone()).collect()
    };
    let (playbook, broken) = (names(&task.playbook), names(&task.broken));
    let checked = TaskCheck {
        name: &task.name,
        version: task.version.to_string(),
        cases: task.cases.iter().map(|case| case.name.as_str()).collect(),
        cache: task.objective.cache,
        playbook: playbook.iter().map(String::as_str).collect(),
        broken: broken.iter().map(String::as_str).collect(),
        admission,
        kernels,
    };
    if args.json {
        print_json(&checked)?;
    } else {
        print(&text(&checked))?;
    }
    Ok(if all_hold {
        Outcome::Accepted
    } else {
        Outcome::NotAccepted
    })
}

async fn evaluate(
    evaluator: &LocalEvaluator,
    task: &Task,
    bundle: &Bundle,
) -> Result<Vec<Kernel>, Failure> {
    let mut kernels = Vec::new();
    for (file, source) in task.playbook.iter().chain(&task.broken) {
        eprintln!("evaluating {file}");
        let text = source.text().to_owned();
        let stage = EvaluationStage::Search;
        let request = evaluator.request(bundle, file, text, BTreeMap::new(), stage)?;
        let verdict = evaluator.evaluate(request).await?.verdict;
        kernels.push(held(file, source, &verdict));
    }
    Ok(kernels)
}

/// Compares a verdict with the one that the file expects.
fn held(file: &str, source: &KernelSource, verdict: &Verdict) -> Kernel {
    let expectation = source.expectation();
    let expected = expectation.map_or(VerdictKind::Accepted, |expected| expected.verdict);
    let expected_code = expectation.and_then(|expected| expected.code);
    let expected_line = marked_line(source.text());
    let code = match verdict {
        Verdict::RuntimeFault { code, .. } => Some(*code),
        _ => None,
    };
    let (found, found_line) = (verdict.kind(), verdict.line());
    Kernel {
        file: file.to_owned(),
        expected,
        expected_line,
        found,
        found_line,
        holds: found == expected
            && (expected_code.is_none() || expected_code == code)
            && expected_line.is_none_or(|line| verdict.blames(line)),
        summary: verdict.to_string(),
        timing: verdict.acceptance().map(|accepted| accepted.timing.clone()),
    }
}

/// The line that a broken variant marks as the one to be blamed, from 1.
fn marked_line(text: &str) -> Option<u32> {
    let index = text
        .lines()
        .position(|line| line.trim_end().ends_with(MARK))?;
    u32::try_from(index + 1).ok()
}

fn text(checked: &TaskCheck<'_>) -> String {
    let mut text = format!(
        "task       {}, version {}\ncases      {}\ncache      {}\nplaybook   {}\nbroken     {}\n",
        checked.name,
        &checked.version[..12],
        checked.cases.join(", "),
        checked.cache.description(),
        checked.playbook.join(", "),
        checked.broken.join(", ")
    );
    if let Some(admission) = &checked.admission {
        text.push_str(&report(admission));
    }
    let place = |verdict: VerdictKind, line: Option<u32>| match line {
        Some(line) => format!("{verdict} at line {line}"),
        None => verdict.to_string(),
    };
    let rows = checked.kernels.iter().map(|kernel| {
        vec![
            if kernel.holds { "ok" } else { "WRONG" }.to_owned(),
            kernel.file.clone(),
            format!("must be {}", place(kernel.expected, kernel.expected_line)),
            line(&kernel.summary, 160),
        ]
    });
    text.push_str(&columns(&rows.collect::<Vec<_>>(), 0));
    text
}

/// Every rule with its number, and the floors.
fn report(admission: &Admission) -> String {
    let number =
        |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2e}"));
    let rows = admission.results.iter().map(|point| {
        vec![
            if point.holds { "ok" } else { "REFUSED" }.to_owned(),
            rule(point.rule).to_owned(),
            line(&point.subject, 60),
            number(point.found),
            number(point.limit),
            line(&point.explanation, 160),
        ]
    });
    let head = ["", "rule", "of", "found", "limit", ""].map(str::to_owned);
    let rows = std::iter::once(head.to_vec()).chain(rows);
    let mut text = format!("looked at  {}\n\n", admission.cases.join(", "));
    text.push_str(&columns(&rows.collect::<Vec<_>>(), 0));
    text.push_str("\nleast that a case must move, once each\n");
    let floors = admission.floors.iter().map(|floor| {
        let baseline = floor.baseline_us.map_or_else(String::new, |us| {
            let rate = bytes(floor.bytes) / us / 1e3;
            let time = labelled_time(us, floor.modelled);
            format!("baseline {time}, which is {rate:.1} GB/s")
        });
        let least = format!("{} bytes", floor.bytes);
        vec![floor.cache.name_of(&floor.case), least, baseline]
    });
    text.push_str(&columns(&floors.collect::<Vec<_>>(), 2));
    let verdict = match admission.results.iter().find(|point| !point.holds) {
        None if admission.admitted() => "the task may be searched".to_owned(),
        None => "the task is REFUSED: see the rules above".to_owned(),
        Some(point) => format!(
            "the task is REFUSED: see the rules above\nnext       {}, {}: {}",
            rule(point.rule),
            line(&point.subject, 60),
            line(&point.explanation, 400)
        ),
    };
    text.push('\n');
    for advice in &admission.advice {
        text.push_str(&format!("advice     {}\n", line(advice, 400)));
    }
    text.push_str(&format!("{verdict}\n\n"));
    text
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn bytes(count: u64) -> f64 {
    count as f64
}

/// A rule in a word or three.
fn rule(rule: AdmissionRule) -> &'static str {
    match rule {
        AdmissionRule::Compiles => "compiles",
        AdmissionRule::ReferencesAgree => "references agree",
        AdmissionRule::NotNearZero => "not near zero",
        AdmissionRule::VariesWithSeeds => "varies with draws",
        AdmissionRule::VariesAlongAxes => "varies along axes",
        AdmissionRule::DependsOnInput => "depends on input",
        AdmissionRule::DependsAsDeclared => "depends as declared",
        AdmissionRule::HonestInside => "honest is inside",
        AdmissionRule::ForbiddenOutside => "forbidden is outside",
        AdmissionRule::Separation => "precisions are apart",
        AdmissionRule::ImpostorRejected => "turned away",
        AdmissionRule::BaselineAccepted => "baseline accepted",
        AdmissionRule::BaselineNoise => "baseline against itself",
    }
}
