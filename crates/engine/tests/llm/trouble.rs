//! Trouble: every kind over every transport, and what is tried again.

use engine::llm::LlmError;
use lab::model::{Answer, Dialect};

use crate::fixture::{DIALECTS, ModelFixture, TRANSPORTS, Transport, request};

const TEXT: &str =
    "A text of more than one piece, so that something can happen between two of them.";

/// The outcome of a call that gets the same answer every time.
struct Case {
    name: &'static str,
    answer: fn() -> Answer,
    kind: &'static str,
    is_permanent: bool,
    is_tried_again: bool,
}

const fn passing(name: &'static str, answer: fn() -> Answer, kind: &'static str) -> Case {
    Case {
        name,
        answer,
        kind,
        is_permanent: false,
        is_tried_again: true,
    }
}

const fn lasting(name: &'static str, answer: fn() -> Answer, kind: &'static str) -> Case {
    Case {
        name,
        answer,
        kind,
        is_permanent: true,
        is_tried_again: false,
    }
}

const fn odd(name: &'static str, answer: fn() -> Answer, kind: &'static str) -> Case {
    Case {
        name,
        answer,
        kind,
        is_permanent: false,
        is_tried_again: false,
    }
}

const CASES: &[Case] = &[
    passing("429", || Answer::rate_limited(None), "rate_limited"),
    passing(
        "429 with a time",
        || Answer::rate_limited(Some("0")),
        "rate_limited",
    ),
    passing("529", Answer::overloaded, "overloaded"),
    passing("500", Answer::failing, "failing"),
    passing(
        "a broken connection",
        || Answer::text(TEXT).broken_after(1),
        "cut",
    ),
    lasting("a bad key", Answer::unauthorised, "auth"),
    lasting("no credit", Answer::out_of_credit, "out_of_credit"),
    lasting("too long", Answer::context_too_long, "context_too_long"),
    lasting(
        "a bad request",
        || Answer::bad_request("no such model", None),
        "rejected",
    ),
    odd("a refusal", || Answer::refusal("I will not."), "refused"),
    odd("garbage", Answer::garbage, "malformed"),
    odd("wrong JSON", Answer::wrong_json, "malformed"),
    odd("an empty body", Answer::nothing, "malformed"),
];

/// Failures that only a stream can have.
const STREAMED: &[Case] = &[
    passing(
        "a stream broken at once",
        || Answer::text(TEXT).broken_after(0),
        "cut",
    ),
    passing(
        "a stream that ends early",
        || Answer::text(TEXT).ended_after(1),
        "cut",
    ),
    passing(
        "an error in a stream",
        || Answer::text(TEXT).overloaded_after(1),
        "overloaded",
    ),
    passing(
        "garbage in a stream",
        || Answer::text(TEXT).garbled_after(1),
        "cut",
    ),
];

async fn check(transport: Transport, case: &Case) {
    let answer = case.answer;
    let fixture = ModelFixture::new(transport, "attempts = 3", move |_| answer()).await;
    let error = fixture.ask().await.unwrap_err();
    let label = format!("{} over {transport:?}: {error}", case.name);
    assert_eq!(error.kind(), case.kind, "{label}");
    assert_eq!(error.is_permanent(), case.is_permanent, "{label}");
    assert_eq!(error.may_pass(), case.is_tried_again, "{label}");
    let expected = if case.is_tried_again { 3 } else { 1 };
    assert_eq!(fixture.server.count(), expected, "{label}");
    assert!(error.to_string().contains("\"m\" at 127.0.0.1:"), "{label}");
}

#[tokio::test]
async fn every_kind_of_trouble_has_its_error_and_only_what_may_pass_is_tried_again() {
    for transport in TRANSPORTS {
        for case in CASES {
            check(transport, case).await;
        }
    }
}

#[tokio::test]
async fn a_stream_has_trouble_of_its_own_and_is_never_taken_for_a_shorter_reply() {
    for dialect in DIALECTS {
        for case in STREAMED {
            check(Transport(dialect, true), case).await;
        }
    }
}

