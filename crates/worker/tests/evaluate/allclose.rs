//! Tasks that state the limits of the team's own test beside the class of tolerance.

use domain::evaluation::EvaluationRequest;
use domain::verdict::{Mismatch, Verdict};

use crate::lab::{Lab, lab};
use crate::paired::{kernel, request};

/// A request of class `tf32`, which allows relative errors of 8e-4, with further lines in `[tolerance]`.
fn allowed(limits: &str, source: &str) -> EvaluationRequest {
    let mut request = request(source);
    let task = request.task.files.get_mut("task.toml").unwrap();
    *task = task.replace("class = \"f32\"", &format!("class = \"tf32\"\n{limits}"));
    request
}

/// Doubles every element. Elements of a magnitude of at least `from` are off by a relative error of 5e-4.
fn inexact(from: f32) -> String {
    kernel(0).replace(
        "2.0f * sum",
        &format!("(fabsf(sum) >= {from:?}f ? 2.001f : 2.0f) * sum"),
    )
}

const LIMITS: &str = "allclose = { atol = 1e-6, rtol = 1e-4 }";

fn mismatch(lab: &Lab, request: &EvaluationRequest) -> Option<Mismatch> {
    match lab.evaluate(request).verdict {
        Verdict::Accepted { .. } => None,
        Verdict::PrecisionDowngrade(mismatch) | Verdict::IncorrectOutput(mismatch) => {
            Some(mismatch)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_output_must_be_inside_the_class_and_inside_the_limits_of_the_own_test() {
    let Some(lab) = lab() else { return };
    let everywhere = inexact(0.0);
    assert!(mismatch(&lab, &allowed("", &everywhere)).is_none());
    let refused = mismatch(&lab, &allowed(LIMITS, &everywhere)).unwrap();
    assert_eq!(refused.distribution, "normal");
    assert!(refused.reason.contains("beyond their bound"), "{refused:?}");
}

#[test]
fn the_limits_of_the_own_test_are_asked_of_normal_inputs_only() {
    let Some(lab) = lab() else { return };
    // No normal value is that large.
    let far_out = inexact(50.0);
    let result = mismatch(&lab, &allowed(LIMITS, &far_out));
    assert!(result.is_none(), "{result:?}");
}
