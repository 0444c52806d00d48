//! Statements that run on SQLite and on Postgres.
//!
//! A statement is one text for both databases. Its parameters are `$1`, `$2`, and so on. The schemas
//! have the same tables and columns. Identifiers are BLOB and UUID, and every INTEGER of SQLite is a
//! BIGINT of Postgres, so that a truth value in a column is 0 or 1 on both.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use sqlx::postgres::{PgArguments, PgPool, PgRow, PgTypeInfo, PgValueRef};
use sqlx::sqlite::{SqliteArguments, SqlitePool, SqliteRow, SqliteTypeInfo, SqliteValueRef};
use sqlx::{Arguments as _, Decode, FromRow, Postgres, SqlSafeStr, SqlStr, Sqlite, Type};
use uuid::Uuid;

/// Connections to one database.
#[derive(Debug, Clone)]
pub(crate) enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// A connection with an open transaction.
#[derive(Debug)]
pub(crate) struct Connection {
    open: OpenTransaction,
    /// Statements that run before the next one.
    deferred: Vec<Prepared>,
}

#[derive(Debug)]
enum OpenTransaction {
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    Postgres(sqlx::Transaction<'static, Postgres>),
}

/// A transaction. It is rolled back unless it is committed.
#[derive(Debug)]
pub(crate) struct Transaction(Connection);

/// Where a statement runs: in a transaction, or by itself on any connection of a pool.
pub(crate) enum Target<'a> {
    Connection(&'a mut Connection),
    Pool(&'a Pool),
}

impl Pool {
    /// Begins a transaction with a statement for each database.
    pub(crate) async fn begin(
        &self,
        sqlite: &'static str,
        postgres: &'static str,
    ) -> Result<Transaction, sqlx::Error> {
        let open = match self {
            Self::Sqlite(pool) => OpenTransaction::Sqlite(pool.begin_with(sqlite).await?),
            // sqlx rolls back only what it knows to have begun. If its caller left before the server's answer, the
            // transaction would stay open on a connection of the pool, and take in the statements of the next caller.
            // The task goes on without a caller, and the transaction that nobody takes is rolled back.
            Self::Postgres(pool) => {
                let pool = pool.clone();
                let task = tokio::spawn(async move { pool.begin_with(postgres).await });
                let begun = task.await.map_err(std::io::Error::other)?;
                OpenTransaction::Postgres(begun?)
            }
        };
        Ok(Transaction(Connection {
            open,
            deferred: Vec::new(),
        }))
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

impl Connection {
    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.open, OpenTransaction::Postgres(_))
    }

    /// Runs the deferred statements.
    async fn run_deferred(&mut self) -> Result<(), sqlx::Error> {
        let deferred = std::mem::take(&mut self.deferred);
        match &mut self.open {
            OpenTransaction::Sqlite(connection) => {
                let mut deferred = deferred.into_iter();
                let Some(first) = deferred.next() else {
                    return Ok(());
                };
                let (sql, arguments) = deferred.fold(first, Prepared::then).for_sqlite();
                sqlx::query_with(sql, arguments)
                    .execute(&mut **connection)
                    .await?;
            }
            OpenTransaction::Postgres(connection) => {
                for prepared in deferred {
                    let (sql, arguments) = prepared.for_postgres();
                    sqlx::query_with(sql, arguments)
                        .execute(&mut **connection)
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// Puts the deferred statements before one that returns rows. SQLite runs them as one text.
    /// Postgres takes one statement at a time, so that they run here.
    async fn with_deferred(&mut self, last: Prepared) -> Result<Prepared, sqlx::Error> {
        if self.is_postgres() {
            self.run_deferred().await?;
        }
        let mut all = std::mem::take(&mut self.deferred).into_iter();
        Ok(match all.next() {
            None => last,
            Some(first) => all.chain([last]).fold(first, Prepared::then),
        })
    }
}

impl Transaction {
    pub(crate) async fn commit(mut self) -> Result<(), sqlx::Error> {
        self.0.run_deferred().await?;
        match self.0.open {
            OpenTransaction::Sqlite(transaction) => transaction.commit().await,
            OpenTransaction::Postgres(transaction) => transaction.commit().await,
        }
    }
}

impl Deref for Transaction {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.0
    }
}

impl<'a> From<&'a mut Connection> for Target<'a> {
    fn from(connection: &'a mut Connection) -> Self {
        Self::Connection(connection)
    }
}

impl<'a> From<&'a Pool> for Target<'a> {
    fn from(pool: &'a Pool) -> Self {
        Self::Pool(pool)
    }
}

/// The value of a parameter. An absent value keeps its type, which Postgres asks for.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Integer(Option<i64>),
    Real(Option<f64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    Uuid(Option<Uuid>),
}

/// Conversions of types into values, present or absent.
macro_rules! values {
    ($($from:ty => $variant:ident, $convert:expr;)*) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(Some($convert(value)))
            }
        }

        impl From<Option<$from>> for Value {
            fn from(value: Option<$from>) -> Self {
                Self::$variant(value.map($convert))
            }
        }
    )*};
}

