//! The command line's grammar: commands, arguments, defaults and their help texts. The module
//! `commands` carries them out.

mod access;
mod database;
mod device;
mod import;
mod init;
mod kernel;
mod number;
mod pull_request;
mod run;
mod runs;
mod service;
mod steer;
mod sweep;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub use self::access::{TokenCommand, TokenCreateArgs, TokenListArgs, TokenRevokeArgs};
pub use self::database::{
    DatabaseBackupArgs, DatabaseCommand, DatabaseCopyArgs, DatabaseMigrateArgs,
};
pub use self::device::{GpuCheckArgs, PreflightArgs, ScoreModelArgs};
pub use self::import::{ImportArgs, ImportFormat};
pub use self::init::{Extents, InitArgs};
pub use self::kernel::{
    BenchArgs, BuildArgs, EvalArgs, EvaluateArgs, EvidenceArgs, EvidenceCommand, ExportArgs,
    ExportForm, FetchArgs, IterateArgs, KernelArgs, OtherKernel, SummaryArgs,
};
pub use self::pull_request::PullRequestArgs;
pub use self::run::{
    AskingArgs, ContextArgs, ExportRunArgs, LessonsArgs, McpArgs, MethodName, RecordingArgs,
    ReplayArgs, RunArgs, ShowArgs, StyleName, SubmitArgs, Teacher,
};
pub use self::runs::{RunsChangeArgs, RunsCommand, RunsListArgs, RunsTagArgs};
pub use self::service::{
    CheckArgs, DemoArgs, DevicesArgs, EvidencePlace, JoinArgs, LEAST_ISOLATION, ModelCheckArgs,
    ModelCommand, ModelListArgs, ModelsFile, PreemptionNotice, ServeArgs, StorageArgs, TaskCommand,
    TaskListArgs, TaskShowArgs, TaskUploadArgs, WebhookCommand, WebhookListArgs, WorkerCommand,
    WorkerDrainArgs, WorkerListArgs,
};
pub use self::steer::{Limits, SteerCommand, SteeredRun};
pub use self::sweep::SweepArgs;

/// Default of `--data`: a folder beside the files that a person works on.
pub const DEFAULT_DATA: &str = ".kernelwright";
/// Default of `--listen`.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8787";

/// Environment variable with the default of `--server`.
pub const SERVER_VARIABLE: &str = "KERNELWRIGHT_SERVER";
/// Environment variable with the default of `--profile`.
pub const PROFILE_VARIABLE: &str = "KERNELWRIGHT_PROFILE";

/// Default of `--author-email`.
pub const DEFAULT_AUTHOR: &str = "kernelwright@localhost";
/// Default of `--recheck-hours`.
pub const DEFAULT_RECHECK_HOURS: u32 = 24;

const EXIT_CODES: &str = "Exit codes:
  0  done; the candidate was accepted
  1  the candidate was not accepted, or the run ended without a committed winner
  2  the input is wrong: the message says where and how to fix it
  3  the machine, the service or the network failed: nothing was learned, try again";

/// Optimises CUDA kernels by evolutionary search, and verifies every candidate before it is timed.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(name = "kernelwright", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
    /// Write the log as JSON, one object per line.
    #[arg(long, global = true)]
    pub log_json: bool,
}

