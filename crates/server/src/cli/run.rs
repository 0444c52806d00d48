//! Commands that start runs, show them and submit candidates to them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use domain::id::{CandidateId, RunId};
use domain::model::Dollars;
use domain::search::{Evolution, Method, ModelChoice, PromptStyle, Schedule};
use domain::tuner::Strategy;

use super::number::{decimal, whole};
use super::sweep::strategies;
use super::{DataFolder, ServiceAddress};
use crate::run_export::RunExportFormat;

/// The search methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// The task's hand-written steps in order, each with a sweep.
    Playbook,
    /// Values of one source's tunables.
    Sweep,
    /// Kernels that others submit, through `submit` or the API.
    External,
    /// Structural edits of the fastest kernels, without a model.
    Transform,
    /// A model that is shown the task and the best code (EvoEngineer-Free).
    Free,
    /// A model that is also shown times, profiles and insights (EvoEngineer-Insight).
    Insight,
    /// A model that breeds from an elite, with insights (EvoEngineer-Full).
    Full,
    /// A model that breeds from the fastest of each technique and bounding resource, with insights.
    Archive,
    /// A model that writes one candidate after another from the best (greedy best-of-N).
    #[value(alias = "best_of")]
    BestOf,
    /// A model that improves several chains step by step; the slower half is dropped every four steps.
    Refine,
    /// A model that is asked for new forms and parameters by four operators (EoH).
    Eoh,
    /// A model that continues programs of islands (FunSearch).
    Funsearch,
    /// A model that is shown the five fastest, from slow to fast (The AI CUDA Engineer).
    #[value(alias = "ai_cuda_engineer")]
    AiCudaEngineer,
    /// A model that is shown as much of the run as validity and progress ask for.
    Adaptive,
}

impl From<MethodName> for Method {
    fn from(name: MethodName) -> Self {
        match name {
            MethodName::Playbook => Self::Playbook,
            MethodName::Sweep => Self::Sweep,
            MethodName::External => Self::External,
            MethodName::Transform => Self::Transform,
            MethodName::Free => Self::Free,
            MethodName::Insight => Self::Insight,
            MethodName::Full => Self::Full,
            MethodName::Archive => Self::Archive,
            MethodName::BestOf => Self::BestOf,
            MethodName::Refine => Self::Refine,
            MethodName::Eoh => Self::Eoh,
            MethodName::Funsearch => Self::Funsearch,
            MethodName::AiCudaEngineer => Self::AiCudaEngineer,
            MethodName::Adaptive => Self::Adaptive,
        }
    }
}

