//! Requests that are refused at launch, because the run could only fail later.

use domain::api::{PromotionTarget, RunRequest, RunState};
use domain::search::Method;
use domain::task::Task;
use engine::{Clock, EngineError};

use crate::lab::{Lab, WHO, accepted, body, bundle, kernel, request};

async fn refusal(lab: &Lab, asked: RunRequest) -> String {
    match lab.engine.create_run(asked, None, WHO).await {
        Err(EngineError::Invalid(problems)) => problems.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_promotion_target_that_cannot_be_used_is_refused_at_launch() {
    let lab = Lab::new().await;
    let promoting = |repository: &std::path::Path, base: Option<&str>| RunRequest {
        promotion: Some(PromotionTarget {
            repository: repository.to_str().unwrap().to_owned(),
            base: base.map(str::to_owned),
            path: None,
            region: None,
        }),
        ..request(Method::Playbook, 5)
    };
    let missing = lab.folder.path().join("missing");
    let problems = refusal(&lab, promoting(&missing, None)).await;
    assert!(
        problems.contains("promotion.repository") && problems.contains("git init"),
        "{problems}"
    );
    let plain = lab.folder.path().join("plain");
    std::fs::create_dir(&plain).unwrap();
    std::fs::write(plain.join("notes.txt"), "not a repository").unwrap();
    let problems = refusal(&lab, promoting(&plain, None)).await;
    assert!(problems.contains(plain.to_str().unwrap()), "{problems}");

    let good = lab.folder.path().join("good.git");
    git2::Repository::init_bare(&good).unwrap();
    let problems = refusal(&lab, promoting(&good, Some("trunk"))).await;
    assert!(
        problems.contains("promotion.base") && problems.contains("trunk"),
        "{problems}"
    );
    lab.launch(promoting(&good, None)).await;
    // The service's own repository is made when it is needed.
    lab.launch(promoting(&lab.repository(), None)).await;
}

#[tokio::test]
async fn a_method_that_has_nothing_to_try_is_refused_at_launch() {
    let lab = Lab::new().await;
    let mut bare = bundle();
    bare.files.retain(|path, _| !path.starts_with("playbook/"));
    let task = Task::load(&bare).unwrap();
    let store = lab.engine.store();
    let later = lab.clock.now() + chrono::TimeDelta::seconds(1);
    store.put_task(&task, &bare, later).await.unwrap();
    for (method, word) in [
        (Method::Playbook, "no playbook"),
        (Method::Sweep, "no tunable"),
    ] {
        let problems = refusal(&lab, request(method, 5)).await;
        assert!(problems.contains(word), "{problems}");
        assert!(problems.contains("choose"), "{problems}");
    }
    lab.launch(request(Method::External, 5)).await;

    let mut loose = bundle();
    let step = loose.files.get_mut("playbook/01.cu").unwrap();
    let table = "[tunables.TILE]\nvalue = 16\nchoices = [16, 32, 64]\n";
    let line = "[tunables]\nTILE: { value = 16, choices = [16, 32, 64] }\n";
    assert!(step.contains(table), "{step}");
    *step = step.replace(table, line);
    let task = Task::load(&loose).unwrap();
    let later = later + chrono::TimeDelta::seconds(1);
    store.put_task(&task, &loose, later).await.unwrap();
    let mut sweep = request(Method::Sweep, 5);
    sweep.start = Some("playbook/01.cu".to_owned());
    let problems = refusal(&lab, sweep).await;
    assert!(problems.contains("cannot be replaced"), "{problems}");
    assert!(problems.contains("choices = [8, 16]"), "{problems}");
}

#[tokio::test]
async fn a_run_that_promotes_nothing_says_why() {
    let lab = Lab::new().await;
    let mut swept = bundle();
    let baseline = kernel("baseline", &[("TILE", &[16, 32, 64])]);
    swept.files.insert("baseline.cu".to_owned(), baseline);
    let task = Task::load(&swept).unwrap();
    let later = lab.clock.now() + chrono::TimeDelta::seconds(1);
    let store = lab.engine.store();
    store.put_task(&task, &swept, later).await.unwrap();
    let run = lab.launch(request(Method::Sweep, 5)).await;
    let view = lab
        .drive(run, |request| {
            let tile = crate::lab::value(request, "TILE");
            assert_eq!(body(request), "baseline");
            accepted(if tile == 64 { 99.0 } else { 100.0 })
        })
        .await;
    assert!(matches!(view.state, RunState::Completed { .. }));
    assert!(view.promotion.is_none());
    let why = view.unpromoted.unwrap();
    assert!(
        why.contains("1.010 times") && why.contains("more than 1.02"),
        "{why}"
    );
}

#[tokio::test]
async fn tags_are_words_that_an_address_can_hold() {
    let lab = Lab::new().await;
    let tagged = |tags: &[&str]| RunRequest {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        ..request(Method::Playbook, 5)
    };
    let long = "x".repeat(41);
    for wrong in ["two words", "\"quoted\"", "", "a,b", &long] {
        let problems = refusal(&lab, tagged(&[wrong])).await;
        assert!(problems.contains("is no tag"), "{problems}");
    }
    let many = (0..11).map(|number| number.to_string()).collect::<Vec<_>>();
    let many = many.iter().map(String::as_str).collect::<Vec<_>>();
    let problems = refusal(&lab, tagged(&many)).await;
    assert!(problems.contains("11 tags, at most 10"), "{problems}");

    let request = tagged(&["paper-2026", "l4:spot", "größe", "l4:spot"]);
    let created = lab
        .engine
        .create_run(request.clone(), Some("once"), WHO)
        .await;
    let run = created.unwrap().run;
    assert_eq!(run.tags, ["größe", "l4:spot", "paper-2026"]);

    let view = lab.engine.set_tags(run.id, vec!["done".to_owned()]).await;
    assert_eq!(view.unwrap().tags, ["done"]);
    let refused = lab
        .engine
        .set_tags(run.id, vec!["not one".to_owned()])
        .await;
    assert!(matches!(refused, Err(EngineError::Invalid(_))));
    // The key belongs to the request as it was.
    let again = lab
        .engine
        .create_run(request, Some("once"), WHO)
        .await
        .unwrap();
    assert_eq!((again.run.id, again.fresh), (run.id, false));
}
