//! Why a model gave no answer, sorted by what its user can do about it.

use std::fmt;
use std::time::Duration;

use super::Position;

/// Which model was asked, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whom {
    /// The model's name in the configuration.
    pub model: String,
    /// The host it is asked at.
    pub host: String,
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model {:?} at {}", self.model, self.host)
    }
}

/// What a call was waiting for when its time ran out.
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

/// Why a call came to nothing. Messages read after "failed to", say what to do, and never hold
/// the key; what a server said is cut to one short printable line.
#[derive(Debug, thiserror::Error)]
pub enum LlmError {
    /// There is no key to send.
    #[error("ask {whom}: {problem}")]
    Key {
        /// Who.
        whom: Whom,
        /// What is wrong with the key's source, and how to mend it.
        problem: String,
    },
    /// This machine cannot make HTTPS requests.
    #[error(
        "prepare requests to {whom}; where CA certificates are missing, install them, such as: apt install ca-certificates"
    )]
    Setup {
        /// Who.
        whom: Whom,
        /// Why not.
        source: reqwest::Error,
    },
    /// The key is not accepted.
    #[error(
        "ask {whom}: it does not accept the key ({status}): {message}; check the key's value and its rights"
    )]
    Auth {
        /// Who.
        whom: Whom,
        /// The HTTP status.
        status: u16,
        /// What the server said.
        message: String,
    },
    /// The account has nothing left to pay with.
    #[error("ask {whom}: the account has no credit left: {message}; add credit, then resume")]
    OutOfCredit {
        /// Who.
        whom: Whom,
        /// What the server said.
        message: String,
    },
    /// Too many requests, or tokens, in a short time.
    #[error("ask {whom}: it limits the rate: {message}{}; lower requests_per_minute, tokens_per_minute or concurrency", again(*.retry_after))]
    RateLimited {
        /// Who.
        whom: Whom,
        /// When the server wants to be asked again.
        retry_after: Option<Duration>,
        /// What the server said.
        message: String,
    },
    /// The server has too much to do.
    #[error("ask {whom}: it is overloaded: {message}{}; try later", again(*.retry_after))]
    Overloaded {
        /// Who.
        whom: Whom,
        /// When the server wants to be asked again.
        retry_after: Option<Duration>,
        /// What the server said.
        message: String,
    },
    /// The server is in trouble of its own.
    #[error("ask {whom}: its server is in trouble ({status}): {message}; try later")]
    Failing {
        /// Who.
        whom: Whom,
        /// The HTTP status; that of the error's kind where it came in the middle of a reply.
        status: u16,
        /// When the server wants to be asked again.
        retry_after: Option<Duration>,
        /// What the server said.
        message: String,
    },
    /// Prompt and reply do not fit.
    #[error(
        "ask {whom}: the prompt is too long for it: {message}; lower context_tokens or max_output_tokens in its configuration to what it really has"
    )]
    ContextTooLong {
        /// Who.
        whom: Whom,
        /// What the server said.
        message: String,
    },
    /// The model, or a filter before it, will not answer this prompt.
    #[error("get an answer from {whom}: it refuses this prompt: {message}")]
    Refused {
        /// Who.
        whom: Whom,
        /// What it said.
        message: String,
    },
    /// The answer is not what the protocol says.
    #[error(
        "understand {whom}: {message}; check that api and endpoint in its configuration belong together"
    )]
    Malformed {
        /// Who.
        whom: Whom,
        /// What is wrong with it.
        message: String,
    },
    /// The reply stopped before its end, or could no longer be understood.
    #[error("hear {whom} to the end: the reply broke off, or was garbled, after {received} bytes")]
    Cut {
        /// Who.
        whom: Whom,
        /// Bytes of the reply that had come, framing included.
        received: u64,
    },
    /// It took too long.
    #[error("wait for {whom}: more than {} s passed; raise timeouts.{} in its configuration if that is usual", .limit.as_secs_f64(), .phase.setting())]
    Timeout {
        /// Who.
        whom: Whom,
        /// What was waited for.
        phase: Phase,
        /// For how long.
        limit: Duration,
    },
    /// Nothing answers there.
    #[error("reach {whom}; check the endpoint, the network, and that the server runs")]
    Unreachable {
        /// Who.
        whom: Whom,
        /// Why.
        source: reqwest::Error,
    },
    /// The server does not take the request.
    #[error(
        "ask {whom}: it rejects the request ({status}): {message}; check endpoint, model and extra in its configuration"
    )]
    Rejected {
        /// Who.
        whom: Whom,
        /// The HTTP status.
        status: u16,
        /// What the server said.
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
    /// Whether asking again is of no use before a person has changed something: a run pauses at
    /// once.
    pub fn is_permanent(&self) -> bool {
        match self {
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

    /// Whether the same request may well be answered a little later.
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

    /// When the server wants to be asked again, if it said.
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
            Self::Rejected { .. } => "rejected",
            Self::NotRecorded { .. } => "not_recorded",
            Self::Departed { .. } => "departed",
        }
    }
}