/// Arguments of `run`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RunArgs {
    /// Task folder, which is uploaded first, or the name of a task that the service has.
    pub task: String,
    /// Search method, which decides where candidates come from. By default `adaptive` if `--model` names a
    /// model, else `playbook`.
    #[arg(long, value_enum)]
    pub method: Option<MethodName>,
    /// Name of the run. By default made from task and method.
    #[arg(long)]
    pub name: Option<String>,
    /// Budget: the most candidates besides the baseline. By default 45.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub budget_trials: Option<u32>,
    /// Budget: the longest running time, seconds, pauses not counted. By default no limit.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub budget_seconds: Option<u64>,
    /// Budget: the most device time, seconds. By default no limit.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub budget_device_seconds: Option<u64>,
    /// Budget: the most that device time may cost, US dollars, by the prices that workers told
    /// (`worker join --dollars-per-hour`). By default no limit.
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true, value_parser = parse_dollars)]
    pub budget_device_dollars: Option<Dollars>,
    /// Share of the floor at which the run ends, percent: how close the champion's time has come to the
    /// least in which the device can do the work. By default it goes on.
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub floor_percent: Option<u32>,
    /// Number of trials in a row that bring nothing faster, after which the run ends. By default it goes on.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub trials_without_gain: Option<u32>,
    /// Options of the methods that ask models.
    #[command(flatten)]
    pub asking: AskingArgs,
    /// Seed of the random decisions of the search.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub seed: u64,
    /// File that a sweep starts from: the baseline, or one of the task's playbook. By default the
    /// baseline.
    #[arg(long, value_name = "FILE")]
    pub start: Option<String>,
    /// File with lessons of earlier runs, as `lessons` prints them. Prompts show them beside those of the
    /// task.
    #[arg(long, value_name = "FILE")]
    pub lessons: Option<PathBuf>,
    /// Id of an earlier run whose lessons prompts show, too; latest for the task's newest run that has some, and family
    /// for the newest of all tasks of its operator family. With `--device` those two look at that device's runs. May
    /// be repeated.
    #[arg(long = "lessons-of", value_name = "RUN")]
    pub lessons_of: Vec<Teacher>,
    /// Print what the run will take by this service's ended runs of the same task, method and models, and start
    /// nothing.
    #[arg(long, conflicts_with_all = ["follow", "preview"])]
    pub estimate: bool,
    /// Tag by which people find the run again, of 1 to 40 letters, digits or `-_./:`. May be repeated, up to
    /// 10 times.
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Name of the device that must evaluate the run. By default any device.
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Git repository that the winner is committed to. By default the one that `[promotion]` of the task's
    /// folder names, or else a bare repository in the service's data folder.
    #[arg(long, value_name = "REPO")]
    pub promote_to: Option<PathBuf>,
    /// Branch that a new promotion branch starts from. By default the repository's HEAD.
    #[arg(long, value_name = "BRANCH", requires = "promote_to")]
    pub promote_base: Option<String>,
    /// Path of the winner's file in the repository.
    #[arg(long, value_name = "PATH", requires = "promote_to")]
    pub promote_path: Option<String>,
    /// Region of that file which the winner replaces, marked with `// region: NAME` and
    /// `// endregion`. By default the whole file.
    #[arg(long, value_name = "NAME", requires = "promote_path")]
    pub promote_region: Option<String>,
    /// Key that identifies the request: repeating a request with its key makes no second run. By
    /// default each call makes a new run.
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Show the progress and wait until the run is over.
    #[arg(long)]
    pub follow: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// The earlier run whose lessons another run takes over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Teacher {
    /// This run.
    Run(RunId),
    /// The newest run of the task that has lessons.
    Latest,
    /// The newest run with lessons of the tasks of the task's family.
    Family,
}

impl FromStr for Teacher {
    type Err = <RunId as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "latest" => Ok(Self::Latest),
            "family" => Ok(Self::Family),
            id => id.parse().map(Self::Run),
        }
    }
}

impl RunArgs {
    /// The search method. Of those that ask models, `adaptive` and `best-of` find fast kernels soonest with a simulated
    /// author (docs/measurements/methods.md), and `adaptive` changes its operators where it stalls.
    pub fn search_method(&self) -> Method {
        match self.method {
            Some(method) => method.into(),
            None if self.asking.models.is_empty() => Method::Playbook,
            None => Method::Adaptive,
        }
    }
}

/// Options of the methods that ask models.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(next_help_heading = "Methods that ask models")]
pub struct AskingArgs {
    /// Name of a configured model, or NAME=WEIGHT. May be repeated.
    #[arg(long = "model", value_name = "NAME", value_parser = parse_model)]
    pub models: Vec<ModelChoice>,
    /// Budget: the most tokens, read and written. By default no limit.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub budget_tokens: Option<u64>,
    /// Budget: the most that models may cost, US dollars. By default no limit.
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true, value_parser = parse_dollars)]
    pub budget_dollars: Option<Dollars>,
    /// Number of generations after the first. By default 10. Without effect on best-of, refine,
    /// funsearch and adaptive.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub generations: Option<u32>,
    /// Work without generations, with this many candidates open at a time.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub steady: Option<u32>,
    /// Follow the published method without this program's extensions.
    #[arg(long)]
    pub faithful: bool,
    /// Sampling temperature, from 0 to 2, for models that take one. By default 1.
    #[arg(long, value_name = "T", allow_negative_numbers = true, value_parser = decimal)]
    pub temperature: Option<f64>,
    /// Serial repairs of each failed candidate by its model, 4 at most. By default 2.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub repairs: Option<u32>,
    /// Share of the timed candidates that are configurations of the elite's tunables, percent, 0 for
    /// none. They are no trials. By default 25. The method transform takes it, too.
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub sweep_percent: Option<u32>,
    /// How configurations of tunables are chosen where not all of them are evaluated. By default surrogate. The
    /// methods sweep and transform, which ask no model, take it, too.
    #[arg(long, value_parser = strategies())]
    pub strategy: Option<Strategy>,
    /// Id of an earlier run whose eight fastest configurations are evaluated first, such as a run of a task that
    /// computes one tile. A candidate takes the values of the tunables that it declares.
    #[arg(long, value_name = "RUN")]
    pub configurations_of: Option<RunId>,
    /// Choose model and operator of each candidate by how often they raised the best speedup per dollar,
    /// instead of by weights and in turn.
    #[arg(long)]
    pub bandit: bool,
    /// Least gain that models are expected to bring, percent per dollar. Below it the run ends. By default
    /// it goes on.
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub gain_per_dollar: Option<u32>,
    /// Wording of the prompts.
    #[arg(long, value_enum)]
    pub style: Option<StyleName>,
    /// Length of the longest prompt, tokens. By default what the model's context leaves.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub prompt_tokens: Option<u32>,
    /// Print the first prompt and an upper estimate of the cost, and start nothing.
    #[arg(long, conflicts_with = "follow")]
    pub preview: bool,
}

