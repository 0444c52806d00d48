//! Judges outputs by their comparison with the reference.

use super::execution::unravel_index;
use crate::role::{Distribution, OutputComparison, TensorData};
use crate::task::{TensorPart, Tolerance, ToleranceClass};
use crate::verdict::{Mismatch, Verdict, WrongElement};

/// The factor by which the relative L2 error of arithmetic in a lower precision may exceed the limit.
/// The limits lie at the geometric mean of honest kernels and kernels of the next lower precision,
/// which are 10 to 60 times apart, and a logic error is further off. Below strict f32 there are two
/// precisions that kernels round their operands to: f16 and TF32 with 11 bits, and bf16 with 8, whose
/// error is eight times theirs.
fn downgrade_factor(class: ToleranceClass) -> f64 {
    match class {
        ToleranceClass::F32 => 200.0,
        ToleranceClass::Tf32
        | ToleranceClass::F16OutF32Acc
        | ToleranceClass::F16Acc
        | ToleranceClass::Bf16OutF32Acc => 25.0,
    }
}

/// The factor by which an element of the next lower precision may exceed its bound: the ratio of
/// the two unit roundoffs.
fn downgrade_ratio(class: ToleranceClass) -> f64 {
    let bits = match class {
        // From 24 bits to the 8 of bf16, past the 11 of TF32 and f16.
        ToleranceClass::F32 => 16,
        // From 11 bits to the 8 of bf16.
        ToleranceClass::Tf32 | ToleranceClass::F16OutF32Acc => 3,
        // From 11 and 8 bits to the 4 of fp8 (e4m3).
        ToleranceClass::F16Acc => 7,
        ToleranceClass::Bf16OutF32Acc => 4,
    };
    2_f64.powi(bits)
}

/// An output that was compared, and what its inputs were.
#[derive(Debug, Clone, Copy)]
pub struct ComparedOutput<'a> {
    /// The comparison.
    pub facts: &'a OutputComparison,
    /// The case.
    pub case: &'a str,
    /// The inputs.
    pub distribution: Distribution,
}

/// Returns true if an output is within the tolerance everywhere. Every condition is written so that
/// a NaN among the facts fails.
pub fn is_within_tolerance(facts: &OutputComparison, tolerance: &Tolerance) -> bool {
    facts.elements > 0 && facts.special_mismatches == 0 && norm_holds(facts, tolerance) && {
        facts.beyond_bound == 0 && facts.worst_ratio.is_none_or(|ratio| ratio <= 1.0)
    }
}

fn norm_holds(facts: &OutputComparison, tolerance: &Tolerance) -> bool {
    facts
        .relative_l2
        .is_none_or(|error| error <= tolerance.relative_l2)
}

/// The verdict on the outputs of one stage; none if all are close enough.
///
/// Outputs that are off by a little, with the right NaN and infinities and with no element far
/// off, are called a precision downgrade; everything else is simply incorrect. Both mean the same
/// for the candidate; the names only help its author. Which it is, is decided on all outputs that
/// are off together: what rounding does to a single element is a matter of the draw, and the
/// norm over thousands is not.
pub fn judge_outputs(compared: &[ComparedOutput<'_>], tolerance: &Tolerance) -> Option<Verdict> {
    let off = compared
        .iter()
        .filter(|one| !is_within_tolerance(one.facts, tolerance))
        .collect::<Vec<_>>();
    if is_downgrade(&off, tolerance) {
        // The most elements say the most about rounding.
        let telling = off.iter().max_by_key(|one| one.facts.elements)?;
        return Some(Verdict::PrecisionDowngrade(mismatch(telling, tolerance)));
    }
    let first = off.first()?;
    Some(Verdict::IncorrectOutput(mismatch(first, tolerance)))
}

fn is_downgrade(off: &[&ComparedOutput<'_>], tolerance: &Tolerance) -> bool {
    let near = |one: &&ComparedOutput<'_>| {
        let ratio = one.facts.worst_ratio;
        one.facts.special_mismatches == 0
            && ratio.is_some_and(|ratio| ratio <= downgrade_ratio(tolerance.class))
    };
    off.iter().all(near)
        && pooled(off).is_some_and(|error| {
            error > tolerance.relative_l2
                && error < downgrade_factor(tolerance.class) * tolerance.relative_l2
        })
}

/// The relative L2 error over several outputs, as if their elements were of one size; none where
/// one of them has none.
fn pooled(compared: &[&ComparedOutput<'_>]) -> Option<f64> {
    let (mut squares, mut elements) = (0.0, 0.0);
    for one in compared {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a weight, and tensors have fewer than 2^53 elements"
        )]
        let weight = one.facts.elements as f64;
        squares += weight * one.facts.relative_l2?.powi(2);
        elements += weight;
    }
    (elements > 0.0).then(|| (squares / elements).sqrt())
}

fn mismatch(compared: &ComparedOutput<'_>, tolerance: &Tolerance) -> Mismatch {
    let facts = compared.facts;
    let reason = if facts.elements == 0 {
        "nothing was compared".to_owned()
    } else if facts.special_mismatches > 0 {
        format!(
            "{} of {} elements are NaN or infinite where the reference is not, or the other way round",
            facts.special_mismatches, facts.elements
        )
    } else {
        distance(facts, tolerance)
    };
    Mismatch {
        case: compared.case.to_owned(),
        distribution: compared.distribution.as_str().to_owned(),
        tensor: facts.tensor.clone(),
        reason,
        relative_l2: facts.relative_l2,
        allowed_l2: tolerance.relative_l2,
        worst: facts.worst.clone(),
        wrong: facts.wrong.clone(),
    }
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

/// The verdict on two executions whose inputs differ in one element only, for one output: what
/// cannot depend on that element must have the same bytes. None if it has.
///
/// # Panics
/// If the outputs have different sizes, or no whole number of elements of `tensor`.
pub fn judge_dependence(
    struck: &str,
    tensor: &TensorData,
    case: &str,
    reached: &[TensorPart],
    [before, after]: [&[u8]; 2],
    tolerance: &Tolerance,
) -> Option<Verdict> {
    assert_eq!(before.len(), after.len(), "one output, executed twice");
    let width = usize::try_from(tensor.dtype.bytes()).expect("a few bytes");
    let pairs = before.chunks_exact(width).zip(after.chunks_exact(width));
    let mut strangers = pairs
        .zip(0_u64..)
        .filter(|((before, after), _)| before != after)
        .map(|(_, flat)| unravel_index(flat, &tensor.extents))
        .filter(|index| !reached.iter().any(|part| contains(part, index)));
    let first = strangers.next()?;
    let others = strangers.count();
    Some(Verdict::IncorrectOutput(Mismatch {
        case: case.to_owned(),
        distribution: Distribution::Normal.as_str().to_owned(),
        tensor: tensor.name.clone(),
        reason: format!(
            "one element of {struck} was changed, and with it {} elements that do not depend on it",
            1 + others
        ),
        relative_l2: None,
        allowed_l2: tolerance.relative_l2,
        worst: Some(WrongElement {
            index: first,
            found: "another value".to_owned(),
            expected: "the same as before".to_owned(),
        }),
        wrong: None,
    }))
}

fn contains(part: &TensorPart, index: &[u64]) -> bool {
    part.len() == index.len()
        && part
            .iter()
            .zip(index)
            .all(|(only, at)| only.is_none_or(|only| only == *at))
}
