//! Processor time of what the API answers about a long run: the calls of its handlers and the JSON
//! text, without HTTP.

use domain::id::RunId;
use domain::verdict::VerdictKind;
use engine::Engine;
use serde::Serialize;

use crate::usage::Usage;

/// Repetitions of each answer; the first, which fills caches, is not counted.
const TIMES: u32 = 3;
/// The largest pages that the API gives.
const PAGE: u32 = 500;
const NODES: u32 = 2000;
const EVENTS: u32 = 200;
/// Trials up to which insights are asked for.
const MOST_FOR_INSIGHTS: u32 = 10_100;

/// Prints one row for each answer.
pub async fn measure(engine: &Engine, run: RunId) -> Result<(), Box<dyn std::error::Error>> {
    let store = engine.store();
    println!("\n| answer about that run | processor ms | KiB |");
    println!("|---|---|---|");
    row("run", async || store.run(run).await).await?;
    row("runs", async || store.runs(None, 50).await).await?;
    let first = async || store.candidates(run, None, None, PAGE).await;
    row("candidates, first 500", first).await?;
    let rejected = Some(VerdictKind::LaunchRejected);
    let filtered = async || store.candidates(run, rejected, None, PAGE).await;
    row("candidates, first 500 of one verdict", filtered).await?;
    let rare = Some(VerdictKind::DataRace);
    let none = async || store.candidates(run, rare, None, PAGE).await;
    row("candidates of a verdict that none has", none).await?;
    row("lineage", async || store.lineage(run, NODES).await).await?;
    let page = store.candidates(run, None, None, 1).await?;
    let baseline = page.candidates[0].id;
    row("baseline", async || engine.candidate(baseline).await).await?;
    let view = store.run(run).await?.ok_or("the run is there")?;
    let best = view.best.ok_or("a candidate was accepted")?.candidate;
    row("best candidate", async || engine.candidate(best).await).await?;
    row("its source", async || store.source(best).await).await?;
    let events = async || store.events_after(run, 0, EVENTS).await;
    row("events, first 200", events).await?;
    row("brief", async || engine.brief(run).await).await?;
    if view.trials > MOST_FOR_INSIGHTS {
        println!("| insights | not measured: grows with the square of the run | |");
        return Ok(());
    }
    row("insights", async || {
        let snapshot = store.snapshot(run).await?;
        let seen = store.seen(run).await?;
        Ok::<_, store::StoreError>(domain::search::insights(&snapshot.entries, &seen))
    })
    .await
}

async fn row<T, E>(
    name: &str,
    answer: impl AsyncFn() -> Result<T, E>,
) -> Result<(), Box<dyn std::error::Error>>
where
    T: Serialize,
    E: std::error::Error + 'static,
{
    let mut bytes = serde_json::to_vec(&answer().await?)?.len();
    let before = Usage::now()?;
    for _ in 0..TIMES {
        bytes = serde_json::to_vec(&answer().await?)?.len();
    }
    let each = Usage::now()?.milliseconds_since(&before) / f64::from(TIMES);
    println!("| {name} | {each:.1} | {:.0} |", bytes as f64 / 1024.0);
    Ok(())
}
