//! Champions that are looked at again: when, how thoroughly, on which card, and what follows.

use chrono::TimeDelta;
use domain::api::{PromotionState, PromotionView};
use domain::evaluation::EvaluationStage;
use domain::id::{RunId, WorkerId};
use domain::lease::{Lease, Receipt, Report, ReportOutcome};
use domain::search::Method;
use domain::verdict::{Verdict, VerdictKind};

use crate::lab::{Lab, accepted, device, evaluation, honest, rejected, request};

/// A lab with a committed champion, twice as fast as its baseline.
async fn promoted() -> (Lab, RunId) {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::Playbook, 1)).await;
    let promotion = lab.drive(run, honest).await.promotion.unwrap();
    assert!(is_committed(&promotion), "{promotion:?}");
    (lab, run)
}

fn is_committed(promotion: &PromotionView) -> bool {
    matches!(promotion.state, PromotionState::Committed { .. })
}

/// The reason why the run's champion was reverted.
async fn taken_back(lab: &Lab, run: RunId) -> String {
    let promotion = lab.view(run).await.promotion.unwrap();
    let PromotionState::Reverted { reason, .. } = promotion.state else {
        panic!("reverted, but it is {:?}", promotion.state)
    };
    reason
}

async fn wait(lab: &Lab, time: TimeDelta) {
    lab.clock.advance(time);
    lab.engine.tick().await.unwrap();
}

async fn lease(lab: &Lab, worker: WorkerId) -> Option<Lease> {
    lab.engine.lease(worker).await.unwrap()
}

/// Reports a verdict that the device of this identity gave.
async fn report_from(lab: &Lab, uuid: &str, lease: &Lease, verdict: Verdict) {
    let mut evaluation = evaluation(&lease.request, verdict);
    if let Some(device) = &mut evaluation.device {
        device.uuid = uuid.to_owned();
    }
    let report = Report {
        admission: None,
        attempt: lease.attempt,
        outcome: ReportOutcome::Evaluated {
            evaluation: Box::new(evaluation),
        },
    };
    let store = lab.engine.store();
    let receipt = store.report(lease.job, &report, lab.engine.now()).await;
    assert_eq!(receipt.unwrap(), Receipt::Accepted);
    lab.engine.tick().await.unwrap();
}

#[tokio::test]
async fn a_day_after_its_commit_a_champion_is_asked_more_and_a_day_later_again() {
    let (lab, run) = promoted().await;
    wait(&lab, TimeDelta::hours(23)).await;
    assert!(lab.lease().await.is_none(), "a day has not passed");
    let mut keys = Vec::new();
    for day in 1..=2 {
        wait(&lab, TimeDelta::hours(25)).await;
        let lease = lab.lease().await.unwrap();
        assert_eq!(lease.request.stage, EvaluationStage::Champion, "day {day}");
        keys.push(lease.request.key);
        // It is queued once, however long it takes.
        wait(&lab, TimeDelta::seconds(5)).await;
        assert!(lab.lease().await.is_none());
        lab.report(&lease, honest(&lease.request)).await;
        lab.engine.tick().await.unwrap();
        let promotion = lab.view(run).await.promotion.unwrap();
        assert!(is_committed(&promotion), "{promotion:?}");
        let [check] = promotion.checks.as_slice() else {
            panic!("one device, one row: {:?}", promotion.checks)
        };
        assert_eq!(check.device_uuid, device().uuid);
        assert_eq!(check.at, lab.engine.now());
        assert_eq!(check.stage, EvaluationStage::Champion);
        assert_eq!(check.verdict, VerdictKind::Accepted);
        assert!((check.speedup.unwrap() - 2.0).abs() < 1e-9);
    }
    assert_ne!(keys[0], keys[1], "every look has inputs of its own");
}

#[tokio::test]
async fn another_card_is_asked_where_one_attends_and_need_not_be_as_fast() {
    let (lab, run) = promoted().await;
    wait(&lab, TimeDelta::hours(25)).await;
    let other = lab.another("v", "another card").await;
    assert!(lab.lease().await.is_none(), "the other card attends");
    let asked = lease(&lab, other).await.unwrap();
    // 1.67 times the baseline, where 2 were recorded on the first card.
    report_from(&lab, "another card", &asked, accepted(60.0)).await;
    let promotion = lab.view(run).await.promotion.unwrap();
    assert!(is_committed(&promotion), "{promotion:?}");
    let checks = promotion.checks.iter();
    let told = checks.map(|check| (check.device_uuid.as_str(), check.stage));
    let told = told.collect::<Vec<_>>();
    let first = device().uuid;
    assert_eq!(
        told,
        [
            ("another card", EvaluationStage::Champion),
            (first.as_str(), EvaluationStage::Confirmation)
        ]
    );
    // The next day it is the first one's turn, which must be as fast as it was.
    wait(&lab, TimeDelta::hours(25)).await;
    let back = lab.another("w", &first).await;
    assert!(lease(&lab, other).await.is_none(), "the first card attends");
    let asked = lease(&lab, back).await.unwrap();
    report_from(&lab, &first, &asked, accepted(60.0)).await;
    let reason = taken_back(&lab, run).await;
    assert!(reason.contains("2.000 was recorded"), "{reason}");
}

#[tokio::test]
async fn the_card_that_judged_last_is_asked_where_no_other_has_been_heard_of() {
    let (lab, _) = promoted().await;
    lab.another("v", "another card").await;
    wait(&lab, TimeDelta::hours(25)).await;
    assert!(lab.lease().await.is_some());
}

#[tokio::test]
async fn a_champion_that_another_card_finds_wrong_is_taken_back() {
    let (lab, run) = promoted().await;
    wait(&lab, TimeDelta::hours(25)).await;
    let other = lab.another("v", "another card").await;
    let asked = lease(&lab, other).await.unwrap();
    report_from(&lab, "another card", &asked, rejected("a race")).await;
    let reason = taken_back(&lab, run).await;
    assert!(reason.contains("a race"), "{reason}");
}

#[tokio::test]
async fn a_champion_is_left_alone_once_a_later_run_of_the_task_has_one() {
    let (lab, _) = promoted().await;
    lab.clock.advance(TimeDelta::hours(1));
    let later = lab.launch(request(Method::Playbook, 1)).await;
    let promotion = lab.drive(later, honest).await.promotion.unwrap();
    assert!(is_committed(&promotion), "{promotion:?}");
    wait(&lab, TimeDelta::hours(25)).await;
    let asked = lab.lease().await.unwrap();
    assert_eq!((asked.run, asked.candidate), (later, promotion.candidate));
    assert!(lab.lease().await.is_none(), "the earlier one is not");
}
