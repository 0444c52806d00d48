//! Webhooks: events that the service posts to other services, signed as the specification "Standard
//! Webhooks" says.
//!
//! The database holds each event until its endpoint took it (`store::webhooks`). An endpoint has a task
//! of its own, so that one that is slow or down delays neither runs nor other endpoints.

mod issue;
pub mod settings;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use domain::api::{WebhookBody, WebhookData};
use domain::causes::with_causes;
use engine::Clock;
use engine::promote::is_modelled_branch;
use engine::promote::proposal::BranchError;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::header::{CONTENT_TYPE, USER_AGENT};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, StatusCode, Url};
use sha2::Sha256;
use store::{DueWebhook, Store, StoreError, WebhookAttempt};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::git_host::{GitHost, Issue};
use crate::pull_request::{self, PullRequestError};

pub use settings::{Endpoint, Proposals, SettingsError, SigningSecret, Target};

/// The longest time that one attempt may take, unless an endpoint says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after the first failed attempt. Each further one is four times as long.
const FIRST_PAUSE: TimeDelta = TimeDelta::seconds(5);
const LONGEST_PAUSE: TimeDelta = TimeDelta::hours(1);
/// Attempts after which an event is given up: after about a day.
pub const MAX_ATTEMPTS: u32 = 28;
/// Events that are read at once.
const BATCH: u32 = 20;
/// The pause after an error of the database.
const DATABASE_PAUSE: Duration = Duration::from_secs(5);
/// The wait of a service that does not deliver until it looks whether it has to.
const TAKEOVER_WAIT: Duration = Duration::from_secs(5);
/// The longest wait for the next event that is due, so that a changed clock is noticed.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Delivers the events of one endpoint until the service stops. An attempt that the stop interrupts is
/// made again, with the same id.
pub fn deliver(
    endpoint: Endpoint,
    store: Store,
    clock: Arc<dyn Clock>,
    closing: CancellationToken,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let sender = match endpoint.target {
            Target::Post {
                url,
                secret,
                authority,
                timeout,
            } => Sender::Post {
                http: client(&url, authority.as_deref(), timeout),
                url,
                secret,
            },
            Target::Issue(host) => Sender::Issue(host),
            Target::PullRequest(proposals) => Sender::PullRequest(proposals),
        };
        let delivery = Delivery {
            name: endpoint.name,
            sender,
            store,
            clock,
        };
        closing.run_until_cancelled(delivery.run_forever()).await;
    })
}

struct Delivery {
    name: String,
    sender: Sender,
    store: Store,
    clock: Arc<dyn Clock>,
}

/// The way to one endpoint.
enum Sender {
    Post {
        http: Client,
        url: Url,
        secret: SigningSecret,
    },
    Issue(Arc<GitHost>),
    PullRequest(Arc<Proposals>),
}

