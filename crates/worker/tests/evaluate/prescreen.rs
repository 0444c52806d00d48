//! The pre-screen on the emulated device before a device without proofs is used, and candidates on
//! which it cannot decide. Both are the emulated device; one of them is treated as a device without
//! proofs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage, ProtocolPart};
use domain::finding::FindingKind;
use domain::seeds::SeedFamily;
use domain::task::Bundle;
use domain::verdict::VerdictKind;
use worker::cancel::Cancellation;
use worker::evaluate::evidence::Evidence;
use worker::evaluate::{Depth, Evaluator};
use worker::host::{Host, Prescreener, RepeatPolicy, Role, Settings};
use worker::preflight::{self, Status};

use crate::admission::product;
use crate::lab::{Lab, lab};

const DOUBT: RepeatPolicy = RepeatPolicy {
    max_repeats: 1,
    // More elements than any shape of the task has.
    large_tensor_elements: 1 << 62,
};
const STAGE: &str = "pre-screen";

fn request(source: &str) -> EvaluationRequest {
    EvaluationRequest {
        task: Bundle { files: product() },
        ..Lab::request("gemm-f32", "candidate.cu", source.to_owned())
    }
}

fn honest() -> String {
    product()["baseline.cu"].clone()
}

/// The correct kernel after some other statements.
fn beginning_with(statements: &str) -> String {
    let (from, to) = ("const int n =", format!("{statements} const int n ="));
    let changed = honest().replace(from, &to);
    assert_ne!(changed, honest());
    changed
}

fn adversary(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/adversaries");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn evaluate(evaluator: &Evaluator, request: &EvaluationRequest) -> Evaluation {
    let cancellation = Cancellation::new().unwrap();
    evaluator.evaluate(request, |_| {}, &cancellation).unwrap()
}

/// A device without proofs behind this pre-screener.
fn behind(lab: &Lab, prescreener: Prescreener) -> Evaluator {
    let host = lab.evaluator().host().clone();
    Evaluator::new(host.assumed_unproved(DOUBT).prescreened_by(prescreener)).unwrap()
}

fn stages(evaluation: &Evaluation) -> Vec<&str> {
    let stages = evaluation.stages.iter();
    stages.map(|stage| stage.stage.as_str()).collect()
}

/// The reason why the pre-screen was left out or ended early; `None` if it was complete.
fn cut(evaluation: &Evaluation) -> Option<&str> {
    let mut rows = evaluation.not_run.iter();
    let row = rows.find(|row| row.part == ProtocolPart::Prescreen);
    row.map(|row| row.reason.as_str())
}

#[test]
fn a_broken_rule_is_found_before_the_device_is_touched() {
    let Some(lab) = lab() else { return };
    let doubting = lab.treated_as_unproved(DOUBT);
    // Reads memory that was never written, and is right whatever it holds.
    let lucky = beginning_with(
        "__shared__ volatile float stale[256]; if (stale[threadIdx.x] == 12345.0f) return;",
    );
    for (name, source, expected, found) in [
        (
            "unwritten shared memory without consequence",
            lucky,
            VerdictKind::UninitDependent,
            FindingKind::Uninitialised,
        ),
        (
            "unwritten shared memory",
            adversary("b23-unwritten-shared.cu"),
            VerdictKind::UninitDependent,
            FindingKind::Uninitialised,
        ),
        (
            "unwritten workspace",
            adversary("b04-unwritten-workspace.cu"),
            VerdictKind::UninitDependent,
            FindingKind::Uninitialised,
        ),
        (
            "race",
            adversary("b18-missing-barrier.cu"),
            VerdictKind::DataRace,
            FindingKind::SharedRace,
        ),
        (
            "read behind an input",
            adversary("b22-read-behind.cu"),
            VerdictKind::OutOfBounds,
            FindingKind::OutOfBoundsRead,
        ),
        (
            "wide loads",
            adversary("b42-wide-loads.cu"),
            VerdictKind::RuntimeFault,
            FindingKind::Misaligned,
        ),
    ] {
        let evaluation = evaluate(&doubting, &request(&source));
        let verdict = &evaluation.verdict;
        eprintln!("{name}: {verdict}");
        assert_eq!(verdict.kind(), expected, "{name}: {verdict}");
        assert_eq!(verdict.finding().unwrap().kind, found, "{name}");
        assert!(verdict.line().is_some(), "{name}");
        assert_eq!(evaluation.findings[0].kind, found, "{name}");
        assert_eq!(stages(&evaluation).last(), Some(&STAGE), "{name}");
        assert_eq!(evaluation.device, None, "{name}: it was not touched");
        assert_eq!(evaluation.found_on, Some(SeedFamily::Feedback), "{name}");
        assert!(evaluation.may_be_shown(), "{name}");
        let looked = evaluation.prescreen.as_ref().unwrap();
        assert_eq!(&looked.device, lab.evaluator().host().device(), "{name}");
        assert!(!looked.executions.is_empty(), "{name}");

        // The verdict is the same where the device that decides proves it.
        let judged = lab.evaluate(&request(&source));
        assert_eq!(
            judged.verdict.kind(),
            expected,
            "{name}: {}",
            judged.verdict
        );
        assert_eq!(judged.prescreen, None, "{name}: it needs nobody before it");
    }
}

