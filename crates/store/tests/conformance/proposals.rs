//! Proposing: once each, numbered, charged, and linked to the same code.

use domain::api::CandidateState;
use domain::digest::Digest;
use domain::lease::ReportOutcome;
use domain::search::{EntryState, Operator};
use store::{NewCandidate, Proposed, StoreError};

use crate::fixture::{Lab, accepted, at, candidate, report};

fn step(file: &str, body: &str) -> NewCandidate {
    candidate(
        Operator::Step {
            file: file.to_owned(),
        },
        None,
        body,
    )
}

#[tokio::test]
async fn the_same_step_or_configuration_is_proposed_once() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(9).await;
    let sweep = |value| {
        let mut new = candidate(Operator::Sweep, Some(baseline), &format!("w{value}"));
        new.configuration.insert("W".to_owned(), value);
        new
    };
    let first = lab.propose(run, &step("01.cu", "one")).await;
    let swept = lab.propose(run, &sweep(1)).await;
    for (again, known) in [(step("01.cu", "changed"), first), (sweep(1), swept)] {
        let proposed = lab.store.propose(run, &again, at(9)).await.unwrap();
        assert_eq!(proposed, Proposed::Known(known));
    }
    lab.propose(run, &step("02.cu", "two")).await;
    lab.propose(run, &sweep(2)).await;
    let page = lab.store.candidates(run, None, None, 50).await.unwrap();
    let ordinals = page
        .candidates
        .iter()
        .map(|c| c.ordinal)
        .collect::<Vec<_>>();
    assert_eq!(ordinals, [0, 1, 2, 3, 4]);
    assert_eq!(lab.store.run(run).await.unwrap().unwrap().trials, 4);
}

#[tokio::test]
async fn the_budget_is_never_exceeded() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(2).await;
    let all = ["a", "b", "c"].map(|body| candidate(Operator::Submit, Some(baseline), body));
    let proposed = lab.store.propose_all(run, &all, at(5)).await.unwrap();
    assert!(matches!(
        proposed[..],
        [Proposed::New(_), Proposed::New(_), Proposed::OverBudget]
    ));
    assert_eq!(lab.store.run(run).await.unwrap().unwrap().trials, 2);
}

#[tokio::test]
async fn a_run_asked_to_finish_takes_no_more() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(9).await;
    lab.store.request_finish(run, at(5)).await.unwrap();
    let new = candidate(Operator::Submit, Some(baseline), "a");
    let proposed = lab.store.propose(run, &new, at(6)).await.unwrap();
    assert_eq!(proposed, Proposed::OverBudget);
}

#[tokio::test]
async fn the_same_code_is_linked_and_gets_no_job() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    let first = lab.submit(run, baseline, "same").await;
    let pending = lab.submit(run, baseline, "same").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    assert_eq!(leased.candidate, first);
    let image = Some(Digest::of("the compiled code"));
    let mut report = report(&leased, accepted(25.0));
    if let ReportOutcome::Evaluated { evaluation } = &mut report.outcome {
        evaluation.image_digest = image;
    }
    lab.store.report(leased.job, &report, at(5)).await.unwrap();
    let swept = lab
        .propose(run, &candidate(Operator::Sweep, Some(baseline), "same"))
        .await;
    assert!(lab.lease(worker, at(6)).await.is_none());
    for duplicate in [pending, swept] {
        let summary = lab.store.summary(duplicate).await.unwrap().unwrap();
        assert_eq!(summary.state, CandidateState::Duplicate { of: first });
        assert_eq!(summary.speedup.map(crate::fixture::rounded), Some(4.0));
        assert!(!summary.best);
    }
    let entries = lab.store.snapshot(run).await.unwrap().entries;
    let trials = entries.iter().map(|entry| entry.trial).collect::<Vec<_>>();
    assert_eq!(trials, [false, true, true, false]);
    let images = entries.iter().map(|entry| entry.image).collect::<Vec<_>>();
    assert_eq!(images, [None, image, image, image]);
    assert!(
        entries
            .iter()
            .all(|entry| entry.state != EntryState::Pending)
    );
    let judged = lab.store.events_after(run, 0, 100).await.unwrap();
    let judged = judged
        .iter()
        .filter(|event| matches!(event.what, domain::api::EventKind::Judged { .. }));
    assert_eq!(judged.count(), 4, "baseline, original and two duplicates");
}

#[tokio::test]
async fn the_same_code_in_another_run_is_evaluated_there() {
    let lab = Lab::new().await;
    let (first, _, first_baseline) = lab.running(9).await;
    let (second, worker, second_baseline) = lab.running(9).await;
    for (run, baseline) in [(first, first_baseline), (second, second_baseline)] {
        lab.submit(run, baseline, "same").await;
    }
    let one = lab.lease(worker, at(5)).await.unwrap();
    let other = lab.lease(worker, at(5)).await.unwrap();
    let mut runs = [one.run, other.run];
    runs.sort_unstable_by_key(|run| *run != first);
    assert_eq!(runs, [first, second]);
    assert_ne!(one.secret, other.secret);
}

#[tokio::test]
async fn a_verdict_without_a_worker_is_recorded_at_once() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    lab.submit(run, baseline, "model").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    let mut verdict = crate::fixture::evaluation(
        &leased,
        domain::verdict::Verdict::ParseRejected {
            problems: Vec::new(),
        },
    );
    verdict.candidate_digest = None;
    let mut new = candidate(Operator::Submit, Some(baseline), "no plan");
    new.identity = None;
    new.verdict = Some(Box::new(verdict));
    let id = lab.propose(run, &new).await;
    let summary = lab.store.summary(id).await.unwrap().unwrap();
    assert_eq!(summary.state, CandidateState::Evaluated);
    assert!(lab.lease(worker, at(6)).await.is_none());
}

#[tokio::test]
async fn a_parent_of_another_run_is_unknown() {
    let lab = Lab::new().await;
    let (_, _, stranger) = lab.running(9).await;
    let (run, _, _) = lab.running(9).await;
    let new = candidate(Operator::Submit, Some(stranger), "a");
    let refused = lab.store.propose(run, &new, at(5)).await.unwrap_err();
    assert!(
        matches!(
            refused,
            StoreError::Unknown {
                subject: "candidate",
                ..
            }
        ),
        "{refused}"
    );
}
