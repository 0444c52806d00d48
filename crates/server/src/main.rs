//! The program `kernelwright`: reads the command line, hands over to the library, and turns the
//! outcome into the documented exit code.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use server::cli::Cli;

fn main() -> ExitCode {
    server::commands::dispatch(Cli::parse())
}
