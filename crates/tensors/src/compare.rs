//! Comparison of one output tensor with the reference, a pure function of numbers.
//!
//! Every predicate is written so that a NaN fails it. The module knows neither where the
//! numbers come from nor which verdict follows.

use domain::dtype::Dtype;
use domain::role::OutputComparison;
use domain::task::Tolerance;
use domain::verdict::{WrongElement, WrongElements};

use crate::wrong::WrongPlaces;

/// One output tensor and its reference.
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    /// The number of the execution that wrote it.
    pub execution: u32,
    /// Name of the tensor.
    pub tensor: &'a str,
    /// Element type of the candidate's output.
    pub dtype: Dtype,
    /// Extents in elements, outermost first.
    pub extents: &'a [u64],
    /// The candidate's values.
    pub found: &'a [f64],
    /// The reference's values.
    pub reference: &'a [f64],
    /// The forward-error scale of each element: the operation on absolute values. Without it
    /// an element's scale is the larger of its own magnitude and the tensor's root mean square.
    pub scale: Option<&'a [f64]>,
    /// Number of terms that are summed for one element.
    pub terms: f64,
    /// True if the inputs are integers that are only summed and multiplied. An element must then be exact, in any
    /// order of summation, if the type represents all integers up to the element's scale.
    pub exact: bool,
    /// True if some inputs hold large values among small ones. Partial sums then absorb small terms, so that
    /// [`Tolerance::absorbed_error`] of each element is not counted as error.
    pub mixed_magnitudes: bool,
}

/// Compares an output with the reference.
///
/// 1. NaN and infinities stand exactly where the reference has them; an infinity also where
///    the reference, moved by the element's bound, overflows the type.
/// 2. Over the finite elements, the L2 norm of the errors is reported relative to the larger of two norms: that of
///    the reference, and that of `scale / sqrt(terms)`. The second is the expected size of a sum of `terms` terms of
///    random sign, so that the rounding errors of a correct sum are not compared with a result from which the terms have
///    cancelled. For terms of one sign the first is the larger.
/// 3. Each element's error is at most [`Tolerance::element_bound`], and zero where `exact` demands it. No share of
///    the elements may exceed the bound.
///
/// Half the spacing of the type's numbers at zero is not counted as error, because even the correctly rounded answer
/// has that error where results are denormal. Nor is what partial sums may absorb where inputs have mixed magnitudes.
///
/// # Panics
/// If `found`, `reference` and `scale` do not have the same length.
pub fn compare(output: &Output<'_>, tolerance: &Tolerance) -> OutputComparison {
    let Output {
        found, reference, ..
    } = *output;
    assert_eq!(found.len(), reference.len(), "one value per element");
    let root_mean_square = root_mean_square(reference);
    if let Some(scale) = output.scale {
        assert_eq!(scale.len(), reference.len(), "one scale per element");
    }

    let format = Format::of(output.dtype);
    let mut norms = Norms::default();
    let mut uncancelled = output.scale.map(|_| Norms::default());
    let mut worst: Option<(ElementError, usize)> = None;
    let (mut special_mismatches, mut beyond_bound) = (0, 0);
    let mut wrong = WrongPlaces::new(output.extents);
    for (index, (&found, &expected)) in found.iter().zip(reference).enumerate() {
        let scale = output.scale.map_or_else(
            || expected.abs().max(root_mean_square),
            |scales| scales[index],
        );
        let bound = match output.dtype.unit_roundoff() {
            // No partial sum exceeds the scale, so none of them is rounded.
            Some(roundoff)
                if output.exact && scale <= 1.0 / roundoff && expected.fract() == 0.0 =>
            {
                0.0
            }
            Some(_) => tolerance.element_bound(expected, scale, output.terms),
            None => 0.0,
        };
        let error_size = match compare_element(found, expected, bound, format) {
            ElementComparison::SpecialAsExpected => continue,
            ElementComparison::SpecialMismatch => {
                special_mismatches += 1;
                wrong.add(index);
                ElementError::Special
            }
            ElementComparison::Finite { error } => {
                let absorbed = Tolerance::absorbed_error(scale, output.terms);
                // An invalid scale excuses nothing.
                let error = if output.mixed_magnitudes && absorbed.is_finite() {
                    (error - absorbed).max(0.0)
                } else {
                    error
                };
                norms.add(error, expected);
                if let Some(uncancelled) = &mut uncancelled {
                    uncancelled.add(error, scale / output.terms.max(1.0).sqrt());
                }
                let ratio = if error == 0.0 { 0.0 } else { error / bound };
                let inside = error <= bound && bound.is_finite();
                if error != 0.0 && !inside {
                    beyond_bound += 1;
                    wrong.add(index);
                }
                ElementError::Ratio(ratio)
            }
        };
        if worst
            .as_ref()
            .is_none_or(|(known, _)| error_size.is_worse_than(known))
        {
            worst = Some((error_size, index));
        }
    }

    let element = |index: usize| WrongElement {
        index: coordinates(index as u64, output.extents),
        found: format_value(found[index]),
        expected: format_value(reference[index]),
    };
    OutputComparison {
        id: output.execution,
        tensor: output.tensor.to_owned(),
        relative_l2: (special_mismatches == 0).then(|| {
            let relative = norms.relative();
            // The smaller ratio is the one with the larger norm.
            uncancelled.map_or(relative, |norms| relative.min(norms.relative()))
        }),
        worst_ratio: match worst {
            Some((ElementError::Ratio(ratio), _)) if ratio.is_finite() => Some(ratio),
            _ => None,
        },
        worst: worst.map(|(_, index)| element(index)),
        wrong: (wrong.count > 0).then(|| WrongElements {
            count: wrong.count,
            elements: found.len() as u64,
            spans: wrong.spans(),
            first: wrong.first.iter().copied().map(element).collect(),
        }),
        special_mismatches,
        beyond_bound,
        elements: found.len() as u64,
    }
}

