//! Drawn verdicts: most kinds, in shares like those of runs with models, and times that fall slowly.

use domain::evaluation::EvaluationRequest;
use domain::finding::{Finding, FindingKind, OtherParty};
use domain::verdict::{Access, Diagnostic, Mismatch, Severity, Verdict, WrongElement};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::lab::{accepted, body, rejected};

/// Time of the baseline, microseconds.
const BASELINE_US: f64 = 100.0;
/// Speedup that a run of 100,000 candidates comes near to, minus one.
const GAIN: f64 = 5.0;

/// The verdict of a request, by the number in the kernel's last line.
pub fn verdict(request: &EvaluationRequest) -> Verdict {
    let number = body(request).strip_prefix("// version ");
    let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else {
        return accepted(BASELINE_US);
    };
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(number) << 32);
    let line = rng.random_range(12..50);
    match rng.random_range(0..100) {
        0..58 => {
            let progress = f64::from(number).ln() / 100_000_f64.ln();
            let spread: f64 = rng.random();
            let speedup = 1.0 + GAIN * progress * (0.2 + 0.8 * spread.sqrt());
            accepted(BASELINE_US / speedup)
        }
        58..70 => Verdict::CompileRejected {
            diagnostics: vec![Diagnostic {
                line: Some(line),
                severity: Severity::Error,
                message: "synthetic: identifier \"tile\" is undefined".to_owned(),
            }],
        },
        70..79 => Verdict::IncorrectOutput(Mismatch {
            case: "only".to_owned(),
            distribution: "normal".to_owned(),
            tensor: "y".to_owned(),
            reason: "synthetic: the relative error exceeds the tolerance".to_owned(),
            relative_l2: Some(0.31),
            allowed_l2: 1e-6,
            worst: Some(WrongElement {
                index: vec![u64::from(number % 8)],
                found: "0.5".to_owned(),
                expected: "3".to_owned(),
            }),
            wrong: None,
        }),
        79..85 => Verdict::DataRace {
            finding: Finding {
                other: Some(OtherParty {
                    block: [0; 3],
                    thread: [33, 0, 0],
                    line: Some(line + 1),
                }),
                ..finding(
                    FindingKind::SharedRace,
                    line,
                    "two threads of a block conflict",
                )
            },
        },
        85..90 => Verdict::OutOfBounds {
            access: Access::Read,
            finding: Some(Finding {
                buffer: Some("y".to_owned()),
                offset: Some(32),
                ..finding(
                    FindingKind::OutOfBoundsRead,
                    line,
                    "a read behind the end of y",
                )
            }),
            reason: "synthetic: a read behind the end of y".to_owned(),
        },
        90..94 => rejected("synthetic: a block of 2048 threads, where the limit is 1024"),
        94..97 => Verdict::Timeout {
            stage: "check".to_owned(),
            finding: None,
        },
        97..99 => Verdict::BarrierError {
            finding: finding(FindingKind::DivergentBarrier, line, "half of a block waits"),
        },
        _ => Verdict::CompileResource {
            resource: "static shared memory".to_owned(),
            limit: 49_152,
            found: Some(65_536),
            message: "synthetic: too much static shared memory".to_owned(),
        },
    }
}

fn finding(kind: FindingKind, line: u32, message: &str) -> Finding {
    Finding {
        kind,
        kernel: "k".to_owned(),
        line: Some(line),
        block: [0; 3],
        thread: [1, 0, 0],
        buffer: None,
        offset: None,
        other: None,
        occurrences: 1,
        message: format!("synthetic: {message}"),
    }
}
