//! `serve`: the service in this process, and its stop.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use chrono::TimeDelta;
use domain::causes::with_causes;
use engine::llm::Models;
use engine::{Clock, Engine, Settings, SteadyClock, SystemClock};
use store::{DatabaseClaim, Store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cli::{EvidencePlace, ServeArgs};
use crate::credentials::Credentials;
use crate::data::{Data, Lock, WorkFolder};
use crate::http::access::{Access, OwnSecrets};
use crate::http::connections::{self, ConnectionLimits};
use crate::http::event_feeds::EventFeeds;
use crate::http::guard::Unprotected;
use crate::http::metrics::Metrics;
use crate::http::sso::{self, SingleSignOn};
use crate::http::tls::Certificates;
use crate::http::{self, App};
use crate::local_worker::{self, Filter, WorkerOptions};
use crate::logging::{self, Format};
use crate::models;
use crate::outcome::{Ending, Failure, Outcome};
use crate::traces::{self, Collector};
use crate::waiting_workers::WaitingWorkers;
use crate::webhooks::{self, Endpoint};
use worker::evaluate::evidence::store::{EvidenceStore, EvidenceStoreError, FOLDER_BYTES};

/// The longest time that each part of a service may take to stop.
const STOP: Duration = Duration::from_secs(10);
/// The pause before a further attempt to reach the database.
const RETRY: Duration = Duration::from_secs(1);
/// The interval at which conversations that are old enough are looked for.
const REMOVAL_INTERVAL: Duration = Duration::from_secs(3600);

/// The settings of a service.
#[derive(Debug, Clone)]
pub(super) struct Setup<'a> {
    pub listen: SocketAddr,
    pub protection: Protection,
    pub data: &'a Data,
    /// Folder of the default repository of winners.
    pub shared: &'a Data,
    /// The bundles of evidence.
    pub evidence: EvidenceStore,
    /// The URL of a Postgres database; SQLite in the data folder without one.
    pub database: Option<&'a str>,
    pub author_email: &'a str,
    pub recheck_after: Option<TimeDelta>,
    pub devices_per_person: Option<u32>,
    /// The time after the end of a run for which its conversations with models are kept; none for ever.
    pub keep_conversations: Option<TimeDelta>,
    pub models: Models,
    /// Receivers of events; none leaves those of the database as they are.
    pub webhooks: Option<Vec<Endpoint>>,
    pub local_worker: Option<WorkerOptions>,
    /// The receiver of traces.
    pub collector: Option<Collector>,
    pub sso: Option<SingleSignOn>,
}

/// Encryption of the requests that reach a service from elsewhere.
#[derive(Debug, Clone)]
pub(super) enum Protection {
    /// None: the service listens on loopback.
    Loopback,
    /// The service terminates TLS.
    Tls(Arc<Certificates>),
    /// A reverse proxy in front of the service terminates TLS.
    Proxy,
}

/// A service that runs.
pub(super) struct Service {
    /// Its address on this machine, over plain HTTP.
    pub url: String,
    /// Its address for others.
    pub public_url: String,
    /// For a command in this process, if the service asks for tokens.
    pub credentials: Credentials,
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
    let shared = match &args.shared {
        Some(folder) => Data::open(folder).map_err(Failure::infrastructure)?,
        None => data.clone(),
    };
    let models = models::open(&args.models)?;
    if !models.views().is_empty() {
        let names = models.views().into_iter().map(|view| view.name);
        tracing::info!("models: {}", names.collect::<Vec<_>>().join(", "));
    }
    let webhooks = webhooks::settings::read(args.webhooks.as_deref(), data.root());
    let webhooks = webhooks.map_err(Failure::input)?;
    if !webhooks.is_empty() {
        let names = webhooks.iter().map(|endpoint| endpoint.name.as_str());
        tracing::info!("webhooks: {}", names.collect::<Vec<_>>().join(", "));
    }
    let sso = sso::Settings::read(args.sso.as_deref(), data.root()).map_err(Failure::input)?;
    let service = Service::start(Setup {
        listen: args.listen,
        protection: protection(&args)?,
        data: &data,
        shared: &shared,
        evidence: open_evidence(&args.evidence, &shared).await?,
        database: args.database.database.as_deref(),
        author_email: &args.author_email,
        recheck_after: recheck_after(args.recheck_hours),
        devices_per_person: args.devices_per_person,
        keep_conversations: args
            .keep_conversations_days
            .map(|days| TimeDelta::days(i64::from(days))),
        models,
        webhooks: Some(webhooks),
        local_worker: args.with_local_worker.then_some(WorkerOptions {
            format,
            filter: Filter::Everything,
            least_isolation: None,
        }),
        collector: collector(args.otlp_endpoint.as_deref())?,
        sso: sso.map(SingleSignOn::new),
    })
    .await?;
    tracing::info!(
        "serving {} from {}",
        service.public_url,
        data.root().display()
    );
    if !args.with_local_worker {
        let url = service.public_url.replace("0.0.0.0", "HOST");
        let token = match service.credentials.token {
            Some(_) => " --token-file FILE",
            None => "",
        };
        tracing::info!("workers join with: kernelwright worker join {url}{token}");
    }
    stop_requested().await?;
    tracing::info!("stopping");
    service.stop().await;
    Ok(Outcome::Accepted)
}

