//! The right to work with a database, which one service at a time has.

use std::time::Duration;

use sqlx::PgConnection;

use crate::error::ErrorContext;
use crate::sql::Pool;
use crate::{Store, StoreError};

/// The advisory lock of the service that works with a Postgres database. The number is arbitrary.
const SERVICE_LOCK: i64 = 0x4b65_726e_656d;
/// The longest wait for another service's lock: the server takes a moment to notice a killed one.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// The interval of the checks that the lock is still held, and the longest wait for an answer.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The claim of a service to its database. It lasts until it is dropped.
#[derive(Debug)]
pub struct ServiceClaim {
    /// The connection that holds the lock. None with SQLite, whose data folder is locked instead.
    holder: Option<PgConnection>,
}

impl Store {
    /// Claims the database for one service. With SQLite there is nothing to do, because the service
    /// locks the data folder of the file.
    ///
    /// # Errors
    /// [`StoreError::Claimed`] if another service still holds the claim after ten seconds, or the
    /// database fails.
    pub async fn claim_service(&self) -> Result<ServiceClaim, StoreError> {
        let Pool::Postgres(pool) = &self.write else {
            return Ok(ServiceClaim { holder: None });
        };
        let connection = pool.acquire().await.context("claim the database")?;
        // Apart from the pool, because the lock ends with the connection.
        let mut holder = connection.detach();
        let began = std::time::Instant::now();
        loop {
            let held: bool = sqlx::query_scalar("SELECT pg_try_advisory_lock($1)")
                .bind(SERVICE_LOCK)
                .fetch_one(&mut holder)
                .await
                .context("claim the database")?;
            if held {
                return Ok(ServiceClaim {
                    holder: Some(holder),
                });
            }
            if began.elapsed() > PATIENCE {
                return Err(StoreError::Claimed);
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}

impl ServiceClaim {
    /// Returns when the claim is lost, because the server ended or can no longer be reached.
    pub async fn lost(&mut self) {
        let Some(holder) = &mut self.holder else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let check = sqlx::query("SELECT 1").execute(&mut *holder);
            if !matches!(tokio::time::timeout(CHECK_INTERVAL, check).await, Ok(Ok(_))) {
                return;
            }
        }
    }
}
