//! Evaluations on a device without proofs: the repeats and disturbances that replace proofs find
//! errors and reject no correct candidate. Also the checks that only a promotion makes, and the
//! rows about checks that were left out.

use domain::evaluation::{EvaluationRequest, EvaluationStage, NotRun, ProtocolPart};
use domain::seeds::SeedFamily;
use domain::task::Bundle;
use domain::verdict::{Verdict, VerdictKind};
use worker::cancel::Cancellation;
use worker::evaluate::{EvaluateError, Evaluator};
use worker::host::{RepeatPolicy, Role};

use crate::admission::product;
use crate::lab::{Lab, lab};

const DOUBT: RepeatPolicy = RepeatPolicy {
    max_repeats: 4,
    // More elements than any other shape that a confirmation examines.
    large_tensor_elements: 1 << 19,
};

fn request(source: String) -> EvaluationRequest {
    EvaluationRequest {
        task: Bundle { files: product() },
        ..Lab::request("gemm-f32", "candidate.cu", source)
    }
}

fn honest() -> String {
    product()["baseline.cu"].clone()
}

fn evaluate(
    evaluator: &Evaluator,
    request: &EvaluationRequest,
) -> Result<domain::evaluation::Evaluation, EvaluateError> {
    evaluator.evaluate(request, |_| {}, &Cancellation::new().unwrap())
}

fn parts(not_run: &[NotRun]) -> Vec<ProtocolPart> {
    not_run.iter().map(|row| row.part).collect()
}

#[test]
fn disturbances_do_not_reject_a_correct_candidate() {
    let Some(lab) = lab() else { return };
    let doubting = lab.treated_as_unproved(DOUBT);
    let usual = evaluate(lab.evaluator(), &request(honest())).unwrap();
    let disturbed = evaluate(&doubting, &request(honest())).unwrap();
    assert_eq!(disturbed.verdict.kind(), VerdictKind::Accepted);
    assert_eq!(disturbed.findings, []);
    // The launches of the kernels that disturb are not recorded as the candidate's.
    assert_eq!(disturbed.launches, usual.launches);
    assert_eq!(disturbed.not_run, []);
    assert!(
        disturbed.checks.len() > usual.checks.len(),
        "all of the gate"
    );
}

#[test]
fn an_error_of_the_disturbing_kernels_is_a_fault() {
    let Some(lab) = lab() else { return };
    for (call, action) in [
        ("cuMemAllocHost_v2", "{ error = 2 }"),
        ("cuStreamCreate", "{ error = 2 }"),
        ("cuStreamSynchronize", "{ error = 999 }"),
        ("cuFuncSetAttribute", "{ error = 1 }"),
    ] {
        let plan = format!("[[fault]]\ncall = \"{call}\"\nnth = \"every\"\ndo = {action}\n");
        let host = lab.spoiled(&[(Role::Run, &plan)]).host().clone();
        let evaluator = Evaluator::new(host.assumed_unproved(DOUBT)).unwrap();
        match evaluate(&evaluator, &request(honest())) {
            Err(fault) => assert!(!fault.is_cancelled(), "{call}: {fault}"),
            Ok(evaluation) => panic!("{call}: {}", evaluation.verdict),
        }
    }
}

#[test]
fn a_search_does_not_show_inputs_of_its_gate() {
    let Some(lab) = lab() else { return };
    let wrong = honest().replace("= sum;", "= sum + 1;");
    let shown = lab.evaluate(&request(wrong));
    assert_eq!(shown.found_on, Some(SeedFamily::Feedback));
    let right = lab.evaluate(&request(honest()));
    let stages = right.stages.iter().map(|stage| stage.stage.as_str());
    let stages = stages.collect::<Vec<_>>();
    let at = |name: &str| stages.iter().position(|stage| *stage == name).unwrap();
    assert!(at("screen") < at("gate") && at("gate") < at("score"));
}

