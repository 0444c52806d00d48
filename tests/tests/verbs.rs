//! Tests of the commands for one engineer on one machine: exit codes, documented JSON fields, and
//! changes to a git checkout.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

const TASK: &str = "kernels/softmax-f32";
const BASELINE: &str = "kernels/softmax-f32/baseline.cu";

/// Runs a command with `--json` and returns its exit code and report.
fn call(data: &Path, words: &[&str]) -> Result<(Option<i32>, Value)> {
    let data = data.to_str().context("UTF-8")?;
    let words = [words, &["--json", "--data", data]].concat();
    let finished = lab::kernelwright(&words)?;
    let report = serde_json::from_str(&finished.stdout)
        .with_context(|| format!("{words:?}: {}{}", finished.stdout, finished.stderr))?;
    Ok((finished.status.code(), report))
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// Collects the field names of a report that its document must list, without those of shared types
/// and without names that are data.
fn fields(value: &Value, into: &mut Vec<String>) {
    const ELSEWHERE: [&str; 11] = [
        "device",
        "against",
        "evaluation",
        "flags",
        "kernels",
        "gates",
        "checks",
        "diagnostics",
        "stages",
        "modelled",
        "metrics",
    ];
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                into.push(name.clone());
                let data = ["counters", "rejected", "findings"].contains(&name.as_str());
                if !data && !ELSEWHERE.contains(&name.as_str()) {
                    fields(inner, into);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| fields(inner, into)),
        _ => {}
    }
}

#[test]
fn every_field_of_every_report_is_documented() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let document =
        std::fs::read_to_string(lab::repository().join("docs/reference/local-commands.md"))?;
    let about = [BASELINE, "--task", TASK];
    let verbs = ["build", "test", "bench", "sanitize", "profile"];
    let mut calls = vec![vec!["preflight"]];
    calls.extend(verbs.iter().map(|verb| [&[*verb][..], &about].concat()));
    calls[1].push("--variants");
    calls[3].push("--rivals");
    for words in calls {
        let (code, report) = call(folder.path(), &words)?;
        ensure!(code == Some(0), "{words:?}: {code:?} {report}");
        assert_eq!(text(&report, "/schema"), "kernelwright.verb/1");
        assert_eq!(text(&report, "/verb"), words[0]);
        assert_eq!(report["ok"], Value::Bool(true));
        let mut names = Vec::new();
        fields(&report, &mut names);
        for name in names {
            ensure!(
                document.contains(&format!("`{name}`")),
                "docs/reference/local-commands.md does not know {name} of {}",
                words[0]
            );
        }
    }
    Ok(())
}

#[test]
fn a_dead_knob_is_named_and_a_live_one_is_not() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = std::fs::read_to_string(lab::repository().join(BASELINE))?;
    let (head, body) = source.split_once("---*/").context("front matter")?;
    let knobs = "\n[tunables.DEAD]\nvalue = 1\nchoices = [1, 2, 3]\n[tunables.LIVE]\nvalue = 1\nchoices = [1, 2]\n";
    let live = "extern \"C\" __global__ void spare(int* x) { x[0] = LIVE; }\n";
    let file = folder.path().join("knobs.cu");
    std::fs::write(&file, format!("{head}{knobs}---*/{body}\n{live}"))?;
    let file = file.to_str().context("UTF-8")?;
    let (code, report) = call(
        folder.path(),
        &["build", file, "--task", TASK, "--variants"],
    )?;
    ensure!(code == Some(0), "{report}");
    let variants = &report["result"]["variants"];
    assert_eq!(variants["built"], 4);
    assert_eq!(variants["dead_knobs"], serde_json::json!(["DEAD"]));
    assert_eq!(
        variants["duplicates"],
        serde_json::json!([["as written", "DEAD=2", "DEAD=3"]])
    );
    Ok(())
}

