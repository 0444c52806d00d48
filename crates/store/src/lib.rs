//! The database: tasks, runs, candidates, evaluations, jobs with their leases, promotions and the
//! event log. The only crate with SQL.
//!
//! Every public method is one transaction, so that a process killed at any instruction leaves
//! either all of an effect or none. Time is always an argument. The crate decides nothing and
//! evaluates nothing. A row that does not decode is an error that names table, column and row.

#![forbid(unsafe_code)]

#[macro_use]
mod conditions;

mod access;
mod admissions;
mod backup;
mod calls;
mod candidates;
mod changes;
mod conversations;
mod copy;
mod curves;
mod error;
mod events;
mod failures;
mod faults;
mod fleet;
mod health;
mod insights;
mod iterations;
mod jobs;
mod judgements;
mod leaderboards;
mod postgres_schema;
mod promotions;
mod replicas;
mod rows;
mod runs;
mod same_code;
mod service_counts;
mod snapshot;
mod sql;
mod steering;
mod table_sizes;
mod tasks;
mod texts;
mod views;
mod waiting;
mod webhooks;
mod workers;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::api::{Curve, LineageGenerations};
use domain::id::{CandidateId, RunId};
use domain::task::Bundle;
use rand::rngs::SysRng;
use rand::{Rng as _, SeedableRng};
use rand_chacha::ChaCha20Rng;
use sqlx::Connection as _;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use uuid::Uuid;

pub use access::{Authentication, NewChange, NewToken, SESSION_DURATION};
pub use backup::back_up;
pub use calls::{
    Answer, AnswerEffect, DueCall, MAX_UNANSWERED, NewCall, NewDraft, OpenCalls, WrittenText,
};
pub use candidates::{NewCandidate, Proposed};
pub use copy::CopiedTable;
pub use curves::CurveDetail;
pub use error::StoreError;
pub use faults::{MAX_FAULTS, MAX_LOSSES, MAX_LOST_WORKERS};
pub use iterations::{BestKept, Iteration, IterationState, NewIteration, StepSeries};
pub use jobs::{Incumbent, LeasedJob};
pub use promotions::{Committed, ConfirmationOutcome, OutstandingPromotion};
pub use replicas::{DatabaseClaim, Duties};
pub use runs::{CreatedRun, NewRun};
pub use service_counts::{JobCount, RunTotals, ServiceCounts};
pub use snapshot::{RefusedCandidate, RunOutline, Snapshot};
pub use steering::Takeover;
pub use table_sizes::{TableSize, measure_postgres, measure_sqlite};
pub use tasks::StoredTask;
use views::KeptAnswers;
pub use views::{
    CandidateQuery, CandidateRecord, Cursor, CursorError, LineageQuery, MAX_CURVE_BUCKETS,
    Relatives, RunQuery,
};
pub use waiting::{COUNT_INTERVAL, WaitingJobs};
pub use webhooks::{DueWebhook, WebhookAttempt};
pub use workers::{FleetLoad, MAX_WORKER_FAULTS};

use changes::{Changes, CommitScope};
use error::ErrorContext;
use sql::{Connection, Flag, Pool, Transaction, query, query_scalar};

static SQLITE_MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");
static POSTGRES_MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/postgres");

/// The advisory lock of the transaction that writes to Postgres. With one writer at a time, the rows
/// that a transaction reads do not change before it commits, as in SQLite. The number is arbitrary.
const WRITER_LOCK: i64 = 0x4b65_726e_656c;
/// Connections to Postgres that write or wait for the lock, and connections that read.
const POSTGRES_WRITERS: u32 = 4;
const POSTGRES_READERS: u32 = 8;
/// The longest wait of a statement for another process that holds the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Settings of a Postgres session by which the server ends it soon after the service's machine vanished from the network.
/// A transaction that it left open would keep every other service from writing, and by default the server waits two hours.
const POSTGRES_LOST_CLIENT: [(&str, &str); 5] = [
    ("idle_in_transaction_session_timeout", "30s"),
    ("tcp_keepalives_idle", "10s"),
    ("tcp_keepalives_interval", "5s"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "25s"),
];
const READERS: u32 = 4;
/// Page cache of the writing connection, KiB. The indexes of a run of 10,000 candidates fit.
const WRITER_CACHE: &str = "-32768";
/// Page cache of each reading connection, KiB.
const READER_CACHE: &str = "-8192";
/// Pages in the log after which it is copied into the database. More than the default of 1000, because
/// the same pages change with every candidate and are copied once.
const CHECKPOINT_PAGES: &str = "4000";
/// Prepared statements that each connection keeps, more than the crate has.
const STATEMENTS: usize = 256;

