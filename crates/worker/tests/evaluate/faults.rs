//! Every call a role makes of the driver, going wrong: the evaluation ends in a typed verdict or a fault that the call
//! and the error explain, and the next honest candidate fares as ever.
//!
//! The suite asks for one error of each kind. `KERNELWRIGHT_SWEEP=full cargo test -p worker --test evaluate sweep --
//! --nocapture` asks for every error that the driver's manual knows, at the first call and at every one, and prints
//! how many there were.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::evaluation::Evaluation;
use domain::verdict::VerdictKind;
use worker::cancel::Cancellation;
use worker::evaluate::{Evaluator, Fault};
use worker::host::Role;

use crate::lab::{Lab, lab, read};

const TASK: &str = "softmax-f32";

/// What the roles call, the emulated driver's own function included.
const CALLS: [&str; 27] = [
    "cuInit",
    "cuDeviceGet",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuDeviceGetUuid_v2",
    "cuDeviceGetAttribute",
    "kernelwrightEmulator",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuFuncSetAttribute",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemsetD8_v2",
    "cuLaunchKernel",
    "cuLaunchCooperativeKernel",
    "cuCtxSynchronize",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventElapsedTime_v2",
];
/// The codes of the driver's manual.
const CODES: [u32; 42] = [
    1, 2, 3, 4, 46, 100, 101, 200, 201, 209, 214, 215, 218, 220, 221, 222, 300, 301, 302, 304, 400,
    401, 500, 600, 700, 701, 702, 708, 709, 710, 712, 714, 715, 716, 717, 718, 719, 720, 800, 801,
    802, 999,
];
/// One of each kind: a resource, a kernel's fault, and what says nothing.
const REPRESENTATIVES: [u32; 3] = [2, 700, 999];
/// What a role that hangs is given here.
const PATIENCE: Duration = Duration::from_secs(3);

struct Sweep {
    lab: Lab,
    usual: Evaluation,
    counts: BTreeMap<String, u32>,
    surprises: Vec<String>,
}

impl Sweep {
    fn new(lab: Lab) -> Self {
        let usual = evaluate(lab.evaluator()).unwrap();
        assert_eq!(
            usual.verdict.kind(),
            VerdictKind::Accepted,
            "{}",
            usual.verdict
        );
        Self {
            lab,
            usual,
            counts: BTreeMap::new(),
            surprises: Vec::new(),
        }
    }

    /// The honest candidate with one role's driver spoiled.
    fn meet(&self, role: Role, call: &str, nth: &str, deed: &str) -> Result<Evaluation, Fault> {
        let plan = format!("[[fault]]\ncall = \"{call}\"\nnth = {nth}\ndo = {deed}\n");
        evaluate(&self.lab.spoiled(&[(role, &plan)]))
    }

    /// Whether a role makes a call at all: if not, its death there is never noticed.
    fn is_made(&mut self, role: Role, call: &str) -> bool {
        let found = self.meet(role, call, "1", "\"abort\"");
        let made = !is_accepted(&found);
        if made {
            let expected = match role {
                Role::Run => {
                    matches!(&found, Ok(evaluation) if evaluation.verdict.kind() == VerdictKind::RunnerCrash)
                }
                _ => found.is_err(),
            };
            self.note(role, "death", expected, || {
                format!("dying in {call}: {}", told(&found))
            });
        }
        made
    }

    fn try_error(&mut self, role: Role, call: &str, nth: &str, code: u32) {
        let found = self.meet(role, call, nth, &format!("{{ error = {code} }}"));
        let expected = match &found {
            Err(_) => !blames(role, call, code),
            Ok(evaluation) if comes_too_late(role, call) => {
                evaluation.verdict.kind() == VerdictKind::Accepted
            }
            Ok(evaluation) => {
                blames(role, call, code)
                    && matches!(
                        evaluation.verdict.kind(),
                        VerdictKind::RuntimeFault
                            | VerdictKind::Timeout
                            | VerdictKind::LaunchRejected
                            | VerdictKind::Unsupported
                    )
            }
        };
        self.note(role, "error", expected, || {
            format!("{call}, call {nth}, returning {code}: {}", told(&found))
        });
    }

    fn note(&mut self, role: Role, kind: &str, expected: bool, what: impl FnOnce() -> String) {
        *self
            .counts
            .entry(format!("{} {kind}", role.as_str()))
            .or_default() += 1;
        if !expected {
            self.surprises
                .push(format!("{}: {}", role.as_str(), what()));
        }
    }

