//! Deaths of single role processes: the first process of a role dies at one call of the driver, the second one
//! lives, and the candidate gets the evaluation that it always gets.
//!
//! The suite kills four processes of each role; `KERNELWRIGHT_SWEEP=full` kills forty, and counts only places that
//! the role reaches: there every process of the role dies once more, which must not end well.

use std::sync::atomic::{AtomicU32, Ordering};

use domain::digest::Digest;
use domain::evaluation::Evaluation;
use domain::role::Key;
use domain::verdict::VerdictKind;
use worker::cancel::Cancellation;
use worker::evaluate::Evaluator;
use worker::host::Role;

use crate::lab::{Lab, lab, read};
use crate::paired;

const TASK: &str = "softmax-f32";

/// Calls that every role makes which uses the driver, before and after it knows its job.
const CALLS: [&str; 10] = [
    "cuLaunchKernel",
    "cuInit",
    "cuMemcpyHtoD_v2",
    "cuCtxSynchronize",
    "cuDevicePrimaryCtxRetain",
    "cuModuleLoadDataEx",
    "cuModuleGetFunction",
    "cuMemAlloc_v2",
    "cuMemcpyDtoH_v2",
    "cuMemFree_v2",
];

/// Kills of each role in the suite, and in the full sweep.
const KILLS: [usize; 2] = [4, 40];

/// Calls `evaluate` with an evaluator whose next process of a role dies, once for each death.
fn sweep_deaths(lab: &Lab, role: Role, evaluate: impl Fn(&Evaluator) -> Result<(), String>) {
    let full = std::env::var_os("KERNELWRIGHT_SWEEP").is_some_and(|value| value == "full");
    let kills = KILLS[usize::from(full)];
    let mut calls = CALLS.to_vec();
    let mut failures = Vec::new();
    let mut killed = 0;
    for nth in 1.. {
        let mut reached = Vec::new();
        for call in calls {
            if killed == kills {
                break;
            }
            let plan = format!("[[fault]]\ncall = \"{call}\"\nnth = {nth}\ndo = \"abort\"\n");
            // A place that an evaluation does not reach is no death.
            let dies = !full || evaluate(&lab.spoiled(&[(role, &plan)])).is_err();
            lab.forget_health();
            if !dies {
                continue;
            }
            reached.push(call);
            killed += 1;
            if let Err(failure) = evaluate(&lab.spoiled_once(role, &plan)) {
                failures.push(format!("{call}, call {nth}: {failure}"));
            }
            lab.forget_health();
        }
        calls = reached;
        if killed == kills || calls.is_empty() {
            break;
        }
    }
    println!(
        "{}: {killed} kills, {} without the usual result",
        role.as_str(),
        failures.len()
    );
    assert_eq!(killed, kills, "{}", role.as_str());
    assert!(
        failures.is_empty(),
        "{}: {}",
        role.as_str(),
        failures.join("\n")
    );
}

/// Evaluates with inputs that no earlier call had, so that the answers of the reference are not known.
fn evaluation(evaluator: &Evaluator) -> Result<Evaluation, String> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let mut request = Lab::request(TASK, "baseline.cu", read(TASK, "baseline.cu"));
    request.key = Key(Digest::of(format!("death {call}")));
    let cancellation = Cancellation::new().unwrap();
    evaluator
        .evaluate(&request, |_| {}, &cancellation)
        .map_err(|fault| fault.to_string())
}

fn ensure_accepted(evaluator: &Evaluator) -> Result<(), String> {
    let verdict = evaluation(evaluator)?.verdict;
    let accepted = verdict.kind() == VerdictKind::Accepted;
    accepted.then_some(()).ok_or_else(|| verdict.to_string())
}

#[test]
fn a_dead_executor_is_replaced_by_a_second_one() {
    let Some(lab) = lab() else { return };
    sweep_deaths(&lab, Role::Run, ensure_accepted);
}

#[test]
fn a_dead_comparer_of_outputs_is_replaced_by_a_second_one() {
    let Some(lab) = lab() else { return };
    sweep_deaths(&lab, Role::Verify, ensure_accepted);
}

#[test]
fn a_dead_measurer_is_replaced_by_a_second_one() {
    let Some(lab) = lab() else { return };
    sweep_deaths(&lab, Role::Time, |evaluator| {
        let request = paired::request(&paired::kernel(40));
        evaluator
            .bench(&request, |_| {}, &Cancellation::new().unwrap())
            .map(|_| ())
            .map_err(|stop| format!("{stop:?}"))
    });
}
