//! Chat completions as OpenAI defines them, with the variants of other servers: other words for the
//! end of a reply, content in parts, reasoning beside the text or in a `<think>` block before it, and
//! prompt cache counts in three places.

use domain::model::{Speaker, Usage};
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Map, Value, json};

use super::{
    Answer, Dialect, EventKind, Features, NoAnswer, RequestFields, StreamParser, count, name, parse,
};
use crate::llm::ReplyEnd;
use crate::llm::key::Key;
use crate::llm::sse::Event;

/// The chat completions of OpenAI, which most servers implement.
#[derive(Debug)]
pub(super) struct OpenAi;

impl Dialect for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn example_endpoint(&self) -> &'static str {
        "https://api.openai.com/v1"
    }

    fn features(&self) -> Features {
        Features {
            seed: true,
            counts_stream_on_request: true,
            token_limit_field: true,
            reasoning_effort: true,
        }
    }

    fn request_path(&self, endpoint: &str, _model: &str, _stream: bool) -> String {
        if endpoint.ends_with("/chat/completions") {
            endpoint.to_owned()
        } else {
            format!("{endpoint}/chat/completions")
        }
    }

    fn headers(&self, key: Option<&Key>) -> HeaderMap {
        let authorization = key.map(|key| (AUTHORIZATION, key.header("Bearer ")));
        authorization.into_iter().collect()
    }

    fn body(&self, ask: &RequestFields<'_>) -> Value {
        let system = (!ask.prompt.system.is_empty())
            .then(|| json!({ "role": "system", "content": ask.prompt.system }));
        let said = ask.prompt.messages.iter().map(|message| {
            let role = match message.speaker {
                Speaker::User => "user",
                Speaker::Assistant => "assistant",
            };
            json!({ "role": role, "content": message.text })
        });
        let messages: Vec<Value> = system.into_iter().chain(said).collect();
        let mut body = Map::new();
        body.insert("model".to_owned(), ask.model.into());
        body.insert("messages".to_owned(), messages.into());
        body.insert(
            ask.token_limit_field.name().to_owned(),
            ask.max_output_tokens.into(),
        );
        body.insert("stream".to_owned(), ask.stream.into());
        if ask.stream && ask.count_stream {
            let options = json!({ "include_usage": true });
            body.insert("stream_options".to_owned(), options);
        }
        let optional = [
            ("temperature", ask.temperature.map(Value::from)),
            ("seed", ask.seed.map(Value::from)),
            ("reasoning_effort", ask.reasoning_effort.map(Value::from)),
        ];
        for (field, value) in optional {
            body.extend(value.map(|value| (field.to_owned(), value)));
        }
        body.extend(ask.extra.clone());
        Value::Object(body)
    }

    fn stream_parser(&self) -> Box<dyn StreamParser> {
        Box::new(ReplyParser::default())
    }

    fn parse_reply(&self, body: &Value) -> Result<Answer, NoAnswer> {
        let mut parser = ReplyParser::default();
        parser.read_metadata(body);
        let Some(choice) = body["choices"].get(0) else {
            return Err(NoAnswer::Malformed("its reply holds no choices".to_owned()));
        };
        parser.add_content(&choice["message"]);
        parser.end = name(&choice["finish_reason"]);
        parser.into_answer()
    }
}

/// The reply as far as it has come.
#[derive(Debug, Default)]
struct ReplyParser {
    text: String,
    refusal: String,
    /// Bytes of reasoning.
    reasoning: usize,
    end: Option<String>,
    usage: Option<Usage>,
    model: Option<String>,
}

impl StreamParser for ReplyParser {
    fn parse_event(&mut self, event: &Event) -> Result<EventKind, NoAnswer> {
        if event.data.trim() == "[DONE]" {
            return Ok(EventKind::End);
        }
        let chunk = parse(event)?;
        if !chunk["error"].is_null() {
            return Err(NoAnswer::Reported(chunk));
        }
        self.read_metadata(&chunk);
        let Some(choice) = chunk["choices"].get(0) else {
            // The count of tokens comes without a choice.
            return Ok(if chunk["choices"].is_array() {
                EventKind::Metadata
            } else {
                EventKind::Unknown
            });
        };
        if let Some(end) = name(&choice["finish_reason"]) {
            self.end = Some(end);
        }
        Ok(if self.add_content(&choice["delta"]) {
            EventKind::Token
        } else {
            EventKind::Metadata
        })
    }

    fn finish(self: Box<Self>) -> Result<Answer, NoAnswer> {
        self.into_answer()
    }
}

impl ReplyParser {
    fn read_metadata(&mut self, body: &Value) {
        if self.model.is_none() {
            self.model = name(&body["model"]);
        }
        // Some servers count anew with every piece; the last count is the whole.
        if let Some(usage) = usage(&body["usage"]) {
            self.usage = Some(usage);
        }
    }

