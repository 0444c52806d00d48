//! Tests of `gpu-check` without a GPU: with the emulated driver on both sides, from a pack for a
//! machine without a compiler, and its error where no GPU is found.

use anyhow::{Context as _, Result, ensure};
use lab::{Finished, program};
use serde_json::Value;
use tempfile::TempDir;

/// Environment that hides the compiler.
const NO_COMPILER: (&str, &str) = ("KERNELWRIGHT_NVRTC", "/nonexistent");

fn check(environment: &[(&str, &str)], arguments: &[&str]) -> Result<Finished> {
    let arguments = [&["gpu-check"], arguments].concat();
    program(&lab::binary(), environment, &arguments)
}

fn path(folder: &TempDir, name: &str) -> Result<String> {
    let path = folder.path().join(name);
    Ok(path.to_str().context("a UTF-8 name")?.to_owned())
}

fn report(finished: &Finished) -> Result<Value> {
    serde_json::from_str(&finished.stdout)
        .with_context(|| format!("no report; it said {}", finished.stderr))
}

fn rows<'a>(report: &'a Value, part: &str) -> Result<&'a Vec<Value>> {
    report[part].as_array().with_context(|| part.to_owned())
}

#[test]
fn without_a_gpu_the_command_fails() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let out = path(&folder, "out")?;
    let finished = check(&[("KERNELWRIGHT_EMULATE", "1")], &["--out", &out])?;
    ensure!(finished.status.code() == Some(3), "{}", finished.stderr);
    ensure!(
        finished.stderr.contains("find an NVIDIA GPU") && finished.stderr.contains("--emulated"),
        "{}",
        finished.stderr
    );
    Ok(())
}

#[test]
fn the_emulated_driver_agrees_with_itself_from_a_pack_without_a_compiler() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (pack, out) = (path(&folder, "pack")?, path(&folder, "out")?);
    let prepared = check(
        &[],
        &[
            "--prepare",
            &pack,
            "--architecture",
            "sm_89",
            "--only",
            "faults",
            "--only",
            "questions",
            "--only",
            "softmax-f32/baseline",
        ],
    )?;
    ensure!(prepared.status.success(), "{}", prepared.stderr);
    let copy = folder.path().join("pack/kernelwright");
    let arguments = [
        "gpu-check",
        "--emulated",
        "--json",
        "--out",
        &out,
        "--only",
        "a_trap",
        "--only",
        "a_write",
        "--only",
        "softmax",
        "--only",
        "host_reach",
        "--only",
        "guard_pages",
        "--only",
        "precision",
        "--only",
        "tools",
        "--only",
        "isolation",
    ];
    let finished = program(&copy, &[NO_COMPILER], &arguments)?;
    let report = report(&finished)?;
    ensure!(finished.status.success(), "{report:#}");
    ensure!(report["self_check"] == true && report["disagreements"] == 0);

    let corpus = rows(&report, "corpus")?;
    let of = |name: &str| corpus.iter().find(|row| row["case"] == name);
    let trap = of("a_trap").context("the trap")?;
    ensure!(
        trap["image"] == "ptx" && trap["checked"]["how"] == trap["emulated"]["how"],
        "{trap}"
    );
    ensure!(
        trap["checked"]["how"]
            .as_str()
            .is_some_and(|how| how.starts_with("error")),
        "{trap}"
    );
    // Kernels that are not in the pack come from the program itself.
    let softmax = of("softmax_in_one_pass").context("the softmax")?;
    ensure!(
        softmax["image"] == "carried" && softmax["checked"]["how"] == "completed",
        "{softmax}"
    );
    ensure!(
        softmax["reads"]["ranges"].as_u64() > Some(0)
            && softmax["reads"]["identical"] == softmax["reads"]["ranges"],
        "{softmax}"
    );

    let baseline = &rows(&report, "suite")?[0];
    ensure!(baseline["file"] == "baseline.cu" && baseline["standing"] == "same");
    // A kernel without a build cannot be evaluated without a compiler, so it has no verdict.
    let others = rows(&report, "suite")?.iter().skip(1);
    for row in others {
        ensure!(
            row["standing"] == "not_run" || !row["found"].is_null(),
            "{row}"
        );
    }

    let answers = rows(&report, "questions")?;
    ensure!(answers.len() == 5, "{answers:?}");
    let isolation = answers.iter().find(|answer| answer["name"] == "isolation");
    let concluded = isolation.and_then(|answer| answer["conclusion"].as_str());
    ensure!(
        concluded.is_some_and(|words| words.contains("isolation") && words.contains("emulated")),
        "{isolation:?}"
    );
    for answer in answers {
        let is_answered = !answer["conclusion"].is_null() && answer["n"].as_u64() > Some(0);
        let is_excused = answer["not_run"]
            .as_str()
            .is_some_and(|why| !why.is_empty());
        ensure!(is_answered != is_excused, "{answer}");
    }
    let record = std::fs::read_dir(folder.path().join("out"))?
        .flatten()
        .map(|entry| entry.file_name())
        .find(|name| name.to_string_lossy().ends_with(".md"))
        .context("a record")?;
    let text = std::fs::read_to_string(folder.path().join("out").join(record))?;
    ensure!(
        text.contains("nothing here is a statement about silicon") && text.contains("## Corpus")
    );
    Ok(())
}

#[test]
fn a_driver_that_kills_its_processes_still_gives_a_report() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (plan, out) = (path(&folder, "plan.toml")?, path(&folder, "out")?);
    std::fs::write(
        &plan,
        // The device probe makes fewer driver calls than a case.
        "[[fault]]\ncall = \"kernelwrightEmulator\"\nnth = 2\ndo = \"abort\"\n",
    )?;
    let finished = check(
        &[("KERNELWRIGHT_FAULT_PLAN", &plan)],
        &[
            "--emulated",
            "--json",
            "--out",
            &out,
            "--part",
            "corpus",
            "--only",
            "a_trap",
            "--only",
            "row_sums",
            "--tasks",
            "/nonexistent",
        ],
    )?;
    ensure!(finished.status.code() == Some(1), "{}", finished.stderr);
    let report = report(&finished)?;
    let corpus = rows(&report, "corpus")?;
    ensure!(
        corpus.len() == 2 && report["disagreements"] == 2,
        "{report:#}"
    );
    for row in corpus {
        ensure!(
            row["checked"]["how"] == "no answer" && row["agree"] == false,
            "{row}"
        );
    }
    Ok(())
}
