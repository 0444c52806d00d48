//! Verbs that serve, evaluate for a service, and manage what it knows: tasks and models.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use worker::host::Isolation;

use super::number::whole;
use super::{DEFAULT_AUTHOR, DEFAULT_LISTEN, DEFAULT_RECHECK_HOURS, DataFolder, ServiceAddress};

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
    /// Hours after which a committed champion is looked at again, on another card where one has
    /// joined; 0 never does.
    #[arg(long, value_name = "HOURS", default_value_t = DEFAULT_RECHECK_HOURS, allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub recheck_hours: u32,
}

/// The variable with the least isolation that a worker accepts.
pub const LEAST_ISOLATION: &str = "KERNELWRIGHT_LEAST_ISOLATION";

fn isolation(name: &str) -> Result<Isolation, String> {
    let mut levels = Isolation::ALL.into_iter();
    let known = || Isolation::ALL.map(Isolation::as_str).join(", ");
    levels
        .find(|level| level.as_str() == name)
        .ok_or_else(|| format!("the levels are {}", known()))
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
    /// Do not work with less isolation than this; `preflight` says what this machine has, and what
    /// it takes for more.
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = Isolation::Standard.as_str(),
        env = LEAST_ISOLATION,
        value_parser = isolation
    )]
    pub least_isolation: Isolation,
    /// Stop when standard input closes: how a service's own worker ends with it.
    #[arg(long, hide = true)]
    pub while_stdin_open: bool,
    /// Where builds and reference answers are kept.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Arguments of `devices`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct DevicesArgs {
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
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>)]
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
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub budget_trials: Option<u32>,
    /// Address to listen on: a loopback address; by default 127.0.0.1:8787, or any free port
    /// where that is taken.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Where state lives.
    #[command(flatten)]
    pub folder: DataFolder,
}
