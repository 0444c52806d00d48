//! The command line's grammar. Says what can be asked, and knows nothing of how it is done.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::score::kernel::Argument;
use clap::{Args, Parser, Subcommand, ValueEnum};
use domain::id::{CandidateId, RunId};
use domain::model::Dollars;
use domain::search::{Evolution, Method, ModelChoice, PromptStyle, Schedule};

use crate::gpu_check::Part;

/// Where state lives unless `--data` says otherwise.
pub const DEFAULT_DATA: &str = ".kernelwright";
/// Where the service listens unless `--listen` says otherwise.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8787";

/// The e-mail address in commits unless `--author-email` says otherwise.
pub const DEFAULT_AUTHOR: &str = "kernelwright@localhost";

const EXIT_CODES: &str = "Exit codes:
  0  done; the candidate was accepted
  1  the candidate, or the run, did not reach an accepted verdict
  2  bad input: the message says where and how to fix it
  3  trouble of the infrastructure: nothing was learned, try again";

/// Optimises CUDA kernels by evolution, and proves what it claims.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(name = "kernelwright", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Write the log as JSON, one object per line.
    #[arg(long, global = true)]
    pub log_json: bool,
}

/// Every verb.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// Serve the HTTP API and the dashboard.
    Serve(ServeArgs),
    /// Evaluate for a service.
    #[command(subcommand)]
    Worker(WorkerCommand),
    /// Launch a run on a service.
    Run(Box<RunArgs>),
    /// Show a run: its lineage, its winner and where that went.
    Show(ShowArgs),
    /// Evaluate one file, without a service.
    Eval(EvalArgs),
    /// Look at what a verdict rests on, or repeat it.
    #[command(subcommand)]
    Evidence(EvidenceCommand),
    /// Compile one file and show what it takes.
    Build(BuildArgs),
    /// Find out whether one file is right, without timing it.
    Test(KernelArgs),
    /// Time one file beside the task's baseline.
    Bench(BenchArgs),
    /// Let the four sanitizers look at one file.
    Sanitize(KernelArgs),
    /// Show where one file's time goes, to the source line.
    Profile(KernelArgs),
    /// Judge the file of a checkout; commit it, or commit it and take it back.
    Evaluate(EvaluateArgs),
    /// Show the steps that `evaluate` recorded for a file.
    Summary(SummaryArgs),
    /// Do one whole step: all of these in order, with a report.
    Iterate(IterateArgs),
    /// Print what a run tells whoever proposes its next kernel.
    Context(ContextArgs),
    /// Propose a kernel to a run.
    Submit(SubmitArgs),
    /// Print a run's calls of models as a recording.
    Recording(RecordingArgs),
    /// Run a recording again, without a network and without a model.
    Replay(ReplayArgs),
    /// Work on a task folder.
    #[command(subcommand)]
    Task(TaskCommand),
    /// Look at the language models that runs may name.
    #[command(subcommand)]
    Model(ModelCommand),
    /// Hold the emulated device's time model against times that Kernel Tuner recorded.
    ScoreModel(Box<ScoreModelArgs>),
    /// Say what this machine can do, and what it lacks.
    Preflight(PreflightArgs),
    /// Run the corpus, the tasks and the open questions on this machine's GPU.
    GpuCheck(GpuCheckArgs),
    /// Serve with a local worker, run a task to its end and show the winner.
    Demo(DemoArgs),
    /// Body of a supervised child process.
    #[command(hide = true)]
    Role(RoleArgs),
}

/// Where the service keeps its state.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct DataFolder {
    /// Folder that holds the state; made when missing.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA, env = "KERNELWRIGHT_DATA")]
    pub data: PathBuf,
}

/// Which service to talk to.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ServiceAddress {
    /// The service's address; by default that of the service in the data folder.
    #[arg(long, value_name = "URL", env = "KERNELWRIGHT_SERVER")]
    pub server: Option<String>,
    /// Where to look for a running service.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Arguments of `serve`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ServeArgs {
    /// Address to listen on: a loopback address; port 0 takes any free port.
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT_LISTEN)]
    pub listen: SocketAddr,
    /// Where state lives, and which models runs may ask.
    #[command(flatten)]
    pub models: ModelsFile,
    /// Also start a worker on this machine, as a process of its own.
    #[arg(long)]
    pub with_local_worker: bool,
    /// Address in the commits that winners become.
    #[arg(long, value_name = "EMAIL", default_value = DEFAULT_AUTHOR, env = "KERNELWRIGHT_AUTHOR_EMAIL")]
    pub author_email: String,
}

