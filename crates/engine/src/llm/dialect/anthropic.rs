//! Messages as Anthropic defines them. The system text is marked for the prompt cache: it is the
//! part that a run's prompts share.

use domain::model::{Speaker, Usage};
use serde_json::{Map, Value, json};

use super::{Answer, Ask, Heard, NoAnswer, count, name, parse};
use crate::llm::ReplyEnd;
use crate::llm::sse::Event;

pub(super) fn body(ask: &Ask<'_>) -> Value {
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

pub(super) fn whole(body: &Value) -> Result<Answer, NoAnswer> {
    let Some(content) = body["content"].as_array() else {
        return Err(NoAnswer::Malformed("its reply has no content".to_owned()));
    };
    let mut listener = Listener {
        model: name(&body["model"]),
        end: name(&body["stop_reason"]),
        is_over: true,
        ..Listener::default()
    };
    listener.count(&body["usage"]);
    for block in content {
        listener.said(block);
    }
    listener.finish()
}

/// The reply so far.
#[derive(Debug, Default)]
pub(in crate::llm) struct Listener {
    text: String,
    /// Bytes of reasoning.
    thought: usize,
    end: Option<String>,
    is_over: bool,
    usage: Usage,
    model: Option<String>,
}

impl Listener {
    pub(super) fn hear(&mut self, event: &Event) -> Result<Heard, NoAnswer> {
        let data = parse(event)?;
        let kind = data["type"].as_str().unwrap_or(&event.name);
        match kind {
            "message_start" => {
                self.model = name(&data["message"]["model"]);
                self.count(&data["message"]["usage"]);
                Ok(Heard::Note)
            }
            "content_block_start" => Ok(self.said(&data["content_block"])),
            "content_block_delta" => Ok(self.said(&data["delta"])),
            "message_delta" => {
                self.end = name(&data["delta"]["stop_reason"]).or(self.end.take());
                self.count(&data["usage"]);
                Ok(Heard::Note)
            }
            "message_stop" => {
                self.is_over = true;
                Ok(Heard::End)
            }
            "error" => Err(NoAnswer::Reported(data)),
            "ping" | "content_block_stop" => Ok(Heard::Note),
            // Kinds that came later than this program.
            _ => Ok(Heard::Noise),
        }
    }

    fn said(&mut self, block: &Value) -> Heard {
        let text = block["text"].as_str().unwrap_or_default();
        let thought = block["thinking"].as_str().unwrap_or_default();
        self.text.push_str(text);
        self.thought += thought.len();
        if text.is_empty() && thought.is_empty() {
            Heard::Note
        } else {
            Heard::Token
        }
    }

    /// Later counts replace earlier ones; what they leave out stands.
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

    pub(super) fn finish(self) -> Result<Answer, NoAnswer> {
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
            written: (self.text.len() + self.thought) as u64,
            text: self.text,
            end,
            usage: (read > 0).then_some(self.usage),
            model: self.model,
        })
    }
}
