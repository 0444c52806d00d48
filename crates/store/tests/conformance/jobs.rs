//! Leases: one holder at a time, fenced by the attempt, lost and found.

use domain::api::{CandidateState, EventKind, RunState};
use domain::evaluation::{EVALUATOR_VERSION, GateOutcome};
use domain::lease::{Receipt, Registration, Renewal, Report, ReportOutcome};
use domain::search::{EntryState, Operator};
use domain::task::{Enforce, GateSubject};
use domain::verdict::{Verdict, VerdictKind};
use store::{LeasedJob, MAX_FAULTS, MAX_LOSSES, MAX_LOST_WORKERS, MAX_WORKER_FAULTS, StoreError};

use crate::fixture::{
    DEVICE, Lab, accepted, at, candidate, device, evaluation, faulted, report, timing,
};

fn renewal(leased: &LeasedJob, stage: &str) -> Renewal {
    Renewal {
        attempt: leased.attempt,
        stage: stage.to_owned(),
    }
}

#[tokio::test]
async fn a_job_is_lent_to_one_worker_with_all_it_needs() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let other = lab.worker("other", DEVICE).await;
    let id = lab.submit(run, baseline, "fast").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    assert_eq!((leased.candidate, leased.attempt, leased.round), (id, 1, 0));
    assert!(leased.source.ends_with("fast\n"));
    let incumbent = leased.incumbent.unwrap();
    assert_eq!(incumbent.timing, timing(100.0));
    let best = lab.store.source(baseline).await.unwrap().unwrap();
    assert_eq!((incumbent.file, incumbent.source), best);
    assert!(lab.lease(other, at(5)).await.is_none());
}

#[tokio::test]
async fn a_late_report_changes_no_row() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let id = lab.submit(run, baseline, "a").await;
    let first = lab.lease(worker, at(5)).await.unwrap();
    assert_eq!(lab.store.expire_leases(at(20)).await.unwrap(), 0);
    assert_eq!(lab.store.expire_leases(at(21)).await.unwrap(), 1);
    let stale = lab
        .store
        .renew(first.job, &renewal(&first, "run"), at(21))
        .await;
    assert_eq!(stale.unwrap(), Receipt::Superseded);
    assert!(lab.lease(worker, at(21)).await.is_none(), "it backs off");
    let second = lab.lease(worker, at(22)).await.unwrap();
    assert_eq!(second.attempt, 2);
    let late = report(&first, accepted(10.0));
    let receipt = lab.store.report(first.job, &late, at(23)).await.unwrap();
    assert_eq!(receipt, Receipt::Superseded);
    assert!(
        lab.store
            .summary(id)
            .await
            .unwrap()
            .unwrap()
            .verdict
            .is_none()
    );
    lab.judge(&second, accepted(50.0)).await;
    let again = report(&second, accepted(10.0));
    let receipt = lab.store.report(second.job, &again, at(24)).await.unwrap();
    assert_eq!(receipt, Receipt::Superseded);
    let summary = lab.store.summary(id).await.unwrap().unwrap();
    assert_eq!(summary.speedup.map(crate::fixture::rounded), Some(2.0));
}

#[tokio::test]
async fn a_renewed_lease_lives_on_and_tells_its_stage() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let id = lab.submit(run, baseline, "a").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    for (now, stage) in [(15, "compile"), (25, "screen"), (35, "screen")] {
        let receipt = lab
            .store
            .renew(leased.job, &renewal(&leased, stage), at(now))
            .await;
        assert_eq!(receipt.unwrap(), Receipt::Accepted);
        assert_eq!(lab.store.expire_leases(at(now + 14)).await.unwrap(), 0);
    }
    let summary = lab.store.summary(id).await.unwrap().unwrap();
    let evaluating = CandidateState::Evaluating {
        stage: "screen".to_owned(),
        worker,
    };
    assert_eq!(summary.state, evaluating);
    let stages = lab
        .store
        .events_after(run, 0, 100)
        .await
        .unwrap()
        .into_iter()
        .filter_map(|event| match event.what {
            EventKind::Stage { stage, .. } => Some(stage),
            _ => None,
        })
        .collect::<Vec<_>>();
    assert_eq!(stages, ["compile", "screen"]);
}

