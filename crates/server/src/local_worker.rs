//! A worker beside the service: the same program as a process of its own, over loopback like any
//! other worker, started again when it dies and gone when the service goes.
//!
//! The child watches its standard input, which the system closes when this process ends, however
//! it ends. That needs no signal and no race-prone parent id.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use domain::access::Secret;
use tokio::process::{Child, ChildStdin, Command};
use tokio_util::sync::CancellationToken;

use worker::host::Isolation;

use crate::cli::LEAST_ISOLATION;
use crate::credentials;
use crate::logging::Format;

/// Environment variables that a worker needs and may see. Anything else, a model's key above
/// all, stays with the service.
const ALLOWED: &[&str] = &[
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "LC_ALL",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "KERNELWRIGHT_CACHE",
    "KERNELWRIGHT_COMPUTE_SANITIZER",
    "KERNELWRIGHT_DOLLARS_PER_HOUR",
    "KERNELWRIGHT_NCU",
    "KERNELWRIGHT_NVDISASM",
    "KERNELWRIGHT_NVRTC",
    "KERNELWRIGHT_PYTHON",
    "KERNELWRIGHT_PYTHON_SECONDS",
    "KERNELWRIGHT_DRIVER",
    "KERNELWRIGHT_EMULATE",
    "KERNELWRIGHT_EMULATED_DEVICE",
    "KERNELWRIGHT_FAULT_PLAN",
    "KERNELWRIGHT_SPARES",
    "KERNELWRIGHT_DISK_GIB",
    "KERNELWRIGHT_WALLS",
    "KERNELWRIGHT_DEVICE_FILES",
    LEAST_ISOLATION,
    "KERNELWRIGHT_CLOCKS",
    "NVIDIA_VISIBLE_DEVICES",
];
/// The longest time that a worker may take to return its job once the service stops.
const GOODBYE: Duration = Duration::from_secs(8);
/// The pause before a worker that died is started again; doubles up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// A worker that lived this long did not die of how it was started.
const HEALTHY: Duration = Duration::from_secs(60);

/// Options of a local worker.
#[derive(Debug, Clone, Copy)]
pub struct WorkerOptions {
    /// The form of the log, which it shares with the service.
    pub format: Format,
    /// The messages that it logs unless `RUST_LOG` is set.
    pub filter: Filter,
    /// The least isolation that it accepts; by default that of the environment, else the standard.
    pub least_isolation: Option<Isolation>,
}

/// The messages that a worker logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// Every evaluation.
    Everything,
    /// Warnings and errors only.
    TroubleOnly,
}

/// Keeps one local worker alive until `closing` is cancelled.
pub async fn keep(
    url: String,
    token: Option<Secret>,
    data: PathBuf,
    options: WorkerOptions,
    closing: CancellationToken,
) {
    let mut pause = FIRST_PAUSE;
    while !closing.is_cancelled() {
        let started = tokio::time::Instant::now();
        match start(&url, token.as_ref(), &data, options) {
            Ok(mut child) => {
                // Waiting for a child closes its standard input unless someone else holds it.
                let stdin = child.stdin.take();
                tracing::info!("started the local worker, process {:?}", child.id());
                tokio::select! {
                    () = closing.cancelled() => return stop(child, stdin).await,
                    status = child.wait() => tracing::error!("the local worker ended ({}); it is started again", describe(status)),
                }
            }
            Err(error) => tracing::error!("failed to start the local worker: {error}"),
        }
        if started.elapsed() > HEALTHY {
            pause = FIRST_PAUSE;
        }
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_PAUSE),
        }
    }
}

fn start(
    url: &str,
    token: Option<&Secret>,
    data: &Path,
    options: WorkerOptions,
) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([
            "worker",
            "join",
            url,
            "--name",
            "local",
            "--while-stdin-open",
            "--data",
        ])
        .arg(data)
        .env_clear()
        .envs(
            std::env::vars_os()
                .filter(|(name, _)| name.to_str().is_some_and(|name| ALLOWED.contains(&name))),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        // A Ctrl-C on the terminal is for the service, which then lets its worker finish.
        .process_group(0)
        .kill_on_drop(true);
    if options.filter == Filter::TroubleOnly && std::env::var_os("RUST_LOG").is_none() {
        command.env("RUST_LOG", "warn");
    }
    if options.format == Format::Json {
        command.arg("--log-json");
    }
    if let Some(least) = options.least_isolation
        && std::env::var_os(LEAST_ISOLATION).is_none()
    {
        command.args(["--least-isolation", least.as_str()]);
    }
    if let Some(token) = token {
        // Not an argument, which every user of the machine can read.
        command.env(credentials::TOKEN, token.reveal());
    }
    command.spawn()
}

async fn stop(mut child: Child, stdin: Option<ChildStdin>) {
    drop(stdin);
    if tokio::time::timeout(GOODBYE, child.wait()).await.is_err() {
        tracing::warn!(
            "the local worker did not stop in time and is killed; its job is lent again"
        );
        if let Err(error) = child.kill().await {
            tracing::error!("failed to kill the local worker: {error}");
        }
    }
}

fn describe(status: std::io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => format!("unknown status: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_worker_of_a_service_sees_the_variables_that_the_guide_lists_for_workers() {
        let guide = include_str!("../../../docs/guide/configuration.md");
        let names = guide
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
            .map(|(name, _)| name);
        // The table has the variables of services and commands before these, and those of tests after them.
        let of_workers = names
            .skip_while(|name| *name != LEAST_ISOLATION)
            .take_while(|name| *name != "RUST_LOG")
            .filter(|name| *name != "KERNELWRIGHT_EMULATED_MEMORY");
        let unseen = of_workers.clone().filter(|name| !ALLOWED.contains(name));
        assert_eq!(unseen.collect::<Vec<_>>(), Vec::<&str>::new());
        assert!(of_workers.count() > 10);
    }
}
