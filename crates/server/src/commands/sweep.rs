//! `sweep`: the tuner on a recorded space, in place of a device.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use domain::recorded::Recording;
use domain::tuner::{Outcome as Evaluated, Point, Tuner};
use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};

use super::follow::{print, print_json};
use crate::cli::SweepArgs;
use crate::outcome::{Ending, Failure, Outcome};
use crate::terminal;

/// First bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The most bytes of a recording's text.
const MAX_BYTES: u64 = 1 << 30;
/// Characters of a configuration that the table shows.
const CONFIGURATION_WIDTH: usize = 120;

pub(super) fn sweep(args: &SweepArgs) -> Ending {
    if args.budget == 0 {
        return Err(Failure::input(anyhow!(
            "read --budget: 0 evaluations find nothing; give at least 1"
        )));
    }
    let text = read(&args.recorded).map_err(Failure::input)?;
    let name = args.recorded.display().to_string();
    let recording = Recording::parse(&name, &text)
        .map_err(|problem| Failure::input(anyhow!("read the recording {problem}")))?;
    let asked = search(&recording, args);
    if args.json {
        print_json(&summary(&recording, args, &asked))?;
    } else {
        print(&report(&recording, args, &asked))?;
    }
    if let Some(path) = &args.t4 {
        fs::write(path, format!("{}\n", recording.to_t4(&asked)))
            .with_context(|| format!("write {}", path.display()))
            .map_err(Failure::infrastructure)?;
    }
    Ok(Outcome::Accepted)
}

/// The text of a file, decompressed where it is a gzip file.
fn read(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let bytes = fs::read(path).with_context(|| format!("read {shown}"))?;
    if !bytes.starts_with(&GZIP) {
        return String::from_utf8(bytes)
            .map_err(|_| anyhow!("read {shown}: it is neither text in UTF-8 nor a gzip file; give a cache file of Kernel Tuner or a T4 file"));
    }
    let mut text = Vec::new();
    MultiGzDecoder::new(bytes.as_slice())
        .take(MAX_BYTES)
        .read_to_end(&mut text)
        .map_err(|error| {
            anyhow!("decompress {shown}: {error}; the gzip file is cut or damaged, copy it again")
        })?;
    if text.len() as u64 == MAX_BYTES {
        return Err(anyhow!(
            "decompress {shown}: it holds more than 1 GiB; leave out single runs (`times`)"
        ));
    }
    String::from_utf8(text).map_err(|_| anyhow!("read {shown}: its content is not text in UTF-8"))
}

/// The configurations that the strategy asks for, within the budget.
fn search(recording: &Recording, args: &SweepArgs) -> Vec<Point> {
    let space = recording.space();
    let mut tuner = Tuner::new(&space, args.strategy, args.seed);
    let mut asked = Vec::new();
    while asked.len() < args.budget
        && let Some(point) = tuner.ask()
    {
        tuner.tell(point, recording.outcome(point));
        asked.push(point);
    }
    asked
}

/// The counts of a search with the fastest configuration that it found.
fn summary(recording: &Recording, args: &SweepArgs, asked: &[Point]) -> Value {
    let valid = asked
        .iter()
        .filter_map(|point| match recording.outcome(*point) {
            Evaluated::Valid(ms) => Some((*point, ms)),
            Evaluated::Invalid => None,
        });
    let valid = valid.collect::<Vec<_>>();
    let best = valid
        .iter()
        .min_by(|left, right| left.1.total_cmp(&right.1));
    json!({
        "kernel": recording.kernel,
        "device": recording.device,
        "configurations": recording.space().len(),
        "strategy": args.strategy.as_str(),
        "seed": args.seed,
        "evaluations": asked.len(),
        "failed": asked.len() - valid.len(),
        "optimum_ms": recording.optimum_ms(),
        "best": best.map(|(point, ms)| json!({
            "configuration": recording.describe(*point),
            "ms": ms,
        })),
    })
}

/// A line for every evaluation that found a faster configuration, and a summary.
fn report(recording: &Recording, args: &SweepArgs, asked: &[Point]) -> String {
    let optimum = recording.optimum_ms();
    let found = |ms: f64| {
        let share = format!("{:.2}%", 100.0 * optimum / ms);
        (terminal::time(1000.0 * ms), share)
    };
    let headings = [
        "evaluations",
        "recorded time",
        "best found",
        "of optimum",
        "configuration",
    ];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    let (mut best, mut seconds, mut failed) = (f64::INFINITY, 0.0, 0);
    for (at, point) in asked.iter().enumerate() {
        seconds += recording.evaluation_ms(*point) / 1000.0;
        match recording.outcome(*point) {
            Evaluated::Valid(ms) if ms < best => {
                best = ms;
                let (time, share) = found(ms);
                let spent = format!("{seconds:.1} s");
                let configuration =
                    terminal::line(&recording.describe(*point), CONFIGURATION_WIDTH);
                rows.push(vec![
                    (at + 1).to_string(),
                    spent,
                    time,
                    share,
                    configuration,
                ]);
            }
            Evaluated::Valid(_) => {}
            Evaluated::Invalid => failed += 1,
        }
    }
    let named = |name: &Option<String>, otherwise: &str| {
        terminal::line(name.as_deref().unwrap_or(otherwise), 60)
    };
    let title = format!(
        "{} on {}: {} recorded configurations, {} of them failed\n{}, seed {}\n\n",
        named(&recording.kernel, "a kernel without a name"),
        named(&recording.device, "a device without a name"),
        recording.space().len(),
        recording.failed(),
        args.strategy,
        args.seed,
    );
    let summary = if best.is_finite() {
        let (time, share) = found(best);
        format!("best {time}, {share} of the optimum {}", found(optimum).0)
    } else {
        "no configuration that runs was found".to_owned()
    };
    let counts = format!(
        "\n{} evaluations, {failed} of them failed: {summary}\n",
        asked.len()
    );
    title + &terminal::columns(&rows, 0) + &counts
}