#[tokio::test]
async fn faults_park_a_job_and_say_why() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let id = lab.submit(run, baseline, "a").await;
    let mut now = 5;
    for attempt in 1..=MAX_FAULTS {
        let leased = lab.lease(worker, at(now)).await.unwrap();
        assert_eq!(leased.attempt, i64::from(attempt));
        let receipt = lab
            .store
            .report(leased.job, &faulted(&leased), at(now))
            .await;
        assert_eq!(receipt.unwrap(), Receipt::Accepted);
        now += 60;
    }
    assert!(lab.lease(worker, at(now)).await.is_none());
    let summary = lab.store.summary(id).await.unwrap().unwrap();
    let abandoned = CandidateState::Abandoned {
        message: "no disk".to_owned(),
    };
    assert_eq!(summary.state, abandoned);
    let snapshot = lab.store.snapshot(run).await.unwrap();
    let reason = "no disk".to_owned();
    assert_eq!(snapshot.entries[1].state, EntryState::Abandoned { reason });
    assert_eq!(lab.store.run(run).await.unwrap().unwrap().pending, 0);
}

#[tokio::test]
async fn a_refusal_parks_a_job_at_once() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let id = lab.submit(run, baseline, "a").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    let refused = Report {
        admission: None,
        attempt: leased.attempt,
        outcome: ReportOutcome::Refused {
            message: "admit the task".to_owned(),
        },
    };
    let receipt = lab.store.report(leased.job, &refused, at(6)).await;
    assert_eq!(receipt.unwrap(), Receipt::Accepted);
    assert!(lab.lease(worker, at(1000)).await.is_none());
    let summary = lab.store.summary(id).await.unwrap().unwrap();
    let abandoned = CandidateState::Abandoned {
        message: "admit the task".to_owned(),
    };
    assert_eq!(summary.state, abandoned);
}

#[tokio::test]
async fn losses_are_forgiven_longer_than_faults_and_hand_backs_for_ever() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let id = lab.submit(run, baseline, "a").await;
    let mut now = 5;
    for _ in 0..2 * MAX_LOSSES {
        let leased = lab.lease(worker, at(now)).await.unwrap();
        let back = Report {
            admission: None,
            attempt: leased.attempt,
            outcome: ReportOutcome::HandedBack,
        };
        lab.store.report(leased.job, &back, at(now)).await.unwrap();
    }
    for _ in 0..MAX_LOSSES {
        lab.lease(worker, at(now)).await.unwrap();
        now += 100;
        assert_eq!(lab.store.expire_leases(at(now)).await.unwrap(), 1);
        now += 100;
    }
    assert!(lab.lease(worker, at(now)).await.is_none());
    let summary = lab.store.summary(id).await.unwrap().unwrap();
    assert!(matches!(summary.state, CandidateState::Abandoned { .. }));
}

#[tokio::test]
async fn a_job_over_which_several_machines_were_lost_is_given_up() {
    let lab = Lab::new().await;
    let (run, first, baseline) = lab.running(5).await;
    let id = lab.submit(run, baseline, "a").await;
    let mut now = 5;
    for number in 0..MAX_LOST_WORKERS {
        // The first one is lost twice, which says no more about the job than one loss.
        let losses = if number == 0 { 2 } else { 1 };
        let mut worker = first;
        for _ in 0..losses {
            worker = lab.worker(&format!("machine {number}"), DEVICE).await;
            let summary = lab.store.summary(id).await.unwrap().unwrap();
            assert_eq!(summary.state, CandidateState::Queued, "{number}");
            lab.lease(worker, at(now)).await.unwrap();
            now += 100;
            assert_eq!(lab.store.expire_leases(at(now)).await.unwrap(), 1);
            now += 100;
        }
        let waits = lab.lease(worker, at(now)).await;
        assert_eq!(waits.is_some(), number + 1 < MAX_LOST_WORKERS, "{number}");
        if let Some(leased) = waits {
            let back = Report {
                admission: None,
                attempt: leased.attempt,
                outcome: ReportOutcome::HandedBack,
            };
            lab.store.report(leased.job, &back, at(now)).await.unwrap();
            now += 100;
        }
    }
    let summary = lab.store.summary(id).await.unwrap().unwrap();
    assert!(matches!(summary.state, CandidateState::Abandoned { .. }));
}