#[test]
fn a_rejected_kernel_gives_exit_code_1() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let racing = "kernels/softmax-f32/broken/shared-sum-unguarded.cu";
    for (verb, kind) in [("test", "data_race"), ("bench", "data_race")] {
        let (code, report) = call(folder.path(), &[verb, racing, "--task", TASK])?;
        assert_eq!(code, Some(1), "{verb}: {report}");
        assert_eq!(text(&report, "/result/against/kind"), kind, "{verb}");
        assert_eq!(report["ok"], Value::Bool(false));
    }
    let (code, report) = call(folder.path(), &["sanitize", racing, "--task", TASK])?;
    assert_eq!(code, Some(1), "{report}");
    let tools = report["result"]["tools"].as_array().context("tools")?;
    let status = |tool: &str| {
        let found = tools.iter().find(|result| result["tool"] == tool);
        found.map_or("", |result| text(result, "/status"))
    };
    assert_eq!(status("racecheck"), "found");
    Ok(())
}

#[test]
fn a_finding_is_shown_once_and_names_its_line_once() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().to_str().context("UTF-8")?;
    let overrunning = "kernels/softmax-f32/broken/missing-row-check.cu";
    for verb in ["test", "eval"] {
        let words = [verb, overrunning, "--task", TASK, "--data", data];
        let shown = lab::kernelwright(&words)?;
        assert_eq!(shown.status.code(), Some(1), "{}", shown.stderr);
        assert_eq!(
            shown.stdout.matches("line 17").count(),
            1,
            "{}",
            shown.stdout
        );
    }
    Ok(())
}

#[test]
fn bad_input_gives_exit_code_2_and_names_the_fix() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().to_str().context("UTF-8")?;
    let missing = ["bench", "no-such.cu", "--task", TASK, "--data", data];
    let elsewhere = ["build", BASELINE, "--task", "kernels/none", "--data", data];
    let endless = ["build", "/dev/zero", "--task", TASK, "--data", data];
    // Nothing listens there: the file is refused before the service is asked.
    let sweep = [
        "run",
        TASK,
        "--method",
        "sweep",
        "--server",
        "http://127.0.0.1:1",
    ];
    let outside = [&sweep[..], &["--start", "kernels/gemm-f32/baseline.cu"]].concat();
    let unknown = [&sweep[..], &["--start", "playbook/none.cu"]].concat();
    for (words, expected) in [
        (&missing[..], "no-such.cu"),
        (&elsewhere, "task.toml"),
        (&endless, "at most 262144 bytes"),
        (
            &outside,
            "kernels/gemm-f32/baseline.cu is not in the task folder kernels/softmax-f32",
        ),
        (&outside, "playbook/01-block-per-row.cu"),
        (&unknown, "baseline.cu, playbook/01-block-per-row.cu"),
    ] {
        let finished = lab::kernelwright(words)?;
        assert_eq!(finished.status.code(), Some(2), "{words:?}");
        assert!(finished.stderr.contains(expected), "{}", finished.stderr);
    }
    Ok(())
}

#[test]
fn a_text_profile_lists_the_source_with_the_share_of_each_line() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().to_str().context("UTF-8")?;
    let finished = lab::kernelwright(&["profile", BASELINE, "--task", TASK, "--data", data])?;
    ensure!(finished.status.success(), "{}", finished.stderr);
    let source = std::fs::read_to_string(lab::repository().join(BASELINE))?;
    let counted = finished
        .stdout
        .lines()
        .filter(|line| line.contains("% ") && line.contains(" | "))
        .count();
    assert!(counted > 3, "{}", finished.stdout);
    let listed = finished
        .stdout
        .lines()
        .filter(|line| line.contains(" | "))
        .count();
    // The bar is the last character of an empty line.
    assert!(listed + 8 >= source.lines().count(), "{}", finished.stdout);
    assert!(finished.stdout.contains("n/a"), "{}", finished.stdout);
    Ok(())
}

/// Git checkout with one committed kernel.
struct Checkout {
    folder: tempfile::TempDir,
    repository: git2::Repository,
}

