//! Tests of the isolation level of role processes, as an operator sees and sets it.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Runs the program with a data folder and additional environment variables; returns its exit
/// code, standard output and standard error.
fn call(
    data: &Path,
    environment: &[(&str, &str)],
    words: &[&str],
) -> Result<(Option<i32>, String, String)> {
    let data = data.to_str().context("UTF-8")?;
    let words = [words, &["--data", data]].concat();
    let finished = lab::program(&lab::binary(), environment, &words)?;
    Ok((finished.status.code(), finished.stdout, finished.stderr))
}

fn preflight(data: &Path, environment: &[(&str, &str)]) -> Result<Value> {
    let (_, stdout, stderr) = call(data, environment, &["preflight", "--json"])?;
    serde_json::from_str(&stdout).with_context(|| format!("{stdout}{stderr}"))
}

fn check<'v>(report: &'v Value, name: &str) -> Result<&'v Value> {
    let checks = report["result"]["checks"].as_array().context("checks")?;
    let found = checks.iter().find(|check| check["name"] == name);
    found.with_context(|| format!("a check of {name}"))
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

#[test]
fn preflight_reports_the_walls_of_roles_and_the_missing_ones() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let walls = gpu::walls::Walls::find();
    let report = preflight(folder.path(), &[])?;
    let check = check(&report, "walls")?;
    let found = text(check, "found");
    assert_eq!(found.starts_with("none"), !walls.exist(), "{found}");
    for gap in walls.gaps() {
        assert!(found.contains(&gap.reason), "{gap:?}: {found}");
        assert!(text(check, "fix").contains(&gap.fix), "{gap:?}: {check}");
    }
    if !walls.are_complete() {
        assert_ne!(report["result"]["isolation"], "strict");
    }
    Ok(())
}

#[test]
fn a_worker_below_the_required_isolation_refuses_work_and_names_the_option() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let open = [("KERNELWRIGHT_DEVICE_FILES", "open")];
    let report = preflight(folder.path(), &open)?;
    assert_eq!(report["result"]["isolation"], "reduced");
    let check = check(&report, "isolation")?;
    assert_eq!(check["status"], "warn");
    assert!(
        text(check, "found").contains("KERNELWRIGHT_DEVICE_FILES"),
        "{check}"
    );
    assert!(text(check, "fix").contains("unset"), "{check}");

    // No service listens at this address. A worker that accepts less isolation gets as far as
    // connecting.
    let join = ["worker", "join", "http://127.0.0.1:9"];
    let (code, _, stderr) = call(folder.path(), &open, &join)?;
    assert_eq!(code, Some(3), "{stderr}");
    for words in [
        "reduced isolation",
        "standard is wanted",
        "--least-isolation reduced",
    ] {
        assert!(stderr.contains(words), "{words:?}: {stderr}");
    }
    let (code, _, stderr) = call(
        folder.path(),
        &open,
        &[&join[..], &["--least-isolation", "sturdy"]].concat(),
    )?;
    assert_eq!(code, Some(2), "{stderr}");
    assert!(
        stderr.contains("open, reduced, standard, strict"),
        "{stderr}"
    );

    let wrong = [("KERNELWRIGHT_DEVICE_FILES", "ajar")];
    let (code, _, stderr) = call(folder.path(), &wrong, &["preflight"])?;
    ensure!(code == Some(3), "{code:?} {stderr}");
    assert!(stderr.contains("\"restricted\" or \"open\""), "{stderr}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_works_with_an_accepted_lower_isolation() -> Result<()> {
    let mut lab = lab::Lab::new()?;
    lab.serve(&[]).await?;
    let environment = [
        ("KERNELWRIGHT_DEVICE_FILES", "open"),
        ("KERNELWRIGHT_LEAST_ISOLATION", "reduced"),
    ];
    let worker = lab.worker_with("content", &environment)?;
    lab.until_logged(&worker, "evaluating on").await
}
