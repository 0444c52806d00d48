//! Device hours with their price by month, the conditions while kernels were timed, and the admissions of tasks.

use domain::admission::{Admission, AdmissionRule, RuleResult};
use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, StageTime};
use domain::lease::{DeclinedWork, Receipt, Registration, Renewal, Report, ReportOutcome};
use domain::measurement::ConditionCoverage;
use domain::model::Dollars;
use domain::task::Task;

use crate::fixture::{
    DEVICE, Lab, accepted, at, bundle, device, evaluation, measurement, report_of,
};

const DAY: i64 = 86_400;

fn registration(name: &str, price: Option<f64>) -> Registration {
    Registration {
        name: name.to_owned(),
        device: device(DEVICE),
        toolchain: "NVRTC 13.5".to_owned(),
        evaluator: EVALUATOR_VERSION,
        instance: None,
        dollars_per_hour: price.map(|price| Dollars::new(price).unwrap()),
        declined: vec![DeclinedWork {
            work: "measure times".to_owned(),
            reason: "emulated".to_owned(),
        }],
    }
}

#[tokio::test]
async fn attached_hours_are_counted_and_priced_by_month() {
    let lab = Lab::new().await;
    let priced = registration("priced", Some(3.6));
    let worker = lab.store.register(&priced, at(0)).await.unwrap().worker;
    let free = registration("free", None);
    let other = lab.store.register(&free, at(0)).await.unwrap().worker;
    // A gap of more than a minute is no attached time: the machine may have been off.
    for now in [20, 40, 1000, 1030] {
        assert!(lab.lease(worker, at(now)).await.is_none());
    }
    assert!(lab.lease(other, at(30)).await.is_none());
    // The base of these times is 2024-10-04.
    let november = 28 * DAY;
    assert!(lab.lease(worker, at(november)).await.is_none());
    assert!(lab.lease(worker, at(november + 10)).await.is_none());

    let months = lab.store.device_months().await.unwrap();
    let shown = months.iter().map(|month| {
        let seconds = (month.attached_hours * 3600.0).round();
        (
            month.month.as_str(),
            month.worker.as_str(),
            seconds,
            month.dollars.to_string(),
        )
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            ("2024-11", "priced", 10.0, "$0.0100".to_owned()),
            ("2024-10", "free", 30.0, "$0.00".to_owned()),
            ("2024-10", "priced", 70.0, "$0.0700".to_owned()),
        ]
    );
    assert_eq!(months[0].device, DEVICE);
    let fleet = lab.store.fleet(at(november + 10)).await.unwrap();
    assert_eq!(fleet.workers[0].dollars_per_hour, Dollars::new(3.6));
}

/// The seconds for which the workers counted as attached, in all months.
async fn attached_seconds(lab: &Lab) -> f64 {
    let months = lab.store.device_months().await.unwrap();
    let hours = months.iter().map(|month| month.attached_hours).sum::<f64>();
    (hours * 3600.0).round()
}

#[tokio::test]
async fn a_worker_that_waits_is_seen_without_being_recorded() {
    let lab = Lab::new().await;
    let mut claim = lab.store.share_database().await.unwrap();
    lab.store.take_duties(at(0)).await.unwrap();
    let worker = lab.worker("w", DEVICE).await;
    lab.store
        .record_waiting(&[worker], &[], at(21))
        .await
        .unwrap();
    assert_eq!(attached_seconds(&lab).await, 20.0);

    // Nothing is written for nine minutes, and the requests meanwhile are no writes either.
    assert!(lab.lease(worker, at(500)).await.is_none());
    assert_eq!(attached_seconds(&lab).await, 20.0);
    let seen = async |now| {
        let worker = lab.store.workers(at(now)).await.unwrap().remove(0);
        let alive = lab.store.load(at(now)).await.unwrap().workers == 1;
        assert_eq!(worker.alive, alive);
        (worker.seen_at, alive)
    };
    assert_eq!(seen(560).await, (at(560), true));
    // It left twenty seconds ago.
    let left = (worker, at(540));
    lab.store
        .record_waiting(&[], &[left], at(560))
        .await
        .unwrap();
    assert_eq!(attached_seconds(&lab).await, 539.0);
    assert_eq!(seen(560).await, (at(540), true));
    assert_eq!(seen(700).await, (at(540), false));
    // The same told again, such as by a service that it left earlier, changes nothing.
    lab.store
        .record_waiting(&[], &[(worker, at(550))], at(700))
        .await
        .unwrap();
    assert_eq!(seen(700).await, (at(540), false));

    // Of a service that ended.
    lab.store
        .record_waiting(&[worker], &[], at(701))
        .await
        .unwrap();
    assert_eq!(seen(900).await, (at(900), true));
    lab.store.end_duties().await.unwrap();
    drop(claim);
    let next = lab.reopen().await;
    claim = next.share_database().await.unwrap();
    assert_eq!(seen(900).await, (at(701), false));
    drop(claim);
}

#[tokio::test]
async fn jobs_that_a_worker_may_take_are_counted_by_device() {
    let lab = Lab::new().await;
    let waiting = async || {
        let jobs = lab.store.waiting_jobs(None, at(9)).await.unwrap();
        let jobs = jobs.into_iter();
        jobs.map(|jobs| (jobs.device, jobs.count))
            .collect::<Vec<_>>()
    };
    assert_eq!(waiting().await, []);
    let (run, worker, baseline) = lab.running(9).await;
    for body in ["a", "b", "c"] {
        lab.submit(run, baseline, body).await;
    }
    let device = Some(DEVICE.to_owned());
    assert_eq!(waiting().await, [(device.clone(), 3)]);
    lab.lease(worker, at(9)).await.unwrap();
    assert_eq!(waiting().await, [(device, 2)]);
    let paused = lab.store.pause(run, "to look", at(9)).await;
    paused.unwrap();
    assert_eq!(waiting().await, []);
}

