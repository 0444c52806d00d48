-- The services that work with this database.
CREATE TABLE replicas (
    id UUID NOT NULL PRIMARY KEY,
    -- The process id of the connection whose end shows that the service has ended.
    session BIGINT,
    -- The end of the service's lease on its runs, by the database's clock.
    until BIGINT NOT NULL
);
-- The service that takes the run's steps, as long as its lease lasts.
ALTER TABLE runs ADD COLUMN owner UUID;

-- Microseconds since 1970 by the database's clock.
CREATE FUNCTION lease_clock() RETURNS BIGINT LANGUAGE SQL VOLATILE AS $$
    SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)
$$;
-- The services whose lease holds and whose connection, if it is known, is open.
CREATE FUNCTION living_replicas() RETURNS SETOF UUID LANGUAGE SQL VOLATILE AS $$
    SELECT id FROM replicas WHERE until >= lease_clock()
        AND (session IS NULL OR EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = session))
$$;