#[tokio::test]
async fn passing_trouble_passes() {
    type Trouble = fn() -> Answer;
    let troubles: [Trouble; 5] = [
        || Answer::rate_limited(Some("0")),
        Answer::overloaded,
        Answer::failing,
        || Answer::text(TEXT).broken_after(1),
        || Answer::text(TEXT).broken_after(0),
    ];
    for transport in TRANSPORTS {
        for trouble in troubles {
            let fixture = ModelFixture::new(transport, "", move |asked| match asked.repeat {
                0 | 1 => trouble(),
                _ => Answer::text(TEXT),
            })
            .await;
            let reply = fixture.ask().await.unwrap();
            assert_eq!(
                (reply.text.as_str(), reply.attempts),
                (TEXT, 3),
                "{transport:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_that_wants_more_patience_than_configured_is_not_asked_again() {
    for transport in TRANSPORTS {
        let fixture =
            ModelFixture::new(transport, "", |_| Answer::rate_limited(Some("3600"))).await;
        let error = fixture.ask().await.unwrap_err();
        assert_eq!(error.retry_after().unwrap().as_secs(), 3600);
        assert!(error.to_string().contains("in 3600 s"), "{error}");
        assert_eq!(fixture.server.count(), 1);
    }
}

#[tokio::test]
async fn what_a_server_says_reaches_a_message_as_one_harmless_line() {
    let message = "first\n\u{1b}[31msecond\u{202e}\u{0} third ".repeat(100);
    for transport in TRANSPORTS {
        let message = message.clone();
        let fixture =
            ModelFixture::new(transport, "", move |_| Answer::bad_request(&message, None)).await;
        let error = fixture.ask().await.unwrap_err().to_string();
        assert!(error.contains("first [31msecond third"), "{error}");
        assert!(!error.chars().any(char::is_control), "{error:?}");
        assert!(error.len() < 600, "{error}");
    }
}

#[tokio::test]
async fn silence_runs_into_the_limit_of_its_phase() {
    let streamed = Transport(Dialect::OpenAi, true);
    let whole = Transport(Dialect::Anthropic, false);
    type Silence = fn() -> Answer;
    let stalled: Silence = || Answer::text(TEXT).stalled_after(1);
    let cases: [(Transport, &str, Silence, &str, usize); 5] = [
        (
            streamed,
            "first_token = 0.05",
            Answer::silence,
            "first_token",
            2,
        ),
        // The first token has come, so its limit is over.
        (streamed, "first_token = 5, idle = 0.05", stalled, "idle", 2),
        (streamed, "idle = 5, total = 0.05", stalled, "total", 1),
        (
            whole,
            "first_token = 0.01, total = 0.05",
            Answer::silence,
            "total",
            1,
        ),
        (
            Transport(Dialect::Anthropic, true),
            "idle = 0.05",
            stalled,
            "idle",
            2,
        ),
    ];
    for (transport, timeouts, answer, setting, attempts) in cases {
        let more = format!("attempts = 2\ntimeouts = {{ {timeouts} }}");
        let fixture = ModelFixture::new(transport, &more, move |_| answer()).await;
        let error = fixture.ask().await.unwrap_err();
        assert!(matches!(error, LlmError::Timeout { .. }), "{error}");
        let expected = format!("timeouts.{setting} ");
        assert!(error.to_string().contains(&expected), "{timeouts}: {error}");
        assert_eq!(fixture.server.count(), attempts, "{timeouts}");
    }
}

#[tokio::test]
async fn where_nobody_listens_is_tried_again_and_then_told() {
    let fixture = ModelFixture::new(Transport(Dialect::OpenAi, true), "attempts = 2", |_| {
        Answer::text("ok")
    })
    .await;
    let ModelFixture { server, models, .. } = fixture;
    let url = server.url();
    drop(server);
    // The port is free once the server's task has gone.
    while tokio::net::TcpStream::connect(&url["http://".len()..url.len() - "/v1".len()])
        .await
        .is_ok()
    {
        tokio::task::yield_now().await;
    }
    let error = models
        .llm("m")
        .unwrap()
        .complete(&request())
        .await
        .unwrap_err();
    assert_eq!((error.kind(), error.is_permanent()), ("unreachable", false));
    assert!(error.to_string().contains("check the endpoint"), "{error}");
}

#[tokio::test]
async fn a_server_that_sends_us_elsewhere_is_not_followed_with_the_key() {
    let moved = || async {
        (
            axum::http::StatusCode::TEMPORARY_REDIRECT,
            [("location", "https://elsewhere.example/v1/chat/completions")],
        )
    };
    let router = axum::Router::new().route("/v1/chat/completions", axum::routing::post(moved));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let entry =
        format!("[models.m]\napi = \"openai\"\nendpoint = \"http://{address}/v1\"\nmodel = \"m\"");
    let (models, _folder) = crate::fixture::read(&entry);
    let error = models
        .llm("m")
        .unwrap()
        .complete(&request())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), "rejected");
    assert!(error.to_string().contains("elsewhere.example"), "{error}");
    serving.abort();
}

#[tokio::test]
async fn a_stream_that_never_made_sense_is_not_asked_for_again() {
    use axum::response::IntoResponse as _;

    for body in ["data: hello\n\n", "<html>\n\n", "data: {}\n\ndata: {\n\n"] {
        let answer =
            move || async move { ([("content-type", "text/event-stream")], body).into_response() };
        let router = axum::Router::new().route("/v1/messages", axum::routing::post(answer));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        let entry = format!(
            "[models.m]\napi = \"anthropic\"\nendpoint = \"http://{address}\"\nmodel = \"m\"\n"
        );
        let (models, _folder) = crate::fixture::read(&entry);
        let error = models.llm("m").unwrap().complete(&request()).await;
        let error = error.unwrap_err();
        assert_eq!(
            (error.kind(), error.may_pass()),
            ("malformed", false),
            "{body:?}: {error}"
        );
        serving.abort();
    }
}
