//! Traces: every candidate as one OpenTelemetry trace, sent to a collector as OTLP over HTTP.
//!
//! Spans are made from the event log when their end is known, so that nothing waits for a collector and
//! a collector that is away for a while gets them later. What ends while no service runs that exports
//! traces is not traced.

mod spans;

use std::collections::HashMap;
use std::time::Duration;

use domain::api::{Event, EventKind, PromotionState};
use domain::id::CandidateId;
use engine::{Engine, EngineError};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};
use tokio_util::sync::CancellationToken;

use self::spans::{Evaluating, attribute};

/// The variable with the collector's address: `/v1/traces` is added to it.
pub const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The variable with further headers of each request, such as a key: `name=value,name=value`.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
/// The variable with the service's name in traces.
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
/// Events that are read at once.
const PAGE: u32 = 500;
/// The pause between two looks at the event log.
const LOOK: Duration = Duration::from_secs(1);
/// The longest time of one request.
const TIMEOUT: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The reasons why traces cannot be exported. Messages follow "failed to".
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The endpoint is no address of a collector.
    #[error(
        "read the collector's address {url:?}: {reason}; give the address without /v1/traces, such as http://127.0.0.1:4318"
    )]
    Endpoint {
        /// The text.
        url: String,
        /// Its defect.
        reason: String,
    },
    /// A header cannot be sent.
    #[error("read {HEADERS}: item {item} is not `name=value`")]
    Header {
        /// Position in the list, from 1. The text may be a secret.
        item: usize,
    },
}

/// A collector of traces.
#[derive(Debug, Clone)]
pub struct Collector {
    url: Url,
    headers: HeaderMap,
    service: String,
}

impl Collector {
    /// The collector at an address, with the headers and the service's name from the environment.
    ///
    /// # Errors
    /// See [`TracesError`].
    pub fn at(endpoint: &str) -> Result<Self, TracesError> {
        let headers = std::env::var(HEADERS).unwrap_or_default();
        let service = std::env::var(SERVICE_NAME)
            .ok()
            .filter(|name| !name.is_empty());
        Ok(Self {
            url: parse_endpoint(endpoint)?,
            headers: parse_headers(&headers)?,
            service: service.unwrap_or_else(|| "kernelwright".to_owned()),
        })
    }
}

fn parse_endpoint(endpoint: &str) -> Result<Url, TracesError> {
    let wrong = |reason: String| TracesError::Endpoint {
        url: endpoint.to_owned(),
        reason,
    };
    let text = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
    let url = Url::parse(&text).map_err(|error| wrong(error.to_string()))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(wrong(format!("the scheme {other} is not http or https"))),
    }
}

