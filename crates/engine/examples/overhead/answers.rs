//! Processor time of what the API answers about a long run: the calls of its handlers and the JSON
//! text, without HTTP.

use domain::api::CandidateOrder;
use domain::id::RunId;
use domain::verdict::VerdictKind;
use engine::Engine;
use serde::Serialize;
use store::{CandidateQuery, LineageQuery, RunQuery};

use crate::usage::Usage;

/// Repetitions of each answer; the first, which fills caches, is not counted.
const TIMES: u32 = 3;
/// The largest pages that the API gives.
const PAGE: u32 = 500;
const NODES: u32 = 2000;
const SLICE: u32 = 2400;
const EVENTS: u32 = 200;

/// Prints one row for each answer.
pub async fn measure(engine: &Engine, run: RunId) -> Result<(), Box<dyn std::error::Error>> {
    let store = engine.store();
    println!("\n| answer about that run | processor ms | KiB |");
    println!("|---|---|---|");
    row("run", async || store.run(run).await).await?;
    row("runs", async || store.runs(&RunQuery::default(), 50).await).await?;
    let first = async || store.candidates(run, None, None, PAGE).await;
    row("candidates, first 500", first).await?;
    let rejected = Some(VerdictKind::LaunchRejected);
    let filtered = async || store.candidates(run, rejected, None, PAGE).await;
    row("candidates, first 500 of one verdict", filtered).await?;
    for (name, query) in lists() {
        let list = async || store.list_candidates(run, &query, PAGE).await;
        row(name, list).await?;
    }
    row("lineage", async || store.lineage(run, NODES).await).await?;
    for (name, query) in slices() {
        let slice = async || store.lineage_columns(run, &query, SLICE).await;
        row(name, slice).await?;
    }
    let generations = async || store.lineage_generations(run).await;
    row("lineage by generation", generations).await?;
    row("curve", async || store.curve(run, 400).await).await?;
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
    row("insights", async || {
        let records = store.insight_records(run, NODES).await?;
        Ok::<_, store::StoreError>(domain::search::insights(&records))
    })
    .await
}

/// Lists with filters: each finds nothing, which costs most.
fn lists() -> [(&'static str, CandidateQuery); 4] {
    let all = CandidateQuery::default;
    [
        (
            "candidates of a verdict that none has",
            CandidateQuery {
                verdict: Some(VerdictKind::DataRace),
                ..all()
            },
        ),
        (
            "candidates with a text that none has, first page",
            CandidateQuery {
                text: Some("no such words".to_owned()),
                ..all()
            },
        ),
        (
            "the same, newest first",
            CandidateQuery {
                text: Some("no such words".to_owned()),
                order: CandidateOrder::Newest,
                ..all()
            },
        ),
        (
            "candidates, fastest 500",
            CandidateQuery {
                order: CandidateOrder::Fastest,
                ..all()
            },
        ),
    ]
}

fn slices() -> [(&'static str, LineageQuery); 2] {
    [
        ("lineage in columns, first slice", LineageQuery::default()),
        (
            "lineage in columns, around the first candidate",
            LineageQuery {
                around: Some(1),
                ..LineageQuery::default()
            },
        ),
    ]
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
