//! Errors of the database, distinguished by what the caller can do about them.

use std::error::Error;
use std::path::PathBuf;

use domain::id::{JobId, RunId, WorkerId};

/// An error of the store. Messages read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database file cannot be used.
    #[error(
        "open the database {}: check that its folder exists and is writable", path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: sqlx::Error,
    },
    /// The URL of a Postgres database does not parse.
    #[error("read the URL of the database: write postgres://USER:PASSWORD@HOST/DATABASE")]
    Url {
        /// The cause.
        source: sqlx::Error,
    },
    /// A Postgres database cannot be used.
    #[error(
        "connect to the Postgres database {database}: check that the server runs and that the user may log in"
    )]
    Connect {
        /// Its name and address, without the password.
        database: String,
        /// The cause.
        source: sqlx::Error,
    },
    /// Another process works with the Postgres database.
    #[error(
        "claim the database: a service works with it, or a command that needs it alone; stop that one first, or name another database"
    )]
    Claimed,
    /// Services of another version work with the Postgres database, or did before this one lost its connection.
    #[error(
        "work with the tables of the database: they are of version {found}, this program's are of version {own}, and a service may be working with them; stop all services, then start those of one version"
    )]
    OtherVersion {
        /// Version of the tables.
        found: i64,
        /// Version of the tables of this program.
        own: i64,
    },
    /// The schema could not be brought up to date.
    #[error(
        "migrate the database {database}: it may have been written by a newer version of this program"
    )]
    Migrate {
        /// The file, or name and address of a Postgres database.
        database: String,
        /// The cause.
        source: sqlx::migrate::MigrateError,
    },
    /// A copy of the database cannot be written.
    #[error("back up the database into {}: name a file that does not exist, on a disk with room", file.display())]
    Backup {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: sqlx::Error,
    },
    /// A copy is made into a database that has been used.
    #[error(
        "copy the database: the Postgres database has rows in {table} ({rows}) already; name a new, empty one"
    )]
    InUse {
        /// The table.
        table: &'static str,
        /// The number of its rows.
        rows: i64,
    },
    /// A copy was asked for between other kinds of databases.
    #[error(
        "copy the database: a copy goes from a SQLite database to a Postgres database; open the first with Store::open and the second with Store::connect"
    )]
    CopyKinds,
    /// A text holds the character with code 0, which Postgres cannot keep.
    #[error(
        "copy the database: row {row} of table {table} has the character with code 0 in column {column}, which Postgres cannot keep; remove it in the SQLite database"
    )]
    NulInText {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The number of the row, counted from 1.
        row: u64,
    },
    /// No space is left for the database.
    #[error("{doing}: the disk of the database is full; free some space, nothing recorded is lost")]
    DiskFull {
        /// The operation that failed.
        doing: &'static str,
        /// The database's error.
        source: sqlx::Error,
    },
    /// Another process holds the database.
    #[error(
        "{doing}: another process holds the database; stop it or give this one its own data folder"
    )]
    Busy {
        /// The operation that failed.
        doing: &'static str,
        /// The database's error.
        source: sqlx::Error,
    },
    /// The database does not answer. It is asked again with the next statement.
    #[error("{doing}: the database does not answer; try again, nothing recorded is lost")]
    Unavailable {
        /// The operation that failed.
        doing: &'static str,
        /// The database's error.
        source: sqlx::Error,
    },
    /// The database takes no changes.
    #[error(
        "{doing}: the database is read-only; make its file or server writable, nothing recorded is lost"
    )]
    ReadOnly {
        /// The operation that failed.
        doing: &'static str,
        /// The database's error.
        source: sqlx::Error,
    },
    /// The database refused for another reason.
    #[error("{doing}")]
    Database {
        /// The operation that failed.
        doing: &'static str,
        /// The database's error.
        source: sqlx::Error,
    },
    /// A row holds what no version of this program writes.
    #[error("read column {column} of table {table}, row {row}")]
    Inconsistent {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row's identity.
        row: String,
        /// The defect of the value.
        source: Box<dyn Error + Send + Sync>,
    },
    /// No row of this kind has this id.
    #[error("find {subject} {id}")]
    Unknown {
        /// The kind of row, such as "run".
        subject: &'static str,
        /// The id as given.
        id: String,
    },
    /// The run's state does not allow it.
    #[error("{wanted} run {run}: it is {state}")]
    WrongState {
        /// The run.
        run: RunId,
        /// Its state in words.
        state: String,
        /// The requested change.
        wanted: &'static str,
    },
    /// The prompts and replies of a run were removed.
    #[error(
        "read the conversations of run {run}: they were removed, because it ended longer ago than the service keeps them (`serve --keep-conversations-days`)"
    )]
    ConversationsRemoved {
        /// The run.
        run: RunId,
    },
    /// The idempotency key belongs to another request.
    #[error(
        "reuse the idempotency key {key:?}: it already belongs to a different request; choose a new key"
    )]
    KeyReused {
        /// The key.
        key: String,
    },
    /// A report is not about what was leased.
    #[error("accept the report for job {job}: {what}")]
    Mismatch {
        /// The job.
        job: JobId,
        /// The part that does not match.
        what: String,
    },
    /// A worker of another version.
    #[error(
        "let the worker join: it speaks version {found} of the evaluation protocol and this service version {wanted}; {}", update(*found, *wanted)
    )]
    WrongEvaluator {
        /// The worker's version.
        found: u32,
        /// The service's.
        wanted: u32,
    },
    /// The worker, lease or bundle belongs to another token.
    #[error("use {subject} {id}: it belongs to another token; send the request with that one")]
    NotYours {
        /// The kind of thing, such as "worker".
        subject: &'static str,
        /// Its id.
        id: String,
    },
    /// The worker is to leave.
    #[error(
        "lend {worker} a job: it was drained; it may leave, and takes work again once it is started again"
    )]
    Drained {
        /// The worker.
        worker: WorkerId,
    },
    /// A usable token has this name.
    #[error(
        "create a token {name:?}: a usable token has this name; revoke that one first, or choose another name"
    )]
    TokenNameTaken {
        /// The name.
        name: String,
    },
}

