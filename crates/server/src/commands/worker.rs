//! `worker join`: evaluates for a service until stopped.

use std::fs;
use std::io::{self, Read as _};

use tokio_util::sync::CancellationToken;
use worker::evaluate::{Evaluator, Fault};
use worker::fleet::{self, Join, Pace};

use super::{eval, serve};
use crate::cli::JoinArgs;
use crate::client::Client;
use crate::outcome::{Ending, Failure, Outcome};

pub(super) async fn join(args: JoinArgs) -> Ending {
    // A mistyped address is found here, not by waiting for a service that never comes.
    let server = Client::new(&args.url)?.address().to_owned();
    let data = serve::open(&args.folder.data)?;
    let shutdown = CancellationToken::new();
    if args.while_stdin_open {
        watch_stdin(shutdown.clone());
    }
    let host = eval::host(&data, &eval::cancellation()?).await?;
    host.is_fit().map_err(Failure::infrastructure)?;
    tracing::info!("evaluating on {} with {}", host.device(), host.toolchain());
    let health = host.health().clone();
    let registration = host.registration(&args.name.unwrap_or_else(host_name));
    let evaluator = eval::blocking(move || Evaluator::new(host))
        .await?
        .map_err(Failure::infrastructure)?;

    let stop = shutdown.clone();
    tokio::spawn(async move {
        if serve::stop_requested().await.is_ok() {
            tracing::info!("stopping; a job under way is handed back");
            stop.cancel();
        }
    });
    let join = Join {
        server,
        token: None,
        registration,
        health,
        data: data.root().to_owned(),
        pace: Pace::default(),
    };
    let leave = shutdown.clone();
    let evaluate = move |request: &_, progress: &dyn Fn(&str), cancellation: &_| {
        let outcome = evaluator.search(request, progress, cancellation);
        if let Err(Fault::Host(fault)) = &outcome
            && fault.is_quarantine()
        {
            // Other workers may still have a device for the job, which goes back to the queue.
            tracing::error!("leaving the service: failed to {fault}");
            leave.cancel();
        }
        outcome
    };
    fleet::join(join, evaluate, shutdown)
        .await
        .map_err(Failure::infrastructure)?;
    Ok(Outcome::Accepted)
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

fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "worker".to_owned(),
        name => name.to_owned(),
    }
}