/// Verbs of a worker.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum WorkerCommand {
    /// Take jobs from a service until stopped.
    Join(JoinArgs),
}

/// Arguments of `worker join`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct JoinArgs {
    /// The service's address, such as `http://127.0.0.1:8787`.
    pub url: String,
    /// Name shown on the fleet page; the host's name by default.
    #[arg(long)]
    pub name: Option<String>,
    /// Stop when standard input closes: how a service's own worker ends with it.
    #[arg(long, hide = true)]
    pub while_stdin_open: bool,
    /// Where builds and reference answers are kept.
    #[command(flatten)]
    pub folder: DataFolder,
}

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
    #[arg(long, value_name = "N")]
    pub budget_trials: Option<u32>,
    /// Running time in seconds at most, pauses not counted.
    #[arg(long, value_name = "SECONDS")]
    pub budget_seconds: Option<u64>,
    /// Seconds that devices may spend on the run's candidates.
    #[arg(long, value_name = "SECONDS")]
    pub budget_device_seconds: Option<u64>,
    /// How models are asked.
    #[command(flatten)]
    pub asking: AskingArgs,
    /// Seed of the search's random decisions.
    #[arg(long, default_value_t = 0)]
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
    #[arg(long, value_name = "N")]
    pub budget_tokens: Option<u64>,
    /// What models may cost, dollars.
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars)]
    pub budget_dollars: Option<Dollars>,
    /// Generations after the first.
    #[arg(long, value_name = "N")]
    pub generations: Option<u32>,
    /// Keep this many candidates open instead of working in generations.
    #[arg(long, value_name = "N")]
    pub steady: Option<u32>,
    /// Follow the published method to the letter.
    #[arg(long)]
    pub faithful: bool,
    /// Sampling temperature, for models that take one.
    #[arg(long, value_name = "T")]
    pub temperature: Option<f64>,
    /// Failed candidates that may be handed back for a repair.
    #[arg(long, value_name = "N")]
    pub repairs: Option<u32>,
    /// The wording of prompts.
    #[arg(long, value_enum)]
    pub style: Option<StyleName>,
    /// The longest prompt, tokens.
    #[arg(long, value_name = "N")]
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

/// Arguments of `eval`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct EvalArgs {
    /// The candidate: one .cu file with its launch plan in the head comment.
    pub file: PathBuf,
    /// The task's folder.
    #[arg(long, value_name = "DIR")]
    pub task: PathBuf,
    /// Sets a tunable, such as `KV_SPLITS=16`; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub settings: Vec<(String, i64)>,
    /// Repeat the inputs of an earlier evaluation with this seed; fresh inputs by default.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Ask all that a promotion asks: held-out cases and a second schedule.
    #[arg(long)]
    pub confirm: bool,
    /// Confirm so many times, each with inputs and shapes of its own, until a verdict is not
    /// accepted: what a champion is asked every night.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "confirm", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Print the whole evaluation as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Where builds and reference answers are kept.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Verbs of the evidence.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum EvidenceCommand {
    /// Show a bundle, after checking every byte of it.
    Show(EvidenceArgs),
    /// Evaluate again what a bundle holds, and compare the verdicts.
    Replay(EvidenceArgs),
}

/// Arguments of `evidence show` and `evidence replay`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct EvidenceArgs {
    /// The bundle's digest, or its first digits.
    pub digest: String,
    /// Print one line of JSON instead of text (docs/verbs.md).
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
    #[arg(long)]
    pub seed: Option<u64>,
    /// Print one line of JSON instead of text (docs/verbs.md).
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
    #[arg(long, value_name = "FACTOR")]
    pub expect: Option<f64>,
}

/// Arguments of `summary`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SummaryArgs {
    /// The kernel, in a git checkout.
    pub file: PathBuf,
    /// Print one line of JSON instead of text (docs/verbs.md).
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
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub sanitize_every: u32,
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

/// Verbs of a task folder.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum TaskCommand {
    /// Read a task folder and name every defect with its place.
    Check(CheckArgs),
}

