//! Test harness that runs a whole Kernelwright, service and workers, in a temporary folder.
//!
//! It uses only what a user has: the binary, its commands and the HTTP API. Services listen on
//! free loopback ports, and every process that the harness started is killed when it is dropped.

#![forbid(unsafe_code)]

pub mod model;
pub mod simulated;
pub mod verdicts;

use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use domain::api::{
    CandidateDetail, CandidatePage, CandidateSummary, RunRequest, RunView, WorkerView,
};
use domain::id::{CandidateId, RunId};
use domain::task::Bundle;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

/// Longest wait for one condition or command, after which the test fails.
pub const TIMEOUT: Duration = Duration::from_secs(420);
/// Time between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// One service with its own data folder, and the workers that a test attached to it.
#[derive(Debug)]
pub struct Lab {
    folder: TempDir,
    data: PathBuf,
    /// URL of a Postgres database.
    database: Option<String>,
    service: Option<Process>,
    workers: Mutex<Vec<Arc<TrackedChild>>>,
    client: reqwest::Client,
}

/// Child process of a test; killed when dropped.
#[derive(Debug)]
pub struct Process {
    tracked: Arc<TrackedChild>,
}

/// Shared record of a child process that must keep running until its [`Process`] ends it.
#[derive(Debug)]
struct TrackedChild {
    /// Name in error messages, such as "the service".
    name: String,
    /// File that receives standard output and standard error.
    log: PathBuf,
    /// `None` after its [`Process`] killed it.
    child: Mutex<Option<Child>>,
}

impl TrackedChild {
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Fails with the log if the process ended by itself.
    fn ensure_running(&self) -> Result<()> {
        let status = match &mut *self.child() {
            Some(child) => child.try_wait()?,
            None => None,
        };
        match status {
            Some(status) => bail!("{} ended with {status}: {}", self.name, self.log()),
            None => Ok(()),
        }
    }
}

/// Exit status and output of a command that ended.
#[derive(Debug)]
pub struct Finished {
    /// Exit status.
    pub status: ExitStatus,
    /// Whole standard output.
    pub stdout: String,
    /// Whole standard error.
    pub stderr: String,
}

impl Process {
    /// Kills the process with SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.tracked.child().take() {
            // Fails only for a process that has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Output of the process so far.
    pub fn log(&self) -> String {
        self.tracked.log()
    }

    /// Asks the process to end, with SIGTERM.
    ///
    /// # Errors
    /// If it has ended already.
    pub fn terminate(&self) -> Result<()> {
        let child = self.tracked.child();
        let child = child.as_ref().context("the process was killed")?;
        let id = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        Ok(())
    }

