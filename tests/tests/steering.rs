//! End-to-end test of a run that is steered while it goes on: real processes, a scripted model
//! server, the real compiler and the emulated device.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use domain::api::{
    CandidateState, CandidateSummary, PromotionState, RunRequest, RunView, SteeringEntry,
};
use domain::id::{CandidateId, RunId};
use domain::search::{Budget, Evolution, Method, ModelChoice, Operator};
use domain::verdict::VerdictKind;
use lab::model::{Answer, Dialect, ScriptedModel};
use lab::{Lab, kernelwright};
use serde::Deserialize;
use serde_json::{Value, json};

const TASK: &str = "softmax-f32";
const PRICE: &str = "price = { input = 3, output = 15 }\nmax_output_tokens = 4000";

/// A model that sends one of the task's steps, another one for each seed.
async fn author() -> Result<ScriptedModel> {
    let bundle = lab::small_softmax()?;
    let steps = bundle.files.into_iter();
    let steps = steps.filter(|(path, _)| path.starts_with("playbook/"));
    let steps: Vec<String> = steps.map(|(_, text)| text).collect();
    ScriptedModel::start(move |asked| {
        let number = asked.body["seed"].as_u64().unwrap_or_default();
        let text = &steps[(number % steps.len() as u64) as usize];
        // A further kernel, because copies that are compiled to the same code are nobody's parents.
        let further = format!("extern \"C\" __global__ void variant_{number}() {{}}");
        Answer::text(format!("```cuda\n{text}\n{further}\n```\n"))
    })
    .await
}

fn request(trials: u32) -> RunRequest {
    RunRequest {
        budget: Budget {
            trials,
            ..Budget::default()
        },
        seed: 5,
        models: vec![ModelChoice {
            name: "author".to_owned(),
            weight: 1.0,
        }],
        evolution: Evolution {
            repairs: 0,
            // Every candidate is written by the model, so that directions hold for it.
            sweep_percent: 0,
            ..Evolution::default()
        },
        ..RunRequest::new(TASK, Method::BestOf)
    }
}

async fn control(lab: &Lab, run: RunId, action: &str) -> Result<RunView> {
    let path = format!("/runs/{}/{action}", run.uuid());
    lab.post(&path, &Value::Null).await
}

async fn steer(lab: &Lab, run: RunId, action: &str, body: &Value) -> Result<SteeringEntry> {
    let path = format!("/runs/{}/{action}", run.uuid());
    lab.post(&path, body).await
}

/// Runs `steer` on another thread, so that the servers in this process keep answering.
async fn command(lab: &Lab, arguments: &[&str]) -> Result<String> {
    let data = lab.data();
    let data = data.to_str().context("a UTF-8 name")?;
    let words = [&["steer"], arguments, &["--data", data]].concat();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let finished = tokio::task::spawn_blocking(move || {
        kernelwright(&words.iter().map(String::as_str).collect::<Vec<_>>())
    });
    let finished = finished.await??;
    ensure!(finished.status.success(), "{}", finished.stderr);
    Ok(finished.stdout)
}

