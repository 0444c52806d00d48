//! Access tokens: those of people who sign in elsewhere, and the migration of an older database.

use domain::access::Scope;
use domain::digest::Digest;
use domain::lease::{Receipt, ReportOutcome};
use domain::search::Operator;
use store::{Authentication, NewToken, Store, StoreError};

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

#[tokio::test]
async fn a_person_keeps_a_token_until_the_scope_changes() {
    let lab = Lab::new().await;
    let store = &lab.store;
    let first = store.token_of_person("ada@team.example", Scope::User, at(1));
    let first = first.await.unwrap();
    let session = store.open_session(first, at(1)).await.unwrap();
    let again = store.token_of_person("ada@team.example", Scope::User, at(2));
    assert_eq!(again.await.unwrap(), first);
    let other = store.token_of_person("bob@team.example", Scope::User, at(2));
    assert_ne!(other.await.unwrap(), first);

    let admin = store.token_of_person("ada@team.example", Scope::Admin, at(3));
    assert_ne!(admin.await.unwrap(), first);
    let ended = store.authenticate(&session, at(4)).await.unwrap();
    assert_eq!(ended, Authentication::Unknown, "its sessions end with it");
    let tokens = store.tokens().await.unwrap();
    let adas = tokens
        .iter()
        .filter(|token| token.name == "sso:ada@team.example");
    let usable = adas.filter(|token| token.is_usable(at(4)));
    assert_eq!(
        usable.map(|token| token.scope).collect::<Vec<_>>(),
        [Scope::Admin]
    );

    store
        .revoke_token("sso:ada@team.example", "a test", at(5))
        .await
        .unwrap();
    let back = store.token_of_person("ada@team.example", Scope::Admin, at(6));
    assert!(back.await.is_ok(), "whoever may sign in gets a new one");
}
