//! Controls: the incumbent is compared with itself after one comparison in fifty. Tests of the
//! draw, of the outcomes, and that the candidate's verdict does not depend on them.

use domain::control::{Control, ControlResult, is_due};
use domain::digest::Digest;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage, Incumbent};
use domain::role::Key;
use domain::seeds::SeedFamily;
use domain::statistics::{ANALYSIS_PAIRS, TimedKernel, plan_rounds, sample_order};
use domain::timing::Timing;
use domain::verdict::{Outcome, VerdictKind};
use worker::cancel::Cancellation;
use worker::evaluate::{EvaluateError, Evaluator};
use worker::host::Role;

use crate::lab::lab;
use crate::paired::{elapsed, identity, noise, patient_kernel as kernel, request};

/// A key under which a candidate's comparison is followed by a control, or is not.
fn root(candidate: Digest, due: bool) -> Key {
    let mut roots = (0_u32..).map(|number| Key(Digest::of(number.to_le_bytes())));
    roots
        .find(|root| is_due(*root, candidate) == due)
        .expect("one in fifty is")
}

/// A request for a candidate of a search, which is drawn for a control or is not.
fn asked(candidate: &str, due: bool) -> EvaluationRequest {
    let mut request = request(candidate);
    let baseline = request.task.files.get_mut("baseline.cu").unwrap();
    *baseline = kernel(4000);
    request.key = root(identity(candidate), due);
    request
}

fn with_incumbent(mut request: EvaluationRequest, source: String) -> EvaluationRequest {
    request.incumbent = Some(Incumbent {
        file: "incumbent.cu".to_owned(),
        source,
        configuration: domain::plan::Configuration::new(),
        timing: Timing::Measured {
            cases: Vec::new(),
            unscored: Vec::new(),
        },
    });
    request
}

fn in_turn(evaluator: &Evaluator) -> Evaluator {
    Evaluator::new(evaluator.host().clone().with_paired_timing()).unwrap()
}

fn evaluate(
    evaluator: &Evaluator,
    request: &EvaluationRequest,
) -> Result<Evaluation, EvaluateError> {
    evaluator.evaluate(request, |_| {}, &Cancellation::new().unwrap())
}

fn control(evaluation: &Evaluation) -> Option<&Control> {
    let measurement = evaluation.measurement.as_ref();
    measurement
        .unwrap_or_else(|| panic!("{}", evaluation.verdict))
        .control
        .as_ref()
}

#[test]
fn a_drawn_comparison_is_followed_by_a_control() {
    let Some(lab) = lab() else { return };
    let evaluator = in_turn(lab.evaluator());
    let candidate = kernel(2000);
    let drawn = asked(&candidate, true);
    let anchored = with_incumbent(drawn.clone(), kernel(3000));
    let [found, _] = [&drawn, &anchored].map(|request| {
        let found = evaluate(&evaluator, request).unwrap();
        let Some(Control::Level { screening }) = control(&found) else {
            panic!("{:?}", control(&found));
        };
        assert_eq!(screening.outcome, Outcome::NotFaster);
        assert!(screening.evidence.effect.abs() < 1e-9, "{screening:?}");
        assert_eq!(
            screening.evidence.pairs, ANALYSIS_PAIRS[0],
            "one analysis settles it"
        );
        let comparison = found.verdict.acceptance().unwrap().comparison.clone();
        assert_eq!(comparison.unwrap().outcome, Outcome::Faster);
        // The record survives the way to the service.
        let json = serde_json::to_string(&found).unwrap();
        let read: Evaluation = serde_json::from_str(&json).unwrap();
        let result = control(&read).map(Control::result);
        assert_eq!(result, Some(ControlResult::Level));
        found
    });
    let replayed = evaluate(&evaluator, &drawn).unwrap();
    assert_eq!(control(&replayed), control(&found));
    let not_drawn = evaluate(&evaluator, &asked(&candidate, false)).unwrap();
    assert_eq!(control(&not_drawn), None);
    let stages = not_drawn.stages.iter();
    assert!(
        stages
            .map(|stage| &stage.stage)
            .all(|name| name != "control")
    );
    let confirmation = EvaluationRequest {
        stage: EvaluationStage::Confirmation,
        ..drawn
    };
    let confirmed = evaluate(&evaluator, &confirmation).unwrap();
    assert_eq!(control(&confirmed), None, "it has a control of its own");
}