fn protection(args: &ServeArgs) -> Result<Protection, Failure> {
    Ok(match (&args.tls_cert, &args.tls_key) {
        (Some(chain), Some(key)) => {
            Protection::Tls(Certificates::load(chain, key).map_err(Failure::input)?)
        }
        _ if args.behind_proxy => Protection::Proxy,
        _ => Protection::Loopback,
    })
}

/// Time after which a champion is evaluated again; none for zero hours.
pub(super) fn recheck_after(hours: u32) -> Option<TimeDelta> {
    (hours > 0).then(|| TimeDelta::hours(i64::from(hours)))
}

/// The collector of traces, if its address is given.
fn collector(endpoint: Option<&str>) -> Result<Option<Collector>, Failure> {
    let endpoint = endpoint.filter(|endpoint| !endpoint.is_empty());
    let collector = endpoint.map(Collector::at).transpose();
    collector.map_err(Failure::input)
}

/// Opens the bucket or the folder of the evidence, and checks that it can be written to.
async fn open_evidence(place: &EvidencePlace, shared: &Data) -> Result<EvidenceStore, Failure> {
    let store = evidence_store(place, shared)?;
    let written = store.check_access().await;
    written.map_err(Failure::infrastructure)?;
    Ok(store)
}

/// The bucket or the folder of the evidence.
pub(super) fn evidence_store(
    place: &EvidencePlace,
    shared: &Data,
) -> Result<EvidenceStore, Failure> {
    let most_bytes = place.evidence_gib.map(|gib| u64::from(gib) << 30);
    let store = match &place.evidence_bucket {
        Some(url) => EvidenceStore::in_bucket(url, most_bytes),
        None => EvidenceStore::in_folder(shared.root(), most_bytes.or(Some(FOLDER_BYTES))),
    };
    store.map_err(|error| match error {
        EvidenceStoreError::Url { .. } => Failure::input(error),
        other => Failure::infrastructure(other),
    })
}

/// Opens the folder of the evidence of a service that nobody configures.
pub(super) fn evidence_folder(data: &Data) -> Result<EvidenceStore, Failure> {
    EvidenceStore::in_folder(data.root(), Some(FOLDER_BYTES)).map_err(Failure::infrastructure)
}

