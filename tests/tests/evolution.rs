//! End-to-end tests of runs whose candidates a model writes: real processes, a scripted model
//! server that speaks the real protocols over HTTP, the real compiler and the emulated device.

#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use domain::api::{CandidateSummary, RunRequest, RunState, RunView};
use domain::id::RunId;
use domain::model::{Dollars, Usage};
use domain::search::{Budget, Method, ModelChoice, Operator, StopReason};
use domain::verdict::VerdictKind;
use lab::model::{Answer, Dialect, Request, ScriptedModel};
use lab::{Finished, Lab, kernelwright};

const TASK: &str = "softmax-f32";
const PRICE: &str = "price = { input = 3, output = 15 }\nmax_output_tokens = 4000";

/// Scripted model that sends one of the task's files, or an error. The choice depends only on the
/// request's seed.
struct Author {
    files: Vec<String>,
}

impl Author {
    fn new() -> Result<Self> {
        let bundle = lab::small_softmax()?;
        let known = |path: &str| path.starts_with("playbook/") || path.starts_with("broken/");
        let files = bundle.files.iter().filter(|(path, _)| known(path));
        Ok(Self {
            files: files.map(|(_, text)| text.clone()).collect(),
        })
    }

    /// A different kernel for every number.
    fn kernel(&self, number: u64) -> String {
        let text = &self.files[(number % self.files.len() as u64) as usize];
        format!("Thought: variant {number}.\n\n```cuda\n{text}// Variant {number}.\n```\n")
    }

    fn answer(&self, asked: &Request) -> Answer {
        // Without a seed, equal prompts differ by the number of earlier ones.
        let settings = &asked.body["generationConfig"];
        let seed = asked.body["seed"].as_u64().or(settings["seed"].as_u64());
        let number = seed.unwrap_or_else(|| u64::from(asked.repeat) + asked.last().len() as u64);
        let turns = asked.messages().count();
        let usage = Usage {
            input: 1_000 + number % 100,
            output: 500,
            ..Usage::default()
        };
        let first_try = seed.is_some() && asked.repeat == 0;
        let text = match number % 11 {
            0 if turns < 4 => "I would rather explain it in words.".to_owned(),
            1 => "```cuda\n#include <cuda.h>\nint main() {}\n```".to_owned(),
            _ => self.kernel(number),
        };
        let answer = match number % 13 {
            0 if first_try => Answer::overloaded(),
            1 if first_try => Answer::rate_limited(Some("0")),
            2 if first_try => Answer::text(text).broken_after(2),
            3 if first_try => Answer::garbage(),
            4 if first_try => Answer::failing(),
            _ => Answer::text(text).using(usage),
        };
        answer.after(Duration::from_millis(number % 40))
    }
}

async fn author() -> Result<ScriptedModel> {
    let author = Author::new()?;
    ScriptedModel::start(move |asked| author.answer(asked)).await
}

fn request(method: Method, trials: u32) -> RunRequest {
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
        ..RunRequest::new(TASK, method)
    }
}

/// Lab whose service is configured with the model.
async fn lab(entry: &str) -> Result<Lab> {
    let mut lab = Lab::new()?;
    std::fs::create_dir_all(lab.data())?;
    std::fs::write(lab.data().join("models.toml"), entry)?;
    lab.serve(&["--with-local-worker"]).await?;
    Ok(lab)
}

/// Runs the program on another thread, so that the servers in this process keep answering.
async fn run(arguments: Vec<String>) -> Result<Finished> {
    tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        kernelwright(&arguments)
    })
    .await?
}

fn line(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a UTF-8 name")
}

/// Summary of a run without ids and times, one line for each candidate.
async fn candidate_lines(lab: &Lab, run: RunId) -> Result<Vec<String>> {
    let all = lab.candidates(run).await?;
    let place = |id| all.iter().position(|candidate| candidate.id == id);
    let mut lines = Vec::new();
    for candidate in &all {
        let detail = lab.candidate(candidate.id).await?;
        let parents = candidate.parents.iter().map(|id| place(*id));
        let spent = detail.calls.iter().map(|call| {
            let reply = call.reply.as_ref();
            reply.map(|reply| (reply.usage, reply.cost, reply.unusable.clone()))
        });
        lines.push(format!(
            "{} g{} {} {:?} {:?} {:?} {:?} {:?}",
            candidate.ordinal,
            candidate.generation,
            candidate.operator.as_str(),
            candidate.verdict,
            candidate.time_us,
            detail.digest,
            parents.collect::<Vec<_>>(),
            spent.collect::<Vec<_>>(),
        ));
    }
    Ok(lines)
}

