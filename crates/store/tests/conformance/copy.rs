//! The copy of a SQLite database into a Postgres database.

use std::collections::BTreeMap;

use domain::access::Scope;
use domain::search::Operator;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, SqliteConnection};
use store::{NewToken, Store, StoreError};

use crate::fixture::{Lab, accepted, at, candidate};

/// Every character that the text format of `COPY` writes with a backslash, and some beyond ASCII.
const TEXT: &str = "a\tb\\N\nc\r\\. \u{1F600} \u{e9}";

/// A SQLite database with rows of every kind that the other tests make often.
async fn used() -> (Lab, domain::id::RunId) {
    let lab = Lab::sqlite().await;
    let (run, worker, baseline) = lab.running(9).await;
    lab.submit(run, baseline, "first").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    lab.judge(&leased, accepted(50.0)).await;
    let mut named = candidate(Operator::Submit, Some(baseline), "second");
    named.title = TEXT.to_owned();
    lab.propose(run, &named).await;
    let token = NewToken {
        name: "dana",
        scope: Scope::Admin,
        expires_at: None,
    };
    lab.store
        .create_token(&token, "tests", at(6))
        .await
        .unwrap();
    (lab, run)
}

/// A table's columns with their types in Postgres.
type Columns = Vec<(String, String)>;

/// A value of a row of either database as a text.
macro_rules! text_of {
    ($row:expr, $at:expr, $kind:expr) => {
        match $kind {
            "bigint" => format!("{:?}", $row.get::<Option<i64>, _>($at)),
            "double precision" => format!("{:?}", $row.get::<Option<f64>, _>($at)),
            "text" => format!("{:?}", $row.get::<Option<String>, _>($at)),
            "bytea" => format!("{:?}", $row.get::<Option<Vec<u8>>, _>($at)),
            "uuid" => format!("{:?}", $row.get::<Option<uuid::Uuid>, _>($at)),
            other => panic!("a new type: {other}"),
        }
    };
}

/// All rows of a table of either database as texts in ascending order.
macro_rules! rows_of {
    ($connection:expr, $table:expr, $columns:expr) => {{
        let columns: &Columns = $columns;
        let names: Vec<String> = columns
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let statement = format!("SELECT {} FROM {}", names.join(", "), $table);
        let rows = sqlx::query(AssertSqlSafe(statement)).fetch_all($connection);
        let mut texts = Vec::new();
        for row in rows.await.unwrap() {
            let kinds = columns.iter().enumerate();
            let values = kinds.map(|(at, (_, kind))| text_of!(row, at, kind.as_str()));
            texts.push(values.collect::<Vec<_>>().join(", "));
        }
        texts.sort();
        texts
    }};
}

#[tokio::test]
#[ignore = "needs a Postgres server: tests/postgres cargo nextest run -p store --run-ignored all"]
async fn a_copy_has_every_row_and_a_service_goes_on_with_it() {
    let (lab, run) = used().await;
    let url = Lab::empty_postgres().await;
    let target = Store::connect(&url).await.unwrap();
    let mut reported = Vec::new();
    let copied = lab
        .store
        .copy_to(&target, |table| reported.push(table.clone()))
        .await
        .unwrap();
    assert_eq!(copied, reported);

    let mut connection = PgConnection::connect(&url).await.unwrap();
    let columns: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT table_name::text, column_name::text, data_type::text \
         FROM information_schema.columns JOIN information_schema.tables \
         USING (table_catalog, table_schema, table_name) \
         WHERE table_schema = 'public' AND table_type = 'BASE TABLE' \
         AND table_name NOT LIKE '\\_sqlx\\_%' ORDER BY table_name, ordinal_position",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    let mut tables = BTreeMap::<String, Columns>::new();
    for (table, column, kind) in columns {
        tables.entry(table).or_default().push((column, kind));
    }
    let file = lab.folder.path().join("test.db");
    let mut source = SqliteConnection::connect(file.to_str().unwrap())
        .await
        .unwrap();
    for (table, columns) in &tables {
        let wanted = rows_of!(&mut source, table, columns);
        let found = rows_of!(&mut connection, table, columns);
        assert_eq!(found, wanted, "{table}");
        let told = copied.iter().find(|copied| copied.table == *table).unwrap();
        assert_eq!(told.rows, wanted.len() as u64, "{table}");
    }
    let filled = copied.iter().filter(|table| table.rows > 0).count();
    assert!(filled >= 12, "only {filled} tables have rows to compare");

    // The copy is worked with: numbers of rows go on, and foreign keys are checked.
    assert_eq!(
        target.run(run).await.unwrap(),
        lab.store.run(run).await.unwrap()
    );
    let page = target.candidates(run, None, None, 9).await.unwrap();
    assert!(page.candidates.iter().any(|one| one.title == TEXT));
    let parent = page.candidates[0].id;
    let third = candidate(Operator::Submit, Some(parent), "third");
    target.propose(run, &third, at(7)).await.unwrap();
    let keys = sqlx::query("DELETE FROM tasks").execute(&mut connection);
    assert!(keys.await.is_err(), "runs refer to their tasks");
}

#[tokio::test]
async fn a_copy_into_a_sqlite_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = Store::open(folder.path().join("source.db")).await.unwrap();
    let target = Store::open(folder.path().join("target.db")).await.unwrap();
    let error = source.copy_to(&target, |_| {}).await.unwrap_err();
    assert!(matches!(error, StoreError::CopyKinds), "{error}");
}

#[tokio::test]
#[ignore = "needs a Postgres server: tests/postgres cargo nextest run -p store --run-ignored all"]
async fn a_copy_that_is_refused_changes_nothing() {
    let (lab, _) = used().await;
    let busy = Lab::new().await;
    let error = lab.store.copy_to(&busy.store, |_| {}).await.unwrap_err();
    assert!(matches!(
        error,
        StoreError::InUse {
            table: "tasks",
            rows: 1
        }
    ));

    let file = lab.folder.path().join("test.db");
    let mut source = SqliteConnection::connect(file.to_str().unwrap())
        .await
        .unwrap();
    sqlx::query("UPDATE candidates SET title = 'a' || char(0) || 'b' WHERE ordinal = 2")
        .execute(&mut source)
        .await
        .unwrap();
    let url = Lab::empty_postgres().await;
    let target = Store::connect(&url).await.unwrap();
    let error = lab.store.copy_to(&target, |_| {}).await.unwrap_err();
    let StoreError::NulInText { table, column, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((table.as_str(), column.as_str()), ("candidates", "title"));
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM tasks")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(rows, 0);
    // The keys are still there.
    let keys: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_constraint WHERE contype = 'f'")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert!(keys > 20, "{keys}");
}
