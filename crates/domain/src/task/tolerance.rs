//! Tolerance classes: how far an output may be from the f64 reference on the exact inputs.
//!
//! The limits of relative L2 error are geometric means of what honest kernels and kernels of
//! the next lower precision were simulated to reach on zero-mean inputs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A named class, as task files write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ToleranceClass {
    /// Strict binary32: TF32 or lower is a downgrade.
    #[serde(rename = "f32")]
    F32,
    /// TF32 products allowed.
    #[serde(rename = "tf32")]
    Tf32,
    /// binary16 outputs, binary32 accumulation.
    #[serde(rename = "f16-out-f32-acc")]
    F16OutF32Acc,
    /// binary16 accumulation allowed.
    #[serde(rename = "f16-acc")]
    F16Acc,
    /// bfloat16 outputs, binary32 accumulation.
    #[serde(rename = "bf16-out-f32-acc")]
    Bf16OutF32Acc,
}

/// The limits that follow from a class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Tolerance {
    /// The class.
    pub class: ToleranceClass,
    /// Largest allowed relative L2 error over a tensor.
    pub relative_l2: f64,
    /// Unit roundoff of the output type.
    pub output_roundoff: f64,
    /// Unit roundoff of the accumulation.
    pub accumulation_roundoff: f64,
    /// Factor on the element-wise forward-error bound.
    pub element_factor: f64,
    /// The limits of the team's own test, which each element on normal inputs must meet too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allclose: Option<Allclose>,
}

/// The limits of a comparison like `torch.allclose`: an element may be off by at most
/// `atol + rtol * |r|`, where r is the reference's value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Allclose {
    /// The absolute part, in units of the output.
    pub atol: f64,
    /// The part relative to the reference's value.
    pub rtol: f64,
}

impl ToleranceClass {
    /// The limits of the class.
    pub fn tolerance(self) -> Tolerance {
        let (relative_l2, output, accumulation) = match self {
            Self::F32 => (4e-5, 24, 24),
            Self::Tf32 => (8e-4, 24, 11),
            Self::F16OutF32Acc => (5e-4, 11, 24),
            Self::F16Acc => (1.8e-2, 11, 11),
            Self::Bf16OutF32Acc => (4e-3, 8, 24),
        };
        Tolerance {
            class: self,
            relative_l2,
            output_roundoff: 2_f64.powi(-output),
            accumulation_roundoff: 2_f64.powi(-accumulation),
            element_factor: 4.0,
            allclose: None,
        }
    }
}

impl Tolerance {
    /// The largest allowed error of one element, given the reference value, the forward-error
    /// scale S of that element (the operation on absolute values) and the number of summed
    /// terms. In an f16 kernel the probabilities or products that enter the sum were themselves
    /// rounded to the output's precision, hence the term `u_out` S.
    // Inlined, like `Dtype::unit_roundoff`, because the comparison of outputs calls it for every element.
    ///
    /// [`Self::allclose`] can only make it smaller, so that it excuses nothing which the class forbids.
    #[inline]
    pub fn element_bound(&self, reference: f64, scale: f64, terms: f64) -> f64 {
        let bound = self.element_factor
            * (self.output_roundoff * (reference.abs() + scale)
                + self.accumulation_roundoff * terms.sqrt() * scale);
        match self.allclose {
            // Not `f64::min`, which would drop a NaN.
            Some(Allclose { atol, rtol }) if bound > atol + rtol * reference.abs() => {
                atol + rtol * reference.abs()
            }
            _ => bound,
        }
    }

    /// The tolerance on inputs that the team's own test does not draw. Where results cancel or are huge, the right
    /// rounding of an answer can be off by more than an absolute limit.
    #[must_use]
    pub fn without_allclose(self) -> Self {
        Self {
            allclose: None,
            ..self
        }
    }

    /// The largest error of one element whose binary32 partial sums absorb small terms, given its
    /// forward-error scale S and its number of summed terms K: `2^-24 K S`, the bound that holds for
    /// roundings of any sign (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
    ///
    /// [`Self::element_bound`] grows with the square root of K because roundings of random sign
    /// cancel. Small positive terms that are added to a large partial sum are all rounded down.
    pub fn absorbed_error(scale: f64, terms: f64) -> f64 {
        2_f64.powi(-24) * terms * scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_may_be_off_by_a_few_roundings_and_no_more() {
        let tolerance = ToleranceClass::F16OutF32Acc.tolerance();
        let rounding = 2_f64.powi(-11);
        let bound = tolerance.element_bound(1.0, 1.0, 512.0);
        assert!(bound > 2.0 * rounding && bound < 16.0 * rounding, "{bound}");
    }

    #[test]
    fn the_limits_of_allclose_narrow_a_bound_and_never_widen_it() {
        let class = ToleranceClass::F16OutF32Acc.tolerance();
        let with = |atol, rtol| Tolerance {
            allclose: Some(Allclose { atol, rtol }),
            ..class
        };
        let bound = class.element_bound(2.0, 3.0, 512.0);
        let narrow = with(1e-3, 1e-3);
        assert!((narrow.element_bound(-2.0, 3.0, 512.0) - 3e-3).abs() < 1e-15);
        assert_eq!(with(1.0, 0.0).element_bound(2.0, 3.0, 512.0), bound);
        assert_eq!(narrow.without_allclose(), class);
        assert!(narrow.element_bound(2.0, f64::NAN, 512.0).is_nan());
    }

    #[test]
    fn a_lower_precision_never_has_a_tighter_limit() {
        use ToleranceClass::{Bf16OutF32Acc, F16Acc, F16OutF32Acc, F32, Tf32};
        for (tight, loose) in [
            (F32, Tf32),
            (F16OutF32Acc, F16Acc),
            (F16OutF32Acc, Bf16OutF32Acc),
        ] {
            assert!(tight.tolerance().relative_l2 < loose.tolerance().relative_l2);
        }
    }
}
