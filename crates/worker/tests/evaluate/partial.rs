//! Partial evaluations and instruments. The tools are stand-ins that run the real role and print in
//! the real tools' format.

use std::path::PathBuf;

use domain::evaluation::EvaluationRequest;
use domain::tools::profile::RuleOutcome;
use domain::tools::sanitize::{Status, Tool};
use domain::verdict::{Outcome, Verdict};
use worker::cancel::Cancellation;
use worker::evaluate::{Depth, Instrument, PartialEvaluation};

use crate::lab::{Lab, lab, read};

const TASK: &str = "softmax-f32";
/// Threads add to a shared sum without synchronisation.
const RACING: &str = "shared-sum-unguarded.cu";
/// Its first execution reads behind a buffer.
const OVERRUNNING: &str = "missing-row-check.cu";

fn baseline() -> EvaluationRequest {
    Lab::request(TASK, "baseline.cu", read(TASK, "baseline.cu"))
}

fn broken(file: &str) -> EvaluationRequest {
    Lab::request(TASK, file, read(TASK, &format!("broken/{file}")))
}

fn fake(program: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fake")
        .join(program)
}

fn evaluate_to(lab: &Lab, request: &EvaluationRequest, depth: Depth) -> PartialEvaluation {
    let cancellation = Cancellation::new().unwrap();
    lab.evaluator()
        .evaluate_partially(request, depth, |_| {}, &cancellation)
        .unwrap()
}

#[test]
fn a_build_runs_nothing_and_has_an_image_of_its_own() {
    let Some(lab) = lab() else { return };
    let built = evaluate_to(&lab, &baseline(), Depth::Build);
    assert!(built.against.is_none(), "{:?}", built.against);
    let image = built.image.unwrap();
    assert!(image.cubin.is_file() && image.ptx.is_file());
    assert!(built.plans.is_some() && !built.kernels.is_empty());
    assert!(built.checks.is_empty() && built.launches.is_empty());

    let mut wrong = baseline();
    wrong.source = wrong.source.replace("__global__", "__nonsense__");
    let wrong = evaluate_to(&lab, &wrong, Depth::Build);
    assert!(matches!(
        wrong.against,
        Some(Verdict::CompileRejected { .. })
    ));
    assert!(wrong.image.is_none());
}

#[test]
fn a_right_kernel_is_tested_and_timed_beside_the_baseline() {
    let Some(lab) = lab() else { return };
    let tested = evaluate_to(&lab, &baseline(), Depth::Test);
    assert!(tested.against.is_none(), "{:?}", tested.against);
    assert!(tested.checks.len() > 20 && tested.checks.iter().all(|check| check.passed));

    let cancellation = Cancellation::new().unwrap();
    let (looked, timed) = lab
        .evaluator()
        .measure(&baseline(), |_| {}, &cancellation)
        .unwrap();
    let timed = timed.unwrap();
    assert!(timed.timing.is_modelled());
    assert_eq!(timed.timing, timed.baseline);
    assert!((timed.comparison.ratio - 1.0).abs() < 1e-12);
    assert_eq!(timed.comparison.outcome, Outcome::NotFaster);
    let cases = timed.timing.cases().len();
    assert_eq!(looked.launches.len(), cases);
    assert!(looked.launches.iter().all(|case| !case.launches.is_empty()));
}

