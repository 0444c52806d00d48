//! Whole evaluations: the real compiler, the real roles, the emulated device.
//!
//! A role process is this test binary, started again: the supervisor's arguments `role NAME`
//! select the one test that has "role" in its name, and no other test may.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its functions too"
)]

mod lab;

use domain::evaluation::EvaluationStage;
use domain::verdict::{Verdict, VerdictKind};

use lab::Lab;

#[test]
fn plays_a_role_when_started_as_one() {
    if std::env::var_os(domain::role::SOCKET_VARIABLE).is_none() {
        return;
    }
    let role = std::env::args().nth(2).unwrap();
    let code = gpu::role::main(&role);
    std::process::exit(if code == std::process::ExitCode::SUCCESS {
        0
    } else {
        3
    });
}

#[test]
fn the_baseline_is_accepted_with_a_modelled_time_for_every_score_case() {
    let Some(lab) = Lab::open() else { return };
    let evaluation = lab.evaluate("baseline.cu", EvaluationStage::Baseline);
    eprintln!("{}", serde_json::to_string_pretty(&evaluation).unwrap());
    let acceptance = evaluation.verdict.acceptance().unwrap();
    assert!(acceptance.timing.is_modelled());
    let cases = acceptance.timing.cases();
    assert_eq!(
        cases.iter().map(|(case, _)| *case).collect::<Vec<_>>(),
        ["starved", "ladder"]
    );
    assert!(evaluation.checks.iter().all(|check| check.passed));
}
