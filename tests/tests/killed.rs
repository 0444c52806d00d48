//! A run in which models, repairs, a tuner and a bandit take part, on a service that is killed at random
//! moments, or on two services that share a database and are killed in turn: its candidates, costs and winner are
//! those of an undisturbed run.
//!
//! The suite kills one service twelve times and one of two four times. `KERNELWRIGHT_SWEEP=full cargo test -p lab
//! --test killed -- --nocapture` kills a hundred times, in a longer run.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use domain::api::{RunRequest, RunState, RunView};
use domain::id::RunId;
use domain::search::{Budget, Evolution, Method, ModelChoice, Schedule, StopReason};
use lab::Lab;
use lab::model::{Answer, Dialect, Request, ScriptedModel};
use lab::simulated::author::Author;
use lab::simulated::reader::reply;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::net::{TcpListener, TcpStream};

/// The models' prices differ, because the bandit weighs gains by cost.
const MODELS: [(&str, &str); 2] = [
    ("small", "{ input = 0.5, output = 2 }"),
    ("large", "{ input = 3, output = 15 }"),
];
/// The longest time for which a service lives on after the moment that a life waits for. The time is drawn,
/// because a kill after a row was written would never fall between two rows.
const LONGEST_LIFE: Duration = Duration::from_millis(600);

/// The simulated author, whose kernels leave the threads of a block to the tuner. One reply in eleven
/// holds no kernel, and one first request in four fails.
fn answer(author: &Author, asked: &Request) -> Answer {
    let seed = asked.body["seed"].as_u64().unwrap_or_default();
    let text = match seed % 11 {
        0 if asked.messages().count() < 4 => "I would rather explain it in words.".to_owned(),
        _ => tunable(&reply(author, asked.last(), seed)),
    };
    let answer = match seed % 13 {
        _ if asked.repeat > 0 => Answer::text(text),
        0 => Answer::overloaded(),
        1 => Answer::rate_limited(Some("0")),
        2 => Answer::text(text).broken_after(2),
        3 => Answer::failing(),
        _ => Answer::text(text),
    };
    answer.after(Duration::from_millis(seed % 80))
}

/// A kernel of the simulated author with its constant `THREADS` as a tunable.
fn tunable(text: &str) -> String {
    let constant = "constexpr int THREADS = ";
    let threads = text
        .split(constant)
        .nth(1)
        .and_then(|rest| rest.split(';').next());
    let threads: u32 = threads
        .and_then(|number| number.parse().ok())
        .expect("the author's kernels have the constant");
    let grid = |rows: &str| format!("grid = [\"cdiv(R, {rows})\"]");
    text.replace(&format!("{constant}{threads};\n"), "")
        .replace(&format!("int GROUP = {threads};"), "int GROUP = THREADS;")
        .replace(&format!("block = [{threads}]"), "block = [\"THREADS\"]")
        .replace(&grid(&threads.to_string()), &grid("THREADS"))
        .replace(&grid(&(threads / 32).to_string()), &grid("THREADS / 32"))
        .replace(
            "---*/",
            &format!("[tunables.THREADS]\nvalue = {threads}\nchoices = [64, 128, 256, 512]\n---*/"),
        )
}

fn request(trials: u32) -> RunRequest {
    let choices = MODELS.map(|(name, _)| ModelChoice {
        name: name.to_owned(),
        weight: 1.0,
    });
    RunRequest {
        budget: Budget {
            trials,
            ..Budget::default()
        },
        seed: 11,
        models: choices.to_vec(),
        evolution: Evolution {
            schedule: Schedule::Steady { in_flight: 3 },
            sweep_percent: 40,
            bandit: true,
            ..Evolution::default()
        },
        ..RunRequest::new("softmax-f32", Method::Adaptive)
    }
}

/// The end of a run: everything but ids and times of day.
#[derive(Debug, PartialEq)]
struct Ending {
    state: RunState,
    trials: u32,
    /// A line for each candidate.
    candidates: Vec<String>,
    /// Counts of candidates by operator and model.
    operators: BTreeMap<String, u32>,
    winner: Option<(String, f64)>,
    promotion: Option<u32>,
    usage: domain::model::Usage,
    dollars: domain::model::Dollars,
}

async fn models() -> Result<ScriptedModel> {
    let author = Author::of("softmax-f32")?;
    ScriptedModel::start(move |asked| answer(&author, asked)).await
}

