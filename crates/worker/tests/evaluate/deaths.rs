//! Deaths of single role processes: the first process of a role dies at one call of the driver, the second one
//! lives, and the candidate gets the evaluation that it always gets.
//!
//! The suite kills four processes of each role; `KERNELWRIGHT_SWEEP=full` kills forty.

use domain::evaluation::Evaluation;
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
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuMemAlloc_v2",
    "cuMemcpyDtoH_v2",
    "cuMemFree_v2",
];

/// Calls `evaluate` with an evaluator whose next process of a role dies, once for each death.
fn sweep_deaths(lab: &Lab, role: Role, evaluate: impl Fn(&Evaluator) -> Result<(), String>) {
    let full = std::env::var_os("KERNELWRIGHT_SWEEP").is_some_and(|value| value == "full");
    let deaths = if full { 40 } else { 4 };
    let places = (1..=4).flat_map(|nth| CALLS.map(|call| (call, nth)));
    let mut failures = Vec::new();
    for (call, nth) in places.take(deaths) {
        let plan = format!("[[fault]]\ncall = \"{call}\"\nnth = {nth}\ndo = \"abort\"\n");
        if let Err(failure) = evaluate(&lab.spoiled_once(role, &plan)) {
            failures.push(format!("{call}, call {nth}: {failure}"));
        }
        lab.forget_health();
    }
    assert!(
        failures.is_empty(),
        "{}: {}",
        role.as_str(),
        failures.join("\n")
    );
}

fn evaluation(evaluator: &Evaluator) -> Result<Evaluation, String> {
    let request = Lab::request(TASK, "baseline.cu", read(TASK, "baseline.cu"));
    let cancellation = Cancellation::new().unwrap();
    evaluator
        .evaluate(&request, |_| {}, &cancellation)
        .map_err(|fault| fault.to_string())
}

fn is_accepted(evaluator: &Evaluator) -> Result<(), String> {
    let verdict = evaluation(evaluator)?.verdict;
    let accepted = verdict.kind() == VerdictKind::Accepted;
    accepted.then_some(()).ok_or_else(|| verdict.to_string())
}

#[test]
fn a_dead_executor_is_replaced_by_a_second_one() {
    let Some(lab) = lab() else { return };
    sweep_deaths(&lab, Role::Run, is_accepted);
}

#[test]
fn a_dead_comparer_of_outputs_is_replaced_by_a_second_one() {
    let Some(lab) = lab() else { return };
    sweep_deaths(&lab, Role::Verify, is_accepted);
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
