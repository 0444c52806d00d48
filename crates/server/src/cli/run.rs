//! Verbs that launch runs, look at them and propose to them.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use domain::id::{CandidateId, RunId};
use domain::model::Dollars;
use domain::search::{Evolution, Method, ModelChoice, PromptStyle, Schedule};

use super::number::{decimal, whole};
use super::{DataFolder, ServiceAddress};

/// How a run's candidates come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// The task's hand-written steps in order, each with a sweep.
    Playbook,
    /// Values of one source's tunables.
    Sweep,
    /// Kernels come from outside, through `submit` or the API.
    External,
    /// A model that is shown the task and the best code (EvoEngineer-Free).
    Free,
    /// A model that is also shown times, profiles and insights (EvoEngineer-Insight).
    Insight,
    /// A model that breeds from an elite, with insights (EvoEngineer-Full).
    Full,
}

impl From<MethodName> for Method {
    fn from(name: MethodName) -> Self {
        match name {
            MethodName::Playbook => Self::Playbook,
            MethodName::Sweep => Self::Sweep,
            MethodName::External => Self::External,
            MethodName::Free => Self::Free,
            MethodName::Insight => Self::Insight,
            MethodName::Full => Self::Full,
        }
    }
}

/// Arguments of `run`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RunArgs {
    /// A task folder, which is uploaded first, or the name of a stored task.
    pub task: String,
    /// How candidates come about.
    #[arg(long, value_enum, default_value = "playbook")]
    pub method: MethodName,
    /// A name for people.
    #[arg(long)]
    pub name: Option<String>,
    /// Candidates to try at most.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub budget_trials: Option<u32>,
    /// Running time in seconds at most, pauses not counted.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub budget_seconds: Option<u64>,
    /// Seconds that devices may spend on the run's candidates.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub budget_device_seconds: Option<u64>,
    /// How models are asked.
    #[command(flatten)]
    pub asking: AskingArgs,
    /// Seed of the search's random decisions.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub seed: u64,
    /// The task's file that a sweep starts from; the baseline by default.
    #[arg(long, value_name = "FILE")]
    pub start: Option<String>,
    /// Only workers with this device take the run's jobs.
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Git repository that the winner is committed to; the service's own by default.
    #[arg(long, value_name = "REPO")]
    pub promote_to: Option<PathBuf>,
    /// Branch that a new promotion branch starts from.
    #[arg(long, value_name = "BRANCH", requires = "promote_to")]
    pub promote_base: Option<String>,
    /// Where the winner's file goes in the repository's tree.
    #[arg(long, value_name = "PATH", requires = "promote_to")]
    pub promote_path: Option<String>,
    /// The same key always gives the same run; by default each call makes a new one.
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Stay until the run is over and show its progress.
    #[arg(long)]
    pub follow: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Which service.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// How a run asks models, for the methods that do.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(next_help_heading = "Methods that ask models")]
pub struct AskingArgs {
    /// A configured model to ask, or NAME=WEIGHT; may be repeated.
    #[arg(long = "model", value_name = "NAME", value_parser = parse_model)]
    pub models: Vec<ModelChoice>,
    /// Tokens that models may read and write.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub budget_tokens: Option<u64>,
    /// What models may cost, dollars.
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true, value_parser = parse_dollars)]
    pub budget_dollars: Option<Dollars>,
    /// Generations after the first.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub generations: Option<u32>,
    /// Keep this many candidates open instead of working in generations.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub steady: Option<u32>,
    /// Follow the published method to the letter.
    #[arg(long)]
    pub faithful: bool,
    /// Sampling temperature, for models that take one.
    #[arg(long, value_name = "T", allow_negative_numbers = true, value_parser = decimal)]
    pub temperature: Option<f64>,
    /// Failed candidates that may be handed back for a repair.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub repairs: Option<u32>,
    /// The wording of prompts.
    #[arg(long, value_enum)]
    pub style: Option<StyleName>,
    /// The longest prompt, tokens.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub prompt_tokens: Option<u32>,
    /// Show the first prompt and what the run may cost, and start nothing.
    #[arg(long, conflicts_with = "follow")]
    pub preview: bool,
}

impl AskingArgs {
    /// What was said, and the defaults for the rest.
    pub fn evolution(&self) -> Evolution {
        let default = Evolution::default();
        Evolution {
            schedule: self
                .steady
                .map_or(default.schedule, |in_flight| Schedule::Steady { in_flight }),
            generations: self.generations.unwrap_or(default.generations),
            faithful: self.faithful,
            temperature: self.temperature.unwrap_or(default.temperature),
            repairs: self.repairs.unwrap_or(default.repairs),
            style: self.style.map_or(default.style, PromptStyle::from),
            prompt_tokens: self.prompt_tokens,
        }
    }
}

/// A family of prompt wordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StyleName {
    /// The published method's sections.
    Standard,
    /// What to try in which order, parallelism first.
    ParallelismFirst,
    /// Task and insights, nothing else.
    TaskInsights,
}

impl From<StyleName> for PromptStyle {
    fn from(name: StyleName) -> Self {
        match name {
            StyleName::Standard => Self::Standard,
            StyleName::ParallelismFirst => Self::ParallelismFirst,
            StyleName::TaskInsights => Self::TaskInsights,
        }
    }
}

/// Arguments of `show`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ShowArgs {
    /// The run.
    pub run: RunId,
    /// Which service.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `context`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ContextArgs {
    /// The run.
    pub run: RunId,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Which service.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `submit`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SubmitArgs {
    /// The run.
    pub run: RunId,
    /// The kernel.
    pub file: PathBuf,
    /// Why it should be faster.
    #[arg(long)]
    pub hypothesis: Option<String>,
    /// The candidate it was made from; the run's best by default.
    #[arg(long)]
    pub parent: Option<CandidateId>,
    /// Who proposes it.
    #[arg(long)]
    pub proposer: Option<String>,
    /// Stay until the verdict is there and print it.
    #[arg(long)]
    pub wait: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Which service.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `recording`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RecordingArgs {
    /// The run.
    pub run: RunId,
    /// Which service.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `replay`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ReplayArgs {
    /// The recording, as `recording` prints it.
    pub file: PathBuf,
    /// The task's folder.
    #[arg(long, value_name = "DIR")]
    pub task: PathBuf,
    /// Take recorded replies for other prompts too: where times are measured, no two runs have
    /// the same prompts.
    #[arg(long)]
    pub lenient: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Address to listen on: a loopback address; port 0 takes any free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Where state lives.
    #[command(flatten)]
    pub folder: DataFolder,
}

fn parse_model(text: &str) -> Result<ModelChoice, String> {
    let (name, weight) = match text.rsplit_once('=') {
        None => (text, 1.0),
        Some((name, weight)) => {
            let number = weight.parse();
            (
                name,
                number.map_err(|_| format!("{weight:?} is not a weight, such as 2.5"))?,
            )
        }
    };
    Ok(ModelChoice {
        name: name.to_owned(),
        weight,
    })
}

fn parse_dollars(text: &str) -> Result<Dollars, String> {
    let number = text.trim_start_matches('$').parse().ok();
    number
        .and_then(Dollars::new)
        .ok_or_else(|| "give an amount of dollars from 0, such as 2.50".to_owned())
}