/// Number of the last migration, which the tables of an open database have.
pub fn schema_version() -> i64 {
    let versions = SQLITE_MIGRATIONS.iter().map(|migration| migration.version);
    versions.max().unwrap_or_default()
}

/// The database. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Store {
    read: Pool,
    /// With SQLite one connection: writers queue here instead of failing in the database.
    write: Pool,
    changes: Changes,
    /// Candidates that jobs were lent against, which never change.
    incumbents: Arc<Mutex<HashMap<CandidateId, Incumbent>>>,
    /// Files of tasks by the digests of their contents.
    bundles: Arc<Mutex<HashMap<String, Bundle>>>,
    /// Totals of runs by generation, and curves by run and number of buckets.
    generations: Arc<KeptAnswers<RunId, LineageGenerations>>,
    curves: Arc<KeptAnswers<(RunId, u32), Curve>>,
    /// Identity of this value and its clones among the services of the database.
    replica: Uuid,
    /// The time at which the lease of this service was last renewed.
    renewed: Arc<Mutex<Option<Instant>>>,
    /// Source of ids and run secrets.
    entropy: Arc<Mutex<ChaCha20Rng>>,
}

/// Name and address of a Postgres database, without the password.
fn describe_server(options: &PgConnectOptions) -> String {
    format!(
        "{} at {}:{}",
        options.get_database().unwrap_or(options.get_username()),
        options.get_host(),
        options.get_port()
    )
}

