//! Cost of the search itself: runs with a model and evaluators that answer at once or after a stated
//! delay, so that all processor time is the engine's and the database's. Prints Markdown tables.
//!
//! `cargo run --release -p engine --example overhead -- 200 1000 10000 100000`
//!
//! The largest number bounds every part, so that a small one gives a quick answer.

#![expect(
    clippy::unwrap_used,
    reason = "the fixture of the tests ends the program where it fails"
)]

#[path = "overhead/answers.rs"]
mod answers;
#[expect(dead_code, reason = "the tests of runs use more of it")]
#[path = "../tests/runs/lab.rs"]
mod lab;
#[expect(dead_code, reason = "the maker of synthetic runs uses more of it")]
#[path = "overhead/service.rs"]
mod service;
#[path = "overhead/usage.rs"]
mod usage;

use std::time::{Duration, Instant};

use domain::api::RunRequest;
use service::{Delays, Service, Setup, steady_request};
use usage::Usage;

/// Slots that an instant run keeps open, as many as evaluators wait for jobs.
const IN_FLIGHT: u32 = 8;
/// Slots that a run with delays keeps open: four times as many as models and evaluators hold, because a
/// slot is planned only when the one that many places before it is judged, and one late answer keeps
/// the others waiting.
const IN_FLIGHT_DELAYED: u32 = 128;
/// Calls to the model at once, with delays.
const CALLS: usize = 24;
/// Evaluators, in every part.
const EVALUATORS: usize = 8;
/// Runs at once in the part about neighbours.
const RUNS: usize = 10;
/// Candidates of each of these runs.
const EACH: u32 = 200;
/// Time for which delays are in effect before counting begins, and time of counting.
const LEAD: Duration = Duration::from_secs(20);
const COUNTING: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut counts = Vec::new();
    for argument in std::env::args().skip(1).filter(|one| !one.starts_with('-')) {
        counts.push(argument.parse::<u32>()?);
    }
    if counts.is_empty() {
        counts = vec![200, 1_000, 10_000, 100_000];
    }
    counts.sort_unstable();
    instant(&counts).await?;
    let last = counts.last().copied().unwrap_or(0);
    neighbours(EACH.min(last)).await?;
    delayed(&[100.min(last), 10_000.min(last)]).await?;
    Ok(())
}

/// One run whose model and evaluators answer at once, and then the answers of the API about it.
async fn instant(counts: &[u32]) -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let service = Service::start(Setup::plain(folder.path(), usize::MAX, EVALUATORS)).await;
    let run = service.launch(steady_request(IN_FLIGHT)).await;
    println!("| candidates | a second | processor ms each | resident MiB | database KiB each |");
    println!("|---|---|---|---|---|");
    let (mut before, mut began, mut from) = (Usage::now()?, Instant::now(), 0);
    for count in counts.iter().copied() {
        service.judged(count).await;
        let (now, seconds) = (Usage::now()?, began.elapsed().as_secs_f64());
        let made = f64::from(count - from);
        println!(
            "| {from} to {count} | {:.1} | {:.2} | {:.0} | {:.1} |",
            made / seconds,
            now.milliseconds_since(&before) / made,
            now.resident_mib,
            service.database_kib() / f64::from(count),
        );
        (before, began, from) = (now, Instant::now(), count);
    }
    let stopped = service.stop().await;
    answers::measure(&stopped, run).await
}

/// Several instant runs at once, and the slowest of them beside the fastest.
async fn neighbours(each: u32) -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let service = Service::start(Setup::plain(folder.path(), usize::MAX, EVALUATORS)).await;
    let (before, began) = (Usage::now()?, Instant::now());
    let mut runs = Vec::new();
    for run in 0..RUNS as u64 {
        let request = RunRequest {
            seed: run,
            ..steady_request(IN_FLIGHT)
        };
        runs.push(service.launch(request).await);
    }
    let all = each * u32::try_from(RUNS)?;
    service.judged(all).await;
    let (now, seconds) = (Usage::now()?, began.elapsed().as_secs_f64());
    let mut trials = Vec::new();
    for run in runs {
        trials.push(service.trials(run).await);
    }
    trials.sort_unstable();
    println!("\n| runs at once | a second in all | processor ms each | candidates of each run |");
    println!("|---|---|---|---|");
    println!(
        "| {RUNS} | {:.1} | {:.2} | {} to {} |",
        f64::from(all) / seconds,
        now.milliseconds_since(&before) / f64::from(all),
        trials.first().copied().unwrap_or(0),
        trials.last().copied().unwrap_or(0),
    );
    service.stop().await;
    Ok(())
}

/// One run with a model of 3 s and evaluations of 1 s, after so many instant candidates.
async fn delayed(after: &[u32]) -> Result<(), Box<dyn std::error::Error>> {
    println!("\n| candidates before | delays | a second, of 8 | processor ms each |");
    println!("|---|---|---|---|");
    let folder = tempfile::tempdir()?;
    let service = Service::start(Setup::plain(folder.path(), CALLS, EVALUATORS)).await;
    service.launch(steady_request(IN_FLIGHT_DELAYED)).await;
    for before in after.iter().copied() {
        service.set_delays(Delays::None);
        service.judged(before).await;
        for (delays, name) in [
            (Delays::Constant, "constant"),
            (Delays::LogNormal, "log-normal"),
        ] {
            service.set_delays(delays);
            tokio::time::sleep(LEAD).await;
            let (usage, began, first) = (Usage::now()?, Instant::now(), service.count());
            tokio::time::sleep(COUNTING).await;
            let made = f64::from(service.count() - first);
            println!(
                "| {first} | {name} | {:.2} | {:.2} |",
                made / began.elapsed().as_secs_f64(),
                Usage::now()?.milliseconds_since(&usage) / made,
            );
        }
    }
    service.stop().await;
    Ok(())
}