#[test]
fn a_short_index_is_rejected_on_a_large_tensor_unless_the_baseline_fails_too() {
    let Some(lab) = lab() else { return };
    let doubting = lab.treated_as_unproved(DOUBT);
    // Indices of 19 bits. No condition on the shape alone tells of them.
    let short = honest()
        .replace("a[m * K + k]", "a[(m * K + k) & 0x7ffff]")
        .replace("b[k * N + n]", "b[(k * N + n) & 0x7ffff]")
        .replace("c[m * N + n]", "c[(m * N + n) & 0x7ffff]");
    assert_ne!(short, honest());
    let mut confirmation = request(short.clone());
    confirmation.stage = EvaluationStage::Confirmation;
    let found = evaluate(&doubting, &confirmation).unwrap();
    assert_eq!(found.found_on, Some(SeedFamily::Promotion));
    let Verdict::IncorrectOutput(mismatch) = &found.verdict else {
        panic!("{}", found.verdict);
    };
    assert!(mismatch.case.contains('='), "{mismatch:?}");
    assert!(
        found
            .stages
            .iter()
            .any(|stage| stage.stage == "many elements")
    );

    confirmation
        .task
        .files
        .insert("baseline.cu".to_owned(), short);
    let excused = evaluate(&doubting, &confirmation).unwrap();
    assert_eq!(parts(&excused.not_run), [ProtocolPart::ManyElements]);
    let reason = &excused.not_run[0].reason;
    assert!(reason.contains("baseline fails"), "{reason}");
}

#[test]
fn checks_left_out_of_a_promotion_have_rows() {
    let Some(lab) = lab() else { return };
    let mut champion = request(honest());
    champion.stage = EvaluationStage::Champion;
    let found = lab.evaluate(&champion);
    assert_eq!(found.verdict.kind(), VerdictKind::Accepted);
    assert_eq!(
        parts(&found.not_run),
        [
            ProtocolPart::Repeats,
            ProtocolPart::Draws,
            ProtocolPart::SecondDevice,
            ProtocolPart::ManyElements
        ]
    );
    assert!(found.not_run.iter().all(|row| row.reason.len() > 20));
    // Three copies of a tensor of 2^31 elements do not fit the device.
    let real = lab.treated_as_unproved(RepeatPolicy {
        max_repeats: 1,
        large_tensor_elements: 1 << 31,
    });
    let found = evaluate(&real, &champion).unwrap();
    let many = found.not_run.last().unwrap();
    assert_eq!(many.part, ProtocolPart::ManyElements);
    assert!(many.reason.starts_with("memory: "), "{}", many.reason);
}

/// As on hardware, the write ends the launch; a second process finds the cause.
#[test]
fn a_write_to_a_read_only_input_is_input_mutated() {
    let Some(lab) = lab() else { return };
    let doubting = lab.treated_as_unproved(DOUBT);
    let from = "= sum;";
    let writing = honest().replace(
        from,
        "= sum; if (N <= 16 && m == 0 && n == 0) const_cast<float*>(a)[0] = 7.0f;",
    );
    let wild = honest().replace(from, "= sum; *reinterpret_cast<float*>(64) = 7.0f;");
    let found = evaluate(&doubting, &request(writing)).unwrap();
    let Verdict::InputMutated { tensor } = &found.verdict else {
        panic!("{}", found.verdict);
    };
    assert_eq!(tensor, "a");
    assert!(
        found.findings[0]
            .message
            .contains("mapped for reading only")
    );
    let found = evaluate(&doubting, &request(wild)).unwrap();
    assert_eq!(found.verdict.kind(), VerdictKind::RuntimeFault);
}

#[test]
fn a_driver_without_read_only_mappings_has_a_row_and_the_same_verdict() {
    let Some(lab) = lab() else { return };
    let plan = "[[fault]]\ncall = \"cuMemSetAccess\"\nnth = 2\ndo = { error = 801 }\n";
    let host = lab.spoiled(&[(Role::Run, plan)]).host().clone();
    let evaluator = Evaluator::new(host.assumed_unproved(DOUBT)).unwrap();
    let found = evaluate(&evaluator, &request(honest())).unwrap();
    assert_eq!(found.verdict.kind(), VerdictKind::Accepted);
    assert_eq!(parts(&found.not_run), [ProtocolPart::ReadOnlyInputs]);
}
