//! Metrics in the text format that Prometheus scrapes, `OpenMetrics`.
//!
//! Runs, jobs, workers, devices and calls are counted in the database at each scrape, so that their
//! numbers are right after a restart and with any number of readers. Only requests and reports are counted in memory, from the service's start.

use std::sync::atomic::AtomicU64;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::evaluation::EVALUATOR_VERSION;
use domain::lease::ReportOutcome;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use store::{JobCount, ServiceCounts};

use super::App;
use super::error::{AnyProblem, ApiError};

/// Type of the answer.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Upper bounds of the histogram of request times, seconds. The last covers a long poll.
const REQUEST_BUCKETS: [f64; 9] = [0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 30.0, 60.0];

const RUN_STATES: [&str; 7] = [
    "created",
    "checking_baseline",
    "running",
    "paused",
    "completed",
    "failed",
    "cancelled",
];
const WORKER_ACTIVITIES: [&str; 5] = ["idle", "evaluating", "suspended", "draining", "silent"];
const DEVICE_CONDITIONS: [&str; 2] = ["well", "quarantined"];

const WEBHOOK_STATES: [&str; 2] = ["waiting", "given_up"];

/// Label names with their values.
type Labels = Vec<(&'static str, String)>;
/// Whole numbers by label.
type Counts = Family<Labels, Gauge<u64, AtomicU64>>;

/// Counts of requests and reports since the service started. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: Family<Labels, Histogram, fn() -> Histogram>,
    reports: Family<Labels, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Family::new_with_constructor(|| Histogram::new(REQUEST_BUCKETS)),
            reports: Family::default(),
        }
    }
}

impl Metrics {
    /// Counts a worker's report that ended a lease.
    pub(super) fn count_report(&self, outcome: &ReportOutcome) {
        let outcome = match outcome {
            ReportOutcome::Evaluated { evaluation } => evaluation.verdict.kind().as_str(),
            ReportOutcome::Faulted { .. } => "fault",
            ReportOutcome::Declined { .. } => "declined",
            ReportOutcome::Refused { .. } => "task_refused",
            ReportOutcome::HandedBack => "handed_back",
        };
        let labels = vec![("outcome", outcome.to_owned())];
        self.reports.get_or_create(&labels).inc();
    }

    fn count_request(&self, method: &str, route: &str, response: &Response, begun: Instant) {
        let labels = vec![
            ("method", method.to_owned()),
            ("route", route.to_owned()),
            ("status", response.status().as_u16().to_string()),
        ];
        let took = begun.elapsed().as_secs_f64();
        self.requests.get_or_create(&labels).observe(took);
    }
}

/// Middleware: measures the time from a request's head to its answer's head.
pub async fn measure_request(
    State(metrics): State<Metrics>,
    route: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let method = request.method().clone();
    let response = next.run(request).await;
    metrics.count_request(method.as_str(), route.as_str(), &response, begun);
    response
}

/// Reports runs, jobs, workers, devices, models' calls, cost and requests in the `OpenMetrics` text
/// format.
#[utoipa::path(get, path = "/metrics", tag = "service", security(("token" = ["viewer"])), responses((status = 200, body = String, content_type = "application/openmetrics-text"), AnyProblem))]
pub async fn metrics(State(app): State<App>) -> Result<Response, ApiError> {
    let counts = app.engine.store().service_counts(app.engine.now()).await?;
    let registry = registry(&counts, &app.metrics);
    let mut text = String::new();
    encode(&mut text, &registry).map_err(|error| {
        ApiError::internal(anyhow::Error::new(error).context("write the metrics"))
    })?;
    Ok(([(CONTENT_TYPE, FORMAT)], text).into_response())
}

