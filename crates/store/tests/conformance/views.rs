//! Views for clients, page by page.

use domain::api::{EventKind, RunStateName};
use domain::lease::ReportOutcome;
use domain::task::Task;
use domain::verdict::{Verdict, VerdictKind};
use store::RunQuery;

use crate::fixture::{Lab, accepted, at, bundle, kernel, measured, measurement, report};

#[tokio::test]
async fn runs_are_paged_newest_first() {
    let lab = Lab::new().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(lab.run(5).await);
    }
    // Runs made in the same millisecond are ordered by the random part of their ids.
    made.sort();
    made.reverse();
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let older = RunQuery {
            before,
            ..RunQuery::default()
        };
        let page = lab.store.runs(&older, 2).await.unwrap();
        seen.extend(page.runs.iter().map(|run| run.id));
        let Some(next) = page.next else { break };
        before = Some(next.parse().unwrap());
    }
    assert_eq!(seen, made);
    lab.store.pause(made[3], "lunch", at(5)).await.unwrap();
    let paused = RunQuery {
        state: Some(RunStateName::Paused),
        ..RunQuery::default()
    };
    let page = lab.store.runs(&paused, 2).await.unwrap();
    let ids = page.runs.iter().map(|run| run.id).collect::<Vec<_>>();
    assert_eq!((ids, page.next), (vec![made[3]], None));
    let of_task = RunQuery {
        task: Some("fill"),
        ..paused
    };
    let of_task = lab.store.runs(&of_task, 2).await.unwrap();
    assert_eq!(of_task.runs[0].id, made[3]);
    assert_eq!(of_task.runs.len(), 1);
}

#[tokio::test]
async fn runs_are_found_by_a_tag_that_may_change() {
    let lab = Lab::new().await;
    let [first, second] = [lab.run(5).await, lab.run(5).await];
    let words = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect();
    let set = async |run, tags: &[&str]| {
        let view = lab.store.set_tags(run, words(tags)).await.unwrap();
        assert_eq!(view.tags, words(tags));
    };
    let found = async |tag: &str| {
        let with_tag = RunQuery {
            tag: Some(tag),
            ..RunQuery::default()
        };
        let page = lab.store.runs(&with_tag, 9).await.unwrap();
        page.runs.iter().map(|run| run.id).collect::<Vec<_>>()
    };
    set(first, &["l4", "paper"]).await;
    set(second, &["paper-2"]).await;
    assert_eq!(found("paper").await, [first]);
    assert_eq!(found("pap").await, []);
    // A run that is over keeps its place and takes tags.
    lab.store.cancel(second, at(5)).await.unwrap();
    set(second, &["paper"]).await;
    let mut both = [first, second];
    both.sort();
    both.reverse();
    assert_eq!(found("paper").await, both);
    assert_eq!(found("paper-2").await, []);
    let unknown = domain::id::RunId::from(uuid::Uuid::nil());
    lab.store.set_tags(unknown, Vec::new()).await.unwrap_err();
}

#[tokio::test]
async fn the_versions_of_a_task_name_the_runs_that_use_them() {
    let lab = Lab::new().await;
    let first = lab.run(5).await;
    lab.run(5).await;
    lab.store.cancel(first, at(5)).await.unwrap();
    let mut other = bundle();
    other
        .files
        .insert("context.md".to_owned(), "Other advice.\n".to_owned());
    let task = Task::load(&other).unwrap();
    let newest = lab.store.put_task(&task, &other, at(9)).await.unwrap();
    let versions = lab.store.task_versions("fill").await.unwrap();
    let counts = versions
        .iter()
        .map(|version| (version.runs, version.open_runs));
    assert_eq!(counts.collect::<Vec<_>>(), [(0, 0), (2, 1)]);
    assert_eq!(versions[0].version, newest.version);
    assert_eq!(versions[0].stored_at, at(9));
    assert_ne!(versions[0].content, versions[1].content);
    assert_eq!(versions[0].last_run_at, None);
    assert!(versions[1].last_run_at.is_some());
    lab.store.task_versions("nothing").await.unwrap_err();
}

