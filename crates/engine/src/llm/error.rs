//! Errors of calls to models, by what the user can do about them.

use std::fmt;
use std::time::Duration;

use super::Position;

/// The model that was asked, and its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelServer {
    /// The model's name in the configuration.
    pub model: String,
    /// The host it is asked at.
    pub host: String,
}

impl fmt::Display for ModelServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model {:?} at {}", self.model, self.host)
    }
}

/// The part of a call that exceeded its time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The first token.
    FirstToken,
    /// Anything more after the first token.
    Idle,
    /// The end of the reply.
    Total,
}

impl Phase {
    /// The setting that limits it.
    pub fn setting(self) -> &'static str {
        match self {
            Self::FirstToken => "first_token",
            Self::Idle => "idle",
            Self::Total => "total",
        }
    }
}

/// The reason why a call failed. Messages read after "failed to", say what to do, and do not contain
/// the key. A server's message is cut to one short printable line.
#[derive(Debug, thiserror::Error)]
pub enum LlmError {
    /// There is no key to send.
    #[error("ask {server}: {problem}")]
    Key {
        /// The model.
        server: ModelServer,
        /// The defect of the key's source, with how to fix it.
        problem: String,
    },
    /// This machine cannot make HTTPS requests.
    #[error(
        "prepare requests to {server}; where CA certificates are missing, install them, such as: apt install ca-certificates"
    )]
    Setup {
        /// The model.
        server: ModelServer,
        /// The cause.
        source: reqwest::Error,
    },
    /// The key is not accepted.
    #[error(
        "ask {server}: it does not accept the key ({status}): {message}; check the key's value and its rights"
    )]
    Auth {
        /// The model.
        server: ModelServer,
        /// The HTTP status.
        status: u16,
        /// The server's message.
        message: String,
    },
    /// The account has nothing left to pay with.
    #[error("ask {server}: the account has no credit left: {message}; add credit, then resume")]
    OutOfCredit {
        /// The model.
        server: ModelServer,
        /// The server's message.
        message: String,
    },
    /// Too many requests, or tokens, in a short time.
    #[error("ask {server}: it limits the rate: {message}{}; lower requests_per_minute, tokens_per_minute or concurrency", again(*.retry_after))]
    RateLimited {
        /// The model.
        server: ModelServer,
        /// The pause that the server asks for.
        retry_after: Option<Duration>,
        /// The server's message.
        message: String,
    },
    /// The server has too much to do.
    #[error("ask {server}: it is overloaded: {message}{}; try later", again(*.retry_after))]
    Overloaded {
        /// The model.
        server: ModelServer,
        /// The pause that the server asks for.
        retry_after: Option<Duration>,
        /// The server's message.
        message: String,
    },
    /// The server is in trouble of its own.
    #[error("ask {server}: its server is in trouble ({status}): {message}; try later")]
    Failing {
        /// The model.
        server: ModelServer,
        /// The HTTP status; that of the error's kind where it came in the middle of a reply.
        status: u16,
        /// The pause that the server asks for.
        retry_after: Option<Duration>,
        /// The server's message.
        message: String,
    },
    /// Prompt and reply do not fit.
    #[error(
        "ask {server}: the prompt is too long for it: {message}; lower context_tokens or max_output_tokens in its configuration to what it really has"
    )]
    ContextTooLong {
        /// The model.
        server: ModelServer,
        /// The server's message.
        message: String,
    },
    /// The model, or a filter before it, will not answer this prompt.
    #[error("get an answer from {server}: it refuses this prompt: {message}")]
    Refused {
        /// The model.
        server: ModelServer,
        /// The model's text.
        message: String,
    },
    /// The answer is not what the protocol says.
    #[error(
        "understand {server}: {message}; check that api and endpoint in its configuration belong together"
    )]
    Malformed {
        /// The model.
        server: ModelServer,
        /// The defect.
        message: String,
    },
    /// The reply stopped before its end, or could no longer be understood.
    #[error("read the reply of {server}: it broke off, or was garbled, after {received} bytes")]
    Cut {
        /// The model.
        server: ModelServer,
        /// Bytes of the reply that had come, framing included.
        received: u64,
    },
    /// It took too long.
    #[error("wait for {server}: more than {} s passed; raise timeouts.{} in its configuration if that is usual", .limit.as_secs_f64(), .phase.setting())]
    Timeout {
        /// The model.
        server: ModelServer,
        /// The part that took too long.
        phase: Phase,
        /// For how long.
        limit: Duration,
    },
    /// The server did not answer.
    #[error("reach {server}; check the endpoint, the network, and that the server runs")]
    Unreachable {
        /// The model.
        server: ModelServer,
        /// The cause.
        source: reqwest::Error,
    },
    /// A local program did not answer.
    #[error("ask {server}: it {message}; run it by hand to see what it needs")]
    Program {
        /// The model.
        server: ModelServer,
        /// The failure.
        message: String,
        /// True if asking again is useless.
        permanent: bool,
    },
    /// The server does not take the request.
    #[error(
        "ask {server}: it rejects the request ({status}): {message}; check endpoint, model and extra in its configuration"
    )]
    Rejected {
        /// The model.
        server: ModelServer,
        /// The HTTP status.
        status: u16,
        /// The server's message.
        message: String,
    },
    /// A recording has no reply for a call.
    #[error("replay candidate {} from the recording {model:?}: it holds no reply for turn {}", .position.ordinal, .position.turn)]
    NotRecorded {
        /// The recording's name in the configuration.
        model: String,
        /// The call.
        position: Position,
    },
    /// A recording was made with another prompt.
    #[error("replay candidate {} from the recording {model:?}: turn {} asks something else than what was recorded, so the lineage has departed from the recording; replay it on the device, version and seed it was made with, or allow other prompts with strict = false", .position.ordinal, .position.turn)]
    Departed {
        /// The recording's name in the configuration.
        model: String,
        /// The call.
        position: Position,
    },
}

