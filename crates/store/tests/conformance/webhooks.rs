//! Events for other services: which are recorded, and how often.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use domain::api::{WebhookBody, WebhookData, WebhookKind};
use domain::health::{Condition, HealthReport};
use domain::search::StopReason;
use store::{Committed, DueWebhook, WebhookAttempt};

use crate::fixture::{Lab, accepted, at};

const TEAM: &str = "team";

async fn lab() -> Lab {
    let lab = Lab::new().await;
    let all = WebhookKind::ALL.to_vec();
    let devices = vec![WebhookKind::DeviceUnwell];
    let endpoints = [(TEAM.to_owned(), all), ("devices".to_owned(), devices)];
    lab.store
        .subscribe_webhooks(&endpoints, at(0))
        .await
        .unwrap();
    lab
}

async fn due(lab: &Lab, endpoint: &str) -> Vec<DueWebhook> {
    lab.store
        .due_webhooks(endpoint, at(1000), 100)
        .await
        .unwrap()
}

/// The events that are due, by their kinds, with the share of a budget's limit.
async fn kinds(lab: &Lab) -> Vec<String> {
    let due = due(lab, TEAM).await;
    let mut kinds = due
        .iter()
        .map(|event| {
            let body: WebhookBody = serde_json::from_str(&event.body).unwrap();
            match body.data {
                WebhookData::Budget { limit, percent, .. } => format!("{limit} {percent}"),
                WebhookData::Run { run } => format!("{} {}", body.kind, run.state.as_str()),
                WebhookData::Device { device } => format!("{} {}", body.kind, device.reason),
            }
        })
        .collect::<Vec<_>>();
    kinds.sort();
    kinds
}

#[tokio::test]
async fn a_change_of_a_run_is_recorded_once_for_each_endpoint_that_wants_it() {
    let lab = lab().await;
    let (run, _, _) = lab.running(9).await;
    assert!(kinds(&lab).await.is_empty());
    lab.store.pause(run, "lunch", at(5)).await.unwrap();
    lab.store.pause(run, "lunch", at(6)).await.unwrap();
    assert_eq!(kinds(&lab).await, ["run.paused paused"]);
    lab.store.resume(run, at(7)).await.unwrap();
    lab.store.cancel(run, at(8)).await.unwrap();
    lab.store.cancel(run, at(9)).await.unwrap();
    let expected = ["run.finished cancelled", "run.paused paused"];
    assert_eq!(kinds(&lab).await, expected);
    assert!(due(&lab, "devices").await.is_empty());
    // They are there after a restart, under the same ids.
    let before = due(&lab, TEAM).await;
    let store = lab.reopen().await;
    let again = store.due_webhooks(TEAM, at(1000), 100).await.unwrap();
    assert_eq!(again, before);
}

#[tokio::test]
async fn a_winner_is_recorded_when_it_is_committed() {
    let lab = lab().await;
    let (run, worker, baseline) = lab.running(9).await;
    let winner = lab.submit(run, baseline, "fast").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    lab.judge(&leased, accepted(50.0)).await;
    let begun = lab.store.begin_promotion(run, winner, "branch", at(6));
    let promotion = begun.await.unwrap().id;
    assert!(kinds(&lab).await.is_empty());
    let committed = Committed {
        commit: "c0ffee".to_owned(),
        speedup: 2.0,
        device_uuid: None,
    };
    lab.store
        .commit_promotion(run, promotion, &committed, at(7))
        .await
        .unwrap();
    assert_eq!(kinds(&lab).await, ["winner.promoted running"]);
    assert!(due(&lab, TEAM).await[0].body.contains("c0ffee"));
}

