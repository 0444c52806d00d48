//! Commands that run a service or a worker, and that check tasks and models.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, value_parser};
use domain::model::Dollars;
use worker::host::Isolation;

use super::number::{decimal, whole};
use super::run::parse_dollars;
use super::{
    CredentialFiles, DEFAULT_AUTHOR, DEFAULT_LISTEN, DEFAULT_RECHECK_HOURS, DataFolder,
    DatabaseUrl, ImportArgs, InitArgs, ServiceAddress,
};

/// Arguments of `serve`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ServeArgs {
    /// Address to listen on. Any but a loopback address needs a token (`token create`), and TLS or a
    /// proxy. Port 0 takes any free port.
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT_LISTEN)]
    pub listen: SocketAddr,
    /// Certificate of the service with those of its authorities, in PEM. Read again when the file
    /// changes.
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        env = "KERNELWRIGHT_TLS_CERT"
    )]
    pub tls_cert: Option<PathBuf>,
    /// Key of the certificate, in PEM.
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_cert",
        env = "KERNELWRIGHT_TLS_KEY"
    )]
    pub tls_key: Option<PathBuf>,
    /// A reverse proxy in front terminates TLS and passes the header `Host` on. Nobody else may reach
    /// the address.
    #[arg(long, conflicts_with = "tls_cert")]
    pub behind_proxy: bool,
    /// The models file and the data folder.
    #[command(flatten)]
    pub models: ModelsFile,
    /// File that names the endpoints of webhooks. By default webhooks.toml in the data folder.
    #[arg(long, value_name = "FILE", env = "KERNELWRIGHT_WEBHOOKS")]
    pub webhooks: Option<PathBuf>,
    /// File with the settings of single sign-on by `OpenID` Connect. By default sso.toml in the data folder, if it is
    /// there.
    #[arg(long, value_name = "FILE", env = "KERNELWRIGHT_SSO")]
    pub sso: Option<PathBuf>,
    /// The database.
    #[command(flatten)]
    pub database: DatabaseUrl,
    /// Folder of the evidence, without a bucket, and of the default repository of winners. Services that share a
    /// Postgres database share it too. By default the data folder.
    #[arg(long, value_name = "DIR", env = "KERNELWRIGHT_SHARED")]
    pub shared: Option<PathBuf>,
    /// The bundles of evidence.
    #[command(flatten)]
    pub evidence: EvidencePlace,
    /// Address of an OpenTelemetry collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`. It gets a
    /// trace of each candidate. Headers come from `OTEL_EXPORTER_OTLP_HEADERS`.
    #[arg(long, value_name = "URL", env = crate::traces::ENDPOINT)]
    pub otlp_endpoint: Option<String>,
    /// Also start a worker process on this machine.
    #[arg(long)]
    pub with_local_worker: bool,
    /// E-mail address of the author in commits of winners.
    #[arg(long, value_name = "EMAIL", default_value = DEFAULT_AUTHOR, env = "KERNELWRIGHT_AUTHOR_EMAIL")]
    pub author_email: String,
    /// Hours after which a committed champion is evaluated again, on another device where there is
    /// one. 0 never does.
    #[arg(long, value_name = "HOURS", default_value_t = DEFAULT_RECHECK_HOURS, allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub recheck_hours: u32,
    /// The most devices that evaluate for the runs of one person at a time. By default no limit.
    #[arg(long, value_name = "N", env = "KERNELWRIGHT_DEVICES_PER_PERSON", value_parser = value_parser!(u32).range(1..))]
    pub devices_per_person: Option<u32>,
    /// Days after the end of a run for which its prompts and replies are kept. Everything else of the run stays. By
    /// default they are kept for ever.
    #[arg(long, value_name = "DAYS", env = "KERNELWRIGHT_KEEP_CONVERSATIONS_DAYS", value_parser = value_parser!(u32).range(1..))]
    pub keep_conversations_days: Option<u32>,
}

