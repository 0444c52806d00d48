//! The corpus on two drivers: the end of each case and a comparison of the results.

use corpus::CASES;
use domain::role::experiment::{CaseRecord, ComparedNumbers, End, ExperimentReply, ReadBack};
use serde::Serialize;
use worker::cancel::Cancellation;
use worker::experiment::{self, ExperimentOutcome};

use super::images::Origin;
use super::{CheckError, CheckedDriver, Options, Part};

/// The driver's errors that a running kernel causes; any other refuses a call.
const KERNEL_FAULTS: std::ops::RangeInclusive<u32> = 700..=719;

/// Returns true if the device stopped the kernel because of an error of the kernel.
pub(super) fn is_stopped(end: &End) -> bool {
    matches!(end, End::Refused { code } if KERNEL_FAULTS.contains(code))
}

/// One case on both drivers.
#[derive(Debug, Serialize)]
pub struct CaseRow {
    /// The case.
    pub case: String,
    /// The file of its kernels.
    pub source: String,
    /// The image that the driver under test loaded.
    pub image: Origin,
    /// True if the case must end stopped with an error, false if it must complete.
    pub must_be_stopped: bool,
    /// The end on the driver under test.
    pub checked: CaseEnd,
    /// The end on the emulated driver.
    pub emulated: CaseEnd,
    /// True if both ended alike. The report counts the others as disagreements.
    pub agree: bool,
    /// True if it ended as it must on both drivers.
    pub right: bool,
    /// Ranges that came back, and those equal to the bit.
    pub reads: Bits,
    /// The largest difference from the reference.
    pub difference: Option<Difference>,
    /// True if a second execution on the driver under test gave other bytes.
    pub varies: bool,
    /// Its launches with their times.
    pub launches: Vec<LaunchTimes>,
}

/// The end of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseEnd {
    /// In a word or two.
    pub how: String,
    /// The first difference, refusal or finding.
    pub message: Option<String>,
}

/// The numbers of equal ranges and elements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Bits {
    /// Ranges that both drivers gave.
    pub ranges: usize,
    /// Those equal to the bit.
    pub identical: usize,
    /// Elements in all.
    pub elements: usize,
    /// Elements that differ.
    pub differing: usize,
}

/// A difference between two drivers' numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The numbers.
    pub what: String,
    /// The largest, absolutely or relative to a number above 1.
    pub worst: f64,
    /// The difference that the case allows, in the same measure.
    pub tolerance: f64,
    /// The larger of both drivers' errors against the reference.
    pub error: f64,
}

/// Times of one launch. They are of two kinds and only ever ranked, each among its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaunchTimes {
    /// The kernel.
    pub kernel: String,
    /// By events on silicon.
    pub measured_us: Option<f64>,
    /// By the time model.
    pub modelled_us: Option<f64>,
}

/// The results of one driver.
struct CaseResult {
    ended: CaseEnd,
    end: Option<End>,
    reply: Option<ExperimentReply>,
    record: Option<CaseRecord>,
}

/// Runs the cases that are wanted on both sides.
pub(crate) fn compare(
    checked: &CheckedDriver,
    emulated: &CheckedDriver,
    options: &Options,
    progress: &dyn Fn(&str),
    cancellation: &Cancellation,
    rows: &mut Vec<CaseRow>,
) -> Result<(), CheckError> {
    for case in CASES {
        if !options.wants(Part::Corpus, case.name) {
            continue;
        }
        let source = corpus::source(case.source).expect("the corpus has every case's source");
        let (major, minor) = checked.host().device().compute_capability;
        if 10 * major + minor < source.least_architecture() {
            progress(&format!(
                "corpus: {} needs sm_{}, left out",
                case.name,
                source.least_architecture()
            ));
            continue;
        }
        progress(&format!("corpus: {}", case.name));
        let (given, image) = run(checked, case, source, cancellation)?;
        let (other, _) = run(emulated, case, source, cancellation)?;
        rows.push(row(case, image, given, other));
    }
    Ok(())
}

fn run(
    driver: &CheckedDriver,
    case: &corpus::Case,
    source: &corpus::Source,
    cancellation: &Cancellation,
) -> Result<(CaseResult, Origin), CheckError> {
    let (image, origin) = driver
        .images
        .image(&driver.evaluator, source, cancellation)?;
    let outcome = experiment::case(driver.host(), case.name, image, cancellation)?;
    let given = match outcome {
        ExperimentOutcome::Reply((reply, record)) => CaseResult {
            ended: CaseEnd {
                how: reply.end.to_string(),
                message: reply.message.clone(),
            },
            end: Some(reply.end.clone()),
            reply: Some(reply),
            record: Some(record),
        },
        ExperimentOutcome::Failed(how) => CaseResult {
            ended: CaseEnd {
                how: "no answer".to_owned(),
                message: Some(how),
            },
            end: None,
            reply: None,
            record: None,
        },
    };
    Ok((given, origin))
}

