//! A model behind HTTP: one call with its limits, attempts and deadlines.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::model::Usage;
use futures::future::BoxFuture;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, Response, redirect};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};

use super::config::{HttpConfig, Temperature, TokenLimitField, is_loopback};
use super::dialect::{self, Answer, EventKind, NoAnswer, RequestFields};
use super::error::{LlmError, ModelServer, Phase};
use super::failure::{Report, printable};
use super::key::Key;
use super::pace::Pace;
use super::refused_fields::{RefusedFields, SentFields};
use super::retry::{Pauses, retry_after};
use super::sse::Decoder;
use super::{CallRequest, Llm, Reply};

/// The most bytes of a reply, framing included: many times the longest text of a model.
const MAX_REPLY: u64 = 32 * 1024 * 1024;
/// Bytes of an error's body that are read.
const MAX_REPORT: u64 = 64 * 1024;
/// Characters of a server's name for a call, or for itself, that are kept.
const MAX_NAME: usize = 120;

/// A model behind HTTP.
pub(super) struct HttpModel {
    config: HttpConfig,
    server: ModelServer,
    client: OnceCell<Client>,
    pace: Pace,
    pauses: Pauses,
    refused_fields: Mutex<RefusedFields>,
}

/// The reason why one attempt gave no reply.
enum AttemptError {
    /// The server refused a field; the next attempt omits it.
    FieldRefused,
    Failed(LlmError),
}

impl From<LlmError> for AttemptError {
    fn from(error: LlmError) -> Self {
        Self::Failed(error)
    }
}

impl HttpModel {
    /// The randomness of its pauses comes from `seed`.
    pub(super) fn new(config: HttpConfig, seed: u64) -> Self {
        Self {
            server: ModelServer {
                model: config.common.name.clone(),
                host: config.host(),
            },
            client: OnceCell::new(),
            pace: Pace::new(
                config.common.concurrency,
                config.requests_per_minute,
                config.tokens_per_minute,
            ),
            pauses: Pauses::new(config.backoff, seed),
            refused_fields: Mutex::default(),
            config,
        }
    }

    /// Returns true if the model was made with this configuration.
    pub(super) fn is_configured_as(&self, config: &HttpConfig) -> bool {
        self.config == *config
    }

    /// The fields that its server refused, as text.
    pub(super) fn learned(&self) -> Vec<String> {
        self.refused_fields().words()
    }

    /// The defect of its key's source, if it has one.
    pub(super) fn key_problem(&self) -> Option<String> {
        self.config.key.read().err().map(|error| error.to_string())
    }

    fn refused_fields(&self) -> std::sync::MutexGuard<'_, RefusedFields> {
        self.refused_fields
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn call(&self, request: &CallRequest) -> Result<Reply, LlmError> {
        let _slot = self.pace.slot().await;
        let mut attempts = 0;
        let mut failures = 0;
        loop {
            attempts += 1;
            let error = match self.attempt(request).await {
                Ok(reply) => return Ok(Reply { attempts, ..reply }),
                Err(AttemptError::FieldRefused) => continue,
                Err(AttemptError::Failed(error)) => error,
            };
            failures += 1;
            if !error.may_pass() || failures >= self.config.attempts {
                return Err(error);
            }
            let Some(pause) = self.pauses.after(failures, error.retry_after()) else {
                return Err(error);
            };
            tracing::warn!(
                model = self.server.model,
                failures,
                pause_ms = pause.as_millis() as u64,
                "failed to {error}; asking again"
            );
            tokio::time::sleep(pause).await;
        }
    }

