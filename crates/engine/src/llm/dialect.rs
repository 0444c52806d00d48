//! The protocols of model servers: where a request goes, its headers and body, and how a reply is
//! read. Nothing here sends, waits or decides whether to try again.

mod anthropic;
mod gemini;
mod openai;

use std::fmt;

use domain::model::{Prompt, Usage};
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde_json::{Map, Value};

use super::ReplyEnd;
use super::config::TokenLimitField;
use super::key::Key;
use super::sse::Event;

/// The largest token count that is believed. Larger ones are errors of the server and would
/// overflow sums.
const MAX_TOKENS: u64 = 1_000_000_000;

/// The parts of a request's body.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestFields<'a> {
    pub(super) prompt: &'a Prompt,
    /// The server's name for the model.
    pub(super) model: &'a str,
    pub(super) temperature: Option<f64>,
    pub(super) max_output_tokens: u64,
    pub(super) token_limit_field: TokenLimitField,
    pub(super) seed: Option<u64>,
    pub(super) reasoning_effort: Option<&'a str>,
    pub(super) stream: bool,
    /// True if a stream is asked to report its token counts.
    pub(super) count_stream: bool,
    pub(super) extra: &'a Map<String, Value>,
}

/// A whole reply.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) end: ReplyEnd,
    /// None where the server did not count.
    pub(super) usage: Option<Usage>,
    /// Bytes that the model wrote, reasoning included.
    pub(super) written: u64,
    pub(super) model: Option<String>,
}

/// The reason why a reply, or an event of one, is no answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NoAnswer {
    /// The model or a filter will not answer.
    Refused(String),
    /// It does not follow the protocol; the text says where.
    Malformed(String),
    /// The server reports trouble where the reply should be.
    Reported(Value),
    /// The reply ends before its end.
    Cut,
}

/// The kind of one event of a streamed reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    /// A piece of the text or of the reasoning.
    Token,
    /// Something else about the reply, such as its token counts.
    Metadata,
    /// An event that the protocol does not define.
    Unknown,
    /// The end of the stream.
    End,
}

/// Puts a streamed reply together from its events.
pub(super) trait StreamParser: Send {
    /// Takes in the next event.
    ///
    /// # Errors
    /// The event is no part of an answer.
    fn parse_event(&mut self, event: &Event) -> Result<EventKind, NoAnswer>;

    /// Returns the reply once the stream is over.
    ///
    /// # Errors
    /// The events so far are no whole answer.
    fn finish(self: Box<Self>) -> Result<Answer, NoAnswer>;
}

/// Optional parts of a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Features {
    /// Requests have a seed.
    pub(super) seed: bool,
    /// A stream counts its tokens only if it is asked to.
    pub(super) counts_stream_on_request: bool,
    /// Servers differ in the name of the field that limits a reply's length.
    pub(super) token_limit_field: bool,
    /// Requests have an effort of reasoning.
    pub(super) reasoning_effort: bool,
}

/// A protocol of model servers, with everything that depends on it: address, headers, body and
/// reply. Each has a file in this folder and a place in [`DIALECTS`].
pub(super) trait Dialect: fmt::Debug + Send + Sync {
    /// Its name in the models file.
    fn name(&self) -> &'static str;

    /// An example of an endpoint, for messages.
    fn example_endpoint(&self) -> &'static str;

    fn features(&self) -> Features;

    /// The path that requests go to, from the path of the configured endpoint without slashes at
    /// its end, the server's name for the model, and whether the reply is streamed.
    fn request_path(&self, endpoint: &str, model: &str, stream: bool) -> String;

    /// The query of the address that requests go to.
    fn request_query(&self, _stream: bool) -> Option<&'static str> {
        None
    }

    /// The headers that identify the client and its key.
    fn headers(&self, key: Option<&Key>) -> HeaderMap;

    /// The body of a request.
    fn body(&self, ask: &RequestFields<'_>) -> Value;

    /// A parser for one streamed reply.
    fn stream_parser(&self) -> Box<dyn StreamParser>;

    /// Reads a reply that came in one piece and reports no error.
    ///
    /// # Errors
    /// It holds no answer.
    fn parse_reply(&self, body: &Value) -> Result<Answer, NoAnswer>;
}

/// Every protocol, in the order that messages name them.
pub(super) static DIALECTS: [&dyn Dialect; 3] =
    [&openai::OpenAi, &anthropic::Anthropic, &gemini::Gemini];

/// Returns the protocol of this name.
pub(super) fn find(name: &str) -> Option<&'static dyn Dialect> {
    DIALECTS.into_iter().find(|dialect| dialect.name() == name)
}

impl PartialEq for dyn Dialect {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// The address that requests go to, from the address that the server's documentation names.
pub(super) fn request_url(dialect: &dyn Dialect, endpoint: &Url, model: &str, stream: bool) -> Url {
    let mut url = endpoint.clone();
    let path = endpoint.path().trim_end_matches('/');
    url.set_path(&dialect.request_path(path, model, stream));
    if let Some(query) = dialect.request_query(stream) {
        url.set_query(Some(query));
    }
    url
}

/// Reads a reply that came in one piece.
pub(super) fn parse_reply(dialect: &dyn Dialect, body: &[u8]) -> Result<Answer, NoAnswer> {
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| NoAnswer::Malformed(format!("its reply is not JSON: {error}")))?;
    if !body["error"].is_null() {
        return Err(NoAnswer::Reported(body));
    }
    dialect.parse_reply(&body)
}

fn parse(event: &Event) -> Result<Value, NoAnswer> {
    serde_json::from_str(&event.data)
        .map_err(|error| NoAnswer::Malformed(format!("an event of its reply is not JSON: {error}")))
}

fn name(value: &Value) -> Option<String> {
    value
        .as_str()
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

/// A number of tokens, if it can be one.
fn count(value: &Value) -> Option<u64> {
    value.as_u64().filter(|&tokens| tokens <= MAX_TOKENS)
}
