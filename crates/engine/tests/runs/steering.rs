//! Runs that people steer while they go on.

use std::sync::atomic::Ordering;

use chrono::TimeDelta;
use domain::api::{
    BanRequest, BudgetRequest, EventKind, ForkRequest, HintRequest, InsightRequest, ModelRequest,
    PromotionState, RunState, Steer,
};
use domain::id::{CandidateId, RunId};
use domain::search::{Method, ModelChoice, Operator, StopReason};
use domain::verdict::VerdictKind;
use engine::llm::{Models, Position};
use engine::{Clock, EngineError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::lab::{Lab, WHO, accepted, rejected};
use crate::models::{asking, candidates, diligent, later_is_faster, model, overloaded, story};

pub fn hint(text: &str, prompts: Option<u32>) -> HintRequest {
    HintRequest {
        text: text.to_owned(),
        prompts,
    }
}

fn ban(candidate: CandidateId, descendants: bool) -> BanRequest {
    BanRequest {
        candidate: Some(candidate),
        descendants,
        idea: None,
    }
}

pub fn trials(trials: u32) -> BudgetRequest {
    BudgetRequest {
        trials: Some(trials),
        ..BudgetRequest::default()
    }
}

pub fn problem(error: &EngineError) -> String {
    match error {
        EngineError::Invalid(problems) => problems.to_string(),
        other => other.to_string(),
    }
}

/// Gives the directions of the test at fixed places of the run.
async fn direct(lab: &Lab, run: RunId) {
    let all = candidates(lab, run).await;
    let given = lab.engine.store().steering(run).await.expect("rows").len();
    let engine = &lab.engine;
    match (all.len(), given) {
        (4, 0) => {
            let given = engine.hint(run, WHO, hint("use wide stores", Some(2)));
            given.await.expect("open");
        }
        (7, 1) => {
            let best = all[6].id;
            let given = engine.ban(run, WHO, ban(best, true));
            given.await.expect("open");
        }
        (9, 2) => {
            let given = engine.pin(run, WHO, all[2].id);
            given.await.expect("accepted");
        }
        (11, 3) => {
            let given = engine.withdraw(run, WHO, 3);
            given.await.expect("in force");
        }
        _ => {}
    }
}

/// Drives a steered run to its end; a random number decides where the engine is killed.
async fn steered(lab: &mut Lab, run: RunId, mut killed: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        lab.engine.tick().await.expect("rows");
        if killed() {
            lab.restart().await;
            continue;
        }
        lab.answered().await;
        lab.clock.advance(TimeDelta::seconds(1));
        lab.work(later_is_faster).await;
        direct(lab, run).await;
        if killed() {
            lab.restart().await;
        }
        if lab.view(run).await.state.is_over() {
            return;
        }
    }
    panic!("the run never ends");
}

#[tokio::test]
async fn the_same_directions_give_the_same_run_however_often_the_engine_dies() {
    let (calm, models) = model(diligent);
    let mut lab = Lab::with_models(models).await;
    let run = lab.launch(asking(Method::BestOf, 14)).await;
    steered(&mut lab, run, || false).await;
    let (expected, undisturbed) = (story(&lab, run).await, lab.view(run).await);

    let heard = calm.heard.lock().expect("nobody panics with it").clone();
    let text = |ordinal| {
        let prompt = &heard[&Position { ordinal, turn: 0 }];
        prompt.messages[0].text.clone()
    };
    for ordinal in 1..=14 {
        let is_hinted = text(ordinal).contains("use wide stores");
        assert_eq!(is_hinted, (4..6).contains(&ordinal), "#{ordinal}");
    }
    let all = candidates(&lab, run).await;
    let parent = |place: usize| {
        let parent = all[place].parents[0];
        all.iter().position(|one| one.id == parent)
    };
    // The sixth is banned, so the seventh is written from the fifth; later ones from the pinned second.
    assert_eq!([7, 9, 10].map(parent), [5, 2, 2].map(Some));

    let (_, models) = model(diligent);
    let mut lab = Lab::with_models(models).await;
    let run = lab.launch(asking(Method::BestOf, 14)).await;
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    steered(&mut lab, run, || rng.random_bool(0.2)).await;
    assert_eq!(story(&lab, run).await, expected);
    let view = lab.view(run).await;
    assert_eq!(view.spend.usage, undisturbed.spend.usage);
    assert_eq!(view.spend.dollars, undisturbed.spend.dollars);
    let events = lab.engine.store().events_after(run, 0, 1_000).await;
    let steered = events
        .expect("rows")
        .into_iter()
        .filter(|event| matches!(&event.what, EventKind::Steered { actor, .. } if actor == WHO));
    assert_eq!(steered.count(), 4);
}

