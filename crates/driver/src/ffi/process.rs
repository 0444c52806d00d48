//! The driver of the process, and the common part of all calls.

use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{env, fs, process, thread};

use ptx::device::Device;

use crate::code::Code;
use crate::fault::{Action, FaultPlan};
use crate::state::{CallOutput, Driver};

/// Variable with the name of the embedded device file.
const DEVICE_VARIABLE: &str = "KERNELWRIGHT_EMULATED_DEVICE";
/// Variable with the path of the fault plan.
const PLAN_VARIABLE: &str = "KERNELWRIGHT_FAULT_PLAN";
/// Variable with the number of bytes of host memory that device memory may use.
const MEMORY_VARIABLE: &str = "KERNELWRIGHT_EMULATED_MEMORY";
const DEFAULT_DEVICE: &str = "l4";
const DEFAULT_MEMORY: u64 = 8 << 30;

struct Process {
    driver: Mutex<Driver>,
    plan: FaultPlan,
}

/// Created by the first call. If the environment is invalid, every call fails with the same code.
static PROCESS: OnceLock<Result<Process, Code>> = OnceLock::new();

fn start() -> Result<Process, Code> {
    let id = env::var(DEVICE_VARIABLE).unwrap_or_else(|_| DEFAULT_DEVICE.to_owned());
    let device = Device::embedded(&id).map_err(|error| {
        report(&format!("failed to read {DEVICE_VARIABLE}: {error}"));
        Code::NO_DEVICE
    })?;
    let memory = match env::var(MEMORY_VARIABLE) {
        Err(_) => DEFAULT_MEMORY,
        Ok(text) => text.parse().map_err(|_| {
            report(&format!(
                "failed to read {MEMORY_VARIABLE}: `{text}` is no number of bytes"
            ));
            Code::OPERATING_SYSTEM
        })?,
    };
    let plan = match env::var_os(PLAN_VARIABLE) {
        None => FaultPlan::default(),
        Some(path) => {
            let refuse = |error: &dyn std::fmt::Display| {
                report(&format!(
                    "failed to use {PLAN_VARIABLE} ({}): {error}",
                    path.display()
                ));
                Code::OPERATING_SYSTEM
            };
            let text = fs::read_to_string(&path).map_err(|error| refuse(&error))?;
            FaultPlan::from_toml(&text).map_err(|error| refuse(&error))?
        }
    };
    let mut driver = Driver::new(device, memory);
    if plan.leftovers {
        driver.keep_leftovers();
    }
    Ok(Process {
        driver: Mutex::new(driver),
        plan,
    })
}

/// Writes one line to standard error, for messages that the API has no place for.
pub fn report(line: &str) {
    eprintln!("kernelwright emulated GPU: {line}");
}

/// Writes the output of a call. Kernels print to standard output, as on a device; a failed write is ignored, because
/// it is not the kernel's error.
fn write_output(call_output: &CallOutput) {
    for remark in &call_output.remarks {
        report(remark);
    }
    if !call_output.printed.is_empty() {
        let mut output = io::stdout().lock();
        let _ = output
            .write_all(call_output.printed.as_bytes())
            .and_then(|()| output.flush());
    }
}

/// Serves one call: applies the fault plan, runs the body on the driver, and catches panics. An uninitialised driver
/// takes precedence over all other errors.
pub fn call<F>(name: &'static str, body: F) -> u32
where
    F: FnOnce(&mut Driver) -> Result<(), Code>,
{
    call_anytime(name, |driver| {
        driver.check_initialised()?;
        body(driver)
    })
}

/// As [`call`], for the few functions that may be called before initialisation.
pub fn call_anytime<F>(name: &'static str, body: F) -> u32
where
    F: FnOnce(&mut Driver) -> Result<(), Code>,
{
    match with_driver(name, body) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) | Err(code) => code.0,
    }
}

/// Continues a call that released the driver for a while. The fault plan is not applied again.
pub fn continue_call<F>(body: F) -> u32
where
    F: FnOnce(&mut Driver) -> Result<(), Code>,
{
    match locked(None, body) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) | Err(code) => code.0,
    }
}

/// As [`call`], for functions with another result type.
pub fn with_driver<F, R>(name: &'static str, body: F) -> Result<R, Code>
where
    F: FnOnce(&mut Driver) -> R,
{
    locked(Some(name), body)
}

fn locked<F, R>(name: Option<&'static str>, body: F) -> Result<R, Code>
where
    F: FnOnce(&mut Driver) -> R,
{
    let serve = || {
        let process = PROCESS.get_or_init(start).as_ref().map_err(|code| *code)?;
        let tamper = match name.and_then(|name| process.plan.action_for_call(name)) {
            None => None,
            Some(Action::Tamper(tamper)) => Some(tamper),
            Some(Action::Error(code)) => return Err(code),
            Some(Action::Exit) => process::exit(0),
            Some(Action::Abort) => process::abort(),
            Some(Action::Hang) => loop {
                thread::park();
            },
        };
        let mut driver = process
            .driver
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        driver.begin_call(thread::current().id(), tamper);
        let answer = panic::catch_unwind(AssertUnwindSafe(|| body(&mut driver)));
        let call_output = driver.take_output();
        write_output(&call_output);
        let answer = answer.map_err(|_| {
            // The state that the call left behind is unknown, so the context counts as corrupted.
            driver.corrupt(Code::UNKNOWN);
            Code::UNKNOWN
        });
        drop(driver);
        call_output
            .calls
            .into_iter()
            .for_each(super::graph::call_host);
        answer
    };
    // Also catches panics from before the driver was locked.
    panic::catch_unwind(AssertUnwindSafe(serve)).unwrap_or(Err(Code::UNKNOWN))
}

/// Replaces the process's driver by a new one with this much memory, for tests that need a known state. While the
/// guard exists, no other such test runs.
#[cfg(test)]
pub fn replace_driver(memory: u64) -> std::sync::MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let process = PROCESS
        .get_or_init(start)
        .as_ref()
        .expect("the environment of tests is right");
    let device = Device::embedded(DEFAULT_DEVICE).expect("embedded");
    *process
        .driver
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = Driver::new(device, memory);
    guard
}