impl Checkout {
    fn new(source: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut options = git2::RepositoryInitOptions::new();
        options.initial_head("work");
        let repository = git2::Repository::init_opts(folder.path(), &options)?;
        let checkout = Self { folder, repository };
        checkout.write(source)?;
        let mut index = checkout.repository.index()?;
        index.add_path(Path::new("own.cu"))?;
        index.write()?;
        let tree = checkout.repository.find_tree(index.write_tree()?)?;
        let author = git2::Signature::now("A", "a@localhost")?;
        let repository = &checkout.repository;
        repository.commit(Some("HEAD"), &author, &author, "start", &tree, &[])?;
        drop(tree);
        Ok(checkout)
    }

    fn write(&self, source: &str) -> Result<()> {
        Ok(std::fs::write(self.folder.path().join("own.cu"), source)?)
    }

    fn read(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.folder.path().join("own.cu"))?)
    }

    fn file(&self) -> String {
        self.folder.path().join("own.cu").display().to_string()
    }

    fn commits(&self) -> Result<usize> {
        let mut walk = self.repository.revwalk()?;
        walk.push_head()?;
        Ok(walk.count())
    }
}

fn kernel(path: &str) -> Result<String> {
    Ok(std::fs::read_to_string(lab::repository().join(path))?)
}

#[test]
fn steps_are_kept_or_reverted_in_git_and_in_the_record() -> Result<()> {
    let data = tempfile::tempdir()?;
    let baseline = kernel(BASELINE)?;
    let checkout = Checkout::new(&baseline)?;
    let file = checkout.file();
    let evaluate = |words: &[&str]| {
        let words = [&["evaluate", file.as_str(), "--task", TASK], words].concat();
        call(data.path(), &words)
    };

    // The branch holds this kernel already, so nothing is committed.
    let (code, first) = evaluate(&[])?;
    ensure!(code == Some(0), "{first}");
    assert_eq!(text(&first, "/result/decision"), "keep");
    assert_eq!(text(&first, "/result/file"), "own.cu");
    assert_eq!(checkout.commits()?, 1);

    // A wrong kernel is committed and reverted.
    checkout.write(&kernel(
        "kernels/softmax-f32/broken/shared-sum-unguarded.cu",
    )?)?;
    let words = ["--hypothesis", "no barrier is needed", "--expect", "1.1"];
    let (code, second) = evaluate(&words)?;
    ensure!(code == Some(1), "{second}");
    assert_eq!(text(&second, "/result/decision"), "revert");
    assert_eq!(
        text(&second, "/result/evaluation/verdict/kind"),
        "data_race"
    );
    assert_eq!(checkout.read()?, baseline);
    assert_eq!(checkout.commits()?, 3);
    let reverted = checkout.repository.head()?.peel_to_commit()?;
    let revert = text(&second, "/result/revert");
    assert_eq!(reverted.id().to_string(), revert);
    assert!(
        reverted
            .message()?
            .contains(text(&second, "/result/commit"))
    );

    // A right kernel that is not slower is kept.
    let better = baseline.replacen("---*/", "---*/\n// Another text, the same kernel.\n", 1);
    checkout.write(&better)?;
    let (code, third) = evaluate(&["--hypothesis", "a remark costs nothing"])?;
    ensure!(code == Some(0), "{third}");
    assert_eq!(third["result"]["gain"], serde_json::json!(1.0));
    assert_eq!(checkout.commits()?, 4);
    assert_eq!(checkout.read()?, better);
    let kept = checkout.repository.head()?.peel_to_commit()?;
    assert!(kept.message()?.starts_with("a remark costs nothing\n"));
    let evidence = text(&third, "/result/evaluation/evidence");
    assert!(
        kept.message()?
            .contains(&format!("\nEvidence: {evidence}\n"))
    );
    assert!(checkout.repository.statuses(None)?.is_empty());

    let (code, summary) = call(data.path(), &["summary", &file])?;
    assert_eq!(code, Some(0));
    let rows = summary["result"].as_array().context("a list")?;
    let decisions = rows.iter().map(|row| text(row, "/decision"));
    assert_eq!(decisions.collect::<Vec<_>>(), ["keep", "revert", "keep"]);
    assert_eq!(text(&rows[1], "/revert"), revert);
    assert_eq!(rows[1]["expected"], serde_json::json!(1.1));

    // For a person: what, how long before and now, why, and what came of it.
    let folder = data.path().to_str().context("UTF-8")?;
    let words = ["evaluate", &file, "--task", TASK, "--data", folder];
    let again = lab::kernelwright(&[&words[..], &["--hypothesis", "nothing changed"]].concat())?;
    ensure!(again.status.success(), "{}", again.stderr);
    let end = again.stdout.lines().rev().take(7).collect::<Vec<_>>();
    let starts = [
        "git        ",
        "decision   KEEP (step 4): ",
        "gain       expected -, found 1.000x over the best kept (1.000x)",
        "hypothesis nothing changed",
        "latency    baseline ",
        "phase      no gate that a phase enforces is broken",
        "file       own.cu",
    ];
    for (line, start) in end.iter().zip(starts) {
        assert!(
            line.starts_with(start),
            "{line:?} and {start:?}: {}",
            again.stdout
        );
    }
    assert!(
        end[4].contains(" us modelled, 1.000x; at least "),
        "{}",
        end[4]
    );
    Ok(())
}

