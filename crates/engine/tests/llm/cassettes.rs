//! Recordings: written, read back, replayed, and what is no recording.

use domain::api::RunRequest;
use domain::digest::Digest;
use domain::model::{Dollars, Message, Price, Prompt, ReplyEnd, Speaker, Usage};
use engine::llm::cassette::{
    Call, Header, Origin, Prompts, RecordedModel, RecordedReply, Recording, lines, prompt_digest,
};
use engine::llm::{Llm as _, Position};
use proptest::prelude::*;

use crate::fixture::{read, request};

fn header(origin: Origin) -> Header {
    let run = r#"{"task": "softmax-f32", "method": "playbook", "seed": 7}"#;
    Header {
        cassette: 1,
        task: "softmax-f32".to_owned(),
        task_version: Digest::of("task"),
        run: serde_json::from_str::<RunRequest>(run).unwrap(),
        models: Vec::new(),
        origin,
    }
}

fn call(ordinal: u32, turn: u32, text: &str) -> Call {
    Call {
        ordinal,
        turn,
        prompt_digest: prompt_digest(&request().prompt),
        model: "recorded-1".to_owned(),
        reply: RecordedReply {
            text: text.to_owned(),
            end: ReplyEnd::Complete,
            usage: Usage {
                input: 10,
                output: 5,
                ..Usage::default()
            },
            usage_estimated: false,
        },
        price: Some(Price {
            input: Dollars::new(1.0).unwrap(),
            output: Dollars::new(2.0).unwrap(),
            ..Price::default()
        }),
    }
}

fn written(calls: Vec<Call>) -> String {
    lines(&header(Origin::ByHand), calls).collect()
}

#[tokio::test]
async fn a_reply_is_found_by_its_place_in_the_run() {
    let text = written(vec![
        call(4, 1, "mended"),
        call(3, 0, "first"),
        call(4, 0, "second"),
    ]);
    let recording = Recording::parse("r.jsonl", &text).unwrap();
    let player = RecordedModel::new("r", recording, Prompts::Recorded);
    for (ordinal, turn, expected) in [(3, 0, "first"), (4, 0, "second"), (4, 1, "mended")] {
        let mut request = request();
        request.position = Position { ordinal, turn };
        let reply = player.complete(&request).await.unwrap();
        assert_eq!(reply.text, expected);
        assert_eq!(
            (reply.model.as_str(), reply.usage.input),
            ("recorded-1", 10)
        );
    }
}

#[tokio::test]
async fn another_prompt_than_recorded_is_noticed_unless_it_is_allowed() {
    let recording = Recording::parse("r.jsonl", &written(vec![call(3, 0, "first")])).unwrap();
    let mut request = request();
    request.prompt.messages[0].text.push('!');
    let strict = RecordedModel::new("r", recording.clone(), Prompts::Recorded);
    let error = strict.complete(&request).await.unwrap_err();
    assert_eq!((error.kind(), error.is_permanent()), ("departed", true));
    let message = error.to_string();
    assert!(
        message.contains("candidate 3") && message.contains("departed"),
        "{message}"
    );
    let lax = RecordedModel::new("r", recording, Prompts::Any);
    assert_eq!(lax.complete(&request).await.unwrap().text, "first");
    request.position.ordinal = 9;
    let error = lax.complete(&request).await.unwrap_err();
    assert_eq!((error.kind(), error.is_permanent()), ("not_recorded", true));
    assert!(error.to_string().contains("candidate 9"), "{error}");
}

#[test]
fn the_digest_of_a_prompt_never_changes() {
    // The JSON is {"messages":[{"speaker":"user","text":"b\n"}],"system":"a"}.
    let prompt = Prompt {
        system: "a".to_owned(),
        messages: vec![Message {
            speaker: Speaker::User,
            text: "b\n".to_owned(),
        }],
    };
    let canonical = r#"{"messages":[{"speaker":"user","text":"b\n"}],"system":"a"}"#;
    assert_eq!(prompt_digest(&prompt), Digest::of(canonical));
}

#[test]
fn a_recording_is_a_model_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.jsonl");
    std::fs::write(&path, written(vec![call(1, 0, "a")])).unwrap();
    let (models, _folder) = read(&format!(
        "[models.replay]\napi = \"cassette\"\nfile = {path:?}\nstrict = false\n"
    ));
    let view = models.view("replay").unwrap();
    assert_eq!(
        (view.api.as_str(), view.model.as_str()),
        ("cassette", "recorded-1")
    );
    assert_eq!(
        (view.host.as_deref(), view.price),
        (None, call(1, 0, "a").price)
    );
}

#[test]
fn what_is_no_recording_is_refused_with_its_lines() {
    let good = written(vec![call(1, 0, "a"), call(2, 0, "b")]);
    let first = good.lines().next().unwrap();
    let second = good.lines().nth(1).unwrap();
    let newer = first.replace("\"cassette\":1", "\"cassette\":2");
    let cases = [
        (String::new(), "r.jsonl: an empty recording"),
        (good.replace(first, "{}"), "r.jsonl:1: the field \""),
        (
            good.replace(first, &newer),
            "r.jsonl:1: a recording of version 2",
        ),
        (
            format!("{good}{second}\n"),
            "r.jsonl:4: a second reply for candidate 1, turn 0",
        ),
        (format!("{good}not JSON\n"), "r.jsonl:4: this is not JSON"),
        (
            good.replace("\"ordinal\":2", "\"ordinal\":-2"),
            "r.jsonl:3: a whole number from 0 is needed, not -2",
        ),
    ];
    for (text, expected) in cases {
        let problems = Recording::parse("r.jsonl", &text).unwrap_err().to_string();
        assert!(problems.contains(expected), "{expected}: {problems}");
    }
}

prop_compose! {
    fn any_call()(
        ordinal in 0..50u32,
        turn in 0..3u32,
        asked in ".*",
        model in ".*",
        text in any::<String>(),
        is_complete in any::<bool>(),
        tokens in any::<[u32; 4]>(),
        usage_estimated in any::<bool>(),
        prices in proptest::option::of(any::<[u32; 3]>()),
    ) -> Call {
        let [input, cached, cache_written, output] = tokens.map(u64::from);
        Call {
            ordinal,
            turn,
            prompt_digest: Digest::of(asked),
            model,
            reply: RecordedReply {
                text,
                end: if is_complete { ReplyEnd::Complete } else { ReplyEnd::Length },
                usage: Usage { input, cached, cache_written, output },
                usage_estimated,
            },
            price: prices.map(|prices| {
                let [input, output, cached] = prices.map(|nanos| Dollars::from_nanos(nanos.into()));
                Price { input, output, cached: Some(cached), cache_written: None }
            }),
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        calls in proptest::collection::btree_map((0..50u32, 0..3u32), any_call(), 0..8),
        by_hand in any::<bool>(),
    ) {
        let calls: Vec<Call> = calls
            .into_iter()
            .map(|((ordinal, turn), call)| Call { ordinal, turn, ..call })
            .collect();
        let header = header(if by_hand { Origin::ByHand } else { Origin::Recorded });
        let text: String = lines(&header, calls.clone()).collect();
        prop_assert_eq!(text.lines().count(), calls.len() + 1);
        let recording = Recording::parse("r.jsonl", &text).unwrap();
        prop_assert_eq!(recording.header(), &header);
        prop_assert_eq!(recording.calls().cloned().collect::<Vec<_>>(), calls);
    }
}