#[test]
fn a_false_positive_of_a_screening_is_rejected_by_the_confirmation() {
    let Some(lab) = lab() else { return };
    let request = asked(&kernel(3900), true);
    // The orders in the process that screens the incumbent in the candidate's place.
    let key = SeedFamily::Feedback.key(request.key).derive(&["control"]);
    let most = ANALYSIS_PAIRS[ANALYSIS_PAIRS.len() - 1] / 2;
    let key = key.derive(&["timing", &format!("duel 0 {most}")]);
    // The kernel in that place takes 3% less time there; in every other process this would be
    // noise.
    let rounds = plan_rounds(key, most, 1).concat().into_iter();
    let samples = rounds.flat_map(|block| sample_order(block.order, false));
    let samples = samples.map(|whose| match whose {
        TimedKernel::Candidate => 0.0194,
        TimedKernel::Incumbent | TimedKernel::Anchor => 0.02,
    });
    // Three equal blocks, after which the device is warm.
    let warm_up = std::iter::repeat_n(0.02, 3 * 4);
    let spoiled = lab.with_spoiled_timing(&elapsed(warm_up.chain(samples)));
    let found = evaluate(&in_turn(&spoiled), &request).unwrap();
    let Some(Control::Caught { screening, reason }) = control(&found) else {
        panic!("{:?}", control(&found));
    };
    assert_eq!(screening.outcome, Outcome::Faster);
    let gain = screening.evidence.effect.exp_m1();
    assert!((gain - 0.0309).abs() < 1e-3, "{gain}");
    assert!(reason.contains("a gain of -"), "{reason}");
    let accepted = found.verdict.acceptance().unwrap();
    let outcome = accepted.comparison.as_ref().unwrap().outcome;
    assert_ne!(outcome, Outcome::Faster, "the candidate's own process");
}

/// Launches of one execution of the kernel of [`launched_again`]. Together they are so short that
/// they are timed in batches, as the candidate is.
const AGAIN: usize = 6;

/// The same result as [`kernel`], by an execution of several launches.
fn launched_again(rounds: u32) -> String {
    let source = kernel(rounds);
    let (launch, _) = source.split_once("---*/").unwrap();
    let (_, launch) = launch.split_once("/*---\n").unwrap();
    let more = launch.repeat(AGAIN - 1);
    source.replacen("---*/", &format!("{more}---*/"), 1)
}

/// A fault plan under which a comparison with the incumbent of [`launched_again`] ends, and one of
/// that incumbent with itself does not, because two more of its samples have so many launches.
fn death_in_the_control() -> String {
    let (batch, samples) = (2, 6);
    // Cycles are counted before and after each sample.
    let counted = |of_one_block: usize| batch * of_one_block + 2 * samples;
    let launches = |of_one_block: usize| {
        let warming_up = 3 * batch * of_one_block;
        warming_up + ANALYSIS_PAIRS[0] / 2 * counted(of_one_block)
    };
    // Anchor, incumbent, candidate.
    let (duel, control) = (2 + 2 * AGAIN + 2, 2 + 4 * AGAIN);
    // With a warm cache, input and output of each execution are read, and then the device waits.
    let beside = 4 * (counted(duel) + samples * (2 * batch + 1));
    let (duel, control) = (launches(duel) + beside, launches(control));
    assert!(duel < control);
    let nth = duel.midpoint(control);
    format!("[[fault]]\ncall = \"cuLaunchKernel\"\nnth = {nth}\ndo = \"abort\"\n")
}