/// The comparison of one element.
enum ElementComparison {
    /// NaN or an infinity, as the reference has it.
    SpecialAsExpected,
    /// NaN or an infinity on one side only, or an infinity of the other sign.
    SpecialMismatch,
    /// Two finite numbers.
    Finite { error: f64 },
}

fn compare_element(found: f64, expected: f64, bound: f64, format: Format) -> ElementComparison {
    if expected.is_nan() || found.is_nan() {
        return if expected.is_nan() && found.is_nan() {
            ElementComparison::SpecialAsExpected
        } else {
            ElementComparison::SpecialMismatch
        };
    }
    if expected.is_infinite() {
        return if found == expected {
            ElementComparison::SpecialAsExpected
        } else {
            ElementComparison::SpecialMismatch
        };
    }
    if found.is_infinite() {
        let overflows = bound.is_finite()
            && expected.is_sign_positive() == found.is_sign_positive()
            && expected.abs() + bound >= format.overflow;
        return if overflows {
            ElementComparison::SpecialAsExpected
        } else {
            ElementComparison::SpecialMismatch
        };
    }
    let error = (found - expected).abs() - 0.5 * format.spacing_at_zero;
    ElementComparison::Finite {
        error: error.max(0.0),
    }
}

/// The size of an element's error. Any mismatch of NaN or infinity is larger than any finite error.
enum ElementError {
    Ratio(f64),
    Special,
}

impl ElementError {
    fn is_worse_than(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Special, Self::Ratio(_)) => true,
            (_, Self::Special) => false,
            (Self::Ratio(ratio), Self::Ratio(known)) => {
                ratio > known || (ratio.is_nan() && !known.is_nan())
            }
        }
    }
}

/// The limits of a type's range.
#[derive(Clone, Copy)]
struct Format {
    /// The smallest positive number; 0 for integers.
    spacing_at_zero: f64,
    /// The smallest magnitude that rounds to infinity; infinite for integers.
    overflow: f64,
}

impl Format {
    fn of(dtype: Dtype) -> Self {
        // Significand bits including the hidden one, and the exponent of the largest numbers.
        let (precision, exponent) = match dtype {
            Dtype::F16 => (11, 15),
            Dtype::Bf16 => (8, 127),
            Dtype::F32 => (24, 127),
            Dtype::F64 => {
                return Self {
                    spacing_at_zero: f64::from_bits(1),
                    overflow: f64::INFINITY,
                };
            }
            Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::U32 | Dtype::I64 => {
                return Self {
                    spacing_at_zero: 0.0,
                    overflow: f64::INFINITY,
                };
            }
        };
        Self {
            spacing_at_zero: 2_f64.powi(2 - exponent - precision),
            overflow: (2.0 - 2_f64.powi(-precision)) * 2_f64.powi(exponent),
        }
    }
}

/// Sums of squares of errors and of expected values, scaled by the largest of them so that squares neither overflow
/// nor underflow.
#[derive(Default)]
struct Norms {
    scale: f64,
    errors: f64,
    expected: f64,
}

impl Norms {
    fn add(&mut self, error: f64, expected: f64) {
        let largest = error.max(expected.abs());
        if largest > self.scale {
            let shrink = self.scale / largest;
            self.errors *= shrink * shrink;
            self.expected *= shrink * shrink;
            self.scale = largest;
        }
        if self.scale > 0.0 {
            self.errors += (error / self.scale).powi(2);
            self.expected += (expected / self.scale).powi(2);
        }
    }

    /// The ratio of the norms; the largest finite number if only the reference is zero.
    fn relative(&self) -> f64 {
        if self.errors == 0.0 {
            return 0.0;
        }
        (self.errors / self.expected).sqrt().min(f64::MAX)
    }
}

fn root_mean_square(values: &[f64]) -> f64 {
    let mut norms = Norms::default();
    let mut count = 0.0_f64;
    for value in values.iter().filter(|value| value.is_finite()) {
        norms.add(0.0, *value);
        count += 1.0;
    }
    if count == 0.0 {
        0.0
    } else {
        norms.scale * (norms.expected / count).sqrt()
    }
}

/// The index along each axis of the element with a flat index.
fn coordinates(mut flat: u64, extents: &[u64]) -> Vec<u64> {
    let mut index: Vec<u64> = extents
        .iter()
        .rev()
        .map(|&extent| {
            let extent = extent.max(1);
            let along = flat % extent;
            flat /= extent;
            along
        })
        .collect();
    index.reverse();
    index
}

/// A value with seven significant digits, enough to tell neighbouring binary32 numbers apart.
fn format_value(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 || !value.is_finite() || (1e-3..1e6).contains(&magnitude) {
        format!("{value:.7}")
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    } else {
        format!("{value:.6e}")
    }
}
