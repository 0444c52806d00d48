//! Texts in a table of their own: every reader gets what was written, also from a database that an
//! earlier program wrote.

use domain::api::ShownCandidates;
use domain::id::RunId;
use domain::search::Operator;
use store::{LineageQuery, Store};

use crate::calls::{draft, drafted, reply, written};
use crate::fixture::{Lab, accepted, at, candidate};
use crate::older::{copy_to_version, record};

/// The run as pages show it, and what they show of its candidates in columns.
async fn columns(store: &Store, run: RunId) -> String {
    let whole = LineageQuery::default();
    let columns = (
        store.run(run).await.unwrap(),
        store.lineage_columns(run, &whole, 99).await.unwrap(),
        store.lineage_generations(run).await.unwrap(),
        store.curve(run, 400).await.unwrap(),
    );
    format!("{columns:#?}")
}

#[tokio::test]
async fn a_database_of_version_15_keeps_every_text() {
    let lab = Lab::sqlite().await;
    let (run, worker, baseline) = lab.running(9).await;
    let first = drafted(&lab, run, 1, &[draft(Operator::Init, &[baseline])]).await;
    let first = first[0].clone();
    assert!(reply(&lab, &first, &written("fast"), 6).await);
    let leased = lab.lease(worker, at(7)).await.unwrap();
    lab.judge(&leased, accepted(50.0)).await;
    let merged = draft(Operator::Crossover, &[first.candidate, baseline]);
    let second = drafted(&lab, run, 2, &[merged]).await;
    let second = second[0].clone();
    let before = [
        record(&lab.store, baseline).await,
        record(&lab.store, first.candidate).await,
        record(&lab.store, second.candidate).await,
    ];
    let children = &before[0].2.children;
    assert_eq!(*children, [first.candidate, second.candidate]);
    let columns_before = columns(&lab.store, run).await;
    let ids = before.each_ref().map(|(record, _, _)| record.summary.id);
    let path = copy_to_version(&lab, 15, &ids).await;
    let migrated = Store::open(&path).await.unwrap();
    for before in &before {
        let after = record(&migrated, before.0.summary.id).await;
        assert_eq!(format!("{after:?}"), format!("{before:?}"));
    }
    assert_eq!(columns(&migrated, run).await, columns_before);
    let waiting = migrated.due_calls(at(8)).await.unwrap();
    assert_eq!(waiting, [second]);
    // New texts are compressed with old ones as their dictionary.
    let shown = ShownCandidates {
        best: Some(first.candidate),
        parents: vec![first.candidate],
        ..ShownCandidates::default()
    };
    let mut next = draft(Operator::Mutation, &[first.candidate]);
    next.call.seen = shown;
    let mut repeated = next.clone();
    repeated.call.prompt.messages[0].text = before[1].0.source.clone();
    let drafts = [next, repeated];
    assert!(migrated.draft_all(run, 3, 0, &drafts, at(8)).await.unwrap());
    let due = migrated.due_calls(at(8)).await.unwrap();
    assert_eq!(due[1].prompt, drafts[0].call.prompt);
    assert_eq!(due[2].prompt, drafts[1].call.prompt);
}

#[tokio::test]
async fn a_configuration_of_a_sweep_keeps_its_own_text() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(9).await;
    let mut parent = candidate(Operator::Submit, Some(baseline), "parent");
    parent.source += &"// a line\n".repeat(99);
    let parent_id = lab.propose(run, &parent).await;
    let mut swept = candidate(Operator::Sweep, Some(parent_id), "swept");
    swept.source = parent.source.replacen("a line", "another", 1);
    let swept_id = lab.propose(run, &swept).await;
    let further = candidate(Operator::Sweep, Some(swept_id), "swept again");
    let further_id = lab.propose(run, &further).await;
    for (id, new) in [
        (parent_id, parent),
        (swept_id, swept),
        (further_id, further),
    ] {
        let (_, source) = lab.store.source(id).await.unwrap().unwrap();
        assert_eq!(source, new.source);
    }
}
