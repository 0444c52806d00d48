//! Recordings of a run's calls: a text of JSON lines, and a model that answers from it without a
//! network.
//!
//! The first line describes the run, each further line holds one call. A reply is found by its
//! call's position in the run and not by its prompt, so that a changed prompt is reported.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::api::RunRequest;
use domain::decode_message::{self, Syntax};
use domain::digest::Digest;
use domain::model::{ModelView, Price, Prompt, Usage};
use domain::problem::{Problem, Problems};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{CallRequest, Llm, LlmError, Position, Reply, ReplyEnd};

pub use super::config::Prompts;

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;

const FIX: &str = "see docs/reference/models.md for the format of a recording";

/// The first line of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`VERSION`].
    pub cassette: u32,
    /// The task's name.
    pub task: String,
    /// The task's version: replayed on another one, verdicts may differ.
    pub task_version: Digest,
    /// The run's request. A run with the same request makes the same calls.
    pub run: RunRequest,
    /// The models that it names as they were configured: their limits shape prompts, their prices
    /// budgets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelView>,
    /// The origin of the replies.
    pub origin: Origin,
}

/// The origin of a recording's replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Models gave them.
    #[serde(rename = "recorded")]
    Recorded,
    /// A person wrote them, so they do not show what a model can do.
    #[serde(rename = "written by hand")]
    ByHand,
}

/// One call: a further line of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The candidate it was made for.
    pub ordinal: u32,
    /// The number of earlier calls for the same candidate.
    pub turn: u32,
    /// [`prompt_digest`] of what was asked.
    pub prompt_digest: Digest,
    /// The model as its server names it.
    pub model: String,
    /// The reply.
    pub reply: RecordedReply,
    /// The model's price in dollars per million tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// A recorded answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedReply {
    /// The text.
    pub text: String,
    /// The reason of its end.
    pub end: ReplyEnd,
    /// The tokens used.
    pub usage: Usage,
    /// True if the usage is an estimate.
    #[serde(default)]
    pub usage_estimated: bool,
}

impl Call {
    /// Its place in the run.
    pub fn position(&self) -> Position {
        Position {
            ordinal: self.ordinal,
            turn: self.turn,
        }
    }
}

/// The digest of a prompt: SHA-256 of the prompt as JSON without white space and with sorted keys.
pub fn prompt_digest(prompt: &Prompt) -> Digest {
    let value = serde_json::to_value(prompt).expect("a prompt is texts in lists");
    let mut canonical = String::new();
    write_canonical(&value, &mut canonical);
    Digest::of(canonical)
}

/// Sorts keys itself, so that no build option of a library can change recorded digests.
fn write_canonical(value: &serde_json::Value, out: &mut String) {
    match value {
        serde_json::Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            out.push('{');
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&serde_json::Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
        serde_json::Value::Array(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(value, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

/// The lines of a recording, each with its line feed.
pub fn lines(
    header: &Header,
    calls: impl IntoIterator<Item = Call>,
) -> impl Iterator<Item = String> {
    let calls = calls.into_iter().map(|call| line(&call));
    std::iter::once(line(header)).chain(calls)
}

fn line(value: &impl Serialize) -> String {
    let mut line = serde_json::to_string(value).expect("keys are texts and numbers finite");
    line.push('\n');
    line
}

/// A recording that has been read.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    header: Header,
    calls: BTreeMap<Position, Call>,
}

impl Recording {
    /// Reads the text of the file `name`. The order of the calls does not matter.
    ///
    /// # Errors
    /// Every defective line.
    pub fn parse(name: &str, text: &str) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let mut report = |number: usize, message: String, fix: &str| {
            problems.push(Problem {
                file: name.to_owned(),
                line: u32::try_from(number).unwrap_or(u32::MAX),
                column: 0,
                message,
                fix: fix.to_owned(),
            });
        };
        let mut numbered = (1..).zip(text.lines());
        let header = match numbered.next() {
            None => {
                report(0, "an empty recording".to_owned(), FIX);
                None
            }
            Some((number, first)) => parsed::<Header>(first)
                .map_err(|message| report(number, message, FIX))
                .ok(),
        };
        if let Some(header) = &header
            && header.cassette != VERSION
        {
            let message = format!("a recording of version {}", header.cassette);
            let fix = format!("this program reads version {VERSION}: record the run again");
            report(1, message, &fix);
        }
        let mut calls = BTreeMap::new();
        for (number, text) in numbered.filter(|(_, text)| !text.trim().is_empty()) {
            match parsed::<Call>(text) {
                Err(message) => report(number, message, FIX),
                Ok(call) => {
                    let place = call.position();
                    if calls.insert(place, call).is_some() {
                        let message = format!(
                            "a second reply for candidate {}, turn {}",
                            place.ordinal, place.turn
                        );
                        report(number, message, "keep one");
                    }
                }
            }
        }
        match header {
            Some(header) if problems.is_empty() => Ok(Self { header, calls }),
            _ => Err(Problems(problems)),
        }
    }

    /// The first line.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Its calls by their place in the run.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.values()
    }
}

fn parsed<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| {
        let message = error.to_string();
        // The recording's own line number stands before the message.
        let problem = message.split(" at line ").next().unwrap_or(&message);
        decode_message::describe(problem, Syntax::Json)
    })
}

/// A model that answers from a recording.
#[derive(Debug, Clone)]
pub struct RecordedModel {
    name: String,
    recording: Recording,
    prompts: Prompts,
}

impl RecordedModel {
    /// Answers as the model `name` from a recording.
    pub fn new(name: impl Into<String>, recording: Recording, prompts: Prompts) -> Self {
        Self {
            name: name.into(),
            recording,
            prompts,
        }
    }

    fn reply(&self, request: &CallRequest) -> Result<Reply, LlmError> {
        let position = request.position;
        let call = self.recording.calls.get(&position);
        let call = call.ok_or_else(|| LlmError::NotRecorded {
            model: self.name.clone(),
            position,
        })?;
        let is_same = call.prompt_digest == prompt_digest(&request.prompt);
        if self.prompts == Prompts::Recorded && !is_same {
            return Err(LlmError::Departed {
                model: self.name.clone(),
                position,
            });
        }
        Ok(Reply {
            text: call.reply.text.clone(),
            end: call.reply.end,
            usage: call.reply.usage,
            usage_estimated: call.reply.usage_estimated,
            model: call.model.clone(),
            request_id: None,
            first_token: None,
            total: Duration::ZERO,
            attempts: 1,
        })
    }
}

impl Llm for RecordedModel {
    fn complete<'a>(&'a self, request: &'a CallRequest) -> BoxFuture<'a, Result<Reply, LlmError>> {
        std::future::ready(self.reply(request)).boxed()
    }
}