/// Opens the data folder of a command that keeps state, and makes it where it is missing. Says on
/// standard error where a new one is, because the default lies in the current folder.
pub(super) fn open(root: &Path) -> Result<Data, Failure> {
    let is_new = !root.is_dir();
    let data = Data::open(root).map_err(Failure::infrastructure)?;
    if is_new {
        logging::tell(&format!(
            "made the data folder {} (--data DIR or KERNELWRIGHT_DATA names another)",
            data.root().display()
        ));
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
        let address = setup.listen;
        let is_local = matches!(setup.protection, Protection::Loopback);
        if is_local && !address.ip().is_loopback() {
            return Err(Failure::input(Unprotected::Plain(address)));
        }
        let lock = setup.data.lock().map_err(Failure::infrastructure)?;
        let store = setup.data.open_store(setup.database).await;
        let store = store.map_err(Failure::infrastructure)?;
        let claim = store
            .share_database()
            .await
            .map_err(Failure::infrastructure)?;
        let time = store.database_time().await;
        let time = time.map_err(Failure::infrastructure)?;
        let clock = SteadyClock::new(time.unwrap_or_else(|| SystemClock.now()));
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let now = clock.now();
        if let Some(endpoints) = &setup.webhooks {
            let kinds = endpoints
                .iter()
                .map(|endpoint| (endpoint.name.clone(), endpoint.kinds.clone()));
            let kinds = kinds.collect::<Vec<_>>();
            let subscribed = store.subscribe_webhooks(&kinds, now).await;
            subscribed.map_err(Failure::infrastructure)?;
        }
        let tokens = store.tokens().await.map_err(Failure::infrastructure)?;
        let may_enter = setup.sso.is_some() || tokens.iter().any(|token| token.is_usable(now));
        if !is_local && !may_enter {
            return Err(Failure::input(Unprotected::NoToken(address)));
        }
        // A token that has expired still says that tokens are wanted.
        let has_token = tokens.iter().any(|token| token.revoked_at.is_none());
        let asks = !is_local || has_token || setup.sso.is_some();
        let listener = bind(address).await?;
        let local = local_address(&listener)?;
        let own = OwnSecrets::draw().map_err(Failure::infrastructure)?;
        let access = if asks {
            Access::required(&own)
        } else {
            Access::default()
        };
        // Commands and the worker on this machine use plain HTTP over loopback: they need neither the
        // certificate's name nor its authority.
        let mut listeners = Vec::new();
        let (url, public_url) = match &setup.protection {
            Protection::Loopback => {
                let url = format!("http://{local}");
                listeners.push((listener, None, access));
                (url.clone(), url)
            }
            others => {
                let (tls, scheme) = match others {
                    Protection::Tls(certificates) => {
                        let tls = certificates.acceptor().map_err(Failure::infrastructure)?;
                        (Some(tls), "https")
                    }
                    _ => (None, "http"),
                };
                listeners.push((listener, tls, access.clone().encrypted()));
                let inside = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
                let url = format!("http://{}", local_address(&inside)?);
                listeners.push((inside, None, access));
                (url, format!("{scheme}://{local}"))
            }
        };
        let settings = Settings {
            default_repository: setup.shared.promotions(),
            author_email: setup.author_email.to_owned(),
            recheck_after: setup.recheck_after,
            devices_per_person: setup.devices_per_person,
        };
        let engine = Engine::new(store, Arc::clone(&clock), settings, setup.models);
        let closing = CancellationToken::new();
        lock.announce(&url).map_err(Failure::infrastructure)?;

        let metrics = Metrics::default();
        let (waiting, waking) = WaitingWorkers::start(engine.clone(), closing.clone());
        let feeds = EventFeeds::new(engine.store().clone());
        let mut parts = vec![("the waiting workers", waking)];
        for (listener, tls, access) in listeners {
            let app = App {
                evidence: setup.evidence.clone(),
                sso: setup.sso.clone(),
                engine: engine.clone(),
                access,
                metrics: metrics.clone(),
                waiting: waiting.clone(),
                feeds: feeds.clone(),
                closing: closing.clone(),
            };
            let serving = connections::serve(
                listener,
                tls,
                http::router(app),
                ConnectionLimits::default(),
                closing.clone(),
            );
            parts.push(("HTTP", tokio::spawn(serving)));
        }
        for endpoint in setup.webhooks.into_iter().flatten() {
            let store = engine.store().clone();
            let delivery = webhooks::deliver(endpoint, store, Arc::clone(&clock), closing.clone());
            parts.push(("a webhook", delivery));
        }
        let store = engine.store().clone();
        let listening = announce_commits_of_others(store.clone());
        parts.push((
            "the changes of other services",
            spawn_until(closing.clone(), listening),
        ));
        parts.push((
            "the claim to the database",
            spawn_until(closing.clone(), keep_claim(store, claim)),
        ));
        if let Some(age) = setup.keep_conversations {
            let removing = remove_conversations(engine.clone(), age);
            parts.push((
                "the removal of conversations",
                spawn_until(closing.clone(), removing),
            ));
        }
        if let Some(collector) = setup.collector {
            let exporting = traces::export(collector, engine.clone(), closing.clone());
            parts.push(("traces", tokio::spawn(exporting)));
        }
        let token = closing.clone();
        parts.push((
            "the engine",
            tokio::spawn(async move { engine.run_forever(token).await }),
        ));
        let worker_closing = CancellationToken::new();
        let worker = setup.local_worker.map(|options| {
            let data = setup.data.root().to_owned();
            let token = asks.then(|| own.worker.clone());
            let kept =
                local_worker::keep(url.clone(), token, data, options, worker_closing.clone());
            tokio::spawn(kept)
        });
        Ok(Self {
            url,
            public_url,
            credentials: Credentials {
                token: asks.then_some(own.command),
                authority: None,
            },
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

/// Works in a task of its own until `closing`.
fn spawn_until(
    closing: CancellationToken,
    work: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        closing.run_until_cancelled(work).await;
    })
}

/// Keeps a service's claim to its database, and claims it again after the connection was lost.
async fn keep_claim(store: Store, mut claim: DatabaseClaim) {
    loop {
        claim.lost().await;
        tracing::warn!("the connection to the database was lost; trying again until it is back");
        claim = loop {
            match store.share_database().await {
                Ok(claim) => break claim,
                Err(error) => tracing::warn!("failed to {}", with_causes(&error)),
            }
            tokio::time::sleep(RETRY).await;
        };
        tracing::info!("the database answers again");
    }
}

/// Removes the conversations of runs that ended longer ago than `age`, now and every hour.
async fn remove_conversations(engine: Engine, age: TimeDelta) {
    loop {
        let removed = engine.store().remove_conversations(engine.now() - age);
        match removed.await {
            Ok(runs) if runs.is_empty() => {}
            Ok(runs) => tracing::info!(
                "removed the prompts and replies of {} runs that ended more than {} days ago",
                runs.len(),
                age.num_days()
            ),
            Err(error) => tracing::warn!("failed to {}", with_causes(&error)),
        }
        tokio::time::sleep(REMOVAL_INTERVAL).await;
    }
}

/// Tells those who wait for changes of the commits of services that share the database.
async fn announce_commits_of_others(store: Store) {
    loop {
        if let Err(error) = store.announce_commits_of_others().await {
            tracing::warn!("failed to {}", with_causes(&error));
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    listener
        .local_addr()
        .context("ask for the address listened on")
        .map_err(Failure::infrastructure)
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