#[test]
fn a_write_to_an_input_is_found_before_the_device_is_touched() {
    let Some(lab) = lab() else { return };
    let writing = honest().replace(
        "= sum;",
        "= sum; if (M == 1) const_cast<float*>(a)[0] = 7.0f;",
    );
    let evaluation = evaluate(&lab.treated_as_unproved(DOUBT), &request(&writing));
    let verdict = &evaluation.verdict;
    assert_eq!(verdict.kind(), VerdictKind::InputMutated, "{verdict}");
    assert_eq!(stages(&evaluation).last(), Some(&STAGE));
    assert_eq!(evaluation.device, None, "it was not touched");
    let judged = lab.evaluate(&request(&writing)).verdict;
    assert_eq!(judged.kind(), VerdictKind::InputMutated, "{judged}");
}

#[test]
fn a_replay_is_pre_screened_too() {
    let Some(lab) = lab() else { return };
    let doubting = lab.treated_as_unproved(DOUBT);
    let evaluation = evaluate(&doubting, &request(&adversary("b18-missing-barrier.cu")));
    let data = doubting.host().data();
    let found = Evidence::open(data, evaluation.evidence.unwrap()).unwrap();
    assert_eq!(found.evaluation.prescreen, evaluation.prescreen);
    assert!(found.differences(doubting.host()).is_empty());
    let key = found.read_key(data).unwrap();
    let again = evaluate(&doubting, &found.request(key));
    assert_eq!(again.verdict, evaluation.verdict);
    assert_eq!(again.prescreen, evaluation.prescreen);

    let nobody = Prescreener {
        device: Err("there is none".to_owned()),
        ..lab.prescreener()
    };
    let elsewhere = behind(&lab, nobody);
    let [difference] = &found.differences(elsewhere.host())[..] else {
        panic!("a verdict from there would prove nothing");
    };
    assert!(difference.starts_with("pre-screen: "), "{difference}");
}

/// A card tells no cause of a time. The emulated device beside it, which is the same device here, does.
#[test]
fn the_time_of_a_kernel_that_others_are_bred_from_is_explained() {
    let Some(lab) = lab() else { return };
    let device = lab.prescreener();
    let host = lab.evaluator().host().clone().assumed_unproved(DOUBT);
    let host = host.prescreened_by(device).with_explained_times();
    let found = evaluate(&Evaluator::new(host).unwrap(), &request(&honest()));
    assert!(stages(&found).contains(&"explain"), "{:?}", stages(&found));
    let explained = found.explanation.expect("it is accepted");
    let accepted = found.verdict.acceptance().expect("it is right");
    assert_eq!(explained.timing, accepted.timing);
    assert_eq!(explained.launches, found.launches);
    let modelled = evaluate(lab.evaluator(), &request(&honest()));
    assert!(modelled.hottest_lines.is_some());
    assert_eq!(explained.hottest_lines, modelled.hottest_lines);

    let wrong = honest().replace("+=", "-=");
    assert_ne!(wrong, honest());
    let host = lab.treated_as_unproved(DOUBT).host().clone();
    let strict = Evaluator::new(host.with_explained_times()).unwrap();
    assert_eq!(evaluate(&strict, &request(&wrong)).explanation, None);
    let unexplained = evaluate(&lab.treated_as_unproved(DOUBT), &request(&honest()));
    assert_eq!(unexplained.explanation, None);
}

#[test]
fn a_partial_evaluation_has_the_pre_screen_and_why_it_was_cut_short() {
    let Some(lab) = lab() else { return };
    let look = |evaluator: &Evaluator| {
        let cancellation = Cancellation::new().unwrap();
        let request = request(&honest());
        evaluator
            .evaluate_partially(&request, Depth::Test, |_| {}, &cancellation)
            .unwrap()
    };
    let whole = look(&lab.treated_as_unproved(DOUBT));
    let made = whole.prescreen.expect("a pre-screen was made");
    assert_eq!(made.executions.len(), made.planned as usize);
    assert_eq!(whole.not_run, []);

    let nobody = Prescreener {
        device: Err("there is none".to_owned()),
        ..lab.prescreener()
    };
    let without = look(&behind(&lab, nobody));
    assert_eq!(without.prescreen, None);
    let parts = without.not_run.iter().map(|row| row.part);
    assert_eq!(parts.collect::<Vec<_>>(), [ProtocolPart::Prescreen]);
}

