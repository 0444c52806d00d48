//! Messages as Anthropic defines them. The system text is marked for the prompt cache: it is the
//! part that a run's prompts share.

use domain::model::{Speaker, Usage};
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};

use super::{
    Answer, Dialect, EventKind, Features, NoAnswer, RequestFields, StreamParser, count, name, parse,
};
use crate::llm::ReplyEnd;
use crate::llm::key::Key;
use crate::llm::sse::Event;

/// The messages of Anthropic.
#[derive(Debug)]
pub(super) struct Anthropic;

impl Dialect for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn example_endpoint(&self) -> &'static str {
        "https://api.anthropic.com"
    }

    fn features(&self) -> Features {
        Features {
            seed: false,
            counts_stream_on_request: false,
            token_limit_field: false,
            reasoning_effort: false,
        }
    }

    fn request_path(&self, endpoint: &str, _model: &str, _stream: bool) -> String {
        if endpoint.ends_with("/messages") {
            endpoint.to_owned()
        } else if endpoint.ends_with("/v1") {
            format!("{endpoint}/messages")
        } else {
            format!("{endpoint}/v1/messages")
        }
    }

    fn headers(&self, key: Option<&Key>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let version = HeaderValue::from_static("2023-06-01");
        headers.insert("anthropic-version", version);
        if let Some(key) = key {
            headers.insert("x-api-key", key.header(""));
        }
        headers
    }

    fn body(&self, ask: &RequestFields<'_>) -> Value {
        let messages: Vec<Value> = ask
            .prompt
            .messages
            .iter()
            .map(|message| {
                let role = match message.speaker {
                    Speaker::User => "user",
                    Speaker::Assistant => "assistant",
                };
                json!({ "role": role, "content": message.text })
            })
            .collect();
        let mut body = Map::new();
        body.insert("model".to_owned(), ask.model.into());
        body.insert("max_tokens".to_owned(), ask.max_output_tokens.into());
        if !ask.prompt.system.is_empty() {
            let system = json!([{
                "type": "text",
                "text": ask.prompt.system,
                "cache_control": { "type": "ephemeral" },
            }]);
            body.insert("system".to_owned(), system);
        }
        body.insert("messages".to_owned(), messages.into());
        body.insert("stream".to_owned(), ask.stream.into());
        if let Some(temperature) = ask.temperature {
            body.insert("temperature".to_owned(), temperature.into());
        }
        body.extend(ask.extra.clone());
        Value::Object(body)
    }

    fn stream_parser(&self) -> Box<dyn StreamParser> {
        Box::new(ReplyParser::default())
    }

    fn parse_reply(&self, body: &Value) -> Result<Answer, NoAnswer> {
        let Some(content) = body["content"].as_array() else {
            return Err(NoAnswer::Malformed("its reply has no content".to_owned()));
        };
        let mut parser = ReplyParser {
            model: name(&body["model"]),
            end: name(&body["stop_reason"]),
            is_over: true,
            ..ReplyParser::default()
        };
        parser.count(&body["usage"]);
        for block in content {
            parser.add_content(block);
        }
        parser.into_answer()
    }
}

/// The reply as far as it has come.
#[derive(Debug, Default)]
struct ReplyParser {
    text: String,
    /// Bytes of reasoning.
    reasoning: usize,
    end: Option<String>,
    is_over: bool,
    usage: Usage,
    model: Option<String>,
}

impl StreamParser for ReplyParser {
    fn parse_event(&mut self, event: &Event) -> Result<EventKind, NoAnswer> {
        let data = parse(event)?;
        let kind = data["type"].as_str().unwrap_or(&event.name);
        match kind {
            "message_start" => {
                self.model = name(&data["message"]["model"]);
                self.count(&data["message"]["usage"]);
                Ok(EventKind::Metadata)
            }
            "content_block_start" => Ok(self.add_content(&data["content_block"])),
            "content_block_delta" => Ok(self.add_content(&data["delta"])),
            "message_delta" => {
                self.end = name(&data["delta"]["stop_reason"]).or(self.end.take());
                self.count(&data["usage"]);
                Ok(EventKind::Metadata)
            }
            "message_stop" => {
                self.is_over = true;
                Ok(EventKind::End)
            }
            "error" => Err(NoAnswer::Reported(data)),
            "ping" | "content_block_stop" => Ok(EventKind::Metadata),
            // Kinds that came later than this program.
            _ => Ok(EventKind::Unknown),
        }
    }

    fn finish(self: Box<Self>) -> Result<Answer, NoAnswer> {
        self.into_answer()
    }
}

impl ReplyParser {
    fn add_content(&mut self, block: &Value) -> EventKind {
        let text = block["text"].as_str().unwrap_or_default();
        let thought = block["thinking"].as_str().unwrap_or_default();
        self.text.push_str(text);
        self.reasoning += thought.len();
        if text.is_empty() && thought.is_empty() {
            EventKind::Metadata
        } else {
            EventKind::Token
        }
    }

    /// Replaces the counts that `usage` has, and keeps the others.
    fn count(&mut self, usage: &Value) {
        let parts = [
            ("input_tokens", &mut self.usage.input),
            ("cache_read_input_tokens", &mut self.usage.cached),
            ("cache_creation_input_tokens", &mut self.usage.cache_written),
            ("output_tokens", &mut self.usage.output),
        ];
        for (field, part) in parts {
            if let Some(tokens) = count(&usage[field]) {
                *part = tokens;
            }
        }
    }

    fn into_answer(self) -> Result<Answer, NoAnswer> {
        if !self.is_over {
            return Err(NoAnswer::Cut);
        }
        let end = match self.end.as_deref() {
            Some("end_turn" | "stop_sequence") => ReplyEnd::Complete,
            Some("max_tokens" | "model_context_window_exceeded") => ReplyEnd::Length,
            Some("refusal") => {
                let message = if self.text.is_empty() {
                    "it gives no reason".to_owned()
                } else {
                    self.text
                };
                return Err(NoAnswer::Refused(message));
            }
            Some(other) => {
                let message = format!("its reply ended for an unknown reason, {other:?}");
                return Err(NoAnswer::Malformed(message));
            }
            None => return Err(NoAnswer::Cut),
        };
        let read = self.usage.input + self.usage.cached + self.usage.cache_written;
        Ok(Answer {
            written: (self.text.len() + self.reasoning) as u64,
            text: self.text,
            end,
            usage: (read > 0).then_some(self.usage),
            model: self.model,
        })
    }
}
