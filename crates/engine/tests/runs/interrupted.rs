//! Killed at every step, a run has the same rows in the end as one that nothing disturbed.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use chrono::TimeDelta;
use domain::api::CandidateState;
use domain::id::RunId;
use domain::search::Method;

use crate::lab::{Lab, honest, on_branch, request};

/// No round takes more, as the longest takes the run over and proposes, finishes or commits once.
const MAX_POLLS: usize = 60;

/// A future that is given up after so many polls.
struct PollLimit<F> {
    inner: Pin<Box<F>>,
    polls: usize,
}

impl<F: Future> Future for PollLimit<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        self.inner.as_mut().poll(cx).map(Some)
    }
}

/// Everything about a run but its ids and times.
async fn rows(lab: &Lab, run: RunId) -> String {
    let view = lab.view(run).await;
    let nodes = lab.engine.store().lineage(run, 1000).await.unwrap().nodes;
    let ordinal = |id| nodes.iter().position(|node| node.id == id).unwrap();
    let mut rows = format!("{} {} {:?}\n", view.state, view.trials, view.verdicts);
    for node in &nodes {
        let state = match &node.state {
            CandidateState::Duplicate { of } => format!("duplicate of {}", ordinal(*of)),
            other => format!("{other:?}"),
        };
        let parents = node.parents.iter().map(|id| ordinal(*id));
        rows += &format!(
            "{} {:?} {:?} {} {:?} {state} {:?} {:?} {}\n",
            node.ordinal,
            parents.collect::<Vec<_>>(),
            node.operator,
            node.title,
            node.configuration,
            node.verdict,
            node.speedup,
            node.best,
        );
    }
    let promotion = view.promotion.unwrap();
    let (blob, message) = on_branch(&lab.repository(), &promotion.branch, "kernels/fill.cu");
    let repository = git2::Repository::open(lab.repository()).unwrap();
    let mut walk = repository.revwalk().unwrap();
    walk.push_glob("refs/heads/*").unwrap();
    assert_eq!(walk.count(), 1, "one commit on one branch");
    let subject = message.lines().next().unwrap();
    rows + subject + &String::from_utf8(blob).unwrap()
}

async fn undisturbed() -> String {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::Playbook, 45)).await;
    lab.drive(run, honest).await;
    rows(&lab, run).await
}

/// A run whose engine is given up after another number of polls in each round, beginning with
/// `first`, and whose worker forgets the first lease of every job.
async fn killed_often(first: usize) -> String {
    let mut lab = Lab::new().await;
    let run = lab.launch(request(Method::Playbook, 45)).await;
    let mut given_up = 0;
    for round in 0..2000 {
        let patience = PollLimit {
            inner: Box::pin(lab.engine.tick()),
            polls: 1 + (first + 3 * round) % MAX_POLLS,
        };
        match patience.await {
            Some(worked) => worked.unwrap(),
            None => given_up += 1,
        }
        lab.restart().await;
        if let Some(lease) = lab.lease().await
            && lease.attempt > 1
        {
            lab.report(&lease, honest(&lease.request)).await;
        }
        lab.clock.advance(TimeDelta::seconds(20));
        if lab.view(run).await.state.is_over() {
            assert!(given_up > 5, "only {given_up} rounds were given up");
            return rows(&lab, run).await;
        }
    }
    panic!("the run never ends: {:?}", lab.view(run).await)
}

#[test]
fn a_run_killed_at_every_step_ends_as_an_undisturbed_one() {
    // One thread for git: what a dropped round began there ends before the next one looks, as
    // nothing of a killed process goes on either.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let wanted = undisturbed().await;
        for first in 0..6 {
            assert_eq!(killed_often(first).await, wanted, "begun with {first}");
        }
    });
}
