//! The lab: a whole Kernelwright, real processes and all, in a temporary folder.
//!
//! Knows only what a user knows: the binary, its commands and the HTTP API. It starts the
//! service and its workers on free loopback ports and ends every process it started.

#![forbid(unsafe_code)]

pub mod model;

use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use domain::api::{CandidateDetail, CandidatePage, CandidateSummary, RunRequest, RunView};
use domain::id::{CandidateId, RunId};
use domain::task::Bundle;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

/// How long any single thing may take before the lab gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// How often a condition is looked at.
const GLANCE: Duration = Duration::from_millis(50);

/// A service with a data folder of its own.
#[derive(Debug)]
pub struct Lab {
    folder: TempDir,
    data: PathBuf,
    service: Option<Process>,
    workers: Mutex<Vec<Arc<Watched>>>,
    client: reqwest::Client,
}

/// A process the lab started; killed when dropped.
#[derive(Debug)]
pub struct Process {
    watched: Arc<Watched>,
}

/// What the lab knows of a process that is to stay until its holder ends it.
#[derive(Debug)]
struct Watched {
    what: String,
    log: PathBuf,
    /// None once its holder has ended it.
    child: Mutex<Option<Child>>,
}

impl Watched {
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Fails, with its log, if it has gone by itself.
    fn is_there(&self) -> Result<()> {
        let status = match &mut *self.child() {
            Some(child) => child.try_wait()?,
            None => None,
        };
        match status {
            Some(status) => bail!("{} ended with {status}: {}", self.what, self.log()),
            None => Ok(()),
        }
    }
}

/// What a finished command left.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Everything on standard output.
    pub stdout: String,
    /// Everything on standard error.
    pub stderr: String,
}

