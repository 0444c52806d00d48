//! Encodes answers in OpenAI's, Anthropic's and Gemini's protocols. Written from the providers'
//! documentation; it shares no code with the clients under test.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};
use domain::model::Usage;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::answer::{Answer, Content, End, Failure, Speech, Trouble};
use super::{Dialect, Request, Shared, status};

const MODEL: &str = "scripted-2026-11";
/// Least length of a piece of streamed text, bytes.
const PIECE: usize = 40;

/// One step in sending a body.
enum Step {
    Send(String),
    Raw(&'static [u8]),
    Break,
    Stall,
}

pub(super) fn response(
    shared: &Arc<Shared>,
    dialect: Dialect,
    asked: Option<&Request>,
    answer: Answer,
) -> Response {
    let mut response = match answer.content {
        Content::Say(speech) => {
            let asked = asked.expect("a script answers a request");
            reply(shared, asked, &speech)
        }
        Content::Fail(failure) => http_error(dialect, &failure),
        Content::Garbage => bytes("application/json", &b"\xff\xfe\x00{garbage"[..]),
        Content::WrongJson => bytes("application/json", r#"{"weather": ["sunny"]}"#),
        Content::Nothing | Content::Silence => bytes("application/json", ""),
    };
    let name = match dialect {
        Dialect::OpenAi | Dialect::Gemini => "x-request-id",
        Dialect::Anthropic => "request-id",
    };
    let id = axum::http::HeaderValue::from_static("req_scripted");
    response.headers_mut().insert(name, id);
    response
}

fn bytes(kind: &'static str, body: impl Into<Body>) -> Response {
    ([(CONTENT_TYPE, kind)], body.into()).into_response()
}

fn http_error(dialect: Dialect, failure: &Failure) -> Response {
    let body = error(dialect, failure).to_string();
    let mut response = bytes("application/json", body);
    *response.status_mut() = status(failure.status);
    if let Some(when) = &failure.retry_after {
        let when = when.parse().expect("scripts name printable times");
        response.headers_mut().insert(RETRY_AFTER, when);
    }
    response
}

fn error(dialect: Dialect, failure: &Failure) -> Value {
    let message = &failure.message;
    match dialect {
        Dialect::OpenAi => json!({ "error": {
            "message": message,
            "type": "invalid_request_error",
            "param": failure.param,
            "code": failure.code,
        } }),
        Dialect::Anthropic => json!({
            "type": "error",
            "error": { "type": failure.kind, "message": message },
        }),
        Dialect::Gemini => json!({ "error": {
            "code": failure.status,
            "message": message,
            "status": failure.kind.to_uppercase(),
            "details": [{ "reason": failure.code }],
        } }),
    }
}

fn reply(shared: &Arc<Shared>, asked: &Request, speech: &Speech) -> Response {
    if !asked.wants_stream() {
        let body = match asked.dialect {
            Dialect::OpenAi => openai_whole(asked, speech),
            Dialect::Anthropic => anthropic_whole(asked, speech),
            Dialect::Gemini => gemini_piece(asked, speech, &speech.text, true),
        }
        .to_string();
        let Some(_trouble) = speech.trouble else {
            return bytes("application/json", body);
        };
        let half = body[..body.len() / 2].to_owned();
        let steps = vec![Step::Send(half), Step::Break];
        return bytes("application/json", body_of(shared, steps));
    }
    let steps = match asked.dialect {
        Dialect::OpenAi => openai_stream(asked, speech),
        Dialect::Anthropic => anthropic_stream(asked, speech),
        Dialect::Gemini => gemini_stream(asked, speech),
    };
    bytes("text/event-stream; charset=utf-8", body_of(shared, steps))
}

fn body_of(shared: &Arc<Shared>, steps: Vec<Step>) -> Body {
    let shared = Arc::clone(shared);
    let pieces = stream::iter(steps).then(move |step| {
        let shared = Arc::clone(&shared);
        async move {
            match step {
                Step::Send(text) => Ok(Bytes::from(text)),
                Step::Raw(raw) => Ok(Bytes::from_static(raw)),
                Step::Break => {
                    // Lets the server send the pieces before the break.
                    tokio::task::yield_now().await;
                    Err(io::Error::other("the script breaks the connection here"))
                }
                Step::Stall => {
                    shared.wait_for(std::future::pending()).await;
                    Err(io::Error::other("the server closes"))
                }
            }
        }
    });
    Body::from_stream(pieces)
}

/// Splits a text into pieces at borders of characters.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for c in text.chars() {
        if pieces.last().is_some_and(|piece| piece.len() >= PIECE) {
            pieces.push(String::new());
        }
        pieces.last_mut().expect("never empty").push(c);
    }
    pieces
}

