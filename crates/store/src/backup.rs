//! Copies a SQLite database into a file, also while a service works with it.

use std::path::Path;

use sqlx::ConnectOptions as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use crate::{BUSY_TIMEOUT, StoreError};

/// Writes a copy of the SQLite database into a new file: the state after one commit, without free pages. The database is
/// not changed, not even by migrations, and services and workers go on meanwhile.
///
/// # Errors
/// [`StoreError::Open`] if the database cannot be opened, or [`StoreError::Backup`] if the file exists or cannot be
/// written.
pub async fn back_up(database: &Path, file: &Path) -> Result<(), StoreError> {
    let mut connection = open_read_only(database).await?;
    sqlx::query("VACUUM INTO $1")
        .bind(file.to_string_lossy().into_owned())
        .execute(&mut connection)
        .await
        .map(drop)
        .map_err(|source| StoreError::Backup {
            file: file.to_owned(),
            source,
        })
}

/// Opens the database for reading, without migrations.
pub(crate) async fn open_read_only(database: &Path) -> Result<SqliteConnection, StoreError> {
    let options = SqliteConnectOptions::new()
        .filename(database)
        .read_only(true)
        .busy_timeout(BUSY_TIMEOUT);
    options.connect().await.map_err(|source| StoreError::Open {
        path: database.to_owned(),
        source,
    })
}