    /// Waits until the process ends by itself, and returns its exit status.
    ///
    /// # Errors
    /// If it does not end within [`TIMEOUT`], with its log.
    pub async fn ended(&self) -> Result<ExitStatus> {
        let began = Instant::now();
        loop {
            if let Some(child) = &mut *self.tracked.child()
                && let Some(status) = child.try_wait()?
            {
                return Ok(status);
            }
            ensure!(
                began.elapsed() < TIMEOUT,
                "{} did not end in time: {}",
                self.tracked.name,
                self.log()
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Makes a Postgres database where the environment names a server, as `tests/postgres` does, and
/// returns its URL. Without a server the service keeps SQLite in its data folder.
fn create_database(folder: &Path) -> Result<Option<String>> {
    let Ok(server) = std::env::var("KERNELWRIGHT_TEST_POSTGRES") else {
        return Ok(None);
    };
    let unique = folder.file_name().unwrap_or_default().to_string_lossy();
    let name = format!(
        "lab_{}_{}",
        std::process::id(),
        unique.trim_start_matches('.')
    );
    #[expect(
        clippy::disallowed_methods,
        reason = "a short command of the database, which runs nothing of a candidate"
    )]
    let made = std::process::Command::new("createdb").arg(&name).output()?;
    ensure!(made.status.success(), "createdb failed: {made:?}");
    let (address, options) = server.split_once('?').unwrap_or((&server, ""));
    Ok(Some(format!("{address}/{name}?{options}")))
}

impl Lab {
    /// Creates an empty data folder; no process is started.
    ///
    /// # Errors
    /// If the folder or the HTTP client cannot be created.
    pub fn new() -> Result<Self> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .build()
            .context("build the client")?;
        let folder = tempfile::tempdir()?;
        Ok(Self {
            data: folder.path().join("data"),
            database: create_database(folder.path())?,
            folder,
            service: None,
            workers: Mutex::default(),
            client,
        })
    }

    /// As [`Lab::new`], but with an existing data folder, which is kept, and the SQLite database in it: commands such
    /// as `replay` use no other.
    ///
    /// # Errors
    /// As [`Lab::new`].
    pub fn with_data(data: PathBuf) -> Result<Self> {
        Ok(Self {
            data,
            database: None,
            ..Self::new()?
        })
    }

    /// A lab for a further service on the same Postgres database, with a data folder of its own.
    ///
    /// # Errors
    /// If there is no such database, or as [`Lab::new`].
    pub fn beside(&self) -> Result<Self> {
        let database = self.database.clone();
        ensure!(
            database.is_some(),
            "only a Postgres database can be shared: run the test with tests/postgres"
        );
        let folder = tempfile::tempdir()?;
        Ok(Self {
            data: folder.path().join("data"),
            database,
            folder,
            service: None,
            workers: Mutex::default(),
            client: self.client.clone(),
        })
    }

    /// Starts a service with a local worker in a new data folder.
    ///
    /// # Errors
    /// If the service does not answer.
    pub async fn with_worker() -> Result<Self> {
        let mut lab = Self::new()?;
        lab.serve(&["--with-local-worker"]).await?;
        Ok(lab)
    }

    /// The service's data folder.
    pub fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// The URL of the Postgres database; none where the lab uses SQLite.
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Temporary folder for files of the test.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the service with extra arguments and waits until its health check answers.
    ///
    /// # Errors
    /// If it ends or does not answer in time, with its log.
    pub async fn serve(&mut self, extra: &[&str]) -> Result<()> {
        self.serve_with(extra, &[]).await
    }

    /// As [`Lab::serve`], with additional environment variables.
    ///
    /// # Errors
    /// As [`Lab::serve`].
    pub async fn serve_with(&mut self, extra: &[&str], environment: &[(&str, &str)]) -> Result<()> {
        self.stop();
        let log = self.folder.path().join("service.log");
        let data = self.data();
        share_builds(&data)?;
        let mut arguments = vec!["serve", "--listen", "127.0.0.1:0", "--data", text(&data)];
        if let Some(database) = &self.database {
            arguments.extend(["--database", database]);
        }
        arguments.extend(extra);
        self.service = Some(start("the service", environment, &arguments, log)?);
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
            self.ensure_all_running()?;
            ensure!(
                began.elapsed() < TIMEOUT,
                "the service did not answer in time: {}",
                self.service_log()
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Starts a worker process. If it ends before the caller kills it, every wait of this lab
    /// fails with its log.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn worker(&self, name: &str) -> Result<Process> {
        self.worker_with(name, &[])
    }

    /// As [`Lab::worker`], with additional environment variables.
    ///
    /// # Errors
    /// As [`Lab::worker`].
    pub fn worker_with(&self, name: &str, environment: &[(&str, &str)]) -> Result<Process> {
        self.worker_in(name, name, environment)
    }

    /// As [`Lab::worker_with`], with its data in another folder of the lab than the one of its name, as
    /// a second worker of one host has.
    ///
    /// # Errors
    /// As [`Lab::worker`].
    pub fn worker_in(
        &self,
        folder: &str,
        name: &str,
        environment: &[(&str, &str)],
    ) -> Result<Process> {
        self.worker_at(&self.address()?, folder, name, environment)
    }

    /// As [`Lab::worker_in`], for the service at another address, such as that of a load balancer.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn worker_at(
        &self,
        address: &str,
        folder: &str,
        name: &str,
        environment: &[(&str, &str)],
    ) -> Result<Process> {
        let log = self.folder.path().join(format!("{folder}.log"));
        let data = self.folder.path().join(folder);
        share_builds(&data)?;
        let words = [
            "worker",
            "join",
            address,
            "--name",
            name,
            "--data",
            text(&data),
        ];
        let worker = start(&format!("the worker {name}"), environment, &words, log)?;
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.push(Arc::clone(&worker.tracked));
        Ok(worker)
    }

    /// Fails with the log of the first process that ended without being killed by the test.
    fn ensure_all_running(&self) -> Result<()> {
        if let Some(service) = &self.service {
            service.tracked.ensure_running()?;
        }
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers
            .iter()
            .try_for_each(|worker| worker.ensure_running())
    }

    /// Waits until a worker's output contains `words`.
    ///
    /// # Errors
    /// As [`Lab::until`].
    pub async fn until_logged(&self, worker: &Process, words: &str) -> Result<()> {
        let began = Instant::now();
        while !worker.log().contains(words) {
            self.ensure_all_running()?;
            ensure!(
                began.elapsed() < TIMEOUT,
                "{} did not log {words:?} in time: {}",
                worker.tracked.name,
                worker.log()
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Waits until something holds for the registered workers.
    ///
    /// # Errors
    /// As [`Lab::until`].
    pub async fn until_workers(&self, holds: impl Fn(&[WorkerView]) -> bool) -> Result<()> {
        let began = Instant::now();
        loop {
            let workers: Vec<WorkerView> = self.get("/workers").await?;
            if holds(&workers) {
                return Ok(());
            }
            self.ensure_all_running()?;
            ensure!(
                began.elapsed() < TIMEOUT,
                "the workers did not become so in time: {workers:?}"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Kills the service with SIGKILL and removes its address file.
    pub fn stop(&mut self) {
        self.service = None;
        let _ = std::fs::remove_file(self.data().join("server.json"));
    }

    /// Base URL of the service, without a final slash.
    ///
    /// # Errors
    /// If the service has not written its address file yet.
    pub fn address(&self) -> Result<String> {
        let told = std::fs::read(self.data().join("server.json"))?;
        let told: serde_json::Value = serde_json::from_slice(&told)?;
        Ok(told["url"]
            .as_str()
            .context("server.json has no url")?
            .trim_end_matches('/')
            .to_owned())
    }

    /// Output of the service so far.
    pub fn service_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("service.log")).unwrap_or_default()
    }

    /// Sends a GET request to `/api/v1{path}` and parses the JSON answer.
    ///
    /// # Errors
    /// A transport error, an HTTP error status with its body, or JSON that does not parse as `T`.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let url = format!("{}/api/v1{path}", self.address()?);
        parse_answer(self.client.get(&url).send().await?)
            .await
            .with_context(|| format!("GET {url}"))
    }

    /// Sends a GET request to `/api/v1{path}` and returns the answer's text.
    ///
    /// # Errors
    /// A transport error, or an HTTP error status with its body.
    pub async fn text(&self, path: &str) -> Result<String> {
        let url = format!("{}/api/v1{path}", self.address()?);
        let response = self.client.get(&url).send().await?;
        let status = response.status();
        let body = response.text().await?;
        ensure!(status.is_success(), "GET {url}: {status}: {body}");
        Ok(body)
    }

    /// Sends a POST request with a JSON body to `/api/v1{path}` and parses the JSON answer.
    ///
    /// # Errors
    /// As [`Lab::get`].
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<T> {
        let url = format!("{}/api/v1{path}", self.address()?);
        parse_answer(self.client.post(&url).json(body).send().await?)
            .await
            .with_context(|| format!("POST {url}"))
    }

    /// Uploads a task and launches a run on it.
    ///
    /// # Errors
    /// As [`Lab::get`].
    pub async fn launch(&self, bundle: &Bundle, request: &RunRequest) -> Result<RunView> {
        let _: serde_json::Value = self.post("/tasks", bundle).await?;
        self.post("/runs", request).await
    }

    /// Waits until `holds` returns true for the run.
    ///
    /// # Errors
    /// If the service or a worker ends by itself, with its log; after [`TIMEOUT`], with the run's
    /// last state and the service's log.
    pub async fn until(&self, run: RunId, holds: impl Fn(&RunView) -> bool) -> Result<RunView> {
        let began = Instant::now();
        loop {
            let view = match self.get::<RunView>(&format!("/runs/{}", run.uuid())).await {
                Ok(view) => view,
                // The log of a service that ended says more than a refused connection.
                Err(error) => return self.ensure_all_running().and(Err(error)),
            };
            if holds(&view) {
                return Ok(view);
            }
            self.ensure_all_running()?;
            ensure!(
                began.elapsed() < TIMEOUT,
                "the run did not get there in time: {view:#?}\n{}",
                self.service_log()
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until the run has ended in any state.
    ///
    /// # Errors
    /// As [`Lab::until`].
    pub async fn finished(&self, run: RunId) -> Result<RunView> {
        self.until(run, |view| view.state.is_over()).await
    }

    /// All candidates of a run, in the order of their ordinals.
    ///
    /// # Errors
    /// As [`Lab::get`].
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

    /// One candidate with its verdict and evidence.
    ///
    /// # Errors
    /// As [`Lab::get`].
    pub async fn candidate(&self, id: CandidateId) -> Result<CandidateDetail> {
        self.get(&format!("/candidates/{}", id.uuid())).await
    }
}

async fn parse_answer<T: DeserializeOwned>(response: reqwest::Response) -> Result<T> {
    let status = response.status();
    let body = response.text().await?;
    ensure!(status.is_success(), "{status}: {body}");
    serde_json::from_str(&body).with_context(|| format!("read {body}"))
}

/// Root folder of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the repository")
        .to_owned()
}

/// Reads a task of `kernels/`.
///
/// # Errors
/// If a file cannot be read.
pub fn task(name: &str) -> Result<Bundle> {
    task_in(&repository().join("kernels").join(name))
}

/// Reads a task from its folder.
///
/// # Errors
/// If a file cannot be read.
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

/// The task `softmax-f32` with an eighth of the rows or a quarter of the columns, for tests of what
/// happens around evaluations. Kernels and verdicts are those of the whole task, and a
/// confirmation takes a fifth of the processor time.
///
/// # Errors
/// If a file cannot be read or `task.toml` has other cases.
pub fn small_softmax() -> Result<Bundle> {
    let cases = [
        ("{ R = 16, C = 32000 }", "{ R = 16, C = 8000 }"),
        ("{ R = 8192, C = 128 }", "{ R = 1024, C = 128 }"),
        ("{ R = 512, C = 1024 }", "{ R = 128, C = 1024 }"),
    ];
    with_cases(task("softmax-f32")?, &cases)
}

/// The task `attention-f16` with half as many positions in its large cases, whose work is a quarter.
///
/// # Errors
/// If a file cannot be read or `task.toml` has other cases.
pub fn small_attention() -> Result<Bundle> {
    let cases = [
        ("{ B = 1, H = 8, S = 512 }", "{ B = 1, H = 8, S = 256 }"),
        ("{ B = 2, H = 8, S = 512 }", "{ B = 2, H = 4, S = 256 }"),
    ];
    with_cases(task("attention-f16")?, &cases)
}

fn with_cases(mut bundle: Bundle, cases: &[(&str, &str)]) -> Result<Bundle> {
    let text = bundle.files.get_mut("task.toml").context("a task file")?;
    for (listed, instead) in cases {
        ensure!(text.contains(listed), "the task has no case {listed}");
        *text = text.replace(listed, instead);
    }
    Ok(bundle)
}

/// Writes the files of a task into a folder.
///
/// # Errors
/// If a file cannot be written.
pub fn write_task(bundle: &Bundle, folder: &Path) -> Result<()> {
    for (file, text) in &bundle.files {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().context("a folder")?)?;
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Path of the built `kernelwright`.
///
/// # Panics
/// If it is not built; `./kw test` builds it first.
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let binary = test
        .ancestors()
        .find(|folder| folder.ends_with("debug") || folder.ends_with("release"))
        .map(|folder| folder.join("kernelwright"))
        .filter(|path| path.is_file());
    binary.expect("the program is built: run `cargo build --workspace` first")
}

/// Has a new data folder keep its images with those of all tests: they are named by the digest of all inputs of their
/// build, and to compile baseline and reference again takes a third of a small task's evaluation.
///
/// # Errors
/// If the folder cannot be made.
pub fn share_builds(data: &Path) -> Result<()> {
    let shared = binary().with_file_name("builds-of-tests");
    std::fs::create_dir_all(&shared)?;
    std::fs::create_dir_all(data)?;
    let own = data.join("builds");
    if !own.exists() {
        std::os::unix::fs::symlink(&shared, &own)?;
    }
    Ok(())
}

/// Runs `kernelwright` with arguments until it ends.
///
/// # Errors
/// If it cannot be started or does not end within [`TIMEOUT`].
pub fn kernelwright(arguments: &[&str]) -> Result<Finished> {
    program(&binary(), &[], arguments)
}

/// Runs a program with arguments and additional environment variables until it ends.
///
/// # Errors
/// As [`kernelwright`].
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
    let stdout = read_in_thread(child.stdout.take().context("piped")?);
    let stderr = read_in_thread(child.stderr.take().context("piped")?);
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > TIMEOUT {
            child.kill()?;
            child.wait()?;
            bail!("{} {arguments:?} did not end", executable.display());
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    let text = |thread: std::thread::JoinHandle<String>| thread.join().unwrap_or_default();
    Ok(Finished {
        status,
        stdout: text(stdout),
        stderr: text(stderr),
    })
}

fn read_in_thread(
    mut pipe: impl std::io::Read + Send + 'static,
) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // The bytes before a read error are shown all the same.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn start(
    name: &str,
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
        .with_context(|| format!("start {name}"))?;
    Ok(Process {
        tracked: Arc::new(TrackedChild {
            name: name.to_owned(),
            log,
            child: Mutex::new(Some(child)),
        }),
    })
}

fn text(path: &Path) -> &str {
    path.to_str()
        .expect("the temporary folder has a UTF-8 name")
}
