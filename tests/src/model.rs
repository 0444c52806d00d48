//! Scripted model server on a loopback port that speaks OpenAI's, Anthropic's and Gemini's protocols,
//! streamed or not.
//!
//! An answer depends only on the request and on how often the same request came before, so that
//! calls that arrive in another order get the same answers.

mod answer;
mod wire;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use answer::{Answer, Gate};

/// Longest time that an answer is delayed, so that a faulty script cannot block a test.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's chat completions.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Google's content generation.
    Gemini,
}

impl Dialect {
    /// Value of `api` in a models file.
    pub fn api(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }
}

/// One request that the server received.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Protocol of the endpoint that was called.
    pub dialect: Dialect,
    /// JSON body.
    pub body: Value,
    /// Number of earlier requests with the same protocol and body.
    pub repeat: u32,
    /// API key, from the header that the protocol prescribes.
    pub key: Option<String>,
    /// True if the client asked for a streamed answer.
    stream: bool,
}

impl Request {
    /// Returns true if the client asked for a streamed answer.
    pub fn wants_stream(&self) -> bool {
        self.stream
    }

    /// Text of the system message, or an empty string.
    pub fn system(&self) -> &str {
        match self.dialect {
            Dialect::OpenAi => self.messages().find(|message| message["role"] == "system"),
            Dialect::Anthropic => self.body["system"].get(0),
            Dialect::Gemini => self.body["systemInstruction"]["parts"].get(0),
        }
        .and_then(|message| message["content"].as_str().or(message["text"].as_str()))
        .unwrap_or_default()
    }

    /// Text of the last message, or an empty string.
    pub fn last(&self) -> &str {
        self.messages()
            .last()
            .and_then(|message| {
                let text = &message["parts"][0]["text"];
                message["content"].as_str().or(text.as_str())
            })
            .unwrap_or_default()
    }

    /// The messages of the conversation, as the protocol has them.
    pub fn messages(&self) -> impl Iterator<Item = &Value> {
        let field = match self.dialect {
            Dialect::OpenAi | Dialect::Anthropic => "messages",
            Dialect::Gemini => "contents",
        };
        self.body[field].as_array().into_iter().flatten()
    }
}

/// A running scripted model server; it stops when dropped.
pub struct ScriptedModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

type Script = Box<dyn Fn(&Request) -> Answer + Send + Sync>;

struct Shared {
    script: Script,
    log: Mutex<Log>,
    closing: CancellationToken,
}

#[derive(Default)]
struct Log {
    asked: Vec<Request>,
    repeats: HashMap<String, u32>,
    /// Number of requests being answered now, and its maximum so far.
    open: u32,
    peak: u32,
}

impl ScriptedModel {
    /// Listens on a free loopback port and answers every request with the result of `script`.
    /// Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If no port can be bound.
    pub async fn start(
        script: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("listen on a loopback port")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script: Box::new(script),
            log: Mutex::default(),
            closing: CancellationToken::new(),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(chat_completions))
            .route("/v1/messages", post(messages))
            .route("/v1/models/{call}", post(generate_content))
            .with_state(Arc::clone(&shared));
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the scripted model failed to serve: {error}");
            }
        });
        Ok(Self {
            address,
            shared,
            serving,
        })
    }

    /// Answers every request with the same text.
    ///
    /// # Errors
    /// As [`ScriptedModel::start`].
    pub async fn saying(text: &str) -> Result<Self> {
        let answer = Answer::text(text);
        Self::start(move |_| answer.clone()).await
    }

    /// Value of `endpoint` in a models file, the same for both protocols.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Section of a models file that names this server; `more` holds further lines for it.
    /// Failed calls are repeated after 1 to 10 ms.
    pub fn entry(&self, name: &str, dialect: Dialect, more: &str) -> String {
        format!(
            "[models.{name}]\napi = \"{}\"\nendpoint = \"{}\"\nmodel = \"scripted\"\nbackoff = {{ base = 0.001, longest = 0.01 }}\n{more}\n",
            dialect.api(),
            self.url(),
        )
    }

    /// All requests so far, in order of arrival.
    pub fn asked(&self) -> Vec<Request> {
        self.shared.log().asked.clone()
    }

    /// Number of requests so far.
    pub fn count(&self) -> usize {
        self.shared.log().asked.len()
    }

    /// Largest number of requests that were answered at the same time.
    pub fn peak(&self) -> u32 {
        self.shared.log().peak
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.shared.closing.cancel();
        self.serving.abort();
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScriptedModel({})", self.address)
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, dialect: Dialect, body: Value, key: Option<String>, stream: bool) -> Request {
        let mut log = self.log();
        let repeats = log
            .repeats
            .entry(format!("{dialect:?} {body}"))
            .or_default();
        let repeat = *repeats;
        *repeats += 1;
        let asked = Request {
            dialect,
            body,
            repeat,
            key,
            stream,
        };
        log.asked.push(asked.clone());
        asked
    }

    /// Counts one more open request until the returned value is dropped.
    fn open(self: &Arc<Self>) -> Open {
        let mut log = self.log();
        log.open += 1;
        log.peak = log.peak.max(log.open);
        Open(Arc::clone(self))
    }

    /// Waits for a future, until the server closes, or for [`MAX_DELAY`], whichever is first.
    async fn wait_for(&self, future: impl Future<Output = ()>) {
        tokio::select! {
            () = future => {}
            () = self.closing.cancelled() => {}
            () = tokio::time::sleep(MAX_DELAY) => {}
        }
    }
}