impl Delivery {
    async fn run_forever(self) {
        let mut changed = self.store.changed_service();
        loop {
            changed.borrow_and_update();
            let wait = match self.deliver_due().await {
                Ok(wait) => wait,
                Err(error) => {
                    tracing::warn!("failed to {error}; webhooks wait");
                    tokio::time::sleep(DATABASE_PAUSE).await;
                    continue;
                }
            };
            tokio::select! {
                // The store outlives this task, so its counters do too.
                _ = changed.changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Makes an attempt for each event that is due, and returns the time until the next one is. Of several services
    /// that share a database one delivers.
    async fn deliver_due(&self) -> Result<Duration, StoreError> {
        let name = &self.name;
        loop {
            if !self.store.does_shared_work().await? {
                return Ok(TAKEOVER_WAIT);
            }
            let due = self
                .store
                .due_webhooks(name, self.clock.now(), BATCH)
                .await?;
            if due.is_empty() {
                break;
            }
            for event in due {
                let attempt = self.attempt(&event).await;
                let now = self.clock.now();
                self.store
                    .note_webhook(&event.event, name, &attempt, now)
                    .await?;
            }
        }
        let next = self.store.next_webhook(name).await?;
        let wait = next.map(|at| (at - self.clock.now()).to_std().unwrap_or_default());
        Ok(wait.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT))
    }

    async fn attempt(&self, due: &DueWebhook) -> WebhookAttempt {
        let (endpoint, event) = (&self.name, &due.event);
        let sent = match &self.sender {
            Sender::Post { http, url, secret } => self.post(due, http, url, secret).await,
            Sender::Issue(host) => open_issue(host, due).await,
            Sender::PullRequest(proposals) => propose(proposals, due).await,
        };
        let (error, gone) = match sent {
            Ok(()) => {
                tracing::debug!(%endpoint, %event, "delivered an event");
                return WebhookAttempt::Delivered;
            }
            Err(refused) => refused,
        };
        let attempts = due.attempts.saturating_add(1);
        let again = next_attempt(attempts, self.clock.now()).filter(|_| !gone);
        match again {
            Some(at) => tracing::warn!(
                %endpoint, %event, attempts, again = %at.format("%Y-%m-%dT%H:%M:%SZ"),
                "failed to deliver an event: {error}"
            ),
            None => tracing::error!(%endpoint, %event, attempts, "gave an event up: {error}"),
        }
        WebhookAttempt::Failed { error, again }
    }

    /// Posts an event. The error comes with true if the endpoint wants no further attempt.
    async fn post(
        &self,
        due: &DueWebhook,
        http: &Client,
        url: &Url,
        secret: &SigningSecret,
    ) -> Result<(), (String, bool)> {
        // Receivers compare it with their own clocks.
        let timestamp = self.clock.time_of_day().timestamp();
        let signature = sign(secret, &due.event, timestamp, &due.body);
        let answer = http
            .post(url.clone())
            .header("webhook-id", &due.event)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .header(CONTENT_TYPE, "application/json")
            .header(
                USER_AGENT,
                concat!("kernelwright/", env!("CARGO_PKG_VERSION")),
            )
            .body(due.body.clone())
            .send()
            .await;
        match answer {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => {
                let status = answer.status();
                let note = match status.is_redirection() {
                    true => "; redirects are not followed",
                    false => "",
                };
                let gone = status == StatusCode::GONE;
                Err((format!("it answered {}{note}", status.as_u16()), gone))
            }
            // The address may hold a secret.
            Err(error) => {
                let error = anyhow::Error::new(error.without_url());
                Err((format!("{error:#}"), false))
            }
        }
    }
}

/// Opens a pull request for the winner of an event, if it was committed to the repository. A pull request that an
/// earlier attempt opened is found again.
async fn propose(proposals: &Proposals, due: &DueWebhook) -> Result<(), (String, bool)> {
    let promotion = match read_event(due)?.data {
        WebhookData::Run { run } => run.promotion,
        WebhookData::Budget { .. } | WebhookData::Device { .. } => None,
    };
    let route = &proposals.route;
    let here = |name: &str| Path::new(name).canonicalize().ok() == Some(route.repository.clone());
    let Some(promotion) = promotion.filter(|promotion| here(&promotion.repository)) else {
        return Ok(());
    };
    let branch = &promotion.branch;
    if is_modelled_branch(branch) && !proposals.modelled {
        tracing::info!("proposed no {branch}: its times are modelled");
        return Ok(());
    }
    let failed = |error: PullRequestError| (with_causes(&error), false);
    let winner = match pull_request::read(route, branch).await {
        Ok(winner) => winner,
        // It was merged, or taken back.
        Err(PullRequestError::Branch(BranchError::NoChange { .. })) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let opened = pull_request::open(&proposals.host, route, branch, &winner);
    let opened = opened.await.map_err(failed)?;
    tracing::info!(event = %due.event, "proposed {branch}: {}", opened.url);
    Ok(())
}

/// The content of an event. One that does not parse would never do.
fn read_event(due: &DueWebhook) -> Result<WebhookBody, (String, bool)> {
    serde_json::from_str(&due.body).map_err(|error| (format!("read the event: {error}"), true))
}

/// Opens the issue of an event. After an attempt whose answer was lost it looks for that issue first.
async fn open_issue(host: &GitHost, due: &DueWebhook) -> Result<(), (String, bool)> {
    let failed = |error: &(dyn std::error::Error + 'static)| (with_causes(error), false);
    let body = read_event(due)?;
    let mark = format!("<!-- kernelwright {} -->", due.event);
    if due.attempts > 0 {
        let known = host
            .find_issue(&mark)
            .await
            .map_err(|error| failed(&error))?;
        if known.is_some() {
            return Ok(());
        }
    }
    let (title, text) = issue::of(&body, &mark);
    let issue = Issue {
        title: &title,
        text: &text,
    };
    let page = host
        .open_issue(issue)
        .await
        .map_err(|error| failed(&error))?;
    tracing::info!(event = %due.event, "opened the issue {page}");
    Ok(())
}

/// The value of the header `webhook-signature`: HMAC-SHA256 over id, timestamp and body.
pub fn sign(secret: &SigningSecret, id: &str, timestamp: i64, body: &str) -> String {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("a key may have any length");
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// The time of the attempt after a number of failed ones; none after the last.
fn next_attempt(failed: u32, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    if failed >= MAX_ATTEMPTS {
        return None;
    }
    let factor = 4_i32.saturating_pow(failed.saturating_sub(1));
    let pause = FIRST_PAUSE.checked_mul(factor).unwrap_or(LONGEST_PAUSE);
    Some(now + pause.min(LONGEST_PAUSE))
}

fn client(url: &Url, authority: Option<&[u8]>, timeout: Duration) -> Client {
    let mut builder = Client::builder()
        .timeout(timeout)
        // The endpoint that the operator named gets the events, and no other.
        .redirect(Policy::none());
    if url.scheme() == "http" {
        builder = builder.no_proxy().tls_certs_only([]);
    } else if let Some(authority) = authority {
        let certificates = Certificate::from_pem_bundle(authority).unwrap_or_default();
        builder = builder.tls_certs_only(certificates);
    }
    builder
        .build()
        .expect("the system's TLS was set up when the settings were read")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's own libraries.
    #[test]
    fn a_signature_is_that_of_the_specification() {
        let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", "{\"test\": 2432232314}");
        assert_eq!(
            sign(&secret, id, 1_614_265_330, body),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn pauses_grow_to_an_hour_and_end_after_a_day() {
        let now = DateTime::UNIX_EPOCH;
        let pauses = (1..=MAX_ATTEMPTS).map(|failed| next_attempt(failed, now));
        let pauses = pauses.map(|at| at.map(|at| (at - now).num_seconds()));
        let pauses = pauses.collect::<Vec<_>>();
        assert_eq!(pauses[..6], [5, 20, 80, 320, 1280, 3600].map(Some));
        assert_eq!(pauses.last(), Some(&None));
        let total = pauses.into_iter().flatten().sum::<i64>();
        assert!((20 * 3600..26 * 3600).contains(&total), "{total} s");
    }
}
