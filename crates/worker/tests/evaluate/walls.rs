//! Evaluations inside the walls of this machine, and without them where its driver bears none.

use std::os::unix::fs::PermissionsExt as _;

use domain::role::walls::WALLS_VARIABLE;
use worker::cancel::Cancellation;
use worker::evaluate::Evaluator;
use worker::host::{Host, Settings};

use crate::lab::{Lab, lab, read};

const TASK: &str = "softmax-f32";

#[test]
fn a_program_that_bears_no_walls_works_without_and_says_so() {
    let Some(lab) = lab() else { return };
    if !lab.evaluator().host().walls().are_there() {
        eprintln!("NOT RUN: this machine grants no walls");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("kernelwright");
    let own = std::env::current_exe().unwrap();
    let script = format!(
        "#!/bin/sh\n[ -z \"${WALLS_VARIABLE}\" ] || {{ echo 'failed to bear it' >&2; exit 3; }}\nexec '{}' \"$@\"\n",
        own.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();

    let mut settings = Settings::from_environment(&folder.path().join("data")).unwrap();
    settings.emulate = true;
    settings.driver = lab.evaluator().host().emulated_driver();
    settings.executable = program;
    let host = Host::discover(settings, &Cancellation::new().unwrap()).unwrap();
    assert!(!host.walls().are_there());
    let reasons = host.walls().gaps().iter().map(|gap| gap.reason.as_str());
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