/// The first prompt of a candidate.
async fn prompt(lab: &Lab, candidate: CandidateId) -> Result<String> {
    let detail = lab.candidate(candidate).await?;
    let call = detail.calls.first().context("a call")?;
    let messages = call.prompt.messages.iter();
    Ok(messages.map(|message| message.text.as_str()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_follows_the_directions_that_people_give_it() -> Result<()> {
    let server = author().await?;
    let mut lab = Lab::new()?;
    std::fs::create_dir_all(lab.data())?;
    let entry = server.entry("author", Dialect::OpenAi, PRICE);
    std::fs::write(lab.data().join("models.toml"), entry)?;
    lab.serve(&["--with-local-worker"]).await?;
    let run = lab.launch(&lab::small_softmax()?, &request(10)).await?.id;
    let accepted = |run: &RunView| run.verdicts.get(&VerdictKind::Accepted).copied();
    lab.until(run, |run| accepted(run) >= Some(4)).await?;
    control(&lab, run, "pause").await?;

    let before = lab.candidates(run).await?;
    let best = before.iter().find(|one| one.best && one.ordinal > 0);
    let best = best.context("one is faster than the baseline")?.clone();
    let is_pinned = |one: &&CandidateSummary| {
        let is_original = one.state == CandidateState::Evaluated;
        let is_accepted = one.verdict == Some(VerdictKind::Accepted);
        is_original && is_accepted && one.ordinal > 0 && one.id != best.id
    };
    let pinned = before
        .iter()
        .find(is_pinned)
        .context("another one")?
        .clone();
    let hint = json!({"text": "try warp shuffles", "prompts": 2});
    let given = steer(&lab, run, "hint", &hint).await?;
    let since = given.since as usize;
    steer(&lab, run, "pin", &json!({"candidate": pinned.id})).await?;
    let ban = command(&lab, &["ban", &run.to_string(), &best.ordinal.to_string()]).await?;
    ensure!(ban.contains(&format!("ban #{}", best.ordinal)), "{ban}");
    control(&lab, run, "resume").await?;
    let ended = lab.finished(run).await?;
    assert_eq!(ended.trials, 10);
    let all = lab.candidates(run).await?;
    for candidate in &all[since..] {
        assert_eq!(candidate.parents, [pinned.id], "#{}", candidate.ordinal);
        let is_hinted = prompt(&lab, candidate.id)
            .await?
            .contains("try warp shuffles");
        let place = candidate.ordinal as usize;
        assert_eq!(is_hinted, place < since + 2, "#{place}");
    }
    let promotion = ended.promotion.context("a winner")?;
    assert_ne!(promotion.candidate, best.id, "it is banned");

    let run_name = run.to_string();
    command(&lab, &["budget", &run_name, "--budget-trials", "12"]).await?;
    let ended = lab.finished(run).await?;
    assert_eq!(ended.trials, 12);

    let origin = pinned.ordinal.to_string();
    let fork = ["fork", &run_name, &origin, "--budget-trials", "2", "--json"];
    let forked: RunView = serde_json::from_str(&command(&lab, &fork).await?)?;
    let fork = lab.finished(forked.id).await?;
    assert_eq!(fork.trials, 2);
    let own = lab.candidates(fork.id).await?;
    assert_eq!(own[1].operator, Operator::Fork);
    assert_eq!(own[1].title, pinned.title);
    assert_eq!(own[1].parents, [own[0].id]);

    let foreign = steer(&lab, run, "pin", &json!({"candidate": own[2].id})).await;
    let foreign = format!("{:#}", foreign.unwrap_err());
    ensure!(foreign.contains("is a candidate of"), "{foreign}");
    let listed = command(&lab, &["list", &run_name]).await?;
    for part in [
        "hint for 2 prompts",
        "pin #",
        "ban #",
        "budget: ",
        "fork run_",
    ] {
        ensure!(listed.contains(part), "{part}: {listed}");
    }
    Ok(())
}

/// A span as `tests/collector` writes it.
#[derive(Debug, Deserialize)]
struct Span {
    service: String,
    trace: String,
    span: String,
    parent: String,
    name: String,
    begin: u64,
    end: u64,
    failed: bool,
    links: Vec<String>,
    attributes: BTreeMap<String, Value>,
}

/// Every candidate is one trace, from the prompt to the commit, in a collector that is not ours.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a collector of traces: tests/collector cargo nextest run -p lab --run-ignored all"]
async fn a_candidate_is_one_trace_from_its_prompt_to_its_commit() -> Result<()> {
    let collected = std::env::var("KERNELWRIGHT_TEST_SPANS")?;
    let server = author().await?;
    let mut lab = Lab::new()?;
    let models = lab.path().join("models.toml");
    std::fs::write(&models, server.entry("author", Dialect::OpenAi, PRICE))?;
    let models = models.to_str().context("a UTF-8 name")?;
    lab.serve(&["--with-local-worker", "--models", models])
        .await?;
    let run = lab.launch(&lab::small_softmax()?, &request(2)).await?;
    let run = lab.finished(run.id).await?;
    let promotion = run.promotion.context("a winner")?;
    let candidates = lab.candidates(run.id).await?;

    let winner = promotion.candidate.uuid().simple().to_string();
    // Services of other tests may send to the same collector.
    let mut traces = BTreeMap::<String, Vec<Span>>::new();
    let began = Instant::now();
    let is_confirmed = |spans: &Vec<Span>| spans.iter().any(|span| span.name == "confirm");
    while !traces.get(&winner).is_some_and(is_confirmed) {
        let waited = began.elapsed();
        ensure!(waited < Duration::from_secs(30), "{}", lab.service_log());
        tokio::time::sleep(Duration::from_millis(100)).await;
        traces.clear();
        let text = std::fs::read_to_string(&collected)?;
        // The last line may be half written.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let span: Span = serde_json::from_str(line)?;
            traces.entry(span.trace.clone()).or_default().push(span);
        }
    }
    for candidate in &candidates {
        let id = candidate.id.uuid().simple().to_string();
        let spans = &traces[&id];
        let named = |name: &str| {
            let mut found = spans.iter().filter(|span| span.name == name);
            found
                .next()
                .with_context(|| format!("{name} of {candidate:?}"))
        };
        let root = named("candidate")?;
        assert_eq!(
            (root.service.as_str(), root.parent.as_str()),
            ("kernelwright", "")
        );
        assert_eq!(root.attributes["kernelwright.verdict"], "accepted");
        let parents = candidate.parents.iter();
        let parents = parents.map(|parent| parent.uuid().simple().to_string());
        assert_eq!(root.links, parents.collect::<Vec<_>>());
        let ids = spans.iter().map(|span| &span.span).collect::<BTreeSet<_>>();
        assert_eq!(ids.len(), spans.len());
        for span in spans.iter().filter(|span| span.name != "confirm") {
            assert!(
                span.parent.is_empty() || ids.contains(&span.parent),
                "{span:?}"
            );
            assert!(
                root.begin <= span.begin && span.begin <= span.end && !span.failed,
                "{span:?}"
            );
        }
        let (queue, evaluate) = (named("queue")?, named("evaluate")?);
        assert!(queue.end == evaluate.begin && evaluate.end == root.end);
        assert_eq!(named("compile")?.parent, evaluate.span);
        if candidate.operator != Operator::Baseline {
            let call = named("chat author")?;
            assert!(root.begin <= call.begin && call.end <= evaluate.begin);
            assert!(call.attributes["gen_ai.usage.output_tokens"].is_number());
        }
    }
    let confirm = traces[&winner].iter().find(|span| span.name == "confirm");
    let confirm = confirm.context("the confirmation of the winner")?;
    let PromotionState::Committed { commit } = promotion.state else {
        panic!("{:?}", promotion.state)
    };
    assert_eq!(confirm.attributes["vcs.ref.head.revision"], commit);
    Ok(())
}
