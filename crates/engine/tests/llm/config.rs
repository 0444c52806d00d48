//! The models file: its settings, and every defect with its line and fix.

use std::path::Path;

use domain::model::Dollars;
use engine::llm::Models;

use crate::fixture::read;

fn problems(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("models.toml");
    std::fs::write(&path, text).unwrap();
    let problems = Models::read(&path, 1).unwrap_err().to_string();
    let prefix = format!("{}/", folder.path().display());
    problems.replace(&prefix, "")
}

/// One entry for each pair of a line and what is wrong with it.
const OPENAI: &str =
    "[models.m]\napi = \"openai\"\nendpoint = \"http://127.0.0.1:1/v1\"\nmodel = \"x\"\n";

#[test]
fn a_full_file_says_what_it_says() {
    let (models, _folder) = read(
        r#"
        [models.fast]
        api = "openai"
        endpoint = "https://api.example.com/v1/"
        model = "fast-1"
        key_env = "EXAMPLE_API_KEY"
        price = { input = 1, output = 4.5, cached = 0.1 }
        context_tokens = 200_000
        max_output_tokens = 32_000
        concurrency = 8
        requests_per_minute = 60
        tokens_per_minute = 100_000
        timeouts = { connect = 3, first_token = 60.5, idle = 30, total = 300 }
        attempts = 2

        [models.local]
        api = "openai"
        endpoint = "http://192.168.1.10:8080/v1"
        model = "qwen"
        context_tokens = 8192

        [models.careful]
        api = "anthropic"
        endpoint = "https://api.example.com"
        model = "careful-4"
        key_file = "careful.key"
        "#,
    );
    let views = models.views();
    let names: Vec<_> = views.iter().map(|view| view.name.as_str()).collect();
    assert_eq!(names, ["careful", "fast", "local"]);
    let fast = models.view("fast").unwrap();
    assert_eq!(fast.host.as_deref(), Some("api.example.com"));
    assert_eq!(fast.price.unwrap().output, Dollars::new(4.5).unwrap());
    assert_eq!(
        (
            fast.context_tokens,
            fast.max_output_tokens,
            fast.concurrency
        ),
        (200_000, 32_000, 8)
    );
    let local = models.view("local").unwrap();
    assert_eq!(local.host.as_deref(), Some("192.168.1.10:8080"));
    assert_eq!((local.max_output_tokens, local.price), (4096, None));
    assert_eq!(models.view("careful").unwrap().api, "anthropic");
    assert!(models.view("unknown").is_none() && models.llm("unknown").is_none());
    // A key that is missing is no defect of the file.
    assert!(models.key_problem("careful").is_some() && models.key_problem("local").is_none());
}

#[test]
fn the_example_in_the_repository_is_valid() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models.example.toml");
    let models = Models::read(&example, 1).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(models.views().len() >= 3, "{models:?}");
}

#[test]
fn no_file_and_no_models_are_told_apart() {
    let missing = Models::read(Path::new("/nonexistent/models.toml"), 1).unwrap_err();
    assert!(missing.to_string().contains("cannot be read"), "{missing}");
    let (models, _folder) = read("# nothing yet\n");
    assert!(models.views().is_empty() && Models::none().views().is_empty());
}

#[test]
fn every_defect_is_named_with_its_line_and_its_mend() {
    let cases = [
        (
            "key = \"sk-secret\"",
            "models.toml:5:7: a key is never written here",
        ),
        ("key = 5", "take this key out of use"),
        (
            "key_env = \"sk-secret\"",
            "models.toml:5:11: not the name of an environment variable",
        ),
        (
            "key_env = \"A\"\nkey_file = \"b\"",
            "models.toml:6:12: the key has two sources",
        ),
        (
            "colour = \"red\"",
            "models.toml:5:1: no key is called \"colour\"",
        ),
        (
            "concurrency = 0",
            "models.toml:5:15: 0 would let nothing through",
        ),
        ("attempts = 0", "0 would let nothing through"),
        (
            "concurrency = \"many\"",
            "models.toml:5:15: a whole number from 0 is needed, not string \"many\"",
        ),
        (
            "context_tokens = 100\nmax_output_tokens = 100",
            "models.toml:6:21: a reply of 100 tokens leaves no room",
        ),
        ("temperature = 3", "models.toml:5:15: not a temperature"),
        ("temperature = \"warm\"", "or \"never\""),
        (
            "timeouts = { idle = 0 }",
            "models.toml:5:21: 0 s is not a limit",
        ),
        ("timeouts = { idle = inf }", "inf s is not a limit"),
        (
            "timeouts = { patience = 1 }",
            "no key is called \"patience\"",
        ),
        ("price = { input = -1, output = 2 }", "no amount of dollars"),
        ("price = { input = 1 }", "the key \"output\" is missing"),
        (
            "extra = { stream = false }",
            "models.toml:5:11: \"stream\" is set by Kernelwright",
        ),
        ("token_limit_field = \"length\"", "\"length\" is none of "),
        (
            "file = \"x.jsonl\"",
            "file belongs to a model with api cassette",
        ),
        (
            "strict = true",
            "strict belongs to a model with api cassette",
        ),
    ];
    for (line, expected) in cases {
        let problems = problems(&format!("{OPENAI}{line}\n"));
        assert!(problems.contains(expected), "{line}: {problems}");
        assert!(!problems.contains("sk-secret"), "{problems}");
    }
    let whole = [
        (
            "[models.m]\nendpoint = \"http://x\"",
            "models.toml:1:1: the key \"api\" is missing",
        ),
        (
            "[models.m]\napi = \"soap\"",
            "models.toml:2:7: unknown api \"soap\"",
        ),
        (
            "[models.m]\napi = \"openai\"\nmodel = \"x\"",
            "models.toml:1:9: the model has no endpoint",
        ),
        (
            "[models.m]\napi = \"anthropic\"\nendpoint = \"https://x\"",
            "the model has no server's name",
        ),
        (
            "[models.m]\napi = \"cassette\"",
            "the recording has no file",
        ),
        (
            "[models.m]\napi = \"cassette\"\nfile = \"x\"\nmodel = \"y\"",
            "model belongs to a model with api openai",
        ),
        (
            "[models.m]\napi = \"anthropic\"\nendpoint = \"https://x\"\nmodel = \"x\"\nreasoning_effort = \"low\"",
            "reasoning_effort belongs",
        ),
        (
            "[models.\"a b\"]\napi = \"openai\"\nendpoint = \"http://x\"\nmodel = \"x\"",
            "not a model's name",
        ),
        ("models = 3", "models.toml:1:1: unknown key \"models\""),
        (
            "[model.m]\napi = \"openai\"",
            "models.toml:1:2: unknown table \"model\"",
        ),
        ("[models.m\n", "models.toml:1:"),
    ];
    for (text, expected) in whole {
        let problems = problems(text);
        assert!(problems.contains(expected), "{text}: {problems}");
    }
}

