//! `worker join`: evaluates for a service until stopped.

mod preemption;
mod toolchain;

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use domain::device::DeviceKind;
use domain::digest::Digest;
use domain::lease::DeclinedWork;
use domain::margins::REGRESSION_RATIO;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;
use worker::cancel::Cancellation;
use worker::evaluate::{EvaluateError, Evaluator};
use worker::fleet::{self, Departure, Join, Pace};
use worker::host::{Calibration, Host, HostError, Isolation, Settings};
use worker::preflight;

use super::{address, eval, serve};
use crate::cli::{JoinArgs, PreemptionNotice};
use crate::client::Client;
use crate::data::Data;
use crate::outcome::{Ending, Failure, Outcome};

/// The longest time that a device may take to answer for the first time. A machine that has just
/// started must load its driver first.
const FIRST_ANSWER: Duration = Duration::from_secs(300);
/// Before a device is asked again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

pub(super) async fn join(args: JoinArgs) -> Ending {
    // A mistyped address is found here, not by waiting for a service that never comes.
    let credentials = address::credentials(&args.credentials)?;
    let server = Client::with(&args.url, &credentials)?.address().to_owned();
    let data = serve::open(&args.folder.data)?;
    let shutdown = CancellationToken::new();
    if args.while_stdin_open {
        watch_stdin(shutdown.clone());
    }
    let stop = shutdown.clone();
    tokio::spawn(async move {
        if serve::stop_requested().await.is_ok() {
            tracing::info!("stopping; a job under way is handed back");
            stop.cancel();
        }
    });
    match args.preemption_notice {
        Some(PreemptionNotice::Gce) => {
            tokio::spawn(preemption::watch(shutdown.clone()));
        }
        None => {}
    }
    let Some(host) = discover(&data, &shutdown).await? else {
        return Ok(Outcome::Accepted);
    };
    host.ensure_not_quarantined()
        .map_err(Failure::infrastructure)?;
    isolated_enough(&host, args.least_isolation)?;
    tracing::info!("evaluating on {} with {}", host.device(), host.toolchain());
    let Some((host, declined)) = calibrate_and_check(host, &shutdown).await? else {
        return Ok(Outcome::Accepted);
    };
    let health = host.health().clone();
    let name = args.name.unwrap_or_else(|| default_name(data.root()));
    let mut registration = host.registration(&name);
    // It keeps the leases of workers apart that have one name, on several hosts or folders.
    registration.instance = Some(data.installation().map_err(Failure::infrastructure)?);
    registration.dollars_per_hour = args.dollars_per_hour;
    registration.declined = declined;
    let evaluator = eval::blocking(move || Evaluator::new(host))
        .await?
        .map_err(Failure::infrastructure)?;

    let join = Join {
        server,
        token: credentials.token,
        authority: credentials.authority,
        registration,
        health,
        data: data.root().to_owned(),
        pace: Pace::default(),
        idle_limit: args.idle_minutes,
    };
    let leave = shutdown.clone();
    let evaluate = move |request: &_, progress: &dyn Fn(&str), cancellation: &_| {
        let outcome = evaluator.search(request, progress, cancellation);
        if let Err(EvaluateError::Host(fault)) = &outcome
            && fault.is_quarantine()
        {
            // Other workers may still have a device for the job, which goes back to the queue.
            tracing::error!("leaving the service: failed to {fault}");
            leave.cancel();
        }
        outcome
    };
    let departure = fleet::join(join, evaluate, shutdown).await;
    let departure = departure.map_err(Failure::infrastructure)?;
    if let (Departure::Idle, Some(command)) = (departure, &args.idle_command) {
        run_command(command).await?;
    }
    Ok(Outcome::Accepted)
}

/// Runs the operator's command, such as one that stops the machine.
async fn run_command(command: &str) -> Result<(), Failure> {
    tracing::info!("running {command:?}");
    let ended = Command::new("sh").args(["-c", command]).status().await;
    let failed = |why: String| {
        Failure::infrastructure(anyhow::anyhow!(
            "run the command {command:?} of --idle-command: {why}"
        ))
    };
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(format!("it ended with {status}"))),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Refuses to run strangers' kernels with less isolation than the operator wants.
fn isolated_enough(host: &Host, least: Isolation) -> Result<(), Failure> {
    let reached = host.confinement_report().level();
    if reached >= least {
        return Ok(());
    }
    let (least, reached) = (least.as_str(), reached.as_str());
    Err(Failure::infrastructure(anyhow::anyhow!(
        "evaluate for a service: role processes here have {reached} isolation, and {least} is wanted; `kernelwright \
         preflight` says what is missing and how to get it, and `--least-isolation {reached}` goes without"
    )))
}

