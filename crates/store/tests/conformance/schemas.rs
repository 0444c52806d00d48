//! The two schemas against each other.

use std::collections::BTreeMap;

use sqlx::{Connection as _, PgConnection, SqliteConnection};

use crate::fixture::Lab;

/// Columns by table, each with its type and whether it may be absent.
type Schema = BTreeMap<String, BTreeMap<String, (String, bool)>>;

/// The type of Postgres that stands for one of SQLite.
fn equivalent(kind: &str, table: &str) -> &'static str {
    match kind {
        "INTEGER" => "bigint",
        "REAL" => "double precision",
        "TEXT" => "text",
        "BLOB" if table == "texts" => "bytea",
        "BLOB" => "uuid",
        other => panic!("a new type: {other}"),
    }
}

#[tokio::test]
#[ignore = "needs a Postgres server: tests/postgres cargo nextest run -p store --run-ignored all"]
async fn both_databases_have_the_same_tables_and_columns() {
    let lab = Lab::sqlite().await;
    let path = lab.folder.path().join("test.db");
    let mut sqlite = SqliteConnection::connect(path.to_str().unwrap())
        .await
        .unwrap();
    let mut wanted = Schema::new();
    let rows: Vec<(String, String, String, bool, bool)> = sqlx::query_as(
        "SELECT t.name, c.name, c.type, c.\"notnull\", c.pk > 0 FROM sqlite_master t \
         JOIN pragma_table_info(t.name) c WHERE t.type = 'table' \
         AND t.name NOT LIKE 'sqlite_%' AND t.name NOT LIKE '_sqlx_%'",
    )
    .fetch_all(&mut sqlite)
    .await
    .unwrap();
    for (table, column, kind, present, key) in rows {
        let kind = equivalent(&kind, &table).to_owned();
        let columns = wanted.entry(table).or_default();
        columns.insert(column, (kind, !(present || key)));
    }

    let lab = Lab::new().await;
    let url = lab
        .url
        .as_ref()
        .expect("KERNELWRIGHT_TEST_POSTGRES names a server");
    let mut postgres = PgConnection::connect(url).await.unwrap();
    let mut found = Schema::new();
    let rows: Vec<(String, String, String, bool)> = sqlx::query_as(
        "SELECT table_name::text, column_name::text, data_type::text, is_nullable = 'YES' \
         FROM information_schema.columns JOIN information_schema.tables \
         USING (table_catalog, table_schema, table_name) \
         WHERE table_schema = 'public' AND table_type = 'BASE TABLE' \
         AND table_name NOT LIKE '\\_sqlx\\_%'",
    )
    .fetch_all(&mut postgres)
    .await
    .unwrap();
    for (table, column, kind, absent) in rows {
        found
            .entry(table)
            .or_default()
            .insert(column, (kind, absent));
    }
    assert_eq!(found, wanted);
}

#[tokio::test]
#[ignore = "needs a Postgres server: tests/postgres cargo nextest run -p store --run-ignored all"]
async fn a_command_that_needs_the_database_alone_waits_for_the_services() {
    let lab = Lab::new().await;
    let first = lab.store.share_database().await.unwrap();
    let other = lab.reopen().await;
    let second = other.share_database().await.unwrap();
    let third = lab.reopen().await;
    let waiting = tokio::spawn(async move { third.claim_database().await });
    // A claim ends with its connection.
    drop(first);
    assert!(!waiting.is_finished());
    drop(second);
    waiting.await.unwrap().unwrap();
}
