//! `task check`: reads a task folder as the service would; with `--evaluate` also holds every
//! kernel of it against the verdict that it must get.

use std::collections::BTreeMap;

use domain::candidate::KernelSource;
use domain::evaluation::EvaluationStage;
use domain::task::{Bundle, Task};
use domain::verdict::{Verdict, VerdictKind};
use serde::Serialize;

use super::eval::Bench;
use super::follow::{print, print_json};
use crate::bundle;
use crate::cli::CheckArgs;
use crate::outcome::{Ending, Failure, Outcome};
use crate::terminal::{columns, line};

/// Ends the line of a broken variant that its verdict must blame.
const MARK: &str = "// <- finding";

#[derive(Serialize)]
struct Checked<'a> {
    name: &'a str,
    version: String,
    cases: Vec<&'a str>,
    playbook: Vec<&'a str>,
    broken: Vec<&'a str>,
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
}

pub(super) async fn check(args: CheckArgs) -> Ending {
    let bundle = bundle::read(&args.dir).map_err(Failure::input)?;
    let task = Task::load(&bundle).map_err(|problems| {
        let doing = format!("read the task {}:\n{problems}", args.dir.display());
        Failure::input(anyhow::anyhow!(doing))
    })?;
    let kernels = if args.evaluate {
        evaluate(&args, &task, &bundle).await?
    } else {
        Vec::new()
    };
    let all_hold = kernels.iter().all(|kernel| kernel.holds);
    let names = |files: &'_ [(String, KernelSource)]| -> Vec<String> {
        files.iter().map(|(file, _)| file.clone()).collect()
    };
    let (playbook, broken) = (names(&task.playbook), names(&task.broken));
    let checked = Checked {
        name: &task.name,
        version: task.version.to_string(),
        cases: task.cases.iter().map(|case| case.name.as_str()).collect(),
        playbook: playbook.iter().map(String::as_str).collect(),
        broken: broken.iter().map(String::as_str).collect(),
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

async fn evaluate(args: &CheckArgs, task: &Task, bundle: &Bundle) -> Result<Vec<Kernel>, Failure> {
    let bench = Bench::open(&args.folder.data, None).await?;
    let baseline = [("baseline.cu".to_owned(), task.baseline.clone())];
    let mut kernels = Vec::new();
    for (file, source) in baseline.iter().chain(&task.playbook).chain(&task.broken) {
        eprintln!("evaluating {file}");
        let stage = if file == "baseline.cu" {
            EvaluationStage::Baseline
        } else {
            EvaluationStage::Search
        };
        let text = source.text().to_owned();
        let request = bench.request(bundle, file, text, BTreeMap::new(), stage)?;
        let verdict = bench.evaluate(request).await?.verdict;
        kernels.push(held(file, source, &verdict));
    }
    Ok(kernels)
}

/// A verdict against what the file says of itself.
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
    }
}

/// The line that a broken variant marks as the one to be blamed, from 1.
fn marked_line(text: &str) -> Option<u32> {
    let index = text
        .lines()
        .position(|line| line.trim_end().ends_with(MARK))?;
    u32::try_from(index + 1).ok()
}

fn text(checked: &Checked<'_>) -> String {
    let mut text = format!(
        "task       {}, version {}\ncases      {}\nplaybook   {}\nbroken     {}\n",
        checked.name,
        &checked.version[..12],
        checked.cases.join(", "),
        checked.playbook.join(", "),
        checked.broken.join(", ")
    );
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