fn usage(asked: &Request, speech: &Speech) -> Usage {
    speech.usage.unwrap_or_else(|| Usage {
        input: 1 + asked
            .messages()
            .map(|one| one.to_string().len() as u64)
            .sum::<u64>()
            / 4,
        output: 1 + (speech.text.len() + speech.thoughts.len()) as u64 / 4,
        ..Usage::default()
    })
}

fn openai_usage(asked: &Request, speech: &Speech) -> Value {
    let usage = usage(asked, speech);
    let read = usage.input + usage.cached + usage.cache_written;
    json!({
        "prompt_tokens": read,
        "completion_tokens": usage.output,
        "total_tokens": read + usage.output,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached,
            "cache_write_tokens": usage.cache_written,
        },
    })
}

fn openai_end(speech: &Speech) -> &'static str {
    match speech.end {
        End::Complete | End::Refusal => "stop",
        End::Length => "length",
    }
}

fn openai_whole(asked: &Request, speech: &Speech) -> Value {
    let message = match speech.end {
        End::Refusal => json!({ "role": "assistant", "content": null, "refusal": speech.text }),
        _ => json!({
            "role": "assistant",
            "content": speech.text,
            "reasoning_content": speech.thoughts,
        }),
    };
    let mut body = json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{ "index": 0, "message": message, "finish_reason": openai_end(speech) }],
    });
    if speech.counts {
        body["usage"] = openai_usage(asked, speech);
    }
    body
}

fn openai_stream(asked: &Request, speech: &Speech) -> Vec<Step> {
    let chunk = |choices: Value| {
        json!({
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": MODEL,
            "choices": choices,
        })
    };
    let send = |chunk: Value| Step::Send(format!("data: {chunk}\n\n"));
    let delta = |delta: Value| send(chunk(json!([{ "index": 0, "delta": delta }])));
    let mut steps = vec![delta(json!({ "role": "assistant", "content": "" }))];
    if !speech.thoughts.is_empty() {
        steps.push(delta(json!({ "reasoning_content": speech.thoughts })));
    }
    let field = match speech.end {
        End::Refusal => "refusal",
        _ => "content",
    };
    for (index, piece) in pieces(&speech.text).iter().enumerate() {
        if let Some(end) = trouble(asked.dialect, speech, index) {
            steps.extend(end);
            return steps;
        }
        steps.push(delta(json!({ field: piece })));
    }
    let end = json!([{ "index": 0, "delta": {}, "finish_reason": openai_end(speech) }]);
    steps.push(send(chunk(end)));
    if speech.counts && asked.body["stream_options"]["include_usage"] == true {
        let mut last = chunk(json!([]));
        last["usage"] = openai_usage(asked, speech);
        steps.push(send(last));
    }
    steps.push(Step::Send("data: [DONE]\n\n".to_owned()));
    steps
}

/// Steps that replace the piece with this number, if the script lets the stream fail there.
fn trouble(dialect: Dialect, speech: &Speech, piece: usize) -> Option<Vec<Step>> {
    let (trouble, _) = speech.trouble.filter(|(_, at)| *at == piece)?;
    Some(match trouble {
        Trouble::Break => vec![Step::Break],
        Trouble::End => vec![],
        Trouble::Stall => vec![Step::Stall],
        Trouble::Garbage => vec![Step::Raw(b"data: \xff\xfe\n\n")],
        Trouble::Overloaded => {
            let failure = Failure {
                status: 529,
                code: "529",
                kind: "overloaded_error",
                param: None,
                message: "Overloaded".to_owned(),
                retry_after: None,
            };
            let error = error(dialect, &failure);
            let name = match dialect {
                Dialect::OpenAi | Dialect::Gemini => "",
                Dialect::Anthropic => "event: error\n",
            };
            vec![Step::Send(format!("{name}data: {error}\n\n"))]
        }
    })
}

fn anthropic_end(speech: &Speech) -> &'static str {
    match speech.end {
        End::Complete => "end_turn",
        End::Length => "max_tokens",
        End::Refusal => "refusal",
    }
}

