//! Texts in a table of their own: every reader gets what was written, also from a database that an
//! earlier program wrote.

use std::path::Path;

use domain::api::{CallView, ShownCandidates};
use domain::id::CandidateId;
use domain::search::Operator;
use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, SqliteConnection};
use store::{CandidateRecord, Store};

use crate::calls::{draft, drafted, reply, written};
use crate::fixture::{Lab, accepted, at, candidate};

/// The last version before texts were kept apart.
const BEFORE: i64 = 11;
/// The tables with rows of runs, and what version 11 had in them instead of an id.
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
async fn record(store: &Store, id: CandidateId) -> (CandidateRecord, Vec<CallView>) {
    let record = store.candidate(id).await.unwrap().unwrap();
    (record, store.calls(id).await.unwrap())
}

/// Opens a database with the schema of version 11.
async fn open_older(path: &Path) -> SqliteConnection {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations/sqlite");
    let mut migrations = Migrator::new(folder).await.unwrap();
    let older = migrations.migrations.iter();
    let older = older.filter(|migration| migration.version <= BEFORE);
    migrations.migrations = older.cloned().collect::<Vec<_>>().into();
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

#[tokio::test]
async fn a_database_of_version_11_keeps_every_text() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    let drafts = [
        draft(Operator::Init, &[baseline]),
        draft(Operator::Init, &[baseline]),
    ];
    let due = drafted(&lab, run, 1, &drafts).await;
    assert!(reply(&lab, &due[0], &written("fast"), 6).await);
    let leased = lab.lease(worker, at(7)).await.unwrap();
    lab.judge(&leased, accepted(50.0)).await;
    let mut before = Vec::new();
    for id in [baseline, due[0].candidate, due[1].candidate] {
        before.push(record(&lab.store, id).await);
    }
    lab.store.close().await;

    let path = lab.folder.path().join("older.db");
    let mut older = open_older(&path).await;
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
    for (record, calls) in &before {
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

    let migrated = Store::open(&path).await.unwrap();
    for before in &before {
        let after = record(&migrated, before.0.summary.id).await;
        assert_eq!(format!("{after:?}"), format!("{before:?}"));
    }
    let waiting = migrated.due_calls(at(8)).await.unwrap();
    assert_eq!(waiting, [due[1].clone()]);
    // New texts are compressed with old ones as their dictionary.
    let shown = ShownCandidates {
        best: Some(due[0].candidate),
        parents: vec![due[0].candidate],
        ..ShownCandidates::default()
    };
    let mut next = draft(Operator::Mutation, &[due[0].candidate]);
    next.call.seen = shown;
    let mut repeated = next.clone();
    repeated.call.prompt.messages[0].text = before[1].0.source.clone();
    let drafts = [next, repeated];
    assert!(migrated.draft_all(run, 3, &drafts, at(8)).await.unwrap());
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
