//! The command line's view of a service: one method per route it uses.
//!
//! A refused request is the caller's mistake; a missing answer is trouble of the infrastructure. Both
//! keep their own exit code.

mod proposer;
pub mod stream;

use std::time::Duration;

use axum::body::Bytes;
use domain::api::{
    Brief, CandidateDetail, CandidatePage, CandidateRequest, CandidateSummary, DeviceMonth,
    FleetHealth, ForkRequest, Health, Lineage, ProblemDocument, PromotionView, RunEstimate,
    RunPage, RunPreview, RunRequest, RunStateName, RunView, SteeringEntry, Submission, TagsRequest,
    TaskVersion, TaskView, WebhookDelivery, WorkerView,
};
use domain::digest::Digest;
use domain::id::{CandidateId, RunId, WorkerId};
use domain::task::Bundle;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Certificate, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use worker::fleet::certificate;

use crate::credentials::Credentials;
use crate::http::guard;
use crate::outcome::Failure;
use crate::run_export::RunExportFormat;

/// The longest that one answer may take.
const TIMEOUT: Duration = Duration::from_secs(40);

/// The reasons why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is none.
    #[error("read {0:?} as the service's address: it must look like http://127.0.0.1:8787")]
    Address(String),
    /// A token would cross a network as plain text.
    #[error(
        "send a token to {0}: without TLS others could read it on the way; use an https:// address, or a tunnel to a loopback address"
    )]
    PlainToken(String),
    /// The certificate of the authority cannot be used.
    #[error("read the certificate of the authority: it must be one or more certificates in PEM")]
    Authority,
    /// The system's TLS set-up is broken.
    #[error("prepare HTTP requests")]
    Setup(#[source] reqwest::Error),
    /// The service did not answer, or its answer broke off.
    #[error(
        "reach the service at {url}; start one with `kernelwright serve --with-local-worker`, or name another with --server"
    )]
    Unreachable {
        /// The service.
        url: String,
        /// The reason.
        source: reqwest::Error,
    },
    /// The service's certificate is not accepted.
    #[error("trust the service at {url}: {remedy}")]
    Untrusted {
        /// The service.
        url: String,
        /// The setting with which the certificate is trusted.
        remedy: &'static str,
        /// The reason.
        source: reqwest::Error,
    },
    /// The service says that the request is wrong.
    #[error("{doing}: {detail}")]
    Refused {
        /// The request, as a verb phrase.
        doing: String,
        /// The service's reason.
        detail: String,
    },
    /// The service reports an internal error, or its answer cannot be parsed.
    #[error("{doing}: the service answered {status}: {detail}")]
    Trouble {
        /// The request, as a verb phrase.
        doing: String,
        /// The status.
        status: StatusCode,
        /// The service's reason.
        detail: String,
    },
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Address(_)
            | ClientError::PlainToken(_)
            | ClientError::Authority
            | ClientError::Refused { .. } => Self::input(error),
            _ => Self::infrastructure(error),
        }
    }
}

/// The runs of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunsQuery {
    /// Only those of this task.
    pub task: Option<String>,
    /// Only those in this state.
    pub state: Option<RunStateName>,
    /// Only those with this tag.
    pub tag: Option<String>,
    /// The `next` of the page before; the newest runs when absent.
    pub cursor: Option<String>,
    /// At most this many, 1 to 200.
    pub limit: u32,
}

/// A change of a run's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunChange {
    /// Propose and lease nothing until it is resumed.
    Pause,
    /// Continue after a pause.
    Resume,
    /// Propose nothing more, and promote the best.
    Finish,
    /// End now.
    Cancel,
}

impl RunChange {
    /// The verb, which is the last part of the route.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Finish => "finish",
            Self::Cancel => "cancel",
        }
    }
}

/// A connection to one service.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
}

impl Client {
    /// For the service at `address`, without a token.
    ///
    /// # Errors
    /// [`ClientError::Address`] or [`ClientError::Setup`].
    pub fn new(address: &str) -> Result<Self, ClientError> {
        Self::with(address, &Credentials::default())
    }

