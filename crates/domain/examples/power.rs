//! Prints what the rules of a comparison promise under simulated noise: how often an equal
//! candidate is promoted, what controls would publish of that, and how often a faster one is found.
//!
//! `cargo run --release -p domain --example power [RUNS]`; 200 runs take a few minutes.

use std::error::Error;

use domain::control::ControlTally;
use domain::statistics::simulate::{STATED, SimulatedNoise, stated};
use domain::statistics::{binomial_bounds, mean};
use domain::verdict::Outcome;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

const CANDIDATES: u32 = 500;
const TRIALS: u32 = 400;

fn main() -> Result<(), Box<dyn Error>> {
    let runs: u32 = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 200,
    };
    let harder = [
        stated(0.05),
        SimulatedNoise {
            process: 0.007,
            ..stated(0.01)
        },
        SimulatedNoise {
            outliers: 0.02,
            ..stated(0.01)
        },
        SimulatedNoise {
            drift: 0.05,
            ..stated(0.01)
        },
    ];
    println!("False promotions: {runs} runs of {CANDIDATES} candidates equal to the incumbent.\n");
    println!(
        "| noise | called faster by a screening | promoted | runs with a false promotion, 95% bounds |"
    );
    println!("|---|---|---|---|");
    let rows = STATED.iter().chain(&harder).enumerate();
    let tallies = rows.map(|(row, noise)| (noise, false_promotions(row, noise, runs)));
    let tallies = tallies.collect::<Vec<_>>();
    println!(
        "\nControls: what {CANDIDATES} of them publish, {runs} times; the rate is that of all together.\n"
    );
    println!(
        "| noise | rate of a screening | published: at most, mean | holds | published of promotions: at most, mean |"
    );
    println!("|---|---|---|---|---|");
    for (noise, tallies) in &tallies {
        controls(noise, tallies);
    }
    println!(
        "\nPower: share of {TRIALS} candidates that are promoted, by their true gain; in brackets the mean number of pairs of its screening.\n"
    );
    println!("| noise | 0.5% | 1% | 2% | 3% | 5% |");
    println!("|---|---|---|---|---|---|");
    for (row, noise) in STATED.iter().chain(&harder).enumerate() {
        power(row, noise);
    }
    Ok(())
}

fn rng(table: u64, row: usize, run: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(table << 60 | (row as u64) << 40 | run)
}

fn name(noise: &SimulatedNoise) -> String {
    let mut name = format!(
        "pairs {:.1}%, drift {:.0}%, processes {:.1}%",
        100.0 * noise.pair,
        100.0 * noise.drift,
        100.0 * noise.process
    );
    if noise.outliers > 0.0 {
        name.push_str(&format!(", outliers {:.0}%", 100.0 * noise.outliers));
    }
    name
}

/// An equal candidate is what a control looks at, so that a run of them is a tally of controls.
fn false_promotions(row: usize, noise: &SimulatedNoise, runs: u32) -> Vec<ControlTally> {
    let tallies = (0..runs).map(|run| {
        let mut rng = rng(1, row, u64::from(run));
        ControlTally::of((0..CANDIDATES).map(|_| (noise.control(&mut rng), 1)))
    });
    let tallies = tallies.collect::<Vec<_>>();
    let promoted: u32 = tallies.iter().map(|tally| tally.promoted).sum();
    let spoilt = tallies.iter().filter(|tally| tally.promoted > 0).count();
    let [lower, upper] = binomial_bounds(spoilt as u32, runs, 0.025);
    println!(
        "| {} | {:.3}% | {promoted} | {spoilt} of {runs}: {:.2}% to {:.2}% |",
        name(noise),
        rate(&tallies),
        100.0 * lower,
        100.0 * upper
    );
    tallies
}

/// The share that a screening called faster, in percent.
fn rate(tallies: &[ControlTally]) -> f64 {
    let screened: u32 = tallies.iter().map(|tally| tally.screened).sum();
    let made: u32 = tallies.iter().map(|tally| tally.made).sum();
    100.0 * f64::from(screened) / f64::from(made)
}

fn controls(noise: &SimulatedNoise, tallies: &[ControlTally]) {
    let rate = rate(tallies);
    let bounds = |bound: fn(&ControlTally) -> Option<f64>| {
        tallies.iter().filter_map(bound).collect::<Vec<_>>()
    };
    let screened = bounds(|tally| tally.screened_at_most);
    let promoted = bounds(|tally| tally.promoted_at_most);
    let percent = |bounds: &[f64]| 100.0 * mean(bounds).unwrap_or(f64::NAN);
    let holds = screened
        .iter()
        .filter(|bound| 100.0 * **bound >= rate)
        .count();
    println!(
        "| {} | {:.3}% | {:.2}% | {holds} of {} | {:.2}% |",
        name(noise),
        rate,
        percent(&screened),
        screened.len(),
        percent(&promoted)
    );
}

fn power(row: usize, noise: &SimulatedNoise) {
    let cells = [0.005, 0.01, 0.02, 0.03, 0.05].map(|gain| {
        let mut rng = rng(2, row, (1000.0 * gain) as u64);
        let (mut found, mut pairs) = (0, 0);
        for _ in 0..TRIALS {
            let fate = noise.screened(gain, &mut rng);
            pairs += fate.pairs;
            found +=
                u32::from(fate.screening == Outcome::Faster && noise.confirmed(gain, &mut rng));
        }
        format!(
            "{:.1}% ({:.0})",
            100.0 * f64::from(found) / f64::from(TRIALS),
            pairs as f64 / f64::from(TRIALS)
        )
    });
    println!("| {} | {} |", name(noise), cells.join(" | "));
}
