//! The requests of the worker protocol over HTTP. The caller decides about repetitions.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use domain::access::Secret;
use domain::api::ProblemDocument;
use domain::causes::with_causes;
use domain::digest::Digest;
use domain::health::HealthReport;
use domain::id::{JobId, WorkerId};
use domain::lease::{EvidenceReceipt, Lease, Receipt, Registered, Registration, Renewal, Report};
use reqwest::redirect::Policy;
use reqwest::{Certificate, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{FleetError, Join, certificate};

const CONNECT: Duration = Duration::from_secs(5);
/// Wall time of a request, beyond the time for which the service may hold it open.
const PATIENCE: Duration = Duration::from_secs(15);
/// The most characters of an error's body that are kept for the log.
const EXCERPT: usize = 300;

/// An HTTP client of one service.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<Secret>,
}

/// The reasons why a request failed.
#[derive(Debug)]
pub enum RequestError {
    /// The service did not answer, or its answer cannot be parsed.
    Unreachable(reqwest::Error),
    /// The service answered with an error.
    Status {
        /// The HTTP status.
        status: u16,
        /// The beginning of the answer's body.
        body: String,
    },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => {
                write!(f, "{}", with_causes(error))?;
                match certificate::remedy(error) {
                    Some(fix) => write!(f, "; {fix}"),
                    None => Ok(()),
                }
            }
            Self::Status { status, body } => write!(f, "status {status}: {body}"),
        }
    }
}

impl From<reqwest::Error> for RequestError {
    fn from(error: reqwest::Error) -> Self {
        Self::Unreachable(error)
    }
}

impl Client {
    /// Creates a client for the service of `join`.
    pub fn new(join: &Join) -> Result<Self, FleetError> {
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            // The protocol redirects nowhere, and a token goes to no other address.
            .redirect(Policy::none());
        if join.server.starts_with("http://") {
            // Unencrypted requests need neither a proxy nor CA certificates, so that a machine
            // without certificates can work for a service of its own.
            builder = builder.no_proxy().tls_certs_only([]);
        } else if let Some(authority) = &join.authority {
            let certificates =
                Certificate::from_pem_bundle(authority).map_err(FleetError::Client)?;
            builder = builder.tls_certs_only(certificates);
        }
        let http = builder.build().map_err(FleetError::Client)?;
        Ok(Self {
            http,
            base: format!("{}/api/v1", join.server.trim_end_matches('/')),
            token: join.token.clone(),
        })
    }

    /// Registers the worker.
    pub async fn register(&self, registration: &Registration) -> Result<Registered, RequestError> {
        let response = self.post("workers", registration, PATIENCE).await?;
        read(response).await
    }

    /// Asks for a lease; the service may hold the request open for `wait`.
    pub async fn lease(
        &self,
        worker: WorkerId,
        wait: Duration,
    ) -> Result<Option<Lease>, RequestError> {
        let path = format!("workers/{}/lease?wait={}", worker.uuid(), wait.as_secs());
        let response = self.post(&path, &(), wait + PATIENCE).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        read(response).await.map(Some)
    }

    /// Reports the device's health.
    pub async fn health(
        &self,
        worker: WorkerId,
        health: &HealthReport,
    ) -> Result<(), RequestError> {
        let path = format!("workers/{}/health", worker.uuid());
        self.post(&path, health, PATIENCE).await.map(drop)
    }

    /// Renews a lease.
    pub async fn renew(&self, job: JobId, renewal: &Renewal) -> Result<Receipt, RequestError> {
        let path = format!("leases/{}/renew", job.uuid());
        let response = self.post(&path, renewal, PATIENCE).await?;
        read(response).await
    }

    /// Reports the outcome of a lease.
    pub async fn report(&self, job: JobId, report: &Report) -> Result<Receipt, RequestError> {
        let path = format!("leases/{}/report", job.uuid());
        let response = self.post(&path, report, PATIENCE).await?;
        read(response).await
    }

    /// Sends the manifest of a bundle, or one of its files; the receipt names the files that are
    /// still missing.
    pub async fn evidence(
        &self,
        digest: Digest,
        name: Option<&str>,
        bytes: Bytes,
    ) -> Result<EvidenceReceipt, RequestError> {
        let path = match name {
            None => format!("evidence/{digest}"),
            Some(name) => format!("evidence/{digest}/{name}"),
        };
        let request = self.http.put(format!("{}/{path}", self.base));
        let request = request
            .header("content-type", "application/octet-stream")
            .body(bytes);
        read(self.send(request, PATIENCE).await?).await
    }

    async fn post(
        &self,
        path: &str,
        body: &impl Serialize,
        timeout: Duration,
    ) -> Result<Response, RequestError> {
        let request = self.http.post(format!("{}/{path}", self.base));
        self.send(request.json(body), timeout).await
    }

    async fn send(
        &self,
        request: RequestBuilder,
        timeout: Duration,
    ) -> Result<Response, RequestError> {
        let mut request = request.timeout(timeout);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.reveal());
        }
        let response = request.send().await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.text().await.unwrap_or_default();
        Err(RequestError::Status {
            status: status.as_u16(),
            body: reason(&body),
        })
    }
}

/// The reason of a refusal: the detail of a problem document, else the beginning of the body.
fn reason(body: &str) -> String {
    match serde_json::from_str::<ProblemDocument>(body) {
        Ok(document) => document.detail,
        Err(_) => body.chars().take(EXCERPT).collect(),
    }
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T, RequestError> {
    Ok(response.json().await?)
}
