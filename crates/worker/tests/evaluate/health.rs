//! A device that fails its health check: it is quarantined with its reason, the candidate before it
//! is remembered, and an operator takes it back into work.

use domain::digest::Digest;
use domain::evaluation::{EvaluationRequest, EvaluationStage};
use domain::health::{Condition, DeviceRecord};
use domain::verdict::VerdictKind;
use worker::cancel::Cancellation;
use worker::evaluate::{EvaluateError, Evaluator};
use worker::host::{self, Role};

use crate::lab::{Lab, lab, read};

const TASK: &str = "softmax-f32";

fn baseline() -> EvaluationRequest {
    Lab::request(TASK, "baseline.cu", read(TASK, "baseline.cu"))
}

fn confirmation() -> EvaluationRequest {
    EvaluationRequest {
        stage: EvaluationStage::Confirmation,
        ..baseline()
    }
}

fn attempt(
    evaluator: &Evaluator,
    request: &EvaluationRequest,
) -> Result<VerdictKind, EvaluateError> {
    let cancellation = Cancellation::new().unwrap();
    let evaluation = evaluator.evaluate(request, |_| {}, &cancellation)?;
    Ok(evaluation.verdict.kind())
}

fn record(lab: &Lab) -> DeviceRecord {
    serde_json::from_slice(&std::fs::read(lab.health_record()).unwrap()).unwrap()
}

fn plan(call: &str, deed: &str) -> String {
    format!("[[fault]]\ncall = \"{call}\"\nnth = \"every\"\ndo = {deed}\n")
}

#[test]
fn a_device_without_history_is_probed_until_its_record_suffices() {
    let Some(lab) = lab() else { return };
    let cancellation = Cancellation::new().unwrap();
    let host = lab.evaluator().host();
    let found = host.calibrate(&cancellation).unwrap().unwrap();
    assert!(found.copies.len() > 1, "{found:?}");
    assert!(found.copies.iter().all(|speed| *speed > 0.0), "{found:?}");
    assert_eq!(record(&lab).copies, found.copies);
    assert!(record(&lab).is_calibrated());
    // A second time there is nothing to do, in another process neither.
    assert_eq!(host.calibrate(&cancellation).unwrap(), None);

    std::fs::remove_file(lab.health_record()).unwrap();
    let sick = lab.spoiled(&[(Role::Probe, &plan("cuInit", "{ error = 999 }"))]);
    let failed = sick.host().calibrate(&cancellation).unwrap_err();
    assert!(
        matches!(failed, host::HostError::Unusable { .. }),
        "{failed:?}"
    );
}

#[test]
fn a_faulty_device_is_quarantined_until_an_operator_removes_the_record() {
    let Some(lab) = lab() else { return };
    let ways = [
        (
            "cuMemcpyDtoH_v2",
            "{ corrupt = { bytes = 1 } }",
            "does not keep",
        ),
        ("cuLaunchKernel", "{ error = 719 }", "cuLaunchKernel"),
        ("cuMemAlloc_v2", "{ error = 2 }", "cuMemAlloc"),
        ("cuInit", "{ error = 999 }", "cuInit"),
    ];
    for (call, deed, said) in ways {
        // A promotion depends on a confirmation, so that the device is checked before it.
        let sick = lab.spoiled(&[(Role::Probe, &plan(call, deed))]);
        let found = attempt(&sick, &confirmation());
        let Err(EvaluateError::Host(host::HostError::Quarantined { reason, .. })) = &found else {
            panic!("{call}: {found:?}");
        };
        assert!(reason.contains(said), "{call}: {reason}");
        // The quarantine holds for every evaluator of this machine, whatever a probe would report
        // now.
        let found = attempt(lab.evaluator(), &baseline());
        assert!(
            matches!(&found, Err(EvaluateError::Host(fault)) if fault.is_quarantine()),
            "{call}: {found:?}"
        );
        assert!(matches!(
            record(&lab).condition,
            Condition::Quarantined { .. }
        ));
        std::fs::remove_file(lab.health_record()).unwrap();
    }
    assert_eq!(
        attempt(lab.evaluator(), &baseline()).unwrap(),
        VerdictKind::Accepted
    );
}

#[test]
fn a_candidate_that_breaks_two_devices_is_quarantined() {
    let Some(lab) = lab() else { return };
    let runner = plan("cuLaunchKernel", "\"exit\"");
    let probe = plan("cuInit", "{ error = 999 }");
    let breaking = lab.spoiled(&[(Role::Run, &runner), (Role::Probe, &probe)]);
    for _ in 0..2 {
        let found = attempt(&breaking, &baseline());
        assert!(
            matches!(&found, Err(EvaluateError::Host(fault)) if fault.failed_health_check()),
            "{found:?}"
        );
        // An operator removes the record.
        let mut mended = record(&lab);
        mended.clear();
        std::fs::write(lab.health_record(), serde_json::to_vec(&mended).unwrap()).unwrap();
    }
    let found = attempt(lab.evaluator(), &baseline());
    assert!(
        matches!(
            found,
            Err(EvaluateError::Host(
                host::HostError::QuarantinedCandidate { .. }
            ))
        ),
        "{found:?}"
    );
    let other = format!("{}\n// Another text.\n", read(TASK, "baseline.cu"));
    let other = Lab::request(TASK, "other.cu", other);
    assert_eq!(
        attempt(lab.evaluator(), &other).unwrap(),
        VerdictKind::Accepted
    );
    let breaks = record(&lab).breaks;
    assert_eq!(breaks.len(), 1, "{breaks:?}");
    assert!(breaks.keys().all(|candidate| *candidate != Digest::of("")));
}

#[test]
fn a_runner_crash_on_a_healthy_device_leaves_it_in_service() {
    let Some(lab) = lab() else { return };
    let runner = plan("cuLaunchKernel", "\"abort\"");
    let dying = lab.spoiled(&[(Role::Run, &runner)]);
    assert_eq!(
        attempt(&dying, &baseline()).unwrap(),
        VerdictKind::RunnerCrash
    );
    let record = record(&lab);
    assert_eq!(record.condition, Condition::Well);
    assert!(record.breaks.is_empty());
    assert!(record.copies.len() >= 2, "one probe after each death");
}
