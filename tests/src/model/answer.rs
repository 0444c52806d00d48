//! What a script may answer: replies, refusals, and every kind of trouble.

use std::time::Duration;

use domain::model::Usage;
use tokio_util::sync::CancellationToken;

use super::Shared;

/// One answer, the same in both protocols as far as they allow.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(super) what: What,
    delay: Option<Duration>,
    gate: Option<Gate>,
}

/// Holds answers back until it is opened.
#[derive(Debug, Clone, Default)]
pub struct Gate(CancellationToken);

impl Gate {
    /// Lets everything through from now on.
    pub fn open(&self) {
        self.0.cancel();
    }
}

#[derive(Debug, Clone)]
pub(super) enum What {
    Say(Speech),
    Fail(Failure),
    /// A body that is no text.
    Garbage,
    /// JSON that is no reply.
    WrongJson,
    /// A success without a body.
    Nothing,
    /// Headers never come.
    Silence,
}

#[derive(Debug, Clone)]
pub(super) struct Speech {
    pub text: String,
    pub thoughts: String,
    pub end: End,
    /// None: counted from the texts.
    pub usage: Option<Usage>,
    pub counts: bool,
    /// A stream's trouble, and after how many pieces of text it comes.
    pub trouble: Option<(Trouble, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    Length,
    Refusal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The connection breaks.
    Break,
    /// The stream ends as if all had been said.
    End,
    /// The server reports that it is overloaded.
    Overloaded,
    /// Nothing more comes.
    Stall,
    /// Bytes that are no text.
    Garbage,
}

#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub status: u16,
    /// OpenAI's code, Anthropic's type.
    pub code: &'static str,
    pub kind: &'static str,
    pub param: Option<String>,
    pub message: String,
    pub retry_after: Option<String>,
}

impl Answer {
    fn of(what: What) -> Self {
        Self {
            what,
            delay: None,
            gate: None,
        }
    }

    fn fail(status: u16, code: &'static str, kind: &'static str, message: &str) -> Self {
        Self::of(What::Fail(Failure {
            status,
            code,
            kind,
            param: None,
            message: message.to_owned(),
            retry_after: None,
        }))
    }

    fn speech(mut self, change: impl FnOnce(&mut Speech)) -> Self {
        match &mut self.what {
            What::Say(speech) => change(speech),
            other => panic!("only a reply can be changed like this, not {other:?}"),
        }
        self
    }

    /// A complete reply.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(What::Say(Speech {
            text: text.into(),
            thoughts: String::new(),
            end: End::Complete,
            usage: None,
            counts: true,
            trouble: None,
        }))
    }

    /// A reply that ran into its limit.
    pub fn truncated(text: impl Into<String>) -> Self {
        Self::text(text).speech(|speech| speech.end = End::Length)
    }

    /// The model will not answer.
    pub fn refusal(why: &str) -> Self {
        Self::text(why).speech(|speech| speech.end = End::Refusal)
    }

    /// Reasoning before the text.
    #[must_use]
    pub fn thinking(self, thoughts: &str) -> Self {
        self.speech(|speech| thoughts.clone_into(&mut speech.thoughts))
    }

    /// What the reply used; else it is counted from the texts.
    #[must_use]
    pub fn using(self, usage: Usage) -> Self {
        self.speech(|speech| speech.usage = Some(usage))
    }

    /// The server does not count tokens.
    #[must_use]
    pub fn uncounted(self) -> Self {
        self.speech(|speech| speech.counts = false)
    }

    /// The connection breaks after so many pieces of the text; before the end of one that is
    /// not streamed.
    #[must_use]
    pub fn broken_after(self, pieces: usize) -> Self {
        self.speech(|speech| speech.trouble = Some((Trouble::Break, pieces)))
    }

    /// A stream ends after so many pieces as if all had been said.
    #[must_use]
    pub fn ended_after(self, pieces: usize) -> Self {
        self.speech(|speech| speech.trouble = Some((Trouble::End, pieces)))
    }

    /// The server reports in the middle of a stream that it is overloaded.
    #[must_use]
    pub fn overloaded_after(self, pieces: usize) -> Self {
        self.speech(|speech| speech.trouble = Some((Trouble::Overloaded, pieces)))
    }

    /// Nothing more comes after so many pieces.
    #[must_use]
    pub fn stalled_after(self, pieces: usize) -> Self {
        self.speech(|speech| speech.trouble = Some((Trouble::Stall, pieces)))
    }

    /// Bytes that are no text come after so many pieces.
    #[must_use]
    pub fn garbled_after(self, pieces: usize) -> Self {
        self.speech(|speech| speech.trouble = Some((Trouble::Garbage, pieces)))
    }

    /// The key is not accepted.
    pub fn unauthorised() -> Self {
        let message = "invalid key";
        Self::fail(401, "invalid_api_key", "authentication_error", message)
    }

    /// Too many requests; `retry_after` is a number of seconds or an HTTP date.
    pub fn rate_limited(retry_after: Option<&str>) -> Self {
        let mut answer = Self::fail(429, "rate_limit_exceeded", "rate_limit_error", "slow down");
        if let What::Fail(failure) = &mut answer.what {
            failure.retry_after = retry_after.map(str::to_owned);
        }
        answer
    }

    /// The account is empty.
    pub fn out_of_credit() -> Self {
        let message = "You exceeded your current quota";
        Self::fail(429, "insufficient_quota", "billing_error", message)
    }

    /// The server has too much to do.
    pub fn overloaded() -> Self {
        Self::fail(529, "overloaded", "overloaded_error", "Overloaded")
    }

    /// The server is in trouble.
    pub fn failing() -> Self {
        Self::fail(500, "internal_error", "api_error", "Internal server error")
    }

    /// Prompt and reply do not fit.
    pub fn context_too_long() -> Self {
        let message = "prompt is too long: 300000 tokens > 200000 maximum";
        let kind = "invalid_request_error";
        Self::fail(400, "context_length_exceeded", kind, message)
    }

    /// The request is wrong, perhaps in a field.
    pub fn bad_request(message: &str, param: Option<&str>) -> Self {
        let kind = "invalid_request_error";
        let mut answer = Self::fail(400, "invalid_request", kind, message);
        if let What::Fail(failure) = &mut answer.what {
            failure.param = param.map(str::to_owned);
        }
        answer
    }

    /// The model does not take a field.
    pub fn refuses(field: &str) -> Self {
        let message = format!("Unsupported parameter: {field} is not supported with this model");
        Self::bad_request(&message, Some(field))
    }

    /// A body that is no text.
    pub fn garbage() -> Self {
        Self::of(What::Garbage)
    }

    /// JSON that is no reply.
    pub fn wrong_json() -> Self {
        Self::of(What::WrongJson)
    }

    /// A success without a body.
    pub fn nothing() -> Self {
        Self::of(What::Nothing)
    }

    /// No answer at all.
    pub fn silence() -> Self {
        Self::of(What::Silence)
    }

    /// Comes that much later.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Comes when the gate is open.
    #[must_use]
    pub fn behind(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    pub(super) async fn wait(&self, shared: &Shared) {
        if let Some(delay) = self.delay {
            shared.hold(tokio::time::sleep(delay)).await;
        }
        if let Some(gate) = &self.gate {
            shared.hold(gate.0.cancelled()).await;
        }
        if let What::Silence = self.what {
            shared.hold(std::future::pending()).await;
        }
    }
}