    async fn attempt(&self, request: &CallRequest) -> Result<Reply, AttemptError> {
        let client = self
            .client
            .get_or_try_init(|| async { self.build_client() })
            .await?;
        let key = self.config.key.read().map_err(|error| LlmError::Key {
            server: self.server.clone(),
            problem: error.to_string(),
        })?;
        let (body, sent) = self.body(request);
        let most = self.most_output(request);
        let reserved = request.prompt.estimated_tokens() + most;
        self.pace.acquire(reserved).await;

        let started = Instant::now();
        let sending = client
            .post(self.config.url.clone())
            .headers(self.headers(key.as_ref()))
            .body(body)
            .send();
        let mut exchange = Exchange::new(self, started);
        let response = exchange
            .within(sending)
            .await?
            .map_err(|source| LlmError::Unreachable {
                server: self.server.clone(),
                source: source.without_url(),
            })?;
        let request_id = request_id(response.headers());
        if !response.status().is_success() {
            self.pace.return_unused(reserved, 0);
            return Err(self.failed(exchange, response, sent, key.as_ref()).await);
        }
        let answer = exchange.answer(response, key.as_ref()).await?;
        let (usage, usage_estimated) = match answer.usage {
            Some(usage) => (usage, false),
            None => (estimate(request, &answer), true),
        };
        self.pace.return_unused(reserved, usage.total());
        let model = answer.model.as_deref().unwrap_or(&self.config.model);
        Ok(Reply {
            text: answer.text,
            end: answer.end,
            usage,
            usage_estimated,
            model: short(model),
            request_id,
            first_token: exchange.first_token,
            total: started.elapsed(),
            attempts: 1,
        })
    }

    fn build_client(&self) -> Result<Client, LlmError> {
        let mut builder = Client::builder()
            .connect_timeout(self.config.timeouts.connect)
            .user_agent(concat!("kernelwright/", env!("CARGO_PKG_VERSION")))
            // A key is for the configured host alone.
            .redirect(redirect::Policy::none());
        if is_loopback(&self.config.url) {
            builder = builder.no_proxy();
        }
        if self.config.url.scheme() == "http" {
            // HTTP needs no certificates, so that a machine without CA certificates works.
            builder = builder.tls_certs_only([]);
        }
        builder.build().map_err(|source| LlmError::Setup {
            server: self.server.clone(),
            source,
        })
    }

    fn headers(&self, key: Option<&Key>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/json");
        headers.insert(CONTENT_TYPE, json.clone());
        let accept = HeaderValue::from_static("text/event-stream");
        headers.insert(ACCEPT, if self.config.stream { accept } else { json });
        headers.extend(self.config.dialect.headers(key));
        headers
    }

    fn most_output(&self, request: &CallRequest) -> u64 {
        let most = self.config.common.max_output_tokens;
        request
            .max_output_tokens
            .map_or(most, |wanted| wanted.min(most))
    }

    fn body(&self, request: &CallRequest) -> (Vec<u8>, SentFields) {
        let config = &self.config;
        let refused_fields = *self.refused_fields();
        let features = config.dialect.features();
        let temperature = match config.temperature {
            Temperature::Requested => request.temperature,
            Temperature::Fixed(temperature) => Some(temperature),
            Temperature::Never => None,
        }
        .filter(|_| !refused_fields.no_temperature);
        let token_limit_field = config
            .token_limit_field
            .or(refused_fields.token_limit_field)
            .unwrap_or(TokenLimitField::MaxTokens);
        let ask = RequestFields {
            prompt: &request.prompt,
            model: &config.model,
            temperature,
            max_output_tokens: self.most_output(request),
            token_limit_field,
            seed: request
                .seed
                .filter(|_| !refused_fields.no_seed && features.seed),
            reasoning_effort: config.reasoning_effort.as_deref(),
            stream: config.stream,
            count_stream: !refused_fields.no_stream_count,
            extra: &config.extra,
        };
        let sent = SentFields {
            temperature: ask.temperature.is_some(),
            seed: ask.seed.is_some(),
            stream_count: features.counts_stream_on_request && ask.stream && ask.count_stream,
            token_limit_field: (features.token_limit_field && config.token_limit_field.is_none())
                .then_some(token_limit_field),
        };
        (config.dialect.body(&ask).to_string().into_bytes(), sent)
    }

