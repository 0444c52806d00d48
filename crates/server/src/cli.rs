//! The command line's grammar. Says what can be asked, and knows nothing of how it is done.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use domain::id::{CandidateId, RunId};
use domain::search::Method;

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
    Run(RunArgs),
    /// Show a run: its lineage, its winner and where that went.
    Show(ShowArgs),
    /// Evaluate one file, without a service.
    Eval(EvalArgs),
    /// Print what a run tells whoever proposes its next kernel.
    Context(ContextArgs),
    /// Propose a kernel to a run.
    Submit(SubmitArgs),
    /// Work on a task folder.
    #[command(subcommand)]
    Task(TaskCommand),
    /// Look at the language models that runs may name.
    #[command(subcommand)]
    Model(ModelCommand),
    /// Say what this machine can do, and what it lacks.
    Preflight(PreflightArgs),
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
    /// Where state lives.
    #[command(flatten)]
    pub folder: DataFolder,
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
}

impl From<MethodName> for Method {
    fn from(name: MethodName) -> Self {
        match name {
            MethodName::Playbook => Self::Playbook,
            MethodName::Sweep => Self::Sweep,
            MethodName::External => Self::External,
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
    /// Print the whole evaluation as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Where builds and reference answers are kept.
    #[command(flatten)]
    pub folder: DataFolder,
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
    /// Also evaluate the baseline, the playbook and the broken variants, and hold each against
    /// the verdict it must get.
    #[arg(long)]
    pub evaluate: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
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
    /// Which body: compile, run, verify or probe.
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
