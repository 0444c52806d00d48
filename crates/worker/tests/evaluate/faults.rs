//! Sweeps over every driver call of a role with an injected fault. Each must end in a typed verdict
//! or a fault that the call and the error explain, never in an acceptance, a time or a healthy
//! device, and the next correct candidate must be evaluated as before.
//!
//! The suite injects one error of each kind. `KERNELWRIGHT_SWEEP=full cargo test -p worker --test
//! evaluate sweep -- --nocapture --test-threads=1` injects every error of the driver's manual, at
//! the first call and at every call, makes every call hang, and prints the number of each outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::evaluation::Evaluation;
use domain::judge;
use domain::verdict::{Outcome, Verdict, VerdictKind};
use worker::cancel::Cancellation;
use worker::evaluate::{Compared, EvaluateError, Evaluator, Stop};
use worker::host::{RepeatPolicy, Role};

use crate::lab::{Lab, lab};
use crate::paired;

/// The driver calls of the roles, the emulated driver's own function included.
const CALLS: [&str; 44] = [
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
    "cuModuleLoadDataEx",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuFuncSetAttribute",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
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
    "cuEventDestroy_v2",
    "cuMemGetAllocationGranularity",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuMemAllocHost_v2",
    "cuMemFreeHost",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuStreamDestroy_v2",
    "cuModuleGetGlobal_v2",
    "cuMemAllocManaged",
];
/// The calls of a role before it gets its job; the candidate cannot be their cause.
const OPENING: [&str; 4] = [
    "cuInit",
    "cuDeviceGet",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
];
/// The error codes of the driver's manual.
const CODES: [u32; 42] = [
    1, 2, 3, 4, 46, 100, 101, 200, 201, 209, 214, 215, 218, 220, 221, 222, 300, 301, 302, 304, 400,
    401, 500, 600, 700, 701, 702, 708, 709, 710, 712, 714, 715, 716, 717, 718, 719, 720, 800, 801,
    802, 999,
];
/// One code of each kind: a resource, a fault of a kernel, and an unspecific one.
const REPRESENTATIVES: [u32; 3] = [2, 700, 999];
/// The repeats on a device that is treated as one without proofs.
const DOUBTING: RepeatPolicy = RepeatPolicy {
    max_repeats: 2,
    large_tensor_elements: 1 << 40,
};
/// Wall time after which a role counts as stuck here.
const PATIENCE: Duration = Duration::from_secs(3);

/// The outcome of a request to a machine with an injected fault.
enum FaultOutcome {
    /// A fault of the infrastructure.
    Fault(EvaluateError),
    /// A verdict other than acceptance.
    Verdict(Box<Verdict>),
    /// The requested result: an acceptance, a comparison, a healthy device.
    Good,
}

impl FaultOutcome {
    fn verdict(&self) -> Option<VerdictKind> {
        match self {
            Self::Verdict(verdict) => Some(verdict.kind()),
            Self::Fault(_) | Self::Good => None,
        }
    }

    fn told(&self) -> String {
        match self {
            Self::Fault(fault) => format!("a fault: {fault}"),
            Self::Verdict(verdict) => verdict.to_string(),
            Self::Good => "all is well".to_owned(),
        }
    }
}

struct Sweep {
    lab: Lab,
    /// True if the device is treated as one without proofs.
    doubts: bool,
    usual: Evaluation,
    counts: BTreeMap<String, u32>,
    surprises: Vec<String>,
}

impl Sweep {
    fn new(lab: Lab) -> Self {
        Self::of(lab, false)
    }

    fn of(lab: Lab, doubts: bool) -> Self {
        let usual = evaluate(&doubted(&lab, lab.evaluator(), doubts)).unwrap();
        assert_eq!(
            usual.verdict.kind(),
            VerdictKind::Accepted,
            "{}",
            usual.verdict
        );
        Self {
            lab,
            doubts,
            usual,
            counts: BTreeMap::new(),
            surprises: Vec::new(),
        }
    }

    /// The outcome of a correct candidate with the fault plan in one role; the device's record is
    /// restored afterwards.
    fn meet(&self, role: Role, call: &str, nth: &str, deed: &str) -> FaultOutcome {
        let plan = format!("[[fault]]\ncall = \"{call}\"\nnth = {nth}\ndo = {deed}\n");
        let mut evaluator = self.lab.spoiled(&[(role, &plan)]);
        evaluator = doubted(&self.lab, &evaluator, self.doubts);
        if deed == "\"hang\"" {
            evaluator = Evaluator::new(evaluator.host().clone().with_wall_limit(PATIENCE)).unwrap();
        }
        match role {
            Role::Time => compare(&evaluator),
            Role::Probe => {
                let asked = evaluator.host().check_health(&Cancellation::new().unwrap());
                self.lab.forget_health();
                match asked {
                    Ok(()) => FaultOutcome::Good,
                    Err(fault) => FaultOutcome::Fault(fault.into()),
                }
            }
            _ => match evaluate(&evaluator) {
                Err(fault) => FaultOutcome::Fault(fault),
                Ok(evaluation) if evaluation.verdict.kind() == VerdictKind::Accepted => {
                    FaultOutcome::Good
                }
                Ok(evaluation) => FaultOutcome::Verdict(Box::new(evaluation.verdict)),
            },
        }
    }