/// Arguments of `task check`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct CheckArgs {
    /// The task's folder.
    pub dir: PathBuf,
    /// Only read the folder: compile and run nothing.
    #[arg(long, conflicts_with = "evaluate")]
    pub read_only: bool,
    /// Also evaluate the playbook and the broken variants, and hold each against the verdict it
    /// must get.
    #[arg(long)]
    pub evaluate: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Draws the same inputs each time.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Where builds and reference answers are kept.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Which file names the models.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ModelsFile {
    /// The file that names the models; by default models.toml in the data folder, else in the
    /// current one.
    #[arg(long, value_name = "FILE", env = "KERNELWRIGHT_MODELS")]
    pub models: Option<PathBuf>,
    /// Where state lives.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Verbs of the models.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum ModelCommand {
    /// List the models with their prices and limits.
    List(ModelListArgs),
    /// Ask a model for one line: whether it answers, how fast and at what price.
    Check(ModelCheckArgs),
}

/// Arguments of `model list`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ModelListArgs {
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Where the models stand.
    #[command(flatten)]
    pub file: ModelsFile,
}

/// Arguments of `model check`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ModelCheckArgs {
    /// The model's name in the file.
    pub name: String,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Where the models stand.
    #[command(flatten)]
    pub file: ModelsFile,
}

/// Arguments of `score-model`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ScoreModelArgs {
    /// The cache file of a tuning session.
    pub cache: PathBuf,
    /// The kernel's source, as it was tuned.
    #[arg(long, value_name = "FILE")]
    pub source: PathBuf,
    /// The kernel's arguments in order: a buffer of random values such as `f32*4096*4096`, or a
    /// number such as `i32=4096`.
    #[arg(long = "arg", value_name = "SPEC", required = true)]
    pub arguments: Vec<Argument>,
    /// The problem's extents, where the cache does not say.
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub problem: Vec<u64>,
    /// The tunables of the block's extents.
    #[arg(
        long,
        value_name = "X,Y,Z",
        value_delimiter = ',',
        num_args = 3,
        default_value = "block_size_x,block_size_y,block_size_z"
    )]
    pub block: Vec<String>,
    /// Tunables whose product divides the problem's first extent; the block's by default.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub grid_div_x: Option<Vec<String>>,
    /// The same for the second extent.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub grid_div_y: Option<Vec<String>>,
    /// The same for the third extent.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub grid_div_z: Option<Vec<String>>,
    /// The device to model, such as `a4000`; by default the one that the cache names.
    #[arg(long, value_name = "ID")]
    pub device: Option<String>,
    /// Blocks of each launch that run, the rest being taken to count the same.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub blocks: u64,
    /// Try only the first configurations that have a time.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Print JSON with every configuration instead of text.
    #[arg(long)]
    pub json: bool,
    /// Where builds are kept.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Arguments of `gpu-check`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct GpuCheckArgs {
    /// Folder for the reports and everything made in passing.
    #[arg(long, value_name = "DIR", default_value = "gpu-check")]
    pub out: PathBuf,
    /// Prebuilt images, tasks and the emulated driver; by default the pack this program lies in.
    #[arg(long, value_name = "DIR")]
    pub pack: Option<PathBuf>,
    /// Make a pack instead: this program and everything it needs, for a machine without compiler
    /// and network.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["pack", "emulated", "parts"])]
    pub prepare: Option<PathBuf>,
    /// Compare the emulated driver with itself; no GPU is needed.
    #[arg(long)]
    pub emulated: bool,
    /// Only cases, kernels and questions whose names contain this; may be given several times.
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// A device that the pack gets machine code for, such as `sm_89`; by default those of Ampere,
    /// Ada and Hopper.
    #[arg(
        long = "architecture",
        value_name = "ARCHITECTURE",
        requires = "prepare"
    )]
    pub architectures: Vec<String>,
    /// Only these parts; all by default.
    #[arg(long = "part", value_enum, value_name = "PART")]
    pub parts: Vec<Part>,
    /// The folder of the task folders, where no pack has them.
    #[arg(long, value_name = "DIR", default_value = "kernels")]
    pub tasks: PathBuf,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `preflight`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PreflightArgs {
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Where builds and reference answers are kept.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Arguments of `demo`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct DemoArgs {
    /// The task's folder.
    #[arg(long, value_name = "DIR", default_value = "kernels/attention-f16")]
    pub task: PathBuf,
    /// Start another run even though one is finished or under way.
    #[arg(long)]
    pub new: bool,
    /// Candidates to try at most.
    #[arg(long, value_name = "N")]
    pub budget_trials: Option<u32>,
    /// Address to listen on: a loopback address; by default 127.0.0.1:8787, or any free port
    /// where that is taken.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Where state lives.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Arguments of `role`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RoleArgs {
    /// Which body: compile, disassemble, run, trace, verify, time or probe.
    pub name: String,
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
        .ok_or_else(|| format!("{text:?} is no amount of dollars, such as 2.50"))
}
