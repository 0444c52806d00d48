//! `database`: brings the database of a service up to date, copies it to Postgres, or backs it up.

use serde::Serialize;
use store::{CopiedTable, Store, StoreError};

use super::follow::{print, print_json};
use super::serve;
use crate::cli::{DatabaseBackupArgs, DatabaseCommand, DatabaseCopyArgs, DatabaseMigrateArgs};
use crate::outcome::{Ending, Failure, Outcome};
use crate::terminal::plain;

pub(super) async fn database(command: DatabaseCommand) -> Ending {
    match command {
        DatabaseCommand::Migrate(args) => migrate(&args).await,
        DatabaseCommand::Copy(args) => copy(&args).await,
        DatabaseCommand::Backup(args) => backup(&args).await,
    }
}

async fn migrate(args: &DatabaseMigrateArgs) -> Ending {
    let url = args.database.database.as_deref();
    let data = serve::open_existing(&args.folder.data)?;
    let _lock = data.lock().map_err(Failure::infrastructure)?;
    if url.is_none() {
        ensure_database(&data.database())?;
    }
    let store = data.open_store(url).await.map_err(failure)?;
    // A service of this version would find nothing to do, and one of another version would be disturbed.
    let _claim = store.claim_database().await.map_err(failure)?;
    store.close().await;
    let version = store::schema_version();
    if args.json {
        print_json(&serde_json::json!({ "version": version }))?;
    } else {
        print(&format!(
            "the database has the tables of version {version}\n"
        ))?;
    }
    Ok(Outcome::Accepted)
}

async fn backup(args: &DatabaseBackupArgs) -> Ending {
    let data = serve::open_existing(&args.folder.data)?;
    ensure_database(&data.database())?;
    let backup = store::back_up(&data.database(), &args.file).await;
    backup.map_err(failure)?;
    if args.json {
        print_json(&serde_json::json!({ "file": args.file }))?;
    } else {
        print(&format!(
            "the database is in {}\n",
            plain(&args.file.display().to_string())
        ))?;
    }
    Ok(Outcome::Accepted)
}

/// The result of `database copy`.
#[derive(Serialize)]
struct Copied {
    tables: Vec<Table>,
    rows: u64,
}

#[derive(Serialize)]
struct Table {
    table: String,
    rows: u64,
}

async fn copy(args: &DatabaseCopyArgs) -> Ending {
    let Some(url) = &args.database.database else {
        return Err(Failure::input(anyhow::anyhow!(
            "copy the database: name the Postgres database with --database \
             postgres://USER:PASSWORD@HOST/NAME, or in KERNELWRIGHT_DATABASE"
        )));
    };
    let data = serve::open_existing(&args.folder.data)?;
    let _lock = data.lock().map_err(Failure::infrastructure)?;
    ensure_database(&data.database())?;
    let source = data.open_store(None).await.map_err(failure)?;
    let target = Store::connect(url).await.map_err(failure)?;
    let _claim = target.claim_database().await.map_err(failure)?;
    let report = |copied: &CopiedTable| {
        eprintln!(
            "kernelwright: copied {}: {} rows",
            copied.table, copied.rows
        );
    };
    let copied = source.copy_to(&target, report).await.map_err(failure)?;
    target.close().await;
    source.close().await;
    let rows = copied.iter().map(|table| table.rows).sum();
    if args.json {
        let tables = copied.into_iter();
        let tables = tables.map(|CopiedTable { table, rows }| Table { table, rows });
        print_json(&Copied {
            tables: tables.collect(),
            rows,
        })?;
    } else {
        print(&format!(
            "copied {rows} rows of {} tables; start the service with this --database and the same data folder, \
             which keeps winners and evidence\n",
            copied.len()
        ))?;
    }
    Ok(Outcome::Accepted)
}

/// Refuses a folder without a database, in which opening would make an empty one.
fn ensure_database(file: &std::path::Path) -> Result<(), Failure> {
    if file.is_file() {
        return Ok(());
    }
    Err(Failure::input(anyhow::anyhow!(
        "open the database {}: there is none; name the data folder of a service with --data DIR",
        file.display()
    )))
}

pub(super) fn failure(error: StoreError) -> Failure {
    match error {
        StoreError::InUse { .. }
        | StoreError::Backup { .. }
        | StoreError::NulInText { .. }
        | StoreError::Url { .. } => Failure::input(error),
        other => Failure::infrastructure(other),
    }
}