#[test]
fn correct_candidates_pass_and_the_record_lists_the_executions() {
    let Some(lab) = lab() else { return };
    let doubting = lab.treated_as_unproved(DOUBT);
    let mut asked = request(&honest());
    let mut planned = Vec::new();
    for stage in [EvaluationStage::Search, EvaluationStage::Confirmation] {
        asked.stage = stage;
        let evaluation = evaluate(&doubting, &asked);
        let verdict = &evaluation.verdict;
        assert_eq!(verdict.kind(), VerdictKind::Accepted, "{verdict}");
        assert_eq!(cut(&evaluation), None);
        let order = stages(&evaluation);
        let at = |name: &str| order.iter().position(|stage| *stage == name).unwrap();
        assert!(
            at("compile") < at(STAGE) && at(STAGE) < at("smoke"),
            "{order:?}"
        );
        let looked = evaluation.prescreen.unwrap();
        assert_eq!(looked.executions.len(), looked.planned as usize);
        assert_eq!(looked.executions[0].case, "single", "the smallest first");
        assert!(looked.executions.iter().any(|one| one.rescheduled));
        let held_out = looked.executions.iter().any(|one| one.case == "hidden");
        assert_eq!(held_out, stage == EvaluationStage::Confirmation);
        planned.push(looked.planned);
    }
    assert!(planned[0] < planned[1], "{planned:?}");
}

/// Errors of arithmetic, too much work, and instructions that the emulated device lacks are left to
/// the device that decides.
#[test]
fn a_result_that_proves_nothing_is_left_to_the_device() {
    let Some(lab) = lab() else { return };
    let doubting = lab.treated_as_unproved(DOUBT);
    for (name, source, expected, reason) in [
        (
            "a wrong answer",
            honest().replace("= sum;", "= sum + 1;"),
            VerdictKind::IncorrectOutput,
            None,
        ),
        (
            "a trap",
            beginning_with("__trap();"),
            VerdictKind::RuntimeFault,
            Some("was ended by the kernel itself"),
        ),
        (
            "a loop without an end",
            beginning_with("while (clock64()) {}"),
            VerdictKind::ExcessiveEffort,
            Some("thread instructions"),
        ),
        (
            "an instruction that is not emulated",
            beginning_with("asm volatile(\"discard.global.L2 [%0], 128;\" :: \"l\"(c));"),
            VerdictKind::Unsupported,
            Some("lacks discard"),
        ),
    ] {
        let evaluation = evaluate(&doubting, &request(&source));
        let verdict = &evaluation.verdict;
        eprintln!("{name}: {verdict}, {:?}", cut(&evaluation));
        assert_eq!(verdict.kind(), expected, "{name}: {verdict}");
        assert!(stages(&evaluation).contains(&"smoke"), "{name}");
        assert!(evaluation.device.is_some(), "{name}");
        let found = cut(&evaluation).unwrap_or_default();
        assert_eq!(found.is_empty(), reason.is_none(), "{name}: {found}");
        assert!(
            found.contains(reason.unwrap_or_default()),
            "{name}: {found}"
        );
    }
}

#[test]
fn a_pre_screen_is_bounded_and_its_findings_until_then_count() {
    let Some(lab) = lab() else { return };
    let hurried = behind(
        &lab,
        Prescreener {
            cap: Duration::from_secs(1),
            ..lab.prescreener()
        },
    );
    // A single thread takes many seconds to use up the instructions that a launch may execute.
    let slow = beginning_with(
        "if (M == 32 && threadIdx.x + threadIdx.y + blockIdx.x + blockIdx.y == 0) while (clock64()) {}",
    );
    let evaluation = evaluate(&hurried, &request(&slow));
    let reason = cut(&evaluation).unwrap().to_owned();
    assert!(reason.contains("its 1 s were over"), "{reason}");
    let looked = evaluation.prescreen.unwrap();
    assert!(reason.starts_with(&format!("after {} of", looked.executions.len())));
    assert!(looked.executions.iter().any(|one| one.case == "odd"));
    assert!(looked.executions.iter().all(|one| one.case != "square"));
    assert_ne!(evaluation.verdict.kind(), VerdictKind::Accepted);
    assert!(evaluation.device.is_some(), "the device judges it");
}

