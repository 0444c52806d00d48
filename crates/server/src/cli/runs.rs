//! The grammar of `runs`: the runs of a service and their states.

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use domain::api::RunStateName;
use domain::id::RunId;

use super::ServiceAddress;
use super::number::whole;

/// Commands for the runs of a service. `run` starts one and `show` shows one.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum RunsCommand {
    /// List the runs of a service, newest first.
    List(RunsListArgs),
    /// Pause a run: it proposes and leases nothing, and jobs that workers hold get their verdicts.
    Pause(RunsChangeArgs),
    /// Resume a paused run. Stopped calls and promotions are repeated.
    Resume(RunsChangeArgs),
    /// Finish a run: no more proposals, and the best is confirmed and promoted.
    Finish(RunsChangeArgs),
    /// Cancel a run: it ends now, its jobs are withdrawn and nothing is promoted.
    Cancel(RunsChangeArgs),
    /// Replace the tags of a run, in any state. Without a tag it has none afterwards.
    Tag(RunsTagArgs),
}

/// Arguments of `runs list`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RunsListArgs {
    /// Only runs in this state.
    #[arg(
        long,
        value_name = "STATE",
        value_parser = PossibleValuesParser::new(RunStateName::ALL.map(RunStateName::as_str)).map(|name| state(&name))
    )]
    pub state: Option<RunStateName>,
    /// Only runs with this tag.
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Only runs of this task, of all its versions.
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,
    /// The most runs to list.
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub limit: u32,
    /// The position that the list before ended with. By default the newest runs.
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service to send the request to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of the commands that change a run's state. To repeat a change does nothing.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RunsChangeArgs {
    /// Id of the run.
    pub run: RunId,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service to send the request to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `runs tag`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RunsTagArgs {
    /// Id of the run.
    pub run: RunId,
    /// Its tags: at most 10, each of 1 to 40 letters, digits or `-_./:`.
    #[arg(value_name = "TAG")]
    pub tags: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service to send the request to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

fn state(name: &str) -> RunStateName {
    let mut states = RunStateName::ALL.into_iter();
    states
        .find(|state| state.as_str() == name)
        .expect("only names of states are possible")
}