#[tokio::test]
async fn another_model_takes_over_the_calls_of_one_that_fails() {
    let (_, failing) = model(overloaded);
    let (other, working) = model(diligent);
    let named = |models: &Models, name: &str| {
        let mut view = models.view("m").expect("configured");
        name.clone_into(&mut view.name);
        (view, models.llm("m").expect("configured"))
    };
    let both = [named(&failing, "m"), named(&working, "n")];
    let lab = Lab::with_models(Models::of(both)).await;
    let run = lab.launch(asking(Method::Insight, 5)).await;
    let paused = lab.drive(run, later_is_faster).await;
    assert_eq!(paused.state.as_str(), "paused");
    let takeover = |from: &str, to: &str| ModelRequest {
        from: from.to_owned(),
        to: to.to_owned(),
    };
    for (from, to, word) in [
        ("n", "m", "does not ask \"n\""),
        ("m", "m", "replace itself"),
        ("m", "q", "no model is named \"q\""),
    ] {
        let refused = lab.engine.replace_model(run, WHO, takeover(from, to)).await;
        let refused = problem(&refused.unwrap_err());
        assert!(refused.contains(word), "{refused}");
    }
    let taken = lab.engine.replace_model(run, WHO, takeover("m", "n")).await;
    taken.expect("configured");
    let resumed = lab.engine.store().resume(run, lab.clock.now()).await;
    resumed.expect("paused");
    let view = lab.drive(run, later_is_faster).await;
    assert_eq!(view.trials, 5);
    let choice = ModelChoice {
        name: "n".to_owned(),
        weight: 1.0,
    };
    assert_eq!(view.models, [choice]);
    assert_eq!(other.asked.load(Ordering::SeqCst), 5);
    let all = candidates(&lab, run).await;
    assert!(all[1..].iter().all(|one| one.proposer == "n"));
}

