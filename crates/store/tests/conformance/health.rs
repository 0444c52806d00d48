//! What the store knows of the fleet's devices, and who is lent nothing because of it.

use std::collections::{BTreeMap, BTreeSet};

use domain::digest::Digest;
use domain::health::{Condition, HealthReport, content};
use domain::search::Operator;

use crate::fixture::{DEVICE, Lab, at, candidate};

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
    let known = content(&poison.source, &poison.configuration);
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
