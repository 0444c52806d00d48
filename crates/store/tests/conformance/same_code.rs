//! Candidates of the same code: by their text, by what they are compiled to, and in other runs.

use domain::api::CandidateState;
use domain::digest::Digest;
use domain::id::{CandidateId, RunId, WorkerId};
use domain::lease::ReportOutcome;
use domain::search::Operator;
use domain::verdict::{Verdict, VerdictKind};
use store::LeasedJob;

use crate::calls::{draft, drafted, reply, written};
use crate::fixture::{DEVICE, Lab, accepted, at, measured, measurement, report, rounded};

fn rejected() -> Verdict {
    Verdict::LaunchRejected {
        reason: "too many threads".to_owned(),
    }
}

/// Reports a verdict on code that was compiled to `image`.
async fn judge(lab: &Lab, leased: &LeasedJob, verdict: Verdict, image: &str) {
    let mut report = report(leased, verdict);
    if let ReportOutcome::Evaluated { evaluation } = &mut report.outcome {
        evaluation.image_digest = Some(Digest::of(image));
        evaluation.measurement = Some(measurement(None));
    }
    lab.store.report(leased.job, &report, at(6)).await.unwrap();
}

/// Submits a candidate to a run of its own and judges it there.
async fn judged_elsewhere(lab: &Lab, body: &str, verdict: Verdict) -> CandidateId {
    let (run, worker, baseline) = lab.running(9).await;
    let candidate = lab.submit(run, baseline, body).await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    assert_eq!(leased.candidate, candidate);
    judge(lab, &leased, verdict, body).await;
    candidate
}

async fn duplicates(lab: &Lab, run: RunId) -> Vec<bool> {
    let entries = lab.store.snapshot(run).await.unwrap().entries;
    entries.iter().map(|entry| entry.duplicate).collect()
}

async fn is_evaluated(lab: &Lab, worker: WorkerId, candidate: CandidateId) -> bool {
    let leased = lab.lease(worker, at(9)).await;
    let is_leased = leased.is_some_and(|leased| leased.candidate == candidate);
    let summary = lab.store.summary(candidate).await.unwrap().unwrap();
    assert_eq!(is_leased, summary.verdict_of.is_none());
    is_leased
}

#[tokio::test]
async fn a_copy_with_other_comments_and_layout_gets_no_job() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    let first = lab.submit(run, baseline, "int a;").await;
    let copy = lab.submit(run, baseline, "int  a; // faster").await;
    let other = lab.submit(run, baseline, "int b; // faster").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    lab.judge(&leased, accepted(25.0)).await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    assert_eq!(leased.candidate, other);
    let summary = lab.store.summary(copy).await.unwrap().unwrap();
    assert_eq!(summary.state, CandidateState::Duplicate { of: first });
    assert_eq!(summary.verdict, Some(VerdictKind::Accepted));
}

#[tokio::test]
async fn a_comment_may_mend_a_text_that_the_policy_rejected() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    lab.submit(run, baseline, "int a; // odd").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    let problems = Vec::new();
    lab.judge(&leased, Verdict::PolicyRejected { problems })
        .await;
    let mended = lab.submit(run, baseline, "int a;").await;
    assert!(is_evaluated(&lab, worker, mended).await);
}

#[tokio::test]
async fn of_candidates_that_execute_the_same_the_first_is_the_original() {
    for arrival in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let lab = Lab::new().await;
        let (run, worker, baseline) = lab.running(9).await;
        let mut leased = Vec::new();
        let mut submitted = Vec::new();
        for body in ["int a;", "int b;", "int c;"] {
            submitted.push(lab.submit(run, baseline, body).await);
            leased.push(lab.lease(worker, at(5)).await.unwrap());
        }
        for place in arrival {
            // The later ones were measured as a little faster, by chance.
            let verdict = accepted(25.0 - place as f64);
            judge(&lab, &leased[place], verdict, "the same").await;
        }
        assert_eq!(duplicates(&lab, run).await, [false, false, true, true]);
        let first = submitted[0];
        for (place, candidate) in submitted.into_iter().enumerate() {
            let summary = lab.store.summary(candidate).await.unwrap().unwrap();
            let state = match place {
                0 => CandidateState::Evaluated,
                _ => CandidateState::Duplicate { of: first },
            };
            assert_eq!((summary.state, summary.best), (state, place == 0));
        }
    }
}

