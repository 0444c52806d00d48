//! Services that share a database: who takes a run's steps, and who hears of whose changes.

use std::time::Duration;

use domain::api::RunState;
use domain::search::Operator;
use sqlx::{Connection as _, PgConnection};
use store::{Store, StoreError, schema_version};

use crate::fixture::{Lab, at, candidate};
use crate::older::migrate_to_version;

#[tokio::test]
#[ignore = "needs a Postgres server: tests/postgres cargo nextest run -p store --run-ignored all"]
async fn one_service_owns_a_run_and_another_takes_it_over_when_the_first_ends() {
    let lab = Lab::new().await;
    let run = lab.run(5).await;
    let (first, second) = (&lab.store, &lab.reopen().await);
    let claim = first.share_database().await.unwrap();
    let _claim = second.share_database().await.unwrap();
    let checking = RunState::CheckingBaseline;
    first.advance(run, &checking, at(10)).await.unwrap();
    let owner = first.take_duties(at(10)).await.unwrap();
    assert_eq!((owner.runs, owner.runs_of_others), (vec![run], vec![]));
    let other = second.take_duties(at(11)).await.unwrap();
    assert_eq!((other.runs, other.runs_of_others), (vec![], vec![run]));
    // The other service does not count the time.
    second.keep_time(at(12)).await.unwrap();
    first.keep_time(at(14)).await.unwrap();
    assert_eq!(first.snapshot(run).await.unwrap().elapsed.as_secs(), 4);

    drop(claim);
    let successor = loop {
        // The server takes a moment to notice the end of the connection.
        let duties = second.take_duties(at(20)).await.unwrap();
        if duties.runs == [run] {
            break duties;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(successor.runs_of_others.is_empty());
    assert!(successor.shared_work && successor.hold());
    // The six seconds in which nobody owned the run are no running time.
    second.keep_time(at(21)).await.unwrap();
    assert_eq!(second.snapshot(run).await.unwrap().elapsed.as_secs(), 5);
}

#[tokio::test]
#[ignore = "needs a Postgres server: tests/postgres cargo nextest run -p store --run-ignored all"]
async fn one_of_two_services_does_the_shared_work_until_it_gives_it_up() {
    let lab = Lab::new().await;
    let run = lab.run(5).await;
    let (first, second) = (lab.reopen().await, lab.reopen().await);
    // Neither has a lease yet.
    assert!(!first.does_shared_work().await.unwrap());
    first.take_duties(at(2)).await.unwrap();
    second.take_duties(at(2)).await.unwrap();
    let workers = [
        first.does_shared_work().await.unwrap(),
        second.does_shared_work().await.unwrap(),
    ];
    assert_eq!(workers.iter().filter(|works| **works).count(), 1);
    assert_eq!(first.take_duties(at(3)).await.unwrap().runs, [run]);
    first.end_duties().await.unwrap();
    assert!(second.does_shared_work().await.unwrap());
    assert_eq!(second.take_duties(at(4)).await.unwrap().runs, [run]);
}

#[tokio::test]
#[ignore = "needs a Postgres server: tests/postgres cargo nextest run -p store --run-ignored all"]
async fn a_commit_wakes_those_who_wait_at_another_service() {
    let lab = Lab::new().await;
    let (run, other_run) = (lab.run(5).await, lab.run(6).await);
    let waiting = lab.reopen().await;
    let mut rows = waiting.changed_run(run);
    let mut jobs = waiting.changed_jobs();
    let listening = {
        let waiting = waiting.clone();
        tokio::spawn(async move { waiting.announce_commits_of_others().await })
    };
    // Everybody is woken once when the service begins to listen.
    rows.changed().await.unwrap();
    jobs.changed().await.unwrap();

    let baseline = candidate(Operator::Baseline, None, "baseline");
    lab.propose(run, &baseline).await;
    rows.changed().await.unwrap();
    jobs.changed().await.unwrap();
    // Of another run only its jobs are news.
    lab.propose(other_run, &baseline).await;
    jobs.changed().await.unwrap();
    assert!(!rows.has_changed().unwrap());
    listening.abort();
}

#[tokio::test]
#[ignore = "needs a Postgres server: tests/postgres cargo nextest run -p store --run-ignored all"]
async fn a_service_goes_on_after_the_server_cut_its_connections() {
    let lab = Lab::new().await;
    let run = lab.run(5).await;
    let (first, second) = (&lab.store, lab.reopen().await);
    let mut claim = first.share_database().await.unwrap();
    assert_eq!(first.take_duties(at(2)).await.unwrap().runs, [run]);
    let mut rows = second.changed_run(run);
    let listening = {
        let second = second.clone();
        tokio::spawn(async move { second.announce_commits_of_others().await })
    };
    rows.changed().await.unwrap();

    lab.cut_connections().await;
    claim.lost().await;
    drop(claim);
    let _claim = first.share_database().await.unwrap();
    assert_eq!(first.take_duties(at(30)).await.unwrap().runs, [run]);
    // Once for what may have been missed, and for the commit.
    rows.changed().await.unwrap();
    let baseline = candidate(Operator::Baseline, None, "baseline");
    lab.propose(run, &baseline).await;
    rows.changed().await.unwrap();
    listening.abort();
}

#[tokio::test]
#[ignore = "needs a Postgres server: tests/postgres cargo nextest run -p store --run-ignored all"]
async fn a_service_that_starts_beside_another_does_not_extend_the_leases_of_lost_workers() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    lab.submit(run, baseline, "a").await;
    lab.lease(worker, at(5)).await.unwrap();
    let (first, second) = (&lab.store, lab.reopen().await);
    first.take_duties(at(6)).await.unwrap();
    second.extend_leases(at(30)).await.unwrap();
    assert_eq!(first.expire_leases(at(31)).await.unwrap(), 1);
}

/// The number of the lock is that of every version.
#[tokio::test]
#[ignore = "needs a Postgres server: tests/postgres cargo nextest run -p store --run-ignored all"]
async fn services_of_two_versions_do_not_work_with_one_database() {
    let url = Lab::empty_postgres().await;
    let mut older_service = PgConnection::connect(&url).await.unwrap();
    let (own, older) = (schema_version(), schema_version() - 1);
    migrate_to_version(&mut older_service, older).await;
    sqlx::query("SELECT pg_advisory_lock_shared(82899083617645)")
        .execute(&mut older_service)
        .await
        .unwrap();
    let beside = Store::connect(&url).await.unwrap_err();
    let expected = StoreError::OtherVersion { found: older, own };
    assert_eq!(beside.to_string(), expected.to_string());
    older_service.close().await.unwrap();

    let store = Store::connect(&url).await.unwrap();
    drop(store.share_database().await.unwrap());
    let mut newer_service = PgConnection::connect(&url).await.unwrap();
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES ($1, 'of a newer version', TRUE, '', 0)",
    )
    .bind(own + 1)
    .execute(&mut newer_service)
    .await
    .unwrap();
    let back = store.share_database().await.unwrap_err();
    let found = own + 1;
    let expected = StoreError::OtherVersion { found, own };
    assert_eq!(back.to_string(), expected.to_string());
    let anew = Store::connect(&url).await.unwrap_err();
    assert!(matches!(anew, StoreError::Migrate { .. }), "{anew}");
}

/// As a request whose client closes the connection.
#[tokio::test]
#[ignore = "needs a Postgres server: tests/postgres cargo nextest run -p store --run-ignored all"]
async fn a_caller_that_leaves_while_a_transaction_begins_leaves_none_open() {
    let lab = Lab::new().await;
    let mut observer = PgConnection::connect(lab.url.as_ref().unwrap())
        .await
        .unwrap();
    let mut open = async || -> i64 {
        sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
        )
        .fetch_one(&mut observer)
        .await
        .unwrap()
    };
    let moment = Duration::from_millis(2);
    // The caller leaves in the first wait that a call has, in the second, and so on.
    for waits in 1.. {
        let mut call = Box::pin(lab.store.end_duties());
        for _ in 0..waits {
            if futures::poll!(&mut call).is_ready() {
                return;
            }
            tokio::time::sleep(moment).await;
        }
        drop(call);
        let mut turns = 0;
        while open().await > 0 {
            assert!(turns < 500, "a transaction is open after wait {waits}");
            turns += 1;
            tokio::time::sleep(moment).await;
        }
    }
}