#[tokio::test]
async fn an_evaluation_is_device_time_of_its_worker_and_priced_for_its_run() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(9).await;
    lab.submit(run, baseline, "a").await;
    let priced = registration("priced", Some(3.6));
    let worker = lab.store.register(&priced, at(5)).await.unwrap().worker;
    let leased = lab.lease(worker, at(6)).await.unwrap();
    let renewal = Renewal {
        attempt: leased.attempt,
        stage: "verify".to_owned(),
    };
    let receipt = lab.store.renew(leased.job, &renewal, at(16)).await;
    assert_eq!(receipt.unwrap(), Receipt::Accepted);
    let mut found = evaluation(&leased, accepted(50.0));
    found.stages = [
        ("compile", 60_000.0),
        ("verify", 4_000.0),
        ("time", 6_000.0),
    ]
    .map(|(stage, milliseconds)| StageTime {
        stage: stage.to_owned(),
        milliseconds,
    })
    .to_vec();
    let watched = ConditionCoverage {
        blocks: 40,
        counted_mhz: Some([1650.0, 1710.0]),
        celsius: Some([58.0, 61.0]),
        ..ConditionCoverage::default()
    };
    let mut compared = measurement(None);
    compared.watched = watched.clone();
    found.measurement = Some(compared);
    let report = report_of(&leased, found);
    let receipt = lab.store.report(leased.job, &report, at(20)).await;
    assert_eq!(receipt.unwrap(), Receipt::Accepted);

    let view = lab.store.run(run).await.unwrap().unwrap();
    assert_eq!(view.spend.device_ms, 10_000, "compilation needs no device");
    assert_eq!(view.spend.device_dollars, Dollars::new(0.01).unwrap());
    let months = lab.store.device_months().await.unwrap();
    let month = months
        .iter()
        .find(|month| month.worker == "priced")
        .unwrap();
    assert_eq!((month.evaluating_hours * 3600.0).round(), 10.0);
    assert_eq!((month.attached_hours * 3600.0).round(), 11.0);
    let fleet = lab.store.fleet(at(21)).await.unwrap();
    let mut workers = fleet.workers.iter();
    let shown = workers
        .find(|worker| worker.worker.name == "priced")
        .unwrap();
    assert_eq!(shown.watched, Some(watched));
    assert_eq!(shown.watched_at, Some(at(20)));
    assert_eq!(shown.worker.declined, registration("priced", None).declined);
}

#[tokio::test]
async fn a_day_at_the_highest_price_can_be_counted() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(9).await;
    lab.submit(run, baseline, "a").await;
    let dear = registration("dear", Some(10_000.0));
    assert!(dear.validate().is_ok());
    let worker = lab.store.register(&dear, at(5)).await.unwrap().worker;
    let leased = lab.lease(worker, at(6)).await.unwrap();
    let mut found = evaluation(&leased, accepted(50.0));
    found.stages = vec![StageTime {
        stage: "verify".to_owned(),
        milliseconds: 86_399_999.0,
    }];
    let report = report_of(&leased, found);
    let receipt = lab.store.report(leased.job, &report, at(20)).await;
    assert_eq!(receipt.unwrap(), Receipt::Accepted);
    let view = lab.store.run(run).await.unwrap().unwrap();
    let dollars = view.spend.device_dollars.as_f64();
    assert!((dollars - 240_000.0).abs() < 1.0, "{dollars}");
}

fn admission(version: Digest, holds: bool) -> Box<Admission> {
    Box::new(Admission {
        task: "fill".to_owned(),
        version,
        cases: vec!["small".to_owned()],
        results: vec![RuleResult {
            rule: AdmissionRule::NotNearZero,
            subject: "y".to_owned(),
            found: Some(0.5),
            limit: Some(0.01),
            holds,
            explanation: "the largest magnitude".to_owned(),
        }],
        floors: Vec::new(),
        advice: vec!["state a maximum".to_owned()],
    })
}

#[tokio::test]
async fn the_newest_admission_of_an_upload_on_a_device_is_kept_also_if_it_refuses() {
    let lab = Lab::new().await;
    let version = Task::load(&bundle()).unwrap().version;
    assert_eq!(lab.store.task_admissions("fill").await.unwrap(), []);
    lab.store.task_admissions("nothing").await.unwrap_err();
    let (run, worker, baseline) = lab.running(9).await;
    let reports = [
        (version, false, 10),
        (version, true, 20),
        (Digest::of("another task"), false, 30),
    ];
    for (about, holds, now) in reports {
        lab.submit(run, baseline, &format!("at {now}")).await;
        let leased = lab.lease(worker, at(now)).await.unwrap();
        let refused = Report {
            attempt: leased.attempt,
            outcome: ReportOutcome::Refused {
                message: "admit the task".to_owned(),
            },
            admission: Some(admission(about, holds)),
        };
        lab.store
            .report(leased.job, &refused, at(now))
            .await
            .unwrap();
        let kept = lab.store.task_admissions("fill").await.unwrap();
        let [kept] = kept.as_slice() else {
            panic!("{kept:?}");
        };
        let own = now.min(20);
        assert_eq!((kept.decided_at, kept.admitted), (at(own), own == 20));
        assert_eq!(kept.device, DEVICE);
        assert_eq!(kept.admission, *admission(version, own == 20));
    }
}
