//! Runs whose limits people change.

use chrono::TimeDelta;
use domain::api::{BudgetRequest, PromotionState, RunState};
use domain::evaluation::EvaluationRequest;
use domain::search::{Method, StopReason};
use domain::statistics::{Bound, Floor};
use domain::timing::Timing;
use domain::verdict::Verdict;
use engine::Clock;

use crate::lab::{Lab, WHO, accepted, body, evaluation};
use crate::models::{asking, diligent, later_is_faster, model};
use crate::steering::{hint, problem, trials};

#[tokio::test]
async fn a_raised_budget_continues_a_run_that_its_limit_ended() {
    let (_, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let request = asking(Method::BestOf, 4);
    let created = lab.engine.create_run(request.clone(), Some("k"), WHO).await;
    let run = created.expect("valid").run.id;
    let ended = lab.drive(run, later_is_faster).await;
    assert_eq!(ended.state.as_str(), "completed");
    let first = ended
        .promotion
        .expect("the fourth is the fastest")
        .candidate;
    let engine = &lab.engine;

    let refused = engine.change_budget(run, WHO, trials(3)).await.unwrap_err();
    assert!(
        problem(&refused).contains("used 4 already"),
        "{}",
        problem(&refused)
    );
    let refused = engine.change_budget(run, WHO, trials(4)).await.unwrap_err();
    assert!(
        problem(&refused).contains("raise it"),
        "{}",
        problem(&refused)
    );
    engine
        .change_budget(run, WHO, trials(6))
        .await
        .expect("raised");
    assert_eq!(lab.view(run).await.state, RunState::Running);
    let ended = lab.drive(run, later_is_faster).await;
    assert_eq!((ended.trials, ended.budget.trials), (6, 6));
    let promotion = ended.promotion.expect("a faster one was found");
    assert_ne!(promotion.candidate, first);
    assert!(matches!(promotion.state, PromotionState::Committed { .. }));
    let again = lab
        .engine
        .create_run(request, Some("k"), WHO)
        .await
        .expect("known");
    assert_eq!((again.run.id, again.fresh), (run, false));

    lab.engine
        .store()
        .cancel(run, lab.clock.now())
        .await
        .expect("over");
    let refused = engine.hint(run, WHO, hint("more", None)).await.unwrap_err();
    assert!(refused.to_string().contains("completed"), "{refused}");
}

#[tokio::test]
async fn a_run_that_ended_early_goes_on_when_its_stop_is_put_off() {
    let (_, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let mut request = asking(Method::BestOf, 40);
    request.budget.gain_per_dollar = Some(5);
    let run = lab.launch(request).await;
    let no_gain = |request: &EvaluationRequest| match body(request) {
        "baseline" => accepted(100.0),
        _ => accepted(50.0),
    };
    let ended = lab.drive(run, no_gain).await;
    let reason = StopReason::GainPerDollar;
    assert_eq!(ended.state, RunState::Completed { reason });
    assert!(ended.trials < 40, "{}", ended.trials);
    let stop = |gain| BudgetRequest {
        gain_per_dollar: Some(gain),
        ..BudgetRequest::default()
    };
    for (change, word) in [
        (stop(5), "lower it, or give 0"),
        (trials(60), "expected gain per dollar too small"),
    ] {
        let refused = lab.engine.change_budget(run, WHO, change).await;
        let refused = problem(&refused.unwrap_err());
        assert!(refused.contains(word), "{refused}");
    }
    let changed = lab.engine.change_budget(run, WHO, stop(0)).await;
    changed.expect("taken away");
    let ended = lab.drive(run, no_gain).await;
    assert_eq!(
        (ended.trials, ended.budget.gain_per_dollar),
        (40, None),
        "{}",
        ended.state
    );
}

#[tokio::test]
async fn a_run_without_gain_goes_on_when_more_trials_may_bring_none() {
    let (_, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let mut request = asking(Method::BestOf, 40);
    request.budget.trials_without_gain = Some(0);
    let refused = lab.engine.create_run(request.clone(), None, WHO).await;
    let refused = problem(&refused.unwrap_err());
    assert!(refused.contains("budget.trials_without_gain"), "{refused}");
    request.budget.trials_without_gain = Some(4);
    let run = lab.launch(request).await;
    let no_gain = |request: &EvaluationRequest| match body(request) {
        "baseline" => accepted(100.0),
        _ => accepted(50.0),
    };
    let ended = lab.drive(run, no_gain).await;
    let reason = StopReason::TrialsWithoutGain;
    assert_eq!(ended.state, RunState::Completed { reason });
    // Those that were asked for before are judged, too.
    let first = ended.trials;
    assert!((5..40).contains(&first), "{first}");
    let stop = |trials| BudgetRequest {
        trials_without_gain: Some(trials),
        ..BudgetRequest::default()
    };
    let refused = lab.engine.change_budget(run, WHO, stop(4)).await;
    let refused = problem(&refused.unwrap_err());
    assert!(refused.contains("raise it, or give 0"), "{refused}");
    let changed = lab.engine.change_budget(run, WHO, stop(first + 4)).await;
    changed.expect("raised");
    let ended = lab.drive(run, no_gain).await;
    assert_eq!(ended.state, RunState::Completed { reason });
    assert!((first + 1..40).contains(&ended.trials), "{}", ended.trials);
}

/// The floor of an accepted candidate: 50.1% of the time of the second version, and 52.5% of the
/// sixth's.
fn floor(verdict: &Verdict) -> Option<Floor> {
    let Verdict::Accepted(acceptance) = verdict else {
        return None;
    };
    let Timing::Modelled { cases, .. } = &acceptance.timing else {
        return None;
    };
    Some(Floor {
        case: cases[0].case.clone(),
        cache: cases[0].cache,
        us: 44.1,
        bound: Bound::Bytes,
        found_us: cases[0].us,
        resources: Vec::new(),
    })
}

#[tokio::test]
async fn a_run_that_ended_close_to_the_floor_goes_on_towards_it() {
    let (_, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let mut request = asking(Method::BestOf, 12);
    request.budget.floor_percent = Some(50);
    let run = lab.launch(request).await;
    let until_over = async || {
        while !lab.view(run).await.state.is_over() {
            lab.engine.tick().await.expect("rows");
            lab.answered().await;
            lab.clock.advance(TimeDelta::seconds(1));
            while let Some(lease) = lab.lease().await {
                let verdict = later_is_faster(&lease.request);
                let mut found = evaluation(&lease.request, verdict);
                found.floors = floor(&found.verdict).into_iter().collect();
                lab.report_evaluation(&lease, found).await;
            }
        }
        lab.view(run).await
    };
    let ended = until_over().await;
    let reason = StopReason::Floor;
    assert_eq!(ended.state, RunState::Completed { reason });
    assert_eq!(ended.trials, 2);
    let stop = |percent| BudgetRequest {
        floor_percent: Some(percent),
        ..BudgetRequest::default()
    };
    for (percent, word) in [(50, "raise it, or give 0"), (101, "from 1 to 100 percent")] {
        let refused = lab.engine.change_budget(run, WHO, stop(percent)).await;
        let refused = problem(&refused.unwrap_err());
        assert!(refused.contains(word), "{refused}");
    }
    for (percent, trials, reason) in [(52, 6, StopReason::Floor), (0, 12, StopReason::Trials)] {
        let changed = lab.engine.change_budget(run, WHO, stop(percent)).await;
        changed.expect("put off");
        let ended = until_over().await;
        assert_eq!(ended.state, RunState::Completed { reason });
        assert_eq!(ended.trials, trials);
    }
}
