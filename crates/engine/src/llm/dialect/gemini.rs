//! Content generation as Google's Gemini API defines it. The model is part of the address, and a stream
//! is another method of it.

use domain::model::{Speaker, Usage};
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};

use super::{
    Answer, Dialect, EventKind, Features, NoAnswer, RequestFields, StreamParser, count, name, parse,
};
use crate::llm::ReplyEnd;
use crate::llm::key::Key;
use crate::llm::sse::Event;

/// The content generation of Google's Gemini API.
#[derive(Debug)]
pub(super) struct Gemini;

impl Dialect for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn example_endpoint(&self) -> &'static str {
        "https://generativelanguage.googleapis.com/v1beta"
    }

    fn features(&self) -> Features {
        Features {
            seed: true,
            counts_stream_on_request: false,
            token_limit_field: false,
            reasoning_effort: false,
        }
    }

    fn request_path(&self, endpoint: &str, model: &str, stream: bool) -> String {
        let version = if endpoint.ends_with("/v1beta") || endpoint.ends_with("/v1") {
            ""
        } else {
            "/v1beta"
        };
        // Tuned models are named with their collection.
        let collection = if model.contains('/') { "" } else { "models/" };
        let method = if stream {
            "streamGenerateContent"
        } else {
            "generateContent"
        };
        format!("{endpoint}{version}/{collection}{model}:{method}")
    }

    fn request_query(&self, stream: bool) -> Option<&'static str> {
        stream.then_some("alt=sse")
    }

    fn headers(&self, key: Option<&Key>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            headers.insert("x-goog-api-key", key.header(""));
        }
        headers
    }

    fn body(&self, ask: &RequestFields<'_>) -> Value {
        let contents: Vec<Value> = ask
            .prompt
            .messages
            .iter()
            .map(|message| {
                let role = match message.speaker {
                    Speaker::User => "user",
                    Speaker::Assistant => "model",
                };
                json!({ "role": role, "parts": [{ "text": message.text }] })
            })
            .collect();
        let mut generation = Map::new();
        generation.insert("maxOutputTokens".to_owned(), ask.max_output_tokens.into());
        let optional = [
            ("temperature", ask.temperature.map(Value::from)),
            ("seed", ask.seed.map(Value::from)),
        ];
        for (field, value) in optional {
            generation.extend(value.map(|value| (field.to_owned(), value)));
        }
        let mut body = ask.extra.clone();
        // Further settings of the generation, such as thinkingConfig, stand beside ours.
        if let Some(Value::Object(further)) = body.remove("generationConfig") {
            for (field, value) in further {
                generation.entry(field).or_insert(value);
            }
        }
        if !ask.prompt.system.is_empty() {
            let system = json!({ "parts": [{ "text": ask.prompt.system }] });
            body.insert("systemInstruction".to_owned(), system);
        }
        body.insert("contents".to_owned(), contents.into());
        body.insert("generationConfig".to_owned(), generation.into());
        Value::Object(body)
    }

    fn stream_parser(&self) -> Box<dyn StreamParser> {
        Box::new(ReplyParser::default())
    }

    fn parse_reply(&self, body: &Value) -> Result<Answer, NoAnswer> {
        let mut parser = ReplyParser::default();
        if parser.add(body)? == EventKind::Unknown {
            let message = "its reply holds no candidates".to_owned();
            return Err(NoAnswer::Malformed(message));
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
    usage: Option<Usage>,
    model: Option<String>,
}

impl StreamParser for ReplyParser {
    fn parse_event(&mut self, event: &Event) -> Result<EventKind, NoAnswer> {
        let body = parse(event)?;
        if !body["error"].is_null() {
            return Err(NoAnswer::Reported(body));
        }
        self.add(&body)
    }

    fn finish(self: Box<Self>) -> Result<Answer, NoAnswer> {
        self.into_answer()
    }
}

impl ReplyParser {
    /// Takes in a whole reply, or a piece of one, which has the same form.
    fn add(&mut self, body: &Value) -> Result<EventKind, NoAnswer> {
        if let Some(reason) = name(&body["promptFeedback"]["blockReason"]) {
            let message = format!("a filter stopped the prompt: {reason}");
            return Err(NoAnswer::Refused(message));
        }
        self.model = name(&body["modelVersion"]).or(self.model.take());
        // Every piece counts anew; the last count is the whole.
        self.usage = usage(&body["usageMetadata"]).or(self.usage.take());
        let Some(candidate) = body["candidates"].get(0) else {
            return Ok(if body["usageMetadata"].is_object() {
                EventKind::Metadata
            } else {
                EventKind::Unknown
            });
        };
        self.end = name(&candidate["finishReason"]).or(self.end.take());
        let before = self.written();
        for part in candidate["content"]["parts"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let text = part["text"].as_str().unwrap_or_default();
            if part["thought"] == true {
                self.reasoning += text.len();
            } else {
                self.text.push_str(text);
            }
        }
        Ok(if self.written() > before {
            EventKind::Token
        } else {
            EventKind::Metadata
        })
    }

    fn written(&self) -> usize {
        self.text.len() + self.reasoning
    }

    fn into_answer(self) -> Result<Answer, NoAnswer> {
        let end = match self.end.as_deref() {
            None => return Err(NoAnswer::Cut),
            Some("STOP") => ReplyEnd::Complete,
            Some("MAX_TOKENS") => ReplyEnd::Length,
            Some(
                reason @ ("SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT"
                | "SPII"),
            ) => {
                let message = format!("a filter stopped the reply: {reason}");
                return Err(NoAnswer::Refused(message));
            }
            Some(other) => {
                let message = format!("its reply ended for an unknown reason, {other:?}");
                return Err(NoAnswer::Malformed(message));
            }
        };
        Ok(Answer {
            written: self.written() as u64,
            text: self.text,
            end,
            usage: self.usage,
            model: self.model,
        })
    }
}

fn usage(value: &Value) -> Option<Usage> {
    let read = count(&value["promptTokenCount"]).filter(|&tokens| tokens > 0)?;
    let cached = count(&value["cachedContentTokenCount"])
        .unwrap_or(0)
        .min(read);
    // Absent until the first token.
    let written = count(&value["candidatesTokenCount"]).unwrap_or(0);
    let reasoned = count(&value["thoughtsTokenCount"]).unwrap_or(0);
    Some(Usage {
        input: read - cached,
        cached,
        cache_written: 0,
        output: written + reasoned,
    })
}
