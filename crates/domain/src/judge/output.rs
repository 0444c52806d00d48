//! What a comparison with the reference means.

use crate::role::{Distribution, OutputComparison};
use crate::task::{Tolerance, ToleranceClass};
use crate::verdict::{Mismatch, Verdict};

/// A relative L2 error beyond the limit by less than this factor looks like arithmetic of the
/// next lower precision: the limits lie at the geometric mean of honest kernels and such kernels,
/// which are 10 to 60 times apart, and a logic error is further off.
const DOWNGRADE_FACTOR: f64 = 25.0;

/// By how much an element of the next lower precision may exceed its bound: the ratio of the two
/// unit roundoffs.
fn downgrade_ratio(class: ToleranceClass) -> f64 {
    let bits = match class {
        // From 24 bits to the 11 of TF32 and f16.
        ToleranceClass::F32 => 13,
        // From 11 bits to the 8 of bf16.
        ToleranceClass::Tf32 | ToleranceClass::F16OutF32Acc => 3,
        // From 11 and 8 bits to the 4 of fp8 (e4m3).
        ToleranceClass::F16Acc => 7,
        ToleranceClass::Bf16OutF32Acc => 4,
    };
    2_f64.powi(bits)
}

/// The verdict on one output that was compared; none if it is close enough everywhere.
///
/// Every condition is written so that a NaN among the facts fails. An output that is off as a
/// whole by a little, with the right NaN and infinities and with no element far off, is called a
/// precision downgrade; everything else is simply incorrect. Both mean the same for the
/// candidate; the names only help its author.
pub fn comparison(
    facts: &OutputComparison,
    case: &str,
    distribution: Distribution,
    tolerance: &Tolerance,
) -> Option<Verdict> {
    let l2_holds = facts
        .relative_l2
        .is_none_or(|error| error <= tolerance.relative_l2);
    let elements_hold =
        facts.beyond_bound == 0 && facts.worst_ratio.is_none_or(|ratio| ratio <= 1.0);
    let (rule, downgrade) = if facts.elements == 0 {
        ("nothing was compared".to_owned(), false)
    } else if facts.special_mismatches > 0 {
        let rule = format!(
            "{} of {} elements are NaN or infinite where the reference is not, or the other way round",
            facts.special_mismatches, facts.elements
        );
        (rule, false)
    } else if l2_holds && elements_hold {
        return None;
    } else {
        let near = facts
            .worst_ratio
            .is_some_and(|ratio| ratio <= downgrade_ratio(tolerance.class))
            && facts
                .relative_l2
                .is_some_and(|error| error < DOWNGRADE_FACTOR * tolerance.relative_l2);
        (distance(facts, tolerance), near && !l2_holds)
    };
    let mismatch = Mismatch {
        case: case.to_owned(),
        distribution: distribution.as_str().to_owned(),
        tensor: facts.tensor.clone(),
        reason: rule,
        relative_l2: facts.relative_l2,
        allowed_l2: tolerance.relative_l2,
        worst: facts.worst.clone(),
    };
    Some(if downgrade {
        Verdict::PrecisionDowngrade(mismatch)
    } else {
        Verdict::IncorrectOutput(mismatch)
    })
}

fn distance(facts: &OutputComparison, tolerance: &Tolerance) -> String {
    let mut parts = Vec::new();
    if let Some(error) = facts.relative_l2 {
        parts.push(format!(
            "relative L2 error {error:.2e}, allowed {:.2e}",
            tolerance.relative_l2
        ));
    }
    if facts.beyond_bound > 0 {
        parts.push(format!(
            "{} of {} elements beyond their bound",
            facts.beyond_bound, facts.elements
        ));
    }
    if facts.beyond_bound > 0 && facts.worst_ratio.is_none() {
        parts.push("the answer is exact here".to_owned());
    }
    if let Some(ratio) = facts.worst_ratio {
        parts.push(format!("the worst is off by {ratio:.1} times its bound"));
    }
    parts.join("; ")
}
