//! Confirmations that fail, repositories that refuse, and winners that are taken back.

use domain::api::{PromotionState, PromotionTarget, RunState};
use domain::search::Method;

use crate::lab::{Lab, accepted, confirms, honest, on_branch, rejected, request};

#[tokio::test]
async fn a_champion_that_fails_its_confirmation_gives_way_to_the_next() {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::Playbook, 45)).await;
    let view = lab
        .drive(run, |request| match honest(request) {
            // Only the tile of 32 fails on fresh inputs.
            _ if confirms(request)
                && request
                    .source
                    .contains("value = 32\nchoices = [16, 32, 64]") =>
            {
                rejected("wrong on fresh inputs")
            }
            verdict => verdict,
        })
        .await;
    assert!(view.state.is_over(), "{}", view.state);
    let promotion = view.promotion.unwrap();
    assert!(matches!(promotion.state, PromotionState::Committed { .. }));
    let champion = lab.engine.store().summary(promotion.candidate).await;
    let champion = champion.unwrap().unwrap();
    assert_eq!(champion.configuration["SPLIT"], 1);
    assert_eq!(view.best.unwrap().candidate, promotion.candidate);
}

#[tokio::test]
async fn a_champion_that_confirms_slower_than_the_baseline_is_refused() {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::Playbook, 1)).await;
    let view = lab
        .drive(run, |request| {
            if confirms(request) {
                accepted(99.0)
            } else {
                honest(request)
            }
        })
        .await;
    let promotion = view.promotion.unwrap();
    let PromotionState::Refused { reason } = promotion.state else {
        panic!("refused, but it is {:?}", promotion.state)
    };
    assert!(reason.contains("1.010 times"), "{reason}");
    assert!(view.state.is_over());
    assert!(!lab.repository().exists());
}

#[tokio::test]
async fn a_missing_repository_pauses_the_run_and_resuming_commits_without_another_confirmation() {
    let lab = Lab::new().await;
    let path = lab.folder.path().join("theirs");
    git2::Repository::init(&path).unwrap();
    let mut request = request(Method::Playbook, 1);
    request.promotion = Some(PromotionTarget {
        repository: path.to_str().unwrap().to_owned(),
        base: None,
        path: Some("src/fill.cu".to_owned()),
        region: None,
    });
    let run = lab.launch(request).await;
    std::fs::remove_dir_all(&path).unwrap();
    let view = lab.drive(run, honest).await;
    let RunState::Paused { reason } = &view.state else {
        panic!("paused, but it is {}", view.state)
    };
    assert!(reason.contains("git init"), "{reason}");
    let promotion = view.promotion.unwrap();
    assert!(matches!(promotion.state, PromotionState::Blocked { .. }));
    git2::Repository::init(&path).unwrap();
    let now = lab.engine.now();
    lab.engine.store().resume(run, now).await.unwrap();
    let view = lab
        .drive(run, |_| panic!("nothing is left to evaluate"))
        .await;
    assert!(view.state.is_over());
    let promotion = view.promotion.unwrap();
    let (blob, _) = on_branch(&path, &promotion.branch, "src/fill.cu");
    assert!(String::from_utf8(blob).unwrap().ends_with("tile\n"));
}

#[tokio::test]
async fn a_recheck_that_holds_leaves_the_commit() {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::Playbook, 1)).await;
    let before = lab.drive(run, honest).await.promotion.unwrap();
    lab.engine.recheck(run).await.unwrap();
    lab.engine.recheck(run).await.unwrap();
    assert_eq!(lab.work(honest).await, 1, "asked twice, done once");
    lab.engine.tick().await.unwrap();
    let after = lab.view(run).await.promotion.unwrap();
    assert_eq!((after.id, after.state), (before.id, before.state));
    // It can be asked for again.
    lab.engine.recheck(run).await.unwrap();
    assert_eq!(lab.work(honest).await, 1);
}

#[tokio::test]
async fn a_recheck_that_fails_takes_the_winner_back_by_a_new_commit() {
    let scripts: [(crate::lab::Script, &str); 2] = [
        (|_| rejected("a race"), "a race"),
        (|_| accepted(51.1), "2.000 was recorded"),
    ];
    for (script, wanted) in scripts {
        let lab = Lab::new().await;
        let run = lab.launch(request(Method::Playbook, 1)).await;
        let promotion = lab.drive(run, honest).await.promotion.unwrap();
        let PromotionState::Committed { commit } = promotion.state else {
            panic!("committed, but it is {:?}", promotion.state)
        };
        lab.engine.recheck(run).await.unwrap();
        assert_eq!(lab.work(script).await, 1);
        lab.engine.tick().await.unwrap();
        let after = lab.view(run).await.promotion.unwrap();
        let PromotionState::Reverted {
            commit: revert,
            reason,
        } = after.state
        else {
            panic!("reverted, but it is {:?}", after.state)
        };
        assert!(reason.contains(wanted), "{reason}");
        let repository = git2::Repository::open(lab.repository()).unwrap();
        let revert = repository.find_commit(revert.parse().unwrap()).unwrap();
        assert_eq!(revert.parent_id(0).unwrap().to_string(), commit);
        assert_eq!(revert.tree().unwrap().len(), 0, "as before the winner");
        assert!(lab.engine.recheck(run).await.is_err());
    }
}

#[tokio::test]
async fn a_slightly_slower_recheck_is_noise() {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::Playbook, 1)).await;
    let before = lab.drive(run, honest).await.promotion.unwrap();
    lab.engine.recheck(run).await.unwrap();
    lab.work(|_| accepted(50.9)).await;
    lab.engine.tick().await.unwrap();
    let after = lab.view(run).await.promotion.unwrap();
    assert_eq!((after.id, after.state), (before.id, before.state));
}

#[tokio::test]
async fn a_confirmation_that_nobody_can_carry_out_blocks_and_is_tried_again_on_resuming() {
    use chrono::TimeDelta;
    use domain::lease::{Report, ReportOutcome};
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::Playbook, 1)).await;
    while lab.view(run).await.promotion.is_none() {
        lab.engine.tick().await.unwrap();
        if lab.view(run).await.promotion.is_none() {
            lab.work(honest).await;
        }
    }
    while let Some(lease) = lab.lease().await {
        assert!(confirms(&lease.request));
        let report = Report {
            admission: None,
            attempt: lease.attempt,
            outcome: ReportOutcome::Faulted {
                message: "no disk".to_owned(),
            },
        };
        let now = lab.engine.now();
        lab.engine
            .store()
            .report(lease.job, &report, now)
            .await
            .unwrap();
        lab.clock.advance(TimeDelta::seconds(60));
    }
    lab.engine.tick().await.unwrap();
    let view = lab.view(run).await;
    assert_eq!(view.state.as_str(), "paused");
    assert!(view.state.to_string().contains("no disk"));
    let now = lab.engine.now();
    lab.engine.store().resume(run, now).await.unwrap();
    let view = lab.drive(run, honest).await;
    let promotion = view.promotion.unwrap();
    assert!(matches!(promotion.state, PromotionState::Committed { .. }));
}