#[tokio::test]
async fn prompts_show_insights_as_people_corrected_them() {
    let (asked, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let run = lab.launch(asking(Method::Insight, 12)).await;
    let edit = |candidate, text: Option<&str>| InsightRequest {
        candidate,
        text: text.map(str::to_owned),
    };
    let mut since = None;
    while !lab.view(run).await.state.is_over() {
        lab.engine.tick().await.expect("rows");
        lab.answered().await;
        lab.clock.advance(TimeDelta::seconds(1));
        lab.work(later_is_faster).await;
        let all = candidates(&lab, run).await;
        if since.is_some() || all.len() < 6 {
            continue;
        }
        since = Some(u32::try_from(all.len()).expect("few"));
        for (candidate, text, word) in [
            (all[0].id, Some("a"), "has no thought"),
            (all[1].id, Some(" "), "the text is empty"),
        ] {
            let refused = lab.engine.edit_insight(run, WHO, edit(candidate, text));
            let refused = problem(&refused.await.unwrap_err());
            assert!(refused.contains(word), "{refused}");
        }
        for candidate in &all[1..=4] {
            let corrected =
                lab.engine
                    .edit_insight(run, WHO, edit(candidate.id, Some("spills below 64")));
            corrected.await.expect("it has a thought");
        }
        let left_out = lab.engine.edit_insight(run, WHO, edit(all[5].id, None));
        left_out.await.expect("it has a thought");
    }
    let since = since.expect("the run has six candidates");
    let heard = asked.heard.lock().expect("nobody panics with it");
    let prompts = heard.iter().filter(|(at, _)| at.ordinal >= since);
    let insights = prompts.filter_map(|(_, prompt)| {
        let (_, after) = prompt.messages[0].text.split_once("# Insights")?;
        Some(after.split("\n# ").next()?.to_owned())
    });
    let insights = insights.collect::<Vec<_>>();
    assert!(
        insights
            .iter()
            .any(|shown| shown.contains("spills below 64"))
    );
    for shown in insights {
        for number in 1..=5 {
            let words = format!("- version {number} ");
            assert!(!shown.contains(&words), "{words} in {shown}");
        }
    }
}

#[tokio::test]
async fn prompts_show_why_a_confirmation_failed_and_no_gain_of_it() {
    let (asked, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let run = lab.launch(asking(Method::Insight, 12)).await;
    let mut since = None;
    while !lab.view(run).await.state.is_over() {
        lab.engine.tick().await.expect("rows");
        lab.answered().await;
        lab.clock.advance(TimeDelta::seconds(1));
        lab.work(|request| match crate::lab::confirms(request) {
            true => rejected("on inputs that nobody may know"),
            false => later_is_faster(request),
        })
        .await;
        let all = candidates(&lab, run).await;
        if since.is_none() && all.len() >= 6 {
            let confirming = lab.engine.promote(run, WHO, all[4].id).await;
            confirming.expect("it is fast enough");
            // Its verdict comes before the next prompt.
            lab.work(|_| rejected("on inputs that nobody may know"))
                .await;
            since = Some(u32::try_from(all.len()).expect("few"));
        }
    }
    let since = since.expect("the run has six candidates");
    let heard = asked.heard.lock().expect("nobody panics with it");
    let prompts = heard.iter().filter(|(at, _)| at.ordinal > since);
    let mut shown = 0;
    for (_, prompt) in prompts {
        let text = &prompt.messages[0].text;
        assert!(!text.contains("nobody may know"), "{text}");
        for line in text.lines().filter(|line| line.contains("version 4")) {
            if line.starts_with("- ") {
                shown += 1;
                let why = "failed its confirmation: the plan cannot be launched";
                assert!(line.contains(why), "{line}");
            }
        }
    }
    assert!(shown > 0, "no prompt names the candidate");
}

#[tokio::test]
async fn a_candidate_is_evaluated_again_beside_its_first_verdict() {
    let (_, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let run = lab.launch(asking(Method::BestOf, 8)).await;
    lab.drive(run, later_is_faster).await;
    let all = candidates(&lab, run).await;
    // The seventh is refused, and a device that was mended accepts it.
    assert_eq!(all[7].verdict, Some(VerdictKind::LaunchRejected));
    let queued = lab.engine.reevaluate(run, WHO, all[7].id).await;
    queued.expect("it has a verdict");
    let refused = lab
        .engine
        .reevaluate(run, WHO, all[7].id)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("again already"), "{refused}");
    assert_eq!(lab.work(|_| accepted(1.0)).await, 1);
    lab.engine.tick().await.expect("rows");
    let after = candidates(&lab, run).await;
    assert_eq!(after[7].verdict, Some(VerdictKind::LaunchRejected));
    let events = lab
        .engine
        .store()
        .events_after(run, 0, 1_000)
        .await
        .expect("rows");
    let told = events.iter().any(|event| {
        matches!(
            event.what,
            EventKind::Reevaluated {
                ordinal: 7,
                verdict: VerdictKind::Accepted,
                ..
            }
        )
    });
    assert!(told);
    let detail = lab
        .engine
        .candidate(all[7].id)
        .await
        .expect("rows")
        .expect("known");
    let confirmation = detail.confirmation.expect("recorded beside the first");
    assert_eq!(confirmation.verdict.kind(), VerdictKind::Accepted);
    assert_eq!(
        detail.evaluation.expect("the first").verdict.kind(),
        VerdictKind::LaunchRejected
    );
}

#[tokio::test]
async fn a_chosen_candidate_is_promoted_after_a_confirmation() {
    let (_, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let run = lab.launch(asking(Method::BestOf, 8)).await;
    lab.drive(run, later_is_faster).await;
    let all = candidates(&lab, run).await;
    for (place, word) in [
        (0, "has 1.000 times"),
        (7, "was not accepted"),
        (8, "already"),
    ] {
        let refused = lab.engine.promote(run, WHO, all[place].id).await;
        let said = problem(&refused.unwrap_err());
        assert!(said.contains(word), "{said}");
    }
    let confirming = lab.engine.promote(run, WHO, all[3].id).await;
    assert_eq!(
        confirming.expect("accepted").state,
        PromotionState::Confirming
    );
    assert_eq!(lab.work(later_is_faster).await, 1);
    lab.engine.tick().await.expect("git works");
    let promotion = lab.view(run).await.promotion.expect("the newest");
    assert_eq!(promotion.candidate, all[3].id);
    assert!(
        matches!(promotion.state, PromotionState::Committed { .. }),
        "{promotion:?}"
    );

    lab.clock.advance(TimeDelta::seconds(1));
    // One that its confirmation does not find faster is refused.
    let confirming = lab.engine.promote(run, WHO, all[4].id).await;
    confirming.expect("accepted");
    lab.work(|_| accepted(100.0)).await;
    lab.engine.tick().await.expect("git works");
    let promotion = lab.view(run).await.promotion.expect("the newest");
    assert!(
        matches!(promotion.state, PromotionState::Refused { .. }),
        "{promotion:?}"
    );
}

#[tokio::test]
async fn a_fork_starts_from_the_candidate_with_a_lineage_of_its_own() {
    let (_, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let run = lab.launch(asking(Method::BestOf, 4)).await;
    lab.drive(run, later_is_faster).await;
    let all = candidates(&lab, run).await;
    let fork = |candidate, method| ForkRequest {
        candidate,
        method,
        models: None,
        budget: trials(5),
        evolution: None,
        seed: Some(9),
        name: None,
    };
    let engine = &lab.engine;
    let refused = engine
        .fork(run, WHO, fork(all[2].id, Some(Method::Sweep)), None)
        .await;
    assert!(problem(&refused.unwrap_err()).contains("files of the task"));
    let refused = engine.fork(run, WHO, fork(all[0].id, None), None).await;
    assert!(problem(&refused.unwrap_err()).contains("baseline"));
    let asked = fork(all[2].id, Some(Method::Insight));
    let forked = engine
        .fork(run, WHO, asked.clone(), Some("f"))
        .await
        .expect("valid")
        .run;
    let again = engine
        .fork(run, WHO, asked, Some("f"))
        .await
        .expect("known");
    assert_eq!((again.run.id, again.fresh), (forked.id, false));
    let origin = forked.forked_from.expect("a fork");
    assert_eq!(
        (origin.run, origin.candidate, origin.ordinal),
        (run, all[2].id, 2)
    );
    let entries = engine.store().steering(run).await.expect("rows");
    assert!(
        matches!(entries[..], [ref one] if matches!(one.what, Steer::Fork { fork, .. } if fork == forked.id))
    );

    let ended = lab.drive(forked.id, later_is_faster).await;
    assert_eq!((ended.trials, ended.method), (5, Method::Insight));
    let own = candidates(&lab, forked.id).await;
    assert_eq!((own.len(), own[1].operator.clone()), (7, Operator::Fork));
    assert_eq!(own[1].title, all[2].title);
    assert_eq!(own[1].parents, [own[0].id]);
    assert_eq!(own[2].parents, [own[1].id], "bred from the origin");

    let foreign = engine.pin(run, WHO, own[2].id).await;
    let said = problem(&foreign.unwrap_err());
    assert!(
        said.contains(&format!("candidate of {}", forked.id)),
        "{said}"
    );
    assert!(said.contains("/candidates"), "{said}");
}

#[tokio::test]
async fn a_ban_keeps_submissions_and_briefs_off_a_lineage() {
    let (_, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let run = lab.launch(asking(Method::BestOf, 4)).await;
    let ended = lab.drive(run, later_is_faster).await;
    assert!(matches!(
        ended.state,
        RunState::Completed {
            reason: StopReason::Trials
        }
    ));
    lab.engine
        .change_budget(run, WHO, trials(9))
        .await
        .expect("raised");
    let all = candidates(&lab, run).await;
    lab.engine
        .ban(run, WHO, ban(all[2].id, true))
        .await
        .expect("open");
    let best = lab.view(run).await.best.expect("the first is left");
    assert_eq!(best.candidate, all[1].id);
    let brief = lab.engine.brief(run).await.expect("open");
    assert_eq!(brief.parent, all[1].id);
    let refused = lab
        .engine
        .ban(run, WHO, ban(all[0].id, false))
        .await
        .unwrap_err();
    assert!(problem(&refused).contains("baseline"));
    let refused = lab.engine.pin(run, WHO, all[3].id).await.unwrap_err();
    assert!(
        problem(&refused).contains("withdraw the ban"),
        "{}",
        problem(&refused)
    );
    lab.engine.withdraw(run, WHO, 2).await.expect("in force");
    let refused = lab.engine.withdraw(run, WHO, 2).await.unwrap_err();
    assert!(problem(&refused).contains("in force"));
    lab.engine
        .pin(run, WHO, all[3].id)
        .await
        .expect("no longer banned");
    assert_eq!(lab.engine.brief(run).await.expect("open").parent, all[3].id);
    let given = lab.engine.ban(
        run,
        WHO,
        BanRequest {
            idea: Some("textures".to_owned()),
            ..BanRequest::default()
        },
    );
    given.await.expect("open");
    let brief = lab.engine.brief(run).await.expect("open");
    assert!(brief.prompt.messages[0].text.contains("- textures"));
}