impl Store {
    /// Opens the database file, creating and migrating it as needed.
    ///
    /// # Errors
    /// The file cannot be opened, or is of a newer version than this program.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let named = |source| StoreError::Open {
            path: path.to_owned(),
            source,
        };
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
            .statement_cache_capacity(STATEMENTS)
            .busy_timeout(BUSY_TIMEOUT);
        let write = SqlitePoolOptions::new()
            .max_connections(1)
            // A commit that fails, such as on a full disk, can leave the driver counting a
            // transaction that the database has already rolled back. Such a connection refuses
            // every further one, so it is replaced.
            .before_acquire(|connection, _| {
                let usable = !connection.is_in_transaction();
                Box::pin(async move { Ok(usable) })
            })
            .connect_with(options.clone().pragma("cache_size", WRITER_CACHE))
            .await
            .map_err(named)?;
        SQLITE_MIGRATIONS
            .run(&write)
            .await
            .map_err(|source| StoreError::Migrate {
                database: path.display().to_string(),
                source,
            })?;
        let read = SqlitePoolOptions::new()
            .max_connections(READERS)
            .connect_with(
                options
                    .read_only(true)
                    .create_if_missing(false)
                    .pragma("cache_size", READER_CACHE),
            )
            .await
            .map_err(named)?;
        Self::with_pools(Pool::Sqlite(read), Pool::Sqlite(write)).map_err(named)
    }

    /// Connects to a Postgres database, and creates or migrates its tables as needed. `url` is such as
    /// `postgres://user:password@host/database`.
    ///
    /// # Errors
    /// The URL does not parse, the server does not answer or refuses, or the tables are of a newer version than this
    /// program, or of an older one with which services work.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let options: PgConnectOptions = url.parse().map_err(|source| StoreError::Url { source })?;
        let database = describe_server(&options);
        let named = |source| StoreError::Connect {
            database: database.clone(),
            source,
        };
        let milliseconds = BUSY_TIMEOUT.as_millis().to_string();
        let options = options
            .application_name("kernelwright")
            .options([("lock_timeout", milliseconds.as_str())])
            // The statement that lends a job has a high estimated cost and takes a few milliseconds; compiling it, which
            // the server does anew each time, took 94.
            .options([("jit", "off")])
            .options(POSTGRES_LOST_CLIENT)
            .statement_cache_capacity(STATEMENTS);
        let write = PgPoolOptions::new()
            .max_connections(POSTGRES_WRITERS)
            .acquire_timeout(BUSY_TIMEOUT)
            .connect_with(options.clone())
            .await
            .map_err(named)?;
        postgres_schema::migrate(&write, &database).await?;
        let read = PgPoolOptions::new()
            .max_connections(POSTGRES_READERS)
            .acquire_timeout(BUSY_TIMEOUT)
            .connect_with(options)
            .await
            .map_err(named)?;
        Self::with_pools(Pool::Postgres(read), Pool::Postgres(write)).map_err(named)
    }

    fn with_pools(read: Pool, write: Pool) -> Result<Self, sqlx::Error> {
        let mut entropy = ChaCha20Rng::try_from_rng(&mut SysRng)
            .map_err(|source| sqlx::Error::Io(std::io::Error::other(source)))?;
        let mut replica = uuid::Bytes::default();
        entropy.fill_bytes(&mut replica);
        let replica = uuid::Builder::from_random_bytes(replica).into_uuid();
        Ok(Self {
            read,
            write,
            changes: Changes::default(),
            incumbents: Arc::default(),
            bundles: Arc::default(),
            generations: Arc::default(),
            curves: Arc::default(),
            replica,
            renewed: Arc::default(),
            entropy: Arc::new(Mutex::new(entropy)),
        })
    }

    /// Closes the connections; what was committed stays.
    pub async fn close(&self) {
        self.read.close().await;
        self.write.close().await;
    }

    /// Reads one row.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn ensure_readable(&self) -> Result<(), StoreError> {
        query_scalar("SELECT checks FROM write_checks")
            .fetch_one(&self.read)
            .await
            .map(|_: i64| ())
            .context("check that the database can be read")
    }

    /// Writes one row and commits it, which fails while the disk is full or the database is held by
    /// another process.
    ///
    /// # Errors
    /// The database cannot be written to.
    pub async fn ensure_writable(&self) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        query("UPDATE write_checks SET checks = checks + 1")
            .execute(&mut *tx)
            .await
            .context("check that the database can be written to")?;
        // Not `Self::commit`, because there is no change that readers wait for.
        tx.commit()
            .await
            .context("check that the database can be written to")
    }

    /// Draws a random value, such as an id or a secret.
    fn draw<T>(&self, make: impl FnOnce(&mut ChaCha20Rng) -> T) -> T {
        let mut rng = self.entropy.lock().unwrap_or_else(PoisonError::into_inner);
        make(&mut rng)
    }

    /// Begins a transaction that holds the write lock from its start, so that the rows that it reads
    /// do not change before it commits.
    async fn begin(&self) -> Result<Transaction, StoreError> {
        let mut tx = self
            .write
            .begin("BEGIN IMMEDIATE", "BEGIN")
            .await
            .context("begin a transaction")?;
        if tx.is_postgres() {
            query_scalar("SELECT pg_advisory_xact_lock($1) IS NULL")
                .bind(WRITER_LOCK)
                .fetch_one(&mut *tx)
                .await
                .map(|_: Flag| ())
                .context("begin a transaction")?;
        }
        Ok(tx)
    }

    /// Commits and wakes everyone who waits for a change.
    async fn commit(&self, tx: Transaction) -> Result<(), StoreError> {
        self.commit_change(tx, CommitScope::Anything).await
    }

    /// Commits and wakes those whom the change concerns.
    async fn commit_change(
        &self,
        mut tx: Transaction,
        scope: CommitScope,
    ) -> Result<(), StoreError> {
        if tx.is_postgres() && scope != CommitScope::Nothing {
            // Other services are told with the commit.
            query("SELECT pg_notify($1, $2)")
                .bind(replicas::CHANNEL)
                .bind(scope.write(self.replica))
                .defer(&mut tx);
        }
        tx.commit().await.context("commit a transaction")?;
        self.changes.announce(scope);
        Ok(())
    }

    /// One consistent state of all tables for the statements of one read.
    async fn view(&self) -> Result<Transaction, StoreError> {
        let repeatable = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.read
            .begin("BEGIN", repeatable)
            .await
            .context("begin reading")
    }
}
