//! Databases as earlier programs wrote them, made from one of this program.

use std::path::{Path, PathBuf};

use domain::api::CallView;
use domain::id::CandidateId;
use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, PgConnection, SqliteConnection};
use store::{CandidateRecord, Relatives, Store};

use crate::fixture::Lab;

/// The tables with rows of runs, and what versions up to 15 had in them instead of ids of texts.
const TABLES: [(&str, &str, &str); 9] = [
    ("tasks", "", ""),
    ("runs", "", ""),
    ("candidates", ", source", ", ''"),
    ("workers", "", ""),
    ("jobs", "", ""),
    ("evaluations", ", evidence", ", ''"),
    ("insights", "", ""),
    ("events", "", ""),
    (
        "calls",
        ", prompt, reply",
        ", '', CASE WHEN answered_at IS NOT NULL THEN '' END",
    ),
];

/// A candidate with everything that texts are read for.
pub async fn record(store: &Store, id: CandidateId) -> (CandidateRecord, Vec<CallView>, Relatives) {
    let record = store.candidate(id).await.unwrap().unwrap();
    let calls = store.calls(id).await.unwrap();
    (record, calls, store.relatives(id).await.unwrap())
}

/// The migrations of a database system up to a version.
async fn migrations_up_to(system: &str, version: i64) -> Migrator {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
    let mut migrations = Migrator::new(folder.join(system)).await.unwrap();
    let older = migrations.migrations.iter();
    let older = older.filter(|migration| migration.version <= version);
    migrations.migrations = older.cloned().collect::<Vec<_>>().into();
    migrations
}

/// Gives an empty Postgres database the schema of a version.
pub async fn migrate_to_version(connection: &mut PgConnection, version: i64) {
    let migrations = migrations_up_to("postgres", version).await;
    migrations.run(connection).await.unwrap();
}

/// Opens a new SQLite database with the schema of a version.
async fn open_version(path: &Path, version: i64) -> SqliteConnection {
    let migrations = migrations_up_to("sqlite", version).await;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    migrations.run(&mut connection).await.unwrap();
    connection
}

async fn columns(connection: &mut SqliteConnection, table: &str) -> Vec<String> {
    sqlx::query_scalar("SELECT name FROM pragma_table_info($1)")
        .bind(table)
        .fetch_all(connection)
        .await
        .unwrap()
}

/// Writes the rows of a lab, with the texts of these candidates, to a database of a version before texts
/// had a table of their own. Closes the lab's store.
pub async fn copy_to_version(lab: &Lab, version: i64, candidates: &[CandidateId]) -> PathBuf {
    let mut records = Vec::new();
    for id in candidates {
        records.push(record(&lab.store, *id).await);
    }
    lab.store.close().await;
    let path = lab.folder.path().join("older.db");
    let mut older = open_version(&path, version).await;
    let newer = lab.folder.path().join("test.db");
    let attach = format!(
        "PRAGMA foreign_keys = OFF; ATTACH '{}' AS newer",
        newer.display()
    );
    sqlx::raw_sql(AssertSqlSafe(attach))
        .execute(&mut older)
        .await
        .unwrap();
    for (table, columns_before, values_before) in TABLES {
        let own = columns(&mut older, table).await;
        let texts = columns_before.split(", ").collect::<Vec<_>>();
        let kept = own.iter().filter(|name| !texts.contains(&name.as_str()));
        let kept = kept.cloned().collect::<Vec<_>>().join(", ");
        let copy = format!(
            "INSERT INTO main.{table} ({kept}{columns_before}) \
             SELECT {kept}{values_before} FROM newer.{table}"
        );
        sqlx::raw_sql(AssertSqlSafe(copy))
            .execute(&mut older)
            .await
            .unwrap();
    }
    for (record, calls, _) in &records {
        let id = record.summary.id.uuid();
        let mut set = async |sql: &'static str, text: String| {
            let query = sqlx::query(sql).bind(id).bind(text);
            query.execute(&mut older).await.unwrap();
        };
        let source = "UPDATE main.candidates SET source = $2 WHERE id = $1";
        set(source, record.source.clone()).await;
        if let Some(evaluation) = &record.evaluation {
            let evidence = "UPDATE main.evaluations SET evidence = $2 WHERE candidate = $1";
            set(evidence, serde_json::to_string(evaluation).unwrap()).await;
        }
        for call in calls {
            let prompt = "UPDATE main.calls SET prompt = $2 WHERE candidate = $1";
            set(prompt, serde_json::to_string(&call.prompt).unwrap()).await;
            if let Some(reply) = &call.reply {
                let sql = "UPDATE main.calls SET reply = $2 WHERE candidate = $1";
                set(sql, reply.text.clone()).await;
            }
        }
    }
    drop(older);
    path
}