#[tokio::test]
async fn of_candidates_with_one_text_the_first_is_the_original_whichever_answer_came_first() {
    for arrival in [[0, 1], [1, 0]] {
        let lab = Lab::new().await;
        let (run, worker, baseline) = lab.running(9).await;
        let init = || draft(Operator::Init, &[baseline]);
        let due = drafted(&lab, run, 1, &[init(), init()]).await;
        for place in arrival {
            reply(&lab, &due[place], &written("int a;"), 6).await;
        }
        // The second is evaluated all the same if its answer came first, and waits like any other.
        let second = lab.store.summary(due[1].candidate).await.unwrap().unwrap();
        let expected = match arrival {
            [1, 0] => CandidateState::Queued,
            _ => CandidateState::Duplicate {
                of: due[0].candidate,
            },
        };
        assert_eq!(second.state, expected);
        while let Some(leased) = lab.lease(worker, at(8)).await {
            lab.judge(&leased, accepted(50.0)).await;
        }
        assert_eq!(duplicates(&lab, run).await, [false, false, true]);
    }
}

#[tokio::test]
async fn a_verdict_of_another_run_holds_under_the_same_conditions() {
    let lab = Lab::new().await;
    let wrong = judged_elsewhere(&lab, "wrong", rejected()).await;
    let right = judged_elsewhere(&lab, "right", accepted(25.0)).await;
    let (run, worker, baseline) = lab.running(9).await;
    let before = lab.store.run(run).await.unwrap().unwrap().spend.device_ms;
    for (body, of, kind) in [
        ("wrong // again", wrong, VerdictKind::LaunchRejected),
        ("right // again", right, VerdictKind::Accepted),
    ] {
        let candidate = lab.submit(run, baseline, body).await;
        let summary = lab.store.summary(candidate).await.unwrap().unwrap();
        assert_eq!(summary.state, CandidateState::Evaluated);
        assert_eq!(summary.verdict_of, Some(of));
        assert_eq!(summary.verdict, Some(kind));
    }
    assert!(lab.lease(worker, at(9)).await.is_none());
    let view = lab.store.run(run).await.unwrap().unwrap();
    assert_eq!((view.trials, view.spend.device_ms), (2, before));
    assert_eq!(view.best.map(|best| rounded(best.speedup)), Some(4.0));
    assert_eq!(duplicates(&lab, run).await, [false; 3]);
}

#[tokio::test]
async fn a_verdict_of_another_run_does_not_hold_under_other_conditions() {
    let lab = Lab::new().await;
    judged_elsewhere(&lab, "fast", measured()).await;
    judged_elsewhere(&lab, "wrong", rejected()).await;
    let (run, worker, baseline) = lab.running(9).await;
    let candidate = lab.submit(run, baseline, "fast").await;
    let timed = is_evaluated(&lab, worker, candidate).await;
    assert!(timed, "a measured time is measured again");

    let (run, baseline) = with_toolchain(&lab, "NVRTC 14.0").await;
    let candidate = lab.submit(run, baseline, "wrong").await;
    assert!(is_evaluated(&lab, worker, candidate).await);
}

/// A run whose baseline was evaluated with another compiler.
async fn with_toolchain(lab: &Lab, toolchain: &str) -> (RunId, CandidateId) {
    let worker = lab.worker_with("other", DEVICE, toolchain).await;
    lab.running_on(9, worker).await
}