/// Guard that counts a request as open.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.log().open -= 1;
    }
}

async fn chat_completions(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let bearer = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok());
    let key = bearer.and_then(|value| value.strip_prefix("Bearer "));
    answer(shared, Dialect::OpenAi, key, None, &body).await
}

async fn messages(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    if headers.get("anthropic-version").is_none() {
        let missing = Answer::bad_request("anthropic-version: header is required", None);
        return wire::response(&shared, Dialect::Anthropic, None, missing);
    }
    let key = headers
        .get("x-api-key")
        .and_then(|value| value.to_str().ok());
    answer(shared, Dialect::Anthropic, key, None, &body).await
}

async fn generate_content(
    State(shared): State<Arc<Shared>>,
    Path(call): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let stream = match (call.split_once(':'), uri.query()) {
        (Some((_, "streamGenerateContent")), Some("alt=sse")) => true,
        (Some((_, "generateContent")), None) => false,
        _ => {
            let unknown = Answer::bad_request("no such method", None);
            return wire::response(&shared, Dialect::Gemini, None, unknown);
        }
    };
    let key = headers
        .get("x-goog-api-key")
        .and_then(|value| value.to_str().ok());
    answer(shared, Dialect::Gemini, key, Some(stream), &body).await
}

/// Answers a request; `stream` is what its address says of it, or none where the body does.
async fn answer(
    shared: Arc<Shared>,
    dialect: Dialect,
    key: Option<&str>,
    stream: Option<bool>,
    body: &[u8],
) -> Response {
    let open = shared.open();
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        let answer = Answer::bad_request("the body is not JSON", None);
        return wire::response(&shared, dialect, None, answer);
    };
    if let Some(field) = missing_field(dialect, &body) {
        let answer = Answer::bad_request(&format!("{field}: field required"), Some(field));
        return wire::response(&shared, dialect, None, answer);
    }
    let stream = stream.unwrap_or(body["stream"] == true);
    let asked = shared.record(dialect, body, key.map(str::to_owned), stream);
    let answer = (shared.script)(&asked);
    answer.wait(&shared).await;
    drop(open);
    wire::response(&shared, dialect, Some(&asked), answer)
}

/// First required field that a request lacks.
fn missing_field(dialect: Dialect, body: &Value) -> Option<&'static str> {
    if dialect == Dialect::Gemini {
        let is_whole = body["contents"][0]["parts"][0]["text"].is_string();
        return (!is_whole).then_some("contents");
    }
    let has_messages = body["messages"]
        .as_array()
        .is_some_and(|all| !all.is_empty());
    if !body["model"].is_string() {
        Some("model")
    } else if !has_messages {
        Some("messages")
    } else if dialect == Dialect::Anthropic && !body["max_tokens"].is_u64() {
        Some("max_tokens")
    } else {
        None
    }
}

/// Converts a script's status number.
fn status(number: u16) -> StatusCode {
    StatusCode::from_u16(number).expect("scripts name real statuses")
}