#[tokio::test]
async fn a_declined_job_goes_to_another_worker_and_is_a_fault_only_where_there_is_none() {
    let lab = Lab::new().await;
    let (run, able, baseline) = lab.running(5).await;
    let id = lab.submit(run, baseline, "a").await;
    let decline = |leased: &LeasedJob| Report {
        admission: None,
        attempt: leased.attempt,
        outcome: ReportOutcome::Declined {
            message: "use what the task needs: no NumPy".to_owned(),
        },
    };
    let mut now = 5;
    // More than a job may have faults.
    for number in 0..=MAX_FAULTS {
        let worker = lab.worker(&format!("without {number}"), DEVICE).await;
        // The able worker is alive.
        assert!(lab.store.check_lease(able, None).await.is_ok());
        lab.store
            .record_waiting(&[able], &[], at(now))
            .await
            .unwrap();
        let leased = lab.lease(worker, at(now)).await.unwrap();
        let receipt = lab
            .store
            .report(leased.job, &decline(&leased), at(now))
            .await;
        assert_eq!(receipt.unwrap(), Receipt::Accepted);
        assert!(
            lab.lease(worker, at(now)).await.is_none(),
            "another is alive"
        );
        now += 1;
    }
    let leased = lab.lease(able, at(now)).await.unwrap();
    assert_eq!(leased.candidate, id);
    // Nobody else can: the reason is told after as many attempts as faults.
    now += 1000;
    lab.store
        .report(leased.job, &decline(&leased), at(now))
        .await
        .unwrap();
    for _ in 1..MAX_FAULTS {
        now += 100;
        let leased = lab.lease(able, at(now)).await.unwrap();
        lab.store
            .report(leased.job, &decline(&leased), at(now))
            .await
            .unwrap();
    }
    let summary = lab.store.summary(id).await.unwrap().unwrap();
    let abandoned = CandidateState::Abandoned {
        message: "use what the task needs: no NumPy".to_owned(),
    };
    assert_eq!(summary.state, abandoned);
    let workers = lab.store.fleet(at(now)).await.unwrap().workers;
    let able = workers
        .iter()
        .find(|shown| shown.worker.id == able)
        .unwrap();
    assert_eq!(
        able.faults_in_a_row, 0,
        "a machine without a package is not defective"
    );
}

#[tokio::test]
async fn a_worker_started_anew_frees_what_it_held() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    lab.submit(run, baseline, "a").await;
    let first = lab.lease(worker, at(5)).await.unwrap();
    let stranger = lab.worker("stranger", DEVICE).await;
    assert!(lab.lease(stranger, at(9)).await.is_none());
    let reborn = lab.worker("w", DEVICE).await;
    let second = lab.lease(reborn, at(9)).await.unwrap();
    assert_eq!((first.job, 2), (second.job, second.attempt));
}

#[tokio::test]
async fn a_worker_that_outlived_the_service_may_renew_after_its_restart() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    lab.submit(run, baseline, "a").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    lab.store.extend_leases(at(500)).await.unwrap();
    assert_eq!(lab.store.expire_leases(at(514)).await.unwrap(), 0);
    let renewed = lab
        .store
        .renew(leased.job, &renewal(&leased, "run"), at(514))
        .await;
    assert_eq!(renewed.unwrap(), Receipt::Accepted);
}

#[tokio::test]
async fn only_the_device_of_the_baseline_takes_the_runs_jobs() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    lab.submit(run, baseline, "a").await;
    let silicon = lab.worker("s", "NVIDIA L4").await;
    assert!(lab.lease(silicon, at(5)).await.is_none());
    assert!(lab.lease(worker, at(5)).await.is_some());
}

#[tokio::test]
async fn nothing_is_evaluated_before_the_baseline_is_accepted() {
    let lab = Lab::new().await;
    let run = lab.run(5).await;
    let worker = lab.worker("w", DEVICE).await;
    let baseline = lab
        .propose(run, &candidate(Operator::Baseline, None, "baseline"))
        .await;
    lab.submit(run, baseline, "a").await;
    lab.store
        .advance(run, &RunState::CheckingBaseline, at(2))
        .await
        .unwrap();
    assert_eq!(lab.lease(worker, at(3)).await.unwrap().candidate, baseline);
    assert!(lab.lease(worker, at(3)).await.is_none());
}