    /// Nothing was surprising, and the honest candidate fares as ever.
    fn end(self) {
        eprintln!("{:?}", self.counts);
        assert!(self.surprises.is_empty(), "{}", self.surprises.join("\n"));
        assert_eq!(evaluate(self.lab.evaluator()).unwrap(), self.usual);
    }
}

fn evaluate(evaluator: &Evaluator) -> Result<Evaluation, Fault> {
    let cancellation = Cancellation::new().unwrap();
    let request = Lab::request(TASK, "baseline.cu", read(TASK, "baseline.cu"));
    let mut evaluation = evaluator.evaluate(&request, |_| {}, &cancellation)?;
    // How long it took, and the bundle that says so.
    evaluation.stages.clear();
    evaluation.evidence = None;
    Ok(evaluation)
}

/// Whether everything was found out before this call: a verifier has read the answers before it gives its modules
/// back.
fn comes_too_late(role: Role, call: &str) -> bool {
    call == "cuDevicePrimaryCtxRelease_v2" || (role == Role::Verify && call == "cuModuleUnload")
}

fn is_accepted(found: &Result<Evaluation, Fault>) -> bool {
    matches!(found, Ok(evaluation) if evaluation.verdict.kind() == VerdictKind::Accepted)
}

fn told(found: &Result<Evaluation, Fault>) -> String {
    match found {
        Ok(evaluation) => evaluation.verdict.to_string(),
        Err(fault) => format!("a fault: {fault}"),
    }
}

/// Whether an error of this call is one that the candidate can have caused.
fn blames(role: Role, call: &str, code: u32) -> bool {
    let launch = call.starts_with("cuLaunch") || call == "cuFuncSetAttribute";
    let waits = ["cuCtxSynchronize", "cuMemcpyDtoH_v2"].contains(&call);
    role == Role::Run
        && match code {
            700 | 702 | 710 | 714..=719 => waits,
            1 | 2 | 701 | 720 | 801 => launch,
            500 => launch || call == "cuModuleGetFunction",
            218 => call == "cuModuleLoadData",
            _ => false,
        }
}

#[test]
fn sweep_of_the_driver_calls_that_runner_and_verifier_make() {
    let Some(lab) = lab() else { return };
    let full = std::env::var_os("KERNELWRIGHT_SWEEP").is_some_and(|value| value == "full");
    let mut sweep = Sweep::new(lab);
    for role in [Role::Run, Role::Verify] {
        for call in CALLS {
            if !sweep.is_made(role, call) {
                continue;
            }
            let codes: &[u32] = if full { &CODES } else { &REPRESENTATIVES };
            // The emulated driver's own function answers in its own way: any error is one to it.
            let codes: &[u32] = if call == "kernelwrightEmulator" {
                &[999]
            } else {
                codes
            };
            let occurrences: &[&str] = if full {
                &["1", "\"every\""]
            } else {
                &["\"every\""]
            };
            for code in codes {
                for nth in occurrences {
                    sweep.try_error(role, call, nth, *code);
                }
            }
        }
    }
    sweep.end();
}

#[test]
fn sweep_of_calls_that_hang_or_corrupt() {
    let Some(lab) = lab() else { return };
    let mut sweep = Sweep::new(lab);
    for (role, call) in [(Role::Run, "cuModuleLoadData"), (Role::Verify, "cuInit")] {
        let plan = format!("[[fault]]\ncall = \"{call}\"\nnth = 1\ndo = \"hang\"\n");
        let host = sweep.lab.spoiled(&[(role, &plan)]).host().clone();
        let found = evaluate(&Evaluator::new(host.impatient(PATIENCE)).unwrap());
        sweep.note(role, "hang", found.is_err(), || {
            format!("{call} hanging: {}", told(&found))
        });
    }
    for nth in ["1", "2", "\"every\""] {
        let deed = "{ corrupt = { bytes = 4 } }";
        let found = sweep.meet(Role::Run, "cuMemcpyDtoH_v2", nth, deed);
        let refused = !is_accepted(&found);
        sweep.note(Role::Run, "corruption", refused, || {
            format!("download {nth} corrupted: {}", told(&found))
        });
    }
    sweep.end();
}