/// Calibrates a card that is new to this machine, and finds out what work the machine cannot do. None if the worker is
/// to stop.
async fn calibrate_and_check(
    host: Host,
    shutdown: &CancellationToken,
) -> Result<Option<(Host, Vec<DeclinedWork>)>, Failure> {
    let cancellation = cancellation_of(shutdown)?;
    let prepared = eval::blocking(move || {
        if host.device().kind == DeviceKind::Nvidia
            && let Some(calibration) = host.calibrate(&cancellation)?
        {
            log_calibration(&calibration);
        }
        let checks = preflight::run_checks(&host, &cancellation);
        Ok::<_, HostError>((host, checks))
    });
    let (host, checks) = match prepared.await? {
        Ok(prepared) => prepared,
        Err(_) if shutdown.is_cancelled() => return Ok(None),
        Err(error) => return Err(Failure::infrastructure(error)),
    };
    let declined = preflight::declined_work(&checks);
    for DeclinedWork { work, reason } in &declined {
        tracing::info!("this worker does not {work}: {reason}");
    }
    Ok(Some((host, declined)))
}

/// The variation of a kernel's time beyond which a calibration warns, because a regression could not be told from it.
const MOST_VARIATION: f64 = REGRESSION_RATIO - 1.0;

fn log_calibration(calibration: &Calibration) {
    let copies = &calibration.copies;
    let variation = calibration.variation().unwrap_or_default();
    let percent = 100.0 * variation;
    tracing::info!(
        "calibrated with {} probes: copies {:.1} GB/s, memory {:.0} GB/s, which varied by {percent:.1}%",
        copies.len(),
        copies.iter().copied().fold(0.0, f64::max),
        calibration.memory.iter().copied().fold(0.0, f64::max),
    );
    if variation > MOST_VARIATION {
        tracing::warn!(
            "times vary by {percent:.1}% on this device: end other programs on it and check its cooling and clocks; \
             evaluations take longer, and some end without a verdict"
        );
    }
}

/// A cancellation that a worker's end triggers.
fn cancellation_of(shutdown: &CancellationToken) -> Result<Cancellation, Failure> {
    let cancellation = eval::cancellation()?;
    let (called_off, stop) = (cancellation.clone(), shutdown.clone());
    tokio::spawn(async move {
        stop.cancelled().await;
        called_off.cancel();
    });
    Ok(cancellation)
}

/// Discovers the device and compiler of this machine; none if the worker is to stop. A device that
/// does not answer is asked again for a while, so that a service that starts a worker need not do so. A compiler that
/// is missing is installed once.
async fn discover(data: &Data, shutdown: &CancellationToken) -> Result<Option<Host>, Failure> {
    let cancellation = cancellation_of(shutdown)?;
    let settings = Settings::from_environment(data.root()).map_err(Failure::infrastructure)?;
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut installed = settings.nvrtc.is_some();
    loop {
        let (settings, cancellation) = (settings.clone(), cancellation.clone());
        let cache = settings.cache.clone();
        let found = eval::blocking(move || Host::discover(settings, &cancellation));
        match found.await? {
            Ok(host) => return Ok(Some(host)),
            Err(_) if shutdown.is_cancelled() => return Ok(None),
            Err(HostError::Toolchain(missing)) if !installed => {
                installed = true;
                tracing::info!("installing NVIDIA's compiler into {}", cache.display());
                let installing = toolchain::install(&cache);
                match shutdown.run_until_cancelled(installing).await {
                    None => return Ok(None),
                    Some(Ok(())) => {}
                    Some(Err(error)) => {
                        tracing::error!("failed to install NVIDIA's compiler: {error:#}");
                        return Err(Failure::infrastructure(missing));
                    }
                }
            }
            Err(fault) if fault.is_transient() && began.elapsed() < FIRST_ANSWER => {
                let delay_ms = pause.as_millis();
                tracing::warn!(delay_ms, "failed to {fault}; trying again");
                let waiting = tokio::time::sleep(pause);
                if shutdown.run_until_cancelled(waiting).await.is_none() {
                    return Ok(None);
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(fault) => return Err(Failure::infrastructure(fault)),
        }
    }
}

/// Stops the worker when standard input ends, which the system sees to when the process on its
/// other end is gone.
fn watch_stdin(shutdown: CancellationToken) {
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        loop {
            match io::stdin().read(&mut bytes) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        tracing::info!("the service is gone; stopping");
        shutdown.cancel();
    });
}

/// The host's name with a digest of the data folder. Two workers of one host have different names, so
/// that the service does not take one for a restart of the other and end its lease; a worker that is
/// started again on its folder has its old name.
fn default_name(data: &Path) -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match name.trim() {
        "" => "worker",
        name => name,
    };
    let folder = data.canonicalize().unwrap_or_else(|_| data.to_owned());
    let folder = Digest::of(folder.as_os_str().as_encoded_bytes());
    format!("{host}-{}", folder.short())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_of_one_host_have_names_of_their_data_folders() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().expect("a folder is made"));
        assert_eq!(default_name(one.path()), default_name(one.path()));
        assert_ne!(default_name(one.path()), default_name(other.path()));
    }
}