/// Starts the service of a lab that asks the models of a server.
async fn serve(lab: &mut Lab, server: &ScriptedModel, words: &[&str]) -> Result<()> {
    std::fs::create_dir_all(lab.data())?;
    let entries = MODELS.map(|(name, price)| {
        let more = format!("price = {price}\nmax_output_tokens = 4000");
        server.entry(name, Dialect::OpenAi, &more)
    });
    std::fs::write(lab.data().join("models.toml"), entries.concat())?;
    lab.serve(words).await
}

async fn start() -> Result<(ScriptedModel, Lab)> {
    let (server, mut lab) = (models().await?, Lab::new()?);
    serve(&mut lab, &server, &["--with-local-worker"]).await?;
    Ok((server, lab))
}

async fn ending(lab: &Lab, run: RunId) -> Result<Ending> {
    let run = lab.finished(run).await?;
    let all = lab.candidates(run.id).await?;
    let place = |id| all.iter().position(|candidate| candidate.id == id);
    let mut candidates = Vec::new();
    let mut operators = BTreeMap::new();
    for candidate in &all {
        let detail = lab.candidate(candidate.id).await?;
        let parents = candidate.parents.iter().map(|id| place(*id));
        let spent = detail.calls.iter().map(|call| {
            let reply = call.reply.as_ref();
            reply.map(|reply| (reply.usage, reply.cost, reply.unusable.clone()))
        });
        let operator = candidate.operator.as_str();
        let proposer = &candidate.proposer;
        *operators
            .entry(format!("{operator} by {proposer}"))
            .or_default() += 1;
        candidates.push(format!(
            "{} g{} {operator} by {proposer} {:?} {:?} {:?} {:?} {:?} {:?}",
            candidate.ordinal,
            candidate.generation,
            candidate.configuration,
            candidate.verdict,
            candidate.time_us,
            detail.digest,
            parents.collect::<Vec<_>>(),
            spent.collect::<Vec<_>>(),
        ));
    }
    let promoted = run.promotion.as_ref();
    let promotion = promoted.and_then(|promotion| place(promotion.candidate));
    Ok(Ending {
        state: run.state,
        trials: run.trials,
        candidates,
        operators,
        winner: run.best.map(|best| (best.title, best.speedup)),
        promotion: promotion.map(u32::try_from).transpose()?,
        usage: run.spend.usage,
        dollars: run.spend.dollars,
    })
}

async fn undisturbed(request: &RunRequest) -> Result<Ending> {
    let (_server, lab) = start().await?;
    let run = lab.launch(&lab::small_softmax()?, request).await?;
    ending(&lab, run.id).await
}

/// Waits until a run has one more verdict than now, or is over.
async fn further_verdict(lab: &Lab, run: RunId) -> Result<RunView> {
    let judged = |run: &RunView| run.verdicts.values().sum::<u32>();
    let before: RunView = lab.get(&format!("/runs/{}", run.uuid())).await?;
    let further = |run: &RunView| run.state.is_over() || judged(run) > judged(&before);
    lab.until(run, further).await
}