fn again(retry_after: Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |pause| {
        format!(", and wants to be asked again in {} s", pause.as_secs())
    })
}

impl LlmError {
    /// Returns true if asking again is useless until a person changes something. The run is then
    /// paused at once.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Program { permanent, .. } => *permanent,
            Self::Key { .. }
            | Self::Setup { .. }
            | Self::Auth { .. }
            | Self::OutOfCredit { .. }
            | Self::ContextTooLong { .. }
            | Self::Rejected { .. }
            | Self::NotRecorded { .. }
            | Self::Departed { .. } => true,
            Self::RateLimited { .. }
            | Self::Overloaded { .. }
            | Self::Failing { .. }
            | Self::Refused { .. }
            | Self::Malformed { .. }
            | Self::Cut { .. }
            | Self::Timeout { .. }
            | Self::Unreachable { .. } => false,
        }
    }

    /// Returns true if the same request may succeed a little later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::RateLimited { .. }
            | Self::Overloaded { .. }
            | Self::Failing { .. }
            | Self::Cut { .. }
            | Self::Unreachable { .. } => true,
            // A reply that took all its time would take it again.
            Self::Timeout { phase, .. } => *phase != Phase::Total,
            _ => false,
        }
    }

    /// The time after which the server wants to be asked again, if it named one.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. }
            | Self::Overloaded { retry_after, .. }
            | Self::Failing { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// One word for records and scripts.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Key { .. } => "key",
            Self::Setup { .. } => "setup",
            Self::Auth { .. } => "auth",
            Self::OutOfCredit { .. } => "out_of_credit",
            Self::RateLimited { .. } => "rate_limited",
            Self::Overloaded { .. } => "overloaded",
            Self::Failing { .. } => "failing",
            Self::ContextTooLong { .. } => "context_too_long",
            Self::Refused { .. } => "refused",
            Self::Malformed { .. } => "malformed",
            Self::Cut { .. } => "cut",
            Self::Timeout { .. } => "timeout",
            Self::Unreachable { .. } => "unreachable",
            Self::Program { .. } => "program",
            Self::Rejected { .. } => "rejected",
            Self::NotRecorded { .. } => "not_recorded",
            Self::Departed { .. } => "departed",
        }
    }
}