fn anthropic_usage(asked: &Request, speech: &Speech, output: u64) -> Value {
    if !speech.counts {
        return json!({});
    }
    let usage = usage(asked, speech);
    json!({
        "input_tokens": usage.input,
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": usage.cache_written,
        "output_tokens": output,
    })
}

fn anthropic_whole(asked: &Request, speech: &Speech) -> Value {
    let mut content = Vec::new();
    if !speech.thoughts.is_empty() {
        content.push(json!({ "type": "thinking", "thinking": speech.thoughts, "signature": "s" }));
    }
    content.push(json!({ "type": "text", "text": speech.text }));
    json!({
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
        "stop_reason": anthropic_end(speech),
        "stop_sequence": null,
        "usage": anthropic_usage(asked, speech, usage(asked, speech).output),
    })
}

fn anthropic_stream(asked: &Request, speech: &Speech) -> Vec<Step> {
    let event = |data: Value| {
        let name = data["type"].as_str().expect("every event has a type");
        Step::Send(format!("event: {name}\ndata: {data}\n\n"))
    };
    let delta = |index: u32, delta: Value| {
        event(json!({ "type": "content_block_delta", "index": index, "delta": delta }))
    };
    let mut steps = vec![
        event(json!({ "type": "message_start", "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [],
            "stop_reason": null,
            "usage": anthropic_usage(asked, speech, 1),
        } })),
        event(json!({ "type": "ping" })),
    ];
    let mut index = 0;
    if !speech.thoughts.is_empty() {
        let block = json!({ "type": "thinking", "thinking": "", "signature": "" });
        let start = json!({ "type": "content_block_start", "index": 0, "content_block": block });
        let thought = json!({ "type": "thinking_delta", "thinking": speech.thoughts });
        steps.extend([
            event(start),
            delta(0, thought),
            delta(0, json!({ "type": "signature_delta", "signature": "s" })),
            event(json!({ "type": "content_block_stop", "index": 0 })),
        ]);
        index = 1;
    }
    let block = json!({ "type": "text", "text": "" });
    let start = json!({ "type": "content_block_start", "index": index, "content_block": block });
    steps.push(event(start));
    for (number, piece) in pieces(&speech.text).iter().enumerate() {
        if let Some(end) = trouble(asked.dialect, speech, number) {
            steps.extend(end);
            return steps;
        }
        let piece = json!({ "type": "text_delta", "text": piece });
        steps.push(delta(index, piece));
    }
    let output = usage(asked, speech).output;
    let counted = if speech.counts {
        json!({ "output_tokens": output })
    } else {
        json!({})
    };
    let end = json!({ "stop_reason": anthropic_end(speech), "stop_sequence": null });
    steps.extend([
        event(json!({ "type": "content_block_stop", "index": index })),
        event(json!({ "type": "message_delta", "delta": end, "usage": counted })),
        event(json!({ "type": "message_stop" })),
    ]);
    steps
}

/// A whole reply, or a piece of one; the last piece says why the reply ends.
fn gemini_piece(asked: &Request, speech: &Speech, text: &str, is_last: bool) -> Value {
    let mut parts = Vec::new();
    if is_last && !speech.thoughts.is_empty() {
        parts.push(json!({ "text": speech.thoughts, "thought": true }));
    }
    parts.push(json!({ "text": text }));
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if is_last {
        candidate["finishReason"] = match speech.end {
            End::Complete => "STOP",
            End::Length => "MAX_TOKENS",
            End::Refusal => "SAFETY",
        }
        .into();
    }
    let mut body = json!({
        "candidates": [candidate],
        "modelVersion": MODEL,
        "responseId": "response-1",
    });
    if speech.counts {
        let usage = usage(asked, speech);
        let read = usage.input + usage.cached + usage.cache_written;
        body["usageMetadata"] = json!({
            "promptTokenCount": read,
            "cachedContentTokenCount": usage.cached,
            "candidatesTokenCount": usage.output,
            "totalTokenCount": read + usage.output,
        });
    }
    body
}

fn gemini_stream(asked: &Request, speech: &Speech) -> Vec<Step> {
    let send = |body: Value| Step::Send(format!("data: {body}\r\n\r\n"));
    let mut steps = Vec::new();
    for (index, piece) in pieces(&speech.text).iter().enumerate() {
        if let Some(end) = trouble(asked.dialect, speech, index) {
            steps.extend(end);
            return steps;
        }
        steps.push(send(gemini_piece(asked, speech, piece, false)));
    }
    steps.push(send(gemini_piece(asked, speech, "", true)));
    steps
}
