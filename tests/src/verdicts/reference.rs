//! Inputs and right answers of every task, in plain Rust and binary64.
//!
//! The error bounds follow the words of `docs/reference/task-format.md`. They are computed here anew, so that a mistake
//! in the evaluator's comparison is not repeated.

use std::collections::BTreeMap;

use super::Draws;

/// Values of the dims by name.
pub type Dims = BTreeMap<String, i64>;

/// Laws of input values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Law {
    /// Normal, deviation 1.
    Normal,
    /// Integers from -2 to 2.
    Integers,
    /// Normal, deviation 100.
    Large,
    /// Normal, deviation 2^-20.
    Small,
    /// 64 with alternating sign plus a normal number.
    Cancelling,
    /// Normal, one in twenty a thousand times larger.
    HeavyTail,
    /// Normal around -200 with deviation 10, one in eight 100 lower.
    Negative,
    /// One integer from -2 to 2.
    Equal,
    /// The position in the tensor modulo 251, in steps of 1/64.
    Positions,
    /// One element of 1.5 among zeros, in tensors that the task is linear in.
    Spike,
    /// Large magnitudes, up to 2^100, in one tensor that the task is linear in.
    Huge,
    /// Normal with one NaN or infinity, where the task passes these on.
    Special,
}

/// Every law.
pub const LAWS: [Law; 12] = [
    Law::Normal,
    Law::Integers,
    Law::Large,
    Law::Small,
    Law::Cancelling,
    Law::HeavyTail,
    Law::Negative,
    Law::Equal,
    Law::Positions,
    Law::Spike,
    Law::Huge,
    Law::Special,
];

/// Element types of the tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// binary32.
    F32,
    /// Signed 8-bit integer.
    I8,
    /// Signed 32-bit integer.
    I32,
}

impl Element {
    /// Bytes of one element.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::I8 => 1,
        }
    }

    /// Appends a value, rounded to the type.
    pub fn encode(self, value: f64, bytes: &mut Vec<u8>) {
        match self {
            Self::F32 => bytes.extend((value as f32).to_le_bytes()),
            Self::I8 => bytes.extend((value.round() as i8).to_le_bytes()),
            Self::I32 => bytes.extend((value.round() as i32).to_le_bytes()),
        }
    }

    /// The values of encoded elements.
    #[must_use]
    pub fn decode(self, bytes: &[u8]) -> Vec<f64> {
        bytes
            .chunks_exact(self.bytes())
            .map(|chunk| match (self, chunk) {
                (Self::F32, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
                (Self::I32, &[a, b, c, d]) => f64::from(i32::from_le_bytes([a, b, c, d])),
                (_, &[a, ..]) => f64::from(a as i8),
                (_, []) => f64::NAN,
            })
            .collect()
    }
}

/// Laws that a task's contract covers, by the name of its folder.
#[must_use]
pub fn covers(task: &str, law: Law) -> bool {
    match law {
        Law::Spike | Law::Huge => matches!(task, "mean-f32" | "transpose-f32" | "gemm-f32"),
        Law::Special => matches!(
            task,
            "mean-f32" | "transpose-f32" | "gemm-f32" | "softmax-f32"
        ),
        _ => true,
    }
}

