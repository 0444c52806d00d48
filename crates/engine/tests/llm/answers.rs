//! Replies: their text, end, counts and times, over every transport.

use domain::model::Usage;
use engine::llm::ReplyEnd;
use lab::model::{Answer, Dialect};

use crate::fixture::{ModelFixture, TRANSPORTS, request};

/// Longer than a piece of a stream, with characters of more than one byte.
const TEXT: &str = "Für dieses Netz lohnt sich ein größerer Block:\n```cuda\n__global__ void k() {}\n```\n… fertig.";

#[tokio::test]
async fn a_reply_comes_whole_and_without_its_reasoning() {
    for transport in TRANSPORTS {
        let fixture = ModelFixture::new(transport, "", |_| {
            Answer::text(TEXT).thinking("What would be faster?")
        })
        .await;
        let reply = fixture.ask().await.unwrap();
        assert_eq!(reply.text, TEXT, "{transport:?}");
        assert_eq!(reply.end, ReplyEnd::Complete);
        assert_eq!(reply.model, "scripted-2026-11");
        assert_eq!(reply.request_id.as_deref(), Some("req_scripted"));
        assert_eq!(reply.attempts, 1);
        assert_eq!(reply.first_token.is_some(), transport.1, "{transport:?}");
        assert!(reply.first_token.unwrap_or_default() <= reply.total);
    }
}

#[tokio::test]
async fn a_reply_that_ran_into_its_limit_says_so() {
    for transport in TRANSPORTS {
        let fixture =
            ModelFixture::new(transport, "", |_| Answer::truncated("__global__ vo")).await;
        let reply = fixture.ask().await.unwrap();
        assert_eq!(reply.end, ReplyEnd::Length, "{transport:?}");
        assert_eq!(reply.text, "__global__ vo");
    }
}

#[tokio::test]
async fn a_model_that_says_nothing_has_answered() {
    for transport in TRANSPORTS {
        let fixture = ModelFixture::new(transport, "", |_| Answer::text("")).await;
        let reply = fixture.ask().await.unwrap();
        assert_eq!((reply.text.as_str(), reply.end), ("", ReplyEnd::Complete));
    }
}

#[tokio::test]
async fn what_the_server_counts_is_what_the_call_used() {
    let usage = Usage {
        input: 11,
        cached: 200,
        cache_written: 30,
        output: 40,
    };
    for transport in TRANSPORTS {
        let fixture =
            ModelFixture::new(transport, "", move |_| Answer::text(TEXT).using(usage)).await;
        let reply = fixture.ask().await.unwrap();
        // Gemini counts what it writes to its cache as read.
        let usage = match transport.0 {
            Dialect::Gemini => Usage {
                input: usage.input + usage.cache_written,
                cache_written: 0,
                ..usage
            },
            Dialect::OpenAi | Dialect::Anthropic => usage,
        };
        assert_eq!(reply.usage, usage, "{transport:?}");
        assert!(!reply.usage_estimated);
    }
}

#[tokio::test]
async fn what_nobody_counted_is_estimated_and_says_so() {
    for transport in TRANSPORTS {
        let fixture = ModelFixture::new(transport, "", |_| {
            Answer::text(TEXT).thinking(&"hm ".repeat(100)).uncounted()
        })
        .await;
        let reply = fixture.ask().await.unwrap();
        assert!(reply.usage_estimated, "{transport:?}");
        assert_eq!(reply.usage.input, request().prompt.estimated_tokens());
        // Reasoning is paid for as well.
        assert!(reply.usage.output > 100, "{:?}", reply.usage);
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood_when_asked_to() {
    use axum::response::IntoResponse as _;

    let body =
        r#"{"model":"old","choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]}"#;
    let answer =
        move || async move { ([("content-type", "application/json")], body).into_response() };
    let router = axum::Router::new().route("/v1/chat/completions", axum::routing::post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let entry = format!(
        "[models.m]\napi = \"openai\"\nendpoint = \"http://{address}/v1\"\nmodel = \"old\"\nstream = true"
    );
    let (models, _folder) = crate::fixture::read(&entry);
    let reply = models.llm("m").unwrap().complete(&request()).await.unwrap();
    assert_eq!(reply.text, "whole");
    assert!(reply.first_token.is_none() && reply.usage_estimated);
    serving.abort();
}