fn of(all: &[CandidateSummary], operator: &Operator) -> usize {
    all.iter().filter(|one| one.operator == *operator).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_each_protocol_commits_a_winner() -> Result<()> {
    let bundle = lab::small_softmax()?;
    for (dialect, trials, crossovers) in [
        (Dialect::OpenAi, 13, 4),
        (Dialect::Anthropic, 7, 2),
        (Dialect::Gemini, 7, 2),
    ] {
        let server = author().await?;
        let lab = lab(&server.entry("author", dialect, PRICE)).await?;
        let run = lab.launch(&bundle, &request(Method::Full, trials)).await?;
        let run = lab.finished(run.id).await?;
        let reason = StopReason::Trials;
        assert_eq!(run.state, RunState::Completed { reason }, "{dialect:?}");
        assert_eq!(run.trials, trials);
        let story = candidate_lines(&lab, run.id).await?;
        assert!(run.promotion.is_some(), "{dialect:?}: {story:#?}");
        assert!(run.spend.dollars > Dollars::default());
        let all = lab.candidates(run.id).await?;
        assert_eq!(of(&all, &Operator::Init), 5);
        assert_eq!(of(&all, &Operator::Crossover), crossovers);
        for candidate in all
            .iter()
            .filter(|one| one.verdict == Some(VerdictKind::Accepted))
        {
            let detail = lab.candidate(candidate.id).await?;
            if let Some(call) = detail.calls.last() {
                let reply = call.reply.as_ref().context("an answer")?;
                ensure!(
                    reply.text.contains(detail.source.trim_end()),
                    "{}",
                    candidate.ordinal
                );
                assert_eq!(detail.summary.proposer, "author");
                assert!(detail.idea.is_some(), "its thought is kept");
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_model_is_a_local_program_commits_a_winner() -> Result<()> {
    let bundle = lab::small_softmax()?;
    let steps = bundle.files.iter();
    let mut steps = steps.filter(|(path, _)| path.starts_with("playbook/"));
    let (_, step) = steps.next_back().context("a step")?;
    let folder = tempfile::tempdir()?;
    let reply = folder.path().join("reply");
    std::fs::write(
        &reply,
        format!("Thought: shown before.\n\n```cuda\n{step}```\n"),
    )?;
    let script = format!("grep -q softmax && cat {}", text(&reply)?);
    let entry =
        format!("[models.author]\napi = \"command\"\nprogram = [\"sh\", \"-c\", \"{script}\"]\n");
    let lab = lab(&entry).await?;
    let run = lab.launch(&bundle, &request(Method::BestOf, 1)).await?;
    let run = lab.finished(run.id).await?;
    let story = candidate_lines(&lab, run.id).await?;
    ensure!(run.promotion.is_some(), "{}: {story:#?}", run.state);
    assert_eq!(run.spend.unpriced_calls, 1);
    Ok(())
}

/// Two methods with other populations than `full`, in runs beside each other. The operators of every
/// method are tested in `domain::search`, and a run of every method with a scripted device in `engine`.
#[tokio::test(flavor = "multi_thread")]
async fn runs_of_two_methods_beside_each_other_commit_a_winner() -> Result<()> {
    let bundle = lab::small_softmax()?;
    let server = author().await?;
    let lab = lab(&server.entry("author", Dialect::OpenAi, PRICE)).await?;
    let cases = [
        (Method::Eoh, 9, Operator::Retune),
        (Method::Funsearch, 5, Operator::Improve),
    ];
    let mut runs = Vec::new();
    for (method, trials, operator) in cases {
        let run = lab.launch(&bundle, &request(method, trials)).await?;
        runs.push((method, operator, run.id));
    }
    for (method, operator, id) in runs {
        let run = lab.finished(id).await?;
        assert!(
            matches!(run.state, RunState::Completed { .. }),
            "{method:?}: {}",
            run.state
        );
        let all = lab.candidates(id).await?;
        assert!(of(&all, &operator) > 0, "{method:?}");
        let story = candidate_lines(&lab, id).await?;
        assert!(run.promotion.is_some(), "{method:?}: {story:#?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_previews_launches_follows_records_and_replays_a_run() -> Result<()> {
    let server = author().await?;
    let lab = lab(&server.entry("author", Dialect::OpenAi, PRICE)).await?;
    let data = lab.data();
    let task = lab.path().join(TASK);
    lab::write_task(&lab::small_softmax()?, &task)?;
    let (task, data) = (text(&task)?, text(&data)?);
    let asked = [
        "run", task, "--method", "insight", "--model", "author", "--data", data,
    ];
    let with = |more: &[&str]| line(&[&asked[..], more].concat());

    let preview = run(with(&["--budget-trials", "4", "--preview"])).await?;
    assert_eq!(preview.status.code(), Some(0), "{}", preview.stderr);
    // Each of the four candidates and two repairs of it.
    for part in ["__global__", "12 calls", "at most $"] {
        assert!(preview.stdout.contains(part), "{part}: {}", preview.stdout);
    }
    assert_eq!(server.count(), 0, "a preview asks nobody");

    let followed = run(with(&["--budget-trials", "4", "--follow"])).await?;
    assert_eq!(followed.status.code(), Some(0), "{}", followed.stderr);
    assert!(
        followed.stdout.contains("models author: "),
        "{}",
        followed.stdout
    );
    let page = lab.get::<domain::api::RunPage>("/runs").await?;
    let recorded = page.runs.first().context("a run")?;
    let expected = candidate_lines(&lab, recorded.id).await?;

    let recording = run(line(&[
        "recording",
        &recorded.id.to_string(),
        "--data",
        data,
    ]))
    .await?;
    assert_eq!(recording.status.code(), Some(0), "{}", recording.stderr);
    let file = lab.path().join("run.jsonl");
    std::fs::write(&file, &recording.stdout)?;
    let asked_before = server.count();
    let again = lab.path().join("again");
    let file = text(&file)?;
    let again = text(&again)?;
    let replayed = run(line(&["replay", file, "--task", task, "--data", again])).await?;
    assert_eq!(
        replayed.status.code(),
        Some(0),
        "{}{}",
        replayed.stdout,
        replayed.stderr
    );
    assert_eq!(server.count(), asked_before, "a replay asks nobody");
    let mut second = Lab::with_data(again.into())?;
    second.serve(&[]).await?;
    let page = second.get::<domain::api::RunPage>("/runs").await?;
    let replay = page.runs.first().context("a replay")?;
    assert_eq!(candidate_lines(&second, replay.id).await?, expected);
    assert_eq!(replay.spend.usage, recorded.spend.usage);
    assert_eq!(replay.spend.dollars, recorded.spend.dollars);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_pauses_while_its_model_is_down_and_continues_afterwards() -> Result<()> {
    let author = Author::new()?;
    let alive = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let switch = std::sync::Arc::clone(&alive);
    let server = ScriptedModel::start(move |asked| {
        if switch.load(std::sync::atomic::Ordering::SeqCst) {
            author.answer(asked)
        } else {
            Answer::unauthorised()
        }
    })
    .await?;
    let bundle = lab::small_softmax()?;
    let lab = lab(&server.entry("author", Dialect::Anthropic, PRICE)).await?;
    let run = lab.launch(&bundle, &request(Method::Free, 3)).await?;
    let paused = |run: &RunView| matches!(run.state, RunState::Paused { .. });
    let run = lab.until(run.id, paused).await?;
    assert_eq!((run.trials, run.spend.calls), (0, 0), "{}", run.state);
    assert!(run.state.to_string().contains("key"), "{}", run.state);
    alive.store(true, std::sync::atomic::Ordering::SeqCst);
    let path = format!("/runs/{}/resume", run.id.uuid());
    lab.post::<RunView>(&path, &serde_json::Value::Null).await?;
    let run = lab.finished(run.id).await?;
    assert_eq!(run.trials, 3);
    Ok(())
}

/// Replays a recording of hand-written replies, one of each kind that a run must handle.
#[tokio::test(flavor = "multi_thread")]
async fn a_recording_with_every_kind_of_reply_gives_the_expected_verdicts() -> Result<()> {
    let file = lab::repository().join("tests/recordings/softmax-by-hand.jsonl");
    let task = lab::repository().join("kernels").join(TASK);
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let words = [
        "replay",
        text(&file)?,
        "--task",
        text(&task)?,
        "--data",
        text(&data)?,
    ];
    let replayed = run(line(&words)).await?;
    assert_eq!(
        replayed.status.code(),
        Some(0),
        "{}{}",
        replayed.stdout,
        replayed.stderr
    );
    assert!(
        replayed.stderr.contains("written by hand"),
        "{}",
        replayed.stderr
    );
    assert!(
        !replayed.stderr.contains("has changed"),
        "{}",
        replayed.stderr
    );

    let mut lab = Lab::with_data(data)?;
    lab.serve(&[]).await?;
    let page = lab.get::<domain::api::RunPage>("/runs").await?;
    let all = lab
        .candidates(page.runs.first().context("a run")?.id)
        .await?;
    let verdicts = |operator: &Operator| {
        let own = all.iter().filter(|one| one.operator == *operator);
        own.map(|one| one.verdict).collect::<Vec<_>>()
    };
    let (good, race) = (Some(VerdictKind::Accepted), Some(VerdictKind::DataRace));
    let broken = Some(VerdictKind::CompileRejected);
    assert_eq!(verdicts(&Operator::Init), [good, good, good, race, good]);
    assert_eq!(verdicts(&Operator::Crossover), [good, broken]);
    assert_eq!(verdicts(&Operator::Mutation), [good, good]);
    assert_eq!(verdicts(&Operator::Repair), [good, good]);
    let talked = lab.candidate(all[3].id).await?;
    assert_eq!(talked.calls.len(), 2, "prose first, then a kernel");
    let edited = lab.candidate(all[2].id).await?;
    assert!(edited.source.contains("block = [32]"), "{}", edited.source);
    Ok(())
}
