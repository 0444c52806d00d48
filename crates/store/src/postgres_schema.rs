//! The version of the tables of a Postgres database that services share.
//!
//! A service works only with the tables of its own version, and brings older ones up to date only while no other
//! service works with them. With SQLite the lock of the data folder does that.

use std::time::Instant;

use sqlx::postgres::PgPool;
use sqlx::{Connection as _, PgConnection};

use crate::error::ErrorContext;
use crate::replicas::{PATIENCE, RETRY_INTERVAL, SERVICE_LOCK};
use crate::{POSTGRES_MIGRATIONS, StoreError, schema_version};

const DOING: &str = "read the version of the tables";

/// Creates the tables, or brings them up to date.
pub(crate) async fn migrate(pool: &PgPool, database: &str) -> Result<(), StoreError> {
    let connection = pool.acquire().await.context(DOING)?;
    // Apart from the pool, because the lock ends with the connection.
    let mut holder = connection.detach();
    let began = Instant::now();
    loop {
        let found = version(&mut holder).await?;
        if found >= schema_version() {
            break;
        }
        let alone: bool = sqlx::query_scalar("SELECT pg_try_advisory_lock($1)")
            .bind(SERVICE_LOCK)
            .fetch_one(&mut holder)
            .await
            .context(DOING)?;
        if alone {
            break;
        }
        if began.elapsed() > PATIENCE {
            return Err(other_version(found));
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    // Also refuses tables that a newer program made.
    let migrated = POSTGRES_MIGRATIONS.run(&mut holder).await;
    migrated.map_err(|source| StoreError::Migrate {
        database: database.to_owned(),
        source,
    })?;
    holder.close().await.context(DOING)
}

/// Ends with an error unless the tables are those of this program.
pub(crate) async fn require_own_version(connection: &mut PgConnection) -> Result<(), StoreError> {
    let found = version(connection).await?;
    if found == schema_version() {
        Ok(())
    } else {
        Err(other_version(found))
    }
}

/// Number of the last migration of the tables; 0 if there are none.
async fn version(connection: &mut PgConnection) -> Result<i64, StoreError> {
    let exists: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await
        .context(DOING)?;
    if !exists {
        return Ok(0);
    }
    sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations WHERE success")
        .fetch_one(connection)
        .await
        .context(DOING)
}

fn other_version(found: i64) -> StoreError {
    StoreError::OtherVersion {
        found,
        own: schema_version(),
    }
}