    /// For the service at `address`, with a token and an authority if there are any.
    ///
    /// # Errors
    /// [`ClientError::Address`], [`ClientError::PlainToken`], [`ClientError::Authority`] or
    /// [`ClientError::Setup`].
    pub fn with(address: &str, credentials: &Credentials) -> Result<Self, ClientError> {
        let wrong = || ClientError::Address(address.to_owned());
        let base = Url::parse(address).map_err(|_| wrong())?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(wrong());
        }
        let mut builder = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .read_timeout(TIMEOUT)
            // The API redirects nowhere, and a token goes to no other address.
            .redirect(Policy::none());
        if base.scheme() == "http" {
            if credentials.token.is_some() && !guard::is_loopback(base.authority()) {
                return Err(ClientError::PlainToken(address.to_owned()));
            }
            // No proxy stands between this machine and itself, and a machine without CA
            // certificates can still talk to its own service.
            builder = builder.no_proxy().tls_certs_only([]);
        } else if let Some(authority) = &credentials.authority {
            let certificates = Certificate::from_pem_bundle(authority).unwrap_or_default();
            if certificates.is_empty() {
                return Err(ClientError::Authority);
            }
            builder = builder.tls_certs_only(certificates);
        }
        if let Some(token) = &credentials.token {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
                .expect("a token is ASCII");
            value.set_sensitive(true);
            builder = builder.default_headers([(AUTHORIZATION, value)].into_iter().collect());
        }
        let http = builder.build().map_err(ClientError::Setup)?;
        Ok(Self { http, base })
    }

    /// The service's address, without a slash at the end.
    pub fn address(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// The dashboard's page of a run.
    pub fn run_page(&self, run: RunId) -> String {
        format!("{}/runs/{}", self.address(), run.uuid())
    }

    /// Asks for the service's health.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.get("health", "ask for the service's health").await
    }

    /// Lists the service's devices with their health.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn devices(&self) -> Result<FleetHealth, ClientError> {
        self.get("devices", "list the devices").await
    }

    /// Lists the events that no endpoint of the webhooks took.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn undelivered_webhooks(&self) -> Result<Vec<WebhookDelivery>, ClientError> {
        self.get("webhooks/undelivered", "list the undelivered events")
            .await
    }

    /// Lists the workers that the service got requests from in the last hour.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn workers(&self) -> Result<Vec<WorkerView>, ClientError> {
        self.get("workers", "list the workers").await
    }

    /// The hours of each worker's device by month.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn device_months(&self) -> Result<Vec<DeviceMonth>, ClientError> {
        self.get("fleet/hours", "list the hours of devices").await
    }

    /// Drains a worker.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn drain(&self, worker: WorkerId) -> Result<(), ClientError> {
        let url = self.url(&format!("workers/{}/drain", worker.uuid()));
        let response = self.http.post(url).timeout(TIMEOUT).send().await;
        let response = response.map_err(|error| self.unreachable(error))?;
        accepted(response, "drain the worker").await.map(drop)
    }

    /// Uploads a task.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn upload(&self, bundle: &Bundle) -> Result<TaskView, ClientError> {
        let request = self.http.post(self.url("tasks")).json(bundle);
        self.send(request, "upload the task").await
    }

    /// Asks for a run; the same key gives the same run.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn create(&self, request: &RunRequest, key: &str) -> Result<RunView, ClientError> {
        let request = self
            .http
            .post(self.url("runs"))
            .header("idempotency-key", key)
            .json(request);
        self.send(request, "launch the run").await
    }

    /// Returns the first prompt of a run and its estimated cost, without creating it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn preview(&self, request: &RunRequest) -> Result<RunPreview, ClientError> {
        let request = self.http.post(self.url("runs/preview")).json(request);
        self.send(request, "preview the run").await
    }

    /// Estimates what a run will take from earlier runs like it, without creating it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn estimate(&self, request: &RunRequest) -> Result<RunEstimate, ClientError> {
        let request = self.http.post(self.url("runs/estimate")).json(request);
        self.send(request, "estimate the run").await
    }

    /// A run's calls as a recording.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn recording(&self, run: RunId) -> Result<String, ClientError> {
        let path = format!("runs/{}/recording", run.uuid());
        self.text(&path, "record the run").await
    }

    /// The lessons of a run in Markdown; empty if no candidate with a thought has a verdict.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn lessons(&self, run: RunId) -> Result<String, ClientError> {
        let path = format!("runs/{}/lessons", run.uuid());
        self.text(&path, "read the lessons of the run").await
    }

    /// An answer that is no JSON.
    async fn text(&self, path: &str, doing: &str) -> Result<String, ClientError> {
        let response = self.http.get(self.url(path)).send().await;
        let response = response.map_err(|error| self.unreachable(error))?;
        let response = accepted(response, doing).await?;
        let text = response.text().await;
        text.map_err(|error| self.unreachable(error))
    }

    /// The export of a run as a file, whose content follows in parts.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn export_run(
        &self,
        run: RunId,
        format: RunExportFormat,
    ) -> Result<Response, ClientError> {
        let path = format!("runs/{}/export?format={}", run.uuid(), format.as_str());
        let response = self.http.get(self.url(&path)).send().await;
        let response = response.map_err(|error| self.unreachable(error))?;
        accepted(response, "export the run").await
    }

    /// The next part of an answer; none after the last.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] if the answer breaks off.
    pub async fn next_part(&self, answer: &mut Response) -> Result<Option<Bytes>, ClientError> {
        let part = answer.chunk().await;
        part.map_err(|error| self.unreachable(error))
    }

    /// The newest version of each task.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn tasks(&self) -> Result<Vec<TaskView>, ClientError> {
        self.get("tasks", "list the tasks").await
    }

    /// The newest version of a task.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn task(&self, name: &str) -> Result<TaskView, ClientError> {
        let request = self.http.get(self.task_url(name, &[]));
        self.send(request.timeout(TIMEOUT), "look at the task")
            .await
    }

    /// The versions of a task with the runs that use each, newest first.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn task_versions(&self, name: &str) -> Result<Vec<TaskVersion>, ClientError> {
        let request = self.http.get(self.task_url(name, &["versions"]));
        self.send(request.timeout(TIMEOUT), "list the task's versions")
            .await
    }

    /// A page of runs, newest first.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn runs(&self, query: &RunsQuery) -> Result<RunPage, ClientError> {
        let mut url = match &query.task {
            Some(task) => self.task_url(task, &["runs"]),
            None => Url::parse(&self.url("runs")).expect("the base is an address"),
        };
        url.query_pairs_mut()
            .append_pair("limit", &query.limit.to_string());
        if let Some(state) = query.state {
            url.query_pairs_mut().append_pair("state", state.as_str());
        }
        for (name, value) in [("tag", &query.tag), ("cursor", &query.cursor)] {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        self.send(self.http.get(url).timeout(TIMEOUT), "list the runs")
            .await
    }

    /// One run.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn run(&self, run: RunId) -> Result<RunView, ClientError> {
        self.get(&format!("runs/{}", run.uuid()), "look at the run")
            .await
    }

    /// Changes the state of a run. To repeat a change does nothing.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn change_run(&self, run: RunId, change: RunChange) -> Result<RunView, ClientError> {
        let action = change.as_str();
        let url = self.url(&format!("runs/{}/{action}", run.uuid()));
        self.send(self.http.post(url), &format!("{action} the run"))
            .await
    }

    /// Replaces the tags of a run.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn set_tags(&self, run: RunId, tags: Vec<String>) -> Result<RunView, ClientError> {
        let url = self.url(&format!("runs/{}/tags", run.uuid()));
        let body = TagsRequest { tags };
        self.send(self.http.put(url).json(&body), "change the run's tags")
            .await
    }

    /// The directions that a run was given.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn steering(&self, run: RunId) -> Result<Vec<SteeringEntry>, ClientError> {
        let path = format!("runs/{}/steering", run.uuid());
        self.get(&path, "list the run's directions").await
    }

    /// Gives a run a direction: `action` is the last part of the route.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn steer(
        &self,
        run: RunId,
        action: &str,
        request: &impl Serialize,
    ) -> Result<SteeringEntry, ClientError> {
        let url = self.url(&format!("runs/{}/{action}", run.uuid()));
        self.send(self.http.post(url).json(request), "steer the run")
            .await
    }

    /// Starts a run from a candidate of another; the same key gives the same run.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn fork(
        &self,
        run: RunId,
        request: &ForkRequest,
        key: &str,
    ) -> Result<RunView, ClientError> {
        let url = self.url(&format!("runs/{}/fork", run.uuid()));
        let request = self
            .http
            .post(url)
            .header("idempotency-key", key)
            .json(request);
        self.send(request, "fork the run").await
    }

    /// Begins to promote a candidate.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn promote(
        &self,
        run: RunId,
        candidate: CandidateId,
    ) -> Result<PromotionView, ClientError> {
        let url = self.url(&format!("runs/{}/promote", run.uuid()));
        let request = self.http.post(url).json(&CandidateRequest { candidate });
        self.send(request, "promote the candidate").await
    }

    /// The candidate of a run with an ordinal, as a page of at most one.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn candidates_at(
        &self,
        run: RunId,
        ordinal: u32,
    ) -> Result<CandidatePage, ClientError> {
        let path = format!("runs/{}/candidates?ordinal={ordinal}", run.uuid());
        self.get(&path, "look for the candidate").await
    }

    /// A run's lineage.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn lineage(&self, run: RunId) -> Result<Lineage, ClientError> {
        let path = format!("runs/{}/lineage", run.uuid());
        self.get(&path, "read the run's lineage").await
    }

    /// A run's brief.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn brief(&self, run: RunId) -> Result<Brief, ClientError> {
        let path = format!("runs/{}/brief", run.uuid());
        self.get(&path, "ask for the run's brief").await
    }

    /// Proposes a kernel.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn submit(
        &self,
        run: RunId,
        submission: &Submission,
    ) -> Result<CandidateSummary, ClientError> {
        let url = self.url(&format!("runs/{}/candidates", run.uuid()));
        self.send(self.http.post(url).json(submission), "submit the kernel")
            .await
    }

    /// One candidate.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn candidate(&self, id: CandidateId) -> Result<CandidateDetail, ClientError> {
        let path = format!("candidates/{}", id.uuid());
        self.get(&path, "look at the candidate").await
    }

    fn url(&self, path: &str) -> String {
        format!("{}/api/v1/{path}", self.address())
    }

    /// A route of a task. The name is one segment of the path, however it is spelt.
    fn task_url(&self, name: &str, rest: &[&str]) -> Url {
        let mut url = Url::parse(&self.url("tasks")).expect("the base is an address");
        url.path_segments_mut()
            .expect("an http address has a path")
            .push(name)
            .extend(rest);
        url
    }

    /// The manifest of a bundle of evidence, or one of its files.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn evidence(
        &self,
        digest: Digest,
        name: Option<&str>,
    ) -> Result<Vec<u8>, ClientError> {
        let path = match name {
            None => format!("evidence/{digest}"),
            Some(name) => format!("evidence/{digest}/{name}"),
        };
        let request = self.http.get(self.url(&path)).timeout(TIMEOUT);
        let response = request.send().await;
        let response = response.map_err(|error| self.unreachable(error))?;
        let body = accepted(response, "fetch the evidence")
            .await?
            .bytes()
            .await;
        body.map(Into::into)
            .map_err(|error| self.unreachable(error))
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, doing: &str) -> Result<T, ClientError> {
        self.send(self.http.get(self.url(path)).timeout(TIMEOUT), doing)
            .await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        doing: &str,
    ) -> Result<T, ClientError> {
        let response = request
            .send()
            .await
            .map_err(|error| self.unreachable(error))?;
        let response = accepted(response, doing).await?;
        let status = response.status();
        let body = response
            .bytes()
            .await
            .map_err(|error| self.unreachable(error))?;
        serde_json::from_slice(&body).map_err(|error| ClientError::Trouble {
            doing: doing.to_owned(),
            status,
            detail: format!(
                "its answer is not understood: {}",
                crate::json_error::describe(&error.to_string())
            ),
        })
    }

    fn unreachable(&self, source: reqwest::Error) -> ClientError {
        let url = self.address().to_owned();
        match certificate::remedy(&source) {
            Some(remedy) => ClientError::Untrusted {
                url,
                remedy,
                source,
            },
            None => ClientError::Unreachable { url, source },
        }
    }
}

/// Passes a success on; anything else becomes the error that it is.
async fn accepted(response: Response, doing: &str) -> Result<Response, ClientError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let text = response.text().await.unwrap_or_default();
    let detail = match serde_json::from_str::<ProblemDocument>(&text) {
        Ok(document) => document.detail,
        Err(_) => crate::terminal::line(&text, 200),
    };
    let doing = doing.to_owned();
    Err(if status.is_client_error() {
        ClientError::Refused { doing, detail }
    } else {
        ClientError::Trouble {
            doing,
            status,
            detail,
        }
    })
}