values! {
    i64 => Integer, i64::from;
    bool => Integer, i64::from;
    f64 => Real, f64::from;
    String => Text, String::from;
    &str => Text, str::to_owned;
    &String => Text, String::clone;
    Vec<u8> => Bytes, Vec::from;
    Uuid => Uuid, Uuid::from;
}

impl From<&Option<String>> for Value {
    fn from(value: &Option<String>) -> Self {
        Self::Text(value.clone())
    }
}

/// A truth value of a column, 0 or 1, or of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flag(pub(crate) bool);

impl From<Flag> for bool {
    fn from(flag: Flag) -> Self {
        flag.0
    }
}

impl Type<Sqlite> for Flag {
    fn type_info() -> SqliteTypeInfo {
        <bool as Type<Sqlite>>::type_info()
    }

    fn compatible(found: &SqliteTypeInfo) -> bool {
        <bool as Type<Sqlite>>::compatible(found)
    }
}

impl Decode<'_, Sqlite> for Flag {
    fn decode(value: SqliteValueRef<'_>) -> Result<Self, sqlx::error::BoxDynError> {
        <bool as Decode<Sqlite>>::decode(value).map(Self)
    }
}

impl Type<Postgres> for Flag {
    fn type_info() -> PgTypeInfo {
        <i64 as Type<Postgres>>::type_info()
    }

    fn compatible(found: &PgTypeInfo) -> bool {
        <i64 as Type<Postgres>>::compatible(found) || <bool as Type<Postgres>>::compatible(found)
    }
}

impl Decode<'_, Postgres> for Flag {
    fn decode(value: PgValueRef<'_>) -> Result<Self, sqlx::error::BoxDynError> {
        use sqlx::ValueRef as _;
        let is_integer = <i64 as Type<Postgres>>::compatible(&value.type_info());
        if is_integer {
            <i64 as Decode<Postgres>>::decode(value).map(|value| Self(value != 0))
        } else {
            <bool as Decode<Postgres>>::decode(value).map(Self)
        }
    }
}

/// A row type that both databases' rows convert to.
pub(crate) trait Record:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

impl<T> Record for T where
    T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

/// The text of a statement with its values.
#[derive(Debug, Clone)]
struct Prepared {
    sqlite: SqlStr,
    postgres: Option<SqlStr>,
    values: Vec<Value>,
}

impl Prepared {
    /// This statement and then another one as one text, whose parameters are renumbered.
    fn then(mut self, next: Self) -> Self {
        let before = self.values.len();
        let next_sql = next.sqlite.as_str();
        let mut sql = String::with_capacity(self.sqlite.as_str().len() + next_sql.len() + 16);
        sql.push_str(self.sqlite.as_str());
        sql.push(';');
        let mut parts = next_sql.split('$');
        sql.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            sql.push('$');
            // A path of JSON is no parameter.
            if let Ok(number) = part[..digits].parse::<usize>() {
                sql.push_str(&(number + before).to_string());
            }
            sql.push_str(&part[digits..]);
        }
        // Both texts come from the program.
        self.sqlite = sqlx::AssertSqlSafe(sql).into_sql_str();
        self.values.extend(next.values);
        self
    }

    fn for_sqlite(self) -> (SqlStr, SqliteArguments) {
        let mut arguments = SqliteArguments::default();
        for value in self.values {
            match value {
                Value::Integer(value) => arguments.add(value),
                Value::Real(value) => arguments.add(value),
                Value::Text(value) => arguments.add(value),
                Value::Bytes(value) => arguments.add(value),
                Value::Uuid(value) => arguments.add(value),
            }
            .expect("numbers, texts and bytes can be encoded");
        }
        (self.sqlite, arguments)
    }

    fn for_postgres(self) -> (SqlStr, PgArguments) {
        let mut arguments = PgArguments::default();
        for value in self.values {
            match value {
                Value::Integer(value) => arguments.add(value),
                Value::Real(value) => arguments.add(value),
                Value::Text(value) => arguments.add(value),
                Value::Bytes(value) => arguments.add(value),
                Value::Uuid(value) => arguments.add(value),
            }
            .expect("numbers, texts and bytes can be encoded");
        }
        (self.postgres.unwrap_or(self.sqlite), arguments)
    }
}