impl AskingArgs {
    /// The options that were given, with defaults for the others.
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
            sweep_percent: self.sweep_percent.unwrap_or(default.sweep_percent),
            strategy: self.strategy.unwrap_or(default.strategy),
            first_configurations: Vec::new(),
            bandit: self.bandit,
            style: self.style.map_or(default.style, PromptStyle::from),
            prompt_tokens: self.prompt_tokens,
        }
    }
}

/// The wordings of prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StyleName {
    /// The published method's sections.
    Standard,
    /// A fixed order of ideas to try, parallelism first.
    ParallelismFirst,
    /// The task and the insights only.
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
    /// Id of the run.
    pub run: RunId,
    /// Print JSON: the run, its lineage and the winner.
    #[arg(long)]
    pub json: bool,
    /// The service to send the request to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `context`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ContextArgs {
    /// Id of the run.
    pub run: RunId,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Folder to write: prompt, task files, rules, paths and state. It must be empty, missing, or an
    /// earlier pack of this run, which is brought up to date.
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    pub pack: Option<PathBuf>,
    /// The service to send the request to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `mcp`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct McpArgs {
    /// Id of the run that tools use where a call names none.
    #[arg(long)]
    pub run: Option<RunId>,
    /// Name under which submissions are recorded. By default name and version of the agent's
    /// program, as it gives them.
    #[arg(long)]
    pub proposer: Option<String>,
    /// Loopback address on which agents connect over HTTP, at the path /mcp. By default one agent speaks on
    /// standard input and output. Port 0 takes any free port.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// The service to send the requests to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `submit`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SubmitArgs {
    /// Id of the run.
    pub run: RunId,
    /// Kernel file.
    pub file: PathBuf,
    /// The reason why the kernel should be faster.
    #[arg(long)]
    pub hypothesis: Option<String>,
    /// Id of the candidate that it was made from. By default the run's best.
    #[arg(long)]
    pub parent: Option<CandidateId>,
    /// Name of the proposer.
    #[arg(long)]
    pub proposer: Option<String>,
    /// Wait for the verdict and print it.
    #[arg(long)]
    pub wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service to send the request to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `lessons`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct LessonsArgs {
    /// Id of the run.
    pub run: RunId,
    /// The service to send the request to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `recording`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RecordingArgs {
    /// Id of the run.
    pub run: RunId,
    /// The service to send the request to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `export-run`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ExportRunArgs {
    /// Id of the run.
    pub run: RunId,
    /// Form of the file.
    #[arg(long, value_enum, default_value = "html")]
    pub format: RunExportFormat,
    /// File to write. It must not exist. By default `run-ID.EXTENSION` in the working folder.
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service to send the request to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `replay`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ReplayArgs {
    /// Recording file, as `recording` prints it.
    pub file: PathBuf,
    /// Folder of the task.
    #[arg(long, value_name = "DIR")]
    pub task: PathBuf,
    /// Use the recorded replies even where a prompt differs. Measured times are in the prompts, so
    /// on a GPU no two runs have the same ones.
    #[arg(long)]
    pub lenient: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Address to listen on, a loopback address. Port 0 takes any free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// The data folder.
    #[command(flatten)]
    pub folder: DataFolder,
}

pub(super) fn parse_model(text: &str) -> Result<ModelChoice, String> {
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

pub(super) fn parse_dollars(text: &str) -> Result<Dollars, String> {
    let number = text.trim_start_matches('$').parse().ok();
    number
        .and_then(Dollars::new)
        .ok_or_else(|| "give an amount of dollars from 0, such as 2.50".to_owned())
}