/// Draws the elements of one input. `chosen` says that this input has what only one of them may have.
#[must_use]
pub fn draw(
    law: Law,
    element: Element,
    elements: usize,
    chosen: bool,
    draws: &mut Draws,
) -> Vec<f64> {
    let special = draws.below(elements);
    let kind = *draws.choose(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    let last = draws.below(2) == 0;
    let values = (0..elements).map(|at| match law {
        Law::Large if chosen => 100.0 * draws.normal(),
        Law::Normal | Law::Large => draws.normal(),
        Law::Integers => draws.below(5) as f64 - 2.0,
        Law::Small if element == Element::F32 => draws.normal() * 2_f64.powi(-20),
        Law::Small => draws.normal(),
        Law::Cancelling if chosen => draws.normal() + if at % 2 == 0 { 64.0 } else { -64.0 },
        Law::Cancelling => draws.normal(),
        Law::HeavyTail => draws.normal() * if draws.below(20) == 0 { 1000.0 } else { 1.0 },
        Law::Negative if chosen => {
            let lower = if draws.below(8) == 0 { 100.0 } else { 0.0 };
            10.0 * draws.normal() - 200.0 - lower
        }
        Law::Negative => draws.normal(),
        Law::Equal => (special % 5) as f64 - 2.0,
        Law::Positions if element == Element::F32 => ((at * 7) % 251) as f64 / 64.0 - 2.0,
        Law::Positions => ((at * 7) % 127) as f64,
        Law::Spike if chosen => {
            let place = if last { elements - 1 } else { special };
            if at == place { 1.5 } else { 0.0 }
        }
        Law::Huge if chosen => (2.0 * draws.unit() - 1.0) * 2_f64.powi(100),
        Law::Special if chosen && at == special => kind,
        Law::Spike | Law::Huge | Law::Special => draws.normal(),
    });
    // A kernel gets values rounded to the tensor's type, so the reference must use these too.
    let mut bytes = Vec::new();
    for value in values {
        element.encode(value, &mut bytes);
    }
    element.decode(&bytes)
}

/// The right answer with the error scale of each element.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Values of the output.
    pub values: Vec<f64>,
    /// The operation on absolute values.
    pub scale: Vec<f64>,
    /// Terms that are summed for one element.
    pub terms: f64,
    /// True if every element of the output is an integer of a type that holds it.
    pub integer: bool,
}

/// Computes the right answer of the task with this folder name.
///
/// # Panics
/// If there is no such task, or an input is missing.
#[must_use]
pub fn answer(task: &str, dims: &Dims, inputs: &[Vec<f64>]) -> Answer {
    let dim = |name: &str| usize::try_from(dims[name]).expect("extents are positive");
    match task {
        "mean-f32" => mean(&inputs[0], dim("C")),
        "softmax-f32" => softmax(&inputs[0], dim("C")),
        "layernorm-f32" => layernorm(&inputs[0], &inputs[1], &inputs[2]),
        "transpose-f32" => transpose(&inputs[0], dim("M"), dim("N")),
        "gemm-f32" => product(&inputs[0], &inputs[1], dim("K"), dim("N")),
        "scan-i8" => scan(&inputs[0], dim("C")),
        "histogram-i32" => histogram(&inputs[0], dim("C")),
        _ => panic!("{task} has no reference"),
    }
}

fn mean(x: &[f64], columns: usize) -> Answer {
    let rows = x.chunks(columns);
    Answer {
        values: rows
            .clone()
            .map(|row| row.iter().sum::<f64>() / columns as f64)
            .collect(),
        scale: rows
            .map(|row| row.iter().map(|x| x.abs()).sum::<f64>() / columns as f64)
            .collect(),
        terms: columns as f64,
        integer: false,
    }
}

fn softmax(x: &[f64], columns: usize) -> Answer {
    let (mut values, mut scale) = (Vec::new(), Vec::new());
    for row in x.chunks(columns) {
        let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = row.iter().map(|x| (x - top).exp()).collect();
        let mass: f64 = weights.iter().sum();
        for (x, weight) in row.iter().zip(weights) {
            let quotient = weight / mass;
            values.push(quotient);
            // The rounding of the difference is multiplied by the exponential.
            scale.push(quotient * (1.0 + (x - top).abs()));
        }
    }
    Answer {
        values,
        scale,
        terms: columns as f64,
        integer: false,
    }
}

fn layernorm(x: &[f64], gain: &[f64], shift: &[f64]) -> Answer {
    let (mut values, mut scale) = (Vec::new(), Vec::new());
    let columns = gain.len() as f64;
    for row in x.chunks(gain.len()) {
        let mean = row.iter().sum::<f64>() / columns;
        let size = row.iter().map(|x| x.abs()).sum::<f64>() / columns;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / columns;
        let deviation = (variance + 1e-5).sqrt();
        for ((x, gain), shift) in row.iter().zip(gain).zip(shift) {
            values.push((x - mean) / deviation * gain + shift);
            scale.push((x.abs() + size) / deviation * gain.abs() + shift.abs());
        }
    }
    Answer {
        values,
        scale,
        terms: columns,
        integer: false,
    }
}

