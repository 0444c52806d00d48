//! Language models: one trait, the clients that speak a provider's protocol over HTTP, local programs, the
//! recording that answers in their place, and the file that names them all.
//!
//! The module does not read prompts or replies and knows no runs or budgets. A key is read for each
//! call, sent to its endpoint only, and appears in no message, log or record.

pub mod cassette;
mod command;
mod config;
mod dialect;
mod error;
mod failure;
mod http;
mod key;
mod models;
mod pace;
mod refused_fields;
mod retry;
pub mod sse;

use std::time::Duration;

use domain::model::{Prompt, Usage};
use futures::future::BoxFuture;

pub use domain::model::ReplyEnd;
pub use error::{LlmError, ModelServer, Phase};
pub use models::Models;

/// A request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRequest {
    /// The conversation so far; its last message is ours.
    pub prompt: Prompt,
    /// Sampling temperature; the model's default when absent. A model that refuses a temperature is
    /// asked without one.
    pub temperature: Option<f64>,
    /// Tokens the reply may have; never more than the model's configured limit, which also
    /// holds when absent.
    pub max_output_tokens: Option<u64>,
    /// Makes the answer repeatable where the server supports it, and distinguishes calls with equal
    /// prompts.
    pub seed: Option<u64>,
    /// The position of the call in its run. A recording finds its reply by it; a server is not sent it.
    pub position: Position,
}

/// A call's place in its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The candidate that the call is made for, by its ordinal in the run.
    pub ordinal: u32,
    /// The number of earlier calls for the same candidate.
    pub turn: u32,
}

/// A model's reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The text, without reasoning.
    pub text: String,
    /// The reason of its end.
    pub end: ReplyEnd,
    /// The tokens used.
    pub usage: Usage,
    /// True if `usage` is an estimate, because the server did not count.
    pub usage_estimated: bool,
    /// The model as the server names it.
    pub model: String,
    /// The server's id of the request, for questions to its operator.
    pub request_id: Option<String>,
    /// From sending the request to the first token, reasoning included; none where the reply
    /// came in one piece.
    pub first_token: Option<Duration>,
    /// From sending the request to the end of the reply, of the attempt that succeeded.
    pub total: Duration,
    /// Requests that were sent, the answered one included.
    pub attempts: u32,
}

/// A language model behind HTTP or behind a local program, or a recording in its place.
pub trait Llm: Send + Sync {
    /// Sends the request and waits for the whole reply. Errors that may pass are tried again inside.
    /// Dropping the future cancels the call.
    fn complete<'a>(&'a self, request: &'a CallRequest) -> BoxFuture<'a, Result<Reply, LlmError>>;
}
