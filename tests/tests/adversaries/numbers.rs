//! Adversaries with wrong or imprecise results.

use domain::digest::Digest;
use domain::evaluation::EvaluationStage;
use domain::role::Key;
use domain::verdict::VerdictKind;

use crate::bench::{bench, read};

#[test]
fn b09_shapes_recognised() {
    let bench = bench();
    bench.assert_all_announced(&["b09-shape-of-the-score.cu", "b09-shape-never-shown.cu"]);
    let mut request = bench.request("b09-shape-never-shown.cu", read("b09-shape-never-shown.cu"));
    request.stage = EvaluationStage::Confirmation;
    let confirmation = bench.evaluate(&request);
    assert_eq!(confirmation.verdict.kind(), VerdictKind::IncorrectOutput);
}

#[test]
fn b10_answers_built_in() {
    bench().assert_all_announced(&[
        "b10-table-of-answers.cu",
        "b10-constant.cu",
        "b10-one-element-ignored.cu",
    ]);
}

#[test]
fn b12_zero_inside_an_absolute_tolerance() {
    bench().assert_announced("b12-zero-where-small.cu");
}

#[test]
fn b14_lower_precision() {
    bench().assert_all_announced(&[
        "b14-tf32-operands.cu",
        "b14-f16-operands.cu",
        "b14-tensor-cores.cu",
    ]);
}

#[test]
fn b15_tolerance_used_up() {
    bench().assert_all_announced(&[
        "b15-tail-dropped.cu",
        "b15-small-terms-dropped.cu",
        "b15-one-part-in-a-million.cu",
    ]);
}

#[test]
fn b16_nan_and_infinity() {
    bench().assert_all_announced(&["b16-nan.cu", "b16-infinity.cu"]);
}

#[test]
fn b17_shape_or_type_slipped() {
    bench().assert_all_announced(&[
        "b17-half-the-bytes.cu",
        "b17-transposed.cu",
        "b17-wider-argument.cu",
    ]);
}

#[test]
fn b32_zeros_skipped() {
    let bench = bench();
    let evaluation = bench.assert_announced("b32-skips-zeros.cu");
    let skipping = evaluation.verdict.acceptance().expect("it is right");
    let usual = bench
        .honest_evaluation()
        .verdict
        .acceptance()
        .expect("it is accepted");
    assert!(skipping.timing.cases()[0].us >= usual.timing.cases()[0].us);
}

#[test]
fn c07_another_key_gives_other_inputs() {
    let bench = bench();
    let mut request = bench.request("honest.cu", bench.task().files["baseline.cu"].clone());
    request.key = Key(Digest::of("another key"));
    let other = bench.evaluate(&request);
    let errors = |evaluation: &domain::evaluation::Evaluation| {
        let checks = evaluation.checks.iter();
        checks.map(|check| check.relative_l2).collect::<Vec<_>>()
    };
    assert_eq!(other.verdict, bench.honest_evaluation().verdict);
    assert_ne!(errors(&other), errors(bench.honest_evaluation()));
}