    /// Returns true if a role makes a call; without the call an injected death has no effect.
    fn is_made(&mut self, role: Role, call: &str) -> bool {
        let found = self.meet(role, call, "1", "\"abort\"");
        let made = !matches!(found, FaultOutcome::Good);
        if made {
            let expected = match role {
                // Two deaths in the presence of a candidate are attributed to the candidate.
                Role::Run | Role::Time if !OPENING.contains(&call) => {
                    found.verdict() == Some(VerdictKind::RunnerCrash)
                }
                _ => matches!(found, FaultOutcome::Fault(_)),
            };
            self.note(role, "death", expected, || {
                format!("dying in {call}: {}", found.told())
            });
        }
        made
    }

    fn try_error(&mut self, role: Role, call: &str, nth: &str, code: u32) {
        let found = self.meet(role, call, nth, &format!("{{ error = {code} }}"));
        let expected = match (&found, role) {
            (FaultOutcome::Good, _) => comes_too_late(role, call),
            (FaultOutcome::Fault(_), _) => !blames(role, call, code),
            (FaultOutcome::Verdict(_), Role::Time) => {
                // Of two kernels that take turns, the failure is attributed to the one whose turn
                // it was.
                judge::can_kernel_cause(code)
                    && matches!(
                        found.verdict(),
                        Some(VerdictKind::RuntimeFault | VerdictKind::InvalidRun)
                    )
            }
            (FaultOutcome::Verdict(_), _) => {
                blames(role, call, code)
                    && matches!(
                        found.verdict(),
                        Some(
                            VerdictKind::RuntimeFault
                                | VerdictKind::Timeout
                                | VerdictKind::LaunchRejected
                                | VerdictKind::Unsupported
                        )
                    )
            }
        };
        self.note(role, "error", expected, || {
            format!("{call}, call {nth}, returning {code}: {}", found.told())
        });
    }

