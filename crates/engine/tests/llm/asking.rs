//! Requests: what a server is told, in each protocol, and what it is not.

use std::os::unix::fs::PermissionsExt as _;

use domain::model::{Message, Speaker};
use lab::model::{Answer, Dialect, Request};
use serde_json::json;

use crate::fixture::{ModelFixture, TRANSPORTS, Transport, request};

fn only(fixture: &ModelFixture) -> Request {
    let mut asked = fixture.server.asked();
    assert_eq!(asked.len(), 1);
    asked.remove(0)
}

#[tokio::test]
async fn chat_completions_are_asked_as_documented() {
    let fixture =
        ModelFixture::new(Transport(Dialect::OpenAi, true), "", |_| Answer::text("ok")).await;
    fixture.ask().await.unwrap();
    assert_eq!(
        only(&fixture).body,
        json!({
            "model": "scripted",
            "messages": [
                { "role": "system", "content": "You write CUDA kernels." },
                { "role": "user", "content": "Make this one faster." },
            ],
            "max_tokens": 1000,
            "temperature": 1.0,
            "seed": 7,
            "stream": true,
            "stream_options": { "include_usage": true },
        })
    );
}

#[tokio::test]
async fn messages_are_asked_as_documented_with_the_system_text_marked_for_the_cache() {
    let fixture = ModelFixture::new(Transport(Dialect::Anthropic, false), "", |_| {
        Answer::text("ok")
    })
    .await;
    fixture.ask().await.unwrap();
    assert_eq!(
        only(&fixture).body,
        json!({
            "model": "scripted",
            "system": [{
                "type": "text",
                "text": "You write CUDA kernels.",
                "cache_control": { "type": "ephemeral" },
            }],
            "messages": [{ "role": "user", "content": "Make this one faster." }],
            "max_tokens": 1000,
            "temperature": 1.0,
            "stream": false,
        })
    );
}

#[tokio::test]
async fn content_is_generated_as_documented_beside_settings_of_the_operator() {
    let more =
        "extra = { generationConfig = { thinkingConfig = { thinkingBudget = 100 }, seed = 1 } }";
    for stream in [true, false] {
        let fixture = ModelFixture::new(Transport(Dialect::Gemini, stream), more, |_| {
            Answer::text("ok")
        })
        .await;
        fixture.ask().await.unwrap();
        let asked = only(&fixture);
        assert_eq!(asked.wants_stream(), stream);
        assert_eq!(
            asked.body,
            json!({
                "systemInstruction": { "parts": [{ "text": "You write CUDA kernels." }] },
                "contents": [{ "role": "user", "parts": [{ "text": "Make this one faster." }] }],
                "generationConfig": {
                    "maxOutputTokens": 1000,
                    "temperature": 1.0,
                    "seed": 7,
                    "thinkingConfig": { "thinkingBudget": 100 },
                },
            })
        );
    }
}

#[tokio::test]
async fn a_conversation_keeps_its_order() {
    for transport in TRANSPORTS {
        let fixture = ModelFixture::new(transport, "", |_| Answer::text("ok")).await;
        let mut request = request();
        for (speaker, text) in [(Speaker::Assistant, "Here."), (Speaker::User, "Mend it.")] {
            let text = text.to_owned();
            request.prompt.messages.push(Message { speaker, text });
        }
        fixture.llm().complete(&request).await.unwrap();
        let asked = only(&fixture);
        let roles: Vec<_> = asked.messages().map(|m| &m["role"]).collect();
        let ours = match transport.0 {
            Dialect::Gemini => "model",
            Dialect::OpenAi | Dialect::Anthropic => "assistant",
        };
        assert_eq!(roles[roles.len() - 3..], ["user", ours, "user"]);
        assert_eq!(asked.last(), "Mend it.");
        assert_eq!(asked.system(), "You write CUDA kernels.");
    }
}

#[tokio::test]
async fn the_configuration_has_the_last_word_on_limits_temperature_and_further_fields() {
    let cases = [
        ("max_output_tokens = 500", "max_tokens", json!(500)),
        ("max_output_tokens = 5000", "max_tokens", json!(1000)),
        (
            "token_limit_field = \"max_completion_tokens\"",
            "max_completion_tokens",
            json!(1000),
        ),
        (
            "token_limit_field = \"max_completion_tokens\"",
            "max_tokens",
            json!(null),
        ),
        ("temperature = 0.25", "temperature", json!(0.25)),
        ("temperature = \"never\"", "temperature", json!(null)),
        (
            "reasoning_effort = \"high\"",
            "reasoning_effort",
            json!("high"),
        ),
        (
            "extra = { top_p = 0.9, provider = { order = [\"a\"] } }",
            "provider",
            json!({ "order": ["a"] }),
        ),
    ];
    for (more, field, expected) in cases {
        let fixture = ModelFixture::new(Transport(Dialect::OpenAi, true), more, |_| {
            Answer::text("ok")
        })
        .await;
        fixture.ask().await.unwrap();
        assert_eq!(only(&fixture).body[field], expected, "{more}: {field}");
    }
}