#[tokio::test]
async fn candidates_are_filtered_and_paged_by_ordinal() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    for (body, us) in [
        ("a", Some(50.0)),
        ("b", None),
        ("c", Some(20.0)),
        ("d", None),
    ] {
        lab.submit(run, baseline, body).await;
        let leased = lab.lease(worker, at(5)).await.unwrap();
        let verdict = us.map_or(
            Verdict::LaunchRejected {
                reason: String::new(),
            },
            accepted,
        );
        lab.judge(&leased, verdict).await;
    }
    let rejected = Some(VerdictKind::LaunchRejected);
    let page = lab.store.candidates(run, rejected, None, 1).await.unwrap();
    assert_eq!(page.candidates[0].title, "b");
    let after = page.next.map(|next| next.parse().unwrap());
    let page = lab.store.candidates(run, rejected, after, 1).await.unwrap();
    assert_eq!((page.candidates[0].title.as_str(), page.next), ("d", None));
    let view = lab.store.run(run).await.unwrap().unwrap();
    assert_eq!(
        view.verdicts.into_iter().collect::<Vec<_>>(),
        [(VerdictKind::Accepted, 3), (VerdictKind::LaunchRejected, 2)]
    );
    let best = view.best.unwrap();
    assert_eq!(
        (
            best.title.as_str(),
            crate::fixture::rounded(best.speedup),
            best.modelled
        ),
        ("c", 5.0, true)
    );
    let lineage = lab.store.lineage(run, 3).await.unwrap();
    assert_eq!((lineage.nodes.len(), lineage.truncated), (3, true));
}

#[tokio::test]
async fn a_candidates_record_holds_its_parents_text_and_its_children() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(9).await;
    let child = lab.submit(run, baseline, "child").await;
    let record = lab.store.candidate(child).await.unwrap().unwrap();
    let relatives = lab.store.relatives(child).await.unwrap();
    assert_eq!(relatives.parent_source, Some(kernel("baseline")));
    assert_eq!(record.source, kernel("child"));
    assert_eq!((record.task.as_str(), record.run), ("fill", run));
    assert!(record.evaluation.is_none());
    let parent = lab.store.candidate(baseline).await.unwrap().unwrap();
    let relatives = lab.store.relatives(baseline).await.unwrap();
    assert_eq!(relatives.children, [child]);
    assert_eq!(relatives.parent_source, None);
    assert!(parent.evaluation.unwrap().verdict.acceptance().is_some());
}

#[tokio::test]
async fn the_event_log_tells_a_run_in_order_and_from_any_point() {
    let lab = Lab::new().await;
    let mut hint = lab.store.changed();
    hint.borrow_and_update();
    let (run, _, _) = lab.running(9).await;
    assert!(hint.has_changed().unwrap());
    let events = lab.store.events_after(run, 0, 100).await.unwrap();
    let story = events
        .iter()
        .map(|event| match &event.what {
            EventKind::RunChanged { state } => state.as_str().to_owned(),
            EventKind::Proposed { title, .. } => format!("proposed {title}"),
            EventKind::Judged { best, summary, .. } => format!("{summary}, best: {best}"),
            other => panic!("unexpected {other:?}"),
        })
        .collect::<Vec<_>>();
    assert_eq!(
        story,
        [
            "created",
            "proposed baseline",
            "checking_baseline",
            "accepted, 100.00 us modelled, best: true",
            "running",
        ]
    );
    let rest = lab
        .store
        .events_after(run, events[2].id, 100)
        .await
        .unwrap();
    assert_eq!(rest, events[3..]);
}

#[tokio::test]
async fn the_newest_content_of_a_task_is_shown_and_runs_keep_theirs() {
    let lab = Lab::new().await;
    let (run, _, _) = lab.running(9).await;
    let content = lab.store.snapshot(run).await.unwrap().content;
    let mut edited = bundle();
    edited
        .files
        .insert("context.md".to_owned(), "Mind the gap.".to_owned());
    let task = Task::load(&edited).unwrap();
    lab.store.put_task(&task, &edited, at(50)).await.unwrap();
    let tasks = lab.store.tasks().await.unwrap();
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0].created_at, at(50));
    assert_eq!(
        lab.store.task("fill").await.unwrap().unwrap().bundle,
        edited
    );
    assert_eq!(lab.store.bundle(content).await.unwrap(), bundle());
    // The same files again are not stored twice, and are the newest again.
    let task = Task::load(&bundle()).unwrap();
    lab.store.put_task(&task, &bundle(), at(60)).await.unwrap();
    assert_eq!(
        lab.store.task("fill").await.unwrap().unwrap().bundle,
        bundle()
    );
    assert!(lab.store.task("gone").await.unwrap().is_none());
}

#[tokio::test]
async fn the_best_candidate_has_an_interval_where_its_times_were_measured() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    let best = async || lab.store.run(run).await.unwrap().unwrap().best.unwrap();
    let modelled = best().await;
    assert_eq!((modelled.modelled, modelled.interval), (true, None));

    let candidate = lab.submit(run, baseline, "int a;").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    let mut report = report(&leased, measured());
    if let ReportOutcome::Evaluated { evaluation } = &mut report.outcome {
        let mut measurement = measurement(None);
        (measurement.anchor.ratio, measurement.anchor.interval) = (1.5, [1.48, 1.52]);
        evaluation.measurement = Some(measurement);
    }
    lab.store.report(leased.job, &report, at(6)).await.unwrap();
    let found = best().await;
    assert_eq!((found.candidate, found.modelled), (candidate, false));
    assert_eq!((found.speedup, found.interval), (1.5, Some([1.48, 1.52])));
}
