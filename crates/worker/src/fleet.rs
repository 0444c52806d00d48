//! The worker of a service: registers, reports its device's health, leases one evaluation at a
//! time, renews the lease while the evaluation runs, and reports its outcome.
//!
//! The worker only opens connections and never accepts one. It waits for a service that is not
//! reachable. A lost lease cancels the evaluation; a worker that is stopped hands its lease back.
//! The evidence of a verdict is sent after the report. The module knows the protocol of
//! [`domain::lease`] and nothing of how an evaluation is carried out.

mod backoff;
mod bundles;
pub mod certificate;
mod client;
mod idle;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::access::Secret;
use domain::admission::Admission;
use domain::causes::with_causes;
use domain::digest::Digest;
use domain::evaluation::EvaluationRequest;
use domain::id::WorkerId;
use domain::lease::{
    HEARTBEAT_SECONDS, Lease, Receipt, Registration, Renewal, Report, ReportOutcome,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info, info_span, warn};

use crate::cancel::Cancellation;
use crate::evaluate::{EvaluateError, SearchEvaluation};
use crate::health_record::HealthRecordFile;
use backoff::Backoff;
use bundles::BundleSender;
use client::{Client, RequestError};
use idle::IdleTime;

/// Wall time of the last messages of a worker that is stopping.
const LAST_MESSAGE_DEADLINE: Duration = Duration::from_secs(5);

/// The service to work for, and the worker's part of the protocol.
#[derive(Debug, Clone)]
pub struct Join {
    /// The service's address, such as `http://127.0.0.1:8787`.
    pub server: String,
    /// The token that the service asks for, if it does.
    pub token: Option<Secret>,
    /// Certificates in PEM. Only services whose certificate they signed are trusted; without them the
    /// system's authorities decide.
    pub authority: Option<Vec<u8>>,
    /// The message with which the worker registers.
    pub registration: Registration,
    /// The health record of its device. The service is told of it, because a candidate that broke
    /// this device must not reach another one.
    pub health: HealthRecordFile,
    /// The data folder with its evidence bundles, which are copied to the service.
    pub data: PathBuf,
    /// The intervals of its requests.
    pub pace: Pace,
    /// Time without a job after which the worker leaves; none stays. Time in which the service cannot
    /// be reached counts.
    pub idle_limit: Option<Duration>,
}

/// The reason why a worker left its service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// It was told to stop, or drained.
    Stopped,
    /// It had no job for [`Join::idle_limit`].
    Idle,
}

/// The intervals of a worker's requests.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The interval between two renewals of a lease.
    pub heartbeat: Duration,
    /// The longest time for which the service may hold a request for a lease open.
    pub poll: Duration,
    /// The wait before a failed request is repeated; doubled before each further repetition.
    pub first_delay: Duration,
    /// The longest wait before a repetition.
    pub longest_delay: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(u64::from(HEARTBEAT_SECONDS)),
            poll: Duration::from_secs(20),
            first_delay: Duration::from_millis(250),
            longest_delay: Duration::from_secs(15),
        }
    }
}

