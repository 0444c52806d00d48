//! Copies a SQLite database into a Postgres database.
//!
//! Both schemas have the same tables and columns, so that the tables and their columns are read from
//! Postgres and nothing here changes with a migration.

use std::collections::BTreeMap;

use futures::TryStreamExt as _;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, PgConnection, Row as _, SqliteConnection};
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::sql::Pool;
use crate::{Store, StoreError, WRITER_LOCK};

const DOING: &str = "copy the database";
/// Tables that have rows as soon as anybody has used a database.
const USED_TABLES: [&str; 4] = ["tasks", "runs", "workers", "tokens"];
/// Bytes that are collected before they are sent.
const CHUNK_BYTES: usize = 1 << 20;

/// The rows of one table that were copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedTable {
    /// Name of the table.
    pub table: String,
    /// Number of its rows.
    pub rows: u64,
}

/// Columns of one table with their types in Postgres.
type Columns = Vec<(String, ColumnType)>;

/// The types that the schema of Postgres has.
#[derive(Debug, Clone, Copy)]
enum ColumnType {
    Integer,
    Real,
    Text,
    Bytes,
    Uuid,
}

impl Store {
    /// Copies every row of this SQLite database into a Postgres database that nobody has used yet, in
    /// one transaction: after an error the Postgres database is as before. The foreign keys are
    /// checked after the last row. `report` is called after each table.
    ///
    /// No service may work with either database meanwhile, see [`Store::claim_database`].
    ///
    /// # Errors
    /// [`StoreError::CopyKinds`] if this is no SQLite database or `target` no Postgres database,
    /// [`StoreError::InUse`] if the Postgres database has tasks, runs, workers or tokens,
    /// [`StoreError::NulInText`] if a text cannot be kept there, or a database fails.
    pub async fn copy_to(
        &self,
        target: &Self,
        mut report: impl FnMut(&CopiedTable),
    ) -> Result<Vec<CopiedTable>, StoreError> {
        let (Pool::Sqlite(source), Pool::Postgres(target)) = (&self.read, &target.write) else {
            return Err(StoreError::CopyKinds);
        };
        let mut source = source.begin().await.context(DOING)?;
        let mut target = target.begin().await.context(DOING)?;
        sqlx::query("SELECT pg_advisory_xact_lock($1)")
            .bind(WRITER_LOCK)
            .execute(&mut *target)
            .await
            .context(DOING)?;
        for table in USED_TABLES {
            let rows: i64 = sqlx::query_scalar(sql(format!("SELECT count(*) FROM {table}")))
                .fetch_one(&mut *target)
                .await
                .context(DOING)?;
            if rows > 0 {
                return Err(StoreError::InUse { table, rows });
            }
        }
        let tables = tables(&mut target).await.context(DOING)?;
        let keys = drop_foreign_keys(&mut target).await.context(DOING)?;
        let mut copied = Vec::with_capacity(tables.len());
        for (table, columns) in tables {
            // Migrations make single rows, such as that of `write_checks`.
            execute(&mut target, format!("DELETE FROM {table}"))
                .await
                .context(DOING)?;
            let rows = copy_table(&mut source, &mut target, &table, &columns).await?;
            continue_identity(&mut source, &mut target, &table)
                .await
                .context(DOING)?;
            let table = CopiedTable { table, rows };
            report(&table);
            copied.push(table);
        }
        for key in keys {
            execute(&mut target, key).await.context(DOING)?;
        }
        // The planner knows nothing of tables that were just filled.
        execute(&mut target, "ANALYZE".to_owned())
            .await
            .context(DOING)?;
        target.commit().await.context(DOING)?;
        Ok(copied)
    }
}

/// A statement whose parts come from the databases' own catalogues.
fn sql(text: String) -> AssertSqlSafe<String> {
    AssertSqlSafe(text)
}

async fn execute(connection: &mut PgConnection, statement: String) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(sql(statement)).execute(connection).await?;
    Ok(())
}

/// Reads the tables with their columns, without sqlx's own table of migrations.
async fn tables(target: &mut PgConnection) -> Result<BTreeMap<String, Columns>, sqlx::Error> {
    let rows: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT table_name::text, column_name::text, data_type::text \
         FROM information_schema.columns JOIN information_schema.tables \
         USING (table_catalog, table_schema, table_name) WHERE table_schema = current_schema() \
         AND table_type = 'BASE TABLE' \
         AND table_name NOT LIKE '\\_sqlx\\_%' ORDER BY table_name, ordinal_position",
    )
    .fetch_all(target)
    .await?;
    let mut tables = BTreeMap::<String, Columns>::new();
    for (table, column, kind) in rows {
        let kind = match kind.as_str() {
            "bigint" => ColumnType::Integer,
            "double precision" => ColumnType::Real,
            "text" => ColumnType::Text,
            "bytea" => ColumnType::Bytes,
            "uuid" => ColumnType::Uuid,
            other => {
                return Err(sqlx::Error::TypeNotFound {
                    type_name: other.to_owned(),
                });
            }
        };
        tables.entry(table).or_default().push((column, kind));
    }
    Ok(tables)
}