    fn try_hang(&mut self, role: Role, call: &str) {
        let found = self.meet(role, call, "1", "\"hang\"");
        // A runner that hangs has not used up its processor time, because the machine may be busy.
        let late = matches!(found, FaultOutcome::Good) && comes_too_late(role, call);
        let expected = matches!(found, FaultOutcome::Fault(_)) || late;
        self.note(role, "hang", expected, || {
            format!("{call} hanging: {}", found.told())
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

    /// Checks that no outcome was unexpected and that a correct candidate is evaluated as before.
    fn end(self) {
        eprintln!("{:?}", self.counts);
        assert!(self.surprises.is_empty(), "{}", self.surprises.join("\n"));
        let evaluator = doubted(&self.lab, self.lab.evaluator(), self.doubts);
        assert_eq!(evaluate(&evaluator).unwrap(), self.usual);
    }
}

/// Faults before the device is used are covered by other tests.
fn doubted(lab: &Lab, evaluator: &Evaluator, doubts: bool) -> Evaluator {
    let host = evaluator.host().clone();
    let host = if doubts {
        host.assumed_unproved(DOUBTING)
            .prescreened_by(lab.prescreener())
    } else {
        host
    };
    Evaluator::new(host).unwrap()
}

fn evaluate(evaluator: &Evaluator) -> Result<Evaluation, EvaluateError> {
    let cancellation = Cancellation::new().unwrap();
    let request = Lab::small_request("baseline.cu");
    let mut evaluation = evaluator.evaluate(&request, |_| {}, &cancellation)?;
    // Times and the bundle differ between two evaluations.
    evaluation.stages.clear();
    evaluation.evidence = None;
    Ok(evaluation)
}

/// The comparison of a correct candidate with another one.
fn compare(evaluator: &Evaluator) -> FaultOutcome {
    match timed(evaluator) {
        Err(Stop::Fault(fault)) => FaultOutcome::Fault(fault),
        Err(Stop::Verdict(verdict)) => FaultOutcome::Verdict(verdict),
        Ok(_) => FaultOutcome::Good,
    }
}

fn timed(evaluator: &Evaluator) -> Result<Compared, Stop> {
    let request = paired::request(&paired::kernel(40));
    evaluator.bench(&request, |_| {}, &Cancellation::new().unwrap())
}

/// Returns true if the result was known before this call: a role that runs no candidate has its
/// answer before it unloads modules and frees memory, and the time of an event has been read before
/// the event is destroyed.
fn comes_too_late(role: Role, call: &str) -> bool {
    match call {
        "cuDevicePrimaryCtxRelease_v2" | "cuEventDestroy_v2" => true,
        "cuModuleUnload" => role != Role::Run,
        "cuMemFree_v2" => role == Role::Probe,
        _ => false,
    }
}

/// Returns true if a candidate can cause an error of this call.
fn blames(role: Role, call: &str, code: u32) -> bool {
    let launch = call.starts_with("cuLaunch") || call == "cuFuncSetAttribute";
    let waits = ["cuCtxSynchronize", "cuMemcpyDtoH_v2"].contains(&call);
    role == Role::Run
        && match code {
            700 | 702 | 710 | 714..=719 => waits,
            1 | 2 | 701 | 720 | 801 => launch,
            500 => launch || call == "cuModuleGetFunction",
            218 => call == "cuModuleLoadDataEx",
            _ => false,
        }
}

/// Injects death, failure and, in a full sweep, a hang into each call of one role.
fn sweep_of(role: Role) {
    let Some(lab) = lab() else { return };
    sweep_through(Sweep::new(lab), role, &CALLS);
}

fn sweep_through(mut sweep: Sweep, role: Role, calls: &[&str]) {
    let full = std::env::var_os("KERNELWRIGHT_SWEEP").is_some_and(|value| value == "full");
    for call in calls.iter().copied() {
        if !sweep.is_made(role, call) {
            continue;
        }
        let codes: &[u32] = if full { &CODES } else { &REPRESENTATIVES };
        // The emulated driver's own function returns its own codes; any error is the same to it.
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
        if full {
            sweep.try_hang(role, call);
        }
    }
    sweep.end();
}

#[test]
fn sweep_of_the_calls_of_a_runner() {
    sweep_of(Role::Run);
}

/// Memory mappings without memory behind them, and the stream of the disturbance.
#[test]
fn sweep_of_the_further_calls_of_a_runner_that_proves_nothing() {
    let Some(lab) = lab() else { return };
    sweep_through(Sweep::of(lab, true), Role::Run, &CALLS[29..]);
}

#[test]
fn sweep_of_the_calls_of_a_verifier() {
    sweep_of(Role::Verify);
}

#[test]
fn sweep_of_the_calls_while_timing() {
    sweep_of(Role::Time);
}

#[test]
fn sweep_of_the_calls_of_a_probe() {
    sweep_of(Role::Probe);
}

#[test]
fn sweep_of_calls_that_hang_or_corrupt() {
    let Some(lab) = lab() else { return };
    let mut sweep = Sweep::new(lab);
    for (role, call) in [
        (Role::Run, "cuModuleLoadDataEx"),
        (Role::Verify, "cuInit"),
        (Role::Time, "cuEventSynchronize"),
        (Role::Probe, "cuLaunchKernel"),
    ] {
        sweep.try_hang(role, call);
    }
    // Only a card's driver may be without a compiler.
    sweep.try_error(Role::Probe, "cuModuleLoadDataEx", "1", 222);
    let deed = "{ corrupt = { bytes = 4 } }";
    for (role, downloads) in [
        (Role::Run, ["1", "2", "\"every\""].as_slice()),
        (Role::Time, &["1", "30"]),
        (Role::Probe, &["1", "2", "\"every\""]),
    ] {
        for nth in downloads {
            let found = sweep.meet(role, "cuMemcpyDtoH_v2", nth, deed);
            sweep.note(
                role,
                "corruption",
                !matches!(found, FaultOutcome::Good),
                || format!("download {nth} corrupted: {}", found.told()),
            );
        }
    }
    sweep.end();
}

/// False event times that no clock contradicts where times are modelled. They apply to both kernels
/// alike, so that neither gains.
#[test]
fn sweep_of_a_clock_that_lies() {
    let Some(lab) = lab() else { return };
    let mut sweep = Sweep::new(lab);
    for lie in ["-1.0", "-1e-6", "0.0", "nan", "inf", "-inf", "1e6", "3e38"] {
        for nth in ["20", "60", "\"every\""] {
            let deed = format!("{{ elapsed_ms = {lie} }}");
            let found = sweep.meet(Role::Time, "cuEventElapsedTime_v2", nth, &deed);
            // A single time of zero is one outlier among many.
            let outlier = lie == "0.0" && nth != "\"every\"";
            let expected = match &found {
                FaultOutcome::Fault(_) => true,
                FaultOutcome::Verdict(_) => matches!(
                    found.verdict(),
                    Some(
                        VerdictKind::ClockMismatch
                            | VerdictKind::Inconclusive
                            | VerdictKind::RunnerCrash
                    )
                ),
                FaultOutcome::Good => outlier,
            };
            sweep.note(Role::Time, "lie", expected, || {
                format!("time {nth} is {lie} ms: {}", found.told())
            });
        }
    }
    let plan = "[[fault]]\ncall = \"cuEventElapsedTime_v2\"\nnth = \"every\"\ndo = { elapsed_ms = 1e-3 }\n";
    let short = timed(&sweep.lab.with_spoiled_timing(plan));
    assert!(!matches!(short, Err(Stop::Fault(_))), "{short:?}");
    let gained = matches!(&short, Ok(compared) if compared.comparison.outcome == Outcome::Faster);
    sweep.note(Role::Time, "lie", !gained, || format!("{short:?}"));
    sweep.end();
}
