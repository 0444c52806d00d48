//! The command line's grammar. Says what can be asked, and knows nothing of how it is done.

mod device;
mod kernel;
mod number;
mod run;
mod service;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use self::device::{GpuCheckArgs, PreflightArgs, ScoreModelArgs};
pub use self::kernel::{
    BenchArgs, BuildArgs, EvalArgs, EvaluateArgs, EvidenceArgs, EvidenceCommand, FetchArgs,
    IterateArgs, KernelArgs, SummaryArgs,
};
pub use self::run::{
    AskingArgs, ContextArgs, MethodName, RecordingArgs, ReplayArgs, RunArgs, ShowArgs, StyleName,
    SubmitArgs,
};
pub use self::service::{
    CheckArgs, DemoArgs, DevicesArgs, JoinArgs, LEAST_ISOLATION, ModelCheckArgs, ModelCommand,
    ModelListArgs, ModelsFile, ServeArgs, TaskCommand, WorkerCommand,
};

/// Where state lives unless `--data` says otherwise.
pub const DEFAULT_DATA: &str = ".kernelwright";
/// Where the service listens unless `--listen` says otherwise.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8787";

/// The e-mail address in commits unless `--author-email` says otherwise.
pub const DEFAULT_AUTHOR: &str = "kernelwright@localhost";
/// How long a committed champion is left alone, hours.
pub const DEFAULT_RECHECK_HOURS: u32 = 24;

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
    /// Show how a service's devices fare, and how often their comparisons are wrong.
    Devices(DevicesArgs),
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

/// Arguments of `role`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RoleArgs {
    /// Which body: compile, disassemble, run, trace, verify, time or probe.
    pub name: String,
}