/// Drops the foreign keys, so that tables can be filled in any order. Returns the statements that make
/// and check them again.
async fn drop_foreign_keys(target: &mut PgConnection) -> Result<Vec<String>, sqlx::Error> {
    let keys: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT conrelid::regclass::text, quote_ident(conname), pg_get_constraintdef(oid) \
         FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace",
    )
    .fetch_all(&mut *target)
    .await?;
    let mut statements = Vec::with_capacity(keys.len());
    for (table, name, definition) in keys {
        execute(
            target,
            format!("ALTER TABLE {table} DROP CONSTRAINT {name}"),
        )
        .await?;
        statements.push(format!(
            "ALTER TABLE {table} ADD CONSTRAINT {name} {definition}"
        ));
    }
    Ok(statements)
}

/// Copies the rows of one table, and returns their number.
async fn copy_table(
    source: &mut SqliteConnection,
    target: &mut PgConnection,
    table: &str,
    columns: &Columns,
) -> Result<u64, StoreError> {
    let names: Vec<String> = columns
        .iter()
        .map(|(name, _)| format!("\"{name}\""))
        .collect();
    let names = names.join(", ");
    let mut copy = target
        .copy_in_raw(&format!("COPY {table} ({names}) FROM STDIN"))
        .await
        .context(DOING)?;
    let mut rows = sqlx::query(sql(format!("SELECT {names} FROM {table}"))).fetch(source);
    let mut text = String::new();
    let mut read = 0_u64;
    let failure = loop {
        let row = match rows.try_next().await.context(DOING) {
            Ok(Some(row)) => row,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        read += 1;
        if let Err(error) = append_row(&mut text, &row, table, columns, read) {
            break Some(error);
        }
        if text.len() >= CHUNK_BYTES {
            copy.send(text.as_bytes()).await.context(DOING)?;
            text.clear();
        }
    };
    if let Some(error) = failure {
        copy.abort("the source could not be read").await.ok();
        return Err(error);
    }
    copy.send(text.as_bytes()).await.context(DOING)?;
    copy.finish().await.context(DOING)
}

/// Appends a row in the text format of `COPY`. `number` counts the rows of the table from 1.
fn append_row(
    text: &mut String,
    row: &SqliteRow,
    table: &str,
    columns: &Columns,
    number: u64,
) -> Result<(), StoreError> {
    for (at, (column, kind)) in columns.iter().enumerate() {
        if at > 0 {
            text.push('\t');
        }
        let field = read_field(row, at, *kind).context(DOING)?;
        if field.as_deref().is_some_and(|field| field.contains('\0')) {
            return Err(StoreError::NulInText {
                table: table.to_owned(),
                column: column.clone(),
                row: number,
            });
        }
        append_field(text, field.as_deref());
    }
    text.push('\n');
    Ok(())
}

/// Reads a value as the text that Postgres parses into its type.
fn read_field(row: &SqliteRow, at: usize, kind: ColumnType) -> Result<Option<String>, sqlx::Error> {
    Ok(match kind {
        ColumnType::Integer => row.try_get::<Option<i64>, _>(at)?.map(|v| v.to_string()),
        ColumnType::Real => row.try_get::<Option<f64>, _>(at)?.map(|v| v.to_string()),
        ColumnType::Text => row.try_get(at)?,
        ColumnType::Bytes => row
            .try_get::<Option<Vec<u8>>, _>(at)?
            .map(|bytes| format!("\\x{}", hex::encode(bytes))),
        ColumnType::Uuid => row.try_get::<Option<Uuid>, _>(at)?.map(|v| v.to_string()),
    })
}

/// Appends a field in the text format of `COPY`, where `\N` stands for no value.
/// Source: Postgres, documentation of COPY, "Text Format".
fn append_field(text: &mut String, field: Option<&str>) {
    let Some(field) = field else {
        text.push_str("\\N");
        return;
    };
    for character in field.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            other => text.push(other),
        }
    }
}

/// Lets Postgres number the next row of a table as SQLite would, so that a number that was deleted is
/// not given again.
async fn continue_identity(
    source: &mut SqliteConnection,
    target: &mut PgConnection,
    table: &str,
) -> Result<(), sqlx::Error> {
    let numbered: Option<String> = sqlx::query_scalar(
        "SELECT column_name::text FROM information_schema.columns \
         WHERE table_schema = current_schema() AND table_name = $1 AND is_identity = 'YES'",
    )
    .bind(table)
    .fetch_optional(&mut *target)
    .await?;
    let Some(column) = numbered else {
        return Ok(());
    };
    let last: i64 = sqlx::query_scalar(sql(format!(
        "SELECT max(coalesce((SELECT max({column}) FROM {table}), 0), \
         coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{table}'), 0))"
    )))
    .fetch_one(source)
    .await?;
    if last > 0 {
        sqlx::query("SELECT setval(pg_get_serial_sequence($1, $2), $3)")
            .bind(table)
            .bind(column)
            .bind(last)
            .execute(target)
            .await?;
    }
    Ok(())
}
