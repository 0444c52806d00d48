//! `serve`: the service in this process, and its stop.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chrono::TimeDelta;
use engine::llm::Models;
use engine::{Engine, Settings, SystemClock};
use store::Store;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cli::ServeArgs;
use crate::data::{Data, Lock, WorkFolder};
use crate::http::connections::{self, ConnectionLimits};
use crate::http::{self, App, guard};
use crate::local_worker::{self, Filter, WorkerOptions};
use crate::logging::Format;
use crate::models;
use crate::outcome::{Ending, Failure, Outcome};

/// The longest time that each part of a service may take to stop.
const STOP: Duration = Duration::from_secs(10);

/// The settings of a service.
#[derive(Debug, Clone)]
pub(super) struct Setup<'a> {
    pub listen: SocketAddr,
    pub data: &'a Data,
    pub author_email: &'a str,
    pub recheck_after: Option<TimeDelta>,
    pub models: Models,
    pub local_worker: Option<WorkerOptions>,
}

/// A service that runs.
pub(super) struct Service {
    pub url: String,
    /// The worker's own switch: it hands its job back while the service still listens.
    worker_closing: CancellationToken,
    closing: CancellationToken,
    worker: Option<JoinHandle<()>>,
    parts: Vec<(&'static str, JoinHandle<()>)>,
    lock: Lock,
}

/// Serves until the process gets a signal to stop.
pub(super) async fn serve(args: ServeArgs, format: Format) -> Ending {
    let data = open(&args.models.folder.data)?;
    let models = models::open(&args.models)?;
    if !models.views().is_empty() {
        let names = models.views().into_iter().map(|view| view.name);
        tracing::info!("models: {}", names.collect::<Vec<_>>().join(", "));
    }
    let service = Service::start(Setup {
        listen: args.listen,
        data: &data,
        author_email: &args.author_email,
        recheck_after: recheck_after(args.recheck_hours),
        models,
        local_worker: args.with_local_worker.then_some(WorkerOptions {
            format,
            filter: Filter::Everything,
            least_isolation: None,
        }),
    })
    .await?;
    tracing::info!("serving {} from {}", service.url, data.root().display());
    if !args.with_local_worker {
        tracing::info!(
            "workers join with: kernelwright worker join {}",
            service.url
        );
    }
    stop_requested().await?;
    tracing::info!("stopping");
    service.stop().await;
    Ok(Outcome::Accepted)
}

/// Time after which a champion is evaluated again; none for zero hours.
pub(super) fn recheck_after(hours: u32) -> Option<TimeDelta> {
    (hours > 0).then(|| TimeDelta::hours(i64::from(hours)))
}

/// Opens the data folder of a command that keeps state, and makes it where it is missing. Says on
/// standard error where a new one is, because the default lies in the current folder.
pub(super) fn open(root: &Path) -> Result<Data, Failure> {
    let is_new = !root.is_dir();
    let data = Data::open(root).map_err(Failure::infrastructure)?;
    if is_new {
        eprintln!(
            "kernelwright: made the data folder {} (--data DIR or KERNELWRIGHT_DATA names another)",
            data.root().display()
        );
    }
    Ok(data)
}

/// Opens the data folder of a command that only reads it.
pub(super) fn open_existing(root: &Path) -> Result<Data, Failure> {
    Data::existing(root).map_err(Failure::input)
}

/// Opens the folder of a command that keeps nothing.
pub(super) fn open_work_folder(root: &Path) -> Result<WorkFolder, Failure> {
    WorkFolder::open(root).map_err(Failure::infrastructure)
}

/// Returns on Ctrl-C or a request to terminate.
pub(super) async fn stop_requested() -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate())
        .context("listen for signals")
        .map_err(Failure::infrastructure)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(())
}

impl Service {
    /// Starts every part; when this returns, requests are answered.
    pub async fn start(setup: Setup<'_>) -> Result<Self, Failure> {
        let address = guard::require_loopback(setup.listen).map_err(Failure::input)?;
        let lock = setup.data.lock().map_err(Failure::infrastructure)?;
        let listener = bind(address).await?;
        let local = listener
            .local_addr()
            .context("ask for the address listened on")
            .map_err(Failure::infrastructure)?;
        let url = format!("http://{local}");
        let store = Store::open(setup.data.database())
            .await
            .map_err(Failure::infrastructure)?;
        let settings = Settings {
            default_repository: setup.data.promotions(),
            author_email: setup.author_email.to_owned(),
            recheck_after: setup.recheck_after,
        };
        let engine = Engine::new(store, Arc::new(SystemClock), settings, setup.models);
        let closing = CancellationToken::new();
        lock.announce(&url).map_err(Failure::infrastructure)?;

        let mut parts = Vec::new();
        let app = App {
            data: setup.data.root().to_owned(),
            engine: engine.clone(),
            closing: closing.clone(),
        };
        let serving = connections::serve(
            listener,
            http::router(app),
            ConnectionLimits::default(),
            closing.clone(),
        );
        parts.push(("HTTP", tokio::spawn(serving)));
        let token = closing.clone();
        parts.push((
            "the engine",
            tokio::spawn(async move { engine.run_forever(token).await }),
        ));
        let worker_closing = CancellationToken::new();
        let worker = setup.local_worker.map(|options| {
            let data = setup.data.root().to_owned();
            let kept = local_worker::keep(url.clone(), data, options, worker_closing.clone());
            tokio::spawn(kept)
        });
        Ok(Self {
            url,
            worker_closing,
            closing,
            worker,
            parts,
            lock,
        })
    }

    /// Stops every part: first the worker, while there is still someone to hand its job back to.
    pub async fn stop(self) {
        self.worker_closing.cancel();
        if let Some(worker) = self.worker {
            finish("the local worker", worker).await;
        }
        self.closing.cancel();
        for (name, part) in self.parts {
            finish(name, part).await;
        }
        drop(self.lock);
    }
}

async fn finish(name: &str, part: JoinHandle<()>) {
    if tokio::time::timeout(STOP, part).await.is_err() {
        tracing::warn!("{name} did not stop in time; nothing is lost by that");
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let fix = if error.kind() == io::ErrorKind::AddrInUse {
            ": another program listens there; stop it, or choose another port with --listen (port 0 takes any free one)"
        } else {
            ""
        };
        let doing = format!("listen on {address}{fix}");
        Failure::infrastructure(anyhow::Error::new(error).context(doing))
    })
}

/// Returns true if a service can listen at the address at this moment.
pub(super) async fn is_address_free(address: SocketAddr) -> bool {
    TcpListener::bind(address).await.is_ok()
}
