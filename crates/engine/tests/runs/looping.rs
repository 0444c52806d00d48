//! The loop itself: woken by what happens, stopped when asked.

use std::time::Duration;

use chrono::TimeDelta;
use domain::api::RunState;
use domain::search::{Method, StopReason};
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, honest, request};

/// Longer than any healthy run here takes.
const TOO_LONG: Duration = Duration::from_secs(60);

/// Lets the loop drive a run, each evaluation taking `seconds` of its clock.
async fn let_run(lab: &Lab, request: domain::api::RunRequest, seconds: i64) -> RunState {
    let shutdown = CancellationToken::new();
    let engine = lab.engine.clone();
    let token = shutdown.clone();
    let looping = tokio::spawn(async move { engine.run_forever(token).await });
    let run = lab.launch(request).await;
    let mut hint = lab.engine.store().changed();
    let over = async {
        loop {
            hint.borrow_and_update();
            while let Some(lease) = lab.lease().await {
                lab.clock.advance(TimeDelta::seconds(seconds));
                lab.report(&lease, honest(&lease.request)).await;
            }
            let state = lab.view(run).await.state;
            if state.is_over() {
                return state;
            }
            hint.changed().await.unwrap();
        }
    };
    let state = tokio::time::timeout(TOO_LONG, over).await.unwrap();
    shutdown.cancel();
    tokio::time::timeout(TOO_LONG, looping)
        .await
        .unwrap()
        .unwrap();
    state
}

#[tokio::test]
async fn the_loop_is_woken_by_what_happens_and_stops_when_asked() {
    let lab = Lab::new().await;
    let state = let_run(&lab, request(Method::Playbook, 45), 0).await;
    let reason = StopReason::Exhausted;
    assert_eq!(state, RunState::Completed { reason });
}

#[tokio::test]
async fn a_run_ends_when_its_running_time_is_used_up() {
    let lab = Lab::new().await;
    let mut request = request(Method::Playbook, 45);
    request.budget.wall_seconds = Some(12);
    let state = let_run(&lab, request, 7).await;
    let reason = StopReason::WallTime;
    assert_eq!(state, RunState::Completed { reason });
}

#[tokio::test]
async fn runs_are_driven_beside_each_other_and_a_later_one_too() {
    let lab = Lab::new().await;
    let shutdown = CancellationToken::new();
    let (engine, token) = (lab.engine.clone(), shutdown.clone());
    let looping = tokio::spawn(async move { engine.run_forever(token).await });
    let mut runs = Vec::new();
    let mut hint = lab.engine.store().changed();
    let over = async {
        for _ in 0..3 {
            // Each begins while the one before it is under way.
            runs.push(lab.launch(request(Method::Playbook, 45)).await);
            loop {
                hint.borrow_and_update();
                if let Some(lease) = lab.lease().await {
                    lab.report(&lease, honest(&lease.request)).await;
                    break;
                }
                hint.changed().await.unwrap();
            }
        }
        for run in &runs {
            loop {
                hint.borrow_and_update();
                while let Some(lease) = lab.lease().await {
                    lab.report(&lease, honest(&lease.request)).await;
                }
                if lab.view(*run).await.state.is_over() {
                    break;
                }
                hint.changed().await.unwrap();
            }
        }
    };
    tokio::time::timeout(TOO_LONG, over).await.unwrap();
    shutdown.cancel();
    tokio::time::timeout(TOO_LONG, looping)
        .await
        .unwrap()
        .unwrap();
}