/// The reasons why a worker cannot work for a service at all.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The HTTP client could not be created.
    #[error("set up the HTTP client; check that certificates are installed")]
    Client(#[source] reqwest::Error),
    /// The service rejects this worker.
    #[error("join {server}: it answered {status}: {body}")]
    Refused {
        /// The service's address.
        server: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of the answer's body.
        body: String,
    },
    /// The cancellation of an evaluation could not be prepared.
    #[error("prepare an evaluation")]
    Prepare(#[source] std::io::Error),
}

/// Works for a service until `shutdown`, and then hands back the lease that it holds.
///
/// `evaluate` carries out one evaluation. Its arguments are the request, the function to call with
/// the name of each stage, and the cancellation to obey.
///
/// # Errors
/// A [`FleetError`] if the service rejects the worker. A service that is not reachable is no error:
/// the worker waits for it.
pub async fn join<F, E>(
    join: Join,
    evaluate: F,
    shutdown: CancellationToken,
) -> Result<Departure, FleetError>
where
    F: Fn(&EvaluationRequest, &dyn Fn(&str), &Cancellation) -> Result<SearchEvaluation, E>
        + Send
        + Sync
        + 'static,
    E: Error + 'static,
{
    let client = Client::new(&join)?;
    let evaluate = Arc::new(evaluate);
    let sender = BundleSender {
        client: client.clone(),
        data: join.data.clone(),
        pace: join.pace,
        shutdown: shutdown.clone(),
    };
    let (bundles, queue) = mpsc::unbounded_channel();
    let mut sending = tokio::spawn(sender.send_all(queue));
    let idle = Arc::new(IdleTime::new());
    let stop = shutdown.child_token();
    if let Some(limit) = join.idle_limit {
        let (idle, stop) = (Arc::clone(&idle), stop.clone());
        tokio::spawn(async move {
            if stop
                .run_until_cancelled(idle.reaches(limit))
                .await
                .is_some()
            {
                info!(
                    "leaving the service: there was no job for {} s",
                    limit.as_secs()
                );
                stop.cancel();
            }
        });
    }
    let fleet = Fleet {
        join,
        client,
        bundles,
        idle,
        shutdown: stop.clone(),
    };
    let worked = fleet.work(&evaluate).await;
    let departure = if stop.is_cancelled() && !shutdown.is_cancelled() {
        Departure::Idle
    } else {
        Departure::Stopped
    };
    stop.cancel();
    drop(fleet);
    if tokio::time::timeout(LAST_MESSAGE_DEADLINE, &mut sending)
        .await
        .is_err()
    {
        sending.abort();
    }
    worked.map(|()| departure)
}

struct Fleet {
    join: Join,
    client: Client,
    /// The queue of evidence to send.
    bundles: mpsc::UnboundedSender<Digest>,
    idle: Arc<IdleTime>,
    shutdown: CancellationToken,
}

/// The evaluation's thread, which ends with the report to send.
type EvaluationThread = JoinHandle<Report>;

impl Fleet {
    /// Registers and works on leases, again and again, until the worker stops or is refused.
    async fn work<F, E>(&self, evaluate: &Arc<F>) -> Result<(), FleetError>
    where
        F: Fn(&EvaluationRequest, &dyn Fn(&str), &Cancellation) -> Result<SearchEvaluation, E>
            + Send
            + Sync
            + 'static,
        E: Error + 'static,
    {
        while let Some(worker) = self.register().await? {
            if !self.serve(worker, evaluate).await? {
                break;
            }
        }
        Ok(())
    }

    /// Registers, and waits for the service as long as necessary; `None` on shutdown.
    async fn register(&self) -> Result<Option<WorkerId>, FleetError> {
        let mut backoff = self.backoff();
        loop {
            let answer = self.client.register(&self.join.registration);
            let Some(answer) = self.unless_stopping(answer).await else {
                return Ok(None);
            };
            match answer {
                Ok(registered) => {
                    info!(
                        worker.id = %registered.worker,
                        "joined {} as {}", self.join.server, registered.worker
                    );
                    self.send_health(registered.worker).await;
                    return Ok(Some(registered.worker));
                }
                Err(RequestError::Status { status, body }) if is_final(status) => {
                    return Err(FleetError::Refused {
                        server: self.join.server.clone(),
                        status,
                        body,
                    });
                }
                Err(error) => {
                    if !self.pause(&mut backoff, "register", &error).await {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Works on leases one after the other. Returns false on shutdown, and true if the service does
    /// not know the worker any more, so that it has to register again.
    async fn serve<F, E>(&self, worker: WorkerId, evaluate: &Arc<F>) -> Result<bool, FleetError>
    where
        F: Fn(&EvaluationRequest, &dyn Fn(&str), &Cancellation) -> Result<SearchEvaluation, E>
            + Send
            + Sync
            + 'static,
        E: Error + 'static,
    {
        let mut backoff = self.backoff();
        loop {
            let answer = self.client.lease(worker, self.join.pace.poll);
            let Some(answer) = self.unless_stopping(answer).await else {
                return Ok(false);
            };
            match answer {
                Ok(None) => backoff = self.backoff(),
                Ok(Some(lease)) => {
                    backoff = self.backoff();
                    let span = info_span!(
                        "lease",
                        job.id = %lease.job,
                        attempt = lease.attempt,
                        run.id = %lease.run,
                        candidate.id = %lease.candidate,
                        traceparent = lease.traceparent.as_deref(),
                    );
                    self.idle.begin_job();
                    self.evaluate_lease(worker, lease, evaluate)
                        .instrument(span)
                        .await?;
                    self.idle.end_job();
                }
                Err(RequestError::Status { status: 404, .. }) => return Ok(true),
                Err(RequestError::Status { status: 410, body }) => {
                    info!("leaving the service, which drained this worker: {body}");
                    return Ok(false);
                }
                // The service was replaced by another release, or the token was revoked or belongs to
                // another worker. Registering again finds out which, and whether it can go on.
                Err(
                    error @ RequestError::Status {
                        status: 401 | 403 | 409,
                        ..
                    },
                ) => return Ok(self.pause(&mut backoff, "lease", &error).await),
                Err(error) => {
                    if !self.pause(&mut backoff, "lease", &error).await {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Evaluates under one lease and reports the outcome, unless the lease is lost meanwhile.
    async fn evaluate_lease<F, E>(
        &self,
        worker: WorkerId,
        lease: Lease,
        evaluate: &Arc<F>,
    ) -> Result<(), FleetError>
    where
        F: Fn(&EvaluationRequest, &dyn Fn(&str), &Cancellation) -> Result<SearchEvaluation, E>
            + Send
            + Sync
            + 'static,
        E: Error + 'static,
    {
        let cancellation = Cancellation::new().map_err(FleetError::Prepare)?;
        let (stage, stages) = watch::channel("start".to_owned());
        let (job, attempt) = (lease.job, lease.attempt);
        let health = self.join.health.report();
        info!(candidate.id = %lease.candidate, "evaluating {}", lease.candidate);
        let task = tokio::task::spawn_blocking({
            let evaluate = Arc::clone(evaluate);
            let cancellation = cancellation.clone();
            move || {
                let progress = |name: &str| {
                    stage.send_replace(name.to_owned());
                };
                let (outcome, admission) = match evaluate(&lease.request, &progress, &cancellation)
                {
                    Ok(found) => {
                        let evaluation = found.evaluation;
                        (ReportOutcome::Evaluated { evaluation }, found.admission)
                    }
                    Err(error) => describe_error(&error),
                };
                Report {
                    attempt,
                    outcome,
                    admission,
                }
            }
        });
        let renewal = || Renewal {
            attempt,
            stage: stages.borrow().clone(),
        };
        let (end, report) = self
            .renew_until_done(job, renewal, task, &cancellation)
            .await;
        let report = match end {
            LeaseEnd::Lost => {
                info!("the lease was lost; its evaluation is dropped");
                return Ok(());
            }
            LeaseEnd::Stopping => Report {
                attempt,
                outcome: ReportOutcome::HandedBack,
                admission: None,
            },
            LeaseEnd::Finished => report,
        };
        match &report.outcome {
            ReportOutcome::Evaluated { evaluation } => info!("verdict: {}", evaluation.verdict),
            ReportOutcome::Faulted { message }
            | ReportOutcome::Declined { message }
            | ReportOutcome::Refused { message } => {
                warn!("failed to {message}");
            }
            ReportOutcome::HandedBack => info!("handing the lease back"),
        }
        // Sent before the report, because after it the service may lease the same candidate to
        // another worker.
        if self.join.health.report() != health {
            self.send_health(worker).await;
        }
        let evidence = match &report.outcome {
            ReportOutcome::Evaluated { evaluation } => evaluation.evidence,
            ReportOutcome::Faulted { .. }
            | ReportOutcome::Declined { .. }
            | ReportOutcome::Refused { .. }
            | ReportOutcome::HandedBack => None,
        };
        self.report(job, &report).await;
        if let Some(digest) = evidence {
            // The sender ends only when the queue is closed.
            let _ = self.bundles.send(digest);
        }
        Ok(())
    }

    /// Sends the device's health to the service, once. If that fails, the service gets it when the
    /// worker registers again.
    async fn send_health(&self, worker: WorkerId) {
        let health = self.join.health.report();
        let sent = self.client.health(worker, &health);
        match tokio::time::timeout(LAST_MESSAGE_DEADLINE, sent).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!("failed to tell how the device fares: {error}"),
            Err(_) => warn!("failed to tell how the device fares: the service does not answer"),
        }
    }

    /// Renews a lease until its evaluation has finished, the lease is lost or the worker stops. The
    /// evaluation has ended in every case.
    async fn renew_until_done(
        &self,
        job: domain::id::JobId,
        renewal: impl Fn() -> Renewal,
        mut task: EvaluationThread,
        cancellation: &Cancellation,
    ) -> (LeaseEnd, Report) {
        let attempt = renewal().attempt;
        let mut heartbeat = tokio::time::interval(self.join.pace.heartbeat);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let end = loop {
            tokio::select! {
                report = &mut task => return (LeaseEnd::Finished, report_of_thread(report, attempt)),
                () = self.shutdown.cancelled() => break LeaseEnd::Stopping,
                _ = heartbeat.tick() => {}
            }
            // The evaluation may finish while the service answers.
            let renewal = renewal();
            let receipt = tokio::select! {
                report = &mut task => return (LeaseEnd::Finished, report_of_thread(report, attempt)),
                () = self.shutdown.cancelled() => break LeaseEnd::Stopping,
                receipt = self.client.renew(job, &renewal) => receipt,
            };
            match receipt {
                Ok(Receipt::Accepted) => {}
                Ok(Receipt::Superseded) | Err(RequestError::Status { status: 404, .. }) => {
                    break LeaseEnd::Lost;
                }
                // The next heartbeat tries again; the service decides when the lease expires.
                Err(error) => warn!("failed to renew the lease: {error}"),
            }
        };
        cancellation.cancel();
        (end, report_of_thread(task.await, attempt))
    }

    /// Delivers a report. It is repeated until the service accepts or rejects it or the worker
    /// stops, because a service that is not reachable may come back.
    async fn report(&self, job: domain::id::JobId, report: &Report) {
        let mut backoff = self.backoff();
        loop {
            let sent = self.client.report(job, report);
            let answer = if self.shutdown.is_cancelled() {
                match tokio::time::timeout(LAST_MESSAGE_DEADLINE, sent).await {
                    Ok(answer) => answer,
                    Err(_) => return,
                }
            } else {
                sent.await
            };
            match answer {
                Ok(Receipt::Accepted) => return,
                Ok(Receipt::Superseded) => {
                    info!("the report came too late: another attempt counts");
                    return;
                }
                Err(RequestError::Status { status, body }) if is_final(status) => {
                    warn!("failed to report: the service answered {status}: {body}");
                    return;
                }
                Err(error) => {
                    if !self.pause(&mut backoff, "report", &error).await {
                        return;
                    }
                }
            }
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(self.join.pace.first_delay, self.join.pace.longest_delay)
    }

    /// Waits before a repetition; false on shutdown.
    async fn pause(&self, backoff: &mut Backoff, what: &str, error: &RequestError) -> bool {
        let delay = backoff.next();
        warn!(
            delay_ms = delay.as_millis(),
            "failed to {what} at {}: {error}; trying again", self.join.server
        );
        self.unless_stopping(tokio::time::sleep(delay))
            .await
            .is_some()
    }

    async fn unless_stopping<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.shutdown.run_until_cancelled(work).await
    }
}

/// The reason why a lease is no longer renewed.
enum LeaseEnd {
    Finished,
    Lost,
    Stopping,
}

fn report_of_thread(report: Result<Report, tokio::task::JoinError>, attempt: i64) -> Report {
    report.unwrap_or_else(|error| Report {
        attempt,
        outcome: ReportOutcome::Faulted {
            message: format!("evaluate: the evaluator panicked: {error}"),
        },
        admission: None,
    })
}

/// The outcome of an evaluation without a verdict. A task that fails admission does so on every worker,
/// and its admission is reported.
fn describe_error(error: &(dyn Error + 'static)) -> (ReportOutcome, Option<Box<Admission>>) {
    let message = with_causes(error);
    let error = error.downcast_ref::<EvaluateError>();
    if let Some(EvaluateError::Lacking(_)) = error {
        return (ReportOutcome::Declined { message }, None);
    }
    match error.and_then(EvaluateError::refusal) {
        Some(refusal) => {
            let admission = Some(Box::new(refusal.clone()));
            (ReportOutcome::Refused { message }, admission)
        }
        None => (ReportOutcome::Faulted { message }, None),
    }
}

/// Returns true if a repetition of the same request cannot succeed.
fn is_final(status: u16) -> bool {
    (400..500).contains(&status) && !matches!(status, 408 | 425 | 429)
}
