//! Models behind a local program.

use std::path::Path;

use domain::model::{Message, Speaker};
use engine::llm::{Models, ReplyEnd};

use crate::fixture::{read, request};

/// A model whose program is a shell script, and the folder of its files.
fn model(script: &str, more: &str) -> (Models, tempfile::TempDir) {
    read(&format!(
        "[models.m]\napi = \"command\"\nprogram = [\"/bin/sh\", \"-c\", {script:?}]\n{more}\n"
    ))
}

#[tokio::test]
async fn a_program_gets_the_conversation_and_its_output_is_the_reply() {
    let (models, _folder) = model("cat; printf '%s' \"$0\"", "");
    let mut request = request();
    for (speaker, text) in [(Speaker::Assistant, "Here."), (Speaker::User, "Mend it.")] {
        let text = text.to_owned();
        request.prompt.messages.push(Message { speaker, text });
    }
    let reply = models.llm("m").unwrap().complete(&request).await.unwrap();
    assert_eq!(
        reply.text,
        "You write CUDA kernels.\n\nMake this one faster.\n\nYour earlier answer:\n\nHere.\n\nMend it.\n/bin/sh"
    );
    assert_eq!(reply.end, ReplyEnd::Complete);
    assert!(reply.usage_estimated && reply.usage.output > 10);
    let view = models.view("m").unwrap();
    assert_eq!((view.api.as_str(), view.host), ("command", None));
    assert_eq!(view.price, None);
}

#[tokio::test]
async fn a_program_that_reads_nothing_may_answer() {
    let (models, _folder) = model("echo ready", "");
    let mut request = request();
    request.prompt.system = "x".repeat(1 << 20);
    let reply = models.llm("m").unwrap().complete(&request).await.unwrap();
    assert_eq!(reply.text, "ready\n");
}

#[tokio::test]
async fn a_program_sees_no_variable_that_is_not_named() {
    for (more, expected) in [("", ""), ("pass_env = [\"CARGO_PKG_NAME\"]", "engine")] {
        let (models, _folder) = model("printf '%s' \"$CARGO_PKG_NAME\"", more);
        let reply = models.llm("m").unwrap().complete(&request()).await.unwrap();
        assert_eq!(reply.text, expected);
    }
}

#[tokio::test]
async fn a_program_in_trouble_is_an_error_with_its_words() {
    let cases = [
        (
            "echo 'log in first' >&2; exit 3",
            "",
            "program",
            false,
            "log in first",
        ),
        ("printf '\\377'", "", "program", true, "not UTF-8"),
        (
            "exec sleep 60",
            "timeouts = { total = 0.05 }",
            "timeout",
            false,
            "timeouts.total",
        ),
    ];
    for (script, more, kind, is_permanent, words) in cases {
        let (models, _folder) = model(script, more);
        let error = models
            .llm("m")
            .unwrap()
            .complete(&request())
            .await
            .unwrap_err();
        let label = format!("{script}: {error}");
        assert_eq!(
            (error.kind(), error.is_permanent()),
            (kind, is_permanent),
            "{label}"
        );
        assert!(error.to_string().contains(words), "{label}");
    }
    let missing = "[models.m]\napi = \"command\"\nprogram = [\"/no/such/program\"]\n";
    let (models, _folder) = read(missing);
    let error = models
        .llm("m")
        .unwrap()
        .complete(&request())
        .await
        .unwrap_err();
    assert!(
        error.is_permanent() && error.to_string().contains("cannot be started"),
        "{error}"
    );
}

#[test]
fn a_program_is_required_and_takes_no_setting_of_a_server() {
    let cases = [
        ("", "the model has no program"),
        ("program = []", "the model has no program"),
        (
            "program = [\"x\"]\nendpoint = \"http://x/v1\"",
            "endpoint belongs to",
        ),
        (
            "program = [\"x\"]\ntimeouts = { idle = 1 }",
            "timeouts.idle belongs to",
        ),
        ("program = [\"x\"]\nstrict = true", "strict belongs to"),
    ];
    for (more, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("models.toml");
        std::fs::write(&path, format!("[models.m]\napi = \"command\"\n{more}\n")).unwrap();
        let problems = Models::read(Path::new(&path), 1).unwrap_err().to_string();
        assert!(problems.contains(expected), "{more}: {problems}");
    }
}