/// The end of a run whose service is killed so many times: a random time after it answers again, or, as
/// often, after a further verdict, so that the kills are spread over the run.
async fn killed(request: &RunRequest, kills: u32) -> Result<Ending> {
    let (_server, mut lab) = start().await?;
    let run = lab.launch(&lab::small_softmax()?, request).await?.id;
    let mut rng = ChaCha8Rng::seed_from_u64(23);
    for kill in 1..=kills {
        if rng.random_bool(0.5) {
            further_verdict(&lab, run).await?;
        }
        tokio::time::sleep(LONGEST_LIFE.mul_f64(rng.random())).await;
        lab.stop();
        let again = lab.serve(&["--with-local-worker"]).await;
        again.with_context(|| format!("restart {kill}"))?;
        let view: RunView = lab.get(&format!("/runs/{}", run.uuid())).await?;
        ensure!(
            !view.state.is_over(),
            "only {kill} kills of {kills} fell into the run"
        );
    }
    ending(&lab, run).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_at_random_moments_ends_as_if_undisturbed() -> Result<()> {
    let full = std::env::var_os("KERNELWRIGHT_SWEEP").is_some_and(|value| value == "full");
    let (trials, kills) = if full { (90, 100) } else { (24, 12) };
    let request = request(trials);
    let began = Instant::now();
    // Both systems wait for processes and models much of the time, so they run side by side.
    let (expected, found) = tokio::try_join!(undisturbed(&request), killed(&request, kills))?;
    println!(
        "{kills} kills, {} candidates, {:?}, {:.0} s",
        expected.candidates.len(),
        expected.operators,
        began.elapsed().as_secs_f64()
    );
    let reason = StopReason::Trials;
    assert_eq!(expected.state, RunState::Completed { reason });
    assert_eq!(expected.trials, trials);
    assert!(expected.promotion.is_some(), "{expected:#?}");
    let kinds = ["repair by ", "sweep by ", "by small", "by large"];
    for kind in kinds {
        let mut names = expected.operators.keys();
        assert!(
            names.any(|name| name.contains(kind)),
            "{kind}: {:?}",
            expected.operators
        );
    }
    assert_eq!(found, expected);
    Ok(())
}

/// A load balancer: hands each connection to the first address that takes it, from another one on each time.
async fn balance(addresses: Arc<Mutex<[String; 2]>>) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        for turn in 0.. {
            let Ok((mut client, _)) = listener.accept().await else {
                return;
            };
            let addresses = addresses.lock().expect("nobody panics with it").clone();
            tokio::spawn(async move {
                for offset in 0..addresses.len() {
                    let address = &addresses[(turn + offset) % addresses.len()];
                    if let Ok(mut service) = TcpStream::connect(address).await {
                        // A service that is killed ends the connection.
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut service).await;
                        return;
                    }
                }
            });
        }
    });
    Ok(url)
}

/// The end of a run on two services, one of which is killed at a time and started again when the other one has gone
/// on with the run alone. Also returns the longest time from a kill to the next verdict.
async fn shared(request: &RunRequest, kills: u32) -> Result<(Ending, Duration)> {
    let server = models().await?;
    let first = Lab::new()?;
    let folder = first.path().join("shared");
    let folder = folder.to_str().context("a path in UTF-8")?.to_owned();
    let words = ["--shared", folder.as_str()];
    let second = first.beside()?;
    let mut labs = [first, second];
    for lab in &mut labs {
        serve(lab, &server, &words).await?;
    }
    let address = |lab: &Lab| Ok::<_, anyhow::Error>(lab.address()?.replace("http://", ""));
    let addresses = Arc::new(Mutex::new([address(&labs[0])?, address(&labs[1])?]));
    let balancer = balance(Arc::clone(&addresses)).await?;
    let worker = labs[0].worker_at(&balancer, "worker", "worker", &[])?;
    let run = labs[1].launch(&lab::small_softmax()?, request).await?.id;
    let mut rng = ChaCha8Rng::seed_from_u64(29);
    let mut longest = Duration::ZERO;
    for kill in 1..=kills {
        tokio::time::sleep(LONGEST_LIFE.mul_f64(rng.random())).await;
        // In turn, so that from the second kill on the service is killed that has taken the run over.
        let victim = usize::try_from(kill % 2)?;
        labs[victim].stop();
        let began = Instant::now();
        let view = further_verdict(&labs[1 - victim], run).await?;
        longest = longest.max(began.elapsed());
        ensure!(
            !view.state.is_over(),
            "only {kill} kills of {kills} fell into the run"
        );
        serve(&mut labs[victim], &server, &words).await?;
        addresses.lock().expect("nobody panics with it")[victim] = address(&labs[victim])?;
    }
    let ending = ending(&labs[0], run).await?;
    drop(worker);
    Ok((ending, longest))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Postgres server: tests/postgres cargo nextest run -p lab --run-ignored all"]
async fn a_run_on_two_services_of_which_one_is_killed_ends_as_if_undisturbed() -> Result<()> {
    let full = std::env::var_os("KERNELWRIGHT_SWEEP").is_some_and(|value| value == "full");
    let (trials, kills) = if full { (90, 40) } else { (12, 4) };
    let request = request(trials);
    let expected = undisturbed(&request).await?;
    let (found, longest) = shared(&request, kills).await?;
    println!(
        "{kills} kills, {} candidates, at most {:.1} s from a kill to the next verdict",
        expected.candidates.len(),
        longest.as_secs_f64()
    );
    assert_eq!(found, expected);
    Ok(())
}