    /// Appends a message or a piece of one. Returns true if it had any content.
    fn add_content(&mut self, message: &Value) -> bool {
        let before = self.written();
        match &message["content"] {
            Value::String(text) => self.text.push_str(text),
            Value::Array(parts) => {
                let texts = parts.iter().filter_map(|part| part["text"].as_str());
                texts.for_each(|text| self.text.push_str(text));
            }
            _ => {}
        }
        for field in ["reasoning_content", "reasoning"] {
            if let Some(thought) = message[field].as_str() {
                self.reasoning += thought.len();
                // Servers that send both send the same twice.
                break;
            }
        }
        if let Some(refusal) = message["refusal"].as_str() {
            self.refusal.push_str(refusal);
        }
        self.written() > before
    }

    fn written(&self) -> usize {
        self.text.len() + self.reasoning + self.refusal.len()
    }

    fn into_answer(self) -> Result<Answer, NoAnswer> {
        if !self.refusal.is_empty() && self.text.is_empty() {
            return Err(NoAnswer::Refused(self.refusal));
        }
        let end = match self.end.as_deref() {
            // A reply without a reason for its end may have been cut off before it.
            None => return Err(NoAnswer::Cut),
            Some("stop" | "eos" | "end_turn" | "stop_sequence" | "eos_token") => ReplyEnd::Complete,
            Some("length" | "max_tokens") => ReplyEnd::Length,
            Some("content_filter") => {
                let message = "a content filter stopped the reply".to_owned();
                return Err(NoAnswer::Refused(message));
            }
            Some("error") => return Err(NoAnswer::Cut),
            Some(other) => {
                let message = format!("its reply ended for an unknown reason, {other:?}");
                return Err(NoAnswer::Malformed(message));
            }
        };
        Ok(Answer {
            written: self.written() as u64,
            text: without_thoughts(self.text),
            end,
            usage: self.usage,
            model: self.model,
        })
    }
}

/// The text without the block of reasoning that some servers leave in front of it; nothing is
/// left of a text that ends inside the block.
fn without_thoughts(text: String) -> String {
    let Some(thoughts) = text.trim_start().strip_prefix("<think>") else {
        return text;
    };
    match thoughts.split_once("</think>") {
        Some((_, said)) => said.trim_start().to_owned(),
        None => String::new(),
    }
}

fn usage(value: &Value) -> Option<Usage> {
    let read = count(&value["prompt_tokens"]).filter(|&tokens| tokens > 0)?;
    let completion = count(&value["completion_tokens"])?;
    let details = &value["prompt_tokens_details"];
    let first = |values: [&Value; 2]| values.into_iter().find_map(count).unwrap_or(0);
    let cached = first([&details["cached_tokens"], &value["prompt_cache_hit_tokens"]]).min(read);
    let cache_written = first([
        &details["cache_write_tokens"],
        &value["cache_creation_input_tokens"],
    ])
    .min(read - cached);
    // Some servers leave reasoning out of the completion and in the total.
    let rest = count(&value["total_tokens"])
        .unwrap_or(0)
        .saturating_sub(read);
    Some(Usage {
        input: read - cached - cache_written,
        cached,
        cache_written,
        output: completion.max(rest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_liberties_that_servers_take_with_their_counts_are_understood() {
        let cases = [
            (
                json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}),
                Some((10, 0, 0, 5)),
            ),
            (
                json!({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 8}}),
                Some((2, 8, 0, 5)),
            ),
            (
                json!({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4}),
                Some((6, 4, 0, 5)),
            ),
            (
                json!({"prompt_tokens": 10, "completion_tokens": 5, "cache_creation_input_tokens": 7,
                       "prompt_tokens_details": {"cached_tokens": 2}}),
                Some((1, 2, 7, 5)),
            ),
            // Reasoning only in the total.
            (
                json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}),
                Some((10, 0, 0, 30)),
            ),
            // More from the cache than was read cannot be.
            (
                json!({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 80}}),
                Some((0, 10, 0, 5)),
            ),
            (json!({"prompt_tokens": 0, "completion_tokens": 0}), None),
            (json!({"prompt_tokens": -3, "completion_tokens": 5}), None),
            (
                json!({"prompt_tokens": u64::MAX, "completion_tokens": 5}),
                None,
            ),
            (json!("many"), None),
            (Value::Null, None),
        ];
        for (value, expected) in cases {
            let expected = expected.map(|(input, cached, cache_written, output)| Usage {
                input,
                cached,
                cache_written,
                output,
            });
            assert_eq!(usage(&value), expected, "{value}");
        }
    }

    #[test]
    fn reasoning_in_front_of_the_text_is_not_part_of_it() {
        let cases = [
            ("<think>hm\nhm</think>\n\n```cuda", "```cuda"),
            ("\n<think></think>a", "a"),
            ("<think>cut in the middle", ""),
            ("a <think>b</think>", "a <think>b</think>"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_thoughts(text.to_owned()), expected);
        }
    }
}
