//! Prints the searches of every strategy of the tuner on a recorded space, one JSON value per line:
//! first the list of all configurations, then for every strategy and seed the positions in that list
//! that were asked for, in order. `tests/tuners/run` reads it.
//!
//!     cargo run --release --package domain --example tuners -- FILE SEEDS BUDGET

use std::error::Error;
use std::thread;

use domain::recorded::Recording;
use domain::tuner::{Point, Space, Strategy, Tuner};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let [file, seeds, budget] =
        <[String; 3]>::try_from(std::env::args().skip(1).collect::<Vec<_>>())
            .map_err(|_| "give FILE SEEDS BUDGET")?;
    let (seeds, budget) = (seeds.parse::<u64>()?, budget.parse::<usize>()?);
    let recording = Recording::parse(&file, &std::fs::read_to_string(&file)?)
        .map_err(|problem| problem.to_string())?;
    let space = recording.space();
    let all: Vec<_> = (0..space.len())
        .map(|point| recording.values(point))
        .collect();
    println!("{}", json!(all));
    for strategy in Strategy::ALL {
        for (seed, asked) in searches(&recording, &space, strategy, seeds, budget) {
            println!(
                "{}",
                json!({ "strategy": strategy.as_str(), "seed": seed, "asked": asked })
            );
        }
    }
    Ok(())
}

/// The questions of one strategy for every seed, on all cores.
fn searches(
    recording: &Recording,
    space: &Space,
    strategy: Strategy,
    seeds: u64,
    budget: usize,
) -> Vec<(u64, Vec<Point>)> {
    let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                scope.spawn(move || {
                    let own = (0..seeds).filter(|seed| seed % threads == worker);
                    let search = |seed| (seed, search(recording, space, strategy, seed, budget));
                    own.map(search).collect::<Vec<_>>()
                })
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .flat_map(|found| found.expect("a search does not panic"))
            .collect()
    })
}

fn search(
    recording: &Recording,
    space: &Space,
    strategy: Strategy,
    seed: u64,
    budget: usize,
) -> Vec<Point> {
    let mut tuner = Tuner::new(space, strategy, seed);
    let mut asked = Vec::new();
    while asked.len() < budget
        && let Some(point) = tuner.ask()
    {
        tuner.tell(point, recording.outcome(point));
        asked.push(point);
    }
    asked
}
