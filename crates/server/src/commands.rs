//! The commands, one module each.

mod address;
mod check;
mod completions;
mod database;
mod demo;
mod devices;
mod eval;
mod evidence;
mod export;
mod export_run;
mod fleet;
mod follow;
mod gpu_check;
mod import;
mod init;
mod local;
mod mcp;
mod model;
mod pack;
mod preflight;
mod propose;
mod pull_request;
mod replay;
mod run;
mod runs;
mod score;
mod serve;
mod show;
mod steer;
mod storage;
mod sweep;
mod tasks;
mod token;
mod webhook;
mod worker;

use std::process::ExitCode;

use crate::cli::{Cli, Command, ModelCommand, TaskCommand, WorkerCommand};
use crate::logging::{self, Format};
use crate::outcome::{Ending, Failure, exit_code};

/// Runs the command and returns the documented exit code.
pub fn dispatch(cli: Cli) -> ExitCode {
    let format = if cli.log_json {
        Format::Json
    } else {
        Format::Text
    };
    logging::start(format, default_filter(&cli.command));
    let ending = perform(cli.command, format);
    if let Err(failure) = &ending {
        eprintln!("kernelwright: failed to {:#}", failure.error());
    }
    exit_code(&ending)
}

/// A service and a worker log their work. Other commands print results, so they log warnings only.
fn default_filter(command: &Command) -> &'static str {
    match command {
        Command::Serve(_) | Command::Worker(WorkerCommand::Join(_)) => "info,hyper=warn,sqlx=warn",
        _ => "warn",
    }
}

fn perform(command: Command, format: Format) -> Ending {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::infrastructure(
                anyhow::Error::new(error).context("start the asynchronous runtime"),
            )
        })?;
    let ending = runtime.block_on(async {
        match command {
            Command::Serve(args) => serve::serve(args, format).await,
            Command::Worker(WorkerCommand::Join(args)) => worker::join(args).await,
            Command::Worker(WorkerCommand::List(args)) => fleet::list(args).await,
            Command::Worker(WorkerCommand::Hours(args)) => fleet::hours(args).await,
            Command::Worker(WorkerCommand::Drain(args)) => fleet::drain(args).await,
            Command::Token(command) => token::token(command).await,
            Command::Database(command) => database::database(command).await,
            Command::Storage(args) => storage::storage(args).await,
            Command::Webhook(command) => webhook::webhook(command).await,
            Command::Devices(args) => devices::devices(args).await,
            Command::Run(args) => run::run(*args).await,
            Command::Runs(command) => runs::runs(command).await,
            Command::Show(args) => show::show(args).await,
            Command::Steer(command) => steer::steer(command).await,
            Command::Eval(args) => eval::eval(args).await,
            Command::Evidence(command) => evidence::evidence(command).await,
            Command::Build(args) => local::build(args).await,
            Command::Test(args) => local::test(args).await,
            Command::Bench(args) => local::bench(args).await,
            Command::Sanitize(args) => local::sanitize(args).await,
            Command::Profile(args) => local::profile(args).await,
            Command::Evaluate(args) => local::evaluate(args).await,
            Command::Summary(args) => local::summary(args).await,
            Command::Iterate(args) => local::iterate(args).await,
            Command::Export(args) => export::export(args).await,
            Command::PullRequest(args) => pull_request::pull_request(*args).await,
            Command::ExportRun(args) => export_run::export_run(args).await,
            Command::Task(TaskCommand::Init(args)) => init::init(&args),
            Command::Task(TaskCommand::Import(args)) => import::import(&args),
            Command::Task(TaskCommand::Check(args)) => check::check(args).await,
            Command::Task(TaskCommand::List(args)) => tasks::list(args).await,
            Command::Task(TaskCommand::Show(args)) => tasks::show(args).await,
            Command::Task(TaskCommand::Upload(args)) => tasks::upload(args).await,
            Command::Completions(args) => completions::completions(&args),
            Command::Model(ModelCommand::List(args)) => model::list(&args),
            Command::Model(ModelCommand::Check(args)) => model::check(args).await,
            Command::Sweep(args) => sweep::sweep(&args),
            Command::ScoreModel(args) => score::score(*args).await,
            Command::GpuCheck(args) => gpu_check::gpu_check(args).await,
            Command::Preflight(args) => preflight::preflight(args).await,
            Command::Context(args) => propose::context(args).await,
            Command::Mcp(args) => mcp::mcp(args).await,
            Command::Submit(args) => propose::submit(args).await,
            Command::Lessons(args) => run::lessons(args).await,
            Command::Recording(args) => replay::recording(args).await,
            Command::Replay(args) => replay::replay(args, format).await,
            Command::Demo(args) => demo::demo(args, format).await,
        }
    });
    // Blocking threads may still wait for standard input; the process ends regardless.
    runtime.shutdown_background();
    ending
}
