//! The record of an engineer's steps on one file.

use domain::digest::Digest;
use domain::iteration::Decision;
use store::{BestKept, IterationState, NewIteration, StepSeries};

use crate::fixture::{Lab, at, unread};

fn line(device: &str) -> StepSeries {
    StepSeries {
        checkout: "/home/own".to_owned(),
        path: "k.cu".to_owned(),
        task_version: Digest::of("version"),
        evaluator: 3,
        device: device.to_owned(),
        modelled: true,
    }
}

fn step(line: &StepSeries, speedup: Option<f64>, decision: Decision) -> NewIteration {
    NewIteration {
        line: line.clone(),
        branch: "work".to_owned(),
        base: "base".to_owned(),
        task: "fill".to_owned(),
        hypothesis: "wider loads".to_owned(),
        expected: Some(1.2),
        speedup,
        gain: None,
        decision,
        reason: "because".to_owned(),
        evaluation: unread(),
    }
}

fn done(commit: &str) -> IterationState {
    IterationState::Done {
        commit: Some(commit.to_owned()),
        revert: None,
    }
}

#[tokio::test]
async fn only_what_git_has_counts_as_kept_and_lines_do_not_mix() {
    let lab = Lab::new().await;
    let store = &lab.store;
    let (own, other) = (line("a"), line("b"));
    let mut ids = Vec::new();
    for (line, speedup, decision) in [
        (&own, Some(1.5), Decision::Keep),
        (&own, Some(9.0), Decision::Keep),
        (&own, Some(8.0), Decision::Revert),
        (&other, Some(7.0), Decision::Target),
    ] {
        let new = step(line, speedup, decision);
        ids.push(store.plan_iteration(&new, at(1)).await.unwrap());
    }
    let numbers = ids.iter().map(|(_, number)| *number).collect::<Vec<_>>();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!(store.best_kept(&own).await.unwrap(), None);

    store
        .settle_iteration(ids[0].0, &done("one"))
        .await
        .unwrap();
    store
        .settle_iteration(ids[2].0, &done("three"))
        .await
        .unwrap();
    let refused = IterationState::Refused {
        reason: "the branch moved".to_owned(),
    };
    store.settle_iteration(ids[1].0, &refused).await.unwrap();
    // Settled is settled.
    store
        .settle_iteration(ids[1].0, &done("late"))
        .await
        .unwrap();
    let best = BestKept {
        speedup: 1.5,
        commit: Some("one".to_owned()),
    };
    assert_eq!(store.best_kept(&own).await.unwrap(), Some(best));
    let last = store.last_kept("/home/own", "k.cu").await.unwrap();
    assert_eq!(last.as_deref(), Some("one"));

    let listed = store.iterations("/home/own", "k.cu").await.unwrap();
    assert_eq!(listed.len(), 4);
    assert_eq!(listed[1].state, refused);
    assert_eq!(listed[3].state, IterationState::Planned);
    assert_eq!(listed[2].decision, Decision::Revert);
    assert_eq!(listed[0].expected, Some(1.2));
    assert!(
        store
            .iterations("/home/own", "other.cu")
            .await
            .unwrap()
            .is_empty()
    );
}
