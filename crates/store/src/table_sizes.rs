//! The size of each table of a database. Neither way changes the database, not even by migrations, and services go on
//! meanwhile.

use std::path::Path;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::backup::open_read_only;
use crate::{StoreError, describe_server};

/// A table with its indexes and its large values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSize {
    /// Its name.
    pub table: String,
    /// Bytes of its pages, also of the free room in them.
    pub bytes: u64,
}

/// The tables of a SQLite database, the largest first. Reads the whole file.
///
/// # Errors
/// [`StoreError::Open`] if the database cannot be opened or read.
pub async fn measure_sqlite(database: &Path) -> Result<Vec<TableSize>, StoreError> {
    let mut connection = open_read_only(database).await?;
    // An index has pages of its own, which count for its table.
    let rows = sqlx::query_as(
        "SELECT COALESCE(owner.tbl_name, pages.name), SUM(pages.pgsize) FROM dbstat AS pages \
         LEFT JOIN sqlite_schema AS owner ON owner.name = pages.name \
         WHERE pages.aggregate = TRUE GROUP BY 1 ORDER BY 2 DESC, 1",
    )
    .fetch_all(&mut connection)
    .await;
    rows.map(sizes).map_err(|source| StoreError::Open {
        path: database.to_owned(),
        source,
    })
}

/// The tables of a Postgres database, the largest first. `url` is such as `postgres://user:password@host/database`.
///
/// # Errors
/// The URL does not parse, or the server does not answer or refuses.
pub async fn measure_postgres(url: &str) -> Result<Vec<TableSize>, StoreError> {
    let options: PgConnectOptions = url.parse().map_err(|source| StoreError::Url { source })?;
    let named = |source| StoreError::Connect {
        database: describe_server(&options),
        source,
    };
    let mut connection = options.connect().await.map_err(named)?;
    let rows = sqlx::query_as(
        "SELECT relname::text, pg_total_relation_size(oid) FROM pg_class \
         WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY 2 DESC, 1",
    )
    .fetch_all(&mut connection)
    .await
    .map_err(named)?;
    connection.close().await.map_err(named)?;
    Ok(sizes(rows))
}

fn sizes(rows: Vec<(String, i64)>) -> Vec<TableSize> {
    let rows = rows.into_iter();
    rows.map(|(table, bytes)| TableSize {
        table,
        bytes: bytes.unsigned_abs(),
    })
    .collect()
}
