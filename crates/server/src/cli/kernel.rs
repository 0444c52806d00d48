//! Verbs of one engineer with one kernel.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::DataFolder;
use super::number::{decimal, whole};

/// Arguments of `eval`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct EvalArgs {
    /// The candidate.
    #[command(flatten)]
    pub kernel: KernelArgs,
    /// Ask all that a promotion asks: held-out cases and a second schedule.
    #[arg(long, group = "asked")]
    pub confirm: bool,
    /// Ask what a champion has to stand every night: all that a promotion asks, and on silicon 1000
    /// repeats and 512 further draws of each score case.
    #[arg(long, group = "asked")]
    pub champion: bool,
    /// Ask so many times, each with inputs and shapes of its own, until a verdict is not accepted.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "asked", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
}

/// Verbs of the evidence.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum EvidenceCommand {
    /// Show a bundle, after checking every byte of it.
    Show(EvidenceArgs),
    /// Evaluate again what a bundle holds, and compare the verdicts.
    Replay(EvidenceArgs),
    /// Bring a bundle from a service into a data folder, to show it there.
    Fetch(FetchArgs),
}

/// Arguments of `evidence fetch`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct FetchArgs {
    /// The bundle's whole digest, as an evaluation names it.
    pub digest: String,
    /// The service that has it, such as `http://127.0.0.1:8787`.
    #[arg(long, value_name = "URL", env = "KERNELWRIGHT_SERVER")]
    pub server: String,
    /// Where it goes.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Arguments of `evidence show` and `evidence replay`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct EvidenceArgs {
    /// The bundle's digest, or its first digits.
    pub digest: String,
    /// Print one line of JSON instead of text (docs/reference/local-commands.md).
    #[arg(long)]
    pub json: bool,
    /// Where the evaluation ran.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// A kernel and its task, as the local verbs take them.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct KernelArgs {
    /// The kernel: one .cu file with its launch plan in the head comment.
    pub file: PathBuf,
    /// The task's folder.
    #[arg(long, value_name = "DIR")]
    pub task: PathBuf,
    /// Sets a tunable, such as `KV_SPLITS=16`; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub settings: Vec<(String, i64)>,
    /// Repeat the inputs of an earlier call with this seed; fresh inputs by default.
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub seed: Option<u64>,
    /// Print one line of JSON instead of text (docs/reference/local-commands.md).
    #[arg(long)]
    pub json: bool,
    /// Where builds and reference answers are kept.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Arguments of `build`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct BuildArgs {
    /// The kernel.
    #[command(flatten)]
    pub kernel: KernelArgs,
    /// Also build every choice of every tunable, one at a time, and name those that change nothing.
    #[arg(long)]
    pub variants: bool,
}

/// Arguments of `bench`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct BenchArgs {
    /// The kernel.
    #[command(flatten)]
    pub kernel: KernelArgs,
    /// Also time what stands in the task's `baselines`. Scripts there run as programs of yours.
    #[arg(long)]
    pub rivals: bool,
}

/// Arguments of `evaluate`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct EvaluateArgs {
    /// The kernel, in a git checkout.
    #[command(flatten)]
    pub kernel: KernelArgs,
    /// Why it should be faster.
    #[arg(long)]
    pub hypothesis: Option<String>,
    /// The gain expected over the best kept so far, as a factor such as 1.2.
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true, value_parser = decimal)]
    pub expect: Option<f64>,
}

/// Arguments of `summary`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SummaryArgs {
    /// The kernel, in a git checkout.
    pub file: PathBuf,
    /// Print one line of JSON instead of text (docs/reference/local-commands.md).
    #[arg(long)]
    pub json: bool,
    /// Where the record is.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Arguments of `iterate`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct IterateArgs {
    /// The kernel and what is expected of it.
    #[command(flatten)]
    pub evaluate: EvaluateArgs,
    /// Let the sanitizers look at every Nth step.
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub sanitize_every: u32,
}

fn parse_setting(text: &str) -> Result<(String, i64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is not NAME=VALUE, such as KV_SPLITS=16"))?;
    let value = value
        .parse()
        .map_err(|_| format!("{value:?} is not a whole number"))?;
    Ok((name.to_owned(), value))
}