#[test]
fn each_emulated_check_answers_for_its_tool() {
    let Some(lab) = lab() else { return };
    let cancellation = Cancellation::new().unwrap();
    let sanitize = |request: &EvaluationRequest| {
        lab.evaluator()
            .sanitize(request, Instrument::Emulated, |_| {}, &cancellation)
            .unwrap()
    };
    let clean = sanitize(&baseline());
    assert_eq!(clean.results.len(), 4);
    assert!(
        clean
            .results
            .iter()
            .all(|result| result.status == Status::Clean)
    );
    assert!(clean.executions > 10);

    let mut wrong = baseline();
    wrong.source = "no kernel".to_owned();
    let nothing = sanitize(&wrong);
    assert!(nothing.partial.against.is_some());
    let not_run = |status: &Status| matches!(status, Status::NotRun { .. });
    assert!(nothing.results.iter().all(|result| not_run(&result.status)));

    let racing = sanitize(&broken(RACING));
    let found = racing
        .results
        .iter()
        .filter(|result| matches!(result.status, Status::Found { .. }))
        .map(|result| result.tool)
        .collect::<Vec<_>>();
    assert_eq!(found, [Tool::Racecheck], "{:?}", racing.results);

    // The execution that ends with an error is one of those that were checked.
    let overrun = sanitize(&broken(OVERRUNNING));
    assert_eq!(overrun.executions, 1, "{:?}", overrun.results);
}

#[test]
fn a_profile_counts_source_lines_and_leaves_percentages_unknown() {
    let Some(lab) = lab() else { return };
    let cancellation = Cancellation::new().unwrap();
    let profiled = lab
        .evaluator()
        .profile(&baseline(), Instrument::Emulated, |_| {}, &cancellation)
        .unwrap();
    assert!(!profiled.cases.is_empty());
    let source = baseline().source;
    let lines = u32::try_from(source.lines().count()).unwrap();
    for case in &profiled.cases {
        for launch in case.launches.as_ref().unwrap() {
            assert!(!launch.lines.is_empty());
            assert!(launch.lines.iter().all(|line| line.line <= lines));
            assert!(launch.values.contains_key("bank_conflicts"));
            assert!(!launch.values.contains_key("dram_throughput"));
        }
    }
    assert!(profiled.missing.contains(&"dram_throughput".to_owned()));
}

#[test]
fn nsight_compute_is_asked_only_for_its_own_metrics() {
    let Some(lab) = lab() else { return };
    let cancellation = Cancellation::new().unwrap();
    let program = fake("ncu");
    let profiled = lab
        .evaluator()
        .profile(
            &baseline(),
            Instrument::Program(&program),
            |_| {},
            &cancellation,
        )
        .unwrap();
    assert!(profiled.missing.contains(&"l2_throughput".to_owned()));
    let launch = &profiled.cases[0].launches.as_ref().unwrap()[0];
    assert_eq!(launch.values.get("dram_throughput"), Some(&81.25));
    assert_eq!(launch.values.get("warps_active"), None);
    let applies = |rule: &str| {
        let found = launch.triage.iter().find(|one| one.rule == rule);
        found.unwrap().applies.clone()
    };
    assert!(matches!(applies("memory_bound"), RuleOutcome::Yes { .. }));
    assert!(matches!(
        applies("occupancy_bound"),
        RuleOutcome::Unknown { .. }
    ));

    let missing = fake("no-such-program");
    let without = lab
        .evaluator()
        .profile(
            &baseline(),
            Instrument::Program(&missing),
            |_| {},
            &cancellation,
        )
        .unwrap();
    assert!(without.cases.iter().all(|case| case.launches.is_err()));
}

#[test]
fn a_sanitizer_that_executed_nothing_is_not_clean() {
    let Some(lab) = lab() else { return };
    let cancellation = Cancellation::new().unwrap();
    let program = fake("compute-sanitizer");
    let sanitized = lab
        .evaluator()
        .sanitize(
            &baseline(),
            Instrument::Program(&program),
            |_| {},
            &cancellation,
        )
        .unwrap();
    let [memory, races, initialised, barriers] = &sanitized.results[..] else {
        panic!("four results");
    };
    let Status::Found { findings } = &memory.status else {
        panic!("{memory:?}");
    };
    assert_eq!(findings[0].line, Some(9));
    assert_eq!(races.status, Status::Clean);
    for silent in [initialised, barriers] {
        assert!(matches!(silent.status, Status::NotRun { .. }), "{silent:?}");
    }
}
