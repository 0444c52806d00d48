//! Hints reach those whom a commit concerns, and a poll for a job that finds none is no write.

use domain::search::Operator;
use tokio::sync::watch::Receiver;

use crate::fixture::{Lab, accepted, at, candidate, report};

/// Returns true if a hint has come since the last call.
fn is_woken(hint: &mut Receiver<u64>) -> bool {
    let changed = hint.has_changed().unwrap();
    hint.borrow_and_update();
    changed
}

#[tokio::test]
async fn a_poll_without_a_job_is_a_write_once_in_a_while() {
    let lab = Lab::new().await;
    let worker = lab.worker("w", crate::fixture::DEVICE).await;
    let mut hint = lab.store.changed();
    for (now, seen) in [(3, 1), (5, 1), (9, 9), (12, 9), (40, 40)] {
        assert!(lab.lease(worker, at(now)).await.is_none());
        let workers = lab.store.workers(at(now)).await.unwrap();
        assert_eq!(workers[0].seen_at, at(seen), "polled at {now}");
        assert_eq!(is_woken(&mut hint), seen == now, "polled at {now}");
    }
}

#[tokio::test]
async fn a_commit_wakes_those_whom_it_concerns() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    let other = lab.run(9).await;
    let mut own = lab.store.changed_run(run);
    let mut others = lab.store.changed_run(other);
    let mut jobs = lab.store.changed_jobs();
    let mut service = lab.store.changed_service();
    let mut woken = || {
        let own = is_woken(&mut own);
        let others = is_woken(&mut others);
        (own, others, is_woken(&mut jobs), is_woken(&mut service))
    };
    lab.submit(run, baseline, "a").await;
    assert_eq!(woken(), (true, false, true, false));
    let leased = lab.lease(worker, at(5)).await.unwrap();
    assert_eq!(woken(), (false, false, false, false));
    lab.judge(&leased, accepted(50.0)).await;
    assert_eq!(woken(), (true, false, false, false));
    lab.propose(other, &candidate(Operator::Baseline, None, "baseline"))
        .await;
    assert_eq!(woken(), (false, true, true, false));
    // A baseline opens its run to the other jobs.
    let leased = lab.lease(worker, at(6)).await.unwrap();
    let report = report(&leased, accepted(100.0));
    lab.store.report(leased.job, &report, at(7)).await.unwrap();
    assert_eq!(woken(), (true, true, true, true));
    lab.store.pause(run, "why", at(8)).await.unwrap();
    assert_eq!(woken(), (true, true, true, true));
}