#[tokio::test]
async fn a_report_about_something_else_is_a_fault_of_the_worker() {
    type Change = fn(&mut domain::evaluation::Evaluation);
    let other_version = format!("version {}", EVALUATOR_VERSION + 1);
    let spoilt = [
        ((|e| e.evaluator += 1) as Change, other_version.as_str()),
        (
            |e| e.stage = domain::evaluation::EvaluationStage::Confirmation,
            "another stage",
        ),
        (
            |e| e.task_version = domain::digest::Digest::of("x"),
            "version of the task",
        ),
        (|e| e.candidate_digest = None, "another candidate"),
        (|e| e.device = None, "naming a device"),
        (
            |e| {
                if let Verdict::Accepted(acceptance) = &mut e.verdict {
                    acceptance.timing = timing(-1.0);
                }
            },
            "positive time",
        ),
        (
            |e| {
                if let Verdict::Accepted(acceptance) = &mut e.verdict {
                    acceptance.timing = timing(5e-324);
                }
            },
            "positive time",
        ),
    ];
    for (spoil, wanted) in spoilt {
        let lab = Lab::new().await;
        let (run, worker, baseline) = lab.running(5).await;
        let id = lab.submit(run, baseline, "a").await;
        let leased = lab.lease(worker, at(5)).await.unwrap();
        let mut spoilt = evaluation(&leased, accepted(50.0));
        spoil(&mut spoilt);
        let report = Report {
            admission: None,
            attempt: leased.attempt,
            outcome: ReportOutcome::Evaluated {
                evaluation: Box::new(spoilt),
            },
        };
        let refused = lab.store.report(leased.job, &report, at(6)).await;
        let refused = refused.unwrap_err();
        assert!(
            matches!(refused, StoreError::Mismatch { .. }) && refused.to_string().contains(wanted),
            "{refused}"
        );
        let summary = lab.store.summary(id).await.unwrap().unwrap();
        assert_eq!(
            (summary.state, summary.verdict),
            (CandidateState::Queued, None)
        );
    }
}

#[tokio::test]
async fn times_of_another_model_are_not_compared() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    lab.submit(run, baseline, "a").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    let mut verdict = accepted(50.0);
    if let Verdict::Accepted(acceptance) = &mut verdict
        && let domain::timing::Timing::Modelled { label, .. } = &mut acceptance.timing
    {
        *label = "calibrated".to_owned();
    }
    let refused = lab
        .store
        .report(leased.job, &report(&leased, verdict), at(6))
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("cannot be compared"),
        "{refused}"
    );
}

#[tokio::test]
async fn bad_news_is_recorded_without_a_time() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let id = lab.submit(run, baseline, "a").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    lab.judge(
        &leased,
        Verdict::LaunchRejected {
            reason: "grid of 0".to_owned(),
        },
    )
    .await;
    let summary = lab.store.summary(id).await.unwrap().unwrap();
    assert_eq!(summary.verdict, Some(VerdictKind::LaunchRejected));
    assert_eq!(
        summary.summary.as_deref(),
        Some("launch rejected: grid of 0")
    );
    assert_eq!((summary.speedup, summary.time_us), (None, None));
    let insights = lab.store.insights(run, 10).await.unwrap();
    let told = "rejected: the plan cannot be launched";
    let wanted = (id, "a".to_owned(), told.to_owned());
    assert_eq!(insights, [wanted]);
}

#[tokio::test]
async fn an_unknown_worker_and_one_of_another_version_are_refused() {
    let lab = Lab::new().await;
    let known = lab.worker("w", DEVICE).await;
    let unknown = domain::id::WorkerId::from(domain::id::RunId::from(known.uuid()).uuid());
    assert!(lab.lease(unknown, at(1)).await.is_none(), "it is the same");
    let stranger = "00000000-0000-7000-8000-000000000000".parse().unwrap();
    let refused = lab.store.lease(stranger, None, at(1)).await.unwrap_err();
    assert!(matches!(
        refused,
        StoreError::Unknown {
            subject: "worker",
            ..
        }
    ));
    let registration = Registration {
        name: "old".to_owned(),
        device: device(DEVICE),
        toolchain: String::new(),
        evaluator: EVALUATOR_VERSION + 1,
        instance: None,
        dollars_per_hour: None,
        declined: Vec::new(),
    };
    let refused = lab.store.register(&registration, at(1)).await.unwrap_err();
    assert!(refused.to_string().contains("same release"), "{refused}");
    // The test's worker speaks the newer version.
    let update = "update the service's program";
    assert!(refused.to_string().contains(update), "{refused}");
}

#[tokio::test]
async fn a_silent_worker_is_listed_as_dead_and_then_not_at_all() {
    let lab = Lab::new().await;
    lab.worker("w", DEVICE).await;
    for (now, workers, listed) in [(10, 1, 1), (100, 0, 1), (4000, 0, 0)] {
        assert_eq!(lab.store.load(at(now)).await.unwrap().workers, workers);
        let list = lab.store.workers(at(now)).await.unwrap();
        assert_eq!(list.len(), listed);
        assert!(list.iter().all(|worker| worker.alive == (workers == 1)));
    }
}