#[tokio::test]
async fn shares_of_a_budget_are_recorded_once() {
    let lab = lab().await;
    let (run, worker, baseline) = lab.running(2).await;
    lab.submit(run, baseline, "a").await;
    lab.store.take_duties(at(3)).await.unwrap();
    lab.store.keep_time(at(5)).await.unwrap();
    lab.store.keep_time(at(10)).await.unwrap();
    assert_eq!(kinds(&lab).await, ["trials 50"]);
    let leased = lab.lease(worker, at(11)).await.unwrap();
    lab.judge(&leased, accepted(50.0)).await;
    lab.submit(run, baseline, "b").await;
    let leased = lab.lease(worker, at(12)).await.unwrap();
    lab.judge(&leased, accepted(60.0)).await;
    // The run ends before the time is kept again.
    let reason = StopReason::Trials;
    lab.store.finish(run, reason, None, at(13)).await.unwrap();
    let expected = [
        "run.finished completed",
        "trials 100",
        "trials 50",
        "trials 80",
    ];
    assert_eq!(kinds(&lab).await, expected);
}

#[tokio::test]
async fn a_limit_that_ends_a_run_counts_as_reached() {
    let lab = lab().await;
    let (run, _, _) = lab.running(9).await;
    let reason = StopReason::Trials;
    lab.store.finish(run, reason, None, at(5)).await.unwrap();
    assert_eq!(kinds(&lab).await, ["run.finished completed", "trials 100"]);
}

#[tokio::test]
async fn each_quarantine_of_a_device_is_recorded_once() {
    let lab = lab().await;
    let (_, worker, _) = lab.running(9).await;
    let report = |condition| HealthReport {
        condition,
        breaks: BTreeMap::new(),
    };
    let sick = report(Condition::Quarantined {
        reason: "it forgets".to_owned(),
    });
    let well = report(Condition::Well);
    for (report, seconds) in [(&sick, 5), (&sick, 6), (&well, 7), (&sick, 8)] {
        let noted = lab.store.note_health(worker, report, at(seconds));
        noted.await.unwrap();
    }
    let expected = ["device.unwell it forgets", "device.unwell it forgets"];
    assert_eq!(kinds(&lab).await, expected);
    assert_eq!(due(&lab, "devices").await, due(&lab, TEAM).await);
}

#[tokio::test]
async fn failed_attempts_are_listed_until_one_succeeds_or_the_endpoint_goes() {
    let lab = lab().await;
    let (run, worker, _) = lab.running(9).await;
    lab.store.pause(run, "lunch", at(5)).await.unwrap();
    let event = due(&lab, TEAM).await[0].event.clone();
    let failed = |again| WebhookAttempt::Failed {
        error: "it answered 500".to_owned(),
        again,
    };
    let note = async |attempt: WebhookAttempt| {
        let noted = lab.store.note_webhook(&event, TEAM, &attempt, at(6));
        noted.await.unwrap();
    };
    note(failed(Some(at(6) + TimeDelta::hours(1)))).await;
    assert!(due(&lab, TEAM).await.is_empty());
    let next = lab.store.next_webhook(TEAM).await.unwrap();
    assert_eq!(next, Some(at(3606)));
    let listed = lab.store.undelivered_webhooks(10).await.unwrap();
    assert_eq!((listed.len(), listed[0].attempts), (1, 1));
    assert_eq!(listed[0].last_error.as_deref(), Some("it answered 500"));
    note(WebhookAttempt::Delivered).await;
    assert!(lab.store.undelivered_webhooks(10).await.unwrap().is_empty());
    assert_eq!(lab.store.next_webhook(TEAM).await.unwrap(), None);

    let sick = HealthReport {
        condition: Condition::Quarantined {
            reason: "it forgets".to_owned(),
        },
        breaks: BTreeMap::new(),
    };
    lab.store.note_health(worker, &sick, at(7)).await.unwrap();
    let left = [("devices".to_owned(), vec![WebhookKind::DeviceUnwell])];
    lab.store.subscribe_webhooks(&left, at(8)).await.unwrap();
    let listed = lab.store.undelivered_webhooks(10).await.unwrap();
    let given_up = listed.iter().find(|event| event.endpoint == TEAM).unwrap();
    assert_eq!(given_up.due_at, None);
    assert_eq!(due(&lab, "devices").await.len(), 1);
    let counts = lab.store.service_counts(at(9)).await.unwrap();
    let expected = [("given_up".to_owned(), 1), ("waiting".to_owned(), 1)];
    assert_eq!(counts.undelivered_webhooks, expected);
}
