//! A model server that answers as a script says, over real sockets, in both protocols, streamed
//! or not.
//!
//! Its answer to a request depends on the request and on how often that exact request came
//! before, and on nothing else: calls that arrive in another order are answered the same.

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
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use answer::{Answer, Gate};

/// The longest that an answer is held back, whatever the script says.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// The protocol that a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's chat completions.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
}

impl Dialect {
    /// As a file of models names it.
    pub fn api(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }
}

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Its protocol.
    pub dialect: Dialect,
    /// Its body.
    pub body: Value,
    /// How often exactly this request came before.
    pub repeat: u32,
    /// The key it came with.
    pub key: Option<String>,
}

impl Asked {
    /// Whether it wants a stream.
    pub fn wants_stream(&self) -> bool {
        self.body["stream"] == true
    }

    /// The system text.
    pub fn system(&self) -> &str {
        match self.dialect {
            Dialect::OpenAi => self.messages().find(|message| message["role"] == "system"),
            Dialect::Anthropic => self.body["system"].get(0),
        }
        .and_then(|message| message["content"].as_str().or(message["text"].as_str()))
        .unwrap_or_default()
    }

    /// The last message.
    pub fn last(&self) -> &str {
        self.messages()
            .last()
            .and_then(|message| message["content"].as_str())
            .unwrap_or_default()
    }

    fn messages(&self) -> impl Iterator<Item = &Value> {
        self.body["messages"].as_array().into_iter().flatten()
    }
}

/// A running server; it stops when dropped.
pub struct ScriptedModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

type Script = Box<dyn Fn(&Asked) -> Answer + Send + Sync>;

struct Shared {
    script: Script,
    log: Mutex<Log>,
    closing: CancellationToken,
}

#[derive(Default)]
struct Log {
    asked: Vec<Asked>,
    repeats: HashMap<String, u32>,
    /// Requests being answered right now, and the most there ever were.
    open: u32,
    peak: u32,
}

impl ScriptedModel {
    /// Listens on a free loopback port and answers as `script` says. Needs a runtime of tokio,
    /// which it serves on.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Result<Self> {
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
    /// As for [`ScriptedModel::start`].
    pub async fn saying(text: &str) -> Result<Self> {
        let answer = Answer::text(text);
        Self::start(move |_| answer.clone()).await
    }

    /// The endpoint for a file of models, the same for both protocols.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The entry of a file of models under which this server can be asked; `more` are further
    /// lines for it. Failed calls are tried again without a wait worth noticing.
    pub fn entry(&self, name: &str, dialect: Dialect, more: &str) -> String {
        format!(
            "[models.{name}]\napi = \"{}\"\nendpoint = \"{}\"\nmodel = \"scripted\"\nbackoff = {{ base = 0.001, longest = 0.01 }}\n{more}\n",
            dialect.api(),
            self.url(),
        )
    }

    /// Every request so far, in order of arrival.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.log().asked.clone()
    }

    /// How many requests have come.
    pub fn count(&self) -> usize {
        self.shared.log().asked.len()
    }

    /// The most requests that were being answered at the same time.
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

    fn note(&self, dialect: Dialect, body: Value, key: Option<String>) -> Asked {
        let mut log = self.log();
        let repeats = log
            .repeats
            .entry(format!("{dialect:?} {body}"))
            .or_default();
        let repeat = *repeats;
        *repeats += 1;
        let asked = Asked {
            dialect,
            body,
            repeat,
            key,
        };
        log.asked.push(asked.clone());
        asked
    }

    /// Counts one more open request until the result is dropped.
    fn open(self: &Arc<Self>) -> Open {
        let mut log = self.log();
        log.open += 1;
        log.peak = log.peak.max(log.open);
        Open(Arc::clone(self))
    }

    /// Waits for something, or until nobody waits for the answer any more.
    async fn hold(&self, something: impl Future<Output = ()>) {
        tokio::select! {
            () = something => {}
            () = self.closing.cancelled() => {}
            () = tokio::time::sleep(LONGEST_HOLD) => {}
        }
    }
}

/// A request that is being answered.
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
    answer(shared, Dialect::OpenAi, key, &body).await
}

async fn messages(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    if headers.get("anthropic-version").is_none() {
        let missing = Answer::bad_request("anthropic-version: header is required", None);
        return wire::response(&shared, Dialect::Anthropic, None, missing);
    }
    let key = headers
        .get("x-api-key")
        .and_then(|value| value.to_str().ok());
    answer(shared, Dialect::Anthropic, key, &body).await
}

async fn answer(shared: Arc<Shared>, dialect: Dialect, key: Option<&str>, body: &[u8]) -> Response {
    let open = shared.open();
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        let answer = Answer::bad_request("the body is not JSON", None);
        return wire::response(&shared, dialect, None, answer);
    };
    if let Some(field) = missing_field(dialect, &body) {
        let answer = Answer::bad_request(&format!("{field}: field required"), Some(field));
        return wire::response(&shared, dialect, None, answer);
    }
    let asked = shared.note(dialect, body, key.map(str::to_owned));
    let answer = (shared.script)(&asked);
    answer.wait(&shared).await;
    drop(open);
    wire::response(&shared, dialect, Some(&asked), answer)
}

/// What both protocols insist on.
fn missing_field(dialect: Dialect, body: &Value) -> Option<&'static str> {
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

/// The status of a number that is one.
fn status(number: u16) -> StatusCode {
    StatusCode::from_u16(number).expect("scripts name real statuses")
}