impl Process {
    /// Ends the process at once, as `kill -9` does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.watched.child().take() {
            // An already ended process is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        self.watched.log()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Lab {
    /// An empty data folder; nothing runs yet.
    ///
    /// # Errors
    /// When the folder or the HTTP client cannot be made.
    pub fn new() -> Result<Self> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .build()
            .context("build the client")?;
        let folder = tempfile::tempdir()?;
        Ok(Self {
            data: folder.path().join("data"),
            folder,
            service: None,
            workers: Mutex::default(),
            client,
        })
    }

    /// As [`Lab::new`], with a data folder that is there already and stays.
    ///
    /// # Errors
    /// As of [`Lab::new`].
    pub fn of(data: PathBuf) -> Result<Self> {
        Ok(Self {
            data,
            ..Self::new()?
        })
    }

    /// A lab whose service runs, with a local worker.
    ///
    /// # Errors
    /// When the service does not come up.
    pub async fn with_worker() -> Result<Self> {
        let mut lab = Self::new()?;
        lab.serve(&["--with-local-worker"]).await?;
        Ok(lab)
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// The folder for whatever else a test needs.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the service and waits until it answers.
    ///
    /// # Errors
    /// When it ends instead, with what it said.
    pub async fn serve(&mut self, extra: &[&str]) -> Result<()> {
        self.stop();
        let log = self.folder.path().join("service.log");
        let data = self.data();
        let mut arguments = vec!["serve", "--listen", "127.0.0.1:0", "--data", text(&data)];
        arguments.extend(extra);
        self.service = Some(start("the service", &[], &arguments, log)?);
        let began = Instant::now();
        loop {
            if let Ok(address) = self.address()
                && self
                    .client
                    .get(format!("{address}/api/v1/health"))
                    .send()
                    .await
                    .is_ok()
            {
                return Ok(());
            }
            self.all_are_there()?;
            ensure!(
                began.elapsed() < PATIENCE,
                "the service never answered: {}",
                self.service_log()
            );
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Starts a worker as a process of its own. Whoever waits for a run fails as soon as it ends
    /// before the caller has ended it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn worker(&self, name: &str) -> Result<Process> {
        self.worker_with(name, &[])
    }

    /// The same with additions to its environment.
    ///
    /// # Errors
    /// As of [`Lab::worker`].
    pub fn worker_with(&self, name: &str, environment: &[(&str, &str)]) -> Result<Process> {
        let log = self.folder.path().join(format!("{name}.log"));
        let data = self.folder.path().join(name);
        let address = self.address()?;
        let words = [
            "worker",
            "join",
            &address,
            "--name",
            name,
            "--data",
            text(&data),
        ];
        let worker = start(&format!("the worker {name}"), environment, &words, log)?;
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.push(Arc::clone(&worker.watched));
        Ok(worker)
    }

    /// Fails, with its log, if a process has ended that nobody ended.
    fn all_are_there(&self) -> Result<()> {
        if let Some(service) = &self.service {
            service.watched.is_there()?;
        }
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.iter().try_for_each(|worker| worker.is_there())
    }

    /// Waits until a worker has logged something.
    ///
    /// # Errors
    /// As for [`Lab::until`].
    pub async fn until_logged(&self, worker: &Process, words: &str) -> Result<()> {
        let began = Instant::now();
        while !worker.log().contains(words) {
            self.all_are_there()?;
            ensure!(
                began.elapsed() < PATIENCE,
                "{} never logged {words:?}: {}",
                worker.watched.what,
                worker.log()
            );
            tokio::time::sleep(GLANCE).await;
        }
        Ok(())
    }

    /// Kills the service as `kill -9` does.
    pub fn stop(&mut self) {
        self.service = None;
        let _ = std::fs::remove_file(self.data().join("server.json"));
    }

    /// Where the service listens.
    ///
    /// # Errors
    /// When it has not said so yet.
    pub fn address(&self) -> Result<String> {
        let told = std::fs::read(self.data().join("server.json"))?;
        let told: serde_json::Value = serde_json::from_slice(&told)?;
        Ok(told["url"]
            .as_str()
            .context("server.json has no url")?
            .trim_end_matches('/')
            .to_owned())
    }

    /// What the service has logged.
    pub fn service_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("service.log")).unwrap_or_default()
    }

    /// Reads a resource of the API.
    ///
    /// # Errors
    /// A transport failure, an HTTP error with its body, an answer of another shape.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let url = format!("{}/api/v1{path}", self.address()?);
        answer(self.client.get(&url).send().await?)
            .await
            .with_context(|| format!("GET {url}"))
    }

    /// Posts to the API.
    ///
    /// # Errors
    /// As for [`Lab::get`].
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<T> {
        let url = format!("{}/api/v1{path}", self.address()?);
        answer(self.client.post(&url).json(body).send().await?)
            .await
            .with_context(|| format!("POST {url}"))
    }

    /// Uploads a task and launches a run on it.
    ///
    /// # Errors
    /// When the service refuses either.
    pub async fn launch(&self, bundle: &Bundle, request: &RunRequest) -> Result<RunView> {
        let _: serde_json::Value = self.post("/tasks", bundle).await?;
        self.post("/runs", request).await
    }

    /// Waits until a condition on the run holds.
    ///
    /// # Errors
    /// As soon as the service or a worker has ended by itself, with its log; after [`PATIENCE`],
    /// with the run as it stands and the service's log.
    pub async fn until(&self, run: RunId, holds: impl Fn(&RunView) -> bool) -> Result<RunView> {
        let began = Instant::now();
        loop {
            let view = match self.get::<RunView>(&format!("/runs/{}", run.uuid())).await {
                Ok(view) => view,
                // A service that has ended does not answer; its log says why.
                Err(error) => return self.all_are_there().and(Err(error)),
            };
            if holds(&view) {
                return Ok(view);
            }
            self.all_are_there()?;
            ensure!(
                began.elapsed() < PATIENCE,
                "the run stands at {view:#?}\n{}",
                self.service_log()
            );
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Waits until the run is over.
    ///
    /// # Errors
    /// As for [`Lab::until`].
    pub async fn finished(&self, run: RunId) -> Result<RunView> {
        self.until(run, |view| view.state.is_over()).await
    }

    /// Every candidate of a run by ordinal.
    ///
    /// # Errors
    /// As for [`Lab::get`].
    pub async fn candidates(&self, run: RunId) -> Result<Vec<CandidateSummary>> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let page: CandidatePage = self
                .get(&format!("/runs/{}/candidates{cursor}", run.uuid()))
                .await?;
            all.extend(page.candidates);
            match page.next {
                Some(next) => cursor = format!("?cursor={next}"),
                None => return Ok(all),
            }
        }
    }

    /// One candidate with its evidence.
    ///
    /// # Errors
    /// As for [`Lab::get`].
    pub async fn candidate(&self, id: CandidateId) -> Result<CandidateDetail> {
        self.get(&format!("/candidates/{}", id.uuid())).await
    }
}