/// Runs a statement on whichever database the target belongs to.
macro_rules! run {
    ($statement:expr, $target:expr, $query:ident, $method:ident $(, $then:ident)?) => {{
        let prepared: Prepared = $statement;
        match $target.into() {
            Target::Connection(Connection { open: OpenTransaction::Sqlite(connection), .. }) => {
                let (sql, arguments) = prepared.for_sqlite();
                sqlx::$query(sql, arguments).$method(&mut **connection).await$(.map(|done| done.$then()))?
            }
            Target::Connection(Connection { open: OpenTransaction::Postgres(connection), .. }) => {
                let (sql, arguments) = prepared.for_postgres();
                sqlx::$query(sql, arguments).$method(&mut **connection).await$(.map(|done| done.$then()))?
            }
            Target::Pool(Pool::Sqlite(pool)) => {
                let (sql, arguments) = prepared.for_sqlite();
                sqlx::$query(sql, arguments).$method(pool).await$(.map(|done| done.$then()))?
            }
            Target::Pool(Pool::Postgres(pool)) => {
                let (sql, arguments) = prepared.for_postgres();
                sqlx::$query(sql, arguments).$method(pool).await$(.map(|done| done.$then()))?
            }
        }
    }};
}

/// A statement without rows.
#[must_use = "a statement runs when it is executed"]
pub(crate) struct Query(Prepared);

/// A statement whose rows convert to `O`.
#[must_use = "a statement runs when its rows are fetched"]
pub(crate) struct QueryAs<O>(Prepared, PhantomData<fn() -> O>);

/// A statement with one column.
#[must_use = "a statement runs when its rows are fetched"]
pub(crate) struct QueryScalar<O>(QueryAs<(O,)>);

fn prepared(sql: impl SqlSafeStr) -> Prepared {
    Prepared {
        sqlite: sql.into_sql_str(),
        postgres: None,
        values: Vec::new(),
    }
}

/// Makes a statement without rows.
pub(crate) fn query(sql: impl SqlSafeStr) -> Query {
    Query(prepared(sql))
}

/// Makes a statement whose rows convert to `O`.
pub(crate) fn query_as<O: Record>(sql: impl SqlSafeStr) -> QueryAs<O> {
    QueryAs(prepared(sql), PhantomData)
}

/// Makes a statement with one column.
pub(crate) fn query_scalar<O>(sql: impl SqlSafeStr) -> QueryScalar<O>
where
    (O,): Record,
{
    QueryScalar(query_as(sql))
}

impl Query {
    /// Appends the value of the next parameter.
    pub(crate) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.0.values.push(value.into());
        self
    }

    /// Runs the statement and returns the number of changed rows.
    pub(crate) async fn execute<'a>(
        self,
        target: impl Into<Target<'a>>,
    ) -> Result<u64, sqlx::Error> {
        let mut target = target.into();
        if let Target::Connection(connection) = &mut target {
            connection.run_deferred().await?;
        }
        run!(self.0, target, query_with, execute, rows_affected)
    }

    /// Runs the statement with the next one of the transaction, or when it is committed. An error is
    /// reported there. With SQLite each execution is a request to another thread, which costs more than
    /// most statements.
    pub(crate) fn defer(self, connection: &mut Connection) {
        connection.deferred.push(self.0);
    }
}

impl<O: Record> QueryAs<O> {
    /// Sets another text for Postgres, for what the two databases say differently.
    pub(crate) fn on_postgres(mut self, sql: &'static str) -> Self {
        self.0.postgres = Some(sql.into_sql_str());
        self
    }

