//! Health reports of devices, and the jobs that are not lent because of them.

use std::collections::{BTreeMap, BTreeSet};

use domain::control::{Control, ControlTally};
use domain::device::DeviceKind;
use domain::digest::Digest;
use domain::health::{Condition, HealthReport, submission_digest};
use domain::id::{RunId, WorkerId};
use domain::lease::Receipt;
use domain::search::Operator;
use store::Store;

use crate::fixture::{
    DEVICE, Lab, accepted, at, candidate, evaluation, measurement, report_of, settled,
};

fn sick(reason: &str) -> HealthReport {
    HealthReport {
        condition: Condition::Quarantined {
            reason: reason.to_owned(),
        },
        breaks: BTreeMap::new(),
    }
}

/// A device that is well again, and was broken before.
fn broke(candidate: Digest, device: &str) -> HealthReport {
    HealthReport {
        condition: Condition::Well,
        breaks: BTreeMap::from([(candidate, BTreeSet::from([device.to_owned()]))]),
    }
}

#[tokio::test]
async fn a_device_that_is_set_aside_gets_nothing_until_it_is_said_to_be_well() {
    let lab = Lab::new().await;
    let (run, worker, _) = lab.running(4).await;
    lab.propose(run, &candidate(Operator::Submit, None, "a"))
        .await;
    let report = sick("it forgets");
    lab.store.note_health(worker, &report, at(5)).await.unwrap();
    lab.store.note_health(worker, &report, at(6)).await.unwrap();
    assert!(lab.lease(worker, at(7)).await.is_none());
    let health = lab.store.fleet_health().await.unwrap();
    let [device] = health.devices.as_slice() else {
        panic!("{health:?}");
    };
    assert_eq!(
        (device.worker.as_str(), device.name.as_str()),
        ("w", DEVICE)
    );
    assert_eq!(device.kind, DeviceKind::Emulated);
    assert_eq!(device.condition, report.condition);
    assert_eq!((device.since, device.told_at), (at(5), at(6)));
    // Another worker on the same kind of device is another device.
    let other = lab.worker("other", DEVICE).await;
    assert!(lab.lease(other, at(7)).await.is_some());
    let well = HealthReport::default();
    lab.store.note_health(worker, &well, at(8)).await.unwrap();
    let health = lab.store.fleet_health().await.unwrap();
    assert_eq!(health.devices[0].condition, Condition::Well);
    assert_eq!(health.devices[0].since, at(8));
    lab.propose(run, &candidate(Operator::Submit, None, "b"))
        .await;
    assert!(lab.lease(worker, at(9)).await.is_some());
}

#[tokio::test]
async fn what_broke_devices_of_two_workers_is_lent_to_no_third() {
    let lab = Lab::new().await;
    let (run, first, _) = lab.running(4).await;
    let (second, third) = (lab.worker("v", DEVICE).await, lab.worker("u", DEVICE).await);
    let poison = candidate(Operator::Submit, None, "poison");
    let id = lab.propose(run, &poison).await;
    let known = submission_digest(&poison.source, &poison.configuration);
    // One worker that says it twice has seen one device break.
    for (worker, now) in [(first, 5), (first, 6)] {
        let report = broke(known, "GPU-1 (0)");
        lab.store
            .note_health(worker, &report, at(now))
            .await
            .unwrap();
    }
    assert!(lab.store.fleet_health().await.unwrap().poison.is_empty());
    let report = broke(known, "GPU-1 (0)");
    lab.store.note_health(second, &report, at(7)).await.unwrap();
    let health = lab.store.fleet_health().await.unwrap();
    assert_eq!(health.poison.len(), 1);
    assert_eq!(
        (health.poison[0].candidate, health.poison[0].broke),
        (known, 2)
    );

    let honest = lab
        .propose(run, &candidate(Operator::Submit, None, "honest"))
        .await;
    let leased = lab.lease(third, at(8)).await.unwrap();
    assert_eq!(leased.candidate, honest, "the next one is lent at once");
    assert!(lab.lease(first, at(9)).await.is_none());
    let record = lab.store.candidate(id).await.unwrap().unwrap();
    let told = format!("{:?}", record.summary);
    assert!(told.contains("quarantined"), "{told}");
}

/// Evaluates a candidate whose comparison was followed by a control, or by none.
async fn judge_with(lab: &Lab, run: RunId, worker: WorkerId, name: &str, control: Option<Control>) {
    lab.propose(run, &candidate(Operator::Submit, None, name))
        .await;
    let leased = lab.lease(worker, at(9)).await.unwrap();
    let mut found = evaluation(&leased, accepted(90.0));
    found.measurement = Some(measurement(control));
    let report = report_of(&leased, found);
    let receipt = lab.store.report(leased.job, &report, at(9)).await.unwrap();
    assert_eq!(receipt, Receipt::Accepted);
}

#[tokio::test]
async fn controls_are_counted_by_device_whoever_asks_and_after_a_restart() {
    let lab = Lab::sqlite().await;
    let (run, worker, _) = lab.running(90).await;
    let other = lab.worker("other", DEVICE).await;
    let well = HealthReport::default();
    for worker in [worker, other] {
        lab.store.note_health(worker, &well, at(5)).await.unwrap();
    }
    let tally = async |store: &Store, name: &str| {
        let health = store.fleet_health().await.unwrap();
        let mut devices = health.devices.into_iter();
        devices
            .find(|device| device.worker == name)
            .unwrap()
            .controls
    };
    judge_with(&lab, run, worker, "undrawn", None).await;
    assert_eq!(tally(&lab.store, "w").await, ControlTally::default());

    let screening = || settled(0.03);
    let reason = || "the driver logged a fault".to_owned();
    let level = || Control::Level {
        screening: settled(0.0),
    };
    let controls = [
        level(),
        level(),
        Control::Unfinished { reason: reason() },
        Control::Caught {
            screening: screening(),
            reason: reason(),
        },
        Control::Undecided {
            screening: screening(),
            reason: reason(),
        },
        Control::Promoted {
            screening: screening(),
            confirmation: screening(),
        },
    ];
    for (number, control) in controls.into_iter().enumerate() {
        judge_with(&lab, run, worker, &number.to_string(), Some(control)).await;
    }
    judge_with(&lab, run, other, "elsewhere", Some(level())).await;
    let found = tally(&lab.store, "w").await;
    assert_eq!(
        (found.made, found.screened, found.promoted),
        (5, 3, 1),
        "{found:?}"
    );
    assert_eq!((found.undecided, found.unfinished), (1, 1));
    // Two of five may have been promoted.
    let bound = found.promoted_at_most.unwrap();
    assert!((bound - 0.810_745).abs() < 1e-6, "{bound}");
    assert_eq!(tally(&lab.store, "other").await.made, 1);
    assert_eq!(tally(&lab.reopen().await, "w").await, found);
    // A worker that registers anew is on the same device.
    let again = lab.worker("w", DEVICE).await;
    judge_with(&lab, run, again, "later", Some(level())).await;
    assert_eq!(tally(&lab.store, "w").await.made, 6);
    // Controls of another evaluator version do not count.
    let options =
        sqlx::sqlite::SqliteConnectOptions::new().filename(lab.folder.path().join("test.db"));
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let older = sqlx::query("UPDATE workers SET evaluator = evaluator - 1 WHERE id <> $1");
    older.bind(again.uuid()).execute(&pool).await.unwrap();
    assert_eq!(tally(&lab.store, "w").await.made, 1);
    assert_eq!(tally(&lab.store, "other").await, ControlTally::default());
}
