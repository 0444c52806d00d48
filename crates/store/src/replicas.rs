//! Services that share a Postgres database: which of them may work with it, and which one takes the steps of a run.
//!
//! Each service has a row in `replicas`, whose lease it renews. A run belongs to the service in `runs.owner`, until that
//! one's lease or connection ends. All times of leases are the database's, so that a service with a wrong clock keeps
//! or loses nothing by it. A SQLite database has one service, which owns every run and needs no row.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use domain::id::RunId;
use sqlx::PgConnection;
use sqlx::postgres::PgListener;
use uuid::Uuid;

use crate::changes::CommitScope;
use crate::error::ErrorContext;
use crate::rows::{RowRef, micros};
use crate::sql::{Pool, query, query_as, query_scalar};
use crate::{Connection, Store, StoreError, postgres_schema};

/// The advisory lock of a Postgres database: services share it, and a command that replaces the content has it alone.
/// The number is arbitrary.
pub(crate) const SERVICE_LOCK: i64 = 0x4b65_726e_656d;
/// The longest wait for the lock: the server takes a moment to notice a killed process.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// The interval of the checks that the connection of a claim is open.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The longest wait for the answer to such a check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for which a lease holds after it was renewed.
const LEASE: Duration = Duration::from_secs(12);
/// The time after which a lease is renewed.
const RENEWAL: Duration = Duration::from_secs(4);
/// The time before the end of its lease at which a service begins no further step of its runs.
const MARGIN: Duration = Duration::from_secs(2);
/// The channel on which services tell each other of their commits.
pub(crate) const CHANNEL: &str = "kernelwright";
const REGISTER: &str = "register the service in the database";

/// The right to work with a database. It lasts until it is dropped.
#[derive(Debug)]
pub struct DatabaseClaim {
    /// The connection that holds the lock. None with SQLite, whose data folder is locked instead.
    holder: Option<PgConnection>,
}

/// The work of a service until its lease ends.
#[derive(Debug, Clone, Default)]
pub struct Duties {
    /// Active runs whose steps it takes.
    pub runs: Vec<RunId>,
    /// Active runs whose steps another living service takes.
    pub runs_of_others: Vec<RunId>,
    /// Whether it also does what is to be done once for all runs: promotions, re-checks and webhooks.
    pub shared_work: bool,
    /// The time at which it must stop, unless the lease was renewed. None with SQLite, which has one service.
    pub until: Option<Instant>,
    /// The time by the clock of the database that services share. None with SQLite.
    pub database_time: Option<DateTime<Utc>>,
}