/// Says which side of a version skew is older.
fn update(found: u32, wanted: u32) -> &'static str {
    if found < wanted {
        "update the worker's program, so that both are of the same release"
    } else {
        "update the service's program, so that both are of the same release"
    }
}

const SQLITE_BUSY: u32 = 5;
const SQLITE_LOCKED: u32 = 6;
const SQLITE_READONLY: u32 = 8;
const SQLITE_FULL: u32 = 13;
/// Postgres: `disk_full`.
const POSTGRES_FULL: &str = "53100";
/// Postgres: `lock_not_available`, after the longest wait for a lock.
const POSTGRES_LOCKED: &str = "55P03";

/// Postgres: `read_only_sql_transaction`, such as of a server that became a standby.
const POSTGRES_READONLY: &str = "25006";
/// Postgres: the server ends or starts, or has no connection left.
const POSTGRES_AWAY: [&str; 4] = ["57P01", "57P02", "57P03", "53300"];

/// Returns true if the connection failed, and not the statement.
fn is_connection_lost(error: &sqlx::Error) -> bool {
    matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
    )
}

/// Attaches the operation to an error of a statement.
pub(crate) trait ErrorContext<T> {
    /// Attaches "failed to `doing`".
    fn context(self, doing: &'static str) -> Result<T, StoreError>;
}

impl<T> ErrorContext<T> for Result<T, sqlx::Error> {
    fn context(self, doing: &'static str) -> Result<T, StoreError> {
        self.map_err(|source| {
            let code = source
                .as_database_error()
                .and_then(|error| error.code())
                .unwrap_or_default();
            // The low byte of SQLite's extended codes is the primary code.
            let primary = code.parse::<u32>().ok().map(|code| code & 0xff);
            match primary {
                _ if code == POSTGRES_FULL => StoreError::DiskFull { doing, source },
                _ if code == POSTGRES_LOCKED => StoreError::Busy { doing, source },
                _ if code == POSTGRES_READONLY => StoreError::ReadOnly { doing, source },
                _ if POSTGRES_AWAY.contains(&code.as_ref()) || is_connection_lost(&source) => {
                    StoreError::Unavailable { doing, source }
                }
                Some(SQLITE_READONLY) => StoreError::ReadOnly { doing, source },
                Some(SQLITE_FULL) => StoreError::DiskFull { doing, source },
                Some(SQLITE_BUSY | SQLITE_LOCKED) => StoreError::Busy { doing, source },
                _ => StoreError::Database { doing, source },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use sqlx::Connection as _;
    use sqlx::SqliteConnection;

    use super::*;

    #[tokio::test]
    async fn a_full_database_is_told_apart() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        sqlx::query("PRAGMA max_page_count = 2")
            .execute(&mut connection)
            .await
            .unwrap();
        let refused = sqlx::query("CREATE TABLE big AS SELECT randomblob(100000) AS content")
            .execute(&mut connection)
            .await
            .context("write much")
            .unwrap_err();
        assert!(
            matches!(refused, StoreError::DiskFull { .. }),
            "{refused:?}"
        );
        assert!(refused.to_string().contains("free some space"));
    }

    #[tokio::test]
    async fn a_database_that_takes_no_changes_or_no_connections_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.db");
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
        let mut writer = SqliteConnection::connect_with(&options.clone().create_if_missing(true))
            .await
            .unwrap();
        sqlx::query("CREATE TABLE kept (value)")
            .execute(&mut writer)
            .await
            .unwrap();
        let pool = sqlx::SqlitePool::connect_with(options.read_only(true))
            .await
            .unwrap();
        let insert = async || {
            let inserted = sqlx::query("INSERT INTO kept VALUES (1)").execute(&pool);
            inserted.await.context("write").unwrap_err()
        };
        let refused = insert().await;
        assert!(
            matches!(refused, StoreError::ReadOnly { .. }),
            "{refused:?}"
        );
        pool.close().await;
        let refused = insert().await;
        assert!(
            matches!(refused, StoreError::Unavailable { .. }),
            "{refused:?}"
        );
    }

    #[tokio::test]
    async fn another_writer_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(folder.path().join("held.db"))
            .create_if_missing(true)
            .busy_timeout(std::time::Duration::ZERO);
        let mut holder = SqliteConnection::connect_with(&options).await.unwrap();
        let mut other = SqliteConnection::connect_with(&options).await.unwrap();
        let _held = holder.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let refused = other
            .begin_with("BEGIN IMMEDIATE")
            .await
            .map(drop)
            .context("begin")
            .unwrap_err();
        assert!(matches!(refused, StoreError::Busy { .. }), "{refused:?}");
    }
}