#[test]
fn a_control_that_fails_leaves_the_verdict_unchanged() {
    let Some(lab) = lab() else { return };
    let request = with_incumbent(asked(&kernel(2000), true), launched_again(100));
    let spoiled = lab.with_spoiled_timing(&death_in_the_control());
    let found = evaluate(&in_turn(&spoiled), &request).unwrap();
    assert_eq!(found.verdict.kind(), VerdictKind::Accepted);
    let control = control(&found).unwrap();
    assert_eq!(control.result(), ControlResult::Unfinished);
    let Control::Unfinished { reason } = control else {
        panic!("{control:?}");
    };
    assert!(reason.contains("crash"), "{reason}");
    let usual = evaluate(&in_turn(lab.evaluator()), &request).unwrap();
    assert_eq!(usual.verdict, found.verdict);
    let protocol = usual.measurement.unwrap().cases;
    assert_eq!(
        (protocol[0].batch, protocol[0].warm_up),
        (2, 3),
        "as planned"
    );
}

#[test]
fn a_failed_health_check_in_a_control_discards_the_verdict() {
    let Some(lab) = lab() else { return };
    let request = with_incumbent(asked(&kernel(2000), true), launched_again(100));
    let sick = "[[fault]]\ncall = \"cuInit\"\nnth = \"every\"\ndo = { error = 999 }\n";
    let death = death_in_the_control();
    let spoiled = lab.spoiled(&[(Role::Time, &death), (Role::Probe, sick)]);
    let found = evaluate(&in_turn(&spoiled), &request);
    assert!(
        matches!(&found, Err(fault) if fault.failed_health_check()),
        "{found:?}"
    );
    lab.forget_health();
}

#[test]
fn the_device_is_watched_in_a_second_comparison_as_it_is_in_the_first() {
    let Some(lab) = lab() else { return };
    let reasons = |nth: &str, mask: u32| {
        let call = "nvmlDeviceGetCurrentClocksEventReasons";
        format!("[[fault]]\ncall = \"{call}\"\nnth = {nth}\ndo = {{ answer = {mask} }}\n")
    };
    let folder = tempfile::tempdir().unwrap();
    let watch = folder.path().join("watch.toml");
    std::fs::write(&watch, reasons("\"every\"", 0)).unwrap();
    // So much noise that each comparison uses all its rounds, whenever the watcher is ready.
    let host = lab.with_spoiled_timing(&noise()).host().clone();
    let evaluator = Evaluator::new(
        host.with_fault_plan(Role::Watch, &watch)
            .with_paired_timing(),
    )
    .unwrap();
    let progress = |stage: &str| {
        if stage == "control" {
            // The device slows down after a few samples.
            let first = (1..=8).map(|nth: u32| reasons(&nth.to_string(), 0));
            let plan = first.chain([reasons("\"every\"", 0x48)]);
            std::fs::write(&watch, plan.collect::<String>()).unwrap();
        }
    };
    let request = asked(&kernel(2000), true);
    let found = evaluator.evaluate(&request, progress, &Cancellation::new().unwrap());
    let found = found.unwrap();
    let Some(Control::Unfinished { reason }) = control(&found) else {
        panic!("{:?}", control(&found));
    };
    assert!(reason.contains("slowed down"), "{reason}");
}

#[test]
fn cancellation_ends_a_control_too() {
    let Some(lab) = lab() else { return };
    let evaluator = in_turn(lab.evaluator());
    let cancellation = Cancellation::new().unwrap();
    let progress = |stage: &str| {
        if stage == "control" {
            cancellation.cancel();
        }
    };
    let request: EvaluationRequest = asked(&kernel(2000), true);
    let found = evaluator.evaluate(&request, progress, &cancellation);
    assert!(
        matches!(&found, Err(fault) if fault.is_cancelled()),
        "{found:?}"
    );
}