fn parse_headers(text: &str) -> Result<HeaderMap, TracesError> {
    let mut headers = HeaderMap::new();
    let items = text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty());
    for (item, number) in items.zip(1..) {
        let wrong = || TracesError::Header { item: number };
        let (name, value) = item.split_once('=').ok_or_else(wrong)?;
        let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Exports the spans of all candidates until `closing`.
pub async fn export(collector: Collector, engine: Engine, closing: CancellationToken) {
    let http = Client::builder()
        .timeout(TIMEOUT)
        .redirect(Policy::none())
        .default_headers(collector.headers.clone())
        .build()
        .expect("the system's TLS is there");
    let exporter = Exporter {
        collector,
        http,
        engine,
        evaluating: HashMap::new(),
    };
    closing.run_until_cancelled(exporter.run_forever()).await;
}

struct Exporter {
    collector: Collector,
    http: Client,
    engine: Engine,
    /// The evaluations that began and have not ended.
    evaluating: HashMap<CandidateId, Evaluating>,
}

impl Exporter {
    async fn run_forever(mut self) {
        let mut after = None;
        loop {
            match self.export_new(&mut after).await {
                Ok(()) => {}
                Err(error) => tracing::warn!("failed to {error}; traces wait"),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Exports what has ended since the event `after`. Of several services that share a database one
    /// exports; the others only follow.
    async fn export_new(&mut self, after: &mut Option<i64>) -> Result<(), EngineError> {
        let store = self.engine.store().clone();
        let Some(last) = *after else {
            *after = Some(store.newest_event().await?);
            return Ok(());
        };
        let mut last = last;
        let exports = store.does_shared_work().await?;
        loop {
            let events = store.events_of_all_after(last, PAGE).await?;
            let Some(newest) = events.last().map(|event| event.id) else {
                return Ok(());
            };
            let mut ended = Vec::new();
            for event in &events {
                ended.extend(self.follow(event, exports).await?);
            }
            if exports && !ended.is_empty() {
                self.send(ended).await;
            }
            last = newest;
            *after = Some(last);
        }
    }

    /// Takes in an event, and returns the spans that end with it.
    async fn follow(&mut self, event: &Event, exports: bool) -> Result<Vec<Span>, EngineError> {
        let at = event.at;
        match &event.what {
            EventKind::Stage {
                candidate, worker, ..
            } => {
                let begun = Evaluating {
                    run: event.run,
                    worker: *worker,
                    at,
                };
                self.evaluating.entry(*candidate).or_insert(begun);
            }
            EventKind::Requeued { candidate, reason } => {
                let begun = self.evaluating.remove(candidate);
                return Ok(begun
                    .map(|begun| begun.lost(*candidate, at, reason))
                    .into_iter()
                    .collect());
            }
            EventKind::Judged { candidate, .. } | EventKind::Abandoned { candidate, .. } => {
                let begun = self.evaluating.remove(candidate);
                if exports && let Some(detail) = self.engine.candidate(*candidate).await? {
                    return Ok(spans::of_candidate(&detail, begun.as_ref(), at));
                }
            }
            EventKind::Reevaluated {
                candidate, summary, ..
            } => {
                let begun = self.evaluating.remove(candidate);
                return Ok(begun
                    .map(|begun| begun.again(*candidate, at, summary))
                    .into_iter()
                    .collect());
            }
            EventKind::Promotion { promotion } => {
                // The first event of a promotion says that the confirmation begins.
                if promotion.state != PromotionState::Confirming {
                    let begun = self.evaluating.remove(&promotion.candidate);
                    let span = begun.map(|begun| spans::of_promotion(promotion, &begun, at));
                    return Ok(span.into_iter().collect());
                }
            }
            EventKind::RunChanged { state } if state.is_over() => {
                self.evaluating.retain(|_, begun| begun.run != event.run);
            }
            EventKind::RunChanged { .. }
            | EventKind::Proposed { .. }
            | EventKind::Replied { .. }
            | EventKind::Unanswered { .. }
            | EventKind::Steered { .. } => {}
        }
        Ok(Vec::new())
    }

    /// Sends spans, and repeats it until the collector takes them or refuses them for good.
    async fn send(&self, spans: Vec<Span>) {
        let body = self.request(spans).encode_to_vec();
        let mut pause = LOOK;
        loop {
            let sent = self
                .http
                .post(self.collector.url.clone())
                .header(CONTENT_TYPE, "application/x-protobuf")
                .body(body.clone())
                .send()
                .await;
            let (reason, again) = match sent {
                Ok(answer) if answer.status().is_success() => return,
                Ok(answer) => {
                    let status = answer.status();
                    (
                        format!("it answered {}", status.as_u16()),
                        may_repeat(status),
                    )
                }
                Err(error) => (
                    format!("{:#}", anyhow::Error::new(error.without_url())),
                    true,
                ),
            };
            tracing::warn!(again, "failed to send traces to the collector: {reason}");
            if !again {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn request(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let version = env!("CARGO_PKG_VERSION");
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource {
                    attributes: vec![
                        attribute("service.name", self.collector.service.as_str()),
                        attribute("service.version", version),
                    ],
                    ..Resource::default()
                }),
                scope_spans: vec![ScopeSpans {
                    scope: Some(InstrumentationScope {
                        name: "kernelwright".to_owned(),
                        version: version.to_owned(),
                        ..InstrumentationScope::default()
                    }),
                    spans,
                    ..ScopeSpans::default()
                }],
                ..ResourceSpans::default()
            }],
        }
    }
}

/// Returns true if OTLP lets a client repeat a request that was answered so.
fn may_repeat(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502..=504)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_traces_is_added_to_the_collectors_address() {
        for (given, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            (
                "https://traces.example/otlp/",
                "https://traces.example/otlp/v1/traces",
            ),
        ] {
            assert_eq!(parse_endpoint(given).unwrap().as_str(), expected);
        }
        for given in ["localhost:4318", "", "grpc://host:4317"] {
            let refused = parse_endpoint(given).unwrap_err().to_string();
            assert!(refused.contains(&format!("{given:?}")), "{refused}");
        }
    }

    #[test]
    fn headers_are_read_and_a_wrong_one_is_named_by_its_position_only() {
        let headers = parse_headers(" api-key = s=cret , x-scope=team,").unwrap();
        assert_eq!(headers["api-key"], "s=cret");
        assert_eq!(headers["x-scope"], "team");
        let refused = parse_headers("a=b,secret").unwrap_err().to_string();
        assert!(refused.contains("item 2"), "{refused}");
        assert!(!refused.contains("secret"), "{refused}");
    }
}