/// The place and the limit of the bundles of evidence.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct EvidencePlace {
    /// Bucket for the evidence, in place of the folder `evidence`: `s3://BUCKET/PREFIX` or
    /// `gs://BUCKET/PREFIX`. Credentials, region and address come from the variables AWS_* or GOOGLE_*, or from
    /// the machine's role.
    #[arg(long, value_name = "URL", env = "KERNELWRIGHT_EVIDENCE_BUCKET")]
    pub evidence_bucket: Option<String>,
    /// GiB that all bundles of evidence may take; the oldest are removed first. By default 2 in a folder and no
    /// limit in a bucket.
    #[arg(long, value_name = "GIB", env = "KERNELWRIGHT_EVIDENCE_GIB", value_parser = value_parser!(u32).range(1..))]
    pub evidence_gib: Option<u32>,
}

/// Arguments of `storage`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct StorageArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The bucket, if there is one.
    #[command(flatten)]
    pub evidence: EvidencePlace,
    /// The database.
    #[command(flatten)]
    pub database: DatabaseUrl,
    /// The data folder.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Environment variable with the default of `--least-isolation`.
pub const LEAST_ISOLATION: &str = "KERNELWRIGHT_LEAST_ISOLATION";

fn isolation(name: &str) -> Result<Isolation, String> {
    let mut levels = Isolation::ALL.into_iter();
    let known = || Isolation::ALL.map(Isolation::as_str).join(", ");
    levels
        .find(|level| level.as_str() == name)
        .ok_or_else(|| format!("the levels are {}", known()))
}

/// Parses a time in minutes.
fn minutes(text: &str) -> Result<Duration, String> {
    let minutes = decimal(text).ok().filter(|&minutes| minutes > 0.0);
    minutes
        .and_then(|minutes| Duration::try_from_secs_f64(60.0 * minutes).ok())
        .ok_or_else(|| "give a number of minutes above 0, such as 10".to_owned())
}

/// Commands of a worker.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum WorkerCommand {
    /// Evaluate candidates for a service until stopped.
    Join(JoinArgs),
    /// List the workers that a service got requests from in the last hour.
    List(WorkerListArgs),
    /// List the hours of each worker's device by month, with their price.
    Hours(WorkerListArgs),
    /// Have a worker take no further job, and leave.
    Drain(WorkerDrainArgs),
}

/// Arguments of `worker list` and `worker hours`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct WorkerListArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `worker drain`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct WorkerDrainArgs {
    /// Id of the worker, or its name, which drains every worker of this name.
    pub worker: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `worker join`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct JoinArgs {
    /// Address of the service, such as `http://127.0.0.1:8787`.
    pub url: String,
    /// The worker's token, and the service's authority.
    #[command(flatten)]
    pub credentials: CredentialFiles,
    /// Name of the worker. By default the host's name.
    #[arg(long)]
    pub name: Option<String>,
    /// Least isolation of the processes that run candidates. The worker does not start where the
    /// machine offers less; `preflight` says what it offers and how to get more.
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = Isolation::Standard.as_str(),
        env = LEAST_ISOLATION,
        value_parser = isolation
    )]
    pub least_isolation: Isolation,
    /// Price of an hour of this machine, US dollars. The service adds up what the hours of the worker cost.
    #[arg(long, value_name = "DOLLARS", env = "KERNELWRIGHT_DOLLARS_PER_HOUR", allow_negative_numbers = true, value_parser = parse_dollars)]
    pub dollars_per_hour: Option<Dollars>,
    /// Minutes without a job after which the worker leaves the service and ends, also while the service cannot be
    /// reached. By default it stays.
    #[arg(long, value_name = "MINUTES", env = "KERNELWRIGHT_IDLE_MINUTES", allow_negative_numbers = true, value_parser = minutes)]
    pub idle_minutes: Option<Duration>,
    /// Shell command that the worker runs when it has left because of `--idle-minutes`, such as one that stops
    /// the machine.
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "idle_minutes",
        env = "KERNELWRIGHT_IDLE_COMMAND"
    )]
    pub idle_command: Option<String>,
    /// Whose notice of a machine that is about to be taken is heeded: the job under way goes back to the queue.
    #[arg(
        long,
        value_name = "CLOUD",
        value_enum,
        env = "KERNELWRIGHT_PREEMPTION_NOTICE"
    )]
    pub preemption_notice: Option<PreemptionNotice>,
    /// Stop when standard input closes. A service's own worker ends with the service in this way.
    #[arg(long, hide = true)]
    pub while_stdin_open: bool,
    /// The data folder, for builds and reference answers.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// A cloud that gives notice of machines that it is about to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PreemptionNotice {
    /// Google Compute Engine.
    Gce,
}

