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
pub(crate) enum Connection {
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
        Ok(Transaction(match self {
            Self::Sqlite(pool) => Connection::Sqlite(pool.begin_with(sqlite).await?),
            Self::Postgres(pool) => Connection::Postgres(pool.begin_with(postgres).await?),
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
        matches!(self, Self::Postgres(_))
    }
}

impl Transaction {
    pub(crate) async fn commit(self) -> Result<(), sqlx::Error> {
        match self.0 {
            Connection::Sqlite(transaction) => transaction.commit().await,
            Connection::Postgres(transaction) => transaction.commit().await,
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
            Target::Connection(Connection::Sqlite(connection)) => {
                let (sql, arguments) = prepared.for_sqlite();
                sqlx::$query(sql, arguments).$method(&mut **connection).await$(.map(|done| done.$then()))?
            }
            Target::Connection(Connection::Postgres(connection)) => {
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
        run!(self.0, target, query_with, execute, rows_affected)
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

    pub(crate) async fn fetch_all<'a>(
        self,
        target: impl Into<Target<'a>>,
    ) -> Result<Vec<O>, sqlx::Error> {
        run!(self.0, target, query_as_with, fetch_all)
    }

    pub(crate) async fn fetch_one<'a>(
        self,
        target: impl Into<Target<'a>>,
    ) -> Result<O, sqlx::Error> {
        run!(self.0, target, query_as_with, fetch_one)
    }

    pub(crate) async fn fetch_optional<'a>(
        self,
        target: impl Into<Target<'a>>,
    ) -> Result<Option<O>, sqlx::Error> {
        run!(self.0, target, query_as_with, fetch_optional)
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
