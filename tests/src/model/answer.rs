//! Answers that a script can give: replies, refusals, HTTP errors and broken connections.

use std::time::Duration;

use domain::model::Usage;
use tokio_util::sync::CancellationToken;

use super::Shared;

/// One answer, independent of the protocol in which it is sent.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(super) content: Content,
    delay: Option<Duration>,
    gate: Option<Gate>,
}

/// Delays answers until it is opened.
#[derive(Debug, Clone, Default)]
pub struct Gate(CancellationToken);

impl Gate {
    /// Releases all answers that wait, and delays none from now on.
    pub fn open(&self) {
        self.0.cancel();
    }
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    Say(Speech),
    Fail(Failure),
    /// A body that is not UTF-8.
    Garbage,
    /// Valid JSON that is not a reply of the protocol.
    WrongJson,
    /// Status 200 without a body.
    Nothing,
    /// No answer: not even headers are sent.
    Silence,
}

#[derive(Debug, Clone)]
pub(super) struct Speech {
    pub text: String,
    pub thoughts: String,
    pub end: End,
    /// Token counts to report; `None` derives them from the lengths of the texts.
    pub usage: Option<Usage>,
    /// True if the reply reports token counts.
    pub counts: bool,
    /// Failure of a stream, and the number of pieces of text that are sent before it.
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
    /// The connection is closed in the middle of the body.
    Break,
    /// The stream ends early without its closing event.
    End,
    /// The stream contains an "overloaded" error event.
    Overloaded,
    /// The connection stays open and sends nothing more.
    Stall,
    /// Bytes that are not UTF-8.
    Garbage,
}

#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub status: u16,
    /// OpenAI's `error.code`.
    pub code: &'static str,
    /// Anthropic's `error.type`.
    pub kind: &'static str,
    pub param: Option<String>,
    pub message: String,
    pub retry_after: Option<String>,
}

impl Answer {
    fn with_content(content: Content) -> Self {
        Self {
            content,
            delay: None,
            gate: None,
        }
    }

    fn fail(status: u16, code: &'static str, kind: &'static str, message: &str) -> Self {
        Self::with_content(Content::Fail(Failure {
            status,
            code,
            kind,
            param: None,
            message: message.to_owned(),
            retry_after: None,
        }))
    }

    fn speech(mut self, change: impl FnOnce(&mut Speech)) -> Self {
        match &mut self.content {
            Content::Say(speech) => change(speech),
            other => panic!("only a reply can be changed like this, not {other:?}"),
        }
        self
    }

    /// A complete reply.
    pub fn text(text: impl Into<String>) -> Self {
        Self::with_content(Content::Say(Speech {
            text: text.into(),
            thoughts: String::new(),
            end: End::Complete,
            usage: None,
            counts: true,
            trouble: None,
        }))
    }

    /// A reply that was cut off at the token limit.
    pub fn truncated(text: impl Into<String>) -> Self {
        Self::text(text).speech(|speech| speech.end = End::Length)
    }

    /// A refusal by the model, with its reason as text.
    pub fn refusal(why: &str) -> Self {
        Self::text(why).speech(|speech| speech.end = End::Refusal)
    }

    /// Adds reasoning that is sent before the text.
    #[must_use]
    pub fn thinking(self, thoughts: &str) -> Self {
        self.speech(|speech| thoughts.clone_into(&mut speech.thoughts))
    }

    /// Sets the reported token counts.
    #[must_use]
    pub fn using(self, usage: Usage) -> Self {
        self.speech(|speech| speech.usage = Some(usage))
    }

    /// Leaves token counts out of the reply.
    #[must_use]
    pub fn uncounted(self) -> Self {
        self.speech(|speech| speech.counts = false)
    }

    /// Breaks the connection after `pieces` pieces of a streamed text, or in the middle of a body
    /// that is not streamed.
    #[must_use]
    pub fn broken_after(self, pieces: usize) -> Self {
        self.speech(|speech| speech.trouble = Some((Trouble::Break, pieces)))
    }

