//! Tests of the commands `model check` and `model list` against a scripted server.

#![forbid(unsafe_code)]

use anyhow::{Context as _, Result};
use lab::model::{Answer, Dialect, ScriptedModel};
use lab::{Finished, Lab, kernelwright};
use serde_json::Value;
use tempfile::TempDir;

/// Creates a folder with a models file.
fn file(text: &str) -> Result<(TempDir, String)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("models.toml");
    std::fs::write(&path, text)?;
    let path = path.to_str().context("a UTF-8 name")?.to_owned();
    Ok((folder, path))
}

/// Runs the program on another thread, so that the server in this process keeps answering.
async fn run(arguments: &[&str]) -> Result<Finished> {
    let arguments: Vec<String> = arguments.iter().map(|&one| one.to_owned()).collect();
    tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        kernelwright(&arguments)
    })
    .await?
}

const PRICE: &str = "price = { input = 1000000, output = 2000000 }";

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_answers_is_shown_with_its_time_tokens_and_price() -> Result<()> {
    for dialect in [Dialect::OpenAi, Dialect::Anthropic] {
        let usage = domain::model::Usage {
            input: 3,
            output: 2,
            ..Default::default()
        };
        let server =
            ScriptedModel::start(move |_| Answer::text("Ready.\u{1b}[31m").using(usage)).await?;
        let (_folder, models) = file(&server.entry("fast", dialect, PRICE))?;
        let done = run(&["model", "check", "fast", "--models", &models]).await?;
        assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
        for part in [
            "fast (scripted-2026-11 at 127.0.0.1:",
            "Ready.",
            "first token",
            "3 read, 2 written",
            "$7.00",
            "req_scripted",
        ] {
            assert!(done.stdout.contains(part), "{part}: {}", done.stdout);
        }
        assert!(!done.stdout.contains('\u{1b}'), "{:?}", done.stdout);

        let done = run(&["model", "check", "fast", "--json", "--models", &models]).await?;
        let checked: Value = serde_json::from_str(&done.stdout)?;
        assert_eq!(checked["answers"], true);
        assert_eq!(checked["cost"], 7.0);
        assert_eq!(checked["usage"]["output"], 2);
        assert!(checked["total_s"].as_f64() >= checked["first_token_s"].as_f64());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_the_model_refused_are_shown() -> Result<()> {
    let server = ScriptedModel::start(|asked| {
        let refused = ["max_tokens", "temperature"]
            .into_iter()
            .find(|field| !asked.body[field].is_null());
        refused.map_or_else(|| Answer::text("Ready."), Answer::refuses)
    })
    .await?;
    let (_folder, models) = file(&server.entry("odd", Dialect::OpenAi, ""))?;
    let done = run(&["model", "check", "odd", "--models", &models]).await?;
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    let learned = "takes no temperature; wants max_completion_tokens";
    assert!(done.stdout.contains(learned), "{}", done.stdout);
    assert!(done.stdout.contains("add price"), "{}", done.stdout);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_check_names_its_cause_and_fix() -> Result<()> {
    type Trouble = fn() -> Answer;
    let cases: [(Trouble, i32, &str, &str); 4] = [
        (Answer::unauthorised, 2, "auth", "does not accept the key"),
        (Answer::out_of_credit, 2, "out_of_credit", "add credit"),
        (Answer::overloaded, 3, "overloaded", "try later"),
        (Answer::garbage, 3, "malformed", "belong together"),
    ];
    for (answer, code, reason, words) in cases {
        let server = ScriptedModel::start(move |_| answer()).await?;
        let (_folder, models) = file(&server.entry("m", Dialect::Anthropic, "attempts = 2"))?;
        let done = run(&["model", "check", "m", "--json", "--models", &models]).await?;
        assert_eq!(done.status.code(), Some(code), "{reason}: {}", done.stderr);
        assert!(done.stderr.contains(words), "{reason}: {}", done.stderr);
        let checked: Value = serde_json::from_str(&done.stdout)?;
        assert_eq!(checked["answers"], false);
        assert_eq!(checked["reason"], reason);
        assert_eq!(checked["permanent"], code == 2);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_listed_and_an_unknown_one_is_named_with_the_known() -> Result<()> {
    let text = "[models.a]\napi = \"openai\"\nendpoint = \"https://models.example.com/v1\"\nmodel = \"a-1\"\nkey_env = \"KERNELWRIGHT_NO_SUCH_KEY\"\n";
    let (folder, models) = file(text)?;
    let done = run(&["model", "list", "--models", &models]).await?;
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    for part in [
        "a-1",
        "models.example.com",
        "KERNELWRIGHT_NO_SUCH_KEY is not set",
    ] {
        assert!(done.stdout.contains(part), "{part}: {}", done.stdout);
    }
    // Without `--models` the file in the data folder is used.
    let data = folder.path().to_str().context("a UTF-8 name")?;
    let done = run(&["model", "list", "--json", "--data", data]).await?;
    let listed: Value = serde_json::from_str(&done.stdout)?;
    assert_eq!(listed[0]["name"], "a");

    let done = run(&["model", "check", "b", "--models", &models]).await?;
    assert_eq!(done.status.code(), Some(2));
    assert!(done.stderr.contains("names a"), "{}", done.stderr);

    std::fs::write(
        &models,
        "[models.a]\napi = \"openai\"\nkey = \"sk-secret\"\n",
    )?;
    let done = run(&["model", "list", "--models", &models]).await?;
    assert_eq!(done.status.code(), Some(2));
    assert!(
        done.stderr
            .contains("models.toml:3:7: a key is never written here"),
        "{}",
        done.stderr
    );
    assert!(!done.stderr.contains("sk-secret"), "{}", done.stderr);
    Ok(())
}

/// The service reads the file again when it has changed, so that it and `model list` name the same models.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_written_while_the_service_runs_is_listed_by_the_service_and_by_the_command()
-> Result<()> {
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let names = async |lab: &Lab| -> Result<Vec<String>> {
        let models: Vec<Value> = lab.get("/models").await?;
        let names = models.iter().filter_map(|model| model["name"].as_str());
        Ok(names.map(str::to_owned).collect())
    };
    assert_eq!(names(&lab).await?, [""; 0]);

    let entry = |name: &str| {
        format!(
            "[models.{name}]\napi = \"openai\"\nendpoint = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n"
        )
    };
    let file = lab.data().join("models.toml");
    for (text, expected) in [
        (entry("one"), vec!["one"]),
        (entry("one") + &entry("two"), vec!["one", "two"]),
        (entry("two"), vec!["two"]),
    ] {
        std::fs::write(&file, text)?;
        assert_eq!(names(&lab).await?, expected);
        let data = lab.data();
        let data = data.to_str().context("a UTF-8 name")?;
        let done = run(&["model", "list", "--json", "--data", data]).await?;
        let listed: Vec<Value> = serde_json::from_str(&done.stdout)?;
        let listed: Vec<_> = listed.iter().map(|model| &model["name"]).collect();
        assert_eq!(listed, expected);
    }
    Ok(())
}
