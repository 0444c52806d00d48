//! Runs of a task, the best of each, and the best so far over trials.

use domain::api::{RunComparison, WorkerState};
use domain::verdict::Verdict;
use store::{CurveDetail, RunQuery};

use crate::fixture::{DEVICE, Lab, accepted, at, rounded};

/// A run whose candidates have these times; none stands for a rejected one.
async fn searched(lab: &Lab, times: &[Option<f64>]) -> domain::id::RunId {
    let (run, worker, baseline) = lab.running(9).await;
    for (number, us) in times.iter().enumerate() {
        let title = format!("candidate {number}");
        lab.submit_new_code(run, baseline, &title).await;
        let leased = lab.lease(worker, at(5)).await.unwrap();
        let rejected = || Verdict::LaunchRejected {
            reason: String::new(),
        };
        lab.judge(&leased, us.map_or_else(rejected, accepted)).await;
    }
    run
}

#[tokio::test]
async fn a_leaderboard_has_the_best_candidate_of_each_run_by_time() {
    let lab = Lab::new().await;
    let slow = searched(&lab, &[Some(80.0), None]).await;
    let fast = searched(&lab, &[Some(60.0), Some(20.0), Some(40.0)]).await;
    let boards = lab.store.leaderboards("fill", 10).await.unwrap();
    assert_eq!(boards.len(), 1);
    let board = &boards[0];
    assert_eq!((board.device.as_str(), board.modelled), (DEVICE, true));
    let entries = board.entries.iter();
    let entries = entries.map(|entry| (entry.run, entry.title.as_str(), rounded(entry.speedup)));
    assert_eq!(
        entries.collect::<Vec<_>>(),
        [(fast, "candidate 1", 5.0), (slow, "candidate 0", 1.25)]
    );
    let short = lab.store.leaderboards("fill", 1).await.unwrap();
    assert_eq!(short[0].entries.len(), 1);
    let all = lab.store.all_leaderboards(None, 1, 10).await.unwrap();
    assert_eq!((all.boards.len(), all.next), (1, None));
    let rest = lab
        .store
        .all_leaderboards(Some("fill"), 1, 10)
        .await
        .unwrap();
    assert!(rest.boards.is_empty());
    lab.store.leaderboards("nothing", 1).await.unwrap_err();
}

#[tokio::test]
async fn the_runs_of_a_task_are_paged_newest_first() {
    let lab = Lab::new().await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(lab.run(5).await);
    }
    made.sort();
    made.reverse();
    let of_task = RunQuery {
        task: Some("fill"),
        ..RunQuery::default()
    };
    let first = lab.store.runs(&of_task, 2).await.unwrap();
    let before = first.next.map(|next| next.parse().unwrap());
    let older = RunQuery { before, ..of_task };
    let second = lab.store.runs(&older, 2).await.unwrap();
    let seen = first.runs.iter().chain(&second.runs).map(|run| run.id);
    assert_eq!(seen.collect::<Vec<_>>(), made);
    assert_eq!(second.next, None);
    let unknown = RunQuery {
        task: Some("nothing"),
        ..of_task
    };
    lab.store.runs(&unknown, 2).await.unwrap_err();
}

#[tokio::test]
async fn a_curve_has_the_candidates_that_beat_all_before_them() {
    let lab = Lab::new().await;
    let long = searched(&lab, &[Some(80.0), Some(90.0), None, Some(20.0)]).await;
    let short = searched(&lab, &[Some(50.0), Some(25.0)]).await;
    let left = lab
        .store
        .compared_run(long, CurveDetail::Trials)
        .await
        .unwrap();
    let points = left
        .curve
        .iter()
        .map(|point| (point.trial, rounded(point.speedup)));
    assert_eq!(points.collect::<Vec<_>>(), [(0, 1.0), (1, 1.25), (4, 5.0)]);
    assert_eq!(left.device.as_deref(), Some(DEVICE));
    assert!(left.curve.iter().all(|point| point.spent.is_none()));
    let right = lab
        .store
        .compared_run(short, CurveDetail::Trials)
        .await
        .unwrap();
    let compared = RunComparison::of(left, right);
    assert_eq!((compared.equal_trials, compared.incomparable), (2, None));
    assert_eq!(compared.left.best_at_equal_trials.map(rounded), Some(1.25));
    assert_eq!(compared.right.best_at_equal_trials.map(rounded), Some(4.0));
}

#[tokio::test]
async fn the_fleet_shows_each_workers_state_and_job() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    let idle = lab.store.fleet(at(6)).await.unwrap();
    assert_eq!((idle.queued, idle.oldest_queued_at), (0, None));
    assert_eq!(idle.workers[0].state, WorkerState::Idle);
    assert_eq!(idle.workers[0].evaluations_last_hour, 1);

    let candidate = lab.submit(run, baseline, "next").await;
    let queued = lab.store.fleet(at(6)).await.unwrap();
    assert_eq!((queued.queued, queued.oldest_queued_at), (1, Some(at(2))));
    lab.lease(worker, at(7)).await.unwrap();
    let busy = lab.store.fleet(at(7)).await.unwrap();
    let shown = &busy.workers[0];
    assert_eq!(
        (shown.state, shown.evaluator),
        (WorkerState::Busy, busy.evaluator)
    );
    let job = shown.job.as_ref().unwrap();
    assert_eq!(
        (job.run, job.candidate, job.title.as_str()),
        (run, candidate, "next")
    );

    lab.store.drain_worker(worker).await.unwrap();
    let draining = lab.store.fleet(at(7)).await.unwrap();
    assert_eq!(draining.workers[0].state, WorkerState::Draining);
    let lost = lab.store.fleet(at(1000)).await.unwrap();
    assert_eq!(lost.workers[0].state, WorkerState::Lost);
}
