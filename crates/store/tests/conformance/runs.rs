//! Runs: asked for once, moved from state to state, timed while they run.

use std::time::Duration;

use domain::api::{CandidateState, RunState};
use domain::search::{Operator, StopReason};
use store::{NewRun, RunQuery, StoreError};

use crate::fixture::{DEVICE, Lab, accepted, at, candidate, request, target};

#[tokio::test]
async fn the_same_key_gives_the_same_run_and_another_request_is_refused() {
    let lab = Lab::new().await;
    let (first, other) = (request(5), request(6));
    let new = |request| NewRun {
        request,
        promotion: &TARGET,
        idempotency_key: Some("k1"),
        actor: "ada",
        fork: None,
    };
    static TARGET: std::sync::LazyLock<domain::api::PromotionTarget> =
        std::sync::LazyLock::new(target);
    let made = lab.store.create_run(new(&first), at(1)).await.unwrap();
    let again = lab.store.create_run(new(&first), at(9)).await.unwrap();
    assert!(made.fresh && !again.fresh);
    assert_eq!(made.run, again.run);
    let refused = lab.store.create_run(new(&other), at(9)).await.unwrap_err();
    assert!(matches!(refused, StoreError::KeyReused { .. }), "{refused}");
    assert_eq!(
        lab.store
            .runs(&RunQuery::default(), 10)
            .await
            .unwrap()
            .runs
            .len(),
        1
    );
}

#[tokio::test]
async fn an_unknown_task_is_named() {
    let lab = Lab::new().await;
    let mut request = request(5);
    request.task = "fil".to_owned();
    let new = NewRun {
        request: &request,
        promotion: &target(),
        idempotency_key: None,
        actor: "ada",
        fork: None,
    };
    let refused = lab.store.create_run(new, at(1)).await.unwrap_err();
    assert_eq!(refused.to_string(), "find task fil");
}

#[tokio::test]
async fn only_running_time_counts() {
    let lab = Lab::new().await;
    let run = lab.run(5).await;
    let store = &lab.store;
    let elapsed = async || store.snapshot(run).await.unwrap().elapsed;
    let checking = RunState::CheckingBaseline;
    store.advance(run, &checking, at(10)).await.unwrap();
    assert_eq!(store.take_duties(at(11)).await.unwrap().runs, [run]);
    store.keep_time(at(14)).await.unwrap();
    assert_eq!(elapsed().await, Duration::from_secs(4));
    store.pause(run, "lunch", at(20)).await.unwrap();
    store.keep_time(at(90)).await.unwrap();
    assert_eq!(elapsed().await, Duration::from_secs(10));
    store.resume(run, at(100)).await.unwrap();
    lab.propose(run, &candidate(Operator::Baseline, None, "baseline"))
        .await;
    store.advance(run, &checking, at(100)).await.unwrap();
    store.keep_time(at(103)).await.unwrap();
    // The service was down until 200.
    store.end_duties().await.unwrap();
    let store = &lab.reopen().await;
    assert_eq!(store.take_duties(at(200)).await.unwrap().runs, [run]);
    store
        .finish(run, StopReason::Requested, None, at(205))
        .await
        .unwrap();
    assert_eq!(elapsed().await, Duration::from_secs(18));
    store.keep_time(at(900)).await.unwrap();
    assert_eq!(elapsed().await, Duration::from_secs(18));
    assert_eq!(store.run(run).await.unwrap().unwrap().running_ms, 18_000);
}

#[tokio::test]
async fn a_paused_run_lends_nothing_and_resumes_where_it_was() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    lab.submit(run, baseline, "a").await;
    let paused = lab.store.pause(run, "lunch", at(5)).await.unwrap();
    assert_eq!(paused.state.to_string(), "paused: lunch");
    assert!(lab.lease(worker, at(6)).await.is_none());
    assert!(lab.store.take_duties(at(6)).await.unwrap().runs.is_empty());
    let resumed = lab.store.resume(run, at(7)).await.unwrap();
    assert_eq!(resumed.state, RunState::Running);
    assert!(lab.lease(worker, at(8)).await.is_some());
}

#[tokio::test]
async fn a_run_that_is_over_cannot_be_moved() {
    let lab = Lab::new().await;
    let (run, _, _) = lab.running(5).await;
    lab.store
        .finish(run, StopReason::Exhausted, None, at(5))
        .await
        .unwrap();
    for refused in [
        lab.store.pause(run, "why", at(6)).await,
        lab.store.resume(run, at(6)).await,
        lab.store.request_finish(run, at(6)).await,
    ] {
        let refused = refused.unwrap_err();
        assert!(
            matches!(refused, StoreError::WrongState { .. }),
            "{refused}"
        );
    }
    let cancelled = lab.store.cancel(run, at(6)).await.unwrap();
    let reason = StopReason::Exhausted;
    assert_eq!(cancelled.state, RunState::Completed { reason });
}

#[tokio::test]
async fn a_run_that_finished_on_request_can_be_asked_again() {
    let lab = Lab::new().await;
    let (run, _, _) = lab.running(5).await;
    lab.store.request_finish(run, at(5)).await.unwrap();
    lab.store.request_finish(run, at(5)).await.unwrap();
    let reason = StopReason::Requested;
    lab.store.finish(run, reason, None, at(6)).await.unwrap();
    let again = lab.store.request_finish(run, at(7)).await.unwrap();
    assert_eq!(again.state, RunState::Completed { reason });
    assert_eq!(again.updated_at, at(6));
}

#[tokio::test]
async fn cancelling_takes_back_what_workers_hold() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let held = lab.submit(run, baseline, "a").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    let cancelled = lab.store.cancel(run, at(6)).await.unwrap();
    assert_eq!(cancelled.state, RunState::Cancelled);
    assert_eq!(cancelled.pending, 0);
    let late = crate::fixture::report(&leased, accepted(50.0));
    let receipt = lab.store.report(leased.job, &late, at(7)).await.unwrap();
    assert_eq!(receipt, domain::lease::Receipt::Superseded);
    let summary = lab.store.summary(held).await.unwrap().unwrap();
    assert_eq!(summary.verdict, None);
}

#[tokio::test]
async fn a_run_that_fails_leaves_no_candidate_queued() {
    let lab = Lab::new().await;
    let run = lab.run(5).await;
    let worker = lab.worker("w", DEVICE).await;
    let baseline = lab
        .propose(run, &candidate(Operator::Baseline, None, "baseline"))
        .await;
    let why = "its task no longer reads".to_owned();
    lab.store.fail(run, why, at(3)).await.unwrap();
    let view = lab.store.run(run).await.unwrap().unwrap();
    assert!(matches!(view.state, RunState::Failed { .. }));
    assert_eq!(view.pending, 0);
    let summary = lab.store.summary(baseline).await.unwrap().unwrap();
    assert!(
        matches!(&summary.state, CandidateState::Abandoned { message } if message == "the run failed"),
        "{:?}",
        summary.state
    );
    assert!(lab.lease(worker, at(4)).await.is_none());
}
