-- The services that work with this database. With SQLite there is one, which needs no row.
CREATE TABLE replicas (
    id      BLOB    NOT NULL PRIMARY KEY,
    -- The process id of the connection whose end shows that the service has ended.
    session INTEGER,
    -- The end of the service's lease on its runs, by the database's clock.
    until   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- The service that takes the run's steps, as long as its lease lasts.
ALTER TABLE runs ADD COLUMN owner BLOB;