#[test]
fn iterate_reports_every_stage_and_rejects_a_wrong_kernel() -> Result<()> {
    let data = tempfile::tempdir()?;
    let checkout = Checkout::new(&kernel(BASELINE)?)?;
    let file = checkout.file();
    let document =
        std::fs::read_to_string(lab::repository().join("docs/reference/local-commands.md"))?;
    let words = ["iterate", &file, "--task", TASK, "--sanitize-every", "1"];
    let (code, report) = call(data.path(), &words)?;
    ensure!(code == Some(0), "{report}");
    let result = &report["result"];
    for part in [
        "preflight",
        "build",
        "step",
        "sanitize",
        "profile",
        "history",
    ] {
        ensure!(!result[part].is_null(), "{part} is missing");
    }
    let mut names = Vec::new();
    fields(result, &mut names);
    for name in names {
        ensure!(
            document.contains(&format!("`{name}`")),
            "docs/reference/local-commands.md does not know {name}"
        );
    }

    let folder = data.path().to_str().context("UTF-8")?;
    let outside = [
        "evaluate", BASELINE, "--task", TASK, "--data", folder, "--set", "X=1",
    ];
    let refused = lab::kernelwright(&outside)?;
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        refused.stderr.contains("write the values into the file"),
        "{}",
        refused.stderr
    );
    let head = checkout.repository.head()?.target().context("a commit")?;
    checkout.repository.set_head_detached(head)?;
    let words = ["evaluate", &file, "--task", TASK, "--data", folder];
    let refused = lab::kernelwright(&words)?;
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        refused.stderr.contains("no branch is checked out"),
        "{}",
        refused.stderr
    );
    Ok(())
}

#[test]
fn evidence_is_shown_and_replayed_by_its_first_digits() -> Result<()> {
    let data = tempfile::tempdir()?;
    let racing = "kernels/softmax-f32/broken/shared-sum-unguarded.cu";
    let folder = data.path().to_str().context("UTF-8")?;
    let words = ["eval", racing, "--task", TASK, "--json", "--data", folder];
    let evaluation: Value = serde_json::from_str(&lab::kernelwright(&words)?.stdout)?;
    let digest = text(&evaluation, "/evidence");
    let short = digest.get(..8).context("a digest")?;
    let document =
        std::fs::read_to_string(lab::repository().join("docs/reference/local-commands.md"))?;
    for (verb, ok) in [("show", "/ok"), ("replay", "/result/same")] {
        let (code, report) = call(data.path(), &["evidence", verb, short])?;
        ensure!(code == Some(0), "{report}");
        assert_eq!(text(&report, "/result/digest"), digest);
        assert_eq!(report.pointer(ok), Some(&Value::Bool(true)));
        let result = report["result"].as_object().context("an object")?;
        for name in result.keys() {
            ensure!(
                document.contains(&format!("`{name}`")),
                "docs/reference/local-commands.md does not know {name}"
            );
        }
    }
    let unknown = lab::kernelwright(&["evidence", "show", "000000", "--data", folder])?;
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        unknown.stderr.contains("there is none"),
        "{}",
        unknown.stderr
    );
    Ok(())
}
