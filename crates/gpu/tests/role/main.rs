//! Tests of the role processes from outside: real child processes, the real compiler and the emulated driver.
//!
//! A child is this test binary again, started to run only [`role_process`]. Tests that need the compiler or the
//! driver library report when it is missing and are counted as skipped.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compile;
mod device;
mod process;

use std::process::ExitCode;

/// In a child, runs the role; in the test run itself, checks that a role without a job refuses.
#[test]
fn role_process() {
    match std::env::var(process::ROLE_VARIABLE) {
        Ok(role) => {
            let code = gpu::role::main(&role);
            let status = if code == ExitCode::SUCCESS { 0 } else { 3 };
            std::process::exit(status);
        }
        Err(_) => {
            let fault = gpu::role::serve("compile").unwrap_err();
            assert!(
                fault.to_string().contains("KERNELWRIGHT_ROLE_FD"),
                "{fault}"
            );
        }
    }
}