#[test]
fn several_defects_come_together_in_order() {
    let text = "[models.a]\napi = \"openai\"\ncolour = 1\n[models.b]\napi = \"openai\"\nendpoint = \"ftp://x\"\nmodel = \"x\"\nattempts = 0\n";
    let found = problems(text);
    let lines: Vec<_> = found.lines().map(|line| &line[..14]).collect();
    assert_eq!(
        lines,
        ["models.toml:3:", "models.toml:6:", "models.toml:8:"],
        "{found}"
    );
}

#[test]
fn an_endpoint_is_an_address_that_keeps_the_key_to_itself() {
    let key = "\nkey_env = \"K\"";
    let cases = [
        ("nowhere", "", Some("not an HTTP address")),
        ("ftp://x", "", Some("not an HTTP address")),
        ("https://me:secret@x/v1", "", Some("a password in it")),
        ("http://models.example.com/v1", key, Some("unencrypted")),
        ("http://192.168.1.10/v1", key, Some("unencrypted")),
        ("http://192.168.1.10/v1", "", None),
        ("https://models.example.com/v1", key, None),
        ("http://localhost:8000/v1", key, None),
        ("http://127.3.2.1:8000/v1", key, None),
        ("http://[::1]:8000/v1", key, None),
        ("http://localhost.example.com/v1", key, Some("unencrypted")),
    ];
    for (endpoint, more, expected) in cases {
        let text = format!(
            "[models.m]\napi = \"openai\"\nendpoint = \"{endpoint}\"\nmodel = \"x\"{more}\n"
        );
        match expected {
            Some(expected) => {
                let problems = problems(&text);
                assert!(problems.contains(expected), "{endpoint}: {problems}");
                assert!(problems.starts_with("models.toml:3:12: "), "{problems}");
            }
            None => {
                let (models, _folder) = read(&text);
                assert!(models.view("m").is_some(), "{endpoint}");
            }
        }
    }
}

#[test]
fn a_changed_file_is_read_again_and_unchanged_models_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("models.toml");
    let local =
        "[models.local]\napi = \"openai\"\nendpoint = \"http://127.0.0.1:1/v1\"\nmodel = \"x\"\n";
    let names = |models: &Models| {
        let views = models.views().into_iter();
        views.map(|view| view.name).collect::<Vec<_>>()
    };
    let models = Models::find(vec![path.clone()], 1).unwrap();
    assert!(names(&models).is_empty(), "there is no file yet");
    std::fs::write(&path, OPENAI).unwrap();
    assert_eq!(names(&models), ["m"]);
    let first = models.llm("m").unwrap();

    std::fs::write(&path, format!("{OPENAI}{local}")).unwrap();
    assert_eq!(names(&models), ["local", "m"]);
    let same = models.llm("m").unwrap();
    assert!(
        std::sync::Arc::ptr_eq(&first, &same),
        "its limits on rate and concurrency go on"
    );

    std::fs::write(&path, format!("{OPENAI}nonsense = 1\n")).unwrap();
    assert_eq!(names(&models), ["local", "m"], "the last good file counts");
    let defects = models.defects().unwrap().to_string();
    assert!(defects.contains("nonsense"), "{defects}");

    std::fs::write(&path, OPENAI.replace("\"x\"", "\"y\"")).unwrap();
    assert_eq!(names(&models), ["m"]);
    assert_eq!(models.view("m").unwrap().model, "y");
    assert!(models.defects().is_none());
    std::fs::remove_file(&path).unwrap();
    assert!(names(&models).is_empty());
}