/// Commands for webhooks.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum WebhookCommand {
    /// List the events that their endpoints did not take: those that are tried again, and those that
    /// were given up in the last 30 days.
    List(WebhookListArgs),
}

/// Arguments of `webhook list`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct WebhookListArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service to send the request to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `devices`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct DevicesArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Commands for tasks: folders on this machine, and the tasks of a service.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum TaskCommand {
    /// Write a task folder from an existing .cu file, and say what was guessed.
    Init(Box<InitArgs>),
    /// Write task folders from problems of other projects, and say of each why it was refused.
    Import(ImportArgs),
    /// Check that a task folder can be used for runs, and name every defect with its place.
    Check(CheckArgs),
    /// List the tasks of a service.
    List(TaskListArgs),
    /// Show a task of a service: its versions, and the runs that use each.
    Show(TaskShowArgs),
    /// Upload a task folder to a service.
    Upload(TaskUploadArgs),
}

/// Arguments of `task list`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct TaskListArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service to send the request to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `task show`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct TaskShowArgs {
    /// Name of the task.
    pub name: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service to send the request to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `task upload`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct TaskUploadArgs {
    /// Folder of the task.
    pub dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service to send the request to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `task check`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct CheckArgs {
    /// Folder of the task.
    pub dir: PathBuf,
    /// Only read the folder, without compiling or running a kernel.
    #[arg(long, conflicts_with = "evaluate")]
    pub read_only: bool,
    /// Also evaluate the playbook and the broken variants, and compare each verdict with the one
    /// that the file expects.
    #[arg(long)]
    pub evaluate: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Seed of the inputs: the same seed gives the same inputs. By default each call draws fresh
    /// inputs.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub seed: Option<u64>,
    /// The data folder, for builds and reference answers.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// The models file.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ModelsFile {
    /// File that configures the models. By default models.toml in the data folder, else in the
    /// current folder.
    #[arg(long, value_name = "FILE", env = "KERNELWRIGHT_MODELS")]
    pub models: Option<PathBuf>,
    /// The data folder.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Commands for models.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum ModelCommand {
    /// List the configured models with their prices and limits.
    List(ModelListArgs),
    /// Send one short request to a model, and show its reply, speed and price.
    Check(ModelCheckArgs),
}

/// Arguments of `model list`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ModelListArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The models file and the data folder.
    #[command(flatten)]
    pub file: ModelsFile,
}

/// Arguments of `model check`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ModelCheckArgs {
    /// Name of the model in the models file.
    pub name: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The models file and the data folder.
    #[command(flatten)]
    pub file: ModelsFile,
}

/// Arguments of `demo`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct DemoArgs {
    /// Folder of the task.
    #[arg(long, value_name = "DIR", default_value = "kernels/attention-f16")]
    pub task: PathBuf,
    /// Start another run although one has finished or is in progress.
    #[arg(long)]
    pub new: bool,
    /// Budget: the most candidates besides the baseline. By default 45.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub budget_trials: Option<u32>,
    /// Address to listen on, a loopback address. By default 127.0.0.1:8787, or any free port where
    /// that one is taken.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// The data folder.
    #[command(flatten)]
    pub folder: DataFolder,
}
