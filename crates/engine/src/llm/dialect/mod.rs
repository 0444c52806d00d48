//! The two protocols that model servers speak, as pure functions: a request's body, and what a
//! reply says. Nothing here sends, waits or decides whether to try again.

mod anthropic;
mod openai;

use domain::model::{Prompt, Usage};
use serde_json::{Map, Value};

use super::ReplyEnd;
use super::config::{Dialect, TokenLimitField};
use super::sse::Event;

/// Counts above this are no counts; believing them would overflow sums.
const MAX_TOKENS: u64 = 1_000_000_000;

/// What a request's body is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) prompt: &'a Prompt,
    /// The server's name for the model.
    pub(super) model: &'a str,
    pub(super) temperature: Option<f64>,
    pub(super) max_output_tokens: u64,
    pub(super) token_limit_field: TokenLimitField,
    pub(super) seed: Option<u64>,
    pub(super) reasoning_effort: Option<&'a str>,
    pub(super) stream: bool,
    /// Whether a stream is asked to count its tokens.
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

/// Why a reply, or a piece of one, is no answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NoAnswer {
    /// The model or a filter will not answer.
    Refused(String),
    /// The protocol says something else.
    Malformed(String),
    /// The server reports trouble where the reply should be.
    Reported(Value),
    /// The reply ends before its end.
    Cut,
}

/// What one event of a stream brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// Words, or thoughts.
    Token,
    /// Something about the reply.
    Note,
    /// Something that the protocol does not know.
    Noise,
    /// The end of the stream.
    End,
}

/// Puts a streamed reply together.
#[derive(Debug)]
pub(super) enum Listener {
    OpenAi(openai::Listener),
    Anthropic(anthropic::Listener),
}

impl Listener {
    pub(super) fn hear(&mut self, event: &Event) -> Result<Heard, NoAnswer> {
        match self {
            Self::OpenAi(listener) => listener.hear(event),
            Self::Anthropic(listener) => listener.hear(event),
        }
    }

    /// The reply once the stream is over.
    pub(super) fn finish(self) -> Result<Answer, NoAnswer> {
        match self {
            Self::OpenAi(listener) => listener.finish(),
            Self::Anthropic(listener) => listener.finish(),
        }
    }
}

impl Dialect {
    pub(super) fn body(self, ask: &Ask<'_>) -> Value {
        match self {
            Self::OpenAi => openai::body(ask),
            Self::Anthropic => anthropic::body(ask),
        }
    }

    pub(super) fn listener(self) -> Listener {
        match self {
            Self::OpenAi => Listener::OpenAi(openai::Listener::default()),
            Self::Anthropic => Listener::Anthropic(anthropic::Listener::default()),
        }
    }

    /// A reply that came in one piece.
    pub(super) fn whole(self, body: &[u8]) -> Result<Answer, NoAnswer> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| NoAnswer::Malformed(format!("its reply is not JSON: {error}")))?;
        if !body["error"].is_null() {
            return Err(NoAnswer::Reported(body));
        }
        match self {
            Self::OpenAi => openai::whole(&body),
            Self::Anthropic => anthropic::whole(&body),
        }
    }
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