fn row(case: &corpus::Case, image: Origin, checked: CaseResult, emulated: CaseResult) -> CaseRow {
    let right = |given: &CaseResult| match &given.end {
        Some(End::Completed) => !case.faults,
        Some(end) => case.faults && is_stopped(end),
        None => false,
    };
    let (reads, difference) = match (&checked.record, &emulated.record) {
        (Some(checked), Some(emulated)) => (
            bits(&checked.reads, &emulated.reads),
            difference(&checked.compared, &emulated.compared),
        ),
        _ => (Bits::default(), None),
    };
    CaseRow {
        case: case.name.to_owned(),
        source: case.source.to_owned(),
        image,
        must_be_stopped: case.faults,
        // No answer agrees with nothing, not even with no answer.
        agree: checked.end.is_some() && checked.end == emulated.end,
        right: right(&checked) && right(&emulated),
        reads,
        difference,
        varies: checked.reply.as_ref().is_some_and(|reply| reply.varies),
        launches: times(checked.reply.as_ref(), emulated.reply.as_ref()),
        checked: checked.ended,
        emulated: emulated.ended,
    }
}

fn bits(checked: &[ReadBack], emulated: &[ReadBack]) -> Bits {
    let mut bits = Bits::default();
    for (a, b) in checked.iter().zip(emulated) {
        // Two hexadecimal digits are a byte.
        let digits = 2 * a.element.max(1);
        let elements = a.bytes.len().max(b.bytes.len()).div_ceil(digits);
        let equal = a
            .bytes
            .as_bytes()
            .chunks(digits)
            .zip(b.bytes.as_bytes().chunks(digits))
            .filter(|(a, b)| a == b)
            .count();
        bits.ranges += 1;
        bits.identical += usize::from(a.bytes == b.bytes);
        bits.elements += elements;
        bits.differing += elements - equal;
    }
    bits
}

/// The numbers whose difference takes most of its tolerance.
fn difference(checked: &[ComparedNumbers], emulated: &[ComparedNumbers]) -> Option<Difference> {
    let differences = checked.iter().zip(emulated).map(|(a, b)| {
        let apart = |(a, b): (&u64, &u64)| {
            let (a, b) = (f64::from_bits(*a), f64::from_bits(*b));
            if a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) {
                0.0
            } else {
                (a - b).abs() / b.abs().max(1.0)
            }
        };
        let worst = a.values.iter().zip(&b.values).map(apart);
        Difference {
            what: a.what.clone(),
            worst: worst.max_by(f64::total_cmp).unwrap_or(0.0),
            tolerance: f64::from_bits(a.tolerance),
            error: f64::from_bits(a.worst).max(f64::from_bits(b.worst)),
        }
    });
    let share = |one: &Difference| match one.worst {
        // Without this arm a tolerance of zero would give NaN.
        0.0 => 0.0,
        worst => worst / one.tolerance,
    };
    differences.max_by(|a, b| share(a).total_cmp(&share(b)))
}

fn times(
    checked: Option<&ExperimentReply>,
    emulated: Option<&ExperimentReply>,
) -> Vec<LaunchTimes> {
    let (Some(checked), Some(emulated)) = (checked, emulated) else {
        return Vec::new();
    };
    let pairs = checked.launches.iter().zip(&emulated.launches);
    pairs
        .filter(|(a, b)| a.kernel == b.kernel)
        .map(|(a, b)| LaunchTimes {
            kernel: a.kernel.clone(),
            measured_us: a.event_us,
            modelled_us: b.modelled_us,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(element: usize, bytes: &str) -> ReadBack {
        ReadBack {
            buffer: "out".to_owned(),
            element,
            bytes: bytes.to_owned(),
        }
    }

    #[test]
    fn elements_are_counted_in_their_own_size() {
        let a = [read(2, "0001aabb"), read(1, "ff")];
        let b = [read(2, "0001aabc"), read(1, "ff")];
        let bits = bits(&a, &b);
        assert_eq!((bits.ranges, bits.identical), (2, 1));
        assert_eq!((bits.elements, bits.differing), (3, 1));
    }

    #[test]
    fn the_difference_that_takes_most_of_its_tolerance_is_shown() {
        let numbers = |what: &str, tolerance: f64, value: f64| ComparedNumbers {
            what: what.to_owned(),
            tolerance: tolerance.to_bits(),
            worst: 0.5_f64.to_bits(),
            values: vec![value.to_bits(), f64::NAN.to_bits()],
        };
        let a = [numbers("loose", 1.0, 5.0), numbers("tight", 1e-3, 200.0)];
        let b = [numbers("loose", 1.0, 5.1), numbers("tight", 1e-3, 200.1)];
        let found = difference(&a, &b).unwrap();
        assert_eq!((found.what.as_str(), found.error), ("tight", 0.5));
        assert!((found.worst - 0.1 / 200.1).abs() < 1e-9);
    }

    #[test]
    fn no_answer_agrees_with_nothing() {
        let silent = || CaseResult {
            ended: CaseEnd {
                how: "no answer".to_owned(),
                message: None,
            },
            end: None,
            reply: None,
            record: None,
        };
        let row = row(&CASES[0], Origin::Carried, silent(), silent());
        assert!(!row.agree && !row.right);
    }
}