#[tokio::test]
async fn an_advisory_gate_is_shown_and_holds_nothing_back() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let id = lab.submit(run, baseline, "fast").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    let unmet = |subject, phase: &str, enforce| GateOutcome {
        subject,
        phase: Some(phase.to_owned()),
        case: None,
        min: None,
        max: Some(0.0),
        found: 1.0,
        met: false,
        enforce,
    };
    let mut judged = evaluation(&leased, accepted(50.0));
    judged.gates = vec![
        unmet(GateSubject::SpillBytes, "tensor", Enforce::Advise),
        unmet(GateSubject::CtasPerSm, "parallelism", Enforce::Phase),
    ];
    let report = Report {
        admission: None,
        attempt: leased.attempt,
        outcome: ReportOutcome::Evaluated {
            evaluation: Box::new(judged),
        },
    };
    let receipt = lab.store.report(leased.job, &report, at(6)).await.unwrap();
    assert_eq!(receipt, Receipt::Accepted);
    let summary = lab.store.summary(id).await.unwrap().unwrap();
    assert_eq!(summary.unmet_gates, [GateSubject::CtasPerSm]);
    let entries = lab.store.snapshot(run).await.unwrap().entries;
    let state = &entries.iter().find(|entry| entry.id == id).unwrap().state;
    let EntryState::Accepted { unmet_phases, .. } = state else {
        panic!("{state:?}");
    };
    assert_eq!(unmet_phases, &["parallelism"]);
}

#[tokio::test]
async fn a_job_does_not_return_to_the_worker_that_reported_its_fault() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let other = lab.worker("other", DEVICE).await;
    lab.submit(run, baseline, "a").await;
    let first = lab.lease(worker, at(5)).await.unwrap();
    lab.fault(&first, at(6)).await;
    assert!(lab.lease(worker, at(10)).await.is_none());
    let second = lab.lease(other, at(10)).await.unwrap();
    assert_eq!((second.job, second.attempt), (first.job, 2));
}

#[tokio::test]
async fn a_job_returns_to_its_worker_when_no_other_one_attends() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    lab.worker("other", DEVICE).await;
    lab.submit(run, baseline, "a").await;
    let first = lab.lease(worker, at(5)).await.unwrap();
    lab.fault(&first, at(6)).await;
    assert!(lab.lease(worker, at(10)).await.is_none());
    assert!(lab.lease(worker, at(60)).await.is_some());
}

#[tokio::test]
async fn a_worker_that_always_faults_abandons_no_candidate_of_the_others() {
    const CANDIDATES: u32 = 30;
    let lab = Lab::new().await;
    let (run, honest, baseline) = lab.running(CANDIDATES).await;
    let broken = lab.worker("broken", DEVICE).await;
    for number in 0..CANDIDATES {
        let body = format!("version {number}");
        lab.submit(run, baseline, &body).await;
    }
    let mut faults = 0;
    for now in 5..200 {
        if let Some(leased) = lab.lease(broken, at(now)).await {
            lab.fault(&leased, at(now)).await;
            faults += 1;
        }
        // The honest worker is slower, because it does the work.
        if now % 3 == 0
            && let Some(leased) = lab.lease(honest, at(now)).await
        {
            lab.judge(&leased, accepted(50.0)).await;
        }
    }
    let view = lab.store.run(run).await.unwrap().unwrap();
    assert_eq!(view.verdicts[&VerdictKind::Accepted], CANDIDATES + 1);
    // Three faults suspend it for one minute, each further one for twice as long.
    assert_eq!(faults, MAX_WORKER_FAULTS + 1);
}

#[tokio::test]
async fn a_suspended_worker_says_so_and_a_verdict_ends_its_row_of_faults() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    let fault = async |body: &str, now| {
        lab.submit(run, baseline, body).await;
        let leased = lab.lease(worker, at(now)).await.unwrap();
        let report = faulted(&leased);
        lab.store
            .report(leased.job, &report, at(now))
            .await
            .unwrap();
    };
    let suspended = async |now| {
        let workers = lab.store.workers(at(now)).await.unwrap();
        workers[0].suspended_until
    };
    fault("a", 5).await;
    fault("b", 5).await;
    assert_eq!(suspended(5).await, None);
    fault("c", 5).await;
    assert_eq!(suspended(5).await, Some(at(65)));
    assert!(lab.lease(worker, at(64)).await.is_none());
    assert_eq!(suspended(65).await, None);
    let leased = lab.lease(worker, at(65)).await.unwrap();
    lab.judge(&leased, accepted(50.0)).await;
    fault("d", 66).await;
    assert_eq!(suspended(66).await, None);
}