fn transpose(x: &[f64], rows: usize, columns: usize) -> Answer {
    let values: Vec<f64> = (0..columns)
        .flat_map(|column| (0..rows).map(move |row| x[row * columns + column]))
        .collect();
    Answer {
        scale: values.iter().map(|value| value.abs()).collect(),
        values,
        terms: 1.0,
        integer: false,
    }
}

fn product(a: &[f64], b: &[f64], depth: usize, columns: usize) -> Answer {
    let (mut values, mut scale) = (Vec::new(), Vec::new());
    for row in a.chunks(depth) {
        for column in 0..columns {
            let terms = row.iter().zip(b.iter().skip(column).step_by(columns));
            let (mut sum, mut size) = (0.0, 0.0);
            for (a, b) in terms {
                sum += a * b;
                size += (a * b).abs();
            }
            values.push(sum);
            scale.push(size);
        }
    }
    Answer {
        values,
        scale,
        terms: depth as f64,
        integer: false,
    }
}

fn scan(x: &[f64], columns: usize) -> Answer {
    let mut values = Vec::new();
    for row in x.chunks(columns) {
        values.extend(row.iter().scan(0.0, |sum, x| {
            *sum += x;
            Some(*sum)
        }));
    }
    Answer {
        scale: vec![0.0; values.len()],
        values,
        terms: columns as f64,
        integer: true,
    }
}

fn histogram(x: &[f64], columns: usize) -> Answer {
    let mut values = Vec::new();
    for row in x.chunks(columns) {
        let mut counts = [0.0; 64];
        for value in row {
            let bin = (*value as i64).rem_euclid(64);
            counts[usize::try_from(bin).expect("below 64")] += 1.0;
        }
        values.extend(counts);
    }
    Answer {
        scale: vec![0.0; values.len()],
        values,
        terms: columns as f64,
        integer: true,
    }
}

/// Unit roundoff of binary32.
const ROUNDOFF: f64 = 1.0 / 16_777_216.0;
/// The class `f32`'s limit of the relative L2 error.
const RELATIVE: f64 = 4e-5;

/// The error of an output as a multiple of what the task allows: infinite where a NaN or an infinity is not where it
/// should be, or an integer is not exact.
#[must_use]
pub fn error_ratio(found: &[f64], answer: &Answer) -> f64 {
    if found.len() != answer.values.len() {
        return f64::INFINITY;
    }
    let mut worst = 0.0_f64;
    let (mut errors, mut values, mut scales) = (0.0, 0.0, 0.0);
    for ((&found, &expected), &scale) in found.iter().zip(&answer.values).zip(&answer.scale) {
        // binary32 holds nothing larger than its largest number.
        let overflowed = expected.abs() > f64::from(f32::MAX);
        if !expected.is_finite() || !found.is_finite() || overflowed {
            let same = found == expected
                || (found.is_nan() && expected.is_nan())
                || (overflowed && found.is_infinite() && found.signum() == expected.signum());
            if !same {
                return f64::INFINITY;
            }
            continue;
        }
        let error = (found - expected).abs();
        if error == 0.0 {
            continue;
        }
        if answer.integer {
            return f64::INFINITY;
        }
        // The spacing of numbers at zero is no error.
        let error = (error - f64::from(f32::from_bits(1))).max(0.0);
        let scale = scale.max(f64::from(f32::MIN_POSITIVE));
        let bound =
            4.0 * (ROUNDOFF * (expected.abs() + scale) + ROUNDOFF * answer.terms.sqrt() * scale);
        worst = worst.max(error / bound);
        errors += error * error;
    }
    for (expected, scale) in answer.values.iter().zip(&answer.scale) {
        if expected.is_finite() {
            values += expected * expected;
            scales += scale * scale / answer.terms.max(1.0);
        }
    }
    let norm = f64::max(values, scales).sqrt();
    if errors > 0.0 && norm.is_finite() {
        worst = worst.max(errors.sqrt() / norm / RELATIVE);
    }
    worst
}
