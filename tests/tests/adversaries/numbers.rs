//! Adversaries with wrong or imprecise results.

use domain::digest::Digest;
use domain::evaluation::EvaluationStage;
use domain::role::Key;
use domain::verdict::VerdictKind;

use crate::bench::{bench, first_evaluation, read, request};

#[test]
fn b09_shapes_recognised() {
    let bench = bench();
    bench.assert_all_announced(&["b09-shape-of-the-score.cu", "b09-shape-never-shown.cu"]);
    let mut request = bench.request("b09-shape-never-shown.cu", read("b09-shape-never-shown.cu"));
    request.stage = EvaluationStage::Confirmation;
    let confirmation = bench.evaluate(&request);
    assert_eq!(confirmation.verdict.kind(), VerdictKind::IncorrectOutput);
}

/// Candidates that are wrong only where a search does not look: on values that the timed shapes have
/// not met, or on shapes between the listed ones.
#[test]
fn b09_values_and_shapes_that_only_a_promotion_meets() {
    let bench = bench();
    for (task, files) in [
        (
            "softmax-f32",
            [
                "b09-no-maximum-where-timed.cu",
                "b09-zeros-between-the-shapes.cu",
            ]
            .as_slice(),
        ),
        (
            "gemm-f32",
            &["b09-half-range-where-timed.cu", "b09-bias-where-timed.cu"],
        ),
    ] {
        let folder = lab::repository().join("kernels").join(task);
        let task = lab::task_in(&folder).expect("the task reads");
        for file in files {
            let mut request = request(&task, file, read(file));
            let search = bench.evaluate(&request).verdict;
            assert_eq!(search.kind(), VerdictKind::Accepted, "{file}: {search}");
            request.stage = EvaluationStage::Confirmation;
            let confirmation = bench.evaluate(&request);
            let verdict = &confirmation.verdict;
            assert_eq!(
                verdict.kind(),
                VerdictKind::IncorrectOutput,
                "{file}: {verdict}"
            );
            // A condition in the machine code names a shape on which it shows. Wrong values on the
            // timed shape may need the inputs that only a score case gets.
            if ["b09-zeros-between-the-shapes.cu", "b09-bias-where-timed.cu"].contains(file) {
                assert_eq!(confirmation.drawn_shapes, None, "{file}");
            }
        }
    }
}

/// Kernels that give zeros where the shape meets one condition, which holds for one value of a dim or
/// for few. A promotion meets both outcomes of each condition that the machine code evaluates.
#[test]
fn b09_zeros_at_one_value_of_a_dim() {
    let bench = bench();
    let subjects = lab::verdicts::subject::subjects().expect("the tasks read");
    let mut subjects = subjects.into_iter();
    let subject = subjects.find(|subject| subject.name == "softmax-f32");
    let subject = subject.expect("it is one of them");
    let (task, right) = (subject.bundle, &subject.kernels["warp-per-row.cu"]);
    let store = "column] = ";
    let confirmation = |source: String| {
        let mut request = request(&task, "candidate.cu", source);
        request.stage = EvaluationStage::Confirmation;
        bench.evaluate(&request).verdict.kind()
    };
    for condition in ["C == 613", "C % 517 == 5", "R > 1728", "R == 61 && C == 36"] {
        let wrong = right.replace(store, &format!("{store}{condition} ? 0.0f : "));
        assert_ne!(&wrong, right);
        assert_eq!(
            confirmation(wrong),
            VerdictKind::IncorrectOutput,
            "{condition}"
        );
    }
    assert_eq!(confirmation(right.clone()), VerdictKind::Accepted);
}

/// Kernels that are wrong only where one dim is several times its largest listed value, which their task allows. A
/// promotion draws such values of each dim that has a maximum.
#[test]
fn b54_wrong_far_beyond_the_listed_dims() {
    let bench = bench();
    let subjects = lab::verdicts::subject::subjects().expect("the tasks read");
    for (name, file) in [
        ("transpose-f32", "b54-blocks-of-column-36.cu"),
        ("transpose-f32", "b54-rows-beyond-1032.cu"),
        ("transpose-f32", "b54-thread-of-blocks-of-column-13.cu"),
        ("softmax-f32", "b54-columns-beyond-2048.cu"),
        ("mean-f32", "b54-grid-of-1500-rows.cu"),
    ] {
        let subject = subjects.iter().find(|subject| subject.name == name);
        let task = &subject.expect("it is one of them").bundle;
        let mut request = request(task, file, read(file));
        request.stage = EvaluationStage::Confirmation;
        let confirmation = bench.evaluate(&request);
        let verdict = confirmation.verdict;
        let kind = verdict.kind();
        assert_eq!(kind, VerdictKind::IncorrectOutput, "{file}: {verdict}");
    }
    let subject = subjects.iter().find(|subject| subject.name == "mean-f32");
    let subject = subject.expect("it is one of them");
    let right = subject.kernels["block-per-row.cu"].clone();
    let mut request = request(&subject.bundle, "right.cu", right);
    request.stage = EvaluationStage::Confirmation;
    let confirmation = bench.evaluate(&request);
    let verdict = &confirmation.verdict;
    assert_eq!(verdict.kind(), VerdictKind::Accepted, "{verdict}");
    let proved = confirmation.preconditions.expect("it was accepted");
    for (dim, most) in [("R", 4096), ("C", 8192)] {
        assert_eq!(proved.dims[dim].max, most, "{dim}");
        assert_eq!(proved.dims[dim].task_max, None, "{dim}");
    }
}

#[test]
fn b52_rows_that_ordinary_values_do_not_make() {
    let folder = lab::repository().join("kernels/softmax-f32");
    let task = lab::task_in(&folder).expect("the task reads");
    for file in [
        "b52-maximum-from-a-number.cu",
        "b52-maximum-of-bits.cu",
        "b52-rows-of-one-value.cu",
    ] {
        let mut request = request(&task, file, read(file));
        if file == "b52-rows-of-one-value.cu" {
            // The ties that a search draws depend on the version of the task.
            request.stage = EvaluationStage::Confirmation;
        }
        // Large values find a low maximum too, with some keys and versions of the task before the shifted ones.
        let keys = if file == "b52-maximum-from-a-number.cu" {
            8
        } else {
            1
        };
        let mut by_shifted = false;
        for key in 0..keys {
            request.key = Key(Digest::of(format!("search {key}")));
            let verdict = bench().evaluate(&request).verdict;
            let kind = verdict.kind();
            assert_eq!(kind, VerdictKind::IncorrectOutput, "{file}: {verdict}");
            by_shifted = verdict.to_string().contains("shifted");
            if by_shifted {
                break;
            }
        }
        assert!(by_shifted || keys == 1, "{file}");
    }
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
        "b14-bf16-operands.cu",
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
    let usual = first_evaluation().verdict;
    let usual = usual.acceptance().expect("it is accepted");
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
    let usual = first_evaluation();
    assert_eq!(other.verdict, usual.verdict);
    assert_ne!(errors(&other), errors(&usual));
}
