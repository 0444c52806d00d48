//! Tests with a failing driver: every call that the roles make returns each documented error,
//! hangs, corrupts data or kills the process. The result is a typed verdict or a fault, never an
//! acceptance, and the next honest candidate is evaluated as before.

use std::time::Duration;

use domain::judge;
use domain::timing::{CacheState, ModelledTime, Timing};
use domain::verdict::{Verdict, VerdictKind};
use worker::evaluate::{EvaluateError, Evaluator};
use worker::host::{Host, Role};
use worker::supervise;

use crate::bench::{Bench, bench, evaluate};

/// Errors that every call may return (CUDA driver API, "Error handling").
const GENERAL: [u32; 12] = [1, 2, 3, 4, 100, 101, 201, 214, 400, 801, 802, 999];
/// Errors that a call returns after an earlier kernel failed.
const LEFT_BY_A_KERNEL: [u32; 9] = [700, 702, 710, 714, 715, 716, 717, 718, 719];
/// Further errors of calls that load an image.
const OF_IMAGES: [u32; 8] = [200, 209, 218, 220, 221, 222, 300, 302];
/// Further errors of a launch.
const OF_LAUNCHES: [u32; 3] = [701, 720, 304];

/// Calls before the first kernel runs, whose failures the candidate cannot cause.
const OPENING: [&str; 8] = [
    "cuInit",
    "cuDeviceGet",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuDeviceGetAttribute",
];
/// Those of [`OPENING`] that a role makes before it receives its job.
const BEFORE_ANY_JOB: [&str; 4] = [
    "cuInit",
    "cuDeviceGet",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
];
/// Calls between which kernels run.
const WORKING: [&str; 8] = [
    "cuModuleLoadDataEx",
    "cuModuleGetFunction",
    "cuMemAlloc_v2",
    "cuMemcpyHtoD_v2",
    "cuLaunchKernel",
    "cuCtxSynchronize",
    "cuMemcpyDtoH_v2",
    "cuMemFree_v2",
];

/// Wall time after which a role that hangs is killed.
const BACKSTOP: Duration = Duration::from_secs(3);

/// Host whose driver misbehaves in one role: `deed` is the fault plan's action at `call`.
fn host_with_fault(bench: &Bench, role: Role, call: &str, deed: &str) -> Host {
    let plan = bench.scratch(&format!("{call}-{}.toml", role.as_str()));
    let text = format!("[[fault]]\ncall = \"{call}\"\nnth = \"every\"\ndo = {deed}\n");
    std::fs::write(&plan, text).expect("the scratch folder takes files");
    bench.host().with_fault_plan(role, &plan)
}

/// Evaluates the honest candidate on [`host_with_fault`].
fn outcome(bench: &Bench, role: Role, call: &str, deed: &str) -> Result<Verdict, EvaluateError> {
    outcome_within(bench, role, call, deed, None)
}

/// As [`outcome`], with a limit on the wall time of a role.
fn outcome_within(
    bench: &Bench,
    role: Role,
    call: &str,
    deed: &str,
    patience: Option<Duration>,
) -> Result<Verdict, EvaluateError> {
    let request = bench.request("honest.cu", bench.task().files["baseline.cu"].clone());
    let host = host_with_fault(bench, role, call, deed);
    let host = match patience {
        Some(patience) => host.with_wall_limit(patience),
        None => host,
    };
    let evaluator = Evaluator::new(host).expect("the data folder is in use already");
    evaluate(&evaluator, &request).map(|evaluation| evaluation.verdict)
}

/// Verdicts that an error of a call may lead to, because a candidate can have caused it.
fn allowed_verdicts(call: &str, code: u32) -> &'static [VerdictKind] {
    use VerdictKind::{LaunchRejected, RuntimeFault, Timeout, Unsupported};
    let after_a_launch = ["cuCtxSynchronize", "cuMemcpyDtoH_v2"].contains(&call);
    match code {
        702 if after_a_launch => &[Timeout],
        700 | 710 | 714..=719 if after_a_launch => &[RuntimeFault],
        1 | 2 | 701 | 720 | 801 if call == "cuLaunchKernel" => &[LaunchRejected],
        218 if call == "cuModuleLoadDataEx" => &[Unsupported],
        _ => &[],
    }
}

