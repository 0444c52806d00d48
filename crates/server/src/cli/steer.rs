//! The grammar of `steer`: directions for a run.

use clap::{Args, Subcommand};
use domain::id::RunId;
use domain::model::Dollars;
use domain::search::ModelChoice;

use super::ServiceAddress;
use super::number::whole;
use super::run::{MethodName, parse_dollars, parse_model};

/// Directions for a run.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum SteerCommand {
    /// List the directions that a run was given.
    List(SteerListArgs),
    /// Give a text that the next prompts carry.
    Hint(SteerHintArgs),
    /// Make an accepted candidate a parent of every further one.
    Pin(SteerCandidateArgs),
    /// Ban a candidate: it is nobody's parent and no champion.
    Ban(SteerBanArgs),
    /// Have prompts tell to avoid an idea.
    Avoid(SteerAvoidArgs),
    /// Correct a candidate's thought as prompts show it, or leave it out of prompts.
    Insight(SteerInsightArgs),
    /// Withdraw a hint, a pin, a ban, an avoided idea or an edited insight.
    Withdraw(SteerWithdrawArgs),
    /// Change the limits of a run. One that ended because of a limit goes on when it is raised, and one
    /// that ended early when that stop is put off.
    Budget(SteerBudgetArgs),
    /// Replace a model of a run by another configured one.
    Model(SteerModelArgs),
    /// Start a run of the same task from an accepted candidate.
    Fork(Box<SteerForkArgs>),
    /// Evaluate a candidate again; the first verdict stays.
    Reevaluate(SteerCandidateArgs),
    /// Confirm an accepted candidate and commit it if that holds.
    Promote(SteerCandidateArgs),
}

/// The run that a direction is for.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SteeredRun {
    /// Id of the run.
    pub run: RunId,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service to send the request to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `steer list`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SteerListArgs {
    /// The run.
    #[command(flatten)]
    pub run: SteeredRun,
}

/// Arguments of `steer hint`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SteerHintArgs {
    /// The run.
    #[command(flatten)]
    pub run: SteeredRun,
    /// The text.
    pub text: String,
    /// Number of candidates whose prompts carry it. By default all, until it is withdrawn.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub prompts: Option<u32>,
}

/// Arguments of `steer pin`, `steer reevaluate` and `steer promote`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SteerCandidateArgs {
    /// The run.
    #[command(flatten)]
    pub run: SteeredRun,
    /// Id of the candidate, or its number in the run.
    pub candidate: String,
}

/// Arguments of `steer ban`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SteerBanArgs {
    /// The run.
    #[command(flatten)]
    pub run: SteeredRun,
    /// Id of the candidate, or its number in the run.
    pub candidate: String,
    /// Ban its descendants, too.
    #[arg(long)]
    pub descendants: bool,
}

/// Arguments of `steer avoid`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SteerAvoidArgs {
    /// The run.
    #[command(flatten)]
    pub run: SteeredRun,
    /// The idea.
    pub idea: String,
}

/// Arguments of `steer insight`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SteerInsightArgs {
    /// The run.
    #[command(flatten)]
    pub run: SteeredRun,
    /// Id of the candidate whose thought it is, or its number in the run.
    pub candidate: String,
    /// The corrected text. Without it, prompts no longer show the thought.
    #[arg(long)]
    pub text: Option<String>,
}

/// Arguments of `steer withdraw`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SteerWithdrawArgs {
    /// The run.
    #[command(flatten)]
    pub run: SteeredRun,
    /// Number of the entry, as `steer list` shows it.
    pub entry: u32,
}

/// Arguments of `steer budget`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SteerBudgetArgs {
    /// The run.
    #[command(flatten)]
    pub run: SteeredRun,
    /// The limits.
    #[command(flatten)]
    pub limits: Limits,
}

/// New limits of a run. Those that are not given stay as they are.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Limits {
    /// Budget: the most candidates besides the baseline.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub budget_trials: Option<u32>,
    /// Budget: the longest running time, seconds, pauses not counted.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub budget_seconds: Option<u64>,
    /// Budget: the most device time, seconds.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub budget_device_seconds: Option<u64>,
    /// Budget: the most that device time may cost, US dollars.
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true, value_parser = parse_dollars)]
    pub budget_device_dollars: Option<Dollars>,
    /// Budget: the most tokens, read and written.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub budget_tokens: Option<u64>,
    /// Budget: the most that models may cost, US dollars.
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true, value_parser = parse_dollars)]
    pub budget_dollars: Option<Dollars>,
    /// Share of the floor at which the run ends, percent. 0 to go on however close it comes.
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub floor_percent: Option<u32>,
    /// Least gain that models are expected to bring, percent per dollar. 0 to go on however small it is.
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub gain_per_dollar: Option<u32>,
    /// Number of trials in a row that bring nothing faster, after which the run ends. 0 to go on after any number.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub trials_without_gain: Option<u32>,
}

/// Arguments of `steer model`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SteerModelArgs {
    /// The run.
    #[command(flatten)]
    pub run: SteeredRun,
    /// Name of a model of the run.
    pub from: String,
    /// Name of the configured model that takes its place.
    pub to: String,
}

/// Arguments of `steer fork`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SteerForkArgs {
    /// The run.
    #[command(flatten)]
    pub run: SteeredRun,
    /// Id of the candidate, or its number in the run.
    pub candidate: String,
    /// Search method: one that asks models, or external. By default that of the run.
    #[arg(long, value_enum)]
    pub method: Option<MethodName>,
    /// Name of a configured model, or NAME=WEIGHT. May be repeated. By default those of the run.
    #[arg(long = "model", value_name = "NAME", value_parser = parse_model)]
    pub models: Vec<ModelChoice>,
    /// The limits.
    #[command(flatten)]
    pub limits: Limits,
    /// Seed of the random decisions of the search. By default that of the run.
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub seed: Option<u64>,
    /// Name of the new run. By default made from that of the run.
    #[arg(long)]
    pub name: Option<String>,
}