/// Every command.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// Serve the HTTP API and the dashboard.
    Serve(ServeArgs),
    /// Evaluate candidates for a service, or list and drain its workers.
    #[command(subcommand)]
    Worker(WorkerCommand),
    /// Create, list or revoke the access tokens of a service.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Bring a database up to date, or copy it from SQLite to Postgres.
    #[command(subcommand)]
    Database(DatabaseCommand),
    /// Show what takes the room of a data folder, of the database's tables and of the bucket of the evidence, with
    /// the limits
    Storage(StorageArgs),
    /// List the events that a service could not deliver to the endpoints of its webhooks.
    #[command(subcommand)]
    Webhook(WebhookCommand),
    /// Show the health of a service's devices and the error rates of their comparisons.
    Devices(DevicesArgs),
    /// Start a run, which is one search for a faster kernel, on a service.
    Run(Box<RunArgs>),
    /// List the runs of a service, or pause, resume, finish or cancel one.
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Show a run: its state, its candidates as a tree, its winner and the winner's commit.
    Show(ShowArgs),
    /// Give a run directions while it goes on: hints, pins, bans, limits, models, forks.
    #[command(subcommand)]
    Steer(SteerCommand),
    /// Evaluate one kernel file on this machine, without a service.
    Eval(EvalArgs),
    /// Show, repeat or fetch the evidence bundle of an evaluation.
    #[command(subcommand)]
    Evidence(EvidenceCommand),
    /// Compile one kernel file and show its registers, spills and shared memory.
    Build(BuildArgs),
    /// Check that one kernel file computes the right answer, without timing it.
    Test(KernelArgs),
    /// Time one kernel file beside the task's baseline.
    Bench(BenchArgs),
    /// Run the four compute-sanitizer tools (memcheck, racecheck, initcheck, synccheck) on one
    /// kernel file.
    Sanitize(KernelArgs),
    /// Profile one kernel file, by launch and by source line.
    Profile(KernelArgs),
    /// Evaluate the kernel file of a git checkout and commit it; a step that is no improvement is
    /// reverted by a second commit.
    Evaluate(EvaluateArgs),
    /// Show the steps that `evaluate` and `iterate` recorded for a kernel file.
    Summary(SummaryArgs),
    /// Build, test, time, profile and evaluate one kernel file in this order, with a report.
    Iterate(IterateArgs),
    /// Confirm one kernel file and write it in a form that another program builds or loads.
    Export(ExportArgs),
    /// Push a winner's branch and open a pull request with its evidence on GitHub, GitLab or Gitea.
    PullRequest(Box<PullRequestArgs>),
    /// Write the records of a run to a file: JSON lines, comma-separated values, an HTML report or a
    /// tar archive.
    ExportRun(ExportRunArgs),
    /// Print the prompt from which a run's next kernel can be written, or write it with the task's
    /// files as a folder for an agent.
    Context(ContextArgs),
    /// Serve a run to an agent over the Model Context Protocol, on standard input and output.
    Mcp(McpArgs),
    /// Submit a kernel file to a run as a candidate.
    Submit(SubmitArgs),
    /// Print the lessons of a run: the thoughts that helped and those that did not. `run --lessons` gives
    /// the text to another run.
    Lessons(LessonsArgs),
    /// Print all model calls of a run as a recording for `replay`.
    Recording(RecordingArgs),
    /// Repeat a recorded run, with the recorded replies in the place of the models.
    Replay(ReplayArgs),
    /// Write, check or upload a task folder, or show the tasks of a service.
    #[command(subcommand, visible_alias = "tasks")]
    Task(TaskCommand),
    /// List or check the configured language models.
    #[command(subcommand)]
    Model(ModelCommand),
    /// Search a recorded space for its fastest configuration, without a device.
    Sweep(SweepArgs),
    /// Compare the emulated device's modelled times with times that Kernel Tuner measured.
    ScoreModel(Box<ScoreModelArgs>),
    /// Check that this machine can evaluate kernels, and say how to fix what is missing.
    Preflight(PreflightArgs),
    /// Compare this machine's GPU with the emulated device on the corpus and the tasks, and
    /// measure properties of the GPU.
    GpuCheck(GpuCheckArgs),
    /// Start a service with a local worker, run one task to its end and show the winner.
    Demo(DemoArgs),
    /// Print a script that completes commands and options in a shell.
    Completions(CompletionsArgs),
}

/// The data folder.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct DataFolder {
    /// Folder of the database, builds, reference answers and evidence. Commands that keep state
    /// make it where it is missing.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA, env = "KERNELWRIGHT_DATA")]
    pub data: PathBuf,
}

/// The database of a service.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct DatabaseUrl {
    /// Postgres database to use instead of SQLite in the data folder, such as
    /// `postgres://USER:PASSWORD@HOST/NAME`.
    #[arg(
        long,
        value_name = "URL",
        env = "KERNELWRIGHT_DATABASE",
        hide_env_values = true
    )]
    pub database: Option<String>,
}

/// The service that a command talks to.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ServiceAddress {
    /// Address of the service. By default that of the service that runs in the data folder, else that
    /// of the default profile, else `http://127.0.0.1:8787`.
    #[arg(long, value_name = "URL", env = SERVER_VARIABLE)]
    pub server: Option<String>,
    /// Profile of the configuration file that names the service, its token file and its authority.
    #[arg(
        long,
        value_name = "NAME",
        env = PROFILE_VARIABLE
    )]
    pub profile: Option<String>,
    /// The token and certificate with which the command identifies.
    #[command(flatten)]
    pub credentials: CredentialFiles,
    /// The data folder, which names the address of its running service.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Files with which a command identifies to a service, and the service to it.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct CredentialFiles {
    /// File with the token for the service. By default the token in `KERNELWRIGHT_TOKEN`, if there is
    /// one.
    #[arg(long, value_name = "FILE", env = "KERNELWRIGHT_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate, in PEM, of the authority that signed the service's certificate. By default the
    /// system's authorities.
    #[arg(long, value_name = "FILE", env = "KERNELWRIGHT_CA")]
    pub ca: Option<PathBuf>,
}

/// Arguments of `completions`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: Shell,
}