fn try_errors(calls: &[&str], codes: impl Fn(&str) -> Vec<u32>) {
    let bench = bench();
    let mut surprises = Vec::new();
    for call in calls {
        for code in codes(call) {
            let found = outcome(&bench, Role::Run, call, &format!("{{ error = {code} }}"));
            let blamed = allowed_verdicts(call, code);
            let expected = match &found {
                Ok(verdict) => blamed.contains(&verdict.kind()),
                Err(_) => blamed.is_empty(),
            };
            if !expected {
                surprises.push(format!("{call} returning {code}: {found:?}"));
            }
        }
    }
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

#[test]
fn errors_before_anything_ran_are_nobodys_verdict() {
    try_errors(&OPENING, |_| {
        [GENERAL.as_slice(), &LEFT_BY_A_KERNEL].concat()
    });
}

#[test]
fn b24_errors_around_a_launch_are_looked_at() {
    try_errors(&WORKING, |call| {
        let own: &[u32] = match call {
            "cuModuleLoadDataEx" => &OF_IMAGES,
            "cuLaunchKernel" => &OF_LAUNCHES,
            _ => &[],
        };
        [GENERAL.as_slice(), &LEFT_BY_A_KERNEL, own].concat()
    });
}

#[test]
fn c03_a_driver_that_hangs_is_a_fault() {
    let bench = bench();
    for call in [
        "cuInit",
        "cuMemAlloc_v2",
        "cuLaunchKernel",
        "cuCtxSynchronize",
    ] {
        let found = outcome_within(&bench, Role::Run, call, "\"hang\"", Some(BACKSTOP));
        assert!(found.is_err(), "{call}: {found:?}");
        let before = BEFORE_ANY_JOB.contains(&call);
        let unready = matches!(
            found,
            Err(EvaluateError::Supervise(
                supervise::SuperviseError::Unready { .. }
            ))
        );
        assert_eq!(unready, before, "{call}: {found:?}");
    }
}

#[test]
fn c04_a_runner_that_dies_leaves_nothing_to_believe() {
    let bench = bench();
    for deed in ["\"exit\"", "\"abort\""] {
        for call in OPENING.iter().chain(&WORKING) {
            let found = outcome(&bench, Role::Run, call, deed);
            let expected = match found.as_ref().map(Verdict::kind) {
                Ok(VerdictKind::RunnerCrash) => !BEFORE_ANY_JOB.contains(call),
                Err(_) => BEFORE_ANY_JOB.contains(call),
                Ok(_) => false,
            };
            assert!(expected, "{call} {deed}: {found:?}");
        }
    }
}

#[test]
fn bytes_corrupted_on_their_way_are_never_accepted() {
    let bench = bench();
    let found = outcome(
        &bench,
        Role::Run,
        "cuMemcpyDtoH_v2",
        "{ corrupt = { bytes = 64 } }",
    );
    let kind = found.as_ref().map(Verdict::kind);
    assert!(!matches!(kind, Ok(VerdictKind::Accepted)), "{found:?}");
}

#[test]
fn trouble_of_the_verifier_is_nobodys_verdict() {
    let bench = bench();
    for (call, deed) in [
        ("cuInit", "{ error = 999 }"),
        ("cuModuleLoadDataEx", "{ error = 218 }"),
        ("cuModuleLoadDataEx", "\"abort\""),
        ("cuInit", "\"exit\""),
        ("cuInit", "\"hang\""),
    ] {
        let patience = deed.contains("hang").then_some(BACKSTOP);
        let found = outcome_within(&bench, Role::Verify, call, deed, patience);
        assert!(found.is_err(), "{call} {deed}: {found:?}");
    }
}

#[test]
fn c11_an_error_of_a_release_is_not_the_next_calls() {
    let bench = bench();
    let found = outcome(&bench, Role::Run, "cuModuleUnload", "{ error = 700 }");
    let Err(fault) = found else {
        panic!("{found:?}");
    };
    assert!(fault.to_string().contains("cuModuleUnload"), "{fault}");
}

#[test]
fn c02_c13_a_time_that_is_none_is_no_time() {
    for us in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let timing = Timing::Modelled {
            device: "l4".to_owned(),
            label: "uncalibrated".to_owned(),
            unscored: Vec::new(),
            cases: vec![ModelledTime {
                case: "square".to_owned(),
                cache: CacheState::Cold,
                us,
                launches: Vec::new(),
            }],
        };
        let verdict = judge::judge_times(timing, None, false);
        assert_eq!(verdict.kind(), VerdictKind::InvalidRun, "{us}");
    }
}
