//! The program `kernelwright`: performs the role that a worker started it for, or else reads the command line, hands
//! over to the library, and turns the outcome into the documented exit code.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use server::cli::Cli;

fn main() -> ExitCode {
    // Before the command line is read: describing every command to clap takes most of the time that a debug build needs
    // to start, and an evaluation starts a dozen role processes.
    let words = std::env::args_os().skip(1).collect::<Vec<_>>();
    if let [command, role] = &words[..]
        && command == "role"
    {
        // A role confines itself and must start no thread before that: no runtime, no log.
        return gpu::role::main(&role.to_string_lossy());
    }
    server::commands::dispatch(Cli::parse())
}
