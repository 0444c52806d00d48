//! The settings of models, as checked by the reader of the models file.

mod read;

use std::path::PathBuf;
use std::time::Duration;

use domain::model::{ModelView, Price};
use reqwest::Url;
use serde_json::{Map, Value};

use super::dialect::Dialect;
use super::key::KeySource;

pub(super) use read::{is_loopback, read};

/// One configured model.
#[derive(Debug, Clone)]
pub(super) enum ModelConfig {
    /// Behind HTTP.
    Http(Box<HttpConfig>),
    /// Behind a local program.
    Command(CommandConfig),
    /// In a file of recorded replies.
    Cassette(CassetteConfig),
}

/// The settings that every model has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CommonSettings {
    pub(super) name: String,
    pub(super) price: Option<Price>,
    /// Tokens of prompt and reply together.
    pub(super) context_tokens: u64,
    /// Tokens of a reply.
    pub(super) max_output_tokens: u64,
    pub(super) concurrency: u32,
}

/// A model behind HTTP.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HttpConfig {
    pub(super) common: CommonSettings,
    pub(super) dialect: &'static dyn Dialect,
    /// The address of requests, with path.
    pub(super) url: Url,
    /// The server's name for the model.
    pub(super) model: String,
    pub(super) key: KeySource,
    pub(super) requests_per_minute: Option<u32>,
    pub(super) tokens_per_minute: Option<u64>,
    pub(super) temperature: Temperature,
    /// None if it is learned from the server.
    pub(super) token_limit_field: Option<TokenLimitField>,
    pub(super) reasoning_effort: Option<String>,
    pub(super) extra: Map<String, Value>,
    pub(super) stream: bool,
    pub(super) timeouts: Timeouts,
    /// The most attempts of one call.
    pub(super) attempts: u32,
    pub(super) backoff: Backoff,
}

/// A model behind a local program.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CommandConfig {
    pub(super) common: CommonSettings,
    /// The program and its arguments; never empty.
    pub(super) program: Vec<String>,
    /// Names of further environment variables that the program gets.
    pub(super) pass_env: Vec<String>,
    /// The time limit of one call.
    pub(super) total: Duration,
}

/// A recording.
#[derive(Debug, Clone)]
pub(super) struct CassetteConfig {
    pub(super) common: CommonSettings,
    pub(super) file: PathBuf,
    pub(super) prompts: Prompts,
}

/// The prompts that a recording answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompts {
    /// Only the recorded prompts.
    Recorded,
    /// Any prompt at the same position of the run.
    Any,
}

/// The temperature that a model is asked with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Temperature {
    /// The request's.
    Requested,
    /// This one.
    Fixed(f64),
    /// No temperature, because the model refuses one.
    Never,
}

/// The field that limits the length of a reply. Models with OpenAI's protocol accept one or the
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TokenLimitField {
    MaxTokens,
    MaxCompletionTokens,
}

/// The time limits of one attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Timeouts {
    pub(super) connect: Duration,
    /// From the request to the first token of a streamed reply.
    pub(super) first_token: Duration,
    /// Between two pieces of a streamed reply.
    pub(super) idle: Duration,
    /// From the request to the end of the reply.
    pub(super) total: Duration,
}

/// The pauses between attempts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Backoff {
    /// The longest that the first pause may be; each further one may be twice as long.
    pub(super) base: Duration,
    /// The longest pause of all. A server that wants more patience than this ends the call.
    pub(super) longest: Duration,
}

impl TokenLimitField {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

impl HttpConfig {
    /// The server, with its port where that is not the usual one.
    pub(super) fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    pub(super) fn view(&self) -> ModelView {
        let host = Some(self.host());
        self.common
            .view(self.dialect.name(), self.model.clone(), host)
    }
}

impl CommonSettings {
    pub(super) fn view(&self, api: &str, model: String, host: Option<String>) -> ModelView {
        ModelView {
            name: self.name.clone(),
            api: api.to_owned(),
            model,
            host,
            price: self.price,
            context_tokens: self.context_tokens,
            max_output_tokens: self.max_output_tokens,
            concurrency: self.concurrency,
        }
    }
}
