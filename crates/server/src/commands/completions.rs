//! `completions`: prints a script that completes commands and options in a shell.

use clap::CommandFactory as _;

use super::follow::print;
use crate::cli::{Cli, CompletionsArgs};
use crate::outcome::{Ending, Outcome};

pub(super) fn completions(args: &CompletionsArgs) -> Ending {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "kernelwright", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Accepted)
}