    async fn failed(
        &self,
        mut exchange: Exchange<'_>,
        response: Response,
        sent: SentFields,
        key: Option<&Key>,
    ) -> AttemptError {
        let status = response.status();
        let wait = retry_after(response.headers());
        let elsewhere = response
            .headers()
            .get(LOCATION)
            .filter(|_| status.is_redirection())
            .and_then(|to| to.to_str().ok())
            .map(|to| format!("it sends us on to {to}; name that address as the endpoint"));
        // The status has most of the information, so a partly read body is enough.
        let mut body = Vec::new();
        let _incomplete = exchange.read(response, &mut body, MAX_REPORT).await;
        let mut report = Report::of_response(status.as_u16(), &body);
        if let Some(elsewhere) = elsewhere {
            report.message = elsewhere;
        }
        if self.refused_fields().learn(sent, &report) {
            tracing::info!(
                model = self.server.model,
                "{} refuses a field: {}; it is left out from now on",
                self.server,
                printable(&report.message, key)
            );
            return AttemptError::FieldRefused;
        }
        AttemptError::Failed(report.into_error(self.server.clone(), key, wait))
    }
}

impl Llm for HttpModel {
    fn complete<'a>(&'a self, request: &'a CallRequest) -> BoxFuture<'a, Result<Reply, LlmError>> {
        Box::pin(self.call(request))
    }
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpModel({})", self.server)
    }
}

/// One request under way: its deadlines and what has come of its reply.
struct Exchange<'a> {
    model: &'a HttpModel,
    started: Instant,
    /// Time at which the last piece of the body was received.
    last_piece: Instant,
    first_token: Option<Duration>,
    /// True once an event of the protocol was received.
    understood: bool,
    received: u64,
}

impl<'a> Exchange<'a> {
    fn new(model: &'a HttpModel, started: Instant) -> Self {
        Self {
            model,
            started,
            last_piece: started,
            first_token: None,
            understood: false,
            received: 0,
        }
    }

    /// The next limit that will be reached: its phase, its length and when that is.
    fn limit(&self) -> (Phase, Duration, Instant) {
        let timeouts = self.model.config.timeouts;
        let total = (Phase::Total, timeouts.total, self.started + timeouts.total);
        if !self.model.config.stream {
            return total;
        }
        let next = match self.first_token {
            None => (
                Phase::FirstToken,
                timeouts.first_token,
                self.started + timeouts.first_token,
            ),
            Some(_) => (Phase::Idle, timeouts.idle, self.last_piece + timeouts.idle),
        };
        if next.2 < total.2 { next } else { total }
    }

    async fn within<T>(&self, waiting: impl Future<Output = T>) -> Result<T, LlmError> {
        let (phase, limit, deadline) = self.limit();
        timeout_at(deadline, waiting)
            .await
            .map_err(|_| LlmError::Timeout {
                server: self.model.server.clone(),
                phase,
                limit,
            })
    }

    /// The next piece of the body; none at its proper end.
    async fn piece(&mut self, response: &mut Response) -> Result<Option<Vec<u8>>, LlmError> {
        let piece = self.within(response.chunk()).await?;
        // An error after the body began means an incomplete reply, whatever its cause.
        let piece = piece.map_err(|error| {
            tracing::debug!("a reply broke off: {error}");
            self.cut_error()
        })?;
        self.last_piece = Instant::now();
        let Some(piece) = piece else {
            return Ok(None);
        };
        self.received += piece.len() as u64;
        if self.received > MAX_REPLY {
            return Err(self.malformed(&format!("its reply has more than {MAX_REPLY} bytes"), None));
        }
        Ok(Some(piece.to_vec()))
    }

