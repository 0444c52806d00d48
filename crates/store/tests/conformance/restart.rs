//! A process that dies anywhere leaves a database that the next one goes on with.

use domain::search::Operator;

use crate::fixture::{Lab, accepted, at, candidate};

#[tokio::test]
async fn what_was_committed_survives_and_nothing_is_half_done() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    let id = lab.submit(run, baseline, "a").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    let before = lab.store.run(run).await.unwrap().unwrap();
    // The first process never closes its connections: its end is not an orderly one.
    let next = lab.reopen().await;
    assert_eq!(next.run(run).await.unwrap().unwrap(), before);
    let report = crate::fixture::report(&leased, accepted(50.0));
    next.report(leased.job, &report, at(6)).await.unwrap();
    let summary = next.summary(id).await.unwrap().unwrap();
    assert_eq!(summary.speedup.map(crate::fixture::rounded), Some(2.0));
}

#[tokio::test]
async fn a_call_that_is_dropped_midway_leaves_no_trace() {
    const PROPOSALS: usize = 200;
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(9).await;
    let all = (0..PROPOSALS)
        .map(|i| candidate(Operator::Submit, Some(baseline), &format!("c{i}")))
        .map(|mut new| {
            new.trial = false;
            new
        })
        .collect::<Vec<_>>();
    for polls in [1, 2, 5, 20, 60] {
        let mut call = Box::pin(lab.store.propose_all(run, &all, at(5)));
        for _ in 0..polls {
            let pending = std::future::poll_fn(|cx| {
                std::task::Poll::Ready(call.as_mut().poll(cx).is_pending())
            })
            .await;
            assert!(
                pending,
                "{PROPOSALS} proposals take more than {polls} polls"
            );
            tokio::task::yield_now().await;
        }
        drop(call);
        let page = lab.store.candidates(run, None, None, 500).await.unwrap();
        assert_eq!(page.candidates.len(), 1);
    }
    let made = lab.store.propose_all(run, &all, at(6)).await.unwrap();
    assert_eq!(made.len(), PROPOSALS);
    let page = lab.store.candidates(run, None, None, 500).await.unwrap();
    assert_eq!(page.candidates.len(), 1 + PROPOSALS);
}

#[tokio::test]
async fn a_backup_is_the_database_after_one_commit_while_others_follow() {
    let lab = Lab::sqlite().await;
    let (run, _, baseline) = lab.running(30).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup.db");
    let database = lab.folder.path().join("test.db");
    let writing = async {
        for number in 0..20 {
            lab.submit(run, baseline, &format!("c{number}")).await;
        }
    };
    let (written, ()) = tokio::join!(store::back_up(&database, &file), writing);
    written.unwrap();
    let copy = store::Store::open(&file).await.unwrap();
    let restored = copy.run(run).await.unwrap().unwrap();
    let page = copy.candidates(run, None, None, 500).await.unwrap();
    // The total of a run and its candidates are written by one commit.
    assert_eq!(restored.pending as usize, page.candidates.len() - 1);
    assert!((1..=21).contains(&page.candidates.len()));

    let again = store::back_up(&database, &file).await.unwrap_err();
    assert!(matches!(again, store::StoreError::Backup { .. }), "{again}");
    let (none, other) = (folder.path().join("none.db"), folder.path().join("b"));
    let missing = store::back_up(&none, &other).await.unwrap_err();
    assert!(
        matches!(missing, store::StoreError::Open { .. }),
        "{missing}"
    );
    assert!(!none.exists());
}

#[tokio::test]
async fn each_table_has_its_size_and_the_largest_is_first() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(300).await;
    // Compressed texts stay large if nothing in them repeats.
    let random = (0..3_000).map(|_| uuid::Uuid::new_v4().to_string());
    let body = random.collect::<String>();
    lab.submit(run, baseline, &body).await;
    let sizes = match &lab.url {
        Some(url) => store::measure_postgres(url).await,
        None => store::measure_sqlite(&lab.folder.path().join("test.db")).await,
    };
    let sizes = sizes.unwrap();
    let bytes_of = |name: &str| {
        let found = sizes.iter().find(|size| size.table == name);
        found
            .unwrap_or_else(|| panic!("{name} is in {sizes:?}"))
            .bytes
    };
    assert!(sizes.is_sorted_by_key(|size| std::cmp::Reverse(size.bytes)));
    assert!(bytes_of("texts") > 50_000, "{sizes:?}");
    assert!(
        bytes_of("texts") > bytes_of("webhook_deliveries"),
        "{sizes:?}"
    );

    let none = lab.folder.path().join("none.db");
    let missing = store::measure_sqlite(&none).await.unwrap_err();
    assert!(
        matches!(missing, store::StoreError::Open { .. }),
        "{missing}"
    );
    assert!(!none.exists());
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_refused() {
    let lab = Lab::sqlite().await;
    let path = lab.folder.path().join("test.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let mut connection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (9999, 'later', 1, x'00', 0)",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    let refused = store::Store::open(&path).await.unwrap_err();
    assert!(matches!(refused, store::StoreError::Migrate { .. }));
    assert!(refused.to_string().contains("newer version"), "{refused}");
}

#[tokio::test]
async fn a_missing_folder_is_named() {
    let lab = Lab::sqlite().await;
    let path = lab.folder.path().join("gone").join("test.db");
    let refused = store::Store::open(&path).await.unwrap_err().to_string();
    assert!(refused.contains("gone/test.db"), "{refused}");
}

#[tokio::test]
async fn a_row_that_no_version_writes_is_named() {
    let lab = Lab::sqlite().await;
    let (run, _, _) = lab.running(9).await;
    let options =
        sqlx::sqlite::SqliteConnectOptions::new().filename(lab.folder.path().join("test.db"));
    let mut connection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    sqlx::query("UPDATE candidates SET operator = 'nonsense' WHERE run = $1")
        .bind(run.uuid())
        .execute(&mut connection)
        .await
        .unwrap();
    let refused = lab.store.snapshot(run).await.unwrap_err().to_string();
    assert!(
        refused.starts_with("read column operator of table candidates, row cand_"),
        "{refused}"
    );
}
