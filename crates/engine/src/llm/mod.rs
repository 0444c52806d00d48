//! Language models: one trait, the clients that speak a provider's protocol over HTTP, the
//! recording that answers in their place, and the file that names them all.
//!
//! What a prompt says and what a reply means are not known here; neither are runs or budgets. A
//! key is read for each call, sent to its endpoint, and shows in no message, log or record.

pub mod cassette;
mod config;
mod dialect;
mod error;
mod failure;
mod http;
mod key;
mod lessons;
mod models;
mod pace;
mod retry;
pub mod sse;

use std::time::Duration;

use domain::model::{Prompt, Usage};
use futures::future::BoxFuture;

pub use domain::model::ReplyEnd;
pub use error::{LlmError, Phase, Whom};
pub use models::Models;

/// What is asked of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRequest {
    /// The conversation so far; its last message is ours.
    pub prompt: Prompt,
    /// How freely it answers; the model's own default when absent. A model that refuses a
    /// temperature is asked without one.
    pub temperature: Option<f64>,
    /// Tokens the reply may have; never more than the model's configured limit, which also
    /// holds when absent.
    pub max_output_tokens: Option<u64>,
    /// Makes the answer repeatable where the server can do that, and tells calls with equal
    /// prompts apart.
    pub seed: Option<u64>,
    /// Which call of its run this is. A recording finds its reply by it; a server never sees it.
    pub position: Position,
}

/// A call's place in its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The candidate that the call is made for, by its ordinal in the run.
    pub ordinal: u32,
    /// How many calls were made for the same candidate before.
    pub turn: u32,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// What it said, without its reasoning.
    pub text: String,
    /// Why it stopped.
    pub end: ReplyEnd,
    /// What the call used.
    pub usage: Usage,
    /// Whether `usage` is an estimate of ours because the server did not count.
    pub usage_estimated: bool,
    /// The model as the server names it.
    pub model: String,
    /// The server's own name of the call, for its operator.
    pub request_id: Option<String>,
    /// From sending the request to the first token, reasoning included; none where the reply
    /// came in one piece.
    pub first_token: Option<Duration>,
    /// From sending the request to the end of the reply, of the attempt that succeeded.
    pub total: Duration,
    /// How often it was asked until it answered.
    pub attempts: u32,
}

/// Something that answers prompts: a model behind HTTP, or a recording of one.
pub trait Llm: Send + Sync {
    /// Asks, and waits for the whole answer. Passing trouble is tried again inside; dropping the
    /// future gives the call up.
    fn complete<'a>(&'a self, request: &'a CallRequest) -> BoxFuture<'a, Result<Reply, LlmError>>;
}