    /// Ends a stream after `pieces` pieces without its closing event.
    #[must_use]
    pub fn ended_after(self, pieces: usize) -> Self {
        self.speech(|speech| speech.trouble = Some((Trouble::End, pieces)))
    }

    /// Sends an "overloaded" error event after `pieces` pieces of a stream.
    #[must_use]
    pub fn overloaded_after(self, pieces: usize) -> Self {
        self.speech(|speech| speech.trouble = Some((Trouble::Overloaded, pieces)))
    }

    /// Sends nothing more after `pieces` pieces, and keeps the connection open.
    #[must_use]
    pub fn stalled_after(self, pieces: usize) -> Self {
        self.speech(|speech| speech.trouble = Some((Trouble::Stall, pieces)))
    }

    /// Sends bytes that are not UTF-8 after `pieces` pieces.
    #[must_use]
    pub fn garbled_after(self, pieces: usize) -> Self {
        self.speech(|speech| speech.trouble = Some((Trouble::Garbage, pieces)))
    }

    /// Status 401: the API key is not accepted.
    pub fn unauthorised() -> Self {
        let message = "invalid key";
        Self::fail(401, "invalid_api_key", "authentication_error", message)
    }

    /// Status 429: too many requests. `retry_after` is a number of seconds or an HTTP date.
    pub fn rate_limited(retry_after: Option<&str>) -> Self {
        let mut answer = Self::fail(429, "rate_limit_exceeded", "rate_limit_error", "slow down");
        if let Content::Fail(failure) = &mut answer.content {
            failure.retry_after = retry_after.map(str::to_owned);
        }
        answer
    }

    /// Status 429: the account has no credit left.
    pub fn out_of_credit() -> Self {
        let message = "You exceeded your current quota";
        Self::fail(429, "insufficient_quota", "billing_error", message)
    }

    /// Status 529: the server is overloaded.
    pub fn overloaded() -> Self {
        Self::fail(529, "overloaded", "overloaded_error", "Overloaded")
    }

    /// Status 500: an internal error of the server.
    pub fn failing() -> Self {
        Self::fail(500, "internal_error", "api_error", "Internal server error")
    }

    /// Status 400: prompt and reply do not fit the model's context.
    pub fn context_too_long() -> Self {
        let message = "prompt is too long: 300000 tokens > 200000 maximum";
        let kind = "invalid_request_error";
        Self::fail(400, "context_length_exceeded", kind, message)
    }

    /// Status 400: the request is wrong, in the field `param` if given.
    pub fn bad_request(message: &str, param: Option<&str>) -> Self {
        let kind = "invalid_request_error";
        let mut answer = Self::fail(400, "invalid_request", kind, message);
        if let Content::Fail(failure) = &mut answer.content {
            failure.param = param.map(str::to_owned);
        }
        answer
    }

    /// Status 400: the model does not support a request field.
    pub fn refuses(field: &str) -> Self {
        let message = format!("Unsupported parameter: {field} is not supported with this model");
        Self::bad_request(&message, Some(field))
    }

    /// A body that is not UTF-8.
    pub fn garbage() -> Self {
        Self::with_content(Content::Garbage)
    }

    /// Valid JSON that is not a reply of the protocol.
    pub fn wrong_json() -> Self {
        Self::with_content(Content::WrongJson)
    }

    /// Status 200 without a body.
    pub fn nothing() -> Self {
        Self::with_content(Content::Nothing)
    }

    /// No answer: not even headers are sent.
    pub fn silence() -> Self {
        Self::with_content(Content::Silence)
    }

    /// Delays the answer by a duration.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Delays the answer until the gate is open.
    #[must_use]
    pub fn behind(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    pub(super) async fn wait(&self, shared: &Shared) {
        if let Some(delay) = self.delay {
            shared.wait_for(tokio::time::sleep(delay)).await;
        }
        if let Some(gate) = &self.gate {
            shared.wait_for(gate.0.cancelled()).await;
        }
        if let Content::Silence = self.content {
            shared.wait_for(std::future::pending()).await;
        }
    }
}