    async fn read(
        &mut self,
        mut response: Response,
        body: &mut Vec<u8>,
        most: u64,
    ) -> Result<(), LlmError> {
        while (body.len() as u64) < most
            && let Some(piece) = self.piece(&mut response).await?
        {
            body.extend(piece);
        }
        Ok(())
    }

    async fn answer(&mut self, response: Response, key: Option<&Key>) -> Result<Answer, LlmError> {
        // A server that does not stream answers in one piece even when asked for a stream.
        let content_type = response.headers().get(CONTENT_TYPE);
        let is_stream = content_type
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        if is_stream {
            return self.read_stream(response, key).await;
        }
        let mut body = Vec::new();
        self.read(response, &mut body, u64::MAX).await?;
        dialect::parse_reply(self.model.config.dialect, &body)
            .map_err(|none| self.no_answer(none, key))
    }

    async fn read_stream(
        &mut self,
        mut response: Response,
        key: Option<&Key>,
    ) -> Result<Answer, LlmError> {
        let mut decoder = Decoder::default();
        let mut parser = self.model.config.dialect.stream_parser();
        while let Some(piece) = self.piece(&mut response).await? {
            let events = decoder
                .push(&piece)
                .map_err(|error| self.no_answer(self.garbled(error.to_string()), key))?;
            for event in events {
                match parser.parse_event(&event) {
                    Ok(EventKind::Token) => {
                        self.understood = true;
                        self.first_token.get_or_insert(self.started.elapsed());
                    }
                    Ok(EventKind::Metadata) => self.understood = true,
                    Ok(EventKind::Unknown) => {}
                    Ok(EventKind::End) => {
                        return parser.finish().map_err(|none| self.no_answer(none, key));
                    }
                    Err(NoAnswer::Malformed(why)) => {
                        return Err(self.no_answer(self.garbled(why), key));
                    }
                    Err(none) => return Err(self.no_answer(none, key)),
                }
            }
        }
        parser.finish().map_err(|none| match none {
            NoAnswer::Cut if !self.understood && self.received > 0 => {
                self.malformed("its event stream has no events of the protocol", key)
            }
            none => self.no_answer(none, key),
        })
    }

    /// Classifies a malformed event. After well-formed ones it is a transmission error, which may
    /// pass; otherwise the server does not speak the protocol.
    fn garbled(&self, why: String) -> NoAnswer {
        if self.understood {
            tracing::debug!("a reply was garbled: {why}");
            NoAnswer::Cut
        } else {
            NoAnswer::Malformed(why)
        }
    }

    fn no_answer(&self, none: NoAnswer, key: Option<&Key>) -> LlmError {
        let server = self.model.server.clone();
        match none {
            NoAnswer::Refused(text) => LlmError::Refused {
                server,
                message: printable(&text, key),
            },
            NoAnswer::Malformed(text) => self.malformed(&text, key),
            NoAnswer::Reported(body) => Report::of_reply(&body).into_error(server, key, None),
            NoAnswer::Cut => self.cut_error(),
        }
    }

    fn malformed(&self, text: &str, key: Option<&Key>) -> LlmError {
        LlmError::Malformed {
            server: self.model.server.clone(),
            message: printable(text, key),
        }
    }

    fn cut_error(&self) -> LlmError {
        LlmError::Cut {
            server: self.model.server.clone(),
            received: self.received,
        }
    }
}

/// Estimates the usage where the server did not count: the prompt's own estimate, and one token for
/// three bytes of the reply.
fn estimate(request: &CallRequest, answer: &Answer) -> Usage {
    Usage {
        input: request.prompt.estimated_tokens(),
        output: answer.written.div_ceil(3),
        ..Usage::default()
    }
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = ["x-request-id", "request-id"]
        .into_iter()
        .find_map(|name| headers.get(name))?;
    id.to_str().ok().map(short)
}

fn short(name: &str) -> String {
    printable(name, None).chars().take(MAX_NAME).collect()
}
