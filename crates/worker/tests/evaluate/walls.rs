//! Evaluations inside the walls of this machine, and without them where its driver does not work
//! inside.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use domain::role::walls::WALLS_VARIABLE;
use domain::role::{FILES_VARIABLE, OPEN_FILES};
use worker::cancel::Cancellation;
use worker::evaluate::Evaluator;
use worker::host::{Host, Isolation, Settings};

use crate::lab::{Lab, lab, read};

const TASK: &str = "softmax-f32";

/// A machine whose roles end at once unless a condition of the shell holds.
fn intolerant(lab: &Lab, folder: &Path, condition: &str) -> Host {
    let program = folder.join("kernelwright");
    let own = std::env::current_exe().unwrap();
    // The roles' reports must not appear in the test runner's output.
    let script = format!(
        "#!/bin/sh\n{condition} || {{ echo 'failed to bear it' >&2; exit 3; }}\nRUST_TEST_NOCAPTURE=1 exec '{}' \"$@\"\n",
        own.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();

    let mut settings = Settings::from_environment(&folder.join("data")).unwrap();
    settings.emulate = true;
    settings.driver = lab.evaluator().host().emulated_driver();
    settings.executable = program;
    Host::discover(settings, &Cancellation::new().unwrap()).unwrap()
}

#[test]
fn a_program_that_fails_inside_walls_works_without_them_and_reports_it() {
    let Some(lab) = lab() else { return };
    if !lab.evaluator().host().confinement().walls.exist() {
        eprintln!("NOT RUN: this machine grants no walls");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let host = intolerant(
        &lab,
        folder.path(),
        &format!("[ -z \"${WALLS_VARIABLE}\" ]"),
    );
    let (level, barriers) = (host.confinement_report().level(), host.confinement());
    assert!(!barriers.walls.exist());
    assert!(barriers.open_files.is_none());
    let without_walls = Isolation::Reduced..=Isolation::Standard;
    assert!(
        without_walls.contains(&level),
        "{:?}",
        host.confinement_report()
    );
    let reasons = barriers.walls.gaps().iter().map(|gap| gap.reason.as_str());
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    assert!(reasons.contains("bear it"), "{reasons}");

    let request = Lab::request(TASK, "baseline.cu", read(TASK, "baseline.cu"));
    let inside = lab.evaluate(&request);
    let cancellation = Cancellation::new().unwrap();
    let outside = Evaluator::new(host).unwrap();
    let outside = outside.evaluate(&request, |_| {}, &cancellation).unwrap();
    assert_eq!(inside.verdict, outside.verdict);
    assert!(inside.verdict.acceptance().is_some(), "{}", inside.verdict);
}

#[test]
fn a_driver_that_needs_open_files_gets_them_and_the_machine_reports_it() {
    let Some(lab) = lab() else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = intolerant(
        &lab,
        folder.path(),
        &format!("[ \"${FILES_VARIABLE}\" = {OPEN_FILES} ]"),
    );
    let barriers = host.confinement();
    let usual = &lab.evaluator().host().confinement().walls;
    assert_eq!(barriers.walls.exist(), usual.exist());
    let reason = &barriers.open_files.as_ref().unwrap().reason;
    assert!(reason.contains("bear it"), "{reason}");
    assert_eq!(
        host.confinement_report().level(),
        Isolation::Reduced,
        "{:?}",
        host.confinement_report()
    );
    let checks = worker::preflight::run_checks(&host, &Cancellation::new().unwrap());
    let check = checks.iter().find(|check| check.name == "isolation");
    let check = check.unwrap();
    assert_eq!(check.status, worker::preflight::Status::Warn);
    assert!(check.found.contains("bear it"), "{check:?}");

    let request = Lab::request(TASK, "baseline.cu", read(TASK, "baseline.cu"));
    let open = Evaluator::new(host).unwrap();
    let cancellation = Cancellation::new().unwrap();
    let evaluation = open.evaluate(&request, |_| {}, &cancellation).unwrap();
    assert!(
        evaluation.verdict.acceptance().is_some(),
        "{}",
        evaluation.verdict
    );
}

#[test]
fn a_probe_that_fails_once_weakens_no_confinement() {
    let Some(lab) = lab() else { return };
    let folder = tempfile::tempdir().unwrap();
    let failed = folder.path().join("failed");
    let failed = failed.display();
    let once = format!("{{ [ -e '{failed}' ] || {{ touch '{failed}'; false; }}; }}");
    let host = intolerant(&lab, folder.path(), &once);
    let usual = lab.evaluator().host().confinement();
    assert_eq!(host.confinement().walls.exist(), usual.walls.exist());
    assert!(host.confinement().open_files.is_none());
}
