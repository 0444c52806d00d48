//! The migration that adds access tokens, on a database of an older program.

use domain::access::Scope;
use domain::digest::Digest;
use domain::lease::{Receipt, ReportOutcome};
use domain::search::Operator;
use store::{NewToken, Store, StoreError};

use crate::fixture::{Lab, accepted, at, candidate, report};
use crate::older::copy_to_version;

#[tokio::test]
async fn evaluations_of_an_older_program_keep_the_bundles_that_they_name() {
    let lab = Lab::sqlite().await;
    let (run, worker, baseline) = lab.running(9).await;
    lab.propose(run, &candidate(Operator::Submit, Some(baseline), "faster"))
        .await;
    let leased = lab.lease(worker, at(5)).await.expect("a job");
    let mut judged = report(&leased, accepted(50.0));
    let bundle = Digest::of("a manifest");
    if let ReportOutcome::Evaluated { evaluation } = &mut judged.outcome {
        evaluation.evidence = Some(bundle);
    }
    let receipt = lab.store.report(leased.job, &judged, at(6)).await.unwrap();
    assert_eq!(receipt, Receipt::Accepted);

    let candidates = [baseline, leased.candidate];
    let path = copy_to_version(&lab, 14, &candidates).await;
    let store = Store::open(&path).await.unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let mut rows = sqlx::ConnectOptions::connect(&options).await.unwrap();
    let named: Vec<(Option<String>,)> =
        sqlx::query_as("SELECT bundle FROM evaluations ORDER BY created_at")
            .fetch_all(&mut rows)
            .await
            .unwrap();
    assert_eq!(named, [(None,), (Some(bundle.to_string()),)]);
    // A worker that registered without a token belongs to none.
    let new = NewToken {
        name: "machine",
        scope: Scope::Worker,
        expires_at: None,
    };
    let (token, _) = store.create_token(&new, "a test", at(7)).await.unwrap();
    let owner = token.id.to_string();
    let refused = store.check_bundle(bundle, &owner).await;
    assert!(matches!(refused, Err(StoreError::NotYours { .. })));
    let refused = store.check_worker(worker, Some(&owner)).await;
    assert!(matches!(refused, Err(StoreError::NotYours { .. })));
    store.check_worker(worker, None).await.unwrap();
    // A service of another release has taken the database over.
    sqlx::query("UPDATE workers SET evaluator = evaluator - 1")
        .execute(&mut rows)
        .await
        .unwrap();
    let skewed = store.check_lease(worker, None).await.unwrap_err();
    let update = "update the worker's program";
    assert!(skewed.to_string().contains(update), "{skewed}");
}