#[tokio::test]
async fn a_second_worker_of_one_host_leaves_the_first_ones_leases_alone() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(5).await;
    lab.submit(run, baseline, "a").await;
    let register = async |instance: &str| {
        let registration = Registration {
            name: "host".to_owned(),
            device: device(DEVICE),
            toolchain: "NVRTC 13.5".to_owned(),
            evaluator: EVALUATOR_VERSION,
            instance: Some(instance.to_owned()),
            dollars_per_hour: None,
            declined: Vec::new(),
        };
        let registered = lab.store.register(&registration, at(5)).await;
        registered.unwrap().worker
    };
    let first = register("one").await;
    let leased = lab.lease(first, at(5)).await.unwrap();
    let second = register("two").await;
    assert!(lab.lease(second, at(6)).await.is_none());
    let renewed = lab
        .store
        .renew(leased.job, &renewal(&leased, "run"), at(6))
        .await;
    assert_eq!(renewed.unwrap(), Receipt::Accepted);
    let restarted = register("one").await;
    let again = lab.lease(restarted, at(7)).await.unwrap();
    assert_eq!((again.job, again.attempt), (leased.job, 2));
}

#[tokio::test]
async fn people_take_turns_and_so_do_the_runs_of_one() {
    let lab = Lab::new().await;
    let worker = lab.worker("w", DEVICE).await;
    let mut runs = Vec::new();
    for (person, count) in [("ada", 4), ("bob", 2), ("bob", 2)] {
        let (run, baseline) = lab.running_by(person, 9, worker).await;
        for number in 0..count {
            lab.submit_new_code(run, baseline, &format!("{number}"))
                .await;
        }
        runs.push(run);
    }
    let number = |leased: &LeasedJob| runs.iter().position(|run| *run == leased.run).unwrap();

    // One worker: ada's jobs came first, and she has every second turn. Bob's two runs share the others.
    let mut turns = Vec::new();
    for second in 10..18 {
        let leased = lab.lease(worker, at(second)).await.unwrap();
        turns.push(number(&leased));
        lab.judge(&leased, accepted(90.0)).await;
    }
    let alternate = |turns: &[usize]| turns.windows(2).all(|pair| pair[0] != pair[1]);
    let persons = turns.iter().map(|run| usize::from(*run > 0));
    assert!(alternate(&persons.collect::<Vec<_>>()), "{turns:?}");
    let his = turns.iter().copied().filter(|run| *run > 0);
    assert!(alternate(&his.collect::<Vec<_>>()), "{turns:?}");
    assert!(lab.lease(worker, at(18)).await.is_none());
}

#[tokio::test]
async fn a_worker_goes_to_the_person_with_the_fewest_devices_within_the_quota() {
    let lab = Lab::new().await;
    let mut workers = Vec::new();
    for name in ["a", "b", "c", "d"] {
        workers.push(lab.worker(name, DEVICE).await);
    }
    let (hers, baseline) = lab.running_by("ada", 9, workers[0]).await;
    for title in ["1", "2", "3"] {
        lab.submit_new_code(hers, baseline, title).await;
    }
    let quota = Some(2);
    let lease = async |worker: usize, second| {
        let leased = lab.store.lease(workers[worker], quota, at(second)).await;
        leased.unwrap().map(|leased| leased.run)
    };
    assert_eq!(lease(0, 10).await, Some(hers));
    assert_eq!(lease(1, 11).await, Some(hers));
    // Her third job waits, and wakes nobody.
    assert_eq!(lease(2, 12).await, None);
    assert_eq!(lab.store.waiting_jobs(quota, at(12)).await.unwrap(), []);
    assert_eq!(lab.store.waiting_jobs(None, at(12)).await.unwrap().len(), 1);

    let (his, baseline) = lab.running_by("bob", 9, workers[2]).await;
    lab.submit_new_code(his, baseline, "1").await;
    assert_eq!(lease(2, 13).await, Some(his));
    assert_eq!(lease(3, 14).await, None);
    // Without a quota nothing waits.
    let third = lab.lease(workers[3], at(15)).await.unwrap();
    assert_eq!(third.run, hers);
}