impl Duties {
    /// Returns true while the lease holds.
    pub fn hold(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

impl Store {
    /// Claims the database for a service, beside other services. With SQLite, where there is no other, forgets which
    /// workers waited for jobs.
    ///
    /// # Errors
    /// [`StoreError::Claimed`] if a command has had the database alone for ten seconds, [`StoreError::OtherVersion`] if
    /// a newer program changed the tables meanwhile, or the database fails.
    pub async fn share_database(&self) -> Result<DatabaseClaim, StoreError> {
        let claim = self.claim("SELECT pg_try_advisory_lock_shared($1)").await?;
        let Some(mut holder) = claim.holder else {
            self.forget_waiting().await?;
            return Ok(claim);
        };
        // From here on nobody else changes the tables.
        postgres_schema::require_own_version(&mut holder).await?;
        // The first duties begin the lease.
        sqlx::query(
            "INSERT INTO replicas (id, session, until) VALUES ($1, pg_backend_pid(), 0) \
             ON CONFLICT (id) DO UPDATE SET session = excluded.session",
        )
        .bind(self.replica)
        .execute(&mut holder)
        .await
        .context(REGISTER)?;
        sqlx::query(
            "DELETE FROM replicas WHERE until > 0 AND id NOT IN (SELECT living_replicas())",
        )
        .execute(&mut holder)
        .await
        .context(REGISTER)?;
        Ok(DatabaseClaim {
            holder: Some(holder),
        })
    }

    /// Claims the database for a command that works without any service. With SQLite there is nothing to do, because
    /// a service locks the data folder of the file.
    ///
    /// # Errors
    /// [`StoreError::Claimed`] if another process still has the database after ten seconds, or the database fails.
    pub async fn claim_database(&self) -> Result<DatabaseClaim, StoreError> {
        self.claim("SELECT pg_try_advisory_lock($1)").await
    }

    async fn claim(&self, lock: &'static str) -> Result<DatabaseClaim, StoreError> {
        let Pool::Postgres(pool) = &self.write else {
            return Ok(DatabaseClaim { holder: None });
        };
        let connection = pool.acquire().await.context("claim the database")?;
        // Apart from the pool, because the lock ends with the connection.
        let mut holder = connection.detach();
        let began = Instant::now();
        loop {
            let held: bool = sqlx::query_scalar(lock)
                .bind(SERVICE_LOCK)
                .fetch_one(&mut holder)
                .await
                .context("claim the database")?;
            if held {
                return Ok(DatabaseClaim {
                    holder: Some(holder),
                });
            }
            if began.elapsed() > PATIENCE {
                return Err(StoreError::Claimed);
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Renews this service's lease where it is time, and takes every active run that no living service owns. The time
    /// between the last record of its former owner and now counts as no running time.
    ///
    /// Writes nothing while there is nothing to renew and nothing to take.
    ///
    /// # Errors
    /// The database fails.
    pub async fn take_duties(&self, now: DateTime<Utc>) -> Result<Duties, StoreError> {
        // Before the statement, so that the time that it takes shortens the lease.
        let asked = Instant::now();
        let until = match &self.write {
            Pool::Sqlite(_) => None,
            Pool::Postgres(_) => Some(self.renew_lease(asked).await?),
        };
        let database_time = self.database_time().await?;
        let mut view = self.view().await?;
        let living = self.living(&mut view).await?;
        let active = active_runs(&mut view).await?;
        drop(view);
        let is_free = |run: &ActiveRun| run.owner.is_none_or(|owner| !living.contains(&owner));
        // A service that has just lost its connection takes nothing until it has claimed the database again: two of
        // them would take each other's runs.
        let active = if living.contains(&self.replica) && active.iter().any(is_free) {
            self.take_free_runs(now).await?
        } else {
            active
        };
        let is_own = |run: &ActiveRun| run.owner == Some(self.replica);
        let (runs, runs_of_others): (Vec<_>, Vec<_>) = active.into_iter().partition(is_own);
        let ids = |runs: Vec<ActiveRun>| runs.into_iter().map(|run| RunId::from(run.id)).collect();
        Ok(Duties {
            runs: ids(runs),
            runs_of_others: ids(runs_of_others),
            shared_work: living.iter().min() == Some(&self.replica),
            until,
            database_time,
        })
    }

    /// The time by the clock of a Postgres database; none with SQLite, which has none of its own.
    ///
    /// # Errors
    /// The database fails.
    pub async fn database_time(&self) -> Result<Option<DateTime<Utc>>, StoreError> {
        if matches!(self.read, Pool::Sqlite(_)) {
            return Ok(None);
        }
        let now: i64 = query_scalar("SELECT lease_clock()")
            .fetch_one(&self.read)
            .await
            .context("read the database's clock")?;
        RowRef::new("replicas", self.replica)
            .time("until", now)
            .map(Some)
    }

    /// Returns true if this service does what is to be done once for all runs, as [`Duties::shared_work`] says.
    ///
    /// # Errors
    /// The database fails.
    pub async fn does_shared_work(&self) -> Result<bool, StoreError> {
        let mut view = self.view().await?;
        Ok(self.living(&mut view).await?.iter().min() == Some(&self.replica))
    }

    /// Gives up this service's duties, for another service to take at once.
    ///
    /// # Errors
    /// The database fails.
    pub async fn end_duties(&self) -> Result<(), StoreError> {
        if matches!(self.write, Pool::Sqlite(_)) {
            return Ok(());
        }
        let mut tx = self.begin().await?;
        query("DELETE FROM replicas WHERE id = $1")
            .bind(self.replica)
            .execute(&mut *tx)
            .await
            .context("give up the service's runs")?;
        *self.last_renewal() = None;
        self.commit(tx).await
    }

    /// Announces the commits of other services here, until the connections are closed. With SQLite there are none.
    ///
    /// # Errors
    /// The database fails. Commits meanwhile are announced by the next call.
    pub async fn announce_commits_of_others(&self) -> Result<(), StoreError> {
        let Pool::Postgres(pool) = &self.read else {
            return std::future::pending().await;
        };
        let doing = "listen for the changes of other services";
        let mut listener = PgListener::connect_with(pool).await.context(doing)?;
        listener.listen(CHANNEL).await.context(doing)?;
        // What was committed before the connection was there.
        self.changes.announce(CommitScope::Anything);
        loop {
            let Some(notification) = listener.try_recv().await.context(doing)? else {
                // The connection was lost, and there is a new one.
                self.changes.announce(CommitScope::Anything);
                continue;
            };
            match CommitScope::read(notification.payload()) {
                Some((sender, _)) if sender == self.replica => {}
                Some((_, scope)) => self.changes.announce(scope),
                // Words of another version.
                None => self.changes.announce(CommitScope::Anything),
            }
        }
    }

    /// Returns the end of the lease, which is renewed where it is time.
    async fn renew_lease(&self, asked: Instant) -> Result<Instant, StoreError> {
        if let Some(renewed) = *self.last_renewal()
            && asked.duration_since(renewed) < RENEWAL
        {
            return Ok(renewed + (LEASE - MARGIN));
        }
        query(
            "INSERT INTO replicas (id, until) VALUES ($1, lease_clock() + $2) \
             ON CONFLICT (id) DO UPDATE SET until = excluded.until",
        )
        .bind(self.replica)
        .bind(i64::try_from(LEASE.as_micros()).unwrap_or(i64::MAX))
        .execute(&self.write)
        .await
        .context("renew the service's lease")?;
        *self.last_renewal() = Some(asked);
        Ok(asked + (LEASE - MARGIN))
    }

    /// Takes the active runs that no living service owns, and returns all active runs.
    async fn take_free_runs(&self, now: DateTime<Utc>) -> Result<Vec<ActiveRun>, StoreError> {
        let mut tx = self.begin().await?;
        let living = self.living(&mut tx).await?;
        let mut active = active_runs(&mut tx).await?;
        for run in &mut active {
            if run.owner.is_some_and(|owner| living.contains(&owner)) {
                continue;
            }
            query(
                "UPDATE runs SET owner = $2, running_since = CASE WHEN owner IS NULL OR running_since IS NULL \
                 THEN running_since ELSE $3 END WHERE id = $1",
            )
            .bind(run.id)
            .bind(self.replica)
            .bind(micros(now))
            .execute(&mut *tx)
            .await
            .context("take over a run")?;
            run.owner = Some(self.replica);
        }
        // Pages do not show who owns a run.
        self.commit_change(tx, CommitScope::Nothing).await?;
        Ok(active)
    }

    /// The services whose lease holds and whose connection is open.
    pub(crate) async fn living(&self, view: &mut Connection) -> Result<Vec<Uuid>, StoreError> {
        if !view.is_postgres() {
            return Ok(vec![self.replica]);
        }
        query_scalar("SELECT living_replicas()")
            .fetch_all(view)
            .await
            .context("list the services that share the database")
    }

    /// The time of the last renewal of this service's lease.
    fn last_renewal(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.renewed
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A run that is neither paused nor over, and the service that owned it last.
#[derive(sqlx::FromRow)]
struct ActiveRun {
    id: Uuid,
    owner: Option<Uuid>,
}

/// The active runs, oldest first.
async fn active_runs(view: &mut Connection) -> Result<Vec<ActiveRun>, StoreError> {
    query_as(
        "SELECT id, owner FROM runs WHERE state IN ('created', 'checking_baseline', 'running') \
         ORDER BY id",
    )
    .fetch_all(view)
    .await
    .context("list the active runs")
}

impl DatabaseClaim {
    /// Returns when the claim is lost, because the server ended or can no longer be reached.
    pub async fn lost(&mut self) {
        let Some(holder) = &mut self.holder else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let check = sqlx::query("SELECT 1").execute(&mut *holder);
            if !matches!(tokio::time::timeout(CHECK_TIMEOUT, check).await, Ok(Ok(_))) {
                return;
            }
        }
    }
}
