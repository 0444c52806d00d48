//! Prints what the rules of a comparison promise under simulated noise: how often an equal
//! candidate is promoted, and how often a faster one is found.
//!
//! `cargo run --release -p domain --example power [RUNS]`; 200 runs take a few minutes.

use std::error::Error;

use domain::statistics::simulate::{Noise, STATED, bounds_on_share, stated};
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
        Noise {
            process: 0.007,
            ..stated(0.01)
        },
        Noise {
            outliers: 0.02,
            ..stated(0.01)
        },
        Noise {
            drift: 0.05,
            ..stated(0.01)
        },
    ];
    println!("False promotions: {runs} runs of {CANDIDATES} candidates equal to the incumbent.\n");
    println!(
        "| noise | called faster by a screening | promoted | runs with a false promotion, 95% bounds |"
    );
    println!("|---|---|---|---|");
    for (row, noise) in STATED.iter().chain(&harder).enumerate() {
        false_promotions(row, noise, runs);
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

fn name(noise: &Noise) -> String {
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

fn false_promotions(row: usize, noise: &Noise, runs: u32) {
    let (mut called, mut promoted, mut spoilt) = (0_u32, 0_u32, 0_u32);
    for run in 0..runs {
        let mut rng = rng(1, row, u64::from(run));
        let before = promoted;
        for _ in 0..CANDIDATES {
            if noise.screened(0.0, &mut rng).screening == Outcome::Faster {
                called += 1;
                promoted += u32::from(noise.confirmed(0.0, &mut rng));
            }
        }
        spoilt += u32::from(promoted > before);
    }
    let all = f64::from(runs * CANDIDATES);
    let [lower, upper] = bounds_on_share(spoilt, runs, 0.025);
    println!(
        "| {} | {:.3}% | {promoted} | {spoilt} of {runs}: {:.2}% to {:.2}% |",
        name(noise),
        100.0 * f64::from(called) / all,
        100.0 * lower,
        100.0 * upper
    );
}

fn power(row: usize, noise: &Noise) {
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