    /// Appends the value of the next parameter.
    pub(crate) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.0.values.push(value.into());
        self
    }

    async fn after_deferred(self, target: &mut Target<'_>) -> Result<Prepared, sqlx::Error> {
        match target {
            Target::Connection(connection) => connection.with_deferred(self.0).await,
            Target::Pool(_) => Ok(self.0),
        }
    }

    pub(crate) async fn fetch_all<'a>(
        self,
        target: impl Into<Target<'a>>,
    ) -> Result<Vec<O>, sqlx::Error> {
        let mut target = target.into();
        let prepared = self.after_deferred(&mut target).await?;
        run!(prepared, target, query_as_with, fetch_all)
    }

    pub(crate) async fn fetch_one<'a>(
        self,
        target: impl Into<Target<'a>>,
    ) -> Result<O, sqlx::Error> {
        let mut target = target.into();
        let prepared = self.after_deferred(&mut target).await?;
        run!(prepared, target, query_as_with, fetch_one)
    }

    pub(crate) async fn fetch_optional<'a>(
        self,
        target: impl Into<Target<'a>>,
    ) -> Result<Option<O>, sqlx::Error> {
        let mut target = target.into();
        let prepared = self.after_deferred(&mut target).await?;
        run!(prepared, target, query_as_with, fetch_optional)
    }
}

impl<O> QueryScalar<O>
where
    (O,): Record,
{
    /// Sets another text for Postgres, for what the two databases say differently.
    pub(crate) fn on_postgres(self, sql: &'static str) -> Self {
        Self(self.0.on_postgres(sql))
    }

    /// Appends the value of the next parameter.
    pub(crate) fn bind(self, value: impl Into<Value>) -> Self {
        Self(self.0.bind(value))
    }

    pub(crate) async fn fetch_all<'a>(
        self,
        target: impl Into<Target<'a>>,
    ) -> Result<Vec<O>, sqlx::Error> {
        let rows = self.0.fetch_all(target).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }

    pub(crate) async fn fetch_one<'a>(
        self,
        target: impl Into<Target<'a>>,
    ) -> Result<O, sqlx::Error> {
        Ok(self.0.fetch_one(target).await?.0)
    }

    pub(crate) async fn fetch_optional<'a>(
        self,
        target: impl Into<Target<'a>>,
    ) -> Result<Option<O>, sqlx::Error> {
        Ok(self.0.fetch_optional(target).await?.map(|(value,)| value))
    }
}

/// A statement that is put together from parts.
#[derive(Debug)]
pub(crate) struct QueryBuilder {
    sql: String,
    values: Vec<Value>,
}

impl QueryBuilder {
    pub(crate) fn new(sql: &'static str) -> Self {
        Self {
            sql: sql.to_owned(),
            values: Vec::new(),
        }
    }

    /// Appends text.
    pub(crate) fn push(&mut self, sql: &'static str) -> &mut Self {
        self.sql.push_str(sql);
        self
    }

    /// Appends a parameter with its value.
    pub(crate) fn push_bind(&mut self, value: impl Into<Value>) -> &mut Self {
        self.values.push(value.into());
        self.sql.push('$');
        self.sql.push_str(&self.values.len().to_string());
        self
    }

    /// Makes a statement whose rows convert to `O`.
    pub(crate) fn build_query_as<O: Record>(self) -> QueryAs<O> {
        // Texts come from the program, because `push` takes no other.
        let mut prepared = prepared(sqlx::AssertSqlSafe(self.sql));
        prepared.values = self.values;
        QueryAs(prepared, PhantomData)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_one_text_keep_their_own_parameters() {
        let first = query("UPDATE a SET b = $1 WHERE c = $2")
            .bind(1_i64)
            .bind("two");
        let second = query("SELECT json_extract(d, '$.e') WHERE f = $1 OR $10 = g").bind(3_i64);
        let both = first.0.then(second.0);
        assert_eq!(
            both.sqlite.as_str(),
            "UPDATE a SET b = $1 WHERE c = $2;SELECT json_extract(d, '$.e') WHERE f = $3 OR $12 = g"
        );
        assert_eq!(both.values.len(), 3);
    }
}