async fn answer<T: DeserializeOwned>(response: reqwest::Response) -> Result<T> {
    let status = response.status();
    let body = response.text().await?;
    ensure!(status.is_success(), "{status}: {body}");
    serde_json::from_str(&body).with_context(|| format!("read {body}"))
}

/// The repository's root.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the repository")
        .to_owned()
}

/// A task of the repository as a bundle.
///
/// # Errors
/// When a file cannot be read.
pub fn task(name: &str) -> Result<Bundle> {
    task_in(&repository().join("kernels").join(name))
}

/// A task's folder as a bundle.
///
/// # Errors
/// When a file cannot be read.
pub fn task_in(root: &Path) -> Result<Bundle> {
    let mut files = std::collections::BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in
            std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                let relative = path
                    .strip_prefix(root)?
                    .to_str()
                    .context("a UTF-8 name")?
                    .to_owned();
                files.insert(relative, std::fs::read_to_string(&path)?);
            }
        }
    }
    Ok(Bundle { files })
}

/// The built program.
///
/// # Panics
/// When it has not been built: `./kw test` builds it first.
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let binary = test
        .ancestors()
        .find(|folder| folder.ends_with("debug") || folder.ends_with("release"))
        .map(|folder| folder.join("kernelwright"))
        .filter(|path| path.is_file());
    binary.expect("the program is built: run `cargo build --workspace` first")
}

/// Runs a command of the program to its end.
///
/// # Errors
/// When it cannot be started or outlasts [`PATIENCE`].
pub fn kernelwright(arguments: &[&str]) -> Result<Finished> {
    program(&binary(), &[], arguments)
}

/// Runs a program, such as a copy of ours, to its end, with additions to the environment.
///
/// # Errors
/// As of [`kernelwright`].
pub fn program(
    executable: &Path,
    environment: &[(&str, &str)],
    arguments: &[&str],
) -> Result<Finished> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the lab starts the program as a user does"
    )]
    let mut child = std::process::Command::new(executable)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(repository())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = drain(child.stdout.take().context("piped")?);
    let stderr = drain(child.stderr.take().context("piped")?);
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            bail!("{} {arguments:?} did not end", executable.display());
        }
        std::thread::sleep(GLANCE);
    };
    let text = |thread: std::thread::JoinHandle<String>| thread.join().unwrap_or_default();
    Ok(Finished {
        status,
        stdout: text(stdout),
        stderr: text(stderr),
    })
}

fn drain(mut pipe: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read before a failure is still worth showing.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn start(
    what: &str,
    environment: &[(&str, &str)],
    arguments: &[&str],
    log: PathBuf,
) -> Result<Process> {
    let file = std::fs::File::create(&log)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the lab starts the program as a user does"
    )]
    let child = std::process::Command::new(binary())
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("start {what}"))?;
    Ok(Process {
        watched: Arc::new(Watched {
            what: what.to_owned(),
            log,
            child: Mutex::new(Some(child)),
        }),
    })
}

fn text(path: &Path) -> &str {
    path.to_str()
        .expect("the temporary folder has a UTF-8 name")
}