#[tokio::test]
async fn a_key_travels_in_the_header_of_its_protocol_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "sk-secret\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let more = format!("key_file = {path:?}");
    for transport in TRANSPORTS {
        let fixture = ModelFixture::new(transport, &more, |_| Answer::text("ok")).await;
        fixture.ask().await.unwrap();
        let asked = only(&fixture);
        assert_eq!(asked.key.as_deref(), Some("sk-secret"), "{transport:?}");
        assert!(!asked.body.to_string().contains("sk-secret"));
        assert!(!format!("{:?} {:?}", fixture.models, fixture.models.views()).contains("secret"));
    }
}

#[tokio::test]
async fn a_server_that_repeats_the_key_does_not_get_it_into_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "sk-secret").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let more = format!("key_file = {path:?}");
    for transport in TRANSPORTS {
        let fixture = ModelFixture::new(transport, &more, |asked| {
            Answer::bad_request(
                &format!("no rights for {}", asked.key.as_deref().unwrap()),
                None,
            )
        })
        .await;
        let error = format!("{:?}", fixture.ask().await.unwrap_err());
        assert!(error.contains("no rights for [key]"), "{error}");
        assert!(!error.contains("sk-secret"), "{error}");
    }
}

#[tokio::test]
async fn a_missing_or_exposed_key_is_found_out_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "sk-secret").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let cases = [
        (format!("key_file = {path:?}"), "chmod 600"),
        ("key_file = \"missing\"".to_owned(), "cannot be read"),
        (
            "key_env = \"KERNELWRIGHT_NO_SUCH_KEY\"".to_owned(),
            "is not set",
        ),
    ];
    for (more, expected) in cases {
        let fixture = ModelFixture::new(Transport(Dialect::OpenAi, true), &more, |_| {
            Answer::text("ok")
        })
        .await;
        let error = fixture.ask().await.unwrap_err();
        assert_eq!((error.kind(), error.is_permanent()), ("key", true));
        assert!(error.to_string().contains(expected), "{error}");
        let known = fixture.models.key_problem("m").unwrap();
        assert!(known.contains(expected), "{known}");
        assert_eq!(fixture.server.count(), 0);
    }
}

#[tokio::test]
async fn refused_fields_are_left_out_or_renamed_and_that_is_remembered() {
    let fixture = ModelFixture::new(Transport(Dialect::OpenAi, true), "", |asked| {
        let refused = ["max_tokens", "temperature", "seed", "stream_options"]
            .into_iter()
            .find(|field| !asked.body[field].is_null());
        refused.map_or_else(|| Answer::text("ok"), Answer::refuses)
    })
    .await;
    let first = fixture.ask().await.unwrap();
    assert_eq!((first.text.as_str(), first.attempts), ("ok", 5));
    assert!(first.usage_estimated, "the stream was not asked to count");
    let second = fixture.ask().await.unwrap();
    assert_eq!(second.attempts, 1);
    let body = &fixture.server.asked()[5].body;
    assert_eq!(body["max_completion_tokens"], 1000);
    let learned = fixture.models.learned("m");
    assert_eq!(
        learned,
        [
            "takes no temperature",
            "takes no seed",
            "takes no stream_options",
            "wants max_completion_tokens"
        ]
    );
}

#[tokio::test]
async fn messages_without_a_temperature_are_tried_where_one_is_refused() {
    let fixture = ModelFixture::new(Transport(Dialect::Anthropic, true), "", |asked| {
        if asked.body["temperature"].is_null() {
            Answer::text("ok")
        } else {
            Answer::bad_request("`temperature` is deprecated for this model", None)
        }
    })
    .await;
    assert_eq!(fixture.ask().await.unwrap().attempts, 2);
    assert_eq!(fixture.models.learned("m"), ["takes no temperature"]);
}

#[tokio::test]
async fn a_field_that_the_configuration_insists_on_is_not_given_up() {
    let fixture = ModelFixture::new(
        Transport(Dialect::OpenAi, true),
        "token_limit_field = \"max_tokens\"",
        |_| Answer::refuses("max_tokens"),
    )
    .await;
    assert_eq!(fixture.ask().await.unwrap_err().kind(), "rejected");
    assert_eq!(fixture.server.count(), 1);
}