fn registry(counts: &ServiceCounts, metrics: &Metrics) -> Registry {
    let mut registry = Registry::with_prefix("kernelwright");
    let version = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("evaluator", EVALUATOR_VERSION.to_string()),
    ];
    let release = Family::<Labels, Gauge>::default();
    release.get_or_create(&version).set(1);
    registry.register("release", "Version of the service; always 1", release);
    registry.register(
        "runs",
        "Runs by state",
        by_label("state", &RUN_STATES, &counts.runs),
    );
    registry.register(
        "jobs",
        "Jobs that are not done, by state and by the device that their run needs",
        jobs(&counts.jobs),
    );
    registry.register_with_unit(
        "longest_wait",
        "Time for which the oldest job has waited that a worker may take now",
        Unit::Seconds,
        #[expect(clippy::cast_precision_loss, reason = "a time to look at")]
        ConstGauge::new(counts.longest_wait.num_milliseconds() as f64 / 1e3),
    );
    registry.register(
        "workers",
        "Workers by activity; silent ones were seen in the last hour only",
        by_label("activity", &WORKER_ACTIVITIES, &counts.workers),
    );
    registry.register(
        "devices",
        "Devices by condition",
        by_label("condition", &DEVICE_CONDITIONS, &counts.devices),
    );
    registry.register(
        "undelivered_webhooks",
        "Events that their endpoints did not take, by state",
        by_label("state", &WEBHOOK_STATES, &counts.undelivered_webhooks),
    );
    registry.register(
        "open_model_calls",
        "Calls of models that wait for an answer",
        ConstGauge::new(counts.open_calls),
    );
    registry.register_with_unit(
        "database",
        "Size of the database without its write-ahead log",
        Unit::Bytes,
        ConstGauge::new(counts.database_bytes),
    );
    let totals = counts.totals;
    registry.register(
        "answered_model_calls",
        "Answered calls of models over all runs",
        ConstCounter::new(totals.answered_calls),
    );
    let tokens = Family::<Labels, Counter>::default();
    for (direction, count) in [
        ("input", totals.input_tokens),
        ("output", totals.output_tokens),
    ] {
        let labels = vec![("direction", direction.to_owned())];
        tokens.get_or_create(&labels).inc_by(count);
    }
    registry.register("model_tokens", "Tokens of all runs", tokens);
    registry.register_with_unit(
        "model_cost",
        "Cost of all runs' calls whose model has a price",
        Unit::Other("dollars".to_owned()),
        #[expect(clippy::cast_precision_loss, reason = "dollars to look at")]
        ConstCounter::new(totals.cost_nanos as f64 / 1e9),
    );
    registry.register_with_unit(
        "device_time",
        "Time for which devices were occupied by all runs",
        Unit::Seconds,
        #[expect(clippy::cast_precision_loss, reason = "a time to look at")]
        ConstCounter::new(totals.device_us as f64 / 1e6),
    );
    registry.register(
        "reports",
        "Reports of workers since the start, by verdict or trouble",
        metrics.reports.clone(),
    );
    registry.register_with_unit(
        "request_duration",
        "Time from a request's head to its answer's head, since the start",
        Unit::Seconds,
        metrics.requests.clone(),
    );
    registry
}

/// A gauge for each value of a label. Known values that nothing was counted for are zero, so that a
/// query finds them before the first one is counted.
fn by_label(label: &'static str, known: &[&str], counts: &[(String, u64)]) -> Counts {
    let gauges = Counts::default();
    let zeros = known.iter().map(|value| (*value, 0));
    let counts = counts.iter().map(|(value, count)| (value.as_str(), *count));
    for (value, count) in zeros.chain(counts) {
        let labels = vec![(label, value.to_owned())];
        gauges.get_or_create(&labels).set(count);
    }
    gauges
}

/// Jobs by state and device; the device is empty until the run's baseline decides it.
fn jobs(counts: &[JobCount]) -> Counts {
    let gauges = Counts::default();
    for job in counts {
        let labels = vec![
            ("state", job.state.clone()),
            ("device", job.device.clone().unwrap_or_default()),
        ];
        gauges.get_or_create(&labels).set(job.count);
    }
    gauges
}