#[test]
fn a_machine_without_an_emulated_device_has_a_row_and_the_same_verdict() {
    let Some(lab) = lab() else { return };
    let nobody = Prescreener {
        device: Err("find a CUDA driver: it is not installed".to_owned()),
        ..lab.prescreener()
    };
    let spoiled = |call: &str, deed: &str| {
        let plan = format!("[[fault]]\ncall = \"{call}\"\nnth = 2\ndo = {deed}\n");
        lab.spoiled(&[(Role::Run, &plan)])
    };
    let with = |evaluator: Evaluator| Prescreener {
        device: Ok(Arc::new(evaluator.host().clone())),
        ..lab.prescreener()
    };
    for (prescreener, made, expected) in [
        (nobody, "there is no ", "emulated device on this machine"),
        (
            with(spoiled("cuMemAlloc_v2", "{ error = 2 }")),
            "after 0 of ",
            "case single does not run on",
        ),
        (
            with(spoiled("cuModuleUnload", "{ error = 1 }")),
            "after 1 of ",
            "its process could not work",
        ),
        (
            with(spoiled("cuLaunchKernel", "\"abort\"")),
            "after 1 of ",
            "its process",
        ),
    ] {
        let evaluation = evaluate(&behind(&lab, prescreener), &request(&honest()));
        let verdict = &evaluation.verdict;
        assert_eq!(verdict.kind(), VerdictKind::Accepted, "{verdict}");
        let reason = cut(&evaluation).unwrap();
        assert!(reason.starts_with(made), "{reason}");
        assert!(reason.contains(expected), "{reason}");
        assert!(!reason.contains('/'), "a path of this machine: {reason}");
    }
}

/// Used where the drivers are compared with each other.
#[test]
fn a_device_can_judge_without_a_pre_screen() {
    let Some(lab) = lab() else { return };
    let host = lab
        .treated_as_unproved(DOUBT)
        .host()
        .clone()
        .without_prescreen();
    let evaluator = Evaluator::new(host).unwrap();
    let evaluation = evaluate(&evaluator, &request(&adversary("b18-missing-barrier.cu")));
    assert_eq!(evaluation.verdict.kind(), VerdictKind::DataRace);
    assert_eq!(evaluation.prescreen, None);
    assert_eq!(cut(&evaluation), None);
    assert!(evaluation.device.is_some());
}

/// A card that is newer than every emulated device; code compiled for it is executed all the same.
#[test]
fn an_older_device_pre_screens_code_for_a_newer_one() {
    let Some(lab) = lab() else { return };
    let mut settings = Settings::from_environment(lab.evaluator().host().data()).unwrap();
    settings.emulate = true;
    settings.emulated_device = Some("a100".to_owned());
    let older = Host::discover(settings, &Cancellation::new().unwrap()).unwrap();
    assert!(older.device().compute_capability < lab.evaluator().host().device().compute_capability);
    let evaluator = behind(
        &lab,
        Prescreener {
            device: Ok(Arc::new(older.clone())),
            ..lab.prescreener()
        },
    );
    let honest = evaluate(&evaluator, &request(&honest()));
    assert_eq!(
        honest.verdict.kind(),
        VerdictKind::Accepted,
        "{}",
        honest.verdict
    );
    assert_eq!(cut(&honest), None);
    assert_eq!(&honest.prescreen.unwrap().device, older.device());
    let racing = evaluate(&evaluator, &request(&adversary("b18-missing-barrier.cu")));
    assert_eq!(racing.verdict.kind(), VerdictKind::DataRace);
    assert_eq!(stages(&racing).last(), Some(&STAGE));
}

#[test]
fn preflight_names_the_pre_screener() {
    let Some(lab) = lab() else { return };
    let cancellation = Cancellation::new().unwrap();
    let found = |evaluator: &Evaluator| {
        let checks = preflight::run_checks(evaluator.host(), &cancellation);
        checks.into_iter().find(|check| check.name == "prescreen")
    };
    assert_eq!(found(lab.evaluator()), None, "it needs nobody before it");
    let check = found(&lab.treated_as_unproved(DOUBT)).unwrap();
    assert_eq!(check.status, Status::Pass);
    assert!(check.found.contains("L4"), "{}", check.found);
    let nobody = Prescreener {
        device: Err("find a CUDA driver: none is installed".to_owned()),
        ..lab.prescreener()
    };
    let check = found(&behind(&lab, nobody)).unwrap();
    assert_eq!(check.status, Status::Warn);
    assert!(check.fix.unwrap().contains("find a CUDA driver"));
}
